"""DLPack's C exchange API, and the order of launches with the streams that arrays come from: a producer made of C functions."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest
from fake_driver import CONTEXT, installed
from producers import Described, Torch, new_capsule

import cuda_device as device
from cuda_device.runtime.arrays import dlpack
from cuda_device.runtime.arrays.array_interface import view_of


def tensor_of(framework, address=0x1008, **fields):
    return framework.tensor(address, (2, 3), offset=8, **fields)


@pytest.fixture
def framework():
    return Torch(0x90)


@pytest.fixture
def gpu():
    with installed() as fake:
        yield fake


@device.kernel
def touch(x):
    x[0, device.tid(1)] = 1


def order(gpu):
    """What the driver was told about order: records and waits by stream, and the launch."""
    found = []
    for name, *arguments in gpu.log:
        if name == "cuEventRecord":
            found.append(("record", arguments[1]))
        elif name == "cuStreamWaitEvent":
            found.append(("wait", arguments[0]))
        elif name == "cuLaunchKernel":
            found.append(("launch", arguments[-1]))
    return found


def test_a_tensor_comes_without_a_python_call(framework):
    tensor = tensor_of(framework)
    view = view_of(tensor, 0x77)
    assert (view.data, view.shape, view.strides, str(view.element)) == (0x1008, (2, 3), (12, 4), "float32")
    assert (view.device.name, view.ordinal, view.stream, view.readonly) == ("CUDA", 0, 0x90, False)
    assert framework.asked == [(2, 0)]
    assert len(framework.alive) == 1
    del view
    gc.collect()
    assert not framework.alive


@pytest.mark.parametrize(
    ("kind", "where", "stream"),
    [(1, "HOST", None), (2, "CUDA", 0x90), (3, "PINNED", None), (13, "MANAGED", 0x90)],
)
def test_devices(framework, kind, where, stream):
    view = view_of(tensor_of(framework, kind=kind, device=1 if kind == 2 else 0), 0x77)
    assert (view.device.name, view.stream) == (where, stream)
    assert framework.asked == ([(kind, view.ordinal)] if stream else [])


def test_the_null_stream_is_the_legacy_one(framework):
    framework.stream = 0
    assert view_of(tensor_of(framework), 0x77).stream == 1


def test_read_only_memory_is_known_as_such(framework):
    assert view_of(tensor_of(framework, flags=dlpack.FLAG_READONLY), 1).readonly


@pytest.mark.parametrize("fields", [{"requires_grad": True}, {"conjugated": True}])
def test_what_the_memory_does_not_tell_is_asked_for(framework, fields):
    with pytest.raises(device.LaunchError, match="refuses to share its memory: the slow way"):
        view_of(tensor_of(framework, **fields), 1)
    assert view_of(tensor_of(framework), 1).data == 0x1008


OTHERS = Torch(major=2), Torch(managed=False)


def test_a_negated_view_is_refused(framework):
    with pytest.raises(device.LaunchError, match=r"resolve_neg\(\)"):
        view_of(tensor_of(framework, negative=True), 1)


@pytest.mark.parametrize(
    "capsule",
    [None, 5, new_capsule(0x1000, b"another", None), *(other.Tensor.__dlpack_c_exchange_api__ for other in OTHERS)],
)
def test_other_tables_are_left_alone(framework, capsule):
    framework.Tensor.__dlpack_c_exchange_api__ = capsule
    assert dlpack.exchange_of(framework.Tensor) is None
    with pytest.raises(device.LaunchError, match="the slow way"):
        view_of(tensor_of(framework), 1)


def test_a_newer_table_leads_to_the_one_that_we_know(framework):
    newer = Torch(major=2, previous=ctypes.addressof(framework.table))
    framework.Tensor.__dlpack_c_exchange_api__ = newer.Tensor.__dlpack_c_exchange_api__
    assert view_of(tensor_of(framework), 1).stream == 0x90


def test_the_words_of_a_framework_that_refuses():
    machine_code = pytest.importorskip("cuda_device.cpu.machine_code")
    ir = """
        declare void @PyErr_SetString(ptr, ptr)
        @words = private constant [13 x i8] c"not this one\\00"
        define i32 @refuse(ptr %object, ptr %out) {
          %kind = load ptr, ptr inttoptr (i64 KIND to ptr)
          call void @PyErr_SetString(ptr %kind, ptr @words)
          ret i32 -1
        }
    """
    kind = ctypes.c_void_p.in_dll(ctypes.pythonapi, "PyExc_BufferError")
    function = ctypes.cast(ctypes.pythonapi.PyErr_SetString, ctypes.c_void_p).value
    code = machine_code.compile_native(
        ir.replace("KIND", str(ctypes.addressof(kind))), {"PyErr_SetString": function}, exports=("refuse",)
    )
    framework = Torch()
    framework.table[3] = code.address("refuse")
    with pytest.raises(device.LaunchError, match="Tensor refuses to share its memory: not this one"):
        view_of(tensor_of(framework), 1)


def test_torch(framework):
    torch = pytest.importorskip("torch")
    assert dlpack.exchange_of(torch.Tensor) is not None
    tensor = torch.arange(12.0).reshape(3, 4)[:, ::2]
    view = view_of(tensor)
    assert (view.data, view.shape, view.strides) == (tensor.data_ptr(), (3, 2), (16, 8))
    number = torch.zeros(3, dtype=torch.complex64)
    for refused, words in (
        (torch.zeros(3, requires_grad=True), "requires? grad"),
        (number.conj(), "conj"),
        (number.conj().imag, "resolve_neg"),
        (torch.zeros(3).to_sparse(), "storage"),
    ):
        with pytest.raises(device.LaunchError, match=words) as caught:
            view_of(refused)
        assert "\n" not in caught.value.reason


def test_a_launch_is_put_in_order_with_the_frameworks_stream(framework, gpu):
    stream = device.GpuStream(0x77, 0, context=CONTEXT)
    tensor = tensor_of(framework)
    device.launch(touch, tensor, grid=1, block=3, stream=stream)
    assert order(gpu)[:5] == [("record", 0x90), ("wait", 0x77), ("launch", 0x77), ("record", 0x77), ("wait", 0x90)]
    assert not {"cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize"} & set(gpu.names())
    gpu.log.clear()
    framework.stream = 0x77
    device.launch(touch, tensor, grid=1, block=3, stream=stream)
    assert order(gpu)[0] == ("launch", 0x77)
    assert "cuStreamWaitEvent" not in gpu.names()


def interface(stream, version=3):
    return Described(shape=(2, 3), typestr="<f4", data=(0x1000, False), version=version, stream=stream)


class Pack:
    """A producer with `__dlpack__`, which remembers what it was asked."""

    def __init__(self, framework):
        self.framework, self.asked, self.tensor = framework, [], tensor_of(framework)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None):
        self.asked.append(stream)
        found = (ctypes.c_void_p * 1)()
        self.framework.give(self.tensor, found)
        return new_capsule(found[0], b"dltensor_versioned", None)


# Our stream, the producer's, and the streams whose work is waited for; 1 is the legacy and 2 the per-thread default stream.
CASES = [(ours, theirs) for ours in (1, 2, 0x77) for theirs in (None, 1, 2, 0x77, 0x90)]


@pytest.mark.parametrize(("ours", "theirs"), CASES)
def test_the_stream_of_an_interface(gpu, ours, theirs):
    gpu.foreign_addresses.add(0x1000)
    stream = device.GpuStream(ours, 0, context=CONTEXT)
    device.launch(touch, interface(theirs), grid=1, block=3, stream=stream)
    expected = [("launch", ours)]
    if theirs not in (None, ours):
        expected = [("record", theirs), ("wait", ours), ("launch", ours), ("record", ours), ("wait", theirs)]
    assert order(gpu)[: len(expected)] == expected
    assert sum(name == "wait" for name, _ in order(gpu)) == len(expected) // 2
    assert not {"cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize"} & set(gpu.names())


def test_version_2_of_the_interface_is_waited_for_by_nobody(gpu):
    gpu.foreign_addresses.add(0x1000)
    device.launch(touch, interface(0x90, version=2), grid=1, block=3, stream=device.GpuStream(0x77, 0, context=CONTEXT))
    assert "cuStreamWaitEvent" not in gpu.names()


@pytest.mark.parametrize(("ours", "told"), [(1, 1), (0x77, 0x77), (2, 1)])
def test_a_dlpack_producer_is_told_our_stream(framework, gpu, ours, told):
    producer = Pack(framework)
    device.launch(touch, producer, grid=1, block=3, stream=device.GpuStream(ours, 0, context=CONTEXT))
    assert producer.asked == [told]
    # Few producers know the per-thread stream: what they put before the legacy one, ours waits for.
    waits = [entry for entry in order(gpu) if entry[0] == "wait"]
    assert waits == ([("wait", 2), ("wait", 1)] if ours == 2 else [])


def test_an_unordered_stream_waits_for_nobody(framework, gpu):
    gpu.foreign_addresses.add(0x1000)
    stream = device.unordered(device.GpuStream(0x77, 0, context=CONTEXT))
    producer, table = Pack(framework), tensor_of(framework)
    for array in (
        producer,
        table,
        interface(0x90),
        device.zeros((2, 3), stream=device.GpuStream(0x99, 0, context=CONTEXT)),
    ):
        device.launch(touch, array, grid=1, block=3, stream=stream)
    assert producer.asked == [-1]
    assert "cuStreamWaitEvent" not in gpu.names()
    assert stream == device.GpuStream(0x77, 0, context=CONTEXT)
    assert device.unordered(device.cpu_stream()) == device.cpu_stream()


def test_a_capture_is_put_in_order_with_its_own_streams_only(framework, gpu):
    gpu.foreign_addresses.add(0x1000)
    stream = device.GpuStream(0x77, 0, context=CONTEXT)
    for theirs in (0x88, 0x90, 1):
        device.launch(touch, interface(theirs), grid=1, block=3, stream=stream)
    gpu.log.clear()
    gpu.capturing |= {0x77, 0x88}
    gpu.capturing.add(0x99)
    gpu.captures_apart[0x99] = 2  # a capture that has nothing to do with this one, or contains it
    for theirs, foreign in ((0x90, False), (1, False), (0x99, False), (0x88, True)):
        gpu.log.clear()
        device.launch(touch, interface(theirs), grid=1, block=3, stream=stream)
        assert ("cuStreamWaitEvent" in gpu.names()) is foreign
    gpu.log.clear()
    device.launch(touch, interface(0x77), grid=1, block=3, stream=stream)
    assert [name for name in gpu.names() if name not in ("push", "pop")] == ["cuLaunchKernel"]


def test_managed_memory_is_waited_for_before_the_cpu_uses_it(framework, gpu):
    memory = np.zeros(8, np.float32)
    tensor = tensor_of(framework, memory.ctypes.data + 8, kind=13)
    device.launch(touch, tensor, grid=1, block=3, stream=device.cpu_stream())
    assert ("cuStreamSynchronize", 0x90) in gpu.log
    assert memory.tolist() == [0, 0, 1, 1, 1, 0, 0, 0]
