"""Checks a history against the logs that it left.

Two walks through the history: the first indexes the writes, the second checks the polls, of which none is kept.
Memory: about 200 bytes for each record sent, 16 for each in the final logs, 500 for each transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from oncestream.client.topic_partition import TopicPartition
from oncestream.verify.anomalies import ALLOWED_BY_KAFKA, Anomaly, Findings
from oncestream.verify.cycles import CycleCheck
from oncestream.verify.final_log import FinalLog
from oncestream.verify.history import Event
from oncestream.verify.ledger import Fate, Ledger
from oncestream.verify.log_order import check_log_order
from oncestream.verify.polls import PollCheck
from oncestream.verify.report import Figures, Report
from oncestream.verify.visibility import check_visibility


def check(
    history: Iterable[Event],
    *,
    final_logs: Mapping[TopicPartition, FinalLog],
    allowed: frozenset[Anomaly] = ALLOWED_BY_KAFKA,
) -> Report:
    """Every anomaly of the history. `history` is walked twice: a History or a list, not a generator.

    A commit of unknown outcome may have happened, but then wholly. Partitions without a final log are not
    checked for lost writes, duplicates and skips; the report names them.
    """
    assert not isinstance(history, Iterator), "the second walk through it would find nothing"
    ledger, findings = Ledger(history), Findings()
    check_visibility(ledger, final_logs, findings)
    for log in final_logs.values():
        check_log_order(ledger, log, findings)
    polls = PollCheck(ledger, final_logs, findings)
    cycles = CycleCheck(ledger, final_logs, findings)
    for event in history:
        polls.take(event)
        cycles.take(event)
    cycles.finish()
    return Report(
        counts=dict(findings.counts),
        found=tuple(findings.kept),
        figures=_figures(ledger, final_logs),
        unchecked=tuple(sorted(ledger.partitions.keys() - final_logs.keys())),
        allowed=allowed,
    )


def _figures(ledger: Ledger, logs: Mapping[TopicPartition, FinalLog]) -> Figures:
    fates = [transaction.fate for transaction in ledger.transactions]
    return Figures(
        events=ledger.events,
        processes=len(ledger.processes),
        sent=ledger.sent,
        polled=ledger.polled,
        in_logs=sum(len(log.offsets) for log in logs.values()),
        transactions=len(fates),
        committed=fates.count(Fate.COMMITTED),
        aborted=fates.count(Fate.ABORTED),
        outcome_unknown=fates.count(Fate.MAYBE) + fates.count(Fate.OPEN),
        faults=ledger.faults,
    )
