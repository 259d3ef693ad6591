"""Constant memory in LLVM IR: a global variable for each content, which nobody writes; and how floats are spelt.

    constant {data="0000803f", align=16}   →   @constant_6d3c… = internal constant [4 x i8] c"\\00\\00\\80\\3f", align 16

A GPU has 64 KiB of constant memory for each module, with a cache that is fast where all lanes of a warp read one address. What
does not fit there lies in global memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cuda_device.codegen.emit.llvm_writer import HALVES, FunctionWriter, element, float_suffix
from cuda_device.hashing import sha256
from cuda_device.ir import ops
from cuda_device.ir.nodes import Module, Op
from cuda_device.types.model import FLOAT16, FLOAT32, Number, Type, Vector

MAXIMUM_CONSTANT = 64 * 1024


def name_of(op: Op) -> str:
    """The symbol of constant memory: the same for the same content."""
    content = f"{op.attributes['align']} {op.attributes['data']}"
    return f"constant_{sha256(content.encode()).hexdigest()[:16]}"


def _of(module: Module) -> dict[str, Op]:
    found = {name_of(op): op for f in module.functions for op in f.ops() if op.code is ops.CONSTANT}
    return dict(sorted(found.items()))


def fit(module: Module) -> bool:
    """Whether the constants of a module have room in a GPU's constant memory."""
    return sum(
        len(str(op.attributes["data"])) // 2 + int(str(op.attributes["align"])) for op in _of(module).values()
    ) <= (MAXIMUM_CONSTANT)


def definitions(module: Module, space: str = "") -> list[str]:
    """The global variables; `space` is `addrspace(n) ` or empty."""
    lines = []
    for name, op in _of(module).items():
        data = str(op.attributes["data"])
        text = re.sub("..", lambda byte: f"\\{byte[0]}", data)
        lines.append(
            f'@{name} = internal {space}constant [{len(data) // 2} x i8] c"{text}", align {op.attributes["align"]}'
        )
    return lines


def _constant(to: FunctionWriter, op: Op) -> None:
    to.names[op.result] = f"@{name_of(op)}"


EMITTERS: dict[ops.OpDef, Callable[[FunctionWriter, Op], None]] = {ops.CONSTANT: _constant}


# Floats as LLVM calls them, and what it gets wrong for those of 16 bits: their bits, and conversion to integers.
#
#     bits %b: float16          bitcast bfloat … to half, by way of an integer, in a text that LLVM cannot see through
#     convert %h: int16         fpext half … to float; …      for float16 on the CPU
#
# Where LLVM 22 sees that the bits of a bfloat are taken for a half, or the reverse, and that is compared with zero, as it is or
# as
# a wider float, its combiner of instructions wants to mask them as if they were an integer, and ends the process. And with
# AVX512-FP16, NaN becomes -32768 as an int16.


def taken(to: FunctionWriter, op: Op, text: str) -> None:
    """Writes an instruction that takes bits, or what is in memory, for a number of the result's type."""
    type = op.result.type
    if element(type) in HALVES and (to.module.mixes_halves if op.code is ops.LOAD else to.module.has_both_halves):
        assert type is not None
        to.names[op.result] = _hidden(to, to.temporary(text), type)
    else:
        to.result(op, text)


def _hidden(to: FunctionWriter, value: str, type: Type) -> str:
    """The same value, of which LLVM does not know where it is from."""
    if not isinstance(type, Vector):
        bits = to.temporary(f"bitcast {to.module.type(type)} {value} to i16")
        return to.temporary(
            f"bitcast i16 {to.temporary(f'call i16 {to.dialect.same_bits}(i16 {bits})')} to {to.module.type(type)}"
        )
    whole, element = to.module.type(type), to.module.type(type.dtype)
    for i in range(type.size):
        hidden = _hidden(to, to.temporary(f"extractelement {whole} {value}, i32 {i}"), type.dtype)
        value = to.temporary(f"insertelement {whole} {value}, {element} {hidden}, i32 {i}")
    return value


def truncate(to: FunctionWriter, op: Op, source: Number, target: Number) -> None:
    """Writes a float's integral part, the nearest integer there is where it has none of its own, 0 for NaN."""
    value = to.typed(op.operands[0])
    if source == FLOAT16 and not to.dialect.truncates_halves:
        source, value = FLOAT32, f"float {to.temporary(f'fpext {value} to float')}"
    function = f"llvm.fpto{'s' if target.signed else 'u'}i.sat.i{target.bits}.{float_suffix(source)}"
    call = to.module.call(function, to.module.type(target), [to.module.type(source)])
    to.result(op, f"{call}({value})")
