"""A layer of a convolutional network as a product of matrices that nobody stores: 3 x 3 weights, images in NHWC, padding 1.

A block computes 8 x 16 pixels of an image for 128 output channels: a product whose depth is 9 times the number of input channels.
For each of the nine positions in a window, a copy brings the pixels of the block, moved by up to one pixel, as the rows of A. The
image has four axes, and so has its map: boxes may begin at -1 and end outside, where they are zero, so the border needs no code.
"""

import numpy as np

import cuda_device as device
from cuda_device import MBarrier, TensorMap, bfloat16, int32, shared_array, swizzled, tiles

CAPABILITY = (9, 0)
HEIGHT, WIDTH, CHANNELS, DEPTH, STAGES = 8, 16, 128, 64, 4
PANEL = 64  # channels of a row of 128 bytes, and of a box of the result
TOLERANCE = {"rtol": 2**-7, "atol": 2**-5}


@device.kernel(max_threads=384)
def convolve(image, weights, result, inputs: int32, outputs: int32):
    """All arguments are maps: of (n, h, w, inputs), (3, 3, outputs, inputs) and (n, h, w, outputs)."""
    a, b = shared_array((STAGES, HEIGHT * WIDTH, DEPTH), bfloat16), shared_array((STAGES, CHANNELS, DEPTH), bfloat16)
    c, bars = shared_array((2, CHANNELS // PANEL, 64, PANEL), bfloat16), shared_array((2, STAGES), MBarrier)
    ring = tiles.Ring(bars[0], bars[1])
    thread, group = int32(device.thread_idx.x), tiles.warpgroup()
    row, column = HEIGHT * int32(device.block_idx.y), WIDTH * int32(device.block_idx.x)
    parts, chunks = (outputs + CHANNELS - 1) // CHANNELS, (inputs + DEPTH - 1) // DEPTH
    n, channel = int32(device.block_idx.z) // parts, int32(device.block_idx.z) % parts * CHANNELS
    if thread == 0:
        ring.init(2)
        device.fence_mbarrier_init()
    device.syncthreads()
    if group == 0:
        if thread == 0:
            for step in range(9 * chunks):
                window, depth = step // chunks, step % chunks * DEPTH
                i, j = window // 3, window % 3
                stage = ring.acquire(step, image.nbytes + weights.nbytes)
                corner = n, row + i - 1, column + j - 1, depth
                device.tma_load(swizzled(a[stage], 128), image, corner, ring.full[stage])
                device.tma_load(swizzled(b[stage], 128), weights, (i, j, channel, depth), ring.full[stage])
    else:
        half, leads = group - 1, thread % 128 == 0

        def multiply(acc, stage):
            pixels = device.rows(swizzled(a[stage], 128), half * 64, 64)
            return tiles.mma(acc, pixels, swizzled(b[stage], 128))

        before = ring.wait(0)
        acc = multiply(None, before)
        for step in range(1, 9 * chunks):
            stage = ring.wait(step)
            acc = multiply(acc, stage)
            tiles.wait(1)  # the product before this one has read its stage
            if leads:
                ring.release(before)
            before = stage
        tiles.store(tiles.wait(0, acc), swizzled(c[half], 128))
        device.fence_proxy_async()
        device.barrier_sync(group, 128)
        if leads:
            for i in range(CHANNELS // PANEL):
                corner = n, row + half * (HEIGHT // 2), column, channel + i * PANEL
                device.tma_store(result, corner, swizzled(c[half, i], 128))
            device.bulk_commit()
            device.bulk_wait()


def run(stream, image, weights):
    """The result has a channel for each row of `weights`."""
    (n, height, width, inputs), outputs = image.shape, weights.shape[2]
    image, weights = device.array(image, stream=stream), device.array(weights, stream=stream)
    result = device.empty((n, height, width, outputs), image.dtype, stream=stream)
    boxes = (1, HEIGHT, WIDTH, DEPTH), (1, 1, CHANNELS, DEPTH), (1, HEIGHT // 2, WIDTH, PANEL)
    maps = [TensorMap.of(x, box, swizzle=128) for x, box in zip((image, weights, result), boxes, strict=True)]
    grid = -(-width // WIDTH), -(-height // HEIGHT), n * -(-outputs // CHANNELS)
    device.launch(convolve, *maps, inputs, outputs, grid=grid, block=384, stream=stream)
    return result.numpy().astype(np.float32)


def expect(image, weights):
    """By NumPy, in double precision."""
    (_, height, width, _), weights = image.shape, weights.astype(np.float64)
    padded = np.pad(image.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = ((i, j, padded[:, i : i + height, j : j + width]) for i in range(3) for j in range(3))
    return sum(pixels @ weights[i, j].T for i, j, pixels in windows)


def cases(random):
    """Two images of a block each; edges of images and channels; two parts of the depth."""
    for shape, outputs in (((2, 8, 16, 8), 128), ((1, 5, 17, 24), 136), ((1, 5, 5, 72), 8)):
        weights = random.standard_normal((3, 3, outputs, shape[3])) / 32
        yield tuple(x.astype(device.numpy_dtype(bfloat16)) for x in (random.standard_normal(shape), weights))
