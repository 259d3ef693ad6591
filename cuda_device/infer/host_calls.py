"""Calls that are evaluated at compile time, with constants: pure builtins, enumerations, and methods of host arrays.

Color(2)     numpy_dtype(T).itemsize     ord("a")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cuda_device.device.rows import bind, constant_of
from cuda_device.errors import CompileError
from cuda_device.infer.dependencies import MISSING, PASSING
from cuda_device.infer.frame import Cell, Frame
from cuda_device.types.dtypes import alignof, machine_representation, numpy_dtype, sizeof
from cuda_device.types.struct_classes import align

Special = Callable[[Frame, Sequence[Cell], Mapping[str, Cell]], Cell]


def declared(rule: Callable[..., Cell], shown: str, first: int = 1) -> Special:
    """Binds the arguments of a call to the signature of a rule, after the frame (and the owner of a method)."""

    def special(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
        bound = bind(rule, shown, (frame, *positional), named, first)
        return rule(*bound.args, **bound.kwargs)

    return special


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
"""Builtins that are evaluated at compile time, with constants."""
_TEXTS = (str, repr, ascii, format, hex, oct, bin)


def while_compiling(function: Callable[..., Any]) -> Special:
    """The rule for a function that is called at compile time: its arguments and its result are constants."""
    name = function.__name__

    def rule(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
        owner = getattr(function, "__self__", function)
        otherwise = "print(f'…') shows run-time values" if any(owner is each for each in _TEXTS) else ""
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


RULES: dict[object, Special] = {function: while_compiling(function) for function in PURE}
