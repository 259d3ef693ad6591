"""Runs python-level IR over ordinary Python objects: what its operations mean, written as code.

    run(function, 1, 2) == function(1, 2)

Operations that device code does not have are `Unsupported`.
"""

from __future__ import annotations

import builtins
import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ir_helpers import checked, underlying

from cuda_device.bytecode.suspension import START, STEP, STEP_UNROLLED, mark
from cuda_device.bytecode.to_ir import read

BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
    "**": operator.pow, "@": operator.matmul, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_, "^": operator.xor,
}  # fmt: skip
COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}
UNARY = {"-": operator.neg, "+": operator.pos, "~": operator.invert, "not": operator.not_}
CONVERSIONS: dict[str, Callable[[Any], Any]] = {"": lambda value: value, "s": str, "r": repr, "a": ascii}
UNDEFINED = object()


class Unsupported(Exception):
    """The program does what device code cannot do."""


class Steps:
    """An iterator that can be advanced twice from one place, as `py.next` promises: it gives the iterator after it."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self.iterator = iterator
        self.step: tuple[bool, Any, Steps | None] | None = None

    def next(self) -> tuple[bool, Any, Steps | None]:
        if self.step is None:
            for item in self.iterator:
                self.step = True, item, Steps(self.iterator)
                break
            else:
                self.step = False, None, None
        return self.step


def run(function: Any, *arguments: Any) -> Any:
    """Calls a function by its IR. Raises `Unsupported` where it reaches what device code does not have."""
    return run_ir(read(underlying(function).__code__), function, *arguments)


def run_ir(python: Any, function: Any, *arguments: Any) -> Any:
    """As `run`, with IR of the function that somebody has changed."""
    plain = underlying(function)
    if plain.__code__.co_flags & inspect.CO_VARKEYWORDS:
        raise Unsupported
    scope = {**vars(builtins), **plain.__globals__}
    cells = dict(zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True))
    defaults = plain.__defaults__ or ()
    block = python.blocks[0]
    missing = len(block.params) - len(arguments)
    given = [*arguments, *(defaults[len(defaults) - missing :] if missing else ())]
    values: dict[Any, Any] = {}
    while True:
        values.update(zip(block.params, given, strict=True))
        for op in block.ops[:-1]:
            operands = [values[value] for value in op.operands]
            if op.code.name not in ("py.cells", "py.at", "py.step", "py.box", "py.set_box", "py.set_cell"):
                operands = [_defined(value) for value in operands]
            results = ROWS[op.code.name](op, operands, scope, cells)
            values.update(zip(op.results, results, strict=True))
        end = block.terminator
        if end.code.name == "return":
            return _defined(values[end.operands[0]])
        assert end.code.name in ("jump", "branch"), end.code
        edge = end.successors[0 if end.code.name == "jump" or values[end.operands[0]] else 1]
        block, given = edge.block, [values[value] for value in edge.arguments]


def run_steps(function: Any, *arguments: Any, unrolled: bool = False) -> Iterator[Any]:
    """What a generator yields, by the IR of its steps."""
    python = read(underlying(function).__code__, STEP_UNROLLED if unrolled else STEP)
    checked(python)
    names = [param.hint for param in python.blocks[0].params[1:]]
    kept = [*arguments, *[UNDEFINED] * (len(names) - len(arguments))]
    kept[names.index(mark(START))] = True
    position = START
    while True:
        more, value, position, *kept = run_ir(python, function, position, *kept)
        if not more:
            return
        yield value


class NoValue(UnboundLocalError):
    """`py.defined` found a variable without a value."""


def _check_defined(_: Any, operands: list[Any], *__: Any) -> list[Any]:
    if not operands[0]:
        raise NoValue
    return []


def _defined(value: Any) -> Any:
    if value is UNDEFINED:
        raise UnboundLocalError
    return value


def _global(op: Any, _: list[Any], scope: dict[str, Any], __: Any) -> list[Any]:
    if op.attributes["name"] not in scope:
        raise NameError
    return [scope[str(op.attributes["name"])]]


def _cell(op: Any, _: list[Any], __: Any, cells: dict[str, Any]) -> list[Any]:
    if op.attributes["name"] not in cells:
        raise Unsupported
    return [cells[str(op.attributes["name"])].cell_contents]


def _unpack(op: Any, operands: list[Any], _: Any, __: Any) -> list[Any]:
    parts = [*operands[0]]
    if len(parts) != len(op.results):
        raise ValueError
    return parts


def _setitem(_: Any, operands: list[Any], __: Any, ___: Any) -> list[Any]:
    owner, index, value = operands
    owner[index] = value
    return []


def _setattr(op: Any, operands: list[Any], _: Any, __: Any) -> list[Any]:
    owner, value = operands
    setattr(owner, str(op.attributes["name"]), value)
    return []


def _call(op: Any, operands: list[Any], _: Any, __: Any) -> list[Any]:
    names: Any = op.attributes.get("names", ())
    function, *arguments = operands
    split = len(arguments) - len(names)
    return [function(*arguments[:split], **dict(zip(names, arguments[split:], strict=True)))]


def _call_star(_: Any, operands: list[Any], __: Any, ___: Any) -> list[Any]:
    function, arguments, *keywords = operands
    return [function(*arguments, **(keywords[0] if keywords else {}))]


def _unpack_star(op: Any, operands: list[Any], _: Any, __: Any) -> list[Any]:
    before, after = int(str(op.attributes["before"])), int(str(op.attributes["after"]))
    items = [*operands[0]]
    if len(items) < before + after:
        raise ValueError
    stop = len(items) - after
    return [*items[:before], items[before:stop], *items[stop:]]


def _format(op: Any, operands: list[Any], _: Any, __: Any) -> list[Any]:
    value, *spec = operands
    return [format(CONVERSIONS[str(op.attributes["conversion"])](value), *spec)]


def _raise(op: Any, operands: list[Any], _: Any, __: Any) -> list[Any]:
    if op.attributes["kind"] == "assert":
        raise AssertionError(*operands)
    raise operands[0]


def _is_sequence(_: Any, operands: list[Any], __: Any, ___: Any) -> list[Any]:
    return [isinstance(operands[0], Sequence) and not isinstance(operands[0], (str, bytes, bytearray))]


def _merge(op: Any, operands: list[Any], _: Any, __: Any) -> list[Any]:
    first, second = operands
    if op.attributes["unique"] and first.keys() & second.keys():
        raise TypeError
    return [{**first, **second}]


def _unsupported(_: Any, __: list[Any], ___: Any, ____: Any) -> list[Any]:
    raise Unsupported


ROWS: dict[str, Callable[[Any, list[Any], dict[str, Any], dict[str, Any]], Any]] = {
    "py.const": lambda op, _, __, ___: [op.attributes["value"]],
    "py.global": _global,
    "py.map_add": lambda _, x, __, ___: [{**x[0], x[1]: x[2]}],
    "py.cell": _cell,
    "py.set_cell": _unsupported,
    "py.box": lambda _, x, __, ___: [[x[0]]],
    "py.unbox": lambda _, x, __, ___: [x[0][0]],
    "py.set_box": lambda _, x, __, ___: [x[0].__setitem__(0, x[1])][:0],
    "py.undefined": lambda _, __, ___, ____: [UNDEFINED],
    "py.unary": lambda op, x, _, __: [UNARY[str(op.attributes["op"])](*x)],
    "py.binary": lambda op, x, _, __: [BINARY[str(op.attributes["op"])](*x)],
    "py.compare": lambda op, x, _, __: [COMPARE[str(op.attributes["op"])](*x)],
    "py.is": lambda op, x, _, __: [(x[0] is x[1]) != op.attributes["inverted"]],
    "py.truth": lambda _, x, __, ___: [bool(x[0])],
    "py.getattr": lambda op, x, _, __: [getattr(x[0], str(op.attributes["name"]))],
    "py.getitem": lambda _, x, __, ___: [x[0][x[1]]],
    "py.setitem": _setitem,
    "py.setattr": _setattr,
    "py.copy": lambda _, x, __, ___: [x[0]],
    "py.tuple": lambda _, x, __, ___: [tuple(x)],
    "py.unpack": _unpack,
    "py.call": _call,
    "py.iter": lambda _, x, __, ___: [Steps(iter(x[0]))],
    "py.next": lambda _, x, __, ___: x[0].next(),
    "py.list": lambda _, x, __, ___: [x],
    "py.append": lambda _, x, __, ___: [[*x[0], x[1]]],
    "py.extend": lambda _, x, __, ___: [[*x[0], *x[1]]],
    "py.tuple_of": lambda _, x, __, ___: [tuple(x[0])],
    "py.dict": lambda op, x, __, ___: [dict(zip(op.attributes["keys"], x, strict=True))],  # type: ignore[call-overload]
    "py.merge": _merge,
    "py.slice": lambda _, x, __, ___: [slice(*x)],
    "py.string": lambda _, x, __, ___: ["".join(x)],
    "py.format": _format,
    "py.contains": lambda op, x, _, __: [(x[0] in x[1]) != op.attributes["inverted"]],
    "py.is_sequence": _is_sequence,
    "py.unpack_star": _unpack_star,
    "py.call_star": _call_star,
    "py.raise": _raise,
    "py.defined": _check_defined,
    "py.unsupported": _unsupported,
    "py.function": _unsupported,
    "py.cells": _unsupported,
    "variable": lambda _, __, ___, ____: [],
    "py.at": lambda op, x, _, __: [x[1] is True and x[0] == op.attributes["position"]],
    "py.step": lambda _, x, __, ___: [x],
}
