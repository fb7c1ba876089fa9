"""A member of a classic group."""

from __future__ import annotations

from dataclasses import dataclass

from oncestream.broker.later import Later
from oncestream.wire.embedded.group_metadata import MemberMetadata
from oncestream.wire.messages.describe_groups import DescribedGroupMember
from oncestream.wire.messages.join_group import JoinGroupResponseMember


@dataclass(slots=True)
class ClassicMember:
    """What a member told about itself, what it was assigned, and the answers it waits for."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: dict[str, bytes]  # metadata by protocol, the preferred one first
    assignment: bytes = b""
    joining: Later | None = None
    syncing: Later | None = None
    is_new: bool = False  # never got an answer, so it cannot send heartbeats

    def metadata(self, protocol: str | None) -> bytes:
        return self.protocols.get(protocol, b"") if protocol is not None else b""

    def speaks(self, protocols: dict[str, bytes]) -> bool:
        """Whether these are its protocols, in its order."""
        return list(self.protocols.items()) == list(protocols.items())

    @property
    def waits(self) -> bool:
        return self.joining is not None or self.syncing is not None

    def joined(self, protocol: str | None) -> JoinGroupResponseMember:
        return JoinGroupResponseMember(
            member_id=self.id, group_instance_id=self.instance_id, metadata=self.metadata(protocol)
        )

    def described(self, protocol: str | None) -> DescribedGroupMember:
        """Without a protocol (the group is not stable) neither metadata nor assignment are told."""
        return DescribedGroupMember(
            member_id=self.id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=self.metadata(protocol),
            member_assignment=b"" if protocol is None else self.assignment,
        )

    def record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )

    @classmethod
    def restored(cls, stored: MemberMetadata, protocol: str | None) -> ClassicMember:
        timeout = stored.rebalance_timeout
        return cls(
            id=stored.member_id,
            instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.session_timeout if timeout == -1 else timeout,
            session_timeout_ms=stored.session_timeout,
            protocols={protocol or "": stored.subscription},
            assignment=stored.assignment,
        )
