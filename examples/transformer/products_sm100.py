"""C = A @ B.T on the tensor cores of sm_100, whose accumulators are in tensor memory. Compile only: it has run on no GPU yet.

Persistent blocks of eight warps: one loads tiles, one starts products, and four store the accumulators of one tile of C while the
products of the next one are computed into the other half of tensor memory.
"""

import functools

import cuda_device as device
from cuda_device import bfloat16, float32, int32, pack, tiles, uint32x4

GROUP = 8
"""The rows of tiles that blocks which run at the same time share."""
PART = 64
"""The columns that a thread stores at a time."""


@functools.cache
def gemm(dtype=bfloat16, bm=128, bn=256, bk=64, stages=4):
    """The kernel, and the layouts of its tiles of A and B, whose `map_of` makes their tensor maps.

    A is (m, k), B (n, k), and C an array (m, n) of 16-bit floats, n a multiple of 8. A block computes `bm` x `bn` elements of C
    at a time.
    """
    of_a, of_b = tiles.TileLayout(bm, bk, dtype), tiles.TileLayout(bn, bk, dtype)
    memory_type = device.TensorMemory(2 * bn)

    @device.kernel(max_threads=256, min_blocks=1)
    def kernel(map_a, map_b, c, m: int32, n: int32, k: int32):
        a = device.shared_array(of_a.stages(stages), of_a.dtype)
        b = device.shared_array(of_b.stages(stages), of_b.dtype)
        bars, halves = device.shared_array((2, stages), device.MBarrier), device.shared_array((2, 2), device.MBarrier)
        memory = device.shared_array(1, memory_type)
        ring, sums = tiles.Ring(bars[0], bars[1]), tiles.Ring(halves[0], halves[1])
        thread = int32(device.thread_idx.x)
        warp = device.shfl_sync(0xFFFFFFFF, thread // 32, 0)
        if thread == 0:
            ring.init(1)
            sums.init(128)
            device.fence_mbarrier_init()
        if warp == 0:
            device.tcgen05_alloc(memory)
            device.tcgen05_relinquish_permit()
        device.tcgen05_fence_before_sync()
        device.syncthreads()
        device.tcgen05_fence_after_sync()
        m_tiles, n_tiles, steps = (m + bm - 1) // bm, (n + bn - 1) // bn, (k + bk - 1) // bk
        first, blocks = int32(device.block_idx.x), int32(device.grid_dim.x)
        step = number = int32(0)
        if warp == 0:
            if device.elect_one():
                for i, j in tiles.persistent(first, blocks, m_tiles, n_tiles, GROUP):
                    for kt in range(steps):
                        stage = ring.acquire(step, of_a.nbytes + of_b.nbytes)
                        of_a.load(a, stage, map_a, i * bm, kt * bk, ring.full[stage])
                        of_b.load(b, stage, map_b, j * bn, kt * bk, ring.full[stage])
                        step += 1
        elif warp == 1:
            if device.elect_one():
                for _ in tiles.persistent(first, blocks, m_tiles, n_tiles, GROUP):
                    half = number % 2
                    sums.empty[half].wait(number // 2 & 1 ^ 1)
                    device.tcgen05_fence_after_sync()
                    d = memory[0].tile(half * bn, (bm, bn), float32)
                    for kt in range(steps):
                        stage = ring.wait(step)
                        device.tcgen05_fence_after_sync()
                        device.tcgen05_mma(d, of_a.tile(a, stage), of_b.tile(b, stage), accumulate=kt > 0)
                        device.tcgen05_commit(ring.empty[stage])
                        step += 1
                    device.tcgen05_commit(sums.full[half])
                    number += 1
        elif warp >= 4:
            words = c.view(uint32x4)
            for i, j in tiles.persistent(first, blocks, m_tiles, n_tiles, GROUP):
                half = sums.wait(number)
                device.tcgen05_fence_after_sync()
                d = memory[0].tile(half * bn, (bm, bn), float32)
                row = i * bm + thread - 128
                for column in range(0, bn, PART):
                    x = device.tcgen05_wait_ld(device.tcgen05_ld(d.part(column, PART)))
                    if row < m:
                        for q in tuple(range(0, PART, 8)):
                            place = (j * bn + column + q) // 8
                            if place < n // 8:
                                pairs = [pack(x[q + p], x[q + p + 1], dtype=c.dtype) for p in (0, 2, 4, 6)]
                                words[row, place] = uint32x4(*pairs)
                device.tcgen05_fence_before_sync()
                sums.release(half)
                number += 1
        device.syncthreads()
        if warp == 0:
            device.tcgen05_dealloc(memory[0])

    return kernel, of_a, of_b
