"""Layouts, rings, products, register tiles and schedules of `tiles`, against NumPy, by `wgmma` and by `mma_sync`."""

import numpy as np
import pytest
from conftest import StreamUnderTest, properties_of, with_capability
from ir_helpers import assembled

import cuda_device as device
from cuda_device import (
    bfloat16,
    float8e4m3,
    float8e5m2,
    float16,
    float32,
    float64,
    hooks,
    int8,
    int32,
    shared_array,
    uint8,
)

if hooks.installed("plugins.tensor_cores") is None:
    pytest.skip("tiles are built on the plugin tensor_cores", allow_module_level=True)

from cuda_device import MBarrier, tiles


@pytest.fixture(params=["sm_90a", "sm_80"])
def architecture(request):
    """The instructions under test: those of `wgmma`, or `ldmatrix` and `mma_sync`."""
    return request.param


@pytest.fixture
def warpgroups(stream, architecture):
    """The stream, where it runs the code for this architecture."""
    if stream.kind == "cpu":
        return StreamUnderTest("cpu", device.cpu_stream(target=architecture))
    capability = (0, 0) if stream.emulated else properties_of(stream.stream).capability
    if capability < (8, 0) or (capability == (9, 0)) != (architecture == "sm_90a"):
        pytest.skip(f"not the code for {architecture}")
    return stream


@pytest.fixture
def warps(stream):
    """The stream, where it has register tiles, whose code is the same for all architectures."""
    return with_capability(stream, (8, 0), "register tiles")


@pytest.fixture
def copies(stream):
    """The stream, where it has copies of boxes."""
    return with_capability(stream, (9, 0), "copies of boxes")


def integers(shape, dtype, seed):
    """Small integers, whose products and sums are exact."""
    lowest = 0 if dtype is uint8 else -4
    return np.random.default_rng(seed).integers(lowest, 5, shape).astype(device.numpy_dtype(dtype))


# Layouts


@pytest.mark.parametrize(
    ("layout", "width", "panels", "box", "nbytes", "shape"),
    [
        (tiles.TileLayout(128, 64, bfloat16), 64, 1, (128, 64), 16384, (3, 1, 128, 64)),
        (tiles.TileLayout(64, 256, float16), 64, 4, (64, 64), 32768, (3, 4, 64, 64)),
        (tiles.TileLayout(64, 16, float16, swizzle=32), 16, 1, (64, 16), 2048, (3, 1, 64, 16)),
        (tiles.TileLayout(32, 64, float32, swizzle=64), 16, 4, (32, 16), 8192, (3, 4, 32, 16)),
        (tiles.TileLayout(64, 256, bfloat16, blocks=2), 64, 4, (64, 64), 32768, (3, 4, 64, 64)),
        (tiles.TileLayout(256, 64, bfloat16, blocks=2), 64, 1, (128, 64), 32768, (3, 1, 256, 64)),
        (tiles.TileLayout(256, 192, bfloat16, blocks=4), 64, 3, (64, 64), 98304, (3, 3, 256, 64)),
    ],
)
def test_layout(layout, width, panels, box, nbytes, shape):
    assert (layout.width, layout.panels, layout.box, layout.nbytes) == (width, panels, box, nbytes)
    assert layout.stages(3) == shape


@pytest.mark.parametrize(("columns", "swizzle"), [(32, 128), (96, 128), (64, 0), (64, 256), (0, 32)])
def test_a_tile_consists_of_whole_panels(columns, swizzle):
    with pytest.raises(ValueError, match=f"a row of {columns} elements of 2 bytes .* swizzle={swizzle} bytes"):
        tiles.TileLayout(64, columns, bfloat16, swizzle).stages(2)


# Rings

PIECE = tiles.TileLayout(8, 128, bfloat16)
STAGES, CONSUMERS = 2, 2


@device.kernel(max_threads=32 * (CONSUMERS + 1))
def through_a_ring(source, target, sums, steps: int32):
    """A warp loads tiles into a ring; each of two others adds up its columns of them; the first one also stores them."""
    array = shared_array(PIECE.stages(STAGES), PIECE.dtype)
    bars = shared_array((2, STAGES), MBarrier)
    ring = tiles.Ring(bars[0], bars[1])
    thread = int32(device.thread_idx.x)
    warp, lane = thread // 32, thread % 32
    if thread == 0:
        ring.init(CONSUMERS)
        device.fence_mbarrier_init()
    device.syncthreads()
    if warp == CONSUMERS:
        if lane == 0:
            for i in range(steps):
                stage = ring.acquire(i, PIECE.nbytes)
                PIECE.load(array, stage, source, i * PIECE.rows, 0, ring.full[stage])
    else:
        for i in range(steps):
            stage = ring.wait(i)
            tile = PIECE.tile(array, stage)
            total = float32(0)
            for row in range(PIECE.rows):
                for column in range(lane, PIECE.columns, 32):
                    total += float32(tile[row, column]) * (warp + 1)
            sums[i, thread] = total
            if warp == 0 and lane == 0:
                PIECE.save(array, stage, target, i * PIECE.rows, 0)
                device.bulk_wait(0)
            device.syncwarp(0xFFFFFFFF)
            if lane == 0:
                ring.release(stage)


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_ring(copies, steps):
    rows = max(steps, 1) * PIECE.rows
    x = integers((rows, PIECE.columns), bfloat16, 0)
    source, target = copies.array(x), copies.array(np.zeros_like(x))
    sums = copies.array(np.zeros((max(steps, 1), 32 * CONSUMERS), np.float32))
    maps = [PIECE.map_of(array) for array in (source, target)]
    copies.launch(through_a_ring, *maps, sums, steps, grid=1, block=32 * (CONSUMERS + 1))
    totals = x.astype(np.float64).reshape(-1, PIECE.rows, PIECE.columns // 32, 32).sum((1, 2))
    assert (copies.numpy(target) == (x if steps else 0)).all()
    assert (copies.numpy(sums) == (np.hstack([totals, 2 * totals]) if steps else 0)).all()


# Products


def filled(layout, array):
    """A tile with the elements of an array, by the threads of a warpgroup."""
    tile = layout.tile(shared_array(layout.stages(1), layout.dtype), 0)
    for i in range(int32(device.thread_idx.x), layout.rows * layout.columns, 128):
        tile[i // layout.columns, i % layout.columns] = array[i // layout.columns, i % layout.columns]
    return tile


def layout_of(rows, columns, dtype):
    return tiles.TileLayout(
        rows, columns, dtype, swizzle=min(64 if dtype is float64 else 128, device.sizeof(dtype) * columns)
    )


def product(dtype, n, k, a_is, b_is):
    """The kernel out = start + a @ b.T, whose operands are "plain", "transposed" or in "registers"."""
    number = NUMBERS.get(dtype, float32)
    left = layout_of(k, 64, dtype) if a_is == "transposed" else layout_of(64, k, dtype)
    right = layout_of(k, n, dtype) if b_is == "transposed" else layout_of(n, k, dtype)

    @device.kernel(max_threads=128)
    def kernel(a, b, out, accumulate: int32):
        y = filled(right, b)
        if a_is == "registers":
            numbers = tuple([float32(a[tiles.row_of(i // 2 % 2), tiles.column_of(i)]) for i in tuple(range(k // 2))])
            x = tiles.fragments(numbers, dtype)
        elif a_is == "transposed":
            x = filled(left, a).T
        else:
            x = filled(left, a)
        if device.target(device.provides(device.sm90)):
            device.fence_proxy_async()
        device.syncthreads()
        acc = tiles.mma((number(1),) * (n // 2), x, y.T if b_is == "transposed" else y, accumulate=accumulate > 0)
        acc = tiles.wait(0, acc)
        tiles.store_to_array(acc, out, 0, 0)

    return kernel


PRODUCTS = [
    (bfloat16, 16, 16, "plain", "plain"),
    (float16, 32, 32, "plain", "transposed"),
    (bfloat16, 8, 32, "plain", "plain"),
    (float16, 24, 16, "plain", "plain"),
    (int8, 24, 32, "plain", "plain"),
    (float16, 16, 16, "transposed", "plain"),
    (bfloat16, 16, 32, "transposed", "transposed"),
    (bfloat16, 16, 32, "registers", "transposed"),
    (float16, 32, 16, "registers", "plain"),
    (int8, 16, 64, "plain", "plain"),
    (uint8, 16, 32, "plain", "plain"),
    (float32, 16, 32, "plain", "plain"),
    (float8e4m3, 16, 32, "plain", "plain"),
    (float64, 16, 16, "plain", "transposed"),
    (float64, 16, 8, "transposed", "plain"),
]
NUMBERS = {int8: int32, uint8: int32, float64: float64}
"""The types of accumulators that are not float32."""


@pytest.mark.parametrize(("dtype", "n", "k", "a_is", "b_is"), PRODUCTS)
def test_product(warpgroups, architecture, dtype, n, k, a_is, b_is):
    if dtype in (float8e4m3, float64) and architecture == "sm_80":
        pytest.skip("float8e4m3 needs sm_89, and float64 sm_90")
    a, b = integers((64, k), dtype, 1), integers((n, k), dtype, 2)
    right = a.astype(np.float64) @ b.astype(np.float64).T
    arrays = (a.T.copy() if a_is == "transposed" else a, b.T.copy() if b_is == "transposed" else b)
    arrays = (*arrays, np.zeros((64, n), NUMBERS.get(dtype, float32)))
    kernel = product(dtype, n, k, a_is, b_is)
    for accumulate in (1, 0):
        *_, result = warpgroups.run(kernel, *arrays, accumulate, grid=1, block=128)
        assert (result == right + accumulate).all()
    text = assembled(kernel, *arrays, int32, target=architecture)
    by_warps = architecture == "sm_80" or dtype is float64
    steps = k // 8 if dtype is float64 else k * device.sizeof(dtype) // 32
    assert text.count("wgmma.mma_async") == (0 if by_warps else steps)
    assert text.count("mma.sync") == (steps * n // 8 if by_warps else 0)


# Register tiles

COLUMNS = 32


def elements(x):
    """The register tile of an array of 64 rows and `COLUMNS` columns."""
    return tuple([float32(x[tiles.row_of(i // 2 % 2), tiles.column_of(i)]) for i in tuple(range(COLUMNS // 2))])


@device.kernel(max_threads=128)
def of_rows(x, start, out, of_threads):
    """The maxima, with and without a start, and the sums of rows, twice, and the elements less the maximum of their row."""
    acc = elements(x)
    low, high = tiles.row_of(0), tiles.row_of(1)
    most, more = tiles.row_max(acc), tiles.row_max(acc, (start[low], start[high]))
    sums, largest = tiles.row_sum(acc), tiles.row_max(acc, 2.0)
    total = tiles.row_total(tiles.own_rows(acc, 0, lambda a, b: a + b))
    for i, pair in enumerate((most, more, largest, sums, total)):
        out[i, low], out[i, high] = pair
    tiles.store_to_array(tiles.map_rows(lambda a, m: a - m, acc, most), of_threads, 0, 0)


def test_rows(warps):
    random = np.random.default_rng(3)
    x = random.integers(-1000, 4, (64, COLUMNS)).astype(np.float32)
    start = random.integers(-1000, 1000, 64).astype(np.float32)
    out, shifted = warps.empty((5, 64)), warps.empty((64, COLUMNS))
    warps.launch(of_rows, warps.array(x), warps.array(start), out, shifted, grid=1, block=128)
    most, sums = x.max(1), x.sum(1)
    right = [most, np.maximum(most, start), np.maximum(most, 2), sums, sums]
    assert (warps.numpy(out) == right).all()
    assert (warps.numpy(shifted) == x - most[:, None]).all()


def storing(dtype):
    """The kernel that stores a register tile to a shared tile, and copies that."""
    layout = layout_of(64, COLUMNS, dtype)

    @device.kernel(max_threads=128)
    def kernel(x, out):
        tile = layout.tile(shared_array(layout.stages(1), dtype), 0)
        tiles.store(elements(x), tile)
        device.syncthreads()
        for i in range(int32(device.thread_idx.x), 64 * COLUMNS, 128):
            out[i // COLUMNS, i % COLUMNS] = tile[i // COLUMNS, i % COLUMNS]

    return kernel


@pytest.mark.parametrize("dtype", [bfloat16, float16, float32, int32, float8e4m3, int8])
def test_store(warpgroups, architecture, dtype):
    x = 25 * np.random.default_rng(4).standard_normal((64, COLUMNS)).astype(np.float32)
    x[0, :2] = 1 + 2**-9, 1 + 3 * 2**-9  # between two numbers of bfloat16: to even
    rounded = x.astype(device.numpy_dtype(dtype))
    arrays = x, np.zeros_like(rounded)
    kernel = storing(dtype)
    assert (warpgroups.run(kernel, *arrays, grid=1, block=128)[1] == rounded).all()
    text = device.compile(kernel, *arrays, target=architecture, output="ptx").code
    by_matrices = architecture == "sm_90a" and rounded.itemsize == 2
    assert text.count("stmatrix.sync") == (COLUMNS // 16 if by_matrices else 0)
    assert text.count("st.shared.v2.b32") == (COLUMNS // 4 if rounded.itemsize == 4 else 0)


@device.kernel(max_threads=128)
def store_part(x, out, row: int32, column: int32):
    tiles.store_to_array(elements(x), out, row, column)


@device.kernel(max_threads=128)
def load_part(x, out, row: int32, column: int32):
    tiles.store_to_array(tiles.load_from_array(x, row, column, COLUMNS), out, 0, 0)


@pytest.mark.parametrize("dtype", [bfloat16, float32, int32, float8e5m2, uint8])
@pytest.mark.parametrize(
    ("shape", "row", "column"), [((70, 40), 2, 4), ((40, 20), 0, 0), ((70, 40), 60, 38), ((8, 8), 8, 0)]
)
def test_parts_of_arrays_stay_inside(warps, dtype, shape, row, column):
    x = 100 * np.random.default_rng(5).random((64, COLUMNS), np.float32)
    right = np.full(shape, 7, device.numpy_dtype(dtype))
    part = right[row : row + 64, column : column + COLUMNS]
    part[:] = x[: part.shape[0], : part.shape[1]]
    out = warps.array(np.full_like(right, 7))
    warps.launch(store_part, warps.array(x), out, row, column, grid=1, block=128)
    assert (warps.numpy(out) == right).all()
    loaded = warps.array(np.full_like(x, 7))
    warps.launch(load_part, out, loaded, row, column, grid=1, block=128)
    padded = np.zeros_like(x)
    padded[: part.shape[0], : part.shape[1]] = part
    assert (warps.numpy(loaded) == padded).all()


# Schedules


@device.kernel
def visit(counts, orders, m_tiles: int32, n_tiles: int32, group: int32):
    """Counts the visits of each tile, and numbers those of each block."""
    number = int32(0)
    for i, j in tiles.persistent(int32(device.block_idx.x), int32(device.grid_dim.x), m_tiles, n_tiles, group):
        device.atomic_ref(counts, (i, j)).add(1)
        orders[i, j] = number * int32(device.grid_dim.x) + int32(device.block_idx.x)
        number += 1


@pytest.mark.parametrize(("m", "n", "group", "blocks"), [(1, 1, 8, 3), (5, 3, 2, 4), (8, 4, 8, 5), (11, 7, 4, 1)])
def test_each_tile_once(stream, m, n, group, blocks):
    counts, orders = stream.run(
        visit, np.zeros((m, n), np.int32), np.zeros((m, n), np.int32), m, n, group, grid=blocks, block=1
    )
    assert (counts == 1).all()
    # Groups of rows follow each other, and within one, columns.
    right = sorted(((i, j) for i in range(m) for j in range(n)), key=lambda tile: (tile[0] // group, tile[1], tile[0]))
    assert [orders[tile] for tile in right] == list(range(m * n))


@device.kernel(max_threads=256)
def number_warpgroups(out):
    out[device.thread_idx.x] = tiles.warpgroup()


def test_warpgroup(stream):
    assert (stream.run(number_warpgroups, np.full(256, 9, np.int32), block=256) == np.arange(256) // 128).all()
