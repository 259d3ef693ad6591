"""`PrecisionWarning`: where the rules of promotion lose digits that few programs mean to lose, once, located, with a remedy."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from dataclasses import dataclass
from types import FunctionType
from typing import NamedTuple

import numpy as np
import pytest
from ir_helpers import define

import cuda_device as device
from cuda_device import ArrayType, float32, float64, int8, int16, int32, uint8

CPU = device.cpu_stream()
ROWS = {
    "u": np.arange(8, dtype=np.uint8),
    "s": np.arange(8, dtype=np.int16),
    "w": np.arange(8, dtype=np.int32),
    "f": np.arange(8, dtype=np.float32),
    "d": np.arange(8, dtype=np.float64),
    "z": np.arange(8, dtype=np.complex128),
    "p": np.zeros(1, [("a", np.uint8)]),
    "e": np.arange(8, dtype=np.float16),
}


class Pair(NamedTuple):
    """Two numbers."""

    a: float
    b: int


NAMES = {
    "np": np,
    "Pair": Pair,
    **{t.__name__: t for t in (int8, int16, int32, uint8, float32, float64)},
}


def told(body: str, n: object = 3, x: object = 0.1) -> list[warnings.WarningMessage]:
    """The warnings of a kernel with these statements; `n` and `x` are arguments, the other names arrays."""
    text = "def k(u, s, w, f, d, z, p, e, n, x):\n    i = device.tid(1)\n" + "".join(
        f"    {line}\n" for line in body.split("\n")
    )
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        kernel = device.kernel(define(text, "k", **NAMES))
        device.launch(kernel, *(row.copy() for row in ROWS.values()), n, x, grid=1, block=1, stream=CPU)
    return found


@pytest.mark.parametrize(
    ("statement", "type"),
    [
        ("w[i] = u[i] * n", "uint8"),
        ("w[i] = n + u[i]", "uint8"),
        ("w[i] = s[i] - n", "int16"),
        ("w[i] = s[i] | n", "int16"),
        ("w[i] = s[i] * (n * 2)", "int16"),
        ("w[i] = max(u[i], n)", "uint8"),
        ("v = n\nif n > 2:\n    v = u[0]\nw[i] = v", "uint8"),
        ("acc = 0\nfor j in range(n):\n    acc += u[j]\nw[i] = acc", "uint8"),
        ("acc = 1\nfor j in range(n):\n    acc = u[j] * acc\nw[i] = acc", "uint8"),
        ("acc, j = 0, 0\nwhile j < n:\n    acc = (acc << 1) + s[j]\n    j += 1\nw[i] = acc", "int16"),
        ("acc = 0\nfor j in range(n):\n    if j > 1:\n        acc += u[j]\nw[i] = acc", "uint8"),
        ("acc = 0\nfor j in range(n):\n    if u[j] > 7:\n        acc = 0\n    acc += u[j]\nw[i] = acc", "uint8"),
        ("for j in range(n):\n    w[j] = u[j] * j", "uint8"),
        ("w[i] = sum(u)", "uint8"),
        ("w[i] = sum(s[j] for j in range(n))", "int16"),
        ("w[i] = math.prod(u)", "uint8"),
        ("w[i] = math.gcd(u[i], n)", "uint8"),
        ("w[i] = np.where(n > 2, u[i], n)", "uint8"),
        ("w[i] = sum([u[0], u[1]])", "uint8"),
        ("w[i] = math.prod((u[0], u[1], u[2]))", "uint8"),
        ("acc = 0\nfor v in (u[0], u[1]):\n    acc += v\nw[i] = acc", "uint8"),
    ],
)
def test_an_int_of_python_takes_a_narrow_type(statement, type):
    (found,) = told(statement)
    assert issubclass(found.category, device.PrecisionWarning)
    text = str(found.message)
    assert f"type {type}" in text and "Python int" in text and "help: " in text
    line = int(re.search(r":(\d+):\d+, in k", text)[1])
    assert line == found.lineno and statement.split("\n")[line - 3].strip() in text


@pytest.mark.parametrize(
    "statement",
    [
        "w[i] = u[i] * 2",
        "w[i] = u[i] + len(w)",
        "w[i] = u[i] * uint8(n)",
        "w[i] = int32(u[i]) * n",
        "w[i] = w[i] * n",
        "u[0:2] = n",
        "p[0].a = n",
        'p[0:1]["a"] = n',
        "w[i] = sum(u, int32(0))",
        "w[i] = sum(w)",
        "acc = u[0]\nfor v in (u[1], u[2]):\n    acc += 1\nw[i] = acc",
        "w[i] = sum((u[0], u[1]), int32(0))",
        "w[i] = 1 + u[0] + u[1]",
        "w[i] = u[i] + (n & 15)",
        "w[i] = u[i] ^ (27 if n > 2 else 0)",
        "u[i] = n",
        "u[i] |= 1 << n",
        "u[i] = u[0] ^ n",
        "u[i] = min(max(n, 0), 255)",
        "w[i] = u[i] < n",
        "w[i] = u[i] << n",
        "w[n] = u[n]",
        "w[i] = u[i] + u[0]",
        "v = 0\nif n > 2:\n    v = u[0]\nw[i] = v",
        "acc = uint8(0)\nfor j in range(n):\n    acc += u[j]\nw[i] = acc",
        "acc = int32(0)\nfor j in range(n):\n    acc += u[j]\nw[i] = acc",
        "acc = 0\nfor j in range(n):\n    acc = max(acc, u[j])\nw[i] = acc",
        "acc = 0\nfor j in range(n):\n    acc += w[j]\nw[i] = acc",
        "acc = 0\nfor j in range(n):\n    acc += u[j] > 2\nw[i] = acc",
        "last = 0\nfor j in range(n):\n    w[j] = last\n    last = u[j] + u[0]",
    ],
)
def test_ints_that_fit_or_are_converted_say_nothing(statement):
    assert told(statement) == []


@pytest.mark.parametrize(
    ("statement", "type"),
    [
        ("d[i] = d[i] + x", "float64"),
        ("d[i] = x", "float64"),
        ("d[i] += x * 2", "float64"),
        ("d[i] *= math.cos(-2 * math.pi * i / 7)", "float64"),
        ("z[i] = z[i] * x", "float64"),
        ("z[i] += complex(math.cos(x), math.sin(x))", "complex128"),
        ("h = x\nfor j in range(n):\n    h = h * 0.5\nd[i] = d[i] + h", "float64"),
        ("h = 0.1 if n > 2 else x\nd[i] = d[i] - h", "float64"),
        ("d[i] = d[i] * (i * 0.1)", "float64"),
        ("d[i] = d[i] * (lambda t: t * 0.1)(i)", "float64"),
        ("p = (x * 0.5, 1)\nd[i] += p[0]", "float64"),
        ("p = [x * 0.5, 1.0]\nd[i] += p[0]", "float64"),
        ("p = Pair(x * 0.5, 1)\nd[i] += p.a", "float64"),
        ("d[i] += (lambda t: (t * 0.1, t))(x)[0]", "float64"),
        ("for t in (x * 0.5, x * 2):\n    d[i] += t", "float64"),
        ("d[i] += sum(x * j for j in range(3))", "float64"),
        ("d[i] += divmod(x, 0.3)[0]", "float64"),
        ("d[0:2] = x * 0.1", "float64"),
        ("d[:] = x", "float64"),
        ("p = (x * 0.1, x * 0.2)\nfor j in range(n):\n    p = (p[1], p[0])\nd[i] += p[0]", "float64"),
        ("d[i] += np.where(n > 2, d[0], x)", "float64"),
        ("d[i] += float(d[0])", "float64"),
        ("d[i] += complex(d[0], f[0]).real", "complex128"),
    ],
)
def test_a_float32_that_comes_of_floats_of_python_meets_a_wider_type(statement, type):
    found = told(statement)
    assert found and all(issubclass(each.category, device.PrecisionWarning) for each in found)
    text = str(found[0].message)
    assert f"becomes {type}" in text and "float32" in text and "help: " in text
    assert found[0].lineno - 3 == statement.count("\n")


@pytest.mark.parametrize(
    "statement",
    [
        "d[i] = d[i] * 0.1",
        "d[i] = d[i] + 2 * math.pi",
        "d[i] = 0.1",
        "d[i] = d[i] * f[i]",
        "d[i] = f[i] * 0.1",
        "d[i] = d[i] + float32(0.5) * i",
        "f[i] = x * f[i]",
        "d[i] = d[i] + float64(0.1) * i",
        "d[i] = d[i] * i",
        "d[i] = float64(x)",
        "h = 0.5 if n > 2 else 0.25\nd[i] = d[i] - h",
        "s = 0.0\nfor j in range(n):\n    s += d[j]\nd[i] = s",
        "p = (float32(x), 1)\nd[i] += p[0]",
        "p = (0.5, 1)\nd[i] += p[0]",
        "p = (f[0], x)\nd[i] += p[0]",
        "d[i] += sum(f[j] * x for j in range(3))",
        "d[i] += sum((0.5, 0.25))",
        "d[i] += float(f[0])",
        "a, b, c = x, 0.5, 0.5\nfor j in range(n):\n    d[j] = (lambda t: d[j] + t)(a)\n    a, b, c = b, c, f[j]",
    ],
)
def test_exact_floats_and_those_that_were_asked_for_say_nothing(statement):
    assert told(statement) == []


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("acc = 0.0\nfor j in range(n):\n    acc += e[j]\nf[i] = acc", 1),
        ("acc = 0\nfor v in e:\n    acc += v * v\nf[i] = acc", 1),
        ("acc = 0.0\nfor j in (0, 1, 2):\n    acc += e[j]\nf[i] = acc", 1),
        ("f[i] = sum(e)", 1),
        ("acc = float32(0)\nfor j in range(n):\n    acc += e[j]\nf[i] = acc", 0),
        ("acc = e.dtype(0)\nfor j in range(n):\n    acc += e[j]\nf[i] = acc", 0),
        ("acc = 0.0\nfor j in range(n):\n    acc = max(acc, e[j])\nf[i] = acc", 0),
        ("acc = 0.0\nfor j in range(n):\n    acc += f[j]\nf[i] = acc", 0),
        ("f[i] = e[i] * n + 1.0 + e[0] + e[1]", 0),
    ],
)
def test_a_sum_that_started_as_a_number_of_python_takes_a_short_float(statement, count):
    found = told(statement)
    assert len(found) == count
    for each in found:
        assert "took the type float16" in str(each.message) and "start with float32(0)" in str(each.message)


@device.struct
class Given:
    a: float32


@dataclass
class Computed:
    a: float


@pytest.mark.parametrize(
    ("value", "count"), [(Pair(0.1, 2), 1), (Computed(0.1), 1), (Given(0.1), 0), (Pair(np.float64(0.1), 2), 0)]
)
def test_floats_in_arguments_with_members(value, count):
    assert len(told("d[i] += x.a", x=value)) == count


def test_the_remedies_help():
    assert told("d[i] = d[i] + x", x=np.float64(0.1)) == []
    assert told("d[i] = d[i] * math.cos(float64(-2 * math.pi) * i / 7)") == []
    (found,) = told("d[i] = d[i] + x")
    assert "x: float64" in str(found.message)
    (found,) = told("z[i] = z[i] * x", x=0.1j)
    assert "'x' has" in str(found.message) and "x: complex128" in str(found.message)
    assert told("z[i] = z[i] * x", x=np.complex128(0.1j)) == []
    # Hints of functions that kernels call have no effect.
    for body in ("d[:] = x * 0.5", "def scaled(y):\n    return d[i] * y\nd[i] = scaled(x)"):
        (found,) = told(body)
        assert "write float64(…)" in str(found.message)


def narrow(out, x, n):
    out[0] = x[0] * n


def test_each_place_is_told_once_for_each_specialisation():
    kernel = device.kernel(narrow)
    out = np.zeros(1, np.int32)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for dtype in (np.uint8, np.int16, np.uint8, np.int32):
            for options in (CPU, CPU):
                device.launch(kernel, out, np.ones(1, dtype), 3, grid=1, block=1, stream=options)
        device.compile(kernel, ArrayType(int32, 1), ArrayType(uint8, 1), int, output="ptx")
    assert [re.search(r"type (\w+)", str(each.message))[1] for each in found] == ["uint8", "int16"]
    assert all(each.filename == __file__ for each in found)


def test_filters_of_python_hold():
    def narrow(out, x, n):
        out[0] = x[0] * n

    def other(out, x, n):
        out[0] = x[0] * n

    kernel = device.kernel(narrow)
    out, x = np.zeros(1, np.int32), np.ones(1, np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", device.PrecisionWarning)
        with pytest.raises(device.PrecisionWarning, match="uint8"):
            device.launch(kernel, out, x, 3, grid=1, block=1, stream=CPU)
        with pytest.raises(device.PrecisionWarning, match="uint8"):  # nothing has been told yet
            device.launch(kernel, out, x, 3, grid=1, block=1, stream=CPU)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):
            device.launch(kernel, out, x, 3, grid=1, block=1, stream=CPU)
    assert out[0] == 3 and len(found) == 1
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore", device.PrecisionWarning)
        device.launch(device.kernel(other), out, x, 3, grid=1, block=1, stream=CPU)
    assert found == []
    for module, count in (("__main__", 0), ("elsewhere", 1)):
        kernel = device.kernel(FunctionType(other.__code__, globals() | {"__name__": "__main__"}))  # a script's
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", module=module, category=device.PrecisionWarning)
            device.launch(kernel, out, x, 3, grid=1, block=1, stream=CPU)
        assert len(found) == count


PROGRAM = """
import numpy as np, cuda_device as device
@device.kernel
def k(out, x, n):
    out[0] = x[0] * n
device.launch(k, np.zeros(1, np.int32), np.ones(1, np.uint8), 3, grid=1, block=1, stream=device.cpu_stream())
print(device.cache_info().direct)
"""


def test_what_comes_from_the_cache_is_told_in_each_process(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CUDA_DEVICE_VERIFY", "0")
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    runs = [subprocess.run([sys.executable, file], capture_output=True, text=True, check=True) for _ in range(2)]
    assert [run.stdout.strip() for run in runs] == ["0", "1"]
    for run in runs:
        assert run.stderr.count("PrecisionWarning") == 1 and "help: " in run.stderr
    # By the built-in class: Python reads -W before it knows of installed packages.
    quiet = [sys.executable, "-W", "ignore::UserWarning", str(file)]
    assert subprocess.run(quiet, capture_output=True, text=True, check=True).stderr == ""


@pytest.mark.parametrize(
    ("statement", "n", "report"),
    [
        ("w[i] = u[i] * n", 256, "the int 256 does not fit uint8"),
        ("w[i] = u[i] + n", -1, "the int -1 does not fit uint8"),
        ("w[i] = s[i] + n", -40000, "the int -40000 does not fit int16"),
        ("v = n\nif n < 2:\n    v = u[0]\nw[i] = v", 300, "the int 300 does not fit uint8"),
        ("w[i] = device.uint32(w[i]) + n", -7, "the int -7 does not fit uint32"),
        ("w[i] = device.uint64(w[i]) // n", -7, "the int -7 does not fit uint64"),
        ("w[i] = 2 ** n", -1, "an integer cannot be raised to the power -1"),
        ("w[i] = math.gcd(u[i], n)", 300, "the int 300 does not fit uint8"),
        ("acc = 0\nfor j in range(n):\n    acc += u[7]\nw[i] = acc", 60, "the int 259 does not fit uint8"),
        ("acc = 0\nfor j in range(n - 50):\n    acc -= u[7]\nw[i] = acc", 60, "the int -7 does not fit uint8"),
        ("u[0] = n\nw[i] = sum(u)", 250, "the int 256 does not fit uint8"),
        ("u[0] = n\nw[i] = sum((u[0], u[1], u[7]))", 250, "the int 258 does not fit uint8"),
        ("s[0] = n * 1000\nw[i] = math.prod(s[j] for j in (0, 2, 3))", 30, "the int 60000 does not fit int16"),
        ("w[i] = np.where(n < 200, u[i], n)", 300, "the int 300 does not fit uint8"),
        ("u[i] = n", 300, "the int 300 does not fit uint8"),
        ("u[0:2] = n", 300, "the int 300 does not fit uint8"),
        ("u[...] = n", 300, "the int 300 does not fit uint8"),
        ("w[i] = 1 << n", -1, "the count of a shift cannot be negative: -1"),
        ("w[i] = n << n", -1, "the count of a shift cannot be negative: -1"),
        ("w[i] = w[i] >> n", -1, "the count of a shift cannot be negative: -1"),
        ("w[0] = n\nw[0] = w[0] << w[0]", -1, "the count of a shift cannot be negative: -1"),
    ],
)
@pytest.mark.filterwarnings("ignore::cuda_device.PrecisionWarning")
def test_checked_mode_reports_what_does_not_fit(stream, statement, n, report):
    text = "def k(u, s, w, n):\n    i = device.tid(1)\n" + "".join(f"    {line}\n" for line in statement.split("\n"))
    function = define(text, "k", **NAMES)
    arrays = [stream.array(ROWS[name]) for name in "usw"]
    with pytest.raises(device.KernelError, match=re.escape(report)) as caught:
        stream.launch(device.kernel(checked=True)(function), *arrays, n, grid=1, block=1)
    assert caught.value.location.line >= 3
    stream.launch(device.kernel(checked=True)(function), *arrays, 5, grid=1, block=1)
    stream.launch(device.kernel(checked=False)(function), *arrays, n, grid=1, block=1)


def test_a_negative_int_needs_a_signed_type():
    function = define("def k(w, n):\n    w[device.thread_idx.x + n] = 1\n", "k", **NAMES)
    with pytest.raises(device.KernelError, match=r"convert the int, uint32\(…\), or use a signed type"):
        device.launch(device.kernel(function), ROWS["w"].copy(), -1, grid=1, block=1, stream=CPU)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [("w[0] ** -1", "cannot be raised to the power"), ("w[0] >> -1", "the count of a shift cannot be negative: -1")],
)
def test_constants_that_no_operation_takes_are_refused(expression, reason):
    function = define(f"def k(w):\n    w[0] = {expression}\n", "k", **NAMES)
    with pytest.raises(device.CompileError, match=reason) as caught:
        device.launch(device.kernel(function), ROWS["w"].copy(), grid=1, block=1, stream=CPU)
    assert caught.value.help and caught.value.location.line == 2
