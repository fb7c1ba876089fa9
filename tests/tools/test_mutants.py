"""A mutation run on a small package: what its tests notice, what they miss, and that it leaves no trace."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tools.mutants.__main__ import FailsUnmutated, Options, Run, Target, sample, show
from tools.mutants.mutations import mutations_of
from tools.mutants.workshop import Verdict

TARGET = Target("src/shop/", ("tests",))

SOURCE = """\
def is_allowed(age: int) -> bool:
    return age >= 18


def empty(queue: list[int]) -> None:
    while queue:
        queue.pop()
"""

TESTS = """\
from shop.rules import empty, is_allowed


def test_far_from_the_boundary():
    assert is_allowed(30)
    assert not is_allowed(3)


def test_it_ends():
    queue = [1, 2]
    empty(queue)
    assert queue == []
"""

# The body of a function, and all that it may be changed to.
KINDS = {
    "if low < x <= 3: f()": {
        "if not (low < x <= 3): f()",
        "if low <= x <= 3: f()",
        "if low < x < 3: f()",
        "if low < x <= 4: f()",
        "if low < x <= 3: pass",
    },
    "return (a  # a comment and more\n    ) is not b": {
        "return (a  # a comment and more\n    ) is b",
        "return None",
    },
    "return a not in b or True": {
        "return a in b or True",
        "return a not in b and True",
        "return a not in b or False",
        "return None",
    },
    "x = max(é + y, 'a' + z)": {"x = min(é + y, 'a' + z)", "x = max(é - y, 'a' + z)"},
    "return False": {"return True"},
    "if not x: raise Error(x + 1)": {"if  x: raise Error(x + 1)", "if not x: pass"},
    "for x in y: break": {"for x in y: continue"},
    "x: Literal[1] = y if y else z": {"x: Literal[1] = y if not (y) else z"},
    "'Docstring.'\n    LOG.info('x', 1)\n    assert x > 1\n    return None": set(),
    "if TYPE_CHECKING: f(1)": set(),
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    package, tests = tmp_path / "tree" / "src" / "shop", tmp_path / "tree" / "tests"
    for folder in (package, tests):
        folder.mkdir(parents=True)
    (package / "rules.py").write_text(SOURCE)
    (tests / "test_rules.py").write_text(TESTS)
    return tmp_path / "tree"


def run_on(tree: Path) -> tuple[dict[Verdict, set[str]], str]:
    """The new lines of the mutants with each verdict, and what was printed."""
    text = io.StringIO()
    console = Console(file=text, width=120)
    report = Run(tree, [TARGET], Options(seed=1, minutes=1, count=1000, limit_extra_s=1), console).report()
    show(report, console)
    assert report.sampled == len(report.verdicts)
    added = {
        verdict: {mutation.diff(SOURCE.encode())[1] for mutation in report.of(verdict)} for verdict in Verdict
    }
    return added, text.getvalue()


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_shows_what_tests_miss_and_leaves_the_tree_alone(tree: Path) -> None:
    before = files_of(tree)
    added, text = run_on(tree)
    assert added == {
        Verdict.SURVIVED: {"+ return age > 18", "+ return age >= 19"},
        Verdict.KILLED: {"+ return None"},
        Verdict.TIMED_OUT: {"+ pass"},
    }
    assert text.count("src/shop/rules.py:2\n    - return age >= 18\n    + return age") == 2
    assert files_of(tree) == before


def test_tests_that_fail_without_a_mutation_judge_nothing(tree: Path) -> None:
    (tree / "tests" / "test_more.py").write_text("def test_broken():\n    assert 1 == 2\n")
    with pytest.raises(FailsUnmutated, match="assert 1 == 2"):
        run_on(tree)


def test_one_seed_draws_one_sample_evenly_from_all_files(tree: Path) -> None:
    (tree / "src" / "shop" / "more.py").write_text(SOURCE)

    def drawn(seed: int) -> list[tuple[str, int, str]]:
        options = Options(seed, minutes=1, count=4)
        return [(each.path.name, each.start, each.text) for each in sample(tree, [TARGET], options)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert sorted(name for name, _, _ in drawn(1)) == ["more.py"] * 2 + ["rules.py"] * 2


@pytest.mark.parametrize("body", KINDS)
def test_mutations_of_every_kind(body: str) -> None:
    source = f"@decorated(1)\ndef function(x: Annotated[int, 1]) -> None:\n    {body}\n".encode()
    mutants = {each.apply(source).decode() for each in mutations_of(Path("some.py"), source)}
    assert mutants == {source.decode().replace(body, changed) for changed in KINDS[body]}
    for mutant in mutants:
        compile(mutant, "mutant", "exec")
