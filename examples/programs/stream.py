"""The five loops of the STREAM benchmark (copy, scale, add, triad, dot), as BabelStream has them: what memory can do."""

import cuda_device as device

BLOCK = 256
SCALAR = 0.4
TOLERANCE = {"rtol": 1e-12, "atol": 1e-12}


@device.kernel
def copy(a, c):
    """c = a."""
    i = device.tid(1)
    if i < len(a):
        c[i] = a[i]


@device.kernel
def scale(b, c):
    """b = SCALAR * c."""
    i = device.tid(1)
    if i < len(b):
        b[i] = SCALAR * c[i]


@device.kernel
def add(a, b, c):
    """c = a + b."""
    i = device.tid(1)
    if i < len(a):
        c[i] = a[i] + b[i]


@device.kernel
def triad(a, b, c):
    """a = b + SCALAR * c."""
    i = device.tid(1)
    if i < len(a):
        a[i] = b[i] + SCALAR * c[i]


@device.kernel
def dot(a, b, sums):
    """The sum of products of each block's share, which strides through the arrays."""
    tree = device.shared_array(BLOCK, a.dtype)
    thread = int(device.thread_idx.x)
    total = a.dtype(0)
    for i in range(device.tid(1), len(a), device.grid_size(1)):
        total += a[i] * b[i]
    tree[thread] = total
    half = BLOCK // 2
    while half > 0:
        device.syncthreads()
        if thread < half:
            tree[thread] += tree[thread + half]
        half //= 2
    if thread == 0:
        sums[device.block_idx.x] = tree[0]


def run(stream, a):
    """The three arrays after one round, and the dot product."""
    first = device.array(a, stream=stream)
    second, third = (device.empty(a.size, a.dtype, stream=stream) for _ in range(2))
    launch = {"grid": -(-a.size // BLOCK), "block": BLOCK, "stream": stream}
    device.launch(copy, first, third, **launch)
    device.launch(scale, second, third, **launch)
    device.launch(add, first, second, third, **launch)
    device.launch(triad, first, second, third, **launch)
    blocks = min(16, -(-a.size // BLOCK))
    sums = device.empty(blocks, a.dtype, stream=stream)
    device.launch(dot, first, second, sums, grid=blocks, block=BLOCK, stream=stream)
    return first.numpy(), second.numpy(), third.numpy(), sums.numpy().sum(keepdims=True)


def expect(a):
    """By NumPy."""
    b = SCALAR * a
    c = a + b
    a = b + SCALAR * c
    return a, b, c, (a @ b)[None]


def cases(random):
    """One element to many blocks."""
    for count in (1, 255, 257, 10000):
        yield (random.random(count),)
