"""`python -m cuda_device build`: the files that it writes, and that they are loaded and launched without a compiler."""

import json
import re
import shutil
import subprocess
import sys

import cuda_cpp
import numpy as np
import pytest
from conftest import command
from fake_driver import CONTEXT, installed

import cuda_device as device
from cuda_device.runtime.gpu import driver

KERNELS = """
import cuda_device as device
from cuda_device import ArrayType, float32, int8

@device.struct
class Point:
    x: device.float32x2
    y: int8

@device.struct
class Node:
    points: device.pointer(Point)

@device.kernel
def saxpy(a, x, y):
    i = device.tid(1)
    if i < len(y):
        y[i] = a * x[i] + y[i]

@device.kernel
def hinted(x: ArrayType(float32, 1)):
    x[0] = 1

@device.kernel(interop=True)
def shift(points: ArrayType(Point, 1), by: int8):
    i = device.tid(1)
    if i < len(points):
        points[i].y += by

@device.kernel(interop=True)
def reset(node: Node):
    node.points[0].y = 0

@device.kernel(interop=True)
def copied(node: Node, other: Node):
    node.points[0] = other.points[0]

@device.func(interop=True)
def twice(x):
    return x + x

@device.extern
def outside(x: float32) -> float32: ...

@device.kernel(link=device.cuda_source('extern "C" __device__ float outside(float x) { return -x; }'))
def linked(x: ArrayType(float32, 1)):
    x[0] = outside(x[0])
"""
FLOATS = "float32, ArrayType(float32, 1), ArrayType(float32, 1)"
DOUBLES = "float64, ArrayType(float64, 1), ArrayType(float64, 1)"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with `kernels.py`, which is the current one."""
    (tmp_path / "kernels.py").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def built(*words):
    """Runs a command that writes to the folder `out`."""
    assert command("build", *words, "--output", "out") == 0


def entries(folder):
    found = json.loads((folder / "out" / "index.json").read_text())["kernels"]
    for entry in found:
        assert (folder / "out" / entry["file"]).stat().st_size > 100
    return [(entry["symbol"], entry["target"], entry["output"]) for entry in found]


def test_a_cubin_for_each_target_and_ptx(folder, capsys):
    built("kernels.py:saxpy", "--signature", FLOATS, "--target", "sm_90,sm_100")
    assert entries(folder) == [("saxpy", "sm_90", "cubin"), ("saxpy", "sm_100", "cubin"), ("saxpy", "sm_100", "ptx")]
    files = capsys.readouterr().out.split()
    assert sorted(files) == sorted(str(path.relative_to(folder)) for path in (folder / "out").iterdir())
    first = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
    built("kernels.py:saxpy", "--signature", FLOATS, "--target", "sm_90, sm_100")
    assert first == {path.name: path.read_bytes() for path in (folder / "out").iterdir()}


def test_each_target_once_and_ptx_for_the_highest(folder):
    built("kernels.py:saxpy", "--signature", FLOATS, "--target", "sm_100,sm_90,sm_100a,sm_90")
    cubins = [("saxpy", target, "cubin") for target in ("sm_100", "sm_90", "sm_100a")]
    assert entries(folder) == [*cubins, ("saxpy", "sm_100", "ptx")]


def test_signatures_hints_and_modules(folder):
    built("kernels.py:saxpy", "--signature", FLOATS, "--signature", DOUBLES)
    assert [entry[2] for entry in entries(folder)] == ["cubin", "ptx"] * 2
    built("kernels.py:hinted", "kernels.py:shift")
    assert [entry[0] for entry in entries(folder)] == ["hinted", "hinted", "shift", "shift"]
    built("kernels.py:hinted", "kernels.py:twice", "--signature", "", "--signature", "float32", "--ltoir")
    outputs = ["cubin", "ptx", "ltoir"]
    assert [entry[2] for entry in entries(folder)] == outputs * 2
    assert set(device.load("out")) == {"hinted"}, "a function is for C++"


def test_what_is_linked_has_no_ptx(folder):
    built("kernels.py:linked")
    assert entries(folder) == [("linked", "sm_90", "cubin")]


LOADS = """
import sys, numpy as np
before = {*sys.modules}
from fake_driver import CONTEXT, installed
import cuda_device as device
with installed() as gpu:
    gpu.stack[-1] = CONTEXT
    stream = device.GpuStream(7, 0, context=CONTEXT)
    x, y = (device.array(np.arange(8, dtype=np.float32), stream=stream) for _ in range(2))
    kernels = device.load("out")
    kernels["saxpy"].launch(2.0, x, y, grid=1, block=8, stream=stream)
    print(*kernels, gpu.names().count("cuLaunchKernel"))
print(*sorted({*sys.modules} - before))
"""

# What a program that loads a kernel has imported after its first launch. Each module takes 0.1 ms and more.
LOADED = {
    "": "errors extend hooks jobs lazy_dataclasses logs outputs",
    "cache": "",
    "codegen": "",
    "codegen.gpu": "elf libcuda",
    "device": "hints options parameters",
    "instrument": "outline",
    "plugins": "",
    "plugins.saved": "files loaded_kernel",
    "runtime": "",
    "runtime.arrays": "array_interface array_view buffers device_array",
    "runtime.gpu": "driver grid launch_log streams",
    "runtime.launch": "arguments compiled compiled_parameters launcher signatures",
    "types": "abi architectures argument_packing exchange_formats host known layout model type_text",
}
OF_PYTHON = {*"__future__ atexit gc json json.decoder json.encoder json.scanner _json _sha2 _sha256".split()}


def test_a_folder_is_loaded_with_few_modules(folder):
    built("kernels.py:saxpy", "--signature", FLOATS, "--signature", DOUBLES)
    (folder / "kernels.py").unlink()
    environment = {"PYTHONPATH": ":".join(sys.path), "CUDA_DEVICE_CACHE": "0"}
    done = subprocess.run([sys.executable, "-c", LOADS], capture_output=True, text=True, env=environment)
    said, modules = done.stdout.splitlines() or (done.stderr, "")
    assert said == "saxpy 1"
    rows = [(folder, name) for folder in LOADED for name in ["", *LOADED[folder].split()]]
    expected = {".".join(filter(None, ("cuda_device", *row))) for row in rows}
    assert {*modules.split()} - OF_PYTHON == expected | {"fake_driver"}


def test_the_variant_for_the_arguments_and_the_gpu(folder):
    built("kernels.py:saxpy", "--signature", FLOATS, "--signature", DOUBLES, "--target", "sm_80,sm_90")
    saxpy = device.load(folder / "out")["saxpy"]
    sizes = {each.target + each.parameters[0].type: len(each.code) for each in saxpy.variants if each.output == "cubin"}
    with installed() as gpu:
        gpu.stack[-1] = CONTEXT
        stream = device.GpuStream(7, 0, context=CONTEXT)
        for dtype in (np.float32, np.float64):
            x, y = (device.array(np.arange(8, dtype=dtype), stream=stream) for _ in range(2))
            saxpy.launch(2, x, y, threads=8, stream=stream)
            (loaded,) = [entry[1] for entry in gpu.log if entry[0] == "cuLibraryLoadData"]
            assert loaded == sizes[f"sm_90{np.dtype(dtype)}"]
            gpu.log.clear()
        mixed = device.array(np.arange(8, dtype=np.float32), stream=stream)
        with pytest.raises(
            TypeError, match="no variant of saxpy takes these arguments: .*'y'.*float64.*; .*'x'"
        ) as caught:
            saxpy.launch(2.0, mixed, y, grid=1, block=8, stream=stream)
        assert caught.value.help == "build the kernel for these types as well"

        gpu.attributes["COMPUTE_CAPABILITY_MAJOR"] = 7
        driver.properties.cache_clear()
        with pytest.raises(device.LaunchError, match="but this GPU is sm_70"):
            saxpy.launch(2.0, mixed, mixed, grid=1, block=8, stream=stream)
        gpu.attributes["COMPUTE_CAPABILITY_MAJOR"] = 13  # later than any that the compiler knows
        driver.properties.cache_clear()
        saxpy.launch(2.0, mixed, mixed, grid=1, block=8, stream=stream)
        assert gpu.names().count("cuLaunchKernel") == 1


# C++

PROGRAM = """
#include "out/kernels.h"
CUresult start(CUkernel kernel, Point* points, CUstream stream) {
  return launch_shift(kernel, dim3(4), 256, 0, stream, cuda::std::mdspan<Point, cuda::std::dextents<int, 1>>(points, 1000), 3);
}
"""


def test_the_header_has_launchers(folder):
    built("kernels.py:shift", "kernels.py:twice", "--signature", "", "--signature", "float32")
    header = (folder / "out" / "kernels.h").read_text()
    assert 'extern "C" __device__ float twice(float x);' in header and "launch_twice" not in header
    user = header.replace("#pragma once", "") + "\n__global__ void user(float* x) { *x = twice(*x); }\n"
    assert "user" in cuda_cpp.compile_cpp(user).decode()
    if shutil.which("nvcc"):
        (folder / "program.cpp").write_text(PROGRAM)
        subprocess.run(
            ["nvcc", "-std=c++17", f"-I{device.get_include()}", "-c", "program.cpp", "-o", "program.o"], check=True
        )


def test_kernels_of_a_file_share_its_structs(folder):
    built("kernels.py:reset", "kernels.py:copied")
    assert (folder / "out" / "kernels.h").read_text().count("struct Node {") == 1


def test_kernels_that_are_not_interoperable_have_no_header(folder):
    built("kernels.py:hinted")
    assert not (folder / "out" / "kernels.h").exists()


# What is wrong


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["kernels.py:saxpy"], "saxpy has no type hint for a, x, y"),
        (["kernels.py:nothing"], "kernels.py has no 'nothing'"),
        (["kernels.py:hinted", "kernels.py:shift", "--signature", "float32"], "2 kernels have 1 signatures"),
        (["kernels.py:hinted", "./kernels.py:hinted"], "two functions have the same name"),
        (["kernels.py:hinted", "--target", "sm_91"], "no architecture 'sm_91'"),
        (["kernels.py:shift", "--signature", "ArrayType(float32, 1), int8", "--signature", ""], "has no member|y"),
    ],
)
def test_mistakes_are_said_and_nothing_is_written(folder, capsys, words, message):
    assert command("build", *words, "--output", "out") == 1
    assert re.search(message, capsys.readouterr().err)
    assert not (folder / "out").exists()


def test_a_fatbin_for_all_targets(folder):
    pytest.importorskip("cuda.bindings.nvfatbin")
    if command("build", "kernels.py:hinted", "--target", "sm_90,sm_100", "--fatbin", "--output", "out") == 1:
        pytest.skip("no nvFatbin")
    assert entries(folder) == [("hinted", "sm_90, sm_100", "fatbin")]
    built("kernels.py:hinted", "kernels.py:twice", "--signature", "", "--signature", "float32", "--fatbin")
    assert [entry[2] for entry in entries(folder)] == ["fatbin", "cubin", "ptx"], "a function is for a linker"


def test_build_takes_objects_of_the_program(tmp_path):
    kernel = device.kernel(lambda x: None)
    files = device.build([(kernel, [[device.ArrayType(device.float32, 1)]])], ["sm_90"], str(tmp_path / "out"))
    assert [name.rpartition(".")[2] for name in files] == ["cubin", "ptx", "json"]
