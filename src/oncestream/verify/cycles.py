"""Cycles between transactions: circles of "wrote before", "was read by" and "was missed by".

Only a circle of reads alone breaks what Kafka promises. Open transactions may write in turns (ww), a
transaction may read another that overtook it (ww and wr), and a poll may miss what is new (rw).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from oncestream.client.topic_partition import TopicPartition
from oncestream.verify.anomalies import Anomaly, Findings, Witness
from oncestream.verify.final_log import FinalLog
from oncestream.verify.history import NO_TRANSACTION, Event, Kind, Phase
from oncestream.verify.ledger import Ledger


class Edge(NamedTuple):
    """Why one transaction comes before another: a record of theirs."""

    word: str
    at: TopicPartition
    offset: int
    value: int


Edges = dict[int, dict[int, Edge]]

WROTE: Final = "wrote before the next one"
READ: Final = "was read by the next one"
MISSED: Final = "had not seen what the next one wrote"


class CycleCheck:
    """Gathers edges from polls inside of transactions, then looks for circles. One edge is kept for each pair."""

    def __init__(self, ledger: Ledger, logs: Mapping[TopicPartition, FinalLog], findings: Findings) -> None:
        self._ledger = ledger
        self._logs = logs
        self._findings = findings
        self._reads: Edges = {}
        self._ends: dict[tuple[int, TopicPartition], int] = {}  # how far each transaction read

    def take(self, event: Event) -> None:
        if event.kind is not Kind.POLL or event.transaction == NO_TRANSACTION or event.phase is Phase.INVOKE:
            return
        reader = self._ledger.transaction_of(event.process, event.transaction)
        if reader == NO_TRANSACTION or not self._ledger.transactions[reader].took_place:
            return
        for record in event.records:
            self._ends[reader, record.at] = max(self._ends.get((reader, record.at), 0), record.offset)
            value = record.value if record.value is not None else -1
            self._add(
                self._reads, self._writer(record.at, value), reader, (READ, record.at, record.offset, value)
            )

    def finish(self) -> None:
        writes, missed = self._write_edges(), self._missed_edges()
        known: set[int] = set()
        for anomaly, kinds in (
            (Anomaly.READ_CYCLE, [self._reads]),
            (Anomaly.WRITE_CYCLE, [writes]),
            (Anomaly.WRITE_READ_CYCLE, [self._reads, writes]),
            (Anomaly.MISSED_READ_CYCLE, [self._reads, missed]),
        ):
            graph = _joined(kinds)
            for knot in knots(graph):
                if known.isdisjoint(knot):  # else it is told by its simpler name
                    self._tell(anomaly, _circle(graph, knot))
                    known.update(knot)

    def _write_edges(self) -> Edges:
        """From each record's transaction to that of the next record of its partition."""
        edges: Edges = {}
        for at, log in self._logs.items():
            before = NO_TRANSACTION
            for offset, value in log:
                writer = self._writer(at, value)
                self._add(edges, before, writer, (WROTE, at, offset, value))
                before = writer
        return edges

    def _missed_edges(self) -> Edges:
        """From each transaction to the writer of the first record that it did not come to."""
        edges: Edges = {}
        for (reader, at), end in self._ends.items():
            following = self._logs[at].next_after(end) if at in self._logs else None
            if following is not None:
                self._add(edges, reader, self._writer(at, following[1]), (MISSED, at, *following))
        return edges

    def _writer(self, at: TopicPartition, value: int) -> int:
        """The transaction that wrote it, if it took place."""
        sends = self._ledger.sends_to(at)
        row = sends.rows.get(value)
        number = sends.transactions[row] if row is not None else NO_TRANSACTION
        if number == NO_TRANSACTION or not self._ledger.transactions[number].took_place:
            return NO_TRANSACTION
        return number

    @staticmethod
    def _add(edges: Edges, first: int, second: int, reason: tuple[str, TopicPartition, int, int]) -> None:
        if first != second and NO_TRANSACTION not in (first, second):
            edges.setdefault(first, {}).setdefault(second, Edge(*reason))

    def _tell(self, anomaly: Anomaly, circle: list[tuple[int, Edge]]) -> None:
        names = [str(self._ledger.transactions[number]) for number, _ in circle]
        steps = [
            Witness(f"{name} {edge.word}", edge.at, edge.offset, edge.value)
            for name, (_, edge) in zip(names, circle, strict=True)
        ]
        self._findings.add(anomaly, " -> ".join([*names, names[0]]), steps)


def knots(graph: Mapping[int, Collection[int]]) -> Iterator[list[int]]:
    """Strongly connected parts of more than one node (Tarjan's, without recursion)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    open_nodes: dict[int, None] = {}
    for start in graph:
        if start in order:
            continue
        order[start] = low[start] = len(order)
        open_nodes[start] = None
        path = [(start, iter(graph[start]))]
        while path:
            node, following = path[-1]
            for each in following:
                if each not in order:
                    order[each] = low[each] = len(order)
                    open_nodes[each] = None
                    path.append((each, iter(graph.get(each, ()))))
                    break
                if each in open_nodes:
                    low[node] = min(low[node], order[each])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    part: list[int] = []
                    while not part or part[-1] != node:
                        part.append(open_nodes.popitem()[0])
                    if len(part) > 1:
                        yield part


def _circle(graph: Edges, knot: list[int]) -> list[tuple[int, Edge]]:
    """A shortest circle through one transaction of the knot: each transaction with its edge to the next."""
    inside = set(knot)
    start = min(knot)
    came_from: dict[int, int] = {}
    waiting = deque([start])
    while start not in came_from:
        node = waiting.popleft()
        for each in graph.get(node, ()):
            if each in inside and each not in came_from:
                came_from[each] = node
                waiting.append(each)
    circle, node = [], start
    while True:
        before = came_from[node]
        circle.append((before, graph[before][node]))
        node = before
        if node == start:
            return circle[::-1]


def _joined(kinds: list[Edges]) -> Edges:
    if len(kinds) == 1:
        return kinds[0]
    graph: Edges = {}
    for edges in kinds:
        for first, seconds in edges.items():
            graph[first] = {**seconds, **graph.get(first, {})}
    return graph
