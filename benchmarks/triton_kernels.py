"""Kernels of the suite for Triton, where it and torch are installed: those that programs of whole blocks can say.

`TRITON` maps names of the suite to a kernel, which takes what CUDA C++ takes, its constants, and the blocks that it is launched
with; it is empty without Triton. The memory traffic is that of CUDA C++, though Triton spreads it over threads as it likes.
Products are not here: Triton's are those of tensor cores.

    launcher(TRITON["softmax"], buffers, stream)         launches it on the n-th copy of the buffers
    compile(TRITON["softmax"], problem, "sm_90")         its PTX, without a GPU
"""

# Not `from __future__ import annotations`: Triton reads the annotations of kernels.

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

try:
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice
except Exception:  # not installed
    triton = None  # type: ignore[assignment]


@dataclass(frozen=True)
class TritonKernel:
    """A kernel, its constants, how many elements a block has, and which arguments count the elements along each axis.

    `alike` tells whether its algorithm is that of the others, or the nearest that Triton can say.
    """

    kernel: Any
    axes: tuple[int, ...] = (-1,)
    block: tuple[int, ...] = (256,)
    warps: int = 8
    constants: dict[str, int] = field(default_factory=dict)
    grid: Callable[[Any], tuple[int, ...]] | None = None
    alike: bool = True

    def blocks(self, problem: Any) -> tuple[int, ...]:
        """How many blocks there are along each axis."""
        if self.grid is not None:
            return self.grid(problem)
        return tuple(
            -(-int(problem.cuda[axis]) // size) for axis, size in zip(self.axes[::-1], self.block[::-1], strict=True)
        )


TRITON: dict[str, TritonKernel] = {}
LEGACY = 0, 1
"""The handles of CUDA's default stream."""


def launcher(row: TritonKernel, buffers: Any, stream: Any) -> Callable[[int], None]:
    """What launches a kernel on the n-th copy of the buffers."""
    import torch

    problem, gpu = buffers.problem, torch.device("cuda", stream.ordinal)
    # torch knows streams that others made by their addresses; the default one has none.
    queue = torch.cuda.default_stream(gpu) if stream.handle in LEGACY else torch.cuda.ExternalStream(stream.handle, gpu)
    grid, ready = row.blocks(problem), []
    for n in range(len(buffers)):
        found = buffers.replaced(problem.cuda, n)
        ready.append([torch.from_dlpack(x) if hasattr(x, "__dlpack__") and x.shape else x.item() for x in found])

    def launch(n: int) -> None:
        with torch.cuda.stream(queue):
            row.kernel[grid](*ready[n % len(ready)], **row.constants, num_warps=row.warps, enable_fp_fusion=True)

    return launch


def compile(row: TritonKernel, problem: Any, target: str) -> str:
    """The PTX of a kernel for the types of a problem's arguments."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    short = {"float32": "fp32", "float64": "fp64", "int32": "i32", "uint8": "u8", "uint32": "u32"}
    names = list(row.kernel.arg_names)
    types = {
        name: ("*" if getattr(x, "shape", ()) else "") + short[x.dtype.name]
        for name, x in zip(names, problem.cuda, strict=False)
    }
    types |= dict.fromkeys(row.constants, "constexpr")
    source = ASTSource(row.kernel, types, {(names.index(name),): value for name, value in row.constants.items()})
    architecture = int(target.removeprefix("sm_").rstrip("af"))
    compiled = triton.compile(
        source, GPUTarget("cuda", architecture, 32), {"num_warps": row.warps, "enable_fp_fusion": True}
    )
    return str(compiled.asm["ptx"])


def _define_stream() -> dict[str, TritonKernel]:
    @triton.jit
    def copy(a, c, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(c + i, tl.load(a + i, mask=i < n), mask=i < n)

    @triton.jit
    def scale(b, c, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(b + i, 0.4 * tl.load(c + i, mask=i < n), mask=i < n)

    @triton.jit
    def add(a, b, c, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(c + i, tl.load(a + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)

    @triton.jit
    def triad(a, b, c, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(a + i, tl.load(b + i, mask=i < n) + 0.4 * tl.load(c + i, mask=i < n), mask=i < n)

    @triton.jit
    def copy_strided(x, out, step, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i * step, mask=i < n), mask=i < n)

    @triton.jit
    def gather(x, places, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        place = tl.load(places + i, mask=i < n, other=0)
        tl.store(out + i, tl.load(x + place, mask=i < n), mask=i < n)

    rows = {"copy": copy, "scale": scale, "add": add, "triad": triad}
    block = {"constants": {"BLOCK": 256}}
    return {f"stream {name}": TritonKernel(kernel, **block) for name, kernel in rows.items()} | {
        "copy, strided": TritonKernel(copy_strided, **block),
        "copy, gathered": TritonKernel(gather, **block),
    }


def _define_grids() -> dict[str, TritonKernel]:
    @triton.jit
    def five_points(old, fresh, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
        x = (tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
        y = (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[:, None]
        i, exists = y * width + x, (x < width) & (y < height)
        here = tl.load(old + i, mask=exists)
        inside = (x > 0) & (x < width - 1) & (y > 0) & (y < height - 1)
        around = tl.load(old + i - width, mask=inside, other=0.0) + tl.load(old + i + width, mask=inside, other=0.0)
        around += tl.load(old + i - 1, mask=inside, other=0.0)
        around += tl.load(old + i + 1, mask=inside, other=0.0)
        tl.store(fresh + i, tl.where(inside, here + 0.1 * (around - 4 * here), here), mask=exists)

    @triton.jit
    def transpose(x, y, height, width, TILE: tl.constexpr):
        columns, rows = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.program_id(1) * TILE + tl.arange(0, TILE)
        inside = (rows[:, None] < height) & (columns[None, :] < width)
        tile = tl.load(x + rows[:, None] * width + columns[None, :], mask=inside)
        tl.store(y + columns[:, None] * height + rows[None, :], tl.trans(tile), mask=tl.trans(inside))

    return {
        "stencil, 5 points": TritonKernel(five_points, (-2, -1), (8, 32), 8, {"ROWS": 8, "COLUMNS": 32}),
        "transpose": TritonKernel(transpose, (-2, -1), (32, 32), 8, {"TILE": 32}),
    }


def _define_reductions() -> dict[str, TritonKernel]:
    @triton.jit
    def add_up(x, total, n, BLOCK: tl.constexpr):
        start, step = tl.program_id(0) * BLOCK, tl.num_programs(0) * BLOCK
        sums = tl.zeros((BLOCK,), tl.float32)
        for first in range(start, n, step):
            i = first + tl.arange(0, BLOCK)
            sums += tl.load(x + i, mask=i < n, other=0.0)
        tl.atomic_add(total, tl.sum(sums), sem="relaxed")

    @triton.jit
    def sums_of_blocks(x, sums, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(sums + tl.program_id(0), tl.sum(tl.load(x + i, mask=i < n, other=0.0)))

    @triton.jit
    def scan_shares(x, sums, totals, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + i, mask=i < n, other=0)
        tl.store(sums + i, tl.cumsum(values), mask=i < n)
        tl.store(totals + tl.program_id(0), tl.sum(values))

    @triton.jit
    def softmax(x, y, width, BLOCK: tl.constexpr):
        row = tl.program_id(0) * width
        greatest = tl.full((BLOCK,), float("-inf"), tl.float32)
        for first in range(0, width, BLOCK):
            j = first + tl.arange(0, BLOCK)
            greatest = tl.maximum(greatest, tl.load(x + row + j, mask=j < width, other=float("-inf")))
        most = tl.max(greatest)
        sums = tl.zeros((BLOCK,), tl.float32)
        for first in range(0, width, BLOCK):
            j = first + tl.arange(0, BLOCK)
            sums += tl.exp(tl.load(x + row + j, mask=j < width, other=float("-inf")) - most)
        total = tl.sum(sums)
        for first in range(0, width, BLOCK):
            j = first + tl.arange(0, BLOCK)
            tl.store(y + row + j, tl.exp(tl.load(x + row + j, mask=j < width) - most) / total, mask=j < width)

    block = {"constants": {"BLOCK": 256}}
    return {
        "reduction": TritonKernel(add_up, **block, grid=lambda problem: problem.grid),
        "reduction of blocks": TritonKernel(sums_of_blocks, **block, alike=False),  # no tree in shared memory
        "scan": TritonKernel(scan_shares, **block),
        "softmax": TritonKernel(softmax, warps=4, constants={"BLOCK": 128}, grid=lambda problem: problem.grid),
    }


def _define_numbers() -> dict[str, TritonKernel]:
    @triton.jit
    def normal(x):
        return 0.5 * libdevice.erfc(-x * 0.70710678)

    @triton.jit
    def black_scholes(price, strike, years, call, put, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        s, x = tl.load(price + i, mask=i < n, other=1.0), tl.load(strike + i, mask=i < n, other=1.0)
        t = tl.load(years + i, mask=i < n, other=1.0)
        root = tl.sqrt(t)
        d1 = (tl.log(s / x) + (0.02 + 0.5 * 0.30 * 0.30) * t) / (0.30 * root)
        d2 = d1 - 0.30 * root
        discounted = x * tl.exp(-0.02 * t)
        tl.store(call + i, s * normal(d1) - discounted * normal(d2), mask=i < n)
        tl.store(put + i, discounted * normal(-d2) - s * normal(-d1), mask=i < n)

    @triton.jit
    def move_arrays(x, y, vx, vy, time, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        speed = tl.load(vx + i, mask=i < n)
        place = tl.load(x + i, mask=i < n) + speed * time
        outside = (place < 0) | (place > 1)
        tl.store(x + i, tl.where(place < 0, -place, tl.where(place > 1, 2 - place, place)), mask=i < n)
        tl.store(vx + i, tl.where(outside, -speed, speed), mask=i < n)
        speed = tl.load(vy + i, mask=i < n)
        place = tl.load(y + i, mask=i < n) + speed * time
        outside = (place < 0) | (place > 1)
        tl.store(y + i, tl.where(place < 0, -place, tl.where(place > 1, 2 - place, place)), mask=i < n)
        tl.store(vy + i, tl.where(outside, -speed, speed), mask=i < n)

    return {
        "Black-Scholes": TritonKernel(black_scholes, constants={"BLOCK": 256}),
        "particles, arrays": TritonKernel(move_arrays, block=(128,), warps=4, constants={"BLOCK": 128}),
    }


if triton is not None:
    for _define in (_define_stream, _define_grids, _define_reductions, _define_numbers):
        TRITON.update(_define())
