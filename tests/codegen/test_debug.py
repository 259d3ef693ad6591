"""`debug=True`: lines and variables for gdb, which is run here where there is one, and for cuda-gdb, whose DWARF is looked at."""

import math
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import cuda_device as device

FLOATS = device.ArrayType(device.float32, 1)
PROGRAM = """
import numpy as np
import cuda_device as device

@device.kernel(debug=True)
def saxpy(a, x, y):
    i = device.tid(1)
    if i < len(y):
        product = a * x[i]
        y[i] = product + y[i]  # line 10

@device.kernel(debug=True)
def reverse(x):
    tile = device.shared_array(32, device.float32)
    t = device.thread_idx.x
    is_odd = t % 2 == 1
    tile[t] = x[t]
    device.syncthreads()
    after = tile[31 - t]
    x[t] = after  # line 20

stream = device.cpu_stream()
x = np.arange(32, dtype=np.float32)
device.launch(saxpy, 2.0, x, x + 10, grid=1, block=32, stream=stream)
device.launch(reverse, x, grid=1, block=32, stream=stream)
print(x[:3])
"""


@device.kernel(debug=True)
def mixed(x, n, flags):
    """Variables of many kinds, and control flow of many kinds."""

    def scaled(value, by=2):
        return value * by

    pair = device.float32x2(1, 2)
    items = [x[0], x[1]]
    total, count = 0.0, 0
    for i in range(n):
        if flags[i]:
            continue
        total += scaled(x[i], by=i) + pair.x + items[i % 2]
        count += 1
    squares = sum(each * each for each in (total, 1.0))
    first, *others = (total, squares, math.sqrt(squares))
    x[device.tid(1)] = first + others[1] if count > 1 else 0


@device.kernel
def plain(x, n, flags):
    """The same, optimised."""
    mixed_underlying(x, n, flags)


mixed_underlying = mixed.underlying


def test_results_are_the_same(stream):
    elements, flags = np.linspace(0, 1, 8, dtype=np.float32), np.array([0, 1] * 4, dtype=bool)
    results = []
    for kernel in (mixed, plain):
        results.append(stream.run(kernel, elements, 8, flags)[0])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)


@device.kernel(debug=True)
def scale(x, by):
    i = device.tid(1)
    if i < len(x):
        changed = x[i] * by
        x[i] = changed


def test_dwarf_of_a_gpu():
    ptx = str(device.compile(scale, FLOATS, float, output="ptx"))
    assert ".target sm_90, debug" in ptx and ".debug_info" in ptx
    names = bytes(int(byte) for byte in re.findall(r"^\.b8 (\d+)", ptx, re.M))
    for name in ("scale", "x", "by", "i", "changed", "float32", "int32", "test_debug.py"):
        assert b"\0" + name.encode() + b"\0" in names or name.encode() + b"\0" in names, name
    assert "mul.f32" in ptx and "st.b32" in ptx  # what a variable has is in memory
    made = device.compile(scale, FLOATS, float)
    assert all(b"\0.debug_%s\0" % name in made.code for name in (b"info", b"line", b"abbrev"))  # names of sections


@device.struct
class Pair:
    """A struct with members of two types."""

    x: device.float32
    n: device.int32


@device.kernel(debug=True)
def of_other_elements(vectors, pairs, numbers, halves, small, flags):
    i = device.thread_idx.x
    vector, pair, number, half, eighth, flag = vectors[i], pairs[i], numbers[i], halves[i], small[i], flags[i]
    pairs[i] = Pair(vector.y + pair.x, pair.n + 1)
    numbers[i] = number * 1j
    halves[i] = half + half
    small[i] = eighth
    flags[i] = not flag


def test_arrays_of_other_elements(stream):
    """Pointers to what debuggers are not told of are pointers to void."""
    arrays = [
        stream.array(np.array([(1, 2)] * 4, device.numpy_dtype(device.float32x2))),
        stream.array(np.array([(1, 2)] * 4, device.numpy_dtype(Pair))),
        stream.array(np.ones(4, np.complex64)),
        stream.array(np.ones(4, device.bfloat16)),
        stream.array(np.ones(4, device.float8e4m3)),
        stream.array(np.ones(4, bool)),
    ]
    stream.launch(of_other_elements, *arrays, grid=1, block=4)
    shown = [stream.numpy(array)[0].tolist() for array in arrays[1:]]
    assert shown == [(3, 3), 1j, 2, 1, False]
    types = [device.ArrayType(t, 1) for t in (device.float32x2, Pair, device.complex64, device.bfloat16)]
    types += [device.ArrayType(device.float8e4m3, 1), device.ArrayType(bool, 1)]
    assert ".debug_info" in str(device.compile(of_other_elements, *types, output="ptx"))


def test_without_it_nothing_is_said():
    optimised = device.kernel(scale.underlying)
    for output in ("ir", "llvm", "ptx"):
        text = str(device.compile(optimised, FLOATS, float, output=output))
        assert "variable {" not in text and "dbg" not in text and "debug" not in text
    assert "variable {" in str(device.compile(scale, FLOATS, float, output="ir"))


def test_it_is_not_optimised_unless_asked():
    assert scale.options.build.level == 0
    assert device.kernel(debug=True, level=2)(scale.underlying).options.build.level == 2
    assert device.kernel(debug=False)(scale.underlying).options.build.level == 3
    assert "debug" in str(device.compile(scale, FLOATS, float, output="ptx", level=3))
    with pytest.raises(TypeError, match=r"@kernel\(debug=…\) takes True or False"):
        device.kernel(debug=1)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("gdb") is None, reason="there is no gdb")
def test_gdb(tmp_path):
    """A breakpoint on a line of Python, the values of variables there, in a thread of the grid, also behind a barrier."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    commands = [
        "set breakpoint pending on",
        "set debuginfod enabled off",
        "break program.py:10 if i == 5",
        "break program.py:20 if t == 3",
        "run",
        "info locals",
        "print x[3]",
        "backtrace 1",
        "continue",
        "info locals",
        "print tile[0]@4",
        "continue",
    ]
    words = [part for command in commands for part in ("-ex", command)]
    root = os.path.dirname(os.path.dirname(device.__file__))
    settings = os.environ | {
        "CUDA_DEVICE_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": root,
        "CUDA_DEVICE_CPU_THREADS": "1",
    }
    for run in ("compiled", "from the cache"):
        done = subprocess.run(
            ["gdb", "-q", "-nx", "-batch", *words, "--args", sys.executable, str(program)],
            capture_output=True,
            text=True,
            env=settings,
            timeout=120,
        )
        shown = done.stdout
        if "ptrace" in done.stderr:
            pytest.skip("gdb may not trace processes here")
        for expected in ("a = 2", "i = 5", "product = 10", "$1 = 3", "saxpy () at", "[31. 30. 29.]"):
            assert expected in shown, (run, expected, shown, done.stderr)
        for expected in ("t = 3", "after = 28", "is_odd = true", "$2 = {0, 1, 2, 3}"):
            assert expected in shown, (run, expected, shown, done.stderr)
