"""Stores of a part of a float: the part passes an instruction of integers first.

    add.f64 %rd3, %rd2, %rd2;               add.f64 %rd3, %rd2, %rd2;
    st.global.b32 [%rd1], %rd3;        →    cvt.u32.u64 %narrow0, %rd3;
                                            st.global.b32 [%rd1], %narrow0;

LLVM stores the low bits of a register in one instruction, where memory is less aligned than a float, or where a program looks at
the bits of one. The assembler of driver 580 takes a register that an instruction of floats wrote for a number there, and converts
it to an integer of so many bits: of 3.0 it stores 3.
"""

from __future__ import annotations

import re

from cuda_device.codegen.gpu.branches import by_function
from cuda_device.lazy_patterns import pattern

_STORE = pattern(r"^(\s*)(st\.[\w.:]+\.b(8|16|32)\s+\[[^\]]*\], )(\{[^}]*\}|%r[sd]?\d+);$", re.M)
# One of a wider register: most programs have none.
_NARROW = pattern(r"\sst\.[\w.:]+\.b(?:32\s+\[[^\]]*\], [^;]*%rd|16\s+\[[^\]]*\], [^;]*%r(?!s)|8\s)")
_REGISTER = pattern(r"%r[sd]?\d+")
# An instruction whose first type is that of floats, and what it writes; and what copies registers.
_FLOAT = pattern(
    r"^\s*[a-z]\w*(?:\.(?!(?:[sub]\d+)\b)[\w:]+)*?\.(?:bf|f)(?:16|32|64)(?:x2)?[\w.]*\s+(%r[sd]?\d+)\b", re.M
)
_COPY = pattern(r"^\s*(?:mov|selp)\.b(?:16|32|64)\s+(%r[sd]?\d+), (%r[sd]?\d+)(?:, (%r[sd]?\d+))?[,;]", re.M)
_BITS = {"%r": 32, "%rs": 16, "%rd": 64}


def store(ptx: str) -> str:
    """The same program, with such stores of integers."""
    return by_function(ptx, _in_function) if _NARROW.search(ptx) else ptx


def _in_function(body: str) -> str:
    floats = _floats(body)
    made: list[str] = []

    def rewritten(store: re.Match[str]) -> str:
        blanks, head, bits, registers = store.groups()
        lines: list[str] = []

        def part(register: re.Match[str]) -> str:
            name = register[0]
            if name not in floats or _BITS[name.rstrip("0123456789")] <= int(bits):
                return name
            made.append(f"%narrow{len(made)}")
            if name.startswith("%rd"):
                lines.append(f"{blanks}cvt.u32.u64 \t{made[-1]}, {name};")
            elif name.startswith("%rs"):
                lines.append(f"{blanks}cvt.u32.u16 \t{made[-1]}, {name};")
            else:
                lines.append(f"{blanks}and.b32 \t{made[-1]}, {name}, {(1 << int(bits)) - 1};")
            return made[-1]

        stored = _REGISTER.sub(part, registers)
        return "\n".join([*lines, f"{blanks}{head}{stored};"])

    body = _STORE.sub(rewritten, body)
    return body.replace("{\n", f"{{\n\t.reg .b32 \t%narrow<{len(made)}>;\n", 1) if made else body


def _floats(body: str) -> set[str]:
    """The registers that hold what instructions of floats wrote."""
    floats = set(_FLOAT.findall(body))
    copies = _COPY.findall(body)
    while True:
        more = {into for into, *sources in copies if into not in floats and not floats.isdisjoint(sources)}
        if not more:
            return floats
        floats |= more
