"""Matrices of 8 x 8 elements of 16 bits between shared memory and the registers of a warp, in the layout of `mma_sync`.

    a = ldmatrix(tile, lane_id % 16, k + lane_id // 16 * 8)     A of a product in the shape (16, 8, 16): four matrices
    stmatrix(tile, lane_id % 16, n, (low, high))                two matrices

Lane 8 i + r names the beginning of row r of the i-th matrix: 16 bytes. Lane 4 r + c has the elements 2 c and 2 c + 1 of row r
of each matrix in a register, or with `trans` of column r.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from cuda_device import (
    CompileError,
    DeviceOnlyError,
    lane_id,
    local_array,
    ptx,
    shfl_sync,
    sm75,
    sm90,
    uint32,
    uint32x4,
)
from cuda_device.extend import Known, aligned, constant_of, model, specialised
from cuda_device.plugins.tensor_cores.single_instructions import UNSIGNED, as_tuple, check_integer, vector, whole_warp
from cuda_device.plugins.tensor_cores.swizzling import Tile, array_of, byte_offset, index_in, tile_of


def ldmatrix(tile: Any, row: Any, column: Any, num: int = 4, trans: bool = False) -> Any:
    """Loads 1, 2 or 4 matrices of eight rows of 16 bytes from a tile. Returns a tuple of `num` uint32, one of each matrix.

    In lane 8 i + r, `row` and `column`, in elements, say where row r of the i-th matrix begins; the other lanes may pass
    anything. Both are zero or more; `column` is a multiple of 16 bytes, as is the length of the tile's rows. Lane 4 r + c gets
    word c of row r of each matrix. With `trans`, each matrix of 8 x 8 elements of 16 bits is transposed. `num` and `trans` are
    constants. The elements of the tile, which may be swizzled, have 8, 16 or 32 bits.

    All lanes of the warp must call it together. Device only, for sm_75 and later. Raises `CompileError` for other tiles; CPU
    streams report rows outside of the tile, and columns that are no multiple. PTX: ldmatrix.
    """
    raise DeviceOnlyError.of("ldmatrix")


def stmatrix(tile: Any, row: Any, column: Any, regs: Any, trans: bool = False) -> None:
    """Stores 1, 2 or 4 matrices of eight rows of 16 bytes to a tile, of which `regs`, uint32 or a tuple of them, has a word each.

    The other parameters, and the layout, are those of `ldmatrix`. Device only, for sm_90 and later. PTX: stmatrix.
    """
    raise DeviceOnlyError.of("stmatrix")


def movmatrix(x: Any) -> np.uint32:
    """Transposes a matrix of 8 x 8 elements of 16 bits, of which lane 4 r + c has the elements 2 c and 2 c + 1 of row r.

    `x` is a uint32. All lanes of the warp must call it together. Device only, for sm_75 and later. PTX: movmatrix.
    """
    raise DeviceOnlyError.of("movmatrix")


@specialised(ldmatrix, since=sm75)
def _(tile: Known, row: Known, column: Known, num: Known, trans: Known) -> Callable[..., Any]:
    count = constant_of(num, "num")
    if count not in (1, 2, 4):
        raise CompileError(f"ldmatrix loads 1, 2 or 4 matrices, not {count}", help="write num=4, for example")
    return _loader(_checked(tile, row, column, "ldmatrix"), int(str(count)), bool(constant_of(trans, "trans")))


@specialised(stmatrix, since=sm90, otherwise="assign to the elements")
def _(tile: Known, row: Known, column: Known, regs: Known, trans: Known) -> Callable[..., Any]:
    items = regs.items if isinstance(regs.type, model.Tuple) else (regs,)
    if len(items) not in (1, 2, 4) or any(item.type != model.UINT32 for item in items):
        raise CompileError(f"stmatrix stores 1, 2 or 4 uint32, not {regs}", help="pack 16-bit elements: pack(…)")
    return _storer(_checked(tile, row, column, "stmatrix"), len(items), bool(constant_of(trans, "trans")))


@specialised(movmatrix, since=sm75)
def _(x: Known) -> Callable[..., Any]:
    if x.type != model.UINT32:
        raise CompileError(f"movmatrix takes a uint32, not {x}", help="convert it, as in uint32(…), or pack elements")
    return _moved


def _checked(known: Known, row: Known, column: Known, entity: str) -> Tile:
    """The type of a tile. Raises `CompileError` for those in which no row of 16 bytes can begin there."""
    tile = tile_of(known, entity)
    element = tile.element
    if not isinstance(element, model.Number) or element == model.BOOL or element.is_complex or element.bits > 32:
        raise CompileError(
            f"{entity} takes elements of 8, 16 or 32 bits, not {element}", help="view the array as such: x.view(…)"
        )
    if tile.transposed:
        raise CompileError(f"{entity} takes the tile itself, not the transposed one", help="write trans=True")
    unit = 128 // element.bits
    if tile.width % unit:
        raise CompileError(
            f"the rows of {tile} are no multiple of 16 bytes", help=f"give it a multiple of {unit} columns"
        )
    for name, index in (("row", row), ("column", column)):
        check_integer(index, f"the {name}")
        if isinstance(index.value, int) and index.value < 0:
            raise CompileError(f"{entity} has no {name} {index.value}", help=_FROM_START)
    if isinstance(column.value, int) and column.value % unit:
        raise CompileError(
            f"a row of a matrix cannot begin in the column {column.value}",
            help=f"begin at a multiple of {unit} columns",
        )
    return tile


@functools.cache
def _loader(tile: Tile, num: int, trans: bool) -> Callable[..., Any]:
    results, host = (uint32,) * num, _loader_on_cpu(tile, num, trans)
    move = _template("ldmatrix", f"{vector(0, num)}, [at]", num, num, trans)
    address = _address(tile)

    def load(t: Any, row: Any, column: Any, _: Any, __: Any) -> Any:
        return ptx(move, *address(t, row, column), int(row), int(column), result=results, host=host)

    return load


@functools.cache
def _storer(tile: Tile, num: int, trans: bool) -> Callable[..., Any]:
    host, address = _storer_on_cpu(tile, num, trans), _address(tile)
    move = _template("stmatrix", f"[at], {vector(4, num)}", num, 0, trans)

    def store(t: Any, row: Any, column: Any, regs: Any, _: Any) -> None:
        ptx(move, *address(t, row, column), int(row), int(column), *as_tuple(regs), host=host)

    return store


def _template(name: str, operands: str, num: int, address: int, trans: bool) -> str:
    """The instruction; the operand `address` is an array, and the next one a number of bytes from there."""
    at = f".reg .b32 at; cvt.u32.u64 at, ${address}; add.u32 at, at, ${address + 1};"
    return f"{{ {at} {name}.sync.aligned.m8n8.x{num}{'.trans' * trans}.shared.b16 {operands}; }}"


@functools.cache
def _address(tile: Tile) -> Callable[..., Any]:
    """The function that returns the array of a tile, and the offset of an element in bytes."""
    offset, is_plain = byte_offset(tile), not tile.pattern

    def address(t: Any, row: Any, column: Any) -> Any:
        array = aligned(t, 16) if is_plain else array_of(t)
        return array, uint32(offset(row, column))

    return address


def _moved(x: Any) -> Any:
    return ptx("movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", x, result=uint32, host=_moved_on_cpu, volatile=False)


# On CPU streams: each lane accesses the row that it names, and shuffles exchange the words of rows


@functools.cache
def _loader_on_cpu(tile: Tile, num: int, trans: bool) -> Callable[..., Any]:
    matrices, lanes, line, check = tuple(range(num)), 8 * num, _line(tile), whole_warp("ldmatrix")

    def load(array: Any, _: Any, row: Any, column: Any) -> Any:
        check()
        words, loaded = line(array, row, column) if lane_id < lanes else uint32x4(0, 0, 0, 0), local_array(num, uint32)
        for i in range(num):
            loaded[i] = (
                _column(words, 8 * i) if trans else _word(shfl_sync(-1, words, 8 * i + lane_id // 4), lane_id % 4)
            )
        return tuple([loaded[i] for i in matrices])

    return load


@functools.cache
def _line(tile: Tile) -> Callable[..., Any]:
    """The function that reads the four words of a row of 16 bytes."""
    index, bits, unsigned = index_in(tile), tile.element.bits, UNSIGNED[tile.element.bits // 8]
    words, shifts = (0, 1, 2, 3), tuple(enumerate(range(0, 32, bits)))

    def line(array: Any, row: Any, column: Any) -> Any:
        _check_start(row, column, 128 // bits)
        result = uint32x4(0, 0, 0, 0)
        for w in words:
            word = uint32(0)
            for i, shift in shifts:
                word |= uint32(array[index(row, column + w * (32 // bits) + i)].view(unsigned)) << shift
            result[w] = word
        return result

    return line


_FROM_START = "count from the first row and column: negative numbers do not count from the end"


def _check_start(row: Any, column: Any, unit: Any) -> None:
    if row < 0 or column < 0:
        raise IndexError(f"a row of a matrix begins at ({row}, {column})", _FROM_START)
    if column % unit != 0:
        raise ValueError(f"a row of a matrix begins in the column {column}", "begin at a multiple of 16 bytes")


def _word(words: Any, i: Any) -> Any:
    """An element of a vector by a number that is known at run time only."""
    low, high = words.y if i == 1 else words.x, words.w if i == 3 else words.z
    return high if i > 1 else low


def _column(words: Any, first: Any) -> Any:
    """The elements of two rows in one column of a matrix, whose rows eight lanes from `first` on have."""
    source, word, shift = first + lane_id % 4 * 2, lane_id // 8, lane_id // 4 % 2 * 16
    low, high = _word(shfl_sync(-1, words, source), word), _word(shfl_sync(-1, words, source + 1), word)
    return (low >> shift & 0xFFFF) | (high >> shift & 0xFFFF) << 16


@functools.cache
def _storer_on_cpu(tile: Tile, num: int, trans: bool) -> Callable[..., Any]:
    index, bits, check = index_in(tile), tile.element.bits, whole_warp("stmatrix")
    words, shifts, unsigned = (0, 1, 2, 3), tuple(enumerate(range(0, 32, bits))), UNSIGNED[bits // 8]

    def store(array: Any, _: Any, row: Any, column: Any, *regs: Any) -> None:
        check()
        result = uint32x4(0, 0, 0, 0)
        for i, x in enumerate(regs):
            register = _transposed(x) if trans else x
            for w in words:
                word = shfl_sync(-1, register, lane_id % 8 * 4 + w)
                if lane_id // 8 == i:
                    result[w] = word
        if lane_id < 8 * num:
            _check_start(row, column, 128 // bits)
            for w in words:
                for i, shift in shifts:
                    array[index(row, column + w * (32 // bits) + i)] = unsigned(result[w] >> shift).view(array.dtype)

    return store


_check_movmatrix = whole_warp("movmatrix")


def _moved_on_cpu(x: Any) -> Any:
    _check_movmatrix()
    return _transposed(x)


def _transposed(x: Any) -> Any:
    """The word of the transposed matrix, from two lanes that have its elements."""
    source, shift = lane_id % 4 * 8 + lane_id // 8, lane_id // 4 % 2 * 16
    low, high = shfl_sync(-1, x, source), shfl_sync(-1, x, source + 4)
    return (low >> shift & 0xFFFF) | (high >> shift & 0xFFFF) << 16
