"""Random histories of groups: live and replayed state are the same after every step, and nobody waits forever."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from oncestream.broker.groups.classic_group import ClassicGroup
from oncestream.broker.state_log import Producer
from oncestream.wire.error_codes import ErrorCode
from tests.broker.groups.kit import Waiting, World
from tests.effort import effort

GROUPS = st.sampled_from(["g", "h"])
INSTANCES = st.sampled_from([None, None, "one", "two"])
NUMBERS = st.integers(0, 7)
PRODUCERS = st.integers(1, 3).map(lambda n: Producer(n, 0))


class ClassicHistory(RuleBasedStateMachine):
    """Clients that join, sync, beat, leave and commit in any order, in two groups, over crashes of the broker."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.waiting: list[Waiting] = []
        self.known: list[tuple[str, str | None]] = []  # member ids told so far, with their instance ids

    def send(self, waiting: Waiting, instance: str | None = None) -> None:
        self.waiting.append(waiting)
        waiting.later._callback = None
        waiting.later.then(lambda answer: self.note(waiting, answer, instance))

    def note(self, waiting: Waiting, answer: Any, instance: str | None) -> None:
        waiting._answers.append(answer)
        member_id = getattr(answer, "member_id", "")
        if member_id and (member_id, instance) not in self.known:
            self.known.append((member_id, instance))

    def pick(self, number: int) -> tuple[str, str | None]:
        return self.known[-1 - number % len(self.known)] if self.known else ("stranger", None)

    @rule(
        group=GROUPS,
        instance=INSTANCES,
        version=st.sampled_from([3, 5, 9]),
        metadata=st.sampled_from([b"1", b"2"]),
    )
    def join(self, group: str, instance: str | None, version: int, metadata: bytes) -> None:
        instance = instance if version >= 5 else None
        protocols = {"range": metadata}
        self.send(
            self.world.send_join(group=group, instance=instance, version=version, protocols=protocols),
            instance,
        )

    @rule(group=GROUPS, number=NUMBERS, metadata=st.sampled_from([b"1", b"2"]))
    def rejoin(self, group: str, number: int, metadata: bytes) -> None:
        member, instance = self.pick(number)
        protocols = {"range": metadata}
        self.send(self.world.send_join(member, group=group, instance=instance, protocols=protocols), instance)

    @rule(group=GROUPS, number=NUMBERS)
    def sync(self, group: str, number: int) -> None:
        member, instance = self.pick(number)
        found = self.world.group(group)
        generation = found.generation if found is not None else 0
        assignments = {m: m.encode() for m in found.members} if found is not None else {}
        self.send(
            self.world.send_sync(member, generation, assignments, instance=instance, group=group), instance
        )

    @rule(number=NUMBERS)
    def heartbeat(self, number: int) -> None:
        member, instance = self.pick(number)
        found = self.world.group()
        self.world.heartbeat(member, found.generation if found is not None else 0, instance)

    @precondition(lambda self: not self.world.log.holds_back)
    @rule(group=GROUPS, number=NUMBERS)
    def leave(self, group: str, number: int) -> None:
        self.world.leave(*self.pick(number), group=group)

    @rule(ms=st.sampled_from([1, 5_000, 10_000, 60_000, 300_000]))
    def time_passes(self, ms: int) -> None:
        self.world.advance(ms)

    @precondition(lambda self: not self.world.log.holds_back)
    @rule(
        group=GROUPS,
        number=NUMBERS,
        producer=st.none() | PRODUCERS,
        offset=NUMBERS,
        partition=st.integers(0, 2),
    )
    def commit(self, group: str, number: int, producer: Producer | None, offset: int, partition: int) -> None:
        member, instance = self.pick(number)
        found = self.world.group(group)
        outside = found is None or found.is_empty
        generation = -1 if outside else found.generation
        who = ("", -1) if outside else (member, generation)
        self.world.commit(
            offset,
            *who,
            instance=None if outside else instance,
            group=group,
            partition=partition,
            producer=producer,
        )

    @rule(group=GROUPS, producer=PRODUCERS, commit=st.booleans())
    def end_transaction(self, group: str, producer: Producer, commit: bool) -> None:
        self.world.end_transaction(producer, commit, group)

    @precondition(lambda self: not self.world.log.holds_back)
    @rule(group=GROUPS)
    def delete(self, group: str) -> None:
        self.world.delete(group)

    @rule()
    def writes_take_long(self) -> None:
        self.world.log.holds_back = True

    @rule()
    def writes_are_done(self) -> None:
        self.world.log.flush()
        self.world.check_replay()

    @rule()
    def the_broker_crashes(self) -> None:
        before = self.world.groups.state
        self.world.log.holds_back = False
        self.world.log._waiting.clear()
        self.waiting.clear()
        self.world.restart()
        assert self.world.groups.state == before

    @invariant()
    def groups_are_consistent(self) -> None:
        for group in self.world.groups._live.values():
            check_group(group)

    def teardown(self) -> None:
        self.world.log.flush()
        for _ in range(6):
            self.world.advance(300_001)
        assert not [waiting for waiting in self.waiting if waiting.waits], "somebody never got an answer"


def check_group(group: ClassicGroup) -> None:
    assert group.leader_id is None or group.leader_id in group.members
    assert set(group.static_ids.values()) <= group.members.keys()
    assert not group.pending_joins & group.members.keys()
    assert group.pending_syncs <= group.members.keys()
    assert (group.state == "Empty") <= (not group.members)
    if group.state == "CompletingRebalance":
        assert all(member.joining is None for member in group.members.values())
    if group.state == "Stable":
        assert all(member.syncing is None for member in group.members.values())


class ConsumerHistory(RuleBasedStateMachine):
    """Members of the consumer protocol that report and give up partitions as slowly as they like."""

    members = st.sampled_from("abcd")

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, set[tuple[str, int]]] = {}
        self.told: dict[str, set[tuple[str, int]]] = {}

    @initialize(partitions=st.integers(1, 6))
    def topics(self, partitions: int) -> None:
        self.world.make_topic("t", partitions)
        self.world.make_topic("u", 2)

    @rule(
        member=members,
        topics=st.sampled_from([["t"], ["u"], ["t", "u"]]),
        assignor=st.sampled_from([None, "range"]),
    )
    def join(self, member: str, topics: list[str], assignor: str | None) -> None:
        self.forget(member)
        self.note(member, self.world.beat(member, 0, topics=topics, assignor=assignor))

    @rule(member=members)
    def beat(self, member: str) -> None:
        if member in self.epochs:
            self.note(member, self.world.beat(member, self.epochs[member], owned=self.by_topic(member)))

    @rule(member=members)
    def give_up_and_take(self, member: str) -> None:
        """The client does what it was told."""
        if member in self.epochs:
            self.owned[member] = set(self.told[member])

    @rule(member=members)
    def leave(self, member: str) -> None:
        if member in self.epochs:
            self.world.beat(member, -1)
            self.forget(member)

    @rule(ms=st.sampled_from([1_000, 30_000, 60_000]))
    def time_passes(self, ms: int) -> None:
        self.world.advance(ms)
        self.drop_fenced()

    @rule(partitions=st.integers(6, 8))
    def the_topic_grows(self, partitions: int) -> None:
        self.world.make_topic("t", partitions)

    @rule()
    def the_broker_crashes(self) -> None:
        before = self.world.groups.state
        self.world.restart()
        assert self.world.groups.state == before

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owned = [place for places in self.owned.values() for place in places]
        assert len(owned) == len(set(owned))

    def note(self, member: str, answer: Any) -> None:
        if answer.error_code != ErrorCode.NONE:
            assert answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
            self.forget(member)
            return
        self.epochs[member] = answer.member_epoch
        self.owned.setdefault(member, set())
        self.told.setdefault(member, set())
        if answer.assignment is not None:
            names = {topic.id: name for name, topic in self.world.topics.items()}
            self.told[member] = {
                (names[topic.topic_id], index)
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
            }

    def by_topic(self, member: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for topic, index in self.owned[member]:
            found.setdefault(topic, []).append(index)
        return found

    def forget(self, member: str) -> None:
        for kept in (self.epochs, self.owned, self.told):
            kept.pop(member, None)

    def drop_fenced(self) -> None:
        group = self.world.group()
        for member in list(self.epochs):
            if group is None or member not in group.members:
                self.forget(member)

    def teardown(self) -> None:
        """Left alone, a group comes to rest with every partition owned."""
        for _ in range(12):
            for member in list(self.epochs):
                self.beat(member)
                self.give_up_and_take(member)
        self.no_partition_has_two_owners()
        group = self.world.group()
        if group is None or not self.epochs or set(group.members) != set(self.epochs):
            return
        assert group.state == "Stable"
        wanted = {topic for member in group.members.values() for topic in member.topics}
        places = {(name, i) for name in wanted for i in self.world.topics[name].partitions}
        assert {place for places in self.owned.values() for place in places} == places


LONG = settings(max_examples=effort(100, soak=3_000), stateful_step_count=effort(40, soak=60))
TestClassicHistory = ClassicHistory.TestCase
TestClassicHistory.settings = LONG
TestConsumerHistory = ConsumerHistory.TestCase
TestConsumerHistory.settings = LONG
