"""`oncestream` itself: help without imports, completion, and errors that are told and never traced."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import oncestream
from oncestream.cli.app import NOUNS, run
from oncestream.cli.command import Call, command, noun
from oncestream.client.contact import CONTACT_S
from tests.cli.in_process import Cli
from tests.cli.kit import TIMEOUT_S

# What makes a command line slow to start, and what no list of commands needs.
HEAVY = ("rich", "confluent_kafka", "pyarrow", "numpy", "pyspark", "asyncio", "tomllib")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"], []])
def test_help_imports_no_command_and_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom oncestream.cli.main import main\n"
        f"sys.argv = ['oncestream', *{arguments!r}]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "ours = [name for name in sys.modules if name.startswith('oncestream.')]\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print('\\n', sorted(ours), heavy)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=TIMEOUT_S)
    last = done.stdout.splitlines()[-1]
    light = [f"oncestream.{name}" for name in ("cli", "cli.app", "cli.main", "errors", "machine")]
    assert last.strip() == f"{light} []", done


def test_every_noun_is_in_the_help_and_has_help(nowhere: Cli) -> None:
    told = nowhere.ok("--help")
    assert [line.split()[0] for line in told.partition("Commands:\n")[2].splitlines()] == list(NOUNS)
    for name in NOUNS:
        assert f"Usage: oncestream {name}" in nowhere.ok(name, "--help")


def test_the_version(nowhere: Cli) -> None:
    assert nowhere.ok("--version") == f"{oncestream.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["topic"], ["stream", "topic"]])
def test_where_nothing_is_asked_for_the_help_is_shown(nowhere: Cli, arguments: list[str]) -> None:
    ended = nowhere(*arguments)
    assert (ended.exit_code, ended.out) == (2, "")
    assert ended.err.startswith(f"Usage: {' '.join(['oncestream', *arguments])} ")


@pytest.mark.parametrize(
    ("arguments", "told", "advice"),
    [
        (["topik"], "No such command 'topik'. Did you mean 'topic'?", "see oncestream --help"),
        (["topic", "lst"], "No such command 'lst'. Did you mean 'list'?", "see oncestream topic --help"),
        (["topic", "list", "--al"], "No such option: --al", "see oncestream topic list --help"),
        (["topic", "list", "extra"], "extra", "see oncestream topic list --help"),
        (["topic", "list", "-b"], "Option '-b' requires an argument", "see oncestream --help"),
        (["stream", "topic", "create", "/a"], "topic", "see oncestream stream topic create --help"),
    ],
)
def test_a_slip_is_told_with_where_to_look(
    nowhere: Cli, arguments: list[str], told: str, advice: str
) -> None:
    err = nowhere.refused(2, *arguments)
    assert told in err
    assert err.endswith(f"what to do: {advice}\n")


def test_where_nothing_listens_the_address_and_what_to_do_are_told_soon(nowhere: Cli) -> None:
    began = time.monotonic()
    told = nowhere.refused(5, "stream", "info", "/apps/pump")
    assert time.monotonic() - began < CONTACT_S + 1
    assert "no answer from 127.0.0.1:1 within" in told
    assert "oncestream broker start" in told


def complete(line: str, environment: dict[str, str]) -> list[str]:
    """What bash would offer after this line."""
    asked = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
        "_ONCESTREAM_COMPLETE": "complete_bash",
    }
    done = subprocess.run(
        [sys.executable, "-m", "oncestream.cli.main"],
        env={**os.environ, **environment, **asked},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_nouns_verbs_and_topics_are_completed(fresh: Cli) -> None:
    fresh.ok("topic", "create", "sales", "stock")
    assert complete("oncestream top", fresh.environment) == ["topic"]
    assert complete("oncestream topic de", fresh.environment) == ["describe", "delete"]
    assert complete("oncestream topic describe s", fresh.environment) == ["sales", "stock"]
    assert complete("oncestream consume st", fresh.environment) == ["stock"]


def test_groups_streams_pipelines_and_profiles_are_completed(fresh: Cli) -> None:
    fresh.ok("stream", "create", "/apps/pump")
    fresh.ok("stream", "topic", "create", "/apps/pump", "warning")
    fresh.ok("topic", "create", "sales")
    fresh.ok("config", "set", "site", f"bootstrap={fresh.environment['ONCESTREAM_BOOTSTRAP']}")
    for name in ("watchers", "copy"):
        fresh.ok("consume", "sales", "--group", name)
        fresh.ok("cursor", "reset", name, "--topic", "sales", "--to", "earliest", "--yes")
    fresh.ok("produce", "sales", "--transaction-size", "0", "--transactional-id", "copy", stdin="x")
    by_profile = {**fresh.environment, "ONCESTREAM_BOOTSTRAP": "127.0.0.1:1"}
    for line, expected in (
        ("cursor list ", ["copy", "watchers"]),
        ("consume sales --group w", ["watchers"]),
        ("stream cursor list /apps/pump --consumergroup c", ["copy"]),
        ("stream info /a", ["/apps/pump"]),
        ("stream topic info /apps/pump w", ["warning"]),
        ("pipeline status ", ["copy"]),
        ("txn describe c", ["copy"]),
        ("topic list --profile s", ["site"]),
        ("stream info --profile site /a", ["/apps/pump"]),
    ):
        assert (
            complete(f"oncestream {line}", by_profile if "profile" in line else fresh.environment) == expected
        )


@pytest.mark.parametrize("line", ["topic describe s", "stream info /a", "cursor list --profile nobody "])
def test_completion_is_quiet_and_quick_where_nobody_answers(tmp_path: Path, line: str) -> None:
    """A listener that takes connections and answers nothing is waited for no longer than one that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert complete(f"oncestream {line}", Cli(tmp_path, address).environment) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shells_get_a_script(nowhere: Cli, shell: str) -> None:
    ended = nowhere(
        "--show-completion", shell, environment={"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    )
    assert ended.exit_code == 0, ended
    assert "_ONCESTREAM_COMPLETE=complete_" in ended.out


def test_what_nobody_thought_of_is_told_in_two_lines_too(
    nowhere: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    app = noun("A command that fails.")

    @command(app)
    def fail(call: Call) -> None:
        raise KeyError("lost")

    for name, value in nowhere.environment.items():
        monkeypatch.setenv(name, value)
    assert run(app, ["fail"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "error: this should not happen: KeyError: 'lost'"
    assert told[1].startswith("what to do: ")
    monkeypatch.setenv("ONCESTREAM_TRACEBACK", "1")
    with pytest.raises(KeyError):
        run(app, ["fail"])
