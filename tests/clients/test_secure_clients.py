"""Real clients against listeners with TLS and log-ins: those who may get in do, the others learn why not."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from oncestream import Broker
from oncestream.broker.security.users import add_user_offline
from oncestream.client.admin import NewTopic, create_topics
from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.errors import AuthenticationFailed
from tests.certificates import Certificates, Pair
from tests.clients.secure import PYTHON_CLIENTS, Access, RefusedClientError, RoundTrip, by_ours
from tests.java_tools import KafkaTools

# kafka-python and aiokafka leave sockets open when they cannot get in.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

USER = "alice"
PASSWORD = "correct horse, battery=staple"
VALUES = [f"value {number}" for number in range(10)]
TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONFIGS = "kafka.admin.ConfigCommand"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class Brokers:
    """One that listens for everything, one that wants certificates of clients, and two with bad ones of their own."""

    open: Broker
    mutual: Broker
    expired: Broker
    other_host: Broker


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Brokers]:
    def start(name: str, pair: Pair, **settings: Any) -> Broker:
        folder = tmp_path_factory.mktemp(name)
        add_user_offline(folder, USER, PASSWORD)
        files: dict[str, Any] = {"tls_certificate": pair.certificate, "tls_key": pair.key}
        broker = Broker(folder, listen=listen, sasl_mechanisms=mechanisms, **files, **settings)
        return stack.enter_context(broker)

    listen = ",".join(f"{protocol}://127.0.0.1:0" for protocol in PROTOCOLS)
    mechanisms = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
    with ExitStack() as stack:
        yield Brokers(
            start("open", certificates.server),
            start("mutual", certificates.server, tls_client_ca=certificates.ca, tls_client_auth="required"),
            start("expired", certificates.expired_server),
            start("other-host", certificates.other_host_server),
        )


@pytest.fixture
def access(brokers: Brokers, certificates: Certificates) -> Access:
    """The good way in."""
    bootstrap = brokers.open.bootstrap_servers_of("SASL_SSL")
    return Access(bootstrap, certificates, user=USER, password=PASSWORD)


@pytest.fixture(params=PYTHON_CLIENTS)
def round_trip(request: pytest.FixtureRequest) -> RoundTrip:
    return PYTHON_CLIENTS[request.param]


NUMBERS = itertools.count()


def new_topic(broker: Broker) -> str:
    topic = f"secure-{next(NUMBERS)}"
    cluster = Cluster(ClientSettings.of(broker.bootstrap_servers_of("PLAINTEXT")))
    create_topics(cluster, [NewTopic(topic, 1)])
    cluster.close()
    return topic


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SASL_SSL", "SCRAM-SHA-256"),
        ("SASL_SSL", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("SSL", ""),
    ],
)
def test_clients_work_through_every_secure_listener(
    protocol: str, mechanism: str, round_trip: RoundTrip, brokers: Brokers, access: Access
) -> None:
    bootstrap = brokers.open.bootstrap_servers_of(protocol)
    way = replace(access, bootstrap=bootstrap, protocol=protocol, mechanism=mechanism)
    assert round_trip(way, new_topic(brokers.open), VALUES) == VALUES


def test_clients_work_with_a_certificate_of_their_own(
    round_trip: RoundTrip, brokers: Brokers, access: Access, certificates: Certificates
) -> None:
    bootstrap = brokers.mutual.bootstrap_servers_of("SSL")
    way = replace(access, bootstrap=bootstrap, protocol="SSL", pair=certificates.alice)
    assert round_trip(way, new_topic(brokers.mutual), VALUES) == VALUES


Refused = Callable[[Access, str, str], None]


@pytest.fixture
def refused(round_trip: RoundTrip, caplog: pytest.LogCaptureFixture) -> Refused:
    """Sees that a client does not get in, and tells its user a reason, by its error or its log."""

    def check(access: Access, topic: str, reason: str) -> None:
        caplog.set_level(logging.WARNING)
        for patience_ms in (
            1_000,
            30_000,
        ):  # more only where the machine is slow: some clients try all the time
            with pytest.raises(RefusedClientError) as refusal:
                round_trip(replace(access, patience_ms=patience_ms), topic, VALUES)
            logged = [each.getMessage() for each in caplog.records if not each.name.startswith("oncestream")]
            told = "\n".join([str(refusal.value), *logged])
            if re.search(reason, told):
                return
        pytest.fail(f"{reason!r} is not in {told!r}")

    return check


@pytest.mark.parametrize(
    ("mechanism", "wrong"),
    [
        ("PLAIN", {"password": "wrong"}),
        ("SCRAM-SHA-512", {"password": "wrong"}),
        ("SCRAM-SHA-256", {"user": "nobody"}),
    ],
    ids=["PLAIN, wrong password", "SCRAM, wrong password", "SCRAM, unknown user"],
)
def test_clients_are_told_that_their_log_in_is_wrong(
    mechanism: str, wrong: dict[str, Any], refused: Refused, brokers: Brokers, access: Access
) -> None:
    topic = new_topic(brokers.open)
    refused(replace(access, mechanism=mechanism, **wrong), topic, "wrong user name or password")
    assert by_ours(access, topic, VALUES) == VALUES


@pytest.mark.parametrize("broker", ["expired", "other_host"])
def test_clients_do_not_trust_an_expired_certificate_or_one_of_another_host(
    broker: str, refused: Refused, brokers: Brokers, access: Access
) -> None:
    server: Broker = getattr(brokers, broker)
    way = replace(access, bootstrap=server.bootstrap_servers_of("SASL_SSL"))
    refused(way, "events", "certificate verify failed")
    plain = replace(
        access, bootstrap=server.bootstrap_servers_of("SASL_PLAINTEXT"), protocol="SASL_PLAINTEXT"
    )
    assert by_ours(plain, new_topic(server), VALUES) == VALUES


@pytest.mark.parametrize("client", ["none", "stranger", "expired_alice"])
def test_clients_without_a_good_certificate_are_refused(
    client: str, refused: Refused, brokers: Brokers, access: Access, certificates: Certificates
) -> None:
    pair = None if client == "none" else getattr(certificates, client)
    mutual = replace(access, bootstrap=brokers.mutual.bootstrap_servers_of("SSL"), protocol="SSL")
    refused(replace(mutual, pair=pair), "events", r"(?i)alert|certificate|closed")
    good = replace(mutual, pair=certificates.alice)
    assert by_ours(good, new_topic(brokers.mutual), VALUES) == VALUES


def test_our_client_does_not_insist_on_a_certificate_that_was_refused(
    brokers: Brokers, access: Access, certificates: Certificates
) -> None:
    way = replace(
        access,
        bootstrap=brokers.mutual.bootstrap_servers_of("SSL"),
        protocol="SSL",
        pair=certificates.stranger,
        patience_ms=60_000,
    )
    with pytest.raises(RefusedClientError) as refusal:
        by_ours(way, "events", VALUES)
    assert isinstance(refusal.value.__cause__, AuthenticationFailed)


@pytest.mark.parametrize(("listener", "spoken"), [("SSL", "PLAINTEXT"), ("PLAINTEXT", "SSL")])
def test_clients_with_tls_at_a_listener_without_it_and_the_reverse_are_refused(
    listener: str, spoken: str, refused: Refused, brokers: Brokers, access: Access
) -> None:
    way = replace(access, bootstrap=brokers.open.bootstrap_servers_of(listener), protocol=spoken)
    refused(way, "events", r"(?i)closed|disconnected|down|eof|handshake|unable to bootstrap")
    assert by_ours(access, new_topic(brokers.open), VALUES) == VALUES


@pytest.mark.java
def test_javas_tools_work_through_tls_and_scram_and_are_told_what_is_wrong(
    kafka_tool: KafkaTools, brokers: Brokers, access: Access, certificates: Certificates, tmp_path: Path
) -> None:
    def run(way: Access, tool: str, *arguments: str, stdin: str = "") -> tuple[int, str]:
        file = tmp_path / "client.properties"
        file.write_text(way.java_properties)
        server = ("--bootstrap-server", way.bootstrap, "--command-config", str(file))
        done = kafka_tool(tool, *server, *arguments, stdin=stdin)
        return done.returncode, done.stdout + done.stderr

    topic = new_topic(brokers.open)
    for mechanism in ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"):
        code, told = run(replace(access, mechanism=mechanism), TOPICS, "--list")
        assert (code, topic in told.split()) == (0, True), told
    lines = "".join(f"{value}\n" for value in VALUES)
    code, told = run(access, PRODUCER, "--topic", topic, stdin=lines)
    assert code == 0, told
    assert by_ours(access, topic, []) == VALUES
    code, told = run(access, CONSUMER, "--topic", topic, "--from-beginning", "--max-messages", "10")
    assert (code, told.splitlines()[: len(VALUES)]) == (0, VALUES), told

    code, told = run(replace(access, password="wrong"), TOPICS, "--list")
    assert code == 1
    assert "wrong user name or password" in told
    mutual = replace(access, bootstrap=brokers.mutual.bootstrap_servers_of("SSL"), protocol="SSL")
    assert run(replace(mutual, pair=certificates.alice), TOPICS, "--list")[0] == 0
    for broker in (brokers.expired, brokers.other_host):
        code, told = run(replace(access, bootstrap=broker.bootstrap_servers_of("SASL_SSL")), TOPICS, "--list")
        assert code == 1
        assert "SslAuthenticationException" in told
    assert by_ours(access, topic, []) == VALUES


@pytest.mark.java
def test_javas_tools_set_and_show_passwords(
    kafka_tool: KafkaTools, brokers: Brokers, access: Access, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(access.java_properties)
    common = ("--bootstrap-server", access.bootstrap, "--command-config", str(file), "--entity-type", "users")
    config = "SCRAM-SHA-256=[iterations=4096,password=sea]"
    done = kafka_tool(CONFIGS, *common, "--entity-name", "carol", "--alter", "--add-config", config)
    assert done.returncode == 0, done.stdout + done.stderr
    told = kafka_tool(CONFIGS, *common, "--entity-name", "carol", "--describe")
    assert "SCRAM-SHA-256=iterations=4096" in told.stdout
    topic = new_topic(brokers.open)
    for mechanism in ("SCRAM-SHA-256", "PLAIN"):
        way = replace(access, user="carol", password="sea", mechanism=mechanism)
        assert by_ours(way, topic, ["one"])
    with pytest.raises(RefusedClientError, match="refused the login by SCRAM-SHA-512"):
        by_ours(replace(access, user="carol", password="sea"), topic, ["one"])
