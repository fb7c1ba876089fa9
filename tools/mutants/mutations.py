"""Every small fault that a mutation run may put into a source file, found with `ast`.

Left out: annotations, docstrings and other strings, decorators, assertions, logging, what an error says, and
blocks of TYPE_CHECKING.
"""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Replaced by the text on the right. A comparison moves its boundary, or turns round.
COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
# `if a == b` turned round is what the comparison's own mutation makes.
TURNED_ALREADY: Final = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
OTHER_EXTREME: Final = {"min": "max", "max": "min"}
LOGGERS: Final = frozenset({"LOG", "log", "logger", "logging"})


@dataclass(frozen=True, slots=True)
class Mutation:
    """Some bytes of a file, and what stands there instead."""

    path: Path
    line: int
    start: int
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def diff(self, source: bytes) -> tuple[str, str]:
        """The first line that goes, after a -, and the first that comes, after a +."""
        before, after = (text.decode().splitlines() for text in (source, self.apply(source)))
        lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))[3:]
        removed = next(line for line in lines if line[0] == "-")
        added = next(line for line in lines if line[0] == "+")
        return f"- {removed[1:].strip()}", f"+ {added[1:].strip()}"


def mutations_of(path: Path, source: bytes) -> list[Mutation]:
    """All of a file, in its order; `path` is only noted."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda each: (each.start, each.end, each.text))


class _Finder(ast.NodeVisitor):
    def __init__(self, path: Path, source: bytes) -> None:
        self.found: list[Mutation] = []
        self._path = path
        self._source = source
        lengths = [0, *map(len, source.splitlines(keepends=True))]
        self._lines = [sum(lengths[: number + 1]) for number in range(len(lengths))]

    # What is left out.

    def visit_Assert(self, node: ast.Assert) -> None: ...

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self._visit_all(node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(node.body)

    # What is mutated.

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            pattern, text = COMPARISONS[type(operator)]
            self._replace_between(left, right, pattern, text)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        operator, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._replace_between(left, right, operator, other)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not any(isinstance(each, ast.JoinedStr) or _is_text(each) for each in (node.left, node.right)):
            self._replace_sign(node.left, node.op, node.right)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._replace_sign(node.target, node.op, node.value)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start = self._start(node)
            self._note(node, start, start + len("not"), "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value))
        elif isinstance(node.value, int | float):
            self._replace(node, str(node.value + 1))

    def visit_Return(self, node: ast.Return) -> None:
        is_nothing = isinstance(node.value, ast.Constant) and not node.value.value
        if node.value is not None and not is_nothing:  # callers take False, 0 and None alike
            self._replace(node, "return None")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if not ast.unparse(node.test).endswith("TYPE_CHECKING"):
            self._turn_round(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._turn_round(node.test)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call) and not _is_logging(call):
            self._replace(node, "pass")
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in OTHER_EXTREME:
            self._replace(node.func, OTHER_EXTREME[node.func.id])
        self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._replace(node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace(node, "break")

    def visit_Raise(self, node: ast.Raise) -> None:
        self._replace(node, "pass")

    # How it is noted.

    def _visit_all(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.visit(statement)

    def _turn_round(self, test: ast.expr) -> None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], TURNED_ALREADY):
            return
        start, end = self._start(test), self._end(test)
        self._note(test, start, end, f"not ({self._source[start:end].decode()})")

    def _replace_sign(self, left: ast.expr, operator: ast.operator, right: ast.expr) -> None:
        if isinstance(operator, ast.Add):
            self._replace_between(left, right, r"\+", "-")
        elif isinstance(operator, ast.Sub):
            self._replace_between(left, right, "-", "+")

    def _replace_between(self, left: ast.expr, right: ast.expr, pattern: str, text: str) -> None:
        """Replaces the operator between two operands; parentheses and comments may stand there too."""
        gap = self._source[self._end(left) : self._start(right)]
        blanked = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), gap)
        found = re.search(pattern.encode(), blanked)
        assert found is not None, (self._path, left.lineno)
        end = self._end(left)
        self._note(left, end + found.start(), end + found.end(), text)

    def _replace(self, node: ast.stmt | ast.expr, text: str) -> None:
        self._note(node, self._start(node), self._end(node), text)

    def _note(self, node: ast.stmt | ast.expr, start: int, end: int, text: str) -> None:
        line = node.lineno + self._source.count(b"\n", self._start(node), start)
        self.found.append(Mutation(self._path, line, start, end, text))

    def _start(self, node: ast.stmt | ast.expr) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.stmt | ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _is_logging(call: ast.Call) -> bool:
    root = call.func
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(root, ast.Name) and root.id in LOGGERS
