"""A system at work: its processes, how much memory and CPU time they take, and its output from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped]

from benchmarks.pipeline_peers.system import Job, System
from oncestream.client.cluster import Cluster
from oncestream.client.offsets import LATEST, list_offsets
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition

SAMPLE_S: Final = 1.0
ASK_TIMEOUT_S: Final = 30
MB: Final = 1 << 20


class Running:
    """One run of a job, from the start of its first process on."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, *, sampled: bool) -> None:
        self.began = time.perf_counter()
        self.memory_mb_max = 0.0
        self._process = process
        self._log = log
        self._cpu_s: dict[int, float] = {}
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample_until_ended, daemon=True)
        if sampled:
            self._sampler.start()

    @property
    def cpu_s(self) -> float:
        """CPU time of all its processes so far, also of those that have ended."""
        self._sample_cpu(self._processes())
        return sum(self._cpu_s.values())

    def check(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"it ended with {self._process.returncode}: {self._log.read_text()[-1000:]}")

    def stop(self) -> None:
        self._ended.set()
        if self._sampler.is_alive():
            self._sampler.join()
        family = self._processes()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        psutil.wait_procs(family, timeout=ASK_TIMEOUT_S)

    def _processes(self) -> list[psutil.Process]:
        with suppress(psutil.Error):
            first = psutil.Process(self._process.pid)
            return [first, *first.children(recursive=True)]
        return []

    def _sample_until_ended(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            processes = self._processes()
            self._sample_cpu(processes)
            self.memory_mb_max = max(self.memory_mb_max, sum(_memory_mb(process) for process in processes))

    def _sample_cpu(self, processes: list[psutil.Process]) -> None:
        for process in processes:
            with suppress(psutil.Error):
                times = process.cpu_times()
                self._cpu_s[process.pid] = times.user + times.system


@contextmanager
def running(system: System, job: Job, *, sampled: bool = False) -> Iterator[Running]:
    """`sampled`: with figures of memory and CPU time, which cost some themselves."""
    command = list(system.command(job))
    with tempfile.TemporaryDirectory(prefix="oncestream-bench-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True
            )
        run = Running(process, log, sampled=sampled)
        try:
            yield run
        finally:
            run.stop()


class Output:
    """How far a topic can be read by a read_committed consumer, transaction markers included."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._cluster = Cluster(ClientSettings.of(bootstrap))
        self._latest = {TopicPartition(topic, number): LATEST for number in range(partitions)}

    def end(self) -> int:
        ends = list_offsets(self._cluster, self._latest, read_committed=True)
        return sum(end or 0 for end in ends.values())


def _memory_mb(process: psutil.Process) -> float:
    """Proportional: pages that forks share are counted once."""
    with suppress(psutil.Error):
        return float(process.memory_full_info().pss) / MB
    return 0.0
