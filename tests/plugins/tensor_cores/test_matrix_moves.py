"""`ldmatrix`, `stmatrix` and `movmatrix` against NumPy, for each size of elements, plain and swizzled."""

import re

import numpy as np
import pytest
from ir_helpers import assembled

import cuda_device as device
from cuda_device import bfloat16, float8e4m3, float16, float32, float64, int8, int32, uint32


def kernel(dtype, num, trans, pattern, column):
    """Each lane names a row of 16 bytes of another part of the tile. What it loads is stored elsewhere."""
    size = np.dtype(dtype).itemsize
    unit, width = 16 // size, (pattern or 80) // size
    units = width // unit

    @device.kernel
    def moves(x, words, turned, y):
        t, u = (device.shared_array((32, width), dtype, align=1024) for _ in (0, 1))
        lane = device.lane_id
        if pattern:
            t, u = device.swizzled(t, pattern), device.swizzled(u, pattern)
        for j in range(width):
            t[lane, j], u[lane, j] = x[lane, j], x[lane, j]
        device.syncwarp(-1)
        registers = device.ldmatrix(t, lane ^ 5, (lane + column) % units * unit, num, trans)
        for i, word in enumerate(registers):
            words[lane, i] = word
        turned[lane] = device.movmatrix(registers[0])
        device.stmatrix(u, lane, (lane + 1) % units * unit, registers if num > 1 else registers[0], trans)
        device.syncwarp(-1)
        for j in range(width):
            y[lane, j] = u[lane, j]

    return moves, width


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize(
    ("dtype", "num", "pattern"),
    [
        (bfloat16, 4, 0),
        (float16, 2, 64),
        (int8, 4, 128),
        (float8e4m3, 1, 0),
        (float32, 4, 128),
        (int32, 2, 32),
    ],
)
def test_matrices_of_8_x_8(stream, dtype, num, pattern, trans):
    if stream.emulated:
        pytest.skip("ptx_machine has no ldmatrix")
    moves, width = kernel(dtype, num, trans, pattern, 3)
    units = width * np.dtype(dtype).itemsize // 16
    halves = np.random.default_rng(4).integers(0, 0x3C00, (32, 8 * units), np.uint16)  # without NaN
    out = np.zeros((32, num), uint32), np.zeros(32, uint32), np.zeros((32, width), dtype)
    _, words, turned, stored = stream.run(moves, halves.view(dtype), *out, block=32)
    rows = halves.reshape(32, units, 8)
    right = rows.copy()
    for i in range(num):
        matrix = np.stack([rows[lane ^ 5, (lane + 3) % units] for lane in range(8 * i, 8 * i + 8)])
        fragment = np.ascontiguousarray(matrix.T if trans else matrix)
        assert (words[:, i].reshape(8, 4) == fragment.view(uint32)).all()
        if i == 0:
            assert (turned.reshape(8, 4) == np.ascontiguousarray(fragment.T).view(uint32)).all()
        for r in range(8):
            right[8 * i + r, (8 * i + r + 1) % units] = matrix[r]
    assert (stored.view(np.uint16).reshape(rows.shape) == right).all()


@pytest.mark.parametrize("trans", [False, True])
def test_the_instructions(trans):
    moves, _ = kernel(bfloat16, 4, trans, 128, 0)
    types = [device.ArrayType(type, n) for type, n in ((bfloat16, 2), (uint32, 2), (uint32, 1), (bfloat16, 2))]
    ptx = assembled(moves, *types, target="sm_90")
    suffix = f"sync.aligned.m8n8.x4{'.trans' * trans}.shared.b16 "
    assert ptx.count("ldmatrix." + suffix) == ptx.count("stmatrix." + suffix) == 1
    assert ptx.count("movmatrix.sync.aligned.m8n8.trans.b16 ") == 1
    with pytest.raises(device.CompileError, match="stmatrix needs sm_90 or later, and this is compiled for sm_89"):
        device.compile(moves, *types, target="sm_89", output="ptx")


@device.kernel
def multiplies(a, b, out):
    """One product of a warp: A and B go to shared memory, and from there into registers."""
    lane, rows, columns = device.lane_id, device.shared_array((16, 16), float16), device.shared_array((16, 8), float16)
    for i in range(lane, 256, 32):
        rows[i // 16, i % 16] = a[i // 16, i % 16]
    for i in range(lane, 128, 32):
        columns[i // 8, i % 8] = b[i // 8, i % 8]
    device.syncwarp(-1)
    of_a = device.ldmatrix(rows, lane % 16, lane // 16 * 8)
    of_b = device.ldmatrix(columns, lane % 16, 0, num=2, trans=True)
    for i, x in enumerate(device.mma_sync(of_a, of_b, (0.0,) * 4, (16, 8, 16), float16)):
        out[device.fragment_place("c", (16, 8, 16), float16, i)] = x


def test_operands_of_a_product(stream):
    if stream.emulated:
        pytest.skip("ptx_machine has no ldmatrix")
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-8, 8, shape).astype(float16) for shape in ((16, 16), (16, 8)))
    *_, out = stream.run(multiplies, a, b, np.zeros((16, 8), float32), block=32)
    assert (out == a.astype(float32) @ b.astype(float32)).all()
    types = [device.ArrayType(type, 2) for type in (float16, float16, float32)]
    assert "ldmatrix" in device.compile(multiplies, *types, target="sm_80", output="ptx").code


def test_rows_outside_of_the_tile_are_reported_on_cpu_streams():
    @device.kernel
    def loads(row, column, out):
        tile = device.shared_array((8, 16), float16)
        for j in range(16):
            tile[device.lane_id % 8, j] = 0
        device.syncwarp(-1)
        out[device.lane_id] = device.ldmatrix(tile, device.lane_id + row, column, num=1)[0]

    out = np.ones(32, uint32)
    device.launch(loads, 0, 8, out, grid=1, block=32, stream=device.cpu_stream())  # lanes 8 to 31 do not load
    assert not out.any()
    for row, column, message in (
        (1, 8, "index 8 is out of bounds for axis 0"),
        (0, 4, "begins in the column 4"),
        (-1, 8, r"a row of a matrix begins at \(-1, 8\)"),
        (0, -8, r"a row of a matrix begins at \(0, -8\)"),
    ):
        with pytest.raises(device.KernelError, match=message) as raised:
            device.launch(loads, row, column, out, grid=1, block=32, stream=device.cpu_stream())
        assert "device.ldmatrix(tile, device.lane_id + row" in str(raised.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: device.ldmatrix(t, 0, 0, num=3), "ldmatrix loads 1, 2 or 4 matrices, not 3"),
        (lambda t: device.ldmatrix(t.T, 0, 0), "ldmatrix takes a tile, a two-dimensional array in shared memory"),
        (
            lambda t: device.ldmatrix(device.swizzled(t, 32).T, 0, 0),
            "ldmatrix takes the tile itself, not the transposed one",
        ),
        (lambda t: device.ldmatrix(t.view(float64), 0, 0), "ldmatrix takes elements of 8, 16 or 32 bits, not float64"),
        (lambda t: device.ldmatrix(t, 0, 4), "a row of a matrix cannot begin in the column 4"),
        (lambda t: device.ldmatrix(t, -8, 0), "ldmatrix has no row -8"),
        (lambda t: device.stmatrix(t, 0, -8, uint32(0)), "stmatrix has no column -8"),
        (lambda t: device.ldmatrix(t, 0, 0.5), "the column must be an integer, not float 0.5"),
        (lambda t: device.stmatrix(t, 0, 0, 1.5), "stmatrix stores 1, 2 or 4 uint32, not float 1.5"),
        (lambda t: device.stmatrix(t, 0, 0, (uint32(1),) * 3), "stmatrix stores 1, 2 or 4 uint32"),
        (lambda _: device.ldmatrix(device.shared_array((8, 12), float16), 0, 0), "are no multiple of 16 bytes"),
        (lambda _: device.movmatrix(1.5), "movmatrix takes a uint32, not float 1.5"),
    ],
)
def test_refusals(call, message):
    @device.kernel
    def wrong():
        call(device.shared_array((8, 16), float16, align=256))

    with pytest.raises(device.CompileError, match=re.escape(message)) as raised:
        device.launch(wrong, grid=1, block=32, stream=device.cpu_stream())
    assert raised.value.help
    assert "device." in str(raised.value)
    with pytest.raises(device.DeviceOnlyError):
        device.movmatrix(1)
