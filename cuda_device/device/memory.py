"""Shared, local and constant arrays, and accesses with cache hints ('Local, Shared, and Const Memory' in the specification).

tile = device.shared_array((16, 18), device.float32)     one for each block
few = device.local_array(8, device.int32)                one for each thread
bytes = device.dynamic_shared_array()                    its size is that of `launch(…, shared=…)`

value = device.cache_load(x, i, "cs")                    x[i], which is read once: __ldcs in CUDA C++
device.cache_store(y, i, value, "cs")                    y[i] = value, which no thread reads soon: __stcs
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cuda_device.device.lowering import ArrayTree, Lowering, Tree, address_of
from cuda_device.device.packing import pack, unpack
from cuda_device.device.rows import Infer, Intrinsic, Typed, constant_of, entered, index_type, type_argument
from cuda_device.errors import CompileError, DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.ir.ops import Effect
from cuda_device.types.host import alignment_of_hint, check_alignment
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.layout import size_of, usual_alignment
from cuda_device.types.model import INT32, INT64, UINT8, UINT32, UINT64, Array, Layout, Number, Ref, Space, Type, Vector


def shared_array(shape: int | tuple[int, ...], dtype: Any, order: str = "C", align: int = 0) -> Any:
    """Returns an array in memory that all threads of a block share. Its initial contents are unspecified.

    `shape` is an int or a tuple of ints, `dtype` a number, vector or struct type, `order` "C" or "F", and `align` a power of
    two in bytes (0: the alignment of the type). All must be constant expressions. There is one array for each place in the
    program text and each specialisation, like `__shared__` in CUDA C++, so two calls of a function use the same memory. All
    arrays of a kernel together may take as much as a block has on the architecture (64 KiB on sm_75, 227 KiB on sm_90). If they
    take more than 48 KiB, they are placed in dynamic shared memory, before the memory that the launch requests. To launch such
    code by other means than this package, add their size, rounded up to 128 bytes, to the dynamic shared memory. In kernels
    that call CUDA C++, and in interoperable ones, more than 48 KiB raises a `CompileError`. Specification: 'Local, Shared, and
    Const Memory'.
    """
    raise DeviceOnlyError.of("shared_array")


def local_array(shape: int | tuple[int, ...], dtype: Any, order: str = "C", align: int = 0) -> Any:
    """Returns an array in memory that belongs to one thread. Its initial contents are unspecified.

    The parameters are those of `shared_array`. Each call of the enclosing function has its own array, which exists only during
    the call, so a function cannot return it. Specification: 'Local, Shared, and Const Memory'.
    """
    raise DeviceOnlyError.of("local_array")


def dynamic_shared_array() -> Any:
    """Returns the shared memory that was requested with `launch(…, shared=…)`, a 1-D array of uint8 aligned to 128 bytes.

    Every call returns the same memory. Its initial contents are unspecified. Specification: 'Local, Shared, and Const Memory'.
    """
    raise DeviceOnlyError.of("dynamic_shared_array")


# CUDA's limit for the local memory of a thread.
_MOST_LOCAL_BYTES = 512 << 10
_SIZED_AT_LAUNCH = "pass the size of dynamic_shared_array() to launch as shared=…"


def _infer_array(space: Space) -> Infer:
    """shape, dtype, order, align → an array in `space`; the shape and the alignment are settings."""

    def infer(arguments: Sequence[Known]) -> Typed:
        shape, dtype, order, align = arguments
        extents = _shape(constant_of(shape, "shape", _SIZED_AT_LAUNCH if space is Space.SHARED else ""))
        hint = constant_of(dtype, "dtype")
        element = type_argument(dtype, "dtype")
        layout = {"C": Layout.C, "F": Layout.F}.get(str(constant_of(order, "order")))
        if layout is None:
            raise CompileError(
                f"order must be 'C' or 'F', not {order.python!r}", help="write order='C' or order='F', or leave it out"
            )
        boundary = max(_alignment(constant_of(align, "align"), element), alignment_of_hint(hint))
        if space is Space.LOCAL and math.prod(extents) * size_of(element) > _MOST_LOCAL_BYTES:
            raise CompileError(
                f"a local array has {math.prod(extents) * size_of(element)} bytes; the limit is {_MOST_LOCAL_BYTES} per thread",
                help="use a part of an array that the kernel takes as an argument",
            )
        array = Array(element, len(extents), layout, space=space, small=True, lengths=extents)
        return Typed(Known(array), settings=(extents, boundary))

    return infer


def _shape(shape: object) -> tuple[int, ...]:
    extents = shape if isinstance(shape, tuple) else (shape,)
    for extent in extents:
        if not isinstance(extent, int) or isinstance(extent, bool) or extent < 0:
            raise CompileError(
                f"shape must be a non-negative int or a tuple of non-negative ints, not {shape!r}",
                help="write a length, or a tuple of the lengths of all axes",
            )
    return extents


def _alignment(align: object, element: Type) -> int:
    if not isinstance(align, int) or align != 0 or isinstance(align, bool):
        try:
            check_alignment(align)
        except ValueError as error:
            raise CompileError(f"align: {error}", help="write align=16, for example, or leave it out") from None
    assert isinstance(align, int)  # by check_alignment
    return max(align, usual_alignment(element))


def _lower_array(build: Lowering, _: Sequence[Tree], typed: Typed) -> Tree:
    extents, boundary = typed.settings
    array = typed.result.type
    assert isinstance(array, Array)
    code = ops.SHARED if array.space is Space.SHARED else ops.LOCAL
    data = build.op(code, Ref(array.space, array.dtype), count=math.prod(extents), align=boundary)
    length = INT32 if array.small else INT64
    return ArrayTree(data, tuple(build.const(length, extent) for extent in extents))


def _infer_dynamic(_: Sequence[Known]) -> Typed:
    return Typed(Known(Array(UINT8, 1, space=Space.SHARED, small=True)))


def _lower_dynamic(build: Lowering, _: Sequence[Tree], typed: Typed) -> Tree:
    data = build.op(ops.DYNAMIC_SHARED, Ref(Space.SHARED, UINT8))
    build.sums.dynamic[data] = True
    size = build.op(ops.REGISTER, UINT32, nonneg=True, name="dynamic_shared_bytes")
    array = typed.result.type
    assert isinstance(array, Array)
    return ArrayTree(data, (build.length(size) if array.small else build.convert(size, INT64),))


def constant_array(elements: Any) -> Any:
    """A snapshot of a host array at compile time, in read-only memory."""
    raise DeviceOnlyError.of("constant_array")


# Limits the size of the program's text.
_MOST_CONSTANT_BYTES = 16 << 20


def _infer_constant(arguments: Sequence[Known]) -> Typed:
    """A NumPy array → a read-only array; its bytes are a setting."""
    elements = arguments[0].value
    assert isinstance(elements, np.ndarray)
    if elements.nbytes > _MOST_CONSTANT_BYTES:
        raise CompileError(
            f"an array constant has {elements.nbytes} bytes: the limit is {_MOST_CONSTANT_BYTES}",
            help="pass the array to the kernel as an argument",
        )
    element = type_argument(constant(elements.dtype), "dtype")
    data = np.ascontiguousarray(elements).tobytes().hex()
    array = Array(element, elements.ndim, readonly=True, space=Space.CONSTANT)
    return Typed(Known(array), settings=(elements.shape, data, max(16, usual_alignment(element))))


def _lower_constant(build: Lowering, _: Sequence[Tree], typed: Typed) -> Tree:
    extents, data, boundary = typed.settings
    array = typed.result.type
    assert isinstance(array, Array)
    memory = build.op(ops.CONSTANT, Ref(array.space, array.dtype), data=data, align=boundary)
    return ArrayTree(memory, tuple(build.const(INT64, extent) for extent in extents))


def array_at(dtype: Any, address: Any) -> Any:
    """An array at a host address, for functions of the CPU back end (`cpu/host_code`)."""
    raise DeviceOnlyError.of("array_at")


def _infer_at(arguments: Sequence[Known]) -> Typed:
    return Typed(Known(Array(type_argument(arguments[0], "dtype"), 1)), ((1, INT64),))


def _lower_at(build: Lowering, operands: Sequence[Any], typed: Typed) -> Tree:
    array = typed.result.type
    assert isinstance(array, Array)
    data = build.op(ops.EXTERN, Ref(Space.GLOBAL, array.dtype), operands[0], symbol="host_at")
    return ArrayTree(data, (build.const(INT64, INT64.high),))


def grid_word() -> Any:
    """An array of one uint32 shared by all threads of a cooperative launch, initially 0 except for the highest bit."""
    raise DeviceOnlyError.of("grid_word")


def cluster_word() -> Any:
    """The same for the threads of a cluster on the CPU."""
    raise DeviceOnlyError.of("cluster_word")


BLOCK_WORDS = 64
"""The length of `block_words`."""


def block_words() -> Any:
    """An array of 64 uint32 that the threads of a block share on CPU streams, initially 0, for barriers.

    Those from 0 to 15 belong to named barriers, and those from 24 on to the barrier of the cluster.
    """
    raise DeviceOnlyError.of("block_words")


def _word_row(entity: Callable[[], object], count: int = 1, **attributes: Any) -> Intrinsic:
    def lower(build: Lowering, _: Sequence[Tree], __: Typed) -> Tree:
        word = build.op(ops.GRID_WORD, Ref(Space.GLOBAL, UINT32), **attributes)
        return ArrayTree(word, (build.const(INT64, count),))

    return Intrinsic(entity, entity.__name__, lambda _: Typed(Known(Array(UINT32, 1))), lower)


def displaced(array: Any, offset: Any) -> Any:
    """An array like `array` at an offset in bytes: the same part of another array."""
    raise DeviceOnlyError.of("displaced")


def _infer_displaced(arguments: Sequence[Known]) -> Typed:
    return Typed(of_type(arguments[0].type), ((0, arguments[0].type), (1, INT64)))


def _lower_displaced(build: Lowering, operands: Sequence[Any], _: Typed) -> Tree:
    array, offset = operands
    # It has the aliases of `array`: launches compare the ranges of all such arrays with the other arguments.
    data = build.op(ops.BYTES, array.data.type, array.data, offset)
    return ArrayTree(data, array.extents, array.strides)


def aligned(array: Any, bytes: int) -> Any:
    """Returns the array, whose memory is aligned to `bytes`, a constant power of two.

    The shared array that it is a part of gets this alignment, if the array begins at a multiple of `bytes` there: at constant
    indices, or at run-time indices if the stride of their axis is a multiple. Dynamic shared memory can be aligned to 1024
    bytes. Raises `CompileError` where the compiler cannot guarantee the alignment.
    """
    raise DeviceOnlyError.of("aligned")


# Loads and stores with cache hints

_LOADS = ("ca", "cg", "cs", "lu", "cv")
_STORES = ("wb", "cg", "cs", "wt")


def cache_load(array: Any, index: Any, cache: str) -> Any:
    """Loads `array[index]` with a hint for the caches: CUDA's `__ldca`, `__ldcg`, `__ldcs`, `__ldlu` and `__ldcv`.

    `cache` is a constant: "ca" (all caches), "cg" (not L1), "cs" (streaming: probably read once), "lu" (last use) or "cv" (no
    cached copy). The array must be in global memory, and its elements must be numbers or vectors of 1, 2, 4, 8 or 16 bytes.
    `index` is an integer or a tuple of integers. On the CPU stream the hint has no effect. Device code only. Raises
    `CompileError` for other arguments.
    """
    raise DeviceOnlyError.of("cache_load")


def cache_store(array: Any, index: Any, value: Any, cache: str) -> None:
    """Stores `value` to `array[index]` with a hint for the caches: CUDA's `__stwb`, `__stcg`, `__stcs` and `__stwt`.

    `cache` is a constant: "wb" (write back), "cg" (not L1), "cs" (streaming: probably not used soon) or "wt" (write through).
    Otherwise like `cache_load`.
    """
    raise DeviceOnlyError.of("cache_store")


def _infer_cached(name: str, array: Known, index: Known, cache: Known, hints: Sequence[str]) -> Typed:
    hint, type = constant_of(cache, "cache"), array.type
    if hint not in hints:
        raise CompileError(
            f"cache must be one of {', '.join(hints)}, not {hint!r}", help="write 'cs' for streaming, for example"
        )
    if not isinstance(type, Array) or type.space is not Space.GLOBAL:
        raise CompileError(f"{name} takes an array in global memory, not {array}", help="index it: x[i]")
    size = size_of(type.dtype) if isinstance(type.dtype, (Number, Vector)) else 0
    if size not in (1, 2, 4, 8, 16) or type.align:
        raise CompileError(
            f"{name} takes aligned numbers and vectors of 1, 2, 4, 8 or 16 bytes, not {array}", help="index it: x[i]"
        )
    return Typed(of_type(type.dtype), ((0, type), (1, index_type(type, index, name))), (hint, size, type))


def _infer_load(arguments: Sequence[Known]) -> Typed:
    array, index, cache = arguments
    return _infer_cached("cache_load", array, index, cache, _LOADS)


def _infer_store(arguments: Sequence[Known]) -> Typed:
    array, index, _, cache = arguments
    if isinstance(array.type, Array) and array.type.readonly:
        raise CompileError(f"the array is read-only: {array}", help="pass an array that can be written")
    typed = _infer_cached("cache_store", array, index, cache, _STORES)
    return Typed(constant(None), (*typed.operands, (2, typed.result.type)), typed.settings)


def _lower_cached(build: Lowering, operands: Sequence[Any], typed: Typed) -> Tree:
    hint, size, type = typed.settings
    tree, index, *rest = operands
    indices = index if isinstance(index, tuple) else (index,)
    address, words = address_of(build, tree, type, indices), pack(build, type.dtype, rest[0]) if rest else []
    results = [Value(UINT32 if size <= 4 else UINT64) for _ in range(0 if rest else max(1, size // 8))]
    kind = "v2.b64" if size == 16 else f"b{8 * size}"
    both = "{$1, $2}" if rest else "{$0, $1}"
    value = both if size == 16 else "$1" if rest else "$0"
    instruction = (
        f"st.global.{hint}.{kind} [$0], {value};" if rest else f"ld.global.{hint}.{kind} {value}, [${len(results)}];"
    )
    build.append(Op(ops.PTX, [address, *words], results, {"instruction": instruction}, [], build.location))
    build.sums.opaque.update(results)
    return () if rest else unpack(build, results, type.dtype)


def _load(array: Any, index: Any, _: Any) -> Any:
    return array[index]


def _store(array: Any, index: Any, value: Any, _: Any) -> None:
    array[index] = value


CONSTANT_ARRAY = Intrinsic(constant_array, "constant_array", _infer_constant, _lower_constant)

ROWS = entered(
    CONSTANT_ARRAY,
    Intrinsic(array_at, "array_at", _infer_at, _lower_at),
    _word_row(grid_word),
    _word_row(cluster_word, cluster=True),
    _word_row(block_words, BLOCK_WORDS, block=True),
    Intrinsic(displaced, "displaced", _infer_displaced, _lower_displaced),
    Intrinsic(shared_array, "shared_array", _infer_array(Space.SHARED), _lower_array),
    Intrinsic(local_array, "local_array", _infer_array(Space.LOCAL), _lower_array, effects=Effect.LOCAL),
    Intrinsic(dynamic_shared_array, "dynamic_shared_array", _infer_dynamic, _lower_dynamic),
    Intrinsic(cache_load, "cache_load", _infer_load, _lower_cached, effects=ops.PTX.effects, on_cpu=_load),
    Intrinsic(cache_store, "cache_store", _infer_store, _lower_cached, effects=ops.PTX.effects, on_cpu=_store),
)
