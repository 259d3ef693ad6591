"""Expressions with tuples, vectors, structs and arrays: their elements, operators on them, slices, and what runs over them."""

from __future__ import annotations

import operator
from typing import Any

import reference
from reference import EVERY_FIXED, REALS, convert, promote, result_type, unary_type

from fuzz.expressions import BINARY, settled
from fuzz.maker import ELEMENTS, Maker
from fuzz.places import places
from fuzz.programs import Expression, Struct, Type, Vector, parts, variable

COMPARE = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
AXES = "xyzw"


def of_tuple(make: Maker, type: Type, depth: int) -> Expression | None:
    """An element of a tuple variable."""
    for name, each in make.types.items():
        at = [i for i, part in enumerate(each) if part == type] if isinstance(each, tuple) else []
        if at:
            place = make.pick(at)
            shown = place if make.chance(0.5) else place - len(each)
            return Expression(type, f"{{}}[{shown}]", (variable(name, each),), lambda t, at=place: t[at], kind="t[i]")
    return None


# Vectors


def of_vector(make: Maker, type: Type, depth: int) -> Expression | None:
    """An element of a vector."""
    if type not in ELEMENTS:
        return None
    whole = make.expression(Vector(type, make.pick([1, 2, 2, 3, 3, 4, 4])), depth - 1)
    size = whole.type.size
    make.rows.add(("element", type, size))
    if size in (2, 4) and make.chance(0.3):
        return Expression(type, "{}[{}]", (whole, make.index(size, 1)), lambda v, i: v[i], kind="v[i]")
    place = make.random.randrange(size)
    member = make.pick([f".{AXES[place]}", f"[{place}]", f"[{place - size}]"])
    return Expression(type, f"{{}}{member}", (whole,), lambda v: v[place], kind="v.x")


def vector_binary(make: Maker, type: Type, depth: int) -> Expression | None:
    """An operator on the elements of vectors, or of a vector and a number."""
    if not isinstance(type, Vector):
        return None
    op, other = make.pick(BINARY[:6] if make.chance(0.8) else ("&", "|", "^", "<<", ">>")), type.element
    if make.chance(0.3):
        other = make.pick(ELEMENTS)
    form = make.pick(["vv", "vv", "vn", "nv"])
    a, b = type.element, other
    if form == "vn" and make.chance(0.5):
        b = make.pick(reference.NUMBERS)
    if form == "nv":
        a, b = make.pick([other, "int", "float"]), type.element
    result = result_type(op, a, b)
    if result is None or not settled(op, a, b) or _machine(result) != type.element:
        return None
    left = make.expression(Vector(a, type.size) if form[0] == "v" else a, depth - 1)
    right = make.expression(Vector(b, type.size) if form[1] == "v" else b, depth - 1)
    if form == "vn" and make.chance(0.3) and op not in ("<<", ">>"):
        right = make.literal(a)
        b = right.type
        if result_type(op, a, b) is None or _machine(result_type(op, a, b)) != type.element:
            return None
    make.rows.add((op, Vector(a, type.size) if form[0] == "v" else a, Vector(b, type.size) if form[1] == "v" else b))

    def compute(x: Any, y: Any) -> Any:
        xs = x if form[0] == "v" else (x,) * type.size
        ys = y if form[1] == "v" else (y,) * type.size
        found = tuple(reference.binary(op, a, v, b, w) for v, w in zip(xs, ys, strict=True))
        return reference.UNSPECIFIED if any(each is reference.UNSPECIFIED for each in found) else found

    return Expression(type, f"({{}} {op} {{}})", (left, right), compute, kind=f"v {op} v")


def _machine(type: Type) -> Type:
    """What a vector's elements are where arithmetic gives a builtin number."""
    return {"int": "int32", "index": "int64", "float": "float32", "bool": None}.get(type, type)


def vector_unary(make: Maker, type: Type, depth: int) -> Expression | None:
    """`-v`, `+v`, `~v`, or one with an element changed."""
    if not isinstance(type, Vector):
        return None
    whole = make.expression(type, depth - 1)
    if make.chance(0.4):
        place = make.random.randrange(type.size)
        new = make.expression(make.pick([type.element, "int8"]), depth - 1)
        text = make.pick(["device.replace({}, " + AXES[place] + "={})", "{}.__setitem__(" + str(place) + ", {})"])
        return Expression(
            type,
            text,
            (whole, new),
            lambda v, x: (*v[:place], convert(type.element, x), *v[place + 1 :]),
            kind="replace vector",
        )
    op = make.pick(["-", "+", "~"])
    if unary_type(op, type.element) != type.element:
        return None
    return Expression(
        type,
        f"({op} {{}})",
        (whole,),
        lambda v: tuple(reference.unary(op, type.element, x) for x in v),
        kind=f"{op}v",
    )


def vectors_equal(make: Maker, type: Type, depth: int) -> Expression | None:
    """`v == w`: one bool."""
    if type != "bool":
        return None
    size, op = make.random.randint(1, 4), make.pick(["==", "!="])
    a = make.pick(ELEMENTS)
    b = a if make.chance(0.7) else make.pick(ELEMENTS)
    if promote(a, b) is None:
        return None
    left, right = make.expression(Vector(a, size), depth - 1), make.expression(Vector(b, size), depth - 1)

    def compute(x: Any, y: Any) -> bool:
        return all(reference.compare("==", a, v, b, w) for v, w in zip(x, y, strict=True)) is (op == "==")

    return Expression("bool", f"({{}} {op} {{}})", (left, right), compute, kind="v == w")


# Structs


def of_struct(make: Maker, type: Type, depth: int) -> Expression | None:
    """A member, or a method's result."""
    if type not in EVERY_FIXED:
        return None
    struct = Struct(type, make.any_struct().second)
    form = make.random.randrange(4)
    whole = make.expression(struct, depth - 1)
    if form == 0:
        return Expression(type, "{}.x", (whole,), lambda s: s[0], kind="s.x")
    if form == 1:
        new = make.expression(type, depth - 1)
        return Expression(type, "device.replace({}, x={}).x", (whole, new), lambda s, x: x, kind="replace struct")
    if form == 2:
        other = make.expression(struct, depth - 1)
        return Expression(
            type,
            "({} + {}).x",
            (whole, other),
            lambda s, t: reference.binary("+", type, s[0], type, t[0]),
            kind="s + t",
        )
    z = make.pick([type, type, *reference.EVERY])
    if result_type("+", type, z) != type:
        return None
    third = make.expression(z, depth - 1)
    return Expression(
        type,
        "{}.plus({})",
        (whole, third),
        lambda s, x: reference.binary("+", type, s[0], z, x),
        kind="s.method()",
    )


# Arrays


def _arrays(make: Maker, dtypes: Any) -> list[str]:
    return [name for name, array in make.scope.arrays.items() if array.dtype in dtypes]


def element_of(make: Maker, name: str, depth: int) -> Expression:
    """`m[i]`, `m[i, j]` or `m[i][j]`, with indices of any integer type."""
    array = make.scope.arrays[name]
    indices = [make.index(length, depth) for length in array.shape]
    text = make.pick([", ".join("[{}]" for _ in indices).replace("], [", ", "), "[{}]" * len(indices)])
    at, operands = places(array.shape), (variable(name, array), *indices)
    kind = f"m[{', '.join('i' * len(indices))}]"
    return Expression(array.dtype, "{}" + text, operands, lambda values, *where: values[at[where]], kind=kind)


def of_array(make: Maker, type: Type, depth: int) -> Expression | None:
    """An element of one of the program's arrays, or a member of one."""
    names = _arrays(make, [type])
    if names:
        return element_of(make, make.pick(names), depth)
    for name, array in make.scope.arrays.items():
        at = [i for i, part in enumerate(parts(array.dtype)) if part == type]
        if at:
            return _member(element_of(make, name, depth), make.pick(at), type)
    return None


def _member(element: Expression, member: int, type: Type) -> Expression:
    return Expression(type, f"{{}}.{AXES[member]}", (element,), lambda s: s[member], kind="m[i].x")


SLICES = ("::-1", "1:", ":-1", "::2", "-3:", "1:3", "3:0:-1", "-1::-2")


def sliced(make: Maker, type: Type, depth: int) -> Expression | None:
    """An element of a slice, of a transposed or reshaped array."""
    names = _arrays(make, [type])
    if not names:
        return None
    name = make.pick(names)
    seen = some_view_of(make, name)
    if seen is None:
        return None
    text, at = seen
    indices = tuple(make.random.randrange(-n, n) for n in at.shape)
    operand, place = variable(name, make.scope.arrays[name]), int(at[indices])
    shown = ", ".join(map(str, indices))
    return Expression(type, f"{{}}{text}[{shown}]", (operand,), lambda values: values[place], kind="m[a:b]")


def some_view_of(make: Maker, name: str) -> tuple[str, Any] | None:
    """What stands behind an array's name for a view of it, and the numbers of the view's elements in its base."""
    at = places(make.scope.arrays[name].shape)
    if at.ndim == 1:
        text = make.pick(SLICES)
        start_stop_step = [int(each) if each else None for each in text.split(":")]
        found = at[slice(*start_stop_step)]
        form = make.random.randrange(4)
        if form == 0 and len(at) == 4:
            return ".reshape((2, 2))", at.reshape(2, 2)
        if not len(found):
            return None
        return (f"[{text}][::-1]", found[::-1]) if form == 1 else (f"[{text}]", found)
    row = make.random.randrange(at.shape[0])
    column = make.random.randrange(at.shape[1])
    options = [
        (".T", at.T), (f"[{row}]", at[row]), (f"[:, {column}]", at[:, column]), ("[::-1, 1:]", at[::-1, 1:]),
        ("[..., 0]", at[..., 0]), (f"[{row}, ::-1]", at[row, ::-1]), ("[None, 0, 1]", at[None, 0, 1]),
    ]  # fmt: skip
    return make.pick([*options, (f".reshape({at.size})", at.reshape(at.size))])


def over_array(make: Maker, type: Type, depth: int) -> Expression | None:
    """`sum`, `any`, `all`, `min` or `max` of a generator expression over an array of numbers."""
    if make.inside or type not in reference.EVERY:
        return None
    names = _arrays(make, REALS if type == "bool" else [type])
    names = [name for name in names if len(make.scope.arrays[name].shape) == 1]
    if not names:
        return None
    name = make.pick(names)
    array, item = make.scope.arrays[name], make.fresh()
    dtype = array.dtype
    function = make.pick(["any", "all"] if type == "bool" else ["sum", "sum", "min", "max"])
    if dtype not in REALS and function in ("min", "max"):
        function = "sum"
    if function == "sum" and result_type("+", dtype, "int") != dtype:
        return None
    scope = make.scope.copy()
    make.types[item] = dtype
    body = make.expression(type, depth - 1)
    make.scope = scope
    if function in ("min", "max") and body.type == "bool":
        return None

    def compute(inside: Any, values: Any) -> Any:
        found = [inside(value) for value in values]
        if function in ("any", "all"):
            return any(found) if function == "any" else all(found)
        if function == "sum":
            total: Any = convert(type, 0)
            for each in found:
                total = reference.binary("+", type, total, type, each)
                if total is reference.UNSPECIFIED:
                    return total
            return total
        best = found[0]
        for each in found[1:]:
            best = each if (each < best if function == "min" else each > best) else best
        return best

    return Expression(
        type,
        f"{function}({{1}} for {item} in {{0}})",
        (variable(name, array), body),
        compute,
        binds=((item, dtype),),
        kind=f"{function}(… for …)",
    )
