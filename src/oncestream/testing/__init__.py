"""What tests of Oncestream and of its users' programs run against (docs/testing.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncestream.testing.apache_kafka import ApacheKafka as ApacheKafka
    from oncestream.testing.broker import TestBroker as TestBroker
    from oncestream.testing.broker import running_broker as running_broker
    from oncestream.testing.disk import DiskFaults as DiskFaults
    from oncestream.testing.faulty_broker import FaultyBroker as FaultyBroker
    from oncestream.testing.network_faults import NetworkFault as NetworkFault
    from oncestream.testing.network_faults import random_rules as random_rules
    from oncestream.testing.proxy import FaultProxy as FaultProxy

__all__ = [
    "ApacheKafka",
    "DiskFaults",
    "FaultProxy",
    "FaultyBroker",
    "NetworkFault",
    "TestBroker",
    "random_rules",
    "running_broker",
]

_HOMES = {
    "ApacheKafka": "apache_kafka",
    "DiskFaults": "disk",
    "FaultProxy": "proxy",
    "FaultyBroker": "faulty_broker",
    "NetworkFault": "network_faults",
    "TestBroker": "broker",
    "random_rules": "network_faults",
    "running_broker": "broker",
}


def __getattr__(name: str) -> object:
    """Imported when first used: the pytest plugin, which stands in this package, is loaded in every run."""
    if name not in _HOMES:
        raise AttributeError(f"module 'oncestream.testing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"oncestream.testing.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
