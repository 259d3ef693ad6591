"""C = A @ B, or A @ B.T, on the tensor cores of sm_90a: persistent blocks in clusters, a producer and consumer warpgroups."""

import functools

import cuda_device as device
from cuda_device import bfloat16, float32, float64, int8, int32, tiles, uint8

SHARED = 226 * 1024
"""The bytes of shared memory for tiles."""
GROUP = 8
"""The rows of tiles that blocks which run at the same time share."""


def threads(bm):
    """The threads of a block: a producer warpgroup, and a consumer warpgroup for each 64 of `bm` rows."""
    return 128 + 2 * bm


@functools.cache
def gemm(
    dtype=bfloat16, result=None, bm=128, bn=256, bk=None, stages=4, cluster=2, transposed=False, epilogue=None, ratio=1,
    before=None,
):  # fmt: skip
    """The kernel, and the layouts of its tiles of A, B and C, whose `map_of` makes their tensor maps.

    A is (m, k), and B is (k, n), or (n, k) if it is `transposed`, as it must be for elements of 8 and 32 bits. Those of float32
    are multiplied as tf32: let their maps round them by `dtype="tf32"`. C has elements of `result`, by default `dtype`. A block
    computes `bm` x `bn` elements of A @ B at a time, 64 of the `bm` rows, 128 or 256, by each consumer warpgroup, in steps of
    `bk` elements of the depth, by default 128 bytes. Raises `LaunchError` for tiles whose sums are too large for registers.

        kernel, *layouts = gemm()
        maps = [layout.map_of(x) for x, layout in zip((a, b, c), layouts)]
        launch(kernel, *maps, int32(m), int32(n), int32(k), grid=multiprocessors // cluster * cluster, block=threads(bm))

    `epilogue(acc, row, column, *more)` is a device function (see `epilogues`) that returns what is stored in C, from a register
    tile of 64 rows and `bn` columns of A @ B, float32 or int32, whose first element is that in `row` and `column`. The launch
    passes the tuple `more` after `k`. C has n / `ratio` columns, and the register tile that it returns bn / `ratio`.
    `before`, with the same parameters, runs before the products of a tile, and returns a tuple that `epilogue` gets in place of
    `more`: what it loads is there when the products are over.
    """
    groups = bm // 64
    own_registers, registers = {2: (40, 232), 4: (24, 112)}[groups]  # of producers and of consumers
    bk, result = bk or 128 // device.sizeof(dtype), result or dtype
    number = {int8: int32, uint8: int32, float64: float64}.get(dtype, float32)
    if bn * device.sizeof(number) * groups > 2048:
        reason = f"bm={bm}, bn={bn}: a consumer warpgroup has no registers for 64 rows of the sums"
        raise device.LaunchError(reason, "choose fewer columns, or rows")
    # Rows of 64 bytes of the depth are read without bank conflicts by the loads of `mma` for float64.
    swizzle = 64 if dtype is float64 else 128
    of_a = tiles.TileLayout(bm, bk, dtype, swizzle)
    of_b = (
        tiles.TileLayout(bn, bk, dtype, swizzle, cluster)
        if transposed
        else tiles.TileLayout(bk, bn, dtype, 128, cluster)
    )
    # C goes through shared memory in as few pieces as fit beside the stages.
    room, unit = SHARED - stages * (of_a.nbytes + of_b.nbytes), 128 // device.sizeof(result)
    if bn % (ratio * unit):
        raise ValueError(f"bn={bn}: pieces of C have {unit} columns, so choose a multiple of {ratio * unit}")
    widths = [w for w in range(unit, bn // ratio + 1, unit) if bn // ratio % w == 0 and bm * w // unit * 128 <= room]
    of_c = tiles.TileLayout(64, max(widths, default=unit), result)

    @device.kernel(max_threads=threads(bm), min_blocks=1, cluster=cluster, fastmath=True)
    def kernel(map_a, map_b, map_c, m: int32, n: int32, k: int32, more=()):
        a = device.shared_array(of_a.stages(stages), of_a.dtype)
        b = device.shared_array(of_b.stages(stages), of_b.dtype)
        c = device.shared_array(of_c.stages(groups), of_c.dtype)
        bars = device.shared_array((2, stages), device.MBarrier)
        ring = tiles.Ring(bars[0], bars[1])
        thread, group, rank = int32(device.thread_idx.x), tiles.warpgroup(), int32(device.block_rank)
        if thread == 0:
            ring.init(4 * groups * cluster)
            device.fence_mbarrier_init()
        device.cluster_sync()
        m_tiles, n_tiles = (m + bm * cluster - 1) // (bm * cluster), (n + bn - 1) // bn
        steps = (k + bk - 1) // bk
        first, blocks = int32(device.cluster_idx.x), int32(device.grid_dim.x) // cluster
        step = int32(0)
        if group == 0:
            device.set_max_registers(own_registers)
            if thread == 0:
                for i, j in tiles.persistent(first, blocks, m_tiles, n_tiles, GROUP):
                    row = (i * cluster + rank) * bm
                    for kt in range(steps):
                        stage = ring.acquire(step, of_a.nbytes + of_b.nbytes)
                        of_a.load(a, stage, map_a, row, kt * bk, ring.full[stage])
                        if transposed:
                            of_b.load(b, stage, map_b, j * bn, kt * bk, ring.full[stage], rank)
                        else:
                            of_b.load(b, stage, map_b, kt * bk, j * bn, ring.full[stage], rank)
                        step += 1
        else:
            device.set_max_registers(registers)
            part, own, lane = group - 1, thread & 127, thread & 31
            for i, j in tiles.persistent(first, blocks, m_tiles, n_tiles, GROUP):
                acc = tiles.zeros(bn, number)
                row, column = (i * cluster + rank) * bm + part * 64, j * bn
                values = more if before is None else before(acc, row, column, *more)
                previous = device.uint32(0)
                for kt in range(steps):
                    stage = ring.wait(step)
                    right = of_b.tile(b, stage) if transposed else of_b.tile(b, stage).T
                    acc = tiles.mma(acc, device.rows(of_a.tile(a, stage), part * 64, 64), right)
                    tiles.wait(1)
                    if kt > 0 and lane < cluster:
                        ring.release_in(previous, lane)
                    previous = stage
                    step += 1
                acc = tiles.wait(0, acc)
                if lane < cluster:
                    ring.release_in(previous, lane)
                if epilogue is not None:
                    acc = epilogue(acc, row, column, *values)
                for start in tuple(range(0, bn // ratio, of_c.columns)):
                    if own == 0:
                        device.bulk_wait(0, read=True)
                    device.barrier_sync(group, 128)
                    tiles.store(acc[start // 2 : (start + of_c.columns) // 2], of_c.tile(c, part))
                    device.fence_proxy_async()
                    device.barrier_sync(group, 128)
                    if own == 0:
                        of_c.save(c, part, map_c, row, column // ratio + start)
            if own == 0:
                device.bulk_wait(0)
        device.cluster_sync()

    return kernel, of_a, of_b, of_c
