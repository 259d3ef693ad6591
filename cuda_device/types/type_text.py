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
    Number,
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


def parse_type(text: str) -> Type:
    """The type that prints as `text`: `parse_type(str(T)) == T` for every type. Raises `ValueError` for anything else."""
    words = re.findall(r"\w+|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\S", text)
    try:
        type, end = _type(words, 0)
    except (IndexError, SyntaxError):  # the latter within a member's name
        raise ValueError(f"unfinished type {text!r}") from None
    if end != len(words):
        raise ValueError(f"{words[end]!r} after the type {type}")
    return type


def _type(words: list[str], start: int) -> tuple[Type, int]:
    """The type that begins at `words[start]`, and its end."""
    name = words[start]
    simple = _SIMPLE.get(name)
    if simple is not None:
        return simple, start + 1
    if words[start + 1] != "<":
        raise ValueError(f"unknown type {name!r}")
    start += 2
    if name == "struct":
        return _struct(words, start)
    arguments: list[Type | str] = []
    while words[start] != ">":
        if arguments:
            if words[start] != ",":
                raise ValueError(f"{words[start]!r} instead of a comma in {name}<…>")
            start += 1
        if words[start] in _SIMPLE or words[start + 1] == "<":
            argument, start = _type(words, start)
            arguments.append(argument)
        else:
            arguments.append(words[start])
            start += 1
    return _build(name, arguments), start + 1


def _struct(words: list[str], start: int) -> tuple[Type, int]:
    """The struct whose name is `words[start]`."""
    name, start = words[start], start + 1
    align, start = _mark(words, start, "align", 0)
    size, start = _mark(words, start, "size", 0)
    fields = []
    while words[start] != ">":
        if words[start] != "," or words[start + 2] != ":" or not re.match(r"\w|'|\"", words[start + 1]):
            raise ValueError(f"{' '.join(words[start : start + 3])!r} is no member of a struct")
        type, end = _type(words, start + 3)
        boundary, end = _mark(words, end, "align", 0)
        offset, end = _mark(words, end, "at", -1)
        member = words[start + 1]
        fields.append(Field(ast.literal_eval(member) if member[0] in "'\"" else member, type, boundary, offset))
        start = end
    return Struct(name, tuple(fields), align, size=size), start + 1


def _mark(words: list[str], start: int, mark: str, otherwise: int) -> tuple[int, int]:
    """The number behind the word `mark`, if that is at `start`, and the end of the two."""
    return (int(words[start + 1]), start + 2) if words[start] == mark else (otherwise, start)


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
        case "pointer", [dtype], [*flags] if flags in ([], ["readonly"]):
            return Pointer(dtype, bool(flags))
        case "ref", [pointee], [space_name, *flags] if flags in ([], ["readonly"]):
            return Ref(Space(space_name), pointee, bool(flags), align)
        case "range", [Number() as item], []:
            return Range(item)
        case "range_iterator", [Number() as item, *counter], [] if len(counter) < 2:
            return RangeIterator(item, *(number for number in counter if isinstance(number, Number)))
    raise ValueError(f"unknown type {name}<{', '.join(map(str, arguments))}>")


_SIMPLE: dict[str, Type] = {**NUMBERS, "none": NONE, "static": STATIC}
