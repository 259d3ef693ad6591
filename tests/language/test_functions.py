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

import cuda_device as device


def launch_once(stream, kernel, *arguments):
    stream.launch(kernel, *arguments, grid=1, block=1)


# Arguments


@device.func
def weighted(a, b=2, *, c=3.5, d):
    """Has defaults and keyword-only parameters."""
    return a * 1000 + b * 100 + c * 10 + d


# Recursion


def factorial(n):
    return n * factorial(n - 1) if n > 1 else 1


# Constant parameters


def test_a_constant_parameter_of_another_type_is_refused(stream):
    @device.kernel
    def kernel(out, n: device.ConstExpr[int]):
        out[0] = n

    with pytest.raises(device.Error, match="'n'"):
        launch_once(stream, kernel, stream.empty(1), 2.5)


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
