"""`FaultProxy`: a TCP proxy in front of a Kafka cluster that understands its requests and makes trouble."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Final, Self

from oncestream.broker.runner import new_loop
from oncestream.client.settings import Address, ClientSettings
from oncestream.errors import BadFault, OncestreamError, ProxyFailed
from oncestream.testing.door import Door
from oncestream.testing.fault_hooks import FaultHooks
from oncestream.testing.link import Link, Streams, Traffic

DOORS_MAX: Final = 100
BUFFER_BYTES: Final = 1024 * 1024
CONNECT_TIMEOUT_S: Final = 10
CALL_TIMEOUT_S: Final = 60
ENDING_TURNS: Final = 5  # of the loop: a connection accepted just before the end shows up a turn later


class FaultProxy(FaultHooks):
    """Clients that start from its `bootstrap_servers` reach every node through it; a context manager."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__()
        self._targets = ClientSettings.of(bootstrap_servers).bootstrap
        self._doors: dict[Address, Door] = {}
        self._servers: list[asyncio.Server] = []
        self._clients: set[asyncio.StreamWriter] = set()
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._traffic = Traffic(self._faults, self._seen, asyncio.Event(), self._through, [])
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="oncestream-proxy", daemon=True)

    @property
    def bootstrap_servers(self) -> str:
        self._running_loop()
        return ",".join(str(self._doors[target].address) for target in self._targets)

    def start(self) -> Self:
        self._traffic.flowing.set()
        self._loop = new_loop()
        self._thread.start()
        self._call(self._open_all)
        return self

    def close(self) -> None:
        """Ends every connection. What the proxy met and did not understand is raised now."""
        if self._loop is not None:
            self._call(self._end)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CALL_TIMEOUT_S)
            self._loop.close()
            self._loop = None
        while self._traffic.failures:
            failure = self._traffic.failures.pop()
            if isinstance(failure, OncestreamError):
                raise failure
            raise ProxyFailed(reason=repr(failure)) from failure

    def pause(self) -> contextlib.ExitStack:
        """Nothing passes, in either direction, until `resume` or the end of a `with` block; connections stay."""
        self._on_loop(self._traffic.flowing.clear)
        until = contextlib.ExitStack()
        until.callback(self.resume)
        return until

    def resume(self) -> None:
        self._on_loop(self._traffic.flowing.set)

    def cut_all(self) -> None:
        """Ends every connection there is; new ones pass."""
        self._on_loop(self._close_links)

    def move(self, old: str, new: str) -> None:
        """A node has come back on another address: its clients reach it by the door they know."""
        (before,), (after,) = ClientSettings.of(old).bootstrap, ClientSettings.of(new).bootstrap
        self._on_loop(lambda: self._move(before, after))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except OncestreamError as failure:
            if error is None:
                raise
            error.add_note(str(failure))

    # -- from the test's thread to the loop ----------------------------------------------------

    def _run(self) -> None:
        loop = self._running_loop()
        asyncio.set_event_loop(loop)
        loop.run_forever()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise BadFault(reason="the proxy is not running", advice="use it inside its `with` block")
        return self._loop

    def _call(self, action: Callable[[], Coroutine[None, None, None]]) -> None:
        loop = self._running_loop()
        asyncio.run_coroutine_threadsafe(action(), loop).result(CALL_TIMEOUT_S)

    def _on_loop(self, action: Callable[[], object]) -> None:
        """Runs it between two steps of the links, and waits for it."""

        async def run() -> None:
            action()

        self._call(run)

    # -- on the loop ---------------------------------------------------------------------------

    async def _open_all(self) -> None:
        for address in self._targets:
            self._doors[address] = Door(address)
            await self._listen(self._doors[address])

    def _through(self, address: Address) -> Address:
        """The address at which clients reach that one; its door is made where there is none yet."""
        if address not in self._doors:
            if len(self._doors) >= DOORS_MAX:
                raise ProxyFailed(reason=f"the cluster has more than {DOORS_MAX} addresses")
            self._doors[address] = Door(address)
            self._spawn(self._listen(self._doors[address]))
        return self._doors[address].address

    async def _listen(self, door: Door) -> None:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._clients.add(writer)
            self._spawn(self._serve(door, Streams(reader, writer)))

        self._servers.append(await asyncio.start_server(accept, sock=door.listener, limit=BUFFER_BYTES))

    async def _serve(self, door: Door, client: Streams) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                broker = Streams(*await asyncio.open_connection(*door.target, limit=BUFFER_BYTES))
            await self._link(Link(client, broker, door, self._traffic))
        except (OSError, TimeoutError):
            return  # the client finds its connection ended, as it would without a proxy
        finally:
            client.writer.transport.abort()
            self._clients.discard(client.writer)

    async def _link(self, link: Link) -> None:
        self._links.add(link)
        try:
            await link.run()
        finally:
            link.close()
            self._links.discard(link)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _close_links(self) -> None:
        for link in [*self._links]:
            link.close()

    def _move(self, before: Address, after: Address) -> None:
        door = self._doors.pop(before)
        door.target = after
        self._doors[after] = door
        self._targets = tuple(after if each == before else each for each in self._targets)

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for _ in range(ENDING_TURNS):
            tasks = [*self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for client in self._clients:  # a task that was cancelled before its first step left it open
                client.transport.abort()
            await asyncio.sleep(0)
