"""How far a running pipeline is behind, and its transaction, as the cluster tells; asked in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from oncestream.client.cluster import Cluster
from oncestream.client.inspection import known_transactions
from oncestream.client.lag import group_lags, total_records
from oncestream.client.settings import ClientSettings
from oncestream.errors import OncestreamError

INTERVAL_S: Final = 1.0
READ_BYTES_MAX: Final = 1024 * 1024  # the pipeline should have the broker to itself


class Standing(NamedTuple):
    """None: not known. `transaction`: its state, with the seconds since it began where it is open."""

    lag: int | None = None
    transaction: str | None = None


class PipelineWatch:
    """Calls back with a new standing about once a second, until it is stopped."""

    def __init__(self, name: str, settings: ClientSettings, on_standing: Callable[[Standing], None]) -> None:
        self._name = name
        self._settings = settings
        self._on_standing = on_standing
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="standing", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _ask(self) -> None:
        cluster = Cluster(self._settings)
        try:
            while not self._stop.wait(INTERVAL_S):
                try:
                    self._on_standing(self._standing(cluster))
                except OncestreamError:
                    self._on_standing(Standing())
        finally:
            cluster.close()

    def _standing(self, cluster: Cluster) -> Standing:
        lag = total_records(group_lags(cluster, self._name, read_bytes_max=READ_BYTES_MAX))
        transaction = known_transactions(cluster, [self._name]).get(self._name)
        if transaction is None:
            return Standing(lag)
        if transaction.start_ms is None:
            return Standing(lag, transaction.state)
        open_s = max(0.0, time.time() - transaction.start_ms / 1000)
        return Standing(lag, f"{transaction.state}, {open_s:.1f} s")
