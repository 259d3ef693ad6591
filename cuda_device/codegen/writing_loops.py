"""Loops that LLVM has unrolled, and that write memory, are not unrolled once more by the assembler.

    $L__BB0_9:                          $L__BB0_9:
                                            .pragma "nounroll";
        ld.global.nc.b32 …      →           ld.global.nc.b32 …
        st.global.b32 …                     st.global.b32 …         four of each, of four passes
        @%p5 bra $L__BB0_9;                 @%p5 bra $L__BB0_9;

Passes that read wait for memory together, the more the better. Sixteen that read and then sixteen that write only keep the caches
from what other warps have there: a softmax that the assembler unrolled so took a fifth longer than one that it had left alone.
"""

from __future__ import annotations

import re

_LOOP = re.compile(r"^(\$\w+:\n)((?:\t.*\n)*?\t@!?%p\d+ bra \t(\$\w+);\n)", re.M)
_WRITTEN = 4
"""So many passes LLVM makes one of."""


def keep(ptx: str) -> str:
    """The same program, where such loops say so."""
    return _LOOP.sub(_keep, ptx) if ptx.count("\tst.global") >= _WRITTEN else ptx


def _keep(loop: re.Match[str]) -> str:
    label, body, target = loop.groups()
    if label != f"{target}:\n" or body.count("\tst.global") < _WRITTEN or ".pragma" in body:
        return loop[0]
    return f'{label}\t.pragma "nounroll";\n{body}'
