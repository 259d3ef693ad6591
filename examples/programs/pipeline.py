"""Producer and consumer: blocks hand batches of numbers to other blocks while both run, through flags in global memory.

Of each pair of blocks the first squares a batch, writes it, and releases a flag; the second waits for the flag, acquires it, and
adds the batch up. The producers have the lower block numbers: a GPU starts them first, so that no consumer waits for a
block that cannot start.
"""

import numpy as np

import cuda_device as device

BLOCK = 64
TOLERANCE = {"rtol": 0, "atol": 0}


@device.kernel
def pipeline(x, batches, flags, sums):
    """`batches` and `x` have a row for each pair; `flags`, at first zero, and `sums` have an element for each."""
    pairs, size = x.shape
    thread, block = int(device.thread_idx.x), int(device.block_idx.x)
    if block < pairs:
        for i in range(thread, size, BLOCK):
            batches[block, i] = x[block, i] * x[block, i]
        device.threadfence()
        device.syncthreads()  # all threads have written
        if thread == 0:
            device.atomic_ref(flags, block).store(1, memory="release")
    else:
        pair = block - pairs
        total = device.shared_array(1, device.int64)
        if thread == 0:
            while device.atomic_ref(flags, pair).load(memory="acquire") == 0:
                pass
            total[0] = 0
        device.syncthreads()
        device.threadfence()
        for i in range(thread, size, BLOCK):
            device.atomic_ref(total, 0).add(batches[pair, i], memory="relaxed", scope="block")
        device.syncthreads()
        if thread == 0:
            sums[pair] = total[0]


def run(stream, x):
    """The sum of the squares of each row."""
    there, batches = device.array(x, stream=stream), device.empty(x.shape, x.dtype, stream=stream)
    flags = device.zeros(len(x), np.int32, stream=stream)
    sums = device.empty(len(x), np.int64, stream=stream)
    device.launch(pipeline, there, batches, flags, sums, grid=2 * len(x), block=BLOCK, stream=stream)
    return sums.numpy()


def expect(x):
    """By NumPy."""
    return (x**2).sum(1)


def cases(random):
    """One pair to twenty; batches smaller and larger than a block."""
    for shape in ((1, 1), (2, 63), (20, 500)):
        yield (random.integers(-1000, 1000, shape),)
