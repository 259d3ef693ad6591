"""How a thread prints, in LLVM IR: the values are put into memory, eight bytes each, and handed over with the format.

print {format="x = %d\\n"} %x      on a GPU      store i64 %x, ptr %b; call i32 @vprintf(ptr @text_0, ptr %b)
                                  on the CPU    the same with the number of the place, for the host (`runtime/cpu/output`)
"""

from __future__ import annotations

import re

from cuda_device.codegen.emit.llvm_writer import FunctionWriter
from cuda_device.ir import ops
from cuda_device.ir.nodes import Module, Op

# A conversion of an integer: C has to be told that it has 64 bits.
_INTEGER = re.compile(r"(%%)|(%[-+ #0]*[\d*]*(?:\.\d+)?)([duxXo])")


def emit(to: FunctionWriter, op: Op) -> None:
    """Stores the values and calls what prints."""
    buffer = to.buffers.get(id(op), "null")
    choices = op.attributes["choices"]
    assert isinstance(choices, tuple)
    for i, (operand, choice) in enumerate(zip(op.operands, choices, strict=True)):
        at = to.temporary(f"getelementptr i64, ptr {buffer}, i64 {i}")
        if choice is None:
            to.line(f"store {to.typed(operand)}, ptr {at}, align 8")
        elif to.dialect.has_texts:
            yes, no = (f"ptr {to.dialect.text(text)}" for text in choice)
            to.line(f"store ptr {to.temporary(f'select {to.typed(operand)}, {yes}, {no}')}, ptr {at}, align 8")
        else:
            to.line(f"store i64 {to.temporary(f'zext {to.typed(operand)} to i64')}, ptr {at}, align 8")
    to.lines.append(to.dialect.print(op, buffer, to.fresh()))


def texts(module: Module) -> dict[str, int]:
    """The texts that a module prints, numbered."""
    found: dict[str, int] = {}
    for function in module.functions:
        for op in function.ops():
            if op.code is ops.PRINT:
                choices = op.attributes["choices"]
                assert isinstance(choices, tuple)
                for text in (c_format(op), *(text for choice in choices if choice for text in choice)):
                    found.setdefault(text, len(found))
    return found


def c_format(op: Op) -> str:
    """The format of a `print` as C has it."""
    return _INTEGER.sub(lambda match: match[1] or f"{match[2]}ll{match[3]}", str(op.attributes["format"]))
