"""A product by tiles on CPU streams with a race detector: each mistake of synchronisation is reported with its lines."""

import enum
import re

import numpy as np
import pytest
from race_reports import has_report

import cuda_device as device
from cuda_device import bfloat16, hooks, int32, shared_array

if hooks.installed("plugins.tensor_cores") is None:
    pytest.skip("tiles are built on the plugin tensor_cores", allow_module_level=True)

from cuda_device import MBarrier, tiles

ROWS, COLUMNS, DEPTH, STAGES, STEPS, PRODUCER = 64, 16, 32, 2, 5, 128
of_a, of_b = (tiles.TileLayout(n, DEPTH, bfloat16, swizzle=64) for n in (ROWS, COLUMNS))
of_c = tiles.TileLayout(ROWS, COLUMNS, bfloat16, swizzle=32)
BOTH = of_a.nbytes + of_b.nbytes


class Mistake(enum.IntEnum):
    NONE = 0
    PARITY = 1
    NO_WAIT = 2
    STAGE_NOT_ACQUIRED = 3
    STAGE_RELEASED_EARLY = 4
    STAGE_NOT_RELEASED = 5
    FEWER_BYTES = 6
    MORE_BYTES = 7
    NO_FENCE = 8
    NO_BARRIER = 9
    NO_WAIT_FOR_STORE = 10
    NO_BARRIER_AFTER_INIT = 11


@device.kernel(max_threads=160)
def product(map_a, map_b, map_c, mistake: int32):
    """A producer warp fills a ring, a warpgroup multiplies, and stores twice through the same tile."""
    a, b = shared_array(of_a.stages(STAGES), bfloat16), shared_array(of_b.stages(STAGES), bfloat16)
    c, bars = shared_array(of_c.stages(1), bfloat16), shared_array((2, STAGES), MBarrier)
    ring, thread = tiles.Ring(bars[0], bars[1]), int32(device.thread_idx.x)
    if thread == 0:
        ring.init(1)
        device.fence_mbarrier_init()
    if mistake != Mistake.NO_BARRIER_AFTER_INIT:
        device.syncthreads()
    if thread == PRODUCER:
        nbytes = BOTH + (mistake == Mistake.MORE_BYTES) * 16 - (mistake == Mistake.FEWER_BYTES) * 16
        for step in range(STEPS):
            stage = device.uint32(step % STAGES)
            if mistake == Mistake.STAGE_NOT_ACQUIRED:
                ring.full[stage].arrive_expect_tx(nbytes)
            else:
                ring.acquire(step, nbytes)
            of_a.load(a, stage, map_a, 0, step * DEPTH, ring.full[stage])
            of_b.load(b, stage, map_b, 0, step * DEPTH, ring.full[stage])
    elif thread < PRODUCER:
        acc = tiles.zeros(COLUMNS)
        for step in range(STEPS):
            stage = device.uint32(step % STAGES)
            if mistake == Mistake.PARITY:
                ring.full[stage].wait(step // STAGES & 1 ^ 1)
            elif mistake != Mistake.NO_WAIT:
                ring.wait(step)
            acc = tiles.mma(acc, of_a.tile(a, stage), of_b.tile(b, stage))
            if mistake == Mistake.STAGE_RELEASED_EARLY and thread == 0:
                ring.release(stage)
            acc = tiles.wait(0, acc)
            if mistake != Mistake.STAGE_RELEASED_EARLY and mistake != Mistake.STAGE_NOT_RELEASED and thread == 0:
                ring.release(stage)
        for column in range(0, 2 * COLUMNS, COLUMNS):
            tiles.store(acc, of_c.tile(c, 0))
            if mistake != Mistake.NO_FENCE:
                device.fence_proxy_async()
            if mistake != Mistake.NO_BARRIER:
                device.barrier_sync(1, 128)
            if thread == 0:
                of_c.save(c, 0, map_c, 0, column)
                if mistake != Mistake.NO_WAIT_FOR_STORE:
                    device.bulk_wait(read=True)
            device.barrier_sync(1, 128)
        if thread == 0:
            device.bulk_wait()


def run(mistake, **options):
    """The result, and what NumPy has."""
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, (n, STEPS * DEPTH)).astype(device.numpy_dtype(bfloat16)) for n in (ROWS, COLUMNS))
    c = np.zeros((ROWS, 2 * COLUMNS), a.dtype)
    maps = [tile.map_of(x) for x, tile in ((a, of_a), (b, of_b), (c, of_c))]
    stream = device.cpu_stream(target="sm_90a", **options)
    device.launch(product, *maps, int32(mistake), grid=1, block=160, stream=stream)
    return c, np.tile(a.astype(np.float32) @ b.astype(np.float32).T, (1, 2)).astype(a.dtype)


MULTIPLIES, LOADS_A, LOADS_B, STORES, SAVES = (
    "acc = tiles.mma(", "of_a.load(", "of_b.load(", "tiles.store(acc, ", "of_c.save(",
)  # fmt: skip
RACES = {
    Mistake.NO_WAIT: (MULTIPLIES, LOADS_A, "or for the copy before the product starts: wait(parity) of the barrier"),
    Mistake.STAGE_NOT_ACQUIRED: (LOADS_B, LOADS_B, "wait for the first copy before the second"),
    Mistake.STAGE_RELEASED_EARLY: (MULTIPLIES, LOADS_B, "wait for the product before the copy starts: wgmma_wait(…)"),
    Mistake.NO_FENCE: (STORES, SAVES, "call fence_proxy_async() after the store"),
    Mistake.NO_BARRIER: (SAVES, STORES, "put a barrier before the copy"),
    Mistake.NO_WAIT_FOR_STORE: (SAVES, STORES, "bulk_wait(read=True)"),
    Mistake.NO_BARRIER_AFTER_INIT: ("ring.init(1)", "ring.wait(step)", "put a barrier between them"),
}
DEADLOCKS = {
    Mistake.PARITY: ("ring.full[stage].wait(", "phase 1: 0 of 1 arrived"),
    Mistake.STAGE_NOT_RELEASED: ("ring.acquire(step", "phase 0: 0 of 1 arrived"),
    Mistake.FEWER_BYTES: ("ring.wait(step)", f"phase 0: 1 of 1 arrived, {BOTH} of {BOTH - 16} bytes"),
    Mistake.MORE_BYTES: ("ring.wait(step)", f"phase 0: 1 of 1 arrived, {BOTH} of {BOTH + 16} bytes"),
}


def test_every_mistake_has_a_test():
    assert set(Mistake) == {Mistake.NONE, *RACES, *DEADLOCKS}


def test_the_right_product_gives_no_report():
    result, right = run(Mistake.NONE, races=True)
    assert (result == right).all()


@pytest.mark.parametrize("mistake", RACES)
def test_a_race_is_reported_with_both_lines(mistake):
    with pytest.raises(device.KernelError) as raised:
        run(mistake, races=True)
    assert has_report(raised.value, *RACES[mistake]), raised.value


@pytest.mark.parametrize("mistake", DEADLOCKS)
def test_a_deadlock_is_reported_with_the_line_of_the_wait(mistake):
    statement, state = DEADLOCKS[mistake]
    with pytest.raises(device.KernelError, match="^deadlock") as raised:
        run(mistake, races=True)
    with open(__file__) as file:
        (line,) = [number for number, text in enumerate(file, 1) if text.lstrip().startswith(statement)]
    assert re.search(rf"{re.escape(__file__)}:{line}:\d+ for an mbarrier in {state}", str(raised.value)), raised.value


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda x, y: tiles.store(tiles.zeros(32), y), "a register tile of 64 x 32 does not fit a tile of 16 x 32"),
        (lambda x, y: tiles.store(tiles.zeros(64), x), "a register tile of 64 x 64 does not fit a tile of 64 x 32"),
        (
            lambda x, y: tiles.warp_mma(None, device.swizzled(shared_array((64, 64), bfloat16), 128), y),
            "a has 64 columns, and b 32: their depths differ",
        ),
    ],
)
def test_shapes_that_do_not_fit(use, message):
    @device.kernel(max_threads=128)
    def k():
        use(of_a.tile(shared_array(of_a.stages(1), bfloat16), 0), of_b.tile(shared_array(of_b.stages(1), bfloat16), 0))

    with pytest.raises(device.KernelError, match=message):
        device.launch(k, grid=1, block=128, stream=device.cpu_stream())
