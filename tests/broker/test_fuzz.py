"""Damaged frames of every API and version: each ends in an answer or a closed connection, never in a hang."""

from __future__ import annotations

import os
import random
import select
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from oncestream.broker.apis import APIS
from oncestream.wire.api import ApiKey
from oncestream.wire.messages.api_versions import ApiVersionsRequest
from tests.broker.conftest import StartBroker
from tests.broker.kit import Wire, batch, create_topic, fetch, fetch_request, frame_of, produce, values_of
from tests.broker.random_messages import MessageMaker
from tests.effort import effort

SEED: Final = int(os.environ.get("ONCESTREAM_FUZZ_SEED", "20261115"))
DEADLINE_S: Final = 20.0
ASK_AGAIN_S: Final = 1.0
CONNECTIONS: Final = 8
PIPELINED: Final = 8
VARIANTS: Final = 12
DAMAGED_LENGTHS: Final = 0.002  # such a frame may end by the stall time only
SETTINGS: Final[dict[str, Any]] = {
    "durability": "os",
    "fetch_wait_ms_max": 5,
    "stall_ms_max": 200,
    "partitions_max": 300,
    "group_session_timeout_ms_min": 1,
    "group_session_timeout_ms_max": 50,
    "consumer_group_session_timeout_ms": 50,
}

FRAMES: Final = effort(10_000, soak=300_000)
_LENGTH: Final = struct.Struct(">i")
_CORRELATION_ID: Final = struct.Struct(">i")
_FIRST_END: Final = 0x5EED_BEEF  # correlation id of the good request behind the first group


def test_every_damaged_frame_ends_in_an_answer_or_a_closed_connection(
    start_broker: StartBroker,
    warnings_logged: Callable[[], list[str]],
) -> None:
    broker = start_broker(sweep_s=0.05, **SETTINGS)
    with Wire(broker.bootstrap_servers) as wire:
        topics = [create_topic(wire, name, 3) for name in ("fuzz-a", "fuzz-b")]
        produce(wire, "fuzz-a", batch(b"before"))
    rng = random.Random(SEED)
    maker = MessageMaker(rng, [topic.name or "" for topic in topics], [topic.topic_id for topic in topics])
    victims = MessageMaker(rng, ["fuzz-victim"], [])
    pool = [
        frame_of((victims if key is ApiKey.DELETE_TOPICS else maker).request(api.request, version), version)
        for key, api in APIS.items()
        for version in api.request.__versions__
        if api.version_min <= version <= api.version_max
        for _ in range(VARIANTS)
    ]
    fuzz(broker.bootstrap_servers, _damaged(rng, pool), FRAMES)
    unexpected = [line for line in warnings_logged() if not line.startswith("connection closed peer=")]
    assert unexpected == [], f"seed {SEED}"
    with Wire(broker.bootstrap_servers) as wire:
        topic = create_topic(wire, "after-the-fuzz").name or ""
        assert produce(wire, topic, batch(b"after")).base_offset == 0
        assert values_of(fetch(wire, fetch_request(topic)).records) == [b"after"]


def fuzz(bootstrap: str, source: Iterator[bytes], frames: int) -> None:
    """Sends frames over several connections until so many have come to an end."""
    fuzzers = [_Fuzzer(bootstrap, source) for _ in range(CONNECTIONS)]
    try:
        while (done := sum(fuzzer.done for fuzzer in fuzzers)) < frames:
            poller = select.poll()  # select takes no descriptor above 1023, and a test run may have more open
            by_descriptor = {fuzzer.wire.sock.fileno(): fuzzer for fuzzer in fuzzers}
            for descriptor in by_descriptor:
                poller.register(descriptor, select.POLLIN)
            for descriptor, _ in poller.poll(ASK_AGAIN_S * 1000):
                by_descriptor[descriptor].receive()
            for fuzzer in fuzzers:
                silent_s = time.monotonic() - fuzzer.began
                if silent_s > ASK_AGAIN_S:
                    fuzzer.ask_again()
                told = [frame.hex() for frame in fuzzer.in_flight]
                assert silent_s < DEADLINE_S, f"seed {SEED}: {done} done, then neither answer nor end: {told}"
    finally:
        for fuzzer in fuzzers:
            fuzzer.wire.close()


class _Fuzzer:
    """One connection that sends groups of damaged frames, each with a good request behind it.

    The good one's answer ends the group, also for those that are owed no answer. It is sent once more if no
    answer comes: a damaged length may have made it the tail of another frame, which the broker ignores. A
    closed connection ends the first unanswered frame; those behind it, which the broker has not seen, are
    sent again.
    """

    def __init__(self, bootstrap: str, source: Iterator[bytes]) -> None:
        self._bootstrap = bootstrap
        self._source = source
        self.done = 0
        self.in_flight: deque[bytes] = deque()
        self._end = _FIRST_END
        self._connect()

    def receive(self) -> None:
        try:
            data = self.wire.sock.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            self._closed()
            return
        self._received += data
        while len(self._received) >= 8:
            stop = 4 + _LENGTH.unpack_from(self._received)[0]
            if len(self._received) < stop:
                return
            (correlation_id,) = _CORRELATION_ID.unpack_from(self._received, 4)
            del self._received[:stop]
            if correlation_id == self._end:
                self.done += len(self.in_flight)
                self.in_flight.clear()
                self._send_group()
            elif self.in_flight:
                self.in_flight.popleft()
                self.done += 1

    def _closed(self) -> None:
        self.wire.close()
        if self.in_flight:
            self.in_flight.popleft()
            self.done += 1
        self._connect()

    def _connect(self) -> None:
        self.wire = Wire(self._bootstrap, DEADLINE_S)
        self._received = bytearray()
        self._send_group()

    def _send_group(self) -> None:
        while len(self.in_flight) < PIPELINED:
            self.in_flight.append(next(self._source))
        self._end += 1
        self._asked_again = False
        self.began = time.monotonic()
        self._send(b"".join(self.in_flight) + self._last())

    def ask_again(self) -> None:
        if not self._asked_again:
            self._asked_again = True
            self._send(self._last())

    def _last(self) -> bytes:
        return frame_of(ApiVersionsRequest(), 0, self._end)

    def _send(self, data: bytes) -> None:
        # What came before a close is still to be read.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.wire.sock.sendall(data)


def _damaged(rng: random.Random, pool: list[bytes]) -> Iterator[bytes]:
    while True:
        frame = bytearray(rng.choice(pool))
        if rng.random() < DAMAGED_LENGTHS:
            frame[rng.randrange(4)] ^= 1 << rng.randrange(8)
        elif (kind := rng.random()) < 0.1:
            pass  # whole, but about things that are not there
        elif kind < 0.4:
            del frame[rng.randrange(4, len(frame)) :]
            frame[:4] = _LENGTH.pack(len(frame) - 4)
        else:
            for _ in range(rng.choice((1, 1, 2, 5))):
                frame[rng.randrange(4, len(frame))] ^= 1 << rng.randrange(8)
        yield bytes(frame)
