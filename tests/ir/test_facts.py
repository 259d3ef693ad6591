"""What launches check of arrays (small, disjoint), what the compiler makes of it, and that nothing depends on it."""

import itertools
import re

import numpy as np
import pytest
from conftest import thinned

import cuda_device as device
from cuda_device.runtime.arrays.array_interface import view_of
from cuda_device.runtime.launch import launcher


def views(*arrays):
    return [view_of(array, None) for array in arrays]


SMALL = 2**30 - 2**16

# What is checked


def big(*shape):
    """An array of any size in four bytes."""
    return np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), shape, (0,) * len(shape))


@pytest.mark.parametrize(
    "shape, small",
    [
        ((), True), ((0,), True), ((5, 7), True), ((SMALL,), True), ((SMALL + 1,), False), ((2**31,), False),
        ((2**16, 2**14), False), ((2**16, 2**14 - 1), True), ((0, SMALL), True), ((0, SMALL + 1), False),
        ((2**40, 1, 0), False),
    ],
)  # fmt: skip
def test_small(shape, small):
    assert launcher.small(views(np.zeros(3), big(*shape))) is small
    assert launcher.small([])


X = np.zeros((10, 10), np.float32)


@pytest.mark.parametrize(
    "a, b, apart",
    [
        (X, np.zeros(5), True), (X, X, False), (X[:5], X[5:], True), (X[:6], X[5:], False), (X[0], X[1], True),
        (X[::2], X[1::2], False), (X[:, ::-1], X[9], False), (X[5:0:-1], X[6:], True), (X[5:0:-1], X[0], True),
        (X[5:0:-1], X[1], False), (X[:0], X, True), (X, X[3:3], True), (X[:5], X.view(np.uint8)[5:], True),
        (X[:5], X.view(np.uint8)[4:], False),
    ],
)  # fmt: skip
def test_disjoint(a, b, apart):
    """Strided arrays that interleave count as overlapping."""
    assert launcher.disjoint(views(a, b), {0}) is apart
    assert launcher.disjoint(views(b, a), {0}) is apart
    assert launcher.disjoint(views(a, b), {1}) is apart
    assert launcher.disjoint(views(a, b), {0, 1}) is apart
    assert launcher.disjoint(views(a, b), set())
    assert launcher.disjoint(views(a), {0})


def put(array, i, value):
    array[i] = value


def test_what_a_kernel_writes():
    @device.kernel
    def direct(a, b, c):
        b[0] = a[0] + c[0]

    @device.kernel
    def by_views(a, b, c):
        c[::2].T[0] = a[1:][0]

    @device.kernel
    def by_calls(a, b, c):
        put(a, 0, b[0])

    @device.kernel
    def by_atomics(a, b, c):
        device.atomic_ref(c, 0).add(a[0])

    @device.kernel
    def by_choice(a, b, c):
        chosen = a if b[0] > 0 else c
        chosen[0] = 1

    @device.kernel
    def nothing(a, b, c):
        tile = device.shared_array(4, device.float32)
        tile[0] = a[0]

    def fill(array, n):
        if n > 0:
            array[n] = n
            fill(array, n - 1)

    @device.kernel
    def by_recursion(a, b, c):
        fill(b, 3)

    expected = {
        direct: {1}, by_views: {2}, by_calls: {0}, by_atomics: {2}, by_choice: {0, 2}, nothing: set(), by_recursion: {1},
    }  # fmt: skip
    for kernel, numbers in expected.items():
        arrays = [np.zeros(4, np.float32) for _ in range(3)]
        device.launch(kernel, *arrays, grid=1, block=1, stream=device.cpu_stream())
        assert next(iter(kernel.variants.values())).work.outline.written == numbers, kernel


def take(array, i):
    return array[i]


def put_and_take(array, i, value):
    array[i] = value
    return array[i]


@device.kernel
def by_functions(a, b, out):
    i = device.tid(1)
    out[i] = take(a, i) + take(b, i)


@device.kernel
def one_function_for_both(a, b, out):
    i = device.tid(1)
    out[i] = take(a, i)
    out[i] = put_and_take(b, i, take(out, i)) + take(a, i) + take(b, i)


def test_functions_know_whose_arrays_they_get():
    """What nobody writes is read through the constant cache; not so where a call brings what is written."""
    arrays = (device.ArrayType(device.float32, 1),) * 3
    for kernel, loads in ((by_functions, 2), (one_function_for_both, 0)):
        ptx = str(device.compile(kernel, *arrays, output="ptx", launch_facts=True))
        assert ptx.count("ld.global.nc") == loads, ptx
        plain = str(device.compile(kernel, *arrays, output="ptx"))
        assert "ld.global.nc" not in plain


def test_functions_that_read_what_another_writes(stream):
    a, b, out = np.arange(5, dtype=np.float32), np.full(5, 7, np.float32), np.full(5, np.nan, np.float32)
    arrays = [stream.array(x) for x in (a, b, out)]
    stream.launch(one_function_for_both, *arrays, grid=1, block=5)
    assert stream.numpy(arrays[2]).tolist() == (3 * a).tolist()
    assert stream.numpy(arrays[1]).tolist() == a.tolist()


# Variants


@device.kernel
def shift(x, y):
    i = device.tid(1)
    if i + 1 < len(x):
        y[i] = x[i + 1]


def test_there_are_two_variants_of_a_signature():
    stream = device.cpu_stream()
    shift.variants.clear()
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    for _ in range(3):
        device.launch(shift, x, y, grid=1, block=8, stream=stream)
        device.launch(shift, x[:4], y, grid=1, block=8, stream=stream)
    assert y.tolist() == [1, 2, 3, 4, 5, 6, 7, 0]
    assert len(shift.variants) == 1
    device.launch(shift, x, x, grid=1, block=1, stream=stream)
    device.launch(shift, x[1:], x[:-1], grid=1, block=1, stream=stream)
    assert len(shift.variants) == 2
    assert [v.work.job.options.launch_facts for v in shift.variants.values()] == [True, False]


def test_arrays_that_are_only_read_may_overlap():
    @device.kernel
    def kernel(a, b, out):
        out[0] = a[0] + b[0]

    x, out = np.ones(4), np.zeros(1)
    device.launch(kernel, x, x[1:], out, grid=1, block=1, stream=device.cpu_stream())
    assert [v.work.job.options.launch_facts for v in kernel.variants.values()] == [True]
    assert out[0] == 2


def test_overlapping_arrays(stream):
    """Through overlapping arrays a store is seen by the loads after it."""

    @device.kernel
    def kernel(x, y, out):
        first = x[0]
        y[0] = first + 1
        second = x[0]
        y[0] = second + 1
        out[0], out[1], out[2] = first, second, x[0]

    out = stream.empty(3)
    x = stream.array(np.array([5, 6], np.float32))
    stream.launch(kernel, x, x, out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [5, 6, 7]
    stream.launch(kernel, x, stream.array(np.zeros(2, np.float32)), out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [7, 7, 7]


def test_errors_do_not_mention_facts():
    @device.kernel
    def kernel(x):
        return x.nothing

    with pytest.raises(device.CompileError) as raised:
        device.launch(kernel, np.zeros(3), grid=1, block=1, stream=device.cpu_stream())
    assert "small" not in str(raised.value)


def test_arrays_of_more_than_32_bits():
    """A read-only array that repeats one element may have any length."""

    @device.kernel
    def kernel(x, out):
        out[0], out[1] = len(x), x[len(x) - 1]
        n = 0
        for _ in range(len(x) - 3, len(x), 2):
            n += 1
        out[2], out[3] = n, x[-1]

    one = np.full(1, 7, np.int64)
    for length in (2**31 - 1, 2**31, 2**33 + 5):
        x, out = np.lib.stride_tricks.as_strided(one, (length,), (0,)), np.zeros(4, np.int64)
        device.launch(kernel, x, out, grid=1, block=1, stream=device.cpu_stream())
        assert out.tolist() == [length, 7, 2, 7]


def test_compile_counts_on_facts_only_if_it_is_told():
    arguments = device.ArrayType(device.float32, 1), device.ArrayType(device.float32, 1)
    plain = str(device.compile(shift, *arguments, output="ptx"))
    fast = str(device.compile(shift, *arguments, output="ptx", launch_facts=True))
    assert re.findall(r"\.param \.(\w+) (?:\.ptr [^s]*)?shift_param_\d", plain).count("u64") >= 2
    assert fast.count(".b32 shift_param") + fast.count(".u32 shift_param") == 2


# Indices and ranges: the same with and without the facts

INDICES = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


@device.kernel
def look_up(x, i, j, out, alias):
    for k in range(len(i)):
        out[k] = x[i[k], j[k]]
        out[k + len(i)] = x[i[k]][j[k]]
        out[k + 2 * len(i)] = x.T[j[k], i[k]]
        out[k + 3 * len(i)] = x[::2, 1:][i[k] // 2, j[k] % 4]
    for k in range(-len(i), 0):
        out[4 * len(i) - 1 - k] = alias[k + len(i)]


@pytest.mark.parametrize(("dtype", "aliased", "order"), thinned(INDICES, [False, True], ["C", "F"], one_in=3))
def test_indices(stream, dtype, aliased, order):
    x = np.asarray(np.arange(35, dtype=np.int32).reshape(7, 5), order=order)
    signed = np.dtype(dtype).kind == "i"
    i, j = (
        np.array(a, dtype)
        for a in zip(*itertools.product(range(-7 if signed else 0, 7), range(-5 if signed else 0, 5)), strict=True)
    )
    n = len(i)
    out = stream.empty(5 * n + n, np.int32)
    alias = out if aliased else stream.array(np.zeros(n, np.int32))
    stream.launch(look_up, stream.array(x), stream.array(i), stream.array(j), out, alias, grid=1, block=1)
    result = stream.numpy(out)[: 4 * n].reshape(4, n)
    a, b = i.astype(int), j.astype(int)
    expected = [x[a, b], x[a, b], x[a, b], x[::2, 1:][a // 2, b % 4]]
    assert np.array_equal(result, expected)


@device.kernel
def count_over(x, start, stop, step, out, alias):
    """Ranges of numbers, and of indices that are made of lengths."""
    n, total = 0, 0
    for i in range(start, stop, step):
        n += 1
        total ^= i
        if n > 40:
            break
    out[0], out[1] = n, total
    n, total = 0, 0
    for i in range(min(start, len(x)), len(x) - 3, step):
        n += 1
        total ^= i
        if n > 40:
            break
    out[2], out[3] = n, total
    n, total = 0, 0
    for i in range(abs(start) // 2, min(stop, len(x)), abs(step)):
        n += 1
        total ^= i
        if n > 40:
            break
    out[4], out[5] = n, total


def first_of(numbers):
    some = list(itertools.islice(numbers, 41))
    total = 0
    for i in some:
        total ^= i
    return [len(some), total]


MOST = 2**31 - 1


@pytest.mark.parametrize("aliased", [False, True])
@pytest.mark.parametrize("dtype", [int, np.int32, np.int64])
def test_ranges(stream, dtype, aliased):
    x = stream.array(np.zeros(37, np.float32))
    out = stream.empty(6, np.int64)
    alias = out if aliased else stream.array(np.zeros(1, np.int64))
    for start, stop, step in itertools.product(
        (-MOST, -5, 0, 3, MOST - 2), (-7, -1, 0, 4, 30, MOST), (1, 2, 7, 1000, MOST, -1, -3, -MOST)
    ):
        stream.launch(count_over, x, dtype(start), dtype(stop), dtype(step), out, alias, grid=1, block=1)
        expected = first_of(range(start, stop, step))
        expected += first_of(range(min(start, 37), 34, step))
        expected += first_of(range(abs(start) // 2, min(stop, 37), abs(step)))
        assert stream.numpy(out).tolist() == expected, (start, stop, step)


@pytest.mark.parametrize("step", [1, 2, 5, MOST, -1, -2])
def test_ranges_of_constant_step(stream, step):
    @device.kernel
    def kernel(x, out):
        n, total = 0, 0
        for i in range(device.tid(1) + 2, len(x), step):
            n += 1
            total ^= i
        for i in range(len(x), int(device.thread_idx.x), step):
            n += 1
            total ^= i
        out[0], out[1] = n, total

    for length in (0, 1, 2, 3, 10):
        out = stream.empty(2, np.int32)
        stream.launch(kernel, stream.array(np.zeros(length)), out, grid=1, block=1)
        numbers = [*range(2, length, step), *range(length, 0, step)]
        assert stream.numpy(out).tolist() == first_of(numbers)


# What the compiler makes of it


def ptx(kernel, *arguments):
    return str(device.compile(kernel, *arguments, output="ptx", launch_facts=True))


def test_places_in_small_arrays_are_computed_in_32_bits():
    @device.kernel
    def kernel(x, y):
        j, i = device.tid(2)
        if i < x.shape[0] and j < x.shape[1]:
            y[i, j] = x[i, j] * 2

    text = ptx(kernel, *[device.ArrayType(device.float32, 2)] * 2)
    assert not re.search(r"(mul|mad)\.lo\.s64|setp\.\w+\.[su]64", text), text


def test_a_bound_that_grows_in_a_loop_is_seen(stream):
    """Nothing else that is known of the index changes from one pass to the next, and at last it needs more than 32 bits."""

    @device.kernel
    def grow(x, y, n):
        i = len(x) & 7
        k = 0
        while k < n:
            i += 1 << 30
            k += 1
        y[0] = i

    x, y = stream.array(np.zeros(5)), stream.array(np.zeros(1, np.int64))
    for n in (0, 1, 9):
        stream.launch(grow, x, y, n, grid=1, block=1)
        assert stream.numpy(y)[0] == 5 + n * 2**30


def test_a_stride_loop_over_a_small_array_counts_in_32_bits():
    @device.kernel
    def kernel(x, y):
        for i in range(device.tid(1), len(x), device.grid_size(1)):
            y[i] = x[i] * 2

    text = ptx(kernel, *[device.ArrayType(device.float32, 1)] * 2)
    assert not re.search(r"setp\.\w+\.[su]64|add\.s64 \t%rd\d+, %rd\d+, [^;]*;.*setp", text), text
    assert "sub" not in text


ARRAY = device.ArrayType(device.float32, 1)


def loads(text):
    return re.findall(r"ld\.global(\S*) ", text)


def test_memory_that_others_may_write_is_not_read_through_the_constant_cache():
    """With atomics and fences a kernel may wait for what another one writes."""

    @device.kernel
    def waits(x, y):
        while device.atomic_ref(y, 0).load(memory="acquire") == 0:
            pass
        y[1] = x[0]

    @device.kernel
    def fences(x, y):
        y[1] = x[0]
        device.threadfence()
        y[2] = x[0]

    for kernel in (waits, fences):
        text = ptx(kernel, ARRAY, ARRAY)
        assert "ld." in text
        assert ".nc" not in text


def test_a_store_to_another_array_is_no_reason_to_load_again():
    @device.kernel
    def kernel(x, y, z):
        y[0] = x[0] + z[0]
        y[1] = x[0] - z[0]
        z[1] = 0

    text = ptx(kernel, ARRAY, ARRAY, ARRAY).replace("\t", " ")
    assert len(loads(text)) == 2, text
    plain = str(device.compile(kernel, ARRAY, ARRAY, ARRAY, output="ptx")).replace("\t", " ")
    assert len(loads(plain)) == 4


def test_barriers_order_accesses_to_one_array(stream):
    """Scopes say nothing of accesses to the same array, before and after a barrier."""

    @device.kernel
    def kernel(x, y, out):
        i = int(device.thread_idx.x)
        n = int(device.block_dim.x)
        before = x[(i + 1) % n]
        device.syncthreads()
        x[i] = y[i] * 10
        device.syncthreads()
        out[i] = x[(i + 1) % n] + before

    n = 96
    x, y = stream.array(np.arange(n, dtype=np.float32)), stream.array(np.arange(n, dtype=np.float32) + 5)
    out = stream.empty(n)
    stream.launch(kernel, x, y, out, grid=1, block=n)
    following = (np.arange(n) + 1) % n
    assert stream.numpy(out).tolist() == ((following + 5) * 10 + following).tolist()


@device.kernel
def sums_of_lengths(x, y, out, alias):
    """Lengths and places, added, subtracted, divided and compared; `alias` decides which variant runs."""
    n, m, t, one = len(x), len(y), int(device.thread_idx.x), device.thread_idx.x + 1
    out[0], out[1], out[2], out[3] = n + m, n - m, m - n, n + t
    out[4], out[5], out[6], out[7] = n // (m + 1), n % (m + 1), (n - 1) // 2, (m - n) // 2
    out[8], out[9], out[10], out[11] = n - 1 < m, n - m < -1, n + 1 == m, m - n > t - 1
    out[12], out[13] = one - 2 > 5, -n
    out[14], out[15] = n + n + n, (n - m) % 3
    out[16], out[17] = min(n, m) - 5, max(n, m) + 5 * n


@pytest.mark.parametrize("aliased", [False, True])
def test_sums_of_lengths(stream, aliased):
    for n, m in ((0, 0), (1, 0), (0, 1), (5, 3), (3, 5), (2**31 - 1, 7), (2**31 - 1, 2**31 - 1), (7, 2**31 - 1)):
        if stream.kind == "gpu" and max(n, m) > 10:
            continue
        out = stream.empty(18, np.int64)
        alias = out if aliased else stream.array(np.zeros(1, np.int64))
        x, y = (big(k) if k > 10 else stream.array(np.zeros(k, np.float32)) for k in (n, m))
        stream.launch(sums_of_lengths, x, y, out, alias, grid=1, block=1)
        expected = [
            n + m, n - m, m - n, n, n // (m + 1), n % (m + 1), (n - 1) // 2, (m - n) // 2, n - 1 < m, n - m < -1,
            n + 1 == m, m - n > -1, True, -n, 3 * n, (n - m) % 3, min(n, m) - 5, max(n, m) + 5 * n,
        ]  # fmt: skip
        assert stream.numpy(out).tolist() == expected, (n, m)


# Where memory begins


@device.kernel
def pairs(x, c, out):
    total = c[0] + c[1] * 10
    for k in range(len(x) // 4):
        total += x[4 * k] + x[4 * k + 1] * 100
    out[device.tid(1)] = total


class Behind:
    """An array of a GPU, without the first numbers."""

    def __init__(self, array, count):
        self.memory = array
        interface = array.__cuda_array_interface__
        place, length = interface["data"][0] + 4 * count, interface["shape"][0] - count
        self.__cuda_array_interface__ = interface | {"data": (place, False), "shape": (length,), "strides": None}


def test_arrays_that_begin_anywhere(stream):
    """In turn, often enough for launches by machine code."""
    x, c = np.arange(37, dtype=np.float32), np.array([0, 3, 5, 7, 9], np.float32)
    on_device = stream.array(x), stream.array(c)
    pairs.variants.clear()
    for i, j in [*itertools.product(range(5), range(3))] * 20:
        if stream.kind == "cpu":
            given = on_device[0][i:], on_device[1][j:]
        else:
            given = Behind(on_device[0], i), Behind(on_device[1], j)
        out = stream.empty(1, np.float32)
        stream.launch(pairs, *given, out, grid=1, block=1)
        part, rest = x[i:], len(x[i:]) // 4 * 4
        assert stream.numpy(out)[0] == c[j] + 10 * c[j + 1] + (part[:rest:4] + 100 * part[1:rest:4]).sum()
    assert len(pairs.variants) == 1
