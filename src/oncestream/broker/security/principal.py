"""Who sends a request, as Kafka names it."""

from __future__ import annotations

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """`User:alice`; the kind is always User today."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def host_of(peer: str) -> str:
    """The address of a client's HOST:PORT."""
    return peer.rpartition(":")[0].strip("[]")


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
