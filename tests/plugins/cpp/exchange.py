"""Every kind of value in both directions between Python and CUDA C++, ready to be linked and run.

CPP calls Python's `f0`, `f1`, … from its kernels `k0`, `k1`, …, and defines `e0`, `e1`, … for a kernel in Python. All of them
hand on what they get.
"""

import functools
from typing import Any

import cuda_cpp
import numpy as np
import test_interop_abi as abi

import cuda_device as device

# None has no value to tell, and arrays have tests of their own.
KINDS = [kind for kind in abi.kinds() if kind[2] is not None and "descriptor" not in kind[1]]
TYPES = [type for _, _, type in KINDS]


def cpp_callers() -> str:
    """The C++ of `k0`, `k1`, …"""
    text = abi.INCLUDES + "".join(definition for definition, _, _ in KINDS)
    for i, (_, cpp, _) in enumerate(KINDS):
        text += f'extern "C" __device__ {cpp} f{i}({cpp} x);\n'
        text += f'extern "C" __global__ void k{i}(const {cpp}* from, {cpp}* to) {{ *to = f{i}(*from); }}\n'
    return text


def cpp_functions() -> str:
    """The C++ of `e0`, `e1`, …, without what it includes and defines."""
    return "".join(
        f'extern "C" __device__ {cpp} e{i}({cpp} x) {{ return x; }}\n' for i, (_, cpp, _) in enumerate(KINDS)
    )


@functools.cache
def cpp_ptx() -> bytes:
    return cuda_cpp.compile_cpp(cpp_callers() + cpp_functions())


@functools.cache
def python_functions(target: str = cuda_cpp.TARGET, output: str = "ptx"):
    """`f0`, `f1`, …"""
    functions = [abi.function_of(f"f{i}", f"def f{i}(x): return x", device.func) for i in range(len(KINDS))]
    return [device.compile(f, type, target=target, output=output) for f, type in zip(functions, TYPES, strict=True)]


@functools.cache
def cpp_calls_python(target: str = cuda_cpp.TARGET) -> Any:
    """A cubin with `k0`, `k1`, …"""
    return cuda_cpp.assembled(cpp_ptx(), *python_functions(target), target=target)


def externs():
    """`e0`, `e1`, … as declarations."""
    for i, type in enumerate(TYPES):
        stub = plain_function(f"e{i}", f"def e{i}(x): return x")
        stub.__annotations__ = {"x": type, "return": type}
        yield device.extern(stub)


def plain_function(name, text):
    names = {}
    exec(text, names)
    return names[name]


@functools.cache
def python_kernel(as_source: bool = False) -> device.Kernel:
    """A kernel that hands on an element of each kind, from one array to another, through C++: PTX, or a source."""
    count = len(KINDS)
    parameters = ", ".join(f"from{i}, to{i}" for i in range(count))
    scope = {f"e{i}": extern for i, extern in enumerate(externs())}
    exec(f"def kernel({parameters}):\n" + "".join(f"    to{i}[0] = e{i}(from{i}[0])\n" for i in range(count)), scope)
    if as_source:
        definitions = "".join(definition for definition, _, _ in KINDS)
        return device.kernel(link=device.cuda_source(abi.INCLUDES + definitions + cpp_functions()))(scope["kernel"])
    # What calls the rest of the module has nobody who defines it: the functions f0, f1, … of Python's.
    return device.kernel(link=[cpp_ptx(), *python_functions()])(scope["kernel"])


def sample(type):
    """An array with one value of a type, different in each part, and one that is poisoned."""
    dtype = np.dtype(device.numpy_dtype(type))
    value, poisoned = np.zeros(1, dtype), np.zeros(1, dtype)
    poisoned.view(np.uint8)[...] = 0x01
    fill(value, iter(range(3, 1000)))
    return value, poisoned


def fill(value, numbers):
    if value.dtype.names is None:
        value[...] = next(numbers) % 2 == 1 if value.dtype == bool else next(numbers)
        return
    for name in value.dtype.names:
        fill(value[name], numbers)


def parts(value):
    """The numbers in an array of one value, without padding."""
    if value.dtype.names is None:
        return [value.reshape(-1)[0].item()]
    return [number for name in value.dtype.names for number in parts(value[name])]
