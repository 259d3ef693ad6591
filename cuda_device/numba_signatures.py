"""The signatures of `numba_compat.jit`: which arguments a kernel takes, and to which types numbers are converted.

    parse("void(float32[:], int32)")            [(SignatureParameter(float32, 1), SignatureParameter(int32))]
    parse(["f4(f4)", "f8(f8)"])                 two signatures, of which a call takes the first that fits its arrays

Text is numba's notation; numba's own type objects are read by their names. A parameter that is neither number nor array, such as
a tuple, takes anything.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.host import number_of_numba

_HELP = 'write "void(float32[:, :], int32)", the same in a tuple, a list of such texts, or numba\'s types'
NAMES = {
    **{f"{kind}{bits // 8}": f"{name}{bits}" for kind, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
    "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128", "b1": "bool_",
    "boolean": "bool_", "byte": "uint8", "intp": "int64", "uintp": "uint64", "size_t": "uint64", "ssize_t": "int64",
    "intc": "int32", "uintc": "uint32", "int_": "int64", "double": "float64", "char": "int8", "uchar": "uint8",
    "short": "int16", "ushort": "uint16", "long_": "int64", "ulong": "uint64", "longlong": "int64", "ulonglong": "uint64",
}  # fmt: skip
"""Numba's names for numbers, beside those of NumPy."""


@dataclass(frozen=True, slots=True)
class SignatureParameter:
    """A number of a type, or an array of `ndim` axes of it; without a type, anything."""

    type: Any = None
    ndim: int | None = None

    def __str__(self) -> str:
        axes = "" if self.ndim is None else f"[{', '.join(':' * self.ndim)}]"
        return "…" if self.type is None else np.dtype(self.type).name + axes

    def fits(self, value: Any) -> bool:
        """Whether an argument is such an array, or no array; signs of integers do not matter, as they do not for numba."""
        if self.type is None:
            return True
        shape, dtype = getattr(value, "shape", ()), getattr(value, "dtype", None)
        if self.ndim is None:
            return shape == () and not isinstance(value, (tuple, list))
        wanted = np.dtype(self.type)
        same = dtype == wanted or (
            dtype is not None and dtype.kind in "iu" and wanted.kind in "iu" and dtype.itemsize == wanted.itemsize
        )
        return len(shape) == self.ndim and same


Signature = tuple[SignatureParameter, ...]


def parse(given: Any) -> list[Signature]:
    """The signatures in what `jit` was given. Raises `TypeError` for what is none."""
    if given is None:
        return []
    each = given if isinstance(given, list) else [given]
    return [_signature(one) for one in each]


def choose(signatures: Sequence[Signature], arguments: Sequence[Any], name: str) -> Signature:
    """The first signature that arguments fit. Raises `TypeError` if they fit none."""
    for signature in signatures:
        if len(signature) == len(arguments) and all(p.fits(a) for p, a in zip(signature, arguments, strict=True)):
            return signature
    if not signatures:
        return ()
    kinds = ", ".join(_shown(argument) for argument in arguments)
    wanted = " or ".join(f"({', '.join(map(str, signature))})" for signature in signatures)
    raise TypeError(
        f"No matching definition for argument type(s) {kinds}: the signature of {name} is {wanted}\n"
        "  help: convert the arrays with astype, or leave the signature out"
    )


def result_of(given: Any) -> Any:
    """The type of the result of a signature in quotes, or of numba's own: NumPy's scalar."""
    if not isinstance(given, str):
        return number_of_numba(getattr(given, "return_type", given))
    return _number(given.partition("(")[0].strip(), given)


def _shown(value: Any) -> str:
    dtype, ndim = getattr(value, "dtype", None), len(getattr(value, "shape", ()))
    return type(value).__name__ if dtype is None else str(SignatureParameter(dtype, ndim or None))


def _signature(given: Any) -> Signature:
    if isinstance(given, str):
        try:
            tree = ast.parse(given.strip(), mode="eval").body
        except SyntaxError:
            raise _bad(given) from None
        parts = tree.args if isinstance(tree, ast.Call) else tree.elts if isinstance(tree, ast.Tuple) else [tree]
        return tuple(_parameter(part, given) for part in parts)
    parts = getattr(given, "args", given)  # of a signature object
    if not isinstance(parts, tuple):
        raise _bad(given)
    return tuple(_of_object(part) for part in parts)


def _parameter(part: ast.expr, text: str) -> SignatureParameter:
    match part:
        case ast.Name(name):
            return SignatureParameter(_number(name, text))
        case ast.Subscript(ast.Name(name), index):
            axes = index.elts if isinstance(index, ast.Tuple) else [index]
            if all(isinstance(axis, ast.Slice) for axis in axes):
                return SignatureParameter(_number(name, text), len(axes))
        case ast.Call():  # UniTuple(int64, 2)
            return SignatureParameter()
    raise _bad(text)


def _of_object(part: Any) -> SignatureParameter:
    if isinstance(part, str):
        (parameter,) = _signature(part)
        return parameter
    if isinstance(part, type) and issubclass(part, np.generic):
        return SignatureParameter(part)
    number = number_of_numba(getattr(part, "dtype", part))
    return SignatureParameter(number, getattr(part, "ndim", None)) if number is not None else SignatureParameter()


def _number(name: str, text: str) -> Any:
    try:
        return np.dtype(NAMES.get(name, name)).type
    except TypeError:
        raise _bad(text, f": there is no number type {name!r}") from None


def _bad(given: Any, why: str = "") -> TypeError:
    return TypeError(f"{given!r} is not a signature of a kernel{why}\n  help: {_HELP}")
