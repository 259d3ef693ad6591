"""What becomes of the values that a generator expression yields, for each function that takes them.

A generator has no form at run time: its code is read as a function that runs to the end, in which `yield` is a step of
what the values are for. `sum(x * x for x in t)` calls

    def generator(iterator, result):        `result` is 0 at first
        for x in iterator:
            result = result + x * x
        return result
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING

from cuda_device.ir import ops
from cuda_device.ir.model import Block, Edge, Op, Value

if TYPE_CHECKING:
    from cuda_device.bytecode.to_ir import Reader

RESULT = ".result"
"""The parameter that holds what the values have made so far."""
SOME = ".some"
"""Whether there was a value."""
BEGINS = frozenset(("list", "sum"))
"""The reductions that get a first result from their caller."""


def _append(reader: Reader, value: Value) -> None:
    reader.variables[RESULT] = reader.build.op(ops.PY_APPEND, None, reader.variables[RESULT], value)


def _add(reader: Reader, value: Value) -> None:
    reader.variables[RESULT] = reader.build.op(ops.PY_BINARY, None, reader.variables[RESULT], value, op="+")


def _stop_if(wanted: bool) -> Callable[[Reader, Value], None]:
    """`any` ends at the first true value, `all` at the first false one."""

    def step(reader: Reader, value: Value) -> None:
        truth = reader.build.op(ops.PY_TRUTH, None, value)
        found = Block()
        location = reader.build.location
        answer = Value()
        found.ops.append(Op(ops.PY_CONST, [], [answer], {"value": wanted}, [], location))
        found.ops.append(Op(ops.RETURN, [answer], location=location))
        on = Edge(reader.fork(), reader.context())
        out = Edge(found, [])
        ways = [out, on] if wanted else [on, out]
        reader.end(ops.BRANCH, [truth], ways)
        reader.continue_in(on.block, found)

    return step


def _best(name: str) -> Callable[[Reader, Value], None]:
    """`min` and `max`: the first value, then the better of two."""

    def step(reader: Reader, value: Value) -> None:
        reader.variable(RESULT)
        some = reader.build.op(ops.PY_TRUTH, None, reader.variables[SOME])
        reader.stack.append(value)
        again, done = reader.fork(), reader.fork()
        reader.end(ops.BRANCH, [some], [Edge(again, reader.context()), Edge(done, reader.context())])
        reader.continue_in(again)
        function = reader.build.op(ops.PY_CONST, None, value=getattr(builtins, name))
        better = reader.build.op(ops.PY_CALL, None, function, reader.variable(RESULT), reader.stack.pop())
        reader.stack.append(better)
        reader.end(ops.JUMP, [], [Edge(done, reader.context())])
        reader.continue_in(done)
        reader.variables[RESULT] = reader.stack.pop()
        reader.variables[SOME] = reader.build.op(ops.PY_CONST, None, value=True)

    return step


STEPS: dict[str, Callable[[Reader, Value], None]] = {
    "list": _append,
    "sum": _add,
    "any": _stop_if(True),
    "all": _stop_if(False),
    "min": _best("min"),
    "max": _best("max"),
}
"""By the name of a reduction: what `yield` does."""
