"""Functions of integers that are one instruction of a GPU, a row of `FUNCTIONS` each; and vector types as constructors.

    byte_perm(0x33221100, 0x77665544, 0x7531) == 0x77553311

A row names the function, the intrinsic of LLVM that a GPU's code calls, and the types of its parameters and of its result. The
function itself is ordinary Python: the host runs it, and it is compiled like a user's function for the CPU stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy import uint32, uint64

from cuda_device.device.entities import Integer
from cuda_device.device.lowering import Lowering, Tree
from cuda_device.device.rows import Intrinsic, Typed, number_of
from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.known import Known, of_type
from cuda_device.types.model import INT, UINT32, Number, Type, Vector
from cuda_device.types.vectors import FAMILIES, Dim3


@dataclass(frozen=True, slots=True)
class MachineFunction:
    """A row: the Python function, LLVM's intrinsic on a GPU, the types of the parameters and of the result."""

    function: Callable[..., Any]
    intrinsic: str
    parameters: tuple[Number, ...]
    result: Number


def byte_perm(x: Integer, y: Integer, selector: Integer) -> uint32:
    """Four of the eight bytes of `x` and `y`, chosen by the four lowest hexadecimal digits of `selector`: CUDA's `__byte_perm`.

    Bytes 0 to 3 are those of `x`, the lowest first, 4 to 7 those of `y`. The lowest digit chooses the lowest byte of the result,
    a uint32. A digit of 8 or more gives eight copies of the sign of byte `digit - 8`. Works on host and device. Arguments
    become uint32. Device code raises `CompileError` for what is no integer.
    """
    both = uint64(uint32(y)) << uint64(32) | uint64(uint32(x))
    digits = uint32(selector)
    result = uint32(0)
    for place in range(4):
        digit = digits >> uint32(4 * place) & uint32(15)
        byte = uint32(both >> uint64(8 * (digit & uint32(7))) & uint64(255))
        if digit >= 8:
            byte = uint32(255) if byte >= 128 else uint32(0)
        result |= byte << uint32(8 * place)
    return result


FUNCTIONS = (MachineFunction(byte_perm, "llvm.nvvm.prmt", (UINT32, UINT32, UINT32), UINT32),)


def _row(row: MachineFunction) -> Intrinsic:
    name = row.function.__name__

    def infer(arguments: Sequence[Known]) -> Typed:
        for argument in arguments:
            if not number_of(argument, name).is_integer:
                raise CompileError(f"{name} takes integers, not {argument}", help="convert it: int(…)")
        return Typed(of_type(row.result), tuple(enumerate(row.parameters)))

    def lower(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
        values = [operand for operand in operands if isinstance(operand, Value)]
        return build.op(ops.MACHINE, row.result, *values, intrinsic=row.intrinsic)

    return Intrinsic(row.function, name, infer, lower, on_cpu=row.function)


ROWS = tuple(map(_row, FUNCTIONS))


# The vector types as constructors in device code: the specification's 'Vectors'.


def _handed_over(known: Known, target: Number, what: str) -> Number:
    """The type in which an argument goes to a constructor, which converts it to `target`: a constant loses nothing on the way."""
    number = number_of(known, what)
    if not known.constant:
        return number
    if target.is_float or (number == INT and isinstance(known.value, int)):
        return target
    return number


def _vector_row(cls: Any, name: str) -> Intrinsic:
    model: Vector = cls.model

    def infer(arguments: Sequence[Known]) -> Typed:
        operands: list[tuple[int, Type]] = [
            (i, _handed_over(argument, model.dtype, name)) for i, argument in enumerate(arguments)
        ]
        return Typed(of_type(model), tuple(operands))

    def lower(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
        parts = []
        for operand in operands:
            assert isinstance(operand, Value)
            parts.append(build.convert(operand, model.dtype))
        return tuple(parts)

    return Intrinsic(cls, name, infer, lower, (model.size, model.size))


VECTOR_ROWS = tuple(_vector_row(cls, name) for name, cls in (*FAMILIES.items(), ("Dim3", Dim3)))
