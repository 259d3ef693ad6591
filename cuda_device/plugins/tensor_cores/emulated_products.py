"""What CPU streams do for `wgmma`: each of the 128 threads computes its own accumulators, in the order of the depth."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cuda_device import atomic_ref, float16, float32, float64, int32, lane_id, local_array, shfl_sync, uint32
from cuda_device.extend import await_change, block_words, copies, dataclass, layout, model
from cuda_device.plugins.tensor_cores.fragments import TF32, first_row, linear_thread
from cuda_device.plugins.tensor_cores.swizzling import Tile, index_in

_ALL = 0xFFFFFFFF
KIND = "wgmma"
"""The name of products for the race detector."""


@dataclass(frozen=True)
class WarpgroupProduct:
    """The types of a call of `wgmma`, which determine its instructions."""

    a: Tile | None
    """None if A is in registers."""
    b: Tile
    result: model.Number
    """The type of the accumulators: float32, int32, or float16, of which a register has two."""
    starts: bool = False
    """Whether there is no accumulator yet."""
    accumulate: bool | None = None
    """None if this is known at run time only."""

    @property
    def columns(self) -> int:
        """The columns of the result, n."""
        return self.b.shape[0]

    @property
    def depth(self) -> int:
        """The number of products in each sum, k."""
        return self.b.shape[1]

    @property
    def step(self) -> int:
        """The depth of one instruction: 32 bytes."""
        return 32 // layout.size_of(self.b.element)

    @property
    def registers(self) -> int:
        """The number of registers with accumulators."""
        return self.columns // (4 if self.result == model.FLOAT16 else 2)


@functools.cache
def emulated(product: WarpgroupProduct) -> Callable[..., Any]:
    """Returns the device function for the operands of the instructions: the accumulators, if there are any, a, b, accumulate."""
    multiply, count, elements = _multiplier(product), product.registers, product.columns // 2
    accumulate, is_half = False if product.starts else product.accumulate, product.result == model.FLOAT16
    number, numbers = int32 if product.result == model.INT32 else float32, tuple(range(count))

    def go_on(acc: Any, *operands: Any) -> Any:
        sums = local_array(elements, number)
        words = local_array(count, uint32) if is_half else sums
        if operands[-1] != 0 if accumulate is None else accumulate:
            words[:] = acc
            if is_half:
                sums[:] = words.view(float16)
        else:
            sums[:] = 0
        multiply(sums, operands[:-1] if accumulate is None else operands)
        if is_half:
            words.view(float16)[:] = sums
        return tuple(words[i] for i in numbers)

    def start(*operands: Any) -> Any:
        return go_on(None, *operands)

    return start if product.starts else go_on


def _multiplier(product: WarpgroupProduct) -> Callable[[Any, Any], None]:
    """Returns the device function that adds products to the accumulators of a thread: two rows, two columns of every eight."""
    depth, columns, right = product.depth, product.columns, _reader(product.b)
    in_registers, left_panels, right_panels = product.a is None, _panels(product.a), _panels(product.b)
    left = _from_registers(product) if product.a is None else _from_tile(product.a)

    def multiply(sums: Any, operands: Any) -> None:
        if in_registers:  # in memory, so that they can be indexed
            words = local_array(len(operands) - 1, type(operands[0]))
            words[:] = operands[:-1]
            a = words.view(uint32)
        else:
            a = operands[0]
        b, first = operands[-1], lane_id % 4 * 2
        if linear_thread() % 128 != 0:
            copies.begin_copy(KIND, proxy=True, reads=())
        else:  # for the race detector, the first thread of the warpgroup reads the tiles
            copies.begin_copy(
                KIND, proxy=True, reads=right_panels(b) if in_registers else left_panels(a) + right_panels(b)
            )
        for k in range(depth):
            x, y = left(a, k)
            for j in range(columns // 8):
                for e in range(2):
                    z = right(b, 8 * j + first + e, k)
                    sums[4 * j + e] += x * z
                    sums[4 * j + 2 + e] += y * z
        copies.end_copy()
        copies.commit_copies(KIND)
        meet()

    return multiply


def _panels(tile: Tile | None) -> Callable[[Any], Any]:
    """Returns the device function that takes the array of a tile apart, into the contiguous arrays of its panels."""
    if tile is None or not tile.pitch:
        return lambda array: (array,)
    rows, columns = tile.stored
    numbers, count = tuple(range(columns // tile.width)), rows * tile.width
    return lambda array: tuple(array.pointer(p, 0, 0).array(count) for p in numbers)


def _reader(tile: Tile) -> Callable[[Any, Any, Any], Any]:
    """Returns the device function that reads an element of a tile, by its array, as the number that is multiplied."""
    index, convert = index_in(tile), factor_of(tile.element)

    def read(array: Any, row: Any, column: Any) -> Any:
        return convert(array[index(row, column)])

    return read


def factor_of(element: Any) -> Callable[[Any], Any]:
    """Returns the device function that converts an element to the number that is multiplied, of float32 a tf32."""
    if element in (TF32, model.FLOAT32):
        return _as_tf32
    return int32 if element.is_integer else float64 if element == model.FLOAT64 else float32


def _as_tf32(x: Any) -> Any:
    """A float32 without the bits that the hardware does not read."""
    return (x.view(uint32) & uint32(0xFFFFE000)).view(float32)


def _from_tile(tile: Tile) -> Callable[[Any, Any], Any]:
    read = _reader(tile)

    def left(array: Any, k: Any) -> Any:
        row = first_row(True)
        return read(array, row, k), read(array, row + 8, k)

    return left


def _from_registers(product: WarpgroupProduct) -> Callable[[Any, Any], Any]:
    """Returns the device function that reads two elements of A, of which each lane of four has some in its registers."""
    element = product.b.element
    each, convert = 4 // layout.size_of(element), factor_of(element)

    def left(words: Any, k: Any) -> Any:
        part, inner = k // (4 * each), k % (4 * each)  # 16 bytes: two registers of each of four lanes
        lane = lane_id // 4 * 4 + inner // each
        pair = local_array(2, uint32)
        pair[0] = shfl_sync(_ALL, words[2 * part], lane)
        pair[1] = shfl_sync(_ALL, words[2 * part + 1], lane)
        elements = pair.view(element)
        return convert(elements[inner % each]), convert(elements[each + inner % each])

    return left


def meet() -> None:
    """Waits for the threads of the warpgroup: none goes on, and lets others overwrite the tiles, before all have read them.

    A word of the block for each warpgroup counts the warps. Like the instructions, it orders no other accesses.
    """
    word, before = atomic_ref(block_words(), _FIRST_WORD + linear_thread() // 128), uint32(0)
    if lane_id == 0:
        before = word.add(uint32(1), "relaxed", "device")
    before = shfl_sync(_ALL, before, 0)
    now = word.load("relaxed", "device")
    while now // 4 == before // 4:
        await_change(word, now, state=_STATE)
        now = word.load("relaxed", "device")


_FIRST_WORD = 16
"""The position in `block_words` of the first warpgroup's word, after those of the named barriers."""
_STATE = "wgmma: {0:bits 0 2} of the 4 warps of the warpgroup have come"


def awaited(pending: Any) -> None:
    """The products but the last `pending` are complete."""
    copies.await_copies(KIND, pending)
