"""Brokers with users and an authorizer, one for all tests of the folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncestream import Broker
from oncestream.broker.security.users import add_user_offline
from oncestream.testing.apache_kafka import ApacheKafka
from tests.broker.security.rights import ADMIN, SECRET, USERS


@pytest.fixture(scope="package")
def embedded_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("secured")
    yield from _embedded(folder)


@pytest.fixture(scope="package")
def apache_address(java: None) -> Iterator[str]:
    with ApacheKafka(users=USERS, super_users=[ADMIN]) as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture(params=["embedded", pytest.param("apache", marks=pytest.mark.java)])
def secured(request: pytest.FixtureRequest) -> str:
    """A broker with users and an authorizer: ours, and in a second run of the test Apache Kafka."""
    address = request.getfixturevalue(f"{request.param}_address")
    assert isinstance(address, str)
    return address


def _embedded(folder: Path) -> Iterator[str]:
    for name in USERS:
        add_user_offline(folder, name, SECRET)
    broker = Broker(
        folder,
        sasl_mechanisms="SCRAM-SHA-512",
        authorization=True,
        super_users=ADMIN,
        durability="os",
    )
    with broker:
        yield broker.bootstrap_servers
