"""How to reach a cluster: the part of Kafka's client settings that this client understands."""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from oncestream.errors import BadClientSetting

log: Final = logging.getLogger(__name__)

DEFAULT_PORT: Final = 9092
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ORIGIN: Final = "the client settings"
NO_OPTIONS: Final[Mapping[str, str]] = MappingProxyType({})
BOOTSTRAP_VARIABLE: Final = "ONCESTREAM_BOOTSTRAP"
BOOTSTRAP_DEFAULT: Final = "127.0.0.1:9092"


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Hashable and picklable, so that connections can be kept by it in every process."""

    bootstrap: tuple[Address, ...]
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_username: str = ""
    sasl_password: str = field(default="", repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    client_id: str = "oncestream"
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    fetch_bytes_max: int = 4 * 1024 * 1024
    partition_fetch_bytes_max: int = 4 * 1024 * 1024
    fetch_wait_ms_max: int = 500

    @staticmethod
    def of(bootstrap_servers: str, options: Mapping[str, str] = NO_OPTIONS) -> ClientSettings:
        """From `host:port,host:port` and settings by their Kafka names."""
        values: dict[str, Any] = {"bootstrap": _addresses(bootstrap_servers)}
        ignored = []
        for name, text in options.items():
            if name in _READERS:
                key, read = _READERS[name]
                try:
                    values[key] = read(str(text))
                except ValueError as error:
                    raise BadClientSetting(name=name, origin=ORIGIN, reason=str(error)) from None
            elif name in _SPECIAL:
                values |= _SPECIAL[name](name, str(text))
            elif _IGNORED.fullmatch(name):
                ignored.append(name)
            else:
                raise BadClientSetting(
                    name=name, origin=ORIGIN, reason=f"there is no such setting{_nearest(name)}"
                )
        if ignored:
            log.info("settings without meaning for this client are ignored: %s", ", ".join(sorted(ignored)))
        return ClientSettings(**values)

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(map(str, self.bootstrap))


def servers_or_default(bootstrap_servers: str | None) -> str:
    """Those given; else of $ONCESTREAM_BOOTSTRAP; else the embedded broker's own address."""
    return bootstrap_servers or os.environ.get(BOOTSTRAP_VARIABLE) or BOOTSTRAP_DEFAULT


def _addresses(text: str) -> tuple[Address, ...]:
    found = tuple(_address(part.strip()) for part in text.split(",") if part.strip())
    if not found:
        raise BadClientSetting(name="bootstrap.servers", origin=ORIGIN, reason="it names no broker")
    return found


def _address(text: str) -> Address:
    match = re.fullmatch(
        r"(?:\w+://)?(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]/\s]+))(?::(?P<port>\d{1,5}))?", text
    )
    if match is None or int(match["port"] or DEFAULT_PORT) > 65_535:
        raise BadClientSetting(name="bootstrap.servers", origin=ORIGIN, reason=f"{text!r} is not HOST:PORT")
    try:
        host = str(match["v6"] or match["host"])
        host.encode("idna")  # as Python's sockets do it, which raise no OSError where that fails
    except UnicodeError as error:
        raise BadClientSetting(
            name="bootstrap.servers", origin=ORIGIN, reason=f"{host!r} is no name of a host"
        ) from error
    return Address(host, int(match["port"] or DEFAULT_PORT))


def _whole(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.upper() not in choices:
            raise ValueError(f"{text!r} is none of {', '.join(choices)}")
        return text.upper()

    return read


def _pem_only(name: str, text: str) -> dict[str, Any]:
    if text.upper() != "PEM":
        raise BadClientSetting(name=name, origin=ORIGIN, reason=f"only PEM files are understood, not {text}")
    return {}


def _jaas(name: str, text: str) -> dict[str, Any]:
    """User and password of Java's login line: `...LoginModule required username="u" password="p";`."""
    found = {
        part: re.search(rf'\b{part}\s*=\s*"((?:[^"\\]|\\.)*)"', text) for part in ("username", "password")
    }
    if not all(found.values()):
        raise BadClientSetting(name=name, origin=ORIGIN, reason="it has no username and password")
    return {
        f"sasl_{part}": re.sub(r"\\(.)", r"\1", match[1])
        for part, match in found.items()
        if match is not None
    }


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, [*_READERS, *_SPECIAL], 1)
    return f" (did you mean {close[0]}?)" if close else ""


_READERS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "security.protocol": ("security_protocol", _one_of(PROTOCOLS)),
    "sasl.mechanism": ("sasl_mechanism", _one_of(MECHANISMS)),
    "sasl.mechanisms": ("sasl_mechanism", _one_of(MECHANISMS)),
    "sasl.username": ("sasl_username", str),
    "sasl.password": ("sasl_password", str),
    "ssl.ca.location": ("ca_file", str),
    "ssl.truststore.location": ("ca_file", str),
    "ssl.certificate.location": ("certificate_file", str),
    "ssl.keystore.location": ("certificate_file", str),
    "ssl.key.location": ("key_file", str),
    "ssl.key.password": ("key_password", str),
    "ssl.endpoint.identification.algorithm": (
        "check_hostname",
        lambda text: text.lower() not in ("", "none"),
    ),
    "client.id": ("client_id", str),
    "socket.connection.setup.timeout.ms": ("connect_timeout_ms", _whole),
    "request.timeout.ms": ("request_timeout_ms", _whole),
    "default.api.timeout.ms": ("api_timeout_ms", _whole),
    "fetch.max.bytes": ("fetch_bytes_max", _whole),
    "max.partition.fetch.bytes": ("partition_fetch_bytes_max", _whole),
    "fetch.max.wait.ms": ("fetch_wait_ms_max", _whole),
}

_SPECIAL: Final[Mapping[str, Callable[[str, str], dict[str, Any]]]] = {
    "sasl.jaas.config": _jaas,
    "bootstrap.servers": lambda _, text: {"bootstrap": _addresses(text)},
    "ssl.truststore.type": _pem_only,
    "ssl.keystore.type": _pem_only,
}

# Of the JVM client, of a group's member, or about buffers and retries that this client does in its own way.
_IGNORED: Final = re.compile(
    r"(key|value)\.(de)?serializer|interceptor\.classes|metric.*|.*\.telemetry.*|auto\..*|enable\..*"
    r"|group\.(id|instance\.id|protocol.*|remote\.assignor)|heartbeat\..*|session\..*|max\.poll\..*"
    r"|partition(er|\.assignment).*|isolation\.level|allow\.auto\.create\.topics|exclude\.internal\.topics"
    r"|acks|retries|batch\.size|linger\.ms|buffer\.memory|compression\..*|delivery\.timeout\.ms|max\.block\.ms"
    r"|max\.(request\.size|in\.flight\.requests\.per\.connection)|transactional\.id|transaction\.timeout\.ms"
    r"|fetch\.min\.bytes|check\.crcs|client\.(dns\.lookup|rack)|connections\.max\.idle\.ms|metadata\..*"
    r"|re(ceive|connect)\..*|retry\..*|send\.buffer\.bytes|socket\..*|security\.providers"
    r"|ssl\.(protocol|provider|enabled\.protocols|cipher\.suites|secure\.random.*|keymanager.*|trustmanager.*)"
    r"|ssl\.(engine.*|keystore\.password|truststore\.password)|sasl\.(kerberos|login|client|oauthbearer)\..*"
)
