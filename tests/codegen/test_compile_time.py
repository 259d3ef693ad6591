"""Compile time grows with the program, and no faster: large programs compile in seconds."""

from __future__ import annotations

import gc
import textwrap
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import thinned
from ir_helpers import counted, define, underlying

import cuda_device as device
from cuda_device.bytecode.to_ir import read

FLOATS = device.ArrayType(device.float32, 1)


def statements(count: int) -> str:
    """A kernel of so many statements."""
    lines = [f"    v{i} = v{i - 1} * 1.5 + x[{i % 7}]" for i in range(1, count)]
    return "\n".join(["@device.kernel", "def k(x):", "    v0 = x[0]", *lines, f"    x[0] = v{count - 1}", ""])


def chain(count: int) -> str:
    """So many functions, each of which calls the next one."""
    functions = [f"def f{i}(v):\n    return f{i + 1}(v + {i}.0) * 2\n" for i in range(count)]
    return "\n".join(
        [*functions, f"def f{count}(v):\n    return v\n", "@device.kernel", "def k(x):", "    x[0] = f0(x[1])", ""]
    )


def calls(count: int) -> str:
    """So many functions, which the kernel calls one after the other."""
    functions = [f"def f{i}(v):\n    return (v + {i}.0) * 2\n" for i in range(count)]
    body = [f"    v = f{i}(v)" for i in range(count)]
    return "\n".join([*functions, "@device.kernel", "def k(x):", "    v = x[1]", *body, "    x[0] = v", ""])


def nest(depth: int) -> str:
    """Loops and ifs, one in the other."""
    lines = ["@device.kernel", "def k(x):", "    total = 0.0"]
    for level in range(depth):
        head = f"for i{level} in range(2):" if level % 2 else f"if x[{level}] > total:"
        lines.append("    " * (level + 1) + head)
    lines.append("    " * (depth + 1) + "total += x[0]")
    return "\n".join([*lines, "    x[0] = total", ""])


def choices(count: int) -> str:
    """Assignments that read their target, then go through many blocks, and then write to it."""
    terms = " + ".join(f"(x[{i}] if x[{i}] > 0 else {i})" for i in range(20))
    return "\n".join(["@device.kernel", "def k(x):", *(f"    x[{i}] += {terms}" for i in range(count // 20)), ""])


def table(count: int) -> str:
    """A loop over so many pairs of the host, which has to be unrolled."""
    pairs = f"PAIRS = {{str(i): i for i in range({count})}}"
    return f"{pairs}\n@device.kernel\ndef k(x):\n    for name, i in PAIRS.items():\n        x[i] += len(name)\n"


def seconds(source: str) -> float:
    """How long the front end takes. The garbage collector does not walk through what other tests have left meanwhile."""
    kernel = define(source)
    gc.collect()
    gc.freeze()
    start = time.process_time()
    device.compile(kernel, FLOATS, output="llvm")
    taken = time.process_time() - start
    gc.unfreeze()
    return taken


@pytest.mark.parametrize("source", [statements(2000), chain(500), nest(40)], ids=["statements", "chain", "nest"])
def test_large_programs_compile_in_seconds(source: str) -> None:
    assert seconds(source) < 30


@pytest.mark.long
@pytest.mark.parametrize(
    "make", [statements, chain, choices, calls, table], ids=["statements", "chain", "choices", "calls", "table"]
)
def test_twice_as_much_takes_about_twice_as_long(make: object) -> None:
    assert callable(make)
    seconds(make(50))
    small, large = (min(seconds(make(count)) for _ in range(2)) for count in (100, 400))
    assert large < 10 * small + 0.5


# The growth of the work, which does not depend on the machine's load: the calls of functions, ours and Python's, and the lines
# that run, also those of comprehensions


def family(statement: str, first: str = "v = x[0]", last: str = "x[0] = v") -> Callable[[int], str]:
    """Kernels of so many statements, with a first and a last line for each of their variables."""

    def source(count: int) -> str:
        lines = [text.format(i=i, j=(i + 1) % count) for text in (first, statement, last) for i in range(count)]
        return "@device.kernel\ndef k(x):\n" + textwrap.indent("\n".join(dict.fromkeys(lines)), "    ")

    return source


FAMILIES = {
    "straight lines": family("v = v * {i}.5 + x[{i}]"),
    "ifs": family("if v < {i}.0:\n    v = v * 1.5 + x[{i}]"),
    "as many variables as ifs": family("if v{i} < v{j}:\n    v{i} = v{i} * 1.5", "v{i} = x[{i}]", "x[{i}] = v{i}"),
    "loops": family("for i in range({i} + 9):\n    v = v * 1.5 + x[i]"),
    "and": family("v = v < {i} and v * {i} < {j} and v"),
}


def work(source: str, checked: bool) -> tuple[int, int]:
    """The parameters of all blocks at the python level, and the calls and lines until there is LLVM IR."""
    kernel = define(source)
    steps, _ = traced(kernel, FLOATS, checked=checked)
    return sum(len(block.params) for block in read(underlying(kernel).__code__).blocks), steps


def traced(kernel: Any, *types: Any, checked: bool = False) -> tuple[int, str]:
    """The calls and lines until there is LLVM IR, and the LLVM IR."""
    return counted(lambda: device.compile(kernel, *types, output="llvm", checked=checked).code)


@pytest.mark.parametrize("name, checked", thinned(FAMILIES, [False, True], one_in=2))
def test_the_work_grows_with_the_program(name: str, checked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_DEVICE_VERIFY", "0")
    work(FAMILIES[name](5), checked)
    (params, steps), (more_params, more_steps) = (work(FAMILIES[name](count), checked) for count in (40, 160))
    assert more_params <= 4 * params + 8
    assert more_steps <= 4.05 * steps  # a walk over all blocks for each loop makes it 4.08


def test_a_loop_is_inferred_before_what_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_DEVICE_VERIFY", "0")
    source = family("for k in range(9):\n    v{i} = v{i} + x[k]", "v{i} = 0.0", "x[{i}] = v{i}")
    work(source(5), checked=False)
    (_, steps), (_, more_steps) = work(source(10), checked=False), work(source(40), checked=False)
    assert more_steps <= 4.05 * steps


TUPLES = {
    "for": "for v in t:\n    x[0] += v",
    "enumerate": "for i, v in enumerate(t):\n    x[i] += v",
    "zip": "for a, b in zip(t, t):\n    x[0] += a * b",
    "list": "for v in [a * 2 for a in t]:\n    x[0] += v",
    "append": "s = []\nfor v in t:\n    s.append(v + x[1])\nx[0] = s[3]",
    "comprehension of zip": "s = [a + b for a, b in zip(t, t)]\nx[0] = s[3]",
    "generator of zip": "s = tuple(a + b for a, b in zip(t, t))\nx[0] = s[3]",
    "generator in a loop": "for _ in range(k):\n    t = tuple(a + b for a, b in zip(t, t))\nx[0] = t[3]",
    "branches in a generator": "s = tuple(pick(a, k) if a < k else a for a in t)\nx[0] = s[3]",
    "branches in a comprehension": "s = tuple([pick(a, k) if a < k else a for a in t])\nx[0] = s[3]",
    "shuffles in a generator": "s = tuple(device.shfl_xor_sync(k, a, 1) for a in t)\nx[0] = s[3]",
    "sum of branches": "x[0] = sum(pick(a, k) if a < k else a for a in t)",
    "loop over a generator": "for v in (a * a for a in t):\n    x[0] += v",
    "sum of a generator": "x[0] = sum(a * a for a in t)",
    "run-time index": "x[0] = t[k]",
}
"""Loops over a tuple."""


@pytest.mark.parametrize("name", TUPLES)
def test_loops_over_a_tuple_are_linear_in_its_length(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_DEVICE_VERIFY", "0")
    pick = "def pick(v, k):\n    return v * 2 if v < k + 5 else v + 1\n"
    kernel = define(pick + "@device.kernel\ndef k(x, k, t):\n" + textwrap.indent(TUPLES[name], "    "))

    def work_for(count: int) -> tuple[int, int]:
        steps, text = traced(kernel, FLOATS, device.int32, tuple[(device.float32,) * count])
        return steps, len(text)

    work_for(4)
    (steps, size), (more_steps, more_size) = work_for(12), work_for(48)
    assert more_steps <= 4.6 * steps
    assert more_size <= 4.6 * size


@pytest.mark.parametrize(
    ("count", "value", "functions"), [(4, "rotated(t)", 2), (40, "rotated(t)", 1), (40, "rotated(rotated(t))", 2)]
)
def test_a_function_that_passes_many_values_replaces_its_only_call(count: int, value: str, functions: int) -> None:
    rotated = "def rotated(t):\n    return (*t[1:], t[0])\n"
    kernel = define(f"{rotated}@device.kernel\ndef k(x, t):\n    for v in {value}:\n        x[0] += v\n")
    text = device.compile(kernel, FLOATS, tuple[(device.float32,) * count], output="llvm").code
    assert text.count("\ndefine ") == functions
