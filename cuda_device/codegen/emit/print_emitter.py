"""How a thread prints, in LLVM IR: the values are put into memory, eight bytes each, and handed over with the format.

print {format="x = %d\\n"} %x      on a GPU      store i64 %x, ptr %b; call i32 @vprintf(ptr @text_0, ptr %b)
                                  on the CPU    the same with the number of the place, for the host (`runtime/cpu/output`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuda_device.codegen.cpu.records import BLOCK, CONTROL, THREAD
from cuda_device.ir import ops
from cuda_device.ir.nodes import Module, Op
from cuda_device.lazy_patterns import pattern

if TYPE_CHECKING:
    from cuda_device.codegen.emit.to_llvm import FunctionWriter

# A conversion of an integer: C has to be told that it has 64 bits.
_INTEGER = pattern(r"(%%)|(%[-+ #0]*[\d*]*(?:\.\d+)?)([duxXo])")


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
            texts = _texts(to.dialect.module)
            yes, no = (f"ptr {_address(texts[text])}" for text in choice)
            to.line(f"store ptr {to.temporary(f'select {to.typed(operand)}, {yes}, {no}')}, ptr {at}, align 8")
        else:
            to.line(f"store i64 {to.temporary(f'zext {to.typed(operand)} to i64')}, ptr {at}, align 8")
    (_on_gpu if to.dialect.has_texts else _on_cpu)(to, op, buffer)


# On a GPU


def _on_gpu(to: FunctionWriter, op: Op, buffer: str) -> None:
    """CUDA's own printf."""
    format = _address(_texts(to.dialect.module)[_c_format(op)])
    to.temporary(f"call i32 @vprintf(ptr {format}, ptr {buffer})")


def texts_on_gpu(module: Module) -> str:
    """The texts of a module, as global constants, and the declaration of what prints them."""
    texts = _texts(module)
    if not texts:
        return ""
    lines = [
        f'@text_{number} = internal addrspace(1) constant [{len(text.encode()) + 1} x i8] c"{_bytes(text)}\\00", align 1'
        for text, number in texts.items()
    ]
    return "\n".join([*lines, "declare i32 @vprintf(ptr, ptr)"])


def _texts(module: Module) -> dict[str, int]:
    """The texts that a module prints, numbered."""
    found: dict[str, int] = {}
    for function in module.functions:
        for op in function.ops():
            if op.code is ops.PRINT:
                choices = op.attributes["choices"]
                assert isinstance(choices, tuple)
                for text in (_c_format(op), *(text for choice in choices if choice for text in choice)):
                    found.setdefault(text, len(found))
    return found


def _c_format(op: Op) -> str:
    return _INTEGER.sub(lambda match: match[1] or f"{match[2]}ll{match[3]}", str(op.attributes["format"]))


def _address(number: int) -> str:
    return f"addrspacecast (ptr addrspace(1) @text_{number} to ptr)"


def _bytes(text: str) -> str:
    """Text within quotes in LLVM IR."""
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in text.encode())


# On the CPU


def _on_cpu(to: FunctionWriter, op: Op, buffer: str) -> None:
    """The launch knows a function of the host."""
    block, control, function = (to.fresh() for _ in range(3))
    to.lines.append(
        THREAD.load(block, "%thread", "block")
        + BLOCK.load(control, block, "control")
        + CONTROL.load(function, control, "print")
    )
    to.line(f"call void {function}(i32 {op.attributes['place']}, ptr {buffer})")
