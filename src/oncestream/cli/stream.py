"""`oncestream stream`: streams and their attributes; topics, cursors and assignments stand in nouns below it."""

from __future__ import annotations

from typing import Annotated, Any, Final, cast

import typer

from oncestream.cli import stream_assign, stream_cursor, stream_topic
from oncestream.cli.command import Call, command, noun
from oncestream.cli.completion import stream_paths
from oncestream.cli.confirm import DryRun, Yes, may_go_on
from oncestream.cli.progress import progress
from oncestream.cli.stream_path import Path, stream_of
from oncestream.errors import BadArgument
from oncestream.streams.attributes import AttributeNames
from oncestream.streams.stream import StreamInfo, list_streams

COLUMNS: Final = ("path", "topics", "ttl", "defaultpartitions", "autocreate", "owner")
PURGED: Final = ("topic", "partition", "first", "until")

app = noun("Streams: named collections of topics that share their attributes.")
app.add_typer(stream_topic.app, name="topic")
app.add_typer(stream_cursor.app, name="cursor")
app.add_typer(stream_assign.app, name="assign")


ProducePerm = Annotated[
    str | None,
    typer.Option("--produceperm", help="Who may write: u:alice|u:bob, p for everyone, '' for nobody."),
]
ConsumePerm = Annotated[str | None, typer.Option("--consumeperm", help="Who may read.")]
TopicPerm = Annotated[str | None, typer.Option("--topicperm", help="Who may make, change and delete topics.")]
CopyPerm = Annotated[str | None, typer.Option("--copyperm", help="Who may copy it.")]
AdminPerm = Annotated[
    str | None, typer.Option("--adminperm", help="Who may do all that and edit the stream.")
]
Ttl = Annotated[int | None, typer.Option("--ttl", help="Seconds that records are kept; 0: for ever.")]
DefaultPartitions = Annotated[
    int | None, typer.Option("--defaultpartitions", help="Partitions of a topic made without a number.")
]
AutoCreate = Annotated[
    bool | None, typer.Option("--autocreate/--no-autocreate", help="Make a topic when it is first used.")
]
Compression = Annotated[
    str | None, typer.Option("--compression", help="producer, none, gzip, snappy, lz4 or zstd.")
]
TimestampType = Annotated[
    str | None, typer.Option("--timestamptype", help="create: the producer's clock; append: the broker's.")
]
Compact = Annotated[
    bool | None, typer.Option("--compact/--no-compact", help="Keep only the newest record of each key.")
]
MinLag = Annotated[int | None, typer.Option("--mincompactionlag", help="Milliseconds before compaction.")]
MaxLag = Annotated[
    int | None, typer.Option("--maxcompactionlag", help="Milliseconds until compaction; 0: no limit.")
]
DeleteLag = Annotated[int | None, typer.Option("--deletelag", help="Milliseconds that a tombstone stays.")]
Replicas = Annotated[int | None, typer.Option("--replicas", help="Copies of each partition (Apache Kafka).")]


@command(app)
def create(
    call: Call,
    path: Path,
    produceperm: ProducePerm = None,
    consumeperm: ConsumePerm = None,
    topicperm: TopicPerm = None,
    copyperm: CopyPerm = None,
    adminperm: AdminPerm = None,
    defaultpartitions: DefaultPartitions = None,
    ttl: Ttl = None,
    autocreate: AutoCreate = None,
    compression: Compression = None,
    timestamptype: TimestampType = None,
    compact: Compact = None,
    mincompactionlag: MinLag = None,
    maxcompactionlag: MaxLag = None,
    deletelag: DeleteLag = None,
    replicas: Replicas = None,
    copymetafrom: Annotated[
        str | None,
        typer.Option(
            help="Path of a stream whose attributes it gets, but for those given.",
            autocompletion=stream_paths,
        ),
    ] = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take over topics of its name that are there.")
    ] = False,
) -> None:
    """Make a stream; what is not said has its default, and permissions not given are the creator's."""
    values = locals()
    with progress("topics") as advance:
        made = stream_of(call, path).create(
            like=copymetafrom, adopt=adopt, on_progress=advance, **_attributes(values)
        )
    call.show_one(_row(made))


@command(app)
def edit(
    call: Call,
    path: Path,
    produceperm: ProducePerm = None,
    consumeperm: ConsumePerm = None,
    topicperm: TopicPerm = None,
    copyperm: CopyPerm = None,
    adminperm: AdminPerm = None,
    defaultpartitions: DefaultPartitions = None,
    ttl: Ttl = None,
    autocreate: AutoCreate = None,
    compression: Compression = None,
    timestamptype: TimestampType = None,
    compact: Compact = None,
    mincompactionlag: MinLag = None,
    maxcompactionlag: MaxLag = None,
    deletelag: DeleteLag = None,
    replicas: Replicas = None,
) -> None:
    """Change attributes of a stream and of its topics; without any: repair what differs from them."""
    values = locals()
    with progress("topics") as advance:
        edited = stream_of(call, path).edit(on_progress=advance, **_attributes(values))
    call.show_one(_row(edited))


@command(app)
def info(call: Call, path: Path) -> None:
    """The attributes and topics of a stream."""
    call.show_one(_row(stream_of(call, path).info()))


@command(app, "list")
def list_(
    call: Call,
    prefix: Annotated[
        str, typer.Argument(help="Only at or below this path.", autocompletion=stream_paths)
    ] = "/",
) -> None:
    """Streams that you may see."""
    if not prefix.startswith("/"):
        raise BadArgument(name=f"{prefix!r}", reason="a path begins with /")
    call.show([_row(each) for each in list_streams(call.cluster, prefix)], COLUMNS)


@command(app)
def delete(call: Call, path: Path, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete a stream with its topics, all their records, and its permissions."""
    stream = stream_of(call, path)
    doomed = stream.delete(dry_run=True)
    plan = [f"delete topic {path}:{name} and all its records" for name in doomed.topics]
    plan.append(f"delete stream {path} and its {len(doomed.rules)} access rules")
    if may_go_on(plan, dry_run=dry_run, yes=yes):
        with progress("topics") as advance:
            stream.delete(on_progress=advance)


@command(app)
def purge(
    call: Call,
    path: Path,
    everything: Annotated[
        bool, typer.Option("--everything", help="All records, not only the expired.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove at once the records that are older than the time-to-live."""
    stream = stream_of(call, path)
    old = stream.purge(everything=everything, dry_run=True)
    plan = [
        f"remove records {each.first} to {each.until - 1} of {path}:{each.topic}-{each.partition}"
        for each in old
    ]
    if may_go_on(plan, dry_run=dry_run, yes=yes or not old):
        old = stream.purge(everything=everything)
    call.show([each._asdict() for each in old], PURGED)


# MapR's words, and the names of the attributes they stand for.
WORDS: Final = {
    "ttl": "ttl_s",
    "defaultpartitions": "default_partitions",
    "autocreate": "auto_create",
    "compression": "compression",
    "timestamptype": "timestamp_type",
    "compact": "compact",
    "mincompactionlag": "min_compaction_lag_ms",
    "maxcompactionlag": "max_compaction_lag_ms",
    "deletelag": "delete_lag_ms",
    "replicas": "replicas",
    "produceperm": "produce",
    "consumeperm": "consume",
    "topicperm": "topic",
    "copyperm": "copy",
    "adminperm": "admin",
}


def _attributes(values: dict[str, Any]) -> AttributeNames:
    """Of the options that were given."""
    given: dict[str, Any] = {name: values[word] for word, name in WORDS.items() if values[word] is not None}
    if given.get("max_compaction_lag_ms") == 0:
        given["max_compaction_lag_ms"] = None
    return cast("AttributeNames", given)


def _row(stream: StreamInfo) -> dict[str, Any]:
    attributes = stream.attributes.as_dict()
    return {
        "path": stream.path,
        **{word: attributes[name] for word, name in WORDS.items()},
        "owner": stream.owner,
        "topics": list(stream.topics),
    }
