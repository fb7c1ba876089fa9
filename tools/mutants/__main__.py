"""Puts small faults into copies of the sources, one at a time, and lists those that no test notices.

A sample, drawn by a seed and bounded in time: it says where tests are thin, not how good they are.
Nothing is written into the tree.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from itertools import chain, zip_longest
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tools.mutants.mutations import Mutation, mutations_of
from tools.mutants.workshop import ROOT, Verdict, Workshop

FAST: Final = ("-m", "not slow and not java")
WITH_SPARK: Final = ("-m", "not java")  # every test with a session of Spark counts as slow
WORKERS: Final = 2
LIMIT_FACTOR: Final = 3  # times what the tests take without a mutation
UNMUTATED_LIMIT_S: Final = 1800.0
OUTPUT_LINES_MAX: Final = 40

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """Files whose path starts with `prefix`, and the tests that should notice a fault in them."""

    prefix: str
    tests: tuple[str, ...]


TARGETS: Final = (
    Target("src/oncestream/storage/", (*FAST, "tests/storage")),
    Target("src/oncestream/broker/transactions/", (*FAST, "tests/broker/transactions")),
    Target(
        "src/oncestream/spark/delivery",
        (
            *WITH_SPARK,
            "tests/spark/test_sink_streams.py",
            "tests/spark/test_sink_loads.py",
            "tests/spark/test_deliveries_verified.py",
            "tests/spark/crashes/test_lost_answers.py",
            "tests/spark/crashes/test_timeouts.py",
            "tests/spark/crashes/test_takeover.py",
        ),
    ),
)


class FailsUnmutated(Exception):
    """Tests that fail without a mutation can judge none."""


@dataclass(frozen=True, slots=True)
class Options:
    seed: int
    minutes: float
    count: int
    paths: tuple[str, ...] = ()
    limit_extra_s: float = 30.0


@dataclass(slots=True)
class Report:
    sampled: int
    verdicts: dict[Mutation, Verdict] = field(default_factory=dict)

    def of(self, verdict: Verdict) -> list[Mutation]:
        return sorted(
            (each for each, found in self.verdicts.items() if found is verdict),
            key=lambda each: (each.path, each.start),
        )


def main() -> int:
    options, console = _options(), Console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console.print(f"seed {options.seed}, {options.minutes:g} minutes")
    try:
        report = Run(ROOT, TARGETS, options, console).report()
    except FailsUnmutated as error:
        console.print(f"[red]no mutation run:[/] {error}")
        return 1
    show(report, console)
    return 0


def _options() -> Options:
    today = int(date.today().strftime("%Y%m%d"))
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=today, help="draws the sample (default: today, %(default)s)"
    )
    parser.add_argument(
        "--minutes", type=float, default=30, help="starts no mutant later (default: %(default)s)"
    )
    parser.add_argument("--count", type=int, default=1000, help="mutants at most (default: %(default)s)")
    parser.add_argument("--paths", nargs="*", default=(), help="only files whose path starts so")
    given = parser.parse_args()
    return Options(given.seed, given.minutes, given.count, tuple(given.paths))


class Run:
    def __init__(self, root: Path, targets: Sequence[Target], options: Options, console: Console) -> None:
        self._options = options
        self._console = console
        self._root = root
        self._targets = [each for each in targets if _files(root, each, options.paths)]
        self._mutations = sample(root, self._targets, options)
        self._report = Report(len(self._mutations))
        self._limits_s: dict[Target, float] = {}
        self._shops: SimpleQueue[Workshop] = SimpleQueue()  # those that are free
        self._stop_at = float("inf")

    def report(self) -> Report:
        """Judges the sample until all mutants have a verdict, the time is over or somebody interrupts.

        Prints each survivor when it is found.
        """
        with (
            tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as name,
            ThreadPoolExecutor(WORKERS) as pool,
            self._progress() as progress,
        ):
            folder = Path(name)
            shops = [Workshop(self._root, folder / str(number)) for number in range(WORKERS)]
            for shop in shops:
                self._shops.put(shop)
            bar = progress.add_task("tests without a mutation", total=len(self._mutations))
            try:
                list(pool.map(lambda target: self._measure(target, folder), self._targets))
                self._stop_at = time.monotonic() + 60 * self._options.minutes
                for _ in pool.map(lambda mutation: self._judge(mutation, folder), self._mutations):
                    survived = len(self._report.of(Verdict.SURVIVED))
                    progress.update(
                        bar, completed=len(self._report.verdicts), description=f"{survived} survived"
                    )
            except KeyboardInterrupt:
                self._console.print("interrupted: the report says what was found so far")
            finally:
                self._stop_at = float("-inf")
                for shop in shops:
                    shop.end_processes()
        return self._report

    def _measure(self, target: Target, folder: Path) -> None:
        """Runs the target's tests without a mutation: they must pass, and show how long they take."""
        with self._free_shop() as shop:
            begun = time.monotonic()
            status = shop.run_tests(target.tests, self._seconds_file(folder, target), UNMUTATED_LIMIT_S)
            took_s = time.monotonic() - begun
            if status != 0:
                tail = "\n".join(shop.output.splitlines()[-OUTPUT_LINES_MAX:])
                raise FailsUnmutated(f"the tests of {target.prefix} fail without a mutation\n{tail}")
        self._limits_s[target] = LIMIT_FACTOR * took_s + self._options.limit_extra_s
        self._console.print(f"{target.prefix}: the tests pass in {took_s:.0f} s")

    def _judge(self, mutation: Mutation, folder: Path) -> None:
        with self._free_shop() as shop:
            if time.monotonic() > self._stop_at:
                return
            target = _target_of(mutation.path, self._targets)
            seconds_file = self._seconds_file(folder, target)
            verdict = shop.try_out(mutation, target.tests, seconds_file, self._limits_s[target])
        if self._stop_at != float("-inf"):  # else the tests were ended from outside
            self._report.verdicts[mutation] = verdict
            if verdict is Verdict.SURVIVED:
                self._show(mutation)

    def _show(self, mutation: Mutation) -> None:
        removed, added = mutation.diff((self._root / mutation.path).read_bytes())
        text = Text(f"{mutation.path}:{mutation.line}\n", "bold")
        text.append(f"    {removed}\n", "red").append(f"    {added}", "green")
        self._console.print(text, soft_wrap=True)

    @contextmanager
    def _free_shop(self) -> Iterator[Workshop]:
        shop = self._shops.get()
        try:
            yield shop
        finally:
            self._shops.put(shop)

    def _seconds_file(self, folder: Path, target: Target) -> Path:
        return folder / f"seconds-{self._targets.index(target)}.json"

    def _progress(self) -> Progress:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        return Progress(*columns, console=self._console, transient=True)


def sample(root: Path, targets: Iterable[Target], options: Options) -> list[Mutation]:
    """Targets take turns, in each of them its files, and a file gives its mutations in an order of the seed."""
    draw = random.Random(options.seed)
    of_targets = []
    for target in targets:
        files = _files(root, target, options.paths)
        of_files = [mutations_of(path, (root / path).read_bytes()) for path in files]
        for mutations in of_files:
            draw.shuffle(mutations)
        draw.shuffle(of_files)
        of_targets.append(list(_in_turn(of_files)))
    return list(_in_turn(of_targets))[: options.count]


def show(report: Report, console: Console) -> None:
    counts = Counter((each.path.parent, verdict) for each, verdict in report.verdicts.items())
    table = Table("folder", *(str(verdict) for verdict in Verdict))
    for folder in sorted({folder for folder, _ in counts}):
        table.add_row(str(folder), *(str(counts[folder, verdict]) for verdict in Verdict))
    console.print(table)
    console.print(f"{len(report.verdicts)} of {report.sampled} sampled mutants have a verdict")


def _files(root: Path, target: Target, paths: tuple[str, ...]) -> list[Path]:
    files = (path.relative_to(root) for path in sorted(root.glob("src/**/*.py")))
    return [
        path for path in files if str(path).startswith(target.prefix) and str(path).startswith(paths or "")
    ]


def _target_of(path: Path, targets: Iterable[Target]) -> Target:
    return next(each for each in targets if str(path).startswith(each.prefix))


def _in_turn(lists: Iterable[Iterable[T]]) -> Iterator[T]:
    """The first of each, then the second of each."""
    return (each for each in chain.from_iterable(zip_longest(*lists)) if each is not None)


if __name__ == "__main__":
    sys.exit(main())
