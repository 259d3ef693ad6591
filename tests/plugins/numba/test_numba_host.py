"""The host's part of `numba_compat`: streams, copies that run on them, memory, and what kernels tell about their code."""

import enum
import io
import pickle

import fake_driver
import numpy as np
import pytest
from conftest import can_assemble
from numpy import float32, int64

from cuda_device import cpu_stream
from cuda_device import numba_compat as cuda
from cuda_device.plugins.numba import host_api as numba_host

HANDLE = 0x77000
needs_an_assembler = pytest.mark.skipif(not can_assemble("sm_90"), reason="no assembler on this machine")


class CoreStream:
    """Stands for a stream of cuda.core, which needs a GPU."""

    def __cuda_stream__(self):
        return 0, HANDLE


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(numba_host, "_new_stream", CoreStream)
    with fake_driver.installed() as gpu:
        yield gpu


# Streams


def test_a_stream_is_one_of_the_gpu(gpu):
    @cuda.jit
    def kernel(x):
        x[0] += 1

    stream = cuda.stream()
    kernel[1, 1, stream](cuda.to_device(np.zeros(1), stream=stream))
    launches = [call for call in gpu.log if call[0] == "cuLaunchKernel"]
    assert stream.handle == HANDLE and stream.__cuda_stream__() == (0, HANDLE)
    assert len(launches) == 1 and HANDLE in launches[0]
    with stream.auto_synchronize():
        gpu.log.clear()
    assert ("cuStreamSynchronize", HANDLE) in gpu.log
    assert (cuda.default_stream().handle, cuda.per_thread_default_stream().handle) == (1, 2)
    assert cuda.external_stream(HANDLE).ours == stream.ours


def test_streams_without_a_gpu():
    with fake_driver.no_gpu():
        for make in (cuda.stream, cuda.default_stream, cuda.legacy_default_stream):
            assert make().ours == cpu_stream() and make().handle == 0
        assert cuda.external_stream(0x123).handle == 0x123


def test_copies_of_pinned_arrays_run_on_the_stream(gpu):
    stream, pinned = cuda.stream(), cuda.pinned_array(6, np.float32)
    pinned[:] = np.arange(6)
    gpu.log.clear()
    d = cuda.to_device(pinned, stream=stream)
    back = cuda.pinned_array_like(pinned)
    assert d.copy_to_host(back, stream=stream) is back
    d.copy_to_device(back, stream=stream)
    assert [call for call in gpu.log if call[0] == "cuMemcpyAsync"] == 3 * [("cuMemcpyAsync", 24, HANDLE)]
    assert "cuStreamSynchronize" not in gpu.names()
    assert back.tolist() == list(range(6))


def test_other_copies_have_ended(gpu):
    stream, pinned = cuda.stream(), cuda.pinned_array((2, 3), np.float64)
    pinned[:] = np.arange(6.0).reshape(2, 3)
    d = cuda.to_device(pinned.T, stream=stream)
    for copy in (
        lambda: d.copy_to_host(pinned.T, stream=stream),  # not contiguous
        lambda: d.copy_to_host(np.zeros((3, 2)), stream=stream),  # not pinned
        lambda: d.copy_to_host(),
        lambda: d.copy_to_device(np.zeros((3, 2), np.float32), stream=stream),
    ):
        gpu.log.clear()
        copy()
        assert "cuStreamSynchronize" in gpu.names()
    assert not d.copy_to_host().any()


def test_events_of_the_gpu(gpu):
    stream, start, end = cuda.stream(), cuda.event(), cuda.event(timing=True)
    start.record(stream)
    end.record(stream)
    assert [call[2] for call in gpu.log if call[0] == "cuEventRecord"] == [HANDLE, HANDLE]
    assert start.elapsed_time(end) == cuda.event_elapsed_time(start, end) == 2.5
    end.wait(cuda.default_stream())
    assert gpu.log[-1][:2] == ("cuStreamWaitEvent", 1) or ("cuStreamWaitEvent" in gpu.names())


def test_free_memory(gpu):
    info = cuda.current_context().get_memory_info()
    assert info == (gpu.total_memory // 4, gpu.total_memory) and info.free == info[0] and info.total == info[1]
    assert cuda.current_context(0).id == 0


def test_free_memory_without_a_gpu():
    with fake_driver.no_gpu():
        free, total = cuda.current_context().get_memory_info()
    assert 0 < free <= total


# What kernels tell about their code


def scaled(x, factor):
    i = cuda.grid(1)
    tile = cuda.shared.array(32, float32)
    tile[i] = x[i] * factor
    cuda.syncthreads()
    x[i] = tile[31 - i]


def test_overloads_are_the_forms_that_were_launched(stream):
    kernel, x = cuda.jit(scaled), np.ones(32, np.float32)
    kernel[1, 32, stream.stream](x, 2)
    kernel[1, 32, stream.stream](x.astype(np.float64), 2.5)
    kernel[1, 32, stream.stream](cuda.to_device(np.ones(64, np.float32), stream=stream.stream)[::2], 2)
    kernel[1, 32, stream.stream](np.zeros(32, np.float32), 3)
    assert [*map(str, kernel.signatures)] == ["(float32[::1], int64)", "(float64[::1], float64)", "(float32[:], int64)"]
    assert kernel.signatures == [*kernel.overloads]
    assert kernel.overloads["(float64[:], float64)"] is kernel.overloads[kernel.signatures[1]]
    with pytest.raises(KeyError):
        kernel.overloads["(int32[:], float64)"]


def test_a_launch_that_fails_is_no_overload(stream):
    @cuda.jit
    def wrong(x):
        x.nothing = 1

    with pytest.raises(cuda.CompileError):
        wrong[1, 1, stream.stream](np.zeros(1))
    assert not wrong.overloads


def test_code_of_kernels():
    kernel = cuda.jit("void(float32[:], int64)")(scaled)
    (types,) = kernel.signatures
    (asm,), (llvm,) = kernel.inspect_asm().values(), kernel.inspect_llvm().values()
    assert ".visible .entry scaled(" in asm and "bar.sync" in asm and asm == kernel.inspect_asm(types)
    assert "target triple" in llvm and llvm == kernel.inspect_llvm("(float32[:], int64)")
    assert ".target sm_80" in kernel.overloads[types].inspect_asm((8, 0))
    written = io.StringIO()
    kernel.inspect_types(written)
    assert written.getvalue().startswith("scaled\n----") and "%x.0: array<float32, 1, C" in written.getvalue()


@needs_an_assembler
def test_resources_of_kernels(stream):
    kernel = cuda.jit(scaled)
    kernel[1, 32, stream.stream](np.ones(32, np.float32), 2)
    kernel[1, 32, stream.stream](np.ones(32, np.float64), 2)
    one = kernel.specialize(np.ones(1, np.float32), int64(1))
    for ask in ("get_regs_per_thread", "get_shared_mem_per_block", "get_local_mem_per_thread", "get_const_mem_size"):
        both = getattr(kernel, ask)()
        assert list(both) == kernel.signatures
        assert getattr(one, ask)() == getattr(kernel, ask)("(float32[:], int64)") == both[kernel.signatures[0]]
    assert 0 < one.get_regs_per_thread() < 32 and one.get_shared_mem_per_block() == 128
    assert one.get_max_threads_per_block() == 1024


@needs_an_assembler
def test_resources_follow_from_the_code():
    @cuda.jit("void(float64[:], int64)", launch_bounds=256)
    def private(x, n):
        numbers = cuda.local.array(100, np.float64)
        for i in range(n):
            numbers[i * 7 % 100] += x[i]
        x[0] = numbers[n]

    @cuda.jit("void(float32[:])", max_registers=255)
    def large(x):
        pass

    table = np.arange(50.0)

    @cuda.jit("void(float64[:], int64)")
    def tabulated(x, i):
        x[0] = table[i]

    types = private.signatures[0]
    assert private.get_local_mem_per_thread(types) >= 800 and private.get_max_threads_per_block(types) == 256
    assert tabulated.get_const_mem_size(tabulated.signatures[0]) >= 400
    (overload,) = large.overloads.values()
    assert [overload.threads_with(count) for count in (16, 64, 65, 72, 128, 168, 255)] == [
        1024, 1024, 896, 896, 512, 384, 256,
    ]  # fmt: skip


def test_a_specialised_kernel_has_one_form(stream):
    kernel = cuda.jit(scaled)
    one = kernel.specialize("float32[:]", cuda.int64)
    x = np.ones(32, np.float32)
    one[1, 32, stream.stream](x, 2.9)
    assert x.tolist() == [2] * 32 and one.specialized and not kernel.specialized
    assert kernel.specialize(x, int64(2)) is not one and kernel.specialize("float32[:]", cuda.int64) is one
    with pytest.raises(TypeError, match="No matching definition"):
        one[1, 32, stream.stream](x.astype(np.float64), 2)


def test_types_that_a_signature_does_not_tell_are_those_of_the_launch(stream):
    @cuda.jit("void(float64[:], UniTuple(int64, 2))")
    def kernel(x, pair):
        x[0] = pair[0] + pair[1]

    with pytest.raises(ValueError, match="the types of kernel are not known before its first launch"):
        kernel.inspect_asm()
    x = np.zeros(1)
    kernel[1, 1, stream.stream](x, (1, 2))
    (asm,) = kernel.inspect_asm().values()
    assert x[0] == 3 and len(kernel.overloads) == 1 and ".entry kernel(" in asm


# Members of enumerations


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Planet(enum.Enum):
    EARTH = (5.976e24, 6.37814e6)
    MARS = (6.421e23, 3.3972e6)


class Mode(enum.IntEnum):
    FAST = 2
    EXACT = 404


def test_members_of_enumerations_are_arguments(stream):
    @cuda.jit
    def kernel(out, colour, planet, mode):
        out[0], out[1], out[2] = colour.value, planet.value[1], mode + 1
        out[3] = (colour is Colour.RED) + 2 * (planet == Planet.MARS) + 4 * (mode > 10) + 8 * (colour == planet)

    for colour, planet, mode in ((Colour.RED, Planet.MARS, Mode.FAST), (Colour.GREEN, Planet.EARTH, Mode.EXACT)):
        out = np.zeros(4)
        kernel[1, 1, stream.stream](out, colour, planet, mode)
        first = (colour is Colour.RED) + 2 * (planet is Planet.MARS) + 4 * (mode is Mode.EXACT)
        assert out.tolist() == [colour.value, planet.value[1], mode + 1, first]


def test_a_signature_makes_a_member_a_number(stream):
    @cuda.jit("void(int16[:], int16)")
    def kernel(out, mode):
        out[0] = mode
        out[1] = isinstance(mode, np.int16)

    out = np.zeros(2, np.int16)
    kernel[1, 1, stream.stream](out, Mode.EXACT)
    assert out.tolist() == [404, 1]


# Types of numba itself


def numbas(name, **members):
    return type(name, (), {"__module__": "numba.fake", "__str__": lambda self: name, **members})()


def test_records_of_numba_are_dtypes(stream):
    dtype = np.dtype([("i", np.int32), ("j", np.float32, (3, 2))])
    record = numbas("Record", dtype=dtype)

    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        tile = cuda.shared.array(8, record)
        tile[i] = x[i]
        cuda.syncthreads()
        mine = cuda.local.array(1, record)
        mine[0] = tile[7 - i]
        x[i] = mine[0]

    x = np.zeros(8, dtype)
    x["i"], x["j"] = np.arange(8), np.arange(48).reshape(8, 3, 2)
    expected = x[::-1].copy()
    kernel[1, 8, stream.stream](x)
    assert np.array_equal(x, expected)


def test_vector_types_of_numba_are_ours(stream):
    vector = type("float32x4", (), {"__module__": "numba.cuda.stubs"})
    number = numbas("float32")

    @cuda.jit
    def kernel(x):
        v = vector(number(1), cuda.float32x2(2, 3), 4.5)
        x[0], x[1], x[2], x[3] = v.x, v.y, v.z, v.w

    x = np.zeros(4)
    kernel[1, 1, stream.stream](x)
    assert x.tolist() == [1, 2, 3, 4.5]


# Errors of kernels


def test_exceptions_state_the_place_as_numba_does(stream):
    @cuda.jit(debug=True)
    def kernel(x, y):
        i = cuda.threadIdx.x
        assert x[i] < 5, "too large"
        if y == 7:
            raise KeyError
        x[i] = 1 / x[i] + 1 // y

    first = kernel.py_func.__code__.co_firstlineno
    for x, y, error, line, detail in (
        (5, 1, AssertionError, 3, ": too large"),
        (1, 7, KeyError, 5, ""),
        (0, 1, ZeroDivisionError, 6, ": float division by zero"),
        (1, 0, ZeroDivisionError, 6, ": integer division by zero"),
    ):
        with pytest.raises(error) as raised:
            kernel[1, 1, stream.stream](np.array([float(x)]), y)
        place = f"In function 'kernel', file {__file__}, line {first + line}, tid=[0, 0, 0] ctaid=[0, 0, 0]"
        assert raised.value.args[0].startswith(f"{place}{detail}\n")


def test_a_division_of_floats_by_zero_is_infinite_without_debug(stream):
    @cuda.jit
    def kernel(x):
        x[0] = x[1] / x[0]

    x = np.array([0.0, 1])
    kernel[1, 1, stream.stream](x)
    assert x[0] == np.inf


# Rounding


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_round_to_digits(stream, dtype):
    @cuda.jit
    def kernel(x, digits, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = round(x[i], digits)

    tie = 0.3425  # in float32, 1000 times this is rounded to 342.5
    x = np.array([tie, 0.5425, 2.5, 1055.5, 0.125, -0.375, 1250, 50005, -0.0, 3.0, np.inf, -np.inf, np.nan], dtype)
    if dtype == "float64":  # scaling rounds
        x = x[1:]
    for digits in (-400, -2, -1, 0, 1, 2, 3, 400):
        out = np.zeros_like(x)
        kernel[1, 32, stream.stream](x, digits, out)
        expected = [round(float(v), digits) if np.isfinite(v) else v for v in x]
        assert np.array_equal(out, np.array(expected, dtype), equal_nan=True), digits


# Dates


DAYS = np.arange("2024-02", "2024-03", dtype="datetime64[D]")
DAY = np.timedelta64(1, "D")


def test_dates_are_arguments(stream):
    @cuda.jit
    def kernel(dates, day, step, later, since, same):
        i = cuda.grid(1)
        if i < dates.size:
            later[i] = dates[i] + 2 * step
            since[i] = dates[i] - day
            same[i] = dates[i] == day

    later, since, same = np.zeros_like(DAYS), np.zeros(DAYS.size, "timedelta64[D]"), np.zeros(DAYS.size, bool)
    kernel[1, 32, stream.stream](DAYS, DAYS[3], np.timedelta64(1, "D"), later, since, same)
    assert (
        np.array_equal(later, DAYS + 2 * DAY)
        and np.array_equal(since, DAYS - DAYS[3])
        and same.nonzero()[0].tolist() == [3]
    )


def test_dates_on_the_device(stream):
    @cuda.jit
    def kernel(dates):
        i = cuda.grid(1)
        dates[i] += 1

    d = cuda.to_device(DAYS, stream=stream.stream)
    kernel[1, DAYS.size, stream.stream](d)
    host = np.zeros_like(DAYS)
    assert d.dtype == DAYS.dtype and d.copy_to_host(host) is host and np.array_equal(host, DAYS + DAY)
    assert d[2] == DAYS[3] and np.array_equal(d[::2].copy_to_host(), DAYS[::2] + DAY)
    assert d.view(np.int64).dtype == np.int64 and d.view(np.int64).gpu_data == d.gpu_data
    d[0] = DAYS[9]
    copy = cuda.device_array_like(d)
    copy.copy_to_device(d)
    assert copy.copy_to_host()[0] == DAYS[9] and copy.reshape(1, -1).T.copy_to_host().dtype == DAYS.dtype
    copy.copy_to_device(DAYS.astype("datetime64[h]"))
    assert np.array_equal(pickle.loads(pickle.dumps(copy)).copy_to_host(), DAYS)
    with pytest.raises(TypeError, match="incompatible dtype"):
        d.copy_to_host(np.zeros(DAYS.size, np.int64))


def test_dates_that_kernels_cannot_take_are_refused(stream):
    kernel = cuda.jit(lambda a, b: None)
    with pytest.raises(TypeError, match=r"of one unit, not datetime64\[D\] and timedelta64\[h\]"):
        kernel[1, 1, stream.stream](DAYS, np.timedelta64(1, "h"))
    with pytest.raises(ValueError, match="NaT"):
        kernel[1, 1, stream.stream](np.array(["2024-02-01", "NaT"], "datetime64[D]"), 1)
    with pytest.raises(ValueError, match="NaT"):
        cuda.to_device(np.array(["NaT"], "timedelta64[s]"))
