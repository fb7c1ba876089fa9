"""The demo proves what it says: it runs, and its proof fails where rows are lost, doubled or made up."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from examples.demo.files import REASONS, File, Transaction, make_files, shuffled_with_repeats
from examples.demo.plot import Kill, Point
from examples.demo.proof import Proof, prove
from examples.demo.run import Story, rows_before
from examples.demo.topics import DEAD, GROUP, INPUT, OUTPUT, Position, create_topics, produce_urls
from oncestream import Broker

ROOT: Final = Path(__file__).parent.parent
ADDRESS: Final = "http://files"
FILES_FOR_FIVE_BATCHES: Final = 1500


class Loaded(NamedTuple):
    """An input, and an output made by hand as the pipeline should make it."""

    servers: str
    stands: dict[Position, File]

    def write(self, rows: list[Transaction]) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for row in rows:
            producer.produce(OUTPUT, json.dumps(row._asdict()), key=row.card)
        assert producer.flush(30) == 0

    def write_dead_letters(self, stands: dict[Position, File], *, reason: str | None = None) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for at, file in stands.items():
            if file.fault is not None:
                headers = {
                    "error": reason or REASONS[file.fault],
                    "origin.topic": INPUT,
                    "origin.partition": str(at.partition),
                    "origin.offset": str(at.offset),
                }
                producer.produce(DEAD, f"{ADDRESS}{file.path}", headers=list(headers.items()))
        assert producer.flush(30) == 0

    def commit(self, *, less: int = 0) -> None:
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": GROUP})
        ends = {at.partition: at.offset + 1 - less for at in sorted(self.stands)}
        offsets = [TopicPartition(INPUT, partition, end) for partition, end in ends.items()]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()

    def proof(self) -> Proof:
        rows = len(self.rows())
        kills = [Kill(1.0, 10, 10, 5), Kill(2.0, 20, 20, 0)]
        return prove(self.servers, ADDRESS, self.stands, Story([Point(3.0, rows)], kills, 0, rows))

    def rows(self) -> list[Transaction]:
        return [row for file in self.first_stands().values() for row in file.rows]

    def first_stands(self) -> dict[Position, File]:
        """Every file at one of the places where its URL stands."""
        places = {file.path: at for at, file in self.stands.items()}
        return {at: self.stands[at] for at in places.values()}


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[Loaded]:
    random = Random(1)
    files = make_files(100, random)
    assert {file.fault is None for file in files} == {True, False}
    with Broker(tmp_path) as broker:
        create_topics(broker.bootstrap_servers)
        listed = shuffled_with_repeats(files, random)
        yield Loaded(broker.bootstrap_servers, produce_urls(broker.bootstrap_servers, ADDRESS, listed))


def test_the_proof_holds_where_every_row_came_once(loaded: Loaded) -> None:
    loaded.write(loaded.rows())
    loaded.write_dead_letters(loaded.first_stands())
    loaded.commit()
    assert loaded.proof().holds


def test_the_proof_counts_lost_doubled_and_foreign_rows(loaded: Loaded) -> None:
    rows = loaded.rows()
    loaded.write([*rows[3:], rows[-1], rows[-2], rows[-2], rows[-1]._replace(amount="1.01")])
    loaded.write_dead_letters(loaded.first_stands())
    loaded.commit()
    (broken,) = (line for line in loaded.proof().lines if not line.holds)
    assert (broken.what, broken.missing, broken.doubled, broken.wrong) == ("rows of good files", 3, 3, 1)


def test_the_proof_fails_for_a_dead_letter_that_comes_twice(loaded: Loaded) -> None:
    loaded.write(loaded.rows())
    loaded.write_dead_letters(loaded.first_stands())
    first = next(at for at, file in loaded.stands.items() if file.fault is not None)
    loaded.write_dead_letters({first: loaded.stands[first]})
    loaded.commit()
    (broken,) = (line for line in loaded.proof().lines if not line.holds)
    assert (broken.what, broken.doubled) == (f"dead letters: {loaded.stands[first].fault}", 1)


def test_the_proof_fails_for_dead_letters_with_another_reason_or_origin(loaded: Loaded) -> None:
    loaded.write(loaded.rows())
    loaded.write_dead_letters(loaded.first_stands(), reason="nobody knows")
    moved = {Position(at.partition, at.offset + 1000): file for at, file in loaded.first_stands().items()}
    loaded.write_dead_letters(moved)
    loaded.commit()
    bad = sum(file.fault is not None for file in moved.values())
    (without_cause,) = (line for line in loaded.proof().lines if line.what == "dead letters without cause")
    assert without_cause.wrong == 2 * bad


def test_the_proof_fails_for_offsets_that_are_behind_the_output(loaded: Loaded) -> None:
    loaded.write(loaded.rows())
    loaded.write_dead_letters(loaded.first_stands())
    loaded.commit(less=1)
    (broken,) = (line for line in loaded.proof().lines if not line.holds)
    assert (broken.what, broken.missing) == ("input read, by the group's offsets", 4)


def test_rows_before_some_offsets_count_a_repeated_file_once() -> None:
    files = make_files(4, Random(2))
    stands = {Position(0, 0): files[0], Position(1, 0): files[0], Position(0, 1): files[1]}
    assert rows_before(stands, {0: 1, 1: 1}) == len(files[0].rows)
    assert rows_before(stands, None) == len(files[0].rows) + len(files[1].rows)


@pytest.mark.slow
def test_the_demo_loads_every_file_exactly_once_over_two_kills(tmp_path: Path) -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "examples.demo",
            "--files",
            str(FILES_FOR_FIVE_BATCHES),
            "--output",
            str(tmp_path),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("SIGKILL to all") == 2
    assert "every row exactly once" in ended.stdout
    assert (tmp_path / "rows-over-time.svg").read_text().count("stroke-dasharray") == 2
