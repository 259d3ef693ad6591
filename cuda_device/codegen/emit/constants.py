"""Constant memory in LLVM IR: a global variable for each content, which nobody writes.

    constant {data="0000803f", align=16}   →   @constant_6d3c… = internal constant [4 x i8] c"\\00\\00\\80\\3f", align 16

A GPU has 64 KiB of constant memory for each module, with a cache that is fast where all lanes of a warp read one address. What
does not fit there lies in global memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cuda_device.codegen.emit.llvm_writer import FunctionWriter
from cuda_device.hashing import sha256
from cuda_device.ir import ops
from cuda_device.ir.nodes import Module, Op

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
