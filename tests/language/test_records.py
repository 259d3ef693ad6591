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


@device.kernel
def members(x: Any, out: Any) -> None:
    i = device.tid(1)
    out[i] = x[i].a + x[i]["b"] * 2 + x["c"][i]
    x[i].b = x[i].d
    x[i]["c"] = x[i].c + 1
    x["d"][i] = x["d"][i] * 2
    x[i].a += 1
    x[i]["a"] += 1


def test_packed_members(stream: StreamUnderTest) -> None:
    x = filled(PACKED, 8)
    array, out = stream.run(members, x, poison(8, np.float64), block=8)
    assert np.array_equal(out, x["a"] + x["b"] * 2 + x["c"])
    found = array
    assert np.array_equal(found["a"], x["a"] + 2) and np.array_equal(found["b"], x["d"])
    assert np.array_equal(found["c"], x["c"] + 1) and np.array_equal(found["d"], x["d"] * 2)


@device.kernel
def odd(gaps: Any, union: Any, titled: Any, out: Any) -> None:
    i = device.tid(1)
    out[0, i] = gaps[i].x + gaps[i].y
    gaps[i].y = 2**40
    union[i].number = 1.5
    out[1, i] = union[i].bits
    out[2, i] = titled[i].x + titled[i]["y y"]
    titled[i]["y y"] = -1


def test_gaps_unions_and_titles(stream: StreamUnderTest) -> None:
    gaps, union, titled = filled(GAPS, 4), filled(UNION, 4), filled(TITLED, 4)
    arrays = [stream.array(x) for x in (gaps, union, titled)]
    out = stream.empty((3, 4), np.float64)
    stream.launch(odd, *arrays, out, grid=1, block=4)
    expected = [gaps["x"] + gaps["y"], [0x3FC00000] * 4, titled["x"] + titled["y y"]]
    assert np.array_equal(stream.numpy(out), expected)
    assert stream.numpy(arrays[0])["y"].tolist() == [2**40] * 4 and np.array_equal(
        stream.numpy(arrays[0])["x"], gaps["x"]
    )
    assert stream.numpy(arrays[2])["y y"].tolist() == [-1] * 4


@device.kernel
def subarrays(x: Any, out: Any, j: Any, k: Any) -> None:
    i = device.tid(1)
    out[0, i] = x[i].m[j]
    out[1, i] = x[i]["m"][-1]
    out[2, i] = x["m"][i, j]
    out[3, i] = x[i].t[j - 2, k]
    out[4, i] = x["t"][i][1][2]
    out[5, i] = len(x[i].m) + x[i].t.shape[1] * 10 + x["t"].ndim * 100
    out[6, i] = sum(x[i].m)
    total = 0
    for row in x[i].t:
        for number in row:
            total += number
    out[7, i] = total
    out[8, i] = x[i].t[:, 1][0] + x[i].m[1:][0]
    out[9, i] = x["id"][i]


def test_subarrays_in_memory(stream: StreamUnderTest) -> None:
    x, out = filled(BODY, 6), stream.empty((10, 6), np.float64)
    stream.launch(subarrays, stream.array(x), out, 1, np.int64(-1), grid=1, block=6)
    m, t = x["m"], x["t"]
    facts = np.full(6, 3 + 30 + 300)
    expected = [m[:, 1], m[:, 2], m[:, 1], t[:, 1, 2], t[:, 1, 2], facts, m.sum(1), t.sum((1, 2)), t[:, 0, 1] + m[:, 1]]
    assert np.array_equal(stream.numpy(out), [*expected, x["id"]])


@device.kernel
def writes(x: Any, y: Any, j: Any) -> None:
    i = device.tid(1)
    x[i].m[j] = 1000
    x[i]["t"][1, j] = y[i].m[0]
    x[i].t[0] = y[i].m
    x["m"][i, 0] += 1
    y[i].m = (7, 8, y[i].m[0])
    y[i].t = 5
    y[i].t[1:, ::2] = 6


def test_subarrays_are_written(stream: StreamUnderTest) -> None:
    x, y = filled(BODY, 5, 2), filled(BODY, 5, 3)
    a, b = stream.run(writes, x, y, np.int32(2), block=5)
    x["m"][:, 2] = 1000
    x["t"][:, 1, 2] = y["m"][:, 0]
    x["t"][:, 0] = y["m"]
    x["m"][:, 0] += 1
    y["m"] = np.stack([np.full(5, 7), np.full(5, 8), y["m"][:, 0]], axis=1)
    y["t"] = 5
    y["t"][:, 1, ::2] = 6
    for found, expected in ((a, x), (b, y)):
        for name in BODY.names:
            assert np.array_equal(found[name], expected[name]), name


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


@device.kernel
def deep(x: Any, out: Any, j: Any) -> None:
    i = device.tid(1)
    out[0, i] = x[i].body.m[j]
    out[1, i] = x[i].parts[j].b
    out[2, i] = x["body"]["t"][i, j, 0]
    out[3, i] = x["parts"][i, 0].c
    out[4, i] = x["parts"]["d"][i, j]
    x[i].body.id = 3
    x[i].body.t[0, j] = 4
    x[i].parts[j].b = 5
    x[i].parts[0] = x[i].parts[1]
    whole = x[i].body
    out[5, i] = whole.t[0, j]


def test_nested(stream: StreamUnderTest) -> None:
    x, out = filled(NESTED, 3), stream.empty((6, 3), np.float64)
    array = stream.array(x)
    stream.launch(deep, array, out, 1, grid=1, block=3)
    expected = [
        x["body"]["m"][:, 1], x["parts"]["b"][:, 1], x["body"]["t"][:, 1, 0], x["parts"]["c"][:, 0], x["parts"]["d"][:, 1],
        [4] * 3,
    ]  # fmt: skip
    assert np.array_equal(stream.numpy(out), expected)
    found = stream.numpy(array)
    x["body"]["id"], x["body"]["t"][:, 0, 1], x["parts"]["b"][:, 1] = 3, 4, 5
    x["parts"][:, 0] = x["parts"][:, 1]
    assert np.array_equal(found, x)


MIXED = np.dtype([("d", "f8"), ("m", "u1", (3,)), ("k", "i4")])


def test_arrays_of_any_layout() -> None:
    for x in (filled(MIXED, (4, 6)), filled(MIXED, (6, 4)).T, filled(MIXED, (8, 6))[::2, ::-1]):
        before = x.copy()
        out = np.full(x.shape, np.nan)
        device.launch(two_axes_of_members, x, out, grid=1, block=1, stream=device.cpu_stream())
        assert np.array_equal(out, before["d"] + before["m"][..., 1])
        assert np.array_equal(x["k"], before["k"] + np.arange(x.shape[0])[:, None])


@device.kernel
def two_axes_of_members(x: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j].d + x["m"][i, j, 1]
            x[i, j].k += i


@device.kernel
def made(x: Any) -> None:
    x[0] = (1, 2.5, 3, 4)
    x[1] = device.replace(x[0], c=7)


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


def test_tuples_become_elements(stream: StreamUnderTest) -> None:
    assert stream.run(made, poison(2, PACKED)).tolist() == [(1, 2.5, 3, 4), (1, 2.5, 7, 4)]


def test_a_tuple_that_is_too_long_for_a_slice_is_reported() -> None:
    def fill(x: Any, n: Any) -> None:
        x[0].m[:n] = (1, 2, 3)

    x, stream = np.zeros(1, BODY), device.cpu_stream()
    kernel = device.kernel(fill, checked=True)
    device.launch(kernel, x, 3, grid=1, block=1, stream=stream)
    assert x["m"].tolist() == [[1, 2, 3]]
    with pytest.raises(device.KernelError, match="an axis of length 3 cannot be assigned to one of length 2"):
        device.launch(kernel, x, 2, grid=1, block=1, stream=stream)


POINT = np.dtype([("x", "f4"), ("y", "i2")])


def test_tuples_in_tuples_become_records_in_records(stream: StreamUnderTest) -> None:
    wide = np.dtype([("x", "f8"), ("y", "i8")])
    x, points = np.zeros(2, [("p", POINT), ("k", "u1")]), np.array([(1.5, -7), (2.5, 9)], wide)

    def fill(x: Any, points: Any) -> None:
        x[0] = ((3, -4), 5)
        x[1] = (points[1], 6)

    found, _ = stream.run(device.kernel(fill), x, points)
    expected = x.copy()
    expected[0], expected[1] = ((3, -4), 5), ((2.5, 9), 6)
    assert found.tolist() == expected.tolist()


@device.kernel
def argument(p: Any, t: Any, out: Any) -> None:
    out[0] = p.id + p.m[1] + p.t[1, 2]
    out[1] = t[0].b + t[0]["a"]


def test_elements_as_arguments(stream: StreamUnderTest) -> None:
    body, packed, out = filled(BODY, 1)[0], filled(PACKED, 1)[0], stream.empty(2, np.float64)
    stream.launch(argument, body, (packed, 3), out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [body["id"] + body["m"][1] + body["t"][1, 2], packed["b"] + packed["a"]]


@device.kernel
def shared(x: Any, y: Any) -> None:
    i = device.tid(1)
    tile = device.shared_array(8, PACKED)
    tile[i] = x[i]
    tile[i].b += 1
    device.syncthreads()
    y[i] = tile[7 - i]


def test_shared_arrays(stream: StreamUnderTest) -> None:
    x, y = filled(PACKED, 8), stream.empty(8, PACKED)
    stream.launch(shared, stream.array(x), y, grid=1, block=8)
    x["b"] += 1
    assert np.array_equal(stream.numpy(y), x[::-1])


@device.kernel
def types(x: Any, out: Any) -> None:
    out[0] = x.dtype == PACKED
    out[1] = x.itemsize
    out[2] = x["b"].dtype == device.float64
    out[3] = x["b"].strides[0]


def test_facts(stream: StreamUnderTest) -> None:
    assert stream.run(types, filled(PACKED, 2), poison(4, np.int32))[-1].tolist() == [1, 15, 1, 15]


def test_narrow_accesses() -> None:
    """15 bytes apart, nothing is aligned to more than a byte; 8 + 2 * 4 bytes apart, everything is that is at a multiple."""
    code = device.compile(copy, *[device.ArrayType(PACKED, 1)] * 2, output="ptx").code
    accesses = {line.split()[0] for line in code.splitlines() if "ld.global" in line or "st.global" in line}
    assert accesses == {"ld.global.b8", "st.global.b8"}
    device.compile(copy, *[device.ArrayType(NESTED, 1)] * 2)


TABLE = filled(BODY, 3, 5)
ENTRY = TABLE[1]
LONE = np.zeros(1, device.numpy_dtype(device.float32x2))[0]


@device.kernel
def constants(out: Any) -> None:
    i = device.tid(1)
    out[0] = ENTRY.id + ENTRY.m[1] + ENTRY["t"][i, 2]
    out[1] = TABLE[i + 2].m[0] + TABLE["t"][i, 1, 2]
    out[2] = TABLE[2].id + TABLE[2].m[-1]
    out[3] = LONE.x + LONE.y


def test_constants(stream: StreamUnderTest) -> None:
    out = stream.run(constants, poison(4, np.float64))
    entry, last = TABLE[1], TABLE[2]
    expected = [
        entry["id"] + entry["m"][1] + entry["t"][0, 2],
        last["m"][0] + TABLE["t"][0, 1, 2],
        last["id"] + last["m"][2],
    ]
    assert out.tolist() == [*expected, 0]


LONG = np.dtype([("id", "i4"), ("m", "i2", (8, 12))])


@device.kernel
def long(x: Any, y: Any, out: Any, j: Any) -> None:
    p = x[1]
    out[0] = p.m[j, j + 1]
    out[1] = p.m[j][-1]
    out[2] = p.m[-j - 1, 2]
    y[0] = p


def test_long_subarrays(stream: StreamUnderTest) -> None:
    x, y, out = filled(LONG, 2), stream.empty(1, LONG), stream.empty(3, np.int32)
    stream.launch(long, stream.array(x), y, out, 4, grid=1, block=1)
    m = x["m"][1]
    assert stream.numpy(out).tolist() == [m[4, 5], m[4, -1], m[-5, 2]] and stream.numpy(y)[0] == x[1]


HUGE = np.dtype([("id", "i4"), ("m", "f4", (5000,))])


@device.kernel
def huge(x: Any, y: Any, j: Any) -> None:
    x[0].m[j] = y[0].m[j + 1] + y[0].id
    x[1].m = y[1].m
    x[2] = y[j - 6]
    x[3]["m"] = y[0]["m"]


def test_huge_subarrays_stay_in_memory(stream: StreamUnderTest) -> None:
    x, y = filled(HUGE, 4), filled(HUGE, 2, 3)
    a, _ = stream.run(huge, x, y, 7)
    x["m"][0, 7] = y["m"][0, 8] + y["id"][0]
    x["m"][1] = y["m"][1]
    x[2], x["m"][3] = y[1], y["m"][0]
    assert a.tobytes() == x.tobytes()


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


def test_a_record_with_a_complex_member_is_an_argument(stream: StreamUnderTest) -> None:
    @device.kernel
    def kernel(record: Any, out: Any) -> None:
        out[0] = record.z * record.n

    record = np.zeros((), [("n", "i4"), ("z", "c16")])
    record["n"], record["z"] = 3, 1 - 2j
    out = stream.empty(1, np.complex128)
    stream.launch(kernel, record[()], out, grid=1, block=1)
    assert stream.numpy(out)[0] == 3 - 6j
