"""Beside a broker that does not flush: writes as much as comes to a topic of it to a file of its own, and flushes that.

`python -m benchmarks.flusher DATA TOPIC FILE` until it is ended. Nobody waits for it: what a producer loses by it is
what the work of writing and flushing costs on this machine, without any waiting.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Final

FILE_BYTES: Final = 32 * 1024 * 1024  # used again and again, as a journal is
LOOK_SECONDS: Final = 0.001  # about as often as the embedded broker flushes
READY: Final = b"ready\n"


@contextmanager
def flushing_beside(data: Path, topic: str, file: Path) -> Iterator[None]:
    """The process runs meanwhile."""
    command = [sys.executable, "-m", "benchmarks.flusher", str(data), topic, str(file)]
    with Popen(command, stdout=PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == READY, "the flusher did not start"
            yield
            assert process.poll() is None, "the flusher ended early"
        finally:
            process.kill()


def follow(logs: list[Path], fd: int, filler: memoryview) -> None:
    """For ever."""
    done, position = written(logs), 0
    while True:
        size = written(logs) - done
        if size <= 0:
            time.sleep(LOOK_SECONDS)
            continue
        done += size
        while size > 0:
            if position == FILE_BYTES:
                position = 0
            count = os.pwrite(fd, filler[position : position + size], position)
            position += count
            size -= count
        os.fdatasync(fd)


def written(logs: list[Path]) -> int:
    return sum(log.stat().st_size for log in logs)


def main() -> None:
    data, topic, file = sys.argv[1:]
    logs = sorted(Path(data).glob(f"{topic}-*/*.log"))
    assert logs, f"no logs of {topic} in {data}"
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    filler = memoryview(os.urandom(FILE_BYTES))
    os.pwrite(fd, filler, 0)
    os.fsync(fd)
    os.write(sys.stdout.fileno(), READY)
    follow(logs, fd, filler)


if __name__ == "__main__":
    main()
