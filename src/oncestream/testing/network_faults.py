"""Which requests meet which trouble: `NetworkFault`, and `FaultBook`, from which a proxy takes them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Final, Self

from oncestream.errors import BadFault, FaultDidNotHappen
from oncestream.testing.door import Door, Held
from oncestream.testing.error_answers import can_fail
from oncestream.testing.frames import Request, api_of
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.schema import Message

ALWAYS: Final = 1_000_000_000
HIT_TIMEOUT_S: Final = 60.0
DELAY_S_MAX: Final = 0.2


class Trouble(StrEnum):
    """What a request, or its answer, can meet on its way."""

    FAIL = "is answered with an error, and does not reach the broker"
    DELAY = "reaches the broker late"
    DELAY_ANSWER = "is answered late"
    DROP = "is lost, and its connection is silent from then on"
    DROP_ANSWER = "reaches the broker; the answer is lost, and its connection is silent from then on"
    CUT_BEFORE = "is lost, and its connection ends"
    CUT_AFTER = "reaches the broker; instead of the answer comes the end of the connection"
    DUPLICATE = "reaches the broker twice; the second answer is lost"
    HOLD = "is kept, to be delivered later; its connection is silent from then on"


@dataclass(frozen=True, slots=True)
class Rule:
    """Trouble for the requests of one API: `times` of them, after `skip` that pass, where `when` says so."""

    trouble: Trouble
    api: ApiKey
    times: int = 1
    skip: int = 0
    seconds: float = 0.0
    error: ErrorCode = ErrorCode.NONE
    when: Callable[[Message], bool] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.times < 1 or self.skip < 0 or self.seconds < 0:
            raise BadFault(
                reason=f"times={self.times}, skip={self.skip}, seconds={self.seconds}",
                advice="times are 1 or more, skip and seconds not negative",
            )
        if self.trouble is Trouble.FAIL and not can_fail(self.api):
            raise BadFault(reason=f"no error of {self.api.name} can be made up", advice="use cut_before")


class NetworkFault:
    """A rule at work in a proxy: how often it was met, and how to end it; also the end of a `with` block does."""

    def __init__(self, rule: Rule, changed: threading.Condition) -> None:
        self.rule = rule
        self.held: list[Held] = []
        self._changed = changed
        self._seen = 0
        self._hits = 0
        self._removed = False

    @property
    def hits(self) -> int:
        """How many requests have met it."""
        return self._hits

    @property
    def is_over(self) -> bool:
        return self._removed or self._hits >= self.rule.times

    def remove(self) -> None:
        """No further request meets it."""
        self._removed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def wait(self, hits: int = 1, timeout_s: float = HIT_TIMEOUT_S) -> None:
        """Until so many requests have met it."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._hits >= hits, timeout_s):
                name = f"{self.rule.api.name} that {self.rule.trouble}"
                raise FaultDidNotHappen(fault=name, hits=self._hits, wanted=hits, seconds=timeout_s)

    def deliver(self) -> list[Message]:
        """What `hold` kept reaches the broker now; what it answers, which nobody else hears."""
        kept, self.held = self.held, []
        return [each.deliver() for each in kept]

    def takes(self, request: Request) -> bool:
        """Whether this request meets it; counts it."""
        if self.is_over or request.api is not self.rule.api or not request.is_understood:
            return False
        if self.rule.when is not None and not self.rule.when(request.message()):
            return False
        self._seen += 1
        return self._seen > self.rule.skip

    def hit(self, request: Held) -> None:
        self._hits += 1
        if self.rule.trouble is Trouble.HOLD:
            self.held.append(request)


class FaultBook:
    """The faults of a proxy. Each request meets one at most: the first, in the order they were added."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._faults: list[NetworkFault] = []

    def add(self, rule: Rule) -> NetworkFault:
        fault = NetworkFault(rule, self._changed)
        with self._changed:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        with self._changed:
            for fault in self._faults:
                fault.remove()
            self._faults.clear()

    def take(self, request: Request, door: Door) -> NetworkFault | None:
        """The fault that this request meets. Every fault counts it, so that `skip` means what it says."""
        if not self._faults:
            return None
        with self._changed:
            taking = [fault for fault in self._faults if fault.takes(request)]
            if not taking:
                return None
            taking[0].hit(Held(request, door))
            self._faults = [fault for fault in self._faults if not fault.is_over]
            self._changed.notify_all()
            return taking[0]


RETRIED: Final = {
    ApiKey.PRODUCE: (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS),
    ApiKey.FETCH: (ErrorCode.NOT_LEADER_OR_FOLLOWER,),
    ApiKey.INIT_PRODUCER_ID: (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS),
    ApiKey.ADD_PARTITIONS_TO_TXN: (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS),
    ApiKey.ADD_OFFSETS_TO_TXN: (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS),
    ApiKey.TXN_OFFSET_COMMIT: (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ApiKey.END_TXN: (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR),
}
QUICK: Final = (
    Trouble.FAIL,
    Trouble.DELAY,
    Trouble.DELAY_ANSWER,
    Trouble.CUT_BEFORE,
    Trouble.CUT_AFTER,
    Trouble.DUPLICATE,
)


def random_rules(
    seed: int,
    count: int,
    *,
    within: int = 100,
    apis: Iterable[ApiKey | str] = tuple(RETRIED),
    troubles: Sequence[Trouble] = QUICK,
) -> list[Rule]:
    """Rules for the first `within` requests of each API, the same ones for the same seed.

    They are such as every good client gets over: errors that it tries again after, short delays, cuts.
    """
    dice = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    keys = [api_of(api) for api in apis]
    return [_random_rule(dice, dice.choice(keys), dice.choice(troubles), within) for _ in range(count)]


def _random_rule(dice: random.Random, api: ApiKey, trouble: Trouble, within: int) -> Rule:
    if trouble is Trouble.DUPLICATE and api is ApiKey.INIT_PRODUCER_ID:
        trouble = Trouble.CUT_AFTER  # the second one would fence the producer that hears of the first
    skip, seconds = dice.randrange(within), round(dice.uniform(0, DELAY_S_MAX), 3)
    error = dice.choice(RETRIED.get(api, (ErrorCode.UNKNOWN_SERVER_ERROR,)))
    delayed = trouble in {Trouble.DELAY, Trouble.DELAY_ANSWER}
    return Rule(
        trouble,
        api,
        skip=skip,
        seconds=seconds if delayed else 0.0,
        error=error if trouble is Trouble.FAIL else ErrorCode.NONE,
    )
