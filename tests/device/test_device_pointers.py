"""Pointers of C++: as parameters, members, arguments of C++ functions; what can be done with them, and what is refused."""

import cuda_cpp
import numpy as np
import pytest
from conftest import LAUNCHES
from fake_driver import CONTEXT, installed
from ir_helpers import define

import cuda_device as device

CPU = device.cpu_stream()
FLOATS = device.pointer(device.float32)
CONST_FLOATS = device.pointer(device.float32, readonly=True)
INTS = device.pointer(device.int32)
VOID = device.pointer()


@device.struct
class buffer:  # noqa: N801 (a name in C++)
    size: device.int32
    data: FLOATS
    table: device.pointer(device.pointer(device.int32), readonly=True)


@device.struct
class pair:  # noqa: N801 (a name in C++)
    a: device.float32
    b: device.int16


def run(kernel, *args, threads=1, stream=CPU, **kwargs):
    device.launch(kernel, *args, grid=1, block=threads, stream=stream, **kwargs)


def ptx(f, *types, **options):
    return device.compile(f, *types, output="ptx", **options).code


# What a kernel does with them


@device.kernel
def axpy(a: device.float32, x: CONST_FLOATS, y: FLOATS, n: device.int32):
    i = device.tid(1)
    if i < n:
        y[i] += a * x[i]


@pytest.mark.parametrize("how", [lambda x: x, lambda x: x.ctypes.data, lambda x: np.uint64(x.ctypes.data)])
def test_a_launch_takes_arrays_and_addresses(how):
    x, y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    run(axpy, 2, how(x), how(y), 8, threads=8)
    assert y.tolist() == [1, 3, 5, 7, 9, 11, 13, 15]


def test_a_read_only_array_is_taken_where_the_pointer_is_to_const():
    x, y = np.ones(2, np.float32), np.zeros(2, np.float32)
    x.flags.writeable = False
    run(axpy, 2, x, y, 2, threads=2)
    assert y.tolist() == [2, 2]


def test_arithmetic_comparisons_and_addresses():
    @device.kernel
    def k(p: INTS, null: VOID, out):
        last = p + 7
        out[0] = last[0]
        out[1] = (last - 2)[-1]
        out[2] = last - p
        out[3] = p - last
        out[4] = last.address - p.address
        out[5] = 1 if null else 2
        out[6] = 1 if p else 2
        out[7] = int(p < last) + 2 * int(p == p + 0) + 4 * int(last != p) + 8 * int(null == None)  # noqa: E711
        out[8] = (1 + p)[0]
        p += 3
        out[9] = p[device.uint8(1)]

    out = np.zeros(10, np.int64)
    run(k, np.arange(10, 18, dtype=np.int32), 0, out)
    assert out.tolist() == [17, 14, 7, -7, 28, 2, 1, 15, 11, 14]


@device.kernel
def read_behind(p: FLOATS, n: device.int32, out):
    out[0] = (p + n)[1]


@device.kernel
def write_at(p: FLOATS, n: device.int32, out):
    p[n] = 1


@device.kernel
def read_array(p: FLOATS, n: device.int32, out):
    out[0] = p.array((n, 2)).shape[0]


@device.kernel
def add_at(p: INTS, n: device.int32, out):
    device.atomic_ref(p, n).add(1)


@device.kernel
def read_member(p: device.pointer(buffer), n: device.int32, out):
    out[0] = p[0].data[n]


@pytest.mark.parametrize("kernel", [read_behind, write_at, read_array, add_at, read_member])
def test_checked_kernels_report_null_pointers(kernel):
    out = np.zeros(1, np.float32)
    with pytest.raises(device.KernelError, match="the pointer 0x[0-9a-f]+ is null") as caught:
        run(kernel, 0, 7, out)
    assert caught.value.location.file == __file__ and "help: pass the address of an array" in str(caught.value)
    run(read_array, 0, 0, out)  # no elements
    run(read_behind, np.arange(9, dtype=np.float32), 7, out)
    assert out[0] == 8


def test_far_elements_are_found_beyond_32_bits():
    @device.kernel
    def k(p: INTS, n: device.int32, out):
        out[0] = (p + n + n).address - p.address

    out = np.zeros(1, np.int64)
    run(k, 4096, 2**31 - 1, out)
    assert out[0] == 8 * (2**31 - 1)


def test_casts_and_void():
    @device.kernel
    def k(p: VOID, out):
        out[0] = p.cast(device.float32)[1]
        out[1] = p.cast(device.uint8)[3]
        p.cast(device.int32).cast(None).cast(device.uint16)[4] = 513

    x, out = np.array([1, 2, 3], np.float32), np.zeros(2)
    run(k, x, out)
    assert out.tolist() == [2, 0x3F]
    assert x.view(np.uint16)[4] == 513


@pytest.mark.parametrize("checked", [False, True])
def test_arrays_at_pointers(checked):
    @device.kernel(checked=checked)
    def k(p: FLOATS, rows: device.int64, out):
        x = p.array((rows, 3))
        t = p.array((3, rows), strides=(4, 12))
        row = p.array(3)
        out[0], out[1], out[2], out[3] = x[1, 2], t[2, 1], row[-1], len(x[:, 1:])
        x[0] = 7

    x, out = np.arange(6, dtype=np.float32), np.zeros(4, np.float32)
    run(k, x, 2, out)
    assert out.tolist() == [5, 5, 2, 2]
    assert x.tolist() == [7, 7, 7, 3, 4, 5]


@pytest.mark.parametrize("order", ["C", "F"])
def test_pointers_from_arrays(order):
    @device.func
    def double(p, n):
        for i in range(n):
            p[i] *= 2

    @device.kernel
    def k(x, out):
        out[0] = x.pointer(1, -1)[0]
        out[1] = x.pointer()[1]
        own = device.local_array(4, device.float32)
        own[2] = 21
        double(own.pointer(2), 1)
        out[2] = own[2]
        several = device.shared_array(2, device.float32)
        several[1] = 4
        double(several.pointer(1), 1)
        out[3] = several[1]

    x, out = np.arange(6, dtype=np.float32).reshape(2, 3).copy(order), np.zeros(4, np.float32)
    run(k, x, out)
    assert out.tolist() == [5, 1 if order == "C" else 3, 42, 8]


def test_a_pointer_into_shared_memory_is_one_of_generic_memory():
    @device.func(interop=True)
    def clear(p):
        p[0] = 0

    @device.extern
    def use(p: FLOATS) -> None:
        p[0] = 0

    @device.kernel
    def k():
        use(device.shared_array(8, device.float32).pointer(device.tid(1)))

    assert "cvta.shared" in ptx(k)
    run(k)
    assert "st.b32" in ptx(clear, FLOATS)


def test_structs_vectors_and_pointers_at_pointers():
    @device.kernel
    def k(p: device.pointer(pair), v: device.pointer(device.float32x4), table: device.pointer(INTS), out):
        p[1] = pair(p[0].a + 1, device.int16(5))
        p[0].b = device.int16(9)
        v[0] = v[1] * 2
        table[1][2] = 6
        table[0] = table[1]
        out[0] = table[0][2]

    p = np.zeros(2, device.numpy_dtype(pair))
    p["a"][0] = 3
    v = np.arange(8, dtype=np.float32).view(device.numpy_dtype(device.float32x4))
    rows, out = np.zeros((2, 3), np.int32), np.zeros(1, np.int32)
    table = np.array([row.ctypes.data for row in rows], np.uint64)
    run(k, p, v, table.ctypes.data, out)
    assert p.tolist() == [(3.0, 9), (4.0, 5)]
    assert v.view(np.float32).tolist() == [8, 10, 12, 14, 4, 5, 6, 7]
    assert (rows[1, 2], out[0], table[0]) == (6, 6, table[1])


def test_atomics():
    @device.kernel
    def k(p: INTS):
        device.atomic_ref(p, 1).add(2)
        device.atomic_ref(p + 2, -2).max(device.tid(1))

    x = np.zeros(3, np.int32)
    run(k, x, threads=8)
    assert x.tolist() == [7, 16, 0]
    assert "atom" in ptx(k)


def test_loops_and_branches_carry_them():
    @device.kernel
    def k(p: INTS, q: INTS, n: device.int32, out):
        end = p + n
        total = 0
        while p != end:
            total += p[0]
            p += 1
        out[0] = total
        which = q if n > 3 else p
        out[1] = which[0]

    out = np.zeros(2, np.int32)
    run(k, np.arange(5, dtype=np.int32), np.array([77], np.int32), 5, out)
    assert out.tolist() == [10, 77]


# Members of structs


def test_structs_with_pointers_are_arguments_and_elements():
    @device.kernel
    def k(one, many, out):
        one.data[one.size - 1] = 5
        out[0] = one.table[0][1]
        again = device.replace(one, data=one.data + 1)
        again.data[0] = 8
        many[1].data[0] = 9
        many[0] = many[1]

    x, y, row, out = np.zeros(3, np.float32), np.zeros(1, np.float32), np.array([1, 2], np.int32), np.zeros(1)
    table = np.array([row.ctypes.data], np.uint64)
    many = np.zeros(2, device.numpy_dtype(buffer))
    many["data"][1] = y.ctypes.data
    run(k, buffer(3, x, table.ctypes.data), many, out)
    assert (x.tolist(), y.tolist(), out.tolist()) == ([0, 8, 5], [9], [2])
    assert many["data"][0] == many["data"][1]


@pytest.mark.needs("cpp")
def test_a_struct_lies_as_in_cpp_and_is_declared_so():
    from cuda_device.plugins.cpp.type_names import headers_for

    assert device.numpy_dtype(buffer).fields["table"][1] == 16
    assert (device.sizeof(buffer), device.alignof(FLOATS), device.sizeof(VOID)) == (24, 8, 8)
    text = device.cpp_declaration(buffer)
    assert "float* data;" in text
    assert "cuda::std::int32_t* const* table;" in text
    cuda_cpp.compile_cpp("".join(f"#include <{header}>\n" for header in headers_for(text)) + text)


# At the border to C++


@device.func(interop=True)
def summed(p, n):
    total = device.float32(0)
    for i in range(n):
        total += p[i]
    return total


@device.func(interop=True)
def later(p, q, n):
    return q.cast(device.float64) + n, p + n


@device.kernel(interop=True)
def filled(p: FLOATS, q: VOID, value: device.float32):
    p[0] = value
    q.cast(device.float32)[1] = value


def test_functions_have_the_signatures_of_cpp():
    source = """
    extern "C" __device__ float summed(float const* p, int n) { return p[n]; }
    extern "C" __global__ void filled(float* p, void* q, float value) { *p = value; }
    """
    wanted = cuda_cpp.signatures(cuda_cpp.compile_cpp(source).decode())
    found = cuda_cpp.signatures(ptx(summed, CONST_FLOATS, device.int32)) | cuda_cpp.signatures(ptx(filled))
    assert found == wanted


@pytest.mark.needs("cpp")
def test_a_header_declares_them_and_cpp_can_call_them():
    header = device.cpp_header((summed, CONST_FLOATS, device.int32), (filled, FLOATS, VOID, device.float32))
    assert "summed(float const* p, cuda::std::int32_t n);" in header
    assert "filled(float* p, void* q, float value);" in header
    source = header + 'extern "C" __global__ void user(float* x, int n) { x[0] = summed(x + 1, n); }'
    user = cuda_cpp.compile_cpp(source, "ptx", "-rdc=true")
    assert "call" in user.decode()
    pointers = device.cpp_header((later, device.pointer(pair), VOID, device.int32))
    assert "double* _0;" in pointers
    assert "pair* _1;" in pointers
    cuda_cpp.compile_cpp(pointers)


def test_an_interoperable_kernel_runs_on_the_cpu():
    x = np.zeros(2, np.float32)
    run(filled, x, x.ctypes.data, 4)
    assert x.tolist() == [4, 4]


SOURCE = """
extern "C" __device__ float total(float const* x, int n) { float s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }
extern "C" __device__ int* next(void* p) { return (int*)p + 1; }
"""


def with_externs():
    link = cuda_cpp.compile_cpp(SOURCE, "ptx", "-rdc=true")

    @device.extern(link=link)
    def total(x: CONST_FLOATS, n: device.int32) -> device.float32:
        return x[0] + x[n - 1]

    @device.extern(link=link)
    def next(p: VOID) -> INTS:
        return p.cast(device.int32) + 1

    @device.kernel
    def k(x, y: INTS, out):
        out[0] = total(x.pointer(), len(x))
        out[1] = next(y)[0]

    return k


def test_cpp_functions_take_and_give_pointers():
    k, x, out = with_externs(), np.array([3, 4], np.float32), np.zeros(2, np.float32)
    run(k, x, np.array([5, 6], np.int32), out)
    assert out.tolist() == [7, 6]
    floats = device.ArrayType(device.float32, 1)
    assert device.compile(k, floats, INTS, floats).code.startswith(b"\x7fELF")


# What the compiler may count on


@device.kernel
def beside(x, out, p: FLOATS):
    for i in range(2):
        p[i] = 5
        out[i] = x[i]


def test_memory_that_a_pointer_writes_is_not_read_through_the_cache_for_constants():
    floats = device.ArrayType(device.float32, 1)
    text = ptx(beside, floats, floats, launch_facts=True)
    assert "ld.global.nc" not in text

    @device.kernel
    def reading(x, out, p: CONST_FLOATS):
        out[0] = x[0] + p[0]

    assert "ld.global.nc" in ptx(reading, floats, floats, launch_facts=True)


@pytest.mark.parametrize("how", [lambda x: x, lambda x: x.ctypes.data])
def test_a_pointer_may_point_into_an_array_of_the_launch(how):
    x, out = np.zeros(2, np.float32), np.zeros(2, np.float32)
    run(beside, x, out, how(x))
    assert out.tolist() == [5, 5]
    x = np.ones(2, np.float32)
    run(beside, x, x, how(x))
    assert x.tolist() == [5, 5]


def test_accesses_are_those_of_the_address():
    text = ptx(axpy)
    assert text.count(".param .u64") == 2
    assert text.count("ld.global.b32") == 2
    assert "st.global.b32" in text


def test_launches_on_a_gpu_hand_over_the_address():
    with installed() as driver:
        driver.stack[-1] = CONTEXT
        stream = device.GpuStream(0x77, 0, context=CONTEXT)
        for i in range(LAUNCHES):  # machine code does not take them: Python makes all of them
            run(axpy, 2.0, 0x7F00_0000_0100 + 16 * i, 0x7F00_0000_0000, 8, stream=stream)
        assert len(driver.launched) == LAUNCHES


def test_a_kernel_that_was_compiled_before_takes_pointers():
    made = device.compile(axpy)
    with installed() as driver:
        driver.stack[-1] = CONTEXT
        stream = device.GpuStream(0x77, 0, context=CONTEXT)
        driver.sizes = [4, 8, 8, 4]
        made.launch(2.0, 0x7F00_0000_0100, 0x7F00_0000_0000, 8, grid=1, block=8, stream=stream)
        assert len(driver.launched) == 1
        with pytest.raises(device.LaunchError, match="'y' is None"):
            made.launch(2.0, 0x7F00_0000_0100, None, 8, grid=1, block=8, stream=stream)


def test_races_through_pointers_are_found():
    @device.kernel
    def k(p: INTS):
        p[0] = device.tid(1)

    with pytest.raises(device.KernelError, match="race"):
        run(k, np.zeros(1, np.int32), threads=2, stream=device.cpu_stream(races=True))


# Refusals


def located(error, *words):
    assert error.value.location.line > 0
    assert error.value.help
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("types", "statement", "word"),
    [
        ({"p": VOID}, "p[0] = 1", "cast"), ({"p": VOID}, "p + 1", "cast"), ({"p": VOID}, "p.array(3)", "cast"),
        ({"p": CONST_FLOATS}, "p[0] = 1", "read-only"),
        ({"p": CONST_FLOATS}, "p.cast(device.int32)[0] = 1", "read-only"),
        ({"p": CONST_FLOATS}, "device.atomic_ref(p, 0).add(1)", "read-only"), ({"p": FLOATS}, "p[1:3] = 0", "p.array"),
        ({"p": FLOATS}, "(p + 1.5)[0] = 1", "integers"), ({"p": FLOATS}, "p * 2", "do not support the operator *"),
        ({"p": FLOATS, "q": INTS}, "p - q", "cast"), ({"p": FLOATS}, "p.cast('float33')", "cast"),
        ({"p": FLOATS}, "p.array((2, 3), strides=(4,))", "strides"), ({"p": FLOATS}, "p.array(2.5)", "not an integer"),
        ({"p": FLOATS}, "p.shape", "address"), ({"p": FLOATS}, "p.array((2, 3)).pointer(1)", "indices"),
        ({"p": FLOATS}, "p[0] = p", "cannot be set"), ({"p": FLOATS}, "p[0] = 1 if p == 1.5 else 2", "compared with"),
    ],
    ids=str,
)  # fmt: skip
def test_what_has_no_meaning_is_a_located_error(types, statement, word):
    kernel = define(f"@device.kernel\ndef k({', '.join(types)}):\n    {statement}\n")
    with pytest.raises(device.CompileError) as error:
        ptx(kernel, *types.values())
    located(error, word)


def test_cpp_functions_refuse_other_pointers():
    @device.extern
    def total(x: FLOATS) -> device.float32: ...

    @device.kernel
    def other(p: INTS):
        total(p)

    @device.kernel
    def const(p: CONST_FLOATS):
        total(p)

    @device.kernel
    def array(p: FLOATS):
        total(p.array(3))

    for kernel, word in ((other, "cast"), (const, "read-only"), (array, "x.pointer()")):
        with pytest.raises(device.CompileError) as error:
            ptx(kernel)
        located(error, word)


ONES = np.ones(4, np.float32)
CONSTANT_ONES = np.ones(4, np.float32)
CONSTANT_ONES.flags.writeable = False


@pytest.mark.parametrize(
    "value, words",
    [
        (-4, "not an address"),
        (2**64, "not an address"),
        (6, "not a multiple of 4"),
        (None, "None"),
        (1.5, "float"),
        (True, "bool"),
        ("text", "str"),
        (np.zeros(4, np.int32), "array of int32"),
        (CONSTANT_ONES, "read-only"),
        (np.ones(8, np.float32)[::2], "not contiguous"),
    ],
)
def test_launches_refuse_what_is_no_such_pointer(value, words):
    with pytest.raises(device.LaunchError, match=words) as error:
        run(axpy, 1, ONES, value, 0)
    assert "'y'" in str(error.value)
    assert error.value.help
    y = np.zeros(4, np.float32)
    run(axpy, 1, ONES, y, 4, threads=4)
    assert y.tolist() == [1, 1, 1, 1]


def test_types_and_members_refuse_what_is_no_pointer():
    for bad in (device.ArrayType(device.float32, 1), "no type", object()):
        with pytest.raises(TypeError):
            device.pointer(bad)
    with pytest.raises(TypeError, match=r"^array<float32, 1, C> is an array, or has array members"):
        device.pointer(device.ArrayType(device.float32, 1))
    with pytest.raises(TypeError, match="readonly"):
        device.pointer(device.float32, readonly=1)
    for bad in (-1, 2**64, None, 1.5, True):
        with pytest.raises(TypeError, match="buffer.data"):
            buffer(1, bad, 0)

    @device.kernel
    def k(one):
        one.data[0] = 1

    with pytest.raises(device.LaunchError, match="one.data"):
        run(k, buffer(1, np.zeros(1, np.int32), 0))
    with pytest.raises(device.LaunchError, match="pointers"):
        run(k, np.zeros(1, device.numpy_dtype(buffer))[0])
    with pytest.raises(device.LaunchError, match="hint"):
        ptx(axpy, device.float32, INTS)
