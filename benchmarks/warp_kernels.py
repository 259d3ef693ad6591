"""Kernels of the suite for Warp, where it is installed: those that it says in the same words.

`WARP` maps names of the suite to a kernel, which takes what CUDA C++ takes, and the threads that it is launched with; it is empty
without Warp. Warp has no blocks of two axes and no shared memory outside of its tiles: kernels that are about those are not here.

    launcher(WARP["SpMV"], buffers, stream)         launches it on the n-th copy of the buffers
    run(WARP["SpMV"], problem)                      runs it on Warp's CPU device
"""

# Not `from __future__ import annotations`: Warp reads the annotations of kernels as they are defined.

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

try:
    import warp as wp
except Exception:  # not installed, or not for this NumPy
    wp = None  # type: ignore[assignment]


@dataclass(frozen=True)
class WarpKernel:
    """A kernel, and which of the suite's arguments are the lengths of the axes that its threads are numbered along."""

    kernel: Any
    axes: tuple[int, ...]

    def threads(self, arguments: tuple[Any, ...]) -> tuple[int, ...]:
        """How many threads there are along each axis."""
        return tuple(int(arguments[axis]) for axis in self.axes)


WARP: dict[str, WarpKernel] = {}


def launcher(row: WarpKernel, buffers: Any, stream: Any) -> Callable[[int], None]:
    """What launches a kernel on the n-th copy of the buffers."""
    problem, gpu = buffers.problem, wp.get_device(f"cuda:{stream.ordinal}")
    queue = wp.Stream(gpu, cuda_stream=stream.handle)
    threads, block = row.threads(problem.cuda), int(np.prod(problem.block))
    commands = []
    for n in range(len(buffers)):
        found = [
            wp.from_dlpack(x, dtype=wp.dtype_from_numpy(x.dtype)) if hasattr(x, "__cuda_array_interface__") else x
            for x in buffers.replaced(problem.cuda, n)
        ]
        options = {"dim": threads, "inputs": found, "device": gpu, "stream": queue, "block_dim": block}
        commands.append(wp.launch(row.kernel, record_cmd=True, **options))
    return lambda n: commands[n % len(commands)].launch(queue)


def run(row: WarpKernel, problem: Any) -> None:
    """Runs a kernel on Warp's CPU device; the problem's outputs get its results."""
    found = [
        wp.array(x, dtype=wp.dtype_from_numpy(x.dtype), device="cpu") if getattr(x, "shape", ()) else x
        for x in problem.cuda
    ]
    wp.launch(row.kernel, dim=row.threads(problem.cuda), inputs=found, device="cpu")
    for array, values in zip(problem.cuda, found, strict=True):
        if any(array is output for output in problem.outputs):
            array[...] = values.numpy()


def _define_stream() -> dict[str, WarpKernel]:
    @wp.kernel
    def copy(a: wp.array(dtype=wp.float64), c: wp.array(dtype=wp.float64), n: int):
        i = wp.tid()
        c[i] = a[i]

    @wp.kernel
    def scale(b: wp.array(dtype=wp.float64), c: wp.array(dtype=wp.float64), n: int):
        i = wp.tid()
        b[i] = wp.float64(0.4) * c[i]

    @wp.kernel
    def add(a: wp.array(dtype=wp.float64), b: wp.array(dtype=wp.float64), c: wp.array(dtype=wp.float64), n: int):
        i = wp.tid()
        c[i] = a[i] + b[i]

    @wp.kernel
    def triad(a: wp.array(dtype=wp.float64), b: wp.array(dtype=wp.float64), c: wp.array(dtype=wp.float64), n: int):
        i = wp.tid()
        a[i] = b[i] + wp.float64(0.4) * c[i]

    @wp.kernel
    def copy_strided(x: wp.array(dtype=float), out: wp.array(dtype=float), step: int, n: int):
        i = wp.tid()
        out[i] = x[i * step]

    @wp.kernel
    def gather(x: wp.array(dtype=float), places: wp.array(dtype=int), out: wp.array(dtype=float), n: int):
        i = wp.tid()
        out[i] = x[places[i]]

    rows = {"copy": copy, "scale": scale, "add": add, "triad": triad}
    return {f"stream {name}": WarpKernel(kernel, (-1,)) for name, kernel in rows.items()} | {
        "copy, strided": WarpKernel(copy_strided, (-1,)),
        "copy, gathered": WarpKernel(gather, (-1,)),
    }


def _define_grids() -> dict[str, WarpKernel]:
    @wp.kernel
    def five_points(old: wp.array2d(dtype=float), fresh: wp.array2d(dtype=float), height: int, width: int):
        y, x = wp.tid()
        here = old[y, x]
        if x > 0 and x < width - 1 and y > 0 and y < height - 1:
            around = old[y - 1, x] + old[y + 1, x] + old[y, x - 1] + old[y, x + 1]
            here += 0.1 * (around - 4.0 * here)
        fresh[y, x] = here

    @wp.kernel
    def seven_points(old: wp.array3d(dtype=float), fresh: wp.array3d(dtype=float), depth: int, height: int, width: int):
        z, y, x = wp.tid()
        here = old[z, y, x]
        if x > 0 and x < width - 1 and y > 0 and y < height - 1 and z > 0 and z < depth - 1:
            around = old[z, y, x - 1] + old[z, y, x + 1] + old[z, y - 1, x]
            around += old[z, y + 1, x] + old[z - 1, y, x] + old[z + 1, y, x]
            here += 0.1 * (around - 6.0 * here)
        fresh[z, y, x] = here

    @wp.kernel
    def mandelbrot(
        steps: wp.array2d(dtype=int), height: int, width: int, left: float, top: float, pitch: float, most: int
    ):
        y, x = wp.tid()
        real = left + float(x) * pitch
        imaginary = top + float(y) * pitch
        a = wp.float32(0.0)
        b = wp.float32(0.0)
        count = wp.int32(0)
        while count < most and a * a + b * b <= 4.0:
            next = a * a - b * b + real
            b = 2.0 * a * b + imaginary
            a = next
            count += 1
        steps[y, x] = count

    return {
        "stencil, 5 points": WarpKernel(five_points, (-2, -1)),
        "stencil, 7 points": WarpKernel(seven_points, (-3, -2, -1)),
        "mandelbrot": WarpKernel(mandelbrot, (1, 2)),
    }


def _define_products() -> dict[str, WarpKernel]:
    def kernel(number: Any) -> WarpKernel:
        @wp.kernel(module="unique")
        def multiply(
            a: wp.array2d(dtype=number),
            b: wp.array2d(dtype=number),
            c: wp.array2d(dtype=number),
            rows: int,
            inner: int,
            columns: int,
        ):
            i, j = wp.tid()
            total = number(0.0)
            for k in range(inner):
                total += a[i, k] * b[k, j]
            c[i, j] = total

        return WarpKernel(multiply, (3, 5))

    return {f"matmul float{bits}": kernel(getattr(wp, f"float{bits}")) for bits in (16, 32, 64)}


def _define_others() -> dict[str, WarpKernel]:
    @wp.func
    def normal(x: float):
        return 0.5 * wp.erfc(-x * 0.70710678)

    @wp.kernel
    def black_scholes(
        price: wp.array(dtype=float),
        strike: wp.array(dtype=float),
        years: wp.array(dtype=float),
        call: wp.array(dtype=float),
        put: wp.array(dtype=float),
        n: int,
    ):
        i = wp.tid()
        s, x, t = price[i], strike[i], years[i]
        root = wp.sqrt(t)
        d1 = (wp.log(s / x) + (0.02 + 0.5 * 0.30 * 0.30) * t) / (0.30 * root)
        d2 = d1 - 0.30 * root
        discounted = x * wp.exp(-0.02 * t)
        call[i] = s * normal(d1) - discounted * normal(d2)
        put[i] = discounted * normal(-d2) - s * normal(-d1)

    @wp.func
    def xorshift(start: wp.uint32):
        state = start
        state = state ^ (state << wp.uint32(13))
        state = state ^ (state >> wp.uint32(17))
        return state ^ (state << wp.uint32(5))

    @wp.func
    def inside(x: wp.uint32, y: wp.uint32):
        a = wp.uint64(x >> wp.uint32(16))
        b = wp.uint64(y >> wp.uint32(16))
        return a * a + b * b < wp.uint64(1) << wp.uint64(32)

    @wp.kernel
    def count_xorshift(hits: wp.array(dtype=int), n: int, points: int, seed: int):
        i = wp.tid()
        state = wp.uint32(seed) + wp.uint32(i) * wp.uint32(2654435761)
        count = wp.int32(0)
        for _ in range(points):
            x = xorshift(state)
            state = xorshift(x)
            if inside(x, state):
                count += 1
        hits[i] = count

    @wp.kernel
    def move_arrays(
        x: wp.array(dtype=float),
        y: wp.array(dtype=float),
        vx: wp.array(dtype=float),
        vy: wp.array(dtype=float),
        time: float,
        n: int,
    ):
        i = wp.tid()
        place = x[i] + vx[i] * time
        speed = vx[i]
        if place < 0.0:
            place = -place
            speed = -speed
        elif place > 1.0:
            place = 2.0 - place
            speed = -speed
        x[i] = place
        vx[i] = speed
        place = y[i] + vy[i] * time
        speed = vy[i]
        if place < 0.0:
            place = -place
            speed = -speed
        elif place > 1.0:
            place = 2.0 - place
            speed = -speed
        y[i] = place
        vy[i] = speed

    return {
        "Black-Scholes": WarpKernel(black_scholes, (-1,)),
        "xorshift": WarpKernel(count_xorshift, (1,)),
        "particles, arrays": WarpKernel(move_arrays, (-1,)),
    }


if wp is not None:
    for _define in (_define_stream, _define_grids, _define_products, _define_others):
        WARP.update(_define())
