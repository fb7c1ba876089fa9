"""Exactly-once event streams for Python and Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncestream.broker.embedded import Broker as Broker
    from oncestream.errors import OncestreamError as OncestreamError

__version__ = "0.1.0"
__all__ = ["Broker", "OncestreamError", "__version__"]

_HOMES = {"Broker": "oncestream.broker.embedded", "OncestreamError": "oncestream.errors"}


def __getattr__(name: str) -> object:
    """Public names are imported when they are first used: `import oncestream` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'oncestream' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
