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
import textwrap
import time
from collections.abc import Iterable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import cuda_device as device
from cuda_device.ir.dominance import propagate
from cuda_device.ir.nodes import Module
from cuda_device.ir.ops import Effect
from cuda_device.ir.text import read_module, show
from cuda_device.ir.verify import verify


def read(text: str, objects: Iterable[object] = (), verified: bool = True) -> Module:
    """The module of one or more functions; each one's effects are those of its operations and callees."""
    module = read_module(textwrap.dedent(text), list(objects))
    if verified:
        verify(module)
        propagate(module, ~Effect.TERMINATES)
    return module


def written(text: str) -> str:
    """The text of IR as the printer would write it: for comparisons that do not count on names."""
    return "\n".join(map(show, read(text, verified=False).functions))


def define(source: str, name: str = "k", file: str = "<test>", **names: Any) -> Any:
    """Runs a program's source and returns what it calls `name`. Error messages find its lines under the name `file`."""
    source = textwrap.dedent(source).lstrip("\n")
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    modules = {module.__name__: module for module in (functools, itertools, math, random, time)}
    scope = {"__name__": "program", "device": device, "np": np, **modules, **names}
    exec(compile(source, file, "exec", dont_inherit=True), scope)
    return scope[name]


def underlying(function: Any) -> FunctionType:
    """The plain function of a kernel, a device function, or a plain function."""
    found = getattr(function, "underlying", function)
    assert isinstance(found, FunctionType)
    return found


def ptx_of(kernel: Any, *arguments: Any) -> str:
    """The PTX of a kernel for sm_90, which counts on what launches check."""
    return str(device.compile(kernel, *arguments, target="sm_90", output="ptx", launch_facts=True).code)


def refusal(function: Any, *arguments: Any) -> device.CompileError:
    """The error of a function that cannot be compiled."""
    with pytest.raises(device.CompileError) as caught:
        device.compile(function, *arguments, output="ir")
    return caught.value
