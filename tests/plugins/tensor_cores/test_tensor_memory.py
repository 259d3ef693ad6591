"""Products of sm_100 in tensor memory, which are compiled only: instructions, descriptors read as the hardware does, refusals."""

import importlib
import pathlib
import re
from dataclasses import dataclass

import numpy as np
import pytest
from conftest import can_assemble

import cuda_device as device
from cuda_device import (
    CompileError,
    TensorMemory,
    bfloat16,
    float8e4m3,
    float8e5m2,
    float16,
    float32,
    int8,
    int32,
    shared_array,
    swizzled,
    tcgen05_mma,
    uint8,
)
from cuda_device.plugins.tensor_cores.shared_operands import descriptors
from cuda_device.plugins.tensor_cores.swizzling import Tile, byte_offset

pytestmark = pytest.mark.needs("generated")
FLOATS = device.ArrayType(float32, 1)
TARGETS = "sm_100a", "sm_103a"
NAMES = {name: getattr(device, name) for name in device.__all__ if name.startswith("tcgen05")}
NAMES |= {name: getattr(device, name) for name in ("MBarrier", "rows", "uint32")} | {"float64": np.float64}


def compiled(body, target="sm_100a", output="ptx", blocks=1):
    """The code of a kernel, which begins with tiles of shared and of tensor memory."""
    source = f"""
def kernel(out, n: int32):
    plain, bars, memory = shared_array((128, 64), bfloat16), shared_array(2, MBarrier), shared_array(1, Memory)
    x = swizzled(plain, 128)
    d, e = memory[0].tile(0, (128, 128), float32), memory[0].tile(n, (64, 32), float32)
    p = memory[0].tile(128, (128, 64), bfloat16)
    {body}
"""
    names = {**globals(), **NAMES, "Memory": TensorMemory(256, blocks)}
    return device.compile(source, FLOATS, int32, target=target, output=output, globals=names).code


# Products


@dataclass(frozen=True)
class Case:
    """A product: its kind, the types of A and B and their numbers in descriptors, the shape of D, and what is transposed."""

    kind: str
    a: object
    b: object
    numbers: tuple[int, int]
    shape: tuple[int, int]
    transposed: bool = False
    blocks: int = 1

    @property
    def depth(self):
        return 2 * 128 // size_of(self.a)

    def operand(self, dtype, count):
        """A function that makes a swizzled tile of shared memory."""
        width = 128 // size_of(dtype)
        length, stored = (self.depth, count) if self.transposed else (count, self.depth)

        def make():
            panels = shared_array((stored // width, length, width), dtype)
            whole = swizzled(panels if stored > width else panels[0], 128)
            return whole.T if self.transposed else whole

        return make

    def kernel(self):
        (m, n), result, memory_type = (
            self.shape,
            int32 if self.kind == "i8" else float32,
            TensorMemory(256, self.blocks),
        )
        left, right = self.operand(self.a, m), self.operand(self.b, n // self.blocks)

        @device.kernel
        def kernel(count: int32):
            memory = shared_array(1, memory_type)
            tcgen05_mma(memory[0].tile(0, (m, n), result), left(), right(), accumulate=count > 1)

        return kernel


PRODUCTS = [
    Case("f16", bfloat16, bfloat16, (1, 1), (128, 256)),
    Case("f16", float16, float16, (0, 0), (64, 40)),
    Case("f16", bfloat16, bfloat16, (1, 1), (128, 64), transposed=True),
    Case("f16", bfloat16, bfloat16, (1, 1), (128, 256), blocks=2),
    Case("tf32", float32, float32, (2, 2), (128, 16)),
    Case("f8f6f4", float8e4m3, float8e5m2, (0, 1), (128, 48)),
    Case("f8f6f4", float8e5m2, float8e4m3, (1, 0), (128, 128), transposed=True),
    Case("i8", int8, uint8, (1, 0), (64, 8)),
    Case("i8", uint8, int8, (0, 1), (128, 96)),
]


def size_of(dtype):
    return np.dtype(device.numpy_dtype(dtype)).itemsize


@pytest.mark.parametrize("case", PRODUCTS, ids=str)
def test_product(case):
    text = device.compile(case.kernel(), int32, target="sm_100a", output="ptx").code
    name = rf"tcgen05\.mma\.cta_group::{case.blocks}\.kind::{case.kind} \[%r\d+\], a(\d), b\1, types, (\w+);"
    steps = case.depth * size_of(case.a) // 32
    assert re.findall(name, text) == [(str(k), "others" if k else "first") for k in range(steps)]
    assert re.search(r"setp\.ne\.b32 first, %r\d+, 0;", text)
    number = int(re.search(r"mov\.b32 types, (0x\w+);", text)[1], 16)
    fields = {4: 2, 7: 3, 10: 3, 15: 1, 16: 1, 17: 6, 24: 5}  # the first bits, and the widths
    read = [number >> low & (1 << bits) - 1 for low, bits in fields.items()]
    (m, n), of_d = case.shape, 2 if case.kind == "i8" else 1
    assert read == [of_d, *case.numbers, case.transposed, case.transposed, n // 8, m * case.blocks // 16]
    assert number == sum(value << low for low, value in zip(fields, read, strict=True))
    if can_assemble("sm_100a"):
        device.compile(case.kernel(), int32, target="sm_100a")


def test_operand_in_tensor_memory():
    """A copy, and a product of the copied tile: both read 32 bytes of depth at a time, which are 8 columns."""
    text = compiled("tcgen05_cp(p, x); tcgen05_mma(d, p, x, accumulate=False)")
    copied = re.findall(r"tcgen05\.cp\.cta_group::1\.128x256b \[%r\d+\+(\d+)\], s(\d);", text)
    assert copied == [("0", "0"), ("8", "1"), ("16", "2"), ("24", "3")]
    assert re.findall(r"kind::f16 \[%r\d+\], \[%r\d+\+(\d+)\], b\d,", text) == ["0", "8", "16", "24"]
    assert "setp.ne.b32 first, 0, 0;" in text


def addresses(text, count, pattern, transposed, width):
    """The offset of each byte of a matrix, in the order of rows and of depth, as the hardware finds it by descriptors.

    PTX, "Matrix descriptor" and "Canonical layouts": the distance of eight rows of the memory, that of panels in transposed
    matrices, and the bits of the address that are combined with those of the number of the row.
    """
    constant = int(re.search(r"or\.b64 x0, x0, (0x\w+);", text)[1], 16)
    starts = [0, *[16 * int(distance) for distance in re.findall(r"add\.s64 x\d+, x0, (\d+);", text)]]
    panel, eight = 16 * (constant >> 16 & 0x3FFF), 16 * (constant >> 32 & 0x3FFF)
    assert constant >> 46 & 3 == 1 and constant >> 61 == {128: 2, 64: 4, 32: 6}[pattern]
    i, j = np.arange(count)[:, None], np.arange(32 // width)
    parts = []
    for start in starts:
        if transposed:
            linear = start + i * width // pattern * panel + i * width % pattern + j // 8 * eight + j % 8 * pattern
        else:
            linear = start + i // 8 * eight + i % 8 * pattern + j * width
        parts.append(linear ^ (linear >> 7 << 4 & {128: 0x70, 64: 0x30, 32: 0x10}[pattern]))
    return np.hstack(parts)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("pattern", [128, 64, 32])
@pytest.mark.parametrize("dtype", [bfloat16, int8])
def test_descriptors_find_each_element(dtype, pattern, transposed):
    element, width = device.ArrayType(dtype, 0).dtype, pattern // size_of(dtype)
    shape = (2 * width, 64) if transposed else (64, 2 * width)
    length = shape[1 if transposed else 0]
    matrix = Tile(element, shape, pattern, length * pattern, transposed)
    offset = byte_offset(matrix)
    expected = [[offset(i, j) for j in range(shape[1])] for i in range(shape[0])]
    text = "\n".join(descriptors("x", "$0", matrix, version=1))
    assert (addresses(text, shape[0], pattern, transposed, size_of(dtype)) == expected).all()


# The other instructions

INSTRUCTIONS = {
    "tcgen05_alloc(memory)": [r"tcgen05\.alloc\.cta_group::1\.sync\.aligned\.shared::cta\.b32 \[%rd\d+\], 256;"],
    "tcgen05_dealloc(memory[0])": [r"tcgen05\.dealloc\.cta_group::1\.sync\.aligned\.b32 %r\d+, 256;"],
    "tcgen05_relinquish_permit()": [r"tcgen05\.relinquish_alloc_permit\.cta_group::1\.sync\.aligned;"],
    "tcgen05_commit(bars[1])": [
        r"tcgen05\.commit\.cta_group::1\.mbarrier::arrive::one\.shared::cluster\.b64 \[%rd\d+\];"
    ],
    "tcgen05_commit(bars[1], multicast=n)": [
        r"tcgen05\.commit\.cta_group::1\.mbarrier::arrive::one\.shared::cluster\.multicast::cluster\.b64 \[%rd\d+\], %rs\d+;"
    ],
    "tcgen05_wait_st()": [r"tcgen05\.wait::st\.sync\.aligned;"],
    "tcgen05_wait_ld()": [r"tcgen05\.wait::ld\.sync\.aligned;"],
    "tcgen05_fence_before_sync()": [r"tcgen05\.fence::before_thread_sync;"],
    "tcgen05_fence_after_sync()": [r"tcgen05\.fence::after_thread_sync;"],
}


@pytest.mark.parametrize("call", INSTRUCTIONS)
def test_instruction(call):
    text = compiled(call)
    assert all(re.search(pattern, text) for pattern in INSTRUCTIONS[call])


MOVES = {
    # The repetitions of each instruction, its registers, and where it begins: the lane, and the column of 32 bits.
    "d.part(0, 128)": [("32x32b.x128", 128, 0)],
    "d.part(8, 24)": [("32x32b.x16", 16, 0), ("32x32b.x8", 8, 16)],
    "d.part(0, 24), '16x256b'": [
        ("16x256b.x2", 8, 0),
        ("16x256b.x1", 4, 16),
        ("16x256b.x2", 8, 16 << 16),
        ("16x256b.x1", 4, (16 << 16) + 16),
    ],
    "e": [("16x256b.x4", 16, 0)],
    "e.part(4 * n, 20), '16x128b'": [("16x128b.x4", 8, 0), ("16x128b.x1", 2, 16)],
    "p, '16x64b'": [("16x64b.x16", 16, 0), ("16x64b.x16", 16, 16 << 16)],
}


@pytest.mark.parametrize("operands", MOVES)
def test_loads_and_stores(operands):
    """Each register that is loaded is stored, in order, by instructions of the same shape."""
    tile, _, shape = operands.partition(", '")
    store = f"tcgen05_st({tile}, x{f', {shape[:-1]!r}' * bool(shape)})"
    body = f"x = tcgen05_wait_ld(tcgen05_ld({operands})); {store}"
    text = compiled(body)
    loads = re.findall(r"tcgen05\.ld\.sync\.aligned\.(\S+)\.b32 \{([^}]*)\}, \[%r\d+\+(\d+)\];", text)
    assert [(shape, registers.count("%"), int(where)) for shape, registers, where in loads] == MOVES[operands]
    stores = re.findall(r"tcgen05\.st\.sync\.aligned\.(\S+)\.b32 \[%r\d+\+(\d+)\], \{([^}]*)\};", text)
    assert [(shape, registers, where) for shape, where, registers in stores] == loads
    assert text.index("tcgen05.ld") < text.index("tcgen05.wait::ld") < text.index("tcgen05.st")


@pytest.mark.parametrize("target", TARGETS)
def test_assembled(target):
    if not can_assemble(target):
        pytest.skip("no assembler")
    moves = [f"tcgen05_st({tile}, tcgen05_wait_ld(tcgen05_ld({tile})))" for tile in ("d", "e", "p")]
    assert compiled("; ".join([*INSTRUCTIONS, *moves]), target, "cubin")


def test_part_begins_at_its_column():
    """Columns of a matrix with elements of 16 bits are halves of those of tensor memory."""
    text = compiled(
        "out[0] = float32(p.part(32, 32).address - p.address) + float32(d.part(32, 32).address - d.address)"
    )
    assert f", {np.float32(16 + 32).view(np.uint32)};" in text


# What is refused

REFUSED = {
    "tcgen05_alloc(out)": "tcgen05_alloc takes a shared array of handles, not array<float32, 1, C>",
    "tcgen05_alloc(memory[0])": "tcgen05_alloc takes a shared array of handles, not",
    "tcgen05_dealloc(memory)": "tcgen05_dealloc takes a handle of tensor memory, not",
    "tcgen05_relinquish_permit(3)": "blocks=3, but one or two blocks multiply together",
    "memory[0].tile(0, (96, 64), float32)": "tensor memory has tiles of 64 or 128 rows, not of (96, 64)",
    "memory[0].tile(0, (128, 64), float64)": "a tile of tensor memory with 128 rows has no elements of float64",
    "memory[0].tile(0, (64, 64), bfloat16)": "a tile of tensor memory with 64 rows has no elements of bfloat16",
    "memory[0].tile(192, (128, 128), float32)": "there are 256 columns of 32 bits, and not 128 of float32 from 192 on",
    "memory[0].tile(0.5, (128, 128), float32)": "the first column must be an integer, not float 0.5",
    "d.part(n, 256)": "there are 128 columns of 32 bits, and not 256 of float32",
    "p.part(1, 32)": "there are 32 columns of 32 bits, and not 32 of bfloat16 from 1 on",
    "tcgen05_mma(x, x, x)": "tcgen05_mma takes a tile of tensor memory, not",
    "tcgen05_mma(d, plain, x)": "tcgen05_mma reads swizzled tiles, and a is a tile of 128 x 64 bfloat16",
    "tcgen05_mma(d, x, p)": "tcgen05_mma takes a tile, a two-dimensional array in shared memory, not",
    "tcgen05_mma(d, e, x)": "tcgen05_mma does not read a tile of 64 x 32 float32 in tensor memory as a",
    "tcgen05_mma(d, p, swizzled(shared_array((128, 64), float16), 128))": "tcgen05_mma does not multiply bfloat16 by float16",
    "tcgen05_mma(d, p.part(0, 32), x)": "their depths differ",
    "tcgen05_mma(d, p, rows(x, 0, 64))": "d is a tile of 128 x 128 float32 in tensor memory, but a is",
    "tcgen05_mma(e, rows(x, 0, 64), rows(x, 0, 64))": "d is a tile of 64 x 32 float32 in tensor memory, but a is",
    "tcgen05_mma(d.part(0, 24), x, rows(x, 0, 24))": "tcgen05_mma does not have the 24 columns of",
    "tcgen05_mma(d, x, x, out)": "accumulate is a bool, not array<float32, 1, C>",
    "tcgen05_mma(d, swizzled(shared_array((32, 32), float32), 128).T, x)": "only of 8-bit and 16-bit elements",
    "tcgen05_commit(n)": "tcgen05_commit takes an MBarrier in the shared memory of the block, not int32",
    "tcgen05_commit(bars[0], 0.5)": "multicast is a mask of blocks, not float 0.5",
    "tcgen05_cp(d, x)": "tcgen05_cp does not copy a tile of 128 x 64 bfloat16",
    "tcgen05_cp(p, x.T)": "tcgen05_cp reads",
    "tcgen05_ld(x)": "tcgen05_ld takes a tile of tensor memory, not",
    "tcgen05_ld(e, '32x32b')": "is not moved by the shape '32x32b'",
    "tcgen05_ld(d.part(0, 12), '16x256b')": "is not moved by the shape '16x256b'",
    "tcgen05_ld(memory[0].tile(0, (128, 256), int32))": "has 256 registers for each thread, more than 128",
    "tcgen05_ld(d)[0]": "a tuple in flight cannot be indexed",
    "tcgen05_wait_ld(n)": "tcgen05_wait_ld takes tuples, not int32",
    "tcgen05_st(e, (0.0,) * 8)": "tcgen05_st stores 16 registers of float32",
    "tcgen05_st(p, (uint32(0),) * 31)": "tcgen05_st stores 32 registers of uint32",
    "tcgen05_commit(bars[0], blocks=2), tcgen05_alloc(memory)": "a kernel uses tensor memory for one block and for two",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_what_is_refused_says_what_to_do(expression):
    with pytest.raises(CompileError) as raised:
        compiled(f"value = {expression}")
    error = raised.value
    assert REFUSED[expression] in error.reason and error.help and error.location.line == 7


def test_two_blocks_have_128_rows_each():
    with pytest.raises(CompileError, match="two blocks multiply 128 rows each, not 64"):
        compiled("tcgen05_mma(memory[0].tile(0, (64, 128), float32), rows(x, 0, 64), rows(x, 0, 64))", blocks=2)


@pytest.mark.parametrize(("columns", "blocks"), [(48, 1), (1024, 1), (512, 3)])
def test_other_sizes_are_refused(columns, blocks):
    with pytest.raises(ValueError, match="give 32, 64, 128, 256 or 512 columns, and 1 or 2 blocks"):
        TensorMemory(columns, blocks)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100", "sm_120a"])
@pytest.mark.parametrize(
    "call", [*INSTRUCTIONS, "tcgen05_ld(d)", "tcgen05_st(p, (uint32(0),) * 32)", "tcgen05_cp(p, x)"]
)
def test_other_architectures_are_refused(call, target):
    name = call.partition("(")[0]
    with pytest.raises(
        CompileError, match=f"^{name} needs sm_100f or later in its family, and this is compiled for {target}"
    ):
        compiled(call, target)


def test_integers_need_sm_100a():
    with pytest.raises(CompileError, match=r"^tcgen05_mma of integers needs sm_100a, and this is compiled for sm_103a"):
        device.compile(Case("i8", int8, int8, (1, 1), (128, 96)).kernel(), int32, target="sm_103a", output="ptx")


@pytest.mark.parametrize(
    ("target", "reason"),
    [("sm_90a", "tcgen05_mma needs sm_100f"), ("sm_100a", "CPU streams do not emulate tensor memory")],
)
def test_cpu_streams_refuse(target, reason):
    stream = device.cpu_stream(target=target)
    with pytest.raises(CompileError, match=reason) as raised:
        device.launch(PRODUCTS[0].kernel(), 1, grid=1, block=32, stream=stream)
    assert "tcgen05_mma(" in str(raised.value) and raised.value.help


# A whole kernel


@pytest.mark.parametrize(
    ("dtype", "target"), [(bfloat16, "sm_100a"), pytest.param(float8e4m3, "sm_103a", marks=pytest.mark.long)]
)
def test_matrix_product(dtype, target, monkeypatch):
    """The example compiles without spills and warnings."""
    monkeypatch.syspath_prepend(pathlib.Path(__file__).parents[3] / "examples" / "transformer")
    products = importlib.import_module("products_sm100")
    kernel, *layouts = products.gemm(dtype, bk=128 // size_of(dtype))
    maps = [layout.map_type() for layout in layouts]
    arguments = *maps, device.ArrayType(bfloat16, 2), int32, int32, int32
    if not can_assemble(target):
        pytest.skip("no assembler")
    result = device.compile(kernel, *arguments, target=target)
    assert (result.spills, result.warnings, result.local) == (0, (), 0)
