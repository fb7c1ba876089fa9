"""`oncestream pipeline dead-letters`: what a pipeline could not write, by cause; chosen ones are sent again.

The letters that are sent again and the marks that say so are one transaction. A mark is a record without key and
value in the letters' own partition; its headers are the pipeline's name and `resent`, which lists the letters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple

import typer

from oncestream.cli.arguments import TOPIC_HELP, existing_topics
from oncestream.cli.command import Call
from oncestream.cli.completion import pipeline_names, topic_names
from oncestream.cli.confirm import DryRun, Yes, may_go_on
from oncestream.cli.produce_input import Header, Message
from oncestream.cli.receiving import committed_records
from oncestream.cli.record_format import Record
from oncestream.cli.sending import Sender
from oncestream.client.admin import describe_topics
from oncestream.client.damage import OnDamage
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadArgument, NoDeadLetters, OncestreamError, UnknownTopic
from oncestream.streams.names import parse_topic

SUFFIXES: Final = (".dead", "-dead")  # of a topic, and of a topic of a stream
COLUMNS: Final = ("cause", "letters", "resent", "topic", "example", "origin")
PIPELINE: Final = "pipeline"
ERROR: Final = "error"  # the first of the headers that the pipeline adds behind those of the input
MARK: Final = "resent"
LETTERS_PER_MARK_MAX: Final = 10_000
CAUSE_CHARS_MAX: Final = 120
TRANSACTION_TIMEOUT_MS: Final = 600_000
ID_SUFFIX: Final = ".dead-letters"
_ID: Final = re.compile(r"(\d{1,10}):(\d{1,19})")


class LetterId(NamedTuple):
    """Where a letter lies in its topic of dead letters; written PARTITION:OFFSET."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


@dataclass(slots=True)
class Cause:
    """Letters whose reasons differ in their numbers only."""

    topic: str
    text: str
    example: Record
    letters: list[LetterId] = field(default_factory=list)


@dataclass(slots=True)
class Letters:
    """What lies in the topics of dead letters, without the letters' contents."""

    causes: dict[tuple[str, str], Cause] = field(default_factory=dict)
    resent: dict[str, set[LetterId]] = field(default_factory=dict)

    def waiting(self, cause: Cause) -> list[LetterId]:
        return [each for each in cause.letters if each not in self.resent.get(cause.topic, ())]


def dead_letters(
    call: Call,
    name: Annotated[str, typer.Argument(help="The pipeline's name.", autocompletion=pipeline_names)],
    topic: Annotated[
        str | None,
        typer.Option(
            help=f"Topic of the dead letters; default: all that end in .dead or -dead. {TOPIC_HELP}",
            autocompletion=topic_names,
        ),
    ] = None,
    resend: Annotated[
        bool, typer.Option("--resend", help="Send the chosen letters to where they came from, and mark them.")
    ] = False,
    cause: Annotated[
        str | None, typer.Option(help="Choose the letters whose cause has this text in it.")
    ] = None,
    letter: Annotated[
        list[str] | None, typer.Option(help="Choose this letter, PARTITION:OFFSET; repeatable.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Send to this topic instead.", autocompletion=topic_names)
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """The rows that a pipeline could not write, by cause; with --resend the chosen ones go in again, once."""
    wanted = {_letter_id(each) for each in letter or ()}
    if not resend and (to is not None or dry_run or yes):
        raise BadArgument(name="--to, --dry-run and --yes", reason="they belong to --resend")
    topics = [parse_topic(topic)] if topic is not None else _topics_of_dead_letters(call)
    existing_topics(call.cluster, [*topics, *([to] if to is not None else [])])
    letters = _read(call, name, topics, _refuse if resend else call.skip)
    if not letters.causes:
        raise NoDeadLetters(name=name, topics=", ".join(topics) or "no topic ends in .dead or -dead")
    chosen = [each for each in letters.causes.values() if cause is None or cause in each.text]
    if not resend:
        call.show([_row(letters, each, wanted) for each in chosen], COLUMNS)
        return
    plan = {
        (each.topic, found)
        for each in chosen
        for found in letters.waiting(each)
        if not wanted or found in wanted
    }
    target = "where they came from" if to is None else to
    lines = [f"send {len(plan)} dead letters of {name} to {target}, and mark them as sent"]
    sent: Counter[str] = Counter()
    if plan and may_go_on(lines, dry_run=dry_run, yes=yes):
        sent = _resend(call, name, plan, None if to is None else parse_topic(to))
    call.show([{"topic": each, "sent": sent[each]} for each in sorted(sent)], ("topic", "sent"))


def _resend(call: Call, name: str, plan: Collection[tuple[str, LetterId]], to: str | None) -> Counter[str]:
    """One transaction. Who comes second waits for the first, or fences it, and finds its marks."""
    transactional_id = f"{name}{ID_SUFFIX}"
    with Sender(call.settings, {}, 0, transactional_id, TRANSACTION_TIMEOUT_MS) as sender:
        topics = sorted({topic for topic, _ in plan})
        resent = _read(call, name, topics, _refuse).resent
        known = {each.name for each in describe_topics(call.cluster)}
        sent: Counter[str] = Counter()
        marks: dict[TopicPartition, list[LetterId]] = {}
        for record in _records(call, topics, _refuse):
            at = LetterId(record.partition, record.offset)
            if (record.topic, at) in plan and at not in resent.get(record.topic, ()):
                message = _original(record, to)
                if message.topic not in known:
                    raise UnknownTopic(topic=message.topic)
                sender.send(message)
                sent[str(message.topic)] += 1
                marks.setdefault(TopicPartition(record.topic, record.partition), []).append(at)
        for mark in _marks(name, marks):
            sender.send(mark)
    return sent


def _original(record: Record, to: str | None) -> Message:
    """The input as it was. A letter that was cut, or whose origin is unknown, cannot go back."""
    own, facts = _parts(record)
    at = f"{record.topic} {record.partition}:{record.offset}"
    if "truncated" in facts:
        raise BadArgument(name=at, reason="it was too large to be kept whole, so it cannot be sent again")
    origin = facts.get("origin.topic")
    if to is None and origin is None:
        raise BadArgument(name=at, reason="it does not say which topic it came from; name one by --to")
    return Message(record.value, record.key, own, to or (origin or b"").decode())


def _parts(record: Record) -> tuple[tuple[Header, ...], dict[str, bytes | None]]:
    """The headers that the input had, and what the pipeline says of it, which begins with the last `error`."""
    names = [name for name, _ in record.headers]
    begin = len(names) - 1 - names[::-1].index(ERROR)
    return record.headers[:begin], dict(record.headers[begin:])


def _marks(name: str, resent: dict[TopicPartition, list[LetterId]]) -> Iterator[Message]:
    """In the partition of their letters, behind them: whatever is deleted, a letter never outlives its mark."""
    for at, letters in resent.items():
        for begin in range(0, len(letters), LETTERS_PER_MARK_MAX):
            ids = ",".join(map(str, letters[begin : begin + LETTERS_PER_MARK_MAX]))
            headers = ((PIPELINE, name.encode()), (MARK, ids.encode()))
            yield Message(None, None, headers, at.topic, at.partition)


def _read(call: Call, name: str, topics: Iterable[str], on_damage: OnDamage) -> Letters:
    found = Letters()
    for record in _records(call, topics, on_damage):
        names = [header for header, _ in record.headers]
        if names == [PIPELINE, MARK] and record.key is None and record.value is None:
            mark = dict(record.headers)
            if _text(mark[PIPELINE]) == name:
                ids = _ID.findall(_text(mark[MARK]))
                resent = found.resent.setdefault(record.topic, set())
                resent.update(LetterId(int(partition), int(offset)) for partition, offset in ids)
        elif ERROR in names and _text((facts := _parts(record)[1]).get(PIPELINE)) == name:
            text = re.sub(r"\d+", "N", _text(facts[ERROR]))[:CAUSE_CHARS_MAX]
            cause = found.causes.setdefault((record.topic, text), Cause(record.topic, text, record))
            cause.letters.append(LetterId(record.partition, record.offset))
    return found


def _records(call: Call, topics: Iterable[str], on_damage: OnDamage) -> Iterator[Record]:
    return committed_records(call.cluster, existing_topics(call.cluster, topics), on_damage)


def _refuse(error: OncestreamError) -> None:
    """A mark may lie in what cannot be read: a letter would be sent twice."""
    raise error


def _topics_of_dead_letters(call: Call) -> list[str]:
    return [each.name for each in describe_topics(call.cluster) if each.name.endswith(SUFFIXES)]


def _row(letters: Letters, cause: Cause, wanted: Collection[LetterId]) -> dict[str, Any]:
    ids = [each for each in cause.letters if not wanted or each in wanted]
    waiting = len(set(ids) & set(letters.waiting(cause)))
    facts = {name: _text(content) for name, content in _parts(cause.example)[1].items()}
    place = [facts.get(f"origin.{part}") for part in ("topic", "partition", "offset")]
    return {
        "cause": cause.text,
        "letters": waiting,
        "resent": len(ids) - waiting,
        "topic": cause.topic,
        "example": str(LetterId(cause.example.partition, cause.example.offset)),
        "origin": f"{place[0]} {place[1]}:{place[2]}" if all(place) else None,
    }


def _letter_id(text: str) -> LetterId:
    found = _ID.fullmatch(text)
    if found is None:
        raise BadArgument(name=f"--letter {text!r}", reason="it is not PARTITION:OFFSET")
    return LetterId(int(found[1]), int(found[2]))


def _text(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace")
