"""Vectors and structs of the host, against tuples of NumPy's scalars, and the rules of Python.

device.int8x2(100, 3) + device.int16x2(1, 2)        int16x2(101, 5), as np.int8(100) + np.int16(1)
S(a=1, b=2.5), S(1, c=3)                            the members in order, each of its type, or TypeError
join(a, b) == join(b, a), and it holds both
"""

from __future__ import annotations

import copy
import operator
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import reference

import cuda_device as device
from cuda_device.types import structs, vectors
from fuzz.models import BUILTIN, FIXED

AXES = "xyzw"
SCALARS = {name: dtype.type for name, dtype in FIXED.items() if name != "bool" and "complex" not in name}
_TWO = {
    name: getattr(operator, name) for name in "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift".split()
}
_ONE = {name: getattr(operator, name) for name in ("neg", "pos", "invert", "abs")}


def outcome(run: Callable[[], Any]) -> Any:
    """What it gives, or the class of its error."""
    try:
        with np.errstate(all="ignore"):
            return run()
    except (TypeError, ValueError, IndexError, AttributeError, OverflowError, ZeroDivisionError) as error:
        return f"raises {'IndexError' if isinstance(error, IndexError) else 'an error'}"


def _number(choose: random.Random, name: str) -> Any:
    values = reference.edges(name)
    value = choose.choice(values) if choose.random() < 0.3 else choose.randint(0, 9)
    return SCALARS[name](value)


def a_vector(choose: random.Random, size: int) -> tuple[Any, tuple[Any, ...]]:
    """A vector, and its numbers."""
    name = choose.choice([*SCALARS])
    items = tuple(_number(choose, name) for _ in range(size))
    return getattr(device, f"{name}x{size}")(*items), items


def _shown(value: Any) -> Any:
    """The class and the numbers of a vector, and of those of a tuple that would be one."""
    if isinstance(value, vectors.VectorValue):
        return type(value).__name__, tuple(map(repr, value))
    return value


def _expected(items: Any) -> Any:
    if not isinstance(items, tuple):
        return items
    kinds = {type(item) for item in items}
    name = next((name for name, scalar in SCALARS.items() if {scalar} == kinds), None)
    return "raises an error" if name is None else (f"{name}x{len(items)}", tuple(map(repr, items)))


def arithmetic(choose: random.Random) -> str | None:
    """Operators of vectors are those of their numbers."""
    size = choose.randint(1, 4)
    (v, first), (w, second) = a_vector(choose, size), a_vector(choose, choose.choice((size, size, size, size % 4 + 1)))
    name = choose.choice([*_TWO])
    function = _TWO[name]
    number = choose.choice((2, 3.5, True, _number(choose, choose.choice([*SCALARS])), np.float64(0.5), None, [1], (2,)))
    is_number = isinstance(number, bool | int | float | np.generic)
    few = range(size)
    sames: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
        ("of two", lambda: function(v, w), lambda: tuple(map(function, first, second)) if len(w) == size else 1 / 0),
        (
            "and a number",
            lambda: function(v, number),
            lambda: tuple(function(first[i], number) for i in few) if is_number else 1 / 0,
        ),
        (
            "a number and",
            lambda: function(number, v),
            lambda: tuple(function(number, first[i]) for i in few) if is_number else 1 / 0,
        ),
    ]
    one = choose.choice([*_ONE])
    sames.append((one, lambda: _ONE[one](v), lambda: tuple(map(_ONE[one], first))))
    for what, ours, theirs in sames:
        found, expected = _shown(outcome(ours)), _expected(outcome(theirs))
        if found != expected:
            return f"{name} {what} {v}, {w}, {number!r} is {found}, not {expected}"
    return None


def parts(choose: random.Random) -> str | None:
    """Elements, comparisons, copies, and what vectors refuse."""
    size = choose.randint(1, 4)
    v, items = a_vector(choose, size)
    name, index, made = type(v).__name__, choose.randint(-6, 6), type(v)
    axis, item = choose.randrange(size), items[0]
    changed = (*items[:axis], item, *items[axis + 1 :])
    place = index % size if -size <= index < size else None
    w, others = a_vector(choose, size)
    rows: list[tuple[str, Any, Any]] = [
        ("items", [*map(repr, v)], [*map(repr, items)]),
        ("size", (len(v), int(made.size), made.dtype), (size, size, type(items[0]))),
        ("axes", [repr(getattr(v, AXES[i])) for i in range(size)], [*map(repr, items)]),
        ("other axes", [hasattr(v, each) for each in AXES], [i < size for i in range(4)]),
        ("element", repr(outcome(lambda: v[index])), repr(outcome(lambda: items[index]))),
        ("text", repr(v), f"{name}({', '.join(map(str, items))})"),
        ("equal", v == w, all(a == b for a, b in zip(items, others, strict=True))),
        ("different", v != w, not all(a == b for a, b in zip(items, others, strict=True))),
        ("of another kind", (v == items, v == 1), (False, False)),
        ("hash", hash(v) == hash(made(*items)), all(each == each for each in items) or hash(v) == hash(made(*items))),
        ("copy", [*map(repr, copy.copy(v))] + [*map(repr, pickle.loads(pickle.dumps(v)))], [*map(repr, items)] * 2),
        ("replace", [*map(repr, device.replace(v, **{AXES[axis]: item}))], [*map(repr, changed)]),
        ("bad replace", outcome(lambda: device.replace(v, u=1)), "raises an error"),
        ("assign", outcome(lambda: setattr(v, AXES[axis], 1)), "raises an error"),
        ("delete", outcome(lambda: delattr(v, "x")), "raises an error"),
        ("set", outcome(lambda: operator.setitem(v, 0, 1)), "raises an error"),
        ("with item", outcome(lambda: [*map(repr, v.__setitem__(index, item))]),
            "raises IndexError" if place is None else [*map(repr, (*items[:place], item, *items[place + 1 :]))]),
        ("few", outcome(lambda: made(*items[1:])), "raises an error"),
        ("many", outcome(lambda: made(*items, 1)), "raises an error"),
        ("text", outcome(lambda: made(*items[1:], "a")), "raises an error"),
        ("array", outcome(lambda: made(*items[1:], np.zeros(2))), "raises an error"),
        ("float index", outcome(lambda: v[1.0]), "raises an error"),
        ("module", made.__module__, "cuda_device"),
        ("hint", vectors.host_vector(made.model), made),
    ]  # fmt: skip
    return next(
        (
            f"{what} of {v}, {index}, {w} is {found!r}, not {wanted!r}"
            for what, found, wanted in rows
            if found != wanted
        ),
        None,
    )


# Structs

_HINTS: dict[str, tuple[Any, Any]] = {
    **{name: (scalar, scalar) for name, scalar in SCALARS.items()},
    "bool": (bool, bool), "int": (int, int), "float": (float, float), "complex": (complex, complex),
    "complex64": (np.complex64, np.complex64), "vector": (device.float32x2, None), "tuple": (tuple[int, device.int8], None),
    "none": (None, None), "aligned": (device.align(device.int16, 8), np.int16),
}  # fmt: skip
_RANK = {bool: 0, int: 1, float: 2, complex: 3}
_RANKS = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3, "V": 2}


def _given(choose: random.Random, name: str) -> Any:
    """A value for a member, which may be none for it."""
    wrong = choose.random() < 0.15
    if name == "vector":
        return device.float32x3(1, 2, 3) if wrong else device.float32x2(choose.randint(0, 9), 2.5)
    if name == "tuple":
        return (1,) if wrong else (choose.randint(0, 9), choose.choice((3, np.int8(4))))
    if name == "none":
        return 0 if wrong else None
    if wrong:
        return choose.choice(("text", None, np.float64(1.5), np.int64(3), 1j, (1,)))
    scalar = _HINTS[name][1]
    return choose.choice((choose.randint(0, 9), True, 2.5, scalar(3), scalar(1)))


def _member(name: str, value: Any) -> Any:
    """What a member becomes: a builtin number that is of its kind or a lower one, or one of its own format, is its type."""
    if name == "vector":
        return value if type(value) is device.float32x2 else 1 / 0
    if name == "tuple":
        if len(value) != 2:
            raise TypeError
        return _member("int", value[0]), _member("int8", value[1])
    if name == "none":
        return value if value is None else 1 / 0
    scalar = _HINTS[name][1]
    if type(value) is scalar:
        return value
    if isinstance(value, np.generic):
        own = BUILTIN[name].type if name in BUILTIN else scalar
        return scalar(value) if type(value) is own else 1 / 0
    kind = _RANK[scalar] if scalar in _RANK else 2 if name in reference.NARROW else _RANKS[np.dtype(scalar).kind]
    return scalar(value) if type(value) in _RANK and _RANK[type(value)] <= kind else 1 / 0


def declared(choose: random.Random) -> str | None:
    """A struct of any members, made of any arguments: as a class of the rules of Python for calls."""
    names = choose.sample(("a", "b", "c", "d"), choose.randint(0, 4))
    kinds = [choose.choice([*_HINTS]) for _ in names]
    defaults = {name: _given(choose, kind) for name, kind in zip(names, kinds, strict=True) if choose.random() < 0.2}
    hints = {name: _HINTS[kind][0] for name, kind in zip(names, kinds, strict=True)}
    align = choose.choice((0, 8))
    made = device.struct(type("S", (), {"__annotations__": hints, **defaults}))
    if align:
        made = device.align(made, align)
    values = {name: _given(choose, kind) for name, kind in zip(names, kinds, strict=True)}
    count = choose.randint(0, len(names))
    left = [name for name in names[count:] if name not in defaults or choose.random() < 0.7]
    keywords = {name: values[name] for name in choose.sample(left, len(left))}
    arguments = [values[name] for name in names[:count]]
    match choose.randrange(12):
        case 0:
            keywords["e"] = 1
        case 1:
            arguments.append(1)
        case 2 if keywords:
            keywords.popitem()
        case 3 if count:
            keywords[names[0]] = 1

    def members() -> tuple[Any, ...]:
        if (
            len(arguments) > len(names)
            or set(keywords) & set(names[: len(arguments)])
            or not set(keywords) <= set(names)
        ):
            raise TypeError
        all_of_them = defaults | dict(zip(names, arguments, strict=False)) | keywords
        return tuple(
            _member(kind, all_of_them[name])
            for name, kind in zip(names, kinds, strict=True)
            if name in all_of_them or 1 / 0
        )

    found = outcome(lambda: made(*arguments, **keywords))
    expected = outcome(members)
    shown = f"S{hints}(*{arguments}, **{keywords}), with {defaults},"
    if isinstance(found, str) or isinstance(expected, str):
        return None if found == expected else f"{shown} is {found!r}, not {expected!r}"
    mine = tuple(getattr(found, name) for name in names)
    if repr(mine) != repr(expected):
        return f"{shown} is {mine}, not {expected}"
    return _laws(choose, made, found, dict(zip(names, expected, strict=True)), align)


def _laws(choose: random.Random, made: Any, value: Any, members: dict[str, Any], align: int) -> str | None:
    """What all structs have in common."""
    again, name = made(**members), choose.choice([*members, "e"])
    other = device.struct(type("S", (), {"__annotations__": dict(made.__annotations__)}))(**members)
    shown = {
        key: f"({', '.join(map(str, part))})" if isinstance(part, tuple) else str(part) for key, part in members.items()
    }
    text = f"S({', '.join(f'{key}={part}' for key, part in shown.items())})"
    changed = outcome(lambda: device.replace(value, **{name: members[name] if name in members else 0}))
    rows: list[tuple[str, Any, Any]] = [
        ("equal", (value == again, value != again), (True, False)),
        ("hash", hash(value), hash(again)),
        ("of another class", (value == other, value == tuple(members.values())), (False, False)),
        ("text", repr(value), text),
        ("assign", outcome(lambda: setattr(value, name, 1)), "raises an error"),
        ("delete", outcome(lambda: delattr(value, name)), "raises an error"),
        ("replace", changed, value if name in members else "raises an error"),
        ("matched", made.__match_args__, tuple(members)),
        ("model", structs.is_struct(made) and structs.model_of(made).name, "S"),
        ("fields", [field.name for field in structs.model_of(made).fields], list(members)),
        ("copy", copy.copy(value) == value, True),
        ("aligned", device.alignof(made) >= align and (not align or device.align(made, 4) is made), True),
        (
            "wider",
            (device.alignof(device.align(made, 64)), device.align(made, 64) is device.align(made, 64)),
            (64, True),
        ),
        ("subclass", outcome(lambda: type("T", (made,), {})), "raises an error"),
        (
            "alignments",
            [outcome(lambda n=n: device.align(made, n)) == "raises an error" for n in (0, 3, -8, 2**17, True, 2.0)],
            [True] * 6,
        ),
    ]
    if any(isinstance(part, float | complex | np.generic) and part != part for part in members.values()):
        rows = rows[3:5]
    return next(
        (f"{what} of {text} is {found!r}, not {wanted!r}" for what, found, wanted in rows if found != wanted), None
    )


_METHODS = ("__init__", "__new__", "__setattr__", "__delattr__", "__getattribute__", "__post_init__")


def refused(choose: random.Random) -> str | None:
    """Classes that are no structs."""
    name = choose.choice(_METHODS)
    bad: dict[str, Callable[[], Any]] = {
        name: lambda: device.struct(type("S", (), {"__annotations__": {"a": int}, name: lambda self: None})),
        "base": lambda: device.struct(type("S", (int,), {"__annotations__": {"a": int}})),
        "hint": lambda: device.struct(
            type("S", (), {"__annotations__": {"a": choose.choice((str, list, 3, np.str_))}})
        ),
        "name": lambda: device.struct(
            type("S", (), {"__annotations__": {choose.choice(("underlying", "_defaults")): int}})
        ),
        "no class": lambda: device.struct(choose.choice((3, "S", lambda: 0))),
        "align": lambda: device.struct(align=choose.choice((3, -1, 2**20, 1.5)))(type("S", (), {})),
        "atomics": lambda: device.struct(type("S", (), {"__annotations__": {"a": device.Atomic(device.int32)}}))(1),
        "default": lambda: device.struct(
            type("S", (), {"__annotations__": {"a": device.Atomic(device.int32)}, "a": 3})
        ),
        "replace": lambda: device.replace(choose.choice((3, (1,), None)), x=1),
    }
    return next(
        (f"a struct with a bad {what} is none" for what, run in bad.items() if outcome(run) != "raises an error"), None
    )


CHECKS = (arithmetic, arithmetic, arithmetic, parts, parts, declared, declared, declared, refused)
