"""The first connection to a cluster: soon, or an error that says which address."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, closing

import pytest

from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.errors import BrokerUnreachable
from tests.conftest import Target

TIMEOUT_S = 0.4


def settings_of(*addresses: str) -> ClientSettings:
    return ClientSettings.of(",".join(addresses))


@pytest.mark.parametrize("silent", [0, 1, 3])
def test_what_refuses_or_never_answers_is_given_up_in_time(silent: int) -> None:
    with ExitStack() as open_until_the_end:
        servers = [
            open_until_the_end.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(silent)
        ]
        addresses = ["127.0.0.1:1", *(f"127.0.0.1:{each.getsockname()[1]}" for each in servers)]
        began = time.monotonic()
        with pytest.raises(BrokerUnreachable, match=",".join(addresses)):
            Cluster(settings_of(*addresses)).require_contact(TIMEOUT_S)
        assert time.monotonic() - began < TIMEOUT_S + 1


def test_one_address_that_answers_is_enough(embedded: Target) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_address = f"127.0.0.1:{silent.getsockname()[1]}"
        settings = settings_of("127.0.0.1:1", silent_address, embedded.bootstrap_servers)
        with closing(Cluster(settings)) as cluster:
            cluster.require_contact(3)
            assert cluster.transaction_version == 2
