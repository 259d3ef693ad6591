"""Where the shared arrays of a kernel lie.

shared_offsets(module)       {0: 0, 1: 256}, 384: each array's first byte by its number, and the size of all
"""

from __future__ import annotations

from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Module, Op
from cuda_device.types.layout import size_of
from cuda_device.types.model import Ref

# CUDA's limit for arrays whose size the compiler knows.
MAXIMUM_STATIC_SHARED = 48 * 1024
_WIDEST = 16


def shared_arrays(module: Module) -> dict[int, Op]:
    """The shared arrays of a module, by their numbers: copies of an operation stand for the same array."""
    return {int(str(op.attributes["number"])): op for f in module.functions for op in f.ops() if op.code is ops.SHARED}


def shared_size(op: Op) -> tuple[int, int]:
    """The bytes of a shared array, and the boundary that it begins at: one for the widest accesses, if it has room for any."""
    count, align, type = op.attributes["count"], op.attributes["align"], op.result.type
    assert isinstance(count, int) and isinstance(align, int) and isinstance(type, Ref)
    size = count * size_of(type.pointee)
    return size, max(align, _WIDEST) if size >= _WIDEST else align


def shared_offsets(module: Module) -> tuple[dict[int, int], int]:
    """Where each shared array begins, in bytes, and the size of all. Too much of it is a `CompileError`."""
    offsets: dict[int, int] = {}
    end = 0
    for number, op in sorted(shared_arrays(module).items()):
        size, align = shared_size(op)
        offsets[number] = -(-end // align) * align
        end = offsets[number] + size
        if end > MAXIMUM_STATIC_SHARED:
            raise CompileError(
                f"the kernel's shared arrays take {end} bytes or more: {MAXIMUM_STATIC_SHARED} is the most",
                op.location,
                "make the arrays smaller",
            )
    return offsets, end
