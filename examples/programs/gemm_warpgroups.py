"""Matrix product on Hopper's tensor cores, with tiles that are copied while others are multiplied.

The first warpgroup is the producer: one of its threads starts copies of tiles of A and B to a ring of stages in shared memory.
A stage's barrier `full` is over when the bytes are there; its barrier `empty`, when all warpgroups that read it have finished.
The other two warpgroups each multiply 64 rows of A by a tile of B. The blocks of a cluster have neighbouring rows of C, and
the same columns: each of them copies a part of B's tile to the shared memory of all. A block runs until all tiles are done.
"""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import cuda_device as device
from cuda_device import bfloat16, float32, int8, int32, uint32

ROWS = 64  # of a warpgroup
WARPGROUP = 128
CONSUMERS = 2
THREADS = (1 + CONSUMERS) * WARPGROUP
PATTERN = 128  # bytes of a row of a tile
GROUP = 8  # tiles below each other whose columns of B are used together, while they are in the L2 cache
CLUSTER = 2
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}  # the result is rounded to bfloat16


@dataclass(frozen=True)
class Plan:
    """The types and sizes of a kernel, and functions for its device code."""

    dtype: Any = bfloat16
    result: Any = bfloat16
    columns: int = 256  # of a tile of C
    stages: int = 4
    cluster: int = CLUSTER
    by_rows: bool = True  # B has a row for each column of A; else one for each column of C

    @property
    def depth(self):
        """The columns of A in a stage."""
        return PATTERN // np.dtype(self.dtype).itemsize

    @property
    def rows(self):
        """The rows of C of a cluster."""
        return CONSUMERS * ROWS * self.cluster

    def boxes(self):
        """The boxes of the maps of A and B."""
        return (CONSUMERS * ROWS, self.depth), (
            self.depth if self.by_rows else self.columns // self.cluster,
            self.depth,
        )

    def maps(self, a, b):
        """The maps of A and B. Those of float32 round to tf32."""
        kind = "tf32" if self.dtype is float32 else self.dtype
        boxes = zip((a, b), self.boxes(), strict=True)
        return [device.TensorMap.of(x, box, swizzle=PATTERN, dtype=kind) for x, box in boxes]

    def kernel(self):
        """Makes the kernel."""
        depth, stages, cluster = self.depth, self.stages, self.cluster
        of_b = (self.columns // depth, depth, depth) if self.by_rows else (self.columns, depth)
        load, multiply, store, place = loader(self), multiplier(self), storer(self), placer(self)

        @device.kernel(max_threads=THREADS, min_blocks=1, cluster=cluster)
        def gemm(a: Any, b: Any, c: Any, m: int32, n: int32, k: int32) -> None:
            a_tiles = device.shared_array((stages, CONSUMERS * ROWS, depth), self.dtype)
            b_tiles = device.shared_array((stages, *of_b), self.dtype)
            full = device.shared_array(stages, device.MBarrier)
            empty = device.shared_array(stages, device.MBarrier)
            t = int32(device.thread_idx.x)
            if t == 0:
                for stage in range(stages):
                    full[stage].init(1)
                    empty[stage].init(CONSUMERS * cluster)
                device.fence_mbarrier_init()
            device.cluster_sync()
            steps, count = -(-k // depth), -(-m // self.rows) * -(-n // self.columns)
            tiles = range(int32(device.cluster_idx.x), count, int32(device.grid_dim.x) // cluster)
            warpgroup = device.shfl_sync(0xFFFFFFFF, t // WARPGROUP, 0)
            step = int32(0)  # of all tiles together: it says the stage, and how often the ring has gone round
            if warpgroup == 0:
                device.set_max_registers(24)
                if t == 0:
                    for number in tiles:
                        row, column = place(number, m, n)
                        for i in range(steps):
                            stage = step % stages
                            empty[stage].wait(step // stages & 1 ^ 1)
                            load(a_tiles[stage], b_tiles[stage], a, b, row, column, i * depth, full[stage])
                            step += 1
            else:
                device.set_max_registers(240)
                for number in tiles:
                    row, column = place(number, m, n)
                    acc = multiply(a_tiles, b_tiles, full, empty, warpgroup - 1, step, steps)
                    step += steps
                    store(c, row + (warpgroup - 1) * ROWS, column, m, n, acc)
            device.cluster_sync()  # no block ends while others write to its shared memory

        return gemm


def placer(plan):
    """Makes the function for the place of a tile."""
    rows, columns = plan.rows, plan.columns

    def place(number, m, n):
        """The first row of this block and the column of a tile, by its number: in groups of rows that share columns of B."""
        across, down = -(-n // columns), -(-m // rows)
        first = number // (GROUP * across) * GROUP
        height = min(down - first, GROUP)
        rest = number - first * across
        own = int32(device.block_rank) * (CONSUMERS * ROWS)
        return (first + rest % height) * rows + own, rest // height * columns

    return place


def loader(plan):
    """Makes the function by which the producer fills a stage."""
    depth, share, by_rows = plan.depth, plan.columns // plan.cluster, plan.by_rows
    mask = None if plan.cluster == 1 else (1 << plan.cluster) - 1

    def load(a_tile, b_tile, a, b, row, column, k, bar):
        """Copies a tile of A, and this block's part of a tile of B to all blocks of the cluster."""
        first = int32(device.block_rank) * share
        bar.arrive_expect_tx(a_tile.nbytes + b_tile.nbytes)
        device.tma_load(device.swizzled(a_tile, PATTERN), a, (row, k), bar)
        if by_rows:
            for i in range(share // depth):
                panel = device.swizzled(b_tile[first // depth + i], PATTERN)
                device.tma_load(panel, b, (k, column + first + i * depth), bar, mask)
        else:
            part = device.rows(device.swizzled(b_tile, PATTERN), first, share)
            device.tma_load(part, b, (column + first, k), bar, mask)

    return load


def multiplier(plan):
    """Makes the function by which a warpgroup multiplies."""
    number, count = (int32 if plan.dtype is int8 else float32), plan.columns // 2
    stages, cluster, by_rows = plan.stages, plan.cluster, plan.by_rows

    def release(empty, step):
        """Tells all blocks of the cluster that this warpgroup has read a stage."""
        rank = int32(device.thread_idx.x) % WARPGROUP
        if rank < cluster:
            empty[step % stages].arrive(rank=rank)

    def multiply(a_tiles, b_tiles, full, empty, consumer, step, steps):
        """64 rows of a tile of C, from the stages of `steps` steps."""
        acc = (number(0),) * count
        for i in range(steps):
            stage = (step + i) % stages
            full[stage].wait((step + i) // stages & 1)
            left = device.rows(device.swizzled(a_tiles[stage], PATTERN), consumer * ROWS, ROWS)
            right = device.swizzled(b_tiles[stage], PATTERN)
            acc = device.wgmma(acc, left, right.T if by_rows else right, i > 0)
            device.wgmma_wait(1)  # the product before this one has read its tiles
            if i > 0:
                release(empty, step + i - 1)
        acc = device.wgmma_wait(0, acc)
        release(empty, step + steps - 1)
        return acc

    return multiply


def storer(plan):
    """Makes the function that stores a warpgroup's part of a tile."""
    columns, result = plan.columns, plan.result
    is_short = np.dtype(result).itemsize == 2

    def store(c, row, column, m, n, acc):
        lane, warp = int32(device.lane_id), int32(device.thread_idx.x) // 32 % 4
        top, start = row + warp * 16 + lane // 4, column + lane % 4 * 2
        for j in range(columns // 8):
            for half in range(2):
                i, at = top + 8 * half, start + 8 * j
                x, y = acc[4 * j + 2 * half], acc[4 * j + 2 * half + 1]
                if i < m and at < n:
                    if is_short:
                        c.view(uint32)[i, at // 2] = device.pack(x, y, dtype=result)
                    else:
                        c[i, at], c[i, at + 1] = x, y

    return store


SMALL = Plan(columns=128, stages=3)
gemm = SMALL.kernel()


def run(stream, a, b):
    """The product in bfloat16, by one cluster."""
    a, b = device.array(a, stream=stream), device.array(b, stream=stream)
    c = device.empty((a.shape[0], b.shape[1]), bfloat16, stream=stream)
    sizes = (*c.shape, a.shape[1])
    device.launch(gemm, *SMALL.maps(a, b), c, *sizes, grid=CLUSTER, block=THREADS, stream=stream)
    return c.numpy().astype(np.float32)


def expect(a, b):
    """By NumPy, in double precision."""
    return a.astype(np.float64) @ b.astype(np.float64)


def cases(random):
    """One tile, several, and edges."""
    for m, k, n in ((128, 64, 128), (256, 192, 256), (136, 72, 40)):
        yield tuple((random.standard_normal(shape) / 8).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
