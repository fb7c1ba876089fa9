"""Rules about the order of a log: one value, one offset; one producer, one order."""

from __future__ import annotations

from oncestream.verify.anomalies import Anomaly, Findings
from oncestream.verify.final_log import FinalLog
from oncestream.verify.history import NO_OFFSET
from oncestream.verify.ledger import Fate, Ledger, Sends


def check_log_order(ledger: Ledger, log: FinalLog, findings: Findings) -> None:
    sends = ledger.sends_to(log.at)
    _check_offsets(ledger, sends, log, findings)
    _check_sends(ledger, sends, log, findings)


def _check_offsets(ledger: Ledger, sends: Sends, log: FinalLog, findings: Findings) -> None:
    """Every value at one offset, the one that its sender was told."""
    first_seen: dict[int, int] = {}
    for offset, value in log:
        row = sends.rows.get(value)
        if row is None:
            continue
        if row in first_seen:
            findings.add(
                Anomaly.DUPLICATE,
                f"{log.at}: value {value} at offsets {first_seen[row]} and {offset}",
                [*log.around(first_seen[row]), *log.around(offset), ledger.witness(sends, row)],
            )
            continue
        first_seen[row] = offset
        told = sends.offsets[row]
        if told not in (NO_OFFSET, offset) and log.value_at(told) != value:
            findings.add(
                Anomaly.INCONSISTENT_OFFSET,
                f"{log.at}: the sender of value {value} was told offset {told}, the log has it at {offset}",
                [*log.around(offset), ledger.witness(sends, row)],
            )


def _check_sends(ledger: Ledger, sends: Sends, log: FinalLog, findings: Findings) -> None:
    """The first places of what a producer sent rise in the order of its sends."""
    places: dict[int, int] = {}
    for offset, value in log:
        row = sends.rows.get(value)
        if row is not None:
            places.setdefault(row, offset)
    last: dict[int, tuple[int, int]] = {}  # by process: the highest offset so far, and its row
    for row in range(len(sends.values)):
        place = places.get(row)
        if place is None or ledger.fate_of(sends, row) is Fate.ABORTED:
            continue
        process = sends.processes[row]
        before = last.get(process)
        if before is not None and place < before[0]:
            findings.add(
                Anomaly.NON_MONOTONIC_SEND,
                f"{log.at}: {ledger.processes[process]} sent value {sends.values[before[1]]}"
                f" and then {sends.values[row]}, which stand at offsets {before[0]} and {place}",
                [*log.around(place, before[0]), *(ledger.witness(sends, each) for each in (before[1], row))],
            )
        else:
            last[process] = (place, row)
