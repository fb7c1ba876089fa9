"""Random interleavings of producers, flushes, timeouts and crashes: what was promised holds, always.

The broker is whole, with its group commit; its threads, its loop and its disk do what the test says. Requests come
singly and together, large and small; the journal runs out of room while it holds some of them; a file cannot be
flushed; power is lost, and of what was not flushed any page may be gone.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from oncestream.broker.settings import Durability
from oncestream.broker.topic_names import TRANSACTIONS_TOPIC
from oncestream.broker.transactions.ledger import Ledger
from oncestream.broker.transactions.state import State, TopicPartition
from oncestream.storage.steps import run_here
from oncestream.testing.disk import DiskFaults
from tests.broker.transactions.world import PARTITIONS, TOPIC, Job, World
from tests.broker.transactions.writers import LARGE, SMALL, TIMEOUT_MS, Streamer, Txn, Writer
from tests.effort import effort

NAMES = ["red", "green"]
CONFIGS = {"segment.bytes": "4000"}
JOURNAL_FULL = "*/.journal-*"
STREAMED = 0  # the number of what belongs to no transaction
INDEXES = st.integers(0, PARTITIONS - 1)
SIZES = st.sampled_from([SMALL, LARGE])
OFTEN = st.sampled_from([True, True, False])
FLUSHED = st.tuples(OFTEN, OFTEN)  # what came before; afterwards
BATCHES = st.lists(SIZES, min_size=1, max_size=2)
ROOMS = st.sampled_from([None, 0, 0, 0, 200])  # the last takes one small batch


class Machine(RuleBasedStateMachine):
    """Producers with and without transactions against a broker that crashes."""

    durability = Durability.FSYNC
    power_losses = 0

    @initialize(kinds=st.tuples(st.booleans(), st.booleans()))
    def start(self, kinds: tuple[bool, bool]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.numbers: Iterator[int] = itertools.count(1)
        self.txns: list[Txn] = []
        self.stable = [0] * PARTITIONS
        self.seen: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.world = World(self.folder, configs=CONFIGS, durability=self.durability)
        self.writers = [
            Writer(self, name, new_protocol) for name, new_protocol in zip(NAMES, kinds, strict=True)
        ]
        for writer in self.writers:
            writer.start()
        self.streamers = [Streamer(self, index) for index in range(PARTITIONS)]
        self.world.flush_all()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.check_the_end()
        finally:
            self.world.stop()
            shutil.rmtree(self.folder)

    # -- what happens -------------------------------------------------------------------------

    @precondition(lambda self: any(w.txn.values or w.dead for w in self.writers[-len(NAMES) :]))
    @rule(name=st.sampled_from(NAMES), new_protocol=st.booleans())
    def a_producer_comes(self, name: str, new_protocol: bool) -> None:
        self.writers.append(Writer(self, name, new_protocol))
        self.writers[-1].start()

    @precondition(lambda self: any(w.idle for w in self.writers))
    @rule(data=st.data(), index=INDEXES, size=SIZES, flushed=st.booleans())
    def a_record_is_written(self, data: st.DataObject, index: int, size: int, flushed: bool) -> None:
        """It may be on the disk before the note that its partition has joined is."""
        self.pick(data).produce(index, size)
        if flushed:
            self.world.flush(self.world.data_partitions[index])

    @rule(index=INDEXES, size=SIZES)
    def a_record_is_streamed(self, index: int, size: int) -> None:
        self.streamers[index].produce(size)

    @rule(
        index=INDEXES,
        flushed=FLUSHED,
        one=st.sampled_from([LARGE, LARGE, SMALL]),
        first=BATCHES,
        then=BATCHES,
        room=ROOMS,
    )
    def requests_come_together(
        self,
        index: int,
        flushed: tuple[bool, bool],
        one: int,
        first: list[int],
        then: list[int],
        room: int | None,
    ) -> None:
        """After another one come several; between them threads flush. The journal has so much room for them."""
        before, afterwards = flushed
        if before:
            self.world.flush_all()
        self.streamers[index].produce(one)
        self.world.disk.set_faults(DiskFaults(room_bytes=room, full_paths=JOURNAL_FULL))
        with self.world.together():
            for size in first:
                self.streamers[index].produce(size)
            for job in self.jobs(has_run=False):
                job.run()
            for size in then:
                self.streamers[index].produce(size)
        self.world.disk.set_faults(DiskFaults())
        if afterwards:
            self.world.flush_all()

    @precondition(lambda self: any(w.idle for w in self.writers))
    @rule(data=st.data())
    def an_offset_is_committed(self, data: st.DataObject) -> None:
        self.pick(data).commit_offset()

    @precondition(lambda self: any(w.idle and w.txn.values for w in self.writers))
    @rule(data=st.data(), commit=st.sampled_from([True, True, False]))
    def a_transaction_ends(self, data: st.DataObject, commit: bool) -> None:
        data.draw(st.sampled_from([w for w in self.writers if w.idle and w.txn.values])).end(commit)

    @precondition(lambda self: any(w.idle for w in self.writers))
    @rule(data=st.data(), index=st.integers(0, PARTITIONS - 1), commit=st.booleans())
    def a_transaction_is_decided(self, data: st.DataObject, index: int, commit: bool) -> None:
        """Its markers are written, but not flushed; whatever the coordinator noted is."""
        writer = self.pick(data)
        writer.produce(index)
        self.world.flush_all()
        if writer.idle:
            writer.end(commit)
        for partition in 2 * self.world.node.topics[TRANSACTIONS_TOPIC].partitions:
            self.world.flush(partition)

    @precondition(lambda self: bool(self.jobs(has_run=False)))
    @rule(data=st.data())
    def a_thread_flushes(self, data: st.DataObject) -> None:
        """What is appended before the loop hears of it is another flush's to cover."""
        data.draw(st.sampled_from(self.jobs(has_run=False))).run()

    @precondition(lambda self: bool(self.world.jobs))
    @rule(data=st.data())
    def the_loop_hears_of_a_flush(self, data: st.DataObject) -> None:
        self.world.threads.finish(data.draw(st.sampled_from(self.world.jobs)))

    @rule()
    def the_journal_is_settled(self) -> None:
        with self.world.loop.turn():
            self.world.node.commits.settle()

    @rule()
    def the_folder_is_checkpointed(self) -> None:
        run_here(self.world.node.folder.checkpoint())

    @rule()
    def everything_is_flushed(self) -> None:
        self.world.flush_all()

    @rule(ms=st.sampled_from([1, 1_000, 4_000]))
    def time_passes(self, ms: int) -> None:
        self.world.wait(ms)

    @rule()
    def producers_send_again_what_was_not_answered(self) -> None:
        for writer in self.producers:
            writer.go_on()

    @precondition(lambda self: any(not w.dead for w in self.writers))
    @rule(data=st.data())
    def an_answer_is_lost(self, data: st.DataObject) -> None:
        """Its request is sent again."""
        data.draw(st.sampled_from([w for w in self.writers if not w.dead])).misses_an_answer = True

    @precondition(lambda self: any(w.sent for w in self.writers))
    @rule(data=st.data(), age=st.integers(0, 3))
    def an_old_request_comes_once_more(self, data: st.DataObject, age: int) -> None:
        """As from a connection that was given up: in transaction version 2 it changes nothing."""
        sent = data.draw(st.sampled_from([w for w in self.writers if w.sent])).sent
        step = sent[max(-1 - age, -len(sent))]
        self.world.send(step.request, step.version).then(lambda _: None)

    @rule()
    def the_broker_is_killed(self) -> None:
        self.world.kill()
        self.restarted()

    @precondition(lambda self: self.durability is Durability.FSYNC)
    @rule(seed=st.integers(0, 2**32))
    def the_power_is_lost(self, seed: int) -> None:
        self.world.lose_power(Random(seed))
        type(self).power_losses += 1
        self.restarted()

    @precondition(lambda self: self.durability is Durability.FSYNC)
    @rule(index=INDEXES, seed=st.integers(0, 2**32))
    def a_file_cannot_be_flushed(self, index: int, seed: int) -> None:
        """Its log is read-only then, but what the journal has of it outlives all turns of the journal."""
        self.world.disk.set_faults(DiskFaults(sync_errors=f"*/{TOPIC}-{index}/*"))
        self.streamers[index].produce(LARGE)
        self.world.flush_all()
        self.world.disk.set_faults(DiskFaults())
        for _ in range(2):
            self.streamers[1 - index].produce(SMALL)
            self.world.flush_all()
            self.the_journal_is_settled()
            self.world.flush_all()
        self.the_power_is_lost(seed)

    def restarted(self) -> None:
        for writer in self.producers:
            writer.crashed()

    @property
    def producers(self) -> list[Writer | Streamer]:
        return [*self.writers, *self.streamers]

    def jobs(self, *, has_run: bool) -> list[Job]:
        return [job for job in self.world.jobs if job.has_run == has_run]

    def pick(self, data: st.DataObject) -> Writer:
        return data.draw(st.sampled_from([w for w in self.writers if w.idle]))

    # -- what holds ---------------------------------------------------------------------------

    @invariant()
    def the_log_says_what_is_in_force(self) -> None:
        if hasattr(self, "world"):
            assert Ledger(self.world.node).states == self.world.node.transactions.states

    @invariant()
    def readers_of_committed_data_never_see_less_than_before(self) -> None:
        if not hasattr(self, "world"):
            return
        for index, partition in enumerate(self.world.data_partitions):
            assert partition.last_stable_offset >= self.stable[index]
            self.stable[index] = partition.last_stable_offset
            now = self.world.committed(index)
            assert now[: len(self.seen[index])] == self.seen[index]
            self.seen[index] = now

    @invariant()
    def nothing_uncommitted_is_seen(self) -> None:
        if hasattr(self, "world"):
            may_be_seen = {t.number for t in self.txns if t.fate in ("committing", "committed")} | {STREAMED}
            for values in self.seen:
                assert {_number(value) for value in values} <= may_be_seen

    @invariant()
    def what_was_streamed_is_there_once_and_in_order(self) -> None:
        for streamer in getattr(self, "streamers", ()):
            found = self.world.streamed(streamer.index)
            assert found == streamer.values[: len(found)]
            assert len(found) >= streamer.acknowledged

    @invariant()
    def every_open_transaction_has_its_coordinator(self) -> None:
        if not hasattr(self, "world"):
            return
        states = self.world.node.transactions.states
        owners = {txn.producer_id: txn for txn in states if txn.state is State.ONGOING or txn.state.is_ending}
        for index, partition in enumerate(self.world.data_partitions):
            running = partition.log.open_transactions()
            assert len({open_.producer_id for open_ in running}) == len(running)
            for open_ in running:
                assert TopicPartition(TOPIC, index) in owners[open_.producer_id].partitions

    def check_the_end(self) -> None:
        """Everybody comes to an end; timeouts end what is open."""
        self.world.flush_all()
        for streamer in self.streamers:
            while streamer.acknowledged < len(streamer.values):
                streamer.go_on()
                self.world.flush_all()
        self.world.wait(10 * TIMEOUT_MS)
        self.world.flush_all()
        seen = [(i, value) for i in range(PARTITIONS) for value in self.world.committed(i)]
        assert len(set(seen)) == len(seen), "a record is there twice"
        for txn in self.txns:
            visible = [value for value in seen if _number(value[1]) == txn.number]
            if txn.fate == "committed" or (txn.fate == "committing" and visible):
                assert sorted(visible) == sorted(txn.values)
            else:
                assert visible == []
        for partition in self.world.data_partitions:
            assert partition.last_stable_offset == partition.log.end_offset
        self.check_offsets({_number(value) for _, value in seen})

    def check_offsets(self, visible: set[int]) -> None:
        for name in NAMES:
            mine = [t.number for t in self.txns if t.name == name and t.offset and t.number in visible]
            found = self.world.node.groups.state.offsets.get(name, TOPIC, 0)
            assert (None if found is None else found.offset) == max(mine, default=None)


def _number(value: bytes) -> int:
    return int(value.partition(b":")[0])


class OsMachine(Machine):
    durability = Durability.OS


def settings_for(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=effort(50, soak=80),
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


def test_no_promise_is_broken_by_crashes_that_lose_what_was_not_flushed() -> None:
    run_state_machine_as_test(Machine, settings=settings_for(effort(80, soak=5_000)))
    assert Machine.power_losses >= effort(40, soak=5_000)


def test_no_promise_is_broken_by_kills_of_a_broker_that_does_not_flush() -> None:
    run_state_machine_as_test(OsMachine, settings=settings_for(effort(30, soak=2_000)))
