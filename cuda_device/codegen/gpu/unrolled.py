"""Loops that LLVM has unrolled, and that the assembler is not to unroll once more: those that write, or read shared memory.

    $L__BB0_9:                          $L__BB0_9:
                                            .pragma "nounroll";
        ld.global.nc.b32 …      →           ld.global.nc.b32 …
        st.global.b32 …                     st.global.b32 …         four of each, of four passes
        @%p5 bra $L__BB0_9;                 @%p5 bra $L__BB0_9;

Passes that read global memory wait for it together, the more the better. Sixteen that read and then sixteen that write only keep
the caches from what other warps have there: a softmax that the assembler unrolled so took longer than one that it had left alone.
Shared memory answers at once, and what lies there is small: a loop through it is begun often and ends soon, and each time the
assembler's code looks for sixteen passes, then for eight, and runs four.
"""

from __future__ import annotations

import re

from cuda_device.lazy_patterns import pattern

_LOOP = pattern(r"^(\$\w+:\n)((?:\t.*\n)*?\t@!?%p\d+ bra \t(\$\w+);\n)", re.M)
_ACCESSES = ("\tst.global", "\tld.shared")
_PASSES = 4
"""So many LLVM makes one of."""


def keep(ptx: str) -> str:
    """The same program, where such loops say so."""
    return _LOOP.sub(_keep, ptx) if _is_unrolled(ptx) else ptx


def _is_unrolled(text: str) -> bool:
    return any(text.count(access) >= _PASSES for access in _ACCESSES)


def _keep(loop: re.Match[str]) -> str:
    label, body, target = loop.groups()
    if label != f"{target}:\n" or not _is_unrolled(body) or ".pragma" in body:
        return loop[0]
    return f'{label}\t.pragma "nounroll";\n{body}'
