"""`kernel.bind`: launches whose size is a function of the arguments."""

from __future__ import annotations

import pickle

import fake_driver
import numpy as np
import pytest

import cuda_device as device
from cuda_device import ArrayType, float32


@device.kernel
def fill(x, value=5, first=0):
    i = device.tid(1)
    if i < len(x):
        x[i] = value + first
    if i == 0:
        x[0] = device.grid_size(1)


def blocks(x, value, first):
    return (len(x) + 31) // 32


fill_32 = fill.bind(grid=blocks, block=32)


def test_the_grid_is_a_function_of_the_arguments(stream):
    for n in (5, 32, 33):
        x = stream.array(np.zeros(n, np.int32))
        fill_32(x, first=2, stream=stream.stream)
        assert stream.numpy(x).tolist() == [-(-n // 32) * 32] + [7] * (n - 1)


def test_the_number_of_threads_is_one_too():
    x = np.zeros(300, np.int32)
    fill.bind(threads=lambda x, *_: len(x))(x, stream=device.cpu_stream())
    assert x.tolist() == [512] + [5] * 299


def test_so_are_the_block_and_shared_memory(stream):
    @device.kernel
    def through_shared(x):
        tile = device.dynamic_shared_array().view(device.int32)
        tile[device.thread_idx.x] = device.thread_idx.x
        device.syncthreads()
        x[device.thread_idx.x] = tile[len(tile) - 1 - device.thread_idx.x]

    x = stream.array(np.zeros(40, np.int32))
    bound = through_shared.bind(grid=1, block=lambda x: len(x), shared=lambda x: 4 * len(x))
    bound(x, stream=stream.stream)
    assert stream.numpy(x).tolist() == list(range(40))[::-1]


@device.struct
class Globals:
    x: ArrayType(float32, 2)
    scale: float32 = 2.0

    def grid(self):
        return self.x.shape[::-1]

    @device.func
    def threads(self):
        return 1


@device.kernel
def scale(g):
    g.x[device.block_idx.y, device.block_idx.x] *= g.scale


def test_methods_of_a_struct_tell_the_size(stream):
    x = stream.array(np.arange(12, dtype=np.float32).reshape(3, 4))
    scale.bind(grid=Globals.grid, block=Globals.threads)(Globals.of(x), stream=stream.stream)
    assert stream.numpy(x).tolist() == (np.arange(12) * 2).reshape(3, 4).tolist()


def test_the_stream_is_the_one_that_is_given():
    with fake_driver.installed() as gpu:
        x = device.zeros(64, stream=device.GpuStream(7, 0))
        fill_32(x, 1.5, stream=device.GpuStream(8, 0))
        assert gpu.log[[entry[0] for entry in gpu.log].index("cuLaunchKernel")][2:] == ((2, 1, 1), (32, 1, 1), 0, 8)


def test_constant_sizes_ask_nobody():
    x = np.zeros(4, np.int32)
    fill.bind(grid=(2,), block=2)(x, stream=device.cpu_stream())
    assert x.tolist() == [4, 5, 5, 5]


@pytest.mark.parametrize("size", [lambda x: 1, lambda: 1, lambda a, b, c, d: 1])
@pytest.mark.parametrize("what", ["grid", "block", "shared"])
def test_a_function_of_other_parameters_is_refused(what, size):
    with pytest.raises(
        TypeError, match=f"{what} is a function of the kernel's arguments: write lambda x, value, first: …"
    ):
        fill.bind(**{"grid": 1, "block": 1, what: size})


def test_other_mistakes():
    x, stream = np.zeros(4, np.int32), device.cpu_stream()
    with pytest.raises(device.LaunchError, match="is missing an argument for 'x'"):
        fill_32(stream=stream)
    with pytest.raises(device.LaunchError, match="grid='no' is not a size of a grid"):
        fill.bind(grid=lambda *_: "no", block=1)(x, stream=stream)
    with pytest.raises(ZeroDivisionError):
        fill.bind(grid=lambda *_: 1 // 0, block=1)(x, stream=stream)
    with pytest.raises(TypeError, match="a launch needs grid or threads"):
        fill.bind(block=1)
    fill_32(x, stream=stream)
    assert x.tolist() == [32, 5, 5, 5]


def test_it_prints_and_pickles():
    assert repr(fill_32) == "<kernel fill with grid=blocks, block=32, shared=0>"
    assert pickle.loads(pickle.dumps(fill_32)).sizes["grid"] is blocks


@device.struct
class Rows:
    out: ArrayType(float32, 2)
    scale: float32

    def grid(self):
        return len(self.out)


@device.kernel
def set_rows(g: Rows):
    g.out[device.block_idx.x, 0] = g.scale


@pytest.mark.parametrize(
    "as_given", [lambda out: (out, 2.0), lambda out: {"scale": 2.0, "out": out}, lambda out: Rows.of(out, 2.0)]
)
def test_a_tuple_of_members_for_a_struct(stream, as_given):
    """As for a host function: the hint says what it becomes, also for functions of the arguments."""
    out = stream.array(np.zeros((3, 1), np.float32))
    given = as_given(out)
    set_rows.bind(grid=Rows.grid, block=1)(given, stream=stream.stream)
    device.launch(set_rows, given, grid=3, block=1, stream=stream.stream)
    device.prepare(set_rows, given, grid=3, block=1, stream=stream.stream)()
    assert stream.numpy(out).tolist() == [[2], [2], [2]]


def test_members_that_do_not_fit():
    for given, message in (
        (
            (np.zeros((1, 1), np.float32), 1.0, 2),
            r"the argument 'g': Rows has 2 members, not 3\n  help: pass a Rows, or a",
        ),
        (
            (np.zeros((1, 1), np.float32), 10**400),
            "the argument 'g': Rows.scale is of type float32, which 10* does not fit",
        ),
        ((np.zeros((1, 1)), 1.0), r"'Rows.out' .* is not one of float32"),
        ({"out": np.zeros((1, 1), np.float32)}, "Rows is missing a value for 'scale'"),
    ):
        with pytest.raises(device.LaunchError, match=message):
            device.launch(set_rows, given, grid=1, block=1, stream=device.cpu_stream())
