"""CUDA's programming model in Python, compiled straight to LLVM IR: the names of the `cuda.device` specification.

import cuda_device as device

@device.kernel
def add(x, y, z):
    i = device.tid(1)
    if i < len(z):
        z[i] = x[i] + y[i]

device.launch(add, x, y, z, grid=4, block=256)
"""

from numpy import (
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

from cuda_device.device.expressions import ConstExpr
from cuda_device.device.functions import Func, Kernel, func, kernel
from cuda_device.device.memory import shared_array
from cuda_device.device.positioning import block_dim, block_idx, grid_dim, grid_size, thread_idx, tid
from cuda_device.device.sync import syncthreads
from cuda_device.errors import CompileError, DeviceOnlyError, Error, KernelError, LaunchError
from cuda_device.runtime.device_array import DeviceArray, array, empty, zeros
from cuda_device.runtime.launcher import Compiled, compile, launch, synchronize
from cuda_device.runtime.streams import CpuStream, GpuStream, Stream, cpu_stream, default_stream
from cuda_device.types.arraytype import ArrayType

__version__ = "0.1.0"

__all__ = [
    "ArrayType",
    "CompileError",
    "Compiled",
    "ConstExpr",
    "CpuStream",
    "DeviceArray",
    "DeviceOnlyError",
    "Error",
    "Func",
    "GpuStream",
    "Kernel",
    "KernelError",
    "LaunchError",
    "Stream",
    "array",
    "block_dim",
    "block_idx",
    "compile",
    "cpu_stream",
    "default_stream",
    "empty",
    "float16",
    "float32",
    "float64",
    "func",
    "grid_dim",
    "grid_size",
    "int8",
    "int16",
    "int32",
    "int64",
    "kernel",
    "launch",
    "shared_array",
    "synchronize",
    "syncthreads",
    "thread_idx",
    "tid",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "zeros",
]
