"""The broker's settings: one table, filled from a TOML file, then the environment, then flags.

A plain dataclass on purpose: importing a validation framework would cost more than the whole start-up.
"""

from __future__ import annotations

import os
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from oncestream.errors import BadSetting

ENVIRONMENT_PREFIX: Final = "ONCESTREAM_BROKER_"
KIB: Final = 1024
MIB: Final = 1024 * 1024


class Durability(StrEnum):
    """When an acknowledged record is safe: on the disk, or in the operating system's cache."""

    FSYNC = "fsync"
    OS = "os"


class ClientAuth(StrEnum):
    """Whether a TLS client shows a certificate of its own."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


def setting(default: Any, doc: str, low: int | None = None, high: int | None = None) -> Any:
    made: dict[str, Any] = {"metadata": {"doc": doc, "low": low, "high": high}}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), **made)
    return field(default=default, **made)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Every setting of the broker. docs/settings.md is made from this table."""

    data: Path = setting(Path("oncestream-data"), "folder that holds the logs; made if it is not there")
    listen: str = setting(
        "127.0.0.1:9092",
        "address to listen on, HOST:PORT; port 0 takes any free one; several as PROTOCOL://HOST:PORT,..."
        " with PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL",
    )
    advertise: str = setting(
        "",
        "address given to clients, HOST:PORT; empty: the one listened on (0.0.0.0 or [::]: the one by which the"
        " client has come); for several listeners PROTOCOL://HOST:PORT,...",
    )
    insecure: bool = setting(
        False, "allow a listener beyond loopback although it has no authentication, or SASL without TLS"
    )
    tls_certificate: str = setting(
        "", "PEM file of the broker's certificate and its chain; with it, HOST:PORT listens with TLS"
    )
    tls_key: str = setting("", "PEM file of its private key; empty: it stands in the file of the certificate")
    tls_key_password_file: str = setting("", "file that holds the password of the private key")
    tls_client_ca: str = setting("", "PEM file of the authorities whose client certificates are taken")
    tls_client_auth: ClientAuth = setting(
        ClientAuth.NONE, "certificates of clients: none, requested (checked if shown) or required"
    )
    sasl_mechanisms: str = setting(
        "", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, separated by commas; with them, clients must log in"
    )
    authorization: bool = setting(False, "check ACLs; false: everybody may do everything")
    super_users: str = setting("", "who may do everything, separated by commas, or by semicolons: User:admin")
    allow_if_no_acl: bool = setting(False, "with authorization: what no ACL names is open to everybody")
    audit: bool = setting(True, "with authorization: record who was allowed or refused what")
    node_id: int = setting(1, "this broker's id in metadata", 0, 2**31 - 1)
    durability: Durability = setting(
        Durability.FSYNC,
        "fsync: acks=all is answered after fdatasync; os: after the write reached the operating system",
    )
    auto_create_topics: bool = setting(True, "create a topic when a client first asks for it")
    default_partitions: int = setting(1, "partitions of a topic created without a number", 1, 100_000)
    topic_defaults: dict[str, str] = setting(
        {}, "defaults of topic configurations by their Kafka names, such as retention.ms"
    )
    partitions_max: int = setting(20_000, "partitions on this broker, all topics together", 1, 1_000_000)
    connections_max: int = setting(1_000, "client connections at once; more are refused", 1, 100_000)
    frame_bytes_max: int = setting(100 * MIB, "size of one request; a larger one closes its connection", KIB)
    in_flight_bytes_max: int = setting(
        512 * MIB, "bytes of requests being received, all connections together", MIB
    )
    requests_in_flight_max: int = setting(
        128, "requests of one connection waiting for an answer; then it is read no further", 1, 100_000
    )
    idle_ms_max: int = setting(600_000, "a connection idle for longer is closed", 1_000)
    stall_ms_max: int = setting(
        30_000, "a request half received, or an answer not taken, for longer closes the connection", 100
    )
    fetch_bytes_max: int = setting(55 * MIB, "size of one fetch answer", KIB)
    fetch_wait_ms_max: int = setting(300_000, "how long a fetch may wait for data", 0)
    busy_poll_us: int = setting(
        250,
        "with durability os: while requests follow one another this soon, the broker awaits the next one without"
        " going to sleep; 0: it always sleeps, as it does in a thread of a program and where it has one core",
        0,
        1_000_000,
    )
    sync_threads: int = setting(4, "threads that call fdatasync", 1, 64)
    housekeeping_ms: int = setting(
        30_000, "how often retention, compaction, checkpoints and expiry are looked at", 10
    )
    producer_id_expiration_ms: int = setting(
        86_400_000, "an idle producer's sequence numbers are forgotten after this", 1
    )
    group_initial_rebalance_delay_ms: int = setting(
        100, "how long a new group waits for more members (Apache Kafka: 3000)", 0
    )
    group_session_timeout_ms_min: int = setting(6_000, "shortest session timeout of a group's member", 1)
    group_session_timeout_ms_max: int = setting(1_800_000, "longest session timeout of a group's member", 1)
    group_size_max: int = setting(10_000, "members of one group", 1)
    consumer_group_session_timeout_ms: int = setting(
        45_000, "session timeout of members that use the consumer protocol (KIP-848)", 1
    )
    consumer_group_heartbeat_interval_ms: int = setting(
        5_000, "how often members that use the consumer protocol (KIP-848) send heartbeats", 1
    )
    offsets_partitions: int = setting(8, "partitions of the offsets topic, when it is made", 1, 1_000)
    offsets_retention_ms: int = setting(604_800_000, "offsets not in use are forgotten after this", 1)
    offset_metadata_bytes_max: int = setting(4_096, "size of the metadata of a committed offset", 0)
    transaction_timeout_ms_max: int = setting(
        900_000, "longest time a transaction may take; a producer that asks for more is refused", 1, 2**31 - 1
    )
    transactional_id_expiration_ms: int = setting(
        604_800_000, "a transactional id that nobody used for this long is forgotten", 1
    )
    transaction_partitions: int = setting(16, "partitions of the transaction log, when it is made", 1, 1_000)
    open_files_max: int = setting(512, "log files kept open", 16, 1_000_000)


def load_settings(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> BrokerSettings:
    """File, then environment, then flags: the later one wins. Unknown names and bad values are refused."""
    values: dict[str, Any] = {}
    if file is not None:
        for name, value in _read_file(file).items():
            values[name] = _convert(name, value, f"file {file}")
    for variable, value in (os.environ if environment is None else environment).items():
        if variable.startswith(ENVIRONMENT_PREFIX):
            name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
            values[name] = _convert(name, value, f"environment variable {variable}")
    for name, value in (flags or {}).items():
        values[name] = _convert(name, value, "the command line")
    return BrokerSettings(**values)


def parse_address(text: str, name: str, origin: str = "the settings") -> tuple[str, int]:
    """HOST:PORT, also [::1]:PORT."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise BadSetting(name=name, origin=origin, reason=f"{text!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _read_file(file: Path) -> dict[str, Any]:
    import tomllib  # only a broker with a settings file pays for it

    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise BadSetting(
            name="config", origin="the command line", reason=f"cannot read {file}: {error}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(name="config", origin=f"file {file}", reason=f"not TOML: {error}") from None


def _convert(name: str, value: object, origin: str) -> object:
    spec = next((f for f in fields(BrokerSettings) if f.name == name), None)
    if spec is None:
        raise BadSetting(name=name, origin=origin, reason=f"there is no such setting{_nearest(name)}")
    kind = typing.get_type_hints(BrokerSettings)[name]
    try:
        return _CONVERTERS[typing.get_origin(kind) or kind](value, spec.metadata)
    except ValueError as error:
        raise BadSetting(name=name, origin=origin, reason=str(error)) from None


def _nearest(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, [f.name for f in fields(BrokerSettings)], 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _to_int(value: object, meta: Mapping[str, Any]) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} is not a whole number")
    try:
        number = int(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a whole number") from None
    low, high = meta["low"], meta["high"]
    if (low is not None and number < low) or (high is not None and number > high):
        raise ValueError(f"{number} is not between {low} and {'any' if high is None else high}")
    return number


def _to_bool(value: object, _meta: Mapping[str, Any]) -> bool:
    if isinstance(value, bool):
        return value
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if str(value).lower() not in known:
        raise ValueError(f"{value!r} is neither true nor false")
    return known[str(value).lower()]


def _to_text(value: object, _meta: Mapping[str, Any]) -> str:
    if not isinstance(value, str | Path):
        raise ValueError(f"{value!r} is not text")
    return str(value)


def _to_path(value: object, _meta: Mapping[str, Any]) -> Path:
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ValueError(f"{value!r} is not a path")
    return Path(value)


def _to_choice(kind: type[StrEnum]) -> Callable[[object, Mapping[str, Any]], StrEnum]:
    def convert(value: object, _meta: Mapping[str, Any]) -> StrEnum:
        try:
            return kind(str(value))
        except ValueError:
            raise ValueError(f"{value!r} is neither {' nor '.join(kind)}") from None

    return convert


def _to_table(value: object, _meta: Mapping[str, Any]) -> dict[str, str]:
    """A TOML table, or `name=value,name=value` from the environment or a flag; the values are checked later."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    table: dict[str, str] = {}
    last = ""
    for part in filter(str.strip, str(value).split(",")):
        key, equals, item = part.partition("=")
        if equals:
            last = key.strip()
            table[last] = item.strip()
        elif last:
            table[last] += f",{part.strip()}"  # a value that is itself a list
        else:
            raise ValueError(f"{value!r} is not name=value,name=value")
    return table


def _plain(item: object) -> str:
    return str(item).lower() if isinstance(item, bool) else str(item)


_CONVERTERS: Final[Mapping[Any, Any]] = {
    int: _to_int,
    bool: _to_bool,
    str: _to_text,
    Path: _to_path,
    Durability: _to_choice(Durability),
    ClientAuth: _to_choice(ClientAuth),
    dict: _to_table,
}
