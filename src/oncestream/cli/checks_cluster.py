"""What `oncestream doctor` looks at on the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from oncestream.cli.checks_machine import Check, State
from oncestream.cli.command import Call
from oncestream.client.cluster import Cluster
from oncestream.client.connection import Connection
from oncestream.client.settings import BOOTSTRAP_DEFAULT
from oncestream.client.versions import SPOKEN
from oncestream.errors import BrokerTooOld, BrokerUnreachable, OncestreamError
from oncestream.wire.api import ApiKey

TIMEOUT_MS_MAX: Final = 5_000
# A broker that has no users, quotas or newer groups still carries streams and pipelines.
NEEDED: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.CREATE_TOPICS,
    }
)


def cluster_checks(call: Call) -> Iterator[Check]:
    """Whether the broker answers, and whether it can do what is needed."""
    timeout_ms = min(TIMEOUT_MS_MAX, call.settings.api_timeout_ms)
    settings = replace(call.settings, api_timeout_ms=timeout_ms, connect_timeout_ms=timeout_ms)
    cluster = Cluster(settings)
    try:
        cluster.require_contact()
        cluster_id = cluster.cluster_id
        with cluster.connection_to(cluster.controller) as connection:
            yield Check("broker", State.OK, f"{settings.bootstrap_servers} answers, cluster {cluster_id}")
            yield _versions(connection)
            yield _transactions(cluster)
    except OncestreamError as error:
        # Nobody said that there is a broker: its absence is no fault yet.
        is_guess = isinstance(error, BrokerUnreachable) and call.chosen.servers == BOOTSTRAP_DEFAULT
        advice = "start one: oncestream broker start; or name yours with --bootstrap"
        yield Check(
            "broker",
            State.WARN if is_guess else State.FAIL,
            error.cause_text,
            advice if is_guess else error.suggestion_text,
        )
    finally:
        cluster.close()


def _versions(connection: Connection) -> Check:
    lacking = []
    for api in SPOKEN:
        try:
            connection.version_of(api)
        except BrokerTooOld:
            lacking.append(api)
    names = ", ".join(api.name for api in lacking)
    if NEEDED & set(lacking):
        return Check("requests", State.FAIL, f"not understood: {names}", "use Apache Kafka 3.6 or later")
    if lacking:
        advice = "what needs them is refused with an error; all else works"
        return Check("requests", State.WARN, f"not understood: {names}", advice)
    return Check("requests", State.OK, f"all {len(SPOKEN)} that are needed are understood")


def _transactions(cluster: Cluster) -> Check:
    if cluster.transaction_version >= 2:
        return Check("transactions", State.OK, "transaction.version 2")
    advice = "it works; Apache Kafka 4 with transaction.version=2 is quicker and fences better"
    return Check("transactions", State.OK, "transaction.version below 2", advice)
