"""`launch` and `compile`: how arguments are bound and read, what is refused before anything runs, threads of the host."""

import copy
import enum
import inspect
import math
import pickle
import re
import sys
from functools import partial
from typing import Annotated, Any

import numpy as np
import pytest
from at_once import at_once

import cuda_device as device
from cuda_device import compiler

POISON = np.full(4, 0xA5, np.uint8).view(np.int32)[0]


def launch_once(stream, kernel, *arguments, **named):
    stream.launch(kernel, *arguments, grid=1, block=1, **named)


# Binding


@device.kernel
def weighted(out, a, b=2, *, c=3.5, d):
    out[0] = a * 1000 + b * 100 + c * 10 + d


def test_arguments_are_bound_as_python_binds_them(stream):
    out = stream.empty(1, np.float64)
    for positional, named in [
        ((1,), {"d": 4}), ((1, 5), {"d": 4}), ((), {"a": 7, "d": 1, "b": 0}), ((1,), {"c": 9, "d": 0.5, "b": True}),
    ]:  # fmt: skip
        launch_once(stream, weighted, out, *positional, **named)
        expected = [0]
        weighted.underlying(expected, *positional, **named)
        assert stream.numpy(out).tolist() == expected


@device.kernel
def positional_only(out, a, /, b):
    out[0] = a * 10 + b


@pytest.mark.parametrize(
    "kernel, positional, named, reason",
    [
        (weighted, (1,), {}, "'d'"),
        (weighted, (), {"d": 1}, "'a'"),
        (weighted, (1, 2, 3), {"d": 1}, "3 arguments, not 4"),
        (weighted, (1,), {"d": 1, "e": 2}, "'e'"),
        (weighted, (1,), {"d": 1, "a": 2}, "'a'"),
        (positional_only, (), {"a": 1, "b": 2}, "'a'"),
        (positional_only, (), {}, "'a'"),
        (positional_only, (1, 2, 3), {}, "3 arguments, not 4"),
    ],
)
def test_wrong_arguments_are_refused(stream, kernel, positional, named, reason):
    out = stream.empty(1, np.int32)
    with pytest.raises(device.LaunchError) as caught:
        launch_once(stream, kernel, out, *positional, **named)
    # As Python says of a call that does not fit.
    assert reason in str(caught.value) and isinstance(caught.value, ValueError) and isinstance(caught.value, TypeError)
    assert stream.numpy(out).tolist() == [POISON]


@pytest.mark.parametrize("name", ["grid", "block", "stream", "shared"])
def test_a_parameter_with_a_name_of_launch_is_refused(name):
    for text in (f"def kernel({name}): pass", f"def kernel(x, *, {name}=1): pass"):
        namespace = {}
        exec(text, namespace)
        with pytest.raises(TypeError, match=name):
            device.kernel(namespace["kernel"])


# Values


@device.kernel
def nothing(x):
    pass


def dtype_of(value):
    return np.dtype({bool: bool, int: np.int32, float: np.float32}.get(type(value)) or type(value))


@device.kernel
def store(value, out):
    out[0] = value


@pytest.mark.parametrize(
    "value",
    [
        True, False, 0, 1, -1, 2**31 - 1, -(2**31), 0.1, -0.0, math.inf, -math.inf, math.nan, 1e-45, 1e38, 1e300, -1e300,
        np.bool_(True), np.bool_(False), np.int8(-128), np.uint8(255), np.int16(-30000), np.uint16(65535), np.int32(-(2**31)),
        np.uint32(2**32 - 1), np.int64(-(2**63)), np.uint64(2**64 - 1), np.float16(0.1), np.float16(-0.0), np.float32(0.1),
        np.float32(1e-45), np.float64(0.1), np.float64(5e-324), np.float64(1.7e308), np.float64(math.nan), np.longlong(7),
    ],
    ids=lambda value: f"{type(value).__name__} {value}",
)  # fmt: skip
def test_numbers(stream, value):
    dtype = dtype_of(value)
    out = stream.empty(1, dtype)
    launch_once(stream, store, value, out)
    with np.errstate(over="ignore"):
        expected = np.array([value], dtype)
    assert stream.numpy(out).tobytes() == expected.tobytes() or math.isnan(value)
    assert math.isnan(value) == math.isnan(stream.numpy(out)[0])


def test_a_number_that_overflows_leaves_the_others_alone(stream):
    @device.kernel
    def kernel(a, b, c, d, e, out):
        out[0], out[1], out[2], out[3], out[4] = a, b, c, d, e

    out = stream.empty(5, np.float64)
    launch_once(
        stream, kernel, 1e300, np.float64(0.1), np.float32(0.1), np.float16(0.1), (0.1, np.float64(1 / 3))[1], out
    )
    tenth = [0.1, float(np.float32(0.1)), float(np.float16(0.1)), 1 / 3]
    assert stream.numpy(out).tolist() == [math.inf, *tenth]


@pytest.mark.parametrize(
    "value, name",
    [
        (2**31, "int64"), (-(2**31) - 1, "int64"), (2**63 - 1, "int64"), (-(2**63), "int64"), (2**63, "uint64"),
        (2**64 - 1, "uint64"), (2**64, ""), (-(2**63) - 1, ""), (10**30, ""),
    ],
)  # fmt: skip
def test_an_int_beyond_32_bits_is_refused(stream, value, name):
    for argument in (value, (1, (value, 2))):
        with pytest.raises(device.LaunchError) as caught:
            launch_once(stream, nothing, argument)
        text = str(caught.value)
        assert "'x" in text and str(value) in text
        assert f"{name}({value})" in text if name else "int64" not in text


def test_numbers_of_derived_classes(stream):
    class Colour(enum.IntEnum):
        RED = 5

    class Metres(float):
        pass

    @device.kernel
    def kernel(a, b, out):
        out[0] = a * 2
        out[1] = b / 2

    out = stream.empty(2, np.float32)
    launch_once(stream, kernel, Colour.RED, Metres(2.5), out)
    assert stream.numpy(out).tolist() == [10, 1.25]


def test_tuples_and_none(stream):
    @device.kernel
    def kernel(t, none, empty, deep, out):
        x, (n, y), flag = t
        out[0] = x[1] + n + y[0]
        out[1] = flag
        out[2] = none is None
        out[3] = len(empty) + len(t) + len(t[1])
        out[4] = deep[0][0][0][0] + deep[0][1]
        y[0] = 50

    x, y = stream.array(np.array([1, 2], np.int16)), stream.array(np.array([0.5], np.float64))
    out = stream.empty(5, np.float64)
    launch_once(stream, kernel, (x, (np.int64(2**40), y), True), None, (), ((((7,),), 2.5),), out)
    assert stream.numpy(out).tolist() == [2 + 2**40 + 0.5, 1, 1, 5, 9.5]
    assert stream.numpy(y).tolist() == [50]


def test_many_parameters_of_mixed_sizes(stream):
    types = [np.int8, np.float64, bool, np.int16, np.uint64, np.float16, np.uint8, np.int32, np.float32, float, int]
    values = [types[n % len(types)](n % 2 if types[n % len(types)] is bool else n + 1) for n in range(60)]
    names = [f"p{n}" for n in range(60)]
    lines = [f"def kernel(out, {', '.join(names)}):", *(f"    out[{n}] = {name}" for n, name in enumerate(names))]
    namespace = {}
    exec("\n".join(lines), namespace)
    out = stream.empty(60, np.float64)
    launch_once(stream, device.kernel(namespace["kernel"]), out, *values)
    assert stream.numpy(out).tolist() == [float(value) for value in values]


@pytest.mark.parametrize(
    "value",
    [[1, 2], {1: 2}, {1}, "text", b"bytes", object(), np.clongdouble(1), math.sin, range(3), np.int32, Ellipsis,
     np.datetime64("2020"), np.longdouble(1), (1, [2])],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_device_code_cannot_take_is_refused(stream, value):
    with pytest.raises(device.LaunchError, match="'x"):
        launch_once(stream, nothing, value)


@device.kernel
def of_hints(
    x: device.ArrayType(device.float32, 1),
    y: "device.ArrayType(np.int32, 2)" = None,
    n: Annotated[int, "how many"] = 3,
    z: Annotated[Any, device.ArrayType(device.float32, 1)] = None,
):
    x[0] = n


def test_arrays_are_what_their_hints_say(stream):
    line, table = stream.array(np.zeros(4, np.float32)), stream.array(np.zeros((2, 3), np.int32))
    for arguments in ((line,), (line, table), (line, None, 2, line)):
        launch_once(stream, of_hints, *arguments)
    assert stream.numpy(line)[0] == 2
    assert device.compile(of_hints, output="ir").code == device.compile(
        of_hints, device.ArrayType(device.float32, 1), device.ArrayType(device.int32, 2), int,
        device.ArrayType(device.float32, 1), output="ir"
    ).code  # fmt: skip
    for arguments, name in [
        ((stream.array(np.zeros(4)),), "x"), ((table,), "x"), ((2,), "x"), ((line, line), "y"), ((line, table, 1, table), "z"),
    ]:  # fmt: skip
        with pytest.raises(device.LaunchError, match=f"'{name}' is of type .*the parameter's type hint is array<"):
            launch_once(stream, of_hints, *arguments)


@device.kernel
def of_a_read_only_hint(x: device.ArrayType(device.float32, 1, readonly=True), out, stores: device.ConstExpr[bool]):
    out[0] = x[1]
    if stores:
        x[0] = 1


def test_a_hint_makes_an_array_read_only(stream):
    x, out = (stream.array(np.arange(3, dtype=np.float32)) for _ in range(2))
    launch_once(stream, of_a_read_only_hint, x, out, False)
    assert stream.numpy(out)[0] == 1
    with pytest.raises(device.CompileError, match="the array is read-only"):
        launch_once(stream, of_a_read_only_hint, x, out, True)
    ahead = np.zeros(3, np.float32)
    with pytest.raises(device.CompileError, match="the array is read-only"):
        device.compile(of_a_read_only_hint, ahead, ahead, True)


@device.kernel
def of_numbers(
    out,
    a: int = 1,
    b: device.int64 = 2,
    c: "device.float64" = 3,
    d: Annotated[np.uint8, "small"] = 4,
    e: np.dtype("f2") = 5.5,
    f: float = None,  # noqa: RUF013
    g: complex = 6,
):
    out[0] = a + b + d
    out[1] = c
    out[2] = e + g.real


OF_NUMBERS = "int, int64, float64, uint8, float16, None, complex"


def test_numbers_become_what_their_hints_say(stream):
    """Python's are of any width, so that none is lost on the way; all ways to launch agree, and so does `compile`."""
    out, kernel = stream.array(np.zeros(3, np.float64)), device.kernel(of_numbers.underlying)
    for arguments, expected in [
        ((), [7, 3, 11.5]),
        ((True, 5_000_000_000, 0.1, 255, 2, None, 1.5), [5_000_000_256, 0.1, 3.5]),
        ((np.int32(-7), np.int64(1 << 40), np.float64(1e300)), [(1 << 40) - 3, 1e300, 11.5]),
    ]:
        launch_once(stream, kernel, out, *arguments)
        assert stream.numpy(out).tolist() == expected
        stream.numpy(out)[...] = 0
        step = device.prepare(kernel, out, *arguments, grid=1, block=1, stream=stream.stream)
        step()
        assert stream.numpy(out).tolist() == expected
        step(c=7)
        assert stream.numpy(out).tolist() == [expected[0], 7, expected[2]]
    assert len(kernel.variants) == 1 and OF_NUMBERS in repr(kernel).replace("none", "None")
    launch_once(stream, kernel, out, f=1e300)
    assert len(kernel.variants) == 2


def test_compile_takes_numbers_as_their_hints_say():
    out = device.ArrayType(device.float64, 1)
    by_types = device.compile(of_numbers, out, int, int, float, int, float, None, int, output="ir").code
    by_values = device.compile(of_numbers, out, True, 5_000_000_000, 2, 255, 1, None, 1.5, output="ir").code
    of_their_own = device.compile(
        of_numbers, out, np.int32, np.int64, np.float64, np.uint8, np.float16, None, device.complex64, output="ir"
    ).code
    assert by_types == by_values == of_their_own


@device.kernel
def of_builtins(out, a: int, b: float, c: complex):
    out[0] = a + 1
    out[1] = b / 3
    out[2] = c.real / 3


def test_numbers_of_numpy_keep_their_type_where_a_hint_says_no_format(stream):
    out = stream.array(np.zeros(3, np.float64))
    for given, expected in [
        ((np.int64(1 << 40), np.float64(1), np.complex128(1)), [(1 << 40) + 1, 1 / 3, 1 / 3]),
        ((np.uint8(255), np.float32(1), np.float64(1)), [0, np.float32(1) / np.float32(3), 1 / 3]),
        (
            (np.bool_(True), np.int8(1), np.float16(1)),
            [2, np.float32(1) / np.float32(3), np.float16(1) / np.float16(3)],
        ),
    ]:
        for _ in range(20):  # at last by machine code
            launch_once(stream, of_builtins, out, *given)
            assert stream.numpy(out).tolist() == expected
        types = device.compile(of_builtins, device.ArrayType(device.float64, 1), *map(type, given), output="ir").code
        values = device.compile(of_builtins, device.ArrayType(device.float64, 1), *given, output="ir").code
        assert types == values


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("a", 2.5, r"is 2.5, but the parameter's type hint is int\n  help: write int\(…\)"),
        ("a", np.float32(3), r"is np.float32\(3.0\), but the parameter's type hint is int\n  help: write int"),
        ("a", 1 << 31, "a Python int is 32 bits wide"),
        ("b", np.int32(3), r"the parameter's type hint is int64\n  help: write int64"),
        ("b", 1 << 63, "which does not fit the parameter's type hint int64"),
        ("c", np.float32(3), "the parameter's type hint is float64"),
        ("c", 1j, "the parameter's type hint is float64"),
        ("d", -1, "which does not fit the parameter's type hint uint8"),
        ("e", np.str_("x"), "the parameter's type hint is float16"),
        ("f", np.complex64(3), r"the parameter's type hint is float\n  help: write float"),
        ("f", (1.5,), "is of type tuple, but the parameter's type hint is float"),
        ("f", np.zeros(3), "is of type .*, but the parameter's type hint is float"),
        ("g", "x", "is of type str, but the parameter's type hint is complex"),
    ],
    ids=str,
)
def test_numbers_that_hints_do_not_say_are_refused(stream, name, value, message):
    out = stream.array(np.zeros(3, np.float64))
    if isinstance(value, np.ndarray):
        value = stream.array(value)
    else:
        names = inspect.signature(of_numbers.underlying).parameters
        given = [device.ArrayType(device.float64, 1), *([None] * (list(names).index(name) - 1)), value]
        with pytest.raises(device.LaunchError, match=f"'{name}'.*{message}"):
            device.compile(of_numbers, *given, output="ir")
    for start in (
        partial(launch_once, stream, of_numbers, out),
        partial(device.prepare, of_numbers, out, grid=1, block=1, stream=stream.stream),
        device.prepare(of_numbers, out, grid=1, block=1, stream=stream.stream),
    ):
        with pytest.raises(device.LaunchError, match=message):
            start(**{name: value})
    assert not stream.numpy(out).any()


@pytest.mark.parametrize(
    "hint, written", [("float32[:]", "ArrayType(float32, 1)"), ("'int8[:, ::1]'", "ArrayType(int8, 2)")]
)
def test_hints_in_the_notation_of_numba_are_refused(stream, hint, written):
    def plain(x):
        x[0] = 1

    plain.__annotations__ = {"x": hint}
    with pytest.raises(device.LaunchError, match=f"hint of the parameter 'x'.*\\n  help: write {re.escape(written)}$"):
        launch_once(stream, device.kernel(plain), stream.array(np.zeros(1)))
    with pytest.raises(TypeError, match="hint of the parameter 'x'"):
        device.compile(device.kernel(plain), np.zeros(1))


def test_arguments_that_hints_do_not_say_are_refused_by_compile():
    with pytest.raises(TypeError, match="'a' is of type float64, but the parameter's type hint is int"):
        device.compile(of_numbers, device.ArrayType(device.float64, 1), np.float64)
    with pytest.raises(TypeError, match="'x' is of type array<float64, 1, C>, but the parameter's type hint is array<"):
        device.compile(of_hints, np.zeros(3))


@pytest.mark.skipif(sys.version_info < (3, 14), reason="hints are read when they are asked for since CPython 3.14")
def test_hints_may_name_what_only_type_checkers_know(stream):
    names = {"device": device}
    exec("def kernel(x: Matrix, n: device.ConstExpr[int], m: device.float64): x[0] = n + m", names)
    x, kernel = stream.array(np.zeros(1)), device.kernel(names["kernel"])
    launch_once(stream, kernel, x, 3, 0.1)
    assert stream.numpy(x).tolist() == [3.1]
    assert "float64" in repr(kernel)


def test_functions_and_types_are_constants(stream):
    @device.func
    def doubled(x):
        return x * 2

    for value in (doubled, lambda x: x, math.sin, np.float32):
        with pytest.raises(
            device.LaunchError, match=r"'x' is of type .*\n  help: give the parameter the type hint ConstExpr"
        ):
            launch_once(stream, nothing, value)


# What may be launched, and where


def test_only_kernels_are_launched(stream):
    @device.func
    def function(x):
        return x

    for f in (function, lambda x: None, 5, None, nothing.underlying):
        with pytest.raises(device.LaunchError, match="kernel") as caught:
            device.launch(f, 1, grid=1, block=1, stream=stream.stream)
        assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("shared", [-1, 1.5, "8", None, True, 2**31, 10**9, 228 * 1024])
def test_shared_memory_that_no_block_has_is_refused(stream, shared):
    with pytest.raises(device.LaunchError, match="shared"):
        stream.launch(nothing, 1, grid=1, block=1, shared=shared)


def test_shared_memory_that_a_kernel_does_not_use(stream):
    out = stream.empty(1, np.int32)
    for shared in (0, 1, 1000, 48 * 1024, np.int64(16)):
        stream.launch(store, 5, out, grid=1, block=1, shared=shared)
        assert stream.numpy(out).tolist() == [5]


def test_the_default_stream(stream):
    if stream.kind == "cpu" and not isinstance(device.default_stream(), device.CpuStream):
        pytest.skip("the default stream is a GPU's")
    out = stream.empty(2, np.int32)
    device.launch(store, 6, out, grid=1, block=1)
    device.synchronize()
    assert stream.numpy(out)[0] == 6
    device.launch(store, 7, out, grid=1, block=1, stream=None)
    device.synchronize(None)
    assert stream.numpy(out)[0] == 7


def test_a_kernel_may_return_early(stream):
    @device.kernel
    def kernel(x):
        i = device.tid(1)
        if i >= 3:
            return
        if i == 1:
            return None
        x[i] = i

    x = stream.empty(5, np.int32)
    stream.launch(kernel, x, grid=1, block=8)
    assert stream.numpy(x).tolist() == [0, POISON, 2, POISON, POISON]


def test_a_kernel_is_neither_called_nor_indexed():
    for arguments in ((1,), ()):
        with pytest.raises(device.DeviceOnlyError, match="launch"):
            nothing(*arguments)
    with pytest.raises(TypeError, match=r"launch\(nothing, …, grid=…, block=…\)"):
        nothing[1, 32]


@pytest.mark.parametrize(
    "use",
    [
        lambda: device.tid(1), lambda: device.grid_size(2), lambda: device.syncthreads(),
        lambda: device.shared_array(4, device.int32), lambda: device.thread_idx.x, lambda: device.block_idx.y + 1,
        lambda: device.block_dim + 1, lambda: device.grid_dim[0], lambda: int(device.thread_idx), lambda: len(device.block_dim),
        lambda: list(device.grid_dim), lambda: bool(device.thread_idx), lambda: 2 * device.block_dim,
        lambda: device.thread_idx < 3, lambda: -device.lane_id, lambda: device.lane_id == 1, lambda: 1 != device.lane_id,
        lambda: device.lane_id**2, lambda: 2 << device.lane_id, lambda: device.lane_id & 1, lambda: divmod(7, device.lane_id),
        lambda: device.thread_idx(), lambda: device.thread_idx @ device.thread_idx, lambda: round(device.lane_id),
        lambda: float(device.lane_id), lambda: 3 in device.block_dim, lambda: f"{device.lane_id:d}",
        lambda: setattr(device.thread_idx, "x", 1), lambda: delattr(device.thread_idx, "x"),
        lambda: device.thread_idx.__setitem__(0, 1), lambda: np.int32(1) + device.lane_id,
    ],
)  # fmt: skip
def test_device_only_names_on_the_host(use):
    with pytest.raises(device.DeviceOnlyError):
        use()
    assert issubclass(device.DeviceOnlyError, device.Error)

    @device.func
    def function():
        return use()

    with pytest.raises(device.DeviceOnlyError):
        function()


def test_device_only_values_print_copy_and_pickle():
    for value in (device.thread_idx, device.lane_id):
        assert repr(value) == str(value) == f"{value}" == f"<device value {value._name}>"
        assert copy.deepcopy(value) is value and pickle.loads(pickle.dumps(value)) is value
        assert value == value and not value != value and {value: 1}[value] == 1
    assert not hasattr(device.lane_id, "_repr_html_")


# Variants


def test_a_kernel_is_compiled_once_for_each_types(stream, monkeypatch):
    compiled = []
    run = compiler.run

    def count(job, *rest):
        if job.target.on_cpu == (stream.kind == "cpu"):  # not what CUDA_DEVICE_TEST_CUBINS assembles beside it
            compiled.append(job)
        return run(job, *rest)

    monkeypatch.setattr(compiler, "run", count)

    @device.kernel
    def kernel(x, n):
        x[0] = x[0] + n

    x, y = stream.array(np.zeros(5, np.int32)), stream.array(np.zeros((2, 2), np.float64)[0])
    for n in range(10):
        launch_once(stream, kernel, x, n)
    assert len(compiled) == 1
    launch_once(stream, kernel, x, 1.5)
    launch_once(stream, kernel, x, np.int32(1))
    launch_once(stream, kernel, y, 1)
    assert len(compiled) == 4
    for argument in (x, y):
        for n in (5, 2.5, np.int32(7)):
            launch_once(stream, kernel, argument, n)
    assert len(compiled) == 6
    assert stream.numpy(x)[0] == sum(range(10)) + 1 + 1 + 5 + 2 + 7


def test_a_launch_after_an_error_works(stream):
    @device.kernel
    def kernel(x, n):
        x[0] = n + 1

    x = stream.empty(1, np.int32)
    for _ in range(2):
        with pytest.raises(device.CompileError):
            launch_once(stream, kernel, x, None)
        with pytest.raises(device.LaunchError):
            launch_once(stream, kernel, x, [])
        launch_once(stream, kernel, x, 4)
        assert stream.numpy(x).tolist() == [5]


# Threads of the host


def test_many_threads_launch_one_kernel(stream):
    @device.kernel
    def kernel(x, n, out):
        cells = device.shared_array(64, x.dtype)
        t = device.thread_idx.x
        cells[t] = x[t] * n
        device.syncthreads()
        out[device.tid(1)] = cells[63 - t]

    types = [np.int32, np.float32, np.int64, np.float64]

    def work(n):
        dtype = types[n % 4]
        x = stream.array(np.arange(64, dtype=dtype))
        for k in range(20):
            out = stream.empty(64 * 3, dtype)
            stream.launch(kernel, x, n * 100 + k, out, grid=3, block=64)
            assert stream.numpy(out).tolist() == [(63 - t) * (n * 100 + k) for t in range(64)] * 3

    at_once(partial(work, number) for number in range(8))


def test_many_threads_compile_at_once(stream):
    spaces = []
    for n in range(8):
        namespace = {"device": device}
        exec(f"@device.kernel\ndef kernel(x):\n    for i in range(len(x)):\n        x[i] = x[i] * {n} + i", namespace)
        spaces.append(namespace)

    def work(n):
        for m in range(8):
            kernel = spaces[(n + m) % 8]["kernel"]
            x = stream.array(np.arange(5, dtype=np.int32))
            launch_once(stream, kernel, x)
            assert stream.numpy(x).tolist() == [i * ((n + m) % 8) + i for i in range(5)]

    at_once(partial(work, number) for number in range(8))


def test_threads_may_fail_alone(stream):
    @device.kernel
    def kernel(x, n):
        x[0] = n + 1

    def work(n):
        x = stream.empty(1, np.int32)
        for k in range(10):
            if n % 2:
                with pytest.raises(device.CompileError):
                    launch_once(stream, kernel, x, None)
            else:
                launch_once(stream, kernel, x, k)
                assert stream.numpy(x).tolist() == [k + 1]

    at_once(partial(work, number) for number in range(6))


# compile


@device.kernel
def saxpy(a, x, y, out):
    i = device.tid(1)
    if i < len(out):
        out[i] = a * x[i] + y[i]


@device.func
def squared(x, scale=2.5):
    return x * x * scale


VECTOR = device.ArrayType(device.float32, 1)


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_120"])
def test_compile_for_every_output(target):
    for output, sign in [("ir", "func @saxpy"), ("llvm", "define"), ("ptx", ".entry saxpy"), ("cubin", b"\x7fELF")]:
        result = device.compile(saxpy, float, VECTOR, VECTOR, VECTOR, target=target, output=output)
        assert sign in result.code and type(result.code) is type(sign)
        assert (result.symbol, result.target, result.output) == ("saxpy", target, output)
        assert str(result) == result.code if output != "cubin" else "saxpy" in str(result) and target in str(result)
    assert f".target {target}" in str(device.compile(saxpy, float, VECTOR, VECTOR, VECTOR, target=target, output="ptx"))
    unless_told = device.compile(saxpy, 1.5, VECTOR, VECTOR, VECTOR)
    assert unless_told.output == "cubin" and unless_told.target == "sm_90"


def test_compile_takes_types_and_examples():
    x = np.zeros(4, np.float32)

    def head(*arguments):
        return re.search(r"\((.*)\):", str(device.compile(saxpy, *arguments, output="ir"))).group(1)

    expected = head(float, VECTOR, VECTOR, VECTOR)
    assert "float" in expected and expected.count("array<float32, 1, C>") == 3
    assert head(2.5, x, VECTOR, x) == expected
    assert head(np.float32(2.5), x, x, x) == head(device.float32, x, x, x) != expected
    assert "int32" in head(np.int32, x, x, x) and "int64" in head(np.int64(5), x, x, x)
    assert "strided" in head(1, np.zeros(8, np.float32)[::2], x, x)
    for matrix in (np.asfortranarray(np.zeros((2, 3))), device.ArrayType(np.float64, 2, "F")):
        assert "array<float64, 2, F>" in str(device.compile(nothing, matrix, output="ir"))
    assert "readonly" in head(1, device.ArrayType(device.float32, 1, readonly=True), x, x)


def test_compile_takes_tuples_and_none():
    @device.kernel
    def kernel(t, none, out):
        out[0] = t[0] + t[1][0] if none is None else 0

    for t in ((1, (np.float32(2),)), tuple[int, tuple[device.float32]]):
        for none in (None, type(None)):
            text = str(device.compile(kernel, t, none, VECTOR, output="ir"))
            assert "tuple<int, tuple<float32>>" in text


def test_compile_takes_the_types_of_hints():
    @device.kernel
    def hinted(x: device.ArrayType(np.float32, 1), n: "device.int64", text: [int, float], f: np.dtype("f2") = 2):
        x[0] = n * f * text

    text = str(device.compile(hinted, device.ArrayType(np.float32, 1), np.int64, 3, np.float16, output="ir"))
    assert str(device.compile(hinted, np.zeros(3, np.float32), np.int64(2), 3, output="ir")) == text
    with pytest.raises(TypeError, match="takes 4 arguments, not 0"):
        device.compile(hinted)

    @device.func(interop=True)
    def diff(a: float, b: float) -> float:
        return abs(a - b)

    assert device.compile(diff, output="ptx").code == device.compile(diff, float, float, output="ptx").code


def test_compile_of_a_func():
    for output, sign in [("ir", "func @squared"), ("llvm", "define"), ("ptx", ".func"), ("cubin", b"\x7fELF")]:
        assert sign in device.compile(squared, device.float32, output=output).code
    text = str(device.compile(squared, device.float64, 3, output="ir"))
    assert " -> float64 typed" in text and "%scale" in text
    assert "%scale" in str(device.compile(squared, device.float64, output="ir"))


def test_compile_takes_defaults():
    @device.kernel
    def kernel(out, n=3, *, m=2.5):
        out[0] = n + m

    for arguments in ((VECTOR,), (VECTOR, 4), (VECTOR, int)):
        assert "%m" in str(device.compile(kernel, *arguments, output="ir"))
    with pytest.raises(TypeError, match="argument"):
        device.compile(kernel)
    with pytest.raises(TypeError, match="argument"):
        device.compile(kernel, VECTOR, 1, 2, 3)


@pytest.mark.parametrize(
    "refused, error",
    [
        (lambda: device.compile(nothing, VECTOR, output="exe"), ValueError),
        (lambda: device.compile(nothing, VECTOR, output=None), ValueError),
        (lambda: device.compile(nothing, VECTOR, target="sm_12"), ValueError),
        pytest.param(lambda: device.compile(nothing, VECTOR, target="cpu"), ValueError, marks=pytest.mark.needs("cpu")),
        (lambda: device.compile(nothing, VECTOR, target=90), ValueError),
        (lambda: device.compile(nothing, VECTOR, fast=True), TypeError),
        (lambda: device.compile(nothing, VECTOR, level=9), (TypeError, ValueError)),
        (lambda: device.compile(nothing), TypeError),
        (lambda: device.compile(nothing, VECTOR, 1), TypeError),
        (lambda: device.compile(nothing, [1, 2]), device.LaunchError),
        *((lambda kind=kind: device.compile(nothing, kind), TypeError) for kind in (bytes, str)),
        (lambda: device.compile(nothing, 2**40), device.LaunchError),
        *(
            (lambda dtype=dtype: device.ArrayType(dtype, 1), TypeError)
            for dtype in (str, object, "nothing", None, np.clongdouble)
        ),
    ],
)
def test_compile_refuses(refused, error):
    with pytest.raises(error):
        refused()


def test_compile_says_what_it_takes():
    for function in (lambda x: x, 5, nothing.underlying):
        with pytest.raises(TypeError, match="@kernel"):
            device.compile(function, VECTOR)
    for arguments in ((device.float32, -1), (device.float32, 1, "K"), (device.float32, 1.5), (device.float32, True)):
        with pytest.raises(ValueError, match="ndim|layout"):
            device.ArrayType(*arguments)


def test_the_level_of_optimisation():
    @device.kernel
    def kernel(out):
        total = 0
        for i in range(10):
            total += i
        out[0] = total

    low, high = (str(device.compile(kernel, VECTOR, output="ptx", level=level)) for level in (0, 3))
    assert "bra" in low and "bra" not in high  # the loop is gone


def test_names_in_other_alphabets_and_odd_ones():
    for name in ("größe", "核", "x1__", "_"):
        namespace = {}
        exec(f"def {name}(π): π[0] = 1", namespace)
        result = device.compile(device.kernel(namespace[name]), VECTOR, output="ptx")
        assert f".entry {result.symbol}(" in result.code and result.symbol.isascii()
        assert device.compile(device.kernel(namespace[name]), VECTOR).code.startswith(b"\x7fELF")
    assert device.compile(device.kernel(lambda x: None), VECTOR, output="ptx").symbol.isidentifier()


@device.kernel
def copied(x, y):
    i = device.tid(1)
    if i < len(x):
        y[i] = x[i]


def test_arrays_of_one_dtype_that_differ_otherwise(stream):
    base = np.arange(24, dtype=np.float32)
    unaligned = np.frombuffer(b"\0" + base.tobytes(), np.uint8)[1:].view(np.float32)
    readonly = base.copy()
    readonly.flags.writeable = False
    swapped = base.reshape(4, 6).T
    for _ in range(2):
        for source in (base, base[::2], base[::-1], unaligned, readonly, base[:0], swapped[0], swapped[:, 1]):
            result = stream.empty(len(source) or 1)
            stream.launch(copied, stream.array(source) if stream.kind == "gpu" else source, result, grid=1, block=32)
            if len(source):
                assert stream.numpy(result).tolist() == source.tolist()
        with pytest.raises(device.CompileError, match="read-only|readonly"):
            device.launch(copied, base, readonly, grid=1, block=32, stream=device.cpu_stream())


def test_sizes_that_are_equal_to_good_ones(stream):
    out = stream.empty(1)
    for good in (1, (1,), [1, 1], np.int64(1), device.Dim3(1, 1, 1)):
        stream.launch(copied, out, out, grid=good, block=good)
    for bad in (1.0, (1.0,), "1", None, True, (1, True)):
        for size in ({"grid": bad, "block": 1}, {"grid": 1, "block": bad}):
            with pytest.raises(device.LaunchError, match=r"grid=|block="):
                stream.launch(copied, out, out, **size)


def test_positions_have_room_in_an_int32():
    """A launch of 2**31 threads along x is refused if the kernel counts them in 32 bits, and is none of our business if not."""
    kernels = [
        (lambda out: print(device.tid(1)), True),
        (lambda out: print(device.tid(3)[0]), True),
        (lambda out: print(device.grid_size(2)[0]), True),
        (lambda out: print(device.block_idx.x * device.block_dim.x), False),
    ]
    out = np.zeros(1, np.uint32)
    for function, refused in kernels:
        kernel = device.kernel(function)
        for shape in ({"grid": 2**31 - 1, "block": 2}, {"grid": (2**21, 1), "block": (1024, 1)}):
            if not refused:
                device.prepare(kernel, out, **shape, stream=device.cpu_stream())
                continue
            for start in (device.launch, device.prepare):
                with pytest.raises(device.LaunchError, match=r"threads along x(.|\n)*in steps of grid_size\(1\)"):
                    start(kernel, out, **shape, stream=device.cpu_stream())
        device.launch(kernel, out, grid=1, block=1, stream=device.cpu_stream())
