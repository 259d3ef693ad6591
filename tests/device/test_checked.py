"""Checked mode: each mistake of `buggy_programs` is found where it is made, and nothing is found in programs without it."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from buggy_programs import HERE, PROGRAMS
from conftest import poison, thinned
from ir_helpers import define

import cuda_device as device

name_of = lambda value: value if isinstance(value, str) else value.name  # noqa: E731
by_name = pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
NUMBERS = np.arange(64, dtype=np.int32)
TYPES = (
    device.ArrayType(device.int32, 1),
    device.ArrayType(device.int32, 2),
    device.ArrayType(device.int32, 1),
    int,
)


def run(stream, program, bug, **options):
    out = stream.empty(64, np.int32)
    kernel = device.kernel(**options)(program.function)
    arguments = stream.array(NUMBERS), stream.array(NUMBERS.reshape(8, 8)), out, bug
    stream.launch(kernel, *arguments, grid=1, block=program.block, shared=program.shared)
    return stream.numpy(out)


@by_name
def test_the_mistake_is_reported(stream, program):
    if stream.kind == "gpu" and not program.on_gpu:
        pytest.skip("found on the CPU only")
    with pytest.raises(device.KernelError) as caught:
        run(stream, program, 1, checked=True, level=PROGRAMS.index(program) % 4)
    text = str(caught.value)
    reason = text.splitlines()[0]
    # On a GPU any of the threads that fail may be the first.
    assert program.message in reason or (stream.kind == "gpu" and _of_any_lane(program.message).search(reason))
    if program.thread is not None:
        assert text.count(HERE) == 1
        assert f"in thread ({program.thread}, 0, 0) of block (0, 0, 0)" in text or stream.kind == "gpu"
    assert f"{program.name}.py:" in text
    assert text.splitlines()[-1].startswith("  help: ")


def _of_any_lane(message):
    """A pattern that the message matches whichever lanes and masks it names."""
    return re.compile(re.sub(r"(?<=lane\\ )\d+|(?<=mask\\ )0x[0-9a-f]+", "[0-9a-fx]+", re.escape(message)))


@by_name
def test_without_the_mistake_nothing_is_reported_and_the_result_is_that_of_unchecked_code(stream, program):
    if stream.kind == "gpu" and not program.on_gpu:
        pytest.skip("the stack of a GPU's threads is small")
    checked = run(stream, program, 0, checked=True)
    assert checked.tolist() == run(stream, program, 0).tolist()
    assert (checked != np.frombuffer(b"\xa5" * 4, np.int32)[0]).any()


@pytest.mark.parametrize(("program", "target"), thinned(PROGRAMS, ["sm_75", "sm_90"], one_in=2), ids=name_of)
def test_checks_assemble(program, target):
    device.compile(device.kernel(program.function), *TYPES, target=target, checked=True)


# What is not checked is as before


@by_name
def test_unchecked_code_has_no_checks(program):
    kernel = device.kernel(program.function)
    ptx = str(device.compile(kernel, *TYPES, output="ptx"))
    assert "cuda_device_record" not in ptx
    assert "exit;" not in ptx
    typed = str(device.compile(kernel, *TYPES, output="ir"))
    assert "py.check" not in typed


# How to ask for it

SOURCE = """
    @device.kernel
    def k(x, i):
        x[i] = 1
    """


def launched(kernel, i=9):
    x = np.zeros(4, np.float32)
    device.launch(kernel, x[:3], i, grid=1, block=1, stream=device.cpu_stream())
    return x


@pytest.mark.parametrize("asked", [None, "", "1"])
def test_kernels_are_checked_on_cpu_streams(monkeypatch, asked):
    if asked is None:
        monkeypatch.delenv("CUDA_DEVICE_CHECKED", raising=False)
    else:
        monkeypatch.setenv("CUDA_DEVICE_CHECKED", asked)
    kernel = define(SOURCE)
    for _ in range(2):
        with pytest.raises(device.KernelError, match="index 3 is out of bounds for axis 0 of size 3"):
            launched(kernel, 3)
        launched(kernel, 2)  # the next good launch works
    prepared = device.prepare(kernel, np.zeros(3, np.float32), 3, grid=1, block=1, stream=device.cpu_stream())
    with pytest.raises(device.KernelError, match="index 3 is out of bounds"):
        prepared()
    with pytest.raises(device.KernelError, match="index 3 is out of bounds"):
        device.launch(kernel, np.zeros(3, np.float32), 3, grid=1, block=1, stream=device.cpu_stream(races=True))


def test_the_environment_turns_checks_off(monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_CHECKED", "0")
    kernel = define(SOURCE)
    assert launched(kernel, 3)[3] == 1
    monkeypatch.delenv("CUDA_DEVICE_CHECKED")
    with pytest.raises(device.KernelError, match="index 3 is out of bounds"):
        launched(kernel, 3)


def test_kernels_are_not_checked_on_gpus_unless_somebody_asks(monkeypatch):
    for asked, checked in ((None, False), ("0", False), ("1", True)):
        if asked is None:
            monkeypatch.delenv("CUDA_DEVICE_CHECKED", raising=False)
        else:
            monkeypatch.setenv("CUDA_DEVICE_CHECKED", asked)
        options = device.kernel()(define(SOURCE).underlying).options.build
        assert options.is_checked(on_cpu=False) is checked


def test_the_kernel_has_the_last_word(monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_CHECKED", "1")
    unchecked = device.kernel(checked=False)(define(SOURCE).underlying)
    assert launched(unchecked, 3)[3] == 1
    assert "bounds" not in str(device.compile(unchecked, TYPES[0], int, output="ir"))
    asked = device.compile(unchecked, TYPES[0], int, output="ptx", checked=True)
    assert "cuda_device_record" in str(asked)


def test_the_environment_counts_for_compile(monkeypatch):
    kernel = define(SOURCE)
    assert "cuda_device_record" not in str(device.compile(kernel, TYPES[0], int, output="ptx"))
    monkeypatch.setenv("CUDA_DEVICE_CHECKED", "1")
    assert "cuda_device_record" in str(device.compile(kernel, TYPES[0], int, output="ptx"))


@pytest.mark.needs("cpu")
def test_a_process_can_be_started_with_it():
    program = """if 1:
        import numpy as np, cuda_device as device
        @device.kernel
        def k(x):
            x[len(x)] = 1
        try:
            device.launch(k, np.zeros(3, np.float32), grid=1, block=1, stream=device.cpu_stream())
        except device.KernelError as error:
            print(error)
        """
    made = subprocess.run(
        [sys.executable, "-c", program], env={"CUDA_DEVICE_CHECKED": "1", "PATH": ""}, capture_output=True, text=True
    )
    assert made.stdout.startswith("index 3 is out of bounds for axis 0 of size 3\n"), made.stderr


@pytest.mark.parametrize("decorator", [device.kernel, device.func])
@pytest.mark.parametrize("value", ["yes", 1, 0.0])
def test_a_wrong_value_is_refused(decorator, value):
    with pytest.raises(TypeError, match="checked=…\\) takes True, False or None"):
        decorator(checked=value)


def test_threads_that_do_not_fail_go_on_and_the_next_launch_works(stream):
    kernel = device.kernel(checked=True)(PROGRAMS[0].function)
    arguments = stream.array(NUMBERS), stream.array(NUMBERS.reshape(8, 8))
    out = stream.empty(64, np.int32)
    with pytest.raises(device.KernelError):
        stream.launch(kernel, *arguments, out, 1, grid=1, block=32)
    assert stream.numpy(out)[:31].tolist() == list(range(33, 64))
    stream.launch(kernel, *arguments, out, 0, grid=1, block=32)
    assert stream.numpy(out)[:32].tolist() == list(range(32, 64))


def test_local_memory_that_is_written_piece_by_piece_is_written(stream):
    kernel = define(
        """
        @device.struct
        class Padded:
            small: device.int8
            large: device.int64
            pair: tuple[device.int8, device.float32x3]

        @device.kernel(checked=True)
        def k(out, n):
            i = device.thread_idx.x
            bytes = device.local_array(8, device.uint8, align=64)
            structs = device.local_array(2, Padded)
            kept = device.local_array(1, device.int32)
            for j in range(8):
                bytes[j] = j == 0
            structs[n - 1] = Padded(1, 2, (3, device.float32x3(4, 5, 6)))
            structs[0].large = structs[n - 1].large
            structs[0].small = structs[n - 1].small
            structs[0].pair = structs[n - 1].pair
            whole = structs[0]
            for j in range(n):
                again = device.local_array(1, device.int32)
                again[0] = again[0] + 1 if j else 1
                if j == 0:
                    kept[0] = 10
                kept[0] += j
                device.syncthreads()
            out[i] = bytes.view(device.int64)[0] + whole.large + whole.pair[1].z + kept[0] + again[0]
        """
    )
    assert stream.run(kernel, poison(40, np.int32), 2, block=40).tolist() == [1 + 2 + 6 + 11 + 2] * 40


def test_large_local_arrays_have_no_account(stream):
    kernel = define(
        """
        @device.kernel(checked=True)
        def k(out):
            large = device.local_array(1 << 16, device.int32)
            large[5] = 1
            out[0] = large[5] + 0 * large[6]
        """
    )
    assert stream.run(kernel, poison(1, np.int32)).tolist() == [1]


def test_values_of_a_report_may_be_large(stream):
    kernel = define(
        """
        @device.kernel(checked=True)
        def k(x, i):
            x[i] = 1
        """
    )
    for index in (-(2**62), 2**62 + 1):
        with pytest.raises(device.KernelError, match=f"index {index} is out of bounds for axis 0 of size 3"):
            stream.launch(kernel, stream.empty(3), np.int64(index), grid=1, block=1)


def test_an_index_of_a_list_out_of_bounds_is_reported(stream):
    @device.kernel(checked=True)
    def beyond(x, n):
        few = [0, 0]
        few[n] = 1
        x[0] = few[0]

    x = stream.array(np.arange(8) * 1.5 - 3)
    stream.launch(beyond, x, -2, grid=1, block=1)
    assert stream.numpy(x)[0] == 1
    with pytest.raises(device.KernelError, match="index 2 is out of bounds for a list of size 2"):
        stream.launch(beyond, stream.array(np.zeros(8)), 2, grid=1, block=1)


def test_a_message_of_the_program_is_left_alone(stream):
    kernel = define(
        """
        @device.kernel(checked=True)
        def k(x):
            assert x[0] > 0, "{0} and {1}"
        """
    )
    with pytest.raises(device.KernelError, match=r"AssertionError: \{0\} and \{1\}"):
        stream.launch(kernel, stream.array(np.zeros(3, np.float32)), grid=1, block=1)


def test_messages_are_the_program_s_also_where_pytest_changed_its_asserts(stream, request):
    factor = 10

    @device.kernel
    def k(x, n):
        i = device.tid(1)

        def check(limit):
            assert i < limit and n > 0, f"thread {i * factor} of {limit}"

        assert n != 7, "seven"
        assert x[i] >= 0
        check(n)
        x[i] = 1

    if request.config.getoption("assertmode") == "plain":
        pytest.skip("pytest leaves asserts as they are")
    assert any("@pytest_ar" in part.co_names for part in [k.underlying.__code__]), "pytest did not change this module"
    x = stream.array(np.zeros(8, np.int32))
    for n, message in ((7, "AssertionError: seven"), (3, "AssertionError: thread [3-7]0 of 3")):
        with pytest.raises(device.KernelError, match=f"^{message}\n"):
            stream.launch(k, x, n, grid=1, block=8)
    stream.launch(k, x, 8, grid=1, block=8)
    assert stream.numpy(x).tolist() == [1] * 8


@pytest.mark.needs("rewritten_asserts")
def test_without_pytest_or_the_source_text_changed_asserts_still_report(monkeypatch):
    from cuda_device.plugins import rewritten_asserts

    @device.kernel
    def k(x):
        assert x[0] > 3, "small"

    monkeypatch.setattr("linecache.getlines", lambda *_: ["x = 1"])
    rewritten_asserts._originals.cache_clear()
    with pytest.raises(device.KernelError, match="the assertion does not hold"):
        device.launch(k, np.zeros(1, np.int32), grid=1, block=1, stream=device.cpu_stream())
    rewritten_asserts._originals.cache_clear()


# What the help of an index says


def failing(stream, kernel, *arguments, block=1, shared=0):
    """The report of a kernel that fails."""
    with pytest.raises(device.KernelError) as caught:
        stream.launch(kernel, *arguments, grid=1, block=block, shared=shared)
    return str(caught.value)


@pytest.mark.parametrize("dtype", [device.uint32, device.uint64])
@pytest.mark.parametrize("less", [1, 3])
def test_an_unsigned_index_below_zero_is_explained(stream, dtype, less):
    def of_one_axis(x, y, i):
        x[i - less] = 1

    def of_a_row(x, y, i):
        y[i - less, :] = 1

    def of_a_column(x, y, i):
        y[0, i - less] = 1

    bits = np.dtype(dtype).itemsize * 8
    for function in (of_one_axis, of_a_row, of_a_column):

        @device.kernel(checked=True)
        def kernel(x, y, function: device.ConstExpr = function):
            function(x, y, dtype(device.thread_idx.x))

        text = failing(stream, kernel, stream.empty(8), stream.array(np.zeros((2, 4), np.float32)))
        assert f"index {2**bits - less} is out of bounds for axis" in text
        assert f"help: thread positions are unsigned, as in CUDA C++, so -{less} is {2**bits - less}" in text
        assert "int(i) - 1" in text.splitlines()[-1]


@pytest.mark.parametrize("index", [lambda i: i + 8, lambda i: int(i) - 9, lambda i: device.int64(i) + 2**32 - 1])
def test_other_indices_are_to_be_tested(stream, index):
    @device.kernel(checked=True)
    def kernel(x):
        x[index(device.thread_idx.x)] = 1

    text = failing(stream, kernel, stream.empty(8))
    assert text.endswith("help: test the index first: if i < len(x)")


@pytest.mark.parametrize("dtype", [device.uint8, device.float32, device.complex128])
def test_dynamic_shared_memory_that_is_too_small_names_its_option(stream, dtype):
    nbytes = device.sizeof(dtype)

    @device.kernel(checked=True)
    def whole(out, i):
        device.dynamic_shared_array().view(dtype)[i] = dtype(0)

    @device.kernel(checked=True)
    def second(out, i):
        part = device.dynamic_shared_array()[16:].view(dtype)
        for j in range(3):
            part[i + j] = dtype(0)

    @device.kernel(checked=True)
    def square(out, i):
        device.dynamic_shared_array().view(dtype).reshape(4, 5)[0, 0] = dtype(0)

    out = stream.empty(1)
    launches = "help: the launch sets the size of dynamic shared memory: launch with"
    for shared in (0, 2 * nbytes):
        assert f"{launches} shared={8 * nbytes}, or test" in failing(stream, whole, out, 7, shared=shared)
        text = failing(stream, square, out, 0, shared=shared)
        assert text.endswith(f"for dynamic shared memory, launch with shared={20 * nbytes}")
    assert f"{launches} {nbytes} bytes more as shared=…" in failing(stream, second, out, 0, shared=16 + 2 * nbytes)
    stream.launch(whole, out, 7, grid=1, block=1, shared=8 * nbytes)
    stream.launch(square, out, 0, grid=1, block=1, shared=20 * nbytes)
    text = failing(stream, whole, out, -9, shared=8 * nbytes)
    assert text.endswith("help: test the index first: if i < len(x)")


def test_static_shared_memory_is_not_dynamic(stream):
    @device.kernel(checked=True)
    def kernel(out, i):
        device.shared_array(8, device.float32)[i] = 1

    assert failing(stream, kernel, stream.empty(1), 8).endswith("help: test the index first: if i < len(x)")
