"""Types from their text: `parse(str(T)) == T` for every type.

parse("array<float32, 2, C>")       Array(FLOAT32, 2, Layout.C)
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
    Number,
    Range,
    RangeIterator,
    Ref,
    Space,
    Struct,
    Subarray,
    Tuple,
    TupleIterator,
    Type,
    Vector,
)


def parse(text: str) -> Type:
    """The type that prints as `text`: `parse(str(T)) == T` for every type. Raises `ValueError` for anything else."""
    words = re.findall(r"\w+|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\S", text)
    try:
        type, end = _parse(words, 0)
    except (IndexError, SyntaxError):  # the latter within a member's name
        raise ValueError(f"unfinished type {text!r}") from None
    if end != len(words):
        raise ValueError(f"{words[end]!r} after the type {type}")
    return type


def _parse(words: list[str], at: int) -> tuple[Type, int]:
    """The type that begins at `words[at]`, and where it ends."""
    name = words[at]
    simple = _SIMPLE.get(name)
    if simple is not None:
        return simple, at + 1
    if words[at + 1] != "<":
        raise ValueError(f"unknown type {name!r}")
    at += 2
    if name == "struct":
        return _parse_struct(words, at)
    arguments: list[Type | str] = []
    while words[at] != ">":
        if arguments:
            if words[at] != ",":
                raise ValueError(f"{words[at]!r} instead of a comma in {name}<…>")
            at += 1
        if words[at] in _SIMPLE or words[at + 1] == "<":
            argument, at = _parse(words, at)
            arguments.append(argument)
        else:
            arguments.append(words[at])
            at += 1
    return _build(name, arguments), at + 1


def _parse_struct(words: list[str], at: int) -> tuple[Type, int]:
    """The struct whose name is `words[at]`."""
    name, at = words[at], at + 1
    align, at = _parse_mark(words, at, "align", 0)
    size, at = _parse_mark(words, at, "size", 0)
    fields = []
    while words[at] != ">":
        if words[at] != "," or words[at + 2] != ":" or not re.match(r"\w|'|\"", words[at + 1]):
            raise ValueError(f"{' '.join(words[at : at + 3])!r} is no member of a struct")
        type, end = _parse(words, at + 3)
        boundary, end = _parse_mark(words, end, "align", 0)
        offset, end = _parse_mark(words, end, "at", -1)
        member = words[at + 1]
        fields.append(Field(ast.literal_eval(member) if member[0] in "'\"" else member, type, boundary, offset))
        at = end
    return Struct(name, tuple(fields), align, size=size), at + 1


def _parse_mark(words: list[str], at: int, mark: str, otherwise: int) -> tuple[int, int]:
    """The number behind a word, if that is there, and where the text goes on."""
    return (int(words[at + 1]), at + 2) if words[at] == mark else (otherwise, at)


def _build(name: str, arguments: list[Type | str]) -> Type:
    types = [argument for argument in arguments if not isinstance(argument, str)]
    plain = [argument for argument in arguments if isinstance(argument, str)]
    align = 0
    if name in ("array", "ref") and plain[-1].startswith("align"):
        align = int(plain.pop().removeprefix("align"))
    match name, types, plain:
        case (("tuple" | "bundle"), elements, []):
            return (Tuple if name == "tuple" else Bundle)(tuple(elements))
        case "vector", [Number() as dtype], [size]:
            return Vector(dtype, int(size))
        case "array", [dtype], [ndim, layout, *flags] if arguments[0] is dtype:
            readonly, small = "readonly" in flags, "small" in flags
            spaces = [Space(flag) for flag in flags if flag not in ("readonly", "small")] or [Space.GLOBAL]
            array = Array(dtype, int(ndim), Layout(layout), readonly, spaces[0], align, small)
            if str(array) == f"array<{', '.join(map(str, arguments))}>":
                return array
        case "subarray", [dtype], shape:
            return Subarray(dtype, tuple(map(int, shape)))
        case "atomic", [dtype], []:
            return AtomicCell(dtype)
        case "ref", [pointee], [space_name, *flags] if flags in ([], ["readonly"]):
            return Ref(Space(space_name), pointee, bool(flags), align)
        case "range", [Number() as item], []:
            return Range(item)
        case "range_iterator", [Number() as item, *counter], [] if len(counter) < 2:
            return RangeIterator(item, *(each for each in counter if isinstance(each, Number)))
        case "tuple_iterator", [Tuple() as items], [position]:
            return TupleIterator(items, int(position))
    raise ValueError(f"unknown type {name}<{', '.join(map(str, arguments))}>")


_SIMPLE: dict[str, Type] = {**NUMBERS, "none": NONE, "static": STATIC}
