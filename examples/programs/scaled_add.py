"""A kernel whose arguments are one struct, made of arrays of any library: its grid and its block are functions of them.

What ThunderKittens' `bind_kernel` and `bind_function` do with a struct of globals. Those and the conversion of tensors are about
60 lines of C++ as its authors show them, without a kernel; this program has 31 lines, without `expect` and `cases`.
"""

from typing import Annotated, Any

import numpy as np

import cuda_device as device

TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}
Image = Annotated[Any, device.ArrayType(device.float32, 4)]


@device.struct
class Globals:
    """Batch, depth, height and width of each array; what has fewer axes gets ones in front."""

    x: Image
    y: Image
    out: Image
    scale: device.float32

    def grid(self):
        """A block for each row."""
        batch, depth, height, _ = self.out.shape
        return height, depth, batch

    def block(self):
        """As many threads as a row has elements, up to the most that a block has."""
        return min(self.out.shape[3], 1024)


@device.kernel
def scaled_add(g):
    """out = scale * x + y."""
    i, j, k = device.block_idx.z, device.block_idx.y, device.block_idx.x
    for column in range(device.thread_idx.x, g.out.shape[3], device.block_dim.x):
        g.out[i, j, k, column] = g.scale * g.x[i, j, k, column] + g.y[i, j, k, column]


@device.host_function
def largest(g: Globals) -> Any:
    """The largest magnitude in `out`."""
    return np.abs(np.asarray(g.out)).max()


bound = scaled_add.bind(grid=Globals.grid, block=Globals.block)


def run(stream, x, y, scale):
    """The sum, and its largest magnitude."""
    out = device.empty(x.shape, stream=stream)
    arrays = device.array(x, stream=stream), device.array(y, stream=stream), out
    g = Globals.of(*arrays, scale=scale)  # type: ignore[attr-defined]
    bound(g, stream=stream)
    return out.numpy(), largest(g)


def expect(x, y, scale):
    """By NumPy."""
    out = np.float32(scale) * x + y
    return out, np.abs(out).max()


def cases(random):
    """One to four axes, rows of one element and of more than a block has threads."""
    for shape in ((1,), (3, 1), (2, 5, 33), (2, 3, 2, 1500)):
        x, y = random.standard_normal((2, *shape)).astype(np.float32)
        yield x, y, 0.5
