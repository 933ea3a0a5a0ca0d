"""Small wrong changes to a Python file, one at a time: what mutation testing asks the tests to notice.

A mutant replaces the text of one syntax node and leaves every other byte alone. Messages, annotations, decorators and
docstrings are not changed: no test should pin them.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
}


@dataclass(frozen=True)
class Mutant:
    """One change: the bytes ``start`` to ``stop`` of ``file`` become ``text``."""

    file: str
    line: int
    kind: str
    start: int
    stop: int
    before: str
    text: str

    @property
    def key(self) -> str:
        """The same for the same change at the same place."""
        values = f"{self.file} {self.line} {self.start} {self.before} {self.text}"
        return hashlib.sha256(values.encode()).hexdigest()[:16]

    def applied(self, source: bytes) -> bytes:
        """The file's bytes with the change."""
        return source[: self.start] + self.text.encode() + source[self.stop :]


def mutants_of(root: Path, file: Path) -> list[Mutant]:
    """All mutants of one file below ``root``, in the order of its text."""
    source = file.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    made = []
    for node, kind, text in _changes(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        stop = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        before = source[start:stop].decode()
        made.append(Mutant(file.relative_to(root).as_posix(), node.lineno, kind, start, stop, before, text))
    return sorted(made, key=lambda mutant: (mutant.start, mutant.stop, mutant.kind, mutant.text))


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """Nodes with the kind of the change and the text that takes their place."""
    for node in _reachable(tree):
        if isinstance(node, ast.expr):
            yield from ((node, kind, f"({ast.unparse(changed)})") for kind, changed in _of_expression(node))
        elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield node, "return value", "return None"
        elif isinstance(node, ast.Raise):
            yield node, "dropped raise", "pass"
        elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            yield node, "dropped statement", "pass"


def _reachable(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those of annotations, decorators, messages, and of what only type checkers read."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, (ast.JoinedStr, ast.Import, ast.ImportFrom)):
                continue
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                continue
            if isinstance(node, ast.keyword) and node.arg == "strict":
                continue  # of zip: a second look at lengths that are equal
            yield node
            if not isinstance(node, ast.Raise) and not _is_alias(node):
                yield from _reachable(node)


def _is_alias(node: ast.AST) -> bool:
    """Whether a statement names a type, such as ``Arrays = Mapping[str, NDArray[Any]]``, or lists public names."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return False
    name, value = node.targets[0].id, node.value
    is_type = isinstance(value, (ast.Subscript, ast.BinOp)) and name[:1].isupper() and not name.isupper()
    return is_type or name == "__all__"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _of_expression(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Compare):
        for position, operator in enumerate(node.ops):
            operators = [*node.ops[:position], COMPARISONS[type(operator)](), *node.ops[position + 1 :]]
            yield "comparison", ast.Compare(node.left, operators, node.comparators)
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        yield "boolean", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub, ast.Invert)):
        yield "sign", node.operand
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node.value)
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        first, second, *others = node.args
        if not any(isinstance(argument, ast.Starred) for argument in (first, second)):
            yield "swapped arguments", ast.Call(node.func, [second, first, *others], node.keywords)


def _of_constant(value: object) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int):
        yield "off by one", ast.Constant(value + 1)
        if value > 0:
            yield "off by one", ast.Constant(value - 1)
    elif isinstance(value, float):
        yield "constant", ast.Constant(value * 1.5 if value else 1.0)
