"""The audit trail: who was allowed or refused what, and every administrative change, in a topic for super users.

A record is a JSON object: time (ms), event (access, change, login or lost), principal, host, client_id, api, operation,
resource_type, resource, outcome (allowed or denied), count (how many decisions it stands for), and for a change
what was changed. Changes are on the disk before they are answered. Decisions are written by the loop, half a second
late: the first of its kind, then their number, an hour (allowed) or a minute (denied) later. What one principal
can make the trail grow by is limited: beyond it decisions are told later, or only their number is (event lost).
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from oncestream.broker.security.principal import Principal
from oncestream.broker.topic_names import AUDIT_TOPIC
from oncestream.records.records import Record, build_batch
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import KafkaError

if TYPE_CHECKING:
    from oncestream.broker.node import Node
    from oncestream.broker.partition import Partition

logger = logging.getLogger("oncestream.broker")

WRITE_SECONDS: Final = 0.5
SWEEP_SECONDS: Final = 60.0
ALLOWED_MS: Final = 3_600_000
DENIED_MS: Final = 60_000
TRACKED_MAX: Final = 20_000
NAME_LENGTH_MAX: Final = 300
RECORDS_AT_ONCE: Final = 200  # of one principal; they come back at the rate below
RECORDS_PER_SECOND: Final = 2
PRINCIPALS_MAX: Final = 2_000
TOPIC_CONFIGS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": str(30 * 86_400_000),
    "retention.bytes": str(1 << 30),
    "segment.bytes": str(64 << 20),
}


class Sender(Protocol):
    """Who asks, and by which request."""

    @property
    def principal(self) -> Principal: ...
    @property
    def host(self) -> str: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def api(self) -> str: ...


class _Decision(NamedTuple):
    """What makes two decisions the same one, told once and then counted."""

    principal: Principal
    host: str
    api: str
    operation: Operation
    resource_type: ResourceType
    resource: str
    allowed: bool


class _Tally:
    """How often a decision was taken since it was last told, and when that was."""

    __slots__ = ("client_id", "count", "told_ms")

    def __init__(self, client_id: str | None, told_ms: int) -> None:
        self.client_id = client_id
        self.count = 0
        self.told_ms = told_ms


class Audit:
    """Writes the audit topic, which is made with its first record."""

    def __init__(
        self,
        node: Node,
        *,
        tracked_max: int = TRACKED_MAX,
        sweep_s: float = SWEEP_SECONDS,
        denied_ms: int = DENIED_MS,
    ) -> None:
        self._node = node
        self._tracked_max = tracked_max
        self._sweep_s = sweep_s
        self._denied_ms = denied_ms
        self._tallies: OrderedDict[_Decision, _Tally] = OrderedDict()
        self._allowances: OrderedDict[Principal, _Allowance] = OrderedDict()
        self._pending: list[bytes] = []
        self._lost = 0  # decisions that were counted but never told
        self._writing = False
        self._sweeper = node.loop.call_later(sweep_s, self._sweep)

    def decided(
        self, sender: Sender, operation: Operation, kind: ResourceType, name: str, allowed: bool
    ) -> None:
        """Somebody was allowed or refused something. Cheap: it is counted now and written later."""
        shown = name[:NAME_LENGTH_MAX]
        decision = _Decision(sender.principal, sender.host, sender.api, operation, kind, shown, allowed)
        tally = self._tallies.get(decision)
        if tally is not None:
            tally.count += 1
            return
        now_ms = self._node.clock.now_ms()
        tally = self._tallies[decision] = _Tally(
            sender.client_id and sender.client_id[:NAME_LENGTH_MAX], now_ms
        )
        if not self._may_tell(decision.principal, now_ms):
            tally.count = 1  # told with the next sweep, if there is room then
        else:
            self._tell(decision, tally, 1, now_ms)
        if len(self._tallies) > self._tracked_max:
            self._lost += self._tallies.popitem(last=False)[1].count

    def changed(
        self, sender: Sender, kind: ResourceType, name: str, change: str, details: Mapping[str, object]
    ) -> None:
        """An administrative change was made: durable when this returns."""
        self._later(
            {
                "time": self._node.clock.now_ms(),
                "event": "change",
                "principal": str(sender.principal),
                "host": sender.host,
                "client_id": sender.client_id,
                "api": sender.api,
                "operation": change,
                "resource_type": kind.name,
                "resource": name[:NAME_LENGTH_MAX],
                "outcome": "allowed",
                "count": 1,
                "change": details,
            }
        )
        self._write(durable=True)

    def login_failed(self, host: str, reason: str) -> None:
        """Somebody could not prove to be who they say. Bounded by host: the name is whatever they sent."""
        now_ms = self._node.clock.now_ms()
        if self._may_tell(Principal("Host", host), now_ms):
            self._later(
                {
                    "time": now_ms,
                    "event": "login",
                    "principal": None,
                    "host": host,
                    "outcome": "denied",
                    "reason": reason[:NAME_LENGTH_MAX],
                    "count": 1,
                }
            )

    def close(self) -> None:
        """Tells what was counted and writes what waits."""
        self._sweeper.cancel()
        now_ms = self._node.clock.now_ms()
        for decision, tally in self._tallies.items():
            if tally.count:
                self._tell(decision, tally, tally.count, now_ms)
        self._tallies.clear()
        self._tell_lost(now_ms)
        self._write()

    # -- what is told when --------------------------------------------------------------------

    def _sweep(self) -> None:
        self._sweeper = self._node.loop.call_later(self._sweep_s, self._sweep)
        now_ms = self._node.clock.now_ms()
        for decision, tally in tuple(self._tallies.items()):
            if now_ms - tally.told_ms < (ALLOWED_MS if decision.allowed else self._denied_ms):
                continue
            if not tally.count:
                del self._tallies[decision]
            elif self._may_tell(decision.principal, now_ms):
                self._tell(decision, tally, tally.count, now_ms)
        self._tell_lost(now_ms)

    def _tell_lost(self, now_ms: int) -> None:
        if self._lost:
            self._later({"time": now_ms, "event": "lost", "count": self._lost})
            self._lost = 0

    def _may_tell(self, principal: Principal, now_ms: int) -> bool:
        allowance = self._allowances.get(principal)
        if allowance is None:
            allowance = self._allowances[principal] = _Allowance(now_ms)
            if len(self._allowances) > PRINCIPALS_MAX:
                self._allowances.popitem(last=False)
        self._allowances.move_to_end(principal)
        return allowance.take(now_ms)

    def _tell(self, decision: _Decision, tally: _Tally, count: int, now_ms: int) -> None:
        tally.count = 0
        tally.told_ms = now_ms
        self._later(
            {
                "time": now_ms,
                "event": "access",
                "principal": str(decision.principal),
                "host": decision.host,
                "client_id": tally.client_id,
                "api": decision.api,
                "operation": decision.operation.name,
                "resource_type": decision.resource_type.name,
                "resource": decision.resource,
                "outcome": "allowed" if decision.allowed else "denied",
                "count": count,
            }
        )

    # -- writing ------------------------------------------------------------------------------

    def _later(self, entry: Mapping[str, object]) -> None:
        self._pending.append(json.dumps(entry).encode())
        if not self._writing:
            self._writing = True
            self._node.loop.call_later(WRITE_SECONDS, self._write)

    def _write(self, *, durable: bool = False) -> None:
        pending, self._pending = self._pending, []
        self._writing = False
        if not pending:
            return
        now_ms = self._node.clock.now_ms()
        records = [Record(number, now_ms, None, value) for number, value in enumerate(pending)]
        try:
            partition = self._partition()
            partition.log.append(memoryview(build_batch(records)), internal=True)
            if durable and self._node.durable:
                _sync(partition)
            partition.appended()
        except KafkaError as error:
            logger.error("audit records lost count=%d: %s", len(pending), error.message)

    def _partition(self) -> Partition:
        topic = self._node.topics.get(AUDIT_TOPIC)
        if topic is None:
            topic = self._node.create_topic(AUDIT_TOPIC, 1, TOPIC_CONFIGS)
        return topic.partitions[0]


class _Allowance:
    """How many records a principal may cause: so many at once, then so many a second."""

    __slots__ = ("_left", "_seen_ms")

    def __init__(self, now_ms: int) -> None:
        self._left = float(RECORDS_AT_ONCE)
        self._seen_ms = now_ms

    def take(self, now_ms: int) -> bool:
        earned = max(now_ms - self._seen_ms, 0) * RECORDS_PER_SECOND / 1000
        self._left = min(self._left + earned, RECORDS_AT_ONCE)
        self._seen_ms = now_ms
        if self._left < 1:
            return False
        self._left -= 1
        return True


def _sync(partition: Partition) -> None:
    ticket = partition.log.unsynced()
    if ticket is not None:
        ticket.run()
        partition.log.synced(ticket)
        partition.on_synced()
