"""Places of 32 bits times the size of an element are one instruction, wherever LLVM has made them wide.

    cvt.u64.u32 %rd1, %r2;                       cvt.u64.u32 %rd1, %r2;
    …                                            …
    shl.b64     %rd8, %rd1, 2;             →     mul.wide.u32 %rd8, %r2, 4;
    add.s64     %rd9, %rd3, %rd8;                add.s64     %rd9, %rd3, %rd8;

LLVM itself writes that where both stand in one block. It moves what is made wide before loops and branches, and then the
assembler has two instructions for the address instead of one that multiplies and adds.
"""

from __future__ import annotations

import re
from collections import Counter

from cuda_device.codegen.gpu.branches import by_function
from cuda_device.lazy_patterns import pattern

_WIDE = pattern(r"\tcvt\.(?:u64\.(u32)|s64\.(s32)) \t(%rd\d+), (%r\d+);")
_SHIFT = pattern(r"\tshl\.b64 \t(%rd\d+), (%rd\d+), (\d+);")
_WRITTEN = pattern(r"^[^@%\n]*?(?:@!?%\w+ [^%\n]*?)?(\{[^}\n]*\}|%\w+(?:\|%\w+)?)", re.M)
"""What an instruction writes, or, of those that write nothing, perhaps what it reads."""
_REGISTER = pattern(r"%\w+")
_ROOM = 30
"""The shift, at most: a factor is a number of 32 bits, perhaps with a sign."""


def widen(ptx: str) -> str:
    """The same program with such products."""
    return by_function(ptx, _widen) if "\tshl.b64 " in ptx else ptx


def _widen(body: str) -> str:
    made = _WIDE.findall(body)
    if not made:
        return body
    # A register that is written in one place is, wherever it is read, what it was made of, if that is written in one place, too.
    written = Counter(name for first in _WRITTEN.findall(body.replace(";", ";\n")) for name in _REGISTER.findall(first))
    sources = {
        wide: (unsigned or signed, narrow)
        for unsigned, signed, wide, narrow in made
        if written[wide] == written[narrow] == 1
    }

    def product(shift: re.Match[str]) -> str:
        result, wide, count = shift.groups()
        if wide not in sources or int(count) > _ROOM:
            return shift[0]
        type, narrow = sources[wide]
        factor = 1 << int(count)
        return f"\tmul.wide.{type} \t{result}, {narrow}, {factor};"

    return _SHIFT.sub(product, body)
