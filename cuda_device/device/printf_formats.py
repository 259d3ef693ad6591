"""Python's format specifications as those of C's printf, which is what a GPU prints with.

parse("08.3f")      Spec(flags="0", width=8, precision=3, kind="f")      of which printf makes %08.3f
"""

from __future__ import annotations

import re

from cuda_device.errors import CompileError
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.model import Format, Number

_SPEC = re.compile(
    r"(?P<align>[<>])?(?P<sign>[-+ ])?(?P<alternate>#)?(?P<zero>0)?(?P<width>\d+)?"
    r"(?:\.(?P<precision>\d+))?(?P<kind>[dxXoeEfFgG])?"
)
FLOAT_KINDS = frozenset("eEfFgG")
# More columns than these nobody reads, and printf's buffer is small.
_MOST_COLUMNS = 200


@dataclass(frozen=True, slots=True)
class Spec:
    """A specification: `flags` are printf's; `sign` is "", "+" or " "; `kind` is a letter, or "" for Python's default."""

    flags: str = ""
    sign: str = ""
    alternate: bool = False
    width: int = 0
    precision: int | None = None
    kind: str = ""

    @property
    def plain(self) -> bool:
        """Whether it says nothing."""
        return self == Spec()

    def conversion(self, kind: str, precision: int | None = None) -> str:
        """The conversion of printf with this kind."""
        digits = self.precision if precision is None else precision
        width = str(self.width) if self.width else ""
        point = "" if digits is None else f".{digits}"
        return f"%{self.sign}{'#' * (self.alternate and kind in FLOAT_KINDS)}{self.flags}{width}{point}{kind}"

    def __str__(self) -> str:
        return self.conversion(self.kind)[1:]


def parse(text: str) -> Spec:
    """The specification. Raises `CompileError` for what is none, and for what printf does not have."""
    found = _SPEC.fullmatch(text)
    if found is None or (found["align"] and found["zero"]):
        raise CompileError(
            f"device code has no format {text!r}",
            help="there are widths, signs, <, >, zeros and precisions with d, x, o, e, f, g: {n:5d}, {n:08x}, {x:8.3f}",
        )
    width, precision = int(found["width"] or 0), int(found["precision"]) if found["precision"] else None
    if width > _MOST_COLUMNS or (precision or 0) > _MOST_COLUMNS:
        raise CompileError(f"the format {text!r} is too wide", help=f"{_MOST_COLUMNS} columns and digits are the most")
    flags = "-" if found["align"] == "<" else "0" if found["zero"] else ""
    sign = (found["sign"] or "").replace("-", "")
    return Spec(flags, sign, found["alternate"] is not None, width, precision, found["kind"] or "")


def digits_of(number: Number) -> int:
    """How many digits of a float are printed where nobody says: so many are about as good as the number itself."""
    if number.bits == 16:
        return 3 if number.format is Format.BFLOAT else 4
    return {8: 3, 32: 7, 64: 15}[number.bits]
