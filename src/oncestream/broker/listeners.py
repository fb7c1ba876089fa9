"""Where the broker listens, what clients must speak there, and whether that is safe enough."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from oncestream.broker.settings import BrokerSettings, ClientAuth, parse_address
from oncestream.errors import BadSetting, ListenFailed, OpenListener

BACKLOG: Final = 512
ORIGIN: Final = "the settings"
PLAIN: Final = "PLAIN"

_IPV4_IN_IPV6: Final = "::ffff:"
_WITH_PROTOCOL: Final = re.compile(r"(?P<protocol>\w+)://(?P<address>.*)")


class SecurityProtocol(StrEnum):
    """As Kafka names them."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class Plan:
    """A listener to be opened."""

    protocol: SecurityProtocol
    host: str
    port: int
    advertised: tuple[str, int] | None
    mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listener:
    """An open listener."""

    protocol: SecurityProtocol
    sock: socket.socket
    address: tuple[str, int]  # what clients are told
    mechanisms: tuple[str, ...]  # by which they may log in
    everywhere: bool = False  # on all addresses of this machine, and nobody said which clients are told

    def address_for(self, sock: socket.socket) -> tuple[str, int]:
        """What the client of a connection is told: where it has reached us, if nothing else is known."""
        if not self.everywhere:
            return self.address
        host, port = sock.getsockname()[:2]
        return host.removeprefix(_IPV4_IN_IPV6), port


def plan_listeners(settings: BrokerSettings) -> tuple[Plan, ...]:
    """What the settings ask for; refuses what contradicts itself, before anything is opened."""
    _check_tls(settings)
    mechanisms = _mechanisms(settings)
    default = _default_protocol(settings)
    advertised = dict(_addresses(settings.advertise, "advertise", default))
    listens = _addresses(settings.listen, "listen", default)
    if not listens:
        raise _wrong("listen", "it names no address")
    if len({protocol for protocol, _ in listens}) < len(listens):
        raise _wrong("listen", "a protocol can be listened for only once")
    for protocol in advertised.keys() - {protocol for protocol, _ in listens}:
        raise _wrong("advertise", f"there is no listener {protocol}")
    plans = []
    for protocol, (host, port) in listens:
        if protocol.uses_tls and not settings.tls_certificate:
            raise _wrong("listen", f"{protocol} needs tls_certificate")
        if protocol.uses_sasl and not mechanisms:
            raise _wrong("listen", f"{protocol} needs sasl_mechanisms")
        plans.append(
            Plan(protocol, host, port, advertised.get(protocol), mechanisms if protocol.uses_sasl else ())
        )
    return tuple(plans)


def open_listener(plan: Plan, settings: BrokerSettings) -> Listener:
    text = address_text((plan.host, plan.port))
    try:
        found = socket.getaddrinfo(plan.host, plan.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ListenFailed(address=text, reason=error.strerror or str(error)) from None
    # As Apache Kafka: of a name that stands for both, IPv4.
    family, kind, proto, _, address = min(found, key=lambda info: info[0] is not socket.AF_INET)
    mechanisms = plan.mechanisms
    ip = ipaddress.ip_address(address[0])
    if not ip.is_loopback:
        _check_open(plan, settings, text)
        if not plan.protocol.uses_tls:  # a password in plain text would travel the network
            mechanisms = tuple(each for each in mechanisms if each != PLAIN)
        if plan.protocol.uses_sasl and not mechanisms:
            raise _wrong("sasl_mechanisms", f"beyond loopback, {PLAIN} is only offered over TLS")
    sock = socket.socket(family, kind, proto)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ListenFailed(address=text, reason=error.strerror or str(error)) from None
    sock.setblocking(False)
    told = plan.advertised or (plan.host, int(sock.getsockname()[1]))
    return Listener(
        plan.protocol, sock, told, mechanisms, everywhere=ip.is_unspecified and plan.advertised is None
    )


def addresses_text(listeners: Sequence[Listener]) -> str:
    """What clients are told: PROTOCOL://HOST:PORT,..."""
    return ",".join(f"{each.protocol}://{address_text(each.address)}" for each in listeners)


def with_protocols(text: str, settings: BrokerSettings) -> str:
    """Addresses of a setting, each with its protocol."""
    default = _default_protocol(settings)
    found = _addresses(text, "listen", default)
    return ",".join(f"{protocol}://{address_text(address)}" for protocol, address in found)


def address_text(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _check_open(plan: Plan, settings: BrokerSettings, address: str) -> None:
    """Whoever can reach a listener beyond loopback must say who they are, and nobody may listen in."""
    if settings.insecure:
        return
    shows_certificate = plan.protocol.uses_tls and settings.tls_client_auth is ClientAuth.REQUIRED
    if not plan.protocol.uses_sasl and not shows_certificate:
        raise OpenListener(address=address, lack="has no authentication")
    if not plan.protocol.uses_tls:
        raise OpenListener(address=address, lack="has no TLS: log-ins and data could be read on the way")


def _check_tls(settings: BrokerSettings) -> None:
    if not settings.tls_certificate:
        for name in ("tls_key", "tls_key_password_file", "tls_client_ca"):
            if getattr(settings, name):
                raise _wrong(name, "it has no meaning without tls_certificate")
    if settings.tls_client_auth is not ClientAuth.NONE and not settings.tls_client_ca:
        raise _wrong("tls_client_auth", "it needs tls_client_ca")
    if settings.tls_client_ca and settings.tls_client_auth is ClientAuth.NONE:
        raise _wrong("tls_client_ca", "it has no meaning while tls_client_auth is none")


def _mechanisms(settings: BrokerSettings) -> tuple[str, ...]:
    named = [part.strip().upper() for part in settings.sasl_mechanisms.split(",") if part.strip()]
    if not named:
        return ()
    from oncestream.broker.security.sasl import SCRAM

    known = (PLAIN, *SCRAM)
    for name in named:
        if name not in known:
            raise _wrong("sasl_mechanisms", f"{name!r} is none of {', '.join(known)}")
    return tuple(dict.fromkeys(named))


def _default_protocol(settings: BrokerSettings) -> SecurityProtocol:
    """What an address without a protocol speaks."""
    transport = "SSL" if settings.tls_certificate else "PLAINTEXT"
    return SecurityProtocol(f"SASL_{transport}" if settings.sasl_mechanisms.strip() else transport)


def _addresses(
    text: str, name: str, default: SecurityProtocol
) -> list[tuple[SecurityProtocol, tuple[str, int]]]:
    found = []
    for part in filter(None, map(str.strip, text.split(","))):
        match = _WITH_PROTOCOL.fullmatch(part)
        if match is not None and match["protocol"].upper() not in list(SecurityProtocol):
            raise _wrong(name, f"{match['protocol']} is none of {', '.join(SecurityProtocol)}")
        protocol = default if match is None else SecurityProtocol(match["protocol"].upper())
        found.append((protocol, parse_address(part if match is None else match["address"], name)))
    return found


def _wrong(name: str, reason: str) -> BadSetting:
    return BadSetting(name=name, origin=ORIGIN, reason=reason)
