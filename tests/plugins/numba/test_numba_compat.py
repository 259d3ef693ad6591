"""`numba_compat`: kernels of numba's documentation, and each of its names, against NumPy."""
# ruff: noqa: N803

import copy
import math
import pickle
import re
from types import SimpleNamespace
from typing import NamedTuple

import fake_driver
import numpy as np
import pytest
from numpy import complex128, float32, float64, int32

import cuda_device as device
from cuda_device import ArrayType, compile, cpu_stream, numba_random
from cuda_device import numba_compat as cuda

TPB = 16


class Case(NamedTuple):
    """A kernel, how it is launched, and what its first array then holds, or each of several."""

    kernel: object
    size: tuple
    arguments: tuple
    expected: list


CASES = []


def gives(expected, *arguments, size=(1, 1), signature=None):
    """Adds a kernel to the cases: launched with copies of the arguments, it leaves this in the first ones (in the first one)."""

    def add(function):
        kernel = (
            function
            if hasattr(function, "py_func")
            else cuda.jit(signature)(function)
            if signature
            else cuda.jit(function)
        )
        CASES.append(Case(kernel, size, arguments, expected if isinstance(expected, tuple) else (expected,)))
        return kernel

    return add


@cuda.jit
def f(a, b, c):
    # like threadIdx.x + (blockIdx.x * blockDim.x)
    tid = cuda.grid(1)
    size = len(c)

    if tid < size:
        c[tid] = a[tid] + b[tid]


def test_vector_addition(stream):
    a, b = np.random.default_rng(1).random((2, 1000))
    c = np.zeros(1000)
    f.forall(len(a), stream=stream.stream)(a, b, c)
    assert (c == a + b).all()
    c[:] = 0
    nthreads = 256
    f[(len(a) // nthreads) + 1, nthreads, stream.stream](a, b, c)
    assert (c == a + b).all()


@gives(list(range(1, 101)), np.arange(100.0), size=(4, 32))
@cuda.jit
def increment_by_one(an_array):
    # Thread id in a 1D block
    tx = cuda.threadIdx.x
    # Block id in a 1D grid
    ty = cuda.blockIdx.x
    # Block width, i.e. number of threads per block
    bw = cuda.blockDim.x
    # Compute flattened index inside the array
    pos = tx + ty * bw
    if pos < an_array.size:  # Check array boundaries
        an_array[pos] += 1


@gives(np.arange(1, 36).reshape(5, 7).tolist(), np.arange(35, dtype=np.int32).reshape(5, 7), size=((1, 1), (TPB, TPB)))
@cuda.jit
def increment_a_2D_array(an_array):
    x, y = cuda.grid(2)
    if x < an_array.shape[0] and y < an_array.shape[1]:
        an_array[x, y] += 1


@cuda.jit(device=True)
def polar_to_cartesian(rho, theta):
    x = rho * math.cos(theta)
    y = rho * math.sin(theta)
    return x, y


@cuda.jit("void(float64[:], float64[:], float64[:, :], int32)")
def vec_polar_to_cartesian(rho, theta, out, shift):
    i = cuda.grid(1)
    if i < len(rho):
        out[i, 0], out[i, 1] = polar_to_cartesian(rho[i], theta[i])
        out[i, 2] = shift + isinstance(shift, int32)


def test_device_functions_and_signatures(stream):
    rho, theta = np.random.default_rng(3).random((2, 40))
    out = np.zeros((40, 3))
    vec_polar_to_cartesian[2, 32, stream.stream](rho, theta, out, 5)
    right = np.stack([rho * np.cos(theta), rho * np.sin(theta), np.full(40, 6)], axis=1)
    assert np.allclose(out, right, rtol=1e-13)


CONST1D = np.arange(10, dtype=np.float64) / 2.0


@gives((CONST1D + 1).tolist(), np.zeros(10), size=(1, 10))
def cuconst(A):
    C = cuda.const.array_like(CONST1D)
    i = cuda.grid(1)

    # +1 or it'll be loaded & stored as a u32
    A[i] = C[i] + 1.0


@gives(([*range(1000)],) * 2, np.arange(1000.0), np.zeros(1000))
def culocal(A, B):
    C = cuda.local.array(1000, dtype=float64)
    for i in range(C.shape[0]):
        C[i] = A[i]
    for i in range(C.shape[0]):
        B[i] = C[i]


BACKWARDS = np.array([1, 2, 3])[::-1]


@gives([3, 2, 1], np.zeros(3))
def copies_a_constant(out):
    q = BACKWARDS.copy()
    for i in range(len(out)):
        out[i] = q[i]


@cuda.jit
def warp_sum(x):
    i = cuda.grid(1)
    val = x[i]
    offset = cuda.warpsize // 2
    while offset > 0:
        val += cuda.shfl_down_sync(0xFFFFFFFF, val, offset)
        offset //= 2
    cuda.syncwarp()
    if cuda.laneid == 0:
        x[i] = val


def test_shuffles(stream):
    x = np.arange(64, dtype=np.int32)
    warp_sum[2, 32, stream.stream](x)
    assert (x[0], x[32]) == (sum(range(32)), sum(range(32, 64)))


@cuda.jit
def atomics(x, old):
    i = cuda.grid(1)
    old[i] = cuda.atomic.inc(x, 0, 9)
    cuda.atomic.dec(x, 1, 4)
    cuda.atomic.add(x, 2, 2)
    cuda.atomic.sub(x, 3, 1)
    cuda.atomic.or_(x, 4, 1 << i % 4)
    cuda.atomic.min(x, 5, i)
    cuda.atomic.compare_and_swap(x[6:], 0, 77)
    cuda.atomic.cas(x, 7, 5, 1)
    cuda.atomic.xor(x, 8, 3)
    cuda.atomic.and_(x, 9, ~1)


def test_atomics(stream):
    x, old = np.array([0, 0, 0, 0, 0, 99, 0, 5, 0, 7], np.uint32).astype(np.int32), np.zeros(32, np.int32)
    atomics[1, 32, stream.stream](x, old)
    assert x.tolist() == [32 % 10, 3, 64, -32, 15, 0, 77, 1, 0, 6]
    assert sorted(old) == sorted(k % 10 for k in range(32))


@gives([1, 1 << 62, -1, 1, 0, 2], np.zeros(6, np.int64), 1 << 31, 0.5, 1j)
def numbers_have_numbas_types(out, whole, real, both):
    i = cuda.grid(1)
    out[0] = isinstance(whole, np.int64) and isinstance(real, np.float64) and isinstance(both, complex128)
    out[1] = whole * whole
    out[2] = cuda.threadIdx.x - 1
    out[3] = isinstance(i, np.int64) and isinstance(cuda.gridsize(1), np.int64)
    n = cuda.syncthreads_count(cuda.threadIdx.x % 2)
    out[4] = n
    out[5] = cuda.selp(n > 100, 1, 2)


def test_host_arrays_are_copied_to_a_gpu_and_back():
    with fake_driver.installed() as gpu:
        x = np.zeros(64, np.int32)
        increment_by_one[2, 32](x)
        names = gpu.names()
        started = names.index("cuLaunchKernel")
        assert "cuMemcpyAsync" in names[:started]
        assert "cuMemcpyAsync" in names[started:]


def test_a_barrier_of_the_grid():
    @cuda.jit
    def reverse(x):
        g = cuda.cg.this_grid()
        i = cuda.grid(1)
        value = x[x.size - 1 - i]
        g.sync()
        x[i] = value
        cuda.cg.this_grid().sync()

    x = np.arange(64.0)
    reverse[2, 32](x)
    assert (x == np.arange(64.0)[::-1]).all()


def test_a_launch_has_a_size():
    with pytest.raises(ValueError, match=r"write f\[grid, block\]"):
        f(1, 2, 3)
    with pytest.raises(ValueError, match=r"write f\[grid, block\]"):
        f[1]
    assert f.__name__ == "f"
    assert f.py_func.__name__ == "f"


# What numba's own tests found


@gives([-1, 1], np.zeros(2, np.int32), 0xFFFFFFFF, 257, signature="void(int32[:], int32, uint8)")
def numbers_of_a_signature_wrap(out, a, b):
    out[0], out[1] = a, b


def test_a_signature_says_what_a_device_function_takes_and_returns(stream):
    @cuda.jit("int32(float32, int8)", device=True)
    def product(x, factor=2):
        return x * factor

    @cuda.jit(["UniTuple(float64, 2)(float64[:], int64)"], device=True)
    def around(x, i):
        return x[i - 1], x[i + 1]

    @cuda.jit("uint8()", device=True)
    def last():
        return -1

    @cuda.jit
    def kernel(out):
        out[0], out[1], out[2] = product(2.7), product(2.7, 258), product(0.1, factor=10)
        out[3], out[4] = around(out, 1.5)
        out[5] = last()

    out = np.zeros(6)
    kernel[1, 1, stream.stream](out)
    assert out.tolist() == [5, 5, 1, 5, 1, 255]
    assert product(2.7) == 5 and product.__name__ == "product"


@gives(([255, 44], [0xFFFFFFFF, 1, 2]), np.zeros(2, np.uint8), np.array([0, 0, 3], np.uint32))
def constants_wrap(bytes, words):
    bytes[0], bytes[1] = -1, 300
    words[0] = np.uint32(-1)
    words[1] = np.int32(0x80000000) < 0
    cuda.atomic.add(words, 2, -1)


def test_constants_that_are_too_large(stream):
    @cuda.jit
    def too_large(x):
        x[0] = 1 << 70

    with pytest.raises(device.CompileError, match="the constant 1180591620717411303424 does not fit uint32"):
        too_large[1, 1, stream.stream](np.zeros(1, np.uint32))


class Point(NamedTuple):
    x: float
    y: float


@gives([0.1, 1e300], np.zeros(2), Point(0.1, 1e300))
def named_tuples_have_numbers_of_64_bits(out, p):
    out[0], out[1] = p.x, p.y


@gives([7], np.zeros(1), 3, 4)
def parameters_may_be_called_as_those_of_launches(grid, block, shared):
    grid[0] = block + shared


def test_sizes_of_launches():
    kernel = cuda.jit(lambda: None)
    with pytest.raises(ValueError, match=r"griddim must be a sequence of 1, 2 or 3 integers, got \[1, 2, 3, 4\]"):
        kernel[(1, 2, 3, 4), 1]
    with pytest.raises(TypeError, match=r"blockdim must be a sequence of integers, got \[2.0, 3\]"):
        kernel[1, (2.0, 3)]
    with pytest.raises(ValueError, match="negative task count: -1"):
        kernel.forall(-1)
    kernel.forall(0)()


class OwnError(Exception):
    pass


def test_exceptions_of_kernels_are_those_of_python_or_of_their_module():
    @cuda.jit(debug=True)
    def kernel(x, i):
        if i > 5:
            raise ValueError("too large")
        if i < -5:
            raise OwnError("too small")
        x[i] = 1

    x = np.zeros(3)
    kernel[1, 1](x, 2)
    for i, error, text in ((4, IndexError, "index out of range"), (6, ValueError, "large"), (-6, OwnError, "small")):
        with pytest.raises(error, match=text):
            kernel[1, 1](x, i)
    kernel[1, 1](x, 1)
    assert x.tolist() == [0, 1, 1]


class Dispatcher:
    """As numba's `njit` has it: the function is in `py_func`, as `jit` leaves it there, too."""

    def __init__(self, py_func):
        self.py_func = py_func


@Dispatcher
def inner(x):
    return x + 1


@cuda.jit
def other(x):
    return 2 * x


@gives([4], np.ones(1))
def what_is_compiled_for_the_host_is_called_too(x):
    x[0] = other(inner(x[0]))


@gives(list(range(63, -1, -1)), np.arange(64, dtype=np.float32), size=(1, 64, None, 256))
def dynamic_shared_memory_by_the_shape_0(x):
    few, all = cuda.shared.array(4, int32), cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    few[i % 4] = 0
    all[i] = x[i]
    cuda.syncthreads()
    x[i] = all[cuda.blockDim.x - 1 - i]


@gives([5, -2], np.zeros(2), np.array([np.nan, 5, -2]), size=(1, 3))
def a_nan_changes_no_extreme(out, x):
    cuda.atomic.max(out, 0, x[cuda.grid(1)])
    cuda.atomic.min(out, 1, x[cuda.grid(1)])


@gives([8.5, 4, 100, 0.25], np.zeros(4, np.float16), np.float16([4, 2, 0.5]))
def functions_of_float16(out, x):
    out[0] = cuda.fp16.hfma(x[0], x[1], x[2])
    out[1] = cuda.fp16.hmax(x[0], x[1])
    out[2] = cuda.fp16.hexp10(x[1])
    out[3] = cuda.fp16.hrcp(x[0])


# Random numbers


M64 = (1 << 64) - 1


def step(state):
    """xoroshiro128+ as its authors give it, with the constants of 2016."""
    s0, s1 = state
    result, s1 = (s0 + s1) & M64, s1 ^ s0
    turn = lambda x, k: (x << k | x >> (64 - k)) & M64  # noqa: E731
    return result, (turn(s0, 55) ^ s1 ^ (s1 << 14 & M64), turn(s1, 36))


def jump(state):
    total = (0, 0)
    for word in (0xBEAC0467EBA5FACB, 0xD86B048B86AA9922):
        for bit in range(64):
            if word >> bit & 1:
                total = (total[0] ^ state[0], total[1] ^ state[1])
            _, state = step(state)
    return total


def seeded(seed):
    """SplitMix64's number for both words."""
    z = (seed + 0x9E3779B97F4A7C15) & M64
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & M64
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & M64
    return (z ^ z >> 31,) * 2


def test_random_states():
    states = numba_random.create_xoroshiro128p_states(4, seed=-42, subsequence_start=2)
    expected = [jump(jump(seeded(-42 & M64)))]
    for _ in range(3):
        expected.append(jump(expected[-1]))
    assert states.copy_to_host().tolist() == expected
    states.copy_to_device(np.zeros(4, numba_random.xoroshiro128p_dtype))
    numba_random.init_xoroshiro128p_states(states, -42, 2)
    assert states.copy_to_host().tolist() == expected


@cuda.jit
def draw(states, bits, uniform, narrow, normal):
    i = cuda.grid(1)
    for k in range(bits.shape[1]):
        bits[i, k] = numba_random.xoroshiro128p_next(states, i)
        uniform[i, k] = numba_random.xoroshiro128p_uniform_float64(states, i)
        narrow[i, k] = numba_random.xoroshiro128p_uniform_float32(states, i)
        normal[i, k] = numba_random.xoroshiro128p_normal_float64(states, i)
        normal[i, k] += numba_random.xoroshiro128p_normal_float32(states, i)


def test_random_numbers(stream):
    count, times = 8, 50
    states = numba_random.create_xoroshiro128p_states(count, 7, stream=stream.stream)
    bits = np.zeros((count, times), np.uint64)
    uniform, normal, narrow = np.zeros((count, times)), np.zeros((count, times)), np.zeros((count, times), np.float32)
    reference = [tuple(each) for each in states.copy_to_host().tolist()]
    draw[1, count, stream.stream](states, bits, uniform, narrow, normal)
    for i, state in enumerate(reference):
        for k in range(times):
            drawn = []
            for _ in range(7):
                value, state = step(state)
                drawn.append((value >> 11) / (1 << 53))
                if len(drawn) == 1:
                    assert bits[i, k] == value
            assert uniform[i, k] == drawn[1] and narrow[i, k] == np.float32(drawn[2])
            radius, angle = (-2 * math.log(np.float32(drawn[3]))) ** 0.5, 2 * math.pi * np.float32(drawn[4])
            other, turn = (-2 * math.log(np.float32(drawn[5]))) ** 0.5, 2 * math.pi * np.float32(drawn[6])
            assert normal[i, k] == pytest.approx(radius * math.cos(angle) + other * math.cos(turn), abs=1e-5)
        assert states.copy_to_host()[i].tolist() == state


@cuda.jit
def add_to(x, step):
    x[cuda.grid(1)] += step[0]


def test_hints_say_what_is_copied_back(stream):
    step = np.array([2.0])
    for hint, expected in ((cuda.In, 1.0), (cuda.InOut, 3.0), (cuda.Out, 3.0)):
        x = np.ones(4)
        add_to[1, 4, stream.stream](hint(x), cuda.In(step))
        assert x.tolist() == [expected] * 4


def test_extensions_prepare_arguments(stream):
    class Unwraps:
        def prepare_args(self, _, value, stream, retr):
            return _, value.of if isinstance(value, Wrapped) else value

    class Wrapped:
        def __init__(self, of):
            self.of = of

    kernel = cuda.jit(add_to.py_func)
    kernel.extensions.append(Unwraps())
    x = np.ones(4)
    kernel[1, 4, stream.stream](Wrapped(x), np.array([0.5]))
    assert x.tolist() == [1.5] * 4


def test_devices_are_listed_and_made_current():
    devices = cuda.list_devices()
    assert [each.id for each in cuda.gpus] == [each.id for each in devices] == list(range(len(cuda.gpus)))
    before = cuda.get_current_device().id
    with cuda.gpus[len(devices) - 1] as chosen:
        assert cuda.get_current_device().id == chosen.id == len(devices) - 1
        cuda.current_context().deallocations.clear()
    assert cuda.detect()
    assert cuda.get_current_device().id == before
    with pytest.raises(IndexError):
        cuda.gpus[len(devices)]


@cuda.jit
def aligned(out):
    shared, local = cuda.shared.array(8, np.uint8, alignment=64), cuda.local.array((2, 3), np.int16, 32)
    for i in range(out.size):
        shared[i % 8] = out[i]
        local[i % 2, i % 3] = out[i]
    for i in range(out.size):
        out[i] = shared[i % 8 ^ 1] + local[i % 2, i % 3]


def test_arrays_have_the_alignment_that_is_asked_for():
    text = str(compile(aligned.kernel, ArrayType(int32, 1), output="llvm", target="sm_90"))
    assert re.search(r"addrspace\(3\) global .*align 64", text)
    assert re.search(r"alloca .*align 32", text)


@cuda.jit
def of_libdevice(x, wide, narrow, whole):
    i = cuda.grid(1)
    wide[i, 0], narrow[i, 0] = cuda.libdevice.sin(x[i]), cuda.libdevice.sinf(x[i])
    wide[i, 1], narrow[i, 1] = cuda.libdevice.pow(x[i], 3), cuda.libdevice.powf(x[i], 3)
    wide[i, 2], whole[i, 0] = cuda.libdevice.frexp(x[i])
    wide[i, 3], wide[i, 4] = cuda.libdevice.sincos(x[i])
    wide[i, 5], wide[i, 6] = cuda.libdevice.modf(x[i])
    wide[i, 7], narrow[i, 2] = cuda.libdevice.fma(x[i], x[i], 1), cuda.libdevice.tgammaf(x[i])
    wide[i, 8], wide[i, 9] = cuda.libdevice.floor(x[i]), cuda.libdevice.rint(x[i])
    whole[i, 1], whole[i, 2] = cuda.libdevice.sad(i, 7, 5), cuda.libdevice.clzll(i + 1)


def test_functions_of_libdevice(stream):
    x = np.random.default_rng(3).uniform(0.5, 4, 32)
    wide, narrow, whole = np.zeros((32, 10)), np.zeros((32, 3)), np.zeros((32, 3), np.int64)
    of_libdevice[1, 32, stream.stream](x, wide, narrow, whole)
    fraction, exponent = np.frexp(x)
    part, integer = np.modf(x)
    columns = [np.sin(x), x**3, fraction, np.sin(x), np.cos(x), part, integer, x * x + 1, np.floor(x), np.rint(x)]
    assert wide == pytest.approx(np.stack(columns, 1), rel=1e-14, abs=1e-15)
    gamma = [math.gamma(each) for each in x]
    assert narrow == pytest.approx(np.stack([np.sin(x), x**3, gamma], 1), rel=1e-5, abs=1e-6)
    assert (narrow != np.stack([np.sin(x), x**3, gamma], 1)).any(0).all()
    i = np.arange(32)
    assert (whole == np.stack([exponent, abs(i - 7) + 5, [64 - int(k).bit_length() for k in i + 1]], 1)).all()


# Numbers of 64 bits


@cuda.jit(device=True)
def pairs(n):
    for i in range(n):
        yield i, 0.5


@cuda.jit
def wide(whole, real, u8, i32, f32, i64, u64):
    a, s, t = 1, 0, 0.0
    for i in range(100000):
        a = a * 2 if i < 40 else a
        s += i * i
        t += f32[0]
    whole[0], whole[1], whole[2], whole[3] = a, s, u8[0] + u8[1], i32[0] + i32[0]
    whole[4], whole[5], whole[6] = cuda.popc(-1), cuda.clz(1), cuda.clz(i32[0])
    whole[7], whole[8] = int(1e12 * i32[1]), round(1e12 * i32[1])
    whole[9] = 5000000000 if i32[0] > 0 else 7
    whole[10] = sum((i32[0], i32[0], i32[0]))
    for k, half in pairs(3):
        whole[11] += k + (1 << 40) + half
    real[0], real[1], real[2], real[3] = i32[1] / 3, math.sqrt(i32[1]), np.sqrt(i32[1]), t
    real[4], real[5], real[6] = i64[0] + u64[0], f32[0] * 0.1, 0.1 if i32[0] else f32[0]
    real[7], real[8] = max(f32[0], 0.3), divmod(i32[1], 2)[0]
    real[9], real[10] = math.floor(f32[0] * 1e12), complex(f32[0], 0.1).imag
    real[11] = f32[0] == 0.1


def test_numbers_of_python_have_64_bits(stream):
    u8, i32, f32 = np.array([200, 201], np.uint8), np.array([2**30, 2], np.int32), np.array([0.1], np.float32)
    i64, u64 = np.array([-5]), np.array([7], np.uint64)
    whole, real = np.zeros(12, np.int64), np.zeros(12)
    wide[1, 1, stream.stream](whole, real, u8, i32, f32, i64, u64)
    squares = sum(i * i for i in range(100000))
    expected = [1 << 40, squares, 401, 1 << 31, 64, 63, 1, 2 * 10**12, 2 * 10**12, 5 * 10**9, 3 << 30, 3 + (3 << 40)]
    assert whole.tolist() == expected
    tenth = float(f32[0])
    total = np.cumsum(np.full(100000, tenth))[-1]
    floats = [2 / 3, math.sqrt(2), math.sqrt(2), total, 2, tenth * 0.1, 0.1, 0.3, 1, math.floor(tenth * 1e12), 0.1, 0]
    assert real.tolist() == pytest.approx(floats, rel=1e-15)


# Records are references


@cuda.jit(device=True)
def add_to_member(e, v):
    e.b += v


@cuda.jit
def write_records(r, one, out):
    e = r[0]
    e.a = 7
    f = e
    f.b = 3
    add_to_member(f, 2)
    add_to_member(r[1], 2)
    r[2] = e
    e.a = 8
    part = r[0].inner
    part.x = 6
    for q in r:
        q.c = 1 + q.b
    g = r[0] if out[1] else r[1]
    g.a = 42
    one.a = 5
    one.j[0, 1] = 4
    one[1] = 9
    out[0] = one[1] + e[1]


def test_a_record_in_a_variable_is_a_reference(stream):
    inner = np.dtype([("x", np.float32)])
    r = np.zeros(3, [("a", np.float64), ("b", np.int32), ("c", np.int32), ("inner", inner)])
    one = np.zeros(1, [("a", np.float64), ("b", np.int32), ("j", np.float32, (2, 2))])
    out = np.zeros(2)
    write_records[1, 1, stream.stream](r, one[0], out)
    assert r.tolist() == [(8, 5, 6, (6,)), (42, 2, 3, (0,)), (7, 5, 6, (0,))]
    assert one["a"] == 5 and one["b"] == 9 and one["j"].tolist() == [[[0, 4], [0, 0]]]
    assert out[0] == 14


# What numba's typing says of an operator on two arrays' elements: its name, with i, u, f, c for int, uint, float, complex.
KINDS = "i1 u1 i4 u4 i8 u8 f4 f8 c8".split()
OPERATORS = {
    "+": """i8 i8 i8 i8 i8 i8 f4 f8 c8  i8 u8 i8 u8 i8 u8 f4 f8 c8  i8 i8 i8 i8 i8 i8 f8 f8 c16  i8 u8 i8 u8 i8 u8 f8 f8 c16
        i8 i8 i8 i8 i8 i8 f8 f8 c16  i8 u8 i8 u8 i8 u8 f8 f8 c16  f4 f4 f8 f8 f8 f8 f4 f8 c8  f8 f8 f8 f8 f8 f8 f8 f8 c16
        c8 c8 c16 c16 c16 c16 c8 c16 c8""",
    "/": """f8 f8 f8 f8 f8 f8 f4 f8 c8  f8 f8 f8 f8 f8 f8 f4 f8 c8  f8 f8 f8 f8 f8 f8 f8 f8 c16  f8 f8 f8 f8 f8 f8 f8 f8 c16
        f8 f8 f8 f8 f8 f8 f8 f8 c16  f8 f8 f8 f8 f8 f8 f8 f8 c16  f4 f4 f8 f8 f8 f8 f4 f8 c8  f8 f8 f8 f8 f8 f8 f8 f8 c16
        c8 c8 c16 c16 c16 c16 c8 c16 c8""",
    "**": """i8 i8 i8 i8 i8 i8 f4 f8 c8  i8 u8 i8 u8 i8 u8 f4 f8 c8  i8 i8 i8 i8 i8 i8 f8 f8 c16  i8 u8 i8 u8 i8 u8 f8 f8 c16
        i8 i8 i8 i8 i8 i8 f8 f8 c16  i8 u8 i8 u8 i8 u8 f8 f8 c16  f4 f4 f4 f4 f4 f4 f4 f8 c8  f8 f8 f8 f8 f8 f8 f8 f8 c16
        c8 c8 c8 c8 c8 c8 c8 c16 c8""",
}


@pytest.mark.parametrize("sign", OPERATORS)
def test_operators_have_the_types_of_numba(sign):
    expected = iter(OPERATORS[sign].split())
    lines = [
        f"    out[{i}] = ({a}[0] {sign} {b}[0]).dtype == '{next(expected)}'\n"
        for i, (a, b) in enumerate((a, b) for a in KINDS for b in KINDS)
    ]
    source = f"def kernel(out, {', '.join(KINDS)}):\n{''.join(lines)}"
    names: dict = {"__name__": __name__}
    exec(source, names)
    out = np.zeros(len(lines), np.bool_)
    cuda.jit(names["kernel"])[1, 1, cpu_stream()](out, *(np.ones(1, kind) for kind in KINDS))
    assert out.all()


# Arrays, streams and events of the host


VIEWS = [
    lambda x: x, lambda x: x[1, 2], lambda x: x[1:, ::2], lambda x: x.reshape(4, 3), lambda x: x.reshape((2, -1)),
    lambda x: x.T, lambda x: x[::2, ::2].T, lambda x: x.transpose((0, 1)), lambda x: x[1:, ::2].transpose(),
    lambda x: x.T.ravel(), lambda x: x.ravel("F"), lambda x: x.view(np.uint64), lambda x: x[:1].squeeze(),
]  # fmt: skip


@pytest.mark.parametrize("view", VIEWS, ids=range(len(VIEWS)))
def test_arrays_are_those_of_numpy(view):
    host = np.arange(12.0).reshape(3, 4)
    found, expected = view(cuda.to_device(host)), view(host)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert np.array_equal(found.copy_to_host() if expected.ndim else found, expected)


def test_arrays_of_the_device():
    assert cuda.to_device([0.1, 0.2]).dtype == np.float64 and cuda.to_device([1, 2]).dtype == np.int64
    d = cuda.to_device(np.arange(6.0).reshape(2, 3))
    assert (d.ndim, d.size, len(d), d.nbytes) == (2, 6, 2, 48)
    assert d.flags["C_CONTIGUOUS"] and not d.flags["F_CONTIGUOUS"] and d.T.flags["F_CONTIGUOUS"]
    assert d.is_c_contiguous() and not d.is_f_contiguous() and d.T.is_f_contiguous() and d.bind() is d
    assert cuda.is_cuda_array(d) and not cuda.is_cuda_array(np.zeros(1))
    assert [part.shape for part in d.ravel().split(4)] == [(4,), (2,)]
    e = cuda.device_array_like(d)
    e.copy_to_device(d)
    e[1], e[0, :2] = 7, np.array([1, 2])
    host = np.zeros((2, 3))
    assert e.copy_to_host(host) is host and host.tolist() == [[1, 2, 2], [7, 7, 7]]
    with cuda.stream().auto_synchronize() as stream:
        increment_a_2D_array[(1, 1), (2, 3), stream](e)
    cuda.synchronize()
    assert e.copy_to_host()[0, 0] == 2
    assert cuda.device_array((3, 4), order="F").strides == (8, 24)
    assert cuda.device_array_like(cuda.device_array((10, 12), order="F")[::2, ::2]).strides == (8, 40)
    rows = cuda.device_array((3, 2), np.float32, strides=(16, 4))
    rows.copy_to_device(np.arange(6, dtype=np.float32).reshape(3, 2))
    assert rows.strides == (16, 4) and rows.copy_to_host().tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda x: cuda.shared.array(4, float32), "device code cannot call shared_array"),
        (lambda x: cuda.threadIdx.x, r"threadIdx\.x can only be used in kernels of numba_compat"),
    ],
)
def test_what_only_kernels_of_numba_have(use, message):
    with pytest.raises(device.CompileError, match=message):
        device.compile(device.func(use), device.ArrayType(float32, 1), output="ir")


def test_arrays_and_positions_can_be_copied_and_pickled():
    d = cuda.to_device([0.1, 0.2])
    for other in (copy.copy(d), copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert isinstance(other, cuda.DeviceNDArray) and other.copy_to_host().tolist() == [0.1, 0.2]
    for position in (cuda.threadIdx, cuda.blockIdx, cuda.blockDim, cuda.gridDim):
        assert pickle.loads(pickle.dumps(position)) is position


def test_arrays_that_do_not_fit_are_refused():
    d = cuda.to_device(np.arange(3.0))
    with pytest.raises(ValueError, match=r"shape \(3,\) does not fit one of shape \(2, 3\)"):
        d.copy_to_host(np.zeros((2, 3)))
    with pytest.raises(TypeError, match="incompatible dtype: float64 vs. float32"):
        d.copy_to_host(np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="shape"):
        d.copy_to_device(np.zeros(5))
    with pytest.raises(ValueError, match="copy"):
        cuda.to_device(np.zeros((3, 4))).T.reshape(12)
    with pytest.raises(ValueError, match="order='Q' is no order"):
        cuda.device_array(3, order="Q")
    with pytest.raises(ValueError, match="strides"):
        cuda.device_array(3, strides=(-8,))


def test_streams_and_events():
    x, seen = np.arange(4.0), []
    with cuda.pinned(x):
        start, end = cuda.event(), cuda.event(timing=True)
        start.record()
        add_to[1, 4, cuda.default_stream()](x, np.ones(1))
        end.record(cuda.stream())
        end.wait()
        end.synchronize()
        assert end.query() and 0 <= cuda.event_elapsed_time(start, end) < 60_000
    cuda.stream().add_callback(lambda stream, status, arg: seen.append((status, arg)), "done")
    assert seen == [(0, "done")] and x.tolist() == [1, 2, 3, 4]
    with cuda.mapped(x) as d:
        add_to[1, 4](d, np.ones(1))
    assert x.tolist() == [2, 3, 4, 5]
    for make in (cuda.pinned_array, cuda.mapped_array, cuda.managed_array):
        plane = make((2, 3), order="F")
        plane[:] = 0
        increment_a_2D_array[(1, 1), (2, 3)](plane)
        assert plane.flags["F_CONTIGUOUS"] and (plane == 1).all()


# What jit takes


def test_signatures_choose_and_check(stream):
    @cuda.jit(["void(float32[:], int32)", "(float64[:, ::1], f8)"])
    def kernel(x, step):
        if x.ndim == 2:
            x[0, 0] += step
        else:
            x[0] += step

    narrow, plane = np.ones(1, np.float32), np.ones((1, 1))
    kernel[1, 1, stream.stream](narrow, 2.9)
    kernel[1, 1, stream.stream](plane, 0.5)
    assert narrow[0] == 3 and plane[0, 0] == 1.5
    with pytest.raises(
        TypeError, match=r"(?s)No matching definition for argument type\(s\) float64\[:\], int: .*astype"
    ) as refused:
        kernel[1, 1, stream.stream](np.ones(1), 2)
    assert "(float32[:], int32) or (float64[:, :], float64)" in str(refused.value)
    cuda.jit((cuda.float32, "i8[:]"))(lambda a, b: None)[1, 1, stream.stream](1, np.ones(1, np.int64))
    cuda.jit("none(UniTuple(int64, 2))")(lambda a: None)[1, 1, stream.stream]((1, 2))


def test_types_in_signatures_may_be_objects(stream):
    @cuda.jit(
        ("float64[:]", cuda.int32, SimpleNamespace(dtype="float64", count=2))
    )  # numba's UniTuple has such members
    def kernel(x, number, pair):
        x[0], x[1] = number, pair[1]

    x = np.zeros(2)
    kernel[1, 1, stream.stream](x, 2.9, (1, 0.5))
    assert x.tolist() == [2, 0.5]


@pytest.mark.parametrize(
    "given, reason",
    [
        (5, ""),
        ("void(float31[:])", ": float31 is not a type of numba"),
        ("void(str)", ": str is not a type of numba"),
        ("float32[1]", ": an axis is written as a colon"),
        ("float32[1:]", ": an axis is written as a colon"),
        ("void(", r": '\(' was never closed"),
        (["f4", 7], ""),
    ],
)
def test_what_is_no_signature_is_refused(given, reason):
    with pytest.raises(TypeError, match=rf"is not a signature of a kernel{reason}\n  help: write "):
        cuda.jit(given)


def test_what_jit_does_not_take_is_refused():
    with pytest.raises(TypeError, match="no option 'fastmaths': there are boundscheck, .*fastmath"):
        cuda.jit(fastmaths=True)
    with pytest.raises(FileNotFoundError, match=r"no file 'nope.cu'"):
        cuda.jit(link=["nope.cu"])(lambda x: None)


# Functions of arrays


def test_functions_of_numbers_become_functions_of_arrays(stream):
    @cuda.vectorize(["int32(int32, int32)", "float64(float64, float64)"])
    def scaled(x, y):
        return x * y + 1

    x, y = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 3.0])
    assert np.array_equal(scaled(x, y, stream=stream.stream), x * y + 1)
    small = scaled(np.int32([1, 2]), np.int32(3), stream=stream.stream)
    assert small.dtype == np.int32 and small.tolist() == [4, 7]
    on_device = scaled(cuda.to_device(x, stream.stream), y, stream=stream.stream)
    assert isinstance(on_device, type(cuda.to_device(x))) and np.array_equal(on_device.copy_to_host(), x * y + 1)
    out = np.zeros((2, 3))
    assert scaled(x, y, out=out, stream=stream.stream) is out and np.array_equal(out, x * y + 1)
    with pytest.raises(TypeError, match="scaled has no signature for complex128, float64"):
        scaled(x * 1j, y)


@pytest.mark.parametrize("size", [0, 1, 5, 127, 128, 129, 1000, 128 * 128 + 77])
def test_reductions(stream, size):
    add, most = cuda.reduce(lambda a, b: a + b), cuda.reduce(lambda a, b: max(a, b))
    x = np.random.default_rng(size).integers(-1000, 1000, size)
    d = cuda.to_device(x, stream.stream)
    assert add(d, init=7, stream=stream.stream) == x.sum() + 7
    if size:
        assert most(x.astype(np.float32), init=-5000, stream=stream.stream) == x.max()
        result = cuda.to_device(np.zeros(1, np.int64), stream.stream)
        assert add(d, size=size - 1, res=result, stream=stream.stream) is None
        assert result.copy_to_host()[0] == x[:-1].sum()


@gives(list(range(1, 11)), np.zeros(10), np.arange(10.0), size=(1, 10))
def cache_hints_and_arrays_like_others(out, x):
    i = cuda.grid(1)
    table = cuda.shared.array_like(CONST1D)
    table[i] = cuda.ldcs(x, i)
    cuda.stcg(out, i, table[i] + 1)


def test_random_is_a_module():
    assert cuda.random is numba_random and numba_random.xoroshiro128p_type == numba_random.xoroshiro128p_dtype


def test_functions_of_numpy_take_arrays(stream):
    @cuda.jit
    def kernel(x, y, out, less, vector):
        np.arctan2(x, y, out)
        np.sin(out, out)
        np.less(x, 1, less)
        first = cuda.float32x2(x[0, 0], x[0, 1])
        both = cuda.float32x4(first, cuda.float32x1(7), 8)
        for i in range(4):
            vector[i] = both[i]

    x, y = np.random.default_rng(5).random((2, 3, 4)) * 2
    out, less, vector = np.zeros((3, 4)), np.zeros((3, 4), np.bool_), np.zeros(4, np.float32)
    kernel[1, 1, stream.stream](x, y, out, less, vector)
    assert out == pytest.approx(np.sin(np.arctan2(x, y)), rel=1e-14)
    assert np.array_equal(less, x < 1) and vector.tolist() == [*np.float32(x[0, :2]), 7, 8]


@cuda.jit
def a_length_of_a_shape_may_be_open_at_run_time(out, x, shape):
    y = x.reshape(shape)
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            out[i, j] = y[i, j] + 1


for shape in ((-1, 4), (3, -1), (3, 4)):
    gives(np.arange(1.0, 13).reshape(3, 4).tolist(), np.zeros((3, 4)), np.arange(12.0), shape)(
        a_length_of_a_shape_may_be_open_at_run_time
    )


@cuda.jit
def adds_to_a_number(x):
    cuda.atomic.add(x[0], 0, 1)


@cuda.jit
def asks_for_four_axes(x):
    x[cuda.grid(4)] = 1


@cuda.jit
def shares_too_much(x):
    cuda.shared.array(x.size, float32)


@cuda.jit
def shares_nothing(x):
    cuda.shared.array(3)


@pytest.mark.parametrize(
    ("kernel", "line", "text"),
    [
        (shares_nothing, "cuda.shared.array(3)", "write cuda.shared.array(shape, dtype, "),
        (adds_to_a_number, "cuda.atomic.add(x[0], 0, 1)", "write cuda.atomic.add(x, i, v)"),
        (asks_for_four_axes, "x[cuda.grid(4)] = 1", "write cuda.grid(1) for one integer"),
        (
            shares_too_much,
            "cuda.shared.array(x.size, float32)",
            "cuda.shared.array(0, T) has the size that the launch gives",
        ),
    ],
)
def test_errors_show_the_line_of_the_kernel_in_the_words_of_numba(kernel, line, text):
    with pytest.raises(device.CompileError) as error:
        kernel[1, 1](np.zeros(3))
    assert error.value.location.file == __file__ and line in str(error.value) and text in error.value.help
    assert "numba_compat.py" not in str(error.value).replace(__file__, "")


def test_other_functions_of_libdevice_are_declared_by_their_names():
    @cuda.jit
    def kernel(x):
        x[0] = cuda.libdevice.normcdff(x[1]) + cuda.libdevice.fma_rd(x[0], 2, x[1]) + cuda.libdevice.umulhi(7, 3)

    text = str(compile(kernel.kernel, ArrayType(float64, 1), output="ptx", target="sm_80"))
    assert "fma.rm.f64" in text and "mul.hi.u32" in text and "call" not in text
    with pytest.raises(device.CompileError, match="normcdff is a function of CUDA C") as error:
        kernel[1, 1, cpu_stream()](np.zeros(2))
    assert error.value.location.file == __file__
    with pytest.raises(AttributeError, match="no function 'sinn' of numbers"):
        cuda.libdevice.sinn  # noqa: B018


@gives([True] * 4, np.zeros(4, np.bool_), np.ones(1, np.float32), np.ones(1, np.int32))
def complex_numbers_have_the_type_of_their_parts(out, x, n):
    out[0] = complex(x[0]).dtype == "complex64"
    out[1] = complex(n[0]).dtype == "complex128"
    out[2] = complex(x[0], x[0]).dtype == "complex64"
    out[3] = complex(*(x[0], 1)).dtype == "complex128"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kernel.__name__)
def test_kernels_give_the_results_of_numba(stream, case):
    arguments = copy.deepcopy(case.arguments)
    grid, block, _, *shared = (*case.size, None)[: max(3, len(case.size))]
    case.kernel[grid, block, stream.stream, *shared](*arguments)
    for found, expected in zip(arguments, case.expected, strict=False):
        assert found.tolist() == expected
