"""Calls of what exists while compiling: pure builtins, methods of constants, enumerations; and imports in functions.

"mean".upper()  WEIGHTS.sum()  Color(2)  ord("a")     are constants, if their arguments are
"""

from __future__ import annotations

import enum
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from cuda_device.device.rows import constant_of
from cuda_device.errors import CompileError
from cuda_device.infer import composites
from cuda_device.infer.dependencies import MISSING, PASSING
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.meanings import Method, NestedFunction, Partial
from cuda_device.ir.nodes import Op
from cuda_device.library.table import entry
from cuda_device.types.dtypes import alignof, machine_representation, numpy_dtype, sizeof
from cuda_device.types.known import constant
from cuda_device.types.model import Struct
from cuda_device.types.struct_classes import align

Special = Callable[[Frame, Sequence[Cell], Mapping[str, Cell]], Cell]

PURE: tuple[Any, ...] = (
    align,
    alignof,
    machine_representation,
    numpy_dtype,
    sizeof,
    str,
    repr,
    ascii,
    format,
    hex,
    oct,
    bin,
    callable,
    issubclass,
    ord,
    chr,
    hash,
    np.iinfo,
    np.finfo,
    np.dtype,
)
"""What is called while compiling, with constants."""
_TEXTS = (str, repr, ascii, format, hex, oct, bin)


def while_compiling(function: Callable[..., Any]) -> Special:
    """The rule for a function of constant expressions: its own result, which is one too."""
    name = function.__name__

    def rule(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
        owner = getattr(function, "__self__", function)
        otherwise = (
            "print(f'…') shows run-time values"
            if isinstance(owner, str) or any(owner is each for each in _TEXTS)
            else ""
        )
        values = [constant_of(cell.known, f"each argument of {name}", otherwise) for cell in positional]
        keywords = {
            word: constant_of(cell.known, f"each argument of {name}", otherwise) for word, cell in named.items()
        }
        try:
            given = (*values, *keywords.items())
            result = frame.program.once(owner, name, given, lambda: function(*values, **keywords))
            if isinstance(result, str) and " at 0x" in result:  # an object's address
                frame.program.depend(PASSING, name, MISSING)
            return frame.literal(result)
        except Exception as error:
            raise CompileError(
                f"{name} raised {type(error).__name__}: {error}",
                help="it would be called at compile time: call it on the host first",
            ) from None

    return rule


# Whose methods depend on nothing but their arguments, and change nothing.
_VALUES = (str, bytes, int, float, tuple, np.generic, np.dtype)
_CLASSES = (str, bytes, int, float)  # int.from_bytes, float.fromhex
_ARRAY_METHODS = frozenset(
    [
        "all",
        "any",
        "argmax",
        "argmin",
        "astype",
        "copy",
        "cumsum",
        "dot",
        "flatten",
        "item",
        "max",
        "mean",
        "min",
        "prod",
        "ravel",
        "reshape",
        "squeeze",
        "std",
        "sum",
        "swapaxes",
        "tobytes",
        "tolist",
        "transpose",
        "trace",
        "var",
        "view",
    ]
)


def _is_pure_method(entity: object) -> bool:
    """Whether it is a method of a constant that can be called while compiling: `"ab".upper`, `WEIGHTS.sum`."""
    if not isinstance(entity, BuiltinFunctionType):
        return False
    owner = entity.__self__
    if isinstance(owner, type):
        return owner in _CLASSES
    return isinstance(owner, _VALUES) or (isinstance(owner, np.ndarray) and entity.__name__ in _ARRAY_METHODS)


def rule_for(entity: object) -> Special | None:
    """The rule for calls of an entity that exists while compiling, or None."""
    if isinstance(entity, enum.EnumMeta):
        return while_compiling(entity)
    if _is_pure_method(entity):
        return while_compiling(entity)  # type: ignore[arg-type]
    if isinstance(entity, type) and issubclass(entity, tuple) and hasattr(entity, "_fields"):
        return functools.partial(composites.make, entity)
    return entry(RULES, entity)


def _callable(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`callable(x)`: the type of a value of run time tells."""
    if len(positional) == 1 and not named and not positional[0].known.constant:
        known = positional[0].known
        has_method = isinstance(known.type, Struct) and frame.method_of(known.type, "__call__") is not None
        return Cell(constant(has_method or isinstance(known.value, (NestedFunction, Partial, Method))))
    return while_compiling(callable)(frame, positional, named)


RULES: dict[object, Special] = {
    **{function: while_compiling(function) for function in PURE},
    callable: _callable,
}


# Import statements in functions: they are done while compiling, and name objects as globals do.
#
#     from math import sin      py.import {name="math", names=("sin",), level=0}      the module math, which has sin
#
# To compile must not run code that nobody asked for. So modules are those that the program has imported already, and those of
# Python's library and of this package, which importing does not change.


_HELP = "import it at the top of the module"


def import_(frame: Frame, op: Op, _: Sequence[Cell]) -> Sequence[Cell]:
    """`import a.b` names a; `from a.b import c` and `import a.b as c` look into modules."""
    names = op.attributes["names"]
    full = _absolute(frame, str(op.attributes["name"]), int(str(op.attributes["level"])))
    module = _module(frame, full)
    if not isinstance(names, tuple):
        return [frame.literal(_module(frame, full.partition(".")[0]))]
    for name in names:
        if not hasattr(module, name) and hasattr(module, "__path__"):
            _module(frame, f"{full}.{name}")
        if not hasattr(module, name):
            raise CompileError(
                f"{name!r} cannot be imported from {full}, which does not have it", help="look at its name"
            )
    return [frame.literal(module)]


def _absolute(frame: Frame, name: str, level: int) -> str:
    """The whole name of a module; dots before it count from the package of the function's module."""
    if not level:
        return name
    package = frame.globals.get("__package__")
    try:
        return importlib.util.resolve_name("." * level + name, package if isinstance(package, str) else "")
    except ImportError as error:
        raise CompileError(f"the import leads nowhere: {error}", help="write the whole name of the module") from None


def _module(frame: Frame, name: str) -> object:
    """A module by its whole name."""
    root = name.partition(".")[0]
    if name not in sys.modules and (root in sys.stdlib_module_names or root == __name__.partition(".")[0]):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise CompileError(f"the module {name} cannot be imported: {error}", help="look at its name") from None
    module = sys.modules.get(name)
    if module is None:
        raise CompileError(f"the module {name} is not imported, which compiling does not do", help=_HELP)
    frame.program.depend(sys.modules, name, module)
    return module
