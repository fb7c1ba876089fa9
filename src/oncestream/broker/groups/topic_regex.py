"""Regular expressions of subscriptions, kept to those that cannot hold the broker up.

Differs from Apache Kafka, which has RE2: Python's `re` tries again and again where RE2 does not, so expressions
that could take long (repeats inside repeats, many open repeats) are refused, as is what RE2 does not know.
"""

from __future__ import annotations

import re
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterable
from typing import Any, Final

from oncestream.wire.error_codes import ErrorCode, KafkaError

LENGTH_MAX: Final = 1_024
_OPEN_REPEATS_MAX: Final = 4
_REPEATS: Final = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})
_NOT_IN_RE2: Final = frozenset({"GROUPREF", "GROUPREF_EXISTS", "ASSERT", "ASSERT_NOT", "ATOMIC_GROUP"})


def check_regex(pattern: str) -> None:
    try:
        if len(pattern) > LENGTH_MAX:
            raise ValueError(f"it is longer than {LENGTH_MAX} characters")
        re.compile(pattern)
        if _count_open_repeats(parser.parse(pattern), inside=False) > _OPEN_REPEATS_MAX:
            raise ValueError(f"it has more than {_OPEN_REPEATS_MAX} open repeats")
    except (ValueError, re.error, OverflowError, RecursionError) as error:
        message = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}."
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None


def matching(pattern: str, topics: Iterable[str]) -> frozenset[str]:
    """The topics whose whole name matches; internal ones never do."""
    matches = re.compile(pattern).fullmatch
    return frozenset(name for name in topics if matches(name) and not name.startswith("__"))


def _count_open_repeats(tree: Any, *, inside: bool) -> int:
    """Walks the parsed expression; a repeat inside an open one is refused."""
    count = 0
    for operator, argument in tree:
        name = str(operator)
        if name in _NOT_IN_RE2:
            raise ValueError(f"{name.lower()} is not supported")
        if name in _REPEATS:
            is_open = argument[1] > LENGTH_MAX
            if is_open and inside:
                raise ValueError("a repeat inside a repeat is not supported")
            count += is_open + _count_open_repeats(argument[2], inside=inside or argument[1] > 1)
        elif name == "SUBPATTERN":
            count += _count_open_repeats(argument[-1], inside=inside)
        elif name == "BRANCH":
            count += sum(_count_open_repeats(branch, inside=inside) for branch in argument[1])
    return count
