"""`DeviceArray`: on the CPU for real, and on a GPU that is played by host memory."""

import copy
import gc
import itertools
import pickle

import numpy as np
import pytest
from fake_driver import MOST_BYTES, Result, installed
from producers import Described

import cuda_device as device
from cuda_device.runtime.arrays import dlpack
from cuda_device.runtime.arrays.array_interface import view_of
from cuda_device.runtime.gpu import driver
from cuda_device.types.host import ROWS

DTYPES = [np.dtype(row.scalar) for row in ROWS]
HANDLE = 0x70


@pytest.fixture
def gpu():
    with installed() as fake:
        yield fake
        gc.collect()


@pytest.fixture
def queue(gpu):
    return device.GpuStream(HANDLE, 0)


@pytest.fixture
def two_gpus():
    """Two GPUs, and a stream of each."""
    with installed(devices=2) as fake:
        yield fake, device.GpuStream(HANDLE, 0), device.GpuStream(0x71, 1)
        gc.collect()


@pytest.fixture(params=["cpu", "gpu"])
def stream(request):
    """A stream of each kind: what does not depend on the kind holds for both."""
    if request.param == "cpu":
        yield device.cpu_stream()
    else:
        with installed():
            yield device.GpuStream(HANDLE, 0)
            gc.collect()


def on_gpu(array, stream=None):
    """An array of another library on the fake GPU."""
    data = array.ctypes.data, False
    return Described(shape=array.shape, strides=array.strides, typestr=array.dtype.str, data=data, stream=stream)


# Layouts


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0,), (2, 3), (1, 3), (3, 1), (2, 1, 3), (0, 2), (2, 0), (1, 1, 1)])
@pytest.mark.parametrize("step", [(1, 1, 1), (2, 1, 1), (-1, 1, 1), (1, -2, 1), (1, 1, 2)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_layouts_are_numpys(shape, step, order):
    whole = np.zeros([2 * n for n in shape], np.int16, order=order)
    part = whole[(*(slice(None, None, s) for s in step[: len(shape)]), ...)]
    for candidate in (whole, part, part.T, part[..., :1] if shape else part, part[None], part[:1] if shape else part):
        expected = "C" if candidate.flags.c_contiguous else "F" if candidate.flags.f_contiguous else "strided"
        view = view_of(candidate)
        assert str(view.type).split(", ")[2].rstrip(">") == view.layout.value == expected


def test_extent():
    view = view_of(np.zeros((3, 8), np.float32)[::-1, ::2])
    assert (view.shape, view.strides) == ((3, 4), (-32, 8))
    assert view.extent == (view.data - 64, view.data + 24 + 4)
    assert device.empty((2, 0, 3), np.float32, stream=device.cpu_stream()).strides == (12, 12, 4)


# Making


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elements_come_back(stream, dtype):
    source = np.arange(24).reshape(2, 3, 4).astype(dtype)
    made = device.array(source, stream=stream)
    source_then = source.copy()
    source[...] = 0
    back = made.numpy()
    np.testing.assert_array_equal(back, source_then)
    assert back.dtype == made.dtype == dtype
    assert (made.shape, made.strides, made.ndim, made.size) == ((2, 3, 4), back.strides, 3, 24)
    assert (made.nbytes, made.itemsize, len(made), made.stream) == (back.nbytes, dtype.itemsize, 2, stream)
    back[...] = 1
    np.testing.assert_array_equal(made.numpy(), source_then)


@pytest.mark.parametrize("shape", [(), 5, (0,), (0, 4), [2, 3], np.int64(3), (1, 1, 1)])
@pytest.mark.parametrize("make", [device.empty, device.zeros])
def test_shapes(stream, make, shape):
    made = make(shape, stream=stream)
    like = np.zeros(shape, np.float32)
    assert (made.shape, made.dtype, made.size, made.nbytes) == (like.shape, like.dtype, like.size, like.nbytes)
    if make is device.zeros:
        np.testing.assert_array_equal(made.numpy(), like)
    assert np.asarray(made).shape == like.shape
    assert device.array(made, stream=stream).shape == like.shape


def test_zeros_are_zeros_where_memory_was_used_before(stream):
    for _ in range(20):
        device.array(np.full(1000, 255, np.uint8), stream=stream)
        assert not device.zeros(1000, np.uint8, stream=stream).numpy().any()


@pytest.mark.parametrize(
    ("obj", "dtype", "elements"),
    [
        ([1, 2], "int32", [1, 2]), ([1.5, 2], "float32", [1.5, 2]), ([True, False], "bool", [True, False]), (5, "int32", 5),
        (2.5, "float32", 2.5), (True, "bool", True), ([[1, 2], [3, 4]], "int32", [[1, 2], [3, 4]]), ([], "float32", []),
        ((1, True), "int32", [1, 1]), ([-(2**31), 2**31 - 1], "int32", [-(2**31), 2**31 - 1]), (np.float64(3), "float64", 3),
        ([np.float64(1), 2], "float64", [1, 2]), ([np.arange(2), np.arange(2)], "int64", [[0, 1], [0, 1]]),
        (b"", None, None), (memoryview(b"ab"), "uint8", [97, 98]), (range(1, 4), "int32", [1, 2, 3]),
    ],
)  # fmt: skip
def test_python_objects(stream, obj, dtype, elements):
    if dtype is None:
        with pytest.raises(TypeError):
            device.array(obj, stream=stream)
        return
    made = device.array(obj, stream=stream)
    assert made.dtype.name == dtype
    np.testing.assert_array_equal(made.numpy(), elements)


def test_records_keep_the_titles_of_their_members(stream):
    source = np.array([(1, 2.5), (3, 4.5)], [(("a number", "a"), "i4"), (("another", "b"), "f8")])
    made = device.array(source, stream=stream)
    assert made.dtype == made.copy().dtype == made.numpy().dtype == source.dtype
    assert np.array_equal(made.numpy()["another"], source["b"])


@pytest.mark.parametrize("dtype", [np.float16, "int8", np.dtype("u4"), float, int, bool, device.float32])
def test_dtypes_are_converted(stream, dtype):
    made = device.array([0, 1, 2], dtype, stream=stream)
    source = device.array(np.array([0.0, 1.0, 2.0]), dtype, stream=stream)
    assert made.dtype == source.dtype == device.empty(1, dtype, stream=stream).dtype
    expected = np.array([0, 1, 1]) if made.dtype == bool else np.array([0, 1, 2])
    np.testing.assert_array_equal(made.numpy(), expected)
    np.testing.assert_array_equal(source.numpy(), expected)


@pytest.mark.parametrize(
    "source",
    [
        np.arange(12).reshape(3, 4).T, np.arange(12)[::-2], np.arange(12).reshape(3, 4)[::-1, 1:3], np.float32(5),
        np.broadcast_to(np.arange(3), (4, 3)), np.zeros((3, 0)), np.zeros(4, np.int8)[::4],
    ],
    ids=range(7),
)  # fmt: skip
def test_strided_sources_become_c_contiguous(stream, source):
    made = device.array(source, stream=stream)
    np.testing.assert_array_equal(made.numpy(), source)
    assert view_of(made).layout.value == "C"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: device.array([2**31], stream=s), OverflowError, "int32 in device code, .* pass dtype=int64"),
        (lambda s: device.array([2**63, -1], stream=s), OverflowError, "pass dtype=int64"),
        (lambda s: device.array([300], np.uint8, stream=s), OverflowError, "300"),
        (lambda s: device.array(object(), stream=s), TypeError, "object is neither an array nor nested lists"),
        (lambda s: device.array(None, stream=s), TypeError, "NoneType"),
        (lambda s: device.array("text", stream=s), TypeError, "<U4"),
        (lambda s: device.array([1j], np.float32, stream=s), TypeError, "complex128, and .* float32: take its .real"),
        (
            lambda s: device.array(np.zeros(1, "c8"), "f4", stream=s),
            TypeError,
            "complex64, and .* float32: take its .real",
        ),
        (
            lambda s: device.array(np.zeros(1, "c8"), int, stream=s),
            TypeError,
            "complex64, and .* int32: take its .real",
        ),
        (lambda s: device.array(np.zeros(1, np.clongdouble), stream=s), TypeError, "complex256"),
        (lambda s: device.array([[1], [1, 2]], stream=s), ValueError, "inhomogeneous"),
        (lambda s: device.empty(3, "nonsense", stream=s), TypeError, "nonsense"),
        (lambda s: device.empty(3, None, stream=s), TypeError, "None"),
        (lambda s: device.empty(-1, stream=s), ValueError, r"\(-1,\) has a negative length"),
        (lambda s: device.zeros((2, -3), stream=s), ValueError, "negative"),
        (lambda s: device.empty(2.5, stream=s), TypeError, "2.5"),
        (lambda s: device.empty((2, "3"), stream=s), TypeError, "'3'"),
        (lambda s: device.empty((1 << 40, 1 << 40), stream=s), ValueError, "more than any memory"),
        (lambda s: device.empty(1 << 56, stream=s), device.LaunchError, "memory"),
        (lambda s: device.empty(3, stream="blue"), device.LaunchError, "'blue' is not a stream"),
        (lambda s: device.array([device.int8x2(1, 2), device.int8x3(1, 2, 3)], stream=s), TypeError, "of one type"),
        (lambda s: device.array([device.int8x2(1, 2)], device.int16x2, stream=s), TypeError, "not"),
        (lambda s: device.array([device.int8x2(1, 2), 3], stream=s), TypeError, "of one type"),
        (lambda s: device.full(2, [1, 2], stream=s), TypeError, "one value"),
        (lambda s: device.empty_like([1, 2], stream=s), TypeError, "not an array"),
        (lambda s: device.zeros_like([1, 2], stream=s), TypeError, "not an array"),
        (lambda s: len(device.zeros((), stream=s)), TypeError, "0-d"),
        (lambda s: device.zeros((3, 4), stream=s).item(), ValueError, "size 1"),
        (lambda s: format(device.zeros(1, stream=s), ".2f"), TypeError, "format string"),
        (lambda s: device.zeros(1, stream=s).astype("U3"), TypeError, "not a type of device code"),
    ],
)
def test_mistakes_are_named_and_cost_nothing(stream, call, error, message):
    with pytest.raises(error, match=message):
        call(stream)
    assert device.array([1], stream=stream).numpy() == [1]


# On the CPU


def test_host_memory_is_aligned():
    keep = [device.empty(n, np.uint8, stream=device.cpu_stream()) for n in range(1, 50)]
    assert all(view_of(a).data % 64 == 0 for a in keep)


def test_numpy_shares_the_memory():
    made = device.zeros((2, 3), np.int32, stream=device.cpu_stream())
    for shared in (np.asarray(made), np.from_dlpack(made), np.array(made, copy=False), np.asarray(made, copy=False)):
        shared[1, 2] += 1
        assert shared.base is not None
    assert made.numpy()[1, 2] == 4
    for copied in (np.array(made), np.asarray(made, np.float64), made.numpy(), np.from_dlpack(made, copy=True)):
        copied[...] = 100
    assert made.numpy()[1, 2] == 4
    with pytest.raises(ValueError, match="copy=False"):
        np.asarray(made, np.float64, copy=False)


def test_shared_memory_outlives_the_array():
    made = device.array(np.arange(1000), stream=device.cpu_stream())
    shared, direct, view = np.from_dlpack(made), np.asarray(made), view_of(made)
    del made
    gc.collect()
    junk = [device.zeros(1000, np.int64, stream=device.cpu_stream()) for _ in range(10)]
    for alive in (shared, direct):
        np.testing.assert_array_equal(alive, np.arange(1000))
    assert view.data == shared.ctypes.data
    del junk


def test_the_cpu_has_no_cuda_array_interface():
    made = device.zeros(3, stream=device.cpu_stream())
    assert not hasattr(made, "__cuda_array_interface__")
    assert made.__dlpack_device__() == (1, 0)
    view = view_of(made, 5)
    assert (view.device.name, view.stream, view.readonly) == ("HOST", None, False)


def test_dlpack_requests_on_the_cpu():
    made = device.array([1, 2], stream=device.cpu_stream())
    assert made.__dlpack__(dl_device=(1, 0), copy=False) is not None
    with pytest.raises(BufferError, match=r"not to \(2, 0\)"):
        made.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="pass None"):
        made.__dlpack__(stream=1)


def test_a_copy_for_the_consumer_says_so(stream):
    made = device.array([1, 2], stream=stream)
    for copy_, flags in ((True, 2), (None, 0), (False, 0)):
        capsule = made.__dlpack__(copy=copy_, max_version=(1, 0))
        frame = dlpack.DLManagedTensorVersioned.from_address(dlpack._get_pointer(capsule, b"dltensor_versioned"))
        assert frame.flags == flags
        assert (frame.dl_tensor.data == view_of(made).data) == (not copy_)


def test_pickles_and_copies():
    made = device.array([[1, 2], [3, 4]], stream=device.cpu_stream())
    for other in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made)):
        np.testing.assert_array_equal(other.numpy(), made.numpy())
        assert view_of(other).data != view_of(made).data


@pytest.mark.parametrize("shape", [(), 3, (3, 2), 0, (0, 2), 1001, (40, 50), (3, 2000), (8, 9, 20)], ids=str)
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.complex64, device.numpy_dtype(device.float32x2)], ids=str)
def test_repr_is_numpys(shape, dtype, stream):
    count = int(np.prod(shape))
    elements = (
        np.arange(count) % 100 if dtype != device.numpy_dtype(device.float32x2) else [(i, -i) for i in range(count)]
    )
    elements = np.array(elements, dtype).reshape(shape)
    where = "cpu" if stream == device.cpu_stream() else "cuda:0"
    text = repr(device.array(elements, stream=stream))
    summarised = count > 1000
    expected = np.array2string(elements, separator=", ", prefix="DeviceArray(")
    if dtype is not np.complex64:  # whose columns are as wide as the widest number, shown or not
        assert text.startswith(f"DeviceArray({expected}")
    assert text.endswith(f"dtype={np.dtype(dtype)}, device='{where}')")
    assert (f"shape={elements.shape}" in text) == (summarised or elements.shape == (0, 2))
    if elements.ndim == 2 and dtype != np.complex64:
        part = device.array(elements, stream=stream)[:, ::2]
        expected = np.array2string(elements[:, ::2], separator=", ", prefix="DeviceArray(")
        assert repr(part).startswith(f"DeviceArray({expected}")


def test_repr_of_a_large_array_copies_its_ends_only(gpu, queue):
    made = device.zeros((1000, 1000), stream=queue)
    gpu.log.clear()
    assert repr(made).endswith("shape=(1000, 1000), dtype=float32, device='cuda:0')")
    copied = [nbytes for name, nbytes, *_ in gpu.log if name == "cuMemcpyAsync"]
    assert len(copied) == 4 and sum(copied) < 60_000, copied


def test_repr_where_the_memory_cannot_be_read(gpu, queue, monkeypatch):
    made = device.zeros(3, stream=queue)
    with monkeypatch.context() as patch:
        patch.setattr(driver, "is_capturing", lambda handle: True)
        assert repr(made) == "<DeviceArray shape=(3,) dtype=float32 device='cuda:0', whose stream is being captured>"

    def broken(*_):
        raise device.LaunchError("the context is gone")

    with monkeypatch.context() as patch:
        patch.setattr(driver, "copy", broken)
        assert repr(made) == "<DeviceArray shape=(3,) dtype=float32 device='cuda:0', unreadable: the context is gone>"
        assert made._repr_html_().endswith("<pre>unreadable: the context is gone</pre>")
    assert repr(made).startswith("DeviceArray([0., 0., 0.], dtype=float32")


# On a GPU


def test_memory_is_allocated_and_freed_in_stream_order(gpu, queue):
    made = device.empty(100, stream=queue)
    address = view_of(made).data
    assert ("cuMemAllocAsync", 400, HANDLE) in gpu.log
    del made
    assert gpu.log[-1] == ("cuMemFreeAsync", address, HANDLE)
    assert gpu.memory == {}
    assert "cuCtxSynchronize" not in gpu.names()


@pytest.mark.parametrize("nbytes", [1, 2, 3, 4, 5, 7, 8, 403])
def test_what_fills_the_last_word_is_zero(gpu, queue, nbytes):
    """Atomic operations on a byte read the word that it is in."""
    made = device.empty(nbytes, np.uint8, stream=queue)
    whole = bytes(gpu.memory[view_of(made).data])
    rest = -nbytes % 4
    assert len(whole) == nbytes + rest and whole[nbytes:] == bytes(rest)
    assert whole[:nbytes] == b"\xaa" * nbytes
    assert [entry for entry in gpu.log if entry[0] == "cuMemsetD8Async"] == [("cuMemsetD8Async", rest, HANDLE)] * bool(
        rest
    )


@pytest.mark.parametrize("wanted", [0, 1, 2**64 - 1])
def test_freed_memory_stays_if_nobody_wants_it_otherwise(gpu, queue, wanted):
    bound = 0xB0, "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD"
    gpu.pools[bound] = wanted
    for _ in range(3):
        device.zeros(4, stream=queue)
    assert gpu.pools == {bound: wanted or driver.MOST_KEPT}


def test_a_device_whose_pool_is_not_told(gpu, queue):
    gpu.failing["cuDeviceGetDefaultMemPool"] = Result.CUDA_ERROR_INVALID_VALUE
    assert device.zeros(4, stream=queue).numpy().tolist() == [0] * 4
    assert not gpu.pools


def test_no_elements_take_no_memory(gpu, queue):
    made = device.zeros((0, 3), stream=queue)
    made.numpy()
    del made
    assert not {"cuMemAllocAsync", "cuMemFreeAsync", "cuMemcpyAsync", "cuMemsetD8Async"} & set(gpu.names())


def test_numpy_waits_for_the_stream(gpu, queue):
    made = device.zeros(3, stream=queue)
    gpu.log.clear()
    made.numpy()
    assert gpu.log == [("cuMemcpyAsync", 12, HANDLE), ("cuStreamSynchronize", HANDLE)]


def test_an_upload_is_done_when_array_returns(gpu, queue):
    device.array(np.zeros(3), stream=queue)
    assert [e for e in gpu.log if e[0] in ("cuMemcpyAsync", "cuStreamSynchronize")] == [
        ("cuMemcpyAsync", 24, HANDLE), ("cuStreamSynchronize", HANDLE),
    ]  # fmt: skip


def test_the_gpu_has_a_cuda_array_interface(gpu, queue):
    made = device.zeros((2, 3), np.int16, stream=queue)
    address = view_of(made).data
    assert made.__cuda_array_interface__ == {
        "shape": (2, 3), "typestr": "<i2", "data": (address, False), "version": 3, "strides": None, "stream": HANDLE,
    }  # fmt: skip
    view = view_of(made, 5)
    assert (view.device.name, view.ordinal, view.stream) == ("CUDA", 0, HANDLE)


@pytest.mark.needs("cpu")
def test_np_asarray_copies_from_the_gpu(gpu, queue):
    made = device.array([1, 2, 3], stream=queue)
    np.testing.assert_array_equal(np.asarray(made), [1, 2, 3])
    assert np.asarray(made, np.float64).dtype == np.float64
    np.testing.assert_array_equal(np.from_dlpack(made, device="cpu"), [1, 2, 3])
    with pytest.raises(ValueError, match="copy=False"):
        np.asarray(made, copy=False)
    with pytest.raises((BufferError, RuntimeError), match="Unsupported device"):
        np.from_dlpack(made)


@pytest.mark.parametrize(("consumer", "waits"), [(None, 1), (1, 1), (2, 2), (0x90, 0x90), (-1, None), (HANDLE, None)])
def test_the_consumers_stream_waits_for_ours(gpu, queue, consumer, waits):
    made = device.zeros(3, stream=queue)
    gpu.log.clear()
    made.__dlpack__(stream=consumer)
    waited = [entry[1] for entry in gpu.log if entry[0] == "cuStreamWaitEvent"]
    recorded = [entry[2] for entry in gpu.log if entry[0] == "cuEventRecord"]
    assert (waited, recorded) == (([waits], [HANDLE]) if waits else ([], []))


@pytest.mark.parametrize("consumer", [0, -2, "x", 1.5])
def test_impossible_consumer_streams(gpu, queue, consumer):
    with pytest.raises(ValueError, match="stream="):
        device.zeros(3, stream=queue).__dlpack__(stream=consumer)


def test_dlpack_requests_on_a_gpu(gpu, queue):
    made = device.array([1, 2], stream=queue)
    assert made.__dlpack_device__() == (2, 0)
    with pytest.raises(BufferError, match="copy=False"):
        made.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match=r"not to \(2, 1\)"):
        made.__dlpack__(dl_device=(2, 1))
    copied = np.from_dlpack(made, device="cpu")
    copied[0] = 100
    assert made.numpy()[0] == 1
    allocations = len(gpu.memory)
    capsule = made.__dlpack__(copy=True, max_version=(1, 0))
    assert len(gpu.memory) == allocations + 1
    del capsule
    assert len(gpu.memory) == allocations


def test_memory_lives_as_long_as_the_consumer(gpu, queue):
    made = device.array([1, 2], stream=queue)
    capsule = made.__dlpack__(stream=HANDLE)
    del made
    gc.collect()
    assert len(gpu.memory) == 1
    del capsule
    assert gpu.memory == {}
    assert gpu.log[-1][0] == "cuMemFreeAsync"


def test_the_first_arrays_do_without_the_pool(gpu, queue, monkeypatch):
    """Its first use takes 7 ms, in which a program that loads a kernel has its result."""
    monkeypatch.setattr(driver, "_allocations", itertools.count())
    made = [device.array([i], stream=queue) for i in range(driver.FIRST)]
    assert not [name for name in gpu.names() if "Pool" in name or name == "cuMemAllocAsync"]
    assert [each.item() for each in made] == [*range(driver.FIRST)]
    other = device.empty(1, stream=queue)
    assert gpu.names().count("cuMemAlloc") == driver.FIRST and gpu.names()[-1] == "cuMemAllocAsync"
    gpu.log.clear()
    del made[:], other
    assert [entry[0::2] for entry in gpu.log] == [("cuMemFreeAsync", HANDLE)] * (driver.FIRST + 1)


@pytest.mark.parametrize(("consumer", "waits"), [(HANDLE, False), (1, True), (-1, True)])
def test_memory_that_others_use_is_freed_after_all_work(gpu, queue, consumer, waits):
    made = device.array([1, 2], stream=queue)
    made.__dlpack__(stream=consumer)
    gpu.log.clear()
    del made
    assert gpu.names() == ["cuCtxSynchronize", "cuMemFreeAsync"][0 if waits else 1 :]


def test_memory_is_not_freed_into_a_capture(gpu, queue):
    made = device.empty(4, stream=queue)
    gpu.capturing.add(HANDLE)
    del made
    assert "cuMemFreeAsync" not in gpu.names()
    gpu.capturing.clear()
    other = device.empty(4, stream=queue)
    assert gpu.names().count("cuMemFreeAsync") == 1
    assert len(gpu.memory) == 1
    del other


def test_a_destructor_never_raises(gpu, queue, capfd):
    made = device.empty(4, stream=queue)
    gpu.failing["cuMemFreeAsync"] = Result.CUDA_ERROR_ILLEGAL_ADDRESS
    del made
    gc.collect()
    assert capfd.readouterr().err == ""
    gpu.failing.clear()
    device.empty(4, stream=queue)
    assert gpu.memory == {}


def test_out_of_memory_is_tried_again_after_the_launches(gpu, queue):
    with pytest.raises(device.LaunchError, match=f"allocating {MOST_BYTES * 2} bytes of GPU memory"):
        device.empty(MOST_BYTES * 2, np.uint8, stream=queue)
    assert device.zeros(3, stream=queue).numpy().tolist() == [0, 0, 0]


def test_what_launches_still_hold_makes_room(gpu, queue, monkeypatch):
    other = device.GpuStream(0x99, 0)
    gpu.done = False
    other.retain(device.empty(4, stream=other))
    gpu.done = True
    allocate, held = gpu.cuMemAllocAsync, list(gpu.memory)

    def full_while_held(nbytes, stream):
        return (Result.CUDA_ERROR_OUT_OF_MEMORY, 0) if held[0] in gpu.memory else allocate(nbytes, stream)

    monkeypatch.setattr(gpu, "cuMemAllocAsync", full_while_held)
    monkeypatch.setattr(gpu, "cuCtxSynchronize", lambda: (gpu.finish(), (0,))[1])
    assert device.empty(5, stream=queue).size == 5


@pytest.mark.parametrize("producer", [None, 0x33])
def test_gpu_arrays_are_copied_by_the_gpu(gpu, queue, producer):
    source = np.arange(6.0)
    gpu.foreign_addresses.add(source.ctypes.data)
    gpu.log.clear()
    made = device.array(on_gpu(source, producer), stream=queue)
    steps = [e for e in gpu.log if e[0] in ("cuStreamSynchronize", "cuMemcpyAsync")]
    assert steps == [
        ("cuStreamSynchronize", producer or 1), ("cuMemcpyAsync", 48, HANDLE), ("cuStreamSynchronize", HANDLE),
    ]  # fmt: skip
    np.testing.assert_array_equal(made.numpy(), source)


@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_strided_gpu_arrays_come_by_the_host(gpu, queue, target):
    whole = np.arange(60).reshape(3, 4, 5)
    for part in (whole[::-1, 1:3, ::2], whole.T, whole[:, ::-1], whole[1:1], whole[2, 3, 4:]):
        gpu.foreign_addresses.add(part.ctypes.data)
        made = device.array(on_gpu(part), stream=device.cpu_stream() if target == "cpu" else queue)
        np.testing.assert_array_equal(made.numpy(), part)
    assert device.array(on_gpu(part), np.float32, stream=queue).numpy().tolist() == [59.0]


def test_arrays_move_between_devices(two_gpus):
    gpus, here, there = two_gpus
    first = device.array([1, 2, 3], stream=here)
    second = device.array(first, stream=there)
    third = device.array(second, stream=device.cpu_stream())
    assert second.__dlpack_device__() == (2, 1)
    assert "device='cuda:1'" in repr(second)
    np.testing.assert_array_equal(third.numpy(), [1, 2, 3])
    assert gpus.stack[-1] in (0, 0xC0), "the caller's context is current again"


def test_assignment_between_gpus_is_one_copy_in_the_order_of_both_streams(two_gpus):
    gpus, here, there = two_gpus
    source, target = device.array([1, 2, 3], stream=here), device.zeros(3, np.int32, stream=there)
    gpus.log.clear()
    target[...] = source
    steps = [entry for entry in gpus.log if entry[0] not in ("push", "pop", "cuEventCreate", "cuMemPoolSetAccess")]
    first, second = (steps[i][1] for i in (0, 1))
    both = [("cuEventRecord", first, HANDLE), ("cuEventRecord", second, 0x71)]
    both += [("cuStreamWaitEvent", HANDLE, second), ("cuStreamWaitEvent", 0x71, first)]
    assert steps == [*both, ("cuMemcpyAsync", 12, 0x71), *both]
    assert target.numpy().tolist() == [1, 2, 3]


def test_assignment_on_a_gpu_goes_by_the_host_where_bytes_are_not_enough(gpu, queue):
    x, y = device.array([1, 2, 3, 4], stream=queue), device.array([5.5, 6.5], stream=queue)

    def waits(assign):
        gpu.log.clear()
        assign()
        return gpu.names().count("cuStreamSynchronize")

    assert waits(lambda: x.__setitem__(slice(2), x[2:])) == 0
    assert waits(lambda: x.__setitem__(slice(1, 4), x[:3])) == 2  # they overlap
    assert x.numpy().tolist() == [3, 3, 4, 3]
    assert waits(lambda: x.__setitem__(slice(2, 4), y)) == 2
    assert waits(lambda: x.__setitem__(slice(0, 2), x[3])) == 2
    assert x.numpy().tolist() == [6, 6, 5, 6]
    assert "cuMemAllocAsync" not in gpu.names()
    gpu.capturing.add(HANDLE)
    with pytest.raises(device.LaunchError, match="cannot be copied while a stream is being captured"):
        x[:2] = x[2:]


def test_pickles_of_gpu_arrays_go_to_the_default_stream(gpu, queue):
    made = device.array([1, 2, 3], stream=queue)
    other = pickle.loads(pickle.dumps(made))
    assert other.stream.handle == 1
    np.testing.assert_array_equal(other.numpy(), [1, 2, 3])
    with pytest.raises(TypeError, match="freed twice"):
        copy.copy(made._memory)


@device.struct
class Body:
    place: device.float32x2
    mass: device.bfloat16
    tags: tuple[int, bool]
    owner: None


def test_structs_and_vectors_as_elements(stream):
    bodies = [Body(device.float32x2(1, 2), 3, (4, True), None), Body(device.float32x2(5, 6), 7, (8, False), None)]
    a = device.array(bodies, stream=stream)
    assert a.dtype == device.numpy_dtype(Body) and a.shape == (2,)
    assert a.numpy().tolist() == [((1, 2), 3, (4, True), 0), ((5, 6), 7, (8, False), 0)]
    v = device.array([[device.int8x3(1, 2, 3)], [device.int8x3(4, 5, 6)]], device.int8x3, stream=stream)
    assert v.shape == (2, 1) and v.numpy().tolist() == [[(1, 2, 3)], [(4, 5, 6)]]
    one = device.array(device.int8x3(1, 2, 3), stream=stream)
    assert one.shape == () and one.numpy().tolist() == (1, 2, 3)


# Filling, and parts


def test_an_array_is_filled(stream):
    made = device.empty((3, 50_000), stream=stream)
    made.fill(2.5)
    assert (made.numpy() == 2.5).all()
    made[1] = 7
    assert (made.numpy() == np.array([[2.5], [7], [2.5]])).all()
    made.fill(np.float64(-1))
    assert (made.numpy() == -1).all()
    device.empty(0, stream=stream).fill(3)
    pairs = device.full(3, device.float32x2(1, 2), stream=stream)
    pairs[1] = device.float32x2(3, 4)
    assert pairs.numpy().tolist() == [(1, 2), (3, 4), (1, 2)]


KEYS = [0, -1, slice(None), slice(1, 3), slice(None, None, -1), ..., None, (0, 1), (slice(None), 2), (..., 0), (1, ...),
        (slice(1, None), slice(None, None, 2)), (slice(2, 2),), np.int64(1)]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_parts_are_copied_both_ways_as_numpy_does(stream, key):
    like = np.arange(12, dtype=np.int32).reshape(3, 4)
    made = device.array(like, stream=stream)
    part = made[key]
    np.testing.assert_array_equal(part.numpy(), like[key])
    assert (part.shape, part.size, part.dtype) == (like[key].shape, like[key].size, like.dtype)
    values = 100 + np.arange(like[key].size).reshape(like[key].shape)
    for source, elements in (
        (5, 5),
        (values.tolist() if values.size else values, values),
        (device.array(values, stream=stream), values),
        (-values, -values),
    ):
        made[key] = source
        like[key] = elements
        np.testing.assert_array_equal(made.numpy(), like)
    np.testing.assert_array_equal(part.numpy(), like[key])


def test_parts_share_memory_and_go_to_kernels():
    @device.kernel
    def count(x):
        i = device.tid(1)
        if i < len(x):
            x[i] = i

    made = device.zeros(7, np.int32, stream=device.cpu_stream())
    device.launch(count, made[::2], grid=1, block=32, stream=device.cpu_stream())
    device.launch(count, made[5:], grid=1, block=32, stream=device.cpu_stream())
    assert made.numpy().tolist() == [0, 0, 1, 0, 2, 0, 1]
    assert made[6].item() == 1
    part = made[1:3]
    del made
    gc.collect()
    assert part.numpy().tolist() == [0, 1]


def test_an_array_overlaps_with_itself(stream):
    made = device.array(np.arange(5), stream=stream)
    made[1:] = made[:-1]
    assert made.numpy().tolist() == [0, 0, 1, 2, 3]


@pytest.mark.parametrize("key", [True, [0, 1], np.array([0]), np.array([True]), "x", 1.0, 3, (0, 0, 0)], ids=repr)
def test_other_keys_are_refused(stream, key):
    made = device.zeros((3, 4), stream=stream)
    with pytest.raises(IndexError):
        made[key]
    with pytest.raises(IndexError):
        made[key] = 1


def test_what_does_not_fit_is_refused(stream):
    made = device.zeros((3, 4), np.int32, stream=stream)
    for value, error in (
        (np.zeros(3), ValueError),
        (np.zeros((1, 3, 4)), ValueError),
        (1j, TypeError),
        ("a", ValueError),
    ):
        with pytest.raises(error):
            made[:] = value
    assert not made.numpy().any()


def test_full_and_likes(stream):
    made = device.full((2, 3), 1.5, stream=stream)
    assert (made.dtype, made.numpy().tolist(), made.stream) == (np.float32, [[1.5] * 3] * 2, stream)
    assert device.full(2, 3, stream=stream).dtype == np.int32
    assert device.full(2, 3, np.uint8, stream=stream).numpy().tolist() == [3, 3]
    for make in (device.empty_like, device.zeros_like):
        like = make(made)
        assert (like.shape, like.dtype, like.stream) == ((2, 3), np.float32, stream)
        assert make(made, np.int8).dtype == np.int8
        assert make(np.zeros((0, 2), np.int16), stream=stream).shape == (0, 2)
    assert not device.zeros_like(made).numpy().any()


def test_comparisons_are_refused(stream):
    x, y = device.zeros(2, stream=stream), device.zeros(2, stream=stream)
    for compare in (
        lambda: x == y,
        lambda: x != y,
        lambda: x == x,  # noqa: PLR0124
        lambda: x == 0,
        lambda: None != x,  # noqa: E711
        lambda: y in [x],
    ):
        with pytest.raises(TypeError, match=r"np\.array_equal\(a\.numpy\(\), b\.numpy\(\)\)"):
            compare()
    assert x in [y, x][1:] and {x: 1, y: 2}[x] == 1 and hash(x) == object.__hash__(x)


@pytest.mark.parametrize("dtype", [np.dtype([("a", np.int8), ("b", np.float32)]), *DTYPES])
def test_copies_are_of_their_own(stream, dtype):
    source = np.arange(24, dtype=np.int8).reshape(4, 6).astype(dtype)
    x = device.array(source, stream=stream)
    for part in (x, x[1:3, ::2], x[0], x[:, :0], x[2, 3]):
        right = part.numpy()
        copied = part.copy()
        assert copied.dtype == dtype and copied.stream is part.stream
        assert not copied.size or copied.strides == right.copy().strides
        assert copied.numpy().tobytes() == right.tobytes()
    copied = x.copy()
    x[...] = np.zeros((), dtype)
    assert copied.numpy().tobytes() == source.tobytes()


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("dtype", [np.uint64, np.float16, bool, "complex64", device.bfloat16])
def test_types_are_converted_as_numpy_does(stream, source, dtype):
    elements = np.array([0, 1, 2.5, 3]).astype(source)
    x, wanted = device.array(elements, stream=stream), device.zeros(0, dtype, stream=stream).dtype
    if source.kind == "c" and wanted.kind != "c":
        with pytest.raises(TypeError, match="lose their imaginary parts"):
            x.astype(dtype)
        return
    for part in (x, x[::2], x.astype(source)):
        converted = part.astype(dtype)
        assert converted.dtype == wanted and converted.stream is stream
        assert converted.numpy().tobytes() == part.numpy().astype(wanted).tobytes()
    x.astype(source).fill(0)
    assert x.numpy().tobytes() == elements.tobytes()


@pytest.mark.parametrize("shape", [(12,), 12, -1, (3, 4), [2, -1], (1, 2, 3, 2)])
def test_shapes_are_changed_as_numpy_does(stream, shape):
    elements = np.arange(24).reshape(4, 6)
    x = device.array(elements, stream=stream)
    for key, shares in ((np.s_[:2], True), (np.s_[:, ::2], True), (np.s_[:, :3], False), (np.s_[::-2], False)):
        part = x[key]
        changed, right = part.reshape(shape), part.numpy().reshape(shape)
        assert changed.numpy().tolist() == right.tolist() and changed.shape == right.shape
        if isinstance(shape, tuple):
            assert part.reshape(*shape).shape == right.shape
        if shares or len(right.shape) > 1:
            continue
        changed.fill(-1)
        assert x.numpy().tolist() == elements.tolist()
    x[:2].reshape(shape).fill(-1)
    assert (x.numpy()[:2] == -1).all() and (x.numpy()[2:] == elements[2:]).all()


def test_shapes_that_do_not_fit_are_refused(stream):
    x = device.zeros((4, 6), stream=stream)
    for part in (x, x[:, :3]):
        for shape, error in (((5, 5), ValueError), ((-1, -1), ValueError), ((7, -1), ValueError), (("a",), TypeError)):
            with pytest.raises(error):
                part.reshape(shape)
    assert device.zeros((0, 3), stream=stream).reshape(3, 0).shape == (3, 0)
    assert device.array(2.5, stream=stream).reshape(1, 1).numpy().tolist() == [[2.5]]
    assert device.array([2.5], stream=stream).reshape(()).item() == 2.5


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_format_as_numpys(stream, dtype):
    element = np.array(0.1 if dtype.kind != "c" else 0.1 + 2j).astype(dtype)
    x = device.array(element.reshape(1), stream=stream)
    assert f"{x[0]}" == str(element[()])
    for spec in ("5", ">9", "d" if dtype.kind in "iu" else ".2f"):
        assert format(x[0], spec) == format(element[()], spec)
    assert f"{x}" == repr(x)
