"""Random requests that make sense to a broker: real topic names and ids, small numbers, whole batches."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from oncestream.records.batch import HEADER_SIZE, BatchHeader, join_batch, parse_header
from oncestream.records.compression import Codec
from oncestream.wire.schema import Field, Message, Struct, StructType, struct_classes, version_range
from tests.broker.kit import batch

INTEGER_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
SMALL: Final = (-3, -2, -1, -1, 0, 0, 0, 1, 1, 2, 3, 5, 40)
WORDS: Final = (
    "",
    "group-a",
    "group-b",
    "consumer",
    "range",
    "member",
    "retention.ms",
    "cleanup.policy",
    "compact",
    "compression.type",
    "zstd",
    "max.message.bytes",
    "1000",
    "1",
    "no such thing \N{SNOWMAN}",
    "x" * 300,
)


class MessageMaker:
    """Makes requests of any class and version about the topics it was told."""

    def __init__(self, rng: random.Random, names: Sequence[str], ids: Sequence[bytes]) -> None:
        self._rng = rng
        self._names = [*names, "no-such-topic"]
        self._ids = [*ids, bytes(16), bytes(range(16))]
        self._batches = [*_batches()]

    def request(self, cls: type[Message], version: int) -> Any:
        return self._struct(cls, version)

    def _struct(self, cls: StructType, version: int) -> Any:
        inner = struct_classes(cls)
        return cls(
            **{
                name: self._field(name, field, inner.get(name), version)
                for name, field in cls.__fields__.items()
                if version in version_range(field.versions)
            }
        )

    def _field(self, name: str, field: Field, inner: type[Struct] | None, version: int) -> Any:
        if version in version_range(field.nullable) and self._rng.random() < 0.1:
            return None
        if field.is_array:
            count = self._rng.choice((0, 1, 1, 1, 2, 3))
            return [self._value(name, field, inner, version) for _ in range(count)]
        return self._value(name, field, inner, version)

    def _value(self, name: str, field: Field, inner: type[Struct] | None, version: int) -> Any:
        rng, kind = self._rng, field.kind.name
        if inner is not None:
            return self._struct(inner, version)
        if kind in INTEGER_BITS:
            if rng.random() < 0.9:
                return rng.choice(SMALL)
            bound = 1 << (INTEGER_BITS[kind] - 1)
            return rng.choice((-bound, bound - 1, rng.randrange(-bound, bound)))
        if kind == "string":
            if "topic" in name or (name == "name" and rng.random() < 0.8) or rng.random() < 0.1:
                return rng.choice(self._names)
            return rng.choice(WORDS)
        makers: dict[str, Callable[[], Any]] = {
            "boolean": lambda: rng.random() < 0.5,
            "uint16": lambda: rng.randrange(1 << 16),
            "uint32": lambda: rng.randrange(1 << 32),
            "float64": rng.random,
            "uuid": lambda: rng.choice(self._ids),
            "binary": lambda: rng.randbytes(rng.choice((0, 1, 10, 100))),
            "record_data": lambda: rng.choice(self._batches),
        }
        return makers[kind]()


def _batches() -> list[bytes]:
    """Whole ones of every codec, and some whose checksum is right and whose content is not."""
    values = (b"one", None, b"x" * 200)
    whole = [batch(*values, codec=codec) for codec in Codec]
    whole += [
        batch(*values, producer_id=id_, epoch=0, sequence=n) for id_ in (0, 1) for n in (0, 3, 2**31 - 1)
    ]
    whole.append(batch(*values, key=None))
    lying = []
    for one in whole[:6]:
        header, records = parse_header(one), one[HEADER_SIZE:]
        lying += [_with(header, records, count=2**31 - 1), _with(header, records, count=-1)]
        lying += [_with(header, records, attributes=header.attributes ^ bit) for bit in (1, 7, 8, 16, 32, 64)]
        lying += [_with(header, records, base_timestamp=-(2**63), max_timestamp=2**63 - 1)]
        lying += [_with(header, records[: len(records) // 2]), _with(header, b"\xff" * 40)]
        lying += [_with(header, records, last_offset_delta=-1), _with(header, records, producer_id=2**63 - 1)]
    return whole * 3 + lying


def _with(header: BatchHeader, records: bytes, **changes: int) -> bytes:
    return bytes(join_batch(header._replace(**changes), records))
