"""What differs between operating systems, with Linux as itself, and like a Mac in a child process."""

from __future__ import annotations

import errno
import json
import math
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from oncestream import machine
from tests.mac_like import flushes, mac_like

SOURCES = Path(machine.__file__).parent


def run(program: str, *arguments: object, env: dict[str, str] | None = None) -> str:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


BROKER = """\
import os, sys
from confluent_kafka import Producer
import oncestream as once
from oncestream.broker.embedded import Broker

assert not hasattr(os, "fdatasync")
data, process = sys.argv[1], sys.argv[2] == "process"
numbers = list(range(100))
with Broker(data, process=process) as broker:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in numbers:
        producer.produce("events", b"%d" % number)
    assert producer.flush(60) == 0
    del producer
    broker.kill() if process else broker.stop()
    broker.start()
    with once.Consumer("events", group="all", bootstrap_servers=broker.bootstrap_servers, start="earliest") as records:
        print(sorted(int(record.value) for _, record in zip(numbers, records)) == numbers)
"""


@pytest.mark.parametrize(("runs_in", "refusal"), [("process", 0), ("thread", errno.ENOTSUP)])
def test_without_what_macos_lacks_a_broker_keeps_what_it_has_acknowledged(
    runs_in: str, refusal: int, tmp_path: Path
) -> None:
    env = mac_like(tmp_path, full_sync_error=refusal)
    assert run(BROKER, tmp_path / "data", runs_in, env=env) == "True\n"
    assert flushes(tmp_path) > 0


SYNC = """\
import os, sys, tempfile
from oncestream.machine import sync_data, sync_file
calls, real = [], os.fsync
os.fsync = lambda fd: calls.append(fd) or real(fd)
with tempfile.TemporaryFile() as file:
    for sync in (sync_data, sync_file):
        try:
            sync(file.fileno())
        except OSError as error:
            calls.append(error.errno)
        calls[:] = ["fsync" if call == file.fileno() else call for call in calls]
print(*calls)
"""


@pytest.mark.parametrize("refusal", [errno.ENOTSUP, errno.ENOTTY, errno.EINVAL])
def test_a_file_system_without_full_sync_is_flushed_as_far_as_it_can(refusal: int, tmp_path: Path) -> None:
    assert run(SYNC, env=mac_like(tmp_path, full_sync_error=refusal)) == "fsync fsync\n"


def test_a_full_sync_that_fails_is_not_tried_in_another_way(tmp_path: Path) -> None:
    assert run(SYNC, env=mac_like(tmp_path, full_sync_error=errno.EIO)) == f"{errno.EIO} {errno.EIO}\n"


def test_a_process_may_open_as_many_files_as_the_system_allows_at_once(tmp_path: Path) -> None:
    program = """\
import resource
from oncestream.machine import raise_file_limit
for wanted in (1024, 512, None):
    raise_file_limit(wanted)
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    allowed = [
        limit if hard == resource.RLIM_INFINITY else min(limit, hard) for limit in (1024, 1024, 10_240)
    ]
    assert [int(limit) for limit in run(program, env=mac_like(tmp_path)).split()] == allowed


LOOK = """\
import json, os, sys
from oncestream import machine
pid = int(sys.argv[1])
with open(sys.argv[2]) as file:
    path = machine.path_of(file.fileno())
print(json.dumps([
    path, machine.resident_bytes(pid), machine.children_of(pid),
    any(sys.argv[3].encode() in line for line in machine.command_lines()),
    machine.resident_bytes(2**22 + 1), machine.children_of(2**22 + 1),
]))
"""


def test_processes_and_files_look_the_same_with_proc_and_without(tmp_path: Path) -> None:
    waits = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    with subprocess.Popen(
        [sys.executable, "-c", waits], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        file = tmp_path / "a file"
        file.touch()
        for env in (None, mac_like(tmp_path)):
            path, size, children, seen, *gone = json.loads(run(LOOK, parent.pid, file, waits, env=env))
            assert path == str(file)
            assert 2**20 < size < 2**30
            assert len(children) == 1
            assert seen
            assert gone == [None, []]
        parent.communicate("\n")


def test_a_start_of_the_machine_has_a_name_where_the_system_gives_one(tmp_path: Path) -> None:
    program = "from oncestream import machine; print(machine.boot_id())"
    assert machine.boot_id()
    assert run(program, env=mac_like(tmp_path)) == "None\n"


@pytest.mark.parametrize(
    ("limit", "cores"),
    [("max 100000", math.inf), ("250000 100000", 2.5), ("100000 100000", 1), ("", math.inf)],
)
def test_the_limit_of_a_container_counts(limit: str, cores: float, tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text(limit)
    assert machine.cpu_quota(tmp_path / "cpu.max") == cores
    assert machine.cpu_quota(tmp_path / "none") == math.inf


@pytest.mark.parametrize(
    "start", ["from oncestream import Broker", "from oncestream.cli.main import main; main()"]
)
def test_windows_is_refused_with_what_to_do_there(start: str) -> None:
    program = f"import sys; sys.modules['fcntl'] = None; {start}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode != 0
    assert "oncestream does not run on this operating system: it has no fcntl" in done.stderr
    assert "WSL" in done.stderr
    assert ("Traceback" in done.stderr) == ("Broker" in start)


def test_no_other_module_asks_where_it_runs() -> None:
    asks = re.compile(
        r"sys\.platform|os\.name\b|platform\.system|[\"'/]proc/|F_FULLFSYNC|fdatasync\(|/sys/fs"
    )
    askers = {
        path.relative_to(SOURCES).name for path in SOURCES.rglob("*.py") if asks.search(path.read_text())
    }
    assert askers == {"machine.py"}
