"""The program of a driver that tests kill and stop: runs the jobs of a plan, all at once, in one Spark session."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import oncestream as once
from oncestream.errors import OncestreamError
from oncestream.spark.batch import Outcome, Step
from oncestream.spark.write import start_query
from tests.spark.crashes.family import TAG_VARIABLE, send
from tests.spark.crashes.jobs import Job, World, pipeline_of

DRIVER_ROWS_MAX: Final = 5_000
MEET_S: Final = 120
POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Plan:
    """`die_at`: all pipelines meet at this step of the nth batch they write in this run, then all is killed.

    `hold`: a file made before the first batch of the job BIG is written: see `jobs.Hold`.
    `pause_at`: step at which a job waits, in its nth batch, until the file `go`.<job> is there.
    """

    bootstrap: str
    world: str
    jobs: list[str]
    checkpoints: str
    events: str
    die_at: str | None = None
    nth: int = 1
    hold: str | None = None
    pause_at: dict[str, str] = field(default_factory=dict)
    go: str = ""
    transaction_timeout_ms: int = 60_000
    delivery: str = "exactly-once"

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Run:
    """One life of the driver."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._meeting = threading.Barrier(len(plan.jobs))
        self._lock = threading.Lock()

    def all(self) -> int:
        spark = once.session("crashes", master="local[2]")
        self._tell(event="up")
        with ThreadPoolExecutor(len(self._plan.jobs)) as pool:
            failed = list(pool.map(lambda job: self._one(spark, Job(job)), self._plan.jobs))
        spark.stop()
        return int(any(failed))

    def _one(self, spark: Any, job: Job) -> bool:
        plan = self._plan
        made = pipeline_of(World(plan.world), job, Path(plan.hold) if plan.hold else None)
        pipeline = replace(made, starter=partial(start_query, driver_rows_max=DRIVER_ROWS_MAX))
        try:
            pipeline.run(
                spark,
                bootstrap_servers=plan.bootstrap,
                checkpoint=Path(plan.checkpoints) / job,
                trigger="once",
                transaction_timeout_ms=plan.transaction_timeout_ms,
                delivery=plan.delivery,
                on_step=self._on_step(job),
                on_outcome=lambda outcome: self._done(job, outcome),
            )
        except OncestreamError as error:
            self._tell(event="error", job=job, kind=type(error).__name__, text=str(error))
            return True
        self._tell(event="finished", job=job)
        return False

    def _on_step(self, job: Job) -> Callable[[Step, int], None]:
        seen: Counter[Step] = Counter()
        plan = self._plan

        def on_step(step: Step, batch: int) -> None:
            seen[step] += 1
            if plan.hold and job is Job.BIG and step is Step.BEGUN:
                Path(plan.hold).touch()
            self._tell(event="step", job=job, step=step, batch=batch)
            if seen[step] != plan.nth:
                return
            if step == plan.die_at and self._meeting.wait(MEET_S) == 0:
                send(os.environ[TAG_VARIABLE], signal.SIGKILL)
            if step == plan.die_at:
                time.sleep(MEET_S)  # the signal comes
            if step == plan.pause_at.get(job):
                self._tell(event="paused", job=job)
                while not Path(f"{plan.go}.{job}").exists():
                    time.sleep(POLL_S)

        return on_step

    def _done(self, job: Job, outcome: Outcome) -> None:
        self._tell(event="outcome", job=job, **outcome._asdict())

    def _tell(self, **event: object) -> None:
        with self._lock, Path(self._plan.events).open("a") as file:
            file.write(json.dumps(event) + "\n")


if __name__ == "__main__":
    sys.exit(Run(Plan(**json.loads(sys.argv[1]))).all())
