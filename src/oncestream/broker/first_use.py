"""Topics on first use: made behind the answer that says they are unknown, as on Apache Kafka."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from oncestream.errors import DataFolderUnusable
from oncestream.wire.error_codes import KafkaError

AWAITED_MAX: Final = 1_000  # names; whoever asks for more asks again
REFUSALS_MAX: Final = 1_000  # names whose refusal is remembered, so that it is logged once

logger = logging.getLogger("oncestream.broker")


class FirstUse:
    """The topics that are about to be made, one in a turn of the loop. A client asks again until its topic is there."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._awaited: dict[str, Callable[[], object]] = {}
        self._refusals: dict[str, str] = {}

    def make_soon(self, name: str, make: Callable[[], object]) -> None:
        """Calls `make` after this turn of the loop, once for all who ask for the topic until then."""
        if name in self._awaited or len(self._awaited) >= AWAITED_MAX:
            return
        if not self._awaited:
            self._loop.call_soon(self._make_next)
        self._awaited[name] = make

    def close(self) -> None:
        """Nothing is made any more."""
        self._awaited.clear()

    def _make_next(self) -> None:
        if not self._awaited:
            return
        name, make = next(iter(self._awaited.items()))
        del self._awaited[name]
        if self._awaited:
            self._loop.call_soon(self._make_next)
        try:
            make()
        except (KafkaError, DataFolderUnusable) as error:
            self._log(name, str(error))
        else:
            self._refusals.pop(name, None)

    def _log(self, name: str, reason: str) -> None:
        """Once for each reason: the client asks again and again."""
        if self._refusals.get(name) == reason:
            return
        if len(self._refusals) >= REFUSALS_MAX:
            self._refusals.clear()
        self._refusals[name] = reason
        logger.warning("topic cannot be made on first use topic=%s: %s", name, reason)
