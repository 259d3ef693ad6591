"""Blurs a photograph, finds its edges and measures its brightness with four small kernels.

    python examples/photo.py [--output photo.png]

The photograph comes with matplotlib. Every result is compared with what NumPy and SciPy compute, and the picture that is
written shows the original, the blurred one and the edges beside each other. The kernels run on the GPU, or on the CPU where
there is none. Exits with status 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import cuda_device as device

BLOCK = 16  # threads of a block along x and along y
RADIUS = 2  # how far the blur reaches
TILE = BLOCK + 2 * RADIUS  # what a block reads: its own pixels and a border around them
WEIGHTS = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
LUMINANCE = (0.2126, 0.7152, 0.0722)


# The kernels. What `launch` starts runs in every thread of the grid at once; `tid(2)` says which thread this one is.


@device.kernel
def to_grey(colour, grey):
    """Turns red, green and blue bytes into one brightness from 0 to 1."""
    x, y = device.tid(2)
    height, width = grey.shape
    if x < width and y < height:
        red, green, blue = LUMINANCE
        grey[y, x] = (red * colour[y, x, 0] + green * colour[y, x, 1] + blue * colour[y, x, 2]) / 255


@device.func
def clamp(i, size):
    """The index `i`, or the nearest one that is inside."""
    return min(max(i, 0), size - 1)


@device.kernel
def blur(image, blurred):
    """Weighs each pixel with its neighbours. The block reads its part of the image, and a border around it, only once."""
    tile = device.shared_array((TILE, TILE), device.float32)
    height, width = image.shape
    column, row = int(device.thread_idx.x), int(device.thread_idx.y)
    x, y = device.tid(2)

    top, left = y - row - RADIUS, x - column - RADIUS
    for i in range(row, TILE, BLOCK):
        for j in range(column, TILE, BLOCK):
            tile[i, j] = image[clamp(top + i, height), clamp(left + j, width)]
    device.syncthreads()  # until the whole tile is there

    if x < width and y < height:
        total = 0.0
        i = row
        for vertical in WEIGHTS:
            j = column
            for horizontal in WEIGHTS:
                total += vertical * horizontal * tile[i, j]
                j += 1
            i += 1
        blurred[y, x] = total


@device.kernel
def find_edges(image, edges):
    """Sobel's operator: how steeply brightness changes around each pixel."""
    x, y = device.tid(2)
    height, width = image.shape
    if x < width and y < height:
        above, below = clamp(y - 1, height), clamp(y + 1, height)
        left, right = clamp(x - 1, width), clamp(x + 1, width)
        across = image[above, right] + 2 * image[y, right] + image[below, right]
        across -= image[above, left] + 2 * image[y, left] + image[below, left]
        down = image[below, left] + 2 * image[below, x] + image[below, right]
        down -= image[above, left] + 2 * image[above, x] + image[above, right]
        edges[y, x] = math.sqrt(across * across + down * down)


@device.kernel
def add_up(values, sums):
    """Adds all `values`: each block writes the sum of its share to its place in `sums`."""
    partial = device.shared_array(BLOCK * BLOCK, device.float32)
    height, width = values.shape
    x, y = device.tid(2)
    columns, rows = device.grid_size(2)

    total = 0.0
    for i in range(y, height, rows):
        for j in range(x, width, columns):
            total += values[i, j]
    thread = int(device.thread_idx.y) * BLOCK + int(device.thread_idx.x)
    partial[thread] = total
    device.syncthreads()

    half = BLOCK * BLOCK // 2
    while half > 0:
        if thread < half:
            partial[thread] += partial[thread + half]
        device.syncthreads()
        half //= 2
    if thread == 0:
        sums[device.block_idx.y, device.block_idx.x] = partial[0]


# The host's part: it moves arrays to the device and back, launches the kernels, and checks what they did.

SOBEL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
BLUR_ROUNDS = 8  # a blur of a blur is a wider blur
SUM_GRID = (8, 8)
PHASES = {
    "bytecode": ("python",),
    "inference": ("typed",),
    "lowering": ("device", "inlined"),
    "LLVM": ("llvm", "optimised", "ptx", "native"),
    "assembler": ("cubin",),
}


def read_photograph() -> np.ndarray[Any, Any]:
    """The photograph as bytes of shape (height, width, 3)."""
    from matplotlib.cbook import get_sample_data
    from PIL import Image

    with Image.open(get_sample_data("grace_hopper.jpg", asfileobj=False)) as image:
        return np.asarray(image.convert("RGB"))


def write_picture(path: Path, *images: np.ndarray[Any, Any]) -> None:
    """Writes images beside each other; those of one plane hold brightness from 0 to 1."""
    from PIL import Image

    planes = [image if image.ndim == 3 else np.stack([np.clip(image, 0, 1) * 255] * 3, axis=-1) for image in images]
    Image.fromarray(np.concatenate(planes, axis=1).astype(np.uint8)).save(path)


def run(kernel: device.Kernel, *arguments: Any, grid: tuple[int, int], stream: device.Stream) -> None:
    """Launches a kernel twice, and prints what each phase took in milliseconds: the first launch compiles it."""
    print(f"{kernel.underlying.__name__:<12}", end="", flush=True)

    def launch() -> float:
        start = time.perf_counter()
        device.launch(kernel, *arguments, grid=grid, block=(BLOCK, BLOCK), stream=stream)
        device.synchronize(stream)
        return time.perf_counter() - start

    launch()
    again = launch()
    seconds = kernel.timings()
    for stages in PHASES.values():
        spent = [seconds[stage] for stage in stages if stage in seconds]
        print(f"{1000 * sum(spent):11.2f}" if spent else f"{'-':>11}", end="")
    print(f"{1000 * again:11.2f}", flush=True)


def process(colour: np.ndarray[Any, Any], stream: device.Stream) -> dict[str, np.ndarray[Any, Any]]:
    """The photograph in grey, blurred, its edges, and its mean brightness, computed on the stream's device."""
    height, width, _ = colour.shape
    grid = math.ceil(width / BLOCK), math.ceil(height / BLOCK)
    source = device.array(colour, stream=stream)
    grey, blurred, scratch, edges = (device.empty((height, width), stream=stream) for _ in range(4))
    sums, total = device.empty(SUM_GRID, stream=stream), device.empty((1, 1), stream=stream)

    print(f"{'milliseconds':<12}" + "".join(f"{phase:>11}" for phase in (*PHASES, "launch")))
    run(to_grey, source, grey, grid=grid, stream=stream)
    run(blur, grey, blurred, grid=grid, stream=stream)
    for _ in range(BLUR_ROUNDS - 1):
        device.launch(blur, blurred, scratch, grid=grid, block=(BLOCK, BLOCK), stream=stream)
        blurred, scratch = scratch, blurred
    run(find_edges, blurred, edges, grid=grid, stream=stream)
    run(add_up, grey, sums, grid=SUM_GRID, stream=stream)
    device.launch(add_up, sums, total, grid=1, block=(BLOCK, BLOCK), stream=stream)

    mean = total.numpy()[0, 0] / (height * width)
    return {"grey": grey.numpy(), "blurred": blurred.numpy(), "edges": edges.numpy(), "mean": mean}


def expect(colour: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """What `process` should give, by NumPy and SciPy in double precision."""
    from scipy.ndimage import convolve

    grey = colour @ np.array(LUMINANCE) / 255
    blurred = grey
    for _ in range(BLUR_ROUNDS):
        blurred = convolve(blurred, np.outer(WEIGHTS, WEIGHTS), mode="nearest")
    across, down = (convolve(blurred, operator, mode="nearest") for operator in (SOBEL, SOBEL.T))
    return {"grey": grey, "blurred": blurred, "edges": np.hypot(across, down), "mean": grey.mean()}


def check(results: dict[str, np.ndarray[Any, Any]], expected: dict[str, np.ndarray[Any, Any]]) -> bool:
    """Whether each result is within 0.000005 of what is expected (brightness goes from 0 to 1); prints how far it is."""
    tolerance = 5e-6
    all_right = True
    for name, result in results.items():
        error = float(np.max(np.abs(result - expected[name])))
        right = error <= tolerance  # false for NaN
        all_right &= right
        print(f"{name:<12}{'right' if right else 'WRONG'}, within {error:.1e} where {tolerance:.0e} is allowed")
    return all_right


def main() -> int:
    """Runs the example; returns the exit status."""
    parser = argparse.ArgumentParser(description="Blurs a photograph, finds its edges and measures its brightness.")
    parser.add_argument("--output", type=Path, default=Path("photo.png"), help="where the picture goes")
    parser.add_argument("--cpu", action="store_true", help="use the CPU even where there is a GPU")
    options = parser.parse_args()

    print("Reading the photograph ...", flush=True)
    colour = read_photograph()
    stream = device.cpu_stream() if options.cpu else device.default_stream()
    print(f"Running on {stream.device_name}: {colour.shape[1]} x {colour.shape[0]} pixels", flush=True)
    results = process(colour, stream)

    print("Computing the same with NumPy and SciPy ...", flush=True)
    right = check(results, expect(colour))
    print(f"Mean brightness: {results['mean']:.4f}")
    write_picture(options.output, colour, results["blurred"], results["edges"])
    print(f"The picture: {options.output.resolve()}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
