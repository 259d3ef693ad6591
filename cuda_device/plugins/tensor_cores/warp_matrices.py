"""Matrix products of a warp, whose 32 lanes hold the operands together in registers.

d = mma_sync(a, b, c, (16, 8, 16), bfloat16)            D = A B + C; `fragment_place` says who holds what
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cuda_device import (
    CompileError,
    DeviceOnlyError,
    float16,
    float32,
    lane_id,
    local_array,
    ptx,
    shfl_sync,
    sm75,
    uint32,
)
from cuda_device.extend import Known, dataclass, host_type, model, replace, specialised
from cuda_device.plugins.tensor_cores.emulated_products import factor_of
from cuda_device.plugins.tensor_cores.fragments import NAMES, TF32, Element, WarpProduct, bits_of, held, product_of
from cuda_device.plugins.tensor_cores.packed_elements import pack, unpacked
from cuda_device.plugins.tensor_cores.single_instructions import as_tuple, needing, vector, whole_warp
from cuda_device.plugins.tensor_cores.swizzling import shown


def mma_sync(a: Any, b: Any, c: Any, shape: tuple[int, int, int], dtype: Any) -> Any:
    """Returns D = A B + C for matrices that the lanes of a warp hold together, as a tuple like `c`.

    `shape` is (m, n, k): A has m rows and k columns, B k rows and n columns. `dtype` is the type of the elements of A and B, or
    the pair of their types:

    - float16: (16, 8, 8), and (16, 8, 16) from sm_80 on
    - bfloat16: (16, 8, 8), (16, 8, 16); sm_80
    - "tf32": (16, 8, 4), (16, 8, 8); sm_80
    - float64: (8, 8, 4), sm_80; (16, 8, 4), (16, 8, 8), (16, 8, 16), sm_90
    - int8, uint8 and pairs: (16, 8, 16), (16, 8, 32); sm_80
    - float8e4m3, float8e5m2 and pairs: (16, 8, 32); sm_89

    `a` and `b` are tuples of the registers of this lane: uint32 of packed elements (see `pack`), "tf32" also float32, and float64
    for float64. `c` is a tuple of float32, of float64 for float64, of int32 for integers, which wrap, and for float16 also of
    uint32, of packed float16. A single register need not be a tuple. `fragment_place` says which elements a lane holds. All
    lanes of the warp must call it together. On CPU streams, D is computed in the type of C, or in float32 and rounded once for
    float16, in the order of k; GPUs may add in another order.

    Device only. Raises `CompileError` for other shapes and types, and below the architecture of a product. Source: PTX,
    mma.sync.
    """
    raise DeviceOnlyError.of("mma_sync")


@specialised(mma_sync, since=sm75)
def _(a: Known, b: Known, c: Known, shape: Known, dtype: Known) -> Callable[..., Any]:
    product = product_of(shape, dtype, "mma_sync")
    types = [_chosen(operand, name, product).type for name, operand in (("a", a), ("b", b))]
    return _product(product, (types[0], types[1]), _chosen(c, "c", product))


@dataclass(frozen=True)
class Registers:
    """The registers of an operand in a lane: their number and their type."""

    count: int
    type: model.Number

    def __str__(self) -> str:
        return f"{self.count} {self.type}"

    def fit(self, known: Known) -> bool:
        """Whether a value is a tuple of so many numbers of the type, or of Python's numbers, which take it."""
        items = known.items if isinstance(known.type, model.Tuple) else (known,)
        return len(items) == self.count and all(map(self._takes, items))

    def _takes(self, known: Known) -> bool:
        number = known.type
        if not isinstance(number, model.Number) or not number.builtin:
            return number == self.type
        return number.is_integer or (number.is_float and self.type.is_float)


def _registers(name: str, product: WarpProduct) -> tuple[Registers, ...]:
    """The registers that an operand of a product may have."""
    count, element = held(name, product.shape), {"a": product.a, "b": product.b}.get(name)
    if element is None:
        packed, types = Registers(count // 2, model.UINT32), product.accumulators
        return tuple(packed if type == model.FLOAT16 else Registers(count, type) for type in types)
    if element == model.FLOAT64:
        return (Registers(count, model.FLOAT64),)
    words = Registers(count * bits_of(element) // 32, model.UINT32)
    return (words, replace(words, type=model.FLOAT32)) if element == TF32 else (words,)


def _chosen(known: Known, name: str, product: WarpProduct) -> Registers:
    """The registers that an operand has. Raises `CompileError` for those that the product does not take."""
    choices = _registers(name, product)
    for registers in choices:
        if registers.fit(known):
            return registers
    types = [item.type for item in known.items] if isinstance(known.type, model.Tuple) else [known.type]
    is_tuple = isinstance(known.type, model.Tuple)
    given = f"{len(types)} {types[0]}" if is_tuple and len(set(types)) == 1 else shown(known)
    help = "see fragment_place for what a lane holds, and pack for uint32 of several elements"
    raise CompileError(
        f"{product} takes {' or '.join(map(str, choices))} as {name}, not {given}",
        help=help if is_tuple else "give it a tuple: tuple(x) of a list x, or what ldmatrix loads from a tile",
    )


@functools.cache
def _product(
    product: WarpProduct, operands: tuple[model.Number, model.Number], accumulator: Registers
) -> Callable[..., Any]:
    """The device function of a product, for operands of these types and these accumulators."""
    template, host = _template(product, accumulator), _on_cpu(product, accumulator)
    a_words, b_words = map(_words, operands)
    dtype, count = host_type(accumulator.type), accumulator.count
    results = (dtype,) * count

    def multiplied(a: Any, b: Any, c: Any, shape: Any, elements: Any) -> Any:
        sums = [dtype(x) for x in as_tuple(c)]
        return ptx(
            template, *a_words(as_tuple(a)), *b_words(as_tuple(b)), *sums, result=results, host=host, volatile=False
        )

    return needing(product.since, str(product), multiplied)


def _words(type: model.Number) -> Callable[[Any], Any]:
    """The function that converts the registers of A or B of a type to those that the instruction takes."""
    dtype = host_type(type)
    if type == model.FLOAT32:
        return lambda registers: [dtype(x).view(uint32) for x in registers]
    return lambda registers: [dtype(x) for x in registers]


def _template(product: WarpProduct, accumulator: Registers) -> str:
    """The instruction, whose operands are the registers of D, A, B and C."""
    counts = accumulator.count, *(_registers(name, product)[0].count for name in "ab"), accumulator.count
    operands = [vector(sum(counts[:i]), count) for i, count in enumerate(counts)]
    kind = "f16" if accumulator.type == model.UINT32 else _ACCUMULATORS[accumulator.type]
    m, n, k = product.shape
    types = f"{kind}.{NAMES[product.a]}.{NAMES[product.b]}.{kind}"
    return f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{types} {', '.join(operands)};"


_ACCUMULATORS = {model.FLOAT32: "f32", model.FLOAT64: "f64", model.INT32: "s32"}

# On CPU streams


@functools.cache
def _on_cpu(product: WarpProduct, accumulator: Registers) -> Callable[..., Any]:
    """The function that computes a product from the registers of A, B and C.

    A lane has sums of two columns in one row, or in two. By shuffles, it gets the registers of these rows of A from the four
    lanes of its own group, and those of these columns of B from the lanes of the groups of the columns.
    """
    type, add = host_type(_registers("a", product)[0].type), _adder(product, accumulator)
    in_a, in_b = (_registers(name, product)[0].count for name in "ab")
    count, check = in_a + 2 * in_b, whole_warp("mma_sync")

    def multiplied(*registers: Any) -> Any:
        check()
        a, b = registers[:in_a], registers[in_a : in_a + in_b]
        own, words = local_array(count, type), local_array((4, count), type)
        own[:] = (*a, *b, *b)
        group, column = lane_id // 4 * 4, lane_id % 4 * 8
        for t in range(4):
            for i in range(count):
                first = group if i < in_a else column if i < in_a + in_b else column + 4
                words[t, i] = shfl_sync(-1, own[i], first + t)
        return add(words, *registers[in_a + in_b :])

    return multiplied


@functools.cache
def _adder(product: WarpProduct, accumulator: Registers) -> Callable[..., Any]:
    """The function that adds the products of the elements in the words of four lanes to the registers of C, in the order of k."""
    is_packed, rows = accumulator.type == model.UINT32, product.shape[0] // 8
    of_a, of_b = _elements(product.a), _elements(product.b)
    width, steps, halves = 32 // bits_of(product.a) or 1, _registers("b", product)[0].count, unpacked(model.FLOAT16)

    def add(words: Any, *c: Any) -> Any:
        if is_packed:
            c = tuple([float32(x) for word in c for x in halves(word)])
        c0, c1, c2, c3 = c if rows == 2 else (*c, *c)
        for step in range(steps):
            for t in range(4):
                for e in range(width):
                    x, y = of_a(words, t, rows * step, e), of_a(words, t, rows * step + rows - 1, e)
                    u, v = of_b(words, t, rows * steps + step, e), of_b(words, t, rows * steps + steps + step, e)
                    c0, c1, c2, c3 = c0 + x * u, c1 + x * v, c2 + y * u, c3 + y * v
        if is_packed:
            return pack(c0, c1, dtype=float16), pack(c2, c3, dtype=float16)
        return (c0, c1, c2, c3) if rows == 2 else (c0, c1)

    return add


@functools.cache
def _elements(element: Element) -> Callable[..., Any]:
    """The function that returns an element of a word, in the type in which the products are added."""
    factor, width = factor_of(element), 32 // bits_of(element) or 1
    host: Any = float32 if isinstance(element, str) else host_type(element)
    return lambda words, t, i, e: factor(words.view(host)[t, width * i + e])
