"""Libraries extend device code: `register`, `overload`, `intrinsic`, `extern` with C++, and `compile` of generated code."""

import fractions
import importlib.util
import operator
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import poison
from ir_helpers import job

import cuda_device as device
from cuda_device.codegen.gpu import nvptx
from cuda_device.device import machine_functions
from cuda_device.infer.remedies import METHODS, UNARY_METHODS
from cuda_device.types import extensions

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "frameworks"
FLOATS = device.ArrayType(np.float32, 1)


def example(name):
    """A program of examples/frameworks."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@device.struct
class Cents:
    count: device.int64

    def doubled(self):
        return Cents(self.count * device.int64(2))


class Money:
    def __init__(self, euros):
        self.euros = euros


class Coin(Money):
    pass


@device.register(Money, Cents)
def _cents(money):
    return (int(money.euros * 100),)


@device.overload(operator.add)
def _add(a: Cents, b: Cents):
    return Cents(a.count + b.count)


@device.overload(operator.add)
def _add_number(a: Cents, b: device.int32):
    return Cents(a.count + b)


@device.overload(operator.mul)
def _mul(a: float, b: Money):
    return Cents(device.int64(a * b.count))


@device.overload(operator.neg)
def _neg(a: Cents):
    return Cents(-a.count)


@device.overload(operator.lt)
def _less(a: Cents, b: Cents):
    return a.count < b.count


@device.overload(operator.getitem)
def _digit(a: Cents, place: int):
    return a.count // device.int64(10) ** place % device.int64(10)


@device.overload(abs)
def _abs(a: Cents):
    return Cents(abs(a.count))


@device.overload(np.maximum)
def _maximum(a: Cents, b: Cents):
    return b if a < b else a


@device.kernel
def arithmetic(a, b, out):
    out[0] = (a + b).count
    out[1] = (a + 5).count
    out[2] = abs(-a).count
    out[3] = np.maximum(a, b).count
    out[4] = a[1]
    out[5] = a.doubled().count
    out[6] = (2.0 * a).count
    out[7] = 1 if a < b else 0


def test_a_registered_object_is_a_struct_with_methods_operators_and_functions(stream):
    out = stream.run(arithmetic, Money(1.25), Coin(2.5), poison(8, np.int64))
    assert out.tolist() == [375, 130, 125, 250, 2, 250, 250, 1]


def test_a_registered_class_is_a_type():
    @device.kernel
    def count(money: Money, out):
        out[0] = money.count

    ptx = device.compile(count, Money, device.ArrayType(np.int64, 1), output="ptx")
    assert ptx.parameters[0].type.startswith("struct<Cents")
    assert [each.type for each in ptx.parameters] == [
        each.type for each in device.compile(count, Money(1), np.zeros(1, np.int64), output="ptx").parameters
    ]


def test_the_struct_of_its_conversion_must_be_the_registered_one():
    class Wrong:
        pass

    stream, out = device.cpu_stream(), np.zeros(8, np.int64)
    for convert, reason in (
        (lambda _: Cents, "returns <class"),
        (lambda _: (1, 2), "TypeError: Cents has 1 members, not 2"),
        (lambda _: {"coins": 1}, "Cents has no member 'coins'"),
        (lambda _: ("many",), "Cents.count is"),
        (lambda _: 1 // 0, "ZeroDivisionError"),
    ):
        device.register(Wrong, Cents)(convert)
        with pytest.raises(device.LaunchError, match=reason) as caught:
            device.launch(arithmetic, Money(1), Wrong(), out, grid=1, block=1, stream=stream)
        assert "the argument 'b'" in str(caught.value) and "help: correct the function" in str(caught.value)
    device.launch(arithmetic, Money(1), Money(2), out, grid=1, block=1, stream=stream)
    assert out[0] == 300


@pytest.mark.parametrize(
    "other", [object(), fractions.Fraction(1), type("Pence", (), {"__init__": lambda self: None})()]
)
def test_an_object_that_nobody_registered_is_refused(other):
    with pytest.raises(device.LaunchError, match="which device code cannot take") as caught:
        device.launch(arithmetic, Money(1), other, np.zeros(8), grid=1, block=1, stream=device.cpu_stream())
    assert "@device.register" in caught.value.help


def test_a_conversion_that_gives_other_arrays_names_the_argument():
    @device.struct
    class View:
        content: FLOATS

    class Wrong:
        pass

    device.register(Wrong, View)(lambda _: (np.zeros(2),))
    with pytest.raises(device.LaunchError, match="the argument 'b': the array 'View.content' .* is not one of float32"):
        device.launch(arithmetic, Money(1), Wrong(), np.zeros(8), grid=1, block=1, stream=device.cpu_stream())


@pytest.mark.parametrize("name", extensions._OPERATORS)
def test_each_operator_that_may_be_overloaded_is(name):
    entity = getattr(operator, name)
    is_unary, is_comparison = name in UNARY_METHODS.values(), name in ("eq", "ne", "lt", "le", "gt", "ge")

    @device.struct
    class Other:
        n: device.int64

    def one(a):
        return a.n * device.int64(2)

    def two(a, b):
        return a.n == b.n if is_comparison else a.n * b.n

    function = one if is_unary else two
    function.__annotations__ = {"a": Other, "b": Other}
    device.overload(entity)(function)
    signs = {each: sign for sign, each in (UNARY_METHODS if is_unary else METHODS).items()}
    text = f"{signs.get(name.rstrip('_'))}a" if is_unary else f"a {signs.get(name.rstrip('_'))} b"
    names = {}
    exec(f"def kernel(a, b, out):\n    out[0] = {'a[b]' if name == 'getitem' else text}", names)
    out = np.zeros(1, np.int64)
    device.launch(device.kernel(names["kernel"]), Other(3), Other(4), out, grid=1, block=1, stream=device.cpu_stream())
    assert out[0] == (6 if is_unary else 0 if is_comparison else 12)
    assert {each.rstrip("_") for each in extensions._OPERATORS} == {
        *METHODS.values(),
        *UNARY_METHODS.values(),
        "getitem",
    }


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda: device.register(Cents, Cents), "not a struct"),
        (lambda: device.register(Money, float), "made by @device.struct"),
        (lambda: device.register(int, Cents), "a class of your own, not int: device code gives its objects a meaning"),
        (lambda: device.register(np.ndarray, Cents), "a class of your own, not ndarray"),
        (lambda: device.register(type("Id", (int,), {}), Cents), "a class of your own, not Id"),
        (lambda: device.register(object, Cents), "a class of your own, not object"),
        (lambda: device.register(device.DeviceArray, Cents), "a class of your own, not DeviceArray"),
        (lambda: device.register(Money, Cents)(3), "decorates a function that takes a Money"),
        (lambda: device.overload(3), "overload takes a function"),
        (
            lambda: device.overload(operator.setitem),
            "setitem cannot be overloaded: define the special method in the struct",
        ),
        (lambda: device.overload(operator.contains), "there are add, sub, .*, getitem"),
        (lambda: device.overload(operator.iadd), "iadd cannot be overloaded"),
        (lambda: device.overload(operator.truth), "truth cannot be overloaded"),
        (lambda: device.overload(bool), "bool cannot be overloaded"),
        (lambda: device.overload(iter), "iter cannot be overloaded"),
        (lambda: device.overload(getattr), "getattr cannot be overloaded"),
        (lambda: device.overload(len)(3), "decorates a Python function"),
        (lambda: device.overload(len)(lambda x: 3), "give a parameter the hint"),
        (lambda: device.intrinsic("llvm.nvvm.saturate.f")(3), "decorates a function"),
    ],
)
def test_what_cannot_extend_device_code(what, message):
    with pytest.raises(TypeError, match=message):
        what()


def test_an_overload_is_for_new_types_alone():
    """Numbers keep their meaning, and types that no overload fits get the usual error."""

    @device.kernel
    def numbers(x):
        x[0] = x[0] + 1
        x[1] = np.maximum(x[0], 7)

    x = np.zeros(2, np.int64)
    device.launch(numbers, x, grid=1, block=1, stream=device.cpu_stream())
    assert x.tolist() == [1, 7]

    @device.kernel
    def unfit(a, x):
        x[0] = (a + 1.5).count

    with pytest.raises(device.CompileError, match="help:"):
        device.launch(unfit, Money(1), x, grid=1, block=1, stream=device.cpu_stream())


def test_an_overload_that_changes_is_seen_by_the_next_launch():
    @device.struct
    class Box:
        n: device.int32

    @device.kernel
    def length(box, out):
        out[0] = len(box)

    def launch():
        device.launch(length, Box(3), out, grid=1, block=1, stream=device.cpu_stream())
        return int(out[0])

    out = np.zeros(1, np.int32)
    with pytest.raises(device.CompileError):
        launch()

    def first(box):
        return box.n

    def second(box):
        return box.n + 1

    for function, expected in ((first, 3), (second, 4)):
        function.__annotations__ = {"box": Box}
        device.overload(len)(function)
        assert launch() == launch() == expected


# Instructions


@device.intrinsic("sad.s32 $0, $1, $2, $3;")
def sad(a: device.int32, b: device.int32, c: device.int32) -> device.int32:
    return abs(a - b) + c


@device.intrinsic("llvm.nvvm.saturate.f")
def saturate(x: device.float32) -> device.float32:
    return min(max(x, device.float32(0)), device.float32(1))


@device.kernel
def instructions(x, out):
    out[0] = sad(device.int32(x[0]), -3, 1)
    out[1] = saturate(x[1])


def test_instructions(stream):
    assert stream.run(instructions, np.float32([2, 1.5]), poison(2))[-1].tolist() == [6, 1]
    assert sad(2, -3, 1) == 6 and pickle.loads(pickle.dumps(sad)) is sad


def test_instructions_are_in_the_code():
    ptx = str(device.compile(instructions, FLOATS, FLOATS, output="ptx"))
    assert "sad.s32" in ptx and ".sat.f32" in ptx and "call" not in ptx


def float_function(function):
    function.__name__ = "wrong"
    function.__annotations__ = {"x": device.float32, "return": device.float32}
    return function


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("llvm.nvvm.no.such.thing", "no intrinsic llvm.nvvm.no.such.thing for this call: LLVM has none of this name"),
        ("llvm.nvvm.saturate.d", "no intrinsic llvm.nvvm.saturate.d for this call: LLVM has none of this name with"),
        # LLVM ends its process for those that it has replaced, or has no instruction for.
        ("llvm.nvvm.barrier0", "LLVM cannot compile it with these types for sm_90"),
        ("llvm.nvvm.h2f", "LLVM cannot compile it with these types for sm_90"),
        ("llvm.nvvm.ldg.global.f.f32.p1", "LLVM cannot compile it with these types for sm_90"),
        ("llvm.sin.f32.p1", "LLVM cannot compile|LLVM has none"),
        ("llvm.tan.f32", "LLVM cannot compile it with these types for sm_90"),
        ("nothing.f32 $0, $1;", "nothing"),
    ],
)
def test_a_wrong_instruction_is_a_located_error(instruction, message):
    wrong = device.intrinsic(instruction)(float_function(lambda x: ...))

    @device.kernel
    def call(x):
        x[0] = wrong(x[0])

    with pytest.raises(device.CompileError, match=message) as caught:
        device.compile(call, FLOATS)
    assert "x[0] = wrong(x[0])" in str(caught.value) and "help:" in str(caught.value)
    with pytest.raises(device.CompileError, match="wrong|lambda"):
        device.launch(call, np.zeros(1, np.float32), grid=1, block=1, stream=device.cpu_stream())
    device.compile(instructions, FLOATS, FLOATS)


def test_instructions_of_our_own_table_are_tried_as_others():
    for row in machine_functions.FUNCTIONS:
        if row.instruction.startswith("llvm."):
            types = [f"i{each.bits}" for each in (row.result, *row.parameters)]
            declared = f"{types[0]} @{row.instruction}({', '.join(types[1:])})"
            assert not nvptx.refusal(declared, job(lambda: None, target="sm_75").target.architecture)


def test_an_intrinsic_that_another_gpu_has():
    def rounded(x: device.float32) -> device.int32: ...

    rounded = device.intrinsic("llvm.nvvm.f2tf32.rna.satfinite")(rounded)

    @device.kernel
    def kernel(x):
        x[0] = device.float32(rounded(x[0]))

    with pytest.raises(device.CompileError, match="LLVM cannot compile it with these types for sm_75"):
        device.compile(kernel, FLOATS, target="sm_75")
    assert ".satfinite.tf32" in str(device.compile(kernel, FLOATS, target="sm_90", output="ptx"))


@pytest.mark.parametrize("text", ["sqrt.f32 $0, $2;", "sqrt.f32 $1;", "sqrt.f32 $0, $;"])
def test_the_operands_of_an_instruction_are_checked(text):
    with pytest.raises(ValueError, match="the instruction of"):
        device.intrinsic(text)(float_function(lambda x: x))


def test_the_types_of_an_instruction_are_checked():
    def vector(x: device.float32x2) -> device.float32: ...
    def half(x: device.float16) -> device.float16: ...

    for function, name in ((vector, "mov.b64 $0, $1;"), (half, "llvm.nvvm.saturate.f")):
        with pytest.raises(TypeError, match="is not a number of"):
            device.intrinsic(name)(function)


# Working models of libraries


def test_jagged_arrays(stream):
    jagged = example("jagged_arrays")
    where = stream.stream
    rows = jagged.Jagged.of([[1, 2, 3], [], [4, 0, 5]], stream=where)
    assert jagged.totals(rows, where).tolist() == [6, 0, 9]
    assert jagged.nonzero(rows, where) == 5


def test_string_functions(stream):
    strings = example("string_functions")
    where = stream.stream
    words = strings.Strings.of(["kernel", "cpu", "kind", "größe"], stream=where)
    others = strings.Strings.of(["kernel", "gpu", "kin", "größe"], stream=where)
    assert strings.apply(strings.starts_with_k, words, stream=where).tolist() == [True, False, True, False]
    assert strings.apply(strings.same, words, others, stream=where).tolist() == [True, False, False, True]


@pytest.mark.needs("cpp")
def test_device_calls(stream):
    calls = example("device_calls")
    x, out, steps = stream.array(np.float32([0, 1, 3])), stream.empty(3), stream.empty(3, np.int32)
    stream.launch(calls.evaluate_without_cpp, x, out, steps, grid=1, block=32)
    assert stream.numpy(out).tolist() == [0, 0.5, 1] and stream.numpy(steps).tolist() == [8, 7, 5]
    assert calls.code_of([1, 2], output="ptx").result == "float32"


@pytest.mark.needs("cpu")
@pytest.mark.parametrize("name", ["jagged_arrays", "string_functions", "device_calls"])
def test_examples_are_programs(name):
    path = str(pathlib.Path(device.__file__).parent.parent)
    found = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")], capture_output=True, text=True, env={"PYTHONPATH": path}
    )
    assert found.returncode == 0 and found.stdout, found.stderr
