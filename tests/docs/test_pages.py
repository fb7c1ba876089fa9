"""Every page of the documentation does what it says, typed from top to bottom in an empty folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.docs.page import blocks_of
from tests.docs.typist import Typist

ROOT: Final = Path(__file__).parents[2]
# Their blocks are whole tests, which tests/testing/test_plugin.py runs.
RUN_ELSEWHERE: Final = {"testing.md"}
PAGES: Final = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if page.name not in RUN_ELSEWHERE and any(blocks_of(page))
]
EXAMPLES: Final = [page for page in sorted((ROOT / "examples").glob("*/README.md")) if any(blocks_of(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    with Typist(page, tmp_path) as typist:
        typist.type_page()
    work = tmp_path / "work"
    secrets = [file.read_bytes().strip() for file in work.glob("secrets/*")]
    written = [file for file in work.rglob("*") if file.is_file() and file.parent.name != "secrets"]
    assert all(secrets)
    assert not [file for file in written if any(secret in file.read_bytes() for secret in secrets)]


@pytest.mark.slow
@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.parent.name)
def test_the_example_does_what_its_page_says(page: Path, tmp_path: Path) -> None:
    """Typed in a copy of the example's folder, without what a run in the folder itself has left."""
    left = shutil.ignore_patterns("oncestream-data", ".oncestream", "spark-warehouse", "__pycache__")
    with Typist(page, tmp_path) as typist:
        shutil.copytree(page.parent, tmp_path / "work", ignore=left, dirs_exist_ok=True)
        typist.type_page()
