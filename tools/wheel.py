"""Wheels in which what every batch goes through is compiled, by mypyc: `python -m tools.wheel` puts one into dist/.

`[tool.hatch.build.targets.wheel.hooks.mypyc]` in pyproject.toml says what that is. It is the same code: from a
clone, or where there is no compiler, it runs as it is.
"""

from __future__ import annotations

import compileall
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
DIST: Final = ROOT / "dist"
CACHE: Final = ROOT / ".cache" / "compiled"
PARTS: Final = ("pyproject.toml", "README.md", "LICENSE", "src")
WITH_HOOKS: Final = {"HATCH_BUILD_HOOKS_ENABLE": "1"}
TOLD_CHARACTERS_MAX: Final = 2000


class CannotCompile(Exception):
    """Something is missing here: says what."""


class CompileFailed(Exception):
    """All is there, but the sources are not as mypyc wants them, or what it needs could not be fetched."""


def main() -> int:
    try:
        print(build(DIST))
    except (CannotCompile, CompileFailed) as error:
        print(f"no wheel: {error}", file=sys.stderr)
        return 1
    return 0


def build(folder: Path) -> Path:
    """A new wheel in `folder`, for this Python and this kind of machine."""
    _check_tools()
    with tempfile.TemporaryDirectory() as name:
        # mypyc leaves what it makes beside the sources, where Python would take it for them ever after.
        tree, made = Path(name) / "tree", Path(name) / "made"
        _copy_sources(tree)
        run = subprocess.run(
            [*_builder(made), str(tree)],
            env=os.environ | WITH_HOOKS,
            capture_output=True,
            text=True,
        )
        if run.returncode:
            raise CompileFailed((run.stdout + run.stderr)[-TOLD_CHARACTERS_MAX:])
        (wheel,) = made.glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, folder))


def compiled() -> Path:
    """A folder to put on PYTHONPATH: the wheel of these sources, unpacked. Made anew only if they have changed."""
    folder = CACHE / _fingerprint()
    if not folder.exists():
        print(
            "compiling what every batch goes through: about a minute, once for each change", file=sys.stderr
        )
        shutil.rmtree(CACHE, ignore_errors=True)
        beside = folder.with_suffix(".part")
        with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(build(Path(name))) as wheel:
            wheel.extractall(beside)
        compileall.compile_dir(beside, quiet=2)
        beside.rename(folder)
    return folder


def _check_tools() -> None:
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        raise CannotCompile(f"there is no C compiler ({compiler})")
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        raise CannotCompile(f"there are no headers of Python in {headers}")


def _builder(out: Path) -> list[str]:
    """The command, but for the tree."""
    if uv := shutil.which("uv"):
        return [uv, "build", "-q", "--wheel", "--python", sys.executable, "--out-dir", str(out)]
    return [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(out)]


def _copy_sources(tree: Path) -> None:
    tree.mkdir()
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree)


def _fingerprint() -> str:
    digest = hashlib.sha256(f"{sys.version}{sysconfig.get_platform()}".encode())
    for path in sorted([ROOT / "pyproject.toml", *(ROOT / "src").rglob("*.py")]):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
