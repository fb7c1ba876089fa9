"""Spark looks for modules of this kind of name: so `format("oncestream")` works in any session, unregistered."""

from oncestream.spark.source import OncestreamSource as DefaultSource

__all__ = ["DefaultSource"]
