"""`cp_async`: elements of each size, groups, barriers, zeros for what is not valid, races, and refusals."""

import re

import numpy as np
import pytest

import cuda_device as device
from cuda_device import bfloat16, complex128, float32, float32x2, float32x4, int8, int32, int64


@device.struct
class Pair:
    key: int32
    value: float32


@device.struct
class Entry:
    key: int64
    pair: Pair


TYPES = {
    Pair: ("ca", 4),
    Entry: ("ca", 8),
    float32: ("ca", 4),
    float32x2: ("ca", 8),
    int64: ("ca", 8),
    float32x4: ("cg", 16),
    complex128: ("cg", 16),
}


@pytest.fixture(autouse=True)
def _not_emulated(request):
    if "stream" in request.fixturenames and request.getfixturevalue("stream").emulated:
        pytest.skip("ptx_machine has no asynchronous copies")


def copying(element):
    """Copies rows of a matrix to shared memory in two groups, those from `valid` on as zeros; stores them in reverse."""

    @device.kernel
    def copies(x, valid, y):
        rows = device.shared_array((2, 16, 8), element)
        t = device.lane_id
        for j in range(8):
            device.cp_async(rows, (t // 16, t % 16, j), x, (t, j) if t < valid else (10_000, -9), t < valid)
            if j == 3:
                device.cp_async_commit()
        device.cp_async_commit()
        device.cp_async_wait(1)
        for j in range(4):
            y[t, 7 - j] = rows[t // 16, t % 16, j]
        device.cp_async_wait()
        for j in range(4, 8):
            y[t, 7 - j] = rows[t // 16, t % 16, j]

    return copies


def elements(element):
    dtype = device.numpy_dtype(element)
    return np.random.default_rng(1).integers(0, 250, (32, 8 * dtype.itemsize)).astype(np.uint8).view(dtype)


@pytest.mark.parametrize("element", TYPES)
def test_elements_of_each_size(stream, element):
    x = elements(element)
    y = stream.run(copying(element), x, int32(20), np.zeros_like(x), block=32)[1]
    right = x.copy()
    right[20:] = np.zeros_like(x)[20:]
    assert y.tobytes() == right[:, ::-1].tobytes()


@pytest.mark.parametrize(("element", "expected"), TYPES.items())
def test_the_instructions(element, expected):
    cache, size = expected
    types = device.ArrayType(element, 2), int32, device.ArrayType(element, 2)
    ptx = device.compile(copying(element), *types, target="sm_80", output="ptx").code
    assert re.search(rf"cp\.async\.{cache}\.shared\.global \[to\], \[%rd\d+\], {size}, %r\d+;", ptx)
    assert ptx.count("cp.async.wait_group 1;") == ptx.count("cp.async.wait_group 0;") == 1
    assert "cp.async.commit_group;" in ptx
    assert device.compile(copying(element), *types, target="sm_80").code
    with pytest.raises(device.CompileError, match="cp_async needs sm_80 or later, and this is compiled for sm_75"):
        device.compile(copying(element), *types, target="sm_75", output="ptx")


@device.kernel
def through_a_barrier(x, y):
    tile, bars = device.shared_array((32, 64), bfloat16, align=1024), device.shared_array(1, device.MBarrier)
    t = device.thread_idx.x
    if t == 0:
        bars[0].init(32)
    device.syncthreads()
    chunks = device.swizzled(tile.view(float32x4), 128)
    for j in range(8):
        device.cp_async(chunks, (t, j), x.view(float32x4), (t, j))
    device.cp_async_arrive(bars[0])
    bars[0].wait(0)
    seen = device.swizzled(tile, 128)
    for j in range(64):
        y[t, j] = seen[31 - t, j]


BARRIER = device.ArrayType(bfloat16, 2), device.ArrayType(bfloat16, 2)


@pytest.mark.parametrize("races", [False, True])
def test_a_barrier_counts_the_copies_of_each_thread(stream, races):
    x = np.random.default_rng(2).standard_normal((32, 64)).astype(bfloat16)
    y = stream.array(np.zeros_like(x))
    where = device.cpu_stream(races=True) if races and stream.kind == "cpu" else stream.stream
    device.launch(through_a_barrier, stream.array(x), y, grid=1, block=32, stream=where)
    assert (stream.numpy(y) == x[::-1]).all()
    ptx = device.compile(through_a_barrier, *BARRIER, target="sm_80", output="ptx").code
    assert "cp.async.mbarrier.arrive.noinc.shared.b64 [" in ptx
    assert device.compile(through_a_barrier, *BARRIER, target="sm_80").code


def racing(mistake):
    @device.kernel
    def copies(x, y):
        rows, t = device.shared_array(32, float32), device.thread_idx.x
        device.cp_async(rows, t, x, t)
        if mistake != "commit":
            device.cp_async_commit()
        device.cp_async_wait(1 if mistake == "pending" else 0)
        if mistake != "syncthreads":
            device.syncthreads()
        y[t] = rows[31 - t]

    return copies


@pytest.mark.parametrize("mistake", ["", "commit", "pending", "syncthreads"])
def test_races(mistake):
    x, y = np.arange(32, dtype=float32), np.zeros(32, float32)
    stream = device.cpu_stream(races=True)
    if not mistake:
        device.launch(racing(mistake), x, y, grid=1, block=32, stream=stream)
        assert (y == x[::-1]).all()
        return
    with pytest.raises(device.KernelError) as raised:
        device.launch(racing(mistake), x, y, grid=1, block=32, stream=stream)
    assert "race" in str(raised.value)
    assert "device.cp_async(rows, t, x, t)" in str(raised.value)


@pytest.mark.parametrize(("i", "j"), [(32, 0), (0, 32), (-33, 0)])
def test_indices_are_checked(i, j):
    @device.kernel
    def copies(x, i, j):
        rows = device.shared_array(32, float32)
        device.cp_async(rows, i, x, j)
        device.cp_async_wait()

    x, stream = np.zeros(32, float32), device.cpu_stream()
    with pytest.raises(device.KernelError, match=f"index {i or j} is out of bounds for axis 0 of size 32") as raised:
        device.launch(copies, x, i, j, grid=1, block=1, stream=stream)
    assert "device.cp_async(rows, i, x, j)" in str(raised.value)
    device.launch(copies, x, -32, -1, grid=1, block=1, stream=stream)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda s, x: device.cp_async(x, 0, s, 0),
            "cp_async copies to an array in shared memory, not array<float32, 1, C>",
        ),
        (
            lambda s, _: device.cp_async(s, 0, s, 0),
            "cp_async copies from an array in global memory, not array<float32, 1",
        ),
        (lambda s, x: device.cp_async(s.view(int32), 0, x, 0), "elements of one type, not from float32 to int32"),
        (
            lambda s, x: device.cp_async(s.view(int8), 0, x.view(int8), 0),
            "4, 8 or 16 bytes, aligned to at least 4, not int8",
        ),
        (
            lambda s, x: device.cp_async(s, (0, 0), x, 0),
            "takes an integer as the index of this array, not tuple<int, int>",
        ),
        (
            lambda s, x: device.cp_async(s.reshape(4, 8), 0, x, 0),
            "takes a tuple of 2 integers as the index of this array",
        ),
        (lambda s, x: device.cp_async(s, 0.5, x, 0), "takes an integer as the index of this array, not float 0.5"),
        (lambda s, x: device.cp_async(s, 0, x, 0, None), "valid must be a bool, not None"),
        (lambda _, x: device.cp_async_wait(x[0]), "pending must be a constant expression"),
        (lambda *_: device.cp_async_wait(-1), "pending=-1 is not a number of groups"),
        (lambda s, _: device.cp_async_arrive(s), "cp_async_arrive takes an MBarrier in the shared memory of the block"),
    ],
)
def test_refusals(call, message):
    @device.kernel
    def wrong(x):
        call(device.shared_array(32, float32), x)

    with pytest.raises(device.CompileError, match=re.escape(message)) as raised:
        device.launch(wrong, np.zeros(32, float32), grid=1, block=1, stream=device.cpu_stream())
    assert raised.value.help
    assert ": device.cp_async" in str(raised.value)
    with pytest.raises(device.DeviceOnlyError):
        device.cp_async_wait()


def test_vectors_that_are_less_aligned_are_refused():
    @device.kernel
    def copies(x):
        device.cp_async(device.shared_array(4, float32x4), 0, x, 0)

    x = np.zeros(33, np.float32)[1:].view(device.numpy_dtype(float32x4))
    with pytest.raises(device.CompileError, match="aligned as their type asks, not those of array<vector<float32, 4>"):
        device.launch(copies, x, grid=1, block=1, stream=device.cpu_stream())
