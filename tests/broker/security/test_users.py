"""Users: made while the broker is stopped and while it runs, changed, deleted, kept."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from oncestream.broker.security.scram import Mechanism, salted_password
from oncestream.broker.security.users import add_user_offline
from oncestream.errors import BadUser, DataFolderInUse
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncestream.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from tests.broker.conftest import Connect, StartBroker
from tests.broker.kit import (
    Wire,
    batch,
    create_topic,
    fetch,
    fetch_request,
    metadata,
    produce,
    values_of,
    wait_until,
)
from tests.broker.security.kit import ALL_MECHANISMS, PASSWORD, USER, LoginFailedError, log_in

BOTH = {(Mechanism.SCRAM_SHA_256, 8192), (Mechanism.SCRAM_SHA_512, 8192)}
WRONG = "wrong user name or password"
SALT = b"some salt of the client"


def upsertion(
    name: str, password: str, mechanism: int = Mechanism.SCRAM_SHA_256, iterations: int = 4096
) -> ScramCredentialUpsertion:
    known = Mechanism.SCRAM_SHA_512 if mechanism == Mechanism.SCRAM_SHA_512 else Mechanism.SCRAM_SHA_256
    salted = salted_password(known, password, SALT, max(iterations, 1))
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted
    )


def alter(wire: Wire, *wanted: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, int]:
    """The error code of each user."""
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in wanted if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in wanted if isinstance(each, ScramCredentialUpsertion)],
    )
    answer = wire.ask(request, 0, AlterUserScramCredentialsResponse)
    return {result.user: result.error_code for result in answer.results}


def describe(wire: Wire, *users: str) -> dict[str, int | set[tuple[int, int]]]:
    """The mechanisms and iterations of each user, or its error code."""
    request = DescribeUserScramCredentialsRequest(
        users=[UserName(name=user) for user in users] if users else None
    )
    answer = wire.ask(request, 0, DescribeUserScramCredentialsResponse)
    assert answer.error_code == 0
    return {
        result.user: result.error_code or {(i.mechanism, i.iterations) for i in result.credential_infos}
        for result in answer.results
    }


def test_users_can_be_set_described_and_deleted_as_in_apache_kafka(wire: Wire) -> None:
    assert alter(wire, upsertion("ann", "one"), upsertion("ben:Ä,=", "two", 2, 16384)) == {
        "ann": 0,
        "ben:Ä,=": 0,
    }
    assert alter(wire, upsertion("ann", "three", Mechanism.SCRAM_SHA_512)) == {"ann": 0}
    described = {"ann": {(1, 4096), (2, 4096)}, "ben:Ä,=": {(2, 16384)}}
    wait_until(
        lambda: describe(wire, "ann", "ben:Ä,=") == described
    )  # Apache Kafka's brokers learn of it later
    assert describe(wire).keys() >= {"ann", "ben:Ä,="}
    assert alter(wire, ScramCredentialDeletion(name="ann", mechanism=1)) == {"ann": 0}
    wait_until(lambda: describe(wire, "ann") == {"ann": {(2, 4096)}})
    gone = (
        ScramCredentialDeletion(name="ann", mechanism=2),
        ScramCredentialDeletion(name="ben:Ä,=", mechanism=2),
    )
    assert alter(wire, *gone) == {"ann": 0, "ben:Ä,=": 0}
    wait_until(lambda: describe(wire, "ann") == {"ann": ErrorCode.RESOURCE_NOT_FOUND})


def test_what_cannot_be_is_refused_for_its_user_alone_as_in_apache_kafka(wire: Wire) -> None:
    answers = alter(
        wire,
        ScramCredentialDeletion(name="no one", mechanism=1),
        ScramCredentialDeletion(name="odd", mechanism=7),
        ScramCredentialDeletion(name="both", mechanism=1),
        upsertion("both", "x"),
        upsertion("twice", "x", 1),
        upsertion("twice", "x", 2),
        upsertion("", "x"),
        upsertion("few", "x", iterations=4095),
        upsertion("many", "x", iterations=16385),
        upsertion("unknown", "x", mechanism=3),
        upsertion("good", "x"),
    )
    assert answers == {
        "no one": ErrorCode.RESOURCE_NOT_FOUND,
        "odd": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "both": ErrorCode.RESOURCE_NOT_FOUND,
        "twice": ErrorCode.DUPLICATE_RESOURCE,
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "many": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "unknown": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "good": 0,
    }
    described = {"good": {(1, 4096)}, "twice": ErrorCode.RESOURCE_NOT_FOUND}
    wait_until(lambda: describe(wire, "good", "twice") == described)
    assert describe(wire, "good", "good") == {"good": ErrorCode.DUPLICATE_RESOURCE}
    twice = (ScramCredentialDeletion(name="good", mechanism=1), upsertion("good", "x"))
    assert alter(wire, *twice) == {"good": ErrorCode.DUPLICATE_RESOURCE}
    assert alter(wire, twice[0]) == {"good": 0}


def test_a_changed_password_counts_at_once_for_new_connections_and_old_ones_stay(
    start_broker: StartBroker, tmp_path: Path, connect: Connect
) -> None:
    add_user_offline(tmp_path, USER, PASSWORD)
    bootstrap = start_broker(data=tmp_path, sasl_mechanisms=",".join(ALL_MECHANISMS)).bootstrap_servers
    first = connect(bootstrap)
    log_in(first)
    assert alter(first, upsertion(USER, "new password", Mechanism.SCRAM_SHA_512, 8192)) == {USER: 0}
    for mechanism in ("SCRAM-SHA-512", "PLAIN"):
        with pytest.raises(LoginFailedError, match=WRONG):
            log_in(connect(bootstrap), mechanism=mechanism)
        log_in(connect(bootstrap), USER, "new password", mechanism)
    assert alter(first, ScramCredentialDeletion(name=USER, mechanism=2)) == {USER: 0}
    log_in(connect(bootstrap), mechanism="PLAIN")  # by the other password that is left
    assert alter(first, ScramCredentialDeletion(name=USER, mechanism=1)) == {USER: 0}
    for mechanism in ALL_MECHANISMS:
        with pytest.raises(LoginFailedError, match=WRONG):
            log_in(connect(bootstrap), mechanism=mechanism)
    assert metadata(first, []) == []


def test_users_outlive_the_broker(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker(data=tmp_path, process=True)
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "events")
        produce(wire, "events", batch(b"kept"))
        assert alter(wire, upsertion("ann", "one"), upsertion("ben", "two")) == {"ann": 0, "ben": 0}
        assert alter(wire, ScramCredentialDeletion(name="ben", mechanism=1)) == {"ben": 0}
    broker.kill()
    add_user_offline(tmp_path, USER, PASSWORD)
    broker.start()
    with Wire(broker.bootstrap_servers) as wire:
        assert describe(wire) == {"ann": {(1, 4096)}, USER: BOTH}
        assert values_of(fetch(wire, fetch_request("events")).records) == [b"kept"]
    broker.stop()
    add_user_offline(tmp_path, USER, "another", [Mechanism.SCRAM_SHA_512])
    broker.start()
    with Wire(broker.bootstrap_servers) as wire:
        assert describe(wire, USER) == {USER: BOTH}
        assert values_of(fetch(wire, fetch_request("events")).records) == [b"kept"]


def test_the_folder_of_a_running_broker_is_left_alone(start_broker: StartBroker, tmp_path: Path) -> None:
    start_broker(data=tmp_path)
    with pytest.raises(DataFolderInUse):
        add_user_offline(tmp_path, USER, PASSWORD)


@pytest.mark.parametrize(("name", "password"), [("", PASSWORD), (USER, "")])
def test_a_user_needs_a_name_and_a_password(tmp_path: Path, name: str, password: str) -> None:
    with pytest.raises(BadUser):
        add_user_offline(tmp_path / "data", name, password)
    with pytest.raises(BadUser):
        add_user_offline(tmp_path / "data", USER, PASSWORD, [])
    assert not (tmp_path / "data").exists()


def test_only_the_broker_itself_can_read_the_hashes(tmp_path: Path) -> None:
    add_user_offline(tmp_path, USER, PASSWORD)
    mode = (tmp_path / "__cluster_metadata-0").stat().st_mode
    assert stat.S_IMODE(mode) == 0o700


def test_the_first_user_can_be_made_on_the_command_line(
    start_broker: StartBroker, tmp_path: Path, connect: Connect
) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    command = [
        sys.executable,
        "-m",
        "oncestream.cli.main",
        "broker",
        "add-user",
        "--data",
        str(tmp_path / "data"),
    ]
    by_file = subprocess.run([*command, USER, "--password-file", str(file)], capture_output=True, text=True)
    assert (by_file.returncode, by_file.stderr) == (0, "")
    only = ("--mechanism", "SCRAM-SHA-256")
    by_pipe = subprocess.run([*command, "bob", *only], input="second\n", capture_output=True, text=True)
    assert (by_pipe.returncode, by_pipe.stderr) == (0, "")
    broker = start_broker(data=tmp_path / "data", sasl_mechanisms="SCRAM-SHA-256,SCRAM-SHA-512")
    wire = connect(broker.bootstrap_servers)
    log_in(wire)
    assert describe(wire) == {USER: BOTH, "bob": {(1, 8192)}}
    log_in(connect(broker.bootstrap_servers), "bob", "second", "SCRAM-SHA-256")
    running = subprocess.run([*command, "carol"], input="third\n", capture_output=True, text=True)
    assert running.returncode == 3
    assert "in use by another broker" in running.stderr
