"""One blocking connection to a broker: TLS, SASL, versions, and several requests in flight."""

from __future__ import annotations

import select
import socket
import ssl
import struct
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from oncestream.client.failures import ConnectionLost
from oncestream.client.sasl import LoginRefused, login
from oncestream.client.settings import Address, ClientSettings
from oncestream.client.versions import API_VERSIONS_VERSION, SPOKEN
from oncestream.errors import AuthenticationFailed, BrokerTooOld
from oncestream.wire.api import ApiKey, response_header_version
from oncestream.wire.codec import DecodeError, decode, encode_into
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.header import decode_response_header, encode_request_header
from oncestream.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncestream.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from oncestream.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from oncestream.wire.schema import Buffer, Message

M = TypeVar("M", bound=Message)

# Larger than any answer a broker can be told to give; text of another protocol reads as far more.
FRAME_BYTES_MAX: Final = 1024 * 1024 * 1024
CHUNKS_PER_CALL_MAX: Final = 512
SOFTWARE: Final = "oncestream"

_LENGTH: Final = struct.Struct(">i")


class Sent(NamedTuple):
    """A request on its way."""

    api_key: ApiKey
    version: int
    correlation_id: int


class Connection:
    """Connected, logged in and aware of the broker's versions once it is made.

    Every failure of the socket closes it and raises ConnectionLost.
    """

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        self.address = address
        self.features: dict[str, int] = {}
        self.features_epoch = -1
        self._settings = settings
        self._timeout_s = settings.request_timeout_ms / 1000
        self._in_flight: deque[Sent] = deque()
        self._last_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._length = bytearray(_LENGTH.size)
        self._memory = bytearray()
        self._socket: socket.socket | None = _open(address, settings)
        try:
            self._learn_versions()
            if settings.uses_sasl:
                self._log_in()
        except BaseException:
            self.close()
            raise

    def __del__(self) -> None:
        if getattr(self, "_socket", None) is not None:
            self.close()

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def is_reusable(self) -> bool:
        """Open, nothing owed, and not closed by the broker meanwhile."""
        if self._socket is None or self._in_flight:
            return False
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return not poller.poll(0)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._in_flight.clear()

    def version_of(self, api_key: ApiKey, version_max: int | None = None) -> int:
        """The highest version that both sides speak, at most `version_max`."""
        low, high = SPOKEN[api_key]
        high = high if version_max is None else min(high, version_max)
        their_low, their_high = self._versions.get(api_key, (0, -1))
        version = min(high, their_high)
        if version < max(low, their_low):
            raise BrokerTooOld(
                address=self.address,
                api=api_key.name,
                theirs=f"{their_low}-{their_high}",
                ours=f"{low}-{high}",
            )
        return version

    def ask(
        self,
        request: Message,
        answer: type[M],
        *,
        version_max: int | None = None,
        timeout_s: float | None = None,
    ) -> M:
        return self.receive(self.send(request, version_max=version_max), answer, timeout_s=timeout_s)

    def send(self, request: Message, *, version_max: int | None = None) -> Sent:
        api_key = ApiKey(request.__api_key__)
        version = self.version_of(api_key, version_max)
        body = bytearray()
        encode_into(request, version, body)
        return self.send_body(api_key, version, (body,))

    def send_body(self, api_key: ApiKey, version: int, chunks: Sequence[Buffer]) -> Sent:
        """Sends a request whose encoded body comes in pieces, which are not copied."""
        self._last_id = (self._last_id + 1) & 0x7FFFFFFF
        head = encode_request_header(api_key, version, self._last_id, self._settings.client_id)
        size = len(head) + sum(map(len, chunks))
        sent = Sent(api_key, version, self._last_id)
        self._in_flight.append(sent)
        self._write([_LENGTH.pack(size) + head, *chunks])
        return sent

    def receive(
        self, sent: Sent, answer: type[M], *, timeout_s: float | None = None, reuse: bool = False
    ) -> M:
        """The answer to the oldest request in flight.

        With `reuse`, its record data are views of memory that the next such answer overwrites.
        """
        assert sent == (self._in_flight or [None])[0], "answers come in the order of the requests"
        frame = self._read_frame(timeout_s or self._timeout_s, reuse)
        self._in_flight.popleft()
        flexible = bool(response_header_version(sent.api_key, sent.version))
        try:
            correlation_id, position = decode_response_header(frame, flexible)
            if correlation_id != sent.correlation_id:
                raise DecodeError(f"answer {correlation_id} came instead of {sent.correlation_id}")
            return decode(answer, frame, sent.version, position)
        except DecodeError as error:
            raise self._lost(error) from error

    def _write(self, chunks: Sequence[Buffer]) -> None:
        sock = self._require()
        try:
            sock.settimeout(self._timeout_s)
            if isinstance(sock, ssl.SSLSocket):
                for chunk in chunks:
                    sock.sendall(chunk)
                return
            left = [memoryview(chunk) for chunk in chunks if len(chunk)]
            while left:
                count = sock.sendmsg(left[:CHUNKS_PER_CALL_MAX])
                while left and count >= len(left[0]):
                    count -= len(left.pop(0))
                if count:
                    left[0] = left[0][count:]
        except OSError as error:
            raise self._lost(error) from error

    def _read_frame(self, timeout_s: float, reuse: bool) -> memoryview:
        sock = self._require()
        try:
            sock.settimeout(timeout_s)
            self._fill(sock, memoryview(self._length))
            (size,) = _LENGTH.unpack(self._length)
            if not 4 <= size <= FRAME_BYTES_MAX:
                raise OSError(f"an answer of {size} bytes: this is no Kafka listener, or it wants TLS")
            frame = self._memory_of(size) if reuse else memoryview(bytearray(size))
            self._fill(sock, frame)
        except OSError as error:
            raise self._lost(error) from error
        return frame

    def _memory_of(self, size_bytes: int) -> memoryview:
        if size_bytes > len(self._memory):
            self._memory = bytearray(size_bytes + size_bytes // 8)
        return memoryview(self._memory)[:size_bytes]

    def _fill(self, sock: socket.socket, view: memoryview) -> None:
        position = 0
        while position < len(view):
            count = sock.recv_into(view[position:])
            if not count:
                raise OSError("the broker closed the connection")
            position += count

    def _require(self) -> socket.socket:
        if self._socket is None:
            raise ConnectionLost(self.address, "the connection is closed")
        return self._socket

    def _lost(self, error: Exception) -> ConnectionLost | AuthenticationFailed:
        self.close()
        return _failure(self.address, error)

    def _learn_versions(self) -> None:
        request = ApiVersionsRequest(client_software_name=SOFTWARE, client_software_version="0")
        body = bytearray()
        encode_into(request, API_VERSIONS_VERSION, body)
        sent = self.send_body(ApiKey.API_VERSIONS, API_VERSIONS_VERSION, (body,))
        known = self.receive(sent, ApiVersionsResponse, timeout_s=self._settings.connect_timeout_ms / 1000)
        if known.error_code:
            raise BrokerTooOld(
                address=self.address, api="API_VERSIONS", theirs="older", ours=API_VERSIONS_VERSION
            )
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in known.api_keys}
        self.features = {each.name: each.max_version_level for each in known.finalized_features}
        self.features_epoch = known.finalized_features_epoch

    def _log_in(self) -> None:
        settings = self._settings
        shake = self.ask(SaslHandshakeRequest(mechanism=settings.sasl_mechanism), SaslHandshakeResponse)
        if shake.error_code:
            raise self._refused_login(f"it takes {', '.join(shake.mechanisms) or 'none'}")
        steps = login(settings.sasl_mechanism, settings.sasl_username, settings.sasl_password)
        try:
            message = next(steps)
            while True:
                told = self.ask(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
                if told.error_code:
                    raise self._refused_login(told.error_message or ErrorCode(told.error_code).name)
                message = steps.send(told.auth_bytes)
        except StopIteration:
            return
        except (LoginRefused, ValueError, KeyError) as error:
            raise self._refused_login(error) from error

    def _refused_login(self, reason: object) -> AuthenticationFailed:
        return AuthenticationFailed(
            address=self.address, mechanism=self._settings.sasl_mechanism, reason=reason
        )


def _open(address: Address, settings: ClientSettings) -> socket.socket:
    try:
        sock = socket.create_connection(address, settings.connect_timeout_ms / 1000)
    except OSError as error:
        raise ConnectionLost(address, error.strerror or error) from error
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if not settings.uses_tls:
            return sock
        return _tls_context(settings).wrap_socket(sock, server_hostname=address.host)
    except OSError as error:
        sock.close()
        raise _failure(address, error) from error


def _failure(address: Address, error: Exception) -> ConnectionLost | AuthenticationFailed:
    """A refused certificate, theirs or ours (by an alert, maybe as late as the first answer), is not tried again."""
    if isinstance(error, ssl.SSLCertVerificationError) or (
        isinstance(error, ssl.SSLError) and "ALERT" in str(error.reason)
    ):
        return AuthenticationFailed(address=address, mechanism="TLS", reason=error)
    return ConnectionLost(address, "no answer in time" if isinstance(error, TimeoutError) else error)


@lru_cache(maxsize=16)
def _tls_context(settings: ClientSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.ca_file)
    context.check_hostname = settings.check_hostname
    if settings.certificate_file is not None:
        context.load_cert_chain(settings.certificate_file, settings.key_file, settings.key_password)
    return context
