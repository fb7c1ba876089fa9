"""Runs a broker on an event loop until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from oncestream.broker.clock import REAL_CLOCK, Clock
from oncestream.broker.housekeeping import Housekeeping
from oncestream.broker.listeners import address_text, plan_listeners
from oncestream.broker.node import Node
from oncestream.broker.server import SWEEP_SECONDS, Server
from oncestream.broker.settings import BrokerSettings
from oncestream.storage.disk import REAL_DISK, Disk

logger = logging.getLogger("oncestream.broker")


async def run_broker(
    settings: BrokerSettings,
    stop: asyncio.Event,
    on_ready: Callable[[str], None],
    disk: Disk = REAL_DISK,
    clock: Clock = REAL_CLOCK,
    sweep_s: float = SWEEP_SECONDS,
) -> None:
    """Serves from the moment `on_ready` is called with its addresses until `stop` is set; then stops cleanly."""
    plans = plan_listeners(settings)
    tls = None
    if settings.tls_certificate:
        from oncestream.broker.security.tls import ServerTls

        tls = ServerTls(settings)
    node = Node(settings, asyncio.get_running_loop(), clock, disk)
    try:
        server = Server(node, plans, tls, sweep_s)
    except BaseException:
        await node.close()
        raise
    housekeeping = Housekeeping(node)
    try:
        on_ready(node.advertised_listeners if "://" in settings.listen else address_text(node.address))
        await stop.wait()
    finally:
        server.close()
        await housekeeping.close()
        await node.close()


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed: it halves the cost of a small request."""
    with suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()
