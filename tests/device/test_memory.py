"""Local arrays and dynamic shared memory: each thread's own, shapes, orders, alignments, frames that outlive barriers."""

import re

import fake_driver
import numpy as np
import pytest
from conftest import can_assemble, poison, properties_of, thinned
from ir_helpers import define

import cuda_device as device

NUMBERS = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 bool".split()


def compiled(function, *arguments, output="ptx", **options):
    return device.compile(function, *arguments, output=output, **options)


def array(dtype, ndim=1):
    return device.ArrayType(dtype, ndim)


# Local arrays


@device.kernel
def reverse_digits(x, out):
    i = device.tid(1)
    digits = device.local_array(10, np.uint8)
    rest = x[i]
    for place in range(10):
        digits[place] = rest % 10
        rest //= 10
    result = np.int64(0)
    for place in range(10):
        result = result * 10 + digits[place]
    out[i] = result


def test_each_thread_has_its_own(stream):
    x = np.arange(1, 4097, dtype=np.int64) * 271828
    out = stream.run(reverse_digits, x, poison(4096, np.int64), grid=16, block=256)[-1]
    assert out.tolist() == [int(f"{value:010d}"[::-1]) for value in x.tolist()]


@pytest.mark.parametrize(("name", "order"), thinned(NUMBERS, ["C", "F"], one_in=2))
def test_types_and_orders(stream, name, order):
    @device.kernel
    def k(x, out):
        a = device.local_array((2, 3, 4), name, order)
        for i in range(2):
            for j in range(3):
                for k in range(4):
                    a[i, j, k] = x[i, j, k]
        for i in range(2):
            for j in range(3):
                for k in range(4):
                    out[i, j, k] = a[i, j, -4 + k]

    x = (np.arange(24) % 3 - (0 if name.startswith(("u", "b")) else 1)).astype(name).reshape(2, 3, 4)
    out = stream.empty((2, 3, 4), name)
    stream.launch(k, stream.array(x), out, grid=1, block=1)
    assert np.array_equal(stream.numpy(out), x)


@device.func
def bump(i, value):
    counts = device.shared_array(32, np.int32)
    if value == 0:
        counts[i] = 0
    counts[i] += value
    return counts


def test_calls_of_a_function_with_other_constants_share_its_shared_array(stream):
    @device.kernel
    def k(out):
        i = device.thread_idx.x

        def nested(value):
            return bump(i, value)

        bump(i, 0)
        bump(i, 5)
        nested(-2)
        counts = nested(7)
        device.syncthreads()
        out[i] = counts[31 - i]

    out = stream.empty(32, np.int32)
    stream.launch(k, out, grid=1, block=32)
    assert stream.numpy(out).tolist() == [10] * 32
    text = str(compiled(k, array(np.int32)))
    assert len(re.findall(r"^\s*\.shared .*;$", text, re.MULTILINE)) == 1


@device.struct
class Rows:
    data: device.ArrayType(device.float32, 2)

    def count(self):
        return len(self.data)


def counted(rows):
    return 1 + counted(rows[1:]) if len(rows) > 1 else 1


@device.kernel
def constant_lengths(out, s: device.int32):
    tiles = device.shared_array((3, 4, 8), device.float32)
    own = device.local_array((6, 2), device.float32)
    out[0] = len(tuple(range(tiles[s].shape[1])))
    out[1] = len(tuple(range(len(tiles[s, :, :].T))))
    out[2] = len(tuple(range(tiles.reshape(12, 8).view(device.uint16).shape[1])))
    out[3] = len(tuple(range(len(device.dynamic_shared_array().reshape(2, 32)))))
    out[4] = counted(own)  # which is not compiled for each number of rows
    other = device.shared_array((6, 8), device.float32)
    either = Rows(tiles[0]) if s > 0 else Rows(other)
    out[5] = either.count()
    both = (tiles[0], s) if s > 0 else (other, s)
    out[6] = len(both[0])


def test_lengths_of_shared_and_local_arrays_are_constants(stream):
    for s, rows in ((1, 4), (0, 6)):
        out = stream.run(constant_lengths, poison(7, np.int32), s, grid=1, block=1, shared=64)
        assert out.tolist() == [8, 8, 16, 2, 6, rows, rows]


def test_lengths_of_other_parts_and_arguments_are_not():
    @device.kernel
    def k(x, out):
        out[0] = len(tuple(range(len(x))))

    @device.kernel
    def part(x, out):
        out[0] = len(tuple(range(len(device.shared_array(8, device.float32)[2:6]))))

    for kernel in (k, part):
        with pytest.raises(device.CompileError, match="must be known at compile time"):
            compiled(kernel, array(device.float32), array(device.int32))


def test_ptx_of_local_arrays():
    text = str(compiled(reverse_digits, array(np.int64), array(np.int64)))
    assert ".local" not in text  # its loops are unrolled, so it is in registers

    @device.kernel
    def k(out, n):
        a = device.local_array(100, np.float32, align=128)
        for i in range(n):
            a[(i * 7) % 100] = out[i]
        device.syncthreads()
        for i in range(n):
            out[i] = a[i % 100]

    text = str(compiled(k, array(np.float32), np.int32))
    assert ".local .align" in text
    assert "st.local" in text
    assert "ld.local" in text
    compiled(k, array(np.float32), np.int32, output="cubin")


# Dynamic shared memory


@device.kernel
def turn_around(out):
    bytes = device.dynamic_shared_array()
    static = device.shared_array(3, np.int16)
    i = device.tid(1)
    n = len(bytes)
    if i < 3:
        static[i] = -1
    for j in range(i, n, device.block_dim.x):
        bytes[j] = j % 251
    device.syncthreads()
    for j in range(i, n, device.block_dim.x):
        out[j] = bytes[n - 1 - j]
    if i == 0:
        out[n] = static[0] + static[2]
        out[n + 1] = device.dynamic_shared_array()[5]


@pytest.mark.parametrize("size", [6, 100, 48 * 1024 - 16, 100_000])
def test_dynamic_shared_memory(stream, size):
    out = stream.run(turn_around, poison(size + 2, np.int32), block=128, shared=size)
    assert out.tolist() == [*(j % 251 for j in reversed(range(size))), -2, 5]


def test_more_than_a_block_has_is_refused(stream):
    out = stream.empty(1, np.int32)
    with pytest.raises(device.LaunchError, match="exceeds the limit of"):
        stream.launch(turn_around, out, grid=1, block=1, shared=300_000)


def test_ptx_of_dynamic_shared_memory():
    text = str(compiled(turn_around, array(np.int32)))
    assert ".extern .shared .align 128 .b8 dynamic_shared[]" in text
    assert "%dynamic_smem_size" in text
    assert "st.shared" in text
    compiled(turn_around, array(np.int32), output="cubin")
    assert "dynamic_shared" not in str(compiled(reverse_digits, array(np.int64), array(np.int64)))


# Errors


def refusal(source, **names):
    with pytest.raises(device.CompileError) as caught:
        compiled(define(source, file="<memory>", **names), array(np.int32), output="ir")
    return str(caught.value)


def all_of_it(elements, **options):
    @device.kernel(**options)
    def k(out):
        first = device.shared_array(1000, device.int64)
        rest = device.shared_array(elements, device.int8)
        last = device.dynamic_shared_array()
        first[999], rest[0], rest[elements - 1] = 7, 1, 8
        if len(last):
            last[0], last[len(last) - 1] = 16, 32
        out[0] = first[999] + rest[elements - 1] + len(last)

    return k


@pytest.mark.parametrize("kib", [48, 64, 99, 227])
@pytest.mark.parametrize("dynamic", [0, 1, 1000])
def test_shared_arrays_may_take_what_a_block_has(stream, kib, dynamic):
    if stream.kind == "gpu" and not stream.emulated:
        if kib * 1024 > properties_of(stream.stream).max_shared_optin:
            pytest.skip("it has less")
    out = stream.empty(1, np.int32)
    kernel = all_of_it(kib * 1024 - 8000 - -(-dynamic // 128) * 128)
    for _ in range(10):  # also when machine code could
        stream.launch(kernel, out, grid=2, block=1, shared=dynamic)
    assert stream.numpy(out).tolist() == [15 + dynamic]
    with pytest.raises(
        device.LaunchError, match=r"shared=\d+: together with \d+ bytes of shared arrays, this exceeds the limit"
    ):
        stream.launch(kernel, out, grid=2, block=1, shared=228 * 1024)


@pytest.mark.parametrize(
    ("target", "kib"), [("sm_75", 64), ("sm_80", 163), ("sm_89", 99), ("sm_90", 227), ("sm_120", 99)]
)
def test_the_limit_of_shared_arrays_is_the_architectures(target, kib):
    for output in ("llvm", "cubin") if can_assemble(target) else ("llvm",):
        compiled(all_of_it(kib * 1024 - 8000), array(np.int32), output=output, target=target)
    text = f"the kernel's shared arrays take {kib * 1024 + 1} bytes: the limit is {kib * 1024}"
    with pytest.raises(device.CompileError, match=text):
        compiled(all_of_it(kib * 1024 - 7999), array(np.int32), output="llvm", target=target)
    stream = device.cpu_stream(target=target)
    with pytest.raises(device.CompileError, match=text):
        device.launch(all_of_it(kib * 1024 - 7999), np.zeros(1, np.int32), grid=1, block=1, stream=stream)


def test_kernels_that_cpp_starts_have_48_kib_of_shared_arrays():
    compiled(all_of_it(40000, interop=True), array(np.int32), output="ptx")
    with pytest.raises(device.CompileError, match="bytes: the limit is 49152\n.*\n.*\n.*\n.*\n.*shared=…"):
        compiled(all_of_it(48 * 1024, interop=True), array(np.int32), output="ptx")


def test_the_driver_gives_the_memory_of_large_shared_arrays():
    with fake_driver.installed() as gpu:
        kernel, out = all_of_it(60_000), device.zeros(1, np.int32)
        for _ in range(12):
            device.launch(kernel, out, grid=1, block=1, shared=100)
        device.launch(kernel, out, threads=1)
        launches = [entry[4] for entry in gpu.log if entry[0] == "cuLaunchKernel"]
        assert launches == [68_096 + 100] * 12 + [68_096]  # a multiple of 128
        asked = [entry[2] for entry in gpu.log if entry[0] == "cuKernelSetAttribute"]
        assert asked == [68_196] and ("cuOccupancyMaxPotentialBlockSize", 68_096) in [
            (entry[0], entry[2]) for entry in gpu.log if len(entry) > 2
        ]


@pytest.mark.parametrize("entity", ["local_array", "shared_array"])
@pytest.mark.parametrize(
    "arguments, message",
    [
        ("(2, 2.5), np.int32", "shape must be a non-negative int or a tuple of non-negative ints"),
        ("4, 'nothing'", "dtype:"),
        ("4, np.int32, align=1 << 17", "align: an alignment must be a power of two up to 65536, not 131072"),
        ("4, np.int32, align=-0.0", "align: an alignment must be a power of two up to 65536, not -0.0"),
        ("[4, 2], np.int32", "shape cannot be a list"),
        ("4, np", "dtype: <module"),
        ("(2, True), np.int32", "shape must be a non-negative int or a tuple of non-negative ints"),
        ("4, 7", "dtype: 7"),
        ("4, np.int32, align=out[0]", "align must be a constant expression"),
        ("4, np.int32, colour=3", "unexpected keyword argument 'colour'"),
    ],
)
def test_wrong_arguments(entity, arguments, message):
    assert message in refusal(f"@device.kernel\ndef k(out):\n    a = device.{entity}({arguments})\n")


def test_a_local_array_cannot_leave_its_function():
    text = refusal("""
        def make():
            a = device.local_array(4, np.int32)
            a[0] = 1
            return 5, a

        @device.kernel
        def k(out):
            n, a = make()
            out[0] = a[0]
    """)
    assert "its local arrays do not exist after it returns" in text
    assert "return 5, a" in text
    assert "help: make the array where it is used" in text


def test_a_local_array_that_no_thread_has_room_for():
    text = refusal("@device.kernel\ndef k(out):\n    a = device.local_array((1 << 16) + 1, np.float64)\n")
    assert "a local array has 524296 bytes; the limit is 524288 per thread" in text


def test_dynamic_shared_memory_takes_no_arguments():
    assert "too many positional arguments" in refusal(
        "@device.kernel\ndef k(out):\n    device.dynamic_shared_array(4)\n"
    )
