"""The command line over TLS, with a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncestream import Broker
from oncestream.broker.security.users import add_user_offline
from tests.certificates import Certificates
from tests.cli.in_process import Cli


@pytest.fixture
def broker(tmp_path: Path, certificates: Certificates) -> Iterator[Broker]:
    """Takes users with a password, over TLS alone."""
    add_user_offline(tmp_path / "data", "alice", "a b=c")
    with Broker(
        tmp_path / "data",
        listen="SASL_SSL://127.0.0.1:0",
        sasl_mechanisms="SCRAM-SHA-256",
        tls_certificate=certificates.server.certificate,
        tls_key=certificates.server.key,
    ) as broker:
        yield broker


def profile(cli: Cli, broker: Broker, *settings: str) -> None:
    login = ("security.protocol=SASL_SSL", "sasl.mechanism=SCRAM-SHA-256", "sasl.username=alice")
    cli.ok("config", "set", "tls", f"bootstrap={broker.bootstrap_servers}", *login, *settings)


def test_records_go_both_ways_over_tls(tmp_path: Path, broker: Broker, certificates: Certificates) -> None:
    cli = Cli(tmp_path, SECRET="a b=c")
    profile(cli, broker, f"ssl.ca.location={certificates.ca}", "password_env=SECRET")
    cli.ok("topic", "create", "t")
    cli.ok("produce", "t", "--transaction-size", "0", stdin="1\n2\n")
    cli.await_end_of_transactions("t")
    assert cli.ok("consume", "t", "--group", "g") == "1\n2\n"
    assert cli.json("cursor", "list", "g")[0]["lag"] == 0


def test_who_cannot_be_trusted_is_told(tmp_path: Path, broker: Broker, certificates: Certificates) -> None:
    cli = Cli(tmp_path, SECRET="wrong")
    profile(cli, broker, f"ssl.ca.location={certificates.ca}", "password_env=SECRET")
    for command in (("topic", "list"), ("produce", "t"), ("consume", "t")):
        assert "refused the login" in cli.refused(6, *command)
    profile(cli, broker, f"ssl.ca.location={certificates.stranger.certificate}")
    assert "certificate" in cli.refused(6, "consume", "t")
