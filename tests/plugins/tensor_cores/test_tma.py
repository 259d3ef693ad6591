"""Copies of boxes: what is inside and outside, every type and pattern, reductions, clusters, instructions, and refusals."""

import re

import numpy as np
import pytest
from conftest import can_assemble, with_capability
from ir_helpers import assembled
from race_reports import mistakes

import cuda_device as device
from cuda_device import (
    CompileError,
    ConstExpr,
    KernelError,
    MBarrier,
    TensorMap,
    TensorMapType,
    bfloat16,
    float16,
    float32,
    int32,
    shared_array,
    swizzled,
    tma_load,
    tma_reduce,
    tma_store,
)

THREADS = 64


@pytest.fixture
def copies(stream):
    """The stream, where it has copies of boxes."""
    return with_capability(stream, (9, 0), "copies of boxes")


@device.func
def begin(bar):
    """Initialises a barrier for one arrival."""
    if device.thread_idx.x == 0:
        bar.init(1)
        device.fence_mbarrier_init()
    device.syncthreads()


@device.func
def stored():
    """Waits for the copies of the thread."""
    device.bulk_commit()
    device.bulk_wait(read=True)
    device.bulk_wait()


@device.kernel
def through(source, target, coords, place, out, shape: ConstExpr, swizzle: ConstExpr, op: ConstExpr = "store"):
    """Loads the box at `coords`, copies its logical elements to `out`, and stores it, or combines it, at `place`."""
    tile = shared_array(shape, out.dtype, align=1024)
    tile = swizzled(tile, swizzle) if swizzle else tile.reshape(-1, shape[-1])
    bar, t = shared_array(1, MBarrier)[0], device.thread_idx.x
    if t == 0:
        device.tma_prefetch(source)
    begin(bar)
    if t == 0:
        bar.arrive_expect_tx(source.nbytes)
        tma_load(tile, source, coords, bar)
    bar.wait(0)
    rows, width = tile.shape
    for i in range(t, rows * width, THREADS):
        out[i // width, i % width] = tile[i // width, i % width]
    device.fence_proxy_async()
    device.syncthreads()
    if t == 0:
        if op == "store":
            tma_store(target, place, tile)
        else:
            tma_reduce(target, place, tile, op)
        stored()


def numbers(shape, dtype):
    """Numbers of both signs that all types have."""
    return (np.arange(np.prod(shape)).reshape(shape) * 7 % 31 - (15 if np.dtype(dtype).kind != "u" else 0)).astype(
        dtype
    )


def covered(coords, box, shape):
    """The elements of a box that are inside of an array, and their indices in the array."""
    places = np.meshgrid(*(c + np.arange(n) for c, n in zip(coords, box, strict=True)), indexing="ij")
    inside = np.all([(0 <= p) & (p < n) for p, n in zip(places, shape, strict=True)], axis=0)
    return inside, tuple(p[inside] for p in places)


def run(stream, dtype, shape, box, coords, *, swizzle=0, fill="zeros", tile=None):
    """The box, and the array after the store. NumPy's are the second of each pair."""
    x, y, tile = numbers(shape, dtype), numbers(shape[::-1], dtype).reshape(shape), tile or box
    rows, width = (
        (tile[-2], tile[-1] * tile[0]) if len(tile) == 3 and swizzle else (np.prod(tile[:-1], dtype=int), tile[-1])
    )
    source, target, out = stream.array(x), stream.array(y), stream.empty((rows, width), dtype)
    maps = [TensorMap.of(array, box, swizzle=swizzle, fill=fill) for array in (source, target)]
    coords = tuple(map(int, coords))
    place = tuple(max(c, 0) for c in coords)  # stores take no negative coordinates
    stream.launch(through, *maps, coords, place, out, tile, swizzle, grid=1, block=THREADS)
    inside, where = covered(coords, box, shape)
    expected = np.full(box, np.nan if fill == "nan" else 0, np.float64).astype(dtype)
    expected[inside] = x[where]
    after, (inside, where) = y.copy(), covered(place, box, shape)
    after[where] = expected[inside]
    logical = expected.reshape(tile)
    logical = logical.transpose(1, 0, 2) if len(tile) == 3 and swizzle else logical
    return (stream.numpy(out), logical.reshape(rows, width)), (stream.numpy(target), after)


OPERATIONS = {
    "add": lambda a, b: a + b, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def check(pairs):
    for found, expected in pairs:
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


PLACES = [(0, 0), (4, 16), (3, 8), (-3, -8), (17, 40), (-9, 8), (3, 96)]


@pytest.mark.parametrize("coords", PLACES)
@pytest.mark.parametrize("fill", ["zeros", "nan"])
def test_what_is_outside_is_filled_and_not_written(copies, coords, fill):
    check(run(copies, float32, (20, 44), (8, 16), coords, fill=fill))
    check(run(copies, bfloat16, (20, 48), (8, 64), coords, swizzle=128, fill=fill))


TYPES = {
    1: [device.uint8, device.int8, device.float8e4m3, device.float8e5m2],
    2: [device.uint16, device.int16, float16, bfloat16],
    4: [device.uint32, int32, float32, float32],
    8: [device.uint64, device.int64, device.float64, device.float64],
}
"""By their size: each type has a pattern of its own, and each size has all patterns."""


@pytest.mark.parametrize(
    ("dtype", "swizzle"), [case for types in TYPES.values() for case in zip(types, (0, 32, 64, 128), strict=True)]
)
def test_each_type_with_and_without_a_pattern(copies, dtype, swizzle):
    size = np.dtype(device.numpy_dtype(dtype)).itemsize
    width = (swizzle or 48) // size
    check(run(copies, dtype, (24, 4 * width), (16, width), (4, 16 // size), swizzle=swizzle))
    check(run(copies, dtype, (24, 4 * width), (16, width), (-1, -(16 // size)), swizzle=swizzle))


SHAPES = [
    ((100,), (32,), (72,), None),
    ((100,), (32,), (8,), (4, 8)),
    ((6, 7, 20), (2, 3, 12), (5, 3, 12), None),
    ((6, 7, 20), (2, 3, 12), (1, 2, 4), (3, 2, 12)),
    ((6, 7, 20), (1, 3, 12), (1, 2, 4), (3, 12)),
    ((3, 4, 5, 16), (2, 2, 2, 8), (-1, 1, 4, 12), None),
    ((3, 4, 5, 3, 16), (2, 1, 2, 2, 8), (1, 2, 3, 1, 8), (1, 8, 8)),
    ((40, 64), (256, 4), (-100, 8), None),
]


@pytest.mark.parametrize(("shape", "box", "coords", "tile"), SHAPES)
def test_one_to_five_axes_and_tiles_of_other_shapes(copies, shape, box, coords, tile):
    check(run(copies, float32, shape, box, coords, tile=tile))


def test_panels(copies):
    check(run(copies, bfloat16, (4, 40, 64), (3, 16, 64), (1, 30, 0), swizzle=128))


REDUCTIONS = {
    "add": [int32, device.uint32, device.uint64, float16, bfloat16, float32],
    **dict.fromkeys(["min", "max"], (int32, device.uint32, device.int64, device.uint64, float16, bfloat16)),
    **dict.fromkeys(["and", "or", "xor"], (int32, device.uint32, device.uint64)),
}


@device.kernel
def combined(x, target, place, shape: ConstExpr, op: ConstExpr):
    """Combines a box with the elements of x."""
    tile, t = swizzled(shared_array(shape, x.dtype, align=1024), 32), device.thread_idx.x
    tile[t // shape[1], t % shape[1]] = x[t]
    device.fence_proxy_async()
    device.syncthreads()
    if t == 0:
        tma_reduce(target, place, tile, op)
        stored()


@pytest.mark.parametrize(("op", "dtype"), [(op, dtype) for op, types in REDUCTIONS.items() for dtype in types])
def test_reductions(copies, op, dtype):
    width = 32 // np.dtype(device.numpy_dtype(dtype)).itemsize
    box, place = (8, width), (15, width // 2)
    x, y = numbers(box, dtype), numbers((44 * width, 20), dtype).reshape(20, 44 * width)
    target = copies.array(y)
    map = TensorMap.of(target, box, swizzle=32)
    copies.launch(combined, copies.array(x.ravel()), map, place, box, op, grid=1, block=x.size)
    inside, where = covered(place, box, y.shape)
    y[where] = OPERATIONS[op](y[where], x[inside])
    check([(copies.numpy(target), y)])


@pytest.mark.parametrize("op", ["and", "or", "xor"])
def test_bits_of_int64_are_not_combined(op):
    @device.kernel
    def k(map):
        tma_reduce(map, (0, 0), shared_array((8, 4), device.int64), op)

    with pytest.raises(device.CompileError, match="bits of uint64, not of int64"):
        device.compile(k, TensorMapType(device.int64, (8, 4)), target="sm_90a", output="ptx")


@device.kernel
def placed(map, coords):
    tile = shared_array((8, 16), float32)
    if device.thread_idx.x == 0:
        device.fence_proxy_async()
        tma_store(map, coords, tile)
        stored()


def test_boxes_begin_at_multiples_of_16_bytes():
    map = TensorMap.of(np.zeros((20, 44), np.float32), (8, 16))
    stream = device.cpu_stream(target="sm_90a")
    for coords, message in (((3, 5), "5, not a multiple of 4 elements"), ((-1, 4), "negative coordinate: -1")):
        with pytest.raises(device.KernelError, match=message):
            device.launch(placed, map, coords, grid=1, block=1, stream=stream)
    device.launch(placed, map, (3, 4), grid=1, block=1, stream=stream)

    @device.kernel
    def constant(map, bar):
        tma_store(map, (3, 5), shared_array((8, 16), float32))

    with pytest.raises(device.CompileError, match="is 5, not a multiple of 4 elements"):
        device.launch(constant, map, 0, grid=1, block=1, stream=stream)


@device.kernel
def sums(map):
    tile = shared_array((16, 16), map.dtype)
    for i in range(device.thread_idx.x, 256, THREADS):
        tile[i // 16, i % 16] = 1
    device.fence_proxy_async()
    device.syncthreads()
    if device.thread_idx.x == 0:
        for i in range(4):
            tma_reduce(map, (8 * (i // 2), 8 * (i % 2)), tile)
        stored()


@pytest.mark.parametrize("dtype", [float16, int32])
def test_blocks_reduce_the_same_elements(copies, dtype):
    x = copies.array(np.zeros((24, 24), dtype))
    copies.launch(sums, TensorMap.of(x, (16, 16)), grid=50, block=THREADS)
    overlaps = np.minimum(np.arange(24) // 8 + 1, 3 - np.arange(24) // 8)
    assert (copies.numpy(x) == 50 * overlaps[:, None] * overlaps).all()


def test_tf32_is_rounded(copies):
    rng = np.random.default_rng(3)
    x = np.r_[rng.standard_normal(254), np.inf, np.nan].astype(np.float32).reshape(16, 16)
    source, out = copies.array(x), copies.empty((16, 16))
    maps = TensorMap.of(source, (16, 16), dtype="tf32"), TensorMap.of(copies.empty((16, 16)), (16, 16))
    copies.launch(through, *maps, (0, 0), (0, 0), out, (16, 16), 0, grid=1, block=THREADS)
    rounded = ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)
    expected = np.where(np.isfinite(x), rounded, x)
    np.testing.assert_array_equal(copies.numpy(out), expected)
    assert (expected != x).sum() > 200


@device.kernel
def shares(map, out, mask: device.uint16):
    """Each block of a cluster loads a part of the tile, for all blocks of the mask."""
    tiles = shared_array((2, 16, 64), bfloat16, align=1024)
    bar, rank, t = shared_array(1, MBarrier)[0], device.block_rank, device.thread_idx.x
    begin(bar)
    device.cluster_sync()
    if t == 0:
        bar.arrive_expect_tx(2 * map.nbytes)
        tma_load(swizzled(tiles[rank], 128), map, (16 * rank, 64 * device.cluster_idx.x), bar, multicast=mask)
    bar.wait(0)
    for i in range(t, 2 * 16 * 64, THREADS):
        half, row, column = i // 1024, i // 64 % 16, i % 64
        out[device.block_idx.x, 16 * half + row, column] = swizzled(tiles[half], 128)[row, column]
    device.cluster_sync()


def test_a_load_for_several_blocks(copies):
    x = numbers((32, 128), bfloat16)
    out = copies.empty((4, 32, 64), bfloat16)
    map = TensorMap.of(copies.array(x), (16, 64), swizzle=128)
    kernel = device.kernel(cluster=2)(shares.underlying)
    copies.launch(kernel, map, out, 0b11, grid=4, block=THREADS)
    expected = np.stack([x[:, :64], x[:, :64], x[:, 64:], x[:, 64:]])
    np.testing.assert_array_equal(copies.numpy(out).astype(np.float32), expected.astype(np.float32))


# The race detector, on CPU streams


@device.kernel
def pipelined(map, out, mistake):
    tiles, bars, t = shared_array((2, 8, 16), int32), shared_array(2, MBarrier), device.thread_idx.x
    begin(bars[0])
    begin(bars[1])
    for step in range(4):
        s = step % 2
        if t == 0:
            bars[s].arrive_expect_tx(map.nbytes)
            tma_load(tiles[s], map, (8 * step, 0), bars[s])
        if mistake != "wait":
            bars[s].wait(step // 2)
        for i in range(8):
            tiles[s, i, t] += 1
        if mistake != "fence":
            device.fence_proxy_async()
        if mistake != "barrier":
            device.syncthreads()
        if t == 0:
            tma_store(out, (8 * step, 0), tiles[s])
            device.bulk_commit()
            if mistake != "groups":
                device.bulk_wait(1, read=True)
        device.syncthreads()
    if t == 0 and mistake != "end":
        device.bulk_wait(read=True)


MISTAKES = {
    "wait": "tma_load",
    "fence": "fence_proxy_async",
    "barrier": "tma_store",
    "groups": "bulk_wait",
    "end": "ended",
}


def test_races():
    stream, values = device.cpu_stream(races=True), mistakes(MISTAKES)
    x, y = numbers((32, 16), int32), np.zeros((32, 16), int32)
    maps = [TensorMap.of(array, (8, 16)) for array in (x, y)]
    device.launch(pipelined, *maps, values[""], grid=1, block=16, stream=stream)
    assert (y == x + 1).all()
    for mistake, match in MISTAKES.items():
        with pytest.raises(KernelError, match=match):
            device.launch(pipelined, *maps, values[mistake], grid=1, block=16, stream=stream)


# Instructions


def types(dtype, box, **options):
    return TensorMapType(dtype, box, **options)


@pytest.mark.parametrize("target", ["sm_90", "sm_90a", "sm_100a", "sm_120a"])
def test_instructions(target):
    floats = device.ArrayType(float32, 2)
    map, coords = types(float32, (2, 4, 16)), tuple[int, int, int]
    kernels = {op: (through, map, map, coords, coords, floats, (2, 4, 16), 0, op) for op in ("store", "max", "add")}
    kernels["max"] = (
        through,
        *[types(float16, (2, 4, 16))] * 2,
        *[coords] * 2,
        device.ArrayType(float16, 2),
        (2, 4, 16),
        0,
        "max",
    )
    texts = {}
    for op, arguments in kernels.items():
        texts[op] = assembled(*arguments, target=target)
    space = "cluster" if target.startswith("sm_90") else "cta"
    in_order = r"\[%rd\d+, \{%r\d+, %r\d+, %r\d+\}\]"
    load = rf"cp.async.bulk.tensor.3d.shared::{space}.global.mbarrier::complete_tx::bytes \[%rd\d+\], {in_order}, \[%rd\d+\];"
    assert re.search(load, texts["store"])
    assert re.search(rf"cp.async.bulk.tensor.3d.global.shared::cta.bulk_group {in_order}, \[%rd\d+\];", texts["store"])
    assert re.search(rf"cp.reduce.async.bulk.tensor.3d.global.shared::cta.max.tile.bulk_group {in_order}", texts["max"])
    assert "shared::cta.add.tile.bulk_group" in texts["add"] and "prefetch.tensormap [%rd" in texts["add"]
    assert ".local" not in texts["store"]
    assert texts["store"].count("cvta.param.u64") == 2


def test_the_first_coordinate_in_ptx_is_the_last_one():
    @device.kernel
    def k(map, i: int32, j: int32):
        tile, bar = shared_array((8, 16), float32), shared_array(1, MBarrier)[0]
        tma_load(tile, map, (i, j), bar)

    text = device.compile(k, types(float32, (8, 16)), target="sm_90a", output="ptx").code
    i, j = (re.search(rf"ld.param.b32\s+(%r\d+), \[k_param_{n}\]", text)[1] for n in (1, 2))
    assert f"{{{j}, {i}}}" in text


def test_a_load_for_several_blocks_has_its_own_instruction():
    arguments = types(bfloat16, (16, 64), swizzle=128), device.ArrayType(bfloat16, 3)
    text = device.compile(device.kernel(cluster=2)(shares.underlying), *arguments, target="sm_90a", output="ptx").code
    pattern = r"complete_tx::bytes.multicast::cluster \[%rd\d+\], \[%rd\d+, \{%r\d+, %r\d+\}\], \[%rd\d+\], %rs\d+;"
    assert re.search(rf"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::{pattern}", text)
    if can_assemble("sm_120"):  # without the hardware for it, which is a function of the driver there
        assert device.compile(device.kernel(cluster=2)(shares.underlying), *arguments, target="sm_120").code


# Refusals


def of(use):
    """A kernel with one use of a map, a tile and a barrier."""

    @device.kernel
    def k(map, n: int32, array):
        tile, bar = shared_array((8, 16), float32), shared_array(1, MBarrier)[0]
        use(map, tile, bar, n, array)

    return k


NEEDS = {
    "tma_load": lambda map, tile, bar, n, array: tma_load(tile, map, (n, 0), bar),
    "tma_store": lambda map, tile, bar, n, array: tma_store(map, (n, 0), tile),
    "tma_reduce": lambda map, tile, bar, n, array: tma_reduce(map, (n, 0), tile),
    "tma_prefetch": lambda map, tile, bar, n, array: device.tma_prefetch(map),
}
ARGUMENTS = types(float32, (8, 16)), int32, device.ArrayType(float32, 2)


@pytest.mark.parametrize(("name", "use"), NEEDS.items(), ids=NEEDS)
def test_what_needs_sm_90(name, use):
    with pytest.raises(CompileError, match=f"{name} needs sm_90 or later, and this is compiled for sm_89") as raised:
        device.compile(of(use), *ARGUMENTS, target="sm_89")
    assert raised.value.location.file == __file__


WRONG = {
    "tma_load takes a TensorMap that is an argument of the kernel, not array<float32, 2, C>": lambda map, tile, bar, n, array: (
        tma_load(tile, array, (n, 0), bar)
    ),
    "an argument of the kernel, not a tile of 8 x 16 float32, swizzled by 64 bytes": lambda map, tile, bar, n, array: (
        tma_load(map, swizzled(tile, 64), (n, 0), bar)
    ),
    "needs a coordinate for each of the 2 axes of the map, not 1": lambda map, tile, bar, n, array: tma_store(
        map, n, tile
    ),
    "the coordinates of tma_store are integers": lambda map, tile, bar, n, array: tma_store(map, (n, 1.5), tile),
    "the tile has int32 and the map float32": lambda map, tile, bar, n, array: tma_store(map, (n, 0), tile.view(int32)),
    "the tile has 64 elements, and a box of the map 8 x 16": lambda map, tile, bar, n, array: tma_store(
        map, (n, 0), tile[:4]
    ),
    "a tile in shared memory of constant shape, not array<float32, 2, C>": lambda map, tile, bar, n, array: tma_store(
        map, (n, 0), array
    ),
    "a tile in shared memory of constant shape": lambda map, tile, bar, n, array: tma_store(map, (n, 0), tile[:n]),
    "takes a contiguous tile": lambda map, tile, bar, n, array: tma_store(map, (n, 0), tile.T),
    "the pattern of the tile is 64 bytes, and that of the map none": lambda map, tile, bar, n, array: tma_store(
        map, (n, 0), swizzled(tile, 64)
    ),
    "tma_load takes an MBarrier in the shared memory of the block, not array": lambda map, tile, bar, n, array: (
        tma_load(tile, map, (n, 0), array)
    ),
    "the shared memory of the block": lambda map, tile, bar, n, array: tma_load(
        tile, map, (n, 0), device.cluster_shared(bar, 1)
    ),
    "multicast is a mask of the blocks": lambda map, tile, bar, n, array: tma_load(tile, map, (n, 0), bar, 1.5),
    "op='mul' is not a reduction": lambda map, tile, bar, n, array: tma_reduce(map, (n, 0), tile, "mul"),
    "the hardware has no reduction 'max' of float32": lambda map, tile, bar, n, array: tma_reduce(
        map, (n, 0), tile, "max"
    ),
}


@pytest.mark.parametrize(("message", "use"), WRONG.items(), ids=WRONG)
def test_wrong_arguments(message, use):
    with pytest.raises(CompileError, match=re.escape(message)) as raised:
        device.compile(of(use), *ARGUMENTS, target="sm_90")
    assert raised.value.location.file == __file__ and raised.value.help


def test_members_of_maps():
    @device.kernel
    def k(map, out):
        out[0] = map.shape[0]

    with pytest.raises(CompileError, match="TensorMap_float32_8x16 has no member 'shape'") as raised:
        device.compile(k, types(float32, (8, 16)), device.ArrayType(float32, 1), target="sm_90")
    assert raised.value.help == "its members are boxes, box, nbytes, dtype, swizzle, fill"


def test_the_pattern_of_the_map_is_that_of_the_tile():
    @device.kernel
    def k(map):
        tile = swizzled(shared_array((8, 16), float32), 64)
        tma_store(map, (0, 0), tile.T if map.fill == "nan" else tile)

    with pytest.raises(
        CompileError, match="the pattern of the tile is 64 bytes, and that of the map 128 bytes"
    ) as raised:
        device.compile(k, types(float32, (4, 32), swizzle=128))
    assert "give swizzled(tile, 128), or make the map with swizzle=64" in raised.value.help
    device.compile(k, types(float32, (8, 16), swizzle=64))
    with pytest.raises(
        CompileError, match="takes a contiguous tile, not a tile of 16 x 8 float32, swizzled by 64 bytes, tr"
    ):
        device.compile(k, types(float32, (8, 16), swizzle=64, fill="nan"))


def test_stores_to_read_only_arrays_are_refused():
    x, stream = np.zeros((8, 16), np.float32), device.cpu_stream()
    x.flags.writeable = False
    out = np.zeros((8, 16), np.float32)
    map = TensorMap.of(x, (8, 16))
    for use in (NEEDS["tma_store"], NEEDS["tma_reduce"]):
        with pytest.raises(CompileError, match="the array of the map is read-only"):
            device.launch(of(use), map, 0, out, grid=1, block=1, stream=stream)
    target = TensorMap.of(out, (8, 16))
    device.launch(through, map, target, (0, 0), (0, 0), out.copy(), (8, 16), 0, grid=1, block=THREADS, stream=stream)


def test_the_host_cannot_copy():
    with pytest.raises(device.DeviceOnlyError, match="tma_load"):
        tma_load(None, None, (0,), None)
