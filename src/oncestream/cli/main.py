"""`oncestream`: the command line's entry.

`broker start` is read here. It is the one command whose start people wait for again and again, and typer takes a
fifth of its time; what is not plainly right goes the usual way, which knows what to say about it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from oncestream.errors import SystemUnsupported

COMMAND: Final = ["broker", "start"]
VALUES: Final = ("--data", "--listen", "--config", "--set")
INTERRUPTED: Final = 130
FLAGS: Final = ("--insecure", "--verbose", "-v")


def main() -> None:
    try:
        import_module("oncestream.machine")
    except SystemUnsupported as error:  # typer and the commands would fail in their own way
        sys.stderr.write(f"error: {error.cause_text}\nwhat to do: {error.suggestion_text}\n")
        sys.exit(error.exit_code)
    arguments = sys.argv[1:]
    options = read_options(arguments[2:]) if arguments[:2] == COMMAND else None
    sys.exit(_run() if options is None else _start(options))


def read_options(arguments: Sequence[str]) -> dict[str, list[str]] | None:
    """What was given for each option of `broker start`; None where something is not as it should be."""
    found: dict[str, list[str]] = {}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if argument in FLAGS:
            found[argument] = []
            continue
        given = value if equals else next(rest, None)
        if name not in VALUES or given is None:
            return None
        found.setdefault(name, []).append(given)
    return found


def _start(options: dict[str, list[str]]) -> int:
    from oncestream.cli.serving import start_broker

    def last(name: str) -> str | None:
        return options[name][-1] if name in options else None

    data, config = last("--data"), last("--config")
    try:
        start_broker(
            data=None if data is None else Path(data),
            listen=last("--listen"),
            config=None if config is None else Path(config),
            settings=options.get("--set", []),
            insecure="--insecure" in options,
            verbose="--verbose" in options or "-v" in options,
        )
    except Exception as error:
        from oncestream.cli.app import tell_error

        return tell_error(error)
    return 0


def _run() -> int:
    try:
        from oncestream.cli.app import run

        return run()
    except KeyboardInterrupt:  # before a command could say what it means there
        return INTERRUPTED


if __name__ == "__main__":
    main()
