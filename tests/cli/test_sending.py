"""Transactions of `oncestream produce` that go wrong on the way to the broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from oncestream.cli.produce_input import Message
from oncestream.cli.sending import Sender
from oncestream.client.settings import ClientSettings
from oncestream.errors import CommitUnknown, UnknownTopic
from tests.cli.in_process import Cli
from tests.client.kit import wait_until
from tests.conftest import Target

TIMEOUT_MS = 60_000


def sender_of(embedded: Target, name: str) -> Sender:
    return Sender(ClientSettings.of(embedded.bootstrap_servers), {}, 0, name, TIMEOUT_MS)


def state_of(cli: Cli, transactional_id: str) -> str:
    return str(cli.json("txn", "describe", transactional_id)["state"])


def send_all(sender: Sender, messages: Iterable[Message]) -> None:
    with sender:
        for message in messages:
            sender.send(message)


def test_a_record_that_cannot_be_delivered_takes_its_transaction_back(
    embedded: Target, embedded_cli: Cli, name: str
) -> None:
    embedded_cli.ok("topic", "create", name)
    sender = sender_of(embedded, name)

    def messages() -> Iterator[Message]:
        yield Message(b"a", topic=name)
        wait_until(lambda: state_of(embedded_cli, name) == "Ongoing")
        yield Message(b"b", topic=name, partition=9)

    with pytest.raises(UnknownTopic):
        send_all(sender, messages())
    assert (sender.delivered, sender.transactions) == (0, 0)
    # An abort is answered once it is decided: the markers follow.
    wait_until(lambda: state_of(embedded_cli, name) == "CompleteAbort")
    assert embedded_cli.ok("consume", name) == ""


def test_records_of_which_one_cannot_be_delivered_are_none_of_them_seen(
    embedded: Target, embedded_cli: Cli, name: str
) -> None:
    embedded_cli.ok("topic", "create", name)
    sender = sender_of(embedded, name)
    with pytest.raises(UnknownTopic):
        send_all(sender, [Message(b"a", topic=name), Message(b"b", topic=name, partition=9)])
    assert (sender.delivered, sender.transactions) == (0, 0)
    # If the client gives up before it tells the broker of the first one, there is nothing to abort.
    wait_until(lambda: state_of(embedded_cli, name) in ("CompleteAbort", "Empty"))
    assert embedded_cli.ok("consume", name) == ""


class Silent:
    """A producer whose commits are not answered."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def flush(self, timeout_s: float) -> int:
        return 0

    def commit_transaction(self, timeout_s: float) -> None:
        self.asked.append("commit")
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True))

    def abort_transaction(self, timeout_s: float) -> None:
        self.asked.append("abort")


def test_a_commit_without_an_answer_is_asked_for_again_and_never_aborted(embedded: Target, name: str) -> None:
    sender = sender_of(embedded, name)
    silent, real = Silent(), sender._producer
    sender.__enter__()
    sender.send(Message(b"a", topic=name))
    sender._flush()
    sender._producer = silent  # type: ignore[assignment]
    sender._timeout_s = 0.05
    with pytest.raises(CommitUnknown, match="read the committed"):
        sender.__exit__(None, None, None)
    assert set(silent.asked) == {"commit"}
    assert sender.delivered == 0
    real.abort_transaction(TIMEOUT_MS / 1000)
