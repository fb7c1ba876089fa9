"""Carries out what was decided about transactions. What a full disk refuses is tried again until it is done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from oncestream.broker.transactions import markers
from oncestream.broker.transactions.end import complete
from oncestream.broker.transactions.ledger import Ledger
from oncestream.broker.transactions.state import State, TopicPartition, Transaction
from oncestream.broker.transactions.waits import Waits
from oncestream.storage.room import DiskFull
from oncestream.wire.error_codes import KafkaError

if TYPE_CHECKING:
    from oncestream.broker.node import Node

logger = logging.getLogger("oncestream.broker")

AGAIN_SECONDS: Final = 1.0


class CarryOut:
    """Markers first, all of them durable: only then may the log forget that they are owed."""

    def __init__(self, node: Node, ledger: Ledger, waits: Waits, completed: Callable[[str], None]) -> None:
        self._node = node
        self._ledger = ledger
        self._waits = waits
        self._completed = completed
        self._alarms: set[asyncio.TimerHandle] = set()

    def start(
        self, ended: Transaction, partitions: frozenset[TopicPartition], *, is_again: bool = False
    ) -> None:
        def marked(failures: markers.Failures) -> None:
            for where, error in failures.items():
                if not is_again and not isinstance(error, DiskFull):
                    logger.error(
                        "marker failed producer_id=%d partition=%s: %s", ended.producer_id, where, error
                    )
            if failures:
                owed = frozenset(failures)
                self.again(lambda: self.start(ended, owed, is_again=True))
                self._waits.settle(ended.id)
            else:
                self._complete(ended)

        marker = markers.Marker(ended.producer, ended.state is State.PREPARE_COMMIT)
        markers.write_everywhere(self._node, marker, partitions, marked)

    def again(self, work: Callable[[], None]) -> None:
        """Does the work after a while."""

        def ring() -> None:
            self._alarms.discard(alarm)
            work()

        alarm = self._node.loop.call_later(AGAIN_SECONDS, ring)
        self._alarms.add(alarm)

    def close(self) -> None:
        """What is not done yet is owed, and done after the next start."""
        for alarm in self._alarms:
            alarm.cancel()
        self._alarms.clear()

    def _complete(self, ended: Transaction) -> None:
        try:
            self._ledger.put(complete(ended, self._node.clock.now_ms()))
        except KafkaError:
            self.again(lambda: self._complete(ended))
        else:
            self._completed(ended.id)
        self._waits.settle(ended.id)
