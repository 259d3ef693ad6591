"""Arrays: every layout, dtype and index, their attributes, what stores touch, and what cannot be passed or indexed."""

import math

import numpy as np
import pytest
import reference as ref
from conftest import thinned

import cuda_device as device

POISON = 0xA5
DTYPES = ("bool", *ref.FIXED)


class LaidOut:
    """An array on a stream with the very strides of a NumPy array; the memory between its elements is poison."""

    def __init__(self, stream, elements):
        extents = list(zip(elements.shape, elements.strides, strict=True))
        self.low = -sum(min(0, step * (n - 1)) for n, step in extents)
        high = sum(max(0, step * (n - 1)) for n, step in extents) + elements.itemsize
        self.like, self.stream = elements, stream
        memory = np.full(self.low + high, POISON, np.uint8)
        self.view(memory)[...] = elements
        self.base = stream.array(memory)
        self.argument = self.view(self.base) if stream.kind == "cpu" else self

    def view(self, memory):
        like = self.like
        return np.ndarray(like.shape, like.dtype, memory.data, self.low, like.strides)

    @property
    def __cuda_array_interface__(self):
        interface = dict(self.base.__cuda_array_interface__)
        address, readonly = interface["data"]
        return {
            **interface, "shape": self.like.shape, "strides": self.like.strides, "typestr": self.like.dtype.str,
            "data": (address + self.low, readonly),
        }  # fmt: skip

    def elements(self):
        return self.view(self.stream.numpy(self.base))

    def gaps_are_untouched(self):
        memory = self.stream.numpy(self.base).copy()
        self.view(memory).view(np.uint8 if self.like.dtype.itemsize == 1 else self.like.dtype)[...] = 0
        flags = np.zeros(len(memory), bool)
        ones = np.ndarray((*self.like.shape, self.like.itemsize), bool, flags.data, self.low, (*self.like.strides, 1))
        ones[...] = True
        return bool((memory[~flags] == POISON).all())


def layouts(ndim):
    """Arrays of int32 with `ndim` axes in many layouts; all elements differ."""
    shape = (5, 4, 3)[:ndim]
    large = np.arange(12**ndim, dtype=np.int32).reshape((12,) * ndim)
    plain = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    yield "C", plain
    yield "F", np.asfortranarray(plain)
    yield "every second", large[tuple(slice(1, 1 + 2 * n, 2) for n in shape)]
    yield "backwards", plain[(slice(None, None, -1),) * ndim]
    yield "last axis backwards", plain[..., ::-1]
    yield "a window", large[tuple(slice(3, 3 + n) for n in shape)]
    yield "transposed steps", large.T[tuple(slice(10, 10 - 2 * n, -2) for n in shape)]
    yield "one row", plain[:1]
    yield "one column", plain[..., 1:2]
    if ndim == 3:
        yield "axes moved", np.moveaxis(large[:3, :5, :4], 0, 2)


LAYOUTS = [(ndim, name, array) for ndim in (1, 2, 3) for name, array in layouts(ndim)]


@device.kernel
def change(x, out, changed):
    """Reads each element into `out`, which is C-contiguous, and changes it."""
    n = device.tid(1)
    if n < x.size:
        if x.ndim == 1:
            out[n] = x[n]
            x[n] = changed[n]
        elif x.ndim == 2:
            i, j = n // x.shape[1], n % x.shape[1]
            out[n] = x[i, j]
            x[i, j] = changed[n]
        else:
            _, b, c = x.shape
            i, j, k = n // (b * c), n // c % b, n % c
            out[n] = x[i, j, k]
            x[i, j, k] = changed[n]


@pytest.mark.parametrize("ndim, name, elements", LAYOUTS, ids=[f"{ndim}-D {name}" for ndim, name, _ in LAYOUTS])
def test_layouts(stream, ndim, name, elements):
    x = LaidOut(stream, elements)
    out = stream.empty(elements.size, np.int32)
    changed = -1 - np.arange(elements.size, dtype=np.int32)
    stream.launch(change, x.argument, out, stream.array(changed), grid=2, block=64)
    assert stream.numpy(out).tolist() == elements.reshape(-1).tolist()
    assert x.elements().reshape(-1).tolist() == changed.tolist()
    assert x.gaps_are_untouched()


@device.kernel
def attributes(x, out):
    out[0], out[1], out[2] = x.ndim, x.size, 77
    k = 3
    for extent in x.shape:
        out[k] = extent
        k += 1
    for stride in x.strides:
        out[k] = stride
        k += 1
    if x.ndim > 0:
        out[2] = len(x)
    out[k] = x.dtype is device.int32


@pytest.mark.parametrize("ndim, name, elements", LAYOUTS, ids=[f"{ndim}-D {name}" for ndim, name, _ in LAYOUTS])
def test_attributes(stream, ndim, name, elements):
    out = stream.empty(4 + 2 * ndim, np.int64)
    stream.launch(attributes, LaidOut(stream, elements).argument, out, grid=1, block=1)
    got = stream.numpy(out).tolist()
    assert got[: 3 + ndim] == [ndim, elements.size, len(elements), *elements.shape] and got[-1] == 1
    # The stride of an axis of one element has no meaning.
    for extent, stride, right in zip(elements.shape, got[3 + ndim : -1], elements.strides, strict=True):
        assert stride == right or extent == 1


@device.kernel
def copy_and_flip(x, copy, wide, flipped):
    i, j = device.tid(2)
    if i < x.shape[0] and j < x.shape[1]:
        copy[i, j] = x[i, j]
        wide[i, j] = x[i, j]
        flipped[i, j] = x[-1 - i, -1 - j]


@pytest.mark.parametrize(("name", "layout"), thinned(DTYPES, ["C", "F", "strided"], one_in=2))
def test_dtypes(stream, name, layout):
    values = ref.edges(name)[:24]
    values += [values[0]] * (24 - len(values))
    elements = np.array(values, name).reshape(2, 12)
    if layout == "F":
        elements = np.asfortranarray(elements)
    elif layout == "strided":
        large = np.zeros((4, 36), name)
        large[1:3, 2::3] = elements
        elements = large[1:3, 2::3]
    x, copy = LaidOut(stream, elements), stream.empty((2, 12), name)
    wide = stream.empty((2, 12), np.float64 if ref.is_float(name) else np.uint64 if name == "uint64" else np.int64)

    flipped = LaidOut(stream, np.zeros_like(elements))
    stream.launch(copy_and_flip, x.argument, copy, wide, flipped.argument, grid=(1, 2), block=(2, 8))
    assert stream.numpy(copy).tobytes() == elements.tobytes()
    assert np.array_equal(stream.numpy(wide), elements.astype(wide.dtype), equal_nan=ref.is_float(name))
    assert flipped.elements().tobytes() == np.ascontiguousarray(elements[::-1, ::-1]).tobytes()
    assert flipped.gaps_are_untouched()


# Indices


@pytest.mark.parametrize("name", ["bool", *ref.SIGNED, *ref.UNSIGNED])
def test_indices_of_every_type(stream, name):
    @device.kernel
    def kernel(x, indices, out):
        i = device.tid(1)
        if i < len(indices):
            out[i] = x[indices[i]]
            out[len(indices) + i] = x[int(indices[i])]

    x = np.arange(300, dtype=np.int32) + 1000
    indices = [i for i in (0, 1, 2, 127, 128, 200, 255, 299, -1, -2, -128, -300) if _fits(name, i)]
    out = stream.empty(2 * len(indices), np.int32)
    stream.launch(kernel, stream.array(x), stream.array(np.array(indices, name)), out, grid=1, block=16)
    assert stream.numpy(out).tolist() == [int(x[int(i)]) for i in indices] * 2


def _fits(name, value):
    low, high = ref.limits(name)
    return low <= value <= high


def test_indices_past_32_bits(stream):
    @device.kernel
    def kernel(x, y, out):
        n = len(x)
        out[0] = n
        out[1] = x[n - 1]
        out[2] = x.size
        out[3] = x.strides[0]
        count = 0
        for i in range(n - 3, n):
            count += x[i]
        out[4] = count
        out[5] = y.shape[0] * y.shape[1]
        out[6] = y[y.shape[0] - 1, -1]
        out[7] = n * 2 + 1
        k = 0
        for i in range(0, n, 2_000_000_000):
            k = i
        out[8] = k
        out[9] = x[8_000_000_000]

    class Broadcast:
        """One element on a GPU that stands for many."""

        def __init__(self, shape):
            self.one = stream.array(np.array([9], np.int8))
            self.shape = shape

        @property
        def __cuda_array_interface__(self):
            return {**self.one.__cuda_array_interface__, "shape": self.shape, "strides": (0,) * len(self.shape)}

    shapes = (2**33,), (2**20, 2**20)
    if stream.kind == "cpu":
        x, y = (np.broadcast_to(np.array([9], np.int8), shape) for shape in shapes)
    else:
        x, y = map(Broadcast, shapes)
    out = stream.empty(10, np.int64)
    stream.launch(kernel, x, y, out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [2**33, 9, 2**33, 0, 27, 2**40, 9, 2**34 + 1, 8_000_000_000, 9]


def test_arrays_with_more_axes(stream):
    @device.kernel
    def kernel(x, out):
        n = device.tid(1)
        _, b, c, d = x.shape
        if n < x.size:
            out[n] = x[n // (b * c * d), n // (c * d) % b, n // d % c, n % d] + x[-1, -1, -1, -1]

    elements = np.arange(120).reshape(2, 3, 4, 5)
    for x in (elements, np.asfortranarray(elements), elements.transpose(2, 0, 3, 1)[::-1]):
        out = stream.empty(x.size, np.int64)
        stream.launch(kernel, LaidOut(stream, x).argument, out, grid=1, block=128)
        assert stream.numpy(out).tolist() == (x + x[-1, -1, -1, -1]).reshape(-1).tolist()


# Arrays as values


def test_arrays_are_chosen_passed_and_kept_in_tuples(stream):
    def first(a, i):
        return a[i]

    def choose(c, a, b):
        return a if c else b

    @device.kernel
    def kernel(x, pair, nested, out):
        i = device.tid(1)
        a, b = pair
        source = x if i % 2 else a
        out[i, 0] = source[i]
        out[i, 1] = first(b, i) + first(nested[1][0], i)
        out[i, 2] = choose(i > 1, x, b)[i]
        both = (x, a)
        both[1][i] = both[0][i] + 0.5
        if i == 0:
            x = b  # only the name
        out[i, 3] = x[i]
        n = 0
        for array in (a, b):
            n += len(array)
        out[i, 4] = n

    x, a, b, c = (np.arange(4, dtype=np.float32) + 10 * k for k in range(4))
    arrays = [stream.array(array) for array in (x, a, b, c)]
    out = stream.empty((4, 5), np.float32)
    stream.launch(kernel, arrays[0], (arrays[1], arrays[2]), (1, (arrays[3], None)), out, grid=1, block=4)
    got = stream.numpy(out)
    assert got[:, 0].tolist() == [a[0], x[1], a[2], x[3]]
    assert got[:, 1].tolist() == (b + c).tolist()
    assert got[:, 2].tolist() == [b[0], b[1], x[2], x[3]]
    assert got[:, 3].tolist() == [b[0], x[1], x[2], x[3]]
    assert got[:, 4].tolist() == [8] * 4
    assert stream.numpy(arrays[1]).tolist() == (x + 0.5).tolist()


def test_one_array_as_two_arguments(stream):
    @device.kernel
    def kernel(x, y, out):
        out[0] = y[0]
        x[0] = 7
        out[1] = y[0]
        y[0] += 1
        out[2] = x[0]
        for i in range(1, len(x)):
            x[i] = y[i - 1] + 1  # each reads what the one before wrote

    x, out = stream.array(np.arange(6, dtype=np.int32)), stream.empty(3, np.int32)
    stream.launch(kernel, x, x, out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [0, 7, 8]
    assert stream.numpy(x).tolist() == [8, 9, 10, 11, 12, 13]


def test_arguments_that_overlap(stream):
    @device.kernel
    def kernel(x, y):
        for i in range(len(x)):
            y[i] = x[i] * 2

    memory = LaidOut(stream, np.arange(8, dtype=np.int32))
    if stream.kind == "cpu":
        whole = memory.argument
        x, y = whole[:7], whole[1:]
    else:
        pytest.skip("views of our own arrays on a GPU need another library")
    stream.launch(kernel, x, y, grid=1, block=1)
    assert memory.elements().tolist() == [0] * 8


# Errors


def test_read_only_arrays_refuse_stores(stream):
    @device.kernel
    def reads(x, out):
        out[0] = x[1] * 2

    @device.kernel
    def writes(x):
        x[0] = 1

    if stream.kind == "cpu":
        x = np.arange(3, dtype=np.int32)
        x.flags.writeable = False
        out = stream.empty(1, np.int32)
        stream.launch(reads, x, out, grid=1, block=1)
        assert stream.numpy(out).tolist() == [2]
        with pytest.raises(device.CompileError, match="read-only"):
            stream.launch(writes, x, grid=1, block=1)
        x.flags.writeable = True
        stream.launch(writes, x, grid=1, block=1)
        assert x.tolist() == [1, 1, 2]


@device.kernel
def takes(x):
    if device.tid(1) < 0:
        x = 5  # noqa: F841


def unusual_arrays():
    big_endian = np.arange(3, dtype=">i4")
    yield "byte order", big_endian, "byte order"
    yield "object", np.array([1, "a"], object), "object"
    yield "text", np.array(["a"]), "U1"
    yield "date", np.zeros(1, "M8[s]"), "datetime64"
    yield "long double", np.zeros(2, np.longdouble), "float128"


@pytest.mark.parametrize(
    "value, reason", [case[1:] for case in unusual_arrays()], ids=[case[0] for case in unusual_arrays()]
)
def test_arrays_that_cannot_be_passed(value, reason):
    with pytest.raises(device.LaunchError, match="'x'") as caught:
        device.launch(takes, value, grid=1, block=1, stream=device.cpu_stream())
    assert reason in str(caught.value)


class OnGpu:
    """Claims to be in the memory of a GPU."""

    @property
    def __cuda_array_interface__(self):
        return {"shape": (4,), "typestr": "<f4", "data": (1 << 32, False), "version": 3, "strides": None}


def test_an_array_in_gpu_memory_on_a_cpu_stream():
    with pytest.raises(device.LaunchError, match="'x'") as caught:
        device.launch(takes, OnGpu(), grid=1, block=1, stream=device.cpu_stream())
    # Where there is a GPU, its driver knows that there is nothing at this address.
    assert "GPU" in str(caught.value) and ("CPU stream" in str(caught.value) or "not memory" in str(caught.value))


def test_an_array_in_host_memory_on_a_gpu_stream(stream):
    if stream.kind == "cpu":
        pytest.skip("needs a GPU")
    with pytest.raises(device.LaunchError, match="'x'") as caught:
        stream.launch(takes, np.zeros(3, np.float32), grid=1, block=1)
    assert "is in host memory, but the stream is on GPU" in str(caught.value)
    x = stream.array(np.zeros(3, np.float32))
    with pytest.raises(device.LaunchError, match="'x'") as caught:
        device.launch(takes, x, grid=1, block=1, stream=device.cpu_stream())
    assert "GPU memory" in str(caught.value)


def test_our_own_arrays_on_their_stream(stream):
    @device.kernel
    def kernel(x, y):
        i = device.tid(1)
        if i < len(x):
            y[i] = x[i] + 1

    x = device.array(np.arange(5, dtype=np.float64), stream=stream.stream)
    y = device.zeros(5, int, stream=stream.stream)
    stream.launch(kernel, x, y, grid=1, block=8)
    assert y.numpy().tolist() == [1, 2, 3, 4, 5] and y.dtype == np.int32


# 0-d arrays beside numbers
