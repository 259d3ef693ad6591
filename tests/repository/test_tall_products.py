"""The product of few rows of examples/transformer, against NumPy in float64."""

import pathlib
import sys

import numpy as np
import pytest
from conftest import StreamUnderTest

import cuda_device as device
from cuda_device import bfloat16, float8e4m3, tiles

pytestmark = [pytest.mark.needs("tiles"), pytest.mark.needs("tensor_cores")]
FOLDER = str(pathlib.Path(__file__).parents[2] / "examples" / "transformer")


@pytest.fixture(scope="module")
def tall_products():
    """The module of the example."""
    sys.path.insert(0, FOLDER)
    try:
        import tall_products

        yield tall_products
    finally:
        sys.path.remove(FOLDER)


def exact(array):
    return np.asarray(array).astype(np.float64)


def check(module, on, shape, dtype=bfloat16, more=(), right=lambda product: product, **settings):
    """Launches a product, compares it with `right(x @ w.T)`, and checks that it stores nothing else."""
    m, n, k = shape
    random = np.random.default_rng(1)
    x, w = (random.standard_normal(s).astype(device.numpy_dtype(dtype)) for s in ((m, k), (n, k)))
    whole = on.array(np.full((m + 1, n // settings.get("ratio", 1)), 7, device.numpy_dtype(bfloat16)))
    arrays = on.array(x), on.array(w), whole[:m]
    module.launch(*arrays, *map(on.array, more), stream=on.stream, dtype=dtype, **settings)
    c, expected = on.numpy(whole), right(exact(x) @ exact(w).T)
    assert (c[m:] == 7).all() and np.isfinite(exact(c)).all()
    assert np.abs(exact(c[:m]) - expected).max() <= 2**-8 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("shape", "bm", "split"),
    [((16, 200, 456), 128, 2), ((5, 72, 136), 64, 4), ((64, 64, 192), 64, 1)],
)
def test_tall_product(tall_products, warpgroups, shape, bm, split):
    """Rings go round, columns and steps of the depth are cut, and a block has no steps at all."""
    check(tall_products, warpgroups, shape, bm=bm, split=split, stages=2)


def test_tall_product_without_races(tall_products):
    on = StreamUnderTest("cpu", device.cpu_stream(target="sm_90a", races=True))
    check(tall_products, on, (3, 64, 328), bm=64, split=2, stages=2)


def test_epilogue_of_float8(tall_products, warpgroups):
    """The epilogue gets the row and column of its register tile, and may halve the columns."""

    def epilogue(acc, row, column, scales):
        height, width = scales.shape
        scaled = []
        for i, x in enumerate(acc):
            r, c = row + tiles.row_of(i // 2 % 2), column + tiles.column_of(i)
            scaled.append(x * scales[min(r, height - 1), min(c, width - 1)])
        return tuple([x + scaled[i + 4] for i, x in enumerate(scaled) if i % 8 < 4])

    scales = np.random.default_rng(2).uniform(0.5, 2, (20, 144)).astype(np.float32)

    def right(product):
        return (product * scales).reshape(20, 9, 2, 8).sum(2).reshape(20, 72)

    settings = {"bm": 64, "split": 2, "stages": 2, "epilogue": epilogue, "ratio": 2}
    check(tall_products, warpgroups, (20, 144, 272), float8e4m3, (scales,), right, **settings)
