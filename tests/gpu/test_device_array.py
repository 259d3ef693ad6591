"""Streams, memory and array exchange on a real GPU: what a fake driver cannot show."""

import ctypes
import gc
import threading

import numpy as np
import pytest
from late import COUNT, Gate, Late, launch
from processes import python
from test_device_array import DTYPES

import cuda_device as device
from cuda_device.runtime.arrays.array_interface import view_of
from cuda_device.runtime.arrays.array_view import Device
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.gpu.streams import as_stream

pytestmark = pytest.mark.skipif(not driver.available(), reason=f"no GPU: {driver.unavailable_reason()}")

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry uses_shared(.param .u64 p_to)
{
  .reg .u64 %a; .reg .u32 %v;
  ld.param.u64 %a, [p_to]; mov.u32 %v, 7; st.shared.u32 [dynamic+102396], %v; ld.shared.u32 %v, [dynamic+102396];
  st.global.u32 [%a], %v; ret;
}
"""


@pytest.fixture(scope="module")
def uses_shared():
    """Writes a number to the end of 100 KiB of dynamic shared memory, and from there to an address."""
    return driver.get_kernel(driver.load_library(PTX), "uses_shared")


@pytest.fixture(scope="module")
def late():
    return Late()


@pytest.fixture(scope="module")
def core_stream():
    """A non-blocking stream of cuda.core: ordered with no other."""
    core = pytest.importorskip("cuda.core")
    device = core.Device()
    device.set_current()
    return device.create_stream()


@pytest.fixture(scope="module")
def core_stream_2(core_stream):
    return pytest.importorskip("cuda.core").Device().create_stream()


@pytest.fixture(scope="module")
def torch():
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("torch has no CUDA")
    return module


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy")


@pytest.fixture(params=["default", "per-thread", "cuda.core"])
def stream(request, core_stream):
    return as_stream({"default": None, "per-thread": 2, "cuda.core": core_stream}[request.param])


# The driver


def test_properties():
    properties = driver.properties(0)
    assert properties.capability >= (7, 0)
    assert properties.max_shared_optin > 48 << 10
    assert properties.multiprocessors > 0
    assert properties.name.isprintable()
    assert properties.name
    assert properties.memory_pools


def test_kernel_attributes_and_large_shared_memory(uses_shared):
    assert driver.most_threads(uses_shared, 0) == 1024
    target = device.zeros(1, np.uint32, stream=1)
    values = (ctypes.c_uint64(view_of(target).data),)
    with pytest.raises(device.LaunchError, match="CUDA_ERROR_INVALID_VALUE"):
        launch(uses_shared, values, 1, shared=102400)
    driver.set_max_dynamic_shared(uses_shared, 102400, 0)
    launch(uses_shared, values, 1, shared=102400)
    assert target.numpy() == [7]


def test_bad_code_and_names_are_errors(uses_shared):
    # Drivers that load lazily look at the code when they are asked for a kernel.
    with pytest.raises(device.LaunchError, match="while loading device code|'kernel'"):
        driver.get_kernel(driver.load_library(b"this is no PTX"), "kernel")
    with pytest.raises(device.LaunchError, match="'missing'"):
        driver.get_kernel(driver.load_library(PTX), "missing")
    with pytest.raises(device.LaunchError, match="launching a grid"):
        launch(uses_shared, (ctypes.c_uint64(0),), 1, block=2048)
    assert device.zeros(3).numpy().tolist() == [0, 0, 0]


def test_every_error_number_has_words():
    text = str(driver.error_of(700))
    assert "CUDA_ERROR_ILLEGAL_ADDRESS (700): " in text
    assert "no description" not in text


# Memory and streams


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elements_come_back(stream, dtype):
    source = np.arange(3 * 1000).reshape(3, 10, 100).astype(dtype)
    made = device.array(source, stream=stream)
    assert made.numpy().tobytes() == source.tobytes()  # NaN, too
    assert view_of(made).data % 256 == 0
    assert driver.ordinal_of(view_of(made).data) == 0


def test_large_arrays(stream):
    source = np.arange(30_000_000, dtype=np.uint32)
    np.testing.assert_array_equal(device.array(source, stream=stream).numpy(), source)


def test_zeros_and_empties(stream):
    for shape in ((), (0, 3), 100, (7, 1, 3)):
        assert not device.zeros(shape, np.int16, stream=stream).numpy().any()
        assert device.empty(shape, np.int16, stream=stream).numpy().shape == np.zeros(shape).shape


def test_too_much_memory_is_an_error_and_the_next_call_works():
    with pytest.raises(device.LaunchError, match=r"CUDA_ERROR_OUT_OF_MEMORY .* GPU memory"):
        device.empty(1 << 46, np.uint8)
    assert device.zeros(3).numpy().tolist() == [0, 0, 0]


def test_other_threads_have_a_context():
    results = []

    def work():
        made = device.array([1, 2, 3])
        results.append(made.numpy().tolist())
        results.append(made)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results.pop().numpy().tolist() == results.pop() == [1, 2, 3]


def test_some_freed_memory_stays():
    device.zeros(3)
    api, ordinal = driver.bindings(), driver.current_ordinal()
    if driver.has_pool(ordinal):
        pool = driver.check(api.cuDeviceGetDefaultMemPool(ordinal))
        bound = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        assert driver.check(api.cuMemPoolGetAttribute(pool, bound)) > 0


def test_the_memory_comes_back():
    stream = device.default_stream()
    for _ in range(200):
        device.empty(1 << 30, np.uint8, stream=stream)


def test_numpy_waits_for_the_kernel(stream, late):
    made = device.zeros(COUNT, np.uint32, stream=stream)
    with stream.using():
        late.fill(view_of(made).data, 5, stream.handle)
    assert (made.numpy() == 5).all()


def test_streams_are_ordered(core_stream, core_stream_2, late):
    first, second = as_stream(core_stream), as_stream(core_stream_2)
    made = device.zeros(COUNT, np.uint32, stream=first)
    with second.using():
        driver.order((first.handle,), (second.handle,))
        late.fill(view_of(made).data, 5, second.handle)
        driver.order((second.handle,), (first.handle,))
    assert (made.numpy() == 5).all()


def test_arguments_live_until_the_kernel_has_ended(core_stream, late):
    stream, gate = as_stream(core_stream), Gate()
    victim = device.zeros(COUNT, np.uint32, stream=device.default_stream())
    address = view_of(victim).data
    late.fill(address, 5, stream.handle, wait=0)
    stream.synchronize()  # all code is loaded now: to load some might wait for the kernel that waits for us
    late.fill(address, 5, stream.handle, gate=gate)
    stream.retain(victim)
    del victim
    gc.collect()
    # Were the memory free, the default stream would hand it out again.
    others = [device.zeros(COUNT, np.uint32, stream=device.default_stream()) for _ in range(20)]
    taken = [view_of(other).data for other in others]
    gate.open()
    stream.synchronize()
    assert address not in taken
    assert not any(other.numpy().any() for other in others)


def test_retained_arguments_are_let_go(core_stream, late):
    stream = as_stream(core_stream)
    stream.synchronize()
    for _ in range(3000):
        stream.retain(object())
    stream.synchronize()
    assert len(stream._retained.pending) == 0
    assert len(driver.spare_events(stream.context)) <= driver.MOST_SPARE_EVENTS


def test_streams_of_every_library(core_stream, torch, cupy):
    side = torch.cuda.Stream()
    assert as_stream(side).handle == side.cuda_stream
    assert as_stream(torch.cuda.default_stream()).handle == 1
    mine = cupy.cuda.Stream(non_blocking=True)
    assert as_stream(mine).handle == mine.ptr
    assert as_stream(cupy.cuda.Stream.null).handle == 1
    assert as_stream(cupy.cuda.Stream.ptds).handle == 2
    assert as_stream(core_stream).handle == int(core_stream.handle)
    assert as_stream(int(core_stream.handle)) == as_stream(core_stream)
    assert as_stream(core_stream.handle) == as_stream(core_stream)
    assert {as_stream(s).ordinal for s in (side, mine, core_stream, None)} == {0}


# Array exchange


def test_torch_tensors_arrive(torch):
    tensor = torch.arange(24, device="cuda", dtype=torch.float32).reshape(4, 6)[:, ::2]
    view = view_of(tensor, 1)
    assert (view.data, view.shape, view.strides) == (tensor.data_ptr(), (4, 3), (24, 8))
    assert (view.device, view.ordinal) == (Device.CUDA, 0) and view.stream in (None, 1)
    for target in (device.cpu_stream(), device.default_stream()):
        np.testing.assert_array_equal(device.array(tensor, stream=target).numpy(), tensor.cpu().numpy())
    pinned = torch.arange(6).pin_memory()
    assert view_of(pinned).device.on_host
    np.testing.assert_array_equal(device.array(pinned, stream=device.default_stream()).numpy(), np.arange(6))
    with pytest.raises(device.LaunchError, match="detach"):
        view_of(torch.zeros(3, device="cuda", requires_grad=True), 1)


def test_torch_shares_our_memory(torch, stream):
    made = device.array(np.arange(12, dtype=np.float32).reshape(3, 4), stream=stream)
    tensor = torch.from_dlpack(made)
    assert (tensor.data_ptr(), tensor.device.type) == (view_of(made).data, "cuda")
    tensor += 1
    torch.cuda.synchronize()
    np.testing.assert_array_equal(made.numpy(), np.arange(1, 13).reshape(3, 4))
    by_interface = torch.as_tensor(made, device="cuda")
    assert by_interface.data_ptr() == tensor.data_ptr()
    del made
    gc.collect()
    assert tensor.sum().item() == 78


def test_cupy_shares_our_memory(cupy, stream):
    made = device.array(np.arange(12, dtype=np.float32).reshape(3, 4), stream=stream)
    for take in (cupy.from_dlpack, cupy.asarray):
        taken = take(made)
        assert taken.data.ptr == view_of(made).data
        taken += 1
        cupy.cuda.Device().synchronize()
    np.testing.assert_array_equal(made.numpy(), np.arange(2, 14).reshape(3, 4))
    del made
    gc.collect()
    assert float(taken.sum()) == 90
    assert view_of(taken, 1).data == taken.data.ptr
    strided = cupy.arange(60).reshape(3, 4, 5)[::-1, 1:3, ::2]
    for target in (device.cpu_stream(), device.default_stream()):
        np.testing.assert_array_equal(device.array(strided, stream=target).numpy(), cupy.asnumpy(strided))


def test_managed_and_pinned_memory(cupy):
    managed = cupy.ndarray((4,), "f4", cupy.cuda.malloc_managed(16))
    managed[:] = 3
    view = view_of(managed, 1)
    assert view.device.on_gpu
    for target in (device.cpu_stream(), device.default_stream()):
        assert device.array(managed, stream=target).numpy().tolist() == [3, 3, 3, 3]
    pinned = cupyx_pinned(cupy)
    pinned[:] = 4
    made = device.array(pinned, stream=device.default_stream())
    pinned[:] = 5
    assert (made.numpy() == 4).all()


def cupyx_pinned(cupy):
    memory = cupy.cuda.alloc_pinned_memory(1 << 22)
    return np.frombuffer(memory, np.float32, 1 << 20)


class OnlyInterface:
    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def test_interface_alone(cupy):
    source = cupy.arange(6)
    assert device.array(OnlyInterface(source)).numpy().tolist() == [0, 1, 2, 3, 4, 5]


def test_a_late_producer_is_waited_for(torch, cupy, late, core_stream):
    """Torch and CuPy fill an array late, on a stream of their own: we read what they wrote, not what was there before."""
    ours = as_stream(core_stream)
    for target in (device.cpu_stream(), ours, device.default_stream()):
        tensor = torch.zeros(COUNT, dtype=torch.int32, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            late.fill(tensor.data_ptr(), 5, torch.cuda.current_stream().cuda_stream)
            assert (device.array(tensor, stream=target).numpy() == 5).all()
        taken = cupy.zeros(COUNT, "i4")
        cupy.cuda.Device().synchronize()
        with cupy.cuda.Stream(non_blocking=True) as side:
            late.fill(taken.data.ptr, 6, side.ptr)
            assert (device.array(taken, stream=target).numpy() == 6).all()
            late.fill(taken.data.ptr, 7, side.ptr)
            assert (device.array(OnlyInterface(taken), stream=target).numpy() == 7).all()


def test_late_work_of_ours_is_waited_for(torch, cupy, late, stream):
    for take, value in ((torch.from_dlpack, 5), (cupy.from_dlpack, 6), (cupy.asarray, 7)):
        made = device.zeros(COUNT, np.int32, stream=stream)
        with stream.using():
            late.fill(view_of(made).data, value, stream.handle)
        assert int(take(made).sum()) == value * COUNT


def test_memory_that_torch_still_uses_is_not_handed_out(torch, late, core_stream):
    stream = as_stream(core_stream)
    made = device.zeros(COUNT, np.int32, stream=stream)
    tensor = torch.from_dlpack(made)
    address = tensor.data_ptr()
    stream.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        late.fill(address, 9, torch.cuda.current_stream().cuda_stream)
        del made, tensor
        gc.collect()
    # If the memory comes again, then only after the fill.
    others = [device.zeros(COUNT, np.int32, stream=stream) for _ in range(4)]
    torch.cuda.synchronize()
    assert not any(other.numpy().any() for other in others)


def test_captures_are_left_alone(torch, late):
    side = torch.cuda.Stream()
    dropped = device.zeros(COUNT, np.int32, stream=side)
    target = device.zeros(COUNT, np.int32, stream=side)
    elsewhere = device.zeros(COUNT, np.int32, stream=device.default_stream())
    address = view_of(target).data
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=side):
        stream = as_stream(side)
        late.fill(address, 5, stream.handle, wait=0)
        stream.retain(target)
        del dropped, target, elsewhere
        gc.collect()
    graph.replay()
    torch.cuda.synchronize()
    again = device.zeros(COUNT, np.int32, stream=side)
    assert view_of(again).data != address
    check = np.empty(COUNT, np.int32)
    driver.copy(check.ctypes.data, address, check.nbytes, 1)
    driver.synchronize_stream(1)
    assert (check == 5).all()


START = """
import numpy as np
from cuda_device import KernelError, array, default_stream, zeros
"""


@pytest.mark.parametrize(
    "framework", ["", "import torch; t = [torch.from_dlpack(x)]", "import cupy; t = [cupy.asarray(x)]"]
)
def test_the_interpreter_ends_without_noise(framework):
    if framework:
        pytest.importorskip(framework.split()[1].rstrip(";"))
    script = (
        START + "class C: pass\n"
        "x = zeros(1000); c = C(); c.me = c; c.x = zeros(5); default_stream().retain(c, x); k = x.__dlpack__()\n"
    )
    assert python("-c", script + framework, timeout=120).stderr == ""


def test_a_kernel_that_breaks_the_context_is_told_as_such():
    script = (
        START + "from late import Late\n"
        "x = zeros(4); s = default_stream()\n"
        "Late().fill(16, 1, 1, wait=0, count=1)\n"
        "for wait in (s.synchronize, x.numpy, lambda: zeros(3), lambda: s.retain(x)):\n"
        "    try: wait()\n"
        "    except KernelError as error: print(str(error).split(':')[0])\n"
    )
    done = python("-c", script, timeout=120)
    assert done.stderr == ""
    assert done.stdout.split("\n")[:-1] == ["CUDA_ERROR_ILLEGAL_ADDRESS (700)"] * 4


WILD = """
import time, cuda_device as device
@device.kernel
def innocent(x):
    x[device.tid(1)] += 1
@device.kernel
def wild(x, i):
    x[i] = 1
x, far = zeros(64), np.int32((1 << 31) - 1)  # 8 GiB behind it
innocent_step = device.prepare(innocent, x, grid=1, block=64)
for _ in range(20):
    device.launch(innocent, x, grid=1, block=64)
device.synchronize()
device.launch(wild, x, far, grid=1, block=1)
calls = (device.synchronize, x.numpy, lambda: zeros(3), innocent_step, lambda: device.launch(innocent, x, grid=1, block=64))
for call in calls:
    try: call()
    except KernelError as error: print('wild, a grid of (1, 1, 1)' in str(error), 'innocent' in str(error).split('in flight')[0])
"""


def test_after_a_wild_kernel_every_call_names_it_and_the_process_ends():
    done = python("-c", START + WILD, timeout=120)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["True False"] * 5


def test_two_devices():
    if driver.check(driver.bindings().cuDeviceGetCount()) < 2:
        pytest.skip("one GPU")
    there = device.GpuStream(driver.LEGACY_STREAM, 1)
    first = device.array([1, 2, 3])
    second = device.array(first, stream=there)
    assert second.__dlpack_device__() == (2, 1)
    assert driver.ordinal_of(view_of(second).data) == 1
    assert (
        device.array(second, stream=device.default_stream()).numpy().tolist()
        == device.array(second, stream=device.cpu_stream()).numpy().tolist()
    )
    assert driver.current_ordinal() == 0
