"""Functions for device code from a library's own C++, instructions and generated text, as nvmath's device calls are.

    from device_calls import clamped, norm, polynomial

`norm` is C++, which is linked to the kernels that call it; its body in Python is for the host, the CPU stream, and for the types
of calls. `sad` is one instruction of a GPU. `polynomial` writes the text of a function for the coefficients that it is given.
"""

from __future__ import annotations

import math

import numpy as np

import cuda_device as device
from cuda_device import float32, int32

_CPP = device.cuda_source('extern "C" __device__ float library_norm(float x, float y) { return sqrtf(x * x + y * y); }')


@device.extern(symbol="library_norm", link=_CPP)
def norm(x: float32, y: float32) -> float32:
    """The length of a vector."""
    return float32(math.sqrt(x * x + y * y))


@device.intrinsic("sad.s32 $0, $1, $2, $3;")
def sad(a: int32, b: int32, c: int32) -> int32:
    """`abs(a - b) + c`."""
    return abs(a - b) + c


@device.intrinsic("llvm.nvvm.saturate.f")
def saturate(x: float32) -> float32:
    """`x` between 0 and 1."""
    return min(max(x, float32(0)), float32(1))


def text_of(coefficients):
    """The text of a function: a polynomial by Horner's rule, the highest power first."""
    lines = ["def polynomial(x):", f"    y = float32({float(coefficients[0])!r})"]
    lines += [f"    y = y * x + float32({float(each)!r})" for each in coefficients[1:]]
    return "\n".join([*lines, "    return y", ""])


def polynomial(coefficients):
    """A polynomial as a function of device code."""
    names = {"float32": float32}
    exec(text_of(coefficients), names)
    return names["polynomial"]


def code_of(coefficients, target="sm_90", output="ltoir"):
    """A polynomial for a linker of CUDA C++ that is a function of a float32, and gives one."""
    names = {"float32": float32}
    return device.compile(text_of(coefficients), float32, globals=names, result=float32, target=target, output=output)


square = polynomial([1, 0, -0.5])


@device.kernel
def evaluate(x, y, out, steps):
    """Fills `out` with what these functions give, and `steps` with sums of absolute differences."""
    i = device.tid(1)
    if i < len(out):
        out[i] = saturate(square(norm(x[i], y[i])))
        steps[i] = sad(int32(x[i]), int32(y[i]), 1)


@device.kernel
def evaluate_without_cpp(x, out, steps):
    """The same without C++, for machines without NVRTC."""
    i = device.tid(1)
    if i < len(out):
        out[i] = saturate(square(x[i]))
        steps[i] = sad(int32(x[i]), 7, 1)


if __name__ == "__main__":
    stream = device.cpu_stream()
    x, y = np.array([0, 0.6, 3], np.float32), np.array([0.5, 0.8, 4], np.float32)
    out = np.zeros(3, np.float32)
    steps = np.zeros(3, np.int32)
    device.launch(evaluate, x, y, out, steps, grid=1, block=32, stream=stream)
    print(out, steps)
