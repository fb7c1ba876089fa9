"""The answer that says an error: of every API, with the code in all the places where its clients look."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from oncestream.errors import BadFault
from oncestream.testing.frames import Messages, Request, messages_of
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.fetch import FetchResponse
from oncestream.wire.messages.metadata import MetadataResponse
from oncestream.wire.schema import Message, Struct, StructType, struct_classes, version_range


class Level(NamedTuple):
    """A list of the request and the list of the answer that has an entry for each of its entries."""

    asked: str
    told: str


class Shape(NamedTuple):
    """Where the errors of these versions stand: in the entries of the last level."""

    versions: str
    levels: tuple[Level, ...]


TOPICS: Final = Level("topics", "topics")
PARTITIONS: Final = Level("partitions", "partitions")
PARTITION_INDEXES: Final = Level("partition_indexes", "partitions")
BY_PARTITION: Final = (Shape("0+", (TOPICS, PARTITIONS)),)

# What is not here has one error code for the whole answer. Metadata is not: `put_error` changes its answer.
SHAPES: Final[dict[ApiKey, tuple[Shape, ...]]] = {
    ApiKey.PRODUCE: (
        Shape("0+", (Level("topic_data", "responses"), Level("partition_data", "partition_responses"))),
    ),
    ApiKey.FETCH: (Shape("0+", (Level("topics", "responses"), PARTITIONS)),),
    ApiKey.LIST_OFFSETS: BY_PARTITION,
    ApiKey.OFFSET_COMMIT: BY_PARTITION,
    ApiKey.OFFSET_FETCH: (
        Shape("0-1", (TOPICS, PARTITION_INDEXES)),
        Shape("8+", (Level("groups", "groups"),)),
    ),
    ApiKey.FIND_COORDINATOR: (Shape("4+", (Level("coordinator_keys", "coordinators"),)),),
    ApiKey.DESCRIBE_GROUPS: (Shape("0+", (Level("groups", "groups"),)),),
    ApiKey.CREATE_TOPICS: (Shape("0+", (TOPICS,)),),
    ApiKey.DELETE_TOPICS: (
        Shape("0-5", (Level("topic_names", "responses"),)),
        Shape("6+", (Level("topics", "responses"),)),
    ),
    ApiKey.DELETE_RECORDS: BY_PARTITION,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: BY_PARTITION,
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        Shape(
            "0-3",
            (
                Level("v3_and_below_topics", "results_by_topic_v3_and_below"),
                Level("partitions", "results_by_partition"),
            ),
        ),
    ),
    ApiKey.WRITE_TXN_MARKERS: (Shape("0+", (Level("markers", "markers"), TOPICS, PARTITION_INDEXES)),),
    ApiKey.TXN_OFFSET_COMMIT: BY_PARTITION,
    ApiKey.DESCRIBE_CONFIGS: (Shape("0+", (Level("resources", "results"),)),),
    ApiKey.ALTER_CONFIGS: (Shape("0+", (Level("resources", "responses"),)),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (Shape("0+", (Level("resources", "responses"),)),),
    ApiKey.CREATE_PARTITIONS: (Shape("0+", (Level("topics", "results"),)),),
    ApiKey.DELETE_GROUPS: (Shape("0+", (Level("groups_names", "results"),)),),
    ApiKey.DESCRIBE_PRODUCERS: (Shape("0+", (TOPICS, PARTITION_INDEXES)),),
    ApiKey.DESCRIBE_TRANSACTIONS: (Shape("0+", (Level("transactional_ids", "transaction_states"),)),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (Shape("0+", (Level("group_ids", "groups"),)),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (Shape("0+", (TOPICS,)),),
    ApiKey.CREATE_ACLS: (Shape("0+", (Level("creations", "results"),)),),
    ApiKey.DELETE_ACLS: (Shape("0+", (Level("filters", "filter_results"),)),),
}

# Fields by which an entry of the answer says which entry of the request it is for.
IDENTITIES: Final = (
    "partition_index",
    "index",
    "partition",
    "name",
    "topic",
    "topic_id",
    "group_id",
    "key",
    "transactional_id",
    "producer_id",
    "resource_type",
    "resource_name",
)
NOTHING_THERE: Final = ("base_offset", "committed_offset", "high_watermark", "low_watermark")
NO_NODE: Final = {"node_id": -1, "port": -1}


def can_fail(api: ApiKey) -> bool:
    """Whether an error of this API can be made up."""
    classes = messages_of(api)
    if classes is None:
        return False
    return api in SHAPES or api is ApiKey.METADATA or "error_code" in classes.answer.__fields__


def error_answer(request: Request, error: ErrorCode) -> Message:
    """What a broker answers that does nothing of what was asked; not for Metadata."""
    assert request.api is not None
    classes = messages_of(request.api)
    shape = _shape(request.api, request.version)
    if classes is None or not request.is_understood or not (shape or _has_code(classes, request.version)):
        raise BadFault(
            reason=f"{request.api.name} version {request.version} cannot be answered with an error",
            advice="cut its connection instead",
        )
    answer = classes.answer()
    if shape is None:
        _set_error(answer, error)
    else:
        _fill(answer, request.message(), shape.levels, error)
    if isinstance(answer, FetchResponse) and not any(topic.partitions for topic in answer.responses):
        answer.error_code = error  # an incremental fetch, which names no partition
    return answer


def put_error(answer: MetadataResponse, error: ErrorCode) -> None:
    """Clients need the addresses in a Metadata answer even where it says errors: so it is the broker's own."""
    if not answer.topics:
        answer.error_code = error
    for topic in answer.topics:
        topic.error_code, topic.partitions = error, []


def _has_code(classes: Messages, version: int) -> bool:
    """Whether the whole answer has an error code in this version."""
    field = classes.answer.__fields__.get("error_code")
    return field is not None and version in version_range(field.versions)


def _shape(api: ApiKey, version: int) -> Shape | None:
    for shape in SHAPES.get(api, ()):
        if version in version_range(shape.versions):
            return shape
    return None


def _fill(told: Struct, asked: Struct, levels: tuple[Level, ...], error: ErrorCode) -> None:
    """Gives `told` an entry for every entry of `asked`, and theirs further down."""
    (level, *deeper) = levels
    entry_class = struct_classes(type(told))[level.told]
    entries = getattr(told, level.told)
    for asked_entry in getattr(asked, level.asked) or ():
        entry = entry_class(**_identity(entry_class, asked_entry))
        if deeper:
            _fill(entry, asked_entry, tuple(deeper), error)
        else:
            _set_error(entry, error)
        entries.append(entry)


def _identity(told: StructType, asked: Any) -> dict[str, Any]:
    """What tells which entry it is: fields of the same name, else the first of both."""
    names = [name for name in IDENTITIES if name in told.__fields__]
    if not isinstance(asked, Struct):
        return {names[0]: asked}
    same: dict[str, Any] = {name: getattr(asked, name) for name in names if name in type(asked).__fields__}
    if same or not names:
        return same
    return {names[0]: next(getattr(asked, name) for name in IDENTITIES if name in type(asked).__fields__)}


def _set_error(told: Any, error: ErrorCode) -> None:
    fields = type(told).__fields__
    code = "error_code" if "error_code" in fields else "partition_error_code"
    setattr(told, code, error)
    for name in NOTHING_THERE:
        if name in fields:
            setattr(told, name, -1)
    for name, value in NO_NODE.items():
        if name in fields:
            setattr(told, name, value)
    if "records" in fields:
        told.records = b""
