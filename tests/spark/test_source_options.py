"""Options of the source: what is taken, what is refused, and with which words."""

from __future__ import annotations

import re

import pytest

from oncestream.errors import BadSetting, BadSourceOption, UnknownSourceOption
from oncestream.spark.places import Edge
from oncestream.spark.selection import Assigned, TopicPattern, Topics
from oncestream.spark.source import OncestreamSource
from oncestream.spark.source_options import batch_options, stream_options

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}


def test_an_unknown_option_is_refused_and_the_known_ones_are_listed() -> None:
    with pytest.raises(UnknownSourceOption, match=r"no option maxoffsets.*maxOffsetsPerTrigger"):
        stream_options(BASE | {"maxoffsets": "1"})


def test_an_unknown_kafka_setting_is_refused() -> None:
    with pytest.raises(BadSetting, match=r"no\.such\.setting"):
        stream_options(BASE | {"kafka.no.such.setting": "1"})


def test_names_of_options_may_be_written_in_any_case() -> None:
    source = OncestreamSource({"KAFKA.Bootstrap.Servers": "h:1", "SUBSCRIBE": "a", "includeheaders": "TRUE"})
    assert source.schema().names[-1] == "headers"
    assert stream_options(source.settings).headers


def test_options_that_tune_the_jvm_consumer_are_ignored() -> None:
    assert stream_options(BASE | {"kafkaconsumer.polltimeoutms": "512"}) == stream_options(BASE)


@pytest.mark.parametrize(
    ("options", "selection"),
    [
        ({"subscribe": " b, a ,b"}, Topics(("a", "b"))),
        ({"subscribepattern": "events-.*"}, TopicPattern("events-.*")),
        ({"assign": '{"a": [1, 0]}'}, Assigned((("a", 0), ("a", 1)))),  # type: ignore[arg-type]
    ],
)
def test_topics_are_chosen_by_name_by_pattern_or_by_partition(
    options: dict[str, str], selection: object
) -> None:
    servers = {"kafka.bootstrap.servers": "h:1"}
    assert stream_options(servers | options).selection == selection


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("startingoffsets", "soon"),
        ("startingoffsets", '{"a": {"0": -3}}'),
        ("startingoffsets", '{"a": [1]}'),
        ("startingoffsets", "committed"),
        ("startingtimestamp", "yesterday"),
        ("startingoffsetsbytimestampstrategy", "maybe"),
        ("maxoffsetspertrigger", "0"),
        ("maxoffsetspertrigger", "many"),
        ("maxtriggerdelay", "5 moons"),
        ("failondataloss", "perhaps"),
        ("subscribepattern", "("),
        ("assign", '{"a": 1}'),
        ("kafka.isolation.level", "dirty"),
        ("endingoffsets", "latest"),
    ],
)
def test_a_value_that_cannot_be_is_refused(option: str, value: str) -> None:
    base = {"kafka.bootstrap.servers": "h:1"}
    base |= {} if option in ("subscribepattern", "assign") else {"subscribe": "a"}
    with pytest.raises(BadSourceOption, match=rf"(?i)option {re.escape(option)} of the source"):
        stream_options(base | {option: value})


@pytest.mark.parametrize("missing", ["kafka.bootstrap.servers", "subscribe"])
def test_what_is_needed_must_be_there(missing: str) -> None:
    with pytest.raises(BadSourceOption, match=missing):
        stream_options({name: value for name, value in BASE.items() if name != missing})


def test_a_lower_limit_above_the_upper_one_is_refused() -> None:
    with pytest.raises(BadSourceOption, match="minOffsetsPerTrigger"):
        stream_options(BASE | {"minoffsetspertrigger": "5", "maxoffsetspertrigger": "4"})


def test_a_batch_neither_starts_at_latest_nor_ends_at_earliest() -> None:
    for option in ({"startingoffsets": "latest"}, {"endingoffsets": "earliest"}):
        with pytest.raises(BadSourceOption, match="it would be empty"):
            batch_options(BASE | option)


def test_a_stream_starts_at_latest_and_a_batch_at_earliest() -> None:
    assert stream_options(BASE).start.edge is Edge.LATEST
    assert batch_options(BASE).start.edge is Edge.EARLIEST


@pytest.mark.parametrize(
    ("text", "delay_ms"), [("250", 250), ("30s", 30_000), ("15m", 900_000), ("1 h", 3_600_000)]
)
def test_a_delay_is_read_with_its_unit(text: str, delay_ms: int) -> None:
    assert stream_options(BASE | {"maxtriggerdelay": text}).delay_ms_max == delay_ms
