"""The settings: where they come from, what is refused, and that their page tells the truth."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from oncestream.broker.settings import ENVIRONMENT_PREFIX, BrokerSettings, Durability, load_settings
from oncestream.errors import BadSetting
from tests.broker.settings_page import PAGE, render


def test_the_page_of_settings_is_up_to_date() -> None:
    assert PAGE.read_text() == render(), "write it anew: python -m tests.broker.settings_page"


def test_every_setting_says_what_it_means() -> None:
    for spec in fields(BrokerSettings):
        assert spec.metadata["doc"], spec.name
        assert "|" not in spec.metadata["doc"], spec.name


def test_every_default_is_allowed() -> None:
    defaults = {spec.name: getattr(BrokerSettings(), spec.name) for spec in fields(BrokerSettings)}
    assert load_settings(environment={}, flags=defaults) == BrokerSettings()


def test_the_later_place_wins(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('node_id = 1\ndefault_partitions = 2\nlisten = "127.0.0.1:1"')
    environment = {f"{ENVIRONMENT_PREFIX}NODE_ID": "3", f"{ENVIRONMENT_PREFIX}DEFAULT_PARTITIONS": "4"}
    settings = load_settings(file, environment, {"node_id": 5})
    assert (settings.node_id, settings.default_partitions, settings.listen) == (5, 4, "127.0.0.1:1")


def test_every_place_can_give_every_kind_of_value(tmp_path: Path) -> None:
    expected = BrokerSettings(
        data=Path("/somewhere"),
        insecure=True,
        durability=Durability.OS,
        topic_defaults={"retention.ms": "5", "cleanup.policy": "compact,delete", "preallocate": "false"},
    )
    file = tmp_path / "broker.toml"
    file.write_text(
        'data = "/somewhere"\ninsecure = true\ndurability = "os"\n'
        '[topic_defaults]\n"retention.ms" = 5\n"cleanup.policy" = "compact,delete"\npreallocate = false\n'
    )
    texts = {
        "data": "/somewhere",
        "insecure": "true",
        "durability": "os",
        "topic_defaults": "retention.ms=5, cleanup.policy=compact,delete, preallocate=false",
    }
    assert load_settings(file, {}) == expected
    assert load_settings(None, {}, texts) == expected
    assert load_settings(None, {f"{ENVIRONMENT_PREFIX}{k.upper()}": v for k, v in texts.items()}) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("node_id", True),
        ("node_id", 1.0),
        ("node_id", ""),
        ("node_id", -1),
        ("node_id", 2**31),
        ("insecure", 3),
        ("listen", 9092),
        ("data", 7),
        ("data", "a\0b"),
        ("durability", None),
        ("topic_defaults", "compact"),
    ],
)
def test_a_value_of_the_wrong_kind_or_beyond_its_limits_is_refused(name: str, value: object) -> None:
    with pytest.raises(BadSetting, match=f"setting {name} from the command line"):
        load_settings(environment={}, flags={name: value})


def test_other_variables_of_the_environment_are_left_alone() -> None:
    assert load_settings(environment={"PATH": "/bin", "ONCESTREAM_OTHER": "x"}) == BrokerSettings()
