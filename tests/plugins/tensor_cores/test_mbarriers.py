"""Barriers in shared memory: phases, arrivals and bytes on each stream, their instructions, and what is refused."""

import re

import numpy as np
import pytest
from conftest import can_assemble, properties_of, with_capability

import cuda_device as device
from cuda_device import CompileError, KernelError, MBarrier
from cuda_device.plugins.tensor_cores.mbarriers import complete_bytes

STAGES, WARP = 3, 32
TARGETS = ("sm_80", "sm_90a", "sm_120a")


@pytest.fixture
def barriers(stream):
    """The stream, where it has barriers of PTX."""
    return with_capability(stream, (8, 0), "mbarrier")


def clusters(stream):
    """Whether a stream has clusters."""
    return stream.kind == "cpu" or properties_of(stream.stream).capability >= (9, 0)


def ptx_of(kernel, *arguments, target="sm_90a"):
    """The PTX, which an assembler has accepted if there is one."""
    if can_assemble(target):
        device.compile(kernel, *arguments, target=target)
    return device.compile(kernel, *arguments, target=target, output="ptx").code


@device.struct
class Stage:
    full: MBarrier
    empty: MBarrier


def pipeline(kind):
    """One warp gives rows to another one through stages with two barriers each, which are arrays, or members of a struct."""

    @device.kernel
    def k(x, y):
        tile = device.shared_array((STAGES, WARP), x.dtype)
        stages = device.shared_array(STAGES, Stage) if kind is Stage else device.shared_array((2, STAGES), MBarrier)
        t = device.thread_idx.x
        if t == 0:
            for s in range(STAGES):
                full, empty = (stages[s].full, stages[s].empty) if kind is Stage else (stages[0, s], stages[1, s])
                full.init(WARP)
                empty.init(WARP)
        device.syncthreads()
        for i in range(x.shape[0]):
            s, round = i % STAGES, i // STAGES
            full, empty = (stages[s].full, stages[s].empty) if kind is Stage else (stages[0, s], stages[1, s])
            if t < WARP:
                empty.wait(round & 1 ^ 1)
                tile[s, t] = x[i, t]
                full.arrive()
            else:
                while not full.try_wait(round & 1):
                    pass
                y[i, t - WARP] = 2 * tile[s, (t + 1) % WARP]
                empty.arrive()
        device.syncthreads()
        if t == 0:
            for s in range(STAGES):
                full = stages[s].full if kind is Stage else stages[0, s]
                full.invalidate()

    return k


@pytest.mark.parametrize("kind", [MBarrier, Stage])
def test_rows_pass_through_stages(barriers, kind):
    x = np.arange(10 * WARP, dtype=np.float32).reshape(10, WARP)
    y = barriers.run(pipeline(kind), x, np.zeros_like(x), block=2 * WARP)[-1]
    assert (y == 2 * np.roll(x, -1, axis=1)).all()


@pytest.mark.parametrize("target", TARGETS)
def test_a_cpu_stream_emulates_each_architecture(target):
    x, y = np.ones((4, WARP), np.float32), np.zeros((4, WARP), np.float32)
    device.launch(pipeline(MBarrier), x, y, grid=1, block=2 * WARP, stream=device.cpu_stream(target=target))
    assert (y == 2).all()


@device.kernel
def counts(out, counted):
    """Arrivals of several at once: the phase is over after the last of `counted` of them."""
    bar = device.shared_array(1, MBarrier)[0]
    bar.init(counted + 3)
    out[0] = bar.try_wait(0)
    out[1] = bar.try_wait(1)
    bar.arrive(counted)
    bar.arrive(2)
    out[2] = bar.try_wait(0)
    bar.arrive()
    bar.wait(0)
    out[3] = bar.try_wait(0)
    out[4] = bar.try_wait(1)
    bar.arrive(count=counted + 3)
    bar.wait(1)


@pytest.mark.parametrize("counted", [1, 1000])
def test_several_arrivals_at_once(barriers, counted):
    out = barriers.run(counts, np.zeros(5, bool), counted)
    assert out.tolist() == [False, True, False, True, False]


@device.func
def complete(bar, nbytes):
    """What a copy does on a CPU stream; on a GPU, PTX has an instruction for it."""
    device.ptx("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [$0], $1;", bar, nbytes, host=complete_bytes)


@device.kernel
def bytes_and_arrivals(out):
    """A GPU lets a `try_wait` pause while later instructions run that do not need its result: each completion needs it here."""
    bar = device.shared_array(1, MBarrier)[0]
    bar.init(2)
    complete(bar, 4096)  # before they are expected
    bar.arrive_expect_tx(4096)
    bar.expect_tx(32)
    bar.arrive()
    out[0] = before = bar.try_wait(0)
    if not before:
        complete(bar, 16)
    out[1] = between = bar.try_wait(0)
    if not between:
        complete(bar, 16)
    bar.wait(0)
    bar.arrive_expect_tx(0)
    bar.arrive()
    bar.wait(1)
    out[2] = True


def test_a_phase_waits_for_its_bytes(barriers):
    if not clusters(barriers):
        pytest.skip("no bytes")
    assert barriers.run(bytes_and_arrivals, np.ones(3, bool)).tolist() == [False, False, True]


@device.kernel
def in_turn(x, y, scope: device.ConstExpr):
    """Each block writes to the shared memory of the next one, and arrives at its barrier."""
    tile = device.shared_array(1, x.dtype)
    bar = device.shared_array(1, MBarrier)[0]
    rank, count = device.block_rank, device.cluster_dim.x
    if device.thread_idx.x == 0:
        bar.init(1)
        device.fence_mbarrier_init()
    device.cluster_sync()
    if device.thread_idx.x == 0:
        if rank == 0:
            tile[0] = x[device.cluster_idx.x]
            bar.arrive(scope=scope)
        bar.wait(0, scope)
        y[device.block_idx.x] = tile[0] + device.float32(rank)
        if rank + 1 < count:
            device.cluster_shared(tile, rank + 1)[0] = tile[0]
            bar.arrive(rank=rank + 1, scope=scope)
    device.cluster_sync()


def test_blocks_arrive_at_barriers_of_others(barriers):
    if not clusters(barriers):
        pytest.skip("no clusters")
    x = np.arange(4, dtype=np.float32) * 10
    y = barriers.run(in_turn, x, np.zeros(16, np.float32), "cluster", grid=16, block=WARP, cluster=4)[-1]
    assert (y.reshape(4, 4) == x[:, None] + np.arange(4)).all()


def test_instructions():
    x = np.zeros((4, WARP), np.float32)
    for target, wait in (("sm_80", "test_wait.parity.shared"), ("sm_90a", "try_wait.parity.shared::cta")):
        text = ptx_of(pipeline(Stage), x, x, target=target)
        for instruction in ("init.shared", f"{wait}", "arrive.shared", "inval.shared"):
            assert f"mbarrier.{instruction}.b64" in text
        assert len(re.findall("mbarrier.*wait", text)) == len(re.findall(f"mbarrier.{wait}", text))
    assert ".noComplete" in ptx_of(counts, np.zeros(5, bool), 8, target="sm_80")
    text = ptx_of(counts, np.zeros(5, bool), 8)
    assert ".noComplete" not in text and re.search(r"mbarrier.arrive.shared::cta.b64 _, \[%rd\d+\], %r\d+;", text)
    text = ptx_of(bytes_and_arrivals, np.zeros(3, bool))
    assert "mbarrier.expect_tx.relaxed.cta.shared::cta.b64" in text
    assert "mbarrier.arrive.expect_tx.shared::cta.b64 _, " in text
    for scope, order in (("block", ""), ("cluster", ".release.cluster")):
        text = ptx_of(in_turn, x[0], x[0], scope)
        assert f"mbarrier.arrive{order}.shared::cluster.b64 _, [remote]" in text and "mapa.shared::cluster" in text
        assert (".acquire.cluster" in text) == (scope == "cluster") and "fence.mbarrier_init.release.cluster;" in text


def of(use, kind="shared"):
    """A kernel with one use of a barrier."""

    @device.kernel
    def k(n: device.int32, others):
        bar = device.shared_array(1, MBarrier)[0] if kind == "shared" else others[0]
        use(bar, n)

    return k


OTHERS = np.zeros(1, device.numpy_dtype(MBarrier))
NEEDS = [
    ("MBarrier.expect_tx", lambda bar, n: bar.expect_tx(n)),
    ("MBarrier.arrive_expect_tx", lambda bar, n: bar.arrive_expect_tx(n)),
    ("MBarrier.arrive .* a rank .*", lambda bar, n: bar.arrive(rank=n)),
    ("MBarrier.arrive .* scope='cluster'", lambda bar, n: bar.arrive(scope="cluster")),
    ("MBarrier.wait .* scope='cluster'", lambda bar, n: bar.wait(n, "cluster")),
    ("fence_proxy_async", lambda bar, n: device.fence_proxy_async()),
    ("fence_mbarrier_init", lambda bar, n: device.fence_mbarrier_init()),
]


@pytest.mark.parametrize(("name", "use"), NEEDS, ids=[name for name, _ in NEEDS])
def test_what_needs_sm_90(name, use):
    ptx_of(of(use), 0, OTHERS, target="sm_90")
    with pytest.raises(CompileError, match=f"{name} needs sm_90 or later, and this is compiled for sm_80") as raised:
        device.compile(of(use), 0, OTHERS, target="sm_80")
    assert raised.value.location.file == __file__


@pytest.mark.parametrize(
    "use", [lambda bar, n: bar.init(n), lambda bar, n: bar.wait(n), lambda bar, n: bar.try_wait(n)]
)
def test_what_needs_sm_80(use):
    with pytest.raises(CompileError, match="needs sm_80 or later, and this is compiled for sm_75"):
        device.compile(of(use), 0, OTHERS, target="sm_75")


WRONG = {
    "count must be from 1 to 1048575, not 0": lambda bar, n: bar.init(0),
    "count must be from 1 to 1048575, not 1048576": lambda bar, n: bar.arrive(1 << 20),
    "count must be an integer, not float 1.5": lambda bar, n: bar.init(1.5),
    "nbytes must be from 0 to 1048575, not -1": lambda bar, n: bar.expect_tx(-1),
    "parity must be from 0 to 1, not 2": lambda bar, n: bar.wait(2),
    "rank must be from 0 to 15, not 16": lambda bar, n: bar.arrive(rank=16),
    "scope='device' is not the scope of a barrier": lambda bar, n: bar.wait(0, "device"),
    "MBarrier.arrive: missing a required argument": lambda bar, n: device.MBarrier.arrive(),
}


@pytest.mark.parametrize(("message", "use"), WRONG.items(), ids=WRONG)
def test_wrong_arguments(message, use):
    with pytest.raises(CompileError, match=re.escape(message)) as raised:
        device.compile(of(use), 0, OTHERS, target="sm_90")
    assert raised.value.location.file == __file__ and raised.value.help


HELPS = {
    "write x.nbytes": lambda bar, n: bar.expect_tx(device.shared_array(8, device.int32)),
    "write MBarrier.wait(parity, scope='block')": lambda bar, n: bar.wait(),
}


@pytest.mark.parametrize(("help", "use"), HELPS.items(), ids=HELPS)
def test_help(help, use):
    with pytest.raises(CompileError) as raised:
        device.compile(of(use), 0, OTHERS, target="sm_90")
    assert help in raised.value.help


def test_barriers_are_in_shared_memory():
    with pytest.raises(
        CompileError, match="an MBarrier in the shared memory of the block, not a reference to MBarrier in global"
    ) as raised:
        device.compile(of(lambda bar, n: bar.init(1), "global"), 0, OTHERS, target="sm_90")
    assert "shared_array(n, MBarrier)" in raised.value.help


FAILS = {
    "has not been initialised": lambda bar, n: (bar.init(1), bar.invalidate(), bar.arrive()),
    "the parity of a phase is 0 or 1, not 7": lambda bar, n: (bar.init(1), bar.wait(n)),
    "counts from 1 to 32767 arrivals, not 7000000": lambda bar, n: bar.init(1_000_000 * n),
    "from 1 to 32767 arrivals at a barrier on a CPU stream are counted, not 0": lambda bar, n: (
        bar.init(8),
        bar.arrive(n - 7),
    ),
    "9 arrivals in a phase of a barrier whose count is 8": lambda bar, n: (bar.init(8), bar.arrive(2), bar.arrive(n)),
    "expects less than 256 KiB in a phase, not 458752": lambda bar, n: (bar.init(8), bar.expect_tx(n << 16)),
    "counts less than 256 KiB": lambda bar, n: (bar.init(8), bar.expect_tx(n << 15), bar.expect_tx(n << 14)),
}


@pytest.mark.parametrize(("message", "use"), FAILS.items(), ids=FAILS)
def test_what_cpu_streams_report(message, use):
    with pytest.raises(KernelError, match=message) as raised:
        device.launch(of(use), 7, OTHERS, grid=1, block=1, stream=device.cpu_stream())
    assert raised.value.location.file == __file__


@pytest.mark.parametrize("waits", [lambda bar: bar.wait(0), lambda bar: bar.try_wait(0)])
def test_a_wait_that_no_barrier_orders_behind_the_initialisation_is_a_race(waits):
    @device.kernel
    def k(synchronises: device.ConstExpr[bool]):
        bar = device.shared_array(1, MBarrier)[0]
        if device.thread_idx.x == 0:
            bar.init(1)
            bar.arrive()
        if synchronises:
            device.syncthreads()
        waits(bar)

    device.launch(k, True, grid=1, block=2, stream=device.cpu_stream(races=True))
    with pytest.raises(KernelError, match=r"(?s)race on byte 0 of shared memory.*bar.init.*atomically reads"):
        device.launch(k, False, grid=1, block=2, stream=device.cpu_stream(races=True))


def test_barriers_have_identity():
    assert device.sizeof(MBarrier) == 8
    with pytest.raises(TypeError, match="atomic members"):
        MBarrier()
    with pytest.raises(device.DeviceOnlyError, match=r"MBarrier.init"):
        MBarrier.init(None, 1)
