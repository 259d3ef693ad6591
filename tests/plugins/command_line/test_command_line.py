"""`python -m cuda_device`: what it prints, and how it refuses."""

import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from conftest import command
from processes import python

import cuda_device as device
from cuda_device.codegen.gpu import assemblers, libcuda, toolkit

PROGRAM = """
import cuda_device as device
from cuda_device import ArrayType, float32

@device.kernel
def double(x: ArrayType(float32, 1)):
    i = device.tid(1)
    if i < len(x):
        x[i] = x[i] * 2

@device.kernel
def wrong(x):
    x[0] = nothing
"""


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return file


def test_info_has_what_a_bug_report_needs(capsys, monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("CUDA_DEVICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CUDA_DEVICE_CACHE", str(tmp_path))
    assert command("info") == 0
    text = capsys.readouterr().out
    for name in (
        "cuda_device",
        "Python",
        "llvmlite",
        "cuda-pathfinder",
        "nvidia-cuda-nvrtc",
        "nvidia-nvfatbin",
        "nvtx",
        "jax",
        "total",
        "driver",
        "GPU",
        "assembler nvJitLink",
        "assembler ptxas",
        "libdevice",
        "cache",
        "CUDA_DEVICE_CACHE",
    ):
        assert re.search(rf"^{name}\b.* \S", text, re.M), name
    assert re.search(rf"^cuda_device +{device.__version__}, [1-9]\d* MiB, ", text, re.M)
    assert f"{tmp_path}, 0 entries" in text
    width = len("assembler nvJitLink ")
    assert all(re.fullmatch(r"\S.* \S", line[: width + 1]) for line in text.splitlines()), text


def test_info_has_versions_of_what_is_there(capsys, monkeypatch, tmp_path):
    ptxas = tmp_path / "ptxas"
    ptxas.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n")
    ptxas.chmod(0o755)
    monkeypatch.setattr(assemblers, "_ptxas", lambda: str(ptxas))
    monkeypatch.setattr(assemblers, "_nvjitlink", lambda: SimpleNamespace(version=lambda: (13, 5)))
    monkeypatch.setattr(libcuda, "driver_version", lambda: 13010)
    monkeypatch.setattr(
        assemblers, "_kernel_module", lambda: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05"
    )
    assert command("info") == 0
    text = capsys.readouterr().out
    assert re.search(r"^driver +CUDA 13\.1, 580\.95\.05, reads PTX up to 9\.0$", text, re.M)
    assert re.search(r"^assembler nvJitLink +13\.5$", text, re.M)
    assert re.search(rf"^assembler ptxas +13\.0\.88, {ptxas}$", text, re.M)


def test_info_says_what_does_not_fit_the_driver(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(assemblers, "_nvjitlink", lambda: SimpleNamespace(version=lambda: (13, 5)))
    ptxas = tmp_path / "ptxas"
    ptxas.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.9, V12.9.86'\n")
    ptxas.chmod(0o755)
    monkeypatch.setattr(assemblers, "_ptxas", lambda: str(ptxas))
    monkeypatch.setattr(libcuda, "driver_version", lambda: 12020)
    monkeypatch.setattr(assemblers, "_kernel_module", lambda: "NVRM version: Kernel Module  535.104.05")
    assert command("info") == 0
    text = capsys.readouterr().out
    assert re.search(r"^driver +CUDA 12\.2, 535\.104\.05, reads PTX up to 8\.2$", text, re.M)
    unused = r"13\.5; not used, the driver assembles: a driver of CUDA 12\.2 does not load code from CUDA 13"
    assert re.search(rf"^assembler nvJitLink +{unused} \(pip install 'cuda-device\[cu12\]'\)$", text, re.M)
    assert re.search(rf"^assembler ptxas +12\.9\.86, {ptxas}$", text, re.M)


def test_info_says_how_to_get_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(toolkit, "find", lambda _: None)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    for name in ("_ptxas", "_nvjitlink"):
        monkeypatch.setattr(assemblers, name, lambda: None)
    monkeypatch.setattr(libcuda, "driver_version", lambda: 0)
    assert command("info") == 0
    text = capsys.readouterr().out
    assert re.search(r"^driver +not found$", text, re.M)
    assert re.search(r"^assembler nvJitLink +not found \(pip install ", text, re.M)
    assert re.search(r"^libdevice +not found \(pip install ", text, re.M)


def test_dump_prints_each_stage(capsys, program):
    assert command("dump", f"{program}:double", "--target", "sm_80") == 0
    text = capsys.readouterr().out
    assert re.findall(r"^==== (\w+)$", text, re.M) == ["ir", "llvm", "ptx"]
    assert ".target sm_80" in text and "define" in text
    for line in ("program.py:8   if i < len(x):", "program.py:9   x[i] = x[i] * 2"):
        assert re.findall(rf"^  (//|;) {re.escape(line)}$", text, re.M) == ["//", ";", "//"]
    assert not re.search(r"!dbg|!DI|\.loc\b|\.file\b", text)
    assert command("dump", f"{program}:double", "--signature", "ArrayType(float64, 2)", "--stage", "ir") == 1
    assert "CallError: the argument 'x'" in capsys.readouterr().err


def test_dump_of_one_stage_for_another_signature(capsys, program):
    program.write_text(PROGRAM.replace("x: ArrayType(float32, 1)", "x"))
    assert command("dump", f"{program}:double", "--signature", "ArrayType(device.float64, 1)", "--stage", "ptx") == 0
    text = capsys.readouterr().out
    assert "====" not in text and "ld.global.b64" in text


def test_a_signature_does_not_need_all_plugins(capsys, program, monkeypatch):
    monkeypatch.delitem(vars(device), "graph", raising=False)
    monkeypatch.setitem(device._HOMES, "graph", ("plugins.missing", "graph"))
    assert command("dump", f"{program}:double", *ASKED, "--stage", "ptx") == 0


def test_dump_of_stages_side_by_side(capsys, program):
    assert command("dump", f"{program}:double", "--stage", "ir,ptx") == 0
    text = capsys.readouterr().out
    below = text.partition("// program.py:9   x[i] = x[i] * 2\n")[2]
    left, right = zip(*(line.partition("|")[::2] for line in below.splitlines()), strict=True)
    assert any("py.getitem" in line for line in left) and any("ld.global" in line for line in right)
    assert text.count("// program.py:9 ") == 1 and "py.getitem" not in "".join(right)


ASKED = "--signature", "ArrayType(float32, 1)"


@pytest.mark.parametrize("subcommand", [["dump"], ["build", "--output", "out"]])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{}:wrong", "--signature", "float33"], "'float33' is not defined.*\n  help: separate types by commas"),
        (
            ["{}:wrong", "--signature", "float32, ("],
            "'float32, \\(' cannot be read.*\n  help: separate types by commas",
        ),
        (
            ["{}:wrong", "--signature", "{}:Body"],
            "cannot be read: .*\n  help: .* names are those of .* the kernel's file",
        ),
        (["{}:wrong"], "wrong has no type hint for x\n  help: pass --signature; "),
        (["{}:double.missing", *ASKED], "program.py has no 'double.missing'"),
        (["{}:float32", *ASKED], "program.py:float32 is a type\n  help: name a function with @kernel or @func"),
    ],
)
def test_kernels_and_signatures_that_are_wrong(capsys, program, subcommand, words, message):
    assert command(*subcommand, *(word.format(program) for word in words)) == 1
    assert re.search(message, capsys.readouterr().err)


def test_a_stage_that_there_is_not(capsys):
    assert command("dump", "program.py:double", "--stage", "ir,cubin") == 2
    assert "there is no stage 'cubin': choose from ir, llvm, ptx" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dump", "{}:wrong", "--signature", "ArrayType(float32, 1)"], "CompileError: .*nothing"),
        (["dump", "{}:missing"], "program.py has no 'missing'"),
        (["dump", "double"], "write file.py:name or package.module:name"),
        (["dump", "no.such.module:double"], "No module named 'no'\n$"),
        (["dump", "{}:double", "--target", "sm_1"], "sm_1"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(capsys, program, words, message):
    assert command(*(word.format(program) for word in words)) == 1
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize("line", ["import no_such_module", "@device.kernel\ndef k(*x): ..."])
def test_an_error_of_the_file_has_its_line(capsys, tmp_path, line):
    (tmp_path / "other.py").write_text(f"import cuda_device as device\n\n{line}\n")
    assert command("dump", f"{tmp_path}/other.py:k") == 1
    assert capsys.readouterr().err.endswith(f"  at {tmp_path}/other.py:3\n")


def test_a_files_own_prints_are_kept_apart(capsys, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM + "print('mine')\n")
    assert command("dump", f"{file}:double", "--stage", "ptx") == 0
    printed = capsys.readouterr()
    assert printed.err == "mine\n"
    assert "mine" not in printed.out and ".entry double" in printed.out


@pytest.mark.parametrize("words", [["info"], ["dump", "program.py:double"]])
def test_a_reader_may_close_the_pipe(program, words):
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "cuda_device", *words],
            cwd=program.parent,
            env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(device.__file__))},
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.stderr == b"" and done.returncode == 128 + signal.SIGPIPE


def test_the_cache_is_shown_and_cleared(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_DEVICE_CACHE", str(tmp_path / "cache"))

    @device.kernel
    def fill(x):
        x[device.tid(1)] = 5

    device.launch(fill, device.zeros(32, stream=device.cpu_stream()), grid=1, block=32, stream=device.cpu_stream())
    count = device.cache_info().entries
    assert count > 0 and command("cache") == 0 and f"{count} entries" in capsys.readouterr().out
    device.compile(fill, device.ArrayType(device.float32, 1), target="sm_80")
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / "cache").iterdir()}
    assert command("cache", "list") == 0
    listed = capsys.readouterr().out
    assert sorted(re.findall(r"^fill +(\w+) +\d+\.\d  \d{4}-\d\d-\d\d \d\d:\d\d$", listed, re.M)) == ["cpu", "sm_80"]
    assert files == {file: file.stat().st_mtime_ns for file in files}  # to list them is no use of them
    count = len(files)
    assert command("cache", "clear") == 0 and f"removed {count} entries" in capsys.readouterr().out
    assert device.cache_info().entries == 0
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "0")
    assert command("cache", "list") == 0 and capsys.readouterr().out == "off\n"
    assert command("cache", "clear") == 0 and "off" in capsys.readouterr().out


def test_it_is_a_program():
    assert "usage: python -m cuda_device" in python("-m", "cuda_device", status=2).stderr
