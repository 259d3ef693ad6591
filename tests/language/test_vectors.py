"""Vectors: their host classes, their layout, and what device code does with them, in every family and size."""

from __future__ import annotations

import inspect
import operator
import pickle
import re

import numpy as np
import pytest
from conftest import poison

import cuda_device as device
from cuda_device import float32x2, float32x3, float32x4, float64x4, int32x2, int32x4, uint8x3, uint32x3

NAMES = [name for name in dir(device) if re.fullmatch(r"[a-z]+\d+(e\dm\d)?x[1-4]", name)]
VECTORS = [getattr(device, name) for name in NAMES]
EACH = pytest.mark.parametrize("cls", VECTORS, ids=NAMES)


# On the host


@EACH
def test_a_vector_has_its_elements(cls):
    values = [3, 1, 4, 1][: cls.model.size]
    vector = cls(*values)
    assert [type(item) for item in vector] == [cls.dtype] * len(values)
    assert list(vector) == values and len(vector) == vector.size == len(values)
    assert [getattr(vector, axis) for axis in "xyzw"[: len(values)]] == values
    assert vector[-1] == values[-1] and vector == cls(*values) and hash(vector) == hash(cls(*values))
    assert pickle.loads(pickle.dumps(vector)) == vector
    assert repr(vector).startswith(cls.__name__)


def test_missing_elements_are_errors():
    with pytest.raises(TypeError, match="float32x4 has 4 elements, not 3"):
        float32x4(1, 2, 3)
    with pytest.raises(AttributeError):
        _ = float32x2(1, 2).z
    with pytest.raises(IndexError, match="no element 2"):
        float32x2(1, 2)[2]


def test_vectors_are_immutable_and_methods_give_new_ones():
    v = float32x3(1, 2, 3)
    with pytest.raises(TypeError, match=r"v = v.__setitem__\(1"):
        v[1] = 5
    with pytest.raises(TypeError, match="replace"):
        v.x = 5
    with pytest.raises(TypeError, match="vectors are immutable"):
        del v.x
    assert v.__setitem__(1, 5) == float32x3(1, 5, 3)
    assert device.replace(v, z=0) == float32x3(1, 2, 0) and v == float32x3(1, 2, 3)
    with pytest.raises(TypeError, match="no member 'w'"):
        device.replace(v, w=0)


def test_arithmetic_is_elementwise():
    v = float32x2(1, 2)
    assert v + v == float32x2(2, 4) and 3 * v == float32x2(3, 6) and -v == float32x2(-1, -2)
    assert v / 2 == float32x2(0.5, 1) and type(v + v) is float32x2
    assert int32x2(7, -7) // 2 == int32x2(3, -4)
    with pytest.raises(TypeError):
        v + float32x3(1, 2, 3)
    with pytest.raises(TypeError, match="there is no vector of complex64"):
        v * 1j
    assert v != 1 and v != (1, 2) and v != float32x3(1, 2, 3)


@pytest.mark.parametrize("bad", ["a", None, [1, 2], object()])
def test_elements_that_are_no_numbers_are_refused(bad):
    for error in (TypeError, ValueError):
        with pytest.raises(error, match="int32x2 takes numbers"):
            int32x2(1, bad)


def test_texts_are_no_numbers():
    for made in (device.bfloat16x2, device.float8e4m3x2, device.float32x2):
        with pytest.raises(TypeError, match="not strings"):
            made(1, "2")


def test_an_array_has_the_elements_of_its_vectors_and_tuples(stream):
    @device.kernel
    def k(v, t, out):
        i = device.tid(1)
        v["y"][i] = v["x"][i] * 10
        device.atomic_ref(v["w"], 1).add(i)
        t["_1"][i] += t["_0"][i]
        out[i] = len(v["z"]) + v["z"].strides[0]

    v, t = np.zeros(4, device.numpy_dtype(int32x4)), np.zeros(4, device.numpy_dtype(tuple[device.int8, float]))
    v["x"], t["_0"], t["_1"] = range(4), range(4), 0.5
    arrays = stream.array(v), stream.array(t), stream.empty(4, np.int64)
    stream.launch(k, *arrays, grid=1, block=4)
    v, t, out = map(stream.numpy, arrays)
    assert v["y"].tolist() == [0, 10, 20, 30]
    assert v["w"].tolist() == [0, 6, 0, 0]
    assert t["_1"].tolist() == [0.5, 1.5, 2.5, 3.5]
    assert out.tolist() == [4 + 16] * 4
    with pytest.raises(device.CompileError, match="has no member 'q'(.|\n)*its members are x, y, z, w"):
        device.compile(device.kernel(lambda v: print(v["q"])), v, output="ir")


@pytest.mark.parametrize("number", [np.float32, np.float64, np.float16, device.bfloat16, np.int8, np.uint64, float])
@pytest.mark.parametrize("operator", [operator.add, operator.sub, operator.mul, operator.truediv, operator.mod])
def test_numbers_of_all_kinds_stand_on_either_side(operator, number):
    v, two = float32x2(1, 5), number(2)
    left, right = operator(two, v), operator(v, two)
    assert isinstance(left, device.Vector) and type(left) is type(right)
    assert list(left) == [operator(two, v.x), operator(two, v.y)] and list(right) == [
        operator(v.x, two),
        operator(v.y, two),
    ]


def test_beside_an_array_a_vector_is_a_row():
    rows, v = np.arange(6, dtype=np.float32).reshape(3, 2), float32x2(1, 5)
    assert (rows * v).tolist() == (v * rows).tolist() == (rows * np.array([1, 5])).tolist()
    assert np.stack([v, v]).tolist() == [[1, 5], [1, 5]] and np.sqrt(v).shape == (2,)


def test_dim3_is_a_vector_of_uint32():
    assert issubclass(device.Dim3, uint32x3) and device.Dim3(4, 2, 1).y == 2


# Layout


@pytest.mark.parametrize(
    ("cls", "size", "align"),
    [
        (uint8x3, 3, 1),
        (int32x2, 8, 8),
        (device.int32x3, 12, 4),
        (float32x4, 16, 16),
        (float64x4, 32, 16),
        (device.float64x3, 24, 8),
    ],
    ids=str,
)
def test_layout_is_that_of_cuda(cls, size, align):
    assert (device.sizeof(cls), device.alignof(cls)) == (size, align)
    dtype = device.numpy_dtype(cls)
    assert dtype.itemsize == size and dtype.names == tuple("xyzw"[: cls.model.size])


# In device code


@device.kernel
def through(v, a, out):
    w = a[0]
    out[0] = v
    out[1] = w
    out[2] = v + w
    out[3] = w * v - v


@EACH
def test_vectors_go_in_and_out(cls, stream):
    size = cls.model.size
    values = np.arange(1, size + 1)
    dtype = device.numpy_dtype(cls)
    a = np.zeros(1, dtype)
    for i, name in enumerate(dtype.names):
        a[name] = 2 * values[i] + 1
    got = np.stack([stream.run(through, cls(*values), a, poison(4, dtype))[-1][name] for name in dtype.names], axis=1)

    def rounded(numbers):  # as 8-bit floats do
        return numbers.astype(cls.dtype).astype(np.float32)

    w = rounded(2 * values + 1)
    expected = [values, w, rounded(values + w), rounded(rounded(w * values) - values)]
    assert got.tolist() == [each.tolist() for each in expected]


def test_every_vector_class_is_a_vector():
    classes = [
        cls
        for name in dir(device)
        if re.fullmatch(r"b?u?(int|float)\w+x[1-4]", name) and (cls := getattr(device, name))
    ]
    assert len(classes) == 56 and all(issubclass(cls, device.Vector) for cls in (*classes, device.Dim3))


@device.kernel
def made_and_measured(v, out):
    size = device.Dim3(4, 1, 1)
    out[0] = size.x + 10 * size.z
    out[1] = 1 if size == device.block_dim else 0
    out[2] = abs(v).x + 10 * abs(v).y
    out[3] = v.__len__() - v.__getitem__(1) + 3 if isinstance(v, device.Vector) else 0


@pytest.mark.parametrize(
    "cls", [device.int8x2, device.int32x2, device.bfloat16x2, device.float64x2], ids=lambda c: c.__name__
)
def test_dim3_and_abs_in_device_code(stream, cls):
    out = stream.empty(4, np.int32)
    stream.launch(made_and_measured, cls(-3, 4), out, grid=device.uint32x2(1, 1), block=device.Dim3(4, 1, 1))
    assert stream.numpy(out).tolist() == [14, 1, 43, 1]


@pytest.mark.parametrize("name", ["bfloat16x2", "float8e4m3x4", "float8e5m2x1", "float16x3", "float32x4", "float64x2"])
def test_beside_pythons_numbers_elements_keep_their_type_on_the_host_as_on_the_device(name):
    cls = getattr(device, name)
    v = cls(*range(1, cls.model.size + 1))

    @device.kernel
    def multiply(v, number, out):
        out[0] = v * number
        out[1] = number - v

    for number in (2, 2.5, True):
        for function in (operator.mul, operator.add, operator.sub, operator.truediv, operator.pow):
            assert type(function(v, number)) is type(function(number, v)) is cls
        out = np.zeros(2, device.numpy_dtype(cls))
        device.launch(multiply, v, number, out, grid=1, block=1, stream=device.cpu_stream())
        assert [cls(*found) for found in out.tolist()] == [v * number, number - v]


def test_help_names_the_elements():
    assert list(inspect.signature(device.float32x2).parameters) == ["x", "y"]
    assert all(each.annotation is np.float32 for each in inspect.signature(device.float32x4).parameters.values())
    assert list(inspect.signature(device.Dim3).parameters) == ["x", "y", "z"]


def bytes_of(value):
    return b"".join(item.tobytes() for item in (value if isinstance(value, tuple(VECTORS)) else [value]))


def viewer(target, back):
    @device.kernel
    def k(x, y, out):
        i = device.tid(1)
        y[i] = x[i].view(target)
        out[i] = x[i].view(target).view(back)

    return k


@EACH
def test_a_view_has_the_bits_of_the_vector(cls, stream):
    dtype = device.numpy_dtype(cls)
    x = np.random.default_rng(1).integers(0, 100, 32 * dtype.itemsize, np.uint8).view(dtype)
    targets = {1: [np.uint8], 2: [np.int16], 3: [device.uint8x3], 4: [np.uint32, device.int8x4, device.bfloat16x2]}
    targets |= {6: [device.float16x3], 8: [np.float64, device.uint16x4, np.complex64, device.int32x2]}
    for target in targets.get(dtype.itemsize, [cls]):
        y = np.zeros(32, device.numpy_dtype(target))
        _, viewed, back = stream.run(viewer(target, cls), x, y, np.zeros(32, dtype), block=32)
        assert viewed.tobytes() == back.tobytes() == x.tobytes()
    vector = cls(*[3, 1, 4, 1][: cls.model.size])
    for target in targets.get(dtype.itemsize, ()):
        view = vector.view(target)
        assert isinstance(view, target)
        assert bytes_of(view) == bytes_of(vector)


def test_a_view_has_the_size_of_the_vector():
    with pytest.raises(TypeError, match="float32x2 cannot be viewed as uint32: their sizes differ"):
        float32x2(1, 2).view(np.uint32)
    message = re.escape("vector<float32, 2> cannot be viewed as uint32: their sizes differ")
    with pytest.raises(device.CompileError, match=message) as caught:
        device.compile(viewer(np.uint32, float32x2), *[np.zeros(2, device.numpy_dtype(float32x2))] * 3)
    assert "8 bytes" in caught.value.help
