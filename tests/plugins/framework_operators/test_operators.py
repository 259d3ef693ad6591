"""Kernels as operators of PyTorch and JAX, and as functions of TVM-FFI."""

import math
import sys

import numpy as np
import pytest

import cuda_device as device


@device.func
def sigmoid(x):
    return 1 / (1 + math.exp(-x))


@device.kernel
def swish_kernel(x, y):
    i = device.tid(1)
    if i < len(x):
        y[i] = x[i] * sigmoid(x[i])


@device.kernel
def swish_backward_kernel(grad, x, out):
    i = device.tid(1)
    if i < len(x):
        s = sigmoid(x[i])
        out[i] = grad[i] * s * (1 + x[i] * (1 - s))


@device.kernel
def scaled_sum_kernel(gain: float, x, y, total, difference, flip: bool = False):
    i, j = device.tid(2)
    if i < x.shape[0] and j < x.shape[1]:
        total[i, j] = gain * (x[i, j] + y[i, j])
        difference[i, j] = (y[i, j] - x[i, j]) if flip else (x[i, j] - y[i, j])


@device.kernel
def outer_kernel(x, y, out):
    i, j = device.tid(2)
    if i < len(x) and j < len(y):
        out[i, j] = x[i] * y[j]


@device.kernel
def increment_kernel(x, by: int):
    i = device.tid(1)
    if i < len(x):
        x[i] += by


@device.kernel
def successor_kernel(x, out):
    out[()] = x[()] + 1


ADDED = {"total": "x", "difference": "x"}


class TestTorch:
    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch")

    @pytest.fixture
    def where(self, torch, stream):
        if stream.kind == "gpu" and not torch.cuda.is_available():
            pytest.skip("PyTorch has no GPU")
        return "cuda" if stream.kind == "gpu" else "cpu"

    @pytest.fixture
    def swish(self, torch):
        backward = device.torch_op("cuda_device_tests::swish_backward", swish_backward_kernel, outputs={"out": "x"})
        return device.torch_op(
            "cuda_device_tests::swish",
            swish_kernel,
            outputs={"y": "x"},
            backward=lambda grad, x: backward(grad.contiguous(), x),
        )

    def test_opcheck_and_gradcheck(self, torch, swish, where):
        x = torch.linspace(-3, 3, 70, dtype=torch.float64, device=where, requires_grad=True)
        torch.testing.assert_close(swish(x), torch.nn.functional.silu(x))
        assert set(torch.library.opcheck(swish, (x,)).values()) == {"SUCCESS"}
        assert torch.autograd.gradcheck(swish, (x,))

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own
    def test_compiled(self, torch, swish, where):
        def loss(f, x):
            return f(2 * x).sum()

        x, y = (torch.ones(5, device=where, requires_grad=True) for _ in range(2))
        backend = "inductor" if where == "cuda" else "aot_eager"  # which needs no compiler of C++
        torch.compile(loss, fullgraph=True, backend=backend)(swish, x).backward()
        loss(torch.nn.functional.silu, y).backward()
        torch.testing.assert_close(x.grad, y.grad)

    def test_captured(self, torch, swish, where):
        if where == "cpu":
            pytest.skip("a graph is of a GPU")
        x = torch.ones(5, device=where)
        swish(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = swish(x)
        x.fill_(2)
        graph.replay()
        torch.testing.assert_close(y, torch.nn.functional.silu(x))

    def test_numbers_and_two_outputs(self, torch, where):
        added = device.torch_op("cuda_device_tests::added", scaled_sum_kernel, outputs=ADDED)
        x = torch.arange(15.0, device=where).reshape(3, 5).T
        y = torch.ones(5, 3, device=where)
        total, difference = added(0.5, x, y)
        torch.testing.assert_close(total, (x + y) / 2)
        torch.testing.assert_close(difference, x - y)
        torch.testing.assert_close(added(1.0, x, y, flip=True)[1], y - x)
        assert total.stride() == torch.empty_like(x).stride()
        assert set(torch.library.opcheck(added, (2.0, x, y)).values()) == {"SUCCESS"}

    def test_output_of_another_shape(self, torch, where):
        outer = device.torch_op(
            "cuda_device_tests::outer", outer_kernel, outputs={"out": lambda x, y: x.new_empty(len(x), len(y))}
        )
        x, y = torch.arange(4.0, device=where), torch.arange(7.0, device=where)
        torch.testing.assert_close(outer(x, y), torch.outer(x, y))
        assert set(torch.library.opcheck(outer, (x, y)).values()) == {"SUCCESS"}
        assert outer(x[:0], y).shape == (0, 7)

    def test_argument_that_changes(self, torch, where):
        increment = device.torch_op("cuda_device_tests::increment", increment_kernel, mutates_args=["x"])
        x = torch.zeros(300, dtype=torch.int32, device=where)
        assert increment(x, 3) is None
        assert x.tolist() == [3] * 300
        assert set(torch.library.opcheck(increment, (x, 1)).values()) == {"SUCCESS"}

    def test_bound_sizes(self, torch, where):
        bound = increment_kernel.bind(grid=lambda x, by: (len(x) + 31) // 32, block=32)
        increment = device.torch_op("cuda_device_tests::bound", bound, mutates_args=["x"])
        x = torch.zeros(70, dtype=torch.int32, device=where)
        increment(x, by=2)
        assert x.tolist() == [2] * 70

    def test_error_of_a_launch(self, torch, swish, where):
        with pytest.raises(device.CompileError, match=r"in swish_kernel[\s\S]*help:"):
            swish(torch.ones(2, 2, device=where))
        assert swish(torch.zeros(2, device=where)).tolist() == [0, 0]

    def test_wrong_number_of_gradients(self, torch, where):
        wrong = device.torch_op(
            "cuda_device_tests::wrong", swish_kernel, outputs={"y": "x"}, backward=lambda grad, x: (grad, grad)
        )
        with pytest.raises(device.LaunchError, match="backward returned 2 gradients for 1 array"):
            wrong(torch.ones(2, device=where, requires_grad=True)).sum().backward()

    def test_tensors_without_axes(self, torch, where):
        successor = device.torch_op("tests::successor", successor_kernel, outputs={"out": "x"})
        assert successor(torch.tensor(2.0, device=where)) == 3


class TestJax:
    @pytest.fixture
    def jax(self, stream):
        jax, _ = pytest.importorskip("jax"), pytest.importorskip("jax_tvm_ffi")
        try:
            where = jax.devices(stream.kind)[0]
        except RuntimeError:
            pytest.skip(f"JAX has no {stream.kind}")
        with jax.default_device(where):
            yield jax

    @pytest.fixture
    def swish(self, jax):
        backward = device.jax_op("swish_backward", swish_backward_kernel, outputs={"out": "x"})
        return device.jax_op("swish", swish_kernel, outputs={"y": "x"}, backward=backward)

    def test_plain_compiled_and_mapped(self, jax, swish):
        x = jax.numpy.linspace(-3, 3, 70)
        expected = jax.nn.silu(x)
        np.testing.assert_allclose(swish(x), expected, rtol=1e-5)
        np.testing.assert_allclose(jax.jit(lambda x: swish(2 * x) + 1)(x / 2), expected + 1, rtol=1e-5)
        np.testing.assert_allclose(jax.vmap(swish)(x.reshape(7, 10)), expected.reshape(7, 10), rtol=1e-5)

    def test_derivative(self, jax, swish):
        x = jax.numpy.linspace(-3, 3, 7)
        expected = jax.grad(lambda x: jax.nn.silu(x).sum())(x)
        np.testing.assert_allclose(jax.jit(jax.grad(lambda x: swish(x).sum()))(x), expected, rtol=1e-5, atol=1e-6)

    def test_numbers_and_two_outputs(self, jax):
        added = device.jax_op("added", scaled_sum_kernel, outputs=ADDED)
        x, y = jax.numpy.arange(15.0).reshape(5, 3), jax.numpy.ones((5, 3))
        total, difference = jax.jit(lambda x, y: added(0.5, x, y=y))(x, y)
        np.testing.assert_allclose(total, (x + y) / 2)
        np.testing.assert_allclose(difference, x - y)
        np.testing.assert_allclose(added(np.float32(2), x, y, flip=True)[1], y - x)

    def test_output_of_another_shape(self, jax):
        outer = device.jax_op(
            "outer", outer_kernel, outputs={"out": lambda x, y: jax.ShapeDtypeStruct((len(x), len(y)), x.dtype)}
        )
        x, y = jax.numpy.arange(4.0), jax.numpy.arange(7.0)
        np.testing.assert_allclose(outer(x, y), np.outer(x, y))
        assert outer(x[:0], y).shape == (0, 7)

    def test_an_argument_cannot_change(self, jax, swish):
        changing = device.jax_op("changing", clamped_into_its_argument, outputs={"out": "x"})
        x = jax.numpy.ones(5)
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"read-only[\s\S]*help:"):
            changing(x).block_until_ready()
        np.testing.assert_array_equal(x, 1)
        assert swish(x).shape == (5,)

    def test_arrays_without_axes(self, jax):
        successor = device.jax_op("successor", successor_kernel, outputs={"out": "x"})
        assert successor(jax.numpy.float32(3)) == 4 and jax.jit(successor)(jax.numpy.zeros(())).shape == ()

    def test_a_traced_number(self, jax):
        added = device.jax_op("added", scaled_sum_kernel, outputs=ADDED)
        x = jax.numpy.ones((2, 2))
        with pytest.raises(
            device.LaunchError, match="the argument 'gain' of scaled_sum_kernel is a number, not"
        ) as caught:
            jax.jit(lambda x, gain: added(gain, x, x))(x, 3.0)
        assert "static_argnames='gain'" in caught.value.help
        total, _ = jax.jit(lambda x, gain: added(gain, x, x), static_argnames="gain")(x, gain=3.0)
        np.testing.assert_array_equal(total, 6)

    def test_no_outputs(self, jax):
        with pytest.raises(device.LaunchError, match="JAX's arrays cannot change"):
            device.jax_op("nothing", increment_kernel, outputs={})


@device.kernel
def clamped_into_its_argument(x, out):
    i = device.tid(1)
    if i < len(x):
        x[i] = max(x[i], 2)
        out[i] = x[i]


class TestTvm:
    @pytest.fixture
    def tvm(self):
        return pytest.importorskip("tvm_ffi")

    def test_tensors_and_numbers(self, tvm):
        increment = device.tvm_ffi_function(increment_kernel)
        assert isinstance(increment, tvm.Function)
        x = np.zeros(300, np.int32)
        increment(tvm.from_dlpack(x), 3)
        assert x.tolist() == [3] * 300
        increment(tvm.from_dlpack(x[:0]), 3)

    def test_default_and_two_dimensions(self, tvm):
        added = device.tvm_ffi_function(scaled_sum_kernel)
        x, total, difference = np.full((5, 3), 2.0), np.empty((5, 3)), np.empty((5, 3))
        added(0.5, *map(tvm.from_dlpack, (x, x, total, difference)))
        np.testing.assert_array_equal(total, x)
        np.testing.assert_array_equal(difference, 0)

    def test_arrays_without_axes(self, tvm):
        x, out = np.full((), 2, np.float32), np.zeros((), np.float32)
        device.tvm_ffi_function(successor_kernel)(tvm.from_dlpack(x), tvm.from_dlpack(out))
        assert out == 3

    @pytest.mark.parametrize("where", ["gpu"])  # so that tests/gpu/evidence.py finds it
    def test_of_torch_on_its_stream(self, tvm, where):
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("PyTorch has no GPU")
        increment = device.tvm_ffi_function(increment_kernel)
        with torch.cuda.stream(torch.cuda.Stream()), tvm.use_torch_stream():
            x = torch.zeros(300, dtype=torch.int32, device="cuda")
            increment(x, 3)
            assert x.tolist() == [3] * 300

    def test_errors(self, tvm):
        swish = device.tvm_ffi_function(swish_kernel)
        x = tvm.from_dlpack(np.ones((2, 2)))
        with pytest.raises(Exception, match=r"in swish_kernel[\s\S]*help:"):
            swish(x, x)
        with pytest.raises(TypeError, match="missing a required argument: 'y'"):
            swish(x)


def test_without_a_framework(monkeypatch):
    for make, package in (
        (lambda: device.torch_op("a::b", swish_kernel, outputs={"y": "x"}), "torch"),
        (lambda: device.jax_op("b", swish_kernel, outputs={"y": "x"}), "jax"),
        (lambda: device.tvm_ffi_function(swish_kernel), "apache-tvm-ffi"),
    ):
        monkeypatch.setitem(sys.modules, package.replace("apache-", "").replace("-", "_"), None)
        with pytest.raises(ImportError, match=f"pip install {package}"):
            make()


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"z": "x"}, r"swish_kernel has no parameter 'z'\n  help: its parameters are x, y"),
        ({"y": "z"}, r"the output 'y' of swish_kernel is like 'z', which is not an argument\n  help: give one of x"),
    ],
)
def test_bad_outputs(outputs, message):
    with pytest.raises(device.LaunchError, match=message):
        device.torch_op("cuda_device_tests::bad", swish_kernel, outputs=outputs)


def test_what_is_no_kernel():
    with pytest.raises(TypeError, match=r"not the function sigmoid[\s\S]*help:"):
        device.tvm_ffi_function(sigmoid)
