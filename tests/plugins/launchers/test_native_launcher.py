"""Launches by machine code: what they hand to the driver, byte for byte, what makes them give up, and what they leave behind."""

from __future__ import annotations

import ctypes
import functools
import gc
import struct
import sys
import threading
import time
import weakref
from copy import deepcopy
from functools import partial
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from at_once import at_once
from conftest import BY_PYTHON, HAS_LAUNCHERS
from fake_driver import CONTEXT, Result, installed
from producers import Cupy, Torch

import cuda_device as device
from cuda_device import extend
from cuda_device.cpu import machine_code
from cuda_device.plugins.launchers import (
    argument_reading,
    c_api,
    framework_fields,
    memory_layout,
    object_reading,
    plans,
)
from cuda_device.runtime.gpu import driver, launch_log, report_message, streams

STREAM = 0x77
MEMORY = 0x7F00_0000_0000
FACTOR = 2

pytestmark = pytest.mark.skipif(not HAS_LAUNCHERS, reason="no launchers for this Python")


class Gpu:
    """A fake driver whose context is current, and a stream of it."""

    def __init__(self, driver):
        self.driver = driver
        driver.stack[-1] = CONTEXT
        self.stream = device.GpuStream(STREAM, 0, context=CONTEXT)

    def launch(self, kernel, *args, grid=1, block=32, **kwargs):
        device.launch(kernel, *args, grid=grid, block=block, **{"stream": self.stream} | kwargs)

    def warm(self, kernel, *args, **kwargs):
        """Launches until there is machine code for such arguments."""
        for _ in range(BY_PYTHON):
            self.launch(kernel, *args, **kwargs)
        assert kernel.native is not None

    def warmed(self, *text, **scope):
        """A new kernel of two arrays for which there is machine code, and the arrays, which are tensors."""
        kernel, arrays = new(*text, **scope), tensors()
        self.warm(kernel, *arrays)
        return kernel, *arrays

    def by_machine_code(self, kernel, *args, **kwargs):
        """Whether a launch is made without Python; it is made once in any case."""
        before, self.driver.by_address = len(self.driver.launched), 0
        self.launch(kernel, *args, **kwargs)
        assert len(self.driver.launched) == before + 1
        return self.driver.by_address == 1

    @property
    def last(self):
        """The driver's log of the last launch: kernel, grid, block, shared memory, stream."""
        return [entry for entry in self.driver.log if entry[0] == "cuLaunchKernel"][-1][1:]


@pytest.fixture
def gpu():
    with installed() as driver:
        yield Gpu(driver)


def new(text="y[device.tid(1)] = x[device.tid(1)]", parameters="x, y", **scope):
    """A kernel that no other test has."""
    names = {"device": device, **scope}
    exec(compile(f"def k({parameters}):\n    {text}", "<kernel>", "exec", dont_inherit=True), names)
    return device.kernel(names["k"])


def tensors(count=2, step=0x1000, **fields):
    torch = fields.pop("torch", None) or Torch()
    return [torch.tensor(MEMORY + i * step, **fields) for i in range(count)]


@pytest.fixture
def copy(gpu):
    """A kernel for which there is machine code, the framework of its arguments, and these."""
    kernel, torch = new(), Torch()
    x, y = tensors(torch=torch)
    gpu.warm(kernel, x, y)
    return kernel, torch, x, y


# What is taken to be known of this Python


def test_slots_and_fields_of_functions_lie_where_they_are_found():
    class Pair:
        __slots__ = ("__dict__", "__weakref__", "first", "second")

    pair = Pair()
    pair.first, pair.second = object(), object()
    for name in ("first", "second"):
        assert word(pair, memory_layout.slot(Pair, name)) == id(getattr(pair, name))

    def function(x, y=5):
        return x + y

    for name, offset in memory_layout.function_words().items():
        assert word(function, offset) == id(getattr(function, f"__{name}__"))


def word(owner, offset):
    return ctypes.c_uint64.from_address(id(owner) + offset).value


# What the driver gets

SCALARS = [
    (True, b"\1"),
    (False, b"\0"),
    (7, struct.pack("i", 7)),
    (-(2**31), struct.pack("i", -(2**31))),
    (2**31 - 1, struct.pack("i", 2**31 - 1)),
    (0.1, struct.pack("f", 0.1)),
    (1e300, struct.pack("f", float("inf"))),
    (-1e300, struct.pack("f", -float("inf"))),
    (float("-inf"), struct.pack("f", -float("inf"))),
    (-0.0, struct.pack("f", -0.0)),
    (1e-45, struct.pack("f", 1e-45)),
    (1.5 - 2.5j, struct.pack("ff", 1.5, -2.5)),
    (np.bool_(True), b"\1"),
    *(
        (np.dtype(kind).type(-3), struct.pack(code, -3))
        for kind, code in zip(("i1", "i2", "i4", "i8"), "bhiq", strict=True)
    ),
    *(
        (np.dtype(kind).type(250), struct.pack(code, 250))
        for kind, code in zip(("u1", "u2", "u4", "u8"), "BHIQ", strict=True)
    ),
    (np.uint64(2**64 - 1), struct.pack("Q", 2**64 - 1)),
    (np.int64(-(2**63)), struct.pack("q", -(2**63))),
    (np.float16(1.5), struct.pack("e", 1.5)),
    (np.float32(0.1), struct.pack("f", 0.1)),
    (np.float64(0.1), struct.pack("d", 0.1)),
    (np.complex64(1 + 2j), struct.pack("ff", 1, 2)),
    (np.complex128(1 + 2j), struct.pack("dd", 1, 2)),
]


@pytest.mark.parametrize(("value", "expected"), SCALARS, ids=lambda v: f"{type(v).__name__} {v!r}"[:40])
def test_numbers(gpu, value, expected):
    kernel = new("y[0] = a.real if False else y[0]", "a, y")
    (y,) = tensors(1)
    gpu.warm(kernel, value, y)
    parts = 2 if isinstance(value, (complex, np.complexfloating)) else 1
    gpu.driver.sizes = [len(expected) // parts] * parts + [8, 4]
    assert gpu.by_machine_code(kernel, value, y)
    found = gpu.driver.bytes[-1]
    assert b"".join(found[:parts]) == expected
    assert found[parts:] == [struct.pack("Q", MEMORY), struct.pack("i", 8)]


@pytest.mark.parametrize("value", [ml_dtypes.bfloat16(1.5), device.float32x2(1, 2)], ids=["bfloat16", "vector"])
def test_other_values_are_launched_by_python(gpu, value):
    kernel, (y,) = new("y[0] = 1 if a == a else 0", "a, y"), tensors(1)
    for _ in range(BY_PYTHON):
        gpu.launch(kernel, value, y)
    assert not gpu.by_machine_code(kernel, value, y)


LAYOUTS = [
    ((), None, []),
    ((8,), None, [8]),
    ((8,), (1,), [8]),
    ((1,), (77,), [1]),
    ((8,), (3,), [8, 12]),
    ((8,), (-1,), [8, -4]),
    ((8,), (0,), [8, 0]),
    ((4, 6), None, [4, 6]),
    ((4, 6), (1, 4), [4, 6]),
    ((4, 6), (8, 1), [4, 6, 32, 4]),
    ((2, 3, 4), (12, 4, 1), [2, 3, 4]),
    ((2, 3, 4), (1, 2, 6), [2, 3, 4]),
    ((2, 1, 4), (4, 99, 1), [2, 1, 4]),
]


@pytest.mark.parametrize(("shape", "strides", "expected"), LAYOUTS, ids=lambda v: str(v))
@pytest.mark.parametrize("producer", ["torch", "cupy"])
def test_arrays(gpu, monkeypatch, producer, shape, strides, expected):
    kernel = new("n[0] = x.size", "x, n")
    if producer == "torch":
        framework = Torch()
        x, n = framework.tensor(MEMORY + 256, shape, strides=strides, offset=64), framework.tensor(MEMORY + 8192)
    else:
        framework = Cupy()
        monkeypatch.setitem(sys.modules, "cupy", framework)
        in_bytes = strides and tuple(4 * stride for stride in strides)
        x, n = framework.array(MEMORY + 256, shape, strides=in_bytes), framework.array(MEMORY + 8192)
        gpu.driver.foreign_addresses |= {MEMORY + 256, MEMORY + 8192}
    gpu.warm(kernel, x, n)
    lengths, steps = expected[: len(shape)], expected[len(shape) :]
    gpu.driver.sizes = [8, *[4] * len(lengths), *[8] * len(steps), 8, 4]
    assert gpu.by_machine_code(kernel, x, n)
    data = [struct.pack("Q", MEMORY + 256), *(struct.pack("i", n) for n in lengths)]
    data += [struct.pack("q", step) for step in steps]
    assert gpu.driver.bytes[-1] == [*data, struct.pack("Q", MEMORY + 8192), struct.pack("i", 8)]


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "b1"])
def test_dtypes(gpu, dtype):
    kernel = new()
    torch = Torch()
    x, y = (torch.tensor(MEMORY + i * 4096, (16,), dtype) for i in range(2))
    gpu.warm(kernel, x, y)
    assert gpu.by_machine_code(kernel, x, y)
    for other in ("i1", "u2", "f4", "c8", "b1"):
        if other != dtype:
            z = torch.tensor(MEMORY + 8192, (16,), other)
            same = kernel.variants.copy()
            try:
                assert not gpu.by_machine_code(kernel, z, y)
            except device.CompileError:
                assert "c" in (dtype[0], other[0])
                continue
            assert len(kernel.variants) > len(same)
    assert gpu.by_machine_code(kernel, x, y)


def test_our_own_arrays(gpu):
    kernel = new("y[device.tid(1), 0] = x[device.tid(1)]")
    x, y = device.zeros(8, stream=gpu.stream), device.zeros((8, 3), stream=gpu.stream)
    gpu.warm(kernel, x, y)
    gpu.driver.sizes = [8, 4, 8, 4, 4]
    assert gpu.by_machine_code(kernel, x, y)
    addresses = struct.pack("Q", x._memory.address), struct.pack("Q", y._memory.address)
    eight, three = struct.pack("i", 8), struct.pack("i", 3)
    assert gpu.driver.bytes[-1] == [addresses[0], eight, addresses[1], eight, three]
    assert gpu.by_machine_code(kernel, device.empty(5, stream=gpu.stream), y)
    elsewhere = device.zeros(8, stream=device.GpuStream(0x88, 0, context=CONTEXT))
    assert gpu.by_machine_code(kernel, elsewhere, y)
    assert not gpu.by_machine_code(kernel, device.zeros(8, np.float64, stream=gpu.stream), y)
    assert not gpu.by_machine_code(kernel, device.zeros(0, stream=gpu.stream), y)

    @device.struct
    class Point:
        x: device.float32
        y: device.float64

    kernel, points = new("y[0] = points[0].x", "points, y"), device.zeros(4, Point, stream=gpu.stream)
    gpu.driver.sizes = []
    gpu.warm(kernel, points, x)
    assert gpu.by_machine_code(kernel, points, x)
    assert gpu.by_machine_code(kernel, device.zeros(9, Point, stream=gpu.stream), x)


@pytest.mark.parametrize("interop", [False, True])
def test_structs(gpu, interop):
    @device.struct
    class Inner:
        pair: tuple[device.int32, device.float64]
        at: device.pointer(device.float32)

    @device.struct
    class Outer:
        n: int
        inner: Inner
        x: device.ArrayType(device.float32, 1)

    @device.kernel(interop=interop)
    def k(outer, y):
        y[0] = outer.x[outer.n] + outer.inner.at[0]

    x, y = device.zeros(8, stream=gpu.stream), device.zeros(9, stream=gpu.stream)
    make = lambda n, x=x: Outer(n, Inner((2, 3.5), x._memory.address), x)  # noqa: E731
    gpu.launch(k, make(1), y)
    layout = next(iter(k.variants.values())).packing.structure
    gpu.driver.sizes = [layout.size]
    gpu.launch(k, make(1), y)
    gpu.warm(k, make(1), y)
    assert gpu.by_machine_code(k, make(1), y)
    by_python, by_machine = (layout.unpack(gpu.driver.bytes[i][0]) for i in (1, -1))
    assert by_python == by_machine
    assert gpu.by_machine_code(k, make(5, device.zeros(2, stream=gpu.stream)), y)
    assert layout.unpack(gpu.driver.bytes[-1][0])[0] == 5
    assert not gpu.by_machine_code(k, make(1, y[::2]), y)


@device.struct(align=64)
class Columns:
    data: device.pointer(device.float32)
    rest: tuple[(device.int64,) * 4]


@device.struct
class OtherColumns:
    data: device.pointer(device.float32)


class Table(extend.ByValue):
    """An array whose address, and a number, are bytes of a kernel's argument."""

    __slots__ = ()

    def __init__(self, array, struct=Columns):
        super().__init__(struct, array, extend.array_view(device.as_array(array, order="strided")))

    def pack(self, on_gpu):
        size = extend.layout.size_of(self._known.type.pointee)
        return struct.pack("=QQ", self._view.data, 7).ljust(64, b"\0")[:size]


@pytest.mark.parametrize("framework", ["ours", "torch"])
def test_arguments_by_value(gpu, framework):
    kernel = new("t[1].data[2] = y[0]", "t, y")
    x, y = tensors() if framework == "torch" else (device.zeros(8, stream=gpu.stream) for _ in range(2))
    gpu.warm(kernel, (1, Table(x)), y)
    gpu.driver.sizes = [4, 64, 8, 4]
    table = Table(x)
    assert not gpu.by_machine_code(kernel, (1, table), y)  # Python packs it first
    assert gpu.by_machine_code(kernel, (1, table), y)
    data, address = struct.pack("=QQ48x", table._view.data, 7), extend.array_view(device.as_array(y)).data
    assert gpu.driver.bytes[-1] == [struct.pack("i", 1), data, struct.pack("Q", address), struct.pack("i", 8)]
    for other in (x[::2] if framework == "ours" else y, y):
        assert not gpu.by_machine_code(kernel, (1, Table(other)), y)
    assert not gpu.by_machine_code(kernel, (1, Table(x, OtherColumns)), y)
    elsewhere = Table(device.zeros(8, stream=device.GpuStream(0x88, 0, context=CONTEXT)))
    gpu.launch(kernel, (1, elsewhere), y)
    waits = gpu.driver.names().count("cuStreamWaitEvent")
    assert gpu.by_machine_code(kernel, (1, elsewhere), y) == (framework == "ours")
    assert gpu.driver.names().count("cuStreamWaitEvent") > waits
    table._address += 1
    with pytest.raises(device.LaunchError, match=r"argument 't\[1\]': the array of the Table has moved"):
        gpu.launch(kernel, (1, table), y)


def test_attributes_that_a_class_must_not_have(gpu):
    """Classes may get overloads of the functions that the kernel calls with their objects."""
    text = "tile = device.swizzled(device.shared_array((8, 32), device.float32), 128); tile[0, 0] = x[0]; y[0] = tile[0, 0]"
    kernel, x, y = gpu.warmed(text)
    assert gpu.by_machine_code(kernel, x, y)
    (variant,) = kernel.variants.values()
    absent = [name for name in variant.work.dependencies if name.is_missing and isinstance(name.owner, type)]
    setattr(absent[-1].owner, absent[-1].name, None)
    try:
        assert not gpu.by_machine_code(kernel, x, y)
    finally:
        delattr(absent[-1].owner, absent[-1].name)


def test_tuples_and_none(gpu):
    kernel = new("t[0][0] = t[1][1] if o is None else 0", "t, o")
    (x,) = tensors(1)
    gpu.warm(kernel, (x, (1, 2.5), ()), None)
    gpu.driver.sizes = [8, 4, 4, 4]
    assert gpu.by_machine_code(kernel, (x, (7, -2.5), ()), None)
    assert gpu.driver.bytes[-1] == [
        struct.pack("Q", MEMORY), struct.pack("i", 8), struct.pack("i", 7), struct.pack("f", -2.5),
    ]  # fmt: skip
    for other in ((x, (7, 2), ()), (x, (7, 2.5)), (x, (7, 2.5, 1), ()), (x, (7, 2.5), None)):
        assert not gpu.by_machine_code(kernel, other, None)
    with pytest.raises(device.LaunchError):
        gpu.launch(kernel, [x, (7, 2.5), ()], None)


@pytest.mark.parametrize(("value", "by_machine_code"), [((7,) * 400, True), ((7,) * 600, False), (((7,),) * 40, False)])
def test_arguments_have_little_room_on_the_stack(gpu, value, by_machine_code):
    """Python launches kernels with more leaves, or more tuples, than machine code has room for."""
    kernel, (y,) = new("y[0] = len(t)", "t, y"), tensors(1)
    for _ in range(BY_PYTHON):
        gpu.launch(kernel, value, y)
    assert gpu.by_machine_code(kernel, value, y) == by_machine_code


def test_constants(gpu):
    scope = {"C": device.ConstExpr[int], "S": device.ConstExpr[bool], "F": device.ConstExpr[float]}
    kernel = new("y[0] = n * f if s else 0", "y, n: C, s: S, f: F", **scope)
    (y,) = tensors(1)
    gpu.warm(kernel, y, 1000, True, 0.5)
    assert gpu.by_machine_code(kernel, y, int("1000"), True, float("0.5"))
    assert not gpu.by_machine_code(kernel, y, 1001, True, 0.5)
    assert not gpu.by_machine_code(kernel, y, 1000, False, 0.5)
    assert not gpu.by_machine_code(kernel, y, 1000, True, 0.25)
    with pytest.raises(device.LaunchError, match="constant int"):
        gpu.launch(kernel, y, 1.5, True, 0.5)
    zero = float("0.0")
    gpu.warm(kernel, y, 1000, True, zero)
    assert not gpu.by_machine_code(kernel, y, 1000, True, -0.0)


def test_an_interoperable_kernel_gets_descriptors(gpu):
    names = {"device": device}
    exec("@device.kernel(interop=True)\ndef k(x, a, y, o):\n    y[0, 0] = a", names)
    torch = Torch()
    x, y = torch.tensor(MEMORY, (4, 6), strides=(1, 4)), torch.tensor(MEMORY + 4096, (2, 3))
    gpu.warm(names["k"], x, 1.5, y, None)
    gpu.driver.sizes = [40, 4, 40, 8]
    for _ in range(2):
        expected = struct.pack("Qqqqq", MEMORY, 4, 6, 1, 4), struct.pack("f", 1.5)
        assert gpu.by_machine_code(names["k"], x, 1.5, y, None)
        assert gpu.driver.bytes[-1] == [*expected, struct.pack("Qqqqq", MEMORY + 4096, 2, 3, 3, 1), bytes(8)]


@pytest.mark.parametrize("interop", [False, True])
@pytest.mark.parametrize("what", ["addresses", "our own arrays", "tensors"])
def test_pointers(gpu, interop, what):
    """Addresses and the beginnings of arrays: those that Python refuses or knows to be others are left to it."""
    names = {"device": device, "P": device.pointer(device.float32), "V": device.pointer()}
    exec(f"@device.kernel(interop={interop})\ndef k(p: P, v: V, n):\n    p[n] = v.cast(device.float32)[n]", names)
    kernel, (tensor, other) = names["k"], tensors(2)
    own, longs = (device.zeros(8, dtype, stream=gpu.stream) for dtype in (np.float32, np.int64))
    p, v, p_at, v_at = {
        "addresses": (MEMORY, MEMORY + 1, MEMORY, MEMORY + 1),
        "our own arrays": (own, longs, own._memory.address, longs._memory.address),
        "tensors": (tensor, own, MEMORY, own._memory.address),
    }[what]
    gpu.driver.sizes = [8, 8, 4]
    gpu.warm(kernel, p, v, 3)
    assert gpu.by_machine_code(kernel, p, v, 3)
    assert gpu.driver.bytes[-1] == [struct.pack("Q", p_at), struct.pack("Q", v_at), struct.pack("i", 3)]
    near = {"addresses": (0, 7), "our own arrays": (device.zeros(3, stream=gpu.stream), longs), "tensors": (other, own)}
    assert gpu.by_machine_code(kernel, *near[what], 3)
    assert not gpu.by_machine_code(kernel, (1 << 63) + 4, 0, 3)
    for wrong in (MEMORY + 2, -4, True, None, longs, Torch().tensor(MEMORY, (16,), strides=(2,))):
        with pytest.raises(device.LaunchError, match="'p'"):
            gpu.launch(kernel, wrong, v, 3)
    assert gpu.by_machine_code(kernel, p, v, 3)


# How a launch is written


def test_keywords_defaults_and_sizes(gpu):
    kernel = new("y[0] = a * b * c + x[0]", "x, y, a, b=2.0, *, c=3")
    x, y = tensors()
    gpu.warm(kernel, x, y, 1, c=4)
    gpu.driver.sizes = [8, 4, 8, 4, 4, 4, 4]

    def numbers():
        return [struct.unpack(code, data)[0] for code, data in zip("ifi", gpu.driver.bytes[-1][4:], strict=True)]

    assert gpu.by_machine_code(kernel, x, y, 5, c=6, grid=(2, 3), block=(4, 5, 6), shared=64)
    assert numbers() == [5, 2.0, 6]
    assert gpu.last[1:] == ((2, 3, 1), (4, 5, 6), 64, STREAM)
    assert gpu.by_machine_code(kernel, c=1, b=0.5, a=7, y=y, x=x, grid=(5,), block=1024)
    assert numbers() == [7, 0.5, 1]
    assert gpu.last[1:] == ((5, 1, 1), (1024, 1, 1), 0, STREAM)
    assert gpu.by_machine_code(
        kernel, *(x, y), **{name: number for name, number in (("a", 3), ("c", 2))}, grid=2**31 - 1, block=(1, 1, 64)
    )
    assert not gpu.by_machine_code(kernel, x, y, 1)  # c is in a dict that anyone may change
    assert not gpu.by_machine_code(kernel, x, y, 1, c=1, grid=np.int64(2))
    assert not gpu.by_machine_code(kernel, x, y, 1, c=1, block=[2])
    kernel.underlying.__defaults__ = (5.0,)
    assert not gpu.by_machine_code(kernel, x, y, 1, c=1)
    assert numbers() == [1, 5.0, 1]


def test_positions_have_room_in_an_int32(gpu):
    kernel, other = new(), new("y[device.block_idx.x] = x[0]")
    x, y = tensors()
    for each in (kernel, other):
        gpu.warm(each, x, y)
    with pytest.raises(device.LaunchError, match="threads along x"):
        gpu.launch(kernel, x, y, grid=2**21, block=1024)
    gpu.launch(other, x, y, grid=2**21, block=1024)
    assert gpu.by_machine_code(kernel, x, y, grid=2**21 - 1, block=1024)


def test_names_that_are_equal_and_other_objects(gpu):
    kernel, x, y = gpu.warmed("there[0] = here[0]", "here, there")
    name = str(b"there", "ascii")
    assert name is not kernel.underlying.__code__.co_varnames[1]
    assert gpu.by_machine_code(kernel, x, **{name: y})
    assert gpu.by_machine_code(kernel, **{name: y, "here": x})
    with pytest.raises(device.LaunchError, match="no parameter 'their'"):
        gpu.launch(kernel, x, **{str(b"their", "ascii"): y})
    other = new("y[0] = x[0]", "x, /, y")
    gpu.warm(other, x, y)
    assert gpu.by_machine_code(other, x, y=y)
    with pytest.raises(device.LaunchError, match="cannot be named"):
        gpu.launch(other, x=x, y=y)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "is missing an argument for 'a'"),
        ((1, 2), {}, "takes 3 arguments, not 4"),
        ((1,), {"a": 1}, "two values"),
        ((), {"b": 1}, "no parameter 'b'"),
        ((2**31,), {}, "32 bits wide"),
        ((-(2**31) - 1,), {}, "32 bits wide"),
        ((10**30,), {}, "that wide"),
        (("text",), {}, "type str"),
        ((1,), {"grid": 0}, "grid=0"),
        ((1,), {"grid": -1}, "grid=-1"),
        ((1,), {"grid": 2**31}, "grid="),
        ((1,), {"grid": 2**64}, "grid="),
        ((1,), {"grid": (1, 65536)}, "grid="),
        ((1,), {"grid": (1, 1, 65536)}, "grid="),
        ((1,), {"grid": ()}, "dimensions"),
        ((1,), {"grid": (1, 1, 1, 1)}, "dimensions"),
        ((1,), {"grid": True}, "grid=True"),
        ((1,), {"grid": 1.0}, "grid=1.0"),
        ((1,), {"block": 1025}, "block=1025"),
        ((1,), {"block": (32, 33)}, "1024 threads"),
        ((1,), {"block": (1, 1, 65)}, "block="),
        ((1,), {"shared": -1}, "shared=-1"),
        ((1,), {"shared": 1 << 20}, "shared="),
        ((1,), {"stream": "text"}, "not a stream"),
        ((1,), {"stream": -5}, "stream"),
        ((1,), {"stream": 2**64}, "stream"),
    ],
)
def test_errors_are_those_of_python(gpu, args, kwargs, message):
    kernel, (x, y) = new("y[0] = a + x[0]", "x, y, a"), tensors()
    gpu.warm(kernel, x, y, 1)
    for _ in range(3):
        count = len(gpu.driver.launched)
        with pytest.raises(device.LaunchError, match=message):
            gpu.launch(kernel, x, y, *args, **kwargs)
        assert len(gpu.driver.launched) == count
        assert gpu.by_machine_code(kernel, x, y, 1)


# What makes machine code give up


GIVING_UP = {
    "another shape": lambda torch, x, y: (torch.tensor(MEMORY, (4,), strides=(-1,)), y),
    "another layout": lambda torch, x, y: (torch.tensor(MEMORY, (8,), strides=(2,)), y),
    "no elements": lambda torch, x, y: (torch.tensor(MEMORY, (0,)), y),
    "unaligned": lambda torch, x, y: (torch.tensor(MEMORY + 2), y),
    "overlapping": lambda torch, x, y: (torch.tensor(MEMORY + 0x1000 + 28), y),
    "the same": lambda torch, x, y: (y, y),
    "large": lambda torch, x, y: (torch.tensor(MEMORY, (2**31,)), torch.tensor(MEMORY + (1 << 40))),
    "another device": lambda torch, x, y: (torch.tensor(MEMORY, device=1), y),
    "pinned": lambda torch, x, y: (torch.tensor(MEMORY, kind=3), y),
    "managed": lambda torch, x, y: (torch.tensor(MEMORY, kind=13), y),
    "another type": lambda torch, x, y: (Torch().tensor(MEMORY), y),
}


@pytest.mark.parametrize("case", GIVING_UP)
def test_other_arrays(gpu, case, copy):
    kernel, torch, x, y = copy
    arguments = GIVING_UP[case](torch, x, y)
    if case == "another device":
        with pytest.raises(device.LaunchError, match="is on GPU 1"):
            gpu.launch(kernel, *arguments)
    else:
        assert not gpu.by_machine_code(kernel, *arguments)
    assert gpu.by_machine_code(kernel, x, y)
    beside = torch.tensor(MEMORY + 0x1000 - 32)
    assert gpu.by_machine_code(kernel, beside, y)  # up to the first byte of y


def test_facts_that_do_not_hold_have_a_launcher_of_their_own(gpu):
    kernel, torch = new(), Torch()
    x, y = tensors(torch=torch)
    gpu.warm(kernel, y, y)
    assert len(kernel.variants) == 2
    assert gpu.by_machine_code(kernel, y, y)
    assert gpu.by_machine_code(kernel, torch.tensor(MEMORY + 0x1000 + 28), y)
    assert not gpu.by_machine_code(kernel, x, y)  # for which there is the better variant


@pytest.mark.parametrize("field", ["requires_grad", "negative", "conjugated"])
@pytest.mark.parametrize("dtype", ["f4", "c8", "i4"])
def test_tensors_with_reservations(gpu, field, dtype):
    kernel, torch = new(), Torch()
    x, y = (torch.tensor(MEMORY + i * 4096, (8,), dtype) for i in range(2))
    gpu.warm(kernel, x, y)
    assert gpu.by_machine_code(kernel, x, y)
    if dtype != "c8" and field == "conjugated" or (dtype == "i4" and field == "negative"):
        return  # there are none
    other = torch.tensor(MEMORY, (8,), dtype, **{field: True})
    with pytest.raises(device.LaunchError):
        gpu.launch(kernel, other, y)
    setattr(x, field, True)  # as another tensor would have it that takes the place of one that is gone
    with pytest.raises(device.LaunchError):
        gpu.launch(kernel, x, y)


@pytest.mark.parametrize("other", [{"dtype": "i4"}, {"device": 1}, {"shape": (2, 4)}], ids=str)
def test_arrays_of_cupy_that_differ(gpu, monkeypatch, other):
    monkeypatch.setitem(sys.modules, "cupy", framework := Cupy())
    gpu.driver.foreign_addresses |= {MEMORY, MEMORY + 64}
    kernel, x, y = new("y[0] = x.size", "x, y"), framework.array(MEMORY), framework.array(MEMORY + 64)
    gpu.warm(kernel, x, y)
    assert gpu.by_machine_code(kernel, x, y)
    assert not gpu.by_machine_code(kernel, framework.array(MEMORY, **other), y)


def fields_of_torch(tensor, array, out, _):
    found = object_reading.words(out)
    right, found[0], found[1], found[2] = argument_reading.torch_tensor(tensor, array)
    return np.int64(right)


@functools.cache
def torch_code():
    text = c_api.entry_text(fields_of_torch, "fields", (), ())
    return machine_code.compile_native(text, exports=("fields",), alone=True)


def read_torch(tensor, **array):
    """The address of the memory of the tensor at an address, and those of its lengths and strides; None if it differs."""
    call = ctypes.CFUNCTYPE(ctypes.c_bool, *[ctypes.c_void_p] * 4)(torch_code().address("fields"))
    found = (ctypes.c_uint64 * 3)()
    array = memory_layout.pack(memory_layout.Array, itemsize=4, **array)
    return tuple(found) if call(tensor, array, ctypes.addressof(found), None) else None


@pytest.mark.parametrize(
    "change", [{}, *({name: 9} for name in ("autograd", "keys", "kind", "ndim", "freed")), {"storage": 0}]
)
def test_fields_of_a_tensor(change):
    fields = {"impl": 16, "autograd": 8, "keys": 16, "kind": 24, "ndim": 32, "shape": 40, "strides": 48, "offset": 56}
    storage = (ctypes.c_uint64 * 3)(0, 0x1000, change.get("freed", 77))
    values = {"autograd": 0, "keys": 5, "kind": 0xFF010006, "ndim": 1, "shape": 7, "strides": 1, "offset": 3}
    values |= {"storage": ctypes.addressof(storage)} | change
    impl = (ctypes.c_uint64 * 9)(0, *(values[name] for name in [*list(fields)[1:], "storage"]))
    tensor = (ctypes.c_uint64 * 3)(0, 0, ctypes.addressof(impl))
    offsets = {f"torch_{name}": offset for name, offset in (fields | {"storage": 64, "data": 8}).items()}
    found = read_torch(ctypes.addressof(tensor), ndim=1, keys=5, kind=0xFF010006, freed=77, **offsets)
    assert found == (None if change else (0x1000 + 3 * 4, ctypes.addressof(impl) + 40, ctypes.addressof(impl) + 48))


def test_fields_of_torch_tensors():
    torch = pytest.importorskip("torch")
    layout, plain = framework_fields.torch_layout(torch.Tensor), torch.arange(240.0)
    assert layout is not None
    expected = dict(zip(("keys", "kind", "freed"), framework_fields.torch_words(layout, plain), strict=True))
    expected |= {f"torch_{name}": offset for name, offset in layout.items()}

    def read(tensor, count=None):
        ndim = tensor.dim()
        found = read_torch(id(tensor), ndim=ndim if count is None else count, **expected)
        return found and (found[0], *(tuple((ctypes.c_int64 * ndim).from_address(at)) for at in found[1:]))

    parts = plain, plain[5:], plain[7], plain[::2], plain.reshape(2, 3, 4, 5, 2).permute(4, 0, 2, 1, 3)
    for tensor in (part.detach() for part in parts):
        assert read(tensor) == (tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
    assert read(plain.detach(), 2) is None
    zeros, cells = torch.zeros, torch.zeros(3)
    views = plain[5:], torch._lazy_clone(plain), torch._neg_view(cells), zeros(3, dtype=torch.complex64).conj()
    kinds = zeros(3, dtype=torch.int32), zeros(3, device="meta"), zeros(3, requires_grad=True), torch.eye(3).to_sparse()
    for other in (*views, *kinds, torch.from_numpy(np.zeros(3, "f4"))):
        assert read(other) is None


def test_arrays_of_a_cupy_with_other_fields(gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", framework := Cupy())
    monkeypatch.setattr(framework_fields, "cupy_layout", framework_fields.cupy_layout.__wrapped__)
    monkeypatch.setattr(framework.cuda, "MemoryPointer", lambda memory, offset: SimpleNamespace())
    gpu.driver.foreign_addresses.add(MEMORY)
    kernel, x = new("x.size", "x"), framework.array(MEMORY)
    for _ in range(BY_PYTHON):
        gpu.launch(kernel, x)
    assert kernel.native is None


def test_a_producer_that_fails(gpu, copy):
    kernel, torch, x, y = copy
    torch.failing = True
    assert not gpu.by_machine_code(kernel, x, y)
    torch.failing = False
    assert gpu.by_machine_code(kernel, x, y)


def test_memory_that_may_be_read_only(gpu):
    kernel, other = new(), Torch(module="other")
    x, y = tensors(), tensors(torch=other)
    gpu.warm(kernel, y[0], x[1])  # it is read only: any producer may lend it
    assert gpu.by_machine_code(kernel, y[0], x[1])
    for _ in range(2 * BY_PYTHON):
        assert not gpu.by_machine_code(kernel, x[0], y[1])


class Config:
    factor = 2


@device.func
def twice(a):
    return a + a


CHANGES = {
    "global": lambda kernel, patch: patch.setitem(kernel.underlying.__globals__, "FACTOR", 3),
    "closure": lambda kernel, patch: patch.setattr(kernel.underlying.__closure__[0], "cell_contents", 3),
    "module": lambda kernel, patch: patch.setattr(ctypes, "DEFAULT_MODE", 5),
    "class": lambda kernel, patch: patch.setattr(Config, "factor", 3),
    "function": lambda kernel, patch: patch.setitem(kernel.underlying.__globals__, "twice", device.func(lambda a: a)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_are_seen(gpu, monkeypatch, change):
    added = 2

    @device.kernel
    def k(x, y):
        y[0] = twice(x[0]) * FACTOR * Config.factor + added + ctypes.DEFAULT_MODE

    x, y = tensors()
    gpu.warm(k, x, y)
    assert gpu.by_machine_code(k, x, y)
    first = gpu.last[0]
    with monkeypatch.context() as patch:
        change(k, patch)
        assert not gpu.by_machine_code(k, x, y)
        assert gpu.last[0] != first
    assert gpu.by_machine_code(k, x, y)  # the old code is right again
    assert gpu.last[0] == first
    change(k, monkeypatch)
    for _ in range(2 * BY_PYTHON):
        gpu.launch(k, x, y)
    assert gpu.by_machine_code(k, x, y)
    assert gpu.last[0] != first


TABLES = {
    "array": (np.arange(3.0), lambda table: table.__setitem__(1, 7)),
    "array of no dimension": (np.array(1.0), lambda table: table.__setitem__((), 7)),
    "array of several pieces": (np.arange(6.0)[::2], lambda table: table.__setitem__(1, 7)),
    "array in Fortran's order": (np.arange(6.0).reshape(2, 3).T, lambda table: table.__setitem__((1, 1), 7)),
    "array that grows": (np.arange(3.0), lambda table: table.resize(2000, refcheck=False)),
    "shape": (np.zeros((2, 3)), lambda table: setattr(table, "shape", (3, 2))),
    "list": ([1, 2], lambda table: table.__setitem__(1, 7)),
    "list that grows": ([1, 2], lambda table: table.extend(range(100))),
    "dict": ({"a": 1}, lambda table: table.__setitem__("a", 7)),
    "list in a tuple": ((1, [2]), lambda table: table[1].append(7)),
    "empty list": ([], lambda table: table.append(7)),
}


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # of NumPy 2.5
@pytest.mark.parametrize(("table", "change"), TABLES.values(), ids=TABLES)
def test_changed_contents_are_seen(gpu, table, change):
    table = deepcopy(table)

    @device.kernel
    def k(x, y):
        y[0] = x[0] if table is None else x[1]

    x, y = tensors()
    gpu.warm(k, x, y)
    assert gpu.by_machine_code(k, x, y) and gpu.by_machine_code(k, x, y)
    change(table)
    assert not gpu.by_machine_code(k, x, y)
    for _ in range(2 * BY_PYTHON):
        gpu.launch(k, x, y)
    assert gpu.by_machine_code(k, x, y)


def test_a_constant_argument_that_changes_is_seen(gpu):
    table = np.arange(3.0)

    @device.kernel
    def k(x, y, table: device.ConstExpr = table):
        y[0] = x[0] + table[1]

    x, y = tensors()
    gpu.warm(k, x, y)
    assert gpu.by_machine_code(k, x, y)
    table[1] = 7
    assert not gpu.by_machine_code(k, x, y)


def test_changed_code_is_seen(gpu, copy):
    kernel, _, x, y = copy
    kernel.underlying.__code__ = new("y[0] = 5").underlying.__code__
    assert not gpu.by_machine_code(kernel, x, y)


def test_a_name_that_is_gone_is_seen(gpu):
    kernel, x, y = gpu.warmed("y[0] = FACTOR * x[0]", FACTOR=2)
    del kernel.underlying.__globals__["FACTOR"]
    with pytest.raises(device.CompileError):
        gpu.launch(kernel, x, y)


def test_other_names_of_a_namespace_may_change(gpu):
    kernel, x, y = gpu.warmed("y[0] = FACTOR * x[0]", FACTOR=2)
    names = kernel.underlying.__globals__
    for i in range(3):
        names["another"] = i
        assert gpu.by_machine_code(kernel, x, y)
        assert gpu.by_machine_code(kernel, x, y)
    names["FACTOR"] = 3
    assert not gpu.by_machine_code(kernel, x, y)


def test_the_environment_is_seen(gpu, monkeypatch):
    monkeypatch.delenv("CUDA_DEVICE_CHECKED", raising=False)
    kernel, x, y = gpu.warmed()
    assert gpu.by_machine_code(kernel, x, y)
    monkeypatch.setattr(report_message, "attach", lambda *_: None)
    monkeypatch.setenv("CUDA_DEVICE_CHECKED", "1")
    assert not gpu.by_machine_code(kernel, x, y)
    monkeypatch.delenv("CUDA_DEVICE_CHECKED")
    assert gpu.by_machine_code(kernel, x, y)


# Streams and contexts


class Foreign:
    """A stream of a framework."""

    def __init__(self, answer, **fields):
        self.answer = answer
        vars(self).update(fields)

    def __cuda_stream__(self):
        return self.answer


@pytest.mark.parametrize("current", [0, 1, STREAM, 0x99])
@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (None, 1),
        (0, 1),
        (1, 1),
        (STREAM, STREAM),
        (Foreign((0, STREAM)), STREAM),
        (Foreign((0, 0)), 1),
        (Foreign((0, 0), device_index=0), 1),
        (Foreign((0, 1), device_id=-1), 1),
    ],
)
@pytest.mark.parametrize("producer", ["torch", "cupy"])
def test_streams(gpu, monkeypatch, producer, stream, handle, current):
    """Where the producer works on another stream than that of the launch, the two are put in order."""
    kernel = new()
    framework = Torch() if producer == "torch" else Cupy()
    if producer == "torch":
        x, y = tensors(torch=framework)
    else:
        monkeypatch.setitem(sys.modules, "cupy", framework)
        x, y = framework.array(MEMORY), framework.array(MEMORY + 4096)
        gpu.driver.foreign_addresses |= {MEMORY, MEMORY + 4096}
    framework.stream = handle
    gpu.warm(kernel, x, y, stream=stream)
    framework.stream = current
    gpu.driver.log.clear()
    same = (current or 1) == handle
    assert gpu.by_machine_code(kernel, x, y, stream=stream)
    assert gpu.last[-1] == handle
    if same:
        assert gpu.driver.names() == ["cuLaunchKernel"]
    else:
        assert in_order(gpu, [current or 1], handle)


def in_order(gpu, producers, stream):
    """Whether one launch was put in order with the producers, and the driver was asked for nothing else."""
    log = [entry if entry[0] != "cuLaunchKernel" else entry[:1] for entry in gpu.driver.log]
    (event,) = {entry[1] for entry in log if entry[0] == "cuEventRecord"}
    before = [(("cuEventRecord", event, p), ("cuStreamWaitEvent", stream, event)) for p in producers]
    after = [("cuEventRecord", event, stream), *(("cuStreamWaitEvent", p, event) for p in producers)]
    return log == [*sum(before, ()), ("cuLaunchKernel",), *after]


class New:
    """A stream that is made for a single launch, as by a library with streams of its own."""

    def __cuda_stream__(self):
        return 0, STREAM


def test_each_producer_is_waited_for_once(gpu):
    kernel = new("y[0] = a[0] + b[0] + c[0]", "a, b, c, y")
    streams = [device.GpuStream(handle, 0, context=CONTEXT) for handle in (0x88, 0x99, 0x88, STREAM)]
    arrays = [device.zeros(8, stream=stream) for stream in streams]
    gpu.warm(kernel, *arrays)
    for stream in (gpu.stream, STREAM, New()):
        gpu.driver.log.clear()
        assert gpu.by_machine_code(kernel, *arrays, stream=stream)
        assert in_order(gpu, [0x88, 0x99], STREAM)
    gpu.driver.log.clear()
    gpu.launch(kernel, *arrays, stream=device.GpuStream(STREAM, 0, context=CONTEXT))
    assert gpu.driver.by_address == 2
    own = [device.zeros(8, stream=gpu.stream) for _ in range(4)]
    gpu.driver.log.clear()
    assert gpu.by_machine_code(kernel, *own, stream=New())
    assert gpu.driver.names() == ["cuLaunchKernel"]


def test_one_event_marks_the_end_of_a_retained_launch_with_producers(gpu):
    @device.struct
    class Far:
        number: int

    Far._reaches_others = True
    kernel, home = new("y[0] = far.number", "far, y"), device.GpuStream(0x88, 0, context=CONTEXT)
    far, y = Far(3), device.zeros(8, stream=home)
    gpu.warm(kernel, far, y)
    gpu.driver.log.clear()
    assert gpu.by_machine_code(kernel, far, y)
    assert in_order(gpu, [0x88], STREAM)


def test_many_producers_are_for_python(gpu):
    names = [f"a{i}" for i in range(memory_layout.MOST_PRODUCERS + 2)]
    kernel = new(f"a0[0] = {' + '.join(f'{name}[0]' for name in names)}", ", ".join(names))
    arrays = [device.zeros(8, stream=device.GpuStream(0x100 + i, 0, context=CONTEXT)) for i in range(len(names))]
    gpu.warm(kernel, *arrays)
    assert not gpu.by_machine_code(kernel, *arrays)
    assert gpu.by_machine_code(kernel, *arrays[:-2], *[arrays[0]] * 2) == (not kernel.variants)


def test_an_unordered_launch_keeps_its_arguments(gpu):
    kernel, queue = new(), device.unordered(gpu.stream)
    elsewhere = device.GpuStream(0x88, 0, context=CONTEXT)
    make = lambda: device.zeros(8, stream=elsewhere)  # noqa: E731
    gpu.warm(kernel, make(), make(), stream=queue)
    gpu.stream.synchronize()
    gpu.driver.done = False
    x, y = make(), make()
    dead = weakref.ref(x._memory)
    gpu.driver.log.clear()
    assert gpu.by_machine_code(kernel, x, y, stream=device.unordered(New()))
    assert gpu.driver.names() == ["cuLaunchKernel", "cuEventRecord"]
    assert gpu.driver.log[-1][2] == STREAM
    del x
    gc.collect()
    assert dead() is not None  # the kernel may still run, and nothing is behind it
    gpu.driver.finish()
    gpu.stream.synchronize()
    gc.collect()
    assert dead() is None
    # Where there are no more spare events, Python looks which have happened.
    gpu.driver.done = True
    gpu.driver.by_address = 0
    for _ in range(1000):
        gpu.launch(kernel, y, make(), stream=queue)
    assert gpu.driver.by_address > 900
    assert len(driver.spare_events(CONTEXT)) <= driver.MOST_SPARE_EVENTS


def test_a_producer_that_is_being_captured(gpu, copy):
    kernel, torch, x, y = copy
    torch.stream = 0x88
    assert gpu.by_machine_code(kernel, x, y)
    gpu.driver.capturing.add(0x88)  # the launch becomes a part of that capture
    assert not gpu.by_machine_code(kernel, x, y)
    gpu.driver.capturing.add(STREAM)
    created = gpu.driver.names().count("cuEventCreate")
    gpu.driver.log.clear()
    assert gpu.by_machine_code(kernel, x, y)
    event = next(entry for entry in gpu.driver.log if entry[0] == "cuEventRecord")[1]
    assert gpu.driver.names()[0] == "cuEventCreate"  # one that was recorded into a graph belongs to that
    assert gpu.driver.log[-1] == ("cuEventDestroy", event)
    assert event not in driver.spare_events(CONTEXT)
    del gpu.driver.log[0], gpu.driver.log[-1]
    assert in_order(gpu, [0x88], STREAM)
    gpu.driver.captures_apart[0x88] = 2  # as when a stream captures the body of a conditional node
    gpu.driver.log.clear()
    assert gpu.by_machine_code(kernel, x, y)
    assert gpu.driver.names() == ["cuLaunchKernel"]
    gpu.driver.capturing.remove(0x88)
    gpu.driver.log.clear()
    assert gpu.by_machine_code(kernel, x, y)
    assert gpu.driver.names() == ["cuLaunchKernel"]
    assert created >= 1


@pytest.mark.parametrize("call", ["cuEventRecord", "cuStreamWaitEvent"])
def test_streams_that_cannot_be_put_in_order(gpu, call, copy):
    kernel, torch, x, y = copy
    torch.stream = 0x88
    assert gpu.by_machine_code(kernel, x, y)
    before, spare = len(gpu.driver.launched), len(driver.spare_events(CONTEXT))
    gpu.driver.failing[call] = Result.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(device.LaunchError):
        gpu.launch(kernel, x, y)
    assert len(gpu.driver.launched) == before
    gpu.driver.failing.clear()
    gpu.launch(kernel, x, y)  # by Python, where the event that failed was the last one
    assert gpu.by_machine_code(kernel, x, y)
    assert len(driver.spare_events(CONTEXT)) >= spare - 1


@pytest.mark.parametrize(
    ("module", "kind", "name"),
    [("torch", "Stream", "cuda_stream"), ("cupy", "Stream", "ptr"), ("cupy", "ExternalStream", "ptr")],
)
def test_streams_of_frameworks(gpu, monkeypatch, stream_types, module, kind, name):
    asked = []
    Stream = type("Stream", (), {name: property(lambda stream: asked.append(0) or STREAM)})
    kernel, x, y = gpu.warmed()
    learn_anew(stream_types, monkeypatch, module, SimpleNamespace(cuda=SimpleNamespace(**{kind: Stream})))
    assert id(Stream) in list(stream_types)
    stream = Stream()
    dead = weakref.ref(stream)
    asked.clear()
    for _ in range(2):
        assert gpu.by_machine_code(kernel, x, y, stream=stream)
    assert len(asked) == 1  # once for each object
    del stream
    assert dead() is not None
    monkeypatch.setattr(Stream, name, 0x99)
    gpu.driver.log.clear()
    assert gpu.by_machine_code(kernel, x, y, stream=Stream())
    assert in_order(gpu, [STREAM], 0x99)
    assert dead() is None
    monkeypatch.setattr(Stream, name, STREAM)
    assert gpu.by_machine_code(kernel, x, y, stream=Stream())
    delattr(Stream, name)
    with pytest.raises(device.LaunchError):
        gpu.launch(kernel, x, y, stream=Stream())


class CoreStream:
    """As much of a stream of cuda.core as launches see. It can be told to keep its handle when it is closed."""

    __slots__ = ("asked", "handle", "stays")

    @classmethod
    def from_handle(cls, handle, stays=False):
        made = cls()
        made.handle, made.asked, made.stays = handle, 0, stays
        return made

    def close(self):
        if not self.stays:
            del self.handle

    def __cuda_stream__(self):
        self.asked += 1
        return 0, self.handle


class StayingStream(CoreStream):
    __slots__ = ()

    @classmethod
    def from_handle(cls, handle, stays=True):
        return super().from_handle(handle, stays)


@pytest.fixture
def stream_types():
    types = plans._stream_types
    before = list(types)
    yield types
    types[:] = before


def learn_anew(types, monkeypatch, module, framework):
    """Learns the streams of a framework, which may have been imported in earnest and learnt before."""
    monkeypatch.setitem(sys.modules, module, framework)
    types[:] = [0] * len(types)
    plans.learn_streams()


@pytest.mark.parametrize(("kind", "asked"), [(CoreStream, 1), (StayingStream, 2)])
def test_streams_of_cuda_core_are_asked_once_if_their_end_is_seen(gpu, monkeypatch, stream_types, copy, kind, asked):
    kernel, _, x, y = copy
    learn_anew(stream_types, monkeypatch, "cuda.core", SimpleNamespace(Stream=kind))
    stream = kind.from_handle(STREAM)
    for _ in range(2):
        assert gpu.by_machine_code(kernel, x, y, stream=stream)
    assert stream.asked == asked
    stream.handle = 0x99  # another stream: its end was not seen
    gpu.launch(kernel, x, y, stream=stream)
    assert gpu.last[-1] == (STREAM if asked == 1 else 0x99)
    del stream.handle
    with pytest.raises(AttributeError):
        gpu.launch(kernel, x, y, stream=stream)


def test_a_closed_stream_of_cuda_core(gpu, stream_types, copy):
    core, (kernel, _, x, y) = pytest.importorskip("cuda.core"), copy
    plans.learn_streams()
    stream = core.Stream.from_handle(STREAM)
    for _ in range(2):
        assert gpu.by_machine_code(kernel, x, y, stream=stream)
    assert plans._seen_streams[memory_layout.Word.STREAM_OF_LAUNCH][0] == id(stream)
    stream.close()
    with pytest.raises(RuntimeError):
        gpu.launch(kernel, x, y, stream=stream)


@pytest.mark.parametrize("stream", [2, Foreign((0, 2)), Foreign((1, STREAM)), Foreign([0, STREAM]), Foreign((0, "x"))])
def test_streams_that_python_looks_at(gpu, stream, copy):
    kernel, _, x, y = copy
    try:
        assert not gpu.by_machine_code(kernel, x, y, stream=stream)
    except device.LaunchError:
        assert stream.answer[0] == 1 or stream.answer[1] == "x"


def test_a_stream_of_another_device(gpu):
    gpu.driver.devices = 2
    kernel, torch = new(), Torch(stream=1)
    x, y = tensors(torch=torch)
    gpu.warm(kernel, x, y, stream=None)
    assert gpu.by_machine_code(kernel, x, y, stream=Foreign((0, 0), device_index=0))
    with pytest.raises(device.LaunchError, match="is on GPU 0"):
        gpu.launch(kernel, x, y, stream=Foreign((0, 0), device_index=1))


def test_another_context(gpu, copy):
    kernel, torch, x, y = copy
    torch.stream = 0
    legacy = device.GpuStream(1, 0, context=CONTEXT)
    for current in (0, CONTEXT + 1):
        gpu.driver.stack[-1] = current
        torch.stream = STREAM
        assert gpu.by_machine_code(kernel, x, y)  # the stream says where
        torch.stream = 0
        assert not gpu.by_machine_code(kernel, x, y, stream=legacy)
    gpu.driver.stack[-1] = CONTEXT
    assert gpu.by_machine_code(kernel, x, y, stream=legacy)


def test_a_captured_stream(gpu):
    """What a graph uses is kept for good: it may run again at any time."""
    kernel = new()
    make = lambda: device.zeros(8, stream=gpu.stream)  # noqa: E731
    gpu.warm(kernel, make(), make())
    x, y = make(), make()
    dead = weakref.ref(x._memory), weakref.ref(y._memory)
    gpu.driver.capturing.add(STREAM)
    gpu.driver.log.clear()
    assert gpu.by_machine_code(kernel, x, y)
    assert gpu.driver.names() == ["cuLaunchKernel"]
    kept = len(streams.captured)
    assert gpu.by_machine_code(kernel, x, y) and len(streams.captured) == kept
    assert gpu.by_machine_code(kernel, y, x) and len(streams.captured) == kept + 1
    gpu.driver.capturing.clear()
    del x, y
    gpu.stream.synchronize()
    gc.collect()
    assert None not in [reference() for reference in dead]
    assert gpu.by_machine_code(kernel, make(), make())


def test_a_report_is_raised_first(gpu, monkeypatch, copy):
    kernel, _, x, y = copy
    word = ctypes.c_uint32(1)
    status = report_message.status_of(CONTEXT)
    monkeypatch.setattr(status, "value", ctypes.addressof(word))

    def check(context):
        if word.value:
            word.value = 0
            raise device.KernelError("it reported")

    monkeypatch.setitem(driver.REPORTERS, CONTEXT, check)
    with pytest.raises(device.KernelError, match="it reported"):
        gpu.launch(kernel, x, y)
    assert gpu.by_machine_code(kernel, x, y)


def test_dynamic_shared_memory_beyond_what_was_allowed(gpu, copy):
    kernel, _, x, y = copy
    assert gpu.by_machine_code(kernel, x, y, shared=48 * 1024)
    assert not gpu.by_machine_code(kernel, x, y, shared=48 * 1024 + 1)
    assert ("cuKernelSetAttribute" in gpu.driver.names()) is True


def test_clusters_and_large_shared_arrays(gpu):
    kernel, (x, y) = new("t = device.shared_array(20000, device.float32)\n    t[0] = x[0]\n    y[0] = t[0]"), tensors()
    kernel = device.kernel(cluster=(2, 1, 1))(kernel.underlying)
    gpu.warm(kernel, x, y, grid=4)
    by_python = gpu.last
    assert by_python[3] == 80000
    assert gpu.by_machine_code(kernel, x, y, grid=4)
    assert gpu.last == by_python
    assert not gpu.by_machine_code(kernel, x, y, grid=4, shared=16)  # Python allows so much
    assert gpu.by_machine_code(kernel, x, y, grid=(6, 2))
    assert gpu.last[1] == (6, 2, 1)
    with pytest.raises(device.LaunchError, match="whole clusters"):
        gpu.launch(kernel, x, y, grid=3)


@pytest.mark.parametrize("is_prepared", [False, True])
@pytest.mark.parametrize(
    ("options", "sizes", "attributes"),
    [
        ({}, {"cluster": 2}, [(4, 2, 1, 1)]),
        ({}, {"cluster": (2, 3)}, [(4, 2, 3, 1)]),
        ({}, {"dependent": True}, [(6, 1, 0, 0)]),
        ({}, {"cluster": (1, 1, 2), "dependent": True}, [(4, 1, 1, 2), (6, 1, 0, 0)]),
        ({"cluster": (2, 1, 1)}, {"cluster": 2}, None),
        ({"cluster": (2, 1, 1)}, {"dependent": True}, [(6, 1, 0, 0)]),
    ],
)
def test_attributes_of_launches(gpu, copy, options, sizes, attributes, is_prepared):
    kernel, _, x, y = copy
    kernel, sizes = device.kernel(**options)(kernel.underlying), {"grid": (4, 6, 2), "shared": 64, **sizes}
    gpu.warm(kernel, x, y, **sizes)
    by_python, attributes_by_python = gpu.last, gpu.driver.attributes_of_launches.copy()
    gpu.driver.attributes_of_launches.clear()
    if is_prepared:
        prepared = device.prepare(kernel, x, y, block=32, stream=gpu.stream, **sizes)
        prepared()
        assert gpu.driver.by_address == 1
    else:
        assert gpu.by_machine_code(kernel, x, y, **sizes)
    assert gpu.last == by_python
    assert gpu.driver.attributes_of_launches == ([] if attributes is None else [attributes])
    not_cooperative = (2, 0, 0, 0)
    assert all([row for row in rows if row != not_cooperative] == attributes for rows in attributes_by_python)


def test_cooperative_launches(gpu):
    kernel, (x, y) = new("device.grid_sync()\n    y[device.tid(1)] = x[device.tid(1)]"), tensors()
    gpu.warm(kernel, x, y)
    assert gpu.by_machine_code(kernel, x, y)
    assert gpu.driver.attributes_of_launches == [[(2, 1, 0, 0)]]
    gpu.driver.failing["cuLaunchKernel"] = Result.CUDA_ERROR_INVALID_VALUE  # as for too many blocks
    with pytest.raises(device.LaunchError, match="can run only"):
        gpu.launch(kernel, x, y, grid=1 << 20)
    gpu.driver.failing.clear()
    assert gpu.by_machine_code(kernel, x, y)
    gpu.driver.capturing.add(STREAM)
    gpu.driver.by_address = 0
    gpu.launch(kernel, x, y)
    assert gpu.driver.by_address == 0


def test_attributes_that_machine_code_leaves_to_python(gpu, copy):
    kernel, _, x, y = copy
    gpu.warm(kernel, x, y)
    assert gpu.by_machine_code(kernel, x, y, cluster=None, dependent=None)
    assert gpu.by_machine_code(kernel, x, y, cluster=1, dependent=False)
    for sizes, problem in [
        ({"grid": 3, "cluster": 2}, "not a multiple of cluster"),
        ({"grid": 16, "cluster": 16}, "cluster"),
        ({"grid": (4, 4), "cluster": (4, 4)}, "at most 8 blocks"),
        ({"dependent": 1.5}, "not a bool"),
    ]:
        with pytest.raises(device.LaunchError, match=problem):
            gpu.launch(kernel, x, y, **sizes)
    compiled = device.kernel(cluster=2)(kernel.underlying)
    gpu.warm(compiled, x, y, grid=4)
    with pytest.raises(device.LaunchError, match=r"compiled for clusters of \(2, 1, 1\)"):
        gpu.launch(compiled, x, y, grid=4, cluster=4)
    assert gpu.by_machine_code(compiled, x, y, grid=4)


def test_parameters_that_are_named_like_attributes(gpu):
    kernel, (x, y) = new("y[device.tid(1)] = x[cluster]", "x, y, cluster"), tensors()
    for _ in range(2 * BY_PYTHON):
        gpu.launch(kernel, x, y, cluster=5)
    assert gpu.driver.attributes_of_launches == []


def test_a_kernel_with_few_threads(gpu):
    gpu.driver.attributes["MAX_THREADS_PER_BLOCK"] = 256
    kernel, x, y = gpu.warmed()
    assert gpu.by_machine_code(kernel, x, y, block=256)
    with pytest.raises(device.LaunchError, match="at most 256 threads"):
        gpu.launch(kernel, x, y, block=257)


def test_a_failing_driver(gpu, copy):
    kernel, _, x, y = copy
    gpu.driver.failing["cuLaunchKernel"] = Result.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(device.KernelError, match="ILLEGAL_ADDRESS"):
        gpu.launch(kernel, x, y)
    gpu.driver.failing.clear()
    assert gpu.by_machine_code(kernel, x, y)


def test_launches_under_way_are_noted(gpu, copy):
    kernel, _, x, y = copy
    gpu.stream.synchronize()
    assert launch_log.describe() == ""
    for _ in range(300):
        assert gpu.by_machine_code(kernel, x, y, grid=(1, 2, 3), block=(4, 5, 6))
    assert launch_log.describe() == "k, a grid of (1, 2, 3) blocks of (4, 5, 6) threads (256 times)"
    gpu.stream.synchronize()
    assert launch_log.describe() == ""


# Prepared launches


def test_prepared_launches(gpu):
    """They are launches, also with other arguments."""
    kernel, torch = new("y[0] = a * x[0]", "x, y, a"), Torch()
    x, y = tensors(torch=torch)
    step = device.prepare(kernel, x, y, 1.5, grid=(2, 3), block=(4, 5), stream=gpu.stream, shared=32)
    for _ in range(BY_PYTHON):
        step()
    assert gpu.driver.by_address == 0
    gpu.driver.sizes = [8, 4, 8, 4, 4]
    gpu.driver.log.clear()
    step()
    assert gpu.driver.by_address == 1
    assert gpu.driver.names() == ["cuLaunchKernel"]
    assert gpu.last[1:] == ((2, 3, 1), (4, 5, 1), 32, STREAM)
    eight = struct.pack("i", 8)
    addresses = struct.pack("Q", MEMORY), struct.pack("Q", MEMORY + 4096)
    assert gpu.driver.bytes[-1] == [addresses[0], eight, addresses[1], eight, struct.pack("f", 1.5)]
    for args, kwargs, number in (((), {"a": 2.5}, 2.5), ((y, x, 3.5), {}, 3.5), ((y,), {"a": 4.5, "y": x}, 4.5)):
        step(*args, **kwargs)
        assert gpu.driver.bytes[-1][-1] == struct.pack("f", number)
        assert gpu.driver.bytes[-1][0] == addresses[bool(args)]
    assert gpu.driver.by_address == 4
    torch.stream = 0x88
    step(a=0.5)
    assert gpu.driver.by_address == 5


def test_a_prepared_launch_needs_no_python_function(gpu, monkeypatch):
    kernel = new("y[0] = a * x[0]", "x, y, a")
    x, y = (device.zeros(8, stream=gpu.stream) for _ in range(2))
    step = device.prepare(kernel, x, y, 1.5, grid=1, block=1, stream=gpu.stream)
    for _ in range(BY_PYTHON + 1):
        step()
    frames = []
    gc.disable()  # hypothesis has a callback in Python
    sys.setprofile(lambda frame, event, argument: frames.append(frame) if event == "call" else None)
    try:
        step()
        step(y, x, a=2.5)
    finally:
        sys.setprofile(None)
        gc.enable()
    of_ours = [frame.f_code.co_qualname for frame in frames if "fake_driver" not in frame.f_code.co_filename]
    assert of_ours == []
    assert gpu.driver.by_address >= 2
    for wrong in (lambda: step(1, 2, 3, 4), lambda: step(b=1), lambda: step(x, x=y)):
        with pytest.raises(device.LaunchError):
            wrong()


def test_a_prepared_launch_is_in_no_cycle(gpu):
    kernel = new("y[0] = x[0]", "x, y")
    x, y = (device.zeros(8, stream=gpu.stream) for _ in range(2))
    step = device.prepare(kernel, x, y, grid=1, block=1, stream=gpu.stream)
    for _ in range(BY_PYTHON + 1):
        step()
    memory = weakref.ref(x._memory)
    gc.disable()
    try:
        del x, step
        assert memory() is None
    finally:
        gc.enable()


# What is left behind


@pytest.mark.parametrize("way", ["here", "elsewhere", "unordered", "captured"])
def test_references_stay_as_they_are(gpu, way):
    kernel, torch = new("y[0] = t[0][0] * a * b * n", "t, y, a, b, n: N", N=device.ConstExpr[int]), Torch()
    x, y = tensors(torch=torch)
    a, b, n = float("2.5"), np.float64(3.5), int("1000")
    size = (int("100000"), 1)
    objects = [x, y, a, b, n, size, gpu.stream, kernel, kernel.underlying, torch.Tensor, float, tuple, size[0]]
    t = (x, 1)
    gpu.driver.cuLaunchKernel = lambda *_: (0,)

    stream = device.unordered(gpu.stream) if way == "unordered" else gpu.stream
    gpu.driver.log = Counter()
    gpu.driver.stream_contexts = dict.fromkeys((STREAM, 0x88), CONTEXT)
    objects.append(stream)

    def launch():
        device.launch(kernel, t, y, a, b, n, grid=size, block=32, stream=stream)

    for _ in range(BY_PYTHON):
        launch()
    if way != "here":
        torch.stream = 0x88
    if way == "captured":
        gpu.driver.capturing |= {STREAM, 0x88}
    assert kernel.native is not None
    gpu.driver.by_address = 0
    for number in range(4000):
        launch()
        streams.captured.clear()
        if way == "captured":
            gpu.driver.happened.clear()
        if number == 100:
            gpu.stream.synchronize()
            gc.collect()
            counts = [sys.getrefcount(obj) for obj in objects]
    gpu.stream.synchronize()
    gc.collect()
    assert gpu.driver.by_address >= 3800
    assert all(abs(sys.getrefcount(obj) - count) < 100 for obj, count in zip(objects, counts, strict=True))


def test_references_stay_as_they_are_where_it_gives_up(gpu):
    kernel, (x, y) = new("y[0] = a * x[0]", "x, y, a"), tensors()
    gpu.warm(kernel, x, y, 1.5)
    wrong = "text"
    objects = [x, y, wrong, gpu.stream, kernel, kernel.native]
    for number in range(3000):
        with pytest.raises(device.LaunchError):
            device.launch(kernel, x, y, wrong, grid=1, block=32, stream=gpu.stream)
        with pytest.raises(device.LaunchError):
            device.launch(kernel, x, x, 1.5, a=wrong, grid=1, block=32, stream=gpu.stream)
        if number == 100:
            counts = [sys.getrefcount(obj) for obj in objects]
    assert all(abs(sys.getrefcount(obj) - count) < 100 for obj, count in zip(objects, counts, strict=True))


def test_arrays_are_not_kept(gpu):
    kernel = new()
    make = lambda: device.zeros(8, stream=gpu.stream)  # noqa: E731
    gpu.warm(kernel, make(), make())
    gc.collect()
    x, y = make(), make()
    dead = weakref.ref(x), weakref.ref(x._memory)
    assert gpu.by_machine_code(kernel, x, y)
    del x
    assert [reference() for reference in dead] == [None, None]


def test_launchers_die_with_their_kernel(gpu):
    kernel, *_ = gpu.warmed()
    dead = weakref.ref(kernel), weakref.ref(kernel.native[-1][0])
    for variant in kernel.variants.values():
        variant.loaded.clear()
    del kernel, variant
    gc.collect()
    assert [reference() for reference in dead] == [None, None]


@pytest.mark.parametrize("native", [(), (b"",), ("text",), (b"short", None), [b"x" * 72], 5])
def test_what_is_no_record_is_not_used(gpu, native, copy):
    kernel, _, x, y = copy
    kernel.native = native
    assert not gpu.by_machine_code(kernel, x, y)


def test_a_kernel_has_few_launchers(gpu):
    kernel, (y,) = new("y[0] = a", "a, y"), tensors(1)
    kinds = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
    for kind in kinds:
        gpu.warm(kernel, np.dtype(kind).type(1), y)
    assert len(kernel.native[-1]) == memory_layout.MOST_PLANS
    assert [gpu.by_machine_code(kernel, np.dtype(kind).type(1), y) for kind in kinds] == [False] * 3 + [True] * 8


def test_threads(gpu):
    """Threads launch with their own arguments, while another has launchers made and dropped, and a third changes a name."""
    kernel, torch = new("y[0] = a * x[0] * FACTOR", "x, y, a", FACTOR=2), Torch()
    rounds = 500
    gpu.driver.log = Counter()
    gpu.driver.launched, gpu.driver.bytes, gpu.driver.words = Counter(), Counter(), Counter()
    arguments = [lambda i: i, lambda i: i + 0.5, np.int64, np.float32, lambda i: i % 2 == 0]

    def work(number):
        gpu.driver.stack[-1] = CONTEXT
        x, y = (torch.tensor(MEMORY + (2 * number + k) * 4096) for k in range(2))
        for i in range(rounds):
            gpu.launch(kernel, x, y, arguments[(number + i // 100) % 5](i))

    def drop():
        for _ in range(200):
            kernel.native = None

    at_once([*(partial(work, number) for number in range(8)), drop])
    assert gpu.driver.launched.count == 8 * rounds


class Counter:
    """A list that only counts, and remembers the last."""

    def __init__(self):
        self.count = 0

    def __getitem__(self, _):
        return []

    def append(self, _):
        self.count += 1


@pytest.mark.parametrize(("value", "wanted"), [("0", False), ("", False), ("1", True), (None, True)])
def test_the_switch(gpu, monkeypatch, value, wanted):
    if value is None:
        monkeypatch.delenv(plans.VARIABLE, raising=False)
    else:
        monkeypatch.setenv(plans.VARIABLE, value)
    monkeypatch.setattr(plans, "is_wanted", functools.cache(plans.is_wanted.__wrapped__))  # asked once in each process
    kernel, (x, y) = new(), tensors()
    for _ in range(2 * BY_PYTHON):
        gpu.launch(kernel, x, y)
    assert (kernel.native is not None) == wanted


@pytest.mark.parametrize("broken", ["support", "plan_of", "the CPU target"])
def test_launches_go_on_where_machine_code_cannot_be_made(gpu, monkeypatch, broken, caplog):
    def fail(*_, **__):
        raise RuntimeError("no machine code here")

    if broken == "the CPU target":
        monkeypatch.setattr(plans, "support", plans.support.__wrapped__)
        monkeypatch.setitem(sys.modules, "cuda_device.cpu", None)
    else:
        monkeypatch.setattr(plans, broken, fail)
    kernel, (x, y) = new(), tensors()
    with caplog.at_level("DEBUG", "cuda_device"):
        for _ in range(4 * BY_PYTHON):
            assert not gpu.by_machine_code(kernel, x, y)
    assert kernel.native is None
    assert ("cuda_device.cpu" if broken == "the CPU target" else "no machine code here") in caplog.text
    monkeypatch.undo()


# The driver is called without Python's lock: with a full queue it waits for the GPU, which may wait for a function of the host.

WAITING = """
declare i32 @usleep(i32)
define i32 @launch(i64 %kernel, i32 %a, i32 %b, i32 %c, i32 %d, i32 %e, i32 %f, i32 %g, i64 %s, ptr %p, ptr %x) {{
entry:
  store volatile i32 1, ptr inttoptr (i64 {here} to ptr)
  br label %turn
turn:
  %i = phi i32 [ 0, %entry ], [ %next, %wait ]
  %word = load volatile i32, ptr inttoptr (i64 {there} to ptr)
  %answered = icmp ne i32 %word, 0
  br i1 %answered, label %end, label %wait
wait:
  call i32 @usleep(i32 1000)
  %next = add i32 %i, 1
  %long = icmp ugt i32 %next, 3000
  br i1 %long, label %end, label %turn
end:
  %result = select i1 %answered, i32 2, i32 3
  store volatile i32 %result, ptr inttoptr (i64 {here} to ptr)
  ret i32 0
}}
"""


@pytest.mark.parametrize("prepared", [False, True])
def test_other_threads_run_while_the_driver_takes_its_time(gpu, prepared):
    kernel, (x, y) = new(), tensors()
    start = partial(gpu.launch, kernel, x, y)
    if prepared:
        start = device.prepare(kernel, x, y, grid=1, block=32, stream=gpu.stream)
    for _ in range(BY_PYTHON):
        start()
    here, there = ctypes.c_int32(), ctypes.c_int32()
    text = WAITING.format(here=ctypes.addressof(here), there=ctypes.addressof(there))
    code = machine_code.compile_native(text, exports=("launch",))
    words = plans.support().words
    genuine, words[memory_layout.Word.LAUNCH_KERNEL] = words[memory_layout.Word.LAUNCH_KERNEL], code.address("launch")

    def answer():
        while not here.value:
            time.sleep(0.001)
        there.value = 1

    other = threading.Thread(target=answer)
    other.start()
    before = len(gpu.driver.launched)
    try:
        start()
    finally:
        words[memory_layout.Word.LAUNCH_KERNEL] = genuine
        other.join()
    assert here.value == 2, "the other thread could not run while the driver waited for it"
    assert len(gpu.driver.launched) == before, "Python launched, too"


def test_a_python_without_a_lock_launches_by_itself(monkeypatch):
    """Machine code reads objects that only the lock keeps from changing."""
    assert memory_layout.is_usable()
    asked = []

    def config(name):
        asked.append(name)
        return 1

    monkeypatch.setattr(memory_layout.sysconfig, "get_config_var", config)
    assert not memory_layout.is_usable() and asked == ["Py_GIL_DISABLED"]


# What a launch asks of the driver once it has been made before: a capture would not stand more


@pytest.mark.parametrize("capturing", [False, True])
@pytest.mark.parametrize("home", [STREAM, driver.LEGACY_STREAM])
def test_machine_code_asks_only_what_it_does_not_know(gpu, monkeypatch, home, capturing):
    """The context of a stream is known from an array that is produced on it, and the legacy stream is never captured."""
    kernel, stream = new(), SimpleNamespace(__cuda_stream__=lambda: (0, STREAM))
    arrays = [device.zeros(8, stream=device.GpuStream(home, 0, context=CONTEXT)) for _ in range(2)]
    gpu.driver.capturing |= {STREAM} if capturing else set()
    gpu.warm(kernel, *arrays, stream=stream)
    asked = []
    for name in ("cuStreamGetCtx", "cuStreamIsCapturing"):
        answer = getattr(gpu.driver, name)
        monkeypatch.setattr(gpu.driver, name, lambda s, n=name, a=answer: asked.append((n, s)) or a(s))
    assert gpu.by_machine_code(kernel, *arrays, stream=stream)
    expected = [("cuStreamIsCapturing", STREAM)]
    expected += [("cuStreamIsCapturing", home)] * (home != STREAM and not capturing)
    expected += [("cuStreamGetCtx", STREAM)] * (home != STREAM)
    assert sorted(asked) == sorted(expected)


def test_the_legacy_streams_of_two_contexts_are_not_confused(gpu):
    """A launch on the default stream is in the current context, and not in that of its arrays."""
    kernel = new()
    arrays = [device.zeros(8, stream=device.GpuStream(driver.LEGACY_STREAM, 0, context=CONTEXT)) for _ in range(2)]
    gpu.warm(kernel, *arrays, stream=None)
    assert gpu.by_machine_code(kernel, *arrays, stream=None)
    gpu.driver.stack[-1] = CONTEXT + 1
    with pytest.raises(device.LaunchError, match="on GPU 0, but the stream is on GPU 1"):
        gpu.launch(kernel, *arrays, stream=None)


@pytest.mark.parametrize("by_machine", [False, True])
def test_a_warm_launch_makes_nothing_and_waits_for_nothing(gpu, monkeypatch, by_machine):
    if not by_machine:
        monkeypatch.setattr(plans, "is_wanted", lambda: False)
    kernel = new()
    own = [device.zeros(8, stream=gpu.stream) for _ in range(2)]
    elsewhere = device.zeros(8, stream=device.GpuStream(0x99, 0, context=CONTEXT))
    order = {"cuEventRecord", "cuStreamWaitEvent", "push", "pop"}
    for arguments, more in ((own, set()), (tensors(), {"cuEventRecord"}), ((own[0], elsewhere), order)):
        for _ in range(BY_PYTHON):
            gpu.launch(kernel, *arguments)
        gpu.driver.log.clear()
        for _ in range(10):
            gpu.launch(kernel, *arguments)
        assert set(gpu.driver.names()) <= {"cuLaunchKernel", *more}
        assert gpu.driver.names().count("cuLaunchKernel") == 10
