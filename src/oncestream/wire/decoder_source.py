"""Python source of a decoder for one message class and version."""

from __future__ import annotations

import struct
from typing import Any

from oncestream.wire.schema import (
    Field,
    Message,
    StructType,
    binary,
    default_source,
    record_data,
    string,
    struct_classes,
    uuid,
    version_range,
)
from oncestream.wire.schema import struct as struct_kind
from oncestream.wire.source_lines import SourceLines


def write(cls: type[Message], version: int, names: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Source of `codec(buffer, position) -> message` and the names it uses."""
    writer = _Decoder(cls.__name__, version, version in cls.__flexible__, names)
    writer.line("def codec(buf, pos):")
    with writer.indented():
        writer.line("end = len(buf)")
        target = writer.struct(cls)
        writer.line(f"return {target}")
    return writer.source(), names


class _Decoder(SourceLines):
    """Collects fixed-size fields until something of variable size forces one unpack of them all."""

    def __init__(self, message: str, version: int, flexible: bool, names: dict[str, Any]) -> None:
        super().__init__(names)
        self.message = message
        self.version = version
        self.flexible = flexible
        self.run: list[tuple[str, str]] = []  # (struct code, what it is assigned to)
        names["new"] = object.__new__
        names["unpack_from"] = struct.unpack_from

    def struct(self, cls: StructType) -> str:
        """Decode a struct into a new variable, whose name is returned."""
        target = self.variable("o")
        inner = struct_classes(cls)
        tagged: dict[str, Field] = {}
        self.line(f"{target} = new({self.constant(cls.__name__, cls)})")
        for name, field in cls.__fields__.items():
            present = self.version in version_range(field.versions)
            if present and field.tag is None:
                continue
            self.line(f"{target}.{name} = {self.default(name, field, inner)}")
            if present:
                tagged[name] = field
        for name, field in cls.__fields__.items():
            if self.version in version_range(field.versions) and field.tag is None:
                self.field(f"{target}.{name}", field, inner.get(name))
        if self.flexible:
            self.tags(target, tagged, inner)
        self.flush()
        return target

    def default(self, name: str, field: Field, inner: dict[str, Any]) -> str:
        if field.default is ... and not field.is_array:
            return self.constant(inner[name].__name__, inner[name]) + "()"
        return default_source(name, field)

    def field(self, target: str, field: Field, inner: StructType | None) -> None:
        nullable = self.version in version_range(field.nullable)
        if field.is_array:
            self.array(target, field, inner, nullable)
        elif field.kind.code is not None:
            self.run.append((field.kind.code, target))
        elif inner is not None:
            # Kafka marks an absent struct by -1, but inside a tagged field by 0.
            self.inline_struct(target, inner, nullable, present_from=0 if field.tag is None else 1)
        else:
            self.text_or_bytes(target, field, nullable)

    def inline_struct(self, target: str, inner: StructType, nullable: bool, present_from: int) -> None:
        if not nullable:
            self.flush()
            self.line(f"{target} = {self.struct(inner)}")
            return
        present = self.variable("n")
        self.run.append(("b", present))
        self.flush()
        self.line(f"if {present} < {present_from}:")
        self.line(f"    {target} = None")
        self.line("else:")
        with self.indented():
            self.line(f"{target} = {self.struct(inner)}")

    def text_or_bytes(self, target: str, field: Field, nullable: bool) -> None:
        length = self.length("h" if field.kind is string else "i", target, nullable)
        stop = self.variable("stop")
        with self.indented():
            if field.kind is string and self.flexible:
                self.line(f"if {length} > 32767: {self.failure(target, f'a string of {{{length}}} bytes')}")
            self.line(f"{stop} = pos + {length}")
            self.line(f"if {stop} > end: {self.failure(target, f'{{{length}}} bytes announced')}")
            self.line(f"{target} = {_FROM_SLICE[field.kind.name].format(f'buf[pos:{stop}]')}")
            self.line(f"pos = {stop}")

    def array(self, target: str, field: Field, inner: StructType | None, nullable: bool) -> None:
        length = self.length("i", target, nullable)
        with self.indented():
            size = self.size_min(field, inner)
            self.line(
                f"if {length} * {size} > end - pos: {self.failure(target, f'{{{length}}} entries announced')}"
            )
            code = field.kind.code
            if code is not None and field.kind is not uuid:
                self.line(f'{target} = list(unpack_from(f">{{{length}}}{code}", buf, pos))')
                self.line(f"pos += {length} * {size}")
                return
            items, item = self.variable("a"), self.variable("i")
            self.line(f"{target} = {items} = []")
            self.line(f"for _ in range({length}):")
            with self.indented():
                if inner is not None:
                    item = self.struct(inner)
                else:
                    self.field(item, field._replace(is_array=False, nullable="none"), None)
                    self.flush()
                self.line(f"{items}.append({item})")

    def length(self, code: str, target: str, nullable: bool) -> str:
        """Read a length; what follows must be the indented block for the case that it is not null."""
        length = self.variable("n")
        self.run.append(("B" if self.flexible else code, length))
        self.flush()
        if self.flexible:
            self.line(f"if {length} > 127: {length}, pos = read_uvarint(buf, pos - 1)")
            self.line(f"{length} -= 1")
        self.line(f"if {length} < 0:")
        self.line(f"    {target + ' = None' if nullable else self.failure(target, 'null')}")
        self.line("else:")
        return length

    def tags(self, target: str, tagged: dict[str, Field], inner: dict[str, Any]) -> None:
        count, tag, size, stop = (self.variable(name) for name in ("n", "tag", "size", "stop"))
        self.run.append(("B", count))
        self.flush()
        self.line(f"if {count}:")
        with self.indented():
            self.line(f"if {count} > 127: {count}, pos = read_uvarint(buf, pos - 1)")
            self.line(f"for _ in range({count}):")
            with self.indented():
                self.line(f"{tag}, pos = read_uvarint(buf, pos)")
                self.line(f"{size}, pos = read_uvarint(buf, pos)")
                self.line(f"{stop} = pos + {size}")
                self.line(f"if {stop} > end: {self.failure('tagged field', f'{{{size}}} bytes announced')}")
                for name, field in tagged.items():
                    self.line(f"if {tag} == {field.tag}:")
                    with self.indented():
                        self.field(f"{target}.{name}", field, inner.get(name))
                        self.flush()
                        self.line(
                            f"if pos != {stop}: {self.failure(f'{target}.{name}', 'tag size is wrong')}"
                        )
                self.line(f"pos = {stop}")

    def flush(self) -> None:
        run, self.run = self.run, []
        if [code for code, _ in run] == ["B"]:
            self.line(f"{run[0][1]} = buf[pos]")
            self.line("pos += 1")
        elif run:
            layout = struct.Struct(">" + "".join(code for code, _ in run))
            unpack = self.constant(f"unpack_{layout.format[1:]}", layout.unpack_from)
            self.line("".join(f"{target}, " for _, target in run) + f"= {unpack}(buf, pos)")
            self.line(f"pos += {layout.size}")

    def failure(self, target: str, problem: str) -> str:
        field = target.partition(".")[2] or target
        where = f"{self.message} v{self.version}: {field} at byte {{pos}} of {{end}}"
        return f'raise DecodeError(f"{where}: {problem}")'

    def size_min(self, field: Field, inner: StructType | None) -> int:
        """Least bytes that one element takes."""
        if field.kind.code is not None:
            return struct.calcsize(">" + field.kind.code)
        if inner is None:
            return 1 if self.flexible else 2
        classes = struct_classes(inner)
        size = int(self.flexible)
        for name, each in inner.__fields__.items():
            if each.tag is None and self.version in version_range(each.versions):
                size += self.field_size_min(each, classes.get(name))
        return max(size, 1)

    def field_size_min(self, field: Field, inner: StructType | None) -> int:
        if field.kind is struct_kind and self.version in version_range(field.nullable):
            return 1
        if field.is_array or field.kind in (binary, record_data):
            return 1 if self.flexible else 4
        return self.size_min(field, inner)


_FROM_SLICE = {"string": 'str({}, "utf-8")', "binary": "bytes({})", "record_data": "{}"}
