"""Loops of PTX end with the branch that goes back.

LLVM places the block behind a loop behind it, and cannot turn the condition round at that point. It leaves two branches:

    setp.eq.b32 %p6, %r1, %r2;                 setp.ne.b32 %p6, %r1, %r2;
    @%p6 bra $L__BB0_4;                  →     @%p6 bra $L__BB0_10;
    bra.uni $L__BB0_10;                    $L__BB0_4:
$L__BB0_4:

To mend that costs the assembler nothing, but it does so after it has looked for loops to unroll, and finds those only whose
last instruction is a conditional branch to their beginning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from cuda_device.lazy_patterns import pattern

_OPPOSITES = {"eq": "ne", "lt": "ge", "le": "gt"}
_OPPOSITES |= {b: a for a, b in _OPPOSITES.items()}

_FUNCTION = pattern(r"^(?=.*\.(?:entry|func)\b)", re.M)
_PREDICATE = pattern(r"%p\d+")
# Of integers alone: the opposite of a comparison of floats has another name, and no loop counts with them.
_COMPARISON = pattern(rf"\tsetp\.({'|'.join(_OPPOSITES)})\.([usb]\d+) \t(%p\d+),")
_PAIR = pattern(r"\t@(%p\d+) bra \t(\$\w+);\n\tbra\.uni \t(\$\w+);\n(?=\2:)")


def straighten(ptx: str) -> str:
    """The same program, where each such pair whose condition nothing else uses is one branch."""
    return by_function(ptx, _straighten)


def by_function(ptx: str, change: Callable[[str], str]) -> str:
    """A module with each of its functions changed: registers are a function's own."""
    return "".join(map(change, functions(ptx)))


def functions(ptx: str) -> list[str]:
    """The parts of a module: what stands before the functions, and each of these."""
    return _FUNCTION.split(ptx)


def _straighten(body: str) -> str:
    """One function."""
    pairs = {pair[1]: pair for pair in _PAIR.finditer(body)}
    if not pairs:
        return body
    uses = Counter(_PREDICATE.findall(body))
    turned = {name for name in pairs if uses[name] == 2}  # where it is made, and here
    made = {name for _, _, name in _COMPARISON.findall(body)} & turned

    def turn(comparison: re.Match[str]) -> str:
        sign, type, name = comparison.groups()
        return f"\tsetp.{_OPPOSITES[sign]}.{type} \t{name}," if name in made else comparison[0]

    def join(pair: re.Match[str]) -> str:
        name, _, back = pair.groups()
        return f"\t@{name} bra \t{back};\n" if name in made else pair[0]

    return _PAIR.sub(join, _COMPARISON.sub(turn, body))
