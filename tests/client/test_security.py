"""TLS and SASL against Apache Kafka: every mechanism, and what a wrong password or certificate says."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.client.transactions import idempotent_producer
from oncestream.client.writing import Writer
from oncestream.errors import AuthenticationFailed, BrokerUnreachable
from oncestream.testing.apache_kafka import ApacheKafka
from oncestream.testing.ports import HOST, free_ports
from tests.client.kit import new_topic, numbered, read_all, rows_of

pytestmark = [pytest.mark.java]

USER: Final = "alice"
PASSWORD: Final = "alice, secret"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LOGIN: Final = "org.apache.kafka.common.security"


class Secured(NamedTuple):
    """Listeners of one node."""

    plain: str
    sasl: str
    sasl_tls: str
    certificate: Path


@pytest.fixture(scope="module")
def secured(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    certificate = make_certificate(folder)
    port, controller, sasl, sasl_tls = free_ports(4)
    listeners = f"PLAINTEXT://{HOST}:{port},SASL://{HOST}:{sasl},SECURE://{HOST}:{sasl_tls}"
    settings = {
        "listeners": f"{listeners},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": listeners,
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,SECURE:SASL_SSL"
        ),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
    }
    for name in ("sasl", "secure"):
        prefix = f"listener.name.{name}"
        settings[f"{prefix}.plain.sasl.jaas.config"] = (
            f'{LOGIN}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        )
        for mechanism in MECHANISMS[1:]:
            settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = (
                f"{LOGIN}.scram.ScramLoginModule required;"
            )
    kafka = ApacheKafka(folder / "kafka", settings=settings)
    kafka._nodes[1].port = port  # so that it waits for the right listener
    with kafka:
        add_user(f"{HOST}:{port}")
        yield Secured(f"{HOST}:{port}", f"{HOST}:{sasl}", f"{HOST}:{sasl_tls}", certificate)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_rows_are_written_and_read_after_a_login(secured: Secured, protocol: str, mechanism: str) -> None:
    cluster = Cluster(settings_of(secured, protocol, mechanism, PASSWORD))
    here = TopicPartition(new_topic(cluster), 0)
    writer = Writer(cluster, producer=idempotent_producer(cluster))
    for start in range(0, 50_000, 10_000):
        writer.write(here, rows_of(numbered(50_000)[start : start + 10_000]))
    writer.flush()
    assert read_all(cluster, here) == numbered(50_000)
    cluster.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_said_at_once(secured: Secured, mechanism: str) -> None:
    cluster = Cluster(settings_of(secured, "SASL_PLAINTEXT", mechanism, "wrong"))
    with pytest.raises(AuthenticationFailed, match=mechanism):
        _ = cluster.cluster_id


def test_a_certificate_of_unknown_origin_is_refused(secured: Secured) -> None:
    options = {"security.protocol": "SASL_SSL", "sasl.username": USER, "sasl.password": PASSWORD}
    cluster = Cluster(ClientSettings.of(secured.sasl_tls, options))
    with pytest.raises(AuthenticationFailed, match="certificate"):
        _ = cluster.cluster_id


def test_plain_text_to_a_tls_listener_fails_with_a_reason(secured: Secured) -> None:
    cluster = Cluster(ClientSettings.of(secured.sasl_tls, {"default.api.timeout.ms": "300"}))
    with pytest.raises(BrokerUnreachable, match=secured.sasl_tls):
        _ = cluster.cluster_id


def settings_of(secured: Secured, protocol: str, mechanism: str, password: str) -> ClientSettings:
    options = {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
        "ssl.ca.location": str(secured.certificate),
    }
    return ClientSettings.of(secured.sasl_tls if protocol == "SASL_SSL" else secured.sasl, options)


def make_certificate(folder: Path) -> Path:
    """A certificate that signs itself; `server.pem` holds it with its key, as Kafka wants it."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -addext subjectAltName=IP:{HOST} "
        f"-keyout {key} -out {certificate}".split(),
        check=True,
        capture_output=True,
    )
    (folder / "server.pem").write_text(key.read_text() + certificate.read_text())
    return certificate


def add_user(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [
        UserScramCredentialUpsertion(USER, ScramCredentialInfo(kind, 4096), PASSWORD.encode())
        for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    ]
    for upsertion in wanted:
        for done in admin.alter_user_scram_credentials([upsertion]).values():
            done.result(20)
