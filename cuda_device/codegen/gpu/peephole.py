"""Peephole optimisations of PTX: what LLVM has no hook for, as one table of rewritings.

    run(ptx)        the same program, after each row of `PEEPHOLES` whose `guard` is in the text

LLVM's optimiser and its NVPTX back end decide nearly everything. A row is for what they cannot express: a property of an
instruction for the assembler alone, or a form that the assembler looks for. Each row names the kernels that it makes faster,
measured on an H100 by leaving it out (`docs/optimisations.md`). One that gains less than 2 % on each kernel does not stay.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from cuda_device.lazy_dataclasses import dataclass

_FUNCTION = re.compile(r"^(?=.*\.(?:entry|func)\b)", re.M)


def functions(ptx: str) -> list[str]:
    """The parts of a module: what stands before the functions, and each of these. Registers are local to a function."""
    return _FUNCTION.split(ptx)


def by_function(ptx: str, change: Callable[[str], str]) -> str:
    """A module with each of its functions changed."""
    return "".join(map(change, functions(ptx)))


@dataclass(frozen=True, slots=True)
class Peephole:
    """A rewriting of PTX that keeps what the program does.

    `guard` is a text that each program contains which `rewrite` changes. `gain` says how much longer kernels take without it.
    """

    name: str
    guard: str
    rewrite: Callable[[str], str]
    reason: str
    gain: str


def run(ptx: str) -> str:
    """The same program, after all peephole optimisations."""
    for row in PEEPHOLES:
        if row.guard in ptx:
            ptx = row.rewrite(ptx)
    return ptx


# Loop latches
#
#     setp.eq.b32 %p6, %r1, %r2;                 setp.ne.b32 %p6, %r1, %r2;
#     @%p6 bra $L__BB0_4;                  →     @%p6 bra $L__BB0_10;
#     bra.uni $L__BB0_10;                    $L__BB0_4:
# $L__BB0_4:

_OPPOSITES = {"eq": "ne", "lt": "ge", "le": "gt"}
_OPPOSITES |= {b: a for a, b in _OPPOSITES.items()}

_PREDICATE = re.compile(r"%p\d+")
# Of integers alone: the opposite of a comparison of floats has another name, and no loop counts with them.
_COMPARISON = re.compile(rf"\tsetp\.({'|'.join(_OPPOSITES)})\.([usb]\d+) \t(%p\d+),")
_PAIR = re.compile(r"\t@(%p\d+) bra \t(\$\w+);\n\tbra\.uni \t(\$\w+);\n(?=\2:)")


def invert_latches(ptx: str) -> str:
    """The same program, where each such pair whose condition nothing else uses is one branch."""
    return by_function(ptx, _invert)


def _invert(body: str) -> str:
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


# Unrolled loops

_LOOP = re.compile(r"^(\$\w+:\n)((?:\t.*\n)*?\t@!?%p\d+ bra \t(\$\w+);\n)", re.M)
_ACCESSES = ("\tst.global", "\tld.shared")
_UNROLLED = 4
"""So many iterations LLVM makes one of."""


def mark_nounroll(ptx: str) -> str:
    """The same program, where unrolled loops that write, or read shared memory, have the pragma `nounroll`."""
    return _LOOP.sub(_marked, ptx) if _is_unrolled(ptx) else ptx


def _is_unrolled(text: str) -> bool:
    return any(text.count(access) >= _UNROLLED for access in _ACCESSES)


def _marked(loop: re.Match[str]) -> str:
    label, body, target = loop.groups()
    if label != f"{target}:\n" or not _is_unrolled(body) or ".pragma" in body:
        return loop[0]
    return f'{label}\t.pragma "nounroll";\n{body}'


# Stores of what is not read
#
#     st.global.b32 [%rd2], %r1;         →    st.global.L1::no_allocate.b32 [%rd2], %r1;

_STORE = re.compile(r"(?<=[\t ])st\.global\.(?=[vbfsu])")
# What may read what a kernel has written: atomics, functions, and loads, but for those of constants and of shared and own memory.
_READS = re.compile(r"[\t ](?:atom|red|call|ld(?!\.(?:global\.nc|param|shared|local|const)\.))\b")


def mark_no_allocate(ptx: str) -> str:
    """The same program, where stores take no line of the L1 cache if the kernel reads nothing that it writes."""
    return ptx if _READS.search(ptx) else _STORE.sub("st.global.L1::no_allocate.", ptx)


PEEPHOLES = (
    Peephole(
        "invert loop latches",
        "\tbra.uni \t",
        invert_latches,
        "The assembler looks for loops to unroll before it inverts branches, and finds only those whose last instruction is a"
        " conditional branch to their beginning. LLVM places the block behind a loop behind it, and leaves two branches.",
        "convolution 1.34",
    ),
    Peephole(
        "keep unrolled loops",
        "bra \t",
        mark_nounroll,
        "Iterations that read global memory wait for it together, the more the better. Sixteen that read and then sixteen that"
        " write evict what other warps have in the caches. A loop through shared memory is short and entered often: each"
        " time, code that the assembler unrolled looks for sixteen iterations, then for eight, and runs four.",
        "convolution 1.34",
    ),
    Peephole(
        "store past the L1 cache",
        "ld.global.nc",
        mark_no_allocate,
        "A store takes a line of the L1 cache, from which nobody reads if the kernel reads nothing that it writes. That shows"
        " in the text: all its loads are then `ld.global.nc` (see `codegen/emit/llvm_writer`).",
        "softmax 1.07",
    ),
)
"""In this order."""
