"""Interoperable functions for the host: object files that g++ links, and callables that check what they are given."""

import ctypes
import glob
import os
import pathlib
import random
import shutil
import subprocess
from types import FunctionType

import numpy as np
import pytest
import test_interop_abi as abi

import cuda_device as device
from cuda_device.types.abi import representation
from cuda_device.types.host import type_of_hint
from cuda_device.types.layout import accesses

FLOATS = device.ArrayType(device.float32, 1)


@device.struct
class Point:
    x: device.float32
    y: device.float64


def native(function, *types):
    """A function for the host; lambdas are called `f`."""
    if function.__name__ == "<lambda>":
        code = function.__code__.replace(co_name="f", co_qualname="f")
        function = FunctionType(code, globals(), "f", None, function.__closure__)
    return device.compile(device.func(interop=True)(function), *types, target="host", output="callable")


# The convention, beside g++


@pytest.fixture(scope="module")
def toolkit():
    """The options with which g++ finds all of CUDA's headers."""
    homes = [os.environ.get("CUDA_HOME", ""), *sorted(glob.glob("/usr/local/cuda*"))]
    for home in map(pathlib.Path, filter(None, homes)):
        if shutil.which("g++") and (home / "include" / "crt" / "host_defines.h").is_file():
            include = home / "include"
            return ["-std=c++17", "-w", f"-I{include}", f"-I{include / 'cccl'}", f"-I{device.get_include()}"]
    return pytest.skip("no g++, or no CUDA toolkit")


def fill(type, name, seed):
    """C++ that gives each number in a value bytes of its own; padding stays as it is."""
    lines = []
    for access in accesses(representation(type_of_hint(type)), 1):
        size = 1 if str(access.type) == "bool" else getattr(access.type, "bits", 64) // 8
        number = 1 if str(access.type) == "bool" else seed + access.offset
        lines.append(
            f"  std::memset((char*)&{name} + {access.offset}, {number % 100 + 1 if size > 1 else number % 2}, {size});"
        )
    return "\n".join(lines)


def compare(type, a, b, what):
    """C++ that compares the numbers in two values."""
    lines = []
    for access in accesses(representation(type_of_hint(type)), 1):
        size = 1 if str(access.type) == "bool" else getattr(access.type, "bits", 64) // 8
        here = f"(char*)&{a} + {access.offset}, (char*)&{b} + {access.offset}, {size}"
        lines.append(
            f'  if (std::memcmp({here})) {{ std::printf("{what} differs at {access.offset}\\n"); failed = 1; }}'
        )
    return "\n".join(lines)


def test_values_pass_as_in_cpp_on_the_host(toolkit, tmp_path):
    """Each kind alone, and lists of many, in which registers run out: any of them comes back."""
    choice = random.Random(4)
    kinds = [kind for kind in abi.kinds() if kind[2] is not None and "descriptor<float, 0>" not in kind[1]]
    chosen = [[k] for k in range(len(kinds))]
    chosen += [[choice.randrange(len(kinds)) for _ in range(choice.randrange(2, 12))] for _ in range(120)]
    text = abi.INCLUDES + "#include <cstdio>\n#include <cstring>\n" + "".join(kind[0] for kind in kinds)
    body, objects = "", []
    for i, picked in enumerate(chosen):
        back = choice.randrange(len(picked))
        names = [f"p{j}" for j in range(len(picked))]
        function = abi.function_of(f"f{i}", f"def f{i}({', '.join(names)}): return p{back}", device.func)
        made = device.compile(function, *(kinds[k][2] for k in picked), target="host", output="object")
        objects.append(tmp_path / f"f{i}.o")
        objects[-1].write_bytes(made.code)
        listed = ", ".join(f"{kinds[k][1]} {name}" for k, name in zip(picked, names, strict=True))
        text += f'extern "C" {kinds[picked[back]][1]} f{i}({listed});\n'
        body += "{\n" + "".join(
            f"  {kinds[k][1]} {n}{{}};\n{fill(kinds[k][2], n, 7 * j)}\n"
            for j, (k, n) in enumerate(zip(picked, names, strict=True))
        )
        body += f"  {kinds[picked[back]][1]} r = f{i}({', '.join(names)});\n"
        body += (
            compare(kinds[picked[back]][2], f"p{back}", "r", f"f{i}({', '.join(kinds[k][1] for k in picked)})")
            + "\n}\n"
        )
    (tmp_path / "main.cpp").write_text(f"{text}int main() {{\n int failed = 0;\n{body} return failed;\n}}\n")
    program = tmp_path / "main"
    subprocess.run(["g++", "-O0", *toolkit, program.with_suffix(".cpp"), *objects, "-lm", "-o", program], check=True)
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_failed_assertion_ends_the_program(toolkit, tmp_path):
    def checked(x):
        assert x > 0, "not positive"
        return x

    function = device.func(interop=True)(checked)
    (tmp_path / "f.o").write_bytes(device.compile(function, float, target="host", output="object").code)
    text = 'extern "C" float checked(float x); int main(int n, char**) { return checked(3.f - n) == 2 ? 0 : 5; }'
    (tmp_path / "main.cpp").write_text(text)
    subprocess.run(["g++", str(tmp_path / "main.cpp"), str(tmp_path / "f.o"), "-o", str(tmp_path / "main")], check=True)
    assert subprocess.run([str(tmp_path / "main")]).returncode == 0
    assert subprocess.run([str(tmp_path / "main"), "1", "2", "3"]).returncode < 0


# Callables


def test_numbers_and_their_types():
    def combined(a, b, c: device.float64 = 0.5):
        return a * b + c

    f = native(combined, device.float32, int)
    assert f(1.5, 2) == 3.5 and type(f(1.5, 2)) is np.float64 and f(1.5, b=2, c=1) == 4
    assert repr(f) == "<function for the host combined(a: float32, b: int, c: float64) -> float64>"
    assert native(lambda x: x > 2, int)(3) is True
    assert type(native(lambda x: x // 2, int)(7)) is int
    assert native(lambda x: x, device.bfloat16)(device.bfloat16(1.5)) == 1.5
    assert native(lambda z: z * 2, device.complex64)(np.complex64(1 + 2j)) == 2 + 4j
    assert native(lambda x: np.sin(x), device.float64)(0.5) == np.sin(0.5)


def test_structs_vectors_and_tuples():
    f = native(lambda p, v: (Point(p.x + 1, p.y), v * 2, 3), Point, device.float32x4)
    assert f(Point(1, 2), device.float32x4(1, 2, 3, 4)) == (Point(2, 2), device.float32x4(2, 4, 6, 8), 3)
    record = np.dtype([("a", np.int8), ("b", np.int32)])
    given = np.array([(1, 2)], record)[0]
    assert native(lambda x: x, record)(given) == given
    assert native(lambda h: h, device.float16x2)(device.float16x2(1, 2)) == device.float16x2(1, 2)


def test_what_is_passed_needs_no_alignment():
    wide = device.struct(align=256)(
        type("wide", (), {"__annotations__": {"v": device.float32x4, "d": device.float64x4}})
    )
    f = native(lambda c, w: wide(w.v + c, w.d), device.int8, wide)
    for _ in range(20):
        given = wide(device.float32x4(1, 2, 3, 4), device.float64x4(5, 6, 7, 8))
        assert f(1, given).v == device.float32x4(2, 3, 4, 5) and f(1, given).d == given.d


def test_none_has_a_place_among_the_arguments():
    function = native(lambda x, none, y: x - y if none is None else y, device.float32, None, device.float32)
    assert function(device.float32(5), None, device.float32(2)) == 3


def test_arrays_and_pointers():
    def scaled(x, p: device.pointer(device.float32), k):
        for i in range(len(x)):
            x[i] *= k
        p[0] = x[len(x) - 1]

    f = native(scaled, FLOATS, device.pointer(device.float32), float)
    x, out = np.arange(8, dtype=np.float32), np.zeros(1, np.float32)
    assert f(x[::2], out, 10) is None
    assert x.tolist() == [0, 1, 20, 3, 40, 5, 60, 7] and out[0] == 60
    f(x, out.ctypes.data, 1)
    assert out[0] == 7


def test_pointers_to_structs():
    made = native(lambda p, i: p[i].y, device.pointer(Point, readonly=True), int)
    points = np.array([(1, 2), (3, 4)], device.numpy_dtype(Point))
    assert made(points, 1) == 4 and made(points.ctypes.data, 0) == 2
    with pytest.raises(
        device.LaunchError, match="'p' is an array of float64, but the parameter's type hint is pointer<struct"
    ):
        made(points["y"].copy(), 0)


def test_the_address_is_that_of_c():
    f = native(lambda x, y: x - y, device.float64, int)
    call = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int)(f.address)
    assert call(1.5, 4) == -2.5 and f.compiled.code.startswith(b"\x7fELF")


@device.extern
def outside(x: device.float32) -> device.float32:
    return x + 1


def test_it_is_the_host():
    def f(x):
        if device.target(device.is_host):
            return outside(x)
        return device.float32(device.thread_idx.x)

    assert native(f, device.float32)(1) == 2


def test_recursion_and_atomics():
    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    assert native(factorial, device.int64)(10) == 3628800

    def count(x):
        return device.atomic_ref(x, 0).add(2)

    x = np.int32([5])
    assert native(count, device.ArrayType(device.int32, 1))(x) == 5 and x[0] == 7


# What is wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (np.zeros(2), 1),
            "'x' is of type array<float64, 1, C>, but the kernel was compiled for array<float32, 1, strided",
        ),
        ((np.zeros(2, np.float32), "a"), "'k' is"),
        ((np.zeros(2, np.float32),), "f is missing an argument for 'k'"),
        ((np.zeros((2, 2), np.float32), 1), "'x' is of type array<float32, 2, C>"),
    ],
)
def test_arguments_are_checked(arguments, message):
    f = native(lambda x, k: x[0] * k, FLOATS, float)
    with pytest.raises(device.Error, match=message) as caught:
        f(*arguments)
    assert caught.value.help
    assert f(np.float32([3]), 2) == 6


def test_assertions_are_raised():
    def checked(x, n):
        assert x[n] > 0, f"x[{n}] is {x[n]}"
        return x[n]

    f = native(checked, FLOATS, int)
    with pytest.raises(device.KernelError, match=r"x\[1\] is -2") as caught:
        f(np.float32([1, -2]), 1)
    assert caught.value.location.file == __file__ and caught.value.thread is None
    assert f(np.float32([1, -2]), 0) == 1


def indexes(x):
    return x + device.thread_idx.x


def waits(x):
    device.syncthreads()
    return x


def prints(x):
    print(x)
    return x


def shares(x):
    return device.shared_array(4, device.float32)[0] + x


@pytest.mark.parametrize("function", [indexes, waits, prints, shares])
def test_threads_are_refused(function):
    with pytest.raises(device.CompileError, match="for the host is not called by a kernel, so it has no") as caught:
        native(function, device.float32)
    assert caught.value.location.file == __file__ and "is_host" in caught.value.help


def test_what_cannot_be_compiled_for_the_host():
    kernel, plain = device.kernel(interop=True)(waits), device.func(waits)
    for f in (kernel, plain):
        with pytest.raises(TypeError, match="target='host' is for functions with @func"):
            device.compile(f, float, target="host", output="object")
    function = device.func(interop=True)(waits)
    for target, output in (("host", "cubin"), ("sm_90", "object"), ("sm_90", "callable")):
        with pytest.raises(
            ValueError, match=f"output='{output}' is not available for target='{target}': choose one of"
        ):
            device.compile(function, float, target=target, output=output)
    with pytest.raises(device.CompileError, match="whose memory would not be kept alive") as caught:
        native(lambda x: x, FLOATS)
    assert caught.value.help


@pytest.mark.needs("saved")
def test_objects_are_saved_and_loaded(tmp_path):
    made = device.compile(device.func(interop=True)(factor), float, target="host")
    assert made.output == "object"
    made.save(tmp_path / "factor.o")
    again = device.load(tmp_path / "factor.o")
    assert again == made and (again.target, again.output, again.symbol) == ("host", "object", "factor")
    assert again.parameters[0].type == "float"


def factor(x):
    return 2 * x
