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


@device.struct
class Whole:
    outer: Outer
    v: float32x4
    t: tuple[Inner, int]


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
