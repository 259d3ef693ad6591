"""Radix sort of unsigned integers, with their places: four bits a round, stable.

A round counts each digit in each block, turns the counts into places by a prefix sum, and moves the keys there. Within a
block the threads of a warp that hold the same digit find each other with `match_any_sync`.
"""

import numpy as np

import cuda_device as device
from programs.scan import scan

BITS = 4
DIGITS = 1 << BITS
BLOCK = 128
WARPS = BLOCK // 32
ALL = 0xFFFFFFFF
TOLERANCE = {"rtol": 0, "atol": 0}


@device.func
def digit_of(key, shift):
    """The digit that a round sorts by."""
    return int((key >> shift) & (DIGITS - 1))


@device.kernel
def count(keys, counts, shift):
    """How often each digit is in each block; one row of `counts` for each digit."""
    local = device.shared_array(DIGITS, device.int32)
    thread = int(device.thread_idx.x)
    if thread < DIGITS:
        local[thread] = 0
    device.syncthreads()
    i = device.tid(1)
    if i < len(keys):
        device.atomic_ref(local, digit_of(keys[i], shift)).add(1)
    device.syncthreads()
    if thread < DIGITS:
        counts[thread * int(device.grid_dim.x) + int(device.block_idx.x)] = local[thread]


@device.kernel
def move(keys, values, places, new_keys, new_values, shift):
    """Moves each key to where it belongs: after all smaller digits, and after equal ones that come before it."""
    before = device.shared_array((WARPS, DIGITS), device.int32)
    thread = int(device.thread_idx.x)
    warp = thread // 32
    for j in range(thread, WARPS * DIGITS, BLOCK):
        before[j // DIGITS, j % DIGITS] = 0
    device.syncthreads()

    i = device.tid(1)
    inside = i < len(keys)
    key = keys[i] if inside else keys.dtype(0)
    digit = digit_of(key, shift) if inside else DIGITS  # a digit of its own for what is no key
    equal = device.match_any_sync(ALL, digit)
    rank = device.popc(int(equal & device.lanemask_lt()))
    if inside and rank == 0:
        before[warp, digit] = device.popc(int(equal))
    device.syncthreads()

    if inside:
        block = int(device.block_idx.x)
        row = digit * int(device.grid_dim.x) + block
        place = rank + (places[row - 1] if row > 0 else 0)
        for w in range(warp):
            place += before[w, digit]
        new_keys[place] = key
        new_values[place] = values[i]


def run(stream, keys):
    """The sorted keys, and where each was."""
    size, blocks = keys.size, -(-keys.size // BLOCK)
    here = device.array(keys, stream=stream), device.array(np.arange(size, dtype=np.int32), stream=stream)
    there = device.empty(size, keys.dtype, stream=stream), device.empty(size, np.int32, stream=stream)
    counts = device.empty(DIGITS * blocks, np.int32, stream=stream)
    for shift in range(0, 8 * keys.dtype.itemsize, BITS):
        device.launch(count, here[0], counts, shift, grid=blocks, block=BLOCK, stream=stream)
        places = scan(counts, stream)
        device.launch(move, *here, places, *there, shift, grid=blocks, block=BLOCK, stream=stream)
        here, there = there, here
    return here[0].numpy(), here[1].numpy()


def expect(keys):
    """By NumPy's stable sort."""
    order = np.argsort(keys, kind="stable")
    return keys[order], order.astype(np.int32)


def cases(random):
    """One key to many blocks; all equal, sorted, reversed; many equal ones."""
    for size in (1, 2, 127, 128, 129, 5000):
        yield (random.integers(0, 2**32, size).astype(np.uint32),)
    yield (np.full(300, 7, np.uint32),)
    yield (np.arange(500, dtype=np.uint32)[::-1].copy(),)
    yield (random.integers(0, 5, 1000).astype(np.uint8),)
    yield (random.integers(0, 2**64, 400, dtype=np.uint64),)
