"""What programs must reach: a row for every operator, function, conversion and join, with every pair of types that it takes.

Each program begins with some rows, so that together they reach all; `TOGETHER` are those for which all threads must meet.
"""

from __future__ import annotations

import itertools
from typing import Any

from reference import EVERY, EVERY_FIXED, REALS, is_complex, is_float, promote, unary_type

from fuzz import together
from fuzz.aggregates import vector_binary
from fuzz.calls import CALLS
from fuzz.control import If, joined
from fuzz.expressions import (
    BINARY,
    REGISTERS,
    UNARY,
    binary,
    call,
    extreme,
    register,
    settled,
    unary,
    view,
    viewable,
)
from fuzz.maker import ELEMENTS, Maker
from fuzz.programs import Assign, Expression, Statement, Vector

Row = tuple[Any, ...]


def _alone() -> list[Row]:
    rows: list[Row] = [(op, a, b) for op, a, b in itertools.product(BINARY, EVERY, EVERY) if settled(op, a, b)]
    rows += [(op, a) for op, a in itertools.product(UNARY, EVERY) if unary_type(op, a)]
    rows += [
        ("convert", a, b)
        for a, b in itertools.product(EVERY, EVERY)
        if a != "index" and (not is_complex(b) or is_complex(a) or a == "bool")
    ]
    rows += [(name, a) for name, row in CALLS.items() if row.arity == 1 for a in EVERY if row.takes(a)]
    rows += [
        (name, *types)
        for name, row in CALLS.items()
        if row.arity > 1
        for types in itertools.product(*[REALS] * 2)
        if row.arity == 2 and row.takes(*types) and row.result(*types)
    ]
    rows += [("fma", a, a, a) for a in REALS if is_float(a)]
    rows += [(name, a, b) for name in ("min", "max") for a, b in itertools.product(REALS, REALS) if promote(a, b)]
    rows += [("join", a, b) for a, b in itertools.product(EVERY, EVERY) if joined(a, b)]
    rows += [("view", a, b) for a, b in itertools.product(EVERY_FIXED, EVERY_FIXED) if viewable(a, b)]
    rows += [("position", type, k) for type, each in REGISTERS.items() for k in range(len(each))]
    rows += [("vector", t, n) for t in ELEMENTS for n in (1, 2, 3, 4)]
    return sorted(rows, key=str)


ALONE, TOGETHER = _alone(), list(together.ROWS)


def of_row(make: Maker, row: Row) -> Statement | None:
    """A statement with this row of `ALONE`."""
    if row[0] == "join":
        name, asked = make.fresh(), make.expression("bool", 1)
        type = joined(row[1], row[2])
        ways = tuple((Assign((make.leaf(each),), (), (name,), (each,)),) for each in row[1:])
        make.define(name, type)
        make.rows.add(row)
        return If((asked,), ways, ((name, type),))
    x = _expression(make, row)
    if x is None:
        return None
    name = make.fresh()
    make.define(name, x.type)
    return Assign((x,), (), (name,), (x.type,))


def _expression(make: Maker, row: Row) -> Expression | None:
    name, *types = row
    if name == "vector":
        return vector_binary(make, Vector(*types), 2) or make.made_of(Vector(*types), 1)
    if name == "position":
        return register(make, *types)
    operands = [make.leaf(each) for each in types]
    if name == "convert":
        return make.convert_to(types[0], operands[1])
    if name == "view":
        return view(make, types[0], types[1], operands[0])
    if name in ("min", "max"):
        return extreme(make, name, operands)
    if name in CALLS:
        return call(make, name, operands)
    return binary(make, name, *operands) if len(operands) == 2 else unary(make, name, *operands)
