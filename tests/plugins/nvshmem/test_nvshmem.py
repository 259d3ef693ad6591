"""NVSHMEM in kernels: what is declared, what it is linked to, and that NVSHMEM is told of programs that use it."""

import importlib.machinery
import sys
import types

import fake_driver
import numpy as np
import pytest
from conftest import has_nvshmem

import cuda_device as device
from cuda_device.errors import PluginError
from cuda_device.runtime.gpu import driver

nvshmem = pytest.importorskip("cuda_device.nvshmem", exc_type=PluginError, reason="needs the plugin cpp")
HEADER = """
struct State { int pe, count; };
__constant__ State nvshmemi_device_state_d;
__device__ inline int nvshmem_my_pe() { return nvshmemi_device_state_d.pe; }
__device__ inline int nvshmem_n_pes() { return nvshmemi_device_state_d.count; }
__device__ inline void nvshmem_float_p(float* target, const float value, int pe) { target[pe] = value; }
__device__ inline void nvshmemx_float_put_block(float* target, const float* source, size_t count, int pe) {}
__device__ inline void* nvshmem_ptr(const void* target, int pe) { return pe ? nullptr : (void*)target; }
"""


@device.kernel
def shift(target: device.pointer(device.float32), value):
    nvshmem.float_p(target, value, (nvshmem.my_pe() + 1) % nvshmem.n_pes())
    nvshmem.float_put_block(target, target, device.uint64(4), 0)
    if nvshmem.ptr(target, 1):
        target[0] = 0


@pytest.fixture
def package(monkeypatch, tmp_path):
    """An installation of NVSHMEM whose headers are a few lines."""
    folder = tmp_path / "nvshmem" / "include"
    folder.mkdir(parents=True)
    (folder / "nvshmem.h").write_text(HEADER)
    (folder / "nvshmemx.h").write_text("")
    found = importlib.machinery.ModuleSpec("nvidia.nvshmem", None, is_package=True)
    found.submodule_search_locations = [str(folder.parent)]
    monkeypatch.setattr(nvshmem, "find_spec", lambda name: found)
    nvshmem._source.cache_clear()
    nvshmem._declared.cache_clear()
    yield folder
    nvshmem._source.cache_clear()
    nvshmem._declared.cache_clear()


class Core(types.ModuleType):
    """NVSHMEM4Py's module, as far as it hears of programs."""

    def __init__(self, error=None):
        super().__init__("nvshmem.core")
        self.told, self.error = [], error
        self.NvshmemKernelObject = types.SimpleNamespace(from_handle=lambda handle: handle)

    def library_init(self, library):
        if self.error:
            raise self.error
        self.told.append(("begin", library))

    def library_finalize(self, library):
        self.told.append(("end", library))


def test_a_kernel_has_the_state_and_no_calls(package):
    pytest.importorskip("cuda.bindings.nvrtc")
    made = device.compile(shift, device.pointer(np.float32), float, target="sm_90")
    assert b"nvshmemi_device_state_d" in made.code
    assert b"nvshmem_float_p" not in made.code


def test_a_stub_of_the_users_own(package):
    pytest.importorskip("cuda.bindings.nvrtc")

    @device.extern
    def nvshmem_n_pes() -> device.int32: ...

    @device.extern(symbol="nvshmem_float_p")
    def send(target: device.pointer(device.float32), value: device.float32, pe: device.int32) -> None: ...

    @device.kernel
    def k(target: device.pointer(device.float32)):
        send(target, device.float32(1), nvshmem_n_pes() - 1)

    made = device.compile(k, device.pointer(np.float32), target="sm_90")
    assert b"nvshmemi_device_state_d" in made.code
    assert b"nvshmem_float_p" not in made.code


def test_the_real_headers():
    if not has_nvshmem():
        pytest.skip("NVSHMEM is not installed")
    made = device.compile(shift, device.pointer(np.float32), float, target="sm_90")
    assert b"nvshmemi_device_state_d" in made.code


def test_names_are_declared_as_in_c(package):
    assert nvshmem.int32_atomic_fetch_add.__doc__ == (
        "`nvshmem_int32_atomic_fetch_add` of NVSHMEM: "
        "`int32 int32_atomic_fetch_add(int32* target, int32 value, int pe)`."
    )
    assert "`nvshmemx_double_put_warp`" in nvshmem.double_put_warp.__doc__
    assert nvshmem.SIGNAL_ADD == 10
    assert {"my_pe", "CMP_GE", "uint64_wait_until", "float_atomic_swap"} <= set(dir(nvshmem))
    assert not {"float_atomic_add", "T_p", "x_barrier_all_block"} & set(dir(nvshmem))
    for name in dir(nvshmem):
        assert getattr(nvshmem, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'float_pp'"):
        nvshmem.__getattr__("float_pp")


def test_wrong_arguments(package):
    @device.kernel
    def wrong(target: device.pointer(device.float64)):
        nvshmem.float_p(target, 1.0, 0)

    with pytest.raises(device.CompileError, match=r"pointer<float32>[\s\S]*nvshmem.float_p\(target, 1.0, 0\)"):
        device.compile(wrong, device.pointer(np.float64))
    device.compile(shift, device.pointer(np.float32), float, output="ptx")


def test_without_headers(monkeypatch):
    monkeypatch.setattr(nvshmem, "find_spec", lambda name: None)
    nvshmem._source.cache_clear()
    nvshmem._declared.cache_clear()
    with pytest.raises(ImportError, match="pip install nvshmem4py"):
        nvshmem.__getattr__("my_pe")


def test_nvshmem_is_told_of_programs(monkeypatch):
    core, at_end = Core(), []
    monkeypatch.setitem(sys.modules, "nvshmem", types.SimpleNamespace(core=core))
    monkeypatch.setattr("atexit.register", at_end.append)
    with fake_driver.installed():
        assert driver.load_library(b"\x7fELF and no more")
        assert core.told == []
        library = driver.load_library(b"\x7fELF nvshmemi_device_state_d")
        assert core.told == [("begin", library)]
        (end,) = at_end
        end()
        assert core.told[1:] == [("end", library)]


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ({"nvshmem": None}, r"the kernel needs NVSHMEM[\s\S]*pip install nvshmem4py"),
        (
            {"nvshmem": types.SimpleNamespace(core=Core(RuntimeError("not initialised")))},
            r"NVSHMEM does not accept the kernel: not initialised\n  help: start it before",
        ),
    ],
)
def test_nvshmem_is_not_there_or_has_not_begun(monkeypatch, modules, message):
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    with fake_driver.installed(), pytest.raises(device.LaunchError, match=message):
        driver.load_library(b"\x7fELF nvshmemi_device_state_d")


def test_the_cpu_has_none(package):
    with pytest.raises(device.CompileError, match="float_p"):
        device.launch(shift, np.zeros(4, np.float32), 1.0, grid=1, block=1, stream=device.cpu_stream())
