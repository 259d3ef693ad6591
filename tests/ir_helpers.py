"""IR from text, for tests that enter the compiler in the middle, and functions from source, for those that need a place.

module = read('''
    func @f -> none kernel device {
    ^0():
      return
    }
''')
"""

from __future__ import annotations

import functools
import itertools
import linecache
import math
import random
import sys
import textwrap
import time
from collections.abc import Iterable
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import golden_pages
import numpy as np
import pytest

import cuda_device as device
from cuda_device import compiler
from cuda_device.codegen.gpu import cubin
from cuda_device.ir.dominance import propagate
from cuda_device.ir.nodes import Function, Module, Op
from cuda_device.ir.ops import Effect
from cuda_device.ir.text import read_module, show
from cuda_device.ir.verify import verify
from cuda_device.lazy_dataclasses import replace
from cuda_device.runtime.launch.compile_job import job_of


def read(text: str, objects: Iterable[object] = (), verified: bool = True) -> Module:
    """The module of one or more functions; each one's effects are those of its operations and callees."""
    module = read_module(textwrap.dedent(text), list(objects))
    if verified:
        propagate(checked(module), ~Effect.TERMINATES)
    return module


def checked(module: Module | Function) -> Module:
    """The module, or the module of a function, which the verifier must accept."""
    whole = module if isinstance(module, Module) else Module([module])
    verify(whole)
    return whole


def text_of(module: Module | Function) -> str:
    """The text of IR."""
    return show(module) if isinstance(module, Function) else "\n".join(map(show, module.functions))


def written(text: str) -> str:
    """The text of IR as the printer would write it: for comparisons that do not count on names."""
    return text_of(read(text, verified=False))


def define(source: str, name: str = "k", file: str = "<test>", **names: Any) -> Any:
    """Runs a program's source and returns what it calls `name`. Error messages find its lines under the name `file`."""
    source = textwrap.dedent(source).lstrip("\n")
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    modules = {module.__name__: module for module in (functools, itertools, math, random, time)}
    scope = {"__name__": "program", "device": device, "np": np, **modules, **names}
    exec(compile(source, file, "exec", dont_inherit=True), scope)
    return scope[name]


class TextProgram(NamedTuple):
    """A program of a file of texts: its name, what stands behind that (`=== sums: block=8`), its text, and its `k`."""

    name: str
    fields: dict[str, Any]
    text: str
    function: Any


def programs_in(path: Path, head: str, **names: Any) -> list[TextProgram]:
    """The programs of a file. A text that does not define `k` is its body, and `head` what stands above it."""
    found = []
    for title, text in golden_pages.texts_in(path).items():
        name, _, fields = title.partition(": ")
        whole = text if "def k(" in text else f"{head}\n{textwrap.indent(text, '    ')}"
        found.append(TextProgram(name, eval(f"dict({fields})"), text, define(whole, file=f"{name}.py", **names)))
    return found


def underlying(function: Any) -> FunctionType:
    """The plain function of a kernel, a device function, or a plain function."""
    found = getattr(function, "underlying", function)
    assert isinstance(found, FunctionType)
    return found


def job(
    function: Any,
    *arguments: Any,
    target: str = "sm_90",
    on_cpu: bool = False,
    launch_facts: bool = False,
    **options: Any,
) -> compiler.Job:
    """The job of `device.compile` for a kernel or function, or of a launch on a CPU stream."""
    if isinstance(function, FunctionType):
        function = device.func(function)
    made = job_of(function, arguments, target, options)
    settings = replace(made.options, launch_facts=launch_facts)
    return replace(made, target=replace(made.target, machine="cpu" if on_cpu else "gpu"), options=settings)


def stage(name: str, function: Any, *arguments: Any, **options: Any) -> Any:
    """What a stage of the compiler makes of a function. The arguments and options are those of `job`."""
    return compiler.run(job(function, *arguments, **options), name)[name]


def operations(module: Module, *names: str) -> list[Op]:
    """The operations of these names, in their order."""
    return [op for op in module.ops() if op.code.name in names]


def ptx_of(kernel: Any, *arguments: Any) -> str:
    """The PTX of a kernel for sm_90, which counts on what launches check."""
    return str(device.compile(kernel, *arguments, target="sm_90", output="ptx", launch_facts=True).code)


def refusal(function: Any, *arguments: Any) -> device.CompileError:
    """The error of a function that cannot be compiled."""
    with pytest.raises(device.CompileError) as caught:
        device.compile(function, *arguments, output="ir")
    return caught.value


def counted(run):
    """How many functions `run` calls, ours and Python's, and how many lines it runs; and its result."""
    count, tracer = 0, sys.gettrace()

    def record(frame, event, _):
        nonlocal count
        count += event in ("call", "c_call", "line")
        return record

    sys.setprofile(record)
    sys.settrace(record)
    try:
        result = run()
    finally:
        sys.settrace(tracer)
        sys.setprofile(None)
    return count, result


def assembled(kernel: Any, *arguments: Any, target: str, **options: Any) -> str:
    """The PTX of a kernel, which the assembler accepts, where there is one for the target. The options are those of `job`."""
    from conftest import can_assemble  # programs that compile the same in other processes have no conftest

    work = compiler.run(job(kernel, *arguments, target=target, **options), "ptx")
    assert not can_assemble(target) or cubin.assemble(work["ptx"], work.job.target.architecture).code
    return str(work["ptx"])
