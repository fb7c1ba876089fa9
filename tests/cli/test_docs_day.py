"""docs/streams-day.md is run as it stands there, and prints what it says there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "streams-day.md"
SHOWN = "#> "
TIMEOUT_S = 240


@pytest.fixture
def command_folder(tmp_path: Path) -> Path:
    """A folder with `oncestream` in it, for the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "oncestream"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m oncestream.cli.main "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.mark.slow
def test_the_day_of_a_stream_administrator_goes_as_described(tmp_path: Path, command_folder: Path) -> None:
    [script] = re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    shown = [line.removeprefix(SHOWN) for line in script.splitlines() if line.startswith(SHOWN)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ONCESTREAM_")}
    environment["PATH"] = f"{command_folder}:{environment['PATH']}"
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == shown
    assert "Traceback" not in done.stderr
    secrets = [file.read_text().strip() for file in (work / "secrets").iterdir()]
    written = [
        file.read_bytes() for file in work.rglob("*") if file.is_file() and file.parent.name != "secrets"
    ]
    assert secrets
    assert all(secrets)
    assert not any(secret.encode() in content for secret in secrets for content in written)
