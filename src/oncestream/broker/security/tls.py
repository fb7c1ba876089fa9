"""TLS: the broker's certificate, and connections whose bytes are encrypted.

The encryption works on memory, so sockets, limits and slow clients are handled as without it. Between 64 and 128
KiB of either direction are held in encrypted form at most.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from oncestream.broker.connection import Connection
from oncestream.broker.host import Host
from oncestream.broker.outbox import Outbox
from oncestream.broker.security.distinguished_name import subject_of
from oncestream.broker.security.principal import Principal
from oncestream.broker.security.sasl import Login
from oncestream.broker.settings import BrokerSettings, ClientAuth
from oncestream.errors import BadSetting
from oncestream.storage.files import FileSlice

logger = logging.getLogger("oncestream.broker")

RECEIVE_BYTES: Final = 64 * 1024
ENCRYPT_BYTES: Final = 64 * 1024

_FILES: Final = ("tls_certificate", "tls_key", "tls_key_password_file", "tls_client_ca")
_VERIFY: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE")


class ServerTls:
    """The broker's side of TLS. New files are taken by new connections, without a restart."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._stamps = self._read_stamps()
        self.context = _context(settings)

    def reload_if_changed(self) -> None:
        """Files that cannot be used, perhaps because they are half written, are left for a later look."""
        stamps = self._read_stamps()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self.context = _context(self._settings)
        except BadSetting as error:
            logger.warning("new TLS files are not used reason=%s", error.cause_text)
        else:
            logger.info("TLS files read again certificate=%s", self._settings.tls_certificate)

    def _read_stamps(self) -> list[tuple[int, int, int]]:
        stamps = []
        for name in _FILES:
            with suppress(OSError):
                found = Path(getattr(self._settings, name)).stat()
                stamps.append((found.st_ino, found.st_mtime_ns, found.st_size))
        return stamps


class TlsConnection(Connection):
    """A connection that begins with a handshake."""

    __slots__ = ("_incoming", "_outgoing", "_shaken", "_tls")

    def __init__(
        self,
        sock: socket.socket,
        peer: str,
        host: Host,
        address: tuple[str, int],
        login: Login | None,
        context: ssl.SSLContext,
    ) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._shaken = False
        super().__init__(sock, peer, host, address, login)
        self._outbox = TlsOutbox(sock, self._tls, self._outgoing)

    @property
    def admitted(self) -> bool:
        return self._shaken and self.login is None

    def on_readable(self) -> None:
        view = self._host.receive_view[:RECEIVE_BYTES]
        count = self._receive(view)
        if count:
            self._incoming.write(view[:count])
            self._decrypt()

    def _decrypt(self) -> None:
        try:
            if not self._shaken and not self.closed:
                self._shake()
            while self._reading and not self.closed:
                target = self._target()
                if not target:
                    break  # full of frames that wait for their turn
                count = cast("int", self._tls.read(len(target), target))
                if not count:
                    self.close("closed by the client", quiet=True)
                    return
                self._taken(count)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.close("closed by the client", quiet=True)
        except ssl.SSLError as error:
            self._turn_away(error)
        if self._outgoing.pending and not self.closed:
            self._send()

    def _turn_away(self, error: ssl.SSLError) -> None:
        """The client learns why by an alert."""
        reason = f"TLS failed: {_reason(error)}"
        if error.reason in _NO_TLS:
            self._outgoing.read()  # it would take an alert for an answer
            self.close(reason)
            return
        self.turn_away(reason)

    def _shake(self) -> None:
        self._tls.do_handshake()
        certificate = self._tls.getpeercert(binary_form=True)
        if certificate:
            try:
                self.principal = Principal("User", subject_of(certificate))
            except ValueError as error:
                self.close(str(error))
                return
            logger.debug("client known peer=%s principal=%s", self.peer, self.principal)
        self._shaken = True

    def resume(self) -> None:
        super().resume()
        if self._reading and (self._incoming.pending or self._tls.pending()):
            self._host.call_soon(self._decrypt)  # what was received before the pause

    def _send_last(self) -> None:
        super()._send_last()
        if self._shaken:
            with suppress(OSError):
                self._tls.unwrap()
        with suppress(OSError):
            self._outbox.send()


class TlsOutbox(Outbox):
    """Encrypts as much as the socket takes, no further ahead."""

    __slots__ = ("_encrypted", "_outgoing", "_tls")

    def __init__(self, sock: socket.socket, tls: ssl.SSLObject, outgoing: ssl.MemoryBIO) -> None:
        super().__init__(sock)
        self._tls = tls
        self._outgoing = outgoing
        self._encrypted = memoryview(b"")

    def send(self) -> bool:
        try:
            self._flush()
            while self._chunks:
                while self._chunks and self._outgoing.pending < ENCRYPT_BYTES:
                    self._advance(self._encrypt())
                self._flush()
        except (BlockingIOError, InterruptedError):
            return False
        return True

    def _flush(self) -> None:
        while self._encrypted or self._outgoing.pending:
            if not self._encrypted:
                self._encrypted = memoryview(self._outgoing.read())
            self._encrypted = self._encrypted[self._sock.send(self._encrypted) :]

    def _encrypt(self) -> int:
        first = self._chunks[0]
        if not isinstance(first, FileSlice):
            return self._tls.write(memoryview(first)[self._sent : self._sent + ENCRYPT_BYTES])
        size = min(ENCRYPT_BYTES, first.size - self._sent)
        data = os.pread(first.file.fd, size, first.position + self._sent)
        if not data:
            raise OSError(errno.EIO, "a log file ended before its slice did")
        return self._tls.write(data)


def _context(settings: BrokerSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.options |= ssl.OP_NO_TICKET  # each connection is checked anew
    context.num_tickets = 0
    password = _password(settings)
    try:
        # Without a function for the password, OpenSSL would ask for it on the terminal.
        context.load_cert_chain(settings.tls_certificate, settings.tls_key or None, lambda: password)
    except (OSError, ValueError) as error:
        files = " or ".join(filter(None, (settings.tls_certificate, settings.tls_key)))
        raise _wrong("tls_certificate", f"{files} cannot be used: {_reason(error)}") from None
    if settings.tls_client_ca:
        try:
            context.load_verify_locations(settings.tls_client_ca)
        except (OSError, ValueError) as error:
            reason = f"{settings.tls_client_ca} cannot be used: {_reason(error)}"
            raise _wrong("tls_client_ca", reason) from None
    context.verify_mode = _VERIFY[settings.tls_client_auth]
    return context


def _password(settings: BrokerSettings) -> str:
    if not settings.tls_key_password_file:
        return ""
    try:
        return Path(settings.tls_key_password_file).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong("tls_key_password_file", f"it cannot be read: {error}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        hint = " (a client without TLS?)" if error.reason in _NO_TLS else ""
        return error.reason.lower().replace("_", " ") + hint
    return getattr(error, "strerror", None) or str(error)


def _wrong(name: str, reason: str) -> BadSetting:
    return BadSetting(name=name, origin="the settings", reason=reason)
