"""Asynchronous copies of boxes of an array, which one thread starts: `tma_load`, `tma_store`, `tma_reduce`, `tma_prefetch`.

    tile = shared_array((64, 64), bfloat16)
    if thread_idx.x == 0:
        bar.arrive_expect_tx(map.nbytes)
        tma_load(tile, map, (row, column), bar)           # bar.wait(parity): the box is there

`map` is a `TensorMap`, an argument of the kernel. What lies outside its array is read as its fill, and is not written.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from cuda_device import CompileError, DeviceOnlyError, int32, provides, ptx, sm90, sm100, target, uint16
from cuda_device.extend import Known, aligned, constant_of, model, specialised
from cuda_device.plugins.tensor_cores import box_copies, bulk_copies
from cuda_device.plugins.tensor_cores.mbarriers import check_barrier
from cuda_device.plugins.tensor_cores.single_instructions import as_tuple, instruction, nothing
from cuda_device.plugins.tensor_cores.swizzling import array_of, shown, swizzled_tile
from cuda_device.plugins.tensor_cores.tensor_maps import Boxes


def tma_load(dst: Any, map: Any, coords: Any, bar: Any, multicast: Any = None) -> None:
    """Starts to copy a box of the array of `map` to `dst` in shared memory, and completes `map.nbytes` on the barrier `bar`.

    `coords`, a tuple of integers in the order of the array's axes, are those of the box's first element; they may be negative.
    The box begins at a multiple of 16 bytes along the last axis, without which the hardware (H200) stops the kernel.
    `dst` is a contiguous array or a tile with as many elements as the box, in its order, swizzled as the map says, and aligned
    to 128 bytes, or as its pattern needs; a `shared_array` is aligned by itself. With `multicast`, a mask of the blocks of the
    cluster, each of these gets the box at the same place of its shared memory, and the bytes on its own barrier. Call it by one
    thread. Device only, for sm_90 and later. Raises `CompileError` for other arguments. PTX: cp.async.bulk.tensor.
    """
    raise DeviceOnlyError.of("tma_load")


def tma_store(map: Any, coords: Any, src: Any) -> None:
    """Starts to copy `src` in shared memory to a box of the array of `map`, as part of the thread's next group of copies.

    `coords` and `src` are like those of `tma_load`, but no coordinate is negative. Threads that have written to `src` call
    `fence_proxy_async` before the barrier that precedes the call. `bulk_commit` makes a group, for which `bulk_wait` waits.
    Device only, for sm_90 and later. Raises `CompileError` for other arguments and read-only arrays. PTX: cp.async.bulk.tensor.
    """
    raise DeviceOnlyError.of("tma_store")


def tma_reduce(map: Any, coords: Any, src: Any, op: str = "add") -> None:
    """Like `tma_store`, but combines the elements of the box with those of `src`, each atomically.

    `op` is one of the operations of `bulk_reduce`, for the same types, but not of bits of int64.
    PTX: cp.reduce.async.bulk.tensor.
    """
    raise DeviceOnlyError.of("tma_reduce")


def tma_prefetch(map: Any) -> None:
    """Brings the map itself, which is an argument of the kernel, into the cache, so that the first copy starts sooner.

    Device only, for sm_90 and later. PTX: prefetch.tensormap.
    """
    raise DeviceOnlyError.of("tma_prefetch")


# Arguments


def _boxes_of(map: Known, entity: str) -> Boxes:
    """What the type of a map says of its boxes."""
    boxes = getattr(getattr(map.type, "pointee", None), "host", None)
    boxes = getattr(boxes, "boxes", None)
    if not isinstance(boxes, Boxes):
        raise CompileError(
            f"{entity} takes a TensorMap that is an argument of the kernel, not {shown(map)}",
            help="pass TensorMap.of(array, box) to the kernel",
        )
    return boxes


def _check_coords(coords: Known, boxes: Boxes, entity: str, least: int | None = None) -> None:
    """Refuses coordinates that the hardware does not take; `least` is the least one, if there is one."""
    items = coords.items if isinstance(coords.type, model.Tuple) else (coords,)
    if not all(model.is_index(item.type) for item in items):
        raise CompileError(f"the coordinates of {entity} are integers, not {coords}", help="convert them, as in int(…)")
    if len(items) != len(boxes.box):
        raise CompileError(
            f"{entity} needs a coordinate for each of the {len(boxes.box)} axes of the map, not {len(items)}",
            help="give a tuple, in the order of the array's axes",
        )
    known = [item.value for item in items if isinstance(item.value, int)]
    if least is not None and known and min(known) < least:
        raise CompileError(
            f"{entity} takes no negative coordinate, and one is {min(known)}", help="store parts of the tile"
        )
    if isinstance(items[-1].value, int) and items[-1].value % boxes.unit:
        raise CompileError(
            f"the last coordinate of {entity} is {items[-1].value}, not a multiple of {boxes.unit} elements, which are 16 bytes",
            help="begin the box elsewhere",
        )


def _check_tile(tile: Known, boxes: Boxes, entity: str) -> None:
    """Refuses arrays that do not have the elements of a box in their order."""
    element, count, pattern = _memory_of(tile, entity)
    if element != boxes.element:
        reason = f"{entity} copies elements of one type, and the tile has {element} and the map {boxes.element}"
        raise CompileError(reason, help="make the tile of the map's type, or view it: x.view(…)")
    if count != boxes.count:
        shape = " x ".join(map(str, boxes.box))
        reason = f"the tile has {count} elements, and a box of the map {shape}"
        raise CompileError(reason, help=f"give a tile of {boxes.count} elements")
    if pattern != boxes.swizzle:
        names = [f"{bytes} bytes" if bytes else "none" for bytes in (pattern, boxes.swizzle)]
        wanted = f"swizzled(tile, {boxes.swizzle})" if boxes.swizzle else "a tile that is not swizzled"
        reason = f"the pattern of the tile is {names[0]}, and that of the map {names[1]}"
        raise CompileError(reason, help=f"give {wanted}, or make the map with swizzle={pattern}")


def _memory_of(known: Known, entity: str) -> tuple[Any, int, int]:
    """The type and number of the elements of a tile or array in shared memory, and the bytes of its pattern."""
    tile = swizzled_tile(known)
    if tile is not None:
        if tile.transposed or tile.pitch not in (0, tile.stored[0] * tile.pattern):
            help = "give the tile that it is a part of, or not its .T"
            raise CompileError(f"{entity} takes a contiguous tile, not {tile}", help=help)
        return tile.element, math.prod(tile.shape), tile.pattern
    type = known.type
    if not isinstance(type, model.Array) or type.space is not model.Space.SHARED or not type.lengths:
        help = "make it with shared_array(shape, dtype), and give it or a part of it, as in tiles[stage]"
        raise CompileError(f"{entity} takes a tile in shared memory of constant shape, not {known}", help=help)
    if type.layout is not model.Layout.C:
        raise CompileError(f"{entity} takes a contiguous tile, not {known}", help="give whole rows of a shared_array")
    return type.dtype, math.prod(type.lengths), 0


def _place(boxes: Boxes, first: int) -> str:
    """The coordinates in PTX, whose first axis is the contiguous one, from the operand `first` on."""
    return ", ".join(f"${first + axis}" for axis in reversed(range(len(boxes.box))))


# Operations: the device functions that are called in place of the entities


@specialised(tma_load, since=sm90)
def _(dst: Known, map: Known, coords: Known, bar: Known, multicast: Known) -> Callable[..., Any]:
    boxes = _boxes_of(map, "tma_load")
    _check_tile(dst, boxes, "tma_load")
    _check_coords(coords, boxes, "tma_load")
    check_barrier(bar, "tma_load")
    if multicast.constant and multicast.python is None:
        return _loader(boxes)
    if not model.is_index(multicast.type):
        raise CompileError(
            f"multicast is a mask of the blocks of the cluster, not {multicast}", help="write 0b11, for example"
        )
    return _caster(boxes)


_COMPLETES = "mbarrier::complete_tx::bytes"


@functools.cache
def _loader(boxes: Boxes) -> Callable[..., Any]:
    older, newer = (
        f"cp.async.bulk.tensor.{len(boxes.box)}d.shared::{space}.global.{_COMPLETES} [$0], [$1, {{{_place(boxes, 3)}}}], [$2];"
        for space in ("cluster", "cta")
    )
    alignment, on_cpu = boxes.alignment, box_copies.loader(boxes)

    def load(dst: Any, map: Any, coords: Any, bar: Any, _: Any) -> None:
        tile, place = aligned(array_of(dst), alignment), tuple(int32(c) for c in as_tuple(coords))
        ptx(newer if target(provides(sm100)) else older, tile, map, bar, *place, host=on_cpu)

    return load


@functools.cache
def _caster(boxes: Boxes) -> Callable[..., Any]:
    how = f"shared::cluster.global.{_COMPLETES}.multicast::cluster"
    template = f"cp.async.bulk.tensor.{len(boxes.box)}d.{how} [$0], [$1, {{{_place(boxes, 4)}}}], [$2], $3;"
    alignment, on_cpu = boxes.alignment, box_copies.caster(boxes)

    def load(dst: Any, map: Any, coords: Any, bar: Any, multicast: Any) -> None:
        tile, place = aligned(array_of(dst), alignment), tuple(int32(c) for c in as_tuple(coords))
        ptx(template, tile, map, bar, uint16(multicast), *place, host=on_cpu)

    return load


@specialised(tma_store, since=sm90)
def _(map: Known, coords: Known, src: Known) -> Callable[..., Any]:
    return _storer(_check_stored("tma_store", map, coords, src))


def _check_stored(entity: str, map: Known, coords: Known, src: Known) -> Boxes:
    boxes = _boxes_of(map, entity)
    _check_tile(src, boxes, entity)
    _check_coords(coords, boxes, entity, least=0)
    if boxes.readonly:
        raise CompileError(
            "the array of the map is read-only", help="make the map of an array that can be written, such as a copy"
        )
    return boxes


@functools.cache
def _storer(boxes: Boxes, op: str = "") -> Callable[..., Any]:
    """Returns the device function for a store, or for a reduction by an operation."""
    name, how = ("cp.reduce", f"{op}.tile.bulk_group") if op else ("cp", "bulk_group")
    copy = f"{name}.async.bulk.tensor.{len(boxes.box)}d.global.shared::cta.{how}"
    template = f"{copy} [$0, {{{_place(boxes, 2)}}}], [$1];"
    alignment, on_cpu = boxes.alignment, box_copies.storer(boxes, op)

    def store(map: Any, coords: Any, src: Any, *_: Any) -> None:
        place = tuple(int32(c) for c in as_tuple(coords))
        ptx(template, map, aligned(array_of(src), alignment), *place, host=on_cpu)

    return store


@specialised(tma_reduce, since=sm90)
def _(map: Known, coords: Known, src: Known, op: Known) -> Callable[..., Any]:
    boxes = _check_stored("tma_reduce", map, coords, src)
    bulk_copies.check_reduction(op, boxes.element)
    if boxes.element == model.INT64 and constant_of(op, "op") in ("and", "or", "xor"):
        raise CompileError(
            "tma_reduce combines bits of uint64, not of int64, on which the hardware (H200) stops the kernel",
            help="describe the array as uint64: TensorMap.of(x.view(uint64), …)",
        )
    return _storer(boxes, str(constant_of(op, "op")))


@specialised(tma_prefetch, since=sm90)
def _(map: Known) -> Callable[..., Any]:
    _boxes_of(map, "tma_prefetch")
    return instruction("prefetch.tensormap [$0];", nothing, None)
