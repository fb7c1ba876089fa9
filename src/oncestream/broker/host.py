"""What a connection needs of its server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from oncestream.broker.connection import Connection


class Host(Protocol):
    """The clock, the loop, the budget, and who takes the frames."""

    receive_view: memoryview
    frame_bytes_max: int
    requests_in_flight_max: int
    heard_one: Callable[[], None] | None  # who wants to know of a frame that came alone

    def now(self) -> float: ...
    def call_soon(self, callback: Callable[[], None]) -> object: ...
    def call_later(self, seconds: float, callback: Callable[[], None]) -> object: ...
    def on_frame(self, connection: Connection, frame: memoryview) -> None: ...
    def hold(self) -> None:
        """Frames that came together are about to be handled."""

    def let_go(self) -> None:
        """They are done with, and their memory will be used again."""

    def on_closed(self, connection: Connection) -> None: ...
    def reserve(self, connection: Connection, size_bytes: int) -> bool: ...
    def release(self, size_bytes: int) -> None: ...
    def watch_reads(self, fd: int, callback: Callable[[], None] | None) -> None: ...
    def watch_writes(self, fd: int, callback: Callable[[], None] | None) -> None: ...
