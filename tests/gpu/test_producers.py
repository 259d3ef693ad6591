"""Late producers, for every protocol and every pair of streams: a launch sees what they wrote, and they see what it wrote.

In even turns the producer's stream is late with its values, in odd turns ours is late with the launch, and the producer goes
on at once: it reads the result and overwrites the argument. The first launches are Python's, the others machine code's.
"""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest
from conftest import BY_PYTHON, HAS_LAUNCHERS
from late import COUNT, Late
from producers import DELETER, Torch, new_capsule

import cuda_device as device
from cuda_device.runtime.arrays import dlpack
from cuda_device.runtime.arrays.array_interface import view_of
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.gpu.streams import as_stream, release_finished_everywhere

pytestmark = pytest.mark.skipif(not driver.available(), reason=f"no GPU: {driver.unavailable_reason()}")
TURNS = BY_PYTHON + 6
LATE = 2_000_000  # Nanoseconds.


# Producers: each has arrays in the same memory, made on one stream.


class Described:
    """The CUDA Array Interface, version 3."""

    def __init__(self, memory, stream):
        self.memory = memory
        self.__cuda_array_interface__ = memory.__cuda_array_interface__ | {"stream": stream}


class Packed:
    """DLPack's capsules: a producer lets the consumer's stream wait for its own."""

    NAME, FRAME = b"dltensor_versioned", dlpack.DLManagedTensorVersioned

    def __init__(self, memory, stream):
        self.memory, self.stream = memory, stream

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, *, stream=None, max_version=None):
        driver.order([self.stream], [stream or 1])
        shape, strides = (ctypes.c_int64 * 1)(COUNT), (ctypes.c_int64 * 1)(1)
        frame = self.FRAME()
        frame.dl_tensor = dlpack.DLTensor(view_of(self.memory).data, 2, 0, 1, 0, 32, 1, shape, strides, 0)
        if hasattr(frame, "major"):
            frame.major = 1
        address = ctypes.addressof(frame)
        _frames[address] = frame, self.memory
        frame.deleter = ctypes.cast(_delete, ctypes.c_void_p)
        return new_capsule(address, self.NAME, None)


class PackedBefore1(Packed):
    """Capsules as they were before DLPack 1.0."""

    NAME, FRAME = b"dltensor", dlpack.DLManagedTensor

    def __dlpack__(self, *, stream=None):
        return super().__dlpack__(stream=stream)


_frames = {}
_delete = DELETER(_frames.pop)


def exchanged(memory, stream):
    """DLPack's C exchange API, by a framework whose current stream is this one."""
    made = Torch(stream).tensor(view_of(memory).data, (COUNT,), "i4")
    made.memory = memory
    return made


PROTOCOLS = {"exchange": exchanged, "capsule": Packed, "old capsule": PackedBefore1, "interface": Described}
ANSWERED = {"exchange", "interface"}
"""Those whose stream waits for launches, too. Who asks for a capsule of DLPack's tells his own stream, and learns of no other."""


# Streams


@pytest.fixture(scope="module")
def handles():
    """The two default streams, and two that are ordered with no other."""
    driver.ensure_context()
    api = driver.bindings()
    flags = api.CUstream_flags.CU_STREAM_NON_BLOCKING
    made = [int(driver.check(api.cuStreamCreate(flags))) for _ in range(2)]
    yield {"legacy": 1, "per-thread": 2, "one": made[0], "other": made[1]}
    # Arrays on these streams are freed in their order: launches on other streams must hold none when the streams are destroyed.
    driver.synchronize_context()
    release_finished_everywhere(driver.current_context())
    gc.collect()
    for handle in made:
        driver.check(api.cuStreamDestroy(handle))


@pytest.fixture(scope="module")
def late():
    driver.ensure_context()
    return Late()


def new_kernel():
    @device.kernel
    def add_one(x, y):
        i = device.tid(1)
        if i < len(y):
            y[i] = x[i] + 1

    return add_one


def read_on(array, handle):
    """The elements, copied in the order of a stream."""
    result = np.empty(COUNT, np.int32)
    driver.copy(result.ctypes.data, view_of(array).data, result.nbytes, handle)
    driver.synchronize_stream(handle)
    return result


def play(late, kernel, memory, arrays, theirs, ours, answered, wait=LATE):
    """The turns. `memory` are the arrays of ours behind the producer's `arrays`; `ours` is a handle, or a stream."""
    x, y = (view_of(array).data for array in memory)
    scratch = device.zeros(COUNT, np.int32)
    stream = as_stream(ours)
    ours = stream.handle
    device.launch(
        kernel, *arrays, grid=COUNT // 256, block=256, stream=stream
    )  # to compile it would take too long later
    for address in (x, y):
        late.fill(address, -99, theirs, wait=0)
    driver.synchronize_context()
    for turn in range(TURNS):
        producer_is_late = turn % 2 == 0 or not answered
        late.fill(x, turn, theirs, wait=wait if producer_is_late else 0)
        if not producer_is_late:
            late.fill(view_of(scratch).data, 0, ours, wait=wait)
        device.launch(kernel, *arrays, grid=COUNT // 256, block=256, stream=stream)
        if answered:
            late.fill(x, -99, theirs, wait=0)
        result = read_on(memory[1], theirs if answered else ours)
        assert (result == turn + 1).all(), (turn, "the producer" if producer_is_late else "ours", np.unique(result))
        late.fill(y, -1, theirs if answered else ours, wait=0)
        driver.synchronize_context()


@pytest.mark.parametrize("ours", ["legacy", "per-thread", "one", "other"])
@pytest.mark.parametrize("theirs", ["legacy", "per-thread", "one"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol(late, handles, protocol, theirs, ours):
    kernel, make = new_kernel(), PROTOCOLS[protocol]
    memory = [device.zeros(COUNT, np.int32) for _ in range(2)]
    arrays = [make(array, handles[theirs]) for array in memory]
    if make is PackedBefore1:
        arrays[1] = Packed(memory[1], handles[theirs])  # what such a capsule holds may only be read
    play(late, kernel, memory, arrays, handles[theirs], handles[ours], protocol in ANSWERED)


@pytest.mark.parametrize("ours", ["legacy", "per-thread", "one", "other"])
@pytest.mark.parametrize("theirs", ["legacy", "per-thread", "one"])
def test_arrays_of_ours(late, handles, theirs, ours):
    kernel = new_kernel()
    memory = [device.zeros(COUNT, np.int32, stream=handles[theirs]) for _ in range(2)]
    play(late, kernel, memory, memory, handles[theirs], handles[ours], True)


def test_what_is_not_put_in_order_shows(late, handles):
    """The tests above would see it."""
    memory = [device.zeros(COUNT, np.int32, stream=handles["one"]) for _ in range(2)]
    stream = device.unordered(handles["other"])
    with pytest.raises(AssertionError, match="the producer"):
        play(late, new_kernel(), memory, memory, handles["one"], stream, True, wait=200_000_000)
    device.synchronize(handles["one"])


class Wrapped:
    """Arrays of a library, with what `play` needs of an array of ours."""

    def __init__(self, array):
        self.array = array

    def _cuda_device_view_(self):
        return view_of(self.array, -1)


@pytest.mark.parametrize("ours", ["legacy", "per-thread", "one", "other"])
@pytest.mark.parametrize("theirs", ["default", "side"])
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_a_library(late, handles, library, theirs, ours):
    module = pytest.importorskip(library)
    kernel = new_kernel()
    if library == "torch":
        stream = module.cuda.default_stream() if theirs == "default" else module.cuda.Stream()
        handle, current = stream.cuda_stream or 1, module.cuda.stream(stream)
        arrays = [module.zeros(COUNT, dtype=module.int32, device="cuda") for _ in range(2)]
        module.cuda.synchronize()
    else:
        stream = module.cuda.Stream.null if theirs == "default" else module.cuda.Stream(non_blocking=True)
        handle, current = stream.ptr or 1, stream
        arrays = [module.zeros(COUNT, "i4") for _ in range(2)]
        module.cuda.Device().synchronize()
    answered = library == "torch" or handle == handles[ours]  # CuPy has capsules
    with current:
        play(late, kernel, [Wrapped(array) for array in arrays], arrays, handle, handles[ours], answered)
    if handle == handles[ours] and HAS_LAUNCHERS:
        assert sum(variant.launches for variant in kernel.variants.values()) == BY_PYTHON
