"""Errors of errors.py that come from another process as text: the end of a traceback."""

from __future__ import annotations

import ast
import re
from functools import cache
from string import Formatter
from typing import Final

from oncestream import errors
from oncestream.errors import OncestreamError

NAMED: Final = re.compile(r"\boncestream\.errors\.(\w+): ")
REPR: Final = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^'"].*?"""
AFTER: Final = r"\s*(?:SQLSTATE:|\n|\Z)"  # Spark puts its own words behind the message of a Python error


def error_in(text: str) -> OncestreamError | None:
    """The last error that a text tells of; None where it tells of none."""
    for named in reversed(list(NAMED.finditer(text))):
        kind = getattr(errors, named[1], None)
        if isinstance(kind, type) and issubclass(kind, OncestreamError):
            found = re.compile(_pattern(f"{kind.cause}; {kind.suggestion}")).match(text, named.end())
            if found is not None:
                return kind(**dict(_fact(name, value) for name, value in found.groupdict().items()))
    return None


@cache
def _pattern(template: str) -> str:
    """Matches what `template.format` makes; a fact that was put in by `!r` ends with `_r`."""
    parts: list[str] = []
    seen: set[str] = set()
    for literal, field, _, conversion in Formatter().parse(template):
        parts.append(re.escape(literal))
        if field is not None:
            first = field not in seen and f"{field}_r" not in seen
            name = f"{field}_r" if conversion == "r" else field
            text = REPR if conversion == "r" else ".*?"
            parts.append(f"(?P<{name}>{text})" if first else f"(?:{text})")
            seen.add(name)
    return f"(?s:{''.join(parts)}){AFTER}"


def _fact(name: str, text: str) -> tuple[str, object]:
    if not name.endswith("_r"):
        return name, text
    try:
        return name.removesuffix("_r"), ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return name.removesuffix("_r"), text
