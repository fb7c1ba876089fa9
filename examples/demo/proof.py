"""Reads everything back and compares it with what the files say: the demo's proof, as a table."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rich.table import Table

from examples.demo.files import REASONS, Fault, File, Transaction
from examples.demo.run import KILL_SHARES, Story
from examples.demo.topics import DEAD, INPUT, OUTPUT, Position, Record, committed_positions, read_all


class Compared(NamedTuple):
    """One line of the proof; `wrong` counts what is there but should not be."""

    what: str
    expected: int
    found: int
    missing: int = 0
    doubled: int = 0
    wrong: int = 0

    @property
    def holds(self) -> bool:
        return self.expected == self.found and not (self.missing or self.doubled or self.wrong)


@dataclass(frozen=True, slots=True)
class Proof:
    lines: list[Compared]
    hidden: int  # rows of transactions that never committed

    @property
    def holds(self) -> bool:
        return all(line.holds for line in self.lines)

    def table(self, seconds: float) -> Table:
        table = Table(
            title="what came out, read back with read_committed",
            caption=f"{seconds:.0f} s; {self.hidden:,} rows of killed transactions are in the log,"
            " and no reader sees them",
        )
        table.add_column("")
        for heading in ("expected", "found", "missing", "doubled", "wrong", "holds"):
            table.add_column(heading, justify="right")
        for line in self.lines:
            verdict = "[green]yes" if line.holds else "[red]NO"
            table.add_row(line.what, *(f"{figure:,}" for figure in line[1:]), verdict)
        return table


def prove(servers: str, address: str, stands: Mapping[Position, File], story: Story) -> Proof:
    """`stands`: where the URL of which file stands in the input."""
    files = {file.path: file for file in stands.values()}.values()
    rows = [row for file in files for row in file.rows]
    records = read_all(servers, OUTPUT)
    lines = [
        Compared("kills of the pipeline", len(KILL_SHARES), len(story.kills)),
        Compared("exit code of the last run", 0, -1 if story.exit_code is None else story.exit_code),
        _compared("rows of good files", rows, map(_transaction, records)),
        *_dead_letters(read_all(servers, DEAD), address, stands),
        _offsets(stands, committed_positions(servers)),
    ]
    lines += [
        Compared(f"rows visible after kill {number}, by the offsets", kill.by_offsets, kill.visible)
        for number, kill in enumerate(story.kills, start=1)
    ]
    return Proof(lines, story.written - len(records))


def _transaction(record: Record) -> Transaction | None:
    """The row in a record; None for a record that no file can have made."""
    try:
        row = Transaction(**json.loads(record.value or b""))
    except (ValueError, TypeError):
        return None
    return row if record.key == row.card.encode() else None


def _dead_letters(records: Iterable[Record], address: str, stands: Mapping[Position, File]) -> list[Compared]:
    """One line per fault: each bad file once, with the reason and an origin where its URL stands."""
    positions: dict[str, set[Position]] = defaultdict(set)
    faults: dict[str, Fault] = {}
    for at, file in stands.items():
        if file.fault is not None:
            positions[f"{address}{file.path}"].add(at)
            faults[f"{address}{file.path}"] = file.fault
    found: dict[Fault | None, list[str]] = defaultdict(list)
    for record in records:
        url = (record.value or b"").decode()
        fault = faults.get(url)
        right = fault is not None and REASONS[fault] in record.headers.get("error", "")
        found[fault if right and _origin(record) in positions[url] else None].append(url)
    lines = [
        _compared(
            f"dead letters: {fault}", (url for url, own in faults.items() if own is fault), found[fault]
        )
        for fault in Fault
    ]
    return [*lines, _compared("dead letters without cause", (), found[None])]


def _origin(record: Record) -> Position | None:
    headers = record.headers
    if headers.get("origin.topic") != INPUT:
        return None
    return Position(int(headers["origin.partition"]), int(headers["origin.offset"]))


def _offsets(stands: Mapping[Position, File], committed: Mapping[int, int]) -> Compared:
    ends: Counter[int] = Counter(at.partition for at in stands)
    behind = sum(max(0, end - committed[partition]) for partition, end in ends.items())
    return Compared(
        "input read, by the group's offsets", len(stands), sum(committed.values()), missing=behind
    )


def _compared(what: str, expected: Iterable[Hashable], found: Iterable[Hashable]) -> Compared:
    wanted, got = Counter(expected), Counter(found)
    doubled = sum(count - 1 for item, count in got.items() if item in wanted)
    wrong = sum(count for item, count in got.items() if item not in wanted)
    missing = sum(1 for item in wanted if item not in got)
    return Compared(what, wanted.total(), got.total(), missing, doubled, wrong)
