"""C = A @ B, or A @ B.T, by `products.gemm` in the fastest of some configurations, for elements of any of its types.

multiply(a, b, c, stream)               measures the configurations for matrices of new shapes
run = prepare(a, b, c, stream)          does what does not depend on the elements once
run()                                   starts the product, in a fraction of the host's time of `multiply`
"""

import products

import cuda_device as device
from cuda_device import bfloat16, float32, int32

CONFIGS = (
    {"bm": 128, "bn": 256, "stages": 4, "cluster": 2},
    {"bm": 128, "bn": 256, "stages": 3, "cluster": 2},
    {"bm": 256, "bn": 128, "stages": 4, "cluster": 2},
    {"bm": 128, "bn": 192, "stages": 4, "cluster": 2},
    {"bm": 128, "bn": 128, "stages": 4, "cluster": 2},
)


@device.autotune(CONFIGS, key=["a", "b", "dtype"])
def multiply(a, b, c, stream, bm, bn, stages, cluster, dtype=bfloat16, result=None, transposed=False, blocks=132):
    """Starts C = A @ B, or A @ B.T if B is `transposed`, with one block for each multiprocessor, of which an H200 has 132.

    The first call with matrices of new shapes measures the configurations, and keeps the result on disk; call it once before a
    graph is captured. CPU streams take the first one.
    """
    kernel, arguments, sizes = parts(a, b, c, bm, bn, stages, cluster, dtype, result, transposed, blocks)
    device.launch(kernel, *arguments, **sizes, stream=stream)


def prepare(a, b, c, stream, **settings):
    """Prepares `multiply(a, b, c, stream, **settings)`: the result starts the product whenever it is called."""
    kernel, arguments, sizes = parts(a, b, c, **{**multiply.best(a, b, c, stream, **settings), **settings})
    return device.prepare(kernel, *arguments, **sizes, stream=stream)


def parts(a, b, c, bm, bn, stages, cluster, dtype=bfloat16, result=None, transposed=False, blocks=132):
    """The kernel, the arguments and the sizes of a launch in one configuration."""
    kernel, *layouts = products.gemm(dtype, result, bm=bm, bn=bn, stages=stages, cluster=cluster, transposed=transposed)
    rounded = "tf32" if dtype is float32 else None
    kinds = rounded, rounded, None
    maps = [layout.map_of(x, kind) for x, layout, kind in zip((a, b, c), layouts, kinds, strict=True)]
    sizes = {"grid": blocks // cluster * cluster, "block": products.threads(bm)}
    return kernel, (*maps, int32(c.shape[0]), int32(c.shape[1]), int32(a.shape[1])), sizes
