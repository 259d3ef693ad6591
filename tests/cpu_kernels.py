"""Kernels in LLVM text for the tests of the CPU back end: bodies, and the module that the real generators put around."""

import math
import struct

import numpy as np

from cuda_device.codegen.cpu import cpu_dialect
from cuda_device.codegen.cpu.cpu_dialect import runner
from cuda_device.runtime.cpu_executor import execute

POISON = -77


def module(body, leaves=(), names=(), suspends=False, shared=0, allocas="", extra=""):
    """A whole module around `body`, which starts in an open block and ends the thread by `br label %coro.finish`."""
    parameters = ", ".join(f"{type} %{name}" for type, name in zip(leaves, names, strict=True))
    text = cpu_dialect.declarations() + extra + cpu_dialect.kernel_signature("kernel", parameters, suspends)
    if suspends:
        text += cpu_dialect.prologue(allocas) + body + cpu_dialect.epilogue()
    else:
        text += f"entry:\n{allocas}{body}coro.finish:\n  ret void\n"
    return text + "}\n" + runner("kernel", leaves, suspends, shared)


def registers(*names):
    """Loads `thread_idx.x` into `%thread_idx.x`, and so on."""
    return "".join(cpu_dialect.special_register(name, f"%{name}") for name in names)


# out[block * n + tid] accumulates shared[n - 1 - tid], three times over, two barriers a turn.
REVERSAL = (
    registers("linear_thread", "shared", "block_idx.x", "block_idx.y", "block_idx.z", "grid_dim.x", "grid_dim.y")
    + """\
  %plane = mul i32 %block_idx.z, %grid_dim.y
  %row = add i32 %plane, %block_idx.y
  %rows = mul i32 %row, %grid_dim.x
  %block = add i32 %rows, %block_idx.x
  %first.slot = mul i32 %block, %n
  %index = add i32 %first.slot, %linear_thread
  %slot = getelementptr i32, ptr %out, i32 %index
  %mine = getelementptr i32, ptr %shared, i32 %linear_thread
  %last = sub i32 %n, 1
  %mirror = sub i32 %last, %linear_thread
  %theirs = getelementptr i32, ptr %shared, i32 %mirror
  store i32 0, ptr %slot
  br label %turn
turn:
  %k = phi i32 [0, %coro.start], [%k.next, %read]
  %sum = add i32 %index, %k
  store i32 %sum, ptr %mine
"""
    + cpu_dialect.barrier(1, "written")
    + """\
  %got = load i32, ptr %theirs
  %old = load i32, ptr %slot
  %new = add i32 %old, %got
  store i32 %new, ptr %slot
"""
    + cpu_dialect.barrier(2, "read")
    + """\
  %k.next = add i32 %k, 1
  %again = icmp slt i32 %k.next, 3
  br i1 %again, label %turn, label %coro.finish
"""
)


def run_reversal(code, grid, block, **options):
    n, blocks = math.prod(block), math.prod(grid)
    out = np.full(blocks * n, POISON, np.int32)
    execute(code, grid, block, struct.pack("@Pi", out.ctypes.data, n), keep=out, **options)
    index = np.arange(blocks * n, dtype=np.int32).reshape(blocks, n)
    assert (out.reshape(blocks, n) == 3 * index[:, ::-1] + 3).all()
