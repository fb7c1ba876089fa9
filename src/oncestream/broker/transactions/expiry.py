"""Forgets transactional ids that nobody has used for long."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from oncestream.broker.transactions.ledger import Ledger
from oncestream.broker.transactions.state import State
from oncestream.wire.error_codes import KafkaError

if TYPE_CHECKING:
    from oncestream.broker.node import Node

logger = logging.getLogger("oncestream.broker")

INTERVAL_MS_MAX: Final = 3_600_000


class Expiry:
    """Looks now and then."""

    def __init__(self, node: Node, ledger: Ledger) -> None:
        self._node = node
        self._ledger = ledger
        self._after_ms = node.settings.transactional_id_expiration_ms
        self._arm()

    def close(self) -> None:
        self._alarm.cancel()

    def _arm(self) -> None:
        delay_ms = min(INTERVAL_MS_MAX, self._after_ms)
        self._alarm = self._node.loop.call_later(delay_ms / 1000, self._ring)

    def _ring(self) -> None:
        try:
            self._expire()
        except KafkaError as error:
            logger.warning("expiry of transactional ids failed; it is tried again: %s", error)
        self._arm()

    def _expire(self) -> None:
        before_ms = self._node.clock.now_ms() - self._after_ms
        for txn in list(self._ledger.states):
            in_use = txn.state is State.ONGOING or txn.state.is_ending
            if not in_use and txn.updated_ms <= before_ms:
                self._ledger.forget(txn.id)
                logger.info("transactional id expired transactional_id=%s", txn.id)
