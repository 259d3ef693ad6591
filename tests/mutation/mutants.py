"""Small changes of Python source, each of which may be a bug: where they can be made, and how.

    for place in places("def f(a, b): return a < b"):
        place[0].applied(source)            "def f(a, b): return a <= b", and so on

A place is an operator, a constant, an entry of a table, or an edge (whether and where control goes on); each has one change
or more. Texts for people have no places: docstrings, messages, annotations. In `codegen/`, where texts are code, their
instructions and numbers have. A change is made in the text, so that everything else stays as it is.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">"), ast.LtE: ("<", ">="), ast.Gt: (">=", "<"), ast.GtE: (">", "<="), ast.Eq: ("!=",),
    ast.NotEq: ("==",), ast.Is: ("is not",), ast.IsNot: ("is",), ast.In: ("not in",), ast.NotIn: ("in",),
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "//"),
    ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "|"), ast.Div: ("/", "*"), ast.Pow: ("**", "*"),
}  # fmt: skip
# Words of LLVM IR and PTX, and what they are taken for.
_WORDS = {
    "sdiv": "udiv", "udiv": "sdiv", "srem": "urem", "urem": "srem", "ashr": "lshr", "lshr": "ashr", "shl": "lshr",
    "add": "sub", "sub": "add", "mul": "add", "fadd": "fsub", "fsub": "fadd", "fmul": "fadd", "fdiv": "fmul",
    "and": "or", "or": "and", "xor": "or", "sext": "zext", "zext": "sext", "fptosi": "fptoui", "fptoui": "fptosi",
    "sitofp": "uitofp", "uitofp": "sitofp", "eq": "ne", "ne": "eq", "slt": "sle", "sle": "slt", "sgt": "sge",
    "sge": "sgt", "ult": "ule", "ule": "ult", "ugt": "uge", "uge": "ugt", "oeq": "one", "one": "oeq", "olt": "ole",
    "ole": "olt", "ogt": "oge", "oge": "ogt", "une": "ueq", "ord": "uno", "uno": "ord", "true": "false", "false": "true",
    "smax": "smin", "smin": "smax", "umax": "umin", "umin": "umax", "max": "min", "min": "max", "nsw": "nuw",
    "nuw": "nsw", "acquire": "monotonic", "release": "monotonic", "acq_rel": "monotonic", "seq_cst": "acq_rel",
    "relaxed": "volatile", "floor": "ceil", "ceil": "floor", "rn": "rz", "rz": "rn",
}  # fmt: skip
_IN_TEXT = re.compile(rf"(?<![\w.%@#-])(?:{'|'.join(_WORDS)}|\d+)(?![\w-])")
_NAME = re.compile(r"[A-Za-z_][\w.]*|[-+*/%&|^~!=<>@]+")
_MESSAGES = re.compile(r"\w*(Error|Bug|Rejection|Problem|TypeVar|cast)")
_GENERICS = frozenset(
    "Callable dict tuple list set frozenset type Sequence Mapping Iterator Iterable Literal ClassVar Union "
    "Generic defaultdict Counter OrderedDict WeakKeyDictionary".split()
)


@dataclass(frozen=True, slots=True)
class Change:
    """What is put in the place of the bytes from `begin` to `end` of a source."""

    line: int
    kind: str
    begin: int
    end: int
    before: str
    after: str

    def applied(self, source: str) -> str:
        """The changed source."""
        data = source.encode()
        return (data[: self.begin] + self.after.encode() + data[self.end :]).decode()

    def __str__(self) -> str:
        return f"line {self.line}, {self.kind}: {self.before!r} became {self.after!r}"


def places(source: str, texts_are_code: bool = False) -> list[tuple[Change, ...]]:
    """Every place where a source can be changed, with the changes that can be made there."""
    found = _Places(source)
    return [tuple(changes) for changes in found.all(texts_are_code)]


class _Places:
    """The places of one source."""

    def __init__(self, source: str) -> None:
        self.data, self.tree = source.encode(), ast.parse(source)
        self.starts = [0, *itertools.accumulate(len(line.encode()) for line in source.splitlines(keepends=True))]
        self.dead = _dead(self.tree)
        self.is_row = {id(node) for node in _outside_of_functions(self.tree)}
        self.is_unordered = set(_unordered(self.tree))
        self.in_fstring = {
            id(each)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.JoinedStr)
            for each in node.values
            if isinstance(each, ast.Constant)
        }
        self.live = [node for node in ast.walk(self.tree) if id(node) not in self.dead]
        self.names = self._names()

    def all(self, texts_are_code: bool) -> Iterator[Sequence[Change]]:
        for node in self.live:
            for changes in (self.operators(node), self.constants(node), self.tables(node), self.edges(node)):
                yield from filter(None, changes)
            if texts_are_code and isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from ([change] for change in self.words(node))

    # Each of these yields the changes of one place at a time

    def operators(self, node: ast.AST) -> Iterator[list[Change]]:
        match node:
            case ast.Compare(left, operators, comparators):
                for one, operator, other in zip([left, *comparators[:-1]], operators, comparators, strict=True):
                    yield self.between("operator", one, other, [f" {new} " for new in _COMPARISONS[type(operator)]])
            case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS and not _is_text_or_type(left, right):
                old, new = _OPERATORS[type(operator)]
                yield self.within("operator", left, right, old, new)
            case ast.AugAssign(target, operator, value) if type(operator) in _OPERATORS:
                old, new = _OPERATORS[type(operator)]
                yield self.within("operator", target, value, f"{old}=", f"{new}=")
            case ast.BoolOp(operator, values):
                old, new = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
                for one, other in itertools.pairwise(values):
                    yield self.within("operator", one, other, old, new)
            case ast.UnaryOp(ast.Not() | ast.USub() | ast.Invert(), operand) if not isinstance(operand, ast.Constant):
                yield [self.change("operator", node, f"({self.text(operand)})")]

    def constants(self, node: ast.AST) -> Iterator[list[Change]]:
        match node:
            case ast.Constant(bool() as value):
                yield [self.change("constant", node, str(not value))]
            case ast.Constant(int() as value):
                yield [self.change("constant", node, str(new)) for new in (value + 1, value - 1) if new >= 0]
            case ast.Constant(float() as value) if value == value and abs(value) < 1e300:
                yield [self.change("constant", node, repr(new)) for new in (value + 1, value * 2) if new != value]
            case ast.Constant(str() as value) if id(node) not in self.in_fstring and _NAME.fullmatch(value):
                other = self.neighbour("text", value)
                yield [self.change("constant", node, repr(other))] if other else []
            case ast.Attribute(ast.Name(owner), name) if name.isupper() and isinstance(node.ctx, ast.Load):
                other = self.neighbour(owner, name)
                yield [self.change("constant", node, f"{owner}.{other}")] if other else []
            case ast.Name(name, ast.Load()) if name.isupper():
                other = self.neighbour("imported", name)
                yield [self.change("constant", node, other)] if other else []

    def words(self, node: ast.Constant) -> Iterator[Change]:
        begin, end = self.span(node)
        raw = self.data[begin:end]
        if not raw.isascii() or b"\n" in raw:
            return
        for match in _IN_TEXT.finditer(raw.decode()):
            word = match[0]
            after = _WORDS.get(word) or str(int(word) + 1)
            yield Change(node.lineno, "constant", begin + match.start(), begin + match.end(), word, after)

    def tables(self, node: ast.AST) -> Iterator[list[Change]]:
        match node:
            case ast.Tuple(elements) | ast.List(elements) | ast.Set(elements):
                if isinstance(getattr(node, "ctx", None), ast.Store):
                    return
                unordered = isinstance(node, ast.Set) or id(node) in self.is_unordered
                for one, other in itertools.pairwise(elements):
                    swap = [] if unordered else self.swapped(one, other)
                    drop = (
                        [self.dropped(one, other)]
                        if len(elements) > 2 and (unordered or id(node) in self.is_row)
                        else []
                    )
                    yield swap + drop
            case ast.Dict(keys, values) if None not in keys:
                rows = list(zip(keys, values, strict=True))
                for (key, one), (other_key, other) in itertools.pairwise(rows):
                    assert key is not None and other_key is not None
                    yield [*self.swapped(one, other), self.dropped(key, other_key)]
            case ast.Call(args=arguments) if id(node) in self.is_row:
                for one, other in itertools.pairwise(arguments):
                    yield self.swapped(one, other)

    def edges(self, node: ast.AST) -> Iterator[list[Change]]:
        match node:
            case ast.If(test) | ast.IfExp(test):
                yield self.condition(test, always=True)
            case ast.While(test):
                yield self.condition(test, always=False)
            case ast.match_case(guard=test) if test is not None:
                yield self.condition(test, always=True)
            case ast.comprehension(ifs=tests):
                for test in tests:
                    yield self.condition(test, always=True)
            case ast.Break():
                yield [self.change("edge", node, "continue")]
            case ast.Continue():
                yield [self.change("edge", node, "break")]
            case ast.Return(None) | ast.Expr(ast.Call()) | ast.AugAssign():
                yield [self.change("edge", node, "pass")]
            case ast.Assign([ast.Attribute() | ast.Subscript()]) if id(node) not in self.is_row:
                yield [self.change("edge", node, "pass")]

    def condition(self, test: ast.expr, always: bool) -> list[Change]:
        text = self.text(test)
        if text in ("True", "False"):
            return []
        changes = [f"(not ({text}))", f"(({text}) and False)", *([f"(({text}) or True)"] if always else [])]
        return [self.change("edge", test, after) for after in changes]

    # How changes are made

    def change(self, kind: str, node: ast.expr | ast.stmt, after: str) -> Change:
        begin, end = self.span(node)
        return Change(node.lineno, kind, begin, end, self.data[begin:end].decode(), after)

    def between(self, kind: str, one: ast.expr, other: ast.expr, after: Sequence[str]) -> list[Change]:
        begin, end = self.span(one)[1], self.span(other)[0]
        before = self.data[begin:end].decode()
        if re.search(r"[()\n]", before):  # the operands stand in parentheses or on lines of their own
            return []
        return [Change(one.lineno, kind, begin, end, before, new) for new in after]

    def within(self, kind: str, one: ast.expr, other: ast.expr, old: str, new: str) -> list[Change]:
        """The one operator between two operands, with whatever parentheses and line ends are there."""
        begin, end = self.span(one)[1], self.span(other)[0]
        between = self.data[begin:end].decode()
        if between.count(old) != 1 or not between.isascii() or "#" in between:
            return []
        at = begin + between.index(old)
        return [Change(one.end_lineno or one.lineno, kind, at, at + len(old), old, new)]

    def swapped(self, one: ast.expr, other: ast.expr) -> list[Change]:
        """Two neighbours of one kind change places."""
        texts = self.text(one), self.text(other)
        parts = ast.Name | ast.Attribute
        alike = type(one) is type(other) or (isinstance(one, parts) and isinstance(other, parts))
        if (
            not alike
            or texts[0] == texts[1]
            or any(isinstance(each, ast.Starred) or _is_prose(each) for each in (one, other))
        ):
            return []
        begin, end = self.span(one)[0], self.span(other)[1]
        between = self.data[self.span(one)[1] : self.span(other)[0]].decode()
        before, after = f"{texts[0]}{between}{texts[1]}", f"{texts[1]}{between}{texts[0]}"
        return [Change(one.lineno, "table", begin, end, before, after)]

    def dropped(self, one: ast.expr, other: ast.expr) -> Change:
        """A row of a table is missing; the next one begins at `other`."""
        begin, end = self.span(one)[0], self.span(other)[0]
        return Change(one.lineno, "table", begin, end, self.data[begin:end].decode(), "")

    def _names(self) -> dict[str, list[str]]:
        """What stands for something in the source, in families: members of a class, texts, constants from one module."""
        found: dict[str, dict[str, None]] = {}
        for node in self.live:
            match node:
                case ast.Attribute(ast.Name(owner), name) if name.isupper():
                    found.setdefault(owner, {})[name] = None
                case ast.Constant(str() as value) if id(node) not in self.in_fstring and _NAME.fullmatch(value):
                    found.setdefault("text", {})[value] = None
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if alias.name.isupper() and len(alias.name) > 1:
                        found.setdefault("imported", {})[alias.name] = None
        return {family: list(names) for family, names in found.items()}

    def neighbour(self, family: str, name: str) -> str | None:
        """The next name of a family, round and round."""
        names = self.names.get(family, [])
        if name not in names or len(names) < 2:
            return None
        return names[(names.index(name) + 1) % len(names)]

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr) -> str:
        begin, end = self.span(node)
        return self.data[begin:end].decode()


def _dead(tree: ast.Module) -> set[int]:
    """What says something to people and to type checkers only."""
    found: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        match node:
            case ast.Raise() | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.If(ast.Name("TYPE_CHECKING")):
                parts = [node]
            case ast.Assign([ast.Name("__slots__" | "__all__" | "__match_args__")]) | ast.Expr(ast.Constant()):
                parts = [node]
            case ast.arg() | ast.AnnAssign():
                parts = [node.annotation]
            case ast.FunctionDef():
                parts = [*node.decorator_list, node.returns]
            case ast.ClassDef():
                parts = list(node.decorator_list)
            case ast.Call(ast.Name(name) | ast.Attribute(attr=name)) if _MESSAGES.fullmatch(name):
                parts = [node]
            case ast.keyword("help" | "doc" | "message"):
                parts = [node.value]
            case ast.Subscript(ast.Name(name) | ast.Attribute(attr=name)) if name in _GENERICS:
                parts = [node.slice]
        found |= {id(each) for part in parts if part is not None for each in ast.walk(part)}
    return found


def _outside_of_functions(node: ast.AST) -> Iterator[ast.AST]:
    """What importing evaluates: the tables."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield from _outside_of_functions(child)


def _unordered(tree: ast.Module) -> Iterator[int]:
    """Tuples and lists whose order makes no difference."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name("isinstance" | "issubclass"), [_, options]):
                yield id(options)
            case ast.Call(ast.Name("frozenset" | "set"), [options]):
                yield id(options)
            case ast.Compare(_, [ast.In() | ast.NotIn()], [options]):
                yield id(options)


def _is_text_or_type(*sides: ast.expr) -> bool:
    """Whether an operator joins texts, sequences or types."""
    for side in sides:
        match side:
            case ast.JoinedStr() | ast.List() | ast.Tuple() | ast.Constant(str() | None):
                return True
            case ast.Name(name) | ast.Attribute(attr=name) if name[0].isupper() and not name.isupper():
                return True
            case ast.BinOp(left, ast.BitOr(), right) if _is_text_or_type(left, right):
                return True
    return False


def _is_prose(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip()
