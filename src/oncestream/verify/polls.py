"""Rules about what consumers of committed records see, poll after poll."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncestream.client.topic_partition import TopicPartition
from oncestream.verify.anomalies import Anomaly, Findings
from oncestream.verify.final_log import FinalLog
from oncestream.verify.history import NO_OFFSET, Event, Kind, Phase, Record
from oncestream.verify.ledger import Fate, Ledger, Sends, seen


class PollCheck:
    """Walks through the polls of all consumers. Keeps a position for each consumer and partition."""

    def __init__(self, ledger: Ledger, logs: Mapping[TopicPartition, FinalLog], findings: Findings) -> None:
        self._ledger = ledger
        self._logs = logs
        self._findings = findings
        # The offset that comes next at the earliest; what lies between it and the next record was skipped.
        self._positions: dict[str, dict[TopicPartition, int]] = {}

    def take(self, event: Event) -> None:
        if event.phase is Phase.INVOKE:
            return
        positions = self._positions.setdefault(event.process, {})
        if event.kind is Kind.POLL:
            for record in event.records:
                self._order(positions, record, event)
                self._content(record, event)
        elif event.kind is Kind.ASSIGN:
            positions.clear()
            _set(positions, event.records)
        elif event.kind is Kind.SEEK:
            _set(positions, event.records)

    def _order(self, positions: dict[TopicPartition, int], record: Record, event: Event) -> None:
        at = record.at
        expected = positions.get(at)
        if expected is not None and record.offset < expected:
            self._tell(
                Anomaly.NON_MONOTONIC_POLL,
                f"{at}: {event.process} had come to offset {expected} and was given {record.offset}",
                record,
                event,
            )
            return
        log = self._logs.get(at)
        if expected is not None and log is not None:
            skipped = log.count_between(expected, record.offset)
            if skipped:
                self._findings.add(
                    Anomaly.POLL_SKIP,
                    f"{at}: {event.process} went from offset {expected} to {record.offset},"
                    f" past {skipped} committed records",
                    [*log.around(expected, record.offset), seen(record, event)],
                    event.time_ns,
                )
        positions[at] = record.offset + 1

    def _content(self, record: Record, event: Event) -> None:
        at, value = record.at, record.value
        sends = self._ledger.sends_to(at)
        row = sends.rows.get(value) if value is not None else None
        if row is None:
            self._tell(Anomaly.PHANTOM, f"{at}: nobody sent what was read at {record.offset}", record, event)
            return
        if self._is_premature(sends, row, record, event):
            return
        log = self._logs.get(at)
        if log is None or record.offset < log.start:
            return
        there = log.value_at(record.offset)
        if there == value:
            return
        if there is not None or sends.offsets[row] not in (NO_OFFSET, record.offset):
            told = f"the log has {there}" if there is not None else f"it was written to {sends.offsets[row]}"
            text = f"{at}: value {value} was read at offset {record.offset}, and {told}"
            self._tell(Anomaly.INCONSISTENT_OFFSET, text, record, event, (sends, row))
        else:
            text = f"{at}: value {value} was read at offset {record.offset}, and is not in the log"
            self._tell(Anomaly.LOST_WRITE, text, record, event, (sends, row))

    def _is_premature(self, sends: Sends, row: int, record: Record, event: Event) -> bool:
        """Whether the record was aborted, or was read before anybody asked for its commit."""
        fate = self._ledger.fate_of(sends, row)
        what = f"{record.at}: value {record.value} at offset {record.offset} was read"
        if fate is Fate.ABORTED:
            self._tell(Anomaly.ABORTED_READ, f"{what}, and was aborted", record, event, (sends, row))
            return True
        number = sends.transactions[row]
        asked_ns = self._ledger.transactions[number].commit_asked_ns if number >= 0 else 0
        if asked_ns is None or event.time_ns < asked_ns:
            when = (
                "whose commit nobody asked for"
                if asked_ns is None
                else f"{(asked_ns - event.time_ns) / 1e6:.1f} ms before its commit was asked for"
            )
            self._tell(Anomaly.PRECOMMITTED_READ, f"{what}, {when}", record, event, (sends, row))
            return True
        return False

    def _tell(
        self,
        anomaly: Anomaly,
        text: str,
        record: Record,
        event: Event,
        sent: tuple[Sends, int] | None = None,
    ) -> None:
        log = self._logs.get(record.at)
        witnesses = [seen(record, event)]
        if sent is not None:
            witnesses.append(self._ledger.witness(*sent))
        witnesses += log.around(record.offset) if log is not None else ()
        self._findings.add(anomaly, text, witnesses, event.time_ns)


def _set(positions: dict[TopicPartition, int], records: Iterable[Record]) -> None:
    for record in records:
        if record.offset == NO_OFFSET:
            positions.pop(record.at, None)
        else:
            positions[record.at] = record.offset
