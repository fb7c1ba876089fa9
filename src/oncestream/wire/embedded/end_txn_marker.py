"""The value of the control record that ends a transaction."""

from __future__ import annotations

from oncestream.wire.schema import Message, int32


class EndTxnMarker(Message, versions="0", flexible="none"):
    coordinator_epoch: int = int32()
