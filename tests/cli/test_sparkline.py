"""Sparklines of the live screen."""

from __future__ import annotations

from oncestream.cli.sparkline import sparkline


def test_the_largest_value_is_the_tallest_block_and_the_newest_values_are_kept() -> None:
    assert sparkline([9, 0, 7, 14], 3) == "▁▅█"
    assert sparkline([0, 0, -1], 10) == "▁▁▁"
    assert sparkline([], 10) == ""
