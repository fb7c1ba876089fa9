"""Real clients that log in and encrypt: each sends records to a topic and reads them back, or says why not."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError as AioError
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.errors import KafkaError as PythonError

from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition as OurPartition
from oncestream.client.writing import Writer
from oncestream.errors import OncestreamError
from tests.certificates import Certificates, Pair
from tests.client.kit import read_all, rows_of

TIMEOUT_S: Final = 60


class RefusedClientError(Exception):
    """The client gave up; the text is what it tells its user."""


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach a broker, as any client would be told."""

    bootstrap: str
    certificates: Certificates
    protocol: str = "SASL_SSL"
    mechanism: str = "SCRAM-SHA-512"
    user: str = ""
    password: str = ""
    pair: Pair | None = None
    patience_ms: int = 30_000  # of clients that try again and again

    @property
    def options(self) -> dict[str, str]:
        """By the names of librdkafka, which our client understands too."""
        options = {"security.protocol": self.protocol}
        if self.protocol.endswith("SSL"):
            options["ssl.ca.location"] = str(self.certificates.ca)
        if self.protocol.startswith("SASL"):
            options |= {"sasl.mechanism": self.mechanism}
            options |= {"sasl.username": self.user, "sasl.password": self.password}
        if self.pair is not None:
            options["ssl.certificate.location"] = str(self.pair.certificate)
            options["ssl.key.location"] = str(self.pair.key)
        return options

    @property
    def context(self) -> ssl.SSLContext | None:
        if not self.protocol.endswith("SSL"):
            return None
        context = ssl.create_default_context(cafile=str(self.certificates.ca))
        if self.pair is not None:
            context.load_cert_chain(self.pair.certificate, self.pair.key)
        return context

    @property
    def python_options(self) -> dict[str, Any]:
        """As kafka-python and aiokafka name them."""
        options: dict[str, Any] = {"bootstrap_servers": self.bootstrap, "security_protocol": self.protocol}
        if self.protocol.endswith("SSL"):
            options["ssl_context"] = self.context
        if self.protocol.startswith("SASL"):
            options |= {"sasl_mechanism": self.mechanism}
            options |= {"sasl_plain_username": self.user, "sasl_plain_password": self.password}
        return options

    @property
    def java_properties(self) -> str:
        lines = [f"security.protocol={self.protocol}"]
        if self.protocol.endswith("SSL"):
            lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={self.certificates.ca}"]
        if self.protocol.startswith("SASL"):
            kind = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
            module = f"org.apache.kafka.common.security.{kind}"
            lines += [f"sasl.mechanism={self.mechanism}"]
            lines += [
                f'sasl.jaas.config={module} required username="{self.user}" password="{self.password}";'
            ]
        if self.pair is not None:
            lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={self.pair.both}"]
        return "\n".join(lines) + "\n"


RoundTrip = Callable[[Access, str, Sequence[str]], list[str]]


def by_confluent(access: Access, topic: str, values: Sequence[str]) -> list[str]:
    errors: list[confluent_kafka.KafkaError] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": access.bootstrap,
        **access.options,
        "error_cb": errors.append,
        "log_level": 0,
    }
    producer = confluent_kafka.Producer(settings)
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    started = time.monotonic()
    deadline = started + TIMEOUT_S
    while len(producer) and time.monotonic() < deadline:
        producer.poll(0.05)
        if errors and time.monotonic() > started + access.patience_ms / 1000:
            producer.purge()
            raise RefusedClientError("; ".join(error.str() for error in errors))
    consumer = confluent_kafka.Consumer({**settings, "group.id": f"group-{topic}"})
    with closing(consumer):
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        read: list[str] = []
        while len(read) < len(values) and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None:
                assert message.error() is None
                read.append((message.value() or b"").decode())
    return read


def by_kafka_python(access: Access, topic: str, values: Sequence[str]) -> list[str]:
    try:
        options = {**access.python_options, "bootstrap_timeout_ms": access.patience_ms}
        with closing(KafkaProducer(**options)) as producer:
            for value in values:
                producer.send(topic, value.encode(), partition=0).get(TIMEOUT_S)
        with closing(KafkaConsumer(**options)) as consumer:
            consumer.assign([PythonPartition(topic, 0)])
            consumer.seek_to_beginning()
            read: list[str] = []
            deadline = time.monotonic() + TIMEOUT_S
            while len(read) < len(values) and time.monotonic() < deadline:
                for records in consumer.poll(timeout_ms=1000).values():
                    read += [record.value.decode() for record in records]
            return read
    except (PythonError, OSError) as error:
        raise RefusedClientError(repr(error)) from error


def by_aiokafka(access: Access, topic: str, values: Sequence[str]) -> list[str]:
    async def work() -> list[str]:
        producer = AIOKafkaProducer(**access.python_options)
        try:
            await producer.start()
            for value in values:
                await producer.send_and_wait(topic, value.encode(), partition=0)
        finally:
            await producer.stop()
        async with AIOKafkaConsumer(**access.python_options) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.seek_to_beginning()
            return [(await consumer.getone()).value.decode() for _ in values]

    try:
        return asyncio.run(asyncio.wait_for(work(), TIMEOUT_S))
    except (AioError, OSError) as error:
        raise RefusedClientError(repr(error)) from error


def by_ours(access: Access, topic: str, values: Sequence[str]) -> list[str]:
    options = {**access.options, "default.api.timeout.ms": str(access.patience_ms)}
    cluster = Cluster(ClientSettings.of(access.bootstrap, options))
    try:
        writer = Writer(cluster, producer=None)
        with closing(writer):
            writer.write(OurPartition(topic, 0), rows_of(values))
            writer.flush()
        return read_all(cluster, OurPartition(topic, 0))
    except OncestreamError as error:
        raise RefusedClientError(str(error)) from error
    finally:
        cluster.close()


PYTHON_CLIENTS: Final[Mapping[str, RoundTrip]] = {
    "confluent-kafka": by_confluent,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
    "oncestream": by_ours,
}
