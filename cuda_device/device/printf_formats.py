"""Python's format specifications as those of C's printf, which is what a GPU prints with.

parse("08.3f")      Spec(flags="0", width=8, precision=3, kind="f")      of which printf makes %08.3f
"""

from __future__ import annotations

import re

from cuda_device.errors import CompileError
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.lazy_patterns import pattern
from cuda_device.types.model import Format, Number

_SPEC = pattern(
    r"(?:(?P<fill>.)?(?P<align>[<>=^]))?(?P<sign>[-+ ])?(?P<z>z)?(?P<alternate>#)?(?P<zero>0)?(?P<width>\d+)?"
    r"(?P<group>[,_])?(?:\.(?P<precision>\d+))?(?P<kind>[a-zA-Z%])?",
    re.S,
)
# More columns than these nobody reads, and printf's buffer is small.
MOST_COLUMNS = 200


@dataclass(frozen=True, slots=True)
class Spec:
    """A specification: `flags` are printf's; `sign` is "", "+" or " "; `kind` is a letter, "%" or "" for Python's default."""

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
        return f"%{self.sign}{self.flags}{width}{point}{kind}"


def parse(text: str) -> Spec:
    """The specification. Raises `CompileError` for what is none, and for what printf does not know."""
    found = _SPEC.fullmatch(text)
    if found is None:
        raise CompileError(f"{text!r} is no format", help="write {x:5d}, {x:8.3f}, {x:#x} or the like")
    if found["group"] or found["z"] or found["align"] == "^":
        what = f"groups digits by {found['group']!r}" if found["group"] else "centres" if not found["z"] else "says z"
        raise CompileError(f"the format {text!r} {what}, which C's printf cannot", help="format numbers on the host")
    zero = (found["zero"] is not None and found["align"] is None) or (found["fill"], found["align"]) == ("0", "=")
    zeros = found["zero"] and found["width"] and found["fill"] is None  # which Python puts where others put spaces
    if (found["fill"] not in (None, " ") or found["align"] == "=" or (zeros and found["align"])) and not zero:
        raise CompileError(f"the format {text!r} fills with something else than spaces", help="leave the filling out")
    width, precision = int(found["width"] or 0), int(found["precision"]) if found["precision"] else None
    if width > MOST_COLUMNS or (precision or 0) > MOST_COLUMNS:
        raise CompileError(f"the format {text!r} is too wide", help=f"{MOST_COLUMNS} columns and digits are the most")
    flags = "-" if found["align"] == "<" else "0" if zero else ""
    sign = (found["sign"] or "").replace("-", "")
    return Spec(flags, sign, found["alternate"] is not None, width, precision, found["kind"] or "")


def digits_of(number: Number) -> int:
    """How many digits of a float are printed where nobody says: so many are about as good as the number itself."""
    if number.bits == 16:
        return 3 if number.format is Format.BFLOAT else 4
    return {8: 3, 32: 7, 64: 15}[number.bits]
