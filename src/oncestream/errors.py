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


class DataFolderInUse(OncestreamError):
    """Another process has the data folder open."""

    cause = "data folder {folder} is in use by another broker (process {pid})"
    suggestion = "stop that broker, or give this one another folder with --data"
    exit_code = 3


class DataFolderUnusable(OncestreamError):
    """The data folder cannot be created, read or written."""

    cause = "data folder {folder} cannot be used: {reason}"
    suggestion = "check the path and its permissions, or choose another folder with --data"
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


class ListenFailed(OncestreamError):
    """The listening address cannot be opened."""

    cause = "cannot listen on {address}: {reason}"
    suggestion = "choose a free address with --listen HOST:PORT (port 0 takes any free one)"
    exit_code = 3


class OpenListener(OncestreamError):
    """A listener that others could reach would take everybody."""

    cause = "refusing to listen on {address}: it can be reached from other machines and has no authentication"
    suggestion = "listen on 127.0.0.1, or allow it knowingly with --insecure"
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
