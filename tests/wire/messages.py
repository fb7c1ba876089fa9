"""Every message class of wire/ and random values of it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from oncestream.wire import embedded, messages
from oncestream.wire.schema import Field, Message, Struct, StructType, struct_classes, version_range


class Case(NamedTuple):
    """A message class and one of its versions."""

    cls: type[Message]
    version: int

    @property
    def flexible(self) -> bool:
        return self.version in self.cls.__flexible__

    def __repr__(self) -> str:
        return f"{self.cls.__name__}-v{self.version}"


def classes_of(package: Any) -> Iterator[type[Message]]:
    for module in pkgutil.iter_modules(package.__path__):
        loaded = importlib.import_module(f"{package.__name__}.{module.name}")
        for value in vars(loaded).values():
            if isinstance(value, type) and issubclass(value, Message) and value.__module__ == loaded.__name__:
                yield value


API_CASES = [Case(cls, version) for cls in classes_of(messages) for version in cls.__versions__]
EMBEDDED_CASES = [Case(cls, version) for cls in classes_of(embedded) for version in cls.__versions__]
ALL_CASES = API_CASES + EMBEDDED_CASES


def by_class(cases: Iterable[Case]) -> list[Any]:
    """The cases of each message class, as one parameter."""
    grouped: dict[type[Message], list[Case]] = {}
    for case in cases:
        grouped.setdefault(case.cls, []).append(case)
    return [pytest.param(of_class, id=cls.__name__) for cls, of_class in grouped.items()]


_INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXT = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.sampled_from(["", "topic-a", "é" * 70, "x" * 126, "x" * 127, "x" * 128, "y" * 300]),
)
_BYTES = st.one_of(st.binary(max_size=12), st.sampled_from([bytes(126), bytes(127), bytes(20_000)]))


def message_of(case: Case) -> st.SearchStrategy[Any]:
    """Messages whose fields outside the version have their defaults."""
    return _struct(case.cls, case.version)


def _struct(cls: StructType, version: int) -> st.SearchStrategy[Any]:
    inner = struct_classes(cls)
    values = {
        name: _field(field, inner.get(name), version)
        for name, field in cls.__fields__.items()
        if version in version_range(field.versions)
    }
    return st.builds(cls, **values)


def _field(field: Field, inner: type[Struct] | None, version: int) -> st.SearchStrategy[Any]:
    value = _value(field, inner, version)
    if field.is_array:
        value = st.lists(value, max_size=3)
    if version in version_range(field.nullable):
        value = st.none() | value
    return value


def _value(field: Field, inner: type[Struct] | None, version: int) -> st.SearchStrategy[Any]:
    kind = field.kind.name
    if inner is not None:
        return _struct(inner, version)
    if kind in _INTEGER_BITS:
        bound = 1 << (_INTEGER_BITS[kind] - 1)
        return st.integers(-bound, bound - 1)
    return {
        "boolean": st.booleans(),
        "uint16": st.integers(0, 65535),
        "float64": st.floats(allow_nan=False),
        "uuid": st.binary(min_size=16, max_size=16),
        "string": _TEXT,
        "binary": _BYTES,
        "record_data": _BYTES,
    }[kind]
