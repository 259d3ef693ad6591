"""Arrays that are less aligned than their elements, which narrower accesses read and write, and atomics refuse."""

from typing import Any

import numpy as np
import pytest
from conftest import POISON, StreamUnderTest, thinned
from producers import Described

import cuda_device as device
from cuda_device.codegen.gpu import peephole
from cuda_device.types.host import model_of
from cuda_device.types.model import FLOAT32, FLOAT64, Array

NUMBERS = [
    *(np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32, np.float64, np.complex64),
    *(np.complex128, device.bfloat16),
]


def moved(elements: np.ndarray[Any, Any], by: int) -> np.ndarray[Any, Any]:
    """A copy that begins so many bytes behind a multiple of 64."""
    memory = np.full(elements.nbytes + 192, POISON, np.uint8)
    begin = -memory.ctypes.data % 64 + by
    result = np.ndarray(elements.shape, elements.dtype, memory.data, begin)
    result[...] = elements
    assert result.ctypes.data % 64 == by
    return result


@device.kernel
def double(x: Any, y: Any) -> None:
    i = device.tid(1)
    if i < len(x):
        y[i] = x[i] + x[i]


@pytest.mark.parametrize("by, dtype", thinned([1, 2, 3, 4, 6, 8, 12], NUMBERS, one_in=5))
def test_numbers_at_any_address(dtype: Any, by: int) -> None:
    x = moved(np.arange(1, 41).astype(dtype), by)
    y = moved(np.zeros(40, dtype), 64 - by)
    device.launch(double, x, y, grid=2, block=32, stream=device.cpu_stream())
    assert np.array_equal(y, (np.arange(1, 41) * 2).astype(dtype))


VECTORS = [device.float32x4, device.float64x2, device.int16x4, device.float64x4, device.uint8x2]


@pytest.mark.parametrize("by, kind", thinned([1, 2, 4, 8], VECTORS, one_in=3))
def test_vectors_at_any_address(kind: Any, by: int) -> None:
    layout = device.numpy_dtype(kind)
    numbers = np.arange(1, 1 + 6 * int(kind.size)).astype(kind.dtype)
    x, y = moved(numbers.view(layout), by), moved(np.zeros(6, layout), 3)
    device.launch(double, x, y, grid=1, block=32, stream=device.cpu_stream())
    assert np.array_equal(y.copy().view(kind.dtype), numbers * 2)


@device.kernel
def views(x: Any, y: Any) -> None:
    y[0] = x[1:][0]
    y[1] = x[::-1][1]
    y[2] = x.reshape(2, -1)[1, 0]
    y[3] = x.reshape(2, -1).T[1, 0]
    y[4] = x.view(device.uint32).view(device.float32)[3]
    for element in x:
        y[5] = element
    x[2:4] = 7


def test_views_of_such_arrays() -> None:
    x, y = moved(np.arange(1, 7).astype(np.float32), 1), np.full(6, np.nan, np.float32)
    device.launch(views, x, y, grid=1, block=1, stream=device.cpu_stream())
    assert y.tolist() == [2, 5, 4, 2, 4, 6] and x.tolist() == [1, 2, 7, 7, 5, 6]


def test_strides_count_too() -> None:
    x = np.frombuffer(bytes(range(60)), np.uint8).copy()
    x = np.ndarray(6, np.float32, x.data, -x.ctypes.data % 4, (7,))
    y = np.full(6, np.nan, np.float32)
    x[...] = np.arange(6)
    device.launch(double, x, y, grid=1, block=32, stream=device.cpu_stream())
    assert y.tolist() == [0, 2, 4, 6, 8, 10]


def test_an_empty_array_is_aligned() -> None:
    x = moved(np.zeros(0, np.float32), 1)
    device.launch(double, x, x, grid=1, block=32, stream=device.cpu_stream())


def on_gpu(memory: Any, offset: int, count: int, dtype: Any = np.float32) -> Described:
    """Bytes of a GPU's array, from `offset` on, as numbers of a type."""
    interface = memory.__cuda_array_interface__
    address = interface["data"][0] + offset, False
    return Described(**interface | {"data": address, "shape": (count,), "typestr": np.dtype(dtype).str})


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128, np.int64])
@pytest.mark.parametrize("by", [1, 2, 4, 8, 12])
def test_numbers_at_any_address_of_a_gpu(stream: StreamUnderTest, dtype: Any, by: int) -> None:
    """Parts of a float are stored as they are, and not what they would be as integers."""
    if stream.kind == "cpu":
        pytest.skip("a test of GPUs")
    numbers = (np.arange(1, 33) * (1 if dtype is np.int64 else -0.25)).astype(dtype)
    x = stream.array(np.frombuffer(bytes(by) + numbers.tobytes(), np.uint8))
    y = stream.empty(numbers.nbytes + by, np.uint8)
    stream.launch(double, on_gpu(x, by, 32, dtype), on_gpu(y, by, 32, dtype), grid=1, block=32)
    assert np.array_equal(stream.numpy(y)[by:].view(dtype), numbers * 2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_parts_of_a_float_are_its_bits(stream: StreamUnderTest, dtype: Any) -> None:
    """Programs that look at the bits of a number that was computed."""

    @device.kernel
    def split(x: Any, bytes_: Any, pairs: Any) -> None:
        i = device.tid(1)
        own = device.local_array(1, x.dtype)
        own[0] = x[i] + x[i]
        shown, by_two = own.view(device.uint8), own.view(device.uint16)
        for k in range(len(shown)):
            bytes_[i, k] = shown[k]
        for k in range(len(by_two)):
            pairs[i, k] = by_two[k]

    numbers = (np.arange(1, 33) * 1.25).astype(dtype)
    size = numbers.itemsize
    parts, pairs = stream.empty((32, size), np.uint8), stream.empty((32, size // 2), np.uint16)
    stream.launch(split, stream.array(numbers), parts, pairs, grid=1, block=32)
    assert stream.numpy(parts).tobytes() == stream.numpy(pairs).tobytes() == (numbers * 2).tobytes()


@device.kernel
def count(x: Any) -> None:
    device.atomic_ref(x, 0).add(1)


def test_atomics_need_alignment(stream: StreamUnderTest) -> None:
    x = moved(np.zeros(4, np.int32), 2)
    with pytest.raises(device.LaunchError, match="aligned to 2 bytes: atomics need 4") as error:
        device.launch(count, x, grid=1, block=1, stream=device.cpu_stream())
    assert isinstance(error.value, device.CompileError) and "atomic_ref(x, 0)" in str(error.value)
    x = moved(np.zeros(4, np.int32), 4)
    device.launch(count, x, grid=1, block=3, stream=device.cpu_stream())
    assert x.tolist() == [3, 0, 0, 0]


def test_accesses_in_ptx() -> None:
    """A GPU faults at an address that is no multiple of an access."""
    code = device.compile(double, Array(FLOAT32, 1, align=1), Array(FLOAT64, 1, align=4), output="ptx").code
    accesses = [line.split()[0] for line in code.splitlines() if "ld.global" in line or "st.global" in line]
    assert accesses.count("ld.global.b8") == 4 and accesses.count("st.global.b32") == 2 and len(accesses) == 6
    device.compile(double, Array(FLOAT32, 1, align=1), Array(FLOAT64, 1, align=4))


def struct_of(count: int) -> Any:
    """A struct of so many float32."""
    return device.struct(
        type(f"Floats{count}", (), {"__annotations__": {f"m{i}": device.float32 for i in range(count)}})
    )


@device.kernel
def exchange(x: Any, y: Any) -> None:
    i = device.tid(1)
    if i < len(x):
        y[i] = x[i]


def global_accesses(*types: Any) -> list[str]:
    """The instructions by which `exchange` reads and writes an element."""
    code = device.compile(exchange, *types, output="ptx").code
    found = [line.split()[0].replace(".L1::no_allocate", "") for line in code.splitlines() if ".global." in line]
    return [line for line in found if line.startswith(("ld", "st"))]


@pytest.mark.parametrize(
    ("count", "accesses"),
    [(1, ["b32"]), (2, ["v2.b32"]), (3, ["b32"] * 3), (4, ["v4.b32"]), (6, ["v2.b32"] * 3), (12, ["v4.b32"] * 3)],
)
def test_structs_are_as_aligned_as_their_size_lets_them_be(count: int, accesses: list[str]) -> None:
    kind = struct_of(count)
    expected = [f"{way}.global.{access}" for way in ("ld", "st") for access in accesses]
    assert global_accesses(device.ArrayType(kind, 1), device.ArrayType(kind, 1)) == expected
    less = Array(model_of(kind), 1, align=4)
    assert global_accesses(less, less) == [f"{way}.global.b32" for way in ("ld", "st") for _ in range(count)]


@pytest.mark.parametrize("by, count", thinned([0, 1, 4, 8, 16], [2, 4, 6, 8, 12], one_in=3))
def test_structs_at_any_address(count: int, by: int) -> None:
    layout = device.numpy_dtype(struct_of(count))
    numbers = np.arange(5 * count, dtype=np.float32)
    x, y = moved(numbers.view(layout), by), moved(np.zeros(5, layout), 64 - by & 63)
    device.launch(exchange, x, y, grid=1, block=32, stream=device.cpu_stream())
    assert np.array_equal(y.copy().view(np.float32), numbers)


@pytest.mark.parametrize("begin", range(4))
def test_who_views_memory_as_structs_promises_no_more_than_in_cpp(stream: StreamUnderTest, begin: int) -> None:
    kind = struct_of(4)

    @device.kernel(checked=True)
    def kernel(x: Any, y: Any) -> None:
        i = device.tid(1)
        of_memory = x[begin : begin + 4 * len(y)].view(kind)
        y[i] = of_memory[i].m3 + of_memory[i].m0

    x = np.arange(16, dtype=np.float32)
    y = stream.empty(3, np.float32)
    stream.launch(kernel, stream.array(x), y, grid=1, block=3)
    assert stream.numpy(y).tolist() == [x[begin + 4 * i + 3] + x[begin + 4 * i] for i in range(3)]


NARROW = """\
.func k()
{
	.reg .b64 	%rd<9>;

	add.f64 	%rd3, %rd2, %rd2;
	mov.b64 	%rd4, %rd3;
	cvt.rzi.u64.f64 	%rd5, %rd3;
	fma.rn.f32 	%r2, %r1, %r1, %r1;
	st.global.b32 	[%rd1], %rd4;
	st.global.b32 	[%rd1+4], %rd5;
	st.global.b64 	[%rd1+8], %rd3;
	st.shared.b8 	[%rd1+16], %r2;
	st.global.v2.b16 	[%rd1+20], {%r2, %r1};
	ret;

}
"""


def test_what_is_stored_of_a_float_passes_an_integer() -> None:
    """And nothing else does: integers, also those made of floats, and whole floats."""
    lines = peephole.store_integers(NARROW).splitlines()
    changed = [line.strip().replace("\t", "") for line in lines if "narrow" in line]
    assert changed == [
        ".reg .b32 %narrow<3>;",
        "cvt.u32.u64 %narrow0, %rd4;",
        "st.global.b32 [%rd1], %narrow0;",
        "and.b32 %narrow1, %r2, 255;",
        "st.shared.b8 [%rd1+16], %narrow1;",
        "and.b32 %narrow2, %r2, 65535;",
        "st.global.v2.b16 [%rd1+20], {%narrow2, %r1};",
    ]
    assert [line for line in lines if "narrow" not in line] == [
        line
        for line in NARROW.splitlines()
        if not any(line.endswith(end) for end in (" %rd4;", "], %r2;", "{%r2, %r1};"))
    ]
    integers = NARROW.replace("add.f64", "add.s64").replace("fma.rn.f32", "mad.lo.s32")
    assert peephole.store_integers(integers) == integers


@device.kernel(level=0)
def pairs(x: Any, n: Any, y: Any) -> None:
    i = device.tid(1)
    stored = device.shared_array(8, device.float8e5m2x2)
    stored[i] = device.float8e5m2x2(x[i], n[i] ^ n[i])
    device.syncthreads()
    y[i] = stored[i].x


def test_registers_of_a_stored_vector_have_the_same_width(stream: StreamUnderTest) -> None:
    x = np.arange(8).astype(device.float8e5m2)
    n = np.arange(8, dtype=np.int8)
    assert device.compile(pairs, x, n, x, output="cubin").registers
    y = stream.empty(8, device.float8e5m2)
    stream.launch(pairs, stream.array(x), stream.array(n), y, grid=1, block=8)
    assert stream.numpy(y).tolist() == x.tolist()
