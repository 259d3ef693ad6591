"""Drivers of CUDA 12 (535 to 575): what is assembled for them, by what, and what is bound instead of newer functions.

A stand-in plays the driver. The assemblers of CUDA 12 are real ones, if `CUDA_DEVICE_TEST_PTXAS` names them as PATH does.
"""

import ctypes
import functools
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import can_assemble, long
from fake_driver import CONTEXT, installed

import cuda_device as device
from cuda_device import compiler
from cuda_device.codegen.gpu import assemblers, cubin, libcuda, toolkit
from cuda_device.lazy_dataclasses import replace
from cuda_device.runtime.gpu import driver
from cuda_device.types.architectures import parse

ROOT = Path(__file__).parents[2]
VARIABLE = "CUDA_DEVICE_TEST_PTXAS"
RELEASES = {"12.2": (12, 2), "12.4": (12, 4), "12.8": (12, 8)}
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90")

needs_assembler = pytest.mark.skipif(not can_assemble(by="nvJitLink"), reason="no nvJitLink on this machine")


# Launches


@device.kernel
def orders(flag, x):
    x[0] = x[1] / x[2]  # whole programs are better assembled by ptxas, which is too new
    device.threadfence("release")
    device.atomic_ref(flag, 0).store(1, "relaxed")
    device.threadfence("acquire")


@device.kernel
def doubles(x):
    i = device.thread_idx.x
    x[i] *= 2


@pytest.fixture
def gpu():
    with installed(cuda=(12, 2)) as fake:
        fake.stack[-1] = CONTEXT
        yield fake


def stream():
    return device.GpuStream(0x77, 0, context=CONTEXT)


@needs_assembler
def test_the_driver_assembles_what_it_reads(gpu, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "0")
    flag, x = (device.zeros(4, type, stream=stream()) for type in (np.int32, np.float32))
    for _ in range(8):
        device.launch(orders, flag, x, grid=1, block=1, stream=stream())
    (text,) = gpu.assembled
    assert ".version 8.0\n" in text and set(re.findall(r"fence\.(\w+)", text)) == {"acq_rel"}
    assert gpu.names().count("cuLaunchKernel") == 8


@pytest.mark.needs("graphs")
@needs_assembler
def test_a_graph_and_its_time(gpu):
    from cuda_device.plugins import graphs

    x = device.zeros(4, np.float32, stream=stream())
    with device.graph(stream()) as graph:
        device.launch(doubles, x, grid=1, block=4, stream=graph.stream)
        newest = graphs.newest_node(graph.stream.handle)
    assert newest == next(iter(gpu.graphs.values()))[-1][0]
    graph.launch(stream())
    assert driver.seconds_between(driver.create_event(True), driver.create_event(True)) == 2.5e-3


def test_what_the_driver_does_not_read_is_said(gpu):
    """The instruction is of PTX 8.4, so the driver is too old, and the assemblers of CUDA 13 are too new for it."""
    text = ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"
    with pytest.raises(device.CompileError) as caught:
        cubin.assemble(text, parse("sm_90"))
    assert "driver cannot be used (fatal : Unsupported .version 8.4; current version is '8.2')" in caught.value.reason
    if can_assemble(by="nvJitLink"):
        assert "nvJitLink cannot be used (a driver of CUDA 12.2 does not load code from CUDA 13)" in caught.value.reason
    assert "pip install 'cuda-device[cu12]'" in caught.value.help


@needs_assembler
def test_a_linker_that_is_too_new_is_not_used(gpu):
    linked = assemblers.Input("other.ptx", b".version 8.0\n.target sm_90\n.address_size 64\n")
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"
    with pytest.raises(device.CompileError, match="no assembler that links.*nvJitLink cannot be used") as caught:
        cubin.assemble(text, parse("sm_90"), (linked,))
    assert "cuda-device[cu12]" in caught.value.help


def test_nvjitlink_of_cuda_12_makes_no_relocatable_cubins(monkeypatch):
    linked = assemblers.Input("other.ptx", b".version 8.0\n.target sm_90\n.address_size 64\n")
    monkeypatch.setattr(assemblers, "_nvjitlink", lambda: SimpleNamespace(version=lambda: (12, 9)))
    nvjitlink = assemblers.ASSEMBLERS[1]
    assert nvjitlink.can(assemblers.Request("", parse("sm_90"), (linked,)))
    with pytest.raises(device.CompileError, match="no assembler that links functions to a relocatable cubin") as caught:
        cubin.assemble(".version 8.0\n", parse("sm_90"), (linked,), relocatable=True)
    assert "link the code to the kernel" in caught.value.help


def test_an_assembler_of_the_same_release_is_used(gpu, monkeypatch):
    """A cubin of CUDA 12.9 loads on all drivers of CUDA 12."""
    release = [12]  # an assembler's
    row = assemblers.Assembler(
        "a", lambda _: True, lambda _: b"\x7fELF", lambda: "a", str, lambda: True, release=lambda: release[0]
    )
    monkeypatch.setattr(cubin, "ASSEMBLERS", (row,))
    monkeypatch.setattr(cubin, "_run", lambda assembler, request: b"code")
    assert cubin.assemble(".version 8.0", parse("sm_90")).code == b"code" and cubin.identity(parse("sm_90")) == "a"
    release[0] = 13
    for use in (lambda: cubin.assemble(".version 8.0", parse("sm_90")), lambda: cubin.identity(parse("sm_90"))):
        with pytest.raises(device.CompileError, match="a driver of CUDA 12.2 does not load"):
            use()


# Functions that old drivers do not have


@pytest.mark.parametrize("name", [symbol.partition("_v")[0] for symbol in libcuda.OLDER])
@pytest.mark.parametrize("is_new", [True, False])
def test_the_older_function_is_called_where_the_newer_is_missing(monkeypatch, name, is_new):
    ((symbol, (older, parameters)),) = ((new, old) for new, old in libcuda.OLDER.items() if new.startswith(name))

    class Library:
        def __getitem__(self, wanted):
            return wanted

    library = Library()
    if is_new:
        setattr(library, symbol, None)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    monkeypatch.setattr(ctypes, "PyDLL", lambda _: library)
    monkeypatch.setattr(libcuda, "_function", lambda *given: given)
    bound = getattr(libcuda.DriverLibrary("libcuda.so.1"), name)
    assert bound == ((symbol, libcuda.FUNCTIONS[symbol].split(), name) if is_new else (older, parameters.split(), name))


# Files


@pytest.mark.parametrize("name", toolkit._PATHS)
def test_files_of_both_releases_are_found(monkeypatch, tmp_path, name):
    packages, home = tmp_path / "site-packages", tmp_path / "toolkit"
    newer, older, of_toolkit = (
        folder / path.replace("*", "")
        for folder, path in zip((packages, packages, home), toolkit._PATHS[name], strict=True)
    )
    for file in (newer, older, of_toolkit):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(packages)])
    monkeypatch.setenv("CUDA_HOME", str(home))
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setenv(libcuda.VARIABLE, "13.0")
    assert toolkit.find(name) == str(newer)
    monkeypatch.setenv(libcuda.VARIABLE, "12.4")
    assert toolkit.find(name) == str(older)
    older.unlink()
    assert toolkit.find(name) == str(newer)
    newer.unlink()
    assert toolkit.find(name) == str(of_toolkit)
    of_toolkit.unlink()
    assert toolkit.find(name) is None


def test_commands_install_what_fits_the_driver(monkeypatch):
    for version, extra, package in (("", "cu13", "x"), ("13.0", "cu13", "x"), ("12.8", "cu12", "x-cu12")):
        monkeypatch.setenv(libcuda.VARIABLE, version)
        assert toolkit.pip_install() == f"pip install 'cuda-device[{extra}]'"
        assert toolkit.pip_install("x") == f"pip install {package}"


# The assemblers of CUDA 12, and all kernels of the benchmarks and the examples


@functools.cache
def old_assembler(release):
    """The path of ptxas of a release of CUDA."""
    for path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
        if f"release {release}," in said:
            return path
    return None


@functools.cache
def suite():
    sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "examples")]
    try:
        return importlib.import_module("suite"), importlib.import_module("programs")
    finally:
        del sys.path[:2]


@functools.cache
def of_benchmarks():
    rows, _ = suite()
    return [(row.kernel, row.problem(0).ours) for row in (*rows.SUITE, *rows.NATURAL)]


@functools.cache
def of_examples():
    """The jobs of all kernels of the examples, which run on the CPU for that."""
    _, programs = suite()
    jobs = []
    for name in programs.NAMES:
        program = programs.load(name)
        program.run(device.cpu_stream(), *next(iter(program.cases(np.random.default_rng(1)))))
        kernels = {id(each): each for each in vars(program).values() if isinstance(each, device.Kernel)}
        found = [variant.work.job for kernel in kernels.values() for variant in kernel.variants.values()]
        jobs += [(name, job) for job in found]
    return jobs


def refusal(text, release, architecture, folder):
    """What ptxas of a release says to a program; empty if it assembles it."""
    source = folder / "kernel.ptx"
    source.write_text(text)
    command = [old_assembler(release), f"-arch={architecture}", str(source), "-o", str(folder / "kernel.cubin")]
    return subprocess.run(command, capture_output=True, text=True).stderr


SINCE = {
    "cluster_histogram": 90,
    "gemm_warps": 80,
    "attention": 90,
    "implicit_gemm": 90,
    "persistent": 90,
    "multicast": 1000,
}
"""The first architectures of programs. Assemblers advise to assemble copies to several blocks for sm_90a, which is not tested."""
PAIRS = [
    pytest.param(release, architecture, marks=long(n + m, len(ARCHITECTURES)))
    for n, release in enumerate(RELEASES)
    for m, architecture in enumerate(ARCHITECTURES)
]


@pytest.mark.parametrize("release, architecture", PAIRS)
def test_assemblers_of_cuda_12_take_all_kernels(monkeypatch, tmp_path, release, architecture):
    if old_assembler(release) is None:
        pytest.skip(f"no ptxas of CUDA {release}: install nvidia-cuda-nvcc-cu12=={release}.* and name it in {VARIABLE}")
    monkeypatch.setenv(libcuda.VARIABLE, release)
    monkeypatch.setenv("CUDA_DEVICE_CHECKED", "0")
    texts = {
        kernel.underlying.__name__: device.compile(kernel, *types, target=architecture, output="ptx").code
        for kernel, types in of_benchmarks()
    }
    for name, job in of_examples():
        if parse(architecture).number >= SINCE.get(name, 0):
            target = compiler.Target(parse(architecture))
            texts[f"{name}.{job.name}"] = compiler.run(replace(job, target=target), "ptx")["ptx"]
    said = {name: refusal(text, release, architecture, tmp_path) for name, text in texts.items()}
    assert {name: words for name, words in said.items() if words} == {}
    assert len(texts) > 60
