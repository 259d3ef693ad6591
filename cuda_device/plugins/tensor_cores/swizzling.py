"""Tiles of shared memory, plain or in the order in which tensor cores and tensor maps read and write them.

    t = swizzled(shared_array((64, 64), bfloat16), 128)         rows of 128 bytes
    t[i, j]                                                     the element in row i and column j, wherever it is
    swizzled(shared_array((4, 64, 64), bfloat16), 128)          four panels side by side: 64 rows of 256 elements
    rows(t, 8 * warp, 8)                                        eight of the rows

In a pattern of 128, 64 or 32 bytes, the number of each chunk of 16 bytes within its row is combined by exclusive or with three,
two or one bits of the number of the row, so that eight rows of a column are in different banks.

A tile is a two-dimensional contiguous array in shared memory of constant shape, or a struct around the array, of a class for each
pattern. `Tile` describes either to the entities that take one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cuda_device import CompileError, DeviceOnlyError, func, ptx, struct
from cuda_device.extend import (
    Known,
    aligned,
    constant_of,
    dataclass,
    displaced,
    layout,
    model,
    replace,
    specialised,
    type_argument,
)
from cuda_device.plugins.tensor_cores.single_instructions import check_integer

_SHIFTS = {128: 0, 64: 1, 32: 2}
"""By the bytes of a pattern, the lowest bit of a row's number that is combined with the number of a chunk."""
_HELP = (
    "a tile is shared_array((rows, columns), T), a part of one such as tiles[stage], or swizzled(…) of these; "
    "for a TileLayout write layout.tile(array, stage)"
)
_HELP_FOR_SLICES = "a slice has no constant shape: write rows(tile, start, count), or one axis more and tiles[stage]"


def swizzled(tile: Any, bytes: int) -> Any:
    """Returns a tile whose memory is in the hardware's pattern of 32, 64 or 128 bytes, a constant, as tensor maps write it.

    `tile` is a contiguous array in shared memory of constant shape, whose rows have exactly `bytes` bytes. One with two axes has
    the shape (rows, w). One with three axes, (p, rows, w), is p panels side by side: logically a tile of the shape
    (rows, p * w). The memory must be aligned to 8 * `bytes` bytes: a `shared_array` that is so used is aligned by itself.

    `t[i, j]` is the element in row i and column j of the logical tile, and can be assigned to; `t.shape`, `t.size`, `t.dtype`
    and `t.nbytes` are those of an array of the logical shape, `t.T` is the transposed tile, and `t.view(T)` the tile with
    elements of another type, for example vectors, of up to 16 bytes. A swizzled tile is taken wherever a tile is. Device only.
    Raises `CompileError` for other arrays and numbers of bytes. Source: PTX, "Swizzling modes".
    """
    raise DeviceOnlyError.of("swizzled")


def rows(tile: Any, start: Any, count: int) -> Any:
    """Returns the tile of `count` rows of a tile, plain or swizzled, from the row `start` on. It shares the tile's memory.

    `count` is a constant. `start` may be known at run time only; it is a multiple of 8, the rows after which patterns repeat.
    Device only. Raises `CompileError` for rows that the tile does not have, where they are constants, and otherwise on CPU
    streams a `KernelError`.
    """
    raise DeviceOnlyError.of("rows")


# What the compiler knows of a tile


@dataclass(frozen=True)
class Tile:
    """The type of a tile, by which entities choose their code. Its array is `array_of(tile)`."""

    element: Any
    """The type of the elements, a class of `extend.model`."""
    shape: tuple[int, int]
    """The logical shape."""
    pattern: int = 0
    """The bytes of the pattern; 0 for a plain tile."""
    pitch: int = 0
    """The bytes from one panel to the next."""
    transposed: bool = False
    """Whether the rows of the memory are the columns of the tile."""

    @property
    def stored(self) -> tuple[int, int]:
        """The logical shape as it is in memory: each row is contiguous within a panel."""
        return self.shape[::-1] if self.transposed else self.shape

    @property
    def width(self) -> int:
        """The elements of a row of the memory that are contiguous."""
        return self.pattern // layout.size_of(self.element) or self.stored[1]

    def __str__(self) -> str:
        pattern = f", swizzled by {self.pattern} bytes" if self.pattern else ""
        return f"a tile of {self.shape[0]} x {self.shape[1]} {self.element}{pattern}{', transposed' * self.transposed}"


def swizzled_tile(known: Known) -> Tile | None:
    """Describes the swizzled tile that a value is, or None for other values."""
    tile = getattr(getattr(known.type, "host", None), "tile", None)
    return tile if isinstance(tile, Tile) else None


def tile_of(known: Known, entity: str) -> Tile:
    """Describes the tile that an argument of an entity is. Raises `CompileError` for other values."""
    tile = swizzled_tile(known)
    if tile is not None:
        return tile
    array = _shared_array(known, 2)
    if array is None:
        raise CompileError(
            f"{entity} takes a tile, a two-dimensional array in shared memory, not {known}",
            help=_HELP_FOR_SLICES if _is_open(known) else _HELP,
        )
    return Tile(array.dtype, (array.lengths[0], array.lengths[1]))


def shown(known: Known) -> str:
    """What messages call an argument: a swizzled tile by its shape, and other values by their types."""
    return str(swizzled_tile(known) or known)


def _shared_array(known: Known, *ndims: int) -> model.Array | None:
    """The type of a contiguous array in shared memory of constant shape with so many axes, or None for other values."""
    type = known.type
    if not isinstance(type, model.Array) or type.space is not model.Space.SHARED or not type.lengths:
        return None
    return type if type.layout is model.Layout.C and type.ndim in ndims else None


def _is_open(known: Known) -> bool:
    """Whether a value is an array in shared memory whose shape is not constant, such as a slice."""
    type = known.type
    return isinstance(type, model.Array) and type.space is model.Space.SHARED and not type.lengths


def array_of(tile: Any) -> Any:
    """The array of a tile in memory: of the axes (rows, columns) or (panels, rows, columns)."""
    return getattr(tile, "array", tile)


@functools.cache
def byte_offset(tile: Tile) -> Callable[[Any, Any], Any]:
    """Returns the device function that computes the offset of the element in a row and a column, in bytes."""
    position, size, width, pitch = index_in(tile), layout.size_of(tile.element), tile.width, tile.pitch

    def offset(row: Any, column: Any) -> Any:
        index = position(row, column)
        within = (index[-2] * width + index[-1]) * size
        return index[0] * pitch + within if pitch else within

    return offset


@functools.cache
def index_in(tile: Tile) -> Callable[[Any, Any], Any]:
    """Returns the device function that computes, from a row and a column, the index of an element in the tile's array.

    Negative numbers count from the end, there as here: the exclusive or changes only bits below the length of an axis.
    """
    width, panels, transposed = tile.width, bool(tile.pitch), tile.transposed
    shift, mask = _SHIFTS.get(tile.pattern, 0), (tile.pattern // 16 or 1) - 1
    chunk = 16 // layout.size_of(tile.element)
    length, repeats = tile.stored[0], tile.stored[0] % 8 == 0

    def position(row: Any, column: Any) -> Any:
        i, j = (int(column), int(row)) if transposed else (int(row), int(column))
        turned = i if repeats or i >= 0 else i + length
        bits = (turned >> shift & mask) * chunk
        return (j // width, i, j % width ^ bits) if panels else (i, j ^ bits)

    return position


# The structs of swizzled tiles


def _index(tile: Any, index: Any) -> Any:
    """The index of an element in the tile's array."""
    raise DeviceOnlyError.of("t[i, j] of a swizzled tile")


@specialised(_index)
def _(tile: Known, index: Known) -> Callable[..., Any]:
    items = index.items if isinstance(index.type, model.Tuple) else ()
    if len(items) != 2 or not all(model.is_index(item.type) for item in items):
        raise CompileError(f"the index of a swizzled tile is a row and a column, not {index}", help="write t[i, j]")
    return _of_pair(index_in(tile_of(tile, "t[i, j]")))


@functools.cache
def _of_pair(position: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda _, index: position(index[0], index[1])


def _getitem(self: Any, index: Any) -> Any:
    return self.array[_index(self, index)]


def _setitem(self: Any, index: Any, value: Any) -> None:
    self.array[_index(self, index)] = value


def _dtype(self: Any) -> Any:
    return self.array.dtype


def _transposed(tile: Any) -> Any:
    """The transposed tile."""
    raise DeviceOnlyError.of("T of a swizzled tile")


@specialised(_transposed)
def _(tile: Known) -> Callable[..., Any]:
    turned = tile_of(tile, "T")
    return _wrapped(replace(turned, shape=turned.shape[::-1], transposed=not turned.transposed))


def _transpose(self: Any) -> Any:
    return _transposed(self)


def _viewed(self: Any, dtype: Any) -> Any:
    """The tile with other elements."""
    raise DeviceOnlyError.of("view of a swizzled tile")


@specialised(_viewed)
def _(tile: Known, dtype: Known) -> Callable[..., Any]:
    old, element = tile_of(tile, "view"), type_argument(dtype, "the dtype of view")
    if old.transposed:
        raise CompileError("view takes a tile, not a transposed one", help="write t.view(…).T")
    sizes = layout.size_of(old.element), layout.size_of(element)
    if 16 % sizes[1]:
        raise CompileError(
            f"a swizzled tile has no elements of {sizes[1]} bytes", help="give them 1, 2, 4, 8 or 16 bytes"
        )
    return _viewer(replace(old, element=element, shape=(old.shape[0], old.shape[1] * sizes[0] // sizes[1])))


@functools.cache
def _viewer(tile: Tile) -> Callable[[Any, Any], Any]:
    cls = _tile_class(tile)
    return lambda other, dtype: cls(array_of(other).view(dtype))


@functools.cache
def _tile_class(tile: Tile) -> Any:
    """The struct of the tiles of a type."""
    members = {"array": model.Array(tile.element, 3 if tile.pitch else 2)}
    size = tile.shape[0] * tile.shape[1]
    names: dict[str, Any] = {"tile": tile, "shape": tile.shape, "ndim": 2, "size": size, "transposed": tile.transposed}
    names["nbytes"] = size * layout.size_of(tile.element)
    names |= {"dtype": property(_dtype), "T": property(_transpose)}
    names |= {"__getitem__": func(_getitem), "__setitem__": func(_setitem), "view": _viewed}
    return struct(type(f"swizzled{tile.pattern}", (), {"__annotations__": members, "__module__": __name__, **names}))


@functools.cache
def _wrapped(tile: Tile) -> Callable[[Any], Any]:
    """Returns the device function that sees the memory of another tile as a tile of this type."""
    cls = _tile_class(tile)
    return lambda other: cls(array_of(other))


# Their makers


@specialised(swizzled)
def _(tile: Known, bytes: Known) -> Callable[..., Any]:
    pattern, array = constant_of(bytes, "bytes"), _shared_array(tile, 2, 3)
    if not isinstance(pattern, int) or pattern not in _SHIFTS:
        raise CompileError(
            f"the hardware has no pattern of {pattern} bytes", help="the patterns have 32, 64 or 128 bytes"
        )
    if array is None:
        raise CompileError(
            f"swizzled takes a contiguous array of two or three axes in shared memory, not {tile}",
            help=_HELP_FOR_SLICES
            if _is_open(tile)
            else "write shared_array((rows, columns), T), or a part of one such as tiles[stage]; for a TileLayout "
            "shared_array(layout.stages(n), T)",
        )
    (*panels, count, width), size = array.lengths, layout.size_of(array.dtype)
    if size * width != pattern or 16 % size:
        shape = f"(panels, rows, {pattern // size})"
        raise CompileError(
            f"a row of the tile has {size * width} bytes, and the pattern {pattern}",
            help=f"give it rows of {pattern // size} elements; more columns are panels, shared_array({shape}, T)",
        )
    if panels and count % 8:
        raise CompileError(f"a panel has {count} rows, but the pattern repeats after 8", help="make it a multiple of 8")
    return _swizzler(Tile(array.dtype, (count, width * (panels or [1])[0]), pattern, count * pattern if panels else 0))


@functools.cache
def _swizzler(tile: Tile) -> Callable[[Any, Any], Any]:
    cls, alignment = _tile_class(tile), 8 * tile.pattern
    return lambda array, _: cls(aligned(array, alignment))


@specialised(rows)
def _(tile: Known, start: Known, count: Known) -> Callable[..., Any]:
    whole, n, first = tile_of(tile, "rows"), constant_of(count, "count"), start.value if start.constant else 0
    length = whole.shape[0]
    if whole.transposed:
        raise CompileError("rows takes a tile, not a transposed one", help="write rows(t, …).T for columns")
    if not isinstance(n, int) or not 0 < n <= length:
        raise CompileError(f"{whole} does not have {n} rows", help=f"count is an int from 1 to {length}")
    check_integer(start, "the first row")
    if isinstance(first, int) and (first % 8 or not 0 <= first <= length - n):
        raise CompileError(
            f"{n} rows of {whole} cannot begin at the row {first}", help=f"begin at a multiple of 8, up to {length - n}"
        )
    return _rows(replace(whole, shape=(n, whole.shape[1])), length - n)


@functools.cache
def _rows(part: Tile, last: int) -> Callable[[Any, Any, Any], Any]:
    """Returns the device function that makes a tile of the rows of another one."""
    count, width = part.shape[0], part.width
    step = width * layout.size_of(part.element)
    cls = _tile_class(part) if part.pattern else None

    def of_panels(array: Any) -> Any:
        return array[:, :count]

    def of_rows(array: Any) -> Any:
        return array[:count].reshape(count, width)

    cut = of_panels if part.pitch else of_rows

    def make(tile: Any, start: Any, _: Any) -> Any:
        ptx("", int(start), host=check)
        array = cut(displaced(array_of(tile), int(start) * step))
        return array if cls is None else cls(array)

    def check(start: Any) -> None:
        if start % 8 != 0 or start < 0 or start > last:
            raise IndexError(
                f"the first row of rows(…) is {start}",
                f"begin at a multiple of 8, up to {last}: the tile has no more rows",
            )

    return make
