"""Arrays of real libraries, where they are installed: torch and JAX on the CPU; these, CuPy and numba-cuda on a GPU.

Every number, every layout that the library has, often enough that machine code takes over from Python; and our arrays in theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conftest import LAUNCHES

import cuda_device as device

# numba-cuda copies what is not contiguous by a kernel of its own, and finds that small.
pytestmark = pytest.mark.filterwarnings("ignore:.*Grid size")

PLAIN = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
NARROW = {name: np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")}


def dtype_of(name: str) -> np.dtype[Any]:
    return NARROW.get(name) or np.dtype(name)


@dataclass(frozen=True)
class Library:
    """How to make an array of these elements, in the memory of the CPU or of a GPU, and how to read it.

    `layouts` are functions of one of its arrays of (6, 8) elements, and of the same NumPy array, that give another view of it.
    """

    name: str
    make: Callable[[Any, np.ndarray, bool], Any]
    read: Callable[[Any], np.ndarray]
    dtypes: tuple[str, ...]
    layouts: tuple[str, ...]
    on_cpu: bool = True
    writeable: bool = True


def bits_of(elements):
    """Elements that a library cannot take from NumPy, as integers of their size."""
    return elements.view(f"i{elements.itemsize}") if elements.dtype.name in NARROW else elements


def to_torch(torch, elements, on_gpu):
    tensor = torch.from_numpy(np.ascontiguousarray(bits_of(elements))).reshape(elements.shape)
    if elements.dtype.name in NARROW:
        tensor = tensor.view(getattr(torch, elements.dtype.name))
    return tensor.cuda() if on_gpu else tensor


def from_torch(tensor):
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in NARROW:
        return tensor.cpu().numpy()
    import torch

    as_integers = tensor.contiguous().view(torch.int16 if tensor.itemsize == 2 else torch.int8)
    return as_integers.cpu().numpy().view(NARROW[name])


def to_jax(jax, elements, on_gpu):
    jax.config.update("jax_enable_x64", True)
    (first, *_) = jax.devices("gpu" if on_gpu else "cpu")
    return jax.device_put(elements, first)


LIBRARIES = {
    library.name: library
    for library in (
        Library(
            "torch",
            to_torch,
            from_torch,
            (*PLAIN, *NARROW),
            ("as it is", "transposed", "every other", "from within", "repeated", "one", "none"),
        ),
        Library("jax", to_jax, np.asarray, (*PLAIN, *NARROW), ("as it is", "one", "none"), writeable=False),
        Library(
            "cupy",
            lambda cupy, elements, on_gpu: cupy.asarray(elements),
            lambda array: array.get(),
            tuple(PLAIN),
            ("as it is", "transposed", "every other", "backwards", "from within", "repeated", "one", "none"),
            on_cpu=False,
        ),
        Library(
            "numba.cuda",
            lambda cuda, elements, on_gpu: cuda.to_device(elements),
            lambda array: array.copy_to_host(),
            tuple(PLAIN),
            ("as it is", "from within", "one"),
            on_cpu=False,
        ),
    )
}

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda x: x,
    "transposed": lambda x: x.T,
    "every other": lambda x: x[::2, 1::3],
    "backwards": lambda x: x[::-1, ::-1],
    "from within": lambda x: x[1:5, 3:],
    "repeated": lambda x: x[:1].repeat(6, 0) if isinstance(x, np.ndarray) else expanded(x[:1], 6),
    "one": lambda x: x[3, 5] if isinstance(x, np.ndarray) else x[3:4, 5:6].reshape(()),
    "none": lambda x: x[:, :0],
}


def expanded(row, times):
    """A row that is there several times, and once in memory."""
    if hasattr(row, "expand"):
        return row.expand(times, row.shape[1])
    import cupy

    return cupy.broadcast_to(row, (times, row.shape[1]))


def installed(name: str, on_gpu: bool) -> Library:
    """A library; the test is skipped where it is not, or does not work there."""
    library = LIBRARIES[name]
    if not on_gpu and not library.on_cpu:
        pytest.skip(f"{name} is for GPUs")
    module = pytest.importorskip(name, exc_type=ImportError)
    if on_gpu and name == "torch" and not module.cuda.is_available():
        pytest.skip("torch for the CPU")
    if on_gpu and name == "jax":
        try:
            module.devices("gpu")
        except RuntimeError:
            pytest.skip("JAX for the CPU")
    return library


def values(dtype: np.dtype[Any]) -> np.ndarray:
    """6 rows of 8 elements, all of them different where there are so many."""
    numbers = np.arange(48).reshape(6, 8)
    if dtype.kind == "b":
        return numbers % 3 == 0
    if dtype.kind == "c":
        return (numbers - 20.5j * numbers).astype(dtype)
    return (numbers - 20 * (dtype.kind != "u")).astype(dtype)


@pytest.fixture(autouse=True)
def a_real_gpu(request):
    """The emulated GPU's memory is of no library."""
    if "stream" in request.fixturenames and request.getfixturevalue("stream").emulated:
        pytest.skip("libraries do not know the emulated GPU")


def copy_2d(x, out):
    i, j = device.tid(2)
    if i < x.shape[0] and j < x.shape[1]:
        out[i, j] = x[i, j]


def copy_0d(x, out):
    out[()] = x[()]


@pytest.mark.parametrize(
    ("name", "dtype"), [(each.name, dtype) for each in LIBRARIES.values() for dtype in each.dtypes]
)
def test_every_number(stream, name, dtype):
    """The library's array and NumPy's are of one type, and have the same bits."""
    library = installed(name, stream.kind == "gpu")
    expected = values(dtype_of(dtype))
    array = library.make(pytest.importorskip(name), expected, stream.kind == "gpu")
    kernel = device.kernel(copy_2d)
    for _ in range(LAUNCHES):
        assert stream.run(kernel, array, np.zeros_like(expected), block=(8, 8)).tobytes() == expected.tobytes()
    assert len(kernel.variants) == 1


@pytest.mark.parametrize(
    ("name", "layout"), [(each.name, layout) for each in LIBRARIES.values() for layout in each.layouts]
)
def test_every_layout(stream, name, layout):
    """Read, and written where the elements are the array's own."""
    library = installed(name, stream.kind == "gpu")
    host = values(np.dtype(np.float32))
    array = LAYOUTS[layout](library.make(pytest.importorskip(name), host, stream.kind == "gpu"))
    expected = np.ascontiguousarray(LAYOUTS[layout](host))
    kernel = device.kernel(copy_2d if expected.ndim == 2 else copy_0d)
    for turn in range(LAUNCHES):
        out = stream.run(kernel, array, np.zeros_like(expected), block=(8, 8) if expected.ndim else 1)
        assert np.array_equal(out, expected)
        if library.writeable and layout not in ("repeated", "one"):
            stream.launch(kernel, stream.array(expected + turn), array, grid=1, block=(8, 8))
            expected = expected + turn
            assert np.array_equal(library.read(array), expected)


def test_what_cannot_be_written():
    """JAX says of its arrays on the CPU that they cannot; of those on a GPU it does not."""
    library = installed("jax", False)
    array = library.make(pytest.importorskip("jax"), values(np.dtype(np.float32)), False)
    with pytest.raises(device.CompileError, match="the array is read-only"):
        device.launch(
            device.kernel(copy_2d), np.ones((6, 8), np.float32), array, grid=1, block=(8, 8), stream=device.cpu_stream()
        )


@pytest.mark.parametrize("name", ["torch", "jax", "cupy"])
def test_ours_in_theirs(stream, name):
    """No copy is made: what a kernel writes afterwards is there."""
    library = installed(name, stream.kind == "gpu")
    module = pytest.importorskip(name)
    ours = device.array(values(np.dtype(np.float32)), stream=stream.stream)
    theirs = (module.numpy if name == "jax" else module).from_dlpack(ours)
    stream.launch(device.kernel(copy_2d), stream.array(np.full((6, 8), 7, np.float32)), ours, grid=1, block=(8, 8))
    assert (library.read(theirs) == 7).all()


def test_numba_reads_ours(stream):
    installed("numba.cuda", stream.kind == "gpu")
    cuda = pytest.importorskip("numba.cuda")
    ours = device.array(values(np.dtype(np.float32)), stream=stream.stream)
    assert np.array_equal(cuda.as_cuda_array(ours).copy_to_host(), ours.numpy())
