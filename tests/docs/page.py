"""A page of the documentation, as what there is to type on it and what it shows as the answer.

| fence | meaning |
|---|---|
| ```` ```console ```` | commands behind `$ `, typed in the page's shell, and what each prints |
| ```` ```bash ```` | a script, typed as a whole; `#> ` lines are its output |
| ```` ```python ```` | typed in the page's Python session |
| ```` ```python ````, ```` ```toml ```` | with a first line `# NAME.py`, `# NAME.toml`: a file of that name |
| ```` ```text ```` | behind a Python block: what it prints |

Words behind the language: `terminal=NAME` (a command that goes on, in a terminal of its own, until the page ends),
`slow` (runs in `make soak` only), `elsewhere=REASON` (not typed: REASON says where it runs, or why it cannot).

Output is compared where it is shown. In it `...` stands for anything on a line, a line `...` for any lines.
Decimals, dates, UUIDs and times in milliseconds match others of their kind. `^C` ends a command that goes on, once what
stands above it was printed.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LANGUAGES: Final = ("console", "bash", "python", "text", "toml")
PROMPT: Final = "$ "
SHOWN: Final = "#> "
INTERRUPT: Final = "^C"
_FENCE: Final = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_VARIES: Final = re.compile(
    r"""(?P<any>\.\.\.)
    | (?P<uuid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})
    | (?P<date>\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)
    | (?P<decimal>\d+\.\d+(?![.\d]))
    | (?P<millis>\b1[5-9]\d{11}\b)""",
    re.VERBOSE,
)
_PATTERNS: Final = {
    "any": r".*?",
    "uuid": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "date": r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?",
    "decimal": r"\d+\.\d+",
    "millis": r"\d{13}",
}


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    words: dict[str, str]
    text: str
    line: int

    @property
    def file_name(self) -> str | None:
        named = re.match(r"# (\w+\.(?:py|toml))$", self.text.partition("\n")[0])
        return named[1] if named else None


@dataclass(frozen=True, slots=True)
class Typed:
    """One command of a console block and the lines that are shown below it."""

    command: str
    shown: tuple[str, ...]
    line: int


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in _FENCE.finditer(text):
        language, *words = shlex.split(found["info"]) or [""]
        if language in LANGUAGES:
            parsed = {name: value for name, _, value in (word.partition("=") for word in words)}
            assert set(parsed) <= {"terminal", "slow", "elsewhere"}, f"{page.name}: what is {words}?"
            yield Block(language, parsed, found["text"], text.count("\n", 0, found.start()) + 2)


def typed_in(block: Block) -> Iterator[Typed]:
    """The commands of a console block; a line that ends in a backslash goes on in the next."""
    lines = block.text.splitlines()
    number = 0
    while number < len(lines):
        assert lines[number].startswith(PROMPT), f"line {block.line + number}: a console block begins with $"
        begin = number
        while lines[number].endswith("\\"):
            number += 1
        number += 1
        command = "\n".join(lines[begin:number]).removeprefix(PROMPT)
        first_shown = number
        while number < len(lines) and not lines[number].startswith(PROMPT):
            number += 1
        yield Typed(command, tuple(lines[first_shown:number]), block.line + begin)


def is_as_shown(shown: tuple[str, ...], printed: str) -> bool:
    """Whether the output is what the page shows; JSON may be laid out differently."""
    if _matches(shown, printed):
        return True
    if not shown or shown[0][:1] not in ("[", "{") or (as_one := _one_line(printed)) is None:
        return False
    return _matches((" ".join(line.strip() for line in shown),), as_one)


def _matches(shown: tuple[str, ...], printed: str) -> bool:
    lines = [line.rstrip() for line in printed.splitlines()]
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else _pattern(line) + r"\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)) is not None


def _pattern(line: str) -> str:
    parts: list[str] = []
    position = 0
    for found in _VARIES.finditer(line):
        parts += [re.escape(line[position : found.start()]), _PATTERNS[str(found.lastgroup)]]
        position = found.end()
    return "".join([*parts, re.escape(line[position:].rstrip())])


def _one_line(printed: str) -> str | None:
    """None: it is not one JSON value, but lines of several, or no JSON."""
    try:
        return json.dumps(json.loads(printed), ensure_ascii=False)
    except ValueError:
        return None
