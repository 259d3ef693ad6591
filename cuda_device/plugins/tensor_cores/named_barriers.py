"""Named barriers: `barrier_sync` and `barrier_arrive`, by which some of the warps of a block wait for each other.

    if warp < 4:                    # four warps that produce
        tile[t] = …
        barrier_arrive(1, 256)
    else:                           # four warps that consume
        barrier_sync(1, 256)
        … = tile[t]

On CPU streams, the word of each barrier in `block_words` is, from its highest bit to its lowest:

    phase: 6 | number: 4 | threads: 11 | arrived: 11
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import int32, uint32

from cuda_device import CompileError, DeviceOnlyError, atomic_ref, ballot_sync, ffs, lane_id, shfl_sync, sm75
from cuda_device.extend import Known, await_change, block_words, specialised
from cuda_device.plugins.tensor_cores.single_instructions import check_integer, instruction

BARRIERS = 16
_MOST_THREADS, _WARP = 1024, 32


def barrier_sync(i: int, threads: int) -> None:
    """Arrives at barrier `i` of the block, and waits until `threads` threads have arrived, with or without waiting.

    `i` is from 0 to 15; barrier 0 is that of `syncthreads`. `threads` is a multiple of 32 up to 1024, the same for all that
    arrive: a warp counts as 32. All lanes of a warp that have not returned call it together. Earlier writes of the threads that
    have arrived are then visible to those that wait. Both may be known only at run time, but constants need fewer resources.
    Device code only, for sm_75 and later; CPU streams report other numbers. PTX: bar.sync.
    """
    raise DeviceOnlyError.of("barrier_sync")


def barrier_arrive(i: int, threads: int) -> None:
    """Arrives at barrier `i` of the block without waiting, with the parameters of `barrier_sync`.

    A warp must not arrive again before the others have. Device code only, for sm_75 and later. PTX: bar.arrive.
    """
    raise DeviceOnlyError.of("barrier_arrive")


@specialised(barrier_sync, since=sm75)
def _(i: Known, threads: Known) -> Callable[..., Any]:
    _check(i, threads)
    return instruction("bar.sync $0, $1;", _sync_on_cpu, uint32, uint32)


@specialised(barrier_arrive, since=sm75)
def _(i: Known, threads: Known) -> Callable[..., Any]:
    _check(i, threads)
    return instruction("bar.arrive $0, $1;", _arrive_on_cpu, uint32, uint32)


def _check(i: Known, threads: Known) -> None:
    check_integer(i, "i")
    check_integer(threads, "threads")
    if isinstance(i.value, int) and not 0 <= i.value < BARRIERS:
        raise CompileError(f"there is no barrier {i.value}: a block has 16", help="give a number from 0 to 15")
    if isinstance(threads.value, int) and (threads.value % _WARP or not 0 < threads.value <= _MOST_THREADS):
        raise CompileError(
            f"threads must be a multiple of 32 from 32 to 1024, not {threads.value}", help="count 32 for each warp"
        )


# On CPU streams

_FIELD = 11
_NUMBER, _PHASE = 2 * _FIELD, 26
_MOST = (1 << _FIELD) - 1
_STATE = (
    f"named barrier {{0:bits {_NUMBER} 4}}: {{0:bits 0 {_FIELD}}} of {{0:bits {_FIELD} {_FIELD}}} threads have arrived"
)


def _sync_on_cpu(i: Any, threads: Any) -> None:
    _check_number(i)
    word = atomic_ref(block_words(), i)
    leader = _leader(word)
    phase = uint32(0)
    if lane_id == leader:
        phase = _counted(word, i, threads)
    phase = shfl_sync(-1, phase, leader)
    now = word.load("acquire", "device")
    while now >> _PHASE == phase:
        await_change(word, now, state=_STATE)
        now = word.load("acquire", "device")


def _arrive_on_cpu(i: Any, threads: Any) -> None:
    _check_number(i)
    word = atomic_ref(block_words(), i)
    if lane_id == _leader(word):
        _counted(word, i, threads)


def _check_number(i: Any) -> None:
    if i >= BARRIERS:
        raise ValueError(f"there is no barrier {i}: a block has 16", "give a number from 0 to 15")


def _leader(word: Any) -> Any:
    """The first lane of the warp that has not returned; waits for the others, which release what they have written."""
    word.add(uint32(0), "release", "device")
    return int32(ffs(ballot_sync(-1, True)) - 1)


def _counted(word: Any, i: Any, threads: Any) -> Any:
    """Counts the arrival of a warp; returns the number of the phase."""
    if threads % _WARP != 0 or threads == 0 or threads > _MOST_THREADS:
        raise ValueError(f"threads must be a multiple of 32 from 32 to 1024, not {threads}", "count 32 for each warp")
    while True:  # until no other warp has arrived meanwhile, as a schedule may have it
        now = word.load("relaxed", "device")
        arrived, expected = (now & _MOST) + _WARP, now >> _FIELD & _MOST
        if arrived > _WARP and expected != threads:
            raise RuntimeError(
                f"a warp arrives at a barrier of {threads} threads, at which others have arrived as one of {expected}",
                "give all warps the same number of threads",
            )
        header = now >> _PHASE << _PHASE | uint32(i) << _NUMBER
        after = header + (1 << _PHASE) if arrived == threads else header | threads << _FIELD | arrived
        if word.cas(now, after, "release", "device") == now:
            return now >> _PHASE
