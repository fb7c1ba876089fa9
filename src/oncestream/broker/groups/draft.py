"""A consumer group as it will be after the step at hand: every change here is a record of that step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from oncestream.broker.groups import consumer_records as records
from oncestream.broker.groups.consumer_group import NONE_ASSIGNED, Assignment, ConsumerGroup, ConsumerMember
from oncestream.broker.groups.step import Step


class Draft:
    """The group itself does not change: replaying the records will change it."""

    def __init__(self, group: ConsumerGroup, step: Step) -> None:
        self.group = group
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self.members = dict(group.members)
        self.target: dict[str, Assignment] = dict(group.target)
        self.replaced: str | None = None
        self._regex_topics = dict(group.regex_topics)
        self._step = step

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        return member.topics | self._regex_topics.get(member.regex or "", frozenset())

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*(self.topics_of(member) for member in self.members.values()))

    def update(self, member: ConsumerMember, *, changed: bool) -> None:
        self.members[member.id] = member
        if changed:
            self._step.write(records.member_record(self.group.id, member))

    def remove(self, member_id: str) -> None:
        del self.members[member_id]
        self.target.pop(member_id, None)
        self._step.write(*records.member_tombstones(self.group.id, member_id))

    def replace_static(self, old: ConsumerMember, new_id: str) -> ConsumerMember:
        """The new process has the old one's place, partitions and target, and has yet to learn so."""
        target = self.target.get(old.id, NONE_ASSIGNED)
        self.remove(old.id)
        self.replaced = old.id
        member = replace(old, id=new_id, epoch=0, previous_epoch=0)
        self.members[new_id] = member
        self.target[new_id] = target
        self._step.write(
            records.member_record(self.group.id, member),
            records.target_record(self.group.id, new_id, target),
            records.current_record(self.group.id, member),
        )
        return member

    def set_regex_topics(self, found: Mapping[str, frozenset[str]]) -> None:
        group_id, old = self.group.id, self._regex_topics
        for pattern in old.keys() - found.keys():
            self._step.write(records.regex_tombstone(group_id, pattern))
        for pattern, topics in found.items():
            if old.get(pattern) != topics:
                self._step.write(records.regex_record(group_id, pattern, topics, self._step.now_ms))
        self._regex_topics = dict(found)

    def bump_epoch(self, metadata_hash: int) -> None:
        self.epoch += 1
        self._step.write(records.epoch_record(self.group.id, self.epoch, metadata_hash))

    def set_target(self, target: dict[str, Assignment]) -> None:
        for member_id, assignment in target.items():
            if self.target.get(member_id) != assignment:
                self._step.write(records.target_record(self.group.id, member_id, assignment))
        self.target = target
        self.target_epoch = self.epoch
        self._step.write(records.target_epoch_record(self.group.id, self.epoch, self._step.now_ms))
