"""Floats in memory that is aligned to one or two bytes only, on GPUs: stored in pieces that are certainly integers.

    store float %v1, ptr addrspace(1) %v2, align 1         LLVM: st.global.b8 [%rd1], %r1, shifted for the other bytes

The assembler of driver 580 takes a register that an instruction of floats wrote for a number there, and converts it to an
integer of eight bits. So each piece passes an instruction of integers first, in a text that LLVM cannot see through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuda_device.ir.model import Op
from cuda_device.types.layout import size_of
from cuda_device.types.model import Number, Type, Vector

if TYPE_CHECKING:
    from cuda_device.codegen.to_llvm import FunctionWriter


def store(to: FunctionWriter, op: Op, stored: str, align: int, says: str) -> None:
    """Writes a store of `stored`, a value with its LLVM type; `says` is what else LLVM is told of it."""
    reference, value = op.operands
    pointer = to.typed(reference)
    if not to.dialect.hides_floats or not _is_split(value.type, align):
        to.line(f"store {stored}, {pointer}, align {align}{says}")
        return
    assert value.type is not None
    bits, width = 8 * size_of(value.type), 8 * align
    whole = to.temporary(f"bitcast {stored} to i{bits}")
    for start in range(0, bits, width):
        word = to.temporary(f"lshr i{bits} {whole}, {start}")
        if bits != 32:
            word = to.temporary(f"{'zext' if bits < 32 else 'trunc'} i{bits} {word} to i32")
        masked = to.temporary(f'call i32 asm "and.b32 $0, $1, {(1 << width) - 1};", "=r,r"(i32 {word})')
        piece = to.temporary(f"trunc i32 {masked} to i{width}")
        place = to.temporary(f"getelementptr inbounds i8, {pointer}, i64 {start // 8}")
        to.line(f"store i{width} {piece}, {pointer.rpartition(' ')[0]} {place}, align {align}{says}")


def _is_split(type: Type | None, align: int) -> bool:
    """Whether LLVM would store a value of this type in bytes or pairs of them, of floats."""
    number = type.dtype if isinstance(type, Vector) else type
    return isinstance(number, Number) and number.is_float and align < min(4, number.bits // 8)
