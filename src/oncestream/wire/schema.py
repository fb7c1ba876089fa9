"""How a message is described: one class for all its versions, each field saying which versions carry it.

    class PushRequest(Message, api_key=ApiKey.PUSH, versions="0-3", flexible="2+"):
        name: str = string()
        note: str | None = string("1+", nullable="1+", default=None)
        parts: list[Part] = structs()

Versions are written as in Kafka's schemas: "3", "1-4", "2+", "none". A class becomes slotted, with a
keyword-only constructor in which every field has its default, equality and a repr.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, dataclass_transform

Buffer: TypeAlias = bytes | bytearray | memoryview

NO_UUID: Final = bytes(16)
NEWEST: Final = 32767


class Field(NamedTuple):
    """One field of a struct; `kind` of an array is that of its elements."""

    kind: Kind
    is_array: bool
    versions: str
    nullable: str
    default: Any
    tag: int | None


class Kind:
    """A type on the wire. Calling it in a class body declares a field of that type."""

    __slots__ = ("code", "default", "name")

    def __init__(self, name: str, code: str | None, default: Any) -> None:
        self.name = name
        self.code = code  # of the struct module, for types of fixed size
        self.default = default

    def __call__(
        self,
        versions: str = "0+",
        *,
        nullable: str = "none",
        default: Any = ...,
        tag: int | None = None,
    ) -> Any:
        return Field(self, False, versions, nullable, self.default if default is ... else default, tag)


boolean: Final = Kind("boolean", "?", False)
int8: Final = Kind("int8", "b", 0)
int16: Final = Kind("int16", "h", 0)
uint16: Final = Kind("uint16", "H", 0)
int32: Final = Kind("int32", "i", 0)
uint32: Final = Kind("uint32", "I", 0)
int64: Final = Kind("int64", "q", 0)
float64: Final = Kind("float64", "d", 0.0)
uuid: Final = Kind("uuid", "16s", NO_UUID)
string: Final = Kind("string", None, "")
binary: Final = Kind("binary", None, b"")
record_data: Final = Kind("record_data", None, None)
struct: Final = Kind("struct", None, ...)


def array(
    kind: Kind, versions: str = "0+", *, nullable: str = "none", default: Any = ..., tag: int | None = None
) -> Any:
    """A list of numbers, strings or uuids."""
    return Field(kind, True, versions, nullable, default, tag)


def structs(
    versions: str = "0+", *, nullable: str = "none", default: Any = ..., tag: int | None = None
) -> Any:
    """A list of structs, of the class that the annotation names."""
    return Field(struct, True, versions, nullable, default, tag)


def version_range(versions: str) -> range:
    """The versions that "2", "1-4", "3+" or "none" stand for."""
    if versions == "none":
        return range(0)
    if versions.endswith("+"):
        return range(int(versions[:-1]), NEWEST)
    first, _, last = versions.partition("-")
    return range(int(first), int(last or first) + 1)


@dataclass_transform(kw_only_default=True)
class StructType(type):
    """Turns the declared fields into slots."""

    __fields__: dict[str, Field]

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> StructType:
        fields = {key: value for key, value in namespace.items() if isinstance(value, Field)}
        body = {key: value for key, value in namespace.items() if key not in fields}
        body["__slots__"] = tuple(fields)
        cls = super().__new__(mcs, name, bases, body, **options)
        cls.__fields__ = fields
        return cls


class Struct(metaclass=StructType):
    """A group of fields inside a message."""

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        # Compiled at the first call: most of the classes a process imports are never constructed by it.
        cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).__fields__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).__fields__)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """A whole request, response or record, with the versions in which it can be written."""

    __api_key__: ClassVar[int]
    __versions__: ClassVar[range]
    __flexible__: ClassVar[range]
    __decoders__: ClassVar[dict[int, Any]]
    __encoders__: ClassVar[dict[int, Any]]

    def __init_subclass__(cls, *, versions: str, flexible: str, api_key: int = -1) -> None:
        cls.__api_key__ = api_key
        cls.__versions__ = version_range(versions)
        cls.__flexible__ = version_range(flexible)
        cls.__decoders__ = {}
        cls.__encoders__ = {}


def struct_classes(cls: StructType) -> dict[str, type[Struct]]:
    """The class of every field of `cls` that is a struct or a list of structs, from its annotation."""
    module = vars(sys.modules[cls.__module__])
    found: dict[str, type[Struct]] = {}
    for name, field in cls.__fields__.items():
        if field.kind is struct:
            annotation = cls.__annotations__[name]
            found[name] = module[annotation.removesuffix(" | None").removeprefix("list[").removesuffix("]")]
    return found


def default_source(name: str, field: Field) -> str:
    """Python source of a field's default; a struct's class goes by the name `<field>_class`."""
    if field.default is not ...:
        return repr(field.default)
    return "[]" if field.is_array else f"{name}_class()"


def _constructor(cls: StructType) -> Any:
    names = {f"{name}_class": inner for name, inner in struct_classes(cls).items()}
    parameters = "".join(f", {name}=..." for name in cls.__fields__)
    lines = [f"def __init__(self{', *' if parameters else ''}{parameters}):", " pass"]
    for name, field in cls.__fields__.items():
        lines.append(f" self.{name} = {default_source(name, field)} if {name} is ... else {name}")
    exec("\n".join(lines), names)  # noqa: S102 - the source is made of field names in this package
    return names["__init__"]
