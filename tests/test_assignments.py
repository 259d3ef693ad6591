"""Assignments to parts of values: vectors, structs and masks in variables, and their parts in arrays."""

from __future__ import annotations

import numpy as np
import pytest

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
    out = stream.empty(10, np.float32)
    stream.launch(variables, out, 1, grid=1, block=1)
    assert stream.numpy(out).tolist() == [10, 7, 4, 40.5, 5, 5, 6, 1, 40, 11]


@device.kernel
def item_methods(out, k):
    v = float32x4(1, 2, 3, 4)
    w = v.__setitem__(k, 7.5)
    v = v.__setitem__(-1, 9).__setitem__(0, v.__getitem__(2))
    for i in range(4):
        out[i], out[4 + i] = v[i], w[i]
    m = device.WarpMask(3).__setitem__(k, False).__setitem__(30, True)
    out[8], out[9] = m == 0x40000001, m.__getitem__(30)


def test_item_methods_give_new_values(stream):
    out = stream.empty(10, np.float32)
    stream.launch(item_methods, out, 1, grid=1, block=1)
    assert stream.numpy(out).tolist() == [3, 2, 3, 9, 1, 7.5, 3, 4, 1, 1]


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
    items = stream.array(np.zeros(64, device.numpy_dtype(Outer)))
    stream.launch(each_its_member, items, grid=4, block=32)
    got = stream.numpy(items)
    assert got["n"].tolist() == list(range(1, 128, 2)) and got["inner"]["a"].tolist() == list(range(0, 128, 2))


@device.kernel
def masks(out, lane):
    mask = device.WarpMask(0)
    other = mask
    mask[3] = True
    mask[lane] = True
    mask[3] = False
    mask[31] = 1 > 0
    out[0] = mask
    out[1] = other


def test_lanes_of_a_mask(stream):
    out = stream.empty(2, np.int32)
    stream.launch(masks, out, 5, grid=1, block=1)
    assert stream.numpy(out).tolist() == [(1 << 5 | 1 << 31) - (1 << 32), 0]


@device.func
def changed(v):
    v.x = 5
    return v


@device.kernel
def by_value(out):
    v = float32x2(1, 2)
    w = changed(v)
    out[0], out[1] = v.x, w.x


def test_functions_get_copies(stream):
    out = stream.empty(2, np.float32)
    stream.launch(by_value, out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [1, 5]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("float32x2(1, 2).x = 3", "no variable holds"),
        ("s.inner.a = 3", "no variable holds"),
        ("s.z = 3", "no member 'z'"),
        ("v.z = 3", "cannot be assigned to"),
        ("v[2] = 3", "no index 2"),
        ("v.x = (1, 2)", "cannot be set to"),
        ("x.shape = 3", "cannot be assigned to"),
        ("t = (1, 2); t[0] = 3", "cannot be changed"),
        ("v = float32x2(1, 2).__setitem__(1)", "__setitem__ takes 2 arguments"),
        ("v = float32x2(1, 2).__setitem__(2, 1)", "no index 2"),
        ("s.inner = 3", "Outer.inner is of type Inner"),
    ],
)
def test_what_cannot_be_assigned_says_so(body, message):
    names = {"device": device, "float32x2": float32x2, "Outer": Outer, "Inner": Inner}
    exec(f"def k(x, s, v):\n    {body}\n    x[0] = v.x + s.n", names)
    with pytest.raises(device.CompileError, match=message):
        device.compile(device.kernel(names["k"]), device.ArrayType(float32, 1), Outer, float32x2, output="ir")


def test_a_method_cannot_change_its_struct():
    @device.struct
    class Counter:
        n: int32

        def step(self):
            self.n = self.n + 1

    @device.kernel
    def kernel(x):
        c = Counter(1)
        c.step()
        x[0] = c.n

    with pytest.raises(device.CompileError, match="a method cannot change its struct"):
        device.compile(kernel, device.ArrayType(float32, 1), output="ir")
