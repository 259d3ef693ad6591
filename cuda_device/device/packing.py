"""Packs a value of a few bytes into one or two integers, for operations that exchange, compare or reinterpret bits.

    (float32 a, int8 b, bool c)     →     bits(a) | uint8(b) << 32 | uint8(c) << 40, a uint64

Each number is placed at a multiple of its alignment. A value that fits into 32 bits becomes one uint32, any other value one or
two uint64s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cuda_device.device.lowering import Lowering, Tree, flatten, grow
from cuda_device.device.rows import Intrinsic, Typed, constant_of
from cuda_device.errors import CompileError, DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.types.host import element_of
from cuda_device.types.known import Known, of_type
from cuda_device.types.layout import leaves, size_of
from cuda_device.types.model import BOOL, UINT32, UINT64, Number, NumberKind, Type, Vector

_MOST_BITS = 2 * UINT64.bits


def _places(numbers: Sequence[Type]) -> Iterator[int]:
    """The offset of each number, in bits."""
    end = 0
    for number in numbers:
        assert isinstance(number, Number), number
        start = -(-end // number.bits) * number.bits
        yield start
        end = start + number.bits


def _size(numbers: Sequence[Type]) -> int:
    last = numbers[-1]
    assert isinstance(last, Number), last
    return list(_places(numbers))[-1] + last.bits


def fits(numbers: Sequence[Type]) -> bool:
    """Returns whether numbers of these types fit into two words."""
    return _size(numbers) <= _MOST_BITS


def gather(build: Lowering, values: Iterable[Value], places: Iterable[int], word: Number, count: int) -> list[Value]:
    """Returns `count` words with the bits of the values at these offsets."""
    words: dict[int, Value] = {}
    for value, place in zip(values, places, strict=True):
        part = build.convert(to_bits(build, value), word)
        index, offset = divmod(place, word.bits)
        if offset:
            part = build.op(ops.SHL, word, part, build.number(word, offset))
        words[index] = build.binary(ops.OR, words[index], part) if index in words else part
    return [words.get(i) or build.number(word, 0) for i in range(count)]


def scatter(build: Lowering, words: Sequence[Value], places: Iterable[int], types: Iterable[Type]) -> Iterator[Value]:
    """The inverse of `gather`: the values of `types` at these offsets."""
    word = words[0].type
    assert isinstance(word, Number)
    for type, place in zip(types, places, strict=True):
        assert isinstance(type, Number)
        index, offset = divmod(place, word.bits)
        part = words[index]
        if offset:
            part = build.op(ops.SHR, word, part, build.number(word, offset))
        yield from_bits(build, build.convert(part, Number(NumberKind.UINT, type.bits)), type)


def pack(build: Lowering, tree: Tree) -> list[Value]:
    """Packs a value into words."""
    values = list(flatten(tree))
    types = [value.type for value in values if value.type is not None]
    word = UINT32 if _size(types) <= UINT32.bits else UINT64
    return gather(build, values, _places(types), word, -(-_size(types) // word.bits))


def unpack(build: Lowering, words: Sequence[Value], type: Type) -> Tree:
    """Unpacks a value of `type`."""
    parts = leaves(type)
    return grow(type, scatter(build, words, _places(parts), parts))


def to_bits(build: Lowering, value: Value) -> Value:
    """A number's bits as an unsigned integer of its size."""
    assert isinstance(value.type, Number)
    target = Number(NumberKind.UINT, value.type.bits)
    if value.type == BOOL or value.type.is_integer:
        return build.convert(value, target)
    return build.op(ops.BITS, target, value)


def from_bits(build: Lowering, bits: Value, type: Number) -> Value:
    """The number of `type` with these bits."""
    if type == BOOL or type.is_integer:
        return build.convert(bits, type)
    return build.op(ops.BITS, type, bits)


# `x.view(T)` of a number or vector


def reinterpret(value: Any, dtype: Any) -> Any:
    """The bits of a number or vector as `dtype`, a number or vector of the same size."""
    raise DeviceOnlyError.of("reinterpret")


def type_argument(dtype: Known, what: str) -> Type:
    """Returns the type that an argument, a constant expression, names."""
    try:
        return element_of(constant_of(dtype, what, "name it: float32, x.dtype, …"))
    except TypeError as error:
        raise CompileError(f"dtype: {error}", help="name a type: float32, x.dtype, …") from None


def _infer(arguments: Sequence[Known]) -> Typed:
    value, dtype = arguments
    target = type_argument(dtype, "the dtype of view")
    assert isinstance(value.type, (Number, Vector))
    if not isinstance(target, (Number, Vector)) or size_of(target) != size_of(value.type):
        raise CompileError(
            f"{value.type} cannot be viewed as {target}: their sizes differ", help="convert it: x.astype(T, copy=False)"
        )
    return Typed(of_type(target), ((0, value.type),))


def _lower(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
    return unpack(build, pack(build, operands[0]), typed.result.type)


ROWS = (Intrinsic(reinterpret, "reinterpret", _infer, _lower),)
