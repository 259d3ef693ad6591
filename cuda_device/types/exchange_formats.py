"""Converts between the compiler's types and those in which libraries exchange arrays: DLPack and the CUDA Array Interface.

    element_of_dlpack(2, 32)      FLOAT32
    element_of_typestr("<f4")     FLOAT32

The table of their names is `host.ROWS`.
"""

from __future__ import annotations

import sys

from cuda_device.types import model
from cuda_device.types.host import ROWS, row_of, unsupported

# The type codes of DLPack, in its order (DLDataTypeCode).
DLPACK_CODES = (
    "int", "uint", "float", "opaque handle", "bfloat", "complex", "bool", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn",
    "float4_e2m1fn",
)  # fmt: skip
_BY_DLPACK = {row.dlpack: row for row in ROWS}
_BY_TYPESTR = {row.typestr: row for row in ROWS}
_NATIVE = "<" if sys.byteorder == "little" else ">"


def element_of_dlpack(code: int, bits: int, lanes: int = 1) -> model.Number:
    """The element type for DLPack's `DLDataType{code, bits, lanes}`. Raises `TypeError` for types that are not in the table."""
    row = _BY_DLPACK.get((code, bits))
    if row is None or lanes != 1:
        name = DLPACK_CODES[code] if code < len(DLPACK_CODES) else f"code {code}"
        width = "" if name.startswith("float") and not name.endswith("float") else str(bits)
        raise unsupported(f"the DLPack type {name}{width}" + (f" x {lanes} lanes" if lanes != 1 else ""))
    return row.number


def dlpack_of_element(element: model.Type) -> tuple[int, int]:
    """The (code, bits) of `element` in DLPack."""
    return row_of(element).dlpack


def element_of_typestr(typestr: str) -> model.Number:
    """The element type for an array interface's `typestr`, such as `"<f4"`. Raises `TypeError` if it is not in the table."""
    if not isinstance(typestr, str) or len(typestr) < 3:
        raise TypeError(
            f"the typestr {typestr!r} is invalid: a byte order, a letter and a size are expected, as in '<f4'"
        )
    row = _BY_TYPESTR.get(typestr[1:])
    if row is None:
        raise unsupported(f"the typestr {typestr!r}")
    # The order does not matter for a single byte.
    if typestr[0] not in (_NATIVE, "|", "=") and row.number.bits > 8:
        raise TypeError(f"the typestr {typestr!r} is not in native byte order: convert the array to native byte order")
    return row.number


def typestr_of_element(element: model.Type) -> str:
    """The array interface's `typestr` for `element`, such as `"<f4"`."""
    typestr = row_of(element).typestr
    return ("|" if typestr.endswith("1") else _NATIVE) + typestr
