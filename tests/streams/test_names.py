"""Names of streams and topics, good and bad."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.errors import BadStreamName
from oncestream.streams.names import (
    LENGTH_MAX,
    StreamPath,
    display_name,
    is_whole_stream,
    parse_topic,
    split_topic,
    topic_pattern,
)

PARTS = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True).filter(lambda part: not part.startswith("__"))
PATHS = st.lists(PARTS, min_size=1, max_size=5).filter(lambda parts: parts[0] != "oncestream")
KAFKA_NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,60}", fullmatch=True).filter(
    lambda name: name not in (".", "..")
)


@given(PATHS, PARTS)
def test_a_topic_of_a_stream_and_its_kafka_name_stand_for_each_other(path: list[str], name: str) -> None:
    shown = f"/{'/'.join(path)}:{name}"
    assert parse_topic(shown) == ".".join((*path, name))
    assert display_name(parse_topic(shown)) == shown


@given(KAFKA_NAMES)
def test_every_kafka_name_comes_back_from_how_it_is_shown(name: str) -> None:
    assert parse_topic(display_name(name)) == name
    assert parse_topic(name) == name


@given(PATHS, PARTS)
def test_a_stream_knows_its_own_topics_and_no_others(path: list[str], name: str) -> None:
    stream = StreamPath("/" + "/".join(path))
    assert stream.topic_name(stream.topic(name)) == name
    assert split_topic(stream.topic(name)) == (stream, name)
    assert stream.topic_name(f"{stream.topic(name)}.deeper") is None
    assert stream.topic_name(f"other.{stream.topic(name)}") is None


@given(st.text(max_size=300))
def test_whatever_is_given_is_a_name_within_bounds_or_a_clear_error(text: str) -> None:
    try:
        kafka_name = parse_topic(text)
    except BadStreamName:
        return
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,249}", kafka_name)
    assert kafka_name not in (".", "..")


@given(st.text(alphabet="/.:ab_-\u00e9\u0000 *%\\\n", max_size=30))
def test_a_stream_name_never_becomes_the_name_of_a_folder_elsewhere(text: str) -> None:
    try:
        kafka_name = parse_topic(f"/{text}")
    except BadStreamName:
        return
    assert ".." not in kafka_name
    assert not {"/", "\\", "\0", ":"} & set(kafka_name)


@pytest.mark.parametrize(
    "text",
    [
        "", "/", "//", ":", "/:", "/apps", "/apps/pump:", "/apps/pump/:x", "apps/pump:x", "/apps//pump:x",
        "/apps/../etc:x", "/./pump:x", "/../../etc/passwd:x", "/apps/pump:../x", "/apps/pump:a/b", "/apps/pump:a:b",
        "/apps.pump:x", "/apps/pump:a.b", "/apps/p\u00fcmp:x", "/apps/pump:\u0430", "/apps/pump:x ", " /apps/pump:x",
        "/apps/pump:x\n", "/apps/pump:\0", "/apps/%2e%2e:x", "/apps\\pump:x", "/apps/pump:*", "..", ".", "a b", "a\n",
        "/__consumer_offsets:x", "/__x/y:z", "/apps/pump:__x", "/oncestream:streams", "/oncestream/x:y",
        "/a:" + "x" * LENGTH_MAX, "x" * (LENGTH_MAX + 1), "/" + "x/" * 200 + "y:z",
    ],
)  # fmt: skip
def test_a_bad_name_is_refused_with_its_reason(text: str) -> None:
    with pytest.raises(BadStreamName) as caught:
        parse_topic(text)
    assert caught.value.facts["reason"]
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize(
    "path", ["", "apps", "/", "/apps/", "/oncestream", "/__x", "/a b", "/" + "x" * LENGTH_MAX, "/a:b"]
)
def test_a_bad_path_is_refused(path: str) -> None:
    with pytest.raises(BadStreamName):
        StreamPath(path)


def test_a_path_that_leaves_room_for_one_letter_is_the_longest() -> None:
    longest = StreamPath("/" + "x" * (LENGTH_MAX - 2))
    assert len(longest.topic("y")) == LENGTH_MAX
    with pytest.raises(BadStreamName, match="250 characters"):
        longest.topic("yy")


@pytest.mark.parametrize(
    "name", ["orders", "__consumer_offsets", "oncestream.progress", "a..b", ".a", "a.", "a.__b"]
)
def test_a_kafka_topic_that_no_stream_can_have_is_shown_as_it_is(name: str) -> None:
    assert display_name(name) == name


@given(PATHS, PARTS)
def test_a_whole_stream_is_a_pattern_of_its_topics(path: list[str], name: str) -> None:
    stream = StreamPath("/" + "/".join(path))
    text = f"{stream}:*"
    assert is_whole_stream(text)
    assert re.fullmatch(topic_pattern(text), stream.topic(name))
    assert not re.fullmatch(topic_pattern(text), f"{stream.topic(name)}.deeper")
    assert not is_whole_stream(f"{stream}:{name}")
    assert re.fullmatch(topic_pattern(f"{stream}:{name}"), stream.topic(name))
