"""How values of several numbers travel between memory and registers of a GPU: in one access where their alignment allows it.

And how pairs of 16-bit floats are computed with: by one instruction.
"""

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from conftest import StreamUnderTest

import cuda_device as device


@device.kernel
def copy(x: Any, y: Any) -> None:
    i = device.tid(1)
    if i < len(x):
        y[i] = x[i]


@device.kernel
def fused(x: Any, y: Any) -> None:
    i = device.tid(1)
    if i < len(x):
        y[i] = x[i] * x[i] + y[i]


@device.kernel
def summed(x: Any, y: Any) -> None:
    i = device.tid(1)
    if i < len(x):
        y[i] = x[i] + y[i]


def ptx(kernel: Any, type: Any, target: str = "sm_90") -> str:
    return device.compile(kernel, *[device.ArrayType(type, 1)] * 2, target=target, output="ptx").code


def accesses(code: str) -> Counter[str]:
    return Counter(re.findall(r"(?:ld|st)\.(?:global|shared)\S*", code))


# By the bytes of a vector and of its elements, for 2 and 4 of them.
WIDTHS = {
    (2, 1): "v2.b8",
    (4, 1): "b32",
    (4, 2): "b32",
    (8, 2): "v2.b32",
    (8, 4): "v2.b32",
    (16, 4): "v4.b32",
    (16, 8): "v2.b64",
}
FAMILIES = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64",
    "float8e4m3", "float8e5m2",
]  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_vectors(family: str, size: int) -> None:
    kind = getattr(device, f"{family}x{size}")
    each = device.sizeof(kind.dtype)
    if size in (1, 3):  # aligned as their elements
        count, width = size, f"b{8 * each}"
    else:
        count = max(1, each * size // 16)
        width = WIDTHS[each * size // count, each]
    assert accesses(ptx(copy, kind)) == {f"ld.global.{width}": count, f"st.global.{width}": count}


@device.struct(align=16)
class Four:
    a: device.float32
    b: device.float32
    c: device.float32
    d: device.float32


@device.struct(align=16)
class Halves:
    a: device.float16x4
    b: device.float16x4


@device.struct
class Pair:
    a: device.float64
    b: device.int32
    c: device.float32


@device.struct(align=8)
class Small:
    a: device.int16
    b: device.int16
    c: device.float32


@device.struct
class Loose:
    a: device.float32
    b: device.float32


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Four, {"v4.b32": 1}),
        (Halves, {"v4.b32": 1}),
        (Pair, {"b64": 1, "v2.b32": 1}),
        (Small, {"b32": 2}),
        (Loose, {"v2.b32": 1}),
    ],
)
def test_structs(kind: Any, expected: dict[str, int]) -> None:
    found = accesses(ptx(copy, kind))
    assert found == {f"{way}.global.{width}": n for way in ("ld", "st") for width, n in expected.items()}


@device.kernel
def through_shared(x: Any, y: Any) -> None:
    i = device.thread_idx.x
    tile = device.shared_array(64, Four)
    tile[i] = x[i]
    device.syncthreads()
    y[i] = tile[63 - i]


def test_shared_memory() -> None:
    found = accesses(ptx(through_shared, Four))
    assert (found["st.shared.v4.b32"], found["ld.shared.v4.b32"]) == (1, 1)


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(
    ("family", "target", "product", "total"),
    [
        ("float16", "sm_75", "fma.rn.f16x2", "add.f16x2"),
        ("float16", "sm_90", "fma.rn.f16x2", "add.f16x2"),
        ("bfloat16", "sm_80", "fma.rn.bf16x2", "fma.rn.bf16x2"),
        ("bfloat16", "sm_90", "fma.rn.bf16x2", "add.bf16x2"),
    ],
)
def test_packed_arithmetic(family: str, size: int, target: str, product: str, total: str) -> None:
    kind = getattr(device, f"{family}x{size}")
    for kernel, instruction in ((fused, product), (summed, total)):
        code = ptx(kernel, kind, target)
        assert code.count(f"\t{instruction} ") == size // 2, code
        assert not re.search(r"(add|mul|fma\.rn)\.b?f16 ", code)
        device.compile(kernel, *[device.ArrayType(kind, 1)] * 2, target=target)


@pytest.mark.parametrize("family", ["float16", "bfloat16"])
def test_packed_results(stream: StreamUnderTest, family: str) -> None:
    kind = getattr(device, f"{family}x4")
    numbers = np.arange(1, 33).astype(kind.dtype)
    x, y = stream.array(numbers.view(device.numpy_dtype(kind))), stream.array(numbers.view(device.numpy_dtype(kind)))
    stream.launch(summed, x, y, grid=1, block=32)
    assert np.array_equal(stream.numpy(y).view(kind.dtype).astype(float), np.arange(1, 33) * 2.0)
