"""The faults a test can ask for, in words: what a fault proxy and a broker under test have in common."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from oncestream.errors import BadFault
from oncestream.testing.frames import api_of
from oncestream.testing.network_faults import ALWAYS, FaultBook, NetworkFault, Rule, Trouble
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.schema import Message

SEEN_MAX: Final = 100_000

Api = ApiKey | str
When = Callable[[Message], bool]


class FaultHooks:
    """APIs and errors go by Kafka's names: fail_next("EndTxn", "COORDINATOR_NOT_AVAILABLE").

    `times` requests meet a fault, after `skip` that pass, of those for which `when(request)` holds.
    """

    def __init__(self) -> None:
        self._faults = FaultBook()
        self._seen: deque[ApiKey] = deque(maxlen=SEEN_MAX)

    @property
    def requests(self) -> list[ApiKey]:
        """The APIs of the requests that came, the last 100 000 of them."""
        return list(self._seen)

    def fail_next(
        self, api: Api, error: ErrorCode | str, *, times: int = 1, skip: int = 0, when: When | None = None
    ) -> NetworkFault:
        """The broker does not see them; the client is answered with this error."""
        code = error_of(error)
        return self.add(Rule(Trouble.FAIL, api_of(api), times, skip, error=code, when=when))

    def delay(
        self, api: Api, seconds: float, *, times: int = ALWAYS, skip: int = 0, when: When | None = None
    ) -> NetworkFault:
        """They reach the broker later, and so does what follows them on their connection."""
        return self.add(Rule(Trouble.DELAY, api_of(api), times, skip, seconds, when=when))

    def delay_answer(
        self, api: Api, seconds: float, *, times: int = ALWAYS, skip: int = 0, when: When | None = None
    ) -> NetworkFault:
        """Their answers come later, and so does what follows them on their connection."""
        return self.add(Rule(Trouble.DELAY_ANSWER, api_of(api), times, skip, seconds, when=when))

    def drop(self, api: Api, *, times: int = 1, skip: int = 0, when: When | None = None) -> NetworkFault:
        """They are lost; their connection stays, but is silent until the client gives it up."""
        return self.add(Rule(Trouble.DROP, api_of(api), times, skip, when=when))

    def drop_answer(
        self, api: Api, *, times: int = 1, skip: int = 0, when: When | None = None
    ) -> NetworkFault:
        """The broker does what they ask; their connection stays, but is silent until the client gives it up."""
        return self.add(Rule(Trouble.DROP_ANSWER, api_of(api), times, skip, when=when))

    def cut_before(
        self, api: Api, *, times: int = 1, skip: int = 0, when: When | None = None
    ) -> NetworkFault:
        """They are lost, and their connection ends."""
        return self.add(Rule(Trouble.CUT_BEFORE, api_of(api), times, skip, when=when))

    def cut_after(self, api: Api, *, times: int = 1, skip: int = 0, when: When | None = None) -> NetworkFault:
        """The broker does what they ask; their connection ends instead of an answer."""
        return self.add(Rule(Trouble.CUT_AFTER, api_of(api), times, skip, when=when))

    def duplicate(self, api: Api, *, times: int = 1, skip: int = 0, when: When | None = None) -> NetworkFault:
        """The broker gets them twice; the client gets the first answer."""
        return self.add(Rule(Trouble.DUPLICATE, api_of(api), times, skip, when=when))

    def hold(self, api: Api, *, times: int = ALWAYS, skip: int = 0, when: When | None = None) -> NetworkFault:
        """They are kept back, and their connections are silent; `deliver()` of the fault lets the broker have them."""
        return self.add(Rule(Trouble.HOLD, api_of(api), times, skip, when=when))

    def add(self, rule: Rule) -> NetworkFault:
        return self._faults.add(rule)

    def add_all(self, rules: Iterable[Rule]) -> list[NetworkFault]:
        """Such as `random_rules(seed, count)` gives."""
        return [self.add(rule) for rule in rules]

    def clear(self) -> None:
        """No fault is left; connections that are silent stay so."""
        self._faults.clear()


def error_of(name: ErrorCode | str) -> ErrorCode:
    """The error called COORDINATOR_NOT_AVAILABLE."""
    if isinstance(name, ErrorCode):
        return name
    try:
        return ErrorCode[name.upper()]
    except KeyError:
        raise BadFault(
            reason=f"there is no error {name!r}", advice="name it as Kafka does: NOT_LEADER_OR_FOLLOWER"
        ) from None
