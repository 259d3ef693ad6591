"""Loop latches: one branch instead of two, one back edge, and no branch for the second operand of `and`."""

import re

import numpy as np
import pytest
from conftest import poison
from ir_helpers import ptx_of

import cuda_device as device
from cuda_device.codegen.gpu.peephole import invert_latches

LOOP = """.visible .entry k(
)
{
$L__BB0_1:
	setp.SIGN 	%p1, %r1, %r2;
	add.s32 	%r3, %r1, 1;
	@%p1 bra 	$L__BB0_2;
	bra.uni 	$L__BB0_1;
$L__BB0_2:
	ret;
}
"""


@pytest.mark.parametrize(
    ("sign", "opposite"),
    [("eq.b32", "ne.b32"), ("lt.s64", "ge.s64"), ("le.u32", "gt.u32"), ("gt.s16", "le.s16"), ("ne.b64", "eq.b64")],
)
def test_two_branches_become_one(sign, opposite):
    expected = LOOP.replace("SIGN", opposite)
    expected = expected.replace("bra \t$L__BB0_2;\n\tbra.uni \t$L__BB0_1", "bra \t$L__BB0_1")
    assert invert_latches(LOOP.replace("SIGN", sign)) == expected


def test_predicates_with_other_uses_and_of_floats_stay():
    """Comparisons of floats have no such opposite: with a NaN, neither `lt` nor `ge` holds."""
    for text in (
        LOOP.replace("SIGN", "lt.f32"),
        LOOP.replace("SIGN", "lt.s32").replace("add.s32 \t%r3, %r1, 1", "selp.b32 \t%r3, 1, 2, %p1"),
        LOOP.replace("SIGN", "lt.s32").replace("$L__BB0_2:", "$L__BB0_3:"),
    ):
        assert invert_latches(text) == text


def test_each_function_has_its_own_predicates():
    used = LOOP.replace("SIGN", "eq.b32").replace("add.s32 \t%r3, %r1, 1", "selp.b32 \t%r3, 1, 2, %p1")
    free = LOOP.replace("SIGN", "eq.b32").replace("entry k", "func f")
    assert invert_latches(used + free) == used + invert_latches(free) != used + free


@device.kernel
def multiply(a, b, c):
    j, i = device.tid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


def test_no_loop_goes_back_by_a_second_branch():
    x = np.zeros((4, 4), np.float32)
    ptx = ptx_of(multiply, x, x, x)
    assert not re.search(r"@%p\d+ bra \t(\$\w+);\n\tbra\.uni \t\$\w+;\n\1:", ptx)
    assert re.search(r"setp\.ne\.b32 \t(%p\d+), .*\n\t@\1 bra", ptx)


@pytest.mark.parametrize("inner", [0, 1, 3, 4, 5, 16, 23, 70])
def test_products_of_all_lengths(stream, inner):
    """The inverted loop, its unrolled copies, and the remainder."""
    random = np.random.default_rng(inner)
    a, b = random.integers(-9, 9, (3, inner)).astype(np.float32), random.integers(-9, 9, (inner, 5)).astype(np.float32)
    assert np.array_equal(stream.run(multiply, a, b, np.full((3, 5), 77, np.float32), block=(8, 4))[-1], a @ b)


@device.kernel
def steps_to_leave(points, counts, most):
    i = device.tid(1)
    if i < points.shape[0]:
        z, count = points[i], 0
        while count < most and z.real * z.real + z.imag * z.imag <= 4:
            z = z * z + points[i]
            count += 1
        counts[i] = count


def test_the_second_operand_of_and_has_no_branch():
    """There are branches around the body of the kernel, around the loop, and back. One of the three products is fused."""
    x = np.zeros(9, np.complex64)
    ptx = ptx_of(steps_to_leave, x, np.zeros(9, np.int32), 5)
    assert ptx.count("and.pred") >= 1
    assert re.search(r"fma\.rn\.f32 \t%\w+, %\w+, 0f40000000, %\w+;", ptx)
    assert len(re.findall(r"@%p\d+ bra", ptx)) <= 3


def test_steps_to_leave(stream):
    points = np.array([0, 0.5, -2, 1 + 1j, 3, 0.3 + 0.5j, -0.75 + 0.1j, 1j, 2.5j], np.complex64)
    counts = stream.run(steps_to_leave, points, poison(9, np.int32), 50, block=32)[-1]
    expected = []
    for point in points.astype(complex):
        z, count = point, 0
        while count < 50 and abs(z) ** 2 <= 4:
            z, count = z * z + point, count + 1
        expected.append(count)
    assert counts.tolist() == expected


@device.kernel
def skip(x, y):
    total = 0
    for i in range(x.shape[0]):
        if x[i] < 0:
            continue
        if x[i] % 2:
            total += 1
            continue
        total += x[i]
    y[0] = total


def test_loops_have_one_back_edge():
    """The phis of a loop have two predecessors, although each `continue` of the bytecode jumps back."""
    text = str(device.compile(skip, np.zeros(9, int), np.zeros(1, int), target="sm_90", output="llvm").code)
    phis = re.findall(r"= phi i\d+ (.*)", text)
    heads = [phi for phi in phis if "[ 0," in phi.replace("[0", "[ 0")]
    assert heads
    assert all(phi.count("[") == 2 for phi in heads), phis


def test_continue(stream):
    x = np.array([3, -4, 8, 5, -1, 0, 12, 7])
    assert stream.run(skip, x, poison(1, np.int64))[-1][0] == 23


@device.kernel
def convolve(x, weights, y):
    radius = weights.shape[0] // 2
    total = 0.0
    for i in range(2 * radius + 1):
        total += weights[2 * radius - i] * x[i]
    y[0] = total


def test_descending_addresses_share_a_register():
    """Neighbouring elements differ by a constant offset, which is a part of the load."""
    x = np.zeros(9, np.float32)
    offsets = re.findall(r"ld\.global\S* \t%\w+, \[%\w+\+(-?\d+)\];", ptx_of(convolve, x, x, x))
    assert {"-4", "-8", "4", "8"} <= set(offsets)


@pytest.mark.parametrize("size", [1, 3, 5, 9, 15])
def test_descending_indices(stream, size):
    random = np.random.default_rng(size)
    x, weights = (random.integers(-9, 9, size).astype(np.float32) for _ in range(2))
    assert stream.run(convolve, x, weights, poison(1))[-1][0] == (x * weights[::-1]).sum()
