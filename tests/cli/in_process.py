"""The command line in this process: quicker than a process of its own, with the same streams and exit codes."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from oncestream.cli.main import main
from tests.cli.kit import Ended
from tests.client.kit import wait_until


class Cli:
    """Runs `oncestream` on one cluster, without a terminal, with profiles of its own."""

    def __init__(self, folder: Path, bootstrap: str | None = None, **environment: str) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("ONCESTREAM_")}
        self.environment = {**kept, "XDG_CONFIG_HOME": str(folder), **environment}
        if bootstrap is not None:
            self.environment["ONCESTREAM_BOOTSTRAP"] = bootstrap

    def __call__(
        self, *arguments: str, stdin: str | bytes = "", environment: Mapping[str, str] | None = None
    ) -> Ended:
        given = stdin if isinstance(stdin, bytes) else stdin.encode()
        source, out, err = (
            io.TextIOWrapper(io.BytesIO(part), "utf-8", errors)
            for part, errors in ((given, "strict"), (b"", "strict"), (b"", "backslashreplace"))
        )
        with (
            mock.patch.dict(os.environ, {**self.environment, **(environment or {})}, clear=True),
            mock.patch.multiple(sys, argv=["oncestream", *arguments], stdin=source, stdout=out, stderr=err),
        ):
            try:
                main()
                code: object = 0
            except SystemExit as ended:
                code = ended.code
            out.flush()
            err.flush()
        assert isinstance(code, int)
        told = [part.buffer.getvalue().decode() for part in (out, err)]
        return Ended(code, *told)

    def ok(self, *arguments: str, stdin: str | bytes = "") -> str:
        """What it prints on standard output; it must end well."""
        ended = self(*arguments, stdin=stdin)
        assert ended.exit_code == 0, ended
        return ended.out

    def json(self, *arguments: str, stdin: str | bytes = "") -> Any:
        return json.loads(self.ok(*arguments, "-o", "json", stdin=stdin))

    def await_end_of_transactions(self, topic: str) -> None:
        """As on Apache Kafka, a commit is answered when it is decided, a moment before everybody sees it."""
        wait_until(
            lambda: all(row["last_stable"] == row["end"] for row in self.json("topic", "offsets", topic))
        )

    def refused(self, exit_code: int, *arguments: str, stdin: str | bytes = "") -> str:
        """What it says on standard error: a cause and what to do, in two lines at the end, and no traceback."""
        ended = self(*arguments, stdin=stdin)
        assert ended.exit_code == exit_code, ended
        assert "Traceback" not in ended.err
        assert [line.partition(":")[0] for line in ended.err.splitlines()[-2:]] == ["error", "what to do"], (
            ended
        )
        return ended.err
