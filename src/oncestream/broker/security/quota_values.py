"""Whom a quota is for, and which quota holds for a client: Kafka's rules, without the counting."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from oncestream.wire.error_codes import ErrorCode, KafkaError

USER: Final = "user"
CLIENT_ID: Final = "client-id"
PRODUCED: Final = "producer_byte_rate"
CONSUMED: Final = "consumer_byte_rate"
REQUESTS: Final = "request_percentage"
KEYS: Final = (PRODUCED, CONSUMED, REQUESTS)
NAME_LENGTH_MAX: Final = 1_024
ENTITIES_MAX: Final = 100_000


class Name(NamedTuple):
    """A user or a client id; no text: the default for all that have no quota of their own."""

    text: str | None


DEFAULT: Final = Name(None)


class Entity(NamedTuple):
    """Whom a quota is for: a user, a client id, or a client id of a user."""

    user: Name | None
    client_id: Name | None

    @property
    def text(self) -> str:
        """The entity as the key under which the catalogue keeps its quotas."""
        return json.dumps(self)

    @property
    def parts(self) -> dict[str, str | None]:
        """As requests name it: by type, None for the default."""
        named = {USER: self.user, CLIENT_ID: self.client_id}
        return {kind: name.text for kind, name in named.items() if name is not None}

    @classmethod
    def parse(cls, text: str) -> Entity:
        user, client_id = json.loads(text)
        return cls(None if user is None else Name(*user), None if client_id is None else Name(*client_id))

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> Entity:
        """The entity that a request names; refuses what cannot be one."""
        if not parts:
            raise _refused("Invalid empty client quota entity")
        for kind, name in parts.items():
            if kind == "ip":
                raise _refused("quotas for ip addresses are not supported by this broker")
            if kind not in (USER, CLIENT_ID):
                raise _refused(f"Unhandled client quota entity type: {kind}")
            if name is not None and not 0 < len(name) <= NAME_LENGTH_MAX:
                raise _refused(f"the name of a {kind} has 1 to {NAME_LENGTH_MAX} characters")
        return cls(*(Name(parts[kind]) if kind in parts else None for kind in (USER, CLIENT_ID)))


class Limit(NamedTuple):
    """The quota that holds for a client, and whose bytes count towards it."""

    rate: float
    counted_for: tuple[str | None, str | None]


def check_limit(key: str, value: float) -> None:
    if key not in KEYS:
        raise _refused(f"Invalid configuration key {key} (this broker knows {', '.join(KEYS)})")
    if not value > 0 or math.isinf(value):
        raise _refused(f"Quota {key} must be greater than 0")
    if key != REQUESTS and value % 1.0 > 1e-6:
        raise _refused(f"{key} cannot be a fractional value.")


def limit_for(
    quotas: Mapping[Entity, Mapping[str, float]], key: str, user: str, client_id: str
) -> Limit | None:
    """The first that is set, from the most to the least specific."""
    for entity in _candidates(user, client_id):
        rate = quotas.get(entity, {}).get(key)
        if rate is not None:
            counted_for = (
                None if entity.user is None else user,
                None if entity.client_id is None else client_id,
            )
            return Limit(rate, counted_for)
    return None


def _candidates(user: str, client_id: str) -> Iterator[Entity]:
    who, what = Name(user), Name(client_id)
    for one in (who, DEFAULT):
        yield Entity(one, what)
        yield Entity(one, DEFAULT)
        yield Entity(one, None)
    yield Entity(None, what)
    yield Entity(None, DEFAULT)


def _refused(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)
