"""Structs, dataclasses and named tuples with arrays in them: as arguments, in methods, as local values, and what C++ sees."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest
from ir_helpers import define

import cuda_device as device
from cuda_device import ArrayType, float32, int32


@device.struct
class Grid:
    data: ArrayType(float32, 2)
    n: int32

    @device.func
    def at(self, i, j):
        return self.data[i, j] + self.n


@device.struct
class Weighted:
    grid: Grid
    weights: ArrayType(int32, 1, readonly=True)


@device.struct
class Pair:
    x: float32
    y: float32


@device.struct
class Pairs:
    """An array of structs, which type checkers accept in this spelling."""

    items: Annotated[Any, ArrayType(Pair, 1)]


@device.kernel
def combine(w, out):
    i = device.tid(1)
    if i < len(out):
        out[i] = w.grid.at(i, 0) * w.weights[i] + len(w.grid.data)
        w.grid.data[i, 1] = -out[i]


def values():
    return np.arange(12, dtype=np.float32).reshape(4, 3), np.arange(4, dtype=np.int32)


@pytest.mark.parametrize("step", [1, -1])
def test_arrays_travel_in_structs(stream, step):
    data, weights = values()
    out, data, weights = stream.empty(4, np.float32), stream.array(data), stream.array(weights)
    stream.launch(combine, Weighted(Grid(data[::step], 7), weights), out, grid=1, block=32)
    rows = values()[0][::step]
    expected = (rows[:, 0] + 7) * np.arange(4) + 4
    assert stream.numpy(out).tolist() == expected.tolist()
    assert stream.numpy(data)[::step, 1].tolist() == (-expected).tolist()


def test_an_array_of_structs_is_a_member(stream):
    @device.kernel
    def k(p):
        i = device.tid(1)
        p.items[i].x += p.items[i].y

    items = stream.array(np.array([(1, 2), (3, 4)], device.numpy_dtype(Pair)))
    stream.launch(k, Pairs(items), grid=1, block=2)
    assert stream.numpy(items).tolist() == [(3, 2), (7, 4)]


def test_structs_with_arrays_are_made_and_changed_in_device_code(stream):
    @device.kernel
    def k(g, out):
        rest = device.replace(g, data=g.data[1:])
        out[0] = rest.at(0, 0)
        turned = Grid(g.data.T, 1)
        out[1] = turned.at(2, 3)
        rest.n = 2
        rest.data = rest.data[1:]
        out[2] = rest.at(0, 0)
        for i in range(2):
            g = Grid(g.data[1:], i)
        out[3] = g.at(0, 0)

    data, out = stream.array(values()[0]), stream.empty(4, np.float32)
    stream.launch(k, Grid(data, 10), out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [13, 12, 8, 7]


def test_hosts_structs_with_arrays():
    data, _ = values()
    grid = Grid(data, 7)
    assert grid.data is data and device.replace(grid, n=8).data is data
    assert grid == Grid(data.copy(), 7) != Grid(data + 1, 7)
    with pytest.raises(TypeError, match="Grid"):
        hash(grid)
    assert pickle.loads(pickle.dumps(grid)) == grid
    assert repr(grid) == f"Grid(data={data}, n=7)"
    assert Grid(device.array(data, stream=device.cpu_stream()), 1).data.shape == (4, 3)
    assert (device.sizeof(Grid), device.alignof(Grid), device.sizeof(Weighted)) == (48, 8, 72)
    for wrong, message in (
        ([1.0], r"Grid\.data is an array of 2 dimensions of float32, not \[1.0\]: make one with numpy\.array"),
        (data[0], "not one of 1 of float32"),
        (data.astype(np.float64), "not one of 2 of float64"),
        (np.float32(1), "make one with numpy.array or cuda_device.array"),
    ):
        with pytest.raises(TypeError, match=message):
            Grid(wrong, 1)


@pytest.mark.parametrize("step", [1, -1])
def test_structs_are_made_of_arrays_of_any_library(stream, step):
    data, weights = values()
    data, weights, out = stream.array(data), stream.array(weights), stream.empty(4, np.float32)
    for grid in ({"data": data[::step], "n": 7}, (data[::step], 7), Grid(data[::step], 7)):
        stream.launch(combine, Weighted.of(grid, weights=weights), out, grid=1, block=32)
        assert stream.numpy(out).tolist() == ((values()[0][::step, 0] + 7) * np.arange(4) + 4).tolist()


@device.struct
class Globals:
    image: ArrayType(float32, 4)
    pairs: ArrayType(Pair, 2)
    vectors: ArrayType(device.float32x2, 1)
    n: int32 = 3


PAIR = device.numpy_dtype(Pair)


@pytest.mark.needs("cpu")
def test_array_members_get_the_axes_that_they_lack():
    image, pairs = values()[0], np.zeros(5, PAIR)
    g = Globals.of(image, pairs, vectors=np.zeros(2, device.numpy_dtype(device.float32x2)))
    assert (g.image.shape, g.pairs.shape, g.vectors.shape, g.n) == ((1, 1, 4, 3), (1, 5), (2,), 3)
    g.image[0, 0, 1, 1] = 100
    assert image[1, 1] == 100


@pytest.mark.needs("cpu")
@pytest.mark.parametrize(
    ("message", "name", "value"),
    [
        (
            r"'Globals\.image' of shape \(4,\) and dtype float64 in host memory is not one of float32",
            "image",
            np.zeros(4),
        ),
        (r"'Globals\.pairs' .* is not one of struct<Pair", "pairs", np.zeros(5)),
        (r"'Globals\.pairs' of shape \(1, 1, 2\).* has 3 axes, more than 2", "pairs", np.zeros((1, 1, 2), PAIR)),
        (r"'Globals\.image' is of type list, which is not an array", "image", [1.0]),
        (r"Globals\.n is of type int32, not 2\.5", "n", 2.5),
        (r"Globals\.n is of type int32, which -2147483649 does not fit", "n", -(1 << 31) - 1),
        (r"Globals has no member 'm'", "m", 1),
    ],
)
def test_what_does_not_fit_a_member_is_named(message, name, value):
    vectors = np.zeros(2, device.numpy_dtype(device.float32x2))
    right = {"image": values()[0], "pairs": np.zeros(5, PAIR), "vectors": vectors}
    with pytest.raises((TypeError, ValueError), match=message):
        Globals.of(**{**right, name: value})


def test_a_nested_member_is_named_by_its_own_struct():
    with pytest.raises(TypeError, match=r"'Grid\.data' of shape"):
        Weighted.of({"data": values()[0].astype(np.float64), "n": 1}, values()[1])
    with pytest.raises(TypeError, match="Grid is missing a value for 'n'"):
        Weighted.of({"data": values()[0]}, values()[1])


def test_a_class_may_have_an_of_of_its_own():
    @device.struct
    class Square:
        side: int32

        @staticmethod
        def of(area):
            return Square(int(area**0.5))

    assert Square.of(9) == Square(3)


def test_of_is_for_the_host():
    @device.kernel
    def k(x):
        Grid.of(x, 3)

    with pytest.raises(device.CompileError, match="device code cannot call of: it can only run on the host"):
        device.launch(k, values()[0], grid=1, block=1, stream=device.cpu_stream())


def test_structs_with_arrays_are_no_elements():
    for use in (
        lambda: device.numpy_dtype(Grid), lambda: ArrayType(Weighted, 1), lambda: device.numpy_dtype(tuple[Grid, int]),
        lambda: device.empty(3, Grid, stream=device.cpu_stream()), lambda: device.Atomic(Grid),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            use()
    with pytest.raises(TypeError, match="so it is an argument or a local value, not an element of an array"):
        device.numpy_dtype(Grid)
    with pytest.raises(TypeError, match="make two structs"):
        device.struct(type("Bad", (), {"__annotations__": {"a": ArrayType(float32, 1), "b": device.Atomic(int32)}}))
    with pytest.raises(TypeError, match="cannot have a default"):
        device.struct(type("Bad", (), {"__annotations__": {"a": ArrayType(float32, 1)}, "a": np.zeros(1, np.float32)}))


GRID = Grid(values()[0], 1)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("w.weights[0] = 1", "read-only"),
        ("w.grid.data[100, 0] = 1", "index 100 is out of bounds for axis 0 of size 4"),
        ("w.grid.data[0, 0] = device.tid(1)", "race on w"),
        ("device.shared_array(3, Grid)", "not an element of an array"),
        ("Grid(w.weights, 1)", "Grid.data is of type array<float32, 2, C>, not array<int32"),
        ("print(w)", "cannot be printed"),
        ("out[0] = GRID.data[0, 0]", "Grid has array members, so it cannot be a constant"),
    ],
)
def test_what_is_reported(statement, message):
    data, weights = values()
    kernel = define(f"@device.kernel\ndef k(w, out):\n    {statement}\n", Grid=Grid, GRID=GRID)
    given = Weighted(Grid(data, 7), weights), np.zeros(4, np.float32)
    with pytest.raises(device.Error, match=message):
        device.launch(kernel, *given, grid=1, block=32, stream=device.cpu_stream(races=True))


def test_arrays_that_say_late_what_they_are():
    data, weights = values()

    class Late:
        """An array that only says at a launch what it is."""

        def __init__(self, array):
            self.array = array

        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **_):
            return self.array.__dlpack__()

    for late in (Late(weights), Late(data.astype(np.float64))):
        given = Weighted(Grid(late, 7), weights), np.zeros(4, np.float32)
        with pytest.raises(device.Error, match="'w.grid': Grid.data is of type array<"):
            device.launch(combine, *given, grid=1, block=32, stream=device.cpu_stream())


@dataclasses.dataclass
class Parameters:
    x: Any
    scale: float
    pair: tuple


class Named(NamedTuple):
    grid: Grid
    y: int


def test_dataclasses_and_named_tuples_travel(stream):
    @device.kernel
    def k(p, named):
        i = device.tid(1)
        p.x[i] = p.pair[1][i] * p.scale + p.pair[0] + named.grid.data[i, 0] + named.y

    x, y, data = stream.empty(3, np.float32), stream.array(np.arange(3, dtype=np.float32)), stream.array(values()[0])
    named = Named(Grid(data, 0), 100)
    stream.launch(k, Parameters(x, 2.5, (1, y)), named, grid=1, block=3)
    assert stream.numpy(x).tolist() == [101, 106.5, 112]
    with pytest.raises(device.LaunchError, match=r"'p\.scale' is of type str"):
        stream.launch(k, Parameters(x, "2.5", (1, y)), named, grid=1, block=3)


@device.func(interop=True)
def corner(grid: Grid, n: int32) -> float32:
    return grid.data[n, 0]


@device.extern
def norm(grid: Grid, n: int32) -> float32:
    return grid.data[n, 1]


@pytest.mark.needs("cpp")
def test_the_boundary_to_cpp(stream):
    header = device.cpp_header(Weighted, (corner, Grid, int32))
    for line in (
        "cuda::interoperable_array_descriptor<float, 2> data;", 'static_assert(sizeof(Grid) == 48, "sizeof Grid");',
        "cuda::interoperable_array_descriptor<cuda::std::int32_t const, 1> weights;",
        'extern "C" __device__ float corner(Grid grid, cuda::std::int32_t n);',
    ):  # fmt: skip
        assert line in header
    assert ".param .align 8 .b8 corner_param_0[48]" in str(device.compile(corner, Grid, int32, output="ptx"))

    @device.kernel(interop=True)
    def k(w, out: ArrayType(float32, 1)):
        out[0] = corner(w.grid, 1)

    ptx = str(device.compile(k, Weighted, ArrayType(float32, 1), output="ptx"))
    assert ".param .align 8 .b8 k_param_0[72]" in ptx
    data, weights = values()
    out = stream.empty(1, np.float32)
    stream.launch(k, Weighted(Grid(stream.array(data), 7), stream.array(weights)), out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [3]

    @device.kernel
    def calls(g, out):
        out[0] = norm(g, 1)

    assert "call float @norm([6 x i64]" in str(device.compile(calls, Grid, ArrayType(float32, 1), output="llvm"))
    cpu = np.zeros(1, np.float32)
    device.launch(calls, Grid(data, 7), cpu, grid=1, block=1, stream=device.cpu_stream())
    assert cpu.tolist() == [4]


def test_machine_code_leaves_structs_with_arrays_to_python(stream):
    data, weights = values()
    weighted, out = Weighted(Grid(stream.array(data), 7), stream.array(weights)), stream.empty(4, np.float32)
    for _ in range(40):
        stream.launch(combine, weighted, out, grid=1, block=32)
    assert stream.numpy(out).tolist() == [4, 14, 30, 52]
