"""The first connection to a cluster, for a program that somebody watches: it comes soon, or there is an error."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from oncestream.client.connection import Connection
from oncestream.client.failures import ConnectionLost, all_lost
from oncestream.client.retry import Retry, until_done
from oncestream.client.settings import ClientSettings
from oncestream.wire.api import ApiKey

CONTACT_S: Final = 3.0


def first_contact(settings: ClientSettings, timeout_s: float = CONTACT_S) -> Connection:
    """To the first bootstrap address that answers; BrokerUnreachable where none does in this time."""
    retry = Retry(min(timeout_s, settings.api_timeout_ms / 1000))
    return until_done(lambda: _attempt(settings, retry), retry, ApiKey.API_VERSIONS.name)


def _attempt(settings: ClientSettings, retry: Retry) -> Connection:
    """Each address gets its share of the time that is left: one that swallows packets must not take it all."""
    lost: list[ConnectionLost] = []
    for number, address in enumerate(settings.bootstrap):
        share_ms = round(retry.remaining_s * 1000 / (len(settings.bootstrap) - number))
        hurried = replace(settings, connect_timeout_ms=max(1, min(share_ms, settings.connect_timeout_ms)))
        try:
            return Connection(address, hurried)
        except ConnectionLost as error:
            lost.append(error)
    raise all_lost(settings.bootstrap_servers, lost)
