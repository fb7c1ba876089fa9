"""Random walks of several logs that end with a loss of power: what was acknowledged is there."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from oncestream.storage.config import LogConfig
from oncestream.storage.folder import DataFolder
from oncestream.storage.log import Log
from oncestream.storage.steps import run_here
from oncestream.testing.disk import DiskFaults
from tests.effort import effort
from tests.storage.kit import Clock, batch_of, values_in
from tests.storage.power import PowerlessDisk, PowerLost

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=150, retention_ms=-1, segment_ms=10**15)
LOGS = 3
LARGE = 400


class Machine:
    """Three logs and their journal, driven as the broker does it."""

    def __init__(self, root: Path, chance: Random) -> None:
        self._chance = chance
        self._path = root / "data"
        self._boots = count()
        self._boot()
        self._written: list[list[bytes]] = [[] for _ in range(LOGS)]
        self._starts = [0] * LOGS
        self._sequences = [0] * LOGS
        self._count = 0
        self._open(PowerlessDisk())

    def _open(self, disk: PowerlessDisk) -> None:
        self._disk = disk
        self._folder = DataFolder.open(self._path, clock_ms=Clock(), disk=disk, boot_id=lambda: self._boot_id)
        self._logs = [self._folder.open_log("events", n, bytes([n]) * 16, CONFIG) for n in range(LOGS)]
        self._folder.journal.batch_bytes_max = LARGE
        self._folder.journal.start({bytes([n]) * 16 for n in range(LOGS)}, active=True)
        self._folder.started()
        self._settling: list[Log] = []

    def append(self) -> None:
        number = self._chance.randrange(LOGS)
        self._count += 1
        value = b"%06d" % self._count * self._chance.choice([1, 1, 5, LARGE // 6])
        batch = batch_of([value], producer_id=number + 1, sequence=self._sequences[number])
        self._logs[number].append(batch)
        self._sequences[number] += 1
        self._written[number].append(value)

    def flush(self) -> None:
        """As group commit does: what the journal has by the journal, the rest by its files."""
        journal = self._folder.journal
        by_journal = [log for log in self._logs if log.in_journal]
        for log in self._logs:
            if log not in by_journal:
                self._sync(log)
        flush = journal.flush([log.durability for log in by_journal])
        flush.run()
        assert flush.error is None
        journal.synced(flush)
        for log, end_offset in zip(by_journal, flush.ends, strict=True):
            log.journaled(end_offset)

    def append_together(self) -> None:
        """A flush may run meanwhile."""
        self._folder.journal.hold()
        for _ in range(self._chance.randint(1, 4)):
            self.append()
            if self._chance.random() < 0.2:
                self.flush()
        self._folder.journal.let_go()

    def append_without_room(self) -> None:
        """The journal has room for a part of the batch at most."""
        room_bytes = self._chance.choice([0, 1, 100])
        self._disk.set_faults(DiskFaults(room_bytes=room_bytes, full_paths="*/.journal-*"))
        self.append()
        self._disk.set_faults(DiskFaults())

    def lose_power_in_a_flush(self) -> None:
        """Of the files that it syncs some are not."""
        self._disk.syncs_left = self._chance.randrange(3)
        with suppress(PowerLost):
            self.flush()
        self.lose_power()

    def settle(self) -> None:
        """In two steps, between which anything may happen."""
        if self._settling:
            for log in self._settling:
                self._sync(log)
            self._settling = []
            self._folder.journal.freed()
        elif self._folder.journal.switch():
            self._settling = list(self._logs)

    def checkpoint(self) -> None:
        run_here(self._folder.checkpoint())

    def stop(self) -> None:
        self._folder.close()
        self._open(self._disk)
        self._check([len(each) for each in self._written])

    def lose_power(self) -> None:
        acknowledged = [log.synced_offset for log in self._logs]
        self._folder.abandon()
        self._disk.cut_power(self._path, self._chance)
        self._boot()
        disk = PowerlessDisk()
        disk.settle(self._path)
        if self._chance.random() < 0.3:
            self._recover_in_part(disk)
        self._open(disk)
        self._check(acknowledged)

    def _boot(self) -> None:
        self._boot_id = b"%d" % next(self._boots)

    def _recover_in_part(self, disk: PowerlessDisk) -> None:
        """Somebody kills the broker while it opens its logs."""
        folder = DataFolder.open(self._path, clock_ms=Clock(), disk=disk, boot_id=lambda: self._boot_id)
        for number in range(self._chance.randrange(LOGS)):
            folder.open_log("events", number, bytes([number]) * 16, CONFIG)
        folder.abandon()

    def abandon(self) -> None:
        self._folder.abandon()

    def _check(self, acknowledged: list[int]) -> None:
        for number, log in enumerate(self._logs):
            start, found = log.start_offset, values_in(log)
            nothing_told = acknowledged[number] <= self._starts[number]
            assert start == self._starts[number] or nothing_told  # then even the first file may be gone
            assert start + len(found) >= acknowledged[number]
            assert found == self._written[number][start : start + len(found)]
            assert log.failed is None
            self._starts[number] = start
            del self._written[number][start + len(found) :]
            self._sequences[number] = start + len(found)
            if found:
                again = batch_of(found[-1:], producer_id=number + 1, sequence=self._sequences[number] - 1)
                assert log.append(again).duplicate

    def _sync(self, log: Log) -> None:
        ticket = log.unsynced()
        if ticket is not None:
            ticket.run()
            log.synced(ticket)


STEPS = [
    *[Machine.append] * 12,
    *[Machine.append_together] * 3,
    *[Machine.flush] * 6,
    *[Machine.settle] * 3,
    Machine.append_without_room,
    Machine.lose_power_in_a_flush,
    Machine.checkpoint,
    Machine.lose_power,
    Machine.stop,
]


@settings(max_examples=effort(60, soak=5_000))
@given(st.randoms(use_true_random=True))
def test_what_was_acknowledged_outlives_a_loss_of_power(chance: Random) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        machine = Machine(root, chance)
        for step in chance.choices(STEPS, k=effort(100, soak=200)):
            step(machine)
        machine.lose_power()
        machine.abandon()
    finally:
        shutil.rmtree(root, ignore_errors=True)
