"""The options of the source, read once and checked: what to read, from where to where, in which portions."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from oncestream.client.settings import ClientSettings
from oncestream.errors import BadSourceOption, UnknownSourceOption
from oncestream.spark.places import Edge, Place, ending_place, starting_place
from oncestream.spark.selection import Selection, selection_of

KNOWN: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "group",
    "missingTopics",
)
MISSING_TOPICS: Final = ("fail", "wait")
# Options of Spark's `kafka` that tune its JVM consumer: harmless, and without meaning here.
IGNORED: Final = {
    "groupidprefix",
    "kafkaconsumer.polltimeoutms",
    "fetchoffset.numretries",
    "fetchoffset.retryintervalms",
}
_KNOWN_LOWER: Final = {name.lower() for name in KNOWN}
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Everything a reader needs to know; it travels to the tasks."""

    client: ClientSettings
    selection: Selection
    start: Place
    end: Place
    group: str | None
    read_committed: bool
    headers: bool
    fail_on_data_loss: bool
    waits_for_topics: bool
    records_min: int | None
    records_max: int | None
    delay_ms_max: int
    tasks_min: int | None
    task_records_max: int | None


def stream_options(settings: Mapping[str, str]) -> SourceOptions:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if name.lower() in settings:
            raise BadSourceOption(name=name, reason="a stream has no end")
    return _options(settings, default_start=Edge.LATEST)


def batch_options(settings: Mapping[str, str]) -> SourceOptions:
    options = _options(settings, default_start=Edge.EARLIEST)
    if options.start.edge is Edge.LATEST:
        raise BadSourceOption(
            name="startingOffsets", reason="a batch cannot start at latest: it would be empty"
        )
    return options


def headers_wanted(settings: Mapping[str, str]) -> bool:
    return _flag(settings, "includeHeaders", default=False)


def _options(settings: Mapping[str, str], default_start: Edge) -> SourceOptions:
    _refuse_unknown(settings)
    kafka = {name[len("kafka.") :]: value for name, value in settings.items() if name.startswith("kafka.")}
    servers = kafka.pop("bootstrap.servers", None)
    if not servers:
        raise BadSourceOption(name="kafka.bootstrap.servers", reason="it is missing")
    isolation = kafka.pop("isolation.level", "read_committed")
    if isolation not in ("read_committed", "read_uncommitted"):
        raise BadSourceOption(
            name="kafka.isolation.level", reason=f"{isolation!r} is neither read_committed nor read_uncommitted"
        )  # fmt: skip
    group = settings.get("group") or kafka.pop("group.id", None)
    start = starting_place(settings, default_start, reset=kafka.pop("auto.offset.reset", "earliest"))
    if start.edge is Edge.COMMITTED and not group:
        raise BadSourceOption(name="startingOffsets", reason="committed needs the group, in option group")
    records_min = _positive(settings, "minOffsetsPerTrigger")
    records_max = _positive(settings, "maxOffsetsPerTrigger")
    if records_min and records_max and records_min > records_max:
        raise BadSourceOption(name="minOffsetsPerTrigger", reason="it is above maxOffsetsPerTrigger")
    return SourceOptions(
        client=ClientSettings.of(servers, kafka),
        selection=selection_of(settings),
        start=start,
        end=ending_place(settings),
        group=group,
        read_committed=isolation == "read_committed",
        headers=headers_wanted(settings),
        fail_on_data_loss=_flag(settings, "failOnDataLoss", default=True),
        waits_for_topics=_waits_for_topics(settings),
        records_min=records_min,
        records_max=records_max,
        delay_ms_max=_duration_ms(settings, "maxTriggerDelay", default_ms=15 * 60_000),
        tasks_min=_positive(settings, "minPartitions"),
        task_records_max=_positive(settings, "maxRecordsPerPartition"),
    )


def _refuse_unknown(settings: Mapping[str, str]) -> None:
    for name in settings:
        if name in IGNORED:
            _log.info("option %s concerns Spark's JVM consumer only and is ignored", name)
        elif name not in _KNOWN_LOWER and not name.startswith("kafka."):
            raise UnknownSourceOption(name=name, known=", ".join((*KNOWN, "kafka.*")))


def _waits_for_topics(settings: Mapping[str, str]) -> bool:
    """Whether a topic that does not exist is read once it is there, instead of being an error."""
    text = settings.get("missingtopics", "fail").strip().lower()
    if text not in MISSING_TOPICS:
        raise BadSourceOption(name="missingTopics", reason=f"{text!r} is neither fail nor wait")
    return text == "wait"


def _flag(settings: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = settings.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise BadSourceOption(name=name, reason=f"{text!r} is neither true nor false")
    return text == "true"


def _positive(settings: Mapping[str, str], name: str) -> int | None:
    text = settings.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) == 0:
        raise BadSourceOption(name=name, reason=f"{text!r} is not a positive whole number")
    return int(text)


def _duration_ms(settings: Mapping[str, str], name: str, *, default_ms: int) -> int:
    text = settings.get(name.lower())
    if text is None:
        return default_ms
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    unit = _UNITS_MS.get(found[2] or "ms") if found else None
    if found is None or unit is None:
        raise BadSourceOption(name=name, reason=f"{text!r} is no time such as 500ms, 30s, 15m or 1h")
    return int(found[1]) * unit
