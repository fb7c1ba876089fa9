"""From a frame to its answer: header, table look-up, decode, handler, encode."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from oncestream.broker.apis import APIS, Answer, Api
from oncestream.broker.call import Call, Hangup
from oncestream.broker.connection import FRAME_BYTES_MIN, Connection
from oncestream.broker.later import Later
from oncestream.broker.node import Node
from oncestream.broker.outbox import Chunk, Slot
from oncestream.wire.api import ApiKey
from oncestream.wire.codec import DecodeError, decode, encode_into
from oncestream.wire.header import RequestHeader, decode_request_header
from oncestream.wire.produce import PlainProduce, read_plain
from oncestream.wire.schema import Message

if TYPE_CHECKING:
    from oncestream.broker.security.sasl import Login

logger = logging.getLogger("oncestream.broker")

# Only Produce carries data. Others decode into many small objects, several times the size of the frame.
REQUEST_BYTES_MAX: Final = 16 * 1024 * 1024
BEFORE_LOGIN: Final = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_FRAME_HEAD: Final = struct.Struct(">ii")


class Dispatcher:
    """Hands frames to handlers. A frame that makes no sense closes its connection, and only that one."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._tasks: set[asyncio.Task[None]] = set()
        self._produce_plain: Callable[[PlainProduce, Node, Connection], Answer | Later] | None = None

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        if connection.login is not None and not self._before_login(connection, connection.login, frame):
            return
        if not frame[1] and not frame[0]:  # the api key of Produce
            plain = read_plain(frame)
            if plain is not None and self._on_plain_produce(connection, plain):
                return
        try:
            header = decode_request_header(frame)
            api = APIS.get(header.api_key)
            version = header.api_version
            if api is None or not api.version_min <= version <= api.version_max:
                connection.answer_now([_unsupported_version(header, api)])
                return
            if len(frame) > REQUEST_BYTES_MAX and api.key is not ApiKey.PRODUCE:
                raise DecodeError(f"{api.name} of {len(frame)} bytes (allowed: {REQUEST_BYTES_MAX})")
            request = decode(api.request, frame, version, header.body_position)
        except DecodeError as error:
            connection.close(str(error))
            return
        call = Call(
            self._node,
            version,
            header.correlation_id,
            header.client_id,
            connection.peer,
            connection.principal,
            api.name,
            connection.address,
            connection.login,
        )
        try:
            answer = api.handler(request, call)
        except Hangup as reason:
            connection.close(str(reason))
            return
        except Exception:
            _failed(connection, api, call)
            return
        self._settle(connection, api, call, answer)

    def _before_login(self, connection: Connection, login: Login, frame: memoryview) -> bool:
        """Whether the frame of somebody not logged in yet goes the usual way."""
        if login.takes_raw_tokens:
            self._start(_finish_token(connection, connection.open_slot(), login, bytes(frame)))
            return False
        key = int.from_bytes(frame[:2], "big")
        if len(frame) >= FRAME_BYTES_MIN and key in BEFORE_LOGIN:
            return True
        connection.close(f"a request (api key {key}) before the log-in")
        return False

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _on_plain_produce(self, connection: Connection, request: PlainProduce) -> bool:
        """False: it must go the long way after all."""
        if self._produce_plain is None:
            from oncestream.broker.plain_produce import produce_plain

            self._produce_plain = produce_plain
        try:
            answer = self._produce_plain(request, self._node, connection)
        except Exception:
            call = self._call_of(connection, request.version, request.correlation_id)
            _failed(connection, APIS[ApiKey.PRODUCE], call)
            return True
        if type(answer) is list:
            connection.answer_now(answer)
        elif isinstance(answer, Later):
            version, correlation_id = request.version, request.correlation_id
            answer.then(
                partial(self._plain_produced, connection, connection.open_slot(), version, correlation_id)
            )
        elif answer is not None:
            call = self._call_of(connection, request.version, request.correlation_id)
            _answer(connection, None, APIS[ApiKey.PRODUCE], call, answer)
        return answer is not None

    def _plain_produced(
        self, connection: Connection, slot: Slot, version: int, correlation_id: int, late: Answer
    ) -> None:
        if type(late) is list:
            connection.answer(slot, late)
        else:
            call = self._call_of(connection, version, correlation_id)
            _answer(connection, slot, APIS[ApiKey.PRODUCE], call, late)

    def _call_of(self, connection: Connection, version: int, correlation_id: int) -> Call:
        return Call(self._node, version, correlation_id, None, connection.peer, connection.principal)

    def _settle(
        self, connection: Connection, api: Api, call: Call, answer: Answer | Later | Awaitable[Answer]
    ) -> None:
        if isinstance(answer, (Message, list)):
            _answer(connection, None, api, call, answer)
        elif isinstance(answer, Later):
            slot = connection.open_slot()
            answer.then(lambda late: _answer(connection, slot, api, call, late))
        elif answer is not None:
            assert asyncio.iscoroutine(answer)
            self._run(connection, api, call, answer)

    def _run(self, connection: Connection, api: Api, call: Call, work: Coroutine[Any, Any, Answer]) -> None:
        self._start(_finish(connection, connection.open_slot(), api, call, work))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._node.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _finish(
    connection: Connection, slot: Slot, api: Api, call: Call, work: Coroutine[Any, Any, Answer]
) -> None:
    try:
        answer = await work
    except Exception:
        _failed(connection, api, call)
        return
    _answer(connection, slot, api, call, answer)
    if connection.login is not None:
        _conclude(connection, connection.login)


async def _finish_token(connection: Connection, slot: Slot, login: Login, token: bytes) -> None:
    """A log-in of the old kind: its messages travel without headers, and a refusal is silent."""
    from oncestream.broker.security.sasl import LoginRefused

    try:
        answer = await login.step(token)
        connection.answer(slot, [len(answer).to_bytes(4, "big") + answer])
    except LoginRefused as refusal:
        connection.close(login.failure or str(refusal))
    except Exception:
        logger.exception("log-in failed peer=%s", connection.peer)
        connection.close("log-in failed")
    else:
        _conclude(connection, login)


def _conclude(connection: Connection, login: Login) -> None:
    if login.principal is not None:
        connection.admit(login.principal)
    elif login.failure is not None:
        connection.turn_away(login.failure)


def _answer(connection: Connection, slot: Slot | None, api: Api, call: Call, answer: Answer) -> None:
    """Without a slot: now, behind what the connection is owed before."""
    try:
        chunks = _chunks(api, call, answer)
    except Exception:
        _failed(connection, api, call)
        return
    if slot is None:
        connection.answer_now(chunks)
    else:
        connection.answer(slot, chunks)
    if call.throttle_ms:
        connection.mute(call.throttle_ms)


def _unsupported_version(header: RequestHeader, api: Api | None) -> bytearray:
    """A client newer than us learns our versions from an answer to ApiVersions in version 0; no other is given."""
    if api is None:
        raise DecodeError(f"api key {header.api_key} is not served")
    if api.key is not ApiKey.API_VERSIONS:
        raise DecodeError(
            f"{api.name} version {header.api_version} is not served"
            f" (served: {api.version_min} to {api.version_max})"
        )
    from oncestream.broker.handlers.api_versions import unsupported_version

    return _encode_frame(api, 0, header.correlation_id, unsupported_version())


def _chunks(api: Api, call: Call, answer: Answer) -> list[Chunk]:
    if answer is None:
        return []
    if isinstance(answer, Message):
        return [_encode_frame(api, call.version, call.correlation_id, answer)]
    return answer


def _encode_frame(api: Api, version: int, correlation_id: int, message: Message) -> bytearray:
    """Length, header and body of an answer in one buffer."""
    out = bytearray(_FRAME_HEAD.size + api.answer_tag_bytes[version])  # zero: no tagged fields
    encode_into(message, version, out)
    _FRAME_HEAD.pack_into(out, 0, len(out) - 4, correlation_id)
    return out


def _failed(connection: Connection, api: Api, call: Call) -> None:
    logger.exception("request failed api=%s version=%d peer=%s", api.name, call.version, connection.peer)
    connection.close(f"{api.name} failed")
