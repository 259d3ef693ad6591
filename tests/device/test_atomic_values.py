"""Atomics of values that are no plain numbers: vectors, structs, tuples, 16-bit and 8-bit floats, and those of 16 bytes.

`load`, `store` and `wait` take up to 16 bytes, `exch` and `cas` up to 8, as bits.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from conftest import long
from ir_helpers import define
from test_atomics import MAKE as MAKE_NUMBER
from test_atomics import PTX_SCOPES, accesses, calls, instructions

import cuda_device as device
from cuda_device import float32, int16, int32, int64, uint8, uint32, uint64


@device.struct
class Tiny:
    a: uint8


@device.struct
class Flags:
    a: uint8
    b: bool


@device.struct
class Padded:
    a: uint8
    b: int16


@device.struct
class Entry:
    key: uint32
    n: uint8
    value: device.float16


@device.struct
class Nested:
    entry: Entry
    place: device.float32x2


@device.struct
class Wide:
    a: uint64
    b: tuple[bool, int32]


VALUES = {
    "float16": device.float16, "bfloat16": device.bfloat16, "float8e4m3": device.float8e4m3, "bool": bool, "Tiny": Tiny,
    "Flags": Flags, "uint8x2": device.uint8x2, "int16x1": device.int16x1, "Padded": Padded, "float16x2": device.float16x2,
    "bfloat16x2": device.bfloat16x2, "uint8x4": device.uint8x4, "tuple": tuple[uint8, int16], "Entry": Entry,
    "float32x2": device.float32x2, "float16x4": device.float16x4, "int64x1": device.int64x1,
    "complex64": device.complex64, "pair": tuple[float32, int32], "float64": device.float64,
}  # fmt: skip
WIDE = {
    "complex128": device.complex128,
    "int32x4": device.int32x4, "float64x2": device.float64x2, "uint64x2": device.uint64x2, "Nested": Nested, "Wide": Wide,
    "four": tuple[int16, int32, int64], "float32x4": device.float32x4,
}  # fmt: skip


def values(type, count, unlike=None):
    """Values with random bits, of which padding has none; each differs from its neighbour in `unlike`."""
    array, random = np.zeros(count, device.numpy_dtype(type)), np.random.default_rng(7)
    todo = [*range(count)]
    while todo:
        part = array[todo]
        _fill(part, random)
        array[todo] = part
        todo = [i for i in todo if unlike is not None and same(array[i : i + 1], unlike[i : i + 1])]
    return array


def _fill(array, random):
    if array.dtype.fields is None:
        top = 2 if array.dtype.kind == "b" else 256
        bits = random.integers(0, top, (len(array), array.dtype.itemsize), np.uint8)
        array[...] = bits.view(array.dtype)[:, 0]
        return
    for name in array.dtype.names:
        part = np.zeros(len(array), array.dtype[name])
        _fill(part, random)
        array[name] = part


def same(x, y):
    """Whether all values have the same bits, whatever padding has."""
    if x.dtype.fields is None:
        return x.tobytes() == y.tobytes()
    return all(same(x[name], y[name]) for name in x.dtype.names)


MAKE = {**MAKE_NUMBER, "member": "boxes[i].cell"}


LOADS_AND_STORES = (
    "cell.store(a[i], 'release', 'device')",
    "A = cell.load('acquire', 'device')",
    "cell.store(b[i])",
    "B = cell.load()",
    "cell.wait(a[i], 'relaxed', 'block')",
    "B = cell.load('relaxed', 'thread')",
)
EXCHANGES = (
    "cell.store(a[i], 'relaxed', 'block')",
    "A = cell.exch(b[i], 'acq_rel', 'device')",
    "B = cell.cas(a[i], a[i])",
    "B = cell.cas(b[i], a[i], 'relaxed', 'block')",
    "A = cell.exch(b[i], 'seq_cst', 'thread')",
    "B = cell.cas(b[i], a[i], 'acquire', 'thread')",
    "A = cell.load()",
)
make_class = type
ALL = [pytest.param(name, 1, marks=long(n)) for n, name in enumerate(VALUES | WIDE)]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name, one_in", [*((name, 2) for name in VALUES | WIDE), *ALL])
def test_what_operations_do(stream, name, one_in):
    """In each kind of memory: a thread has a cell of its own and two values, `a[i]` and `b[i]`; a line says which it gives.

    Where not all are asked for, each type is in every other kind of memory, in which the next type is not.
    """
    type, lines = (VALUES | WIDE)[name], LOADS_AND_STORES + EXCHANGES * (name in VALUES)
    box = device.struct(make_class("Box", (), {"__annotations__": {"tag": uint8, "cell": device.Atomic(type)}}))
    count, given, body = 40, [], ""
    a = values(type, count)
    b = values(type, count, unlike=a)
    spaces = [*MAKE][[*VALUES, *WIDE].index(name) % one_in :: one_in]
    for space, line in itertools.product(spaces, lines):
        body += f"        cell = {MAKE[space]}\n" if line is lines[0] else ""
        body += "        " + re.sub("^[AB] =", f"out[{len(given)}, i] =", line) + "\n"
        given += {"A": [a], "B": [b]}.get(line[0], [])
    source = f"""@device.kernel
def k(cells, boxes, a, b, out):
    i = device.tid(1)
    shared = device.shared_array(32, cells.dtype)
    local = device.local_array(3, cells.dtype)
    if i < len(a):
{body}"""
    cells, boxes = stream.empty((count, 3), a.dtype), stream.array(np.zeros(count, device.numpy_dtype(box)))
    out, kernel = stream.empty((len(given), count), a.dtype), define(source, file=f"<{name}>")
    stream.launch(kernel, cells, boxes, *map(stream.array, (a, b)), out, grid=2, block=32)
    for found, right in zip(stream.numpy(out), given, strict=True):
        assert same(found, right)
    untouched = stream.numpy(stream.empty((count, 3), a.dtype))
    assert same(stream.numpy(cells)[:, [0, 2]], untouched[:, [0, 2]])  # the neighbours


# Under contention

GRID, BLOCK = 40, 64


def test_exchanged_values_stay_whole(stream):
    """What one thread puts in, another takes out: nothing is lost, mixed or seen twice."""

    @device.kernel
    def k(cells, old):
        i = device.tid(1)
        mine = Entry(uint32(i), uint8(i % 251), device.float16(i % 1009))
        old[i] = device.atomic_ref(cells, 1).exch(mine, "relaxed", "device")

    cells = stream.array(np.zeros(3, device.numpy_dtype(Entry)))
    old = stream.empty(GRID * BLOCK, device.numpy_dtype(Entry))
    stream.launch(k, cells, old, grid=GRID, block=BLOCK)
    left = stream.numpy(cells)
    seen = [*stream.numpy(old).tolist(), left[1].item()]
    seen.remove((0, 0, 0))
    assert sorted(seen) == [(i, i % 251, i % 1009) for i in range(GRID * BLOCK)]
    assert left[[0, 2]].tolist() == [(0, 0, 0)] * 2


@pytest.mark.parametrize("type", [device.uint64x2, device.int32x4], ids=str)
def test_sixteen_bytes_are_never_torn(stream, type):
    """Writers store values whose parts agree; no reader sees parts of two of them."""

    @device.kernel
    def k(cells, torn):
        i = device.tid(1)
        cell, last = device.atomic_ref(cells, 0), device.atomic_ref(cells, 1)
        for step in range(50):
            n = i * 50 + step
            v = pattern(n)
            if i % 2:
                cell.store(v, "relaxed", "device")
            else:
                v = cell.load("relaxed", "device")
                if not whole(v):
                    torn[0] = 1
        last.store(pattern(i), "release", "device")

    if type is device.uint64x2:

        def pattern(n):
            return device.uint64x2(uint64(n), uint64(n) * 3)

        def whole(v):
            return v.y == v.x * 3

    else:

        def pattern(n):
            return device.int32x4(n, n + 1, n + 2, n + 3)

        def whole(v):
            return v.y - v.x == 1 and v.w - v.z == 1 and v.z - v.y == 1

    start = np.zeros(2, device.numpy_dtype(type))
    if type is device.int32x4:
        start[:] = (0, 1, 2, 3)
    cells, torn = stream.array(start), stream.array(np.zeros(1, np.int32))
    stream.launch(k, cells, torn, grid=GRID, block=BLOCK)
    assert stream.numpy(torn).tolist() == [0]
    assert max(stream.numpy(cells)[1].tolist()) >= 0 and stream.numpy(cells)[0].tolist() != start[0].tolist()


def test_waiting_for_sixteen_bytes(stream):
    @device.kernel
    def k(cells, out):
        here = device.block_idx.x
        if device.thread_idx.x == 0:
            if here > 0:
                device.atomic_ref(cells, here - 1).wait(device.uint64x2(0, 0), "acquire", "device")
                out[here] = out[here - 1] + 1
            device.atomic_ref(cells, here).store(device.uint64x2(0, here + 1), "release", "device")

    cells, out = stream.array(np.zeros(30, device.numpy_dtype(device.uint64x2))), stream.array(np.zeros(30, np.int32))
    stream.launch(k, cells, out, grid=30, block=32)
    assert stream.numpy(out).tolist() == [*range(30)]


# PTX


def ptx_of(type, space, *lines, output="ptx", **options):
    where = {"global": "cells", "shared": "device.shared_array(4, cells.dtype)"}[space]
    body = "\n".join(f"    {line}" for line in lines)
    kind = "func" if space == "shared" else "kernel"  # whose orders nobody knows who can see: they stay
    source = f"@device.{kind}\ndef k(cells, v, out):\n    cell = device.atomic_ref({where}, 1)\n{body}\n"
    array = device.ArrayType(type, 1)
    made = device.compile(define(source, file=f"<{lines}>"), array, array, array, output=output, **options)
    return made.code


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("name", ["int32x4", "Nested"])
def test_ptx_of_sixteen_bytes(name, space):
    check_ptx(WIDE[name], "128", space, {"load": "out[0] = cell.load(", "store": "cell.store(v[0], "})


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("name", ["float16x2", "tuple", "Entry", "float32x2"])
def test_ptx_of_values_as_bits(name, space):
    methods = {"exch": "out[0] = cell.exch(v[0], ", "cas": "out[0] = cell.cas(v[0], v[1], "}
    check_ptx(VALUES[name], str(device.sizeof(VALUES[name]) * 8), space, methods)


def check_ptx(type, bits, space, methods):
    """Of every order and scope, in one kernel."""
    listed = [*calls(methods, PTX_SCOPES)]
    lines = [f"{methods[method]}{order!r}, {scope!r})" for method, order, scope, _ in listed]
    right = [each for method, order, scope, _ in listed for each in instructions(method, bits, order, scope, space)]
    assert accesses(ptx_of(type, space, *lines)) == right


@pytest.mark.parametrize(
    "target",
    ["sm_75", "sm_90", "sm_120", *(pytest.param(each, marks=pytest.mark.long) for each in ("sm_80", "sm_100"))],
)
def test_assemblers_take_all_of_it(target):
    look = ["out[0] = cell.load()", "cell.store(v[0], 'release', 'device')", "cell.wait(v[1], 'acquire')"]
    change = ["out[1] = cell.exch(v[2], 'acq_rel', 'block')", "out[2] = cell.cas(v[3], v[4])"]
    for space in ("global", "shared"):
        for name in ("float8e4m3", "bfloat16", "Flags", "tuple", "Entry", "float32x2"):
            assert len(ptx_of(VALUES[name], space, *look, *change, output="cubin", target=target)) > 100
        for name in ("float64x2", "Wide"):
            assert len(ptx_of(WIDE[name], space, *look, output="cubin", target=target)) > 100


# Errors


@pytest.mark.parametrize(
    "type, line, message, remedy",
    [
        (
            device.int32x4,
            "cell.exch(v[0])",
            "atomic exch supports values of up to 8 bytes, but .* has 16",
            "load and store",
        ),
        (
            device.int32x4,
            "cell.cas(v[0], v[0])",
            "atomic cas supports values of up to 8 bytes, but .* has 16",
            "a lock",
        ),
        (device.float64x4, "cell.load()", "at most 16 bytes, but .* has 32", ""),
        (device.float32x3, "cell.load()", "has 12 bytes, but machines access 1, 2, 4, 8 or 16 at once", ""),
        (device.float32x2, "cell.add(v[0])", "atomic add does not support vector<float32, 2>", "it supports int32"),
        (device.complex64, "cell.add(v[0])", "atomic add does not support complex64", "it supports int32"),
        (device.complex128, "cell.exch(v[0])", "up to 8 bytes, but complex128 has 16", "load and store"),
        (device.float32, "cell.store(1j)", "the constant 1j does not fit float32", ""),
        (device.float32, "cell.store(device.complex64(v[0]))", "complex64", ""),
        (device.bfloat16, "cell.add(v[0])", "atomic add does not support bfloat16", "it supports int32"),
        (device.float32x2, "cell.store(1)", "atomic store of vector<float32, 2> takes one, not int 1", ""),
        (Entry, "cell.exch((1, 2, 3))", "atomic exch of struct<Entry.* takes one, not tuple", ""),
        (tuple[int32, int64], "cell.store((1, 2, 3))", "takes one, not tuple<int, int, int>", ""),
        (tuple[int32, int64], "cell.store((1, 2.5))", "2.5 is not an integer", ""),
        (device.int32, "cell.store(v)", "takes a number, not array", ""),
    ],
)
def test_mistakes(type, line, message, remedy):
    with pytest.raises(device.CompileError, match=message) as caught:
        ptx_of(type, "global", line, output="ir")
    if remedy:
        assert caught.match(f"help: .*{remedy}")


@device.struct
class Odd:
    first: int32
    pair: tuple[int32, int32]


@device.kernel
def count_pairs(pairs):
    device.atomic_ref(pairs, 1).store((1, 2))


@device.kernel
def count_fields(items):
    device.atomic_ref(items["pair"], 1).store((1, 2))


@device.kernel
def swap_plainly(items, pairs):
    items[0].pair = pairs[1]
    pairs[0] = items[1].pair


def test_elements_have_to_be_aligned_to_their_size():
    """Where they are not, a GPU would stop, and a processor might."""
    stream, pair = device.cpu_stream(), device.numpy_dtype(tuple[int32, int32])
    memory = np.zeros(64, np.uint8)
    memory = memory[-memory.ctypes.data % 16 :]
    good, bad = memory[:32].view(pair), memory[4:36].view(pair)
    device.launch(count_pairs, good, grid=1, block=1, stream=stream)
    assert good.tolist() == [(0, 0), (1, 2), (0, 0), (0, 0)]
    with pytest.raises(device.LaunchError, match="aligned to 4 bytes: atomics need 8"):
        device.launch(count_pairs, bad, grid=1, block=1, stream=stream)
    items = np.zeros(4, device.numpy_dtype(Odd))
    with pytest.raises(device.CompileError, match="aligned to 4 bytes: atomics need 8"):
        device.launch(count_fields, items, grid=1, block=1, stream=stream)
    items["pair"][1], bad[1] = (3, 4), (5, 6)
    device.launch(swap_plainly, items, bad, grid=1, block=1, stream=stream)
    assert items["pair"][0].tolist() == (5, 6) and bad[0].tolist() == (3, 4)


def test_what_is_an_atomic(stream):
    @device.struct
    class Lock:
        holder: device.Atomic(int32)

    def bits(value):
        found = isinstance(value, device.AtomicInterface) + 2 * isinstance(value, device.Atomic)
        return found + 4 * (type(value) is device.Atomic)

    @device.kernel
    def k(locks, x, out):
        lock = locks[0]
        out[0], out[1] = bits(device.Atomic(int32)), bits(lock.holder)
        out[2], out[3], out[4] = bits(device.atomic_ref(x, 0)), bits(x[0]), bits(lock)

    locks, x = (stream.array(np.zeros(1, dtype)) for dtype in (device.numpy_dtype(Lock), np.int32))
    out = stream.empty(5, np.int32)
    stream.launch(k, locks, x, out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [7, 7, 7, 0, 0]
