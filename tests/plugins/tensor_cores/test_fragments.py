"""`fragment_place`: the layouts that the PTX ISA gives for each shape, one formula for each, and refusals."""

import re

import numpy as np
import pytest

import cuda_device as device
from cuda_device import bfloat16, float8e4m3, float8e5m2, float16, float32, float64, int8, uint8

# From "Matrix Fragments for mma" of the PTX ISA: the row and the column of element i, with g = lane / 4 and t = lane % 4.
A = {
    ("16-bit", (16, 8, 8)): lambda g, t, i: (g if i < 2 else g + 8, 2 * t + (i & 1)),
    ("16-bit", (16, 8, 16)): lambda g, t, i: (
        g if i < 2 or 4 <= i < 6 else g + 8,
        2 * t + (i & 1) if i < 4 else 2 * t + (i & 1) + 8,
    ),
    ("tf32", (16, 8, 4)): lambda g, t, i: (g if i == 0 else g + 8, t),
    ("tf32", (16, 8, 8)): lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
    ("float64", (8, 8, 4)): lambda g, t, i: (g, t),
    ("float64", (16, 8, 4)): lambda g, t, i: (g if i == 0 else g + 8, t),
    ("float64", (16, 8, 8)): lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
    ("float64", (16, 8, 16)): lambda g, t, i: (
        g if i % 2 == 0 else g + 8,
        i * 2 + t if i % 2 == 0 else i * 2 - 2 + t,
    ),
    ("8-bit", (16, 8, 16)): lambda g, t, i: (g if i < 4 else g + 8, 4 * t + (i & 3)),
    ("8-bit", (16, 8, 32)): lambda g, t, i: (
        g if i < 4 or 8 <= i < 12 else g + 8,
        4 * t + (i & 3) if i < 8 else 4 * t + (i & 3) + 16,
    ),
}
B = {
    ("16-bit", (16, 8, 8)): lambda g, t, i: (2 * t + i, g),
    ("16-bit", (16, 8, 16)): lambda g, t, i: (2 * t + (i & 1) if i < 2 else 2 * t + (i & 1) + 8, g),
    ("tf32", (16, 8, 4)): lambda g, t, i: (t, g),
    ("tf32", (16, 8, 8)): lambda g, t, i: (t if i == 0 else t + 4, g),
    ("float64", (8, 8, 4)): lambda g, t, i: (t, g),
    ("float64", (16, 8, 4)): lambda g, t, i: (t, g),
    ("float64", (16, 8, 8)): lambda g, t, i: (t if i == 0 else t + 4, g),
    ("float64", (16, 8, 16)): lambda g, t, i: (t + 4 * i, g),
    ("8-bit", (16, 8, 16)): lambda g, t, i: (4 * t + i, g),
    ("8-bit", (16, 8, 32)): lambda g, t, i: (4 * t + (i & 3) if i < 4 else 4 * t + (i & 3) + 16, g),
}
DTYPES = {
    "16-bit": (float16, bfloat16),
    "tf32": ("tf32",),
    "float64": (float64,),
    "8-bit": (int8, (uint8, int8), (float8e4m3, float8e5m2)),
}


def all_places(stream, operand, shape, dtype, count, threads=32):
    """The places of all elements that all threads hold, by constant numbers, and by numbers known at run time."""
    numbers = tuple(range(count))

    @device.kernel
    def places(constants, variables):
        thread = device.thread_idx.x + device.block_dim.x * device.thread_idx.y
        for i in numbers:
            constants[thread, i, 0], constants[thread, i, 1] = device.fragment_place(operand, shape, dtype, i)
        for i in range(len(variables[0])):
            variables[thread, i, 0], variables[thread, i, 1] = device.fragment_place(operand, shape, dtype, i)

    arrays = [np.full((threads, count, 2), -1, np.int32) for _ in range(2)]
    constants, variables = stream.run(places, *arrays, block=(threads // 2, 2))
    assert (constants == variables).all()
    return constants


@pytest.mark.parametrize(("kind", "shape"), A)
@pytest.mark.parametrize("operand", ["a", "b", "c"])
def test_the_layouts_are_those_of_ptx(stream, operand, kind, shape):
    m, n, k = shape
    if kind == "8-bit" and shape == (16, 8, 16):
        dtypes = (int8, (uint8, int8))
    else:
        dtypes = DTYPES[kind]
    formula = {"a": A.get((kind, shape)), "b": B.get((kind, shape))}.get(operand)
    if operand == "c":
        formula = lambda g, t, i: (g if i < 2 else g + 8, 2 * t + (i & 1))  # noqa: E731
    count = {"a": m * k, "b": k * n, "c": m * n}[operand] // 32
    right = [[formula(lane // 4, lane % 4, i) for i in range(count)] for lane in range(32)]
    assert len({place for places in right for place in places}) == 32 * count
    for dtype in dtypes:
        assert all_places(stream, operand, shape, dtype, count).tolist() == np.array(right).tolist()


# "Register Fragments" of wgmma: rows 16 w on are those of warp w of the warpgroup; D has eight columns in four registers.
@pytest.mark.parametrize(
    ("operand", "shape", "dtype"),
    [
        ("a", (64, 8, 16), float16),
        ("a", (64, 8, 64), bfloat16),
        ("a", (64, 8, 32), float8e4m3),
        ("a", (64, 8, 8), float32),
        ("a", (64, 8, 16), "tf32"),
        ("c", (64, 24, 16), bfloat16),
    ],
)
def test_the_registers_of_a_warpgroup(stream, operand, shape, dtype):
    m, n, k = shape
    in_word = 1 if dtype in (float32, "tf32") else 4 // np.dtype(dtype).itemsize
    count = (m * k if operand == "a" else m * n) // 128
    right = np.empty((256, count, 2), np.int32)
    for thread, i in np.ndindex(256, count):
        warp, g, t = thread // 32 % 4, thread % 32 // 4, thread % 4
        if operand == "c":
            right[thread, i] = 16 * warp + g + 8 * (i // 2 % 2), i // 4 * 8 + 2 * t + i % 2
            continue
        step, register = divmod(i // in_word, 4)  # of 32 bytes of depth
        right[thread, i, 0] = 16 * warp + g + 8 * (register in (1, 3))
        right[thread, i, 1] = in_word * (8 * step + 4 * (register > 1) + t) + i % in_word
    assert (all_places(stream, operand, shape, dtype, count, threads=256) == right).all()


@pytest.mark.parametrize(
    ("arguments", "message", "help"),
    [
        (("d", (16, 8, 8), float16, 0), 'operand must be "a", "b" or "c", not \'d\'', 'write "c" for results, too'),
        (("a", (16, 8), float16, 0), "shape must be (m, n, k), not (16, 8)", "write (16, 8, 16)"),
        (
            ("a", (16, 8, 4), float16, 0),
            "fragment_place has no shape (16, 8, 4) for float16",
            "the shapes for float16 are (16, 8, 8), (16, 8, 16)",
        ),
        (
            ("a", (16, 8, 8), float32, 0),
            "fragment_place has no elements of float32",
            "dtype is one of float16, bfloat16, 'tf32'",
        ),
        (
            ("a", (16, 8, 16), (float16, bfloat16), 0),
            "fragment_place has no product of float16 and bfloat16",
            "convert one",
        ),
        (
            ("b", (16, 8, 8), float16, 2),
            "each lane holds 2 elements of 'b', of which none has the number 2",
            "the numbers are 0 to 1",
        ),
        (("b", (64, 8, 16), float16, 0), "the operand b of wgmma is a tile in shared memory", "index the tile"),
        (("c", (64, 12, 16), float16, 0), "wgmma has no shape (64, 12, 16)", "n is a multiple of 8"),
        (("c", (64, 8, 16), float64, 0), "wgmma has no elements of float64", "use mma_sync"),
        (("c", (16, 8, 8), float16, 0.5), "i of fragment_place must be an integer, not float 0.5", "convert it"),
    ],
)
def test_refusals(arguments, message, help):
    operand, shape, dtype, i = arguments

    @device.kernel
    def wrong(out):
        out[0] = device.fragment_place(operand, shape, dtype, i)[0]

    with pytest.raises(device.CompileError, match=re.escape(message)) as raised:
        device.launch(wrong, np.zeros(1, np.int32), grid=1, block=32, stream=device.cpu_stream())
    assert raised.value.help.startswith(help)
    assert "out[0] = device.fragment_place" in str(raised.value)
    with pytest.raises(device.DeviceOnlyError):
        device.fragment_place(*arguments)
