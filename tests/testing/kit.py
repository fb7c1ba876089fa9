"""Clients and raw requests for tests of the fault kit."""

from __future__ import annotations

import socket
import struct
import uuid
from collections.abc import Sequence
from typing import Any, TypeVar

from confluent_kafka import Producer

from oncestream.client.settings import ClientSettings
from oncestream.testing.frames import Request
from oncestream.wire.codec import encode
from oncestream.wire.header import encode_request_header
from oncestream.wire.schema import Message

TIMEOUT_S = 60
LENGTH = struct.Struct(">i")
M = TypeVar("M", bound=Message)


def producer(bootstrap: str, **settings: object) -> Any:
    """A confluent-kafka producer that tries again soon and is not alarmed by what tests do to it."""
    config: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 0}
    config |= {"reconnect.backoff.max.ms": 200, "retry.backoff.ms": 20}
    return Producer(config | {key.replace("_", "."): value for key, value in settings.items()})


def transactional(bootstrap: str) -> Any:
    # As docs/clients.md says: else librdkafka may wait for ever when the only broker was away.
    started = producer(bootstrap, transactional_id=f"tx-{uuid.uuid4()}", metadata_recovery_strategy="none")
    started.init_transactions(TIMEOUT_S)
    return started


def send(client: Any, topic: str, values: Sequence[str]) -> list[str | None]:
    """Sends them and waits for what becomes of each: None, or the name of an error."""
    told: list[str | None] = []
    for value in values:
        client.produce(
            topic, value, on_delivery=lambda error, _: told.append(None if error is None else error.name())
        )
    assert client.flush(TIMEOUT_S) == 0
    return told


def request_of(message: Message, version: int, correlation_id: int = 7) -> Request:
    body = encode_request_header(message.__api_key__, version, correlation_id, "kit") + encode(
        message, version
    )
    return Request.of(LENGTH.pack(len(body)) + body)


def correlation_id(answer: bytes) -> int:
    found: int = LENGTH.unpack_from(answer, LENGTH.size)[0]
    return found


class Raw:
    """One connection, requests by hand."""

    def __init__(self, bootstrap: str) -> None:
        (self.address,) = ClientSettings.of(bootstrap).bootstrap
        self._socket = socket.create_connection(self.address, TIMEOUT_S)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> bytes:
        """The next frame; empty where the connection has ended."""
        try:
            head = self._socket.recv(LENGTH.size, socket.MSG_WAITALL)
        except ConnectionResetError:
            return b""
        return head + self._socket.recv(LENGTH.unpack(head)[0], socket.MSG_WAITALL) if head else b""

    def close(self) -> None:
        self._socket.close()
