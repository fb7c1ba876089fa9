"""Which topic names are allowed. A name becomes part of a folder's name, so this is also a safety check."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from oncestream.broker.catalog import METADATA_TOPIC
from oncestream.wire.error_codes import ErrorCode, KafkaError

LENGTH_MAX: Final = 249
OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
AUDIT_TOPIC: Final = "__oncestream_audit"
INTERNAL: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, AUDIT_TOPIC})
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(name: str) -> None:
    """Refuses what Kafka refuses, in its words."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {LENGTH_MAX}"
    elif not _LEGAL.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def check_new_name(name: str, existing: Iterable[str], *, ignores_case: bool) -> None:
    """Also refuses what exists, and names that differ from another one by '.' and '_' only.

    On a disk that ignores case, and only there, names that differ by case would share a folder too.
    """
    check_name(name)
    if name == METADATA_TOPIC or is_internal(name):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if ignores_case:
        _check_case(name, existing)
    if "." not in name and "_" not in name:
        if name in existing:
            raise _exists(name)
        return
    folded = name.replace(".", "_")
    for other in existing:
        if other == name:
            raise _exists(name)
        if other.replace(".", "_") == folded:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
            )


def _check_case(name: str, existing: Iterable[str]) -> None:
    """Internal topics count although they are made when they are first needed."""
    lower = name.lower()
    for other in (METADATA_TOPIC, *INTERNAL, *existing):
        if other != name and other.lower() == lower:
            message = (
                f"Topic '{name}' collides with existing topic: {other}. The disk of the broker's data folder does"
                " not tell upper from lower case, so both would share a folder; choose another name"
            )
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def is_internal(name: str) -> bool:
    return name in INTERNAL


def _exists(name: str) -> KafkaError:
    return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
