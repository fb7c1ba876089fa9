"""Rules about what the final log shows: all of what was committed, nothing of what was not."""

from __future__ import annotations

from collections.abc import Mapping

from oncestream.client.topic_partition import TopicPartition
from oncestream.verify.anomalies import Anomaly, Findings, Witness
from oncestream.verify.final_log import FinalLog
from oncestream.verify.history import NO_OFFSET, NO_TRANSACTION, Phase
from oncestream.verify.ledger import Fate, Ledger, Sends

WITNESSES_MAX = 10


def check_visibility(ledger: Ledger, logs: Mapping[TopicPartition, FinalLog], findings: Findings) -> None:
    """Also counts, in each transaction, the records that are in the logs and those that are not."""
    for at, log in logs.items():
        sends = ledger.sends_to(at)
        visible = _check_visible(ledger, sends, log, findings)
        _check_missing(ledger, sends, log, visible, findings)
    torn = {
        number
        for number, transaction in enumerate(ledger.transactions)
        if transaction.visible and transaction.missing and transaction.fate is not Fate.ABORTED
    }
    if torn:
        _tell_torn(ledger, logs, torn, findings)


def _check_visible(ledger: Ledger, sends: Sends, log: FinalLog, findings: Findings) -> bytearray:
    """Nobody reads what was not sent, not committed, or refused. Answers which rows are there."""
    visible = bytearray(len(sends.values))
    for offset, value in log:
        row = sends.rows.get(value)
        if row is None:
            findings.add(
                Anomaly.PHANTOM,
                f"{log.at}: nobody sent what stands at offset {offset}",
                log.around(offset),
            )
            continue
        if not visible[row] and sends.transactions[row] != NO_TRANSACTION:
            ledger.transactions[sends.transactions[row]].visible += 1
        visible[row] = 1
        fate = ledger.fate_of(sends, row)
        if fate in (Fate.ABORTED, Fate.OPEN):
            findings.add(
                Anomaly.ABORTED_READ if fate is Fate.ABORTED else Anomaly.PRECOMMITTED_READ,
                f"{log.at}: the log shows value {value} at offset {offset}, {_why_not(ledger, sends, row)}",
                [*log.around(offset), ledger.witness(sends, row)],
            )
    return visible


def _check_missing(
    ledger: Ledger, sends: Sends, log: FinalLog, visible: bytearray, findings: Findings
) -> None:
    """What was acknowledged, alone or by a commit, is there unless it was deleted since."""
    for row in range(len(sends.values)):
        if visible[row] or sends.phase(row) is Phase.FAILED:
            continue
        told = sends.offsets[row]
        if told < log.start and (told != NO_OFFSET or log.start > 0):
            continue
        if sends.transactions[row] != NO_TRANSACTION:
            ledger.transactions[sends.transactions[row]].missing += 1
        if ledger.fate_of(sends, row) is Fate.COMMITTED:
            findings.add(
                Anomaly.LOST_WRITE,
                f"{log.at}: value {sends.values[row]} is not in the log",
                [ledger.witness(sends, row), *log.around(told)],
            )


def _tell_torn(
    ledger: Ledger, logs: Mapping[TopicPartition, FinalLog], torn: set[int], findings: Findings
) -> None:
    parts: dict[int, list[Witness]] = {number: [] for number in torn}
    for at, log in logs.items():
        sends = ledger.sends_to(at)
        there = set(log.values)
        for row, number in enumerate(sends.transactions):
            if number in torn and len(parts[number]) < WITNESSES_MAX:
                sent = ledger.witness(sends, row)
                where = "in the log" if sent.value in there else "NOT in the log"
                parts[number].append(sent._replace(told_by=f"{sent.told_by}; {where}"))
    for number in sorted(torn):
        transaction = ledger.transactions[number]
        findings.add(
            Anomaly.TORN_TRANSACTION,
            f"{transaction}: {transaction.visible} of its records are in the logs, {transaction.missing} are not",
            parts[number],
            transaction.commit_asked_ns,
        )


def _why_not(ledger: Ledger, sends: Sends, row: int) -> str:
    if sends.phase(row) is Phase.FAILED:
        return "which was refused"
    return f"of {ledger.transactions[sends.transactions[row]]}"
