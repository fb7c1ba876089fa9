"""Quotas: how much a user or a client id may send and fetch before it is slowed down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from oncestream.client.cluster import Cluster
from oncestream.client.failures import raise_if_error
from oncestream.errors import BadQuota
from oncestream.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from oncestream.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntryData,
)

# In place of a name: whoever has no quota of its own.
EVERYONE_ELSE: Final = ""

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"

_EXACT: Final = 0
_DEFAULT: Final = 1


class QuotaOf(NamedTuple):
    """Whose quota: of a user, of a client id, of both together, or of an address. None: not told apart by it."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def parts(self) -> dict[str, str]:
        """What is told, under Kafka's names."""
        named = {"user": self.user, "client-id": self.client_id, "ip": self.ip}
        return {kind: name for kind, name in named.items() if name is not None}


EVERY_QUOTA: Final = QuotaOf()


def describe_quotas(cluster: Cluster, whose: QuotaOf = EVERY_QUOTA) -> dict[QuotaOf, dict[str, float]]:
    """Quotas, by Kafka's names, of all that `whose` is a part of; without it, all quotas of the cluster."""
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(
                entity_type=kind, match_type=_EXACT if name else _DEFAULT, match=name if name else None
            )
            for kind, name in whose.parts().items()
        ]
    )

    def check(told: DescribeClientQuotasResponse) -> None:
        raise_if_error(told.error_code, "quotas", told.error_message)

    told = cluster.ask_controller(request, DescribeClientQuotasResponse, check)
    found = {
        _whose(entry): {value.key: value.value for value in entry.values} for entry in told.entries or ()
    }
    return {each: found[each] for each in sorted(found, key=lambda of: sorted(of.parts().items()))}


def alter_quotas(
    cluster: Cluster, changes: Mapping[QuotaOf, Mapping[str, float | None]], *, validate_only: bool = False
) -> None:
    """Sets quotas by their Kafka names; None takes one away. The others stay."""
    entries = []
    for whose, values in changes.items():
        if not whose.parts():
            raise BadQuota(reason="it names nobody")
        entries.append(
            RequestEntryData(
                entity=[
                    RequestEntityData(entity_type=kind, entity_name=name or None)
                    for kind, name in whose.parts().items()
                ],
                ops=[
                    OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                    for key, value in values.items()
                ],
            )
        )
    if not entries:
        return

    def check(told: AlterClientQuotasResponse) -> None:
        for entry in told.entries:
            names = ", ".join(f"{each.entity_type} {each.entity_name or 'default'}" for each in entry.entity)
            raise_if_error(entry.error_code, names, entry.error_message)

    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    cluster.ask_controller(request, AlterClientQuotasResponse, check)


def _whose(entry: EntryData) -> QuotaOf:
    names = {each.entity_type: each.entity_name or EVERYONE_ELSE for each in entry.entity}
    return QuotaOf(names.get("user"), names.get("client-id"), names.get("ip"))
