"""Topics on first use: made behind the answer that says they are unknown, as on Apache Kafka."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from oncestream.errors import DataFolderUnusable
from oncestream.wire.error_codes import KafkaError

REFUSALS_MAX: Final = 1_000  # names whose refusal is remembered, so that it is logged once

logger = logging.getLogger("oncestream.broker")


class FirstUse:
    """The topics that are about to be made. A client asks again until its topic is there."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._awaited: set[str] = set()
        self._refusals: dict[str, str] = {}

    def make_soon(self, name: str, make: Callable[[], object]) -> None:
        """Calls `make` after this turn of the loop, once for all who ask for the topic until then."""
        if name not in self._awaited:
            self._awaited.add(name)
            self._loop.call_soon(self._make, name, make)

    def close(self) -> None:
        """Nothing is made any more."""
        self._awaited.clear()

    def _make(self, name: str, make: Callable[[], object]) -> None:
        if name not in self._awaited:
            return
        self._awaited.discard(name)
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
