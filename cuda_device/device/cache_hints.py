"""`cache_load` and `cache_store`: loads and stores with cache hints, like `__ldcs` and `__stcg` in CUDA C++.

value = device.cache_load(x, i, "cs")        # x[i], which is read once
device.cache_store(y, i, value, "cs")        # y[i] = value, which no thread reads soon
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuda_device.device.atomics import index_type
from cuda_device.device.lowering import ArrayTree, Lowering, Tree, address_of
from cuda_device.device.packing import fits, pack, unpack
from cuda_device.device.rows import Intrinsic, Typed, constant_of
from cuda_device.errors import CompileError, DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.layout import leaves, size_of
from cuda_device.types.model import UINT32, UINT64, Array, Number, Space, Vector

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


def _infer(name: str, array: Known, index: Known, cache: Known, hints: Sequence[str]) -> Typed:
    hint, type = constant_of(cache, "cache"), array.type
    if hint not in hints:
        raise CompileError(
            f"cache must be one of {', '.join(hints)}, not {hint!r}", help="write 'cs' for streaming, for example"
        )
    if not isinstance(type, Array) or type.space is not Space.GLOBAL:
        raise CompileError(f"{name} takes an array in global memory, not {array}", help="index it: x[i]")
    size = size_of(type.dtype) if isinstance(type.dtype, (Number, Vector)) else 0
    if size not in (1, 2, 4, 8, 16) or type.align or not fits(leaves(type.dtype)):
        raise CompileError(
            f"{name} takes aligned numbers and vectors of 1, 2, 4, 8 or 16 bytes, not {array}", help="index it: x[i]"
        )
    return Typed(of_type(type.dtype), ((0, type), (1, index_type(type, index, name))), (hint, size, type))


def _infer_load(arguments: Sequence[Known]) -> Typed:
    array, index, cache = arguments
    return _infer("cache_load", array, index, cache, _LOADS)


def _infer_store(arguments: Sequence[Known]) -> Typed:
    array, index, _, cache = arguments
    if isinstance(array.type, Array) and array.type.readonly:
        raise CompileError(f"the array is read-only: {array}", help="pass an array that can be written")
    typed = _infer("cache_store", array, index, cache, _STORES)
    return Typed(constant(None), (*typed.operands, (2, typed.result.type)), typed.settings)


def _lower(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
    hint, size, type = typed.settings
    tree, index, *rest = operands
    assert isinstance(tree, ArrayTree) and isinstance(type, Array) and isinstance(size, int)
    indices = [value for value in (index if isinstance(index, tuple) else (index,)) if isinstance(value, Value)]
    place, words = address_of(build, tree, type, indices), pack(build, rest[0]) if rest else []
    results = [Value(UINT32 if size <= 4 else UINT64) for _ in range(0 if rest else max(1, size // 8))]
    kind = "v2.b64" if size == 16 else f"b{8 * size}"
    both = "{$1, $2}" if rest else "{$0, $1}"
    value = both if size == 16 else "$1" if rest else "$0"
    instruction = (
        f"st.global.{hint}.{kind} [$0], {value};" if rest else f"ld.global.{hint}.{kind} {value}, [${len(results)}];"
    )
    build.append(Op(ops.PTX, [place, *words], results, {"instruction": instruction}, [], build.location))
    build.sums.opaque.update(results)
    return () if rest else unpack(build, results, type.dtype)


def _load(array: Any, index: Any, _: Any) -> Any:
    return array[index]


def _store(array: Any, index: Any, value: Any, _: Any) -> None:
    array[index] = value


ROWS = (
    Intrinsic(cache_load, "cache_load", _infer_load, _lower, effects=ops.PTX.effects, on_cpu=_load),
    Intrinsic(cache_store, "cache_store", _infer_store, _lower, effects=ops.PTX.effects, on_cpu=_store),
)
