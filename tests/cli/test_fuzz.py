"""Whatever is typed, every command answers, or says in two lines what is wrong and what to do, with its exit code."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from oncestream.cli.app import NOUNS
from tests.cli.in_process import Cli
from tests.cli.kit import Ended
from tests.effort import effort

PAGE: Final = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
EXIT_CODES: Final = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
ROUNDS: Final = effort(1, soak=60)
SEED: Final = 20261120

# These would run for long if all were right: one thing that is surely wrong is added.
ENDLESS: Final = {("broker", "start"), ("pipeline", "run"), ("torture",)}
NEVER: Final = {"--follow", "-f", "--help"}
COMMON: Final = {"--bootstrap", "--profile", "--command-config", "--output"}  # a wrong one hides all else
TEXTS: Final = (
    *(
        "",
        "-",
        "--",
        "=",
        "a=b",
        "retention.ms=x",
        "x" * 300,
        "ä b",
        "\udcff",
        "%s{0}",
        "{value",
        "../x",
        ".",
    ),
    *(
        "/",
        "/fuzz",
        "/fuzz:t",
        "/nope:t",
        "fuzz.t",
        "there",
        "group",
        "__consumer_offsets",
        "*",
        "^(",
        "u:x|",
    ),
    *(
        "earliest",
        "latest",
        "committed",
        "-1",
        "-0",
        "offset:1",
        "offset:-1",
        "time:5",
        "time:x",
        "end",
        "json",
    ),
    *(
        "0",
        "1",
        "7",
        "-5",
        "2.5",
        "1e9",
        "nan",
        "inf",
        "3000000000",
        "99999999999999999999",
        "127.0.0.1:1",
        "host:99999",
    ),
    *(
        "read",
        "User:a",
        "key",
        "json:$.a",
        "json:$[",
        "header:",
        "SCRAM-SHA-256",
        "Ongoing",
        "/no/such/file",
        "/tmp",
    ),
)
INPUTS: Final = (b"", b"x\n", b'{"value": 1}\n', b'{"value": 1, "partition": 9}\n', b"\xff\n{\n", b"secret\n")


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command.params
    for name, each in (below or {}).items():
        yield from commands(each, (*path, name))


ALL: Final = [
    found
    for noun in NOUNS
    for found in commands(typer.main.get_command(import_module(f"oncestream.cli.{noun}").app), (noun,))
]


def arguments_of(chance: random.Random, path: tuple[str, ...], parameters: list[Any]) -> list[str]:
    """Some of the command's own options and arguments, with values that may or may not be right."""
    words = list(path)
    for each in parameters:
        wanted = 0.9 if each.required else 0.03 if COMMON & set(each.opts) else 0.4
        if NEVER & set(each.opts) or chance.random() > wanted:
            continue
        values = [_value(chance, each) for _ in range(chance.choice((1, 1, 1, 2)) if each.multiple else 1)]
        for value in values:
            if each.param_type_name == "argument":
                words.append(value)
            elif each.is_flag:
                words.append(chance.choice([*each.opts, *each.secondary_opts]))
            else:
                words += [chance.choice(each.opts), value]
    if chance.random() < 0.1:
        words.insert(
            chance.randrange(len(path), len(words) + 1), chance.choice(("--nope", "extra", "-x", "-b"))
        )
    if path in ENDLESS:
        words.append("--no-such-option")
    return words


def _value(chance: random.Random, parameter: Any) -> str:
    choices = [str(each) for each in getattr(parameter.type, "choices", ())]
    return chance.choice(choices if choices and chance.random() < 0.8 else TEXTS)


def faults_of(ended: Ended) -> list[str]:
    """What a user should not see."""
    found = [word for word in ("Traceback", "this should not happen") if word in ended.err + ended.out]
    if ended.exit_code not in EXIT_CODES:
        found.append("an exit code that the page lacks")
    is_report = ended.exit_code == 1 and ended.out  # of doctor or verify
    starts = [line.partition(":")[0] for line in ended.err.splitlines()[-2:]]
    if ended.exit_code and not is_report and starts != ["error", "what to do"] and "Usage:" not in ended.err:
        found.append("no cause, or nothing to do about it")
    return found


def test_no_command_ends_in_a_traceback(fresh: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fresh.ok("stream", "create", "/fuzz")
    fresh.ok("topic", "create", "there", "--partitions", "2")
    fresh.ok("produce", "/fuzz:t", "--transaction-size", "1", stdin="1\n2\n")
    fresh.ok("consume", "/fuzz:t", "--group", "group")
    chance = random.Random(SEED)
    for path, parameters in ALL * ROUNDS:
        words = arguments_of(chance, path, parameters)
        ended = fresh(*words, stdin=chance.choice(INPUTS))
        assert faults_of(ended) == [], (words, ended)


# What the fuzz has found, each by its cause.
@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["stream", "info", "/a\udcff"], 2, "it is no UTF-8 text"),
        (["txn", "list", "--older-than", "nan"], 2, "--older-than nan is wrong"),
        (["topic", "create", "t", "--partitions", "3000000000"], 2, "--partitions"),
        (["topic", "list", "-b", "x" * 300], 2, "is no name of a host"),
        (["topic", "create", "there"], 5, "there is a topic there already"),
        (["topic", "list", "--command-config", "wrong.properties"], 2, "clients take Kafka's names"),
        (["doctor", "--data", "x" * 300], 2, "it cannot be used: File name too long"),
        (
            ["torture", "--data", "wrong.properties", "--no-spark"],
            3,
            "data folder wrong.properties cannot be used",
        ),
        (["broker", "add-user", "a", "--data", "data"], 2, "the password is wrong: it is no UTF-8 text"),
    ],
)
def test_what_the_fuzz_found_is_told(
    embedded_cli: Cli,
    arguments: list[str],
    code: int,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.properties").write_text("sasl.user=x\n")
    embedded_cli.ok("topic", "create", "there", "--if-not-exists")
    err = embedded_cli.refused(code, *arguments, stdin=b"\xff\n")
    assert told in err
    assert "settings.md" not in err, "that is the broker's page"
