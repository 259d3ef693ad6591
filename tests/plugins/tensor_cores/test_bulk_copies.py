"""Copies of contiguous memory by one thread: loads, stores, reductions, groups, instructions, and refusals."""

import re

import numpy as np
import pytest
from conftest import with_capability
from ir_helpers import assembled
from race_reports import mistakes

import cuda_device as device
from cuda_device import (
    CompileError,
    ConstExpr,
    KernelError,
    MBarrier,
    bfloat16,
    bulk_load,
    bulk_reduce,
    bulk_store,
    float16,
    float32,
    int32,
    shared_array,
)

THREADS = 32


@pytest.fixture
def copies(stream):
    """The stream, where it has bulk copies."""
    return with_capability(stream, (9, 0), "bulk copies")


@device.kernel
def doubled(x, y, z, n: ConstExpr, op: ConstExpr):
    """Doubles blocks of n elements, two stages at a time; `z` is combined with them."""
    tiles, bars, t = shared_array((2, n), x.dtype, align=16), shared_array(2, MBarrier), device.thread_idx.x
    if t < 2:
        bars[t].init(1)
        device.fence_mbarrier_init()
    device.syncthreads()
    count = len(x) // n
    for k in range(count + 1):
        if k < count and t == 0:
            device.bulk_wait(1, read=True)
            bars[k % 2].arrive_expect_tx(tiles[0].nbytes)
            bulk_load(tiles[k % 2], x[n * k : n * (k + 1)], bars[k % 2])
        if k > 0:
            s = (k - 1) % 2
            bars[s].wait((k - 1) // 2 % 2)
            for i in range(t, n, THREADS):
                tiles[s, i] += tiles[s, i]
            device.fence_proxy_async()
            device.syncthreads()
            if t == 0:
                bulk_store(y[n * (k - 1) : n * k], tiles[s])
                bulk_reduce(z[n * (k - 1) : n * k], tiles[s], op)
                device.bulk_commit()
    if t == 0:
        device.bulk_wait()


OPERATIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
REDUCTIONS = {
    "add": [int32, device.uint32, device.uint64, float16, bfloat16, float32],
    **dict.fromkeys(["min", "max"], (int32, device.uint32, device.int64, device.uint64, float16, bfloat16)),
    **dict.fromkeys(["and", "or", "xor"], (int32, device.uint32, device.int64, device.uint64)),
}


@device.kernel
def combined(x, z, n: ConstExpr, op: ConstExpr):
    """Combines elements of z with those of x."""
    tile, t = shared_array(n, x.dtype, align=16), device.thread_idx.x
    tile[t] = x[t]
    device.fence_proxy_async()
    device.syncthreads()
    if t == 0:
        bulk_reduce(z[n : 2 * n], tile, op)
        device.bulk_commit()
        device.bulk_wait()


@pytest.mark.parametrize(("op", "dtype"), [(op, dtype) for op, types in REDUCTIONS.items() for dtype in types])
def test_reductions(copies, op, dtype):
    x, z = (np.arange(48) * 7 % 61).astype(dtype), (np.arange(3 * 48) * 5 % 59).astype(dtype)
    _, after = copies.run(combined, x, z, 48, op, block=48)
    z[48:96] = OPERATIONS[op](z[48:96], x)
    assert (after == z).all()


@pytest.mark.parametrize(("op", "dtype"), [("add", float16), ("max", device.int64)])
def test_loads_stores_and_reductions(copies, op, dtype):
    x = (np.arange(5 * 48) * 7 % 61).astype(dtype)
    _, y, z = copies.run(doubled, x, np.zeros_like(x), x[::-1].copy(), 48, op, block=THREADS)
    assert (y == x + x).all()
    assert (z == OPERATIONS[op](x[::-1], x + x)).all()


@pytest.mark.parametrize("dtype", [float16, bfloat16])
@pytest.mark.parametrize(("op", "zero"), [("min", -0.0), ("max", 0.0)])
def test_reductions_of_floats_ignore_nan_and_order_zeros(copies, dtype, op, zero):
    x, z, right = (
        np.resize(values, 48).astype(dtype)
        for values in ([np.nan, 1, 0.0, -0.0, np.nan], [2, np.nan, -0.0, 0.0, np.nan], [2, 2, zero, zero, np.nan])
    )
    z = copies.run(doubled, x, np.zeros_like(x), z, 48, op, block=THREADS)[-1].astype(np.float32)
    np.testing.assert_array_equal(z, right.astype(np.float32))
    assert (np.isnan(z) | (np.signbit(z) == np.signbit(right.astype(np.float32)))).all()


def test_other_elements_and_blocks_that_reduce_together(copies):
    @device.kernel
    def k(pairs, total):
        tile, ones = shared_array(32, pairs.dtype, align=16), shared_array((4, 8), float16, align=16)
        bar, t = shared_array(1, MBarrier)[0], device.thread_idx.x
        ones[t // 8, t % 8] = tile_of_ones
        if t == 0:
            bar.init(1)
        device.fence_mbarrier_init()
        device.fence_proxy_async()
        device.syncthreads()
        if t == 0:
            bar.arrive_expect_tx(tile.nbytes)
            bulk_load(tile, pairs[32:], bar)
            bulk_reduce(total.reshape(-1), ones.reshape(-1))
            device.bulk_commit()
            device.bulk_wait()
        bar.wait(0)
        if device.block_idx.x == 0:
            pairs[t] = tile[31 - t]

    tile_of_ones = 1
    pairs = np.arange(64 * 4, dtype=np.float32).view(device.numpy_dtype(device.float32x4))
    after, total = copies.run(k, pairs, np.zeros((4, 8), np.float16), grid=40, block=THREADS)
    assert (after[:32] == pairs[:31:-1]).all() and (total == 40).all()


@device.kernel
def steps(x, y, mistake):
    tile, bar, t = shared_array(THREADS, int32, align=16), shared_array(1, MBarrier)[0], device.thread_idx.x
    if t == 0:
        bar.init(1)
    device.fence_mbarrier_init()
    device.syncthreads()
    for step in range(2):
        if t == 0:
            bar.arrive_expect_tx(tile.nbytes)
            bulk_load(tile, x[THREADS * step : THREADS * (step + 1)], bar)
        if mistake != "wait":
            bar.wait(step)
        tile[t] += 1
        if mistake != "fence":
            device.fence_proxy_async()
        if mistake != "barrier":
            device.syncthreads()
        if t == 0:
            bulk_store(y[THREADS * step : THREADS * (step + 1)], tile)
            device.bulk_commit()
            if mistake != "groups":
                device.bulk_wait(read=True)
        device.syncthreads()


MISTAKES = {"wait": "bulk_load", "fence": "fence_proxy_async", "barrier": "bulk_store", "groups": "bulk_wait"}


def test_races():
    x, y, stream = np.arange(64, dtype=np.int32), np.zeros(64, np.int32), device.cpu_stream(races=True)
    values = mistakes(MISTAKES)
    device.launch(steps, x, y, values[""], grid=1, block=THREADS, stream=stream)
    assert (y == x + 1).all()
    for mistake, match in MISTAKES.items():
        with pytest.raises(KernelError, match=match):
            device.launch(steps, x, y, values[mistake], grid=1, block=THREADS, stream=stream)


@pytest.mark.parametrize("target", ["sm_90", "sm_100a", "sm_120a"])
def test_instructions(target):
    halves = device.ArrayType(float16, 1)
    text = assembled(doubled, halves, halves, halves, 48, "add", target=target)
    space, address = "cluster" if target == "sm_90" else "cta", r"\[%rd\d+\]"
    copy = rf"{address}, {address}, %r\d+"
    load = rf"cp.async.bulk.shared::{space}.global.mbarrier::complete_tx::bytes {copy}, {address};"
    assert re.search(load, text)
    assert re.search(rf"cp.async.bulk.global.shared::cta.bulk_group {copy};", text)
    assert re.search(rf"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 {copy};", text)
    assert all(f"cp.async.bulk.{words};" in text for words in ("commit_group", "wait_group 0", "wait_group.read 1"))
    longs = device.ArrayType(device.int64, 1)
    for op, instruction in (("min", "min.s64"), ("xor", "xor.b64")):
        text = device.compile(doubled, longs, longs, longs, 48, op, target=target, output="ptx").code
        assert f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{instruction} [" in text


# Refusals


def of(use):
    """A kernel with one use of arrays and a barrier."""

    @device.kernel
    def k(x, n: int32):
        tile, bar = shared_array((4, 16), float32, align=16), shared_array(1, MBarrier)[0]
        bar.init(1)
        use(tile, x, bar, n)

    return k


FLOATS = device.ArrayType(float32, 1)
NEEDS = {
    "bulk_load": lambda tile, x, bar, n: bulk_load(tile[0], x[:16], bar),
    "bulk_store": lambda tile, x, bar, n: bulk_store(x[:16], tile[0]),
    "bulk_reduce": lambda tile, x, bar, n: bulk_reduce(x[:16], tile[0]),
    "bulk_commit": lambda tile, x, bar, n: device.bulk_commit(),
    "bulk_wait": lambda tile, x, bar, n: device.bulk_wait(),
}


@pytest.mark.parametrize(("name", "use"), NEEDS.items(), ids=NEEDS)
def test_what_needs_sm_90(name, use):
    with pytest.raises(CompileError, match=f"{name} needs sm_90 or later, and this is compiled for sm_80") as raised:
        device.compile(of(use), FLOATS, int32, target="sm_80")
    assert raised.value.location.file == __file__


WRONG = {
    "bulk_load takes an array in shared memory here, not array": lambda tile, x, bar, n: bulk_load(
        x[:16], tile[0], bar
    ),
    "bulk_store takes an array in global memory here": lambda tile, x, bar, n: bulk_store(tile[0], x[:16]),
    "bulk_store takes contiguous arrays": lambda tile, x, bar, n: bulk_store(x[::2], tile[0]),
    "bulk_store takes contiguous arrays, not": lambda tile, x, bar, n: bulk_store(x[:4], tile[:, 0]),
    "not from float32 to int32": lambda tile, x, bar, n: bulk_load(tile[0].view(int32), x[:16], bar),
    "copies multiples of 16 bytes, not 20": lambda tile, x, bar, n: bulk_store(x[:5], shared_array(5, float32)),
    "bulk_load takes an MBarrier in the shared memory of the block": lambda tile, x, bar, n: bulk_load(
        tile[0], x[:16], x
    ),
    "op='sub' is not a reduction": lambda tile, x, bar, n: bulk_reduce(x[:16], tile[0], "sub"),
    "no reduction 'min' of float32": lambda tile, x, bar, n: bulk_reduce(x[:16], tile[0], "min"),
    "pending=-1 is not a number of groups": lambda tile, x, bar, n: device.bulk_wait(-1),
    "pending must be": lambda tile, x, bar, n: device.bulk_wait(n),
}


@pytest.mark.parametrize(("message", "use"), WRONG.items(), ids=WRONG)
def test_wrong_arguments(message, use):
    with pytest.raises(CompileError, match=re.escape(message)) as raised:
        device.compile(of(use), FLOATS, int32, target="sm_90")
    assert raised.value.location.file == __file__ and raised.value.help


def test_stores_to_read_only_arrays_are_refused():
    with pytest.raises(CompileError, match="the array is read-only"):
        device.compile(of(NEEDS["bulk_store"]), device.ArrayType(float32, 1, readonly=True), int32)
    device.compile(of(NEEDS["bulk_load"]), device.ArrayType(float32, 1, readonly=True), int32)


FAILS = {
    "a copy of 64 bytes to or from 48 bytes": lambda tile, x, bar, n: bulk_load(tile[0], x[: n + 8], bar),
    "a copy of 16 bytes to or from 64 bytes": lambda tile, x, bar, n: bulk_store(x[:16], tile.reshape(-1)[:n]),
    "a copy of 20 bytes, not a multiple of 16": lambda tile, x, bar, n: bulk_store(
        x[: n + 1], tile.reshape(-1)[: n + 1]
    ),
    "does not begin at a multiple of 16 bytes": lambda tile, x, bar, n: bulk_store(x[1:17], tile[0]),
}


@pytest.mark.parametrize(("message", "use"), FAILS.items(), ids=FAILS)
def test_what_cpu_streams_report(message, use):
    x = np.zeros(80, np.float32)
    x = x[-x.ctypes.data % 16 // 4 :][:64]
    with pytest.raises(KernelError, match=message) as raised:
        device.launch(of(use), x, 4, grid=1, block=1, stream=device.cpu_stream())
    assert raised.value.location.file == __file__
