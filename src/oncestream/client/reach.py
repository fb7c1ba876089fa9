"""Whether anybody listens, told soon: whoever starts something waits for the answer."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Final

from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings

REACH_MS_MAX: Final = 3_000


def reach(settings: ClientSettings) -> None:
    """BrokerUnreachable where no broker answers."""
    soon = replace(
        settings,
        api_timeout_ms=min(settings.api_timeout_ms, REACH_MS_MAX),
        connect_timeout_ms=min(settings.connect_timeout_ms, REACH_MS_MAX),
        request_timeout_ms=min(settings.request_timeout_ms, REACH_MS_MAX),
    )
    with closing(Cluster(soon)) as cluster:
        cluster.metadata([])
