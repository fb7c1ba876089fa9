"""The numbers that tortured clients write: none is ever written twice, and a copy tells what it copies."""

from __future__ import annotations

from typing import Final

# 59 bits in all: a recorder takes numbers of up to 18 digits.
COUNT_BITS: Final = 19
LIFE_BITS: Final = 10
CLIENT_BITS: Final = 4
INPUT_BITS: Final[int] = COUNT_BITS + LIFE_BITS + CLIENT_BITS
TRY_BITS: Final = 13
COPIER_BITS: Final = 3

COUNT_MAX: Final = 2**COUNT_BITS - 1
LIVES_MAX: Final = 2**LIFE_BITS - 1
CLIENTS_MAX: Final = 2**CLIENT_BITS
COPIERS_MAX: Final = 2**COPIER_BITS
TRIES_MAX: Final = 2**TRY_BITS - 1


def input_number(client: int, life: int, count: int) -> int:
    """The number that a client writes as the `count`th of one of its lives."""
    assert client < CLIENTS_MAX, client
    assert life <= LIVES_MAX, life
    assert count <= COUNT_MAX, count
    return (client << LIFE_BITS | life) << COUNT_BITS | count


def copy_number(copier: int, life: int, attempt: int, copied: int) -> int:
    """What a copier writes for a number; another one in every try."""
    assert copier < COPIERS_MAX, copier
    assert life <= LIVES_MAX, life
    assert attempt <= TRIES_MAX, attempt
    assert copied < 1 << INPUT_BITS, copied
    return ((copier << LIFE_BITS | life) << TRY_BITS | attempt) << INPUT_BITS | copied


def copied_by(copy: int) -> int:
    """The number of which this is a copy."""
    return copy & ((1 << INPUT_BITS) - 1)
