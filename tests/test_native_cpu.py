"""Launches on the CPU stream whose arguments machine code reads: results beside NumPy's, and what Python is left to do."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from at_once import at_once
from conftest import poison

import cuda_device as device
from cuda_device.errors import KernelError, LaunchError
from cuda_device.launchers import memory_layout, plans
from cuda_device.runtime.launch import launcher

pytestmark = pytest.mark.skipif(not memory_layout.is_usable(), reason="no launchers for this Python")
STREAM = device.cpu_stream()
FACTOR = 2


def launch(kernel, *args, grid=1, block=64, **kwargs):
    device.launch(kernel, *args, grid=grid, block=block, **{"stream": STREAM} | kwargs)


def warm(kernel, *args, **kwargs):
    for _ in range(launcher.FIRST_LAUNCHER):
        launch(kernel, *args, **kwargs)
    assert kernel.native is not None


def by_machine_code(kernel, *args, **kwargs):
    """Whether a launch is made without Python's way; it is made in any case."""
    before = sum(variant.launches for variant in kernel.variants.values())
    launch(kernel, *args, **kwargs)
    return sum(variant.launches for variant in kernel.variants.values()) == before


def copier():
    @device.kernel
    def copy(x, y):
        i = device.tid(1)
        if i < x.size:
            y[i % y.shape[0], i // y.shape[0]] = x[i % x.shape[0], i // x.shape[0]]

    return copy


DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
FORMS = {
    "C": lambda a: a,
    "F": np.asfortranarray,
    "strided": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "backwards": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    copy = copier()
    x, y = (np.arange(24).reshape(4, 6) % 5).astype(dtype), poison((4, 6), dtype)
    warm(copy, x, y)
    for shape in ((4, 6), (1, 24), (8, 3)):
        x, y = (np.arange(24)[::-1].reshape(shape) % 3).astype(dtype), poison(shape, dtype)
        assert by_machine_code(copy, x, y)
        assert (y == x).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", FORMS)
def test_layouts(form, target):
    copy = copier()
    source = np.arange(24, dtype=np.float32).reshape(4, 6)
    x, y = FORMS[form](source), FORMS[target](poison((4, 6)))
    warm(copy, x, y)
    y[...] = np.nan
    assert by_machine_code(copy, x, y)
    assert (y == source).all()
    for other in FORMS:
        if other != form and not (other in ("strided", "backwards") and form in ("strided", "backwards")):
            y[...] = np.nan
            assert not by_machine_code(copy, FORMS[other](source), y)
            assert (y == source).all()


SCALARS = [True, -7, 2**31 - 1, 0.1, 1e300, -float("inf"), 1.5 - 2j, np.bool_(True)]
SCALARS += [np.dtype(dtype).type(9.5) for dtype in DTYPES[1:]]


@pytest.mark.parametrize("value", SCALARS, ids=lambda value: f"{type(value).__name__} {value}")
def test_scalars(value):
    @device.kernel
    def store(y, a):
        y[0] = a

    y = poison(1, {bool: "?", int: "i4", float: "f4", complex: "c8"}.get(type(value)) or value.dtype)
    warm(store, y, type(value)(0))
    y[...] = poison(1, y.dtype)
    assert by_machine_code(store, y, a=value)
    with np.errstate(over="ignore"):
        assert y[0] == y.dtype.type(value)


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        ("i8", [-(1 << 63), (1 << 63) - 1]),
        ("u8", [0, (1 << 64) - 1]),
        ("u4", [0, (1 << 32) - 1]),
        ("i1", [-128, 127]),
        ("f4", [(1 << 53) - 1, -(1 << 53), 1]),
        ("f8", [(1 << 53) - 1, -3]),
        ("f8", [0.1, 1e300, -0.0]),
        ("f4", [0.1, 1e300]),
        ("c16", [0.1 + 1e300j]),
    ],
)
def test_hints_of_numbers(hint, values):
    """What Python's numbers become, they become here; what has no room is Python's to refuse."""

    def store(y, a):
        y[0] = a

    store.__annotations__ = {"a": np.dtype(hint)}  # text would be read without this function's names
    store = device.kernel(store)
    y, outside = poison(1, hint), {"i8": 1 << 63, "u8": -1, "u4": 1 << 32, "i1": 128}
    warm(store, y, type(values[0])(0))
    for value in values:
        y[...] = poison(1, hint)
        assert by_machine_code(store, y, value)
        with np.errstate(over="ignore"):
            assert y.tobytes() == np.array([value], hint).tobytes()
    if hint in outside:
        with pytest.raises(LaunchError, match="no room"):
            launch(store, y, outside[hint])
    else:
        assert not by_machine_code(store, y, True)
        assert y[0] == 1
    for wrong in (1j, np.int16(1)):
        if hint != "c16" or wrong != 1j:
            with pytest.raises(LaunchError, match="the hint of the parameter says"):
                launch(store, y, wrong)


def test_ints_that_are_no_doubles_become_floats_by_python():
    @device.kernel
    def store(y, a: device.float32):
        y[0] = a

    y = poison(1)
    warm(store, y, 1)
    assert not by_machine_code(store, y, (1 << 53) + 1)
    assert y[0] == np.float32((1 << 53) + 1)
    assert by_machine_code(store, y, 1 << 53)


def test_tuples_constants_defaults_and_sizes():
    @device.kernel
    def k(t, n: device.ConstExpr[int], a=2.0):
        i = device.tid(1)
        if i < n:
            t[0][i] = a * t[1][0] + device.grid_size(1)

    y = poison(8)
    warm(k, (y, (3,)), 4)
    for a in (2.0, 5.0):
        y[...] = np.nan
        assert by_machine_code(k, (y, (3,)), 4, a, grid=(2, 1), block=(8, 1, 1))
        assert y[:4].tolist() == [3 * a + 16] * 4
        assert np.isnan(y[4:]).all()
    assert not by_machine_code(k, (y, (3,)), 5)
    assert not by_machine_code(k, (y, (3.0,)), 4)


def test_arrays_that_python_reads():
    @device.kernel
    def scale(x, y):
        i = device.tid(1)
        if i < len(y):
            y[i] = FACTOR * x[i]

    class Own(np.ndarray):
        """A subclass may be anything."""

    x, y = np.arange(8, dtype=np.float32), poison(8)
    warm(scale, x, y)
    frozen = x.copy()
    frozen.flags.writeable = False
    raw = np.zeros(40, np.uint8)[1:33].view(np.float32)
    raw[...] = x
    for other in (
        frozen,
        x.copy().view(Own),
        raw,
        x.astype(np.float64),
        x[:0],
        y,
        x[None][0][::-1],
        np.ma.array(x)[:].data[::2],
    ):
        y[...] = np.arange(8)
        expected = np.array(other, np.float32) * 2
        assert not by_machine_code(scale, other, y[: len(other)])
        assert (y[: len(other)] == expected).all()
    with pytest.raises(LaunchError, match="masked"):
        launch(scale, np.ma.array(x), y)
    with pytest.raises(LaunchError, match="type list"):
        launch(scale, [1, 2], y)
    assert by_machine_code(scale, x, y)
    with pytest.raises(device.CompileError, match="read-only|readonly"):
        launch(scale, x, frozen)


def test_strides_are_aligned_as_elements_are():
    """A field of packed records begins where a number may, and goes on where none may."""

    @device.kernel
    def copy(x, y):
        i = device.tid(1)
        if i < len(y):
            y[i] = x[i]

    source = np.arange(1, 9, dtype=np.float32)
    wide, packed = (np.zeros(8, np.dtype([("value", "<f4"), ("rest", f"V{rest}")])) for rest in (4, 3))
    for records in (wide, packed):
        records["value"] = source
        assert records["value"].ctypes.data % 4 == 0
    y = poison(8)
    warm(copy, wide["value"], y)
    assert by_machine_code(copy, wide["value"], y)
    y[...] = np.nan
    assert not by_machine_code(copy, packed["value"], y)
    assert (y == source).all()


def test_other_streams(monkeypatch):
    @device.kernel
    def k(y):
        y[device.tid(1)] = 1

    y = poison(8)
    warm(k, y, block=8)
    assert by_machine_code(k, y, block=8, stream=device.cpu_stream())
    assert not by_machine_code(k, y, block=8, stream=device.cpu_stream(target="sm_80"))
    assert not by_machine_code(k, y, block=8, stream=device.cpu_stream(races=True))
    with pytest.raises(LaunchError):
        launch(k, y, block=8, stream="text")
    with pytest.raises(LaunchError, match="228|232448|more than"):
        launch(k, y, block=8, shared=300 << 10)
    assert by_machine_code(k, y, block=8, shared=1 << 16)


def test_errors_of_kernels_are_raised_once():
    @device.kernel
    def k(y, n):
        assert n < 5, "too large"
        y[0] += n

    y = np.zeros(1, np.float32)
    warm(k, y, 1, block=1)
    count = y[0]
    for _ in range(3):
        with pytest.raises(KernelError, match="too large") as caught:
            launch(k, y, 7, block=1)
        assert "in thread (0, 0, 0)" in str(caught.value)
    assert by_machine_code(k, y, 1, block=1)
    assert y[0] == count + 1  # each launch once


def test_prints_are_printed(capfd):
    @device.kernel
    def k(n):
        print("n is", n)

    for n in range(2 * launcher.FIRST_LAUNCHER):
        launch(k, n, block=1)
    assert capfd.readouterr().out.split("\n")[:-1] == [f"n is {n}" for n in range(2 * launcher.FIRST_LAUNCHER)]


def test_a_changed_name_is_seen(monkeypatch):
    @device.kernel
    def k(y):
        y[0] = FACTOR

    y = poison(1)
    warm(k, y, block=1)
    monkeypatch.setitem(globals(), "FACTOR", 5)
    assert not by_machine_code(k, y, block=1)
    assert y[0] == 5


def test_barriers_and_many_blocks():
    @device.kernel
    def reverse(x, y):
        s = device.shared_array(64, device.float32)
        i = device.thread_idx.x
        s[i] = x[device.tid(1)]
        device.syncthreads()
        y[device.tid(1)] = s[63 - i]

    x, y = np.arange(6400, dtype=np.float32), poison(6400)
    warm(reverse, x, y, grid=100)
    y[...] = np.nan
    assert by_machine_code(reverse, x, y, grid=100)
    assert (y.reshape(100, 64)[:, ::-1].reshape(-1) == x).all()


def test_nothing_is_left_behind():
    @device.kernel
    def k(x, y, n):
        assert n < 5
        y[0] = x[0]

    x, y, large = np.zeros(8, np.float32), np.zeros(8, np.float32), int("77")
    warm(k, x, y, 1)
    objects, counts = [x, y, k, STREAM, large], []
    for number in range(3000):
        launch(k, x, y, 1)
        with pytest.raises(KernelError):
            launch(k, x, y, large)
        if number == 100:
            counts = [sys.getrefcount(obj) for obj in objects]
    gc.collect()
    assert [abs(sys.getrefcount(obj) - count) < 50 for obj, count in zip(objects, counts, strict=True)] == [True] * 5


def test_threads():
    @device.kernel
    def add(x, y, a):
        i = device.tid(1)
        if i < len(y):
            y[i] = x[i] + a

    def work(number):
        for i in range(400):
            x, y = np.full(64, number, np.float32), poison(64)
            launch(add, x, y, i if number % 2 else float(i))
            assert (y == number + i).all()
            if i % 50 == number:
                add.native = None

    at_once(partial(work, number) for number in range(8))


IN_TWO_PROCESSES = """
import sys
import numpy as np
import cuda_device as device

@device.kernel
def double(x, y):
    y[device.tid(1)] = 2 * x[device.tid(1)]

@device.kernel
def triple(x, y):
    y[device.tid(1)] = 3 * x[device.tid(1)]

for kernel, factor in ((double, 2), (triple, 3)):
    for number in range(20):
        x, y = np.full(32, number, np.float32), np.zeros(32, np.float32)
        device.launch(kernel, x, y, grid=1, block=32, stream=device.cpu_stream())
        assert (y == factor * number).all()
    assert kernel.native is not None
from cuda_device.launchers import plans
print(plans._machine_code.cache_info().misses, "cuda_device.codegen.llvm.bindings" in sys.modules)
"""


def test_launchers_come_from_the_cache(tmp_path):
    """Two kernels with the same parameters have one launcher, and the next process makes none."""
    script = tmp_path / "script.py"
    script.write_text(IN_TWO_PROCESSES)
    more = {"CUDA_DEVICE_CACHE": str(tmp_path / "cache"), "CUDA_DEVICE_VERIFY": "", "PYTHONPATH": os.getcwd()}
    environment = {**os.environ, **more}
    for expected in ("1 True", "1 False"):
        command = [sys.executable, str(script)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        assert done.stdout.strip() == expected


def test_nobody_waits_long_for_a_launcher(monkeypatch):
    """A launch pays for it, and what it would gain by more of LLVM is less than can be measured."""
    from cuda_device.codegen.cpu import native

    made = []
    genuine = native.compile_piece

    def compile_piece(ir, level, quick=False):
        made.append(("launcher" in ir, quick))
        return genuine(ir, level, quick)

    monkeypatch.setattr(native, "compile_piece", compile_piece)
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "0")
    plans._machine_code.cache_clear()

    @device.kernel
    def kernel(x, y, a, b):
        y[0] = a * x[0] + b

    x, y = np.full(1, 3, np.float32), np.zeros(1, np.float32)
    for _ in range(launcher.FIRST_LAUNCHER + 1):
        device.launch(kernel, x, y, 2.0, 1.0, grid=1, block=1, stream=device.cpu_stream())
    assert y[0] == 7 and len(kernel.native) > 1
    assert made == [(True, True)]
