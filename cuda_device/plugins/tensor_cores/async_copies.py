"""Asynchronous copies to shared memory by each thread, an element of 4, 8 or 16 bytes at a time: `cp_async`.

cp_async(tile.view(float32x4), (row, k), x.view(float32x4), (first + row, k), valid=first + row < len(x))
cp_async_commit()
...
cp_async_wait(1)                        all copies but those of the last group are there: this thread's
syncthreads()                           and everyone's
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cuda_device import CompileError, DeviceOnlyError, ptx, sm80, uint32, uint32x2, uint32x4
from cuda_device.extend import Known, aligned, copies, layout, model, specialised
from cuda_device.plugins.tensor_cores.mbarriers import check_barrier
from cuda_device.plugins.tensor_cores.single_instructions import as_tuple, groups, help_for_captured, instruction
from cuda_device.plugins.tensor_cores.swizzling import Tile, array_of, byte_offset, tile_of

KIND = "cp_async"
"""The name of these copies for the race detector."""
_OTHERWISE = "assign the element"


def cp_async(dst: Any, i: Any, src: Any, j: Any, valid: bool = True) -> None:
    """Starts to copy the element `src[j]` in global memory to `dst[i]` in shared memory, or zeros if not `valid`.

    The elements are of one type of 4, 8 or 16 bytes, aligned to at least 4: a vector such as float32x4, if need be by
    `x.view(float32x4)`. Those that are less aligned than their size, such as structs, are copied in parts. `i` and `j` are
    integers or tuples of integers, which are checked like those of `dst[i]`; `dst` may be a swizzled tile of such elements. If
    not `valid`, nothing is read, and `j` may be out of bounds. The element may be read only when the thread has waited with
    `cp_async_wait`, or on a barrier (`cp_async_arrive`); the other threads see it after a barrier that follows.

    Device only, for sm_80 and later. Raises `CompileError` for other arguments. PTX: cp.async.
    """
    raise DeviceOnlyError.of("cp_async")


def cp_async_commit() -> None:
    """Makes a group of the copies that this thread has started by `cp_async`. Needs sm_80. PTX: cp.async.commit_group."""
    raise DeviceOnlyError.of("cp_async_commit")


def cp_async_wait(pending: int = 0) -> None:
    """Waits until at most the last `pending` groups of this thread are in flight; a constant. PTX: cp.async.wait_group.

    Device only, for sm_80 and later.
    """
    raise DeviceOnlyError.of("cp_async_wait")


def cp_async_arrive(bar: Any) -> None:
    """Makes one of the arrivals that the barrier `bar` counts, when all copies that this thread has started have ended.

    `bar` is an `MBarrier` in shared memory; whoever waits for its phase sees the elements. Device only, for sm_80 and later.
    PTX: cp.async.mbarrier.arrive.noinc.
    """
    raise DeviceOnlyError.of("cp_async_arrive")


@specialised(cp_async, since=sm80, otherwise=_OTHERWISE)
def _(dst: Known, i: Known, src: Known, j: Known, valid: Known) -> Callable[..., Any]:
    tile, ndim = _destination(dst)
    element = tile.element if tile else dst.type.dtype  # type: ignore[union-attr]
    source = src.type
    if not isinstance(source, model.Array) or source.space not in (model.Space.GLOBAL, model.Space.GENERIC):
        raise CompileError(
            f"cp_async copies from an array in global memory, not {src}", help=help_for_captured(src, _ORDER)
        )
    if source.dtype != element:
        raise CompileError(
            f"cp_async copies elements of one type, not from {source.dtype} to {element}",
            help="view one array as the other type: x.view(…)",
        )
    size = layout.size_of(element)
    part = min(size, layout.align_of(element))
    if size not in (4, 8, 16) or part < 4:
        raise CompileError(
            f"cp_async copies elements of 4, 8 or 16 bytes, aligned to at least 4, not {element}",
            help="view both arrays as elements that are: x.view(float32x4), for example",
        )
    if source.align:
        help = "copy the array on the host, or view it as smaller elements"
        raise CompileError(
            f"cp_async copies elements that are aligned as their type asks, not those of {src}", help=help
        )
    for index, axes in ((i, ndim), (j, source.ndim)):
        _check_index(index, axes)
    if not isinstance(valid.type, model.Number) or valid.type.is_complex:
        raise CompileError(f"valid must be a bool, not {valid}", help="write a comparison")
    return _copier(tile, part, size // part)


_ORDER = "write cp_async(dst, i, src, j), with dst in shared memory and src in global memory"


def _destination(dst: Known) -> tuple[Tile | None, int]:
    """The type of a swizzled tile, or None for an array in shared memory; and the number of axes."""
    if isinstance(dst.type, model.Struct):
        return tile_of(dst, "cp_async"), 2
    if not isinstance(dst.type, model.Array) or dst.type.space is not model.Space.SHARED:
        raise CompileError(f"cp_async copies to an array in shared memory, not {dst}", help=_ORDER)
    return None, dst.type.ndim


def _check_index(index: Known, ndim: int) -> None:
    items = index.items if isinstance(index.type, model.Tuple) else (index,)
    if len(items) != ndim or not all(model.is_index(item.type) for item in items):
        what = "an integer" if ndim == 1 else f"a tuple of {ndim} integers"
        raise CompileError(f"cp_async takes {what} as the index of this array, not {index}", help="index one element")


@functools.cache
def _copier(tile: Tile | None, size: int, count: int) -> Callable[..., Any]:
    """The device function that copies an element in so many parts of `size` bytes."""
    offset = _offset if tile is None else _offset_in(tile)
    to = ".reg .b32 to; cvt.u32.u64 to, $0; add.u32 to, to, $1;"
    template = f"{{ {to} cp.async.{'cg' if size == 16 else 'ca'}.shared.global [to], [$2], {size}, $3; }}"
    word, zeros, parts = {4: uint32, 8: uint32x2, 16: uint32x4}[size], (0,) * (size // 4), tuple(range(count))

    def copy(dst: Any, i: Any, src: Any, j: Any, valid: Any) -> None:
        source = (src.pointer(*as_tuple(j)) if valid else src.pointer()).cast(word)
        array, first = array_of(dst) if tile else aligned(dst, size), uint32(offset(dst, as_tuple(i)))
        for k in parts:
            ptx(template, array, first + k * size, source + k, uint32(size if valid else 0), host=on_cpu)

    def on_cpu(array: Any, position: Any, source: Any, nbytes: Any) -> None:
        target = array.pointer().cast(word)
        copies.begin_copy(KIND)
        target[position // size] = source[0] if nbytes > 0 else word(*zeros)
        copies.end_copy()

    return copy


def _offset(array: Any, index: Any) -> Any:
    """The bytes from the beginning of an array to an element."""
    array.pointer(*index)  # which in checked mode checks the index, and else is nothing
    return sum([(i + n if i < 0 else i) * step for i, n, step in zip(index, array.shape, array.strides)])  # noqa: B905


def _offset_in(tile: Tile) -> Callable[[Any, Any], Any]:
    """The same for a swizzled tile."""
    offset = byte_offset(tile)
    return lambda _, index: offset(*index)


# Waiting


groups(cp_async_commit, cp_async_wait, "cp.async", KIND, sm80)


@specialised(cp_async_arrive, since=sm80)
def _(bar: Known) -> Callable[..., Any]:
    check_barrier(bar, "cp_async_arrive")
    return instruction("cp.async.mbarrier.arrive.noinc.shared.b64 [$0];", _arrive_on_cpu, None)


def _arrive_on_cpu(bar: Any) -> None:
    copies.begin_copy(KIND)
    copies.await_copies(KIND, None)
    bar.arrive()
    copies.end_copy()
