"""`oncestream produce`: standard input, or a file, to a topic."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import typer

from oncestream.cli.arguments import PARTITION_MAX, TOPIC_HELP, pairs
from oncestream.cli.command import Call, command
from oncestream.cli.completion import topic_names
from oncestream.cli.output import Output
from oncestream.cli.produce_input import Message, Parse, line_parser, parse_json
from oncestream.cli.progress import UNKNOWN, Advance, progress
from oncestream.cli.sending import Sender
from oncestream.cli.targets import Targets
from oncestream.client.cluster import Cluster
from oncestream.client.inspection import OPEN, known_transactions
from oncestream.errors import BadArgument, BadInput, NoAutoCreate, NoSuchStream
from oncestream.streams.names import parse_topic

WAIT_S_MAX: Final = 0.1
VISIBLE_WAIT_S: Final = 10.0
VISIBLE_POLL_S: Final = 0.01

app = typer.Typer(rich_markup_mode=None, add_completion=False)


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    ALL = "all"
    ONE = "1"
    NONE = "0"


@command(app)
def produce(
    call: Call,
    topic: Annotated[
        str | None,
        typer.Argument(
            help=f"{TOPIC_HELP} Without it each JSON object names its own.", autocompletion=topic_names
        ),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Read this file, not standard input.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Each line is a JSON object with value, key, ...")
    ] = False,
    key_separator: Annotated[
        str | None, typer.Option(help="What stands between key and value in a line.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Key of every record that has none of its own.")] = None,
    header: Annotated[list[str] | None, typer.Option(help="NAME=VALUE on every record; repeatable.")] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, max=PARTITION_MAX, help="Write to this partition.")
    ] = None,
    keep_partition: Annotated[
        bool, typer.Option("--keep-partition", help="Write each JSON object to the partition that it names.")
    ] = False,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Records per second at most.")] = None,
    compression: Annotated[Compression, typer.Option(help="Of the batches.")] = Compression.NONE,
    acks: Annotated[Acks, typer.Option(help="Whom to wait for.")] = Acks.ALL,
    transaction_size: Annotated[
        int | None, typer.Option(min=0, help="Records of a transaction; 0: the whole input is one.")
    ] = None,
    transactional_id: Annotated[
        str | None, typer.Option(help="Default: a new one, under the topic's stream.")
    ] = None,
    transaction_timeout: Annotated[
        float, typer.Option(min=1, max=900, help="Seconds that a transaction may take.")
    ] = 60,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Pass over lines that are wrong.")] = False,
) -> None:
    """Write lines or JSON from standard input to a topic."""
    if acks is not Acks.ALL and transaction_size is not None:
        raise BadArgument(name=f"--acks {acks}", reason="transactions need --acks all")
    if keep_partition and (partition is not None or not json):
        reason = "each object names its own" if json else "it needs --json: a line names no partition"
        raise BadArgument(name="--keep-partition", reason=reason)
    headers = tuple((name, value.encode()) for name, value in pairs("--header", header or []).items())
    parse = _parser(topic, json, key_separator)
    if topic is not None:
        parse_topic(topic)  # a bad name is refused before a broker is asked
    targets = Targets(call.cluster)  # a wrong address or password is told here, at once
    rules = _Rules(
        parse,
        targets,
        None if topic is None else targets.kafka_name(topic),
        None if key is None else key.encode(),
        headers,
        partition,
        keep_partition,
        skip_bad,
    )
    options = {
        "compression.type": str(compression),
        "acks": str(acks),
        "enable.idempotence": acks is Acks.ALL,
    }
    sender = Sender(
        call.settings,
        options,
        transaction_size,
        transactional_id or _new_transactional_id(rules.topic),
        round(transaction_timeout * 1000),
    )
    began = time.monotonic()
    is_typed = file is None and sys.stdin.isatty()
    with _opened(file) as lines, progress("records", wanted=not is_typed) as advance:
        skipped = _send_all(sender, lines, rules, _pace(rate), advance)
    if sender.transactions:
        _wait_visible(call.cluster, sender.transactional_id)
    _summarize(call, sender, skipped, time.monotonic() - began)


def _parser(topic: str | None, json: bool, key_separator: str | None) -> Parse:
    if topic is None and not json:
        raise BadArgument(name="produce", reason="it needs a topic, or --json with a topic in each object")
    if json and key_separator is not None:
        raise BadArgument(name="--key-separator", reason="with --json the key is a field")
    if key_separator == "":
        raise BadArgument(name="--key-separator", reason="it is empty")
    return parse_json if json else line_parser(key_separator)


@dataclass(frozen=True, slots=True)
class _Rules:
    """How a line becomes a message."""

    parse: Parse
    targets: Targets
    topic: str | None
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None
    keep_partition: bool
    skip_bad: bool

    def message(self, line: bytes) -> Message:
        """`consume` tells where a record was: another topic may have fewer partitions, so that is not kept unasked."""
        told = self.parse(line)
        topic = self.topic or self._own_topic(told)
        partition = told.partition if self.keep_partition else self.partition
        if self.keep_partition and partition is not None:
            self.targets.require_partition(topic, partition)
        return told._replace(
            topic=topic,
            key=self.key if told.key is None else told.key,
            headers=(*told.headers, *self.headers),
            partition=partition,
        )

    def _own_topic(self, told: Message) -> str:
        if told.topic is None:
            raise ValueError("it has no field 'topic'")
        try:
            return self.targets.kafka_name(told.topic)
        except (NoSuchStream, NoAutoCreate) as error:
            raise ValueError(error.cause_text) from None


def _send_all(
    sender: Sender,
    lines: Iterable[bytes],
    rules: _Rules,
    pace: Callable[[int], None],
    advance: Advance,
) -> int:
    """How many lines were passed over; BadInput at the first wrong one unless those are to be skipped."""
    skipped = 0
    wrong: tuple[int, str] | None = None
    try:
        with sender:
            for number, line in enumerate(lines, 1):
                try:
                    sender.send(rules.message(line.rstrip(b"\n").removesuffix(b"\r")))
                except ValueError as error:
                    if not rules.skip_bad:
                        wrong = number, str(error)
                        raise
                    skipped += 1
                    typer.echo(f"line {number} is passed over: {error}", err=True)
                pace(number)
                advance(number, UNKNOWN)
    except ValueError:
        if wrong is None:
            raise
        sent = f"{sender.delivered} records were written before it"
        raise BadInput(line=wrong[0], reason=wrong[1], sent=sent) from None
    return skipped


def _new_transactional_id(topic: str | None) -> str:
    """Who may write to a stream may use transactional ids that begin as its topics do."""
    stream = (topic or "").rpartition(".")[0]
    return f"{stream}{'.' if stream else ''}oncestream-produce-{uuid.uuid4()}"


def _wait_visible(cluster: Cluster, transactional_id: str) -> None:
    """A commit is answered before readers can see it; who runs `consume` next expects to."""
    deadline = time.monotonic() + VISIBLE_WAIT_S
    while time.monotonic() < deadline:
        if all(each.state not in OPEN for each in known_transactions(cluster, [transactional_id]).values()):
            return
        time.sleep(VISIBLE_POLL_S)


def _pace(rate: float | None) -> Callable[[int], None]:
    """Waits before the next record where they come faster than `rate` a second."""
    began = time.monotonic()

    def wait(sent: int) -> None:
        while rate is not None and (ahead_s := began + sent / rate - time.monotonic()) > 0:
            time.sleep(min(ahead_s, WAIT_S_MAX))

    return wait


@contextmanager
def _opened(file: Path | None) -> Iterator[BinaryIO]:
    if file is None:
        yield sys.stdin.buffer
        return
    try:
        opened = file.open("rb")
    except OSError as error:
        raise BadArgument(name=f"--file {file}", reason=f"it cannot be read: {error.strerror}") from None
    with opened:
        yield opened


def _summarize(call: Call, sender: Sender, skipped: int, seconds: float) -> None:
    summary = {
        "topics": sorted(sender.topics),
        "records": sender.delivered,
        "skipped": skipped,
        "transactions": sender.transactions,
        "seconds": round(seconds, 3),
    }
    if call.output is not Output.TABLE:
        call.show_one(summary)
        return
    parts = [
        f"{sender.delivered} records written to {', '.join(sorted(sender.topics)) or 'no topic'} in {seconds:.1f} s"
    ]
    if sender.transactions:
        parts.append(f"{sender.transactions} transactions")
    if skipped:
        parts.append(f"{skipped} lines passed over")
    call.say(", ".join(parts))
