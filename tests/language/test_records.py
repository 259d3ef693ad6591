"""Structured NumPy dtypes that this package did not make: packed, overlapping, nested, with subarrays."""

from typing import Any

import numpy as np
import pytest
from against_python import refused
from conftest import StreamUnderTest, poison
from ir_helpers import define

import cuda_device as device
from cuda_device.ir.text import parse_type
from cuda_device.types.host import dtype_of_type, element_of_dtype

PACKED = np.dtype([("a", "i1"), ("b", "f8"), ("c", "i2"), ("d", "f4")])
GAPS = np.dtype({"names": ["x", "y"], "formats": ["f4", "i8"], "offsets": [12, 1], "itemsize": 21})
UNION = np.dtype({"names": ["bits", "number"], "formats": ["u4", "f4"], "offsets": [0, 0], "itemsize": 4})
TITLED = np.dtype([(("the place", "x"), "f4"), ("y y", "i8")])
BODY = np.dtype([("id", "i2"), ("m", "f4", (3,)), ("t", "f8", (2, 3))])
NESTED = np.dtype([("tag", "u1"), ("body", BODY), ("parts", PACKED, (2,))])
DTYPES = [PACKED, GAPS, UNION, TITLED, BODY, NESTED, np.dtype([("a", "i1"), ("b", "f8")], align=True)]


def filled(dtype: np.dtype[Any], shape: Any, seed: int = 1) -> np.ndarray[Any, Any]:
    """Elements all of whose numbers are small and different."""
    x = np.zeros(shape, dtype)
    fill(x, np.random.default_rng(seed))
    return x


def fill(x: np.ndarray[Any, Any], random: np.random.Generator) -> None:
    if x.dtype.names is None:
        x[...] = random.integers(1, 100, x.shape)
    for name in x.dtype.names or ():
        fill(x[name], random)


@pytest.mark.parametrize("dtype", DTYPES, ids=range(len(DTYPES)))
def test_types(dtype: np.dtype[Any]) -> None:
    type = element_of_dtype(dtype)
    assert parse_type(str(type)) == type
    back = dtype_of_type(type)
    assert back.itemsize == dtype.itemsize and back.names == dtype.names
    assert [back.fields[name][1] for name in back.names] == [dtype.fields[name][1] for name in dtype.names]


@device.kernel
def copy(x: Any, y: Any) -> None:
    i = device.tid(1)
    if i < len(x):
        y[i] = x[i]


@pytest.mark.parametrize("dtype", DTYPES, ids=range(len(DTYPES)))
def test_elements_are_copied(stream: StreamUnderTest, dtype: np.dtype[Any]) -> None:
    x, y = filled(dtype, 40), stream.empty(40, dtype)
    stream.launch(copy, stream.array(x), y, grid=2, block=32)
    found = stream.numpy(y)
    for name in dtype.names:
        assert np.array_equal(found[name], x[name]), name


@device.func
def chosen(x: Any, i: Any) -> Any:
    return x[i] if i % 2 else x[0]


@device.func
def second(body: Any) -> Any:
    return body.m[1]


@device.kernel
def values(x: Any, y: Any, out: Any, j: Any) -> None:
    i = device.tid(1)
    p = chosen(x, i)
    x[i].m[j] = -1  # p is a copy
    out[0, i] = p.m[j] + p["m"][0] + second(p)
    out[1, i] = p.t[j - 1, j]
    out[2, i] = p.t[1][j] + p.t[-1, -3]
    a, b, c = p.m
    out[3, i] = a * 100 + b * 10 + c
    out[4, i] = len(p.t) + p.t.shape[1] + p.t.ndim + p.t.size
    total = 0
    for row in p.t:
        total += row[0] + row[j]
    out[5, i] = total
    out[6, i] = p == p and p != x[1]
    device.syncthreads()
    y[i] = p


def test_values(stream: StreamUnderTest) -> None:
    x = filled(BODY, 4)
    _, y, out = stream.run(values, x[[0, 1, 0, 3]], poison(4, BODY), poison((7, 4), np.float64), 1)
    p = x[0]
    assert out[:, 0].tolist() == [
        p["m"][1] + p["m"][0] + p["m"][1], p["t"][0, 1], p["t"][1, 1] + p["t"][1, 0], p["m"] @ [100, 10, 1], 2 + 3 + 2 + 6,
        p["t"][:, :2].sum(), 1,
    ]  # fmt: skip
    assert y[0] == p


@device.kernel
def changes(x: Any, y: Any, j: Any) -> None:
    i = device.tid(1)
    s = x[i]
    s.m[j] = 50
    s.t[1] = (7, 8, 9)
    s.t[:, 0] = 60
    s.t[0][j] += 1 if i else 2
    s.m[2:] = s.t[0, 1:2]
    y[i] = s
    s.m = x[i].m[::-1]
    s.t = 4
    y[i + 2] = s
    y[4] = (3, (1, 2, 3), ((1, 2, 3), x[0].m))


def test_subarrays_of_values_are_assigned_to(stream: StreamUnderTest) -> None:
    before = filled(BODY, 2)
    x, y = stream.run(changes, before, filled(BODY, 5, seed=2), 1, block=2)
    want = np.concatenate([before, before, before[:1]])
    for i in range(2):
        first, second = want[i], want[i + 2]
        first["m"][1] = 50
        first["t"][1] = (7, 8, 9)
        first["t"][:, 0] = 60
        first["t"][0][1] += 1 if i else 2
        first["m"][2:] = first["t"][0, 1:2]
        second["m"] = before[i]["m"][::-1]
        second["t"] = 4
    want[4] = (3, (1, 2, 3), ((1, 2, 3), before[0]["m"]))
    assert x.tobytes() == before.tobytes() and y.tobytes() == want.tobytes()


@device.struct
class Own:
    a: device.int8
    b: device.float64
    c: device.int16
    d: device.float32


def test_elements_of_one_layout_become_those_of_another(stream: StreamUnderTest) -> None:
    x = filled(PACKED, 4)
    aligned = np.dtype([(name, PACKED[name]) for name in PACKED.names], align=True)
    for dtype in (aligned, device.numpy_dtype(Own)):
        there, back = stream.empty(4, dtype), stream.empty(4, PACKED)
        if dtype is aligned:
            stream.launch(copy, stream.array(x), there, grid=1, block=4)
            assert stream.numpy(there).tolist() == x.tolist()
        else:
            there = stream.array(np.array(x.tolist(), dtype))
        stream.launch(copy, there, back, grid=1, block=4)
        assert stream.numpy(back).tolist() == x.tolist()


LARGE = np.dtype([("n", "i4"), ("m", "f4", (600,))])
HOLDS_LARGE = np.dtype([("inner", LARGE), ("k", "i4")])


@pytest.mark.parametrize("target", ["x[1]", "y[0].inner"])
def test_what_is_too_large_for_a_variable_is_copied_before_it_changes(target: str) -> None:
    """It is copied in memory, from where it lies: once that may have changed there is nothing to copy."""
    x, y = filled(LARGE, 2), np.zeros(1, HOLDS_LARGE)
    copies = define(f"@device.kernel\ndef k(x, y):\n    {target} = x[0]\n")
    device.launch(copies, x, y, grid=1, block=1, stream=device.cpu_stream())
    assert (x[1] if target == "x[1]" else y[0]["inner"]) == x[0]
    late = define(f"@device.kernel\ndef k(x, y):\n    big = x[0]\n    x[0].n = 5\n    {target} = big\n")
    with pytest.raises(device.CompileError, match="a value of 601 numbers is too large"):
        device.launch(late, x, y, grid=1, block=1, stream=device.cpu_stream())


def test_a_tuple_that_is_too_long_for_a_slice_is_reported() -> None:
    def fill(x: Any, n: Any) -> None:
        x[0].m[:n] = (1, 2, 3)

    x, stream = np.zeros(1, BODY), device.cpu_stream()
    kernel = device.kernel(fill, checked=True)
    device.launch(kernel, x, 3, grid=1, block=1, stream=stream)
    assert x["m"].tolist() == [[1, 2, 3]]
    with pytest.raises(device.KernelError, match="an axis of length 3 cannot be assigned to one of length 2"):
        device.launch(kernel, x, 2, grid=1, block=1, stream=stream)


def test_narrow_accesses() -> None:
    """15 bytes apart, nothing is aligned to more than a byte; 8 + 2 * 4 bytes apart, everything is that is at a multiple."""
    code = device.compile(copy, *[device.ArrayType(PACKED, 1)] * 2, output="ptx").code
    accesses = {line.split()[0] for line in code.splitlines() if "ld.global" in line or "st.global" in line}
    assert accesses == {"ld.global.b8", "st.global.b8"}
    device.compile(copy, *[device.ArrayType(NESTED, 1)] * 2)


HUGE = np.dtype([("id", "i4"), ("m", "f4", (5000,))])


def test_errors() -> None:
    odd = np.dtype([("a", "u1"), ("d", "f4")])
    for dtype, statement, message in (
        (BODY, "x[0].m = (1, 2)", "cannot assign 2 values to 3 elements"),
        (BODY, "s = x[0]; s.m[1:][0] = 5", "the array is read-only"),
        (PACKED, "x[0].nothing", "no member 'nothing'"),
        (PACKED, "x[0]['nothing']", "its members are a, b, c, d"),
        (odd, "device.atomic_ref(x['d'], 0).add(1)", "aligned to 1 byte: atomics need 4"),
        (BODY, "p = x[0]; p.m[0, 1]", "1 axes, but there are 2 indices"),
    ):
        refused(define(f"def k(x):\n    {statement}\n"), device.ArrayType(dtype, 1), match=message)
    for statement in ("before = x[0]; x[0].id = 1; x[1] = before", "x[0].m[(lambda p: p.id)(x[1])]"):
        kernel = define(f"@device.kernel\ndef k(x):\n    {statement}\n")
        with pytest.raises(device.CompileError, match="a value of 5001 numbers is too large"):
            device.compile(kernel, device.ArrayType(HUGE, 1))
    with pytest.raises(TypeError, match="<U3"):
        device.ArrayType(np.dtype([("name", "U3"), ("n", "i4")]), 1)
    with pytest.raises(TypeError, match="byte order"):
        device.ArrayType(np.dtype([("n", ">i4")]), 1)


def test_arrays_made_of_such_types() -> None:
    stream = device.cpu_stream()
    x = filled(NESTED, 3)
    made = device.array(x, stream=stream)
    assert made.dtype == NESTED and np.array_equal(made.numpy(), x)
    zeros = device.zeros(2, PACKED, stream=stream)
    assert zeros.itemsize == 15 and zeros.numpy().tolist() == [(0, 0.0, 0, 0.0)] * 2
