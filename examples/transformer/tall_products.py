"""C = X @ W.T of few rows, as in a decode step, on the tensor cores of sm_90a: all multiprocessors stream the weights W.

A cluster of blocks computes a tile of W @ X.T: each block has every `split`-th step of the depth, and the blocks exchange their
sums through distributed shared memory. The order of the sums is fixed.
"""

import functools

import cuda_device as device
from cuda_device import bfloat16, float32, float32x2, int32, tiles


@functools.cache
def tall(tokens=16, dtype=bfloat16, bm=128, bk=None, stages=5, split=4, epilogue=None, ratio=1):
    """The kernel, and the layouts of its tiles of W and X, whose `map_of` makes their tensor maps.

    X is (m, k) with m <= `tokens`, a multiple of 8 up to 256, and W is (n, k). A cluster of `split` blocks computes `bm` columns
    of C, which are rows of W, in steps of `bk` elements of the depth, by default 128 bytes. X and W have elements of `dtype`:
    bfloat16, float16, float8e4m3 or float8e5m2.

    `epilogue(acc, row, column, *more)` is a device function of `epilogues`: it returns what is stored in C from a register tile
    of X @ W.T. The launch passes the tuple `more`. C has n / `ratio` columns. The register tile has 16 columns if `bm` / `split`
    is a multiple of 16, as `swiglu` needs it.
    """
    of_w = tiles.TileLayout(bm, bk or 128 // device.sizeof(dtype), dtype)
    of_x = tiles.TileLayout(tokens, of_w.columns, dtype)
    groups, share = bm // 64, bm // split  # the warpgroups of a block; the columns of C that it adds up and stores
    width = 16 if share % 16 == 0 else 8  # the columns that a warp stores at a time
    if bm % (8 * split):
        raise ValueError(f"bm must be a multiple of 8 * split, {8 * split}")

    @device.kernel(max_threads=128 * groups + 32, min_blocks=1, cluster=split)
    def kernel(map_w, map_x, c, k: int32, more=()):
        w = device.shared_array(of_w.stages(stages), dtype)
        x = device.shared_array(of_x.stages(stages), dtype)
        sums = device.shared_array((split, share, tokens | 8), float32)  # a margin avoids bank conflicts
        bars = device.shared_array((2, stages), device.MBarrier)
        ring = tiles.Ring(bars[0], bars[1])
        thread, group, rank = int32(device.thread_idx.x), tiles.warpgroup(), int32(device.block_rank)
        if thread == 0:
            ring.init(4 * groups)
            device.fence_mbarrier_init()
        if thread == 128 * groups:
            device.tma_prefetch(map_w)
            device.tma_prefetch(map_x)
        device.syncthreads()
        device.cluster_arrive()
        first = int32(device.cluster_idx.x) * bm
        steps = ((k + of_w.columns - 1) // of_w.columns - rank + split - 1) // split
        if group == groups:
            if thread == 128 * groups:
                ahead = min(steps, stages)  # the weights do not depend on the launch before
                for step in range(ahead):
                    stage = ring.acquire(step, of_w.nbytes + of_x.nbytes)
                    of_w.load(w, stage, map_w, first, (step * split + rank) * of_w.columns, ring.full[stage])
                device.launch_dependents()
                device.wait_dependencies()
                for step in range(steps):
                    stage, column = device.uint32(step), (step * split + rank) * of_w.columns
                    if step >= ahead:
                        stage = ring.acquire(step, of_w.nbytes + of_x.nbytes)
                        of_w.load(w, stage, map_w, first, column, ring.full[stage])
                    of_x.load(x, stage, map_x, 0, column, ring.full[stage])
            device.syncwarp(0xFFFFFFFF)
            device.cluster_wait()
        else:
            acc = (float32(0),) * (tokens // 2)
            for step in range(steps):
                stage = ring.wait(step)
                part = device.rows(of_w.tile(w, stage), group * 64, 64)
                acc = tiles.wait(0, tiles.mma(acc, part, of_x.tile(x, stage)))
                if thread & 31 == 0:
                    ring.release(stage)
            device.cluster_wait()
            for half in (0, 1):
                row = group * 64 + tiles.row_of(half)
                part = sums if split == 1 else device.cluster_shared(sums, row // share)
                pairs = part.view(float32x2)
                for i in tuple(range(2 * half, tokens // 2, 4)):
                    pairs[rank, row % share, tiles.column_of(i) // 2] = float32x2(acc[i], acc[i + 1])
        device.cluster_sync()
        if group < groups:
            device.wait_dependencies()
            warp, down = thread >> 5, (tokens + 15) // 16
            for number in range(warp, down * (share // width), 4 * groups):
                # Register tiles have 64 rows, 16 for each warp: here, each warp has its own tile of 16 rows.
                row, start = (number % down - (warp & 3)) * 16, number // down * width
                acc = total(sums, row, start, width)
                column = first + rank * share + start
                if epilogue is not None:
                    acc = epilogue(acc, row, column, *more)
                tiles.store_to_array(acc, c, row, column // ratio)

    return kernel, of_w, of_x


def total(sums, row, column, width):
    """The register tile from (row, column) on of the sum of (blocks, columns, tokens)."""
    acc = []
    for i in tuple(range(width // 2)):
        r, c = min(row + tiles.row_of(i // 2 % 2), sums.shape[2] - 1), column + tiles.column_of(i)
        acc.append(sum([sums[block, c, r] for block in range(sums.shape[0])], float32(0)))
    return tuple(acc)


def settings_for(rows, columns):
    """Settings of `tall` that are fast on an H200: all blocks run at the same time, two of them on a multiprocessor."""
    tokens, bm, split = -(-rows // 8) * 8, 128 if columns > 8192 else 64, 2
    room = 112 * 1024 - bm * (tokens | 8) * 4
    return {"tokens": tokens, "bm": bm, "split": split, "stages": max(2, room // (128 * (bm + tokens)))}


def prepare(x, w, c, *more, stream=None, dependent=None, **settings):
    """Prepares the launch of C = X @ W.T with `settings` of `tall`: the result launches it whenever it is called.

    Launches that are `dependent` start to load W during the launch before, which must not write it.
    """
    settings = settings_for(x.shape[0], w.shape[0]) | settings
    kernel, of_w, of_x = tall(**settings)
    maps = of_w.map_of(w), of_x.map_of(x)
    sizes = {"grid": -(-w.shape[0] // of_w.rows) * settings["split"], "block": 2 * of_w.rows + 32}
    return device.prepare(kernel, *maps, c, int32(w.shape[1]), more, **sizes, dependent=dependent, stream=stream)


def launch(*arrays, **settings):
    """Launches a product once, with the arguments of `prepare`."""
    prepare(*arrays, **settings)()
