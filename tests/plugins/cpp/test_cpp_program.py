"""The C++ program of the examples launches a kernel in Python; without a GPU, a driver of a few lines takes its place."""

import ctypes.util
import glob
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import a_gpu, command, target_of

import cuda_device as device

pytestmark = [pytest.mark.needs("command_line"), pytest.mark.needs("saved")]

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "cpp"
# What the header of CUDA declares, with the memory of the host for that of a GPU. The kernel is done by hand.
DRIVER = r"""
#include <cuda.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct Array { float* data; uint64_t shape, stride; };
extern "C" {
CUresult CUDAAPI cuGetErrorString(CUresult, const char** text) { *text = "no luck"; return CUDA_SUCCESS; }
CUresult CUDAAPI cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuDeviceGet(CUdevice* device, int number) { *device = number; return CUDA_SUCCESS; }
CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext*, CUdevice) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary*, const char* name, CUjit_option*, void**, unsigned, CUlibraryOption*,
                                       void**, unsigned) {
  char magic[4] = "";
  FILE* file = std::fopen(name, "rb");
  if (!file || std::fread(magic, 1, 4, file) != 4 || std::memcmp(magic, "\x7f" "ELF", 4)) return CUDA_ERROR_FILE_NOT_FOUND;
  std::fclose(file);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
  *kernel = reinterpret_cast<CUkernel>(7);
  return std::strcmp(name, "advance") ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
CUresult CUDAAPI cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuMemAlloc(CUdeviceptr* memory, size_t bytes) {
  *memory = reinterpret_cast<CUdeviceptr>(std::malloc(bytes));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemFree(CUdeviceptr memory) { std::free(reinterpret_cast<void*>(memory)); return CUDA_SUCCESS; }
CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuLaunchKernel(CUfunction kernel, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                                unsigned shared, CUstream stream, void** parameters, void** extra) {
  if (kernel != reinterpret_cast<CUfunction>(7) || y * z * by * bz != 1 || shared || stream || extra) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Array particles = *static_cast<Array*>(parameters[0]);
  const float seconds = *static_cast<float*>(parameters[1]);
  for (unsigned i = 0; i < x * bx && i < particles.shape; ++i) {
    float* particle = particles.data + 4 * i * particles.stride;
    for (int axis = 0; axis < 2; ++axis) particle[axis] += particle[2 + axis] * seconds;
  }
  return CUDA_SUCCESS;
}
}
"""


def toolkit():
    """The folders of headers for host compilers, which wheels have not all of; skips where there is no toolkit."""
    homes = [os.environ.get("CUDA_HOME", ""), *sorted(glob.glob("/usr/local/cuda*"))]
    for home in map(pathlib.Path, filter(None, homes)):
        if (home / "include" / "crt" / "host_defines.h").is_file():
            return [f"-I{home / 'include'}", f"-I{home / 'include' / 'cccl'}", f"-I{device.get_include()}"]
    pytest.skip("no CUDA toolkit")


def compiled(source, output, *options):
    """What g++ makes of a source."""
    command = ["g++", "-std=c++17", "-Wall", str(source), *toolkit(), *options, "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The folder with the program's sources, where it is built; the example's header is in it."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    folder = tmp_path / "cpp"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(folder)
    return folder


def build(target):
    """What the example's commands do; the name of the cubin."""
    types = "ArrayType(Particle, 1), float32"
    assert (
        command("build", "particles.py:advance", "--signature", types, "--target", target, "--output", "kernels") == 0
    )
    (cubin,) = pathlib.Path("kernels").glob(f"advance-*.{target}.cubin")
    return str(cubin)


def test_a_program_launches_the_kernel(program):
    cubin = build("sm_90")
    (program / "driver.cpp").write_text(DRIVER)
    compiled(program / "driver.cpp", program / "libcuda.so", "-shared", "-fPIC")
    compiled("main.cpp", "main", "-I.", f"-L{program}", "-lcuda", f"-Wl,--disable-new-dtags,-rpath,{program}")
    done = subprocess.run(["./main", cubin], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1000 particles moved; the last is at (999.5, 499.5)\n"), done.stderr
    done = subprocess.run(["./main", "main.cpp"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "main.cpp: no luck\n")


@pytest.mark.parametrize("where", ["gpu"])  # so that tests/gpu/evidence.py counts it
def test_a_gpu_runs_the_program(program, where):
    with a_gpu() as stream:
        target = target_of(stream)
    cubin = build(target)
    compiled("main.cpp", "main", "-I.", "-l:" + (ctypes.util.find_library("cuda") or "libcuda.so.1"))
    done = subprocess.run(["./main", cubin], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1000 particles moved; the last is at (999.5, 499.5)\n"), done.stderr


def test_the_header_refuses_another_layout(program):
    """A structure that was changed on one side does not compile."""
    build("sm_90")
    header = pathlib.Path("kernels/kernels.h")
    header.write_text(re.sub(r"float2 velocity;", "float2 velocity; int more;", header.read_text()))
    with pytest.raises(AssertionError, match="sizeof Particle"):
        compiled("main.cpp", "main.o", "-I.", "-c")
