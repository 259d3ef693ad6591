"""Pointer induction variables of short loops, for accesses behind a branch."""

import numpy as np
import pytest
from ir_helpers import read

import cuda_device as device
from cuda_device.optimise import loop_addresses


@device.kernel
def neighbours(x, keep, y, step):
    """Three neighbouring elements, of which one is written, in steps that are known at run time."""
    for i in range(1 + int(device.thread_idx.x), x.shape[0] - 1, step):
        if keep[i]:
            y[i] = x[i - 1] - 2 * x[i] + x[i + 1]


@device.kernel
def by_leaps(x, y):
    """A counter with two constant increments, and one with an increment that is read from memory."""
    total, i = 0, 0
    while i < x.shape[0]:
        if x[i] < 0:
            total += 3 * x[i]
            i += 3
            continue
        i += 1
    y[0] = total
    i = 0
    while i < x.shape[0]:
        if x[i] < 0:
            total += x[i]
        i += 1 + abs(x[i]) % 3
    y[1] = total


@device.kernel
def many(a, b, c, d, e, f, keep):
    """More arrays than pointers, of different sizes."""
    for i in range(int(device.thread_idx.x), keep.shape[0], 4):
        if keep[i]:
            f[i] = a[i] + b[i] + c[i] + d[i] + e[i]


def second_differences(x, keep):
    y = np.full(len(x), -12345)
    for i in range(1, len(x) - 1):
        if keep[i]:
            y[i] = x[i - 1] - 2 * x[i] + x[i + 1]
    return y


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 100])
@pytest.mark.parametrize("offset", [0, 1])
def test_neighbours(stream, size, offset):
    random = np.random.default_rng(size)
    x, keep = random.integers(-99, 99, size + offset)[offset:], random.random(size) < 0.6
    y = stream.run(neighbours, x, keep, np.full(size, -12345), 4, block=4)[-1]
    assert np.array_equal(y, second_differences(x, keep))


@pytest.mark.parametrize("seed", range(3))
def test_counters_that_leap(stream, seed):
    x = np.random.default_rng(seed).integers(-9, 9, 50)
    y = stream.run(by_leaps, x, np.zeros(2, np.int64))[-1]
    first, i = 0, 0
    while i < 50:
        first, i = (first + 3 * x[i], i + 3) if x[i] < 0 else (first, i + 1)
    second, i = first, 0
    while i < 50:
        second, i = second + min(x[i], 0), i + 1 + abs(x[i]) % 3
    assert y.tolist() == [first, second]


def test_more_arrays_than_pointers(stream):
    random = np.random.default_rng(4)
    types = np.int8, np.int64, np.int16, np.int32, np.uint8
    arrays = [random.integers(0, 99, 30).astype(each) for each in types]
    keep = random.random(30) < 0.5
    result = stream.array(np.full(30, -12345))
    stream.launch(many, *map(stream.array, arrays), result, stream.array(keep), grid=1, block=4)
    assert np.array_equal(stream.numpy(result), np.where(keep, sum(each.astype(np.int64) for each in arrays), -12345))


LOOP = """
func @f -> none kernel device {
^0(%x: ref<global, float32>, %n: int32, %s: int32, %c: bool):
  %zero: int32 = const {value=0}
  jump ^1(%zero)
^1(%i: int32):
  %more: bool = compare {op="<"} %i %n
  branch %more ^2() ^5()
^2():
  branch %c ^3() ^4()
^3():
  %one: int32 = const {value=1}
  %next: int32 = add {exact=True} %i %one
  %place: int64 = convert %next
  %at: ref<global, float32> = element %x %place
  %here: int64 = convert %i
  %same: ref<global, float32> = element %x %here
  %item: float32 = load %at
  store %same %item
  jump ^4()
^4():
  %after: int32 = add {exact=True} %i %s
  jump ^1(%after)
^5():
  return
}
"""


def pointers_of(text: str) -> int:
    """The number of pointers that the loop's header gets; all addresses in the loop use them, or none does."""
    function = read(text).main
    loop_addresses.add_pointer_variables(function)
    head, access = function.blocks[1], function.blocks[3]
    found = [param for param in head.params if str(param.type).startswith("ref<")]
    bases = {op.operands[0] for op in access.ops if op.code.name == "element"}
    assert bases == set(found) if found else bases == {function.params[0]}
    return len(found)


def test_accesses_near_one_another_share_a_pointer():
    assert pointers_of(LOOP) == 1


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ("branch %c ^3() ^4()", "jump ^3()"),
        ("global", "shared"),
        ("add {exact=True} %i %s", "add {exact=False} %i %s"),
        ("add {exact=True} %i %s", "add {exact=True} %i %i"),
        ("add {exact=True} %i %s", "sub {exact=True} %s %i"),
    ],
)
def test_loops_without_pointers(there, here):
    assert there in LOOP
    assert pointers_of(LOOP.replace(there, here)) == 0


def test_long_loops_have_none():
    long = "".join(f"  %l{i}: int32 = add {{exact=False}} %i %s\n" for i in range(128))
    assert pointers_of(LOOP.replace("  %item:", long + "  %item:")) == 0
