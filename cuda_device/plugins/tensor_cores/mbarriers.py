"""`MBarrier`: barriers in shared memory, which count arrivals and the bytes of asynchronous copies.

    full = shared_array(STAGES, MBarrier)
    if thread_idx.x == 0:
        full[0].init(1)
        fence_mbarrier_init()
    syncthreads()
    if thread_idx.x == 0:
        full[0].arrive_expect_tx(4096)      # one arrival, and 4096 bytes that a copy will deliver
    full[0].wait(0)                         # the phase of parity 0 is over: all have arrived, and all bytes are there

On GPUs, the word of a barrier is PTX's opaque 64-bit object. On CPU streams it is, from its highest bit to its lowest:

    phase: 1 | 0: 1 | bytes expected: 18 | bytes completed / 16: 14 | count: 15 | arrived: 15
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import uint32, uint64

from cuda_device import Atomic, CompileError, DeviceOnlyError, cluster_shared, provides, ptx, sm80, sm90, struct, target
from cuda_device.extend import Known, await_change, constant_of, copies, model, specialised
from cuda_device.plugins.tensor_cores.single_instructions import check_integer, instruction, needing, single

MOST_ARRIVALS = (1 << 20) - 1
"""PTX's limit for the count of a barrier, and for the bytes of a phase."""
_LAST_RANK = 15


@struct
class MBarrier:
    """A barrier of 8 bytes in shared memory. It has phases: one is over when `count` arrivals and all expected bytes are there.

    `bars = shared_array(n, MBarrier)` makes `n` barriers; a struct in shared memory may have one as a member. One thread calls
    `init` for each of them, and all threads call `syncthreads` (in a cluster, `cluster_sync` after `fence_mbarrier_init`) before
    they use it. The first phase has parity 0, the next one parity 1, then 0 again. A barrier has identity, like a struct with an
    `Atomic` member: it is used by reference, as in `bars[i].wait(0)` or `bar = bars[i]`, and cannot be copied.

    `scope` is "block", or "cluster" if ordinary accesses to the shared memory of other blocks are ordered by the barrier, which
    costs time. On CPU streams a barrier counts up to 32767 arrivals, and less than 256 KiB in a phase. Device code only, for
    sm_80 and later. PTX: mbarrier.
    """

    word: Atomic(uint64)  # type: ignore[valid-type]

    def init(self, count: int) -> None:
        """Begins the first phase. `count`, from 1 to 2**20 - 1, is the number of arrivals in each phase. PTX: mbarrier.init."""
        raise DeviceOnlyError.of("MBarrier.init")

    def arrive(self, count: int = 1, rank: int | None = None, scope: str = "block") -> None:
        """Counts `count` arrivals, a release: threads that wait for the phase see what this thread has written before.

        With `rank`, these are arrivals at the barrier of that block of the cluster that corresponds to this one (sm_90 and
        later). PTX: mbarrier.arrive, mapa.
        """
        raise DeviceOnlyError.of("MBarrier.arrive")

    def expect_tx(self, nbytes: int) -> None:
        """Makes the phase last until `nbytes` more bytes have been completed. Needs sm_90. PTX: mbarrier.expect_tx."""
        raise DeviceOnlyError.of("MBarrier.expect_tx")

    def arrive_expect_tx(self, nbytes: int) -> None:
        """`expect_tx(nbytes)`, followed by one arrival. Needs sm_90 or later. PTX: mbarrier.arrive.expect_tx."""
        raise DeviceOnlyError.of("MBarrier.arrive_expect_tx")

    def try_wait(self, parity: int) -> bool:
        """Returns whether the phase of `parity`, 0 or 1, is over; an acquire if it is. May pause. PTX: mbarrier.try_wait.parity.

        On a fresh barrier, the phase of parity 1 is over.
        """
        raise DeviceOnlyError.of("MBarrier.try_wait")

    def wait(self, parity: int, scope: str = "block") -> None:
        """Waits until the phase of `parity`, 0 or 1, is over, an acquire. On a fresh barrier, that of parity 1 is.

        On CPU streams, a `KernelError` reports waits that nothing can end. PTX: mbarrier.try_wait.parity in a loop; on sm_80,
        mbarrier.test_wait.parity.
        """
        raise DeviceOnlyError.of("MBarrier.wait")

    def invalidate(self) -> None:
        """Ends the use of the barrier, so that its memory can be used for something else. PTX: mbarrier.inval."""
        raise DeviceOnlyError.of("MBarrier.invalidate")


def fence_mbarrier_init() -> None:
    """Makes the `init` of barriers by this thread visible to the other blocks of the cluster, and to asynchronous copies.

    A barrier of the cluster or block must follow. Device code only, for sm_90 and later. PTX: fence.mbarrier_init.
    """
    raise DeviceOnlyError.of("fence_mbarrier_init")


def fence_proxy_async() -> None:
    """Orders this thread's ordinary accesses to shared memory before later accesses of asynchronous copies and matrix operations.

    A thread calls it after it has written what `tma_store`, `bulk_store` or `wgmma` read, and before the barrier that precedes
    them. Device code only, for sm_90 and later. PTX: fence.proxy.async.shared::cta.
    """
    raise DeviceOnlyError.of("fence_proxy_async")


# Arguments


def check_barrier(bar: Known, entity: str) -> None:
    """Refuses what is no barrier in the shared memory of the block."""
    type = bar.type
    is_barrier = isinstance(type, model.Ref) and getattr(type.pointee, "host", None) is MBarrier
    if not is_barrier or type.space is not model.Space.SHARED:  # type: ignore[union-attr]
        raise CompileError(
            f"{entity} takes an MBarrier in the shared memory of the block, not {bar}",
            help="arrive at that of another block with bars[i].arrive(rank=…)"
            if is_barrier and type.space is model.Space.GENERIC  # type: ignore[union-attr]
            else "make it with shared_array(n, MBarrier), and give bars[i]",
        )


def _is_cluster(scope: Known) -> bool:
    """Whether the scope is that of the cluster."""
    name = constant_of(scope, "scope")
    if name not in ("block", "cluster"):
        raise CompileError(f"scope={name!r} is not the scope of a barrier", help="write 'block' or 'cluster'")
    return name == "cluster"


# Operations: the device functions that are called in place of the methods

_LOOP = "{ .reg .pred over;\nagain: mbarrier.%s.b64 over, [$0], $1;\n@!over bra again; }"
_TEST = "{ .reg .pred over; mbarrier.%s.b64 over, [$1], $2; selp.u32 $0, 1, 0, over; }"
_TRY, _TRY_IN_CLUSTER = "try_wait.parity.shared::cta", "try_wait.parity.acquire.cluster.shared::cta"
_TEST_IF = "test_wait.parity.shared"
_TRY_LOOP, _CLUSTER_LOOP, _TEST_LOOP = (_LOOP % wait for wait in (_TRY, _TRY_IN_CLUSTER, _TEST_IF))
_TRY_ONCE, _TEST_ONCE = _TEST % _TRY, _TEST % _TEST_IF
_ARRIVE = "mbarrier.arrive%s.shared::cta.b64 _, [$0], $1;"
_ARRIVE_SEVERAL = """{ .reg .pred several; .reg .b32 others; .reg .b64 state;
sub.u32 others, $1, 1;
setp.ne.u32 several, others, 0;
@several mbarrier.arrive.noComplete.shared.b64 state, [$0], others;
mbarrier.arrive.shared.b64 state, [$0]; }"""
"""Several arrivals on sm_80, where one instruction counts those before the last one, which may complete the phase."""
_ARRIVE_REMOTE = """{ .reg .b64 remote; mapa.shared::cluster.u64 remote, $0, $2;
mbarrier.arrive%s.shared::cluster.b64 _, [remote], $1; }"""


@specialised(MBarrier.invalidate, since=sm80)
def _(bar: Known) -> Callable[..., Any]:
    check_barrier(bar, "MBarrier.invalidate")
    return instruction("mbarrier.inval.shared.b64 [$0];", _invalidate_on_cpu, None)


@specialised(MBarrier.arrive, since=sm80)
def _(bar: Known, count: Known, rank: Known, scope: Known) -> Callable[..., Any]:
    check_barrier(bar, "MBarrier.arrive")
    check_integer(count, "count", (1, MOST_ARRIVALS))
    of_cluster = _is_cluster(scope)
    if not rank.constant or rank.python is not None:
        check_integer(rank, "rank", (0, _LAST_RANK))
        text = _ARRIVE_REMOTE % (".release.cluster" * of_cluster)
        return _of_clusters(instruction(text, _arrive_remotely_on_cpu, None, uint32, uint32))
    if of_cluster:
        return _of_clusters(instruction(_ARRIVE % ".release.cluster", _arrive_on_cpu, None, uint32))
    if count.constant and count.value == 1:
        text = "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [$0]; }"
        return instruction(text, _arrive_once_on_cpu, None)
    return instruction(_ARRIVE % "", _arrive_on_cpu, None, uint32, older=_ARRIVE_SEVERAL)


def _of_clusters(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which older architectures do not have."""
    return needing(sm90, "MBarrier.arrive or MBarrier.wait with a rank or scope='cluster'", function)


@specialised(MBarrier.try_wait, since=sm80)
def _(bar: Known, parity: Known) -> Callable[..., Any]:
    check_barrier(bar, "MBarrier.try_wait")
    check_integer(parity, "parity", (0, 1))
    return _try_wait


def _try_wait(bar: Any, parity: Any) -> Any:
    template = _TRY_ONCE if target(provides(sm90)) else _TEST_ONCE
    return ptx(template, bar, uint32(parity), result=uint32, host=_is_over_on_cpu) != 0


@specialised(MBarrier.wait, since=sm80)
def _(bar: Known, parity: Known, scope: Known) -> Callable[..., Any]:
    check_barrier(bar, "MBarrier.wait")
    check_integer(parity, "parity", (0, 1))
    if _is_cluster(scope):
        return _of_clusters(instruction(_CLUSTER_LOOP, _wait_on_cpu, None, uint32))
    return instruction(_TRY_LOOP, _wait_on_cpu, None, uint32, older=_TEST_LOOP)


single(fence_mbarrier_init, "fence.mbarrier_init.release.cluster;", sm90)
single(fence_proxy_async, "fence.proxy.async.shared::cta;", sm90, copies.proxy_fence)


# Barriers on CPU streams. An operation adds to the fields of the word, and begins the next phase if that completes this one.

_FIELD = 15
_COUNT, _COMPLETED, _EXPECTED, _PHASE = _FIELD, 2 * _FIELD, 44, 63
"""The lowest bits of the fields; that of the arrivals is 0."""
_MOST_COUNT, _MOST_UNITS, _MOST_BYTES = (1 << _FIELD) - 1, (1 << 14) - 1, (1 << 18) - 1
UNIT = 16
"""Copies have multiples of 16 bytes, at addresses that are multiples of 16."""


_STATE = (
    f"an mbarrier in phase {{0:bits {_PHASE} 1}}: {{0:bits 0 {_FIELD}}} of {{0:bits {_COUNT} {_FIELD}}} arrived, "
    f"{{0:bits {_COMPLETED} 14 {UNIT}}} of {{0:bits {_EXPECTED} 18}} bytes"
)
"""What a report of a deadlock says of a barrier."""


def _init_on_cpu(bar: Any, count: Any) -> None:
    if count < 1 or count > _MOST_COUNT:
        raise ValueError(
            f"a barrier on a CPU stream counts from 1 to 32767 arrivals, not {count}", "give it another count"
        )
    bar.word.store(uint64(count) << _COUNT, "relaxed", "thread")  # a race with what no barrier orders behind it


def _invalidate_on_cpu(bar: Any) -> None:
    bar.word.store(uint64(0), "relaxed", "thread")


def _arrive_once_on_cpu(bar: Any) -> None:
    _advance(bar.word, uint64(1))


def _arrive_on_cpu(bar: Any, count: Any) -> None:
    _advance(bar.word, _arrivals(count))


def _arrive_remotely_on_cpu(bar: Any, count: Any, rank: Any) -> None:
    _advance(cluster_shared(bar, rank).word, _arrivals(count))


def _expect_on_cpu(bar: Any, nbytes: Any) -> None:
    _advance(bar.word, _expectation(nbytes))


def _arrive_and_expect_on_cpu(bar: Any, nbytes: Any) -> None:
    _advance(bar.word, uint64(1) | _expectation(nbytes))


def complete_bytes(bar: Any, nbytes: Any) -> None:
    """Completes `nbytes`, a multiple of 16, on a barrier of a CPU stream: what a copy does when its bytes are there."""
    _advance(bar.word, uint64(nbytes) // UNIT << _COMPLETED)


def _arrivals(count: Any) -> Any:
    if count < 1 or count > _MOST_COUNT:
        raise ValueError(
            f"from 1 to 32767 arrivals at a barrier on a CPU stream are counted, not {count}", "give it another count"
        )
    return uint64(count)


def _expectation(nbytes: Any) -> Any:
    if nbytes > _MOST_BYTES:
        raise ValueError(
            f"a barrier on a CPU stream expects less than 256 KiB in a phase, not {nbytes} bytes",
            "use several barriers",
        )
    return uint64(nbytes) << _EXPECTED


def _advance(word: Any, step: Any) -> None:
    """Adds the fields of `step` to those of the barrier."""
    before = word.add(step, "release", "device")
    _check_step(before, step)
    after = before + step
    if _arrived(after) == _count(after) and _expected(after) == _completed(after) * UNIT:
        # What is added meanwhile belongs to the next phase.
        word.add((uint64(1) << _PHASE) + (_count(after) << _COUNT) - (after & _WITHOUT_PHASE), "release", "device")


_WITHOUT_PHASE = (1 << _PHASE) - 1


def _check_step(before: Any, step: Any) -> None:
    """Reports what the fields cannot hold, which no correct program does."""
    if _count(before) == 0:
        raise RuntimeError(
            "the barrier has not been initialised",
            "call init(count) first, then syncthreads(), or cluster_sync() in a cluster",
        )
    if _arrived(before) + _arrived(step) > _count(before):
        raise RuntimeError(
            f"{_arrived(before) + _arrived(step)} arrivals in a phase of a barrier whose count is {_count(before)}",
            "wait for the end of the phase before the next arrival, or initialise the barrier with a larger count",
        )
    if _expected(before) + _expected(step) > _MOST_BYTES or _completed(before) + _completed(step) > _MOST_UNITS:
        raise RuntimeError("a barrier on a CPU stream counts less than 256 KiB in a phase", "use several barriers")


def _arrived(word: Any) -> Any:
    return word & _MOST_COUNT


def _count(word: Any) -> Any:
    return word >> _COUNT & _MOST_COUNT


def _completed(word: Any) -> Any:
    return word >> _COMPLETED & _MOST_UNITS


def _expected(word: Any) -> Any:
    return word >> _EXPECTED & _MOST_BYTES


def _require_order(bar: Any) -> None:
    """Makes a wait that nothing orders behind `init` a race. What the wait acquires would hide it."""
    bar.word.load("relaxed", "device")


def _is_over(word: Any, parity: Any) -> Any:
    """Whether the phase of a parity is over."""
    if parity > 1:
        raise ValueError(f"the parity of a phase is 0 or 1, not {parity}", "take it modulo 2: parity & 1")
    if _count(word) == 0:
        raise RuntimeError(
            "the barrier has not been initialised",
            "call init(count) first, then syncthreads(), or cluster_sync() in a cluster",
        )
    return word >> _PHASE != parity


def _is_over_on_cpu(bar: Any, parity: Any) -> Any:
    _require_order(bar)
    return uint32(_is_over(bar.word.load("acquire", "device"), parity))


def _wait_on_cpu(bar: Any, parity: Any) -> None:
    _require_order(bar)
    word = bar.word.load("acquire", "device")
    while not _is_over(word, parity):
        await_change(bar.word, word, state=_STATE)
        word = bar.word.load("acquire", "device")


# Methods with one integer


def _with_integer(
    method: Callable[..., Any], since: Any, name: str, least: int, text: str, on_cpu: Callable[..., Any]
) -> None:
    """Makes a method whose only parameter is an integer, from `least` on, one instruction, or on CPU streams `on_cpu`."""

    @specialised(method, since=since)
    def _(bar: Known, number: Known) -> Callable[..., Any]:
        check_barrier(bar, method.__qualname__)
        help = "write x.nbytes, which arrays, tiles and maps have" if name == "nbytes" else ""
        check_integer(number, name, (least, MOST_ARRIVALS), help)
        return instruction(text, on_cpu, None, uint32)


_EXPECT = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$0], $1;"
_ARRIVE_AND_EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"
_with_integer(MBarrier.init, sm80, "count", 1, "mbarrier.init.shared.b64 [$0], $1;", _init_on_cpu)
_with_integer(MBarrier.expect_tx, sm90, "nbytes", 0, _EXPECT, _expect_on_cpu)
_with_integer(MBarrier.arrive_expect_tx, sm90, "nbytes", 0, _ARRIVE_AND_EXPECT, _arrive_and_expect_on_cpu)
