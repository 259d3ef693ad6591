"""The pragma `nounroll` of loops that LLVM has unrolled and that write to global memory or read shared memory."""

import re

import numpy as np
import pytest
from ir_helpers import ptx_of

import cuda_device as device
from cuda_device.codegen.gpu.peephole import mark_nounroll

STORE = "\tst.global.b32 \t[%rd1], %r1;\n"
LOOP = """$L__BB0_1:
	ld.global.b32 	%r1, [%rd2];
BODY	add.s32 	%r2, %r2, -1;
	setp.ne.b32 	%p1, %r2, 0;
	@%p1 bra 	$L__BB0_1;
	ret;
"""
PRAGMA = '\t.pragma "nounroll";\n'


@pytest.mark.parametrize("access", [STORE, "\tld.shared.b32 \t%r1, [%rd1];\n"])
def test_loops_that_stay(access):
    text = LOOP.replace("BODY", 4 * access)
    assert mark_nounroll(text) == text.replace("$L__BB0_1:\n", "$L__BB0_1:\n" + PRAGMA)
    assert mark_nounroll(mark_nounroll(text)) == mark_nounroll(text)
    two = text + text.replace("BB0_1", "BB0_2")
    assert mark_nounroll(two).count(PRAGMA) == 2


@pytest.mark.parametrize(
    "text",
    [
        LOOP.replace("BODY", 3 * STORE),
        LOOP.replace("BODY", 4 * STORE.replace("global", "shared")),
        LOOP.replace("BODY", 4 * STORE.replace("st.global.b32", "ld.global.b32")),
        LOOP.replace("BODY", 4 * STORE).replace("bra \t$L__BB0_1", "bra \t$L__BB0_7"),
        4 * STORE + LOOP.replace("BODY", "") + 4 * STORE,
    ],
)
def test_others(text):
    assert mark_nounroll(text) == text


@device.kernel
def scaled(x, y, factor):
    for i in range(int(device.thread_idx.x), x.shape[0], 128):
        y[i] = x[i] * factor


@device.kernel
def through_a_tile(x, y, size):
    tile = device.shared_array(256, device.float32)
    t = int(device.thread_idx.x)
    tile[t] = x[t]
    device.syncthreads()
    total = 0.0
    for i in range(size):
        for j in range(size):
            total += x[i] * tile[i + j]
    y[t] = total + t


@device.kernel
def added(x, y):
    total = 0.0
    for i in range(int(device.thread_idx.x), x.shape[0], 128):
        total += x[i]
    y[0] = total


def test_a_row_that_is_written():
    x = np.zeros(4096, np.float32)
    ptx = ptx_of(scaled, x, x, 2.0)
    assert re.search(r'^(\$\w+):\n\t\.pragma "nounroll";\n(?:\t.*\n)*?\t@%p\d+ bra \t\1;', ptx, re.M)
    assert ".pragma" not in ptx_of(added, x, x)
    device.compile(scaled, x, x, 2.0, target="sm_90", launch_facts=True)  # the assembler takes it


def test_a_tile_that_is_read():
    x = np.zeros(256, np.float32)
    assert re.search(
        r'^(\$\w+):\n\t\.pragma "nounroll";\n(?:\t.*\n)*?\t@%p\d+ bra \t\1;', ptx_of(through_a_tile, x, x, 7), re.M
    )


@pytest.mark.parametrize("size", [0, 1, 3, 4, 7, 16, 35])
def test_tiles_of_all_sizes(stream, size):
    x, y = np.arange(256, dtype=np.float32) % 7, stream.array(np.full(256, -1, np.float32))
    stream.launch(through_a_tile, stream.array(x), y, size, grid=1, block=256)
    total = sum(x[i] * x[i + j] for i in range(size) for j in range(size))
    assert np.array_equal(stream.numpy(y), total + np.arange(256))


@pytest.mark.parametrize("size", [0, 1, 129, 511, 512, 513, 4000])
def test_rows_of_all_lengths(stream, size):
    x, y = np.arange(size, dtype=np.float32), stream.array(np.full(size + 1, -1, np.float32))
    stream.launch(scaled, stream.array(x), y, 2.0, grid=1, block=128)
    assert np.array_equal(stream.numpy(y), np.append(2 * x, -1))
