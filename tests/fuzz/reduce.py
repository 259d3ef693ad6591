"""Makes a program that fails small: leaves out statements and parts of expressions as long as it still fails in the same way."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

from fuzz.generate import THREADS
from fuzz.generate import joined as join_of
from fuzz.programs import Assign, Expression, If, Local, Loop, Open, Program, Statement, Store
from fuzz.run import Mismatch, check


def reduce(failed: Mismatch, given: dict[str, list[Any]], streams: Any, seconds: float = 60) -> Mismatch:
    """The smallest failure that is found in some time."""
    end = time.monotonic() + seconds
    kind = kind_of(failed)

    def fails(program: Program) -> Mismatch | None:
        if not is_consistent(program):
            return None
        try:
            for thread in range(THREADS):
                program.expected({"i": thread})
        except (Open, LookupError, TypeError, ValueError, OverflowError, AttributeError, AssertionError):
            return None
        return next((each for each in check([program], given, streams) if kind_of(each) == kind), None)

    return smallest(failed, fails, end)


def smallest(failed: Mismatch, fails: Callable[[Program], Mismatch | None], end: float) -> Mismatch:
    """Goes from failure to smaller failure until none is left, or the time is over."""
    going = True
    while going:
        going = False
        for less in failed.program.smaller():
            if time.monotonic() > end:
                return failed
            found = fails(less)
            if found is not None:
                failed, going = found, True
                break
    return failed


def kind_of(mismatch: Mismatch) -> str:
    """A wrong value, or the name of an error."""
    return "value" if mismatch.slot >= 0 else mismatch.where.split(": ")[1]


def is_consistent(program: Program) -> bool:
    """Whether every variable is still what its uses say: without a statement it may be of another type."""
    types: dict[str, Any] = {"i": "int32"}
    return _holds(program.body, types) and all(_uses(store, types) for store in program.stores)


def _uses(expression: Expression, types: dict[str, Any]) -> bool:
    return all(types.get(part.name) == part.type for part in expression.all() if part.name)


def _holds(body: Sequence[Statement], types: dict[str, Any]) -> bool:
    return all(_holds_one(statement, types) for statement in body)


def _holds_one(statement: Statement, types: dict[str, Any]) -> bool:
    match statement:
        case Loop(carried=carried, counter=counter, type=type):
            if not all(_uses(x, types) for x in statement.expressions):
                return False
            types |= dict(carried)
            inside = types | {counter: type}
            return all(_holds(body, dict(inside)) for body in statement.bodies)
        case If(joined=joined):
            if not all(_uses(x, types) for x in statement.expressions):
                return False
            ways = [dict(types) for _ in statement.bodies]
            if not all(_holds(body, way) for body, way in zip(statement.bodies, ways, strict=True)):
                return False
            for name, type in joined:
                found = [way.get(name) for way in ways]
                if None in found or functools.reduce(lambda a, b: a and join_of(a, b), found) != type:
                    return False
            types |= dict(joined)
            return True
        case Assign(names=names, types=given):
            fits = all(_uses(x, types) for x in statement.expressions)
            result = statement.expressions[0].type
            types |= dict(zip(names, given, strict=True))
            return fits and (result == given[0] or result == given)
        case Local(array=array, dtype=dtype):
            fits = all(_uses(x, types) for x in statement.expressions)
            types[array] = ("local", dtype)
            return fits
        case Store(array=array, dtype=dtype):
            return types.get(array) == ("local", dtype) and all(_uses(x, types) for x in statement.expressions)
    return all(_uses(x, types) for x in statement.expressions)
