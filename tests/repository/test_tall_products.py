"""Products of few rows of examples/transformer, against NumPy in float64."""

import numpy as np
import pytest
from conftest import StreamUnderTest

import cuda_device as device
from cuda_device import bfloat16, float8e4m3

pytestmark = [pytest.mark.needs("tiles"), pytest.mark.needs("tensor_cores")]


def exact(array):
    return np.asarray(array).astype(np.float64)


def check(examples, on, shape, dtype=bfloat16, more=(), right=lambda product: product, **settings):
    """Launches a product, compares it with `right(x @ w.T)`, and checks that it stores nothing else."""
    m, n, k = shape
    random = np.random.default_rng(1)
    x = random.standard_normal((m, k)).astype(device.numpy_dtype(dtype))
    w = random.standard_normal((n, k)).astype(device.numpy_dtype(dtype))
    whole = on.array(np.full((m + 1, n // settings.get("ratio", 1)), 7, device.numpy_dtype(bfloat16)))
    arrays = on.array(x), on.array(w), whole[:m]
    examples["tall_products"].launch(*arrays, *map(on.array, more), stream=on.stream, dtype=dtype, **settings)
    c, expected = on.numpy(whole), right(exact(x) @ exact(w).T)
    assert (c[m:] == 7).all() and np.isfinite(exact(c)).all()
    assert np.abs(exact(c[:m]) - expected).max() <= 2**-8 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("shape", "bm", "split"),
    [((16, 200, 456), 128, 2), ((5, 72, 136), 64, 4), ((64, 64, 192), 64, 1)],
)
def test_tall_product(examples, warpgroups, shape, bm, split):
    """Rings go round, columns and steps of the depth are cut, and a block has no steps at all."""
    check(examples, warpgroups, shape, bm=bm, split=split, stages=2)


def test_tall_product_without_races(examples):
    on = StreamUnderTest("cpu", device.cpu_stream(target="sm_90a", races=True))
    check(examples, on, (3, 64, 328), bm=64, split=2, stages=2)


def test_epilogue_of_float8(examples, warpgroups):
    """The epilogue gets the row and column of its register tile, and halves the columns."""
    epilogues = examples["epilogues"]

    def epilogue(acc, row, column, scale_x, scale_w, residual):
        acc = epilogues.swiglu(epilogues.scaled(acc, row, column, scale_x, scale_w), row, column)
        return epilogues.add(acc, row, column // 2, residual)

    def right(product):
        gate, up = (
            (product * scales[0][:, None] * scales[1]).reshape(20, 9, 2, 8).transpose(2, 0, 1, 3).reshape(2, 20, 72)
        )
        return gate / (1 + np.exp(-gate)) * up + exact(residual)

    scales = np.linspace(0.1, 0.2, 20, dtype=np.float32), np.linspace(0.3, 0.1, 144, dtype=np.float32)
    residual = np.random.default_rng(2).standard_normal((20, 72)).astype(device.numpy_dtype(bfloat16))
    settings = {"bm": 64, "split": 2, "stages": 2, "epilogue": epilogue, "ratio": 2}
    check(examples, warpgroups, (20, 144, 272), float8e4m3, (*scales, residual), right, **settings)
