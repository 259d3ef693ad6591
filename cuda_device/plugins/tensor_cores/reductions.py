"""Additions to memory without a result: `red_add`, also for pairs of 16-bit floats and vectors of float32."""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import add
from typing import Any

from cuda_device import CompileError, DeviceOnlyError, atomic_ref, float32, provides, ptx, sm75, sm90, target
from cuda_device.extend import Known, layout, model, specialised
from cuda_device.plugins.tensor_cores.single_instructions import UNSIGNED, as_tuple, vector


def red_add(array: Any, index: Any, value: Any) -> None:
    """Adds `value` to `array[index]` atomically, in the relaxed order and the scope of the device. Returns nothing.

    `array` is a writable array in global or shared memory: of real numbers, or of the vectors float16x2, bfloat16x2, float32x2
    and float32x4, in which each float32 is added atomically by itself. `index` is an integer or a tuple of integers. GPUs have
    instructions for integers and floats of 32 and 64 bits, float16 and float16x2, and from sm_90 on for bfloat16, bfloat16x2
    and, in global memory, the vectors of float32. For others, `red_add` is a loop with compare-and-swap. Device only. Raises
    `CompileError` for other arguments. PTX: red.
    """
    raise DeviceOnlyError.of("red_add")


@specialised(red_add)
def _(array: Known, index: Known, value: Known) -> Callable[..., Any]:
    type = array.type
    if not isinstance(type, model.Array) or type.readonly or type.space not in _SPACES:
        raise CompileError(
            f"red_add needs a writable array in global or shared memory, not {array}", help="pass one as an argument"
        )
    element = type.dtype
    if isinstance(element, model.Vector):
        if element not in _INSTRUCTIONS and element not in _FLOATS:
            raise CompileError(f"red_add does not add {_name(element)}", help=f"it adds numbers and {_VECTORS}")
        if value.type != element:
            raise CompileError(
                f"the array has {_name(element)}, and the value is "
                f"{_name(value.type) if isinstance(value.type, model.Vector) else value}",
                help=f"write {_name(element)}(…)",
            )
    elif not isinstance(element, model.Number) or element == model.BOOL or element.is_complex:
        raise CompileError(f"red_add does not add {element}", help=f"it adds real numbers and {_VECTORS}")
    elif not isinstance(value.type, model.Number) or value.type.is_complex:
        raise CompileError(f"red_add adds a real number, not {value}", help="pass a number")
    return _adder(element, type.space is model.Space.GLOBAL)


_SPACES = (model.Space.GLOBAL, model.Space.SHARED, model.Space.GENERIC)
_INSTRUCTIONS = {
    model.FLOAT16: (sm75, "f16"),
    model.BFLOAT16: (sm90, "bf16"),
    model.Vector(model.FLOAT16, 2): (sm75, "f16x2"),
    model.Vector(model.BFLOAT16, 2): (sm90, "bf16x2"),
}
"""The first architecture with an instruction for numbers and vectors of 16-bit floats, and the type in its name."""
_FLOATS = {model.Vector(model.FLOAT32, n): f"red.relaxed.gpu.global.add.v{n}.f32 [$0], {vector(1, n)};" for n in (2, 4)}
_VECTORS = "float16x2, bfloat16x2, float32x2 and float32x4"


def _name(vector: model.Vector) -> str:
    return f"{vector.dtype}x{vector.size}"


@functools.cache
def _adder(element: Any, in_global: bool) -> Callable[..., Any]:
    """The device function that adds to elements of a type."""
    if element in _FLOATS:
        return _adder_of_floats(_FLOATS[element], in_global)
    if element not in _INSTRUCTIONS:
        return _add_number if element.bits >= 32 else _by_swaps(element)
    since, kind = _INSTRUCTIONS[element]
    term = _term(element)
    template, by_swaps = f"red.relaxed.gpu{'.global' * in_global}.add.noftz.{kind} [$0], $1;", _by_swaps(element)

    def add(array: Any, index: Any, value: Any) -> None:
        if target(provides(since)):
            ptx(template, array.pointer(*as_tuple(index)), term(array, value), host=at_pointer)
        else:
            by_swaps(array, index, value)

    def at_pointer(pointer: Any, value: Any) -> None:
        by_swaps(pointer, 0, value)

    return add


def _term(element: Any) -> Callable[[Any, Any], Any]:
    """The function that converts a value to the type of the elements, which vectors have already."""
    return (lambda array, value: array.dtype(value)) if isinstance(element, model.Number) else (lambda _, value: value)


def _add_number(array: Any, index: Any, value: Any) -> None:
    atomic_ref(array, index).add(value, "relaxed", "device")


@functools.cache
def _adder_of_floats(template: str, in_global: bool) -> Callable[..., Any]:
    """The device function that adds vectors of float32."""

    def add(array: Any, index: Any, value: Any) -> None:
        pointer = array.pointer(*as_tuple(index))
        if in_global and target(provides(sm90)):
            ptx(template, pointer, *value, host=one_by_one)
        else:
            one_by_one(pointer, *value)

    def one_by_one(pointer: Any, *numbers: Any) -> None:
        floats = pointer.cast(float32)
        for i, x in enumerate(numbers):
            atomic_ref(floats, i).add(x, "relaxed", "device")

    return add


@functools.cache
def _by_swaps(element: Any) -> Callable[..., Any]:
    """The device function that adds by compare-and-swap."""
    term, combine = _term(element), combiner_by_swaps(add, element)

    def add_term(array: Any, index: Any, value: Any) -> None:
        combine(array, index, term(array, value))

    return add_term


@functools.cache
def combiner_by_swaps(function: Callable[[Any, Any], Any], element: Any) -> Callable[..., Any]:
    """The device function that combines, atomically, an element of an array with a value by a function.

    It compares bits, which are those of NaN, too.
    """
    bits = UNSIGNED[layout.size_of(element)]

    def combine(array: Any, index: Any, value: Any) -> None:
        word = atomic_ref(array, index)
        old = word.load("relaxed", "device")
        while True:
            seen = word.cas(old, function(old, value), "relaxed", "device")
            if seen.view(bits) == old.view(bits):
                break
            old = seen

    return combine
