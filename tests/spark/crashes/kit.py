"""What the crash tests stand on: inputs, an independent reader, and a driver in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar, Unpack

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka import admin as typed_admin

from oncestream.spark.pipeline import Starter
from oncestream.spark.write import start_query
from tests.spark.crashes.driver import Plan
from tests.spark.crashes.family import TAG_VARIABLE, family, send
from tests.spark.crashes.jobs import Job, World, expected, pipeline_of
from tests.spark.source_kit import log_ends

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from oncestream.spark.options import OptionNames

admin: Any = typed_admin
T = TypeVar("T")

PARTITIONS: Final = 4
TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.05
ROOT: Final = Path(__file__).parents[3]


class Record(NamedTuple):
    value: str
    time_ms: int = 0


class Topics:
    """A cluster, written and read by confluent-kafka."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = admin.AdminClient({"bootstrap.servers": bootstrap})

    def create(self, *names: str, partitions: int = PARTITIONS) -> None:
        made = self._admin.create_topics([admin.NewTopic(name, partitions, 1) for name in names])
        for future in made.values():
            future.result(TIMEOUT_S)
        wait_for(lambda: set(names) <= set(self._admin.list_topics(timeout=TIMEOUT_S).topics))

    def write(self, topic: str, records: Iterable[Record], partitions: int = PARTITIONS) -> None:
        """Round robin, so that every partition grows alike."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, "acks": "all"})
        for number, (value, time_ms) in enumerate(records):
            producer.produce(topic, value, partition=number % partitions, timestamp=time_ms)
            if number % 5_000 == 0:
                producer.poll(0)
        assert producer.flush(TIMEOUT_S) == 0

    def ends(self, topic: str) -> dict[int, int]:
        """Ends of the log, what is not committed included."""
        return log_ends(self.bootstrap, topic)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Where the group stands."""
        consumer = self._consumer(group)
        try:
            asked = [TopicPartition(topic, partition) for partition in self.ends(topic)]
            return {each.partition: each.offset for each in consumer.committed(asked, TIMEOUT_S)}
        finally:
            consumer.close()

    def values(self, topic: str) -> list[str]:
        """Every committed record; fails where an open transaction hides the rest."""
        waiting = {partition: end for partition, end in self.ends(topic).items() if end > 0}
        consumer: Any = self._consumer()
        consumer.assign([TopicPartition(topic, partition, 0) for partition in waiting])
        found: list[str] = []
        deadline = time.monotonic() + TIMEOUT_S
        try:
            while waiting:
                assert time.monotonic() < deadline, f"{topic}: {waiting} not readable"
                for message in consumer.consume(10_000, 0.2):
                    error = message.error()
                    if error is None:
                        found.append(message.value().decode())
                    elif error.code() != KafkaError._PARTITION_EOF:
                        raise AssertionError(error)
                    elif message.offset() >= waiting.get(message.partition(), 0):
                        waiting.pop(message.partition(), None)
        finally:
            consumer.close()
        return found

    def _consumer(self, group: str = "reader") -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )


class Driver:
    """A driver that runs a plan; a context manager that leaves no process behind."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._tag = uuid.uuid4().hex
        self._events = Path(plan.events)
        self._log = self._events.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._events.unlink(missing_ok=True)
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.crashes.driver", self.plan.to_json()],
                env=os.environ | {TAG_VARIABLE: self._tag, "PYTHONPATH": path},
                cwd=self._events.parent,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def wait(self) -> int:
        """The exit status."""
        assert self._process is not None
        return self._process.wait(TIMEOUT_S)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(TIMEOUT_S)
        wait_for(lambda: not family(self._tag))

    def send(self, number: signal.Signals) -> None:
        send(self._tag, number)

    def events(self, event: str) -> list[dict[str, Any]]:
        if not self._events.exists():
            return []
        lines = self._events.read_text().splitlines()
        return [found for line in lines if (found := json.loads(line))["event"] == event]

    def wait_for_event(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        def there() -> list[dict[str, Any]] | None:
            found = self.events(event)
            assert self._process is not None
            assert len(found) >= count or self._process.poll() is None, self.tail()
            return found if len(found) >= count else None

        return wait_for(there)

    def tail(self) -> str:
        return self._log.read_text()[-3_000:]


def small_world(topics: Topics, values: Iterable[str]) -> World:
    """A world with input for the job SMALL alone."""
    world = new_world()
    topics.create(world.small, world.output(Job.SMALL))
    topics.write(world.small, [Record(value) for value in values])
    return world


def run_small(
    spark: SparkSession,
    topics: Topics,
    world: World,
    folder: Path,
    job: Job = Job.SMALL,
    starter: Starter = start_query,
    **changes: Unpack[OptionNames],
) -> None:
    """Runs a job over what there is now, in this process; `folder` is its checkpoint."""
    base: OptionNames = {"bootstrap_servers": topics.bootstrap, "checkpoint": folder, "trigger": "once"}
    base.update(changes)
    replace(pipeline_of(world, job), starter=starter).run(spark, **base)


def check_small(topics: Topics, world: World, values: Iterable[str]) -> None:
    """The job SMALL has written all of this exactly once, and its group stands at the input's end."""
    assert Counter(topics.values(world.output(Job.SMALL))) == expected(Job.SMALL, values, [], [])
    assert topics.committed(world.pipeline(Job.SMALL), world.small) == topics.ends(world.small)


def wait_for(condition: Callable[[], T | None]) -> T:
    """The first true answer, or a failure at the deadline."""
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(POLL_S)
    return found


def new_world() -> World:
    return World(f"crash-{uuid.uuid4().hex[:8]}")
