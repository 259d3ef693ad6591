"""Reads the text of typed IR, as `compile(output="ir")` prints it, in place of a Python function.

module = read_typed(device.compile(saxpy, float, x, y, output="ir").code)
declared(module.main)                      a kernel with its parameters and an empty body
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from cuda_device.device.functions import Func, Kernel, func, kernel
from cuda_device.errors import CompileError, CompilerBug
from cuda_device.infer.body import effects_of
from cuda_device.ir.dominance import propagate
from cuda_device.ir.nodes import Function, Module
from cuda_device.ir.ops import Level
from cuda_device.ir.text import read_module
from cuda_device.ir.verify import verify
from cuda_device.library.table import all_rows

HELP = 'compare it with what compile(…, output="ir") prints'


def read_typed(text: str) -> Module:
    """Reads a module of typed IR. Raises `CompileError` for other text."""
    all_rows()  # which the text may name
    try:
        module = read_module(text)
        for function in module.functions:
            if function.level is not Level.TYPED:
                raise ValueError(f"{function.name} is not typed")
            function.effects = effects_of(function.ops())
        verify(module)
    except (KeyError, ValueError, CompilerBug) as error:
        reason = error.message if isinstance(error, CompilerBug) else error
        reason = f"there is no intrinsic {error}" if isinstance(error, KeyError) else reason
        raise CompileError(f"the text is not typed IR: {reason}", help=HELP) from None
    propagate(module)
    return module


def declared(main: Function) -> Kernel | Func:
    """A function with the parameters of a typed one and an empty body."""
    hints = [parameter.hint for parameter in main.params]
    names = [hint if hint.isidentifier() and hints.count(hint) == 1 else f"_{i}" for i, hint in enumerate(hints)]
    scope: dict[str, Any] = {}
    exec(f"def {main.name}({', '.join(names)}): ...", scope)
    function: FunctionType = scope[main.name]
    function.__annotations__ = dict(zip(names, main.signature, strict=True))
    return kernel(function) if main.kernel else func(function)
