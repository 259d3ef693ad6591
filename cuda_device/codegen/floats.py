"""Floats as LLVM calls them, and what it gets wrong for those of 16 bits: equality, and conversion to integers.

    compare {op="=="} %h %zero      and i16 …, 32767; icmp …      for float16 where there is bfloat16, too, and the reverse
    convert %h: int16               fpext half … to float; …      for float16 on the CPU

Where the bits of a bfloat are taken for a half and compared with zero, LLVM's combiner of instructions wants to mask them, as if
they were an integer, and ends the process. That they are the same bits may show through memory only. And with AVX512-FP16, NaN
becomes -32768 as an int16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuda_device.ir.model import Module, Op
from cuda_device.types.model import BFLOAT16, FLOAT16, FLOAT32, Number, Type, Vector

if TYPE_CHECKING:
    from cuda_device.codegen.to_llvm import FunctionWriter

_ORDERED = {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}
_INFINITE = {FLOAT16: 0x7C00, BFLOAT16: 0x7F80}


def name(number: Number) -> str:
    """A float as LLVM calls it."""
    return "bfloat" if number.bfloat else {16: "half", 32: "float", 64: "double"}[number.bits]


def suffix(number: Number) -> str:
    """A float in the name of an intrinsic."""
    return f"{'b' if number.bfloat else ''}f{number.bits}"


def compare(to: FunctionWriter, op: Op, sign: str, number: Number, x: str, y: str) -> None:
    """Writes a comparison of two floats."""
    if number.bits == 16 and sign in ("==", "!=") and to.module.has_both_halves:
        _compare_bits(to, op, sign, number, x, y)
    else:
        to.result(op, f"fcmp{to.module.relaxed} {_ORDERED[sign]} {to.module.type(number)} {x}, {y}")


def _compare_bits(to: FunctionWriter, op: Op, sign: str, number: Number, x: str, y: str) -> None:
    """Two floats are equal if both are zero, or have the same bits and are no NaN."""
    type = to.module.type(number)
    first, second = (to.temporary(f"bitcast {type} {each} to i16") for each in (x, y))
    size, other = (to.temporary(f"and i16 {each}, 32767") for each in (first, second))
    same = to.temporary(f"icmp eq i16 {first}, {second}")
    real = to.temporary(f"icmp ule i16 {size}, {_INFINITE[number]}")
    zero = to.temporary(f"icmp eq i16 {to.temporary(f'or i16 {size}, {other}')}, 0")
    equal = f"or i1 {to.temporary(f'and i1 {same}, {real}')}, {zero}"
    to.result(op, equal if sign == "==" else f"xor i1 {to.temporary(equal)}, true")


def truncate(to: FunctionWriter, op: Op, source: Number, target: Number) -> None:
    """Writes a float's integral part, the nearest integer there is where it has none of its own, 0 for NaN."""
    value = to.typed(op.operands[0])
    if source == FLOAT16 and not to.dialect.truncates_halves:
        source, value = FLOAT32, f"float {to.temporary(f'fpext {value} to float')}"
    function = f"llvm.fpto{'s' if target.signed else 'u'}i.sat.i{target.bits}.{suffix(source)}"
    call = to.module.call(function, to.module.type(target), [to.module.type(source)])
    to.result(op, f"{call}({value})")


def has_both(module: Module) -> bool:
    """Whether there are values of float16 and of bfloat16."""
    missing = {FLOAT16, BFLOAT16}
    for function in module.functions:
        for block in function.blocks:
            missing -= {_number(value.type) for value in block.params}
            for op in block.ops:
                missing -= {_number(value.type) for value in op.results}
        if not missing:
            return True
    return False


def _number(type: Type | None) -> Type | None:
    return type.dtype if isinstance(type, Vector) else type
