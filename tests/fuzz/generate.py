"""Makes programs: typed, sensible, and such that every thread's results are settled by the rules.

    program(7, inputs(7))       the same program whenever it is asked for

The tables say what there is, and how often each is tried. Of five hundreds of programs one is of threads that work together, and
two are of `cases`, of which something else is expected than numbers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import reference
from reference import EVERY, convert

from fuzz import aggregates, expressions, functions, statements, tables, together
from fuzz.cases import Case
from fuzz.kinds import case
from fuzz.maker import ARRAYS, LENGTH, Maker, Tables
from fuzz.places import places
from fuzz.programs import THREADS, Expression, Open, Program, Statement, parts, variable
from fuzz.sweep import ALONE, TOGETHER, Row, of_row

SLOTS = 9
PER_PROGRAM = 7
"""How many rows of the sweep a program begins with."""
BUILTIN_STORED = {"int": "int32", "index": "int64", "float": "float32", "complex": "complex64"}
RUN = 96
"""So many programs one after the other are of one sort."""
SORTS = ("alone", "cases", "together", "cases", "alone")

TABLES = Tables(
    expressions=(
        *[expressions.some_binary] * 5,
        expressions.some_unary,
        expressions.converted,
        *[expressions.some_call] * 2,
        expressions.some_extreme,
        *[expressions.choice] * 2,
        expressions.chained,
        expressions.complex_of,
        expressions.position,
        expressions.some_view,
        tables.of_table,
        tables.of_list,
        aggregates.of_tuple,
        aggregates.of_vector,
        *[aggregates.vector_binary] * 2,
        aggregates.vector_unary,
        aggregates.vectors_equal,
        aggregates.of_struct,
        *[aggregates.of_array] * 2,
        aggregates.sliced,
        aggregates.over_array,
        *[functions.of_function] * 2,
    ),
    statements=(
        *[statements.assign] * 3,
        *[statements.augment] * 2,
        statements.unpack,
        statements.assertion,
        *[statements.part] * 2,
        *[statements.local] * 2,
        *[statements.store] * 2,
        *[statements.branch] * 2,
        *[statements.loop] * 3,
    ),
    inner=(
        statements.assertion,
        statements.assign,
        statements.augment,
        statements.unpack,
        statements.part,
        statements.store,
        statements.branch,
    ),
)


def inputs(seed: int) -> dict[str, list[Any]]:
    """What the arrays hold: values at which mistakes show, and others, small ones first."""
    choose = random.Random(seed)
    found = {}
    for type in ARRAYS:
        edges = reference.edges(type)
        values = [choose.choice(edges) for _ in range(LENGTH)]
        if type != "bool":
            small = [convert(type, choose.randint(0 if type.startswith("u") else -9, 9)) for _ in range(LENGTH)]
            if reference.is_complex(type):
                small = [value + 1j * choose.choice([0.5, 1.0, -2.0]) for value in small]
            values = [s if choose.random() < 0.5 else v for s, v in zip(small, values, strict=True)]
        found[type] = values
    return found


def sort(number: int) -> str:
    """Whether the threads of a program are `alone` or meet, or it is one of the `cases`."""
    return SORTS[number % 10**9 // RUN % len(SORTS)]


def ordinal(number: int) -> int:
    """How many programs of its sort come before a program, from the start of its seed."""
    groups, rest = divmod(number % 10**9, RUN)
    turns, place = divmod(groups, len(SORTS))
    mine = SORTS[place]
    return (turns * SORTS.count(mine) + SORTS[:place].count(mine)) * RUN + rest


def program(number: int, given: dict[str, list[Any]]) -> Program | Case:
    """The program of a number."""
    at, meets = ordinal(number), sort(number) == "together"
    if sort(number) == "cases":
        return case(number - number % 10**9 + at)
    alone = [ALONE[(at * PER_PROGRAM + k) % len(ALONE)] for k in range(2 if meets else PER_PROGRAM)]
    together = [TOGETHER[(at * 3 + k) % len(TOGETHER)] for k in range(3)] if meets else []
    return of_rows(number, given, alone, together)


def of_rows(
    number: int,
    given: dict[str, list[Any]],
    alone: Sequence[Row],
    meeting: Sequence[Row],
    others: bool = True,
) -> Program:
    """A program that begins with these rows, and goes on with `others`."""
    make = Maker(number, given, TABLES)
    for _ in range(make.random.randint(0, 2)):
        try:
            functions.make_function(make)
        except Open:
            continue
    body: list[Statement] = []
    swept: list[str] = []
    makers: list[Any] = [lambda row=row: of_row(make, row) for row in alone]
    makers += [lambda row=row: together.of_row(make, row) for row in meeting]
    for each in makers:
        if make.try_add(body, each, tries=60):
            swept.append(f"v{make.count}")
    for _ in range(make.random.randint(1, 5) if others else 0):
        make.try_add(body, lambda: make.statement(2))
    if others and meeting and make.chance(0.3):
        make.try_add(body, lambda: together.in_a_loop(make))
    stores = _stores(make, swept)
    return Program(number, tuple(body), stores, tuple(make.functions), frozenset(make.rows))


def _stores(make: Maker, swept: Sequence[str]) -> tuple[Expression, ...]:
    """What the program shows: the newest variables, parts of tuples, elements of arrays."""
    shown: list[Expression] = []
    first = [name for name in swept if make.types.get(name) in EVERY]
    rest = [name for name in reversed(make.types) if name not in first]
    for name in (*first, *rest):
        todo = [variable(name, make.types[name])]
        while todo:
            each = todo.pop()
            inside = parts(each.type)
            if inside:
                member = (lambda i: f"[{i}]") if isinstance(each.type, tuple) else (lambda i: f".{aggregates.AXES[i]}")
                todo += [
                    Expression(part, f"{{}}{member(i)}", (each,), lambda t, i=i: t[i]) for i, part in enumerate(inside)
                ]
            else:
                shown.append(each)
    arrays = [_shown(make, name) for name in make.scope.arrays]
    kept = min(len(first), SLOTS - 2)
    return tuple([*shown[:kept], *arrays[:2], *shown[kept:], *arrays[2:]][:SLOTS])


def _shown(make: Maker, name: str) -> Expression:
    """A number in an array."""
    array = make.scope.arrays[name]
    at = tuple(make.random.randrange(n) for n in array.shape)
    where = int(places(array.shape)[at])
    text = f"{{}}[{', '.join(map(str, at))}]"
    found = Expression(array.dtype, text, (variable(name, array),), lambda values: values[where])
    inside = parts(found.type)
    if inside:
        member = make.random.randrange(len(inside))
        return Expression(inside[member], f"{{}}.{aggregates.AXES[member]}", (found,), lambda t: t[member])
    return found


__all__ = ["ARRAYS", "BUILTIN_STORED", "SLOTS", "THREADS", "inputs", "program"]
