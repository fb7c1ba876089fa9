"""A fetch that waits and those who append, on one loop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from oncestream.broker.call import Call
from oncestream.broker.clock import Clock
from oncestream.broker.handlers import fetch
from oncestream.broker.later import Later
from oncestream.broker.node import Node
from oncestream.broker.settings import load_settings
from oncestream.storage.files import FileSlice
from tests.broker.kit import FETCH_VERSION, TIMEOUT_S, batch, fetch_request


def test_a_waiting_fetch_reads_once_when_all_appends_of_a_turn_are_done(tmp_path: Path) -> None:
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        settings = load_settings(environment={}, flags={"data": tmp_path, "durability": "os"})
        node = Node(settings, loop, Clock())
        try:
            partition = node.create_topic("t", 1, {}).partitions[0]
            waiting = fetch.handle(
                fetch_request("t", wait_ms=60_000), Call(node, FETCH_VERSION, 0, None, "nowhere:0")
            )
            assert isinstance(waiting, Later)
            answer: asyncio.Future[list[Any]] = loop.create_future()
            waiting.then(answer.set_result)
            for _ in range(3):
                partition.append(memoryview(bytearray(batch(b"v"))))
                assert not waiting.resolved, "it reads inside the append"
            async with asyncio.timeout(TIMEOUT_S):
                return await answer
        finally:
            await node.close()

    chunks = asyncio.run(main())
    assert sum(chunk.size for chunk in chunks if isinstance(chunk, FileSlice)) == 3 * len(batch(b"v"))
