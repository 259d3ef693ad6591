"""The products of examples/transformer and their epilogues, for all types of elements, against NumPy in float64."""

import numpy as np
import pytest
from conftest import StreamUnderTest, long

import cuda_device as device
from cuda_device import bfloat16, float8e4m3, float16, float32, float64, int8, int32

pytestmark = [pytest.mark.needs("tiles"), pytest.mark.needs("tensor_cores")]
SMALL = {"bn": 64, "stages": 2, "cluster": 1, "transposed": True}
ERRORS = {bfloat16: 2**-8, float16: 2**-11, float32: 2**-10, float64: 2**-50, int32: 0}
"""The errors that are allowed, by the type of C, and for float32 by the rounding to tf32."""


def random_array(shape, dtype, seed):
    random = np.random.default_rng(seed)
    if dtype is int8:
        return random.integers(-128, 128, shape, np.int8)
    return random.standard_normal(shape).astype(device.numpy_dtype(dtype))


def exact(array):
    return np.asarray(array).astype(np.float64)


def check(examples, on, shape, dtype=bfloat16, result=None, more=(), right=lambda product: product, **config):
    """Launches a product, compares it with `right(a @ b)`, and checks that it stores nothing else."""
    m, n, k = shape
    kernel, *layouts = examples["products"].gemm(dtype, result, **config)
    threads = examples["products"].threads(config.get("bm", 128))
    a = random_array((m, k), dtype, 1)
    b = random_array((n, k) if config["transposed"] else (k, n), dtype, 2)
    whole = on.array(np.full((m + 1, n // config.get("ratio", 1)), 7, device.numpy_dtype(result or dtype)))
    kinds = ("tf32" if dtype is float32 else None,) * 2 + (None,)
    maps = [
        layout.map_of(array, kind)
        for array, layout, kind in zip((on.array(a), on.array(b), whole[:m]), layouts, kinds, strict=True)
    ]
    blocks = 2 * config["cluster"]
    on.launch(kernel, *maps, int32(m), int32(n), int32(k), tuple(map(on.array, more)), grid=blocks, block=threads)
    expected = right(exact(a) @ (exact(b).T if config["transposed"] else exact(b)))
    c = on.numpy(whole)
    assert (c[m:] == 7).all() and np.isfinite(exact(c)).all()
    assert np.abs(exact(c[:m]) - expected).max() <= ERRORS[result or dtype] * np.abs(expected).max()


@pytest.mark.parametrize(("transposed", "cluster"), [(False, 2), pytest.param(True, 2, marks=long(0))])
def test_product(examples, warpgroups, transposed, cluster):
    """Some tiles reach over the edges, and blocks have several."""
    check(examples, warpgroups, (300, 72, 136), bn=64, transposed=transposed, cluster=cluster)


def test_four_consumers(examples, warpgroups):
    check(examples, warpgroups, (300, 72, 136), bm=256, bn=64, transposed=False, cluster=1, stages=2)


@pytest.mark.long
def test_largest_tile(examples, warpgroups):
    check(examples, warpgroups, (256, 256, 128), transposed=False, cluster=2)


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (float16, None),
        (int8, int32),
        (float32, None),
        (float64, None),
        pytest.param(float8e4m3, bfloat16, marks=long(1)),
        pytest.param(bfloat16, float32, marks=long(2)),
    ],
)
def test_types(examples, warpgroups, dtype, result):
    """The ring goes round, and C of large elements is stored in several pieces."""
    check(examples, warpgroups, (72, 72, 320 // device.sizeof(dtype)), dtype, result, **SMALL)


def test_configurations(examples, warpgroups):
    """On a GPU, the fastest configuration runs."""
    a, b = random_array((72, 160), float16, 1), random_array((72, 160), float16, 2)
    c = warpgroups.array(np.full((72, 72), 7, np.float16))
    settings = SMALL if warpgroups.kind == "cpu" else {"transposed": True}
    arrays = warpgroups.array(a), warpgroups.array(b), c, warpgroups.stream
    right = exact(a) @ exact(b).T
    for start in (
        examples["tuned_products"].multiply,
        lambda *a, **how: examples["tuned_products"].prepare(*a, **how)(),
    ):
        c[...] = 7
        start(*arrays, dtype=float16, blocks=2, **settings)
        assert np.abs(exact(warpgroups.numpy(c)) - right).max() <= 2**-11 * np.abs(right).max()


# Epilogues


def test_swiglu(examples, warpgroups):
    def right(product):
        gate, up = product.reshape(136, 9, 2, 8).transpose(2, 0, 1, 3).reshape(2, 136, 72)
        return gate / (1 + np.exp(-gate)) * up

    settings = {**SMALL, "bn": 128, "epilogue": examples["epilogues"].swiglu, "ratio": 2}
    check(examples, warpgroups, (136, 144, 128), right=right, **settings)


def test_scales_and_sum(examples, warpgroups):
    """On CPU streams without races."""
    on = warpgroups
    if on.kind == "cpu":
        on = StreamUnderTest("cpu", device.cpu_stream(target="sm_90a", races=True))
    epilogues = examples["epilogues"]
    scales = np.linspace(0.1, 2, 72, dtype=np.float32), np.linspace(3, 0.2, 72, dtype=np.float32)
    residual = random_array((72, 72), bfloat16, 3)

    def epilogue(acc, row, column, scale_a, scale_b, residual):
        return epilogues.add(epilogues.scaled(acc, row, column, scale_a, scale_b), row, column, residual)

    def right(product):
        return product * scales[0][:, None] * scales[1] + exact(residual)

    settings = {**SMALL, "epilogue": epilogue, "more": (*scales, residual)}
    check(examples, on, (72, 72, 256), float8e4m3, bfloat16, right=right, **settings)


def test_sum_with_a_residual_loaded_before(examples, warpgroups):
    epilogues, residual = examples["epilogues"], random_array((72, 72), bfloat16, 3)
    settings = {"before": epilogues.load_chunks, "epilogue": epilogues.add_chunks, "more": (residual,)}
    check(examples, warpgroups, (72, 72, 192), right=lambda product: product + exact(residual), **SMALL, **settings)


@pytest.mark.parametrize("tile", [{"bn": 256, "bm": 256}, {"bn": 192, "dtype": float64}])
def test_sums_fit_in_registers(examples, tile):
    with pytest.raises(device.LaunchError, match="has no registers for 64 rows of the sums"):
        examples["products"].gemm(**tile)


def test_pieces_of_the_result_are_whole(examples):
    with pytest.raises(ValueError, match="bn=192: pieces of C have 64 columns, so choose a multiple of 128"):
        examples["products"].gemm(bn=192, epilogue=examples["epilogues"].swiglu, ratio=2)
