"""Kernels without source: typed into an interactive Python, made by exec, lambdas."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import poison

import cuda_device as device

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.needs("cpu")

SESSION = """\
import cuda_device as device, numpy as np
scale = 3
def helper(x):
    return x * scale

@device.kernel
def kernel(x, out):
    i = device.tid(1)
    if i < len(x):
        out[i] = helper(x[i]) + 1

x, out = np.arange(4, dtype=np.int32), np.full(4, -1, np.int32)
device.launch(kernel, x, out, grid=1, block=8, stream=device.cpu_stream())
print("first", out.tolist())
scale = 5
device.launch(kernel, x, out, grid=1, block=8, stream=device.cpu_stream())
print("second", out.tolist())
@device.kernel
def kernel(x, out):
    out[0] = 77

device.launch(kernel, x, out, grid=1, block=1, stream=device.cpu_stream())
print("third", out.tolist())
print("ptx", ".entry kernel" in str(device.compile(kernel, x, out, output="ptx")))
@device.kernel
def broken(x, out):
    y = 1
    out[0] = x.flags

try:
    device.launch(broken, x, out, grid=1, block=1, stream=device.cpu_stream())
except device.CompileError as error:
    print("error", "flags" in error.reason, "broken" in str(error), error.location.line)

double = device.func(lambda x: x + x)
device.launch(device.kernel(lambda x: store(x)), x, grid=1, block=1, stream=device.cpu_stream())
def store(x):
    x[0] = double(21)

device.launch(device.kernel(lambda x: store(x)), x, grid=1, block=1, stream=device.cpu_stream())
print("last", x.tolist())
"""


def run(arguments, text):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHON_BASIC_REPL": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], input=text, capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("arguments", [["-i", "-q"], ["-i", "-q", "-X", "utf8"], ["-i", "-q", "-O"]])
def test_an_interactive_session(arguments):
    done = run(arguments, SESSION)
    lines = [line.removeprefix(">>> ").strip() for line in done.stdout.splitlines()]
    assert "first [1, 4, 7, 10]" in lines
    assert "second [1, 6, 11, 16]" in lines
    assert "third [77, 6, 11, 16]" in lines
    assert "ptx True" in lines
    assert any(line.startswith("error True True") for line in lines)
    assert "last [42, 1, 2, 3]" in lines
    # `store` was not there at first: an error of ours on the way, and no other.
    errors = [line for line in done.stderr.splitlines() if "Error" in line]
    assert len(errors) == 1 and "CompileError" in errors[0] and "'store'" in errors[0], done.stderr


def test_a_program_from_standard_input():
    program = SESSION[: SESSION.index("@device.kernel\ndef kernel(x, out):\n    out[0] = 77")]
    done = run(["-"], program)
    assert done.stdout.splitlines() == ["first [1, 4, 7, 10]", "second [1, 6, 11, 16]"] and done.stderr == ""


BROKEN = """\
import cuda_device as device, numpy as np
@device.kernel
def k(x):
    x[0] = weight

device.launch(k, np.zeros(1), grid=1, block=1, stream=device.cpu_stream())
"""


def test_an_error_in_a_program_without_a_file_has_its_place(tmp_path):
    ours = [line for line in (f">>> {BROKEN}").splitlines() if line]
    session = "\n".join([ours[0], ">>> " + ours[1], *(f"... {line}" for line in ours[2:4]), f">>> {ours[4]}"])
    (tmp_path / "session.txt").write_text(f"{session}\n")
    for arguments, place in (
        (["-c", BROKEN], "<string>:4:12"),
        (["-m", "doctest", str(tmp_path / "session.txt")], "<doctest session.txt[1]>:3:12"),
    ):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False
        )
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        first = next(
            i for i, line in enumerate(lines) if line.endswith("CompileError: the name 'weight' is not defined")
        )
        assert done.returncode == 1 and lines[first + 1] == f"at {place}, in k"
        assert sum("launcher.py" in line for line in lines) == 1


def test_kernels_made_by_exec(stream):
    namespace = {"device": device}
    exec(
        "def helper(x):\n    return x * 2\n\n"
        "@device.kernel\ndef kernel(x, out):\n    i = device.tid(1)\n    if i < len(x):\n        out[i] = helper(x[i])\n",
        namespace,
    )
    x, out = np.arange(5, dtype=np.float32), stream.empty(5)
    stream.launch(namespace["kernel"], stream.array(x), out, grid=1, block=8)
    assert stream.numpy(out).tolist() == (x * 2).tolist()


def test_a_kernel_whose_code_has_no_lines(stream):
    def plain(x):
        x[0] = device.tid(1) + 5

    bare = type(plain)(plain.__code__.replace(co_linetable=b""), plain.__globals__, "plain")
    x = stream.empty(1, np.int32)
    stream.launch(device.kernel(bare), x, grid=1, block=1)
    assert stream.numpy(x).tolist() == [5]


def test_an_error_without_source_names_the_function_and_the_position():
    namespace = {"device": device}
    exec(compile("def function(x):\n    y = 1\n    return x.nothing\n", "<typed>", "exec"), namespace)
    with pytest.raises(device.CompileError) as caught:
        device.compile(device.func(namespace["function"]), device.int32, output="ir")
    text = str(caught.value)
    assert "nothing" in text and "<typed>:3" in text and "function" in text and "|" not in text

    code = namespace["function"].__code__.replace(co_linetable=b"")
    bare = type(namespace["function"])(code, namespace)
    with pytest.raises(device.CompileError) as caught:
        device.compile(device.func(bare), device.int32, output="ir")
    assert "nothing" in str(caught.value) and "function" in str(caught.value)


def test_lambdas(stream):
    double = device.func(lambda x: x * 2)
    functions = (lambda x: x + 1, lambda x, y=3: x * y, double)

    @device.kernel
    def kernel(x, out):
        k = 0
        for function in functions:
            out[k] = function(x[0])
            k += 1

    out = stream.empty(3, np.int32)
    stream.launch(kernel, stream.array(np.array([5], np.int32)), out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [6, 15, 10]
    assert double(4) == 8

    def write(x):
        x[device.tid(1)] = 9

    x = stream.empty(2, np.int32)
    stream.launch(device.kernel(lambda x: write(x)), x, grid=1, block=2)
    assert stream.numpy(x).tolist() == [9, 9]


def test_source_that_changed_on_disk(stream, tmp_path):
    """What is compiled is the function in memory, not the file."""
    path = tmp_path / "moving.py"
    path.write_text("def kernel(x):\n    x[0] = 1\n")
    namespace = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    path.write_text("nonsense ( \n")
    assert stream.run(device.kernel(namespace["kernel"]), poison(1, np.int32)).tolist() == [1]
