"""`wgmma` and `wgmma_wait`: products of matrices by the four warps of a warpgroup, which read tiles of shared memory.

    acc = (float32(0),) * 128
    for stage in range(stages):
        acc = wgmma(acc, swizzled(a[stage], 128), swizzled(b[stage], 128))
    acc = wgmma_wait(0, acc)

What `wgmma` returns is a sealed tuple, because the hardware may still be writing its registers: `wgmma_wait` opens it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cuda_device import CompileError, DeviceOnlyError, float32, int32, ptx, sm90a, uint32
from cuda_device.extend import Known, constant_of, host_type, layout, model, specialised
from cuda_device.plugins.tensor_cores.emulated_products import WarpgroupProduct, awaited, emulated
from cuda_device.plugins.tensor_cores.shared_operands import TYPES, accumulates, check_types, descriptors, operand_of
from cuda_device.plugins.tensor_cores.single_instructions import vector
from cuda_device.plugins.tensor_cores.swizzling import Tile, array_of


def wgmma(acc: Any, a: Any, b: Any, accumulate: Any = True) -> Any:
    """Starts acc + a @ b.T, the product of matrices in shared memory, on the tensor cores. Returns accumulators in flight.

    All 128 threads of a warpgroup, four warps from a multiple of 128 on, call it together. `b` is a swizzled tile (n, k), and
    `a` one of (64, k), or `.T` of a swizzled tile of 16-bit elements: any k that the tiles have, and n a multiple of 8 up to 256
    (for 8-bit integers 8, 24, or a multiple of 16). The elements are bfloat16, float16, float32 (as tf32, of which the hardware
    reads the upper 19 bits), float8e4m3, float8e5m2, int8 or uint8, of the same type in both, or any two of the 8-bit floats or
    of the 8-bit integers. `a` may also be a tuple of registers with elements of `b`'s type, four for each 32 bytes of depth.

    `acc` is what each thread has of the sum: a tuple of n / 2 float32 (int32 for integers), or, for float16 and 8-bit floats, of
    n / 4 uint32 with two float16 each. `None` starts from zero, as does a false `accumulate`, a constant or a run-time value.
    The result is an accumulator in flight. Only `wgmma` takes it, for the next product, and `wgmma_wait`; where control flow
    joins, a tuple that meets one becomes one.

    The tiles may be overwritten after `wgmma_wait`. `fence_proxy_async` comes between ordinary stores to them and this. In a
    loop, compute the registers of the next `a` after the wait for the product that reads the last ones: the assembler
    serialises products whose registers are written meanwhile, and a `PerformanceWarning` says so (C7513).

    Device only, for sm_90a. Raises `CompileError` for other types and shapes. Source: PTX, "wgmma.mma_async".
    """
    raise DeviceOnlyError.of("wgmma")


def wgmma_wait(pending: int, *accs: Any) -> Any:
    """Waits until at most `pending` of the products that this warpgroup started with `wgmma`, a constant, are in flight.

    Returns the accumulators that are named, which the program can read then: one as a tuple, several as a tuple of tuples, and
    none as None. Device only, for sm_90a. Raises `CompileError` for an accumulator that is among the last `pending`, where the
    compiler can tell. Source: PTX, "wgmma.wait_group".
    """
    raise DeviceOnlyError.of("wgmma_wait")


_IN_FLIGHT = "an accumulator in flight", "wait for it first: acc = wgmma_wait(0, acc), or tiles.wait"
_RESULTS = {model.FLOAT32: "f32", model.INT32: "s32", model.FLOAT16: "f16"}
_TAKEN = {model.FLOAT32: {model.FLOAT32, model.FLOAT, model.INT}, model.INT32: {model.INT32, model.INT}}
"""The types of the numbers that accumulators may begin with."""


@specialised(
    wgmma, since=sm90a, otherwise="write mma_sync, whose operands are in registers", opens=True, seals=_IN_FLIGHT
)
def _(acc: Known, a: Known, b: Known, accumulate: Known) -> Callable[..., Any]:
    right = _operand(b, "b")
    left = None if isinstance(a.type, model.Tuple) else _operand(a, "a")
    if left is None:
        _check_registers(a, right)
    else:
        _check_pair(left, right)
    _check_columns(right)
    result, starts = _result(acc, right), isinstance(acc.type, model.NoneType)
    has_integers = result.is_float and any(item.type == model.INT for item in acc.items)
    product = WarpgroupProduct(left, right, result, starts, accumulates(accumulate))
    return (_product_of_integers if has_integers else _product)(product)


def is_in_flight(known: Known) -> bool:
    """Whether a value is a sealed tuple."""
    return hasattr(known.value, "newer")


def _operand(known: Known, name: str) -> Tile:
    if is_in_flight(known):
        raise CompileError(f"{name} is an accumulator that `wgmma` may still be writing", help=_IN_FLIGHT[1])
    return operand_of(known, name, "wgmma", transposed=(2,))


def _check_pair(a: Tile, b: Tile) -> None:
    check_types(a, b, "wgmma")
    if a.shape[0] != 64:
        raise CompileError(
            f"a is {a}: the 64 rows of a warpgroup are multiplied", help="write rows(a, 64 * i, 64) for a part of it"
        )


def _check_registers(a: Known, b: Tile) -> None:
    count = 4 * b.shape[1] * layout.size_of(b.element) // 32
    types = (model.UINT32, model.FLOAT32) if b.element == model.FLOAT32 else (model.UINT32,)
    if len(a.items) != count or len({item.type for item in a.items}) > 1 or a.items[0].type not in types:
        raise CompileError(
            f"a is {a}, but the registers for {b} are {count} uint32",
            help=f"give it elements of {b.element}, four registers for each 32 bytes of depth, as pack makes them",
        )


def _check_columns(b: Tile) -> None:
    n, is_integer = b.shape[0], isinstance(b.element, model.Number) and b.element.is_integer
    if n % 8 or not 0 < n <= 256 or (is_integer and n % 16 and n not in (8, 24)):
        allowed = "8, 24, or a multiple of 16 up to 256" if is_integer else "a multiple of 8 up to 256"
        raise CompileError(f"b is {b}: wgmma does not have {n} columns", help=f"n is {allowed}")


def _result(acc: Known, b: Tile) -> model.Number:
    """The type of the accumulators. Raises `CompileError` for what cannot be one."""
    assert isinstance(b.element, model.Number)
    usual, n = model.INT32 if b.element.is_integer else model.FLOAT32, b.shape[0]
    if isinstance(acc.type, model.NoneType):
        return usual
    items = acc.items if isinstance(acc.type, model.Tuple) or is_in_flight(acc) else ()
    types = {item.type for item in items}
    if len(items) == n // 2 and types <= _TAKEN[usual]:
        return usual
    packs = b.element == model.FLOAT16 or b.element.is_float8
    if packs and len(items) == n // 4 and types == {model.UINT32}:
        return model.FLOAT16
    what = f"is a tuple of {len(items)} {' and '.join(sorted(map(str, types)))}" if items else f"is {acc}"
    raise CompileError(
        f"the accumulator {what}, but for {b} it is a tuple of {n // 2} {usual}"
        + f", or of {n // 4} uint32 with two float16 each" * packs,
        help=f"begin with None, or with ({usual}(0),) * {n // 2}; a list x is taken as tuple(x)",
    )


@functools.cache
def _product(product: WarpgroupProduct) -> Callable[..., Any]:
    """Returns the device function that starts a product."""
    text, host, in_registers = _instructions(product), emulated(product), product.a is None
    result = uint32 if product.result == model.FLOAT16 else host_type(product.result)
    constant, results = product.accumulate is not None, (result,) * product.registers

    def start(_: Any, a: Any, b: Any, __: Any) -> Any:
        operands = a if in_registers else (array_of(a),)
        return ptx(text, *operands, array_of(b), result=results, host=host)

    def go_on(acc: Any, a: Any, b: Any, accumulate: Any) -> Any:
        operands = a if in_registers else (array_of(a),)
        flags = () if constant else (int32(accumulate),)
        return ptx(text, *operands, array_of(b), *flags, inout=acc, host=host)

    return start if product.starts else go_on


@functools.cache
def _product_of_integers(product: WarpgroupProduct) -> Callable[..., Any]:
    """The same for accumulators of which some are Python's integers, for a sum of float32."""
    go_on = _product(product)
    return lambda acc, a, b, accumulate: go_on(tuple([float32(x) for x in acc]), a, b, accumulate)


# The instructions


def _instructions(product: WarpgroupProduct) -> str:
    """The PTX of a product: a descriptor for each tile, then one instruction for each 32 bytes of depth, and the commit.

    `$0`, … are the accumulators, then the registers of A or the address of its tile, the address of B's tile, and `accumulate`.
    """
    steps, first = product.depth // product.step, product.registers
    lefts, left = [f"a{k}" for k in range(steps)], 1
    if product.a is None:
        lefts, left = [vector(first + 4 * k, 4) for k in range(steps)], 4 * steps
    flag = (
        "0"
        if product.starts
        else f"${first + left + 1}"
        if product.accumulate is None
        else str(int(product.accumulate))
    )
    lines = ["{", ".reg .pred p;", f"setp.ne.b32 p, {flag}, 0;"]
    lines += descriptors("b", f"${first + left}", product.b)
    if product.a is not None:
        lines += descriptors("a", f"${first}", product.a)
    element = product.b.element if product.a is None else product.a.element
    types = f"{_RESULTS[product.result]}.{TYPES[element]}.{TYPES[product.b.element]}"
    name = f"wgmma.mma_async.sync.aligned.m64n{product.columns}k{product.step}.{types}"
    lines += ["wgmma.fence.sync.aligned;"]
    for k in range(steps):
        operands = vector(0, product.registers), lefts[k], f"b{k}", "p" if k == 0 else "1", *_modifiers(product)
        lines += [f"{name} {', '.join(operands)};"]
    return "\n".join([*lines, "wgmma.commit_group.sync.aligned;", "}"])


def _modifiers(product: WarpgroupProduct) -> list[str]:
    """The last operands: no sign is changed, and which matrices are transposed."""
    if product.result == model.INT32:
        return []
    transposed = [tile.transposed for tile in (product.a, product.b) if tile is not None]
    return ["1", "1", *(str(int(each)) for each in transposed if layout.size_of(product.b.element) == 2)]


# Waiting


@specialised(wgmma_wait, since=sm90a, opens=True)
def _(pending: Known, *accs: Known) -> Callable[..., Any]:
    count = constant_of(pending, "pending")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count < 8:
        raise CompileError(f"pending is {pending}, not an int from 0 to 7", help="write wgmma_wait(0, acc)")
    for acc in accs:
        newer = getattr(acc.value, "newer", None)
        if newer is not None and newer < count:
            last = "the last product" if count == 1 else f"one of the last {count} products"
            raise CompileError(
                f"this is the accumulator of {last}, for which wgmma_wait({count}) does not wait",
                help=f"write wgmma_wait({newer}, …)",
            )
        if not isinstance(acc.type, model.Tuple) and not is_in_flight(acc):
            raise CompileError(f"wgmma_wait takes accumulators, not {acc}", help="name what wgmma has returned")
    return _wait(count, tuple(len(acc.items) for acc in accs))


@functools.cache
def _wait(pending: int, sizes: tuple[int, ...]) -> Callable[..., Any]:
    def await_products() -> None:
        awaited(pending)

    passing = through(f"wgmma.wait_group.sync.aligned {pending};", sizes, await_products)
    return lambda _, *accs: passing(*accs)


def through(text: str, sizes: tuple[int, ...], on_cpu: Callable[[], None]) -> Callable[..., Any]:
    """Returns the device function that waits by an instruction, through which registers pass: nothing reads them before it.

    It takes and returns tuples of these sizes: one as itself, several as a tuple, and none as None.
    """
    parts = tuple((sum(sizes[:i]), sum(sizes[: i + 1])) for i in range(len(sizes)))

    def none() -> None:
        ptx(text, host=on_cpu)

    def one(registers: Any) -> Any:
        return ptx(text, inout=registers, host=same)

    def several(*tuples: Any) -> Any:
        registers = ptx(text, inout=sum(tuples, ()), host=same)
        return tuple(registers[first:end] for first, end in parts)

    def same(registers: Any) -> Any:
        on_cpu()
        return registers

    return (none, one, several)[min(len(sizes), 2)]
