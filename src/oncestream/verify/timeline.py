"""A history over time: how much was sent and read, which faults were made, how much memory was used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from oncestream.verify.history import Event, Kind, Phase

BINS_MAX: Final = 300
STEP_NS: Final = 100_000_000
SAMPLES_MAX: Final = 2000


class Fault(NamedTuple):
    name: str
    start_s: float
    end_s: float  # equal to the start where it took no time, such as a kill


@dataclass(frozen=True, slots=True)
class Timeline:
    """Seconds count from the first event. `sent` (acknowledged) and `polled` are records per second."""

    start_ns: int
    bin_s: float
    sent: tuple[float, ...]
    polled: tuple[float, ...]
    faults: tuple[Fault, ...] = ()
    memory: dict[str, list[tuple[float, int]]] = field(default_factory=dict)  # bytes, by process

    @property
    def length_s(self) -> float:
        return self.bin_s * len(self.sent)

    def second_of(self, time_ns: int) -> float:
        return (time_ns - self.start_ns) / 1e9


def timeline_of(history: Iterable[Event]) -> Timeline:
    """One walk. Memory: a count for each tenth of a second, all faults, at most 2000 memory samples a process."""
    start_ns = end_ns = None
    sent: Counter[int] = Counter()
    polled: Counter[int] = Counter()
    faults: dict[tuple[str, str], int] = {}
    over: list[tuple[str, int, int]] = []
    memory: dict[str, list[tuple[int, int]]] = {}
    for event in history:
        start_ns = event.time_ns if start_ns is None else min(start_ns, event.time_ns)
        end_ns = event.time_ns if end_ns is None else max(end_ns, event.time_ns)
        if event.kind is Kind.SEND and event.phase is Phase.OK:
            sent[event.time_ns // STEP_NS] += 1
        elif event.kind is Kind.POLL:
            polled[event.time_ns // STEP_NS] += len(event.records)
        elif event.kind is Kind.MEMORY:
            _keep(memory.setdefault(event.process, []), (event.time_ns, event.amount))
        elif event.kind is Kind.FAULT and event.phase is Phase.INVOKE:
            faults[event.process, event.note] = event.time_ns
        elif event.kind is Kind.FAULT and (event.process, event.note) in faults:
            over.append((event.note, faults.pop((event.process, event.note)), event.time_ns))
    if start_ns is None or end_ns is None:
        return Timeline(0, 1.0, (), ())
    over += [(name, at, at) for (_, name), at in faults.items()]
    first, last = start_ns // STEP_NS, end_ns // STEP_NS
    steps = max(1, -(-(last - first + 1) // BINS_MAX))
    return Timeline(
        start_ns,
        steps * STEP_NS / 1e9,
        _rates(sent, first, last, steps),
        _rates(polled, first, last, steps),
        tuple(
            Fault(name, (begin - start_ns) / 1e9, (end - start_ns) / 1e9)
            for name, begin, end in sorted(over, key=lambda fault: fault[1])
        ),
        {name: [((at - start_ns) / 1e9, size) for at, size in samples] for name, samples in memory.items()},
    )


def _rates(counts: Counter[int], first: int, last: int, steps: int) -> tuple[float, ...]:
    per_second = 1e9 / (steps * STEP_NS)
    return tuple(
        sum(counts[step] for step in range(begin, begin + steps)) * per_second
        for begin in range(first, last + 1, steps)
    )


def _keep(samples: list[tuple[int, int]], sample: tuple[int, int]) -> None:
    """Where there are too many, every other one goes."""
    samples.append(sample)
    if len(samples) > SAMPLES_MAX:
        del samples[1::2]
