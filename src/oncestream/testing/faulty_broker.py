"""A broker in a process of its own whose disk fails and whose clock jumps on command.

`python -m oncestream.testing.faulty_broker DISK_FILE CLOCK_FILE LOG_FILE name=value ...` runs it; `FaultyBroker`
starts that.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path

from oncestream.broker.embedded import READY_PREFIX, Broker
from oncestream.broker.runner import new_loop, run_broker
from oncestream.broker.settings import load_settings
from oncestream.testing.clock import FileControlledClock, save_offset
from oncestream.testing.disk import DiskFaults, FileControlledDisk


class FaultyBroker(Broker):
    """As `Broker(data, process=True)`; `set_faults` says what its disk does wrong, `set_clock_ms` what time it is.

    Both stay over restarts. What it logs is appended to `log`.
    """

    def __init__(self, data: str | Path, **settings: object) -> None:
        super().__init__(data, process=True, **settings)
        beside = self.settings.data
        self.control = beside.with_name(beside.name + ".faults")
        self.clock = beside.with_name(beside.name + ".clock")
        self.log = beside.with_name(beside.name + ".log")

    def set_faults(self, faults: DiskFaults) -> None:
        """`DiskFaults()`: the disk works."""
        faults.save(self.control)

    def set_clock_ms(self, offset_ms: int) -> None:
        """So far ahead of the machine's wall clock, or behind it where negative; 0: right."""
        save_offset(self.clock, offset_ms)

    @property
    def has_ended(self) -> bool:
        """Its process has ended, though neither `stop` nor `kill` was called."""
        return self._child is not None and self._child.poll() is not None

    def _command(self, flags: list[str]) -> list[str]:
        return [sys.executable, "-m", __name__, str(self.control), str(self.clock), str(self.log), *flags]


def main() -> None:
    disk, clock, log, *flags = sys.argv[1:]
    logging.basicConfig(
        level=logging.INFO, filename=log, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    settings = load_settings(environment={}, flags=dict(flag.split("=", 1) for flag in flags))
    loop, stop = new_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    def on_ready(addresses: str) -> None:
        print(f"{READY_PREFIX}{addresses}", flush=True)  # noqa: T201 - what `Broker` waits for

    faults = FileControlledDisk(Path(disk)), FileControlledClock(Path(clock))
    try:
        loop.run_until_complete(run_broker(settings, stop, on_ready, *faults))
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


if __name__ == "__main__":
    main()
