"""Matrix products in tiles: layouts, rings of stages, products, register tiles and schedules, in device code over public names.

    A = tiles.TileLayout(128, 64, bfloat16)                             a tile of 128 rows and 64 columns in shared memory
    a = shared_array(A.stages(4), A.dtype)                          four of them
    ring = tiles.Ring(full, empty)                                  full, empty = shared_array((2, 4), MBarrier)
    acc = tiles.mma(acc, A.tile(a, stage), B.tile(b, stage))        acc += a @ b.T, by the 128 threads of a warpgroup

A *register tile* is a tuple that holds 64 rows of n columns, distributed over the threads of a warpgroup like the accumulators of
`wgmma`: each warp has 16 rows, and a thread has n / 4 elements of each of two of them, `row_of(0)` and `row_of(1)`. Element i is
in the row `row_of(i // 2 % 2)` and the column `column_of(i)`.

`mma` multiplies by `wgmma` on sm_90a, and by `ldmatrix` and `mma_sync` on other architectures from sm_80 on. Everything works on
CPU streams. There, and on a GPU, mistakes of synchronisation are those of the entities that these functions consist of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from operator import add
from typing import Any

from cuda_device import (
    ArrayType,
    MBarrier,
    TensorMap,
    TensorMapType,
    bfloat16,
    bfloat16x2,
    bulk_commit,
    float8e4m3,
    float8e4m3x2,
    float8e5m2,
    float8e5m2x2,
    float16,
    float16x2,
    float32,
    float32x2,
    float64,
    float64x2,
    int8,
    int8x2,
    int32,
    int32x2,
    ldmatrix,
    mma_sync,
    pack,
    provides,
    rows,
    shfl_sync,
    shfl_xor_sync,
    sizeof,
    sm90a,
    stmatrix,
    struct,
    swizzled,
    syncwarp,
    target,
    thread_idx,
    tma_load,
    tma_store,
    uint8,
    uint8x2,
    uint32,
    wgmma,
    wgmma_wait,
)
from cuda_device.extend import dataclass

__all__ = [
    "Ring",
    "TileLayout",
    "column_of",
    "fragments",
    "load_from_array",
    "map_rows",
    "mma",
    "own_rows",
    "persistent",
    "row_max",
    "row_of",
    "row_sum",
    "row_total",
    "store",
    "store_to_array",
    "wait",
    "warp_mma",
    "warpgroup",
    "zeros",
]

# Shared tiles


@dataclass(frozen=True)
class TileLayout:
    """A tile of `rows` x `columns` elements of `dtype` in shared memory, in a pattern of `swizzle` bytes (32, 64 or 128).

    A row of the pattern has `width` elements. A tile with more columns consists of several panels side by side. `blocks` blocks
    of a cluster share each tile: each loads its part, a number of panels or else of rows, into the shared memory of all of them.
    `map_of(x)` is the tensor map of an array by which it is loaded and stored.
    """

    rows: int
    columns: int
    dtype: Any
    swizzle: int = 128
    blocks: int = 1

    @cached_property
    def width(self) -> int:
        """The columns of a panel."""
        return self.swizzle // sizeof(self.dtype)

    @cached_property
    def panels(self) -> int:
        """The number of panels. Raises `ValueError` if the tile does not consist of whole panels of the swizzle."""
        width = self.width
        if self.swizzle not in (32, 64, 128) or self.columns % width or self.columns <= 0:
            size = sizeof(self.dtype)
            raise ValueError(
                f"a row of {self.columns} elements of {size} bytes does not consist of panels of swizzle={self.swizzle} bytes: "
                "the swizzle is 32, 64 or 128, and a row has a multiple of so many bytes"
            )
        return self.columns // width

    @cached_property
    def box(self) -> tuple[int, int]:
        """The shape of a box: a panel, or the rows of it that a block loads."""
        return self.rows if self.panels % self.blocks == 0 else self.rows // self.blocks, self.width

    @cached_property
    def nbytes(self) -> int:
        """The size of a tile in bytes."""
        return self.rows * self.columns * sizeof(self.dtype)

    def map_of(self, array: Any, dtype: Any = None) -> Any:
        """The `TensorMap` of a two-dimensional array, made on the host. `dtype="tf32"` rounds float32 as it is loaded.

        Raises `LaunchError` like `TensorMap.of`, also for elements of another type than the tile's.
        """
        return TensorMap.of(array, self.box, swizzle=self.swizzle, dtype=dtype or self.dtype)

    def map_type(self, dtype: Any = None) -> Any:
        """The type of the maps of `map_of`, for `compile`."""
        return TensorMapType(dtype or self.dtype, self.box, swizzle=self.swizzle)

    def stages(self, count: int) -> tuple[int, int, int, int]:
        """The shape of a shared array of `count` such tiles: (count, panels, rows, width)."""
        return count, self.panels, self.rows, self.width

    def tile(self, array: Any, stage: Any) -> Any:
        """The tile `stage` of a shared array of the shape `stages(count)`."""
        return swizzled(array[stage], self.swizzle)

    def load(self, array: Any, stage: Any, map: Any, row: Any, column: Any, bar: Any, rank: Any = 0) -> None:
        """Starts to load a tile, or this block's part of it, from (row, column) of the map's array on, by one thread.

        The bytes are completed on `bar`. If the tile is shared, `rank` is the number of this block in its cluster.
        """
        multicast = (1 << self.blocks) - 1 if self.blocks > 1 else None
        height, share = self.box[0], self.panels
        start, first = (0 if height == self.rows else rank * height), 0
        if self.blocks > 1 and height == self.rows:
            share = self.panels // self.blocks
            first = rank * share
        for n in range(share):
            part = rows(swizzled(array[stage, first + n], self.swizzle), start, height)
            tma_load(part, map, (row + start, column + (first + n) * self.width), bar, multicast=multicast)

    def save(self, array: Any, stage: Any, map: Any, row: Any, column: Any) -> None:
        """Starts to store a tile to (row, column) of the map's array, by one thread, as one group of bulk copies."""
        for panel in range(self.panels):
            tma_store(map, (row, column + panel * self.width), swizzled(array[stage, panel], self.swizzle))
        bulk_commit()


# Rings of stages


@struct
class Ring:
    """Barriers of a ring of stages, through which producers hand tiles to consumers: one barrier of each array for each stage.

    Step i, counted from 0, uses the stage i % n. A producer calls `acquire(i)`, and starts copies that complete on
    `full[stage]`; a consumer calls `wait(i)`, reads the stage, and calls `release(stage)`.
    """

    full: ArrayType(MBarrier, 1)  # type: ignore[valid-type]
    empty: ArrayType(MBarrier, 1)  # type: ignore[valid-type]

    def init(self, consumers: int) -> None:
        """Initialises the barriers, by one thread. `consumers` arrivals release a stage; one producer fills it."""
        for stage in range(len(self.full)):
            self.full[stage].init(1)
            self.empty[stage].init(consumers)

    def acquire(self, step: int, nbytes: int) -> Any:
        """Waits until the stage of a step is free, and expects `nbytes` for it. Returns the number of the stage."""
        count = uint32(len(self.full))
        stage = uint32(step) % count
        self.empty[stage].wait(uint32(step) // count & 1 ^ 1)
        self.full[stage].arrive_expect_tx(nbytes)
        return stage

    def wait(self, step: int) -> Any:
        """Waits until the bytes of a step are there. Returns the number of the stage."""
        count = uint32(len(self.full))
        stage = uint32(step) % count
        self.full[stage].wait(uint32(step) // count & 1)
        return stage

    def release(self, stage: Any) -> None:
        """Frees a stage, for this consumer."""
        self.empty[stage].arrive()

    def release_in(self, stage: Any, rank: Any) -> None:
        """Frees a stage in the block `rank` of the cluster, for this consumer."""
        self.empty[stage].arrive(rank=rank)


# Warpgroups and schedules


def warpgroup() -> Any:
    """The number of the calling thread's warpgroup in its block, the same for all of its threads: an int32."""
    return shfl_sync(0xFFFFFFFF, int32(thread_idx.x) >> 7, 0)


def persistent(first: Any, step: Any, m_tiles: Any, n_tiles: Any, group: int = 8) -> Iterator[tuple[Any, Any]]:
    """Yields the tiles (m, n) of a matrix of `m_tiles` x `n_tiles` that a block computes: number `first`, and each `step`-th one.

    Consecutive numbers are in groups of `group` rows of tiles, so that blocks that run at the same time share rows and columns,
    which the L2 cache then keeps.
    """
    width = group * n_tiles
    for number in range(first, m_tiles * n_tiles, step):
        start = number // width * group
        height = min(m_tiles - start, group)
        rest = number % width
        yield start + rest % height, rest // height


# Products


def zeros(columns: int, dtype: Any = float32) -> Any:
    """A register tile of 64 rows and `columns` columns of zeros, float32, float64 or int32."""
    return (dtype(0),) * (columns // 2)


def mma(acc: Any, a: Any, b: Any, accumulate: Any = True) -> Any:
    """Starts acc += a @ b.T, by the 128 threads of a warpgroup; with `accumulate=False`, acc = a @ b.T.

    `a` is a swizzled tile of 64 rows, or `.T` of one of 64 columns, or a tuple of registers (`fragments`); `b` is a swizzled tile
    of n rows, or a transposed one. Both have elements of one type: bfloat16, float16, int8, uint8, float32, of which the hardware
    reads the bits of tf32, float8e4m3 or float8e5m2 (below sm_90a by `mma_sync`, from sm_89 on), or float64 (always by
    `mma_sync`, from sm_90 on). Tiles of 8 and 32 bits cannot be transposed; those of float64 are loaded fastest from a pattern
    of 64 bytes, or transposed of 128 bytes.

    `acc` is a register tile of n columns (int32 for integers, float64 for float64, else float32), or the result of another `mma`,
    or None for zeros. `wait` gives the result. After it, one lane of each warp may release the tiles for its warp. Compute the
    registers of the next `a` after the wait for the product that reads these.
    """
    if b.dtype is float64:
        return _mma_of_float64(acc, a, b, accumulate)
    if target(provides(sm90a)):
        return wgmma(acc, a, b, accumulate)
    return warp_mma(acc, a, b, accumulate)


def wait(pending: int, *accs: Any) -> Any:
    """Waits until at most `pending` products are in flight. Returns those named: one as itself, several as a tuple."""
    if target(provides(sm90a)):
        return wgmma_wait(pending, *accs)
    return accs[0] if len(accs) == 1 else accs or None


def warp_mma(acc: Any, a: Any, b: Any, accumulate: Any = True) -> Any:
    """acc += a @ b.T by `mma_sync`, on all architectures: each warp multiplies its 16 rows of `a` by all of `b`.

    The parameters are those of `mma`. Warps whose `a` is in registers may call it for tiles of their own, at different times.
    The result needs no `wait`.
    """
    n, depth = b.shape
    if not isinstance(a, tuple) and a.shape[1] != depth:
        raise ValueError(f"a has {a.shape[1]} columns, and b {depth}: their depths differ", "the product is a @ b.T")
    step, number = 32 // sizeof(b.dtype), int32 if b.dtype in (int8, uint8) else float32
    kind = "tf32" if b.dtype is float32 else b.dtype
    sums = [number(0) for _ in range(n // 2)] if acc is None else [x if accumulate else number(0) for x in acc]
    for k in tuple(range(0, depth, step)):  # unrolled, also where no register depends on k
        left = a[4 * k // step : 4 * k // step + 4] if isinstance(a, tuple) else _left(a, k)
        for j in tuple(range(0, n, 16)):
            right = _right(b, j, k) if j + 8 < n else _half(b, j, k)
            for half in (0, 1)[: len(right) // 2]:
                i = j // 2 + 4 * half
                part = mma_sync(left, right[2 * half : 2 * half + 2], tuple(sums[i : i + 4]), (16, 8, step), kind)
                sums[i], sums[i + 1], sums[i + 2], sums[i + 3] = part
    syncwarp(0xFFFFFFFF)
    return tuple(sums)


def _left(tile: Any, k: int) -> Any:
    """The fragment of the warp's 16 rows of a tile, and 32 bytes from the column `k` on."""
    lane, row = int32(thread_idx.x) & 31, (int32(thread_idx.x) >> 5 & 3) * 16
    if tile.transposed:
        return ldmatrix(tile.T, k + (lane & 7) + 8 * (lane >> 4), row + 8 * (lane >> 3 & 1), trans=True)
    return ldmatrix(tile, row + (lane & 15), k + 16 // sizeof(tile.dtype) * (lane >> 4))


def _right(tile: Any, j: int, k: int) -> Any:
    """The two fragments of 16 rows from `j` on, and 32 bytes from the column `k` on."""
    lane = int32(thread_idx.x) & 31
    if tile.transposed:
        return ldmatrix(tile.T, k + (lane & 15), j + 8 * (lane >> 4), trans=True)
    return ldmatrix(tile, j + (lane & 7) + 8 * (lane >> 4), k + 16 // sizeof(tile.dtype) * (lane >> 3 & 1))


def _half(tile: Any, j: int, k: int) -> Any:
    """The fragment of the last eight rows, from `j` on, and 32 bytes from the column `k` on. A transposed tile has 16 i rows."""
    lane = int32(thread_idx.x) & 31
    return ldmatrix(tile, j + (lane & 7), k + 16 // sizeof(tile.dtype) * (lane >> 3 & 1), num=2)


def _mma_of_float64(acc: Any, a: Any, b: Any, accumulate: Any) -> Any:
    """`mma` of float64: each warp multiplies its 16 rows of `a` by all of `b`, in steps of eight elements of the depth.

    In each step, lane 4 r + c multiplies the elements 2 c and 2 c + 1 of the depth, which are beside each other in a row.
    """
    n, depth = b.shape
    sums = [float64(0) for _ in range(n // 2)] if acc is None else [x if accumulate else float64(0) for x in acc]
    lane = int32(thread_idx.x) & 31
    for k in tuple(range(0, depth, 8)):
        low, high = _pair(a, row_of(0), k + lane % 4 * 2), _pair(a, row_of(1), k + lane % 4 * 2)
        for j in range(0, n, 8):
            i, right = j // 2, _pair(b, j + lane // 4, k + lane % 4 * 2)
            left = low[0], high[0], low[1], high[1]
            part = mma_sync(left, right, tuple(sums[i : i + 4]), (16, 8, 8), float64)
            sums[i], sums[i + 1], sums[i + 2], sums[i + 3] = part
    syncwarp(0xFFFFFFFF)
    return tuple(sums)


def _pair(tile: Any, row: Any, column: Any) -> Any:
    """Two float64 beside each other in a row."""
    if tile.transposed:
        return tile[row, column], tile[row, column + 1]
    pair = tile.view(float64x2)[row, column // 2]
    return pair.x, pair.y


# Register tiles


def row_of(half: Any) -> Any:
    """The row, from 0 to 63, of the first (`half` 0) or second half of this thread's elements of a register tile."""
    thread = int32(thread_idx.x) & 127
    return (thread >> 5) * 16 + (thread & 31) // 4 + 8 * half


def column_of(i: Any) -> Any:
    """The column of this thread's element `i` of a register tile."""
    return i // 4 * 8 + (int32(thread_idx.x) & 3) * 2 + i % 2


def row_max(acc: Any, start: Any = -float("inf")) -> Any:
    """The maximum of each of this thread's two rows of a register tile, and of `start`, as a pair of float32.

    `start` is a number, or a pair with one for each row.
    """
    return _of_quads(own_rows(acc, start, max), max)


def row_sum(acc: Any) -> Any:
    """The sum of each of this thread's two rows of a register tile, as a pair of float32."""
    return _of_quads(own_rows(acc, 0.0, add), add)


def row_total(sums: tuple[Any, Any]) -> Any:
    """The sums over the four threads that share two rows, of which each has a pair: the rest of `row_sum` after `own_rows`."""
    return _of_quads(sums, add)


def own_rows(acc: Any, start: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Combines `start` and this thread's elements of each of its two rows of a register tile: a pair of float32."""
    first, second = start if isinstance(start, tuple) else (float32(start), float32(start))
    for i in range(0, len(acc), 4):
        first = combine(first, combine(acc[i], acc[i + 1]))
        second = combine(second, combine(acc[i + 2], acc[i + 3]))
    return first, second


def _of_quads(pair: tuple[Any, Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Combines the pairs of the four threads that share two rows."""
    first, second = pair
    for step in (1, 2):
        first = combine(first, shfl_xor_sync(0xFFFFFFFF, first, step))
        second = combine(second, shfl_xor_sync(0xFFFFFFFF, second, step))
    return first, second


def map_rows(f: Callable[[Any, Any], Any], acc: Any, values: tuple[Any, Any]) -> Any:
    """The register tile of `f(x, value)` for each element x, where `value` is that of its row."""
    return tuple([f(x, values[i // 2 % 2]) for i, x in enumerate(acc)])


def fragments(acc: Any, dtype: Any) -> Any:
    """A register tile converted to bfloat16 or float16, packed as the operand `a` of `mma`."""
    return tuple([pack(acc[i], acc[i + 1], dtype=dtype) for i in range(0, len(acc), 2)])


_PAIRS = {bfloat16: bfloat16x2, float16: float16x2, float32: float32x2, int32: int32x2, float64: float64x2}
_PAIRS |= {float8e4m3: float8e4m3x2, float8e5m2: float8e5m2x2, int8: int8x2, uint8: uint8x2}


def store(acc: Any, tile: Any) -> None:
    """Converts a register tile to the elements of a swizzled tile of 64 rows, of 8 to 64 bits, and stores it there.

    Elements of 16 bits are stored by `stmatrix` on sm_90a, and the others two at a time.
    """
    if tile.shape != (64, 2 * len(acc)):
        shape = f"{tile.shape[0]} x {tile.shape[1]}"
        raise ValueError(
            f"a register tile of 64 x {2 * len(acc)} does not fit a tile of {shape}",
            "give it 64 rows: rows(tile, i, 64)",
        )
    if target(provides(sm90a)) and sizeof(tile.dtype) == 2:
        words, lane = fragments(acc, tile.dtype), int32(thread_idx.x) & 31
        row = (int32(thread_idx.x) >> 5 & 3) * 16 + (lane & 15)
        for i in range(0, len(words), 4):
            stmatrix(tile, row, i * 4 + 8 * (lane >> 4), (words[i], words[i + 1], words[i + 2], words[i + 3]))
    else:
        pair = _PAIRS[tile.dtype]
        pairs = tile.view(pair)
        for i in range(0, len(acc), 2):
            pairs[row_of(i // 2 % 2), column_of(i) >> 1] = pair(tile.dtype(acc[i]), tile.dtype(acc[i + 1]))


def store_to_array(acc: Any, array: Any, row: Any, column: Any) -> None:
    """Converts a register tile to the elements of an array, and stores it to the part from (row, column) on.

    What lies outside of the array is not stored. The array has elements of a type that `mma` multiplies or adds up, an even
    number of columns, and contiguous rows, and `column` is even, because a thread stores two elements at a time.
    """
    pair = _PAIRS[array.dtype]
    pairs = array.view(pair)
    height, width = pairs.shape
    for half in (0, 1):
        r = row + row_of(half)
        if r < height:
            for i in range(2 * half, len(acc), 4):
                c = (column + column_of(i)) >> 1
                if c < width:
                    pairs[r, c] = pair(array.dtype(acc[i]), array.dtype(acc[i + 1]))


def load_from_array(array: Any, row: Any, column: Any, columns: int) -> Any:
    """The register tile of the part of an array of 64 rows and `columns` columns from (row, column) on, as float32.

    What lies outside of the array is zero. The array is one that `store_to_array` takes.
    """
    pairs = array.view(_PAIRS[array.dtype])
    height, width = pairs.shape
    tile = []
    for i in tuple(range(0, columns // 2, 2)):
        r, c = row + row_of(i // 2 % 2), (column + column_of(i)) >> 1
        inside = r < height and c < width
        x = pairs[r if inside else 0, c if inside else 0]
        tile.append(float32(x.x) if inside else float32(0))
        tile.append(float32(x.y) if inside else float32(0))
    return tuple(tile)
