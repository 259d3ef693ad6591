"""Sealed tuples: the program passes on what an entity returns, and reads it when another entity has opened it."""

import numpy as np
import pytest

import cuda_device as device
from cuda_device import CompileError, DeviceOnlyError, extend, float32, int32


def _started(values, x):
    """The sums of values and x, which `_finished` opens."""
    raise DeviceOnlyError.of("_started")


def _finished(count, *values):
    """The values of a sealed tuple that is not among the last `count`."""
    raise DeviceOnlyError.of("finished")


def add(values, x):
    return tuple(value + x for value in values)


def of_both(_, first, *others):
    return sum(others, first)


@extend.specialised(_started, opens=True, seals=("a sum that is not finished", "write _finished(0, x)"))
def _(values, x):
    return add


@extend.specialised(_finished, opens=True)
def _(count, *values):
    newer = [getattr(value.value, "newer", None) for value in values]
    if any(each is not None and each < count.value for each in newer):
        raise CompileError(f"it is among the last {count.value}", help="write 0")
    return of_both


@device.func
def again(values, count):
    for i in range(count):
        values = _started(values, i)
    return values


@device.kernel
def sums(n: int32, out):
    x, y = (1.0, 2.0), (float32(3), 4)
    for i in range(n):
        x = _started(x, i)
    if n > 2:
        y = _started(y, 10)
    pair = [x, again(y, n)]
    for number, value in enumerate(_finished(0, *pair)):
        out[number] = value


@pytest.mark.parametrize(("n", "right"), [(0, [1, 2, 3, 4]), (4, [7, 8, 19, 20])])
def test_tuples_that_meet_sealed_ones_are_sealed(stream, n, right):
    assert stream.run(sums, n, np.zeros(4, np.float32)).tolist() == right


def other(values):
    return _finished(0, _started(values, 3))


WRONG = {
    "x[0]": "a sum that is not finished cannot be indexed",
    "x + 1": "a sum that is not finished + int 1 is not defined",
    "x == 1": "a sum that is not finished == int 1 is not defined",
    "max(x)": "cannot iterate over a sum that is not finished",
    "[*x]": "cannot iterate over a sum that is not finished",
    "len(x)": "a sum that is not finished has no length",
    "float32(x)": "float32 takes a number, not a sum that is not finished",
    "print(x)": "a sum that is not finished cannot be printed",
    "_finished(1, x)": "it is among the last 1",
    "_finished(2, x, _started((1.0, 2.0), n))": "it is among the last 2",
}
RIGHT = [
    "_finished(0, x)",
    "(_started((1.0, 2.0), n), _finished(1, x))",
    "(other((1.0, 2.0)), _finished(1, x))",  # the function may have sealed more
]


def using(expression):
    source = f"def k(out, n: int32):\n    x = _started((1.0, 2.0), n)\n    value = {expression}\n"
    return device.compile(source, device.ArrayType(float32, 1), int32, output="ptx", globals=globals())


@pytest.mark.needs("generated")
@pytest.mark.parametrize("expression", WRONG)
def test_what_reads_one_is_refused(expression):
    with pytest.raises(CompileError) as raised:
        using(expression)
    error, is_read = raised.value, "_finished(" not in expression
    assert error.reason.startswith(WRONG[expression]) and error.location.line == 3
    assert error.help == ("write _finished(0, x)" if is_read else "write 0")


def test_patterns_read_one():
    @device.kernel
    def k(out):
        match _started((1.0, 2.0), 3):
            case (first, _):
                out[0] = first

    with pytest.raises(CompileError, match="a sum that is not finished cannot be matched") as raised:
        device.compile(k, device.ArrayType(float32, 1), output="ptx")
    assert raised.value.help == "write _finished(0, x)"


@pytest.mark.needs("generated")
@pytest.mark.parametrize("expression", RIGHT)
def test_what_is_not_surely_wrong_is_compiled(expression):
    using(expression)
