"""Statements of one thread: assignments, branches, loops, and changes of parts. Each makes one, or None."""

from __future__ import annotations

from typing import Any

import numpy as np
from reference import EVERY, EVERY_FIXED, REALS, is_complex, result_type

from fuzz.aggregates import AXES, some_view_of
from fuzz.control import Assert, If, Leave, Loop, Match, joined, joined_all
from fuzz.expressions import BINARY, binary, condition
from fuzz.maker import COMMON, ELEMENTS, WHOLE, Maker
from fuzz.places import Local, Part, Store, places
from fuzz.programs import Array, Assign, Expression, Statement, Struct, Type, Vector, parts, variable

UNSIZED = ("uint64", "bool", "index")


def some_type(make: Maker) -> Type:
    """The type of a new variable."""
    if make.chance(0.7):
        return make.pick(COMMON)
    some = [("int8", "float32"), ("int", ("uint8", "bool")), make.any_struct()]
    return make.pick([*some, *(Vector(make.pick(ELEMENTS), make.random.randint(1, 4)) for _ in range(3))])


def assign(make: Maker, depth: int) -> Statement | None:
    """`v = x`."""
    type = some_type(make)
    x = make.expression(type, make.random.randint(1, 3))
    name = make.fresh()
    make.define(name, type)
    return Assign((x,), (), (name,), (type,))


def augment(make: Maker, depth: int) -> Statement | None:
    """`v op= x`; its text shows the second operand alone."""
    names = make.names(changing=True)
    if not names:
        return None
    name = make.pick(names)
    x = binary(make, make.pick(BINARY[:12]), variable(name, make.types[name]), make.expression(make.pick(COMMON), 2))
    if x is None:
        return None
    return Assign((x,), (), (name,), (make.define(name, x.type),), f"{x.row[0]}=")


def unpack(make: Maker, depth: int) -> Statement | None:
    """`a, b = x, y`, of a tuple or of a vector."""
    if make.chance(0.3):
        type: Type = Vector(make.pick(ELEMENTS), make.random.randint(2, 4))
        types = parts(type)
        x = make.expression(type, 2)
    else:
        types = tuple(make.pick(COMMON) for _ in range(make.random.randint(2, 3)))
        x = make.made_of(types, 2)
    names = tuple(make.fresh() for _ in types)
    make.types.update(zip(names, types, strict=True))
    return Assign((x,), (), names, types)


def assertion(make: Maker, depth: int) -> Statement | None:
    """`assert x`."""
    return Assert((condition(make, 2),))


# Parts


def part(make: Maker, depth: int) -> Statement | None:
    """`v.x = a` or `v[i] = a` of a variable."""
    names = [n for n, t in make.types.items() if isinstance(t, (Vector, Struct)) and n not in make.scope.kept]
    if not names:
        return None
    name = make.pick(names)
    type = make.types[name]
    if isinstance(type, Struct):
        member = make.random.randrange(2)
        return Part((make.expression(parts(type)[member], 2),), (), name, type, member, f".{AXES[member]}")
    value = make.expression(make.pick([type.element, type.element, "int8"]), 2)
    if type.size in (2, 4) and make.chance(0.3):
        return Part((make.index(type.size, 2), value), (), name, type, -1, "[{}]")
    member = make.random.randrange(type.size)
    return Part((value,), (), name, type, member, make.pick([f".{AXES[member]}", f"[{member}]"]))


def local(make: Maker, depth: int) -> Statement | None:
    """A local array."""
    dtype: Type = make.pick(EVERY_FIXED)
    if make.chance(0.3):
        dtype = make.pick([Vector(make.pick(ELEMENTS), make.random.randint(2, 4)), make.any_struct()])
    shape = make.pick([(2,), (2,), (4,), (4,), (8,), (2, 2), (2, 4)])
    sources = [dtype, "int8", make.pick(REALS)] if dtype in REALS else [dtype]
    elements = tuple(make.expression(make.pick(sources), int(make.chance(0.4))) for _ in range(int(np.prod(shape))))
    name, type = make.fresh(), Array(dtype, shape)
    make.scope.arrays[name] = type
    return Local(elements, (), name, type)


def store(make: Maker, depth: int) -> Statement | None:
    """A store to an element, to a member of one, or to a slice."""
    if not make.scope.arrays:
        return None
    name = make.pick([*make.scope.arrays])
    array = make.scope.arrays[name]
    dtype, at = array.dtype, places(array.shape)
    sources = [dtype, dtype, make.pick(REALS)] if dtype in REALS else [dtype]
    indices = tuple(make.index(n, 2) for n in array.shape)
    text = f"[{', '.join('{}' for _ in indices)}]"
    if isinstance(dtype, (Vector, Struct)) and make.chance(0.5):
        member = make.random.randrange(len(parts(dtype)))
        value = make.expression(parts(dtype)[member], 2)
        return Store((*indices, value), (), name, array, at, member, f"{text}.{AXES[member]}")
    value = make.expression(make.pick(sources), 2)
    if at.ndim == 1 and dtype in EVERY and make.chance(0.2):
        found = some_view_of(make, name)
        if found is not None and found[1].ndim == 1:
            return Store((value,), (), name, array, found[1], -1, found[0], True)
    return Store((*indices, value), (), name, array, at, -1, text)


# Branches


def branch(make: Maker, depth: int) -> Statement | None:
    """Ways that leave the same variables, of types that join."""
    if depth <= 0:
        return None
    count = make.pick([1, 1, 2])
    found = _ways(make, depth, count + 1)
    if found is None:
        return None
    bodies, merged = found
    if make.chance(0.25):
        kind = make.pick(WHOLE)
        values = tuple((i,) if make.chance(0.6) else (i, i + 10) for i in range(count))
        on = make.masked("&", make.expression(kind, 2), 3)
        make.types.update(merged)
        return Match((on,), bodies, merged, values)
    conditions = tuple(condition(make, 2) for _ in range(count))
    make.types.update(merged)
    return If(conditions, bodies, merged)


def _ways(make: Maker, depth: int, count: int) -> Any:
    """Bodies, and what they leave; the scope is again that before them."""
    before = make.scope.copy()
    bodies, after = [], []
    for _ in range(count):
        make.scope = before.copy()
        bodies.append(make.body(depth - 1))
        after.append({name: type for name, type in make.types.items() if name in before.types})
    new = make.fresh()
    kinds: list[Type] = [make.pick(COMMON) for _ in bodies]
    kinds = [kind if joined(kinds[0], kind) else kinds[0] for kind in kinds]
    if joined_all(kinds) is None:
        kinds = [kinds[0] for _ in kinds]
    for i, kind in enumerate(kinds):
        make.scope = before.copy()
        make.scope.types = dict(after[i])
        bodies[i] = (*bodies[i], Assign((make.expression(kind, 2),), (), (new,), (kind,)))
        after[i][new] = kind
    make.scope = before.copy()
    merged: list[tuple[str, Type]] = []
    for name in (*before.types, new):
        if name == "i":
            continue
        ways = [each[name] for each in after]
        if len(ways) == 2 and all(way in EVERY for way in ways):
            make.rows.add(("join", *ways))
        type = joined_all(ways)
        if type is None:
            return None
        merged.append((name, type))
    return tuple(bodies), tuple(merged)


# Loops


def loop(make: Maker, depth: int) -> Statement | None:
    """A loop that carries one or two variables, whose types settle."""
    if depth <= 0:
        return None
    form = make.pick(["range", "range", "while", "tuple", "enumerate", "reversed"])
    counter = make.fresh()
    before = make.scope.copy()
    if form != "while":
        arguments, type = _head(make, form)
    names = make.names(changing=True)
    make.random.shuffle(names)
    make.scope.types = {name: each for name, each in before.types.items() if name not in names[:2]}
    if form == "while":  # its condition is asked again and again
        make.scope.arrays = {}
        arguments, type = _head(make, form)
        make.scope.arrays = dict(before.arrays)
    given = {counter: "int", f"{counter}e": type} if form == "enumerate" else {counter: type}
    make.types.update(given)
    make.scope.kept = before.kept | {*make.types, *given}
    carried = []
    for name in names[: make.random.randint(1, 2)]:
        op, x = make.pick(BINARY[:10]), make.expression(make.pick(COMMON), 2)
        settled: Type = before.types[name]
        for _ in range(4):
            after = result_type(op, settled, x.type)
            following = after and joined(settled, after)
            if following is None or following == settled:
                break
            settled = following
        if following is None or op == "**":
            return None
        if (
            form not in ("range", "while")
            and settled != before.types[name]
            and (form != "tuple" or is_complex(settled))
        ):
            return None  # the iterations may be done one by one, and their types then never meet
        carried.append((name, settled, op, x))
    body: list[Statement] = []
    if make.chance(0.3):
        body.append(Leave((condition(make, 2, ("bool",)),), (), make.pick(["break", "continue"])))
    for _ in range(make.pick([0, 0, 1, 1, 2])):
        inner = make.pick((store, store, assign, branch, loop, part, augment))(make, depth - 1)
        body += [inner] if inner is not None else []
    for name, settled, op, x in carried:
        made = binary(make, op, variable(name, settled), x)
        if made is None or joined(settled, made.type) != settled:
            return None
        body.append(Assign((made,), (), (name,), (settled,)))
    bodies = [tuple(body)]
    make.scope = before
    make.types.update({name: settled for name, settled, _, _ in carried})
    if make.chance(0.15) and carried:
        name, settled = carried[0][:2]
        bodies.append((Assign((make.expression(settled, 1),), (), (name,), (settled,)),))
    kept = tuple((name, settled) for name, settled, _, _ in carried)
    return Loop(arguments, tuple(bodies), form, counter, type, kept)


def _head(make: Maker, form: str) -> tuple[tuple[Expression, ...], Type]:
    """What a loop runs over, and the type of the items."""
    if form in ("tuple", "enumerate", "reversed"):
        type = make.pick(COMMON)
        least = 2 if form == "enumerate" else 1  # the number of an item that is alone is a constant
        return (make.made_of((type,) * make.random.randint(least, 3), 2),), type
    whole = make.pick([t for t in WHOLE if t not in UNSIZED])
    stop = make.masked("&", make.expression(whole, 1), 7)
    if form == "while":
        return (stop,), "int"
    number = make.random.randrange(4)
    if number == 0:
        value = make.random.randint(0, 6)
        return (Expression("int", str(value), (), lambda: value, literal=True),), "int"
    if number == 1 or whole.startswith("u"):
        return (stop,), whole
    start = make.masked("&", make.expression(whole, 1), 15)
    if number == 2:
        return (start, stop, Expression("int", "-1", (), lambda: -1, literal=True)), whole
    step = make.pick(["int8", "int", whole])
    middle = make.masked("&", make.expression(step, 1), 7)
    minus = Expression("int", "4", (), lambda: 4, literal=True)
    shifted = binary(make, "-", middle, minus)
    assert shifted is not None
    return (start, stop, shifted), joined(whole, shifted.type) or whole
