"""Python source of an encoder for one message class and version."""

from __future__ import annotations

import struct
from typing import Any

from oncestream.wire.schema import (
    Field,
    Message,
    StructType,
    string,
    struct_classes,
    uuid,
    version_range,
)
from oncestream.wire.source_lines import SourceLines


def write(cls: type[Message], version: int, names: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Source of `codec(message, out)`, which appends to the bytearray `out`, and the names it uses."""
    writer = _Encoder(version, version in cls.__flexible__, names)
    writer.line("def codec(message, out):")
    with writer.indented():
        writer.struct("message", cls)
        writer.flush()
        writer.line("return")
    return writer.source(), names


class _Encoder(SourceLines):
    """Collects fixed-size values until something of variable size forces one pack of them all."""

    def __init__(self, version: int, flexible: bool, names: dict[str, Any]) -> None:
        super().__init__(names)
        self.version = version
        self.flexible = flexible
        self.out = "out"
        self.run: list[tuple[str, str]] = []  # (struct code, expression); code "x" is a zero byte
        names["pack"] = struct.pack

    def struct(self, source: str, cls: StructType) -> None:
        inner = struct_classes(cls)
        tagged: dict[str, Field] = {}
        for name, field in cls.__fields__.items():
            if self.version not in version_range(field.versions):
                continue
            if field.tag is None:
                self.field(f"{source}.{name}", field, inner.get(name))
            else:
                tagged[name] = field
        if tagged:
            self.tags(source, tagged, inner)
        elif self.flexible:
            self.run.append(("x", ""))

    def field(self, source: str, field: Field, inner: StructType | None) -> None:
        nullable = self.version in version_range(field.nullable)
        if field.is_array:
            self.array(source, field, inner, nullable)
        elif field.kind.code is not None:
            self.run.append((field.kind.code, source))
        elif inner is not None:
            # Kafka marks an absent struct by -1, but inside a tagged field by 0.
            self.inline_struct(source, inner, nullable, absent=255 if field.tag is None else 0)
        else:
            self.text_or_bytes(source, field, nullable)

    def inline_struct(self, source: str, inner: StructType, nullable: bool, absent: int) -> None:
        value = self.variable("o")
        self.line(f"{value} = {source}")
        if not nullable:
            self.struct(value, inner)
            return
        self.flush()
        self.line(f"if {value} is None:")
        self.line(f"    {self.out}.append({absent})")
        self.line("else:")
        with self.indented():
            self.line(f"{self.out}.append(1)")
            self.struct(value, inner)
            self.flush()

    def text_or_bytes(self, source: str, field: Field, nullable: bool) -> None:
        value = self.variable("s")
        self.line(f"{value} = {source}")
        if field.kind is string:
            self.line(
                f"if {value} is not None: {value} = {value}.encode()"
                if nullable
                else f"{value} = {value}.encode()"
            )
        self.length("h" if field.kind is string else "i", value, nullable)
        self.line(f"if {value}: {self.out} += {value}")

    def array(self, source: str, field: Field, inner: StructType | None, nullable: bool) -> None:
        items = self.variable("a")
        self.line(f"{items} = {source}")
        self.length("i", items, nullable)
        self.line(f"if {items}:")
        with self.indented():
            code = field.kind.code
            if code is not None and field.kind is not uuid:
                self.line(f'{self.out} += pack(f">{{len({items})}}{code}", *{items})')
                return
            item = self.variable("i")
            self.line(f"for {item} in {items}:")
            with self.indented():
                if inner is not None:
                    self.struct(item, inner)
                else:
                    self.field(item, field._replace(is_array=False, nullable="none"), None)
                self.flush()

    def length(self, code: str, value: str, nullable: bool) -> None:
        """Write the length of `value`, with what was collected before it."""
        if not self.flexible:
            absent = f"-1 if {value} is None else " if nullable else ""
            self.run.append((code, f"{absent}len({value})"))
            self.flush()
            return
        length = self.variable("n")
        absent = f"0 if {value} is None else " if nullable else ""
        self.line(f"{length} = {absent}len({value}) + 1")
        run = self.run
        self.run = [*run, ("B", length)]
        self.line(f"if {length} < 128:")
        with self.indented():
            self.flush()
        self.line("else:")
        with self.indented():
            self.run = run
            self.flush()
            self.line(f"{self.out} += uvarint({length})")

    def tags(self, source: str, tagged: dict[str, Field], inner: dict[str, Any]) -> None:
        self.flush()
        set_to = {
            name: self.differs(f"{source}.{name}", field, inner.get(name)) for name, field in tagged.items()
        }
        count, outer = self.variable("n"), self.out
        self.line(f"if {' or '.join(set_to.values())}:")
        with self.indented():
            self.line(f"{count} = {' + '.join(f'bool({test})' for test in set_to.values())}")
            self.line(f"{outer} += uvarint({count})")
            for name, field in sorted(tagged.items(), key=lambda pair: pair[1].tag or 0):
                self.line(f"if {set_to[name]}:")
                with self.indented():
                    self.out = self.variable("out")
                    self.line(f"{self.out} = bytearray()")
                    self.field(f"{source}.{name}", field, inner.get(name))
                    self.flush()
                    self.line(f"{outer} += uvarint({field.tag})")
                    self.line(f"{outer} += uvarint(len({self.out}))")
                    self.line(f"{outer} += {self.out}")
                    self.out = outer
        self.line("else:")
        self.line(f"    {outer}.append(0)")

    def differs(self, source: str, field: Field, inner: StructType | None) -> str:
        """An expression that tells whether a field has another value than its default."""
        if field.default is None:
            return f"{source} is not None"
        if inner is None or field.is_array:
            return f"{source} != {'[]' if field.default is ... else repr(field.default)}"
        classes = struct_classes(inner)
        tests = [
            self.differs(f"{source}.{name}", each, classes.get(name))
            for name, each in inner.__fields__.items()
            if self.version in version_range(each.versions)
        ]
        if self.version in version_range(field.nullable):
            tests.insert(0, f"{source} is None")
        return f"({' or '.join(tests)})"

    def flush(self) -> None:
        run, self.run = self.run, []
        if not run:
            return
        codes = "".join(code for code, _ in run)
        if codes == "x":
            self.line(f"{self.out}.append(0)")
        elif codes == "B":
            self.line(f"{self.out}.append({run[0][1]})")
        else:
            pack = self.constant(f"pack_{codes}", struct.Struct(">" + codes).pack)
            values = ", ".join(value for code, value in run if code != "x")
            self.line(f"{self.out} += {pack}({values})")
