"""Kernels for the tests of the CPU back end: in LLVM text, within the module that the real generators make, and in Python."""

import ctypes
import math
import struct

import numpy as np
from ir_helpers import read, stage

import cuda_device as device
from cuda_device.cpu.cpu_dialect import Cpu
from cuda_device.cpu.cpu_executor import Execution
from cuda_device.cpu.machine_code import compile_native
from cuda_device.runtime.gpu.grid import Shape

POISON = -77
IR = read("func @kernel -> none kernel device {\n^0():\n  return\n}")
KERNEL, DIALECT = IR.main, Cpu(IR)


def module(body, leaves=(), names=(), extra=""):
    """A whole module around `body`, which starts in an open block and ends the thread by `br label %finish`."""
    parameters = [f"{type} %{name}" for type, name in zip(leaves, names, strict=True)]
    head, _ = DIALECT.begin_function(KERNEL, "void", parameters, "")
    return f"{DIALECT.preamble()}{extra}{head}{body}finish:\n  ret void\n{DIALECT.end_function(KERNEL)}{DIALECT.runner(leaves)}"


def registers(*names):
    """Loads `thread_idx.x` into `%thread_idx.x`, and so on."""
    return "".join(DIALECT.register(name, f"%{name}") for name in names)


@device.kernel(checked=False)
def reversal(out, n):
    """Each thread adds what the last but so many wrote, three times over, with two barriers a turn."""
    shared = device.shared_array(1024, device.int32)
    t, b, size, grid = device.thread_idx, device.block_idx, device.block_dim, device.grid_dim
    thread = int(t.x + size.x * (t.y + size.y * t.z))
    index = int(b.x + grid.x * (b.y + grid.y * b.z)) * n + thread
    out[index] = 0
    for k in range(3):
        shared[thread] = index + k
        device.syncthreads()
        out[index] += shared[n - 1 - thread]
        device.syncthreads()


def compiled(kernel, *arguments):
    """The machine code of a kernel for the CPU."""
    return stage("native", kernel, *arguments, on_cpu=True)


def assembled(body, leaves=(), names=(), extra="", functions=None):
    """The machine code of the module around `body`, which may call functions at addresses."""
    return compile_native(module(body, leaves, names, extra), functions or {})


def run(code, grid, block, parameters, *keep, **options):
    """Runs machine code as a launch does."""
    Execution(code, Shape(grid, block, 0), **options)(parameters, *keep)


def packed(format, *values):
    """The parameters of a kernel, in the format of `struct`."""
    return ctypes.create_string_buffer(struct.pack(format, *values), struct.calcsize(format))


def run_reversal(code, grid, block, **options):
    n, blocks = math.prod(block), math.prod(grid)
    out = np.full(blocks * n, POISON, np.int32)
    run(code, grid, block, packed("@Pqi", out.ctypes.data, len(out), n), out, **options)
    index = np.arange(blocks * n, dtype=np.int32).reshape(blocks, n)
    assert (out.reshape(blocks, n) == 3 * index[:, ::-1] + 3).all()
