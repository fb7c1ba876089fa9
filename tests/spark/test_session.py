"""`session()`, the start of its Python workers, and this package on executors that lack it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from oncestream.errors import UnsafeSparkSetting
from oncestream.spark import jvm_start
from oncestream.spark.session import check_session, session
from oncestream.spark.worker_start import worker_python
from tests.spark.standalone import standalone_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = Path(__file__).parents[2] / "src"


@pytest.mark.parametrize("name", ["spark.speculation", "spark.stage.maxConsecutiveAttempts"])
def test_settings_that_break_exactly_once_are_refused_before_spark_starts(name: str) -> None:
    with pytest.raises(UnsafeSparkSetting, match=f"{name} is true"):
        session(settings={name: "true"})


def test_a_session_passes_its_own_check(spark: SparkSession) -> None:
    check_session(spark)


def test_tables_of_letters_are_made_ahead_where_a_query_needs_them(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", jvm_start.log.name)
    plain = spark.range(1).selectExpr("cast(id as string) as value")
    upper = plain.selectExpr("upper(value) as value")
    jvm_start.load_tables_ahead(upper).join()
    assert caplog.messages == []
    jvm_start.load_tables_ahead(plain, "no.such.Class").join()
    assert caplog.messages == []
    jvm_start.load_tables_ahead(upper, "no.such.Class").join()
    assert "Class.forName" in caplog.text


def test_a_session_knows_the_source(spark: SparkSession) -> None:
    assert "topic" in spark.readStream.format("oncestream").option("subscribe", "x").load().columns


def test_a_session_leaves_the_environment_as_it_was(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", "/usr"))
    before = dict(os.environ)
    session("oncestream tests", master="local[2]")
    assert dict(os.environ) == before


def test_workers_are_forks_of_one_parent_that_has_everything_imported(spark: SparkSession) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc
        import sys

        seen = [module for module in ("pandas", "pyarrow", "oncestream.spark.tasks") if module in sys.modules]
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"modules": [",".join(seen)], "frozen": [gc.get_freeze_count()]})

    rows = spark.range(1).mapInArrow(look, "modules string, frozen long").collect()
    assert rows[0]["modules"] == "pandas,pyarrow,oncestream.spark.tasks"
    assert rows[0]["frozen"] > 0


def run_door(program: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(program)
    command = [worker_python(), "-m", "program", "argument"]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, input="in", env=os.environ | env, timeout=60
    )


def test_a_fork_has_the_arguments_streams_folder_and_environment_of_its_caller(tmp_path: Path) -> None:
    program = """\
import os, sys
print(sys.argv[1:], sys.stdin.read(), os.getcwd(), os.environ["OWN"])
print("error", file=sys.stderr)
sys.exit(7)
"""
    done = run_door(program, tmp_path, OWN="mine")
    assert done.stdout == f"['argument'] in {tmp_path} mine\n"
    assert done.stderr == "error\n"
    assert done.returncode == 7


def test_a_fork_that_fails_shows_its_traceback(tmp_path: Path) -> None:
    done = run_door("raise ValueError('broken')", tmp_path)
    assert done.returncode == 1
    assert "ValueError: broken" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_fork_ends_when_its_caller_is_killed(number: signal.Signals, tmp_path: Path) -> None:
    program = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(300)\n"
    (tmp_path / "program.py").write_text(program)
    command = [worker_python(), "-m", "program"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as door:
        assert door.stdout is not None
        fork = os.pidfd_open(int(door.stdout.readline()))
        door.send_signal(number)
        assert door.stdout.read() == ""  # ends when the fork, which has the stream too, has ended
        os.close(fork)


def test_without_the_parent_workers_start_as_ordinary_python(tmp_path: Path) -> None:
    door = Path(worker_python())
    for name in ("worker_door.py", "python"):
        (tmp_path / name).symlink_to((door.parent / name).resolve())
    (tmp_path / "worker_door.py").unlink()
    (tmp_path / "worker_door.py").write_text(door.read_text())
    (tmp_path / "worker_door.py").chmod(0o700)
    (tmp_path / "program.py").write_text("import sys; print(sys.argv[1:])")
    command = [str(tmp_path / "worker_door.py"), "-m", "program", "argument"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "['argument']\n"


UNSAFE_PROGRAM = """\
from pyspark.sql import SparkSession
from oncestream.errors import UnsafeSparkSetting
from oncestream.spark.session import check_session
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.getOrCreate()
try:
    check_session(spark)
except UnsafeSparkSetting as error:
    print(error)
"""
SHIPPING_PROGRAM = f"""\
import sys
sys.path.insert(0, {str(SOURCES)!r})
import pyarrow as pa
from oncestream.spark.session import session
from oncestream.spark.shipping import ship_package
spark = session(master=sys.argv[1], settings={{"spark.executor.memory": "1g", "spark.cores.max": "2"}})
ship_package(spark)

def encode(batches):
    from oncestream.records.arrow_encode import encode_batches
    import oncestream
    for batch in batches:
        yield pa.RecordBatch.from_pydict({{"file": [oncestream.__file__]}})

print(*(row.file for row in spark.range(4, numPartitions=2).mapInArrow(encode, "file string").collect()))
"""


def run_driver(program: str, *arguments: str, **env: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        env=inherited | env,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def python_without_oncestream(folder: Path) -> str:
    """This environment's packages, but not those that a .pth file points to: an editable install is one."""
    python = folder / "python"
    packages = sysconfig.get_path("platlib")
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec {base} "$@"\n')
    python.chmod(0o755)
    return str(python)


@pytest.mark.slow
def test_a_session_of_the_users_own_is_refused_where_it_would_run_a_stage_again() -> None:
    said = run_driver(UNSAFE_PROGRAM, PYTHONPATH=str(SOURCES))
    assert "spark.stage.maxConsecutiveAttempts is 4, which breaks exactly-once" in said


@pytest.mark.slow
def test_executors_of_a_local_cluster_get_the_package_from_the_driver(tmp_path: Path) -> None:
    python = python_without_oncestream(tmp_path)
    files = run_driver(SHIPPING_PROGRAM, "local-cluster[2,1,1024]", PYSPARK_PYTHON=python).split()
    assert len(files) == 2
    assert not any(file.startswith(str(SOURCES)) for file in files)


@pytest.mark.slow
def test_executors_of_a_standalone_cluster_get_the_package_from_the_driver(tmp_path: Path) -> None:
    with standalone_cluster(tmp_path) as master:
        python = python_without_oncestream(tmp_path)
        files = run_driver(SHIPPING_PROGRAM, master, PYSPARK_PYTHON=python).split()
    assert len(files) == 2
    assert not any(file.startswith(str(SOURCES)) for file in files)


def test_files_of_a_checkpoint_are_made_without_a_process_and_with_the_usual_rights(
    spark: SparkSession, tmp_path: Path
) -> None:
    jvm: Any = spark._jvm
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    file = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "file"))
    files = file.getFileSystem(configuration)
    assert files.getClass().getSimpleName() == "QuickLocalFileSystem"
    files.create(file, True).close()
    rights = jvm.org.apache.hadoop.fs.permission.FsPermission
    files.setPermission(file, rights("640"))
    assert (tmp_path / "file").stat().st_mode & 0o7777 == 0o640
    files.setPermission(file, rights("1750"))
    assert (tmp_path / "file").stat().st_mode & 0o7777 == 0o1750
