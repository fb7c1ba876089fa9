"""`FaultProxy`: a TCP proxy in front of a Kafka cluster that understands its requests and makes trouble."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Final, Self

from oncestream.broker.runner import new_loop
from oncestream.client.settings import Address, ClientSettings
from oncestream.errors import BadFault, OncestreamError, ProxyFailed
from oncestream.testing.frames import FRAME_BYTES_MAX, Request, api_of
from oncestream.testing.link import Link, Streams, Traffic
from oncestream.testing.network_faults import ALWAYS, FaultBook, NetworkFault, Rule, Trouble
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.schema import Message

HOST: Final = "127.0.0.1"
SEEN_MAX: Final = 100_000
DOORS_MAX: Final = 100
CONNECT_TIMEOUT_S: Final = 10
ANSWER_TIMEOUT_S: Final = 30
STOP_TIMEOUT_S: Final = 30
_LENGTH: Final = struct.Struct(">i")

Api = ApiKey | str
When = Callable[[Message], bool]


class FaultProxy:
    """Clients that start from its `bootstrap_servers` reach every node of the cluster through it; a context manager.

    APIs and errors go by Kafka's names: proxy.fail_next("EndTxn", "COORDINATOR_NOT_AVAILABLE"). `times` requests
    meet a fault, after `skip` that pass, of those for which `when(request)` holds.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._targets = ClientSettings.of(bootstrap_servers).bootstrap
        self._doors: dict[Address, _Door] = {}
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._run, name="oncestream-proxy", daemon=True)
        self._faults = FaultBook()
        self._seen: deque[ApiKey] = deque(maxlen=SEEN_MAX)
        self._traffic = Traffic(self._faults, self._seen, asyncio.Event(), self._through)
        self._failure: BaseException | None = None

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> Self:
        self._traffic.flowing.set()
        for address in self._targets:
            self._through(address)
        self._thread.start()
        return self

    def close(self) -> None:
        """Ends every connection. What the proxy met and did not understand is raised now."""
        if self._thread.is_alive():
            self._call(self._end)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_TIMEOUT_S)
        for door in self._doors.values():
            door.listener.close()
        failure, self._failure = self._failure, None
        if isinstance(failure, OncestreamError):
            raise failure
        if failure is not None:
            raise ProxyFailed(reason=repr(failure)) from failure

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except OncestreamError:
            if error is None:
                raise

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(str(self._through(address)) for address in self._targets)

    @property
    def requests(self) -> list[ApiKey]:
        """The APIs of the requests that came, the last 100 000 of them."""
        return list(self._seen)

    # -- faults -------------------------------------------------------------------------------

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
        """They are lost; the connection stays, but is silent until the client gives it up."""
        return self.add(Rule(Trouble.DROP, api_of(api), times, skip, when=when))

    def drop_answer(
        self, api: Api, *, times: int = 1, skip: int = 0, when: When | None = None
    ) -> NetworkFault:
        """The broker does what they ask; the connection stays, but is silent until the client gives it up."""
        return self.add(Rule(Trouble.DROP_ANSWER, api_of(api), times, skip, when=when))

    def cut_before(
        self, api: Api, *, times: int = 1, skip: int = 0, when: When | None = None
    ) -> NetworkFault:
        """They are lost, and their connection ends."""
        return self.add(Rule(Trouble.CUT_BEFORE, api_of(api), times, skip, when=when))

    def cut_after(
        self, api: Api, *, times: int = 1, skip: int = 0, when: When | None = None
    ) -> NetworkFault:
        """The broker does what they ask; the connection ends instead of an answer."""
        return self.add(Rule(Trouble.CUT_AFTER, api_of(api), times, skip, when=when))

    def duplicate(
        self, api: Api, *, times: int = 1, skip: int = 0, when: When | None = None
    ) -> NetworkFault:
        """The broker gets them twice; the client gets the first answer."""
        return self.add(Rule(Trouble.DUPLICATE, api_of(api), times, skip, when=when))

    def hold(
        self, api: Api, *, times: int = ALWAYS, skip: int = 0, when: When | None = None
    ) -> NetworkFault:
        """They are kept back, and their connections are silent; `deliver` lets the broker have them."""
        return self.add(Rule(Trouble.HOLD, api_of(api), times, skip, when=when))

    def deliver(self, held: NetworkFault) -> list[Message]:
        """What `hold` kept reaches the broker now, on new connections; what it answers. Nobody else hears it."""
        requests, held.held = held.held, []
        return [self._ask(request) for request in requests]

    def add(self, rule: Rule) -> NetworkFault:
        return self._faults.add(rule)

    def add_all(self, rules: Iterable[Rule]) -> list[NetworkFault]:
        """Such as `random_rules(seed, count)` gives."""
        return [self.add(rule) for rule in rules]

    def clear(self) -> None:
        """No fault is left; connections that are silent stay so."""
        self._faults.clear()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing passes, in either direction, while this lasts; connections stay."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def pause(self) -> None:
        self._call(self._traffic.flowing.clear)

    def resume(self) -> None:
        self._call(self._traffic.flowing.set)

    def cut_all(self) -> None:
        """Ends every connection there is; new ones pass."""
        self._call(self._close_links)

    def move(self, old: str, new: str) -> None:
        """A node has come back on another address: its clients go on by the old door."""
        (before,), (after,) = ClientSettings.of(old).bootstrap, ClientSettings.of(new).bootstrap
        self._call(lambda: self._move(before, after))

    # -- on the loop ---------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        for door in [*self._doors.values()]:
            self._open(door)
        self._loop.run_forever()
        self._loop.close()

    def _call(self, action: Callable[[], object]) -> None:
        """Runs it between two steps of the connections, and waits for it."""

        async def run() -> None:
            result = action()
            if asyncio.iscoroutine(result):
                await result

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(STOP_TIMEOUT_S)

    def _through(self, address: Address) -> Address:
        """The address at which clients reach that one; its door is made where there is none yet."""
        door = self._doors.get(address)
        if door is None:
            if len(self._doors) >= DOORS_MAX:
                raise ProxyFailed(reason=f"the cluster has more than {DOORS_MAX} addresses")
            door = self._doors[address] = _Door(address)
            if threading.current_thread() is self._thread:
                self._open(door)
        return door.address

    def _open(self, door: _Door) -> None:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(door, Streams(reader, writer))

        self._task(_listen(door, accepted))

    def _task(self, work: object) -> None:
        task = self._loop.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _move(self, before: Address, after: Address) -> None:
        door = self._doors.pop(before)
        door.target = after
        self._doors[after] = door
        self._targets = tuple(after if each == before else each for each in self._targets)

    async def _serve(self, door: _Door, client: Streams) -> None:
        try:
            opening = asyncio.open_connection(*door.target)
            broker = Streams(*await asyncio.wait_for(opening, CONNECT_TIMEOUT_S))
        except (OSError, TimeoutError):
            client.writer.transport.abort()
            return
        link = Link(client, broker, self._traffic)
        self._links.add(link)
        try:
            await link.run()
        except Exception as error:
            self._failure = self._failure or error
        finally:
            link.close()
            self._links.discard(link)
