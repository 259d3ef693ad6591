"""The kernels that benchmarks measure, and what they work on: one row for each, with the same in CUDA C++ and NumPy.

The Python kernels are those of examples/programs, the C++ ones are in benchmarks/cuda. `Row.problem(scale)` makes the arrays:
`scale` 1 is what a large GPU is measured with, 0 the smallest size, which serves where only the types matter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "examples"))

from programs import (  # noqa: E402
    alignment,
    bfs,
    bitonic_sort,
    black_scholes,
    compaction,
    convolution,
    copies,
    fft,
    hartree_fock,
    histogram,
    kmeans,
    life,
    mandelbrot,
    matmul,
    minibude,
    monte_carlo,
    nbody,
    particles,
    radix_sort,
    reduction,
    scan,
    softmax,
    spmv,
    stencil,
    stream,
    transpose,
)

import cuda_device as device  # noqa: E402

Index = tuple[int, ...]


@dataclass(frozen=True)
class Problem:
    """One launch. `cuda` holds the arguments of the C++ kernel: the very arrays of `ours`, where a pointer is wanted.

    `outputs` are the arrays that kernels write; `bytes` and `flops` count what has to move and to be computed. `numpy`
    computes the same on the host.
    """

    ours: tuple[Any, ...]
    cuda: tuple[Any, ...]
    grid: Index
    block: Index
    outputs: tuple[Any, ...]
    bytes: float = 0
    flops: float = 0
    shared: int = 0
    tolerance: float = 1e-5
    numpy: Callable[[], object] | None = None


@dataclass(frozen=True)
class Row:
    """A kernel of the suite: ours, the file and symbol of the C++ one, and what both work on."""

    name: str
    kernel: device.Kernel
    source: str
    problem: Callable[[float], Problem]
    symbol: str = ""
    element: str = "float"

    @property
    def cuda_symbol(self) -> str:
        """The name of the C++ kernel."""
        return self.symbol or self.kernel.underlying.__name__

    def cuda_source(self) -> str:
        """The C++ text; `T` is the type of elements there."""
        header = "#include <cuda_fp16.h>\n" if self.element == "__half" else ""
        return f"{header}using T = {self.element};\n" + (HERE / "cuda" / self.source).read_text()


RANDOM = np.random.default_rng(1)
INT = np.int32
EMPTY = np.empty


def _count(scale: float, most: int, least: int = 64) -> int:
    return max(least, int(most * scale))


def _side(scale: float, most: int, power: float = 0.5, least: int = 64) -> int:
    """The side of a square or cube, whose area goes with `scale`."""
    return max(least, int(most * scale**power))


def _blocks(count: int, block: int) -> Index:
    return (-(-count // block),)


def _tiles(shape: Index, block: Index) -> Index:
    return tuple(-(-size // threads) for size, threads in zip(shape[::-1], block, strict=True))


def _floats(*shape: int, dtype: Any = np.float32) -> Any:
    return RANDOM.random(shape).astype(dtype)


# BabelStream


def _stream(arrays: str, written: str, compute: Callable[..., object], flops: int = 0) -> Callable[[float], Problem]:
    def problem(scale: float) -> Problem:
        n = _count(scale, 1 << 25)
        named = {name: _floats(n, dtype=np.float64) for name in "abc"}
        used = tuple(named[name] for name in arrays)
        size = len(arrays) * n * 8
        grid = _blocks(n, stream.BLOCK)
        output = (named[written],)
        return Problem(
            used, (*used, INT(n)), grid, (256,), output, size, flops * n, numpy=lambda: compute(named, named[written])
        )

    return problem


def _dot(scale: float) -> Problem:
    n = _count(scale, 1 << 25)
    a, b, blocks = _floats(n, dtype=np.float64), _floats(n, dtype=np.float64), min(1024, _blocks(n, 256)[0])
    sums = EMPTY(blocks)
    return Problem((a, b, sums), (a, b, sums, INT(n)), (blocks,), (256,), (sums,), 16 * n, 2 * n, numpy=lambda: a @ b)


# Grids and matrices


def _five_points(scale: float) -> Problem:
    n = _side(scale, 8192)
    old, new = _floats(n, n), EMPTY((n, n), np.float32)

    def compute() -> None:
        new[...] = old
        around = old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
        new[1:-1, 1:-1] += stencil.RATE * (around - 4 * old[1:-1, 1:-1])

    grid = _tiles(old.shape, stencil.BLOCK_2D)
    return Problem(
        (old, new), (old, new, INT(n), INT(n)), grid, stencil.BLOCK_2D, (new,), 8 * n**2, 7 * n**2, numpy=compute
    )


def _seven_points(scale: float) -> Problem:
    n = _side(scale, 400, 1 / 3, 16)
    old, new = _floats(n, n, n), EMPTY((n, n, n), np.float32)
    grid = _tiles(old.shape, stencil.BLOCK_3D)
    sizes = INT(n), INT(n), INT(n)
    return Problem((old, new), (old, new, *sizes), grid, stencil.BLOCK_3D, (new,), 8 * n**3, 9 * n**3)


def _transpose(scale: float) -> Problem:
    n = _side(scale, 8192)
    x, y = _floats(n, n), EMPTY((n, n), np.float32)
    grid = _tiles(x.shape, (32, 32))
    return Problem(
        (x, y), (x, y, INT(n), INT(n)), grid, transpose.BLOCK, (y,), 8 * n**2, numpy=lambda: np.copyto(y, x.T)
    )


def _matmul(dtype: Any, most: int, tolerance: float = 1e-5) -> Callable[[float], Problem]:
    def problem(scale: float) -> Problem:
        n = _side(scale, most, 1 / 3)
        a, b, c = _floats(n, n, dtype=dtype), _floats(n, n, dtype=dtype), EMPTY((n, n), dtype)
        sizes = INT(n), INT(n), INT(n)
        grid = _tiles(c.shape, matmul.BLOCK)
        size = 3 * a.nbytes
        return Problem(
            (a, b, c),
            (a, b, c, *sizes),
            grid,
            matmul.BLOCK,
            (c,),
            size,
            2 * n**3,
            tolerance=tolerance,
            numpy=lambda: np.matmul(a, b, c),
        )

    return problem


def _softmax(scale: float) -> Problem:
    rows, width = _count(scale, 1 << 14, 8), 4096
    x, y = _floats(rows, width), EMPTY((rows, width), np.float32)

    def compute() -> None:
        np.exp(x - x.max(1, keepdims=True), y)
        np.divide(y, y.sum(1, keepdims=True), y)

    return Problem((x, y), (x, y, INT(width)), (rows,), (128,), (y,), 8 * x.size, numpy=compute)


def _convolution(scale: float) -> Problem:
    n = _side(scale, 4096)
    image, weights, out = _floats(n, n), _floats(7, 7), EMPTY((n, n), np.float32)
    cuda = image, weights, out, INT(n), INT(n), INT(7)
    grid = _tiles(image.shape, convolution.BLOCK)
    return Problem(
        (image, weights, out), cuda, grid, convolution.BLOCK, (out,), 8 * n**2, 98 * n**2, shared=4 * 22 * 22
    )


def _life(scale: float) -> Problem:
    n = _side(scale, 8192)
    old, new = RANDOM.random((n, n)) < 0.4, np.zeros((n, n), bool)
    grid = _tiles(old.shape, life.BLOCK)
    return Problem((old, new), (old, new, INT(n), INT(n)), grid, life.BLOCK, (new,), 2 * n**2)


def _mandelbrot(scale: float) -> Problem:
    n, most = _side(scale, 4096), 500
    steps = EMPTY((n, n), INT)
    place = np.float32(-2.0), np.float32(-1.25), np.float32(2.5 / n)
    grid = _tiles(steps.shape, mandelbrot.BLOCK)
    cuda = steps, INT(n), INT(n), *place, INT(most)
    # Fused differently, a few points at the boundary leave at another step.
    return Problem((steps, *place, most), cuda, grid, mandelbrot.BLOCK, (steps,), 4 * n**2, tolerance=float("inf"))


# Reductions and scans


def _add_up(scale: float) -> Problem:
    n = _count(scale, 1 << 26)
    x, total = _floats(n), np.zeros(1, np.float32)
    grid = (min(1024, _blocks(n, 256)[0]),)
    # The total grows with each launch: what is compared is only how fast.
    return Problem(
        (x, total), (x, total, INT(n)), grid, (256,), (total,), 4 * n, n, tolerance=float("inf"), numpy=x.sum
    )


def _sums_of_blocks(scale: float) -> Problem:
    n = _count(scale, 1 << 26)
    x, sums = _floats(n), EMPTY(_blocks(n, 256), np.float32)
    return Problem((x, sums), (x, sums, INT(n)), _blocks(n, 256), (256,), (sums,), 4 * n, n, numpy=x.sum)


def _scan_shares(scale: float) -> Problem:
    n = _count(scale, 1 << 26)
    x, sums = RANDOM.integers(0, 100, n, INT), EMPTY(n, INT)
    totals = EMPTY(_blocks(n, 256), INT)
    cuda = x, sums, totals, INT(n)
    return Problem(
        (x, sums, totals), cuda, _blocks(n, 256), (256,), (sums, totals), 8 * n, numpy=lambda: np.cumsum(x, out=sums)
    )


def _histogram(scale: float) -> Problem:
    n = _count(scale, 1 << 27)
    data, bins = RANDOM.integers(0, 256, n, np.uint8), np.zeros(256, np.uint32)
    grid = (min(1024, _blocks(n, 256)[0]),)
    return Problem(
        (data, bins),
        (data, bins, INT(n)),
        grid,
        (256,),
        (bins,),
        n,
        tolerance=float("inf"),
        numpy=lambda: np.bincount(data, minlength=256),
    )


def _compaction(scale: float) -> Problem:
    n = _count(scale, 1 << 25)
    x, out, count = _floats(n), EMPTY(2 * n, np.float32), np.zeros(1, INT)
    arguments = x, np.float32(2.0), out, count  # nothing passes: the count must not grow with each launch
    return Problem(arguments, (*arguments, INT(n)), _blocks(n, 256), (256,), (count,), 4 * n, numpy=lambda: x[x > 2.0])


# Particles and numbers


def _nbody(scale: float) -> Problem:
    n = _count(scale, 1 << 16, 256)
    vector = device.numpy_dtype(device.float32x4)
    bodies = _floats(n, 4).view(vector)[:, 0]
    out = EMPTY(n, vector)
    return Problem((bodies, out), (bodies, out, INT(n)), _blocks(n, 128), (128,), (out,), 32 * n, 20 * n**2)


def _black_scholes(scale: float) -> Problem:
    n = _count(scale, 1 << 24)
    price, strike, years = 5 + 25 * _floats(n), 1 + 99 * _floats(n), 0.25 + 9 * _floats(n)
    call, put = EMPTY(n, np.float32), EMPTY(n, np.float32)
    arrays = price, strike, years, call, put
    return Problem(
        arrays,
        (*arrays, INT(n)),
        _blocks(n, 256),
        (256,),
        (call, put),
        20 * n,
        tolerance=1e-3,
        numpy=lambda: black_scholes.expect(price, strike, years),
    )


def _monte_carlo(scale: float) -> Problem:
    n, points = _count(scale, 1 << 18, 128), 1000
    hits = EMPTY(n, INT)
    return Problem((hits, points, 7), (hits, INT(n), INT(points), INT(7)), _blocks(n, 128), (128,), (hits,), 4 * n)


def _structs(scale: float) -> Problem:
    n = _count(scale, 1 << 24)
    structs = np.zeros(n, device.numpy_dtype(particles.Particle))
    return Problem((structs, 0.5), (structs, np.float32(0.5), INT(n)), _blocks(n, 128), (128,), (structs,), 32 * n)


def _arrays(scale: float) -> Problem:
    n = _count(scale, 1 << 24)
    x, y, vx, vy = (np.zeros(n, np.float32) for _ in range(4))
    ours, cuda = ((x, y), (vx, vy), 0.5), (x, y, vx, vy, np.float32(0.5), INT(n))
    return Problem(ours, cuda, _blocks(n, 128), (128,), (x, y), 32 * n)


def _fft(scale: float) -> Problem:
    rows, length = _count(scale, 1 << 15, 8), 1024
    points = _floats(rows, 2 * length).view(np.complex64)
    out = np.empty_like(points)
    size, flops, cuda = 16 * rows * length, 50 * rows * length, (points, out, np.float32(-1.0), INT(length))
    compute = partial(np.fft.fft, points)
    return Problem((points, out, -1.0), cuda, (rows,), (256,), (out,), size, flops, tolerance=1e-3, numpy=compute)


# Sparse and irregular


def _spmv(scale: float) -> Problem:
    rows, each = _count(scale, 1 << 19), 64
    starts = np.arange(0, rows * each + 1, each, dtype=INT)
    columns, values = RANDOM.integers(0, rows, rows * each, INT), _floats(rows * each)
    x, y = _floats(rows), EMPTY(rows, np.float32)
    arrays = starts, columns, values, x, y

    def compute() -> object:
        from scipy.sparse import csr_array

        return csr_array((values, columns, starts), (rows, rows)) @ x

    size = 8 * values.size + 12 * rows
    return Problem(
        arrays,
        (*arrays, INT(rows)),
        _blocks(32 * rows, 128),
        (128,),
        (y,),
        size,
        2 * values.size,
        tolerance=1e-4,
        numpy=compute,
    )


def _bfs(scale: float) -> Problem:
    nodes = _count(scale, 1 << 20)
    starts, targets = bfs.graph(RANDOM, nodes, 16 * nodes)
    # A level where all neighbours have been visited: each launch does the same.
    distances, frontier, following = np.zeros(nodes, INT), np.arange(nodes, dtype=INT), EMPTY(nodes, INT)
    sizes = np.array([nodes, 0], INT)
    arguments = starts, targets, distances, frontier, following, sizes
    size = 8 * nodes + 8 * targets.size
    return Problem((*arguments, 0), (*arguments, INT(0)), _blocks(nodes, 128), (128,), (distances,), size)


def _alignment(_: float) -> Problem:
    a, b = RANDOM.integers(0, 4, 500, np.int8), RANDOM.integers(0, 4, 500, np.int8)
    result = EMPTY(1, INT)
    return Problem((a, b, result), (a, b, result, INT(500), INT(500)), (1,), (128,), (result,))


def _minibude(scale: float) -> Problem:
    poses = _count(scale, 1 << 16, 256)
    protein, ligand, forces, places = minibude.molecules(RANDOM, 938, 60, poses)
    energies = EMPTY(poses, np.float32)
    arrays = protein, ligand[:26], forces, places, energies
    pairs = len(arrays[0]) * len(arrays[1]) * poses
    return Problem(
        arrays,
        (*arrays, INT(len(arrays[0])), INT(len(arrays[1])), INT(poses)),
        _blocks(poses, minibude.BLOCK * minibude.POSES),
        (minibude.BLOCK,),
        (energies,),
        28 * poses,
        30 * pairs,
        tolerance=2e-3,
    )


def _hartree_fock(scale: float) -> Problem:
    atoms = hartree_fock.atoms(RANDOM, _side(scale, 64, 1 / 4, 4))
    density = atoms[-1]
    fock, pairs = np.zeros_like(density), atoms[3].size
    sizes = INT(atoms[0].size), INT(pairs), INT(len(density))
    # The matrix grows with each launch: what is compared is only how fast.
    grid = _blocks(pairs * (pairs + 1) // 2, hartree_fock.BLOCK)
    return Problem((*atoms, fock), (*atoms, fock, *sizes), grid, (hartree_fock.BLOCK,), (fock,), tolerance=float("inf"))


def _strided(scale: float) -> Problem:
    n, step = _count(scale, 1 << 24), 8
    x, out = _floats(n * step), EMPTY(n, np.float32)
    # A sector of 32 bytes is read for each element.
    return Problem(
        (x, out, step),
        (x, out, INT(step), INT(n)),
        _blocks(n, copies.BLOCK),
        (copies.BLOCK,),
        (out,),
        36 * n,
        numpy=lambda: np.copyto(out, x[::step]),
    )


def _gathered(scale: float) -> Problem:
    n = _count(scale, 1 << 24)
    x, places, out = _floats(n), RANDOM.integers(0, n, n, INT), EMPTY(n, np.float32)
    arrays = x, places, out
    return Problem(
        arrays,
        (*arrays, INT(n)),
        _blocks(n, copies.BLOCK),
        (copies.BLOCK,),
        (out,),
        40 * n,
        numpy=lambda: np.take(x, places, out=out),
    )


def _kmeans(scale: float) -> Problem:
    n, clusters = _count(scale, 1 << 22), 16
    points, centres = _floats(n, 3), _floats(clusters, 3)
    labels, sums, counts = EMPTY(n, INT), np.zeros((clusters, 3), np.float32), np.zeros(clusters, INT)
    ours = points, centres, labels, sums, counts
    cuda = (*ours, INT(n), INT(clusters), INT(3))
    return Problem(ours, cuda, _blocks(n, 128), (128,), (labels,), 16 * n, 9 * n * clusters)


def _count_digits(scale: float) -> Problem:
    n = _count(scale, 1 << 25, 128)
    keys = RANDOM.integers(0, 2**32, n, np.uint32)
    counts = EMPTY(16 * _blocks(n, 128)[0], INT)
    return Problem((keys, counts, 4), (keys, counts, INT(4), INT(n)), _blocks(n, 128), (128,), (counts,), 4 * n)


def _move_keys(scale: float) -> Problem:
    n = _count(scale, 1 << 25, 128)
    keys, values = np.sort(RANDOM.integers(0, 2**32, n, np.uint32)), np.arange(n, dtype=INT)
    blocks = _blocks(n, 128)[0]
    digits = np.zeros((16, blocks), INT)
    np.add.at(digits, ((keys >> 28).astype(INT), np.arange(n) // 128), 1)
    places, new_keys, new_values = np.cumsum(digits.reshape(-1), dtype=INT), np.empty_like(keys), EMPTY(n, INT)
    ours = keys, values, places, new_keys, new_values, 28
    cuda = (*ours[:-1], INT(28), INT(n))
    return Problem(ours, cuda, (blocks,), (128,), (new_keys, new_values), 16 * n)


def _bitonic(scale: float) -> Problem:
    n = 1 << int(np.log2(_count(scale, 1 << 25)))
    x = np.sort(_floats(n))
    return Problem((x, n, n // 2), (x, INT(n), INT(n // 2), INT(n)), _blocks(n, 256), (256,), (x,), 4 * n)


SUITE = (
    Row(
        "stream copy", stream.copy, "stream.cu", _stream("ac", "c", lambda x, y: np.copyto(y, x["a"])), element="double"
    ),
    Row(
        "stream scale",
        stream.scale,
        "stream.cu",
        _stream("bc", "b", lambda x, y: np.multiply(x["c"], 0.4, y), 1),
        element="double",
    ),
    Row(
        "stream add",
        stream.add,
        "stream.cu",
        _stream("abc", "c", lambda x, y: np.add(x["a"], x["b"], y), 1),
        element="double",
    ),
    Row(
        "stream triad",
        stream.triad,
        "stream.cu",
        _stream("abc", "a", lambda x, y: np.add(x["b"], 0.4 * x["c"], y), 2),
        element="double",
    ),
    Row("stream dot", stream.dot, "stream.cu", _dot, element="double"),
    Row("stencil, 5 points", stencil.five_points, "stencil.cu", _five_points),
    Row("stencil, 7 points", stencil.seven_points, "stencil.cu", _seven_points),
    Row("transpose", transpose.transpose, "transpose.cu", _transpose),
    Row("matmul float32", matmul.multiply, "matmul.cu", _matmul(np.float32, 2048)),
    Row("matmul float64", matmul.multiply, "matmul.cu", _matmul(np.float64, 2048), element="double"),
    Row("matmul float16", matmul.multiply, "matmul.cu", _matmul(np.float16, 2048, 5e-2), element="__half"),
    Row("tiled matmul float32", matmul.multiply_tiled, "matmul.cu", _matmul(np.float32, 4096)),
    Row("tiled matmul float64", matmul.multiply_tiled, "matmul.cu", _matmul(np.float64, 4096), element="double"),
    Row("tiled matmul float16", matmul.multiply_tiled, "matmul.cu", _matmul(np.float16, 4096, 5e-2), element="__half"),
    Row("reduction", reduction.add_up, "reduction.cu", _add_up),
    Row("reduction of blocks", reduction.sums_of_blocks, "reduction.cu", _sums_of_blocks),
    Row("scan", scan.scan_shares, "scan.cu", _scan_shares),
    Row("softmax", softmax.softmax, "softmax.cu", _softmax),
    Row("histogram", histogram.histogram, "histogram.cu", _histogram),
    Row("n-body", nbody.accelerate, "nbody.cu", _nbody),
    Row("Black-Scholes", black_scholes.black_scholes, "black_scholes.cu", _black_scholes),
    Row("mandelbrot", mandelbrot.mandelbrot, "mandelbrot.cu", _mandelbrot),
    Row("Philox", monte_carlo.count_philox, "monte_carlo.cu", _monte_carlo),
    Row("xorshift", monte_carlo.count_xorshift, "monte_carlo.cu", _monte_carlo),
    Row("SpMV", spmv.multiply, "spmv.cu", _spmv),
    Row("BFS", bfs.visit, "bfs.cu", _bfs),
    Row("Needleman-Wunsch", alignment.align_shared, "alignment.cu", _alignment),
    Row("particles, structs", particles.move_structs, "particles.cu", _structs),
    Row("particles, arrays", particles.move_arrays, "particles.cu", _arrays),
    Row("miniBUDE", minibude.fasten, "minibude.cu", _minibude),
    Row("Hartree-Fock", hartree_fock.build, "hartree_fock.cu", _hartree_fock, element="double"),
    Row("copy, strided", copies.copy_strided, "copies.cu", _strided),
    Row("copy, gathered", copies.gather, "copies.cu", _gathered),
    Row("FFT", fft.transform, "fft.cu", _fft),
    Row("radix sort, count", radix_sort.count, "radix_sort.cu", _count_digits),
    Row("radix sort, move", radix_sort.move, "radix_sort.cu", _move_keys),
    Row("bitonic sort", bitonic_sort.compare_and_swap, "bitonic_sort.cu", _bitonic),
    Row("convolution", convolution.convolve, "convolution.cu", _convolution),
    Row("life", life.step, "life.cu", _life),
    Row("k-means", kmeans.assign, "kmeans.cu", _kmeans),
    Row("compaction", compaction.compact, "compaction.cu", _compaction),
)


# Atomic operations as they are written first, with the default order and scope; `kernels.py natural` measures them.


@device.kernel
def counter(count: Any) -> None:
    """All threads count themselves."""
    device.atomic_ref(count, 0).add(1)


@device.kernel
def histogram_in_default_order(data: Any, bins: Any) -> None:
    """That of `examples/programs/histogram.py`, whose last addition asks for less."""
    local = device.shared_array(256, device.uint32)
    thread = int(device.thread_idx.x)
    for j in range(thread, 256, 256):
        local[j] = 0
    device.syncthreads()
    for i in range(device.tid(1), len(data), device.grid_size(1)):
        device.atomic_ref(local, data[i]).add(1)
    device.syncthreads()
    for j in range(thread, 256, 256):
        if local[j] > 0:
            device.atomic_ref(bins, j).add(local[j])


def _counter(scale: float) -> Problem:
    count = np.zeros(1, np.uint32)
    return Problem((count,), (count,), _blocks(_count(scale, 1 << 24), 256), (256,), (count,), 4)


NATURAL = (
    Row("natural counter", counter, "natural.cu", _counter),
    Row("natural atomic_ref", counter, "atomic_ref.cu", _counter),
    Row("natural histogram", histogram_in_default_order, "histogram.cu", _histogram, symbol="histogram"),
)
