"""What becomes of the values that a generator yields, for functions that take them all.

The generator's code is read as a function that runs to the end, in which `yield` is a step of what the values are for.
`sum(x * x for x in t)` calls

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
from cuda_device.ir.nodes import Edge, Value
from cuda_device.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from cuda_device.bytecode.to_ir import Reader

RESULT = ".result"
"""The variable that holds what the values have made so far."""
SOME = ".some"
"""Whether there was a value."""
FUNCTION, KEY, DEFAULT = ".function", ".key", ".default"
"""What the caller gives: what makes one result of two, how to rank a value, the result of no values."""

Step = Callable[["Reader", Value], None]
Finish = Callable[["Reader"], None]


def _append(reader: Reader, value: Value) -> None:
    reader.variables[RESULT] = reader.build.op(ops.PY_APPEND, None, reader.variables[RESULT], value)


def _add(reader: Reader, value: Value) -> None:
    reader.variables[RESULT] = reader.build.op(ops.PY_BINARY, None, reader.variables[RESULT], value, op="+")


def _fold(reader: Reader, value: Value) -> None:
    function, so_far = reader.variables[FUNCTION], reader.variable(RESULT)
    reader.variables[RESULT] = reader.build.op(ops.PY_CALL, None, function, so_far, value)


def _from_first(next_step: Step) -> Step:
    """The first value is the first result; `next_step` is for the others."""

    def step(reader: Reader, value: Value) -> None:
        reader.variable(RESULT)
        some = reader.build.op(ops.PY_TRUTH, None, reader.variables[SOME])
        reader.stack.append(value)
        again, done = reader.fork(), reader.fork()
        reader.end(ops.BRANCH, [some], [Edge(again, reader.context()), Edge(done, reader.context())])
        reader.continue_in(again)
        next_step(reader, reader.stack.pop())
        reader.stack.append(reader.variables[RESULT])
        reader.end(ops.JUMP, [], [Edge(done, reader.context())])
        reader.continue_in(done)
        reader.variables[RESULT] = reader.stack.pop()
        reader.variables[SOME] = reader.build.op(ops.PY_CONST, None, value=True)

    return step


def _better(name: str) -> Step:
    """`min` or `max` of two."""

    def step(reader: Reader, value: Value) -> None:
        function = reader.build.op(ops.PY_CONST, None, value=getattr(builtins, name))
        reader.variables[RESULT] = reader.build.op(ops.PY_CALL, None, function, reader.variable(RESULT), value)

    return step


def _ranked(reader: Reader, value: Value) -> None:
    """Results are pairs of a rank and a value."""
    rank = reader.build.op(ops.PY_CALL, None, reader.variables[KEY], value)
    _from_first(_fold)(reader, reader.build.op(ops.PY_TUPLE, None, rank, value))


def _result(reader: Reader) -> None:
    reader.end(ops.RETURN, [reader.variable(RESULT)], [])


def _ranked_result(reader: Reader) -> None:
    one = reader.build.op(ops.PY_CONST, None, value=1)
    reader.end(ops.RETURN, [reader.build.op(ops.PY_GETITEM, None, reader.variable(RESULT), one)], [])


def _default(reader: Reader) -> None:
    reader.end(ops.RETURN, [reader.variables[DEFAULT]], [])


def _raising(error: Exception) -> Finish:
    def finish(reader: Reader) -> None:
        kind = reader.build.op(ops.PY_CONST, None, value=type(error))
        texts = (reader.build.op(ops.PY_CONST, None, value=text) for text in error.args)
        reader.build.effect(ops.PY_RAISE, reader.build.op(ops.PY_CALL, None, kind, *texts), kind="raise")
        reader.end(ops.UNREACHABLE, [], [])

    return finish


def _if_some(found: Finish, nothing: Finish) -> Finish:
    """`found` if there was a value."""

    def finish(reader: Reader) -> None:
        reader.variable(RESULT)
        some = reader.build.op(ops.PY_TRUTH, None, reader.variables[SOME])
        ways = reader.fork(), reader.fork()
        reader.end(ops.BRANCH, [some], [Edge(way, reader.context()) for way in ways])
        for way, end in zip(ways, (found, nothing), strict=True):
            reader.continue_in(way)
            end(reader)

    return finish


@dataclass(frozen=True, slots=True)
class Reduction:
    """What `yield` does, what the end does, and which variables get their first values from the caller."""

    step: Step
    finish: Finish = _result
    parameters: tuple[str, ...] = ()


def _extremes(name: str) -> dict[str, Reduction]:
    nothing = _raising(ValueError(f"{name}() iterable argument is empty"))
    return {
        name: Reduction(_from_first(_better(name)), _if_some(_result, nothing)),
        f"{name} key": Reduction(_ranked, _if_some(_ranked_result, nothing), (FUNCTION, KEY)),
        f"{name} key default": Reduction(_ranked, _if_some(_ranked_result, _default), (FUNCTION, KEY, DEFAULT)),
    }


_NOTHING_TO_REDUCE = TypeError("reduce() of empty iterable with no initial value")

REDUCTIONS = {
    "list": Reduction(_append, parameters=(RESULT,)),
    "sum": Reduction(_add, parameters=(RESULT,)),
    **_extremes("min"),
    **_extremes("max"),
    "fold": Reduction(_fold, parameters=(RESULT, FUNCTION)),
    "reduce": Reduction(_from_first(_fold), _if_some(_result, _raising(_NOTHING_TO_REDUCE)), (FUNCTION,)),
}
"""By name; the first word is the function that a message names."""
