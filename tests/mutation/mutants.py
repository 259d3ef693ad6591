"""Small changes of Python source, each of which may be a bug: where they can be made, and how.

    for mutant in mutants("def f(a, b): return a < b"):
        mutant.text                         "def f(a, b): return a <= b", and so on

A change is made in the text, so that everything else stays as it is, lines included.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_OPERATORS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Mod: "//", ast.LShift: ">>", ast.RShift: "<<",
    ast.BitAnd: "|", ast.BitOr: "&", ast.BitXor: "|", ast.Div: "*",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed source: what was changed in which line."""

    line: int
    kind: str
    before: str
    after: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.kind}: {self.before!r} became {self.after!r}"


def mutants(source: str) -> Iterator[Mutant]:
    """Every change that can be made to a source."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    data = source.encode()
    skipped = _skipped(tree)

    def change(kind: str, node: ast.expr | ast.stmt, after: str, span: tuple[int, int] | None = None) -> Mutant:
        begin, end = span or _span(node, starts)
        text = (data[:begin] + after.encode() + data[end:]).decode()
        return Mutant(node.lineno, kind, data[begin:end].decode(), after, text)

    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        match node:
            case ast.Compare(left, [operator], [right]):
                between = _span(left, starts)[1], _span(right, starts)[0]
                yield change("comparison", node, f" {_COMPARISONS[type(operator)]} ", between)
            case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS and not _is_text(left, right):
                between = _span(left, starts)[1], _span(right, starts)[0]
                if data[between[0] : between[1]].strip().isascii() and b"\n" not in data[between[0] : between[1]]:
                    yield change("operator", node, f" {_OPERATORS[type(operator)]} ", between)
            case ast.BoolOp(operator, [first, second, *_]):
                between = _span(first, starts)[1], _span(second, starts)[0]
                if b"\n" not in data[between[0] : between[1]]:
                    yield change("and/or", node, " or " if isinstance(operator, ast.And) else " and ", between)
            case ast.UnaryOp(ast.Not(), operand):
                yield change("not", node, f"({_text(operand, starts, data)})")
            case ast.If(test) | ast.IfExp(test) | ast.While(test):
                yield change("condition", test, f"(not ({_text(test, starts, data)}))")
            case ast.Constant(bool() as value):
                yield change("constant", node, str(not value))
            case ast.Constant(int() as value):
                yield change("constant", node, str(value + 1))
            case ast.Tuple(elements) | ast.List(elements) if len(elements) > 1 and isinstance(node.ctx, ast.Load):
                yield from _swapped(node, elements, starts, data, change)
            case ast.Return(value) if value is not None and not isinstance(value, ast.Constant):
                yield change("result", value, "None")
            case ast.Expr(ast.Call()) | ast.AugAssign():
                yield change("statement", node, "pass")


def _swapped(node, elements, starts, data, change):  # type: ignore[no-untyped-def]
    """The first two different neighbours of a table change places."""
    for one, other in itertools.pairwise(elements):
        texts = _text(one, starts, data), _text(other, starts, data)
        if texts[0] != texts[1] and not any(isinstance(each, ast.Starred) for each in (one, other)):
            span = _span(one, starts)[0], _span(other, starts)[1]
            between = data[_span(one, starts)[1] : _span(other, starts)[0]].decode()
            yield change("order", node, f"{texts[1]}{between}{texts[0]}", span)
            return


def _skipped(tree: ast.Module) -> set[int]:
    """What says something to people only: annotations, texts in f-strings, errors that are raised, assertions."""
    found: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST] = []
        match node:
            case ast.JoinedStr() | ast.Raise() | ast.Assert() | ast.Import() | ast.ImportFrom():
                parts = [node]
            case ast.arg() | ast.AnnAssign() if node.annotation is not None:
                parts = [node.annotation]
            case ast.FunctionDef():
                parts = [*node.decorator_list, *([node.returns] if node.returns else [])]
            case ast.If(ast.Name("TYPE_CHECKING")):
                parts = [node]
            case ast.Assign([ast.Name("__slots__" | "__all__")]):
                parts = [node]
        found |= {id(each) for part in parts for each in ast.walk(part)}
    return found


def _is_text(*sides: ast.expr) -> bool:
    return any(isinstance(side, ast.JoinedStr | ast.List | ast.Tuple) or _is_string(side) for side in sides)


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _span(node: ast.expr | ast.stmt, starts: list[int]) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def _text(node: ast.expr, starts: list[int], data: bytes) -> str:
    begin, end = _span(node, starts)
    return data[begin:end].decode()
