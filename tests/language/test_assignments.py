"""Assignments to parts of values: vectors, structs and masks in variables, and their parts in arrays."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import poison

import cuda_device as device
from cuda_device import float32, float32x2, float32x4, int32


@device.struct
class Inner:
    a: float32
    v: float32x2


@device.struct
class Outer:
    n: int32
    inner: Inner


@device.kernel
def variables(out, k):
    v = float32x4(1, 2, 3, 4)
    w = v
    v[0] = 10
    v.w = 40.5
    v[k] = 7
    v[-2] += 1
    out[0], out[1], out[2], out[3] = v[0], v[1], v[2], v[3]
    out[4] = w.x + w.w
    s = Outer(1, Inner(2, float32x2(3, 4)))
    t = u = s
    s.n = 5
    t.n = 6
    out[5], out[6], out[7] = s.n, t.n, u.n
    for i in range(3):
        s.n = s.n * 2
        if i == 1:
            v.x = v.x + 1
    out[8], out[9] = s.n, v.x


def test_a_variable_changes_and_no_other_does(stream):
    assert stream.run(variables, poison(10, np.float32), 1).tolist() == [10, 7, 4, 40.5, 5, 5, 6, 1, 40, 11]


@device.kernel
def several_targets(out, k):
    v, s, numbers = float32x2(1, 2), Outer(3, Inner(4, float32x2(5, 6))), [0, 0]
    v.x, w = 10, v
    v[k], x, numbers[0] = 20, v, v.y
    s.inner.v.x, t, s.n = (30 if k else 40), s, 7
    numbers[1], same = 8, numbers
    out[0], out[1], out[2], out[3], out[4] = v.x, v.y, w.x, x.x, x.y
    out[5], out[6], out[7], out[8] = s.inner.v.x, s.n, t.inner.v.x, t.n
    out[9], out[10] = numbers[0], same[1]


def test_the_values_of_several_targets_are_those_before_the_first_assignment(stream):
    assert stream.run(several_targets, poison(11, np.float32), 1).tolist() == [10, 20, 1, 10, 2, 30, 7, 5, 3, 2, 8]


@device.struct
class Whole:
    outer: Outer
    v: float32x4
    t: tuple[Inner, int]


@device.kernel
def parts_of_parts(out, k):
    w = Whole(Outer(1, Inner(2, float32x2(3, 4))), float32x4(1, 2, 3, 4), (Inner(5, float32x2(6, 7)), 8))
    before = w
    w.outer.inner.a = 20
    w.outer.inner.v.y += 1
    w.outer.n, w.v[k] = 10, 30
    w.t[0].v[-1] *= 2
    inner = w.outer.inner
    inner.a = -1
    out[0], out[1], out[2], out[3], out[4] = w.outer.inner.a, w.outer.inner.v.y, w.outer.n, w.v.y, w.t[0].v.y
    out[5] = before.outer.inner.a + before.outer.inner.v.y + before.v.y + before.t[0].v.y
    for i in range(3):
        w.outer.n += i
        if i == 1:
            before = w
    out[6], out[7] = w.outer.n, before.outer.n


def test_parts_of_parts_change_and_so_does_the_variable(stream):
    assert stream.run(parts_of_parts, poison(8, np.float32), 1).tolist() == [20, 5, 10, 30, 14, 2 + 4 + 2 + 7, 13, 11]


@device.kernel
def conditional_values(out, points, k):
    s = Outer(1, Inner(2, float32x2(3, 4)))
    s.n += 10 if k > 0 else 20
    s.inner.v.y -= k and 3
    s.inner.v[0 if k else 1] = 7
    v = float32x2(1, 2)
    v[1 if k > 5 else 0] *= 5 if k else 6
    mask = device.WarpMask(1)
    mask[2] |= k > 0 and k < 5
    out[0], out[1], out[2], out[3], out[4] = s.n, s.inner.v.y, s.inner.v.x, v.x, mask
    points[k].inner.v.x += 1 if k else 2
    points[0 if k else 1].inner.v[k] -= (2 if k > 0 else 3) if k < 5 else 4
    points[0]["n"] *= max(i for i in range(5)) if k else 0


def test_assignments_know_their_place_past_conditions(stream):
    points = np.array([(1, (2, (3, 4))), (5, (6, (7, 8)))], device.numpy_dtype(Outer))
    out, points = stream.empty(5, np.float32), stream.array(points)
    stream.launch(conditional_values, out, points, 1, grid=1, block=1)
    assert stream.numpy(out).tolist() == [11, 1, 7, 5, 5]
    assert stream.numpy(points).tolist() == [(4, (2, (3, 2))), (5, (6, (8, 8)))]


@device.kernel
def parts_of_tuples(items):
    i = device.tid(1)
    items[i].t[0].a = 1.5
    items[i].t[0].v[1] += 2 if i else 3


def test_a_part_of_a_tuple_in_memory_is_written_alone(stream):
    items = stream.run(parts_of_tuples, np.zeros(3, device.numpy_dtype(Whole)), block=3)
    assert items["t"].tolist() == [((1.5, (0, 3 if i == 0 else 2)), 0) for i in range(3)]
    ptx = str(device.compile(parts_of_tuples, device.ArrayType(Whole, 1), output="ptx"))
    assert ptx.count("st.global") == 2 and "st.global.v" not in ptx


@device.kernel
def elements(items, vectors, i):
    items[i].n = 3
    items[i].inner.a = 1.5
    items[i].inner.v.y = 8
    items[i].inner.v[0] += 1
    vectors[i].x = 9
    vectors[i][1] = vectors[i].x + 1
    for k in range(2):
        vectors[i - 1][-1 - k] = k + 5
    item = items[0]
    item.n = 77
    part = items[0].inner
    part.a = 99


def test_elements_of_arrays_change_in_memory_and_copies_do_not(stream):
    items = np.zeros(3, device.numpy_dtype(Outer))
    vectors = np.zeros(3, device.numpy_dtype(float32x2))
    items, vectors = stream.array(items), stream.array(vectors)
    stream.launch(elements, items, vectors, 2, grid=1, block=1)
    assert stream.numpy(items).tolist() == [(0, (0, (0, 0)))] * 2 + [(3, (1.5, (1, 8)))]
    assert stream.numpy(vectors).tolist() == [(0, 0), (6, 5), (9, 10)]


@device.kernel
def each_its_member(items):
    i = device.tid(1)
    if i % 2:
        items[i // 2].n = i
    else:
        items[i // 2].inner.a = float32(i)


def test_neighbouring_members_are_left_alone(stream):
    got = stream.run(each_its_member, np.zeros(64, device.numpy_dtype(Outer)), grid=4, block=32)
    assert got["n"].tolist() == list(range(1, 128, 2)) and got["inner"]["a"].tolist() == list(range(0, 128, 2))


@device.kernel
def indices_with_ways(out, k):
    v = float32x4(1, 2, 3, 4)
    w = v
    v[2 if k else 1] = 9
    v[k and 3] += 0.5
    for i in range(3):
        v[i if i < 1 else 3], w[1 if i else 0] = i * 10, v[i] + 1
    for i in range(4):
        out[i], out[4 + i] = v[i], w[i]
    v[0 if k else 1] = 5


def test_an_index_may_have_ways(stream):
    for k in (0, 2):
        out = stream.run(indices_with_ways, poison(8, np.float32), k)
        v, w = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]
        v[2 if k else 1] = 9
        v[k and 3] += 0.5
        for i in range(3):
            v[i if i < 1 else 3], w[1 if i else 0] = i * 10, v[i] + 1
        assert out.tolist() == v + w


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("float32x2(1, 2).x = 3", "no variable holds"),
        ("[s.inner][0].a = 3", "no variable holds"),
        ("s.twice.a = 3", "no member 'twice'"),
        ("t = (s, 2); t[device.tid(1)].n = 3", "its items have no common type"),
        ("v.x += (v := float32x2(5, 6)).y if s.n else 0", "changes its target"),
        ("s.z = 3", "no member 'z'"),
        ("v.z = 3", "cannot be assigned to"),
        ("v[2] = 3", "index 2 is out of range"),
        ("v.x = (1, 2)", "cannot be set to"),
        ("x.shape = 3", "cannot be assigned to"),
        ("t = (1, 2); t[0] = 3", "cannot be changed"),
        ("v = float32x2(1, 2).__setitem__(1)", "__setitem__: missing a required argument: 'val'"),
        ("v = float32x2(1, 2).__setitem__(2, 1)", "index 2 is out of range"),
        ("s.inner = 3", "Outer.inner is of type Inner"),
    ],
)
def test_what_cannot_be_assigned_says_so(body, message):
    names = {"device": device, "float32x2": float32x2, "Outer": Outer, "Inner": Inner}
    exec(f"def k(x, s, v):\n    {body}\n    x[0] = v.x + s.n", names)
    with pytest.raises(device.CompileError, match=message) as caught:
        device.compile(device.kernel(names["k"]), device.ArrayType(float32, 1), Outer, float32x2, output="ir")
    assert caught.value.help


@device.kernel
def store_constants(narrow, bits, small):
    narrow[0], narrow[1] = device.int64(300), device.int32(-1)
    bits[0], bits[1] = device.uint32(0xFFFFFFFF), device.uint64(1 << 63)
    small[0], small[1] = device.float64(1e300), device.float64(0.1)


def test_constants_of_a_type_are_stored_as_values_of_run_time_are(stream):
    """They wrap or round, as `uint8(int64(300))` does; constants without a type have to fit."""
    narrow, bits, small = stream.run(store_constants, poison(2, np.uint8), poison(2, np.int32), poison(2, np.float32))
    assert narrow.tolist() == [44, 255]
    assert bits.tolist() == [-1, 0]
    assert small.tolist() == [np.inf, np.float32(0.1)]
    for text in ("narrow[0] = 300", "narrow[0] = -1", "bits[0] = 0xFFFFFFFF", "small[0] = 1e300"):
        names = {"device": device}
        exec(f"@device.kernel\ndef k(narrow, bits, small): {text}", names)
        with pytest.raises(device.CompileError, match="does not fit"):
            device.compile(names["k"], *(device.ArrayType(t, 1) for t in (device.uint8, int32, float32)), output="ir")
