"""`oncestream user`, `acl` and `quota`, as an administrator and as users with few rights.

Apache Kafka answers such a change before every part of it knows: what depends on it is waited for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.in_process import Cli
from tests.client.kit import wait_until
from tests.conftest import Secured


@pytest.fixture
def login(secured: Secured, tmp_path: Path) -> Login:
    return Login(secured, tmp_path)


class Login:
    """The command line as one user or another, by a profile whose password is in a file."""

    def __init__(self, secured: Secured, folder: Path) -> None:
        self._secured = secured
        self._folder = folder

    def __call__(self, user: str, password: str | None = None) -> Cli:
        settings = dict(self._secured.settings_of("admin"))
        secret = self._folder / f"{user}.password"
        own = self._secured.settings_of(user)["sasl.password"] if password is None else password
        secret.write_text(f"{own}\n")
        del settings["sasl.password"]
        settings |= {
            "sasl.username": user,
            "password_file": str(secret),
            "bootstrap": self._secured.bootstrap_servers,
        }
        cli = Cli(self._folder, ONCESTREAM_PROFILE=user)
        cli.ok("config", "set", user, *(f"{key}={value}" for key, value in settings.items()))
        return cli


def test_users_come_log_in_change_their_password_and_go(login: Login, name: str) -> None:
    admin = login("admin")
    admin.ok("user", "add", name, stdin="first\n")
    expected = {"user": name, "mechanism": "SCRAM-SHA-512", "iterations": 8192}
    wait_until(lambda: expected in admin.json("user", "list"))
    assert login(name, "first").ok("topic", "list").split()[:2] == ["topic", "partitions"]
    assert f"there is a user '{name}' already" in admin.refused(5, "user", "add", name, stdin="x\n")
    admin.ok("user", "passwd", name, stdin="second\n")
    wait_until(lambda: login(name, "first")("topic", "list").exit_code == 6)
    assert "refused the login" in login(name, "first").refused(6, "topic", "list")
    login(name, "second").ok("topic", "list")
    assert admin("user", "delete", name, "--dry-run").err == f"would delete user {name}\n"
    admin.refused(9, "user", "delete", name)
    admin.ok("user", "delete", name, "--yes")
    wait_until(lambda: name not in admin.ok("user", "list"))
    assert "refused the login" in login(name, "second").refused(6, "topic", "list")
    for verb in (("delete", name, "--yes"), ("passwd", name)):
        assert f"there is no user {name}" in admin.refused(5, "user", *verb, stdin="x\n")


def test_who_gets_no_producer_id_is_told_why_and_not_that_the_records_were_thrown_away(
    login: Login, name: str
) -> None:
    """librdkafka tells both, in either order."""
    admin, carol = login("admin"), login("carol")
    admin.ok("topic", "create", name)
    admin.ok("acl", "add", "--user", "carol", "--operation", "describe", "--topic", name)
    wait_until(lambda: len(admin.json("acl", "list", "--topic", name)) == 1)
    for _ in range(10):
        told = carol.refused(6, "produce", name, stdin="y\n")
        assert f"on {name} is not allowed (CLUSTER_AUTHORIZATION_FAILED)" in told


def test_rules_are_added_listed_and_removed(login: Login, name: str) -> None:
    admin, alice = login("admin"), login("alice")
    admin.ok("topic", "create", name)
    admin.ok("produce", name, stdin="x\n")
    assert f"there is no topic or partition {name}" in alice.refused(5, "consume", name)
    admin.ok(
        "acl", "add", "--user", "alice", "--operation", "read", "--operation", "describe", "--topic", name
    )
    wait_until(lambda: len(admin.json("acl", "list", "--topic", name)) == 2)
    assert alice.ok("consume", name) == "x\n"
    assert f"on {name} is not allowed" in alice.refused(6, "produce", name, stdin="y\n")
    told = alice.refused(6, "produce", name, "--acks", "1", stdin="y\n")
    assert f"on {name} is not allowed (TOPIC_AUTHORIZATION_FAILED)" in told
    rows = admin.json("acl", "list", "--topic", name)
    assert rows[0] == {
        "principal": "User:alice",
        "permission": "allow",
        "operation": "read",
        "resource_type": "topic",
        "pattern": "literal",
        "resource": name,
        "host": "*",
    }
    assert admin.ok("acl", "list", "--topic", name, "--operation", "read") == (
        "principal    permission   operation   resource_type   pattern   resource            host\n"
        "────────────────────────────────────────────────────────────────────────────────────────\n"
        f"User:alice   allow        read        topic           literal   {name}   *\n"
    )
    remove = ("acl", "delete", "--user", "alice", "--topic", name)
    assert admin(*remove, "--dry-run").err.splitlines()[0] == (
        f"would remove: User:alice allow read topic literal {name} *"
    )
    admin.refused(9, *remove)
    assert len(admin.json(*remove, "--yes")) == 2
    wait_until(lambda: admin.json("acl", "list", "--topic", name) == [])


def test_prefixed_and_denying_rules(login: Login, name: str) -> None:
    admin = login("admin")
    admin.ok("acl", "add", "--user", "*", "--operation", "all", "--group", name, "--prefixed", "--deny")
    listing = ("acl", "list", "--group", name, "--prefixed")
    wait_until(lambda: admin.json(*listing) != [])
    [row] = admin.json(*listing)
    assert (row["principal"], row["permission"], row["pattern"]) == ("User:*", "deny", "prefixed")
    admin.ok("acl", "delete", "--group", name, "--prefixed", "--yes")


def test_the_permissions_of_a_stream_say_who_writes_and_who_reads(login: Login, name: str) -> None:
    admin, alice, bob, carol = map(login, ("admin", "alice", "bob", "carol"))
    path, topic, group = f"/{name}/pump", f"/{name}/pump:warning", f"{name}.pump.readers"
    made = admin.json("stream", "create", path, "--produceperm", "u:alice", "--consumeperm", "u:bob|u:alice")
    assert (made["produceperm"], made["adminperm"]) == ("u:alice", "u:admin")
    admin.ok("stream", "topic", "create", path, "warning")
    write = ("produce", topic, "--transaction-size", "0")
    wait_until(lambda: alice(*write, stdin="1\n2\n").exit_code == 0)
    wait_until(lambda: bob("consume", topic, "--group", group).out == "1\n2\n")
    assert "is not allowed" in bob.refused(6, "produce", topic, stdin="3\n")
    assert "is not allowed" in carol.refused(6, "produce", topic, stdin="3\n")
    assert "there is no topic" in carol.refused(5, "consume", topic)
    assert admin.json("stream", "cursor", "list", path)[0]["lag"] == 0
    admin.ok("stream", "edit", path, "--consumeperm", "u:carol")
    wait_until(lambda: carol("consume", topic).out == "1\n2\n")
    wait_until(lambda: "there is no topic" in bob("consume", topic).err)
    assert bob("stream", "delete", path, "--yes").exit_code == 6
    admin.ok("stream", "delete", path, "--yes")
    wait_until(lambda: admin.json("acl", "list", "--topic", f"{name}.pump.", "--prefixed") == [])


def test_permissions_of_a_stream_that_cannot_be_are_refused(login: Login, name: str) -> None:
    told = login("admin").refused(2, "stream", "create", f"/{name}", "--produceperm", "alice")
    assert "alice" in told


def test_a_user_without_rights_is_refused(login: Login, name: str) -> None:
    carol = login("carol")
    for arguments in (
        ("user", "list"),
        ("acl", "list"),
        ("quota", "list"),
        ("acl", "add", "--user", "carol", "--operation", "all", "--topic", "*"),
        ("topic", "create", name),
        ("quota", "set", "--user", "carol", "--produce", "5"),
    ):
        assert "is not allowed" in carol.refused(6, *arguments)


def quotas_of(cli: Cli, user: str) -> list[dict[str, Any]]:
    return [row for row in cli.json("quota", "list") if row["user"] == user]


def test_quotas_are_set_listed_and_removed(cli: Cli, name: str) -> None:
    cli.ok("quota", "set", "--user", name, "--produce", "1000", "--consume", "2000")
    cli.ok("quota", "set", "--user", name, "--client-id", "default", "--produce", "5")
    wait_until(lambda: len(quotas_of(cli, name)) == 3)
    mine = quotas_of(cli, name)
    limit = {"user": name, "client_id": None, "ip": None}
    assert sorted(mine, key=lambda row: (row["client_id"] or "", row["quota"])) == [
        {**limit, "quota": "consumer_byte_rate", "value": 2000},
        {**limit, "quota": "producer_byte_rate", "value": 1000},
        {**limit, "client_id": "default", "quota": "producer_byte_rate", "value": 5},
    ]
    assert cli("quota", "delete", "--user", name, "--dry-run").err == (
        "would remove consumer_byte_rate=2000\nwould remove producer_byte_rate=1000\n"
    )
    cli.refused(9, "quota", "delete", "--user", name)
    cli.ok("quota", "delete", "--user", name, "--yes")
    cli.ok("quota", "delete", "--user", name, "--client-id", "default", "--yes")
    wait_until(lambda: quotas_of(cli, name) == [])
    assert f"there is no quota of user {name}" in cli.refused(5, "quota", "delete", "--user", name, "--yes")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["acl", "add", "--operation", "read", "--topic", "t"], "--user and --operation are needed"),
        (["acl", "add", "--user", "a", "--topic", "t"], "--user and --operation are needed"),
        (
            ["acl", "add", "--user", "a", "--operation", "fly", "--topic", "t"],
            "it is none of all, read, write",
        ),
        (["acl", "add", "--user", "a", "--operation", "read"], "give one of --topic, --group"),
        (["acl", "list", "--topic", "t", "--group", "g"], "give one of --topic, --group"),
        (["acl", "delete"], "say which rules"),
        (["quota", "set", "--user", "a"], "neither --produce nor --consume"),
        (["quota", "set", "--produce", "5"], "neither --user nor --client-id"),
        (["user", "add"], "name"),
        (["user", "add", "a", "--password", "x"], "No such option: --password"),
    ],
)
def test_bad_input_is_refused(nowhere: Cli, arguments: list[str], told: str) -> None:
    assert told in nowhere.refused(2, *arguments)


def test_a_password_comes_from_a_file_and_is_never_empty(
    embedded_cli: Cli, name: str, tmp_path: Path
) -> None:
    add = ("user", "add", name)
    assert "it cannot be read" in embedded_cli.refused(2, *add, "--password-file", str(tmp_path / "none"))
    assert "it is empty" in embedded_cli.refused(2, *add, stdin="\n")
    (tmp_path / "secret").write_text("hidden\nsecond line\n")
    embedded_cli.ok(*add, "--password-file", str(tmp_path / "secret"), "--mechanism", "SCRAM-SHA-256")
    mine = [row["mechanism"] for row in embedded_cli.json("user", "list") if row["user"] == name]
    assert mine == ["SCRAM-SHA-256"]
    embedded_cli.ok("user", "delete", name, "--yes")
