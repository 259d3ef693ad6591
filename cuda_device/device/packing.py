"""Packs a value of up to 16 bytes into one or two integers, for operations that exchange, compare or reinterpret bits.

    (float32 a, int8 b, bool c)     →     bits(a) | uint8(b) << 32 | uint8(c) << 40, a uint64

The integers have the bits that the value has in memory; padding is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cuda_device.device.lowering import Lowering, Tree, flatten, grow
from cuda_device.device.rows import Intrinsic, Typed, entered, type_argument
from cuda_device.errors import CompileError, DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.types.known import Known, of_type
from cuda_device.types.layout import accesses, leaves, size_of
from cuda_device.types.model import BOOL, UINT32, UINT64, Number, NumberKind, Type, Vector

MOST_BYTES = 16
"""The size of the largest value that can be packed."""


def pack(build: Lowering, type: Type, tree: Tree, word: Number | None = None) -> list[Value]:
    """Packs a value of `type` into words, which are uint32 if one of them suffices, else uint64, unless `word` is given."""
    bits = size_of(type) * 8
    word = word or (UINT32 if bits <= UINT32.bits else UINT64)
    words: dict[int, Value] = {}
    for value, access in zip(flatten(tree), accesses(type, align=1), strict=True):
        part = build.convert(to_bits(build, value), word)
        index, offset = divmod(access.offset * 8, word.bits)
        if offset:
            part = build.op(ops.SHL, word, part, build.number(word, offset))
        words[index] = build.binary(ops.OR, words[index], part) if index in words else part
    return [words.get(i) or build.number(word, 0) for i in range(-(-bits // word.bits))]


def unpack(build: Lowering, words: Sequence[Value], type: Type) -> Tree:
    """The inverse of `pack`."""
    return grow(type, _unpacked(build, words, type))


def _unpacked(build: Lowering, words: Sequence[Value], whole: Type) -> Iterator[Value]:
    word = words[0].type
    assert isinstance(word, Number)
    for type, access in zip(leaves(whole), accesses(whole, align=1), strict=True):
        assert isinstance(type, Number)
        index, offset = divmod(access.offset * 8, word.bits)
        part = words[index]
        if offset:
            part = build.op(ops.SHR, word, part, build.number(word, offset))
        yield from_bits(build, build.convert(part, Number(NumberKind.UINT, type.bits)), type)


def to_word(build: Lowering, type: Vector, tree: Tree) -> Value:
    """Packs a vector of 4 or 8 bytes into one integer, which is how GPUs hold it."""
    word, parts = _word_of(type), [to_bits(build, part) for part in flatten(tree)]
    if len(parts) == 1:
        return build.convert(parts[0], word)
    return build.op(ops.BITS, word, build.op(ops.MAKE, _vector_of_bits(type), *parts))


def from_word(build: Lowering, word: Value, type: Vector) -> Tree:
    """The inverse of `to_word`."""
    if type.size == 1:
        return (from_bits(build, word, type.dtype),)
    whole = _vector_of_bits(type)
    bits = build.op(ops.BITS, whole, word)
    parts = (build.op(ops.FIELD, whole.dtype, bits, index=i) for i in range(type.size))
    return tuple([from_bits(build, part, type.dtype) for part in parts])


def _word_of(type: Vector) -> Number:
    return Number(NumberKind.UINT, size_of(type) * 8)


def _vector_of_bits(type: Vector) -> Vector:
    return Vector(Number(NumberKind.UINT, type.dtype.bits), type.size)


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


def _infer(arguments: Sequence[Known]) -> Typed:
    value, dtype = arguments
    target = type_argument(dtype, "the dtype of view")
    assert isinstance(value.type, (Number, Vector))
    if not isinstance(target, (Number, Vector)) or size_of(target) != size_of(value.type):
        is_number = isinstance(value.type, Number) and isinstance(target, Number)
        help = "convert it: x.astype(T, copy=False)" if is_number else f"name a type of {size_of(value.type)} bytes"
        raise CompileError(f"{value.type} cannot be viewed as {target}: their sizes differ", help=help)
    return Typed(of_type(target), ((0, value.type),), (value.type,))


def _lower(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
    (source,), target, (tree,) = typed.settings, typed.result.type, operands
    fits = size_of(source) in (4, 8)
    words = [to_word(build, source, tree)] if fits and isinstance(source, Vector) else pack(build, source, tree)
    return from_word(build, words[0], target) if fits and isinstance(target, Vector) else unpack(build, words, target)


ROWS = entered(Intrinsic(reinterpret, "reinterpret", _infer, _lower))
