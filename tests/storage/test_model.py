"""A random walk over everything a log can do, against a plain list."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from oncestream.records.compression import Codec
from oncestream.storage.config import LogConfig
from oncestream.storage.steps import run_here
from oncestream.storage.writing import Appended
from oncestream.wire.error_codes import ErrorCode, KafkaError
from tests.effort import effort
from tests.storage.kit import START_MS, Store, batch_of, records_in

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, retention_ms=-1, segment_ms=10**15)
values = st.lists(st.binary(max_size=60), min_size=1, max_size=5)


class Walk(RuleBasedStateMachine):
    """What was written is remembered as (value, timestamp) at its offset."""

    @initialize()
    def start(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.store = Store(self.root / "data", CONFIG)
        self.written: list[tuple[bytes, int]] = []
        self.start_offset = 0
        self.sent: list[tuple[list[bytes], int, int, int]] = []
        self.sequence = 0
        self.epoch = 0
        self.open_from: int | None = None
        self.aborted: list[tuple[int, int]] = []

    def teardown(self) -> None:
        self.store.folder.abandon()
        shutil.rmtree(self.root, ignore_errors=True)

    def note(self, content: list[bytes], timestamp: int, answer: Appended) -> None:
        assert answer.base_offset == len(self.written)
        self.written += [(value, timestamp) for value in content]
        assert answer.last_offset == len(self.written) - 1
        assert not answer.duplicate

    @rule(content=values, later_ms=st.integers(-50, 100), codec=st.sampled_from(Codec))
    def append(self, content: list[bytes], later_ms: int, codec: Codec) -> None:
        timestamp = START_MS + later_ms
        self.note(
            content, timestamp, self.store.log.append(batch_of(content, timestamp=timestamp, codec=codec))
        )

    @rule(content=values)
    def append_in_sequence(self, content: list[bytes]) -> None:
        batch = batch_of(content, producer_id=1, epoch=self.epoch, sequence=self.sequence)
        answer = self.store.log.append(batch)
        self.sent.append((content, self.epoch, self.sequence, answer.base_offset))
        self.sequence += len(content)
        self.note(content, START_MS, answer)

    @precondition(lambda self: self.sent)
    @rule(back=st.integers(1, 5))
    def send_again(self, back: int) -> None:
        content, epoch, sequence, offset = self.sent[-min(back, len(self.sent))]
        if epoch != self.epoch:
            return
        answer = self.store.log.append(batch_of(content, producer_id=1, epoch=epoch, sequence=sequence))
        assert (answer.base_offset, answer.duplicate) == (offset, True)

    @precondition(lambda self: self.sent and self.sent[-1][1] == self.epoch)
    @rule(gap=st.integers(1, 5))
    def leave_a_gap(self, gap: int) -> None:
        with pytest.raises(KafkaError) as caught:
            self.store.log.append(
                batch_of([b"x"], producer_id=1, epoch=self.epoch, sequence=self.sequence + gap)
            )
        assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @precondition(lambda self: self.sent)
    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1
        self.sequence = 0
        self.append_in_sequence([b"first of epoch"])

    @rule(content=values)
    def write_in_a_transaction(self, content: list[bytes]) -> None:
        batch = batch_of(content, producer_id=2 + len(self.aborted), transactional=True)
        if self.open_from is not None:
            return
        self.open_from = len(self.written)
        answer = self.store.log.append(memoryview(bytearray(batch)), internal=True)
        self.note(content, START_MS, answer)

    @precondition(lambda self: self.open_from is not None)
    @rule(commit=st.booleans())
    def end_the_transaction(self, commit: bool) -> None:
        producer_id = 2 + len(self.aborted)
        answer = self.store.log.append_marker(producer_id, 0, 0, commit)
        assert answer.base_offset == len(self.written)
        self.written.append((b"", self.store.clock.now_ms))
        if not commit:
            assert self.open_from is not None
            self.aborted.append((producer_id, self.open_from))
        self.open_from = None

    @rule()
    def sync(self) -> None:
        self.store.sync()
        assert self.store.log.synced_offset == len(self.written)

    @rule()
    def checkpoint(self) -> None:
        run_here(self.store.folder.checkpoint())

    @rule()
    def stop_cleanly(self) -> None:
        epoch = self.store.log.leader_epoch
        self.store = self.store.restart()
        assert self.store.log.leader_epoch == epoch

    @rule()
    def kill(self) -> None:
        epoch = self.store.log.leader_epoch
        killed = self.store
        self.store = killed.reborn()
        killed.folder.abandon()
        shutil.rmtree(killed.path)
        assert self.store.log.leader_epoch == epoch + 1

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        offset = int(len(self.written) * share)
        self.start_offset = max(self.start_offset, offset)
        assert self.store.log.delete_before(offset) == self.start_offset

    @rule(size=st.integers(500, 5000))
    def retain_by_size(self, size: int) -> None:
        log = self.store.log
        log.config = replace(CONFIG, retention_bytes=size)
        log.apply_retention(START_MS)
        log.config = CONFIG
        assert log.size_bytes < size + 700
        assert self.start_offset <= log.start_offset <= len(self.written)
        self.start_offset = log.start_offset

    @invariant()
    def the_log_is_the_list(self) -> None:
        log = self.store.log
        assert (log.start_offset, log.end_offset) == (self.start_offset, len(self.written))
        assert log.first_unstable_offset == self.open_from
        plain = [(r.offset, r.value) for r in records_in(log)]
        expected = [(offset, value) for offset, (value, _) in enumerate(self.written)][self.start_offset :]
        assert [offset for offset, _ in plain] == [offset for offset, _ in expected]
        assert all(have == want for have, want in zip(plain, expected, strict=True) if want[1])

    @invariant()
    def timestamps_find_their_records(self) -> None:
        log = self.store.log
        for timestamp in (START_MS, START_MS + 60):
            found = log.offset_for_timestamp(timestamp, log.end_offset)
            later = [
                o for o, (_, at) in enumerate(self.written) if at >= timestamp and o >= self.start_offset
            ]
            assert (found.offset if found else None) == (later[0] if later else None)

    @invariant()
    def aborted_transactions_are_known(self) -> None:
        known = {(t.producer_id, t.first_offset) for t in self.store.log.aborted(self.start_offset, 10**9)}
        assert known <= set(self.aborted)
        assert known >= {(p, first) for p, first in self.aborted if first >= self.start_offset}


TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=effort(60, soak=4_000), stateful_step_count=effort(50, soak=80))
