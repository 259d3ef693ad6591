"""Reads types from the text of IR, in which they print as `str(type)`.

parse_type("array<float32, 1, C>")      Array(FLOAT32, 1)
"""

from __future__ import annotations

import ast
import re

from cuda_device.types.model import (
    NONE,
    NUMBERS,
    STATIC,
    Array,
    AtomicCell,
    Bundle,
    Field,
    Layout,
    Pointer,
    Range,
    RangeIterator,
    Ref,
    Space,
    Struct,
    Subarray,
    Tuple,
    Type,
    Vector,
)

_SIMPLE: dict[str, Type] = {**NUMBERS, "none": NONE, "static": STATIC}
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_STRUCT = re.compile(r"(\w+)(?:\s+align (\d+))?(?:\s+size (\d+))?")
_MEMBER = re.compile(rf"(\w+|{_QUOTED})\s*:(.+?)(?:\s+align (\d+))?(?:\s+at (\d+))?", re.DOTALL)


def parse_type(text: str) -> Type:
    """The type that prints as `text`: `parse_type(str(T)) == T` for every type. Raises `ValueError` for anything else."""
    try:
        type = _type(text)
    except (KeyError, SyntaxError):
        type = NONE
    if re.sub(r"\s", "", str(type)) != re.sub(r"\s", "", text):
        raise ValueError(f"unknown type {text.strip()!r}")
    return type


def _type(text: str) -> Type:
    """The type for a text that may have mistakes."""
    name, _, inside = text.strip().removesuffix(">").partition("<")
    match name.strip(), split_list(inside):
        case "tuple", elements:
            return Tuple(tuple(map(_type, elements)))
        case "bundle", elements:
            return Bundle(tuple(map(_type, elements)))
        case "vector", [dtype, size]:
            return Vector(NUMBERS[dtype], int(size))
        case "struct", [head, *members]:
            return _struct(head, members)
        case "subarray", [dtype, *shape]:
            return Subarray(_type(dtype), tuple(map(int, shape)))
        case "array", [dtype, ndim, layout, *flags]:
            space = next((Space(flag) for flag in flags if flag in _SPACES), Space.GLOBAL)
            options = "readonly" in flags, space, _alignment(flags), "small" in flags, _lengths(flags)
            return Array(_type(dtype), int(ndim), Layout(layout), *options)
        case "ref", [space_name, pointee, *flags]:
            return Ref(Space(space_name), _type(pointee), "readonly" in flags, _alignment(flags))
        case "pointer", [dtype, *flags]:
            return Pointer(_type(dtype), "readonly" in flags)
        case "atomic", [dtype]:
            return AtomicCell(_type(dtype))
        case "range", [item]:
            return Range(NUMBERS[item])
        case "range_iterator", [item, *counter]:
            return RangeIterator(NUMBERS[item], *(NUMBERS[number] for number in counter[:1]))
    return _SIMPLE[name]


_SPACES = frozenset(space.value for space in Space)


def _alignment(flags: list[str]) -> int:
    return next((int(flag.removeprefix("align")) for flag in flags if flag.startswith("align")), 0)


def _lengths(flags: list[str]) -> tuple[int, ...]:
    return next((tuple(map(int, flag.split("x"))) for flag in flags if flag[0].isdigit()), ())


def _struct(head: str, members: list[str]) -> Struct:
    """The struct with this name, alignment and size."""
    named, matches = _STRUCT.fullmatch(head), [_MEMBER.fullmatch(member) for member in members]
    if named is None or None in matches:
        raise ValueError(f"{head!r} is no struct")
    fields = [
        Field(ast.literal_eval(name) if name[0] in "'\"" else name, _type(type), int(align or 0), int(offset or -1))
        for name, type, align, offset in (match.groups() for match in matches if match is not None)
    ]
    return Struct(named[1], tuple(fields), int(named[2] or 0), size=int(named[3] or 0))


def split_list(text: str) -> list[str]:
    """Splits a list at the commas outside of angle brackets and quotes."""
    parts, depth = [""], 0
    for token in re.findall(rf"{_QUOTED}|.", text, re.DOTALL):
        depth += (token == "<") - (token == ">")
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts] if text.strip() else []
