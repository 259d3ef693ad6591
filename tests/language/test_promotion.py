"""The type of every operation on every pair of number types, held against tables that are written out here.

B i n f    bool, int, the index that len gives, float: builtin numbers      i1 … u8    integers, by their bytes
e4 e5      float8e4m3, float8e5m2      f2 b2    float16, bfloat16           f4 f8      float32, float64
--         an error
"""

import operator
from typing import Any

import numpy as np
import pytest
from ir_helpers import define
from test_arithmetic import result_types

import cuda_device as device

TYPES: dict[str, Any] = {
    "B": bool, "i": int, "n": int, "f": float, "i1": device.int8, "i2": device.int16, "i4": device.int32, "i8": device.int64,
    "u1": device.uint8, "u2": device.uint16, "u4": device.uint32, "u8": device.uint64, "e4": device.float8e4m3,
    "e5": device.float8e5m2, "f2": device.float16, "b2": device.bfloat16, "f4": device.float32, "f8": device.float64,
}  # fmt: skip
ARITHMETIC = """
       B  i  n  f  i1 i2 i4 i8 u1 u2 u4 u8 e4 e5 f2 b2 f4 f8
    B  i  i  n  f  i1 i2 i4 i8 u1 u2 u4 u8 e4 e5 f2 b2 f4 f8
    i  i  i  n  f  i1 i2 i4 i8 u1 u2 u4 u8 e4 e5 f2 b2 f4 f8
    n  n  n  n  f  n  n  n  i8 n  n  n  u8 e4 e5 f2 b2 f4 f8
    f  f  f  f  f  f4 f4 f4 f8 f4 f4 f4 f8 e4 e5 f2 b2 f4 f8
    i1 i1 i1 n  f4 i1 i2 i4 i8 i2 i4 i8 -- e4 e5 f2 b2 f4 f8
    i2 i2 i2 n  f4 i2 i2 i4 i8 i2 i4 i8 -- e4 e5 f2 b2 f4 f8
    i4 i4 i4 n  f4 i4 i4 i4 i8 i4 i4 i8 -- e4 e5 f2 b2 f4 f8
    i8 i8 i8 i8 f8 i8 i8 i8 i8 i8 i8 i8 -- e4 e5 f2 b2 f4 f8
    u1 u1 u1 n  f4 i2 i2 i4 i8 u1 u2 u4 u8 e4 e5 f2 b2 f4 f8
    u2 u2 u2 n  f4 i4 i4 i4 i8 u2 u2 u4 u8 e4 e5 f2 b2 f4 f8
    u4 u4 u4 n  f4 i8 i8 i8 i8 u4 u4 u4 u8 e4 e5 f2 b2 f4 f8
    u8 u8 u8 u8 f8 -- -- -- -- u8 u8 u8 u8 e4 e5 f2 b2 f4 f8
    e4 e4 e4 e4 e4 e4 e4 e4 e4 e4 e4 e4 e4 e4 f4 f4 f4 f4 f8
    e5 e5 e5 e5 e5 e5 e5 e5 e5 e5 e5 e5 e5 f4 e5 f4 f4 f4 f8
    f2 f2 f2 f2 f2 f2 f2 f2 f2 f2 f2 f2 f2 f4 f4 f2 f4 f4 f8
    b2 b2 b2 b2 b2 b2 b2 b2 b2 b2 b2 b2 b2 f4 f4 f4 b2 f4 f8
    f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f8
    f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8
"""
# Where both are integers; elsewhere it is as above.
DIVISION = """
       B  i  n  i1 i2 i4 i8 u1 u2 u4 u8
    B  f  f  f  f4 f4 f4 f8 f4 f4 f4 f8
    i  f  f  f  f4 f4 f4 f8 f4 f4 f4 f8
    n  f  f  f  f4 f4 f4 f8 f4 f4 f4 f8
    i1 f4 f4 f4 f4 f4 f4 f8 f4 f4 f4 --
    i2 f4 f4 f4 f4 f4 f4 f8 f4 f4 f4 --
    i4 f4 f4 f4 f4 f4 f4 f8 f4 f4 f4 --
    i8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 --
    u1 f4 f4 f4 f4 f4 f4 f8 f4 f4 f4 f8
    u2 f4 f4 f4 f4 f4 f4 f8 f4 f4 f4 f8
    u4 f4 f4 f4 f4 f4 f4 f8 f4 f4 f4 f8
    u8 f8 f8 f8 -- -- -- -- f8 f8 f8 f8
"""
INTEGERS = tuple(name for name in TYPES if name[0] in "Binu")


def cells(text: str) -> dict[tuple[str, str], str]:
    head, *rows = (line.split() for line in text.strip().splitlines())
    return {(row[0], column): cell for row in rows for column, cell in zip(head, row[1:], strict=True)}


def test_the_tables_are_whole_and_symmetric() -> None:
    for table, names in ((cells(ARITHMETIC), tuple(TYPES)), (cells(DIVISION), INTEGERS)):
        assert set(table) == {(a, b) for a in names for b in names}
        assert all(table[a, b] == table[b, a] for a, b in table)


def expected(symbol: str, a: str, b: str) -> str:
    common = cells(ARITHMETIC)[a, b]
    if symbol == "/" and a in INTEGERS and b in INTEGERS:
        return cells(DIVISION)[a, b]
    if symbol in ("&", "|", "^"):
        return "B" if a == b == "B" else common
    if symbol in ("<<", ">>"):
        return "i" if a == "B" else a
    return "B" if symbol in ("<", "<=", "==", "!=") else common


OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
    "**": operator.pow, "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip
NAMES = {name: kind.__name__.replace("8_", "8").removesuffix("fn") for name, kind in TYPES.items()} | {"n": "index"}
"""As our IR writes them."""
CPU = device.cpu_stream()
KINDS = tuple(dict.fromkeys(TYPES.values()))


@device.func
def kind_of(value: Any) -> Any:
    """The number of a value's type among the kinds, and of how many bytes it is: an index has more than an int."""
    found = -1
    for number, kind in enumerate(KINDS):
        if value.dtype == kind:
            found = number
    return found


def operand(name: str) -> Any:
    return TYPES[name](1)


@pytest.mark.parametrize("symbol", OPERATORS)
def test_every_pair(symbol: str) -> None:
    names = INTEGERS if symbol in ("&", "|", "^", "<<", ">>") else tuple(TYPES)
    hints = [device.ArrayType(device.int8, 1) if name == "n" else TYPES[name] for name in names]
    for a in names:
        others = [b for b in names if expected(symbol, a, b) != "--"]
        results = ", ".join(f"{a} {symbol} {b}" for b in others)
        function = define(f"@device.func\ndef f({', '.join(names)}):\n    n = len(n)\n    return {results}", "f")
        shown = [NAMES[expected(symbol, a, b)] for b in others]
        assert dict(zip(others, result_types(function, *hints), strict=True)) == dict(
            zip(others, shown, strict=True)
        ), a


@pytest.mark.parametrize("symbol", ["+", "*", "/", "//", "&"])
def test_pairs_without_a_type(symbol: str) -> None:
    refused = [pair for pair in cells(ARITHMETIC) if expected(symbol, *pair) == "--"]
    assert len(refused) == 8
    for a, b in refused:

        @device.kernel
        def kernel(x: Any, y: Any) -> None:
            OPERATORS[symbol](x, y)

        with pytest.raises(device.CompileError, match="no integer type holds both uint64 and int"):
            device.compile(kernel, TYPES[a], TYPES[b])


@pytest.mark.parametrize("symbol", ["&", "|", "^", "<<", ">>"])
@pytest.mark.parametrize("name", ["f", "e4", "e5", "f2", "b2", "f4", "f8"])
def test_bits_of_floats(symbol: str, name: str) -> None:
    for types in ((TYPES[name], int), (device.int32, TYPES[name])):

        @device.kernel
        def kernel(x: Any, y: Any) -> None:
            OPERATORS[symbol](x, y)

        with pytest.raises(device.CompileError, match="takes integers"):
            device.compile(kernel, *types)


@device.kernel
def unary(values: Any, out: Any) -> None:
    i = 0
    for x in values:
        out[0, i], out[1, i], out[2, i] = kind_of(-x), kind_of(+x), kind_of(abs(x))
        out[3, i] = kind_of(min(x, x))
        i += 1


@device.kernel
def inverted(values: Any, out: Any) -> None:
    i = 0
    for x in values:
        out[i] = kind_of(~x)
        i += 1


def test_unary() -> None:
    names = [name for name in TYPES if name != "n"]
    out = np.full((4, len(names)), -7, np.int32)
    device.launch(unary, tuple(map(operand, names)), out, grid=1, block=1, stream=CPU)
    own = [KINDS.index(TYPES[name]) for name in names]
    arithmetic = [KINDS.index(TYPES["i" if name == "B" else name]) for name in names]
    assert out.tolist() == [arithmetic, arithmetic, arithmetic, own]
    integers = [name for name in INTEGERS if name != "n"]
    out = np.full(len(integers), -7, np.int32)
    device.launch(inverted, tuple(map(operand, integers)), out, grid=1, block=1, stream=CPU)
    assert out.tolist() == [KINDS.index(TYPES["i" if name == "B" else name]) for name in integers]


@device.kernel
def near(x: Any, y: Any, out: Any) -> None:
    out[0], out[1], out[2] = x == y, y == x, x > y


def test_narrow_floats_compare_in_a_type_that_holds_both() -> None:
    out = np.full(3, 7, np.uint8)
    device.launch(near, device.float16(1 + 2.0**-10), device.bfloat16(1), out, grid=1, block=1, stream=CPU)
    assert out.tolist() == [0, 0, 1]
    device.launch(near, device.float8e4m3(1.125), device.float8e5m2(1), out, grid=1, block=1, stream=CPU)
    assert out.tolist() == [0, 0, 1]


@device.kernel
def sums_of_indices(large: Any, x: Any, out: Any) -> None:
    out[0] = len(large) * 2**20 * x * 2**20  # an index has room for it
    out[1] = x * len(large) * 2**20 * 2**20


@pytest.mark.parametrize("name", ["B", "i", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_indices_have_64_bits(name: str) -> None:
    assert cells(ARITHMETIC)["n", name] in ("n", "i8", "u8")
    out = np.zeros(2, np.int64)
    device.launch(sums_of_indices, np.zeros(4, np.int8), operand(name), out, grid=1, block=1, stream=CPU)
    assert out.tolist() == [2**42, 2**42]


@device.kernel
def joined(first: Any, others: Any, which: Any, out: Any) -> None:
    i = 0
    for second in others:
        value = first
        if which:
            value = second
        out[i] = kind_of(value)
        i += 1


def test_where_control_flow_joins() -> None:
    """Numbers join in the type that they promote to; bools stay bools."""
    table = cells(ARITHMETIC)
    for a in TYPES:
        others = [b for b in TYPES if "n" not in (a, b) and table[a, b] != "--"]
        out = np.full(len(others), -7, np.int32)
        if others:
            device.launch(joined, operand(a), tuple(map(operand, others)), True, out, grid=1, block=1, stream=CPU)
        assert [KINDS[number] for number in out] == [TYPES["B" if a == b == "B" else table[a, b]] for b in others]
