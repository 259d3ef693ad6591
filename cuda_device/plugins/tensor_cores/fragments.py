"""Fragments: which elements of the operands of a matrix product each lane of a warp, or each thread of a warpgroup, holds.

    row, column = fragment_place("a", (16, 8, 16), float16, 3)      of the fourth element of A that this lane holds

All products have one layout, with g for lane / 4 and t for lane mod 4 (PTX, "Matrix Fragments for mma" and wgmma's "Register
Fragments"). Let w be the elements in a register. A lane holds

    a   in registers 2 s and 2 s + 1, the columns w (4 s + t) to w (4 s + t) + w - 1 of the rows g and g + 8
    b   in register s, the rows w (4 s + t) to w (4 s + t) + w - 1 of the column g
    c   the columns 8 s + 2 t and 8 s + 2 t + 1, of the row g and then of the row g + 8

Warp i of a warpgroup holds the rows 16 i to 16 i + 15 of A and C in this way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from cuda_device import CompileError, DeviceOnlyError, block_dim, float32, lane_id, sm75, sm80, sm89, sm90, thread_idx
from cuda_device.extend import Known, constant_of, dataclass, model, specialised, type_argument
from cuda_device.plugins.tensor_cores.single_instructions import check_integer

TF32 = "tf32"
Element = model.Number | str
"""A number type, or `TF32`."""
NAMES: dict[Element, str] = {
    model.FLOAT16: "f16",
    model.BFLOAT16: "bf16",
    TF32: TF32,
    model.FLOAT64: "f64",
    model.INT8: "s8",
    model.UINT8: "u8",
    model.FLOAT8E4M3: "e4m3",
    model.FLOAT8E5M2: "e5m2",
}
"""What PTX calls the elements of A and B."""


@dataclass(frozen=True)
class WarpProduct:
    """What `mma_sync` computes: the elements of A and B, the shape, the types of C and D, and the first architecture with it."""

    a: Element
    b: Element
    shape: tuple[int, int, int]
    accumulators: tuple[model.Number, ...]
    since: Any

    def __str__(self) -> str:
        elements = str(self.a) if self.a == self.b else f"{self.a} and {self.b}"
        return f"mma_sync of {elements} in the shape {self.shape}"


def _products(
    elements: tuple[Element, ...], shapes: tuple[tuple[int, int, int], ...], accumulators: Any, since: Any
) -> Iterator[WarpProduct]:
    """The products of one kind of elements, in all pairs."""
    for a in elements:
        for b in elements:
            yield from (WarpProduct(a, b, shape, accumulators, since) for shape in shapes)


_FLOATS, _BYTES, _FLOAT8 = (
    (model.FLOAT32, model.FLOAT16),
    (model.INT8, model.UINT8),
    (model.FLOAT8E4M3, model.FLOAT8E5M2),
)
PRODUCTS: dict[tuple[Any, ...], WarpProduct] = {
    (product.shape, product.a, product.b): product
    for product in (
        *_products((model.FLOAT16,), ((16, 8, 8),), _FLOATS, sm75),
        *_products((model.FLOAT16,), ((16, 8, 16),), _FLOATS, sm80),
        *_products((model.BFLOAT16,), ((16, 8, 8), (16, 8, 16)), (model.FLOAT32,), sm80),
        *_products((TF32,), ((16, 8, 4), (16, 8, 8)), (model.FLOAT32,), sm80),
        *_products((model.FLOAT64,), ((8, 8, 4),), (model.FLOAT64,), sm80),
        *_products((model.FLOAT64,), ((16, 8, 4), (16, 8, 8), (16, 8, 16)), (model.FLOAT64,), sm90),
        *_products(_BYTES, ((16, 8, 16), (16, 8, 32)), (model.INT32,), sm80),
        *_products(_FLOAT8, ((16, 8, 32),), (model.FLOAT32,), sm89),
    )
}
"""The products of `mma_sync`, by shape and elements."""


def bits_of(element: Element) -> int:
    """The bits of an element in a register."""
    return 32 if isinstance(element, str) else element.bits


def elements_of(dtype: Known, entity: str) -> tuple[Element, Element]:
    """The elements of A and B that a dtype, or a pair of them, names. Raises `CompileError` for others."""
    pair = dtype.items if isinstance(dtype.type, model.Tuple) else (dtype, dtype)
    elements = tuple(TF32 if known.value == TF32 else type_argument(known, f"the dtype of {entity}") for known in pair)
    wrong = [element for element in elements if element not in NAMES]
    if wrong or len(elements) != 2:
        what = f"elements of {wrong[0]}" if wrong else f"{len(elements)} operands"
        raise CompileError(f"{entity} has no {what}", help=f"dtype is one of {_listed(NAMES)}, or a pair of them")
    return elements  # type: ignore[return-value]


def shape_of(shape: Known) -> tuple[int, int, int]:
    """The constant shape (m, n, k). Raises `CompileError` for others."""
    lengths = constant_of(shape, "shape")
    if not isinstance(lengths, tuple) or len(lengths) != 3 or not all(isinstance(length, int) for length in lengths):
        raise CompileError(f"shape must be (m, n, k), not {lengths!r}", help="write (16, 8, 16), for example")
    return lengths


def product_of(shape: Known, dtype: Known, entity: str) -> WarpProduct:
    """The product of a shape and a dtype. Raises `CompileError` if there is none."""
    lengths, (a, b) = shape_of(shape), elements_of(dtype, entity)
    product = PRODUCTS.get((lengths, a, b))
    if product is not None:
        return product
    shapes = [key[0] for key in PRODUCTS if key[1:] == (a, b)]
    elements = str(a) if a == b else f"{a} and {b}"
    if not shapes:
        raise CompileError(
            f"{entity} has no product of {elements}", help="convert one of them to the type of the other"
        )
    raise CompileError(
        f"{entity} has no shape {lengths} for {elements}", help=f"the shapes for {elements} are {_listed(shapes)}"
    )


def _listed(items: Any) -> str:
    return ", ".join(repr(item) if isinstance(item, str) else str(item) for item in items)


# Places


def fragment_place(operand: str, shape: tuple[int, int, int], dtype: Any, i: Any) -> tuple[Any, Any]:
    """Returns the row and the column, in its matrix, of the i-th element of an operand that this lane holds.

    `operand` is "a", which has the shape (m, k), "b", of the shape (k, n), or "c", of the shape (m, n), of the results, too;
    `shape` (m, n, k) and `dtype` are those of `mma_sync`. Packed elements count one by one, from the low bits of the first
    register. With the shape (64, n, k), the place is that of a thread of a warpgroup in `wgmma`: in "c", an accumulator, or in
    "a", an operand in registers of any depth k.

    `operand`, `shape` and `dtype` are constants; `i` may be known at run time only, and must then be one of the elements.
    Device only. Raises `CompileError` for other operands, shapes and types, and for a constant `i` that is none of the
    elements. Source: PTX, "Matrix Fragments for mma" and "Register Fragments" of wgmma.
    """
    raise DeviceOnlyError.of("fragment_place")


@specialised(fragment_place)
def _(operand: Known, shape: Known, dtype: Known, i: Known) -> Callable[..., Any]:
    name, lengths = constant_of(operand, "operand"), shape_of(shape)
    of_warpgroup = lengths[0] == 64
    _check_operand(name, of_warpgroup)
    if of_warpgroup:
        element = _element_of_warpgroup(lengths, dtype)
    else:
        product = product_of(shape, dtype, "fragment_place")
        element = product.b if name == "b" else product.a
    count = held(str(name), lengths)
    check_integer(i, "i of fragment_place")
    if isinstance(i.value, int) and not 0 <= i.value < count:
        raise CompileError(
            f"each lane holds {count} elements of {name!r}, of which none has the number {i.value}",
            help=f"the numbers are 0 to {count - 1}",
        )
    return places(str(name), 32 // bits_of(element) or 1, of_warpgroup)


def _check_operand(name: object, of_warpgroup: bool) -> None:
    if name not in ("a", "b", "c"):
        raise CompileError(f'operand must be "a", "b" or "c", not {name!r}', help='write "c" for results, too')
    if of_warpgroup and name == "b":
        raise CompileError("the operand b of wgmma is a tile in shared memory", help="index the tile")


def _element_of_warpgroup(shape: tuple[int, int, int], dtype: Known) -> Element:
    """The elements of A in `wgmma`, where float32 is tf32. Raises `CompileError` for others, and for what is no shape."""
    if dtype.value is float32:
        dtype = Known(model.STATIC, TF32)
    element = elements_of(dtype, "fragment_place")[0]
    if element == model.FLOAT64:
        raise CompileError(
            "wgmma has no elements of float64", help="use mma_sync, with the shape (16, 8, 16), for example"
        )
    if shape[1] % 8 or not 8 <= shape[1] <= 256 or shape[2] < 8 or shape[2] % 8:
        raise CompileError(
            f"wgmma has no shape {shape}", help="n is a multiple of 8 from 8 to 256, and k a multiple of 8"
        )
    return element


def held(operand: str, shape: tuple[int, int, int]) -> int:
    """The number of elements of an operand that each lane holds."""
    m, n, k = shape
    size = {"a": m * k, "b": k * n, "c": m * n}[operand]
    return size // (128 if m == 64 else 32)


@functools.cache
def places(operand: str, width: int, of_warpgroup: bool) -> Callable[..., Any]:
    """The function that returns the row and the column of an element, of which `width` are in a register."""

    def place_in_a(_: Any, __: Any, ___: Any, i: Any) -> Any:
        register = i // width
        column = register // 2 * 4 * width + lane_id % 4 * width + i % width
        return first_row(of_warpgroup) + register % 2 * 8, column

    def place_in_b(_: Any, __: Any, ___: Any, i: Any) -> Any:
        return i // width * 4 * width + lane_id % 4 * width + i % width, lane_id // 4

    def place_in_c(_: Any, __: Any, ___: Any, i: Any) -> Any:
        return first_row(of_warpgroup) + i // 2 % 2 * 8, i // 4 * 8 + lane_id % 4 * 2 + i % 2

    return {"a": place_in_a, "b": place_in_b, "c": place_in_c}[operand]


def first_row(of_warpgroup: Any) -> Any:
    """The row of the first element of A and C that this lane holds."""
    return int(linear_thread()) // 32 % 4 * 16 + lane_id // 4 if of_warpgroup else lane_id // 4


def linear_thread() -> Any:
    """The number of the thread in its block."""
    return thread_idx.x + block_dim.x * (thread_idx.y + block_dim.y * thread_idx.z)
