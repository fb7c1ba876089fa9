"""Live and recovered state are equal: whatever clients did, a restarted broker answers as it did before."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from oncestream import Broker
from oncestream.testing.ports import free_address
from tests.broker.kit import Wire
from tests.effort import effort
from tests.transactions.activity import SIMPLE_GROUPS, TopicActivity
from tests.transactions.answers import Answers, all_answers
from tests.transactions.group_activity import GroupActivity

STEPS: Final = 25
SETTINGS: Final[dict[str, object]] = {
    "consumer_group_session_timeout_ms": 1_800_000,
    "durability": "os",  # a killed process loses nothing of it
    "offsets_partitions": 2,
    "transaction_partitions": 2,
}


class Rolling:
    """A broker that is used, ended and started again, round by round."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.address = free_address()
        self.topics = TopicActivity(self.chance)
        self.groups = GroupActivity(self.chance, self.topics.topics, self.address)
        self.broker = Broker(folder, process=True, listen=self.address, **SETTINGS).start()
        with Wire(self.address) as wire:
            while len(self.topics.topics) < 3:
                self.topics.make_topic(wire)

    def act(self) -> None:
        steps = self.topics.steps + self.groups.steps
        with Wire(self.address) as wire:
            for _ in range(STEPS):
                self.chance.choice(steps)(wire)
            self.groups.settle(wire)

    def answers(self, *, leader_epochs: bool) -> Answers:
        with Wire(self.address) as wire:
            return all_answers(wire, SIMPLE_GROUPS, leader_epochs=leader_epochs)

    def restart(self, *, hard: bool) -> None:
        if hard:
            self.broker.kill()
        else:
            self.broker.stop()
        self.broker.start()

    def check_restart(self, *, hard: bool) -> None:
        before = self.answers(leader_epochs=not hard)
        self.restart(hard=hard)
        after = self.answers(leader_epochs=not hard)
        assert after.keys() == before.keys()
        for name, answer in before.items():
            assert after[name] == answer, name

    def kill_while_a_transaction_ends(self) -> None:
        """Whether it was heard is unknown; asked again, it is done, and nothing else."""
        opened = [producer for producer in self.topics.producers if producer.open]
        if not opened:
            return
        producer, commit = self.chance.choice(opened), self.chance.random() < 0.5
        with Wire(self.address) as wire:
            wire.send(producer.ending(commit), producer.end_version)
            self.restart(hard=True)
        with Wire(self.address) as wire:
            producer.end(wire, commit=commit)


@pytest.mark.parametrize("seed", range(effort(2, soak=20)))
def test_a_restarted_broker_answers_as_before(tmp_path: Path, seed: int) -> None:
    rolling = Rolling(tmp_path, seed)
    try:
        for number in range(effort(8, soak=20)):
            rolling.act()
            rolling.check_restart(hard=number % 2 == 0)
            rolling.kill_while_a_transaction_ends()
    finally:
        rolling.broker.stop()
