"""Functions: calls, defaults, recursion, results, constant parameters, functions as values, rebinding, pickling."""

import math
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from ir_helpers import refusal

import cuda_device as device


def result_type(function, *arguments):
    return str(device.compile(function, *arguments, output="ir")).split(" -> ")[1].split(" typed")[0]


def launch_once(stream, kernel, *arguments):
    stream.launch(kernel, *arguments, grid=1, block=1)


# Arguments


@device.func
def weighted(a, b=2, *, c=3.5, d):
    """Has defaults and keyword-only parameters."""
    return a * 1000 + b * 100 + c * 10 + d


def positional(a, b, /, c=7):
    return a * 100 + b * 10 + c


@device.kernel
def calls(x, out):
    out[0] = weighted(x[0], d=1)
    out[1] = weighted(x[0], 4, d=2)
    out[2] = weighted(d=3, a=x[0], c=5)
    out[3] = weighted(x[0], c=x[1], b=x[2], d=4)
    out[4] = positional(x[0], x[1])
    out[5] = positional(x[0], x[1], x[2])
    out[6] = positional(x[0], x[1], c=0)


def test_defaults_keywords_and_keyword_only_parameters(stream):
    x = np.array([1, 2, 3], np.int32)
    out = stream.empty(7, np.float64)
    launch_once(stream, calls, stream.array(x), out)
    expected = np.zeros(7)
    calls.underlying(x, expected)
    assert stream.numpy(out).tolist() == expected.tolist()


def test_defaults_of_every_kind(stream):
    typed = np.int64(5_000_000_000)

    def helper(x, none=None, pair=(1, 2.5), wide=typed, function=abs, flag=False, name="scale", infinite=math.inf):
        result = pair[0] + pair[1] if none is None else 0
        result += function(x) + (1000 if flag else 1)
        if name == "scale":
            result *= 2
        return result + wide, x < infinite

    @device.kernel
    def kernel(x, out):
        out[0], out[1] = helper(x[0])
        out[2], out[3] = helper(x[0], flag=True, name="other", pair=(0, 0))

    out = stream.empty(4, np.float64)
    launch_once(stream, kernel, stream.array(np.array([-2], np.int64)), out)
    expected = [*helper(-2), *helper(-2, flag=True, name="other", pair=(0, 0))]
    assert stream.numpy(out).tolist() == [float(v) for v in expected]


@pytest.mark.parametrize(
    "call, reason",
    [
        (lambda x: positional(x, b=x), "'b'"),
        (lambda x: math.sqrt(), "1"),
        (lambda x: device.tid(1, 2), "tid"),
        (lambda x: device.float32(1, 2), "float32"),
    ],
)
def test_wrong_arguments_are_refused(call, reason):
    @device.func
    def function(x):
        return call(x)

    error = refusal(function, device.float32)
    assert reason in error.reason
    assert error.location.file == __file__ and error.location.line == call.__code__.co_firstlineno


def test_arguments_are_computed_from_left_to_right(stream):
    def note(log, value):
        log[0] = log[0] * 10 + value
        return value

    def three(a, b, c):
        return a * 100 + b * 10 + c

    @device.kernel
    def kernel(log, out):
        out[0] = three(note(log, 1), c=note(log, 2), b=note(log, 3))
        out[1] = note(log, 4) + note(log, 5) * note(log, 6)
        out[note(log, 7)] = note(log, 8)  # the value first
        a, b = note(log, 9), note(log, 1)
        out[2] = a * 10 + b

    log, out = stream.array(np.zeros(1, np.int64)), stream.empty(8, np.int32)
    launch_once(stream, kernel, log, out)
    assert stream.numpy(log).tolist() == [1234568791]
    got = stream.numpy(out).tolist()
    assert got[:3] == [132, 34, 91] and got[7] == 8


# Recursion


def factorial(n):
    return n * factorial(n - 1) if n > 1 else 1


def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else is_even(n - 1)


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


def hanoi(n, start, end, other):
    """Moves, and a checksum of them: a tuple comes back."""
    if n == 0:
        return 0, 0
    a, x = hanoi(n - 1, start, other, end)
    b, y = hanoi(n - 1, other, end, start)
    return a + b + 1, (x * 3 + start * 7 + end + y) % 10007


def depth_sum(n):
    return 0 if n == 0 else n + depth_sum(n - 1)


def grows(n, x):
    """The result is an int at first, and a float in the end."""
    if n == 0:
        return 1
    return grows(n - 1, x) * x


def three_ways(n):
    if n <= 0:
        return 1
    if n % 3 == 0:
        return three_ways(n - 1) + two_ways(n - 2)
    return two_ways(n - 1)


def two_ways(n):
    return three_ways(n - 1) * 2 if n % 2 else three_ways(n - 2) + 1


def search(x, value, low, high):
    if low >= high:
        return -1
    middle = (low + high) // 2
    if x[middle] == value:
        return middle
    if x[middle] < value:
        return search(x, value, middle + 1, high)
    return search(x, value, low, middle)


def test_recursion(stream):
    @device.kernel
    def kernel(n, x, out):
        out[0] = factorial(n[0])
        out[1] = fibonacci(n[0])
        out[2] = is_even(n[0])
        out[3] = is_odd(n[0])
        out[4] = ackermann(2, n[0])
        out[5], out[6] = hanoi(n[0], 1, 2, 3)
        out[7] = depth_sum(n[0] * 100)
        out[8] = grows(n[0], 1.5)
        out[9] = three_ways(n[0])
        out[10] = search(x, n[0], 0, len(x))
        out[11] = factorial(5)
        out[12] = fibonacci(15)

    x = np.array([0, 2, 3, 5, 7, 11, 13], np.int32)
    for n in range(8):
        out = stream.empty(13, np.float64)
        launch_once(stream, kernel, stream.array(np.array([n], np.int32)), stream.array(x), out)
        expected = [
            factorial(n), fibonacci(n), is_even(n), is_odd(n), ackermann(2, n), *hanoi(n, 1, 2, 3), depth_sum(n * 100),
            grows(n, 1.5), three_ways(n), search(x, n, 0, len(x)), 120, 610,
        ]  # fmt: skip
        assert stream.numpy(out).tolist() == [float(v) for v in expected]


def test_the_type_of_a_recursive_result():
    @device.func
    def function(n, x):
        return factorial(n), grows(n, x), is_even(n), hanoi(n, 1, 2, 3)

    expected = "tuple<int64, float32, bool, tuple<int, int>>"
    assert result_type(function, device.int64, device.float32) == expected


# Results


# Constant parameters


def test_a_kernel_specialises_on_constant_parameters(stream):
    @device.kernel
    def kernel(out, n: device.ConstExpr, mode: device.ConstExpr, dtype: device.ConstExpr, sizes: device.ConstExpr):
        tile = device.shared_array(n, dtype)  # a shape must be a constant
        for i in range(n):
            tile[i] = 2.75
        out[0] = tile[n - 1]
        out[1] = len(tile) * 10 + len(sizes)
        if mode == "double":
            out[0] *= 2
        for size in sizes:
            out[1] += size

    for n, mode, dtype, sizes in [
        (4, "double", device.float32, (1, 2)), (5, "single", device.float32, ()), (4, "double", device.int32, (3,)),
        (4, "double", int, (3,)), (4, "single", device.float64, (1, 2)),
    ]:  # fmt: skip
        out = stream.empty(2, np.float32)
        launch_once(stream, kernel, out, n, mode, dtype, sizes)
        value = 2 if dtype in (int, device.int32) else 2.75
        assert stream.numpy(out).tolist() == [value * (2 if mode == "double" else 1), n * 10 + len(sizes) + sum(sizes)]


def test_constants_that_are_equal_but_not_the_same(stream):
    @device.kernel
    def kernel(out, value: device.ConstExpr):
        out[0] = value / 2
        out[1] = math.copysign(1.0, value)
        out[2] = (value + device.uint8(255)).dtype == device.float32
        out[3] = (value | True).dtype == bool if value.dtype != float else 5

    for value, expected in [
        (1, [0.5, 1, 0, 0]), (1.0, [0.5, 1, 1, 5]), (True, [0.5, 1, 0, 1]), (0.0, [0, 1, 1, 5]), (-0.0, [0, -1, 1, 5]),
        (np.int8(1), [0.5, 1, 0, 0]), (1, [0.5, 1, 0, 0]),
    ]:  # fmt: skip
        out = stream.empty(4, np.float32)
        launch_once(stream, kernel, out, value)
        assert stream.numpy(out).tolist() == expected, repr(value)


def test_a_constant_parameter_may_be_a_function_or_string_annotated(stream):
    namespace = {"device": device}
    exec(
        "from __future__ import annotations\n"
        "def kernel(x, out, function: device.ConstExpr, n: device.ConstExpr[int] = 3):\n"
        "    for i in range(n):\n"
        "        out[i] = function(x[0] + i)\n",
        namespace,
    )
    kernel = device.kernel(namespace["kernel"])
    for function in (math.sqrt, fibonacci, weighted_once, abs):
        out = stream.empty(3, np.float64)
        launch_once(stream, kernel, stream.array(np.array([4.0])), out, function)
        assert stream.numpy(out).tolist() == [float(function(4.0 + i)) for i in range(3)]


@device.func
def weighted_once(x):
    return weighted(x, d=0)


def test_a_constant_parameter_of_another_type_is_refused(stream):
    @device.kernel
    def kernel(out, n: device.ConstExpr[int]):
        out[0] = n

    with pytest.raises(device.Error, match="'n'"):
        launch_once(stream, kernel, stream.empty(1), 2.5)

    def helper(x, n: device.ConstExpr[int]):
        return x * n

    @device.func
    def function(x):
        return helper(x, 2.5)

    assert "'n'" in refusal(function, int).reason


def test_a_constant_parameter_by_another_name(stream):
    names = {"device": device, "Constant": device.ConstExpr, "Annotated": Annotated}
    for hint in (
        "Constant",
        "Constant[int]",
        "Annotated[Constant[int], 'a length']",
        "'Constant'",
        "'Annotated[Constant, 1]'",
    ):
        exec(f"@device.kernel\ndef kernel(out, n: {hint}): out[0] = device.local_array(n, device.int8).size", names)
        out = stream.empty(1)
        launch_once(stream, names["kernel"], out, 5)
        assert stream.numpy(out).tolist() == [5], hint


def test_a_constant_that_does_not_hash(stream):
    @device.kernel
    def kernel(out, n: device.ConstExpr):
        out[0] = 1

    for _ in range(2):
        out = stream.empty(1)
        launch_once(stream, kernel, out, [1, 2])
        assert stream.numpy(out).tolist() == [1]


# Functions as values


def twice(function, x):
    return function(function(x))


def test_functions_are_passed_kept_in_tuples_and_returned(stream):
    def increment(x):
        return x + 1

    def choose(which):
        return increment if which == "increment" else weighted_once

    operations = (increment, abs, math.sqrt, device.float32, weighted_once)

    @device.kernel
    def kernel(x, out):
        out[0] = twice(increment, x[0])
        out[1] = twice(math.sqrt, x[1])
        k = 2
        for operation in operations:
            out[k] = operation(x[1])
            k += 1
        out[7] = choose("increment")(x[0])
        out[8] = choose("other")(x[0])
        out[9] = operations[0](operations[-1](x[0]))
        f, g = operations[:1][0] if False else operations[0], operations[1]
        out[10] = g(f(x[0] - 10))
        table = Operations
        out[11] = table.double(x[0]) + table.triple(x[0])

    out = stream.empty(12, np.float64)
    launch_once(stream, kernel, stream.array(np.array([3.0, 16.0])), out)
    expected = [5, 2, 17, 16, 4, 16, weighted_once(16.0), 4, weighted_once(3.0), weighted_once(3.0) + 1, 6, 15]
    assert stream.numpy(out).tolist() == expected


class Operations:
    """A namespace of functions."""

    @staticmethod
    def double(x):
        return x * 2

    def triple(x):  # noqa: N805
        return x * 3


# On the host


def test_a_func_is_an_ordinary_function_on_the_host():
    assert weighted(1, d=2) == 1 * 1000 + 2 * 100 + 35.0 + 2
    assert weighted(2**40, c=0, d=0) == 2**40 * 1000 + 200  # Python's integers
    assert weighted.underlying(1, d=2) == weighted(1, d=2)
    assert weighted.__name__ == "weighted" and weighted.__doc__.startswith("Has defaults")
    with pytest.raises(TypeError):
        weighted()

    @device.func
    def adds(x):
        return x + np.uint8(1)

    assert adds(np.array([1, 2], np.uint8)).tolist() == [2, 3]


def test_a_func_as_a_method_on_the_host():
    class Counter:
        def __init__(self):
            self.n = 1

        @device.func
        def add(self, m):
            return self.n + m

    assert Counter().add(4) == 5


# Which function a kernel calls


def namespace_of(text):
    namespace = {"device": device, "math": math, "np": np}
    exec(textwrap.dedent(text), namespace)
    return namespace


def run(stream, kernel, dtype=np.float64):
    out = stream.empty(1, dtype)
    launch_once(stream, kernel, out)
    return stream.numpy(out).tolist()[0]


def test_each_closure_is_a_kernel_of_its_own(stream):
    def make(k, function):
        @device.kernel
        def kernel(out):
            out[0] = function(k)

        return kernel

    kernels = [make(k, function) for k in (2.0, 3.0) for function in (math.sqrt, factorial, lambda x: x * 100)]
    for _ in range(2):
        expected = [math.sqrt(2), 2, 200, math.sqrt(3), 6, 300]
        assert [run(stream, kernel) for kernel in kernels] == expected


def test_two_kernels_of_one_name_and_a_kernel_that_is_defined_again(stream):
    first, second = (namespace_of(f"@device.kernel\ndef kernel(out): out[0] = {n}") for n in (1, 2))
    assert [run(stream, space["kernel"]) for space in (first, second, first)] == [1, 2, 1]
    old = first["kernel"]
    exec("@device.kernel\ndef kernel(out): out[0] = 3", first)
    assert [run(stream, kernel) for kernel in (first["kernel"], old, second["kernel"])] == [3, 1, 2]


def test_functions_of_one_name_in_one_kernel(stream):
    spaces = [namespace_of(f"def helper(x): return x * {n}") for n in (2, 3, 5)]
    first, second, third = (space["helper"] for space in spaces)

    @device.kernel
    def kernel(out):
        x = out[0] * 0 + 1 if out[0] > 0 else device.float64(1)
        out[0] = first(x) + 10 * second(x) + 100 * third(first(x))

    assert run(stream, kernel) == 2 + 30 + 1000


def test_one_function_for_many_constants(stream):
    def scaled(x, k):
        return x * k + (1 if k > 20 else 0)

    lines = ["@device.kernel", "def kernel(out):", "    total = out[1]"]
    lines += [f"    total += scaled(out[1], {k})" for k in range(100)]
    space = namespace_of("\n".join([*lines, "    out[0] = total"]))
    space["scaled"] = scaled
    out = stream.array(np.array([0.0, 1.0]))
    launch_once(stream, space["kernel"], out)
    assert stream.numpy(out).tolist()[0] == 1 + sum(scaled(1, k) for k in range(100))


# Pickling


@device.kernel
def module_kernel(x, out):
    out[0] = helper_of_module(x[0]) + GLOBAL


@device.func
def helper_of_module(x):
    return x * 2


GLOBAL = 7


def test_kernels_and_funcs_of_a_module_can_be_pickled(stream):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        kernel = pickle.loads(pickle.dumps(module_kernel, protocol))
        out = stream.empty(1, np.int32)
        launch_once(stream, kernel, stream.array(np.array([4], np.int32)), out)
        assert stream.numpy(out).tolist() == [15]
        assert pickle.loads(pickle.dumps(helper_of_module, protocol))(4) == 8
        assert pickle.loads(pickle.dumps((module_kernel, helper_of_module)))[1](4) == 8


def plain_kernel(x, out):
    out[0] = WRAPPED_HELPER(x[0]) + GLOBAL


def plain_helper(x):
    return x * 3


WRAPPED_KERNEL = device.kernel(max_threads=32)(plain_kernel)
WRAPPED_HELPER = device.func(plain_helper)


def test_what_decorates_a_plain_function_of_a_module_can_be_pickled(stream):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        kernel = pickle.loads(pickle.dumps(WRAPPED_KERNEL, protocol))
        out = stream.empty(1, np.int32)
        launch_once(stream, kernel, stream.array(np.array([4], np.int32)), out)
        assert stream.numpy(out).tolist() == [19]
        assert (kernel.underlying, kernel.options) == (plain_kernel, WRAPPED_KERNEL.options)
        assert pickle.loads(pickle.dumps(WRAPPED_HELPER, protocol))(4) == 12


def run_python(program, *, stdin=None):
    tests = Path(__file__).parents[1]
    start = f"import sys; sys.path[:0] = [{str(tests.parent)!r}, {str(tests)!r}, {str(tests / 'language')!r}]\n"
    done = subprocess.run([sys.executable, "-c", start + program], input=stdin, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


LAUNCH = """
import pickle
import numpy as np
import cuda_device as device
kernel = pickle.loads(sys.stdin.buffer.read())
x, out = np.array([4], np.int32), np.full(1, -1, np.int32)
device.launch(kernel, x, out, grid=1, block=1, stream=device.cpu_stream())
print(out[0])
"""


@pytest.mark.needs("cpu")
def test_a_pickled_kernel_runs_in_another_process():
    assert run_python(LAUNCH, stdin=pickle.dumps(module_kernel)).strip() == "15"


@pytest.mark.needs("cpu")
def test_closures_can_be_pickled_by_cloudpickle():
    cloudpickle = pytest.importorskip("cloudpickle")
    scale = 5

    def helper(x):
        return x * scale

    @device.kernel
    def kernel(x, out):
        out[0] = helper(x[0]) + 1

    assert run_python(LAUNCH, stdin=cloudpickle.dumps(kernel)).strip() == "21"


MAIN = """
import pickle
import cloudpickle
import cuda_device as device
WEIGHT = 2

@device.struct
class Pair:
    a: int
    b: int = 3

    @device.func
    def total(self):
        return self.a + self.b

@device.func
def factorial(n):
    return 1 if n < 1 else n * factorial(n - 1)

@device.kernel
def kernel(x, out):
    out[0] = factorial(x[0]) + Pair(int(x[0])).total() * WEIGHT

assert pickle.loads(pickle.dumps(kernel)) is kernel
sys.stdout.write(cloudpickle.dumps(kernel).hex())
"""


@pytest.mark.needs("cpu")
def test_cloudpickle_takes_what_main_defines_along():
    pytest.importorskip("cloudpickle")
    assert run_python(LAUNCH, stdin=bytes.fromhex(run_python(MAIN))).strip() == "38"


# Decorators


def test_decorators_refuse_what_they_do_not_know():
    def function(x):
        return x

    for decorator in (device.func, device.kernel):
        with pytest.raises(TypeError, match="unknown"):
            decorator(unknown=True)
        with pytest.raises(TypeError, match="interop"):
            decorator(interop=3)
        with pytest.raises(TypeError):
            decorator(5)
        with pytest.raises(TypeError):
            decorator(math.sqrt)
        with pytest.raises(TypeError):
            decorator(device.func(function))
        with pytest.raises(TypeError):
            decorator(device.kernel(lambda x: None))
        assert decorator(function).underlying is function
        assert decorator()(function).underlying is function
        assert decorator(interop=False)(function).underlying is function


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8e4m3", "float8e5m2", "float32"])
def test_a_result_of_every_float_is_used_in_another_block(stream, name, level):
    def element(x, i):
        return x[i]

    @device.kernel(level=level)
    def kernel(x, ways, out):
        i = device.tid(1)
        value = element(x, i)
        if ways[i]:
            out[i] = value
        else:
            out[i] = device.float32(value) + 1

    ways = np.array([0, 1, 0, 1, 1, 0, 0, 1], np.int16)
    x, out = stream.array(np.full(8, 5, device.numpy_dtype(getattr(device, name)))), stream.empty(8)
    stream.launch(kernel, x, stream.array(ways), out, grid=1, block=8)
    assert stream.numpy(out).tolist() == [5 if way else 6 for way in ways]
