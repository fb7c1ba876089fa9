"""`oncestream pipeline list` and `status`: what Kafka knows of pipelines. Without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import typer

from oncestream.cli.command import Call
from oncestream.cli.completion import pipeline_names
from oncestream.cli.cursor import cursor_row
from oncestream.cli.receiving import committed_records
from oncestream.client.admin import describe_topics
from oncestream.client.groups import list_groups
from oncestream.client.inspection import known_transactions
from oncestream.client.lag import PartitionLag, group_lags
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import NoSuchPipeline

PROGRESS_TOPIC: Final = "oncestream.progress"
COLUMNS: Final = ("pipeline", "query", "batch", "lag", "exact", "seconds", "transaction")


@dataclass(slots=True)
class Found:
    """Lags of its group, and what the progress topic holds: positions that are no offsets of this cluster."""

    lags: Mapping[TopicPartition, PartitionLag] = field(default_factory=dict)
    record: Mapping[str, Any] | None = None

    @property
    def marker(self) -> tuple[str, int] | None:
        """The last committed batch and its query: the newest that is told, of the query that told it last."""
        told = [marker for lag in self.lags.values() if (marker := _marker(lag.metadata)) is not None]
        if self.record is not None and (own := _marker_of(self.record)) is not None:
            told.append(own)
        return max(told, key=lambda marker: marker[1], default=None)


def list_pipelines(call: Call) -> None:
    """Pipelines that have committed a batch to this cluster."""
    found = _find(call, (each.group for each in list_groups(call.cluster)))
    call.show([_row(call, name, each) for name, each in sorted(found.items())], COLUMNS)


def status(
    call: Call,
    name: Annotated[
        str | None, typer.Argument(help="The pipeline's name; default: all.", autocompletion=pipeline_names)
    ] = None,
) -> None:
    """How far a pipeline is: its last batch, its lag in records and seconds, its transaction."""
    if name is None:
        list_pipelines(call)
        return
    found = _find(call, [name]).get(name)
    if found is None:
        raise NoSuchPipeline(name=name)
    call.show_one(
        {
            **_row(call, name, found),
            "other_sources": list((found.record or {}).get("sources", [])),
            "sources": [
                {key: value for key, value in cursor_row(name, at, lag).items() if key not in _ONCE}
                for at, lag in sorted(found.lags.items())
            ],
        }
    )


_ONCE: Final = frozenset({"group", "metadata"})


def _find(call: Call, names: Iterable[str]) -> dict[str, Found]:
    """Groups whose cursors carry a batch, and keys of the progress topic."""
    wanted = set(names)
    records = _progress_records(call)
    found = {}
    for name in wanted:
        each = Found(group_lags(call.cluster, name, on_damage=call.skip), records.get(name))
        if each.marker is not None:
            found[name] = each
    for name, record in records.items():
        each = Found({}, record)
        if name not in found and each.marker is not None:
            found[name] = each
    return found


def _progress_records(call: Call) -> dict[str, Mapping[str, Any]]:
    """The newest record of each pipeline; those of single runs are left out."""
    states = [topic for topic in describe_topics(call.cluster) if topic.name == PROGRESS_TOPIC]
    found: dict[str, Mapping[str, Any]] = {}
    for record in committed_records(call.cluster, states, call.skip):
        key, content = _json(record.key), _json(record.value)
        if set(key) == {"pipeline"}:
            found[str(key["pipeline"])] = content
    return found


def _row(call: Call, name: str, found: Found) -> dict[str, Any]:
    query, batch = found.marker or ("", -1)
    ages = [lag.seconds for lag in found.lags.values() if lag.seconds is not None]
    transaction = known_transactions(call.cluster, [name]).get(name)
    return {
        "pipeline": name,
        "query": query,
        "batch": batch,
        "lag": sum(lag.records for lag in found.lags.values()) if found.lags else None,
        "exact": all(lag.exact for lag in found.lags.values()) if found.lags else None,
        "seconds": round(max(ages), 1) if ages else None,
        "transaction": None if transaction is None else transaction.state,
    }


def _marker(metadata: str) -> tuple[str, int] | None:
    return _marker_of(_json(metadata.encode()))


def _marker_of(told: Mapping[str, Any]) -> tuple[str, int] | None:
    query, batch = told.get("query"), told.get("batch")
    return (query, batch) if isinstance(query, str) and isinstance(batch, int) else None


def _json(content: bytes | None) -> dict[str, Any]:
    """Empty where it is no JSON object: others may use such a topic or metadata too."""
    try:
        told = json.loads(content or b"null")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
