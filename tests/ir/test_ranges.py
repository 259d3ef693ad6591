"""Bounds of integers: held against every pair of values within them, and against what compiled programs do at their edges."""

import itertools
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_helpers import define, operations, stage

import cuda_device as device
from cuda_device.infer.intervals import combine, has_room, passed, widened
from cuda_device.types.known import Known, between, constant, of_type
from cuda_device.types.model import INT, SMALL, Number, NumberKind

INT4, UINT4 = Number(NumberKind.INT, 4), Number(NumberKind.UINT, 4)
OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip
COMPARISONS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def intervals(number: Number) -> st.SearchStrategy[tuple[int, int]]:
    ends = st.integers(number.low, number.high)
    return st.tuples(ends, ends).map(lambda pair: (min(pair), max(pair)))


def within(known: Known, value: int) -> bool:
    low, high = known.bounds
    return low <= value <= high


@pytest.mark.parametrize("sign", OPERATORS)
@pytest.mark.parametrize("number", [INT4, UINT4], ids=["signed", "unsigned"])
@given(data=st.data())
def test_results_are_within_their_bounds(sign: str, number: Number, data: st.DataObject) -> None:
    """Where a result has no room it wraps, as numbers of a fixed format do; a divisor of zero may give anything."""
    a, b = data.draw(intervals(number)), data.draw(intervals(number))
    known, exact = combine(sign, number, between(number, *a), between(number, *b))
    for x, y in itertools.product(range(a[0], a[1] + 1), range(b[0], b[1] + 1)):
        if (sign in ("//", "%") and y == 0) or (sign in ("<<", ">>") and y < 0):
            continue
        result = OPERATORS[sign](x, y)
        wrapped = (result - number.low) % (1 << number.bits) + number.low
        assert within(known, wrapped), (x, y)
        if exact and sign in ("+", "-", "*"):
            assert wrapped == result


@pytest.mark.parametrize("sign", COMPARISONS)
@given(first=intervals(INT4), second=intervals(UINT4))
def test_what_passes_a_comparison_is_within_its_bounds(
    sign: str, first: tuple[int, int], second: tuple[int, int]
) -> None:
    a, b = between(INT4, *first), between(UINT4, *second)
    known = passed(sign, a, b)
    for x, y in itertools.product(range(first[0], first[1] + 1), range(second[0], second[1] + 1)):
        if COMPARISONS[sign](x, y):
            assert within(known, x)
    assert within(a, known.bounds[0])
    assert within(a, known.bounds[1])


def test_bounds_that_grow_stop_growing() -> None:
    """Else a loop that counts would be looked at as often as it counts."""
    state, seen = constant(0), 0
    for i in range(1, 100):
        grown = widened(state, between(INT, 0, i) if state.bounds[1] < i else state)
        seen += grown != state
        state = grown
    assert state == of_type(INT, nonneg=True)
    assert seen == 1
    assert widened(between(INT, 0, 5), between(INT, -1, 5)) == between(INT, INT.low, 5)
    assert widened(between(INT, 0, 5), between(INT, 1, 4)) == between(INT, 1, 4)


# Programs

X = device.ArrayType(device.float32, 1)


@pytest.mark.parametrize(
    ("condition", "index", "nonneg"),
    [
        ("0 < i", "i - 1", True),
        ("i > 0", "i - 2", False),
        ("i > 1", "i - 2", True),
        ("0 <= i < 10", "i", True),
        ("i >= -3", "i + 3", True),
        ("i >= -3", "i + 2", False),
        ("i != 0", "abs(i) - 1", False),
        ("not i < 4", "i - 4", True),
        ("not i < 4", "i - 5", False),
        ("i > 3 and i < 8", "7 - i", True),
        ("i > 3 or i < -8", "i - 3", False),
        ("i == 5", "i - 5", True),
        ("2 < m < i", "i - 4", True),
        ("2 < m < i", "i - 5", False),
        ("i > 0.5", "i - 1", False),
    ],
)
def test_what_conditions_prove_of_indices(condition: str, index: str, nonneg: bool) -> None:
    program = f"def k(x, i, m):\n    if {condition}:\n        x[{index}] = 1"
    (store,) = operations(stage("typed", define(program), X, int, int), "py.setitem")
    assert store.operands[1].nonneg == nonneg


def test_what_conditions_prove_ends_where_ways_meet() -> None:
    program = define(
        """
        def k(x, i):
            if i > 3:
                x[i - 1] = 1
            x[i - 1] = 1
        """
    )
    first, second = operations(stage("typed", program, X, int), "py.setitem")
    assert first.operands[1].nonneg
    assert not second.operands[1].nonneg


def test_a_loop_that_counts_down_in_its_body() -> None:
    """The condition holds where the body begins, not behind the assignment."""
    program = define(
        """
        def k(x, i):
            while i > 0:
                x[i] = 1
                i -= 2
                x[i] = 1
        """
    )
    first, second = operations(stage("typed", program, X, int), "py.setitem")
    assert first.operands[1].nonneg
    assert not second.operands[1].nonneg


def test_sums_of_lengths_of_small_arrays_have_32_bits() -> None:
    program = define("def k(x, y):\n    for i in range(len(x) + 1 + len(y) + 1 - 1): x[i] = 1")
    sums = operations(stage("typed", program, X, X, launch_facts=True), "py.binary")
    assert sums
    assert all(str(op.result.type) == "int" for op in sums)
    sums = operations(stage("typed", program, X, X), "py.binary")
    assert all(str(op.result.type) != "int" for op in sums)
    assert 2 * SMALL + 1024 < 2**31


# What programs do


@device.kernel
def wraps(a, b, out):
    """Fixed-format integers, which wrap in spite of what is known of them."""
    i, n, m = device.tid(1), a[0], b[0]
    if n > 100:
        out[i, 0] = n + device.int8(27)  # 128 and more wrap
        out[i, 1] = n - device.int8(101)
        out[i, 2] = n * device.int8(2)
    if m < 10:
        out[i, 3] = device.int8(m - device.uint8(5) > 200)
        out[i, 4] = device.int8((m + device.uint8(246)) == 255)


def test_fixed_format_integers_wrap_still(stream):
    for n, m in ((101, 4), (127, 9), (110, 5), (101, 0)):
        out = stream.array(np.full((1, 5), 77, np.int8))
        a, b = np.array([n], np.int8), np.array([m], np.uint8)
        stream.launch(wraps, stream.array(a), stream.array(b), out, grid=1, block=1)
        with np.errstate(over="ignore"):
            expected = [a[0] + np.int8(27), a[0] - np.int8(101), a[0] * np.int8(2)]
            expected += [np.int8(b[0] - np.uint8(5) > 200), np.int8(b[0] + np.uint8(246) == 255)]
        assert stream.numpy(out).tolist() == [expected]


@device.kernel
def around(x, out):
    """Neighbours in a matrix, of which only the contiguous axis has constant distances."""
    i, j = device.tid(2)
    rows, columns = x.shape
    if 2 <= i < rows - 1 and 1 <= j < columns - 2:
        out[i, j] = x[i - 2, j - 1] + 2 * x[i + 1, j + 2] + 4 * x[i, j - 1] + 8 * x[i - 1, j] + 16 * x[i, j - columns]


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_neighbours_in_a_matrix(stream, order):
    x = np.arange(8 * 9, dtype=np.float64).reshape(8, 9)
    x = np.asfortranarray(x) if order == "F" else np.repeat(x, 2, axis=1)[:, ::2] if order == "strided" else x
    expected = np.full((8, 9), -1.0)
    for i in range(2, 7):
        for j in range(1, 7):
            expected[i, j] = (
                x[i - 2, j - 1] + 2 * x[i + 1, j + 2] + 4 * x[i, j - 1] + 8 * x[i - 1, j] + 16 * x[i, j - 9]
            )
    assert stream.run(around, x, np.full((8, 9), -1.0), block=(8, 9))[-1].tolist() == expected.tolist()


def test_neighbours_share_an_address_in_ptx():
    """The offsets of neighbours are in the loads, and nothing counts from the end."""
    ptx = str(device.compile(around, *(device.ArrayType(device.float32, 2),) * 2, output="ptx", launch_facts=True))
    assert "ld.global.nc.b32" in ptx
    assert ptx.count("+8]") == 1
    assert ptx.count("-4]") == 2
    assert "selp" not in ptx


def test_an_index_from_memory_costs_a_minimum():
    @device.kernel
    def gather(x, k, out):
        i = device.tid(1)
        out[i] = x[k[i]]

    arrays = [device.ArrayType(t, 1) for t in (device.float32, device.int32, device.float32)]
    ptx = str(device.compile(gather, *arrays, output="ptx", launch_facts=True))
    assert ptx.count("min.u32") == 1
    assert "selp" not in ptx


def test_what_is_compared_costs_nothing_more():
    @device.kernel
    def gather(x, k, out):
        i = device.tid(1)
        j = k[i]
        if j >= 0:
            out[i] = x[j]

    arrays = [device.ArrayType(t, 1) for t in (device.float32, device.int32, device.float32)]
    assert "min.u32" not in str(device.compile(gather, *arrays, output="ptx", launch_facts=True))


@pytest.mark.parametrize("number", [INT4, UINT4], ids=["signed", "unsigned"])
def test_ranges_have_room(number):
    """Held against the ranges themselves: none that has room leaves its type, and of constants all others do."""
    every = range(number.low, number.high + 1)
    for stop, step in itertools.product(every, every):
        if step:
            found = has_room(number, between(number, stop, stop), between(number, step, step))
            past = (item + step for start in every for item in range(start, stop, step))
            may_leave = any(not number.low <= item <= number.high for item in past)
            assert not (found and may_leave)
            if stop not in (number.low, number.high):  # those have ranges that are empty
                assert found != may_leave
