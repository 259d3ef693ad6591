"""Comparisons, truth and identity: every pair of number types, integers exactly whatever their signs and widths."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
import reference as ref
from conftest import long
from test_arithmetic import ONE_OPERATOR, maker, of_two

import cuda_device as device

ALL = [pytest.param(a, 1, marks=long(n)) for n, a in enumerate(ref.INTEGERS)]


def values(name):
    """Edge values, and those next to the limits of all integer types."""
    low, high = ref.limits(name)
    near = {n + d for other in ref.INTEGERS for n in ref.limits(other) for d in (-1, 0, 1)}
    return sorted({*ref.edges(name), *(n for n in near if low <= n <= high)})


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("a", "one_in"), [*((a, 12) for a in ref.INTEGERS), *ALL])
def test_integers_compare_as_in_python(stream, a, one_in):
    """All comparisons of one type; of two types one in so many, which are others for the next type."""
    nothing = stream.array(np.zeros(0, np.int8))
    wrong = []
    for turn, b in enumerate(ref.INTEGERS, ref.INTEGERS.index(a)):
        names = [name for n, name in enumerate(ref.COMPARISONS, turn) if a == b or n % one_in == 0]
        pairs = list(itertools.product(values(a), values(b)))
        left = stream.array(np.array([x for x, _ in pairs], ref.storage(a)))
        right = stream.array(np.array([y for _, y in pairs], ref.storage(b)))
        # Bytes, not bools: 0xA5 is what was not written.
        outputs = tuple(stream.empty(len(pairs), np.uint8) for _ in names)
        kernel = of_two(tuple(ONE_OPERATOR[name] for name in names), maker(a), maker(b))
        stream.launch(kernel, left, right, nothing, outputs, grid=-(-len(pairs) // 128), block=128)
        for name, output in zip(names, outputs, strict=True):
            for (x, y), got in zip(pairs, stream.numpy(output).tolist(), strict=True):
                if got != ONE_OPERATOR[name](x, y):
                    wrong.append(f"{a} {x!r} {name} {b} {y!r} is {got!r}")
    assert not wrong, "\n".join(wrong[:20])


@device.kernel
def against_constants(x, out):
    i = device.tid(1)
    if i < len(x):
        v = x[i]
        (a, b, c, d, e, f, g, h, j, k) = out
        a[i] = v < 0
        b[i] = v >= -1
        c[i] = v == 300
        d[i] = 128 > v
        e[i] = v != -129
        f[i] = v < 3000000000
        g[i] = v <= 18446744073709551615
        h[i] = -9223372036854775808 <= v
        j[i] = v > True
        k[i] = v < 0.5


@pytest.mark.parametrize("name", ["bool", *ref.SIGNED, *ref.UNSIGNED])
def test_an_integer_against_constants_beyond_its_type(stream, name):
    numbers = values(name)
    x = np.array(numbers, name)
    out = tuple(stream.empty(len(x), np.uint8) for _ in range(10))
    stream.launch(against_constants, stream.array(x), out, grid=1, block=128)
    tests = (
        lambda v: v < 0, lambda v: v >= -1, lambda v: v == 300, lambda v: 128 > v, lambda v: v != -129,
        lambda v: v < 3000000000, lambda v: v <= 18446744073709551615, lambda v: -9223372036854775808 <= v,
        lambda v: v > True, lambda v: v < 0.5,
    )  # fmt: skip
    for test, output in zip(tests, out, strict=True):
        assert stream.numpy(output).tolist() == [int(test(v)) for v in numbers]


HALF_BITS = np.array(
    [0, 1, 0x8000, 0x8001, 0x3C00, 0x7C00, 0x7C01, 0x7F80, 0x7F81, 0xFC00, 0xFF80, 0xFFFF, 0x7E00, 17000], np.uint16
)


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("there, back", [(ml_dtypes.bfloat16, np.float16), (np.float16, ml_dtypes.bfloat16)])
def test_bits_of_one_half_are_compared_as_the_other(stream, there, back, level):
    """LLVM 22 ends the process where it sees that these bits, as a number of any width, are compared with zero."""
    pair = {np.float16: device.float16x2, ml_dtypes.bfloat16: device.bfloat16x2}
    there_pair, back_pair = pair[there], pair[back]

    @device.kernel(level=level)
    def kernel(x, y, n, out):
        i = device.tid(1)
        local = device.local_array(1, there)
        local[0] = x[i] if n else there(n)
        bits = x[i].view(back)
        out[i, 0] = bits == 0
        out[i, 1] = bits != 0
        out[i, 2] = bool(bits)
        out[i, 3] = local.view(back)[0] == 0
        out[i, 4] = bits == y[i]
        out[i, 5] = bits != y[i]
        out[i, 6] = there(n).view(back) != 0
        out[i, 7] = bits < y[i] or bits > y[i]
        out[i, 8] = float(bits) == 0
        out[i, 9] = bool(device.complex128(x[i].view(device.uint16).view(back)))
        other = device.local_array(1, there)
        other[0] = y[i]
        other[0] = -x[i]
        out[i, 10] = math.fabs(device.float64(other.view(back)[0])) == 0
        shared = device.shared_array(len(HALF_BITS) ** 2, device.uint16)
        shared.view(there)[i] = -x[i]
        out[i, 11] = float(shared.view(back)[i]) != 0
        pairs = device.local_array(1, there_pair)
        pairs[0] = there_pair(y[i], -x[i])
        out[i, 12] = float(pairs.view(back_pair)[0].y) == 0

    first, second = (each.reshape(-1) for each in np.meshgrid(HALF_BITS, HALF_BITS))
    x, y, bits = first.view(there), second.view(back), first.view(back)
    out = stream.empty((len(x), 13), np.bool_)
    stream.launch(kernel, stream.array(x), stream.array(y), 3, out, grid=1, block=len(x))
    zero, equal = bits.astype(np.float32) == 0, bits.astype(np.float32) == y.astype(np.float32)
    differ = ~equal & ~np.isnan(bits.astype(np.float32)) & ~np.isnan(y.astype(np.float32))
    expected = [zero, ~zero, ~zero, zero, equal, ~equal, np.ones_like(zero), differ, zero, ~zero, zero, ~zero, zero]
    assert (stream.numpy(out) == np.stack(expected, 1)).all()
