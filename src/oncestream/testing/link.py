"""One client's connection through the proxy, frame by frame, and what happens to it on the way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Final, NamedTuple

from oncestream.errors import BadFault
from oncestream.testing.door import Door
from oncestream.testing.error_answers import error_answer, put_error
from oncestream.testing.frames import Request, read_frame
from oncestream.testing.network_faults import FaultBook, NetworkFault, Trouble
from oncestream.testing.rewriting import Through, edit, rewrite
from oncestream.wire.api import ApiKey
from oncestream.wire.messages.metadata import MetadataResponse

CHUNK_BYTES: Final = 64 * 1024
ABOUT_ANSWERS: Final = frozenset(
    {Trouble.FAIL, Trouble.DELAY_ANSWER, Trouble.DROP_ANSWER, Trouble.CUT_AFTER, Trouble.HOLD}
)
SILENCED: Final = frozenset({Trouble.DROP, Trouble.HOLD})


class Streams(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@dataclass(slots=True)
class Traffic:
    """What all links of a proxy share."""

    faults: FaultBook
    seen: deque[ApiKey]
    flowing: asyncio.Event
    through: Through
    failures: list[Exception]


@dataclass(slots=True)
class _Expected:
    """An answer that a client waits for, in the order of its requests; `made_up` where the broker owes none."""

    request: Request
    fault: NetworkFault | None = None
    made_up: bytes = b""
    unwanted: bool = False


class _Cut(Exception):
    """The connection ends here."""


class Link:
    """Two pumps, of requests and of answers; either's end is the end of both."""

    def __init__(self, client: Streams, broker: Streams, door: Door, traffic: Traffic) -> None:
        self._client = client
        self._broker = broker
        self._door = door
        self._traffic = traffic
        self._expected: deque[_Expected] = deque()
        self._silent = False

    async def run(self) -> None:
        pumps = [asyncio.ensure_future(self._guarded(pump())) for pump in (self._requests, self._answers)]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    def close(self) -> None:
        for writer in (self._client.writer, self._broker.writer):
            writer.transport.abort()

    async def _guarded(self, pump: Coroutine[None, None, None]) -> None:
        try:
            await pump
        except (_Cut, OSError):
            return
        except Exception as error:
            if not self._traffic.failures:  # the first one tells enough
                self._traffic.failures.append(error)

    async def _requests(self) -> None:
        while (frame := await read_frame(self._client.reader)) is not None:
            if self._silent:
                continue
            await self._traffic.flowing.wait()
            request = Request.of(frame)
            if request.api is not None:
                self._traffic.seen.append(request.api)
            await self._forward(request, self._traffic.faults.take(request, self._door))

    async def _forward(self, request: Request, fault: NetworkFault | None) -> None:
        trouble = fault.rule.trouble if fault else None
        if trouble in ABOUT_ANSWERS and not request.owes_answer:
            raise BadFault(
                reason=f"a Produce with acks=0 that {trouble}: it has no answer",
                advice="let the producer ask for acks, or use cut_before, drop, delay or duplicate",
            )
        if fault and trouble is Trouble.FAIL and request.api is not ApiKey.METADATA:
            return await self._refuse(request, fault)
        if trouble is Trouble.CUT_BEFORE:
            raise _Cut
        if trouble in SILENCED:
            self._silent = True
            return None
        if fault and trouble is Trouble.DELAY:
            await asyncio.sleep(fault.rule.seconds)
        self._expect(_Expected(request, fault))
        _write(self._broker.writer, request.frame)
        if trouble is Trouble.DUPLICATE:
            self._expect(_Expected(request, unwanted=True))
            _write(self._broker.writer, request.frame)
        await self._broker.writer.drain()
        return None

    def _expect(self, expected: _Expected) -> None:
        if expected.request.owes_answer:
            self._expected.append(expected)

    async def _refuse(self, request: Request, fault: NetworkFault) -> None:
        answer = request.encode_answer(error_answer(request, fault.rule.error))
        self._expected.append(_Expected(request, made_up=answer))
        await self._send_made_up()

    async def _answers(self) -> None:
        while (frame := await read_frame(self._broker.reader)) is not None:
            await self._traffic.flowing.wait()
            if self._silent:
                continue
            # It stays first in the queue until it is sent, so that no answer of ours overtakes it.
            expected = self._expected[0]
            await self._answer(expected, frame)
            self._expected.popleft()
            await self._send_made_up()

    async def _answer(self, expected: _Expected, frame: bytes) -> None:
        fault = expected.fault
        trouble = fault.rule.trouble if fault else None
        if trouble is Trouble.CUT_AFTER:
            raise _Cut
        if expected.unwanted or trouble is Trouble.DROP_ANSWER:
            self._silent = self._silent or not expected.unwanted
            return
        if fault and trouble is Trouble.DELAY_ANSWER:
            await asyncio.sleep(fault.rule.seconds)
        if fault and trouble is Trouble.FAIL:
            answer = expected.request.decode_answer(frame)
            assert isinstance(answer, MetadataResponse)
            put_error(answer, fault.rule.error)
            frame = expected.request.encode_answer(edit(answer, self._traffic.through).answer)
        else:
            frame = rewrite(expected.request, frame, self._traffic.through)
        _write(self._client.writer, frame)
        await self._client.writer.drain()

    async def _send_made_up(self) -> None:
        while not self._silent and self._expected and self._expected[0].made_up:
            _write(self._client.writer, self._expected.popleft().made_up)
        await self._client.writer.drain()


def _write(writer: asyncio.StreamWriter, frame: bytes) -> None:
    """The other pump may have met the end of the connection while this one was waiting."""
    if writer.transport.is_closing():
        raise _Cut
    writer.write(frame)
