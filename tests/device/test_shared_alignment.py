"""`extend.aligned`: shared arrays get the alignment that code asks for, or the compiler says what to write."""

import re
from pathlib import Path

import numpy as np
import pytest

import cuda_device as device
from cuda_device import extend
from cuda_device.errors import CompileError


@device.func
def misplaced(array, align: device.ConstExpr):
    """How far the memory of an array is from a multiple of its alignment."""
    aligned = extend.aligned(array, align)
    address = aligned.pointer(*(0,) * aligned.ndim).address
    address = device.ptx("mov.b64 $0, $1;", address, result=device.uint64, host=lambda address: address)
    return device.int32(address & device.uint64(align - 1))


@device.struct
class Ring:
    tiles: device.ArrayType(device.float16, 3)
    length: int

    def tile(self, i):
        return self.tiles[i % self.length]


@device.kernel
def of_stages(out, n):
    padding = device.shared_array(3, device.int8)
    tiles = device.shared_array((4, 8, 64), device.float16)
    padding[0] = device.int8(1)
    total, stage, tile = 0, 0, tiles[3]
    for i in range(n):
        total += misplaced(tile, 1024) + misplaced(tiles[-1 - i % 4], 1024) + misplaced(Ring(tiles, 4).tile(i), 512)
        stage = 0 if stage == 3 else stage + 1
        tile = tiles[stage]
    out[device.tid(1)] = total


@device.kernel
def of_parts(out, n):
    padding = device.shared_array(3, device.int8)
    flat, late = device.shared_array(4096, device.float32), device.shared_array((2, 4, 64), device.bfloat16, align=32)
    padding[0] = device.int8(1)
    part = flat[256 * n :][: 16 * n].reshape(16, -1)
    total = misplaced(part, 256) + misplaced(flat[32:], 128) + misplaced(flat.view(device.uint8)[64 * n :], 64)
    for half in late:
        total += misplaced(half.T, 512)
    out[device.tid(1)] = total + misplaced(flat.view(device.float32x4)[n:], 16)


@device.kernel
def of_launches(out, n):
    padding, memory = device.shared_array(300, device.int8), device.dynamic_shared_array()
    padding[device.lane_id] = device.int8(0)
    device.syncthreads()
    total = misplaced(memory, 1024) + padding[31 - device.lane_id]
    for i in range(n):
        total += misplaced(memory.reshape(-1, 256)[i].view(device.float32), 256)
    out[device.tid(1)] = total + misplaced(memory[512:1024], 512)


@device.kernel
def of_large(out, n):
    large, memory = device.shared_array(50_000, device.int8), device.dynamic_shared_array()
    large[n] = device.int8(1)
    out[device.tid(1)] = misplaced(memory, 1024) + memory.size - 2048


KERNELS = [
    (of_stages, [("shared_1", 1024)]),
    (of_parts, [("shared_1", 256), ("shared_2", 512)]),
    (of_launches, [("shared_0", 1024), ("dynamic_shared", 1024)]),
    (of_large, [("dynamic_shared", 1024)]),
]


@pytest.mark.parametrize(("kernel", "aligned"), KERNELS, ids=lambda value: getattr(value, "__name__", ""))
def test_memory_is_aligned_as_code_asks(stream, kernel, aligned):
    out = stream.array(np.full(32, 7, np.int32))
    stream.launch(kernel, out, 6, grid=1, block=32, shared=2048)
    assert (stream.numpy(out) == 0).all()
    text = device.compile(kernel, np.zeros(1, np.int32), int, output="ptx", target="sm_90").code
    found = {name: int(align) for align, name in re.findall(r"\.shared \.align (\d+) \.b8 (\w+)\[", text)}
    assert aligned == [(name, found[name]) for name, _ in aligned]
    if "dynamic_shared" in found:  # it follows one static array, whose size is a multiple of its alignment
        assert all(int(size) % 1024 == 0 for size in re.findall(r"\.b8 shared_\d+\[(\d+)\]", text))
    else:
        assert found.get("shared_0", 1) == 1  # others stay as they are


def test_a_program_that_does_not_ask_has_the_same_code():
    @device.kernel
    def plain(out):
        tile = device.shared_array(64, device.float32)
        tile[device.tid(1)] = 1.0
        out[0] = tile[0] + device.dynamic_shared_array()[0]

    text = device.compile(plain, np.zeros(1, np.float32), output="ptx").code
    assert ".shared .align 16 .b8 shared_0[256]" in text
    assert ".shared .align 128 .b8 dynamic_shared[]" in text


@device.func
def relayed(array):
    return misplaced(array, 128)


def refused(source):
    space = {"device": device, "extend": extend, "misplaced": misplaced, "relayed": relayed, "library": library()}
    exec(f"def kernel(x, n):\n    t = device.shared_array((4, 60), device.float16)\n    {source}\n", space)
    return device.kernel(space["kernel"])


def library():
    """A function in a file of the package, whose errors have the location of its caller."""
    space = {"extend": extend}
    path = Path(device.__file__).parent / "plugins" / "nowhere.py"
    exec(compile("def of_library(array):\n    extend.aligned(array, 64)[0] = 0\n", path, "exec"), space)
    return space["of_library"]


@pytest.mark.parametrize(
    ("source", "reason", "help"),
    [
        ("misplaced(t[n], 16)", "aligned to 16 bytes, but it begins at a multiple of 8 bytes", "align=16"),
        ("misplaced(t[1:], 16)", "aligned to 16 bytes, but it begins at a multiple of 8 bytes", "align=16"),
        ("relayed(t[0]); relayed(t[1])", "aligned to 128 bytes, but it begins at a multiple of 8 bytes", "align=128"),
        ("relayed(t[0]); library(t[0]); library(t[1])", "aligned to 64 bytes", "align=64"),
        ("misplaced(device.dynamic_shared_array(), 2048)", "aligned to at most 1024", "align=2048"),
        ("misplaced(device.dynamic_shared_array()[n:], 16)", "it begins at a multiple of 1 bytes", "align=16"),
        ("extend.aligned(x, 16)", "an array in global memory is aligned like its elements, to 4 bytes", "shared_array"),
        ("extend.aligned(t, 48)", "a power of two up to 65536, not 48", "write 128"),
        ("extend.aligned(t, n)", "must be a constant expression", "ConstExpr"),
        ("extend.aligned(n, 16)", "aligned takes an array, not int", "shared memory"),
    ],
)
def test_what_cannot_be_aligned_is_a_compile_error(source, reason, help):
    with pytest.raises(CompileError, match=re.escape(reason)) as caught:
        device.compile(refused(source), np.zeros(4, np.float32), int, output="ptx")
    assert help in caught.value.help
    assert caught.value.location.file in ("<string>", __file__)


def test_an_array_with_large_elements_is_aligned_already():
    @device.kernel
    def k(x):
        extend.aligned(x, 16)[0] = device.float32x4(1, 2, 3, 4)

    device.compile(k, np.zeros(4, device.numpy_dtype(device.float32x4)), output="ptx")
    with pytest.raises(device.DeviceOnlyError, match="aligned"):
        extend.aligned(np.zeros(4), 16)
