"""Asynchronous copies of contiguous memory, which one thread starts: `bulk_load`, `bulk_store`, `bulk_reduce`.

    if thread_idx.x == 0:
        bar.arrive_expect_tx(tile.nbytes)
        bulk_load(tile, x[first : first + 1024], bar)       # bar.wait(parity): the elements are there
    ...
    fence_proxy_async()                                     # by each thread that has written to the tile
    syncthreads()
    if thread_idx.x == 0:
        bulk_store(out[first : first + 1024], tile)
        bulk_commit()
        bulk_wait()

Loads complete their bytes on a barrier. Stores and reductions belong to groups, for which the thread that started them waits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from operator import add
from typing import Any

from cuda_device import (
    CompileError,
    DeviceOnlyError,
    atomic_ref,
    provides,
    ptx,
    sm90,
    sm100,
    target,
    uint16,
    uint32,
    uint64,
)
from cuda_device.extend import Known, aligned, constant_of, copies, layout, model, specialised
from cuda_device.plugins.tensor_cores.mbarriers import UNIT, check_barrier, complete_bytes
from cuda_device.plugins.tensor_cores.reductions import combiner_by_swaps
from cuda_device.plugins.tensor_cores.single_instructions import groups, help_for_captured

KIND = "bulk"
"""The name of these copies for the race detector."""


def bulk_load(dst: Any, src: Any, bar: Any) -> None:
    """Starts to copy the array `src` in global memory to `dst` in shared memory, and completes its bytes on the barrier `bar`.

    Both arrays are contiguous and of one type and size, a multiple of 16 bytes, and aligned to 16 bytes; a `shared_array` is
    aligned by itself. Call it by one thread, which also tells the barrier to expect `dst.nbytes`. Device only, for sm_90 and
    later. Raises `CompileError` for other arguments, as far as they are known. PTX: cp.async.bulk.
    """
    raise DeviceOnlyError.of("bulk_load")


def bulk_store(dst: Any, src: Any) -> None:
    """Starts to copy the array `src` in shared memory to `dst` in global memory, as part of the thread's next group.

    The arrays are like those of `bulk_load`. Threads that have written to `src` call `fence_proxy_async` before the barrier that
    precedes the call. `bulk_commit` makes a group, for which `bulk_wait` waits. Device only, for sm_90 and later. PTX:
    cp.async.bulk.
    """
    raise DeviceOnlyError.of("bulk_store")


def bulk_reduce(dst: Any, src: Any, op: str = "add") -> None:
    """Like `bulk_store`, but combines the elements of `dst` with those of `src`, each atomically.

    `op` is "add", for integers of 32 bits, uint64, float16, bfloat16 and float32, "min" or "max", for integers of 32 and 64
    bits, float16 and bfloat16, or "and", "or" or "xor", for integers of 32 and 64 bits. Device only, for sm_90 and later. PTX:
    cp.reduce.async.bulk.
    """
    raise DeviceOnlyError.of("bulk_reduce")


def bulk_commit() -> None:
    """Makes a group of the stores and reductions that this thread has started, by `tma_store` and its like, too.

    Device only, for sm_90 and later. PTX: cp.async.bulk.commit_group.
    """
    raise DeviceOnlyError.of("bulk_commit")


def bulk_wait(pending: int = 0, read: bool = False) -> None:
    """Waits until at most the last `pending` groups of this thread are in flight.

    With `read`, it only waits until they have read shared memory, which may then be written again; a block does not end before.
    Both are constants. Device only, for sm_90 and later. PTX: cp.async.bulk.wait_group.
    """
    raise DeviceOnlyError.of("bulk_wait")


# Arguments


def check_reduction(op: Known, element: Any) -> str:
    """The operation and the type of a reduction in PTX. Raises `CompileError`."""
    name = constant_of(op, "op")
    if not isinstance(name, str) or name not in _REDUCTIONS:
        raise CompileError(f"op={name!r} is not a reduction", help=f"write one of {', '.join(map(repr, _REDUCTIONS))}")
    if element not in _REDUCTIONS[name]:
        listed = ", ".join(map(str, _REDUCTIONS[name]))
        raise CompileError(f"the hardware has no reduction {name!r} of {element}", help=f"it is for {listed}")
    if name in ("and", "or", "xor"):
        return f"{name}.b{element.bits}"
    rounds = ".noftz" if name == "add" and element in _HALVES else ""
    return f"{name}{rounds}.{_IN_PTX[element]}"


_IN_PTX = {
    model.INT32: "s32", model.UINT32: "u32", model.INT64: "s64", model.UINT64: "u64", model.FLOAT16: "f16",
    model.BFLOAT16: "bf16", model.FLOAT32: "f32",
}  # fmt: skip
_INTEGERS, _HALVES = tuple(_IN_PTX)[:4], (model.FLOAT16, model.BFLOAT16)
_REDUCTIONS = {
    "add": (model.INT32, model.UINT32, model.UINT64, *_HALVES, model.FLOAT32),
    **dict.fromkeys(("min", "max"), (*_INTEGERS, *_HALVES)),
    **dict.fromkeys(("and", "or", "xor"), _INTEGERS),
}
"""The types of the elements, by operation."""


def _array(known: Known, entity: str, in_shared: bool) -> model.Array:
    """The type of a contiguous array in shared or in global memory."""
    type, space = known.type, "shared" if in_shared else "global"
    is_there = isinstance(type, model.Array) and (type.space is model.Space.SHARED) == in_shared
    if not isinstance(type, model.Array) or not is_there or type.space is model.Space.LOCAL:
        help = help_for_captured(known, _ORDER[entity])
        raise CompileError(f"{entity} takes an array in {space} memory here, not {known}", help=help)
    if type.layout is not model.Layout.C:
        raise CompileError(f"{entity} takes contiguous arrays, not {known}", help="copy its rows one by one")
    return type


_ORDER = {
    "bulk_load": "write bulk_load(dst, src, bar), with dst in shared memory and src in global memory",
    **{
        name: f"write {name}(dst, src), with dst in global memory and src in shared memory"
        for name in ("bulk_store", "bulk_reduce")
    },
}


def _check_arrays(entity: str, dst: Known, src: Known) -> model.Array:
    """The type of the array in shared memory, if a copy between the arrays is possible."""
    target, source = (_array(known, entity, (entity == "bulk_load") == (known is dst)) for known in (dst, src))
    if target.dtype != source.dtype:
        reason = f"{entity} copies elements of one type, not from {source.dtype} to {target.dtype}"
        raise CompileError(reason, help="view one array as the other type: x.view(…)")
    if target.readonly:
        raise CompileError("the array is read-only", help="pass an array that can be written")
    sizes = [math.prod(type.lengths) * layout.size_of(type.dtype) for type in (target, source) if type.lengths]
    if len({*sizes}) > 1:
        raise CompileError(f"{entity} copies {sizes[1]} bytes to {sizes[0]} bytes", help="give arrays of the same size")
    if sizes and sizes[0] % UNIT:
        raise CompileError(f"{entity} copies multiples of {UNIT} bytes, not {sizes[0]}", help="make the arrays longer")
    return source if target.space is not model.Space.SHARED else target


# Operations: the device functions that are called in place of the entities


@specialised(bulk_load, since=sm90)
def _(dst: Known, src: Known, bar: Known) -> Callable[..., Any]:
    _check_arrays("bulk_load", dst, src)
    check_barrier(bar, "bulk_load")
    return _load


_LOAD, _LOAD_NEWER = (
    f"cp.async.bulk.shared::{space}.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];"
    for space in ("cluster", "cta")
)
"""Before sm_100, PTX that old drivers read. On sm_120, only the newer form is one instruction."""


def _load(dst: Any, src: Any, bar: Any) -> None:
    template = _LOAD_NEWER if target(provides(sm100)) else _LOAD
    ptx(template, aligned(dst, UNIT), src, uint32(dst.nbytes), bar, host=_load_on_cpu)


@specialised(bulk_store, since=sm90)
def _(dst: Known, src: Known) -> Callable[..., Any]:
    _check_arrays("bulk_store", dst, src)
    return _storer("cp.async.bulk.global.shared::cta.bulk_group", _store_on_cpu)


@functools.cache
def _storer(instruction: str, on_cpu: Callable[..., None]) -> Callable[..., Any]:
    def store(dst: Any, src: Any, *_: Any) -> None:
        ptx(f"{instruction} [$0], [$1], $2;", dst, aligned(src, UNIT), uint32(src.nbytes), host=on_cpu)

    return store


@specialised(bulk_reduce, since=sm90)
def _(dst: Known, src: Known, op: Known) -> Callable[..., Any]:
    element = _check_arrays("bulk_reduce", dst, src).dtype
    instruction = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{check_reduction(op, element)}"
    return _storer(instruction, _reducer_on_cpu(str(constant_of(op, "op")), element))


@functools.cache
def _reducer_on_cpu(op: str, element: Any) -> Callable[..., None]:
    combine = combiner(op, element)

    def reduce(dst: Any, src: Any, nbytes: Any) -> None:
        _check_memory(dst, src, nbytes)
        copies.begin_copy(KIND, proxy=True)
        target, source = dst.pointer(), src.pointer()
        for i in range(src.size):
            combine(target, i, source[i])
        copies.end_copy()

    return reduce


groups(bulk_commit, bulk_wait, "cp.async.bulk", KIND, sm90)


# The same on CPU streams: the copy is made at once


def _load_on_cpu(dst: Any, src: Any, nbytes: Any, bar: Any) -> None:
    _check_memory(src, dst, nbytes)
    copies.begin_copy(KIND, proxy=True)
    _copy(dst, src, nbytes)
    complete_bytes(bar, nbytes)
    copies.end_copy()


def _store_on_cpu(dst: Any, src: Any, nbytes: Any) -> None:
    _check_memory(dst, src, nbytes)
    copies.begin_copy(KIND, proxy=True)
    _copy(dst, src, nbytes)
    copies.end_copy()


def _check_memory(far: Any, near: Any, nbytes: Any) -> None:
    """Reports arrays that no hardware copies: `far` is in global memory, `near` in shared memory."""
    if far.nbytes != near.nbytes:
        raise ValueError(f"a copy of {near.nbytes} bytes to or from {far.nbytes} bytes", "give arrays of the same size")
    if nbytes % UNIT != 0:
        raise ValueError(f"a copy of {nbytes} bytes, not a multiple of 16", "make the arrays longer")
    if far.pointer().address % UNIT != 0:
        raise ValueError(
            "the array in global memory does not begin at a multiple of 16 bytes", "begin elsewhere, or copy it"
        )


def _copy(dst: Any, src: Any, nbytes: Any) -> None:
    target, source = dst.pointer().cast(uint64), src.pointer().cast(uint64)
    for i in range(nbytes // 8):
        target[i] = source[i]


@functools.cache
def combiner(op: str, element: Any) -> Callable[[Any, Any, Any], None]:
    """Returns the device function that combines, atomically, the element behind a pointer with a value."""
    if element in _HALVES:
        return combiner_by_swaps({"add": add, "min": _least, "max": _greatest}[op], element)
    method = {"and": "and_", "or": "or_"}.get(op, op)

    def combine(pointer: Any, i: Any, value: Any) -> None:
        getattr(atomic_ref(pointer, i), method)(value, "relaxed", "device")

    return combine


def _least(a: Any, b: Any) -> Any:
    """The smaller number, where -0.0 is less than 0.0; NaN is ignored."""
    return b if a != a or b < a or (b == a and b.view(uint16) > a.view(uint16)) else a


def _greatest(a: Any, b: Any) -> Any:
    """The larger number, where 0.0 is greater than -0.0; NaN is ignored."""
    return b if a != a or b > a or (b == a and b.view(uint16) < a.view(uint16)) else a
