"""Loops within loops: with or without what LLVM does about sums in them, whichever is shorter.

LLVM's "loop strength reduction" looks at innermost loops alone, and makes numbers that go along with them, above all addresses.
Where such a number begins with something that the loop around it changes, that one gets a number for it, too. An outer loop can
become longer for that by more than the inner one is shorter; and ptxas, which sees few registers left then, reads `%tid.x` anew
in each of its passes, which everything else waits for. Where passes are unrolled, what they share of their addresses saves much.

    has_nests(ptx)              whether there is a loop in a loop
    is_shorter(one, other)      what stands in a loop counts eight times, in one within it 64 times
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

from cuda_device.codegen.gpu.ptx_text import functions
from cuda_device.lazy_patterns import pattern

_LABEL = pattern(r"^(\$\w+):", re.M)
_BRANCH = pattern(r"\tbra(?:\.uni)? \t(\$\w+);| bra \t(\$\w+);")
_INSTRUCTION = pattern(r"^\t(?:@!?%p\d+ )?([a-z][\w.:]*)", re.M)
_FREE = ("mov.", "cvt.u64.u32", "bra.uni", "ld.param")
_WIDE = ("add.s64", "sub.s64", "mad.wide")
_PASSES, _DEEPEST = 8, 4
_GAIN = 32
"""By one part of so many, at least, a program is shorter that counts as shorter."""


def has_nests(ptx: str) -> bool:
    """Whether there is a loop in a loop."""
    return any(depth > 1 for body in functions(ptx) for _, depth in _depths(body))


def is_shorter(one: str, other: str) -> bool:
    """Whether a program is clearly shorter than another one."""
    return _GAIN * _length(one) < (_GAIN - 1) * _length(other)


def _length(ptx: str) -> int:
    return sum(map(_length_of_function, functions(ptx)))


def _length_of_function(body: str) -> int:
    places, depths = zip(*_depths(body), strict=True)
    return sum(
        _size(instruction[1]) * _PASSES ** min(depths[bisect_right(places, instruction.start()) - 1], _DEEPEST)
        for instruction in _INSTRUCTION.finditer(body)
    )


def _size(operation: str) -> int:
    """How many instructions of a GPU it is, or is a part of."""
    return 0 if operation.startswith(_FREE) else 2 if operation.startswith(_WIDE) else 1


def _depths(body: str) -> list[tuple[int, int]]:
    """From which place in the text on there are so many loops around it. A loop is what stands before a branch back to it."""
    labels = {label[1]: label.start() for label in _LABEL.finditer(body)}
    ends: dict[int, int] = {}
    for branch in _BRANCH.finditer(body):
        start = labels.get(branch[1] or branch[2], branch.start())
        if start < branch.start():
            ends[start] = branch.end()
    changes = sorted([(0, 0), *((start, 1) for start in ends), *((end, -1) for end in ends.values())])
    return list(zip((place for place, _ in changes), accumulate(change for _, change in changes), strict=True))
