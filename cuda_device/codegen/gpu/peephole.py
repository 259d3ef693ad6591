"""Rewrites PTX by two tables: peephole optimisations, and workarounds for bugs of NVIDIA's assemblers.

    run(ptx)                 the same program, after each row of `PEEPHOLES` whose `guard` is in the text
    avoid_faults(ptx)        the same program, as every assembler gets it right: `WORKAROUNDS`

LLVM's optimiser and its NVPTX back end do nearly all of the work. The rows do what these cannot express: a property of an
instruction that only the assembler uses, or a form that the assembler recognises. Each row names the kernels that it makes
faster, measured on an H100 by leaving it out (`docs/optimisations.md`). A row that does not gain at least 2 % on any kernel is
removed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from cuda_device.ir.dominance import recursive
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


# Faults of NVIDIA's assemblers
#
# The texts that come out mean the same and cost an instruction more. They are written for every assembler: which one will read
# them is not known at that point. A fault that is avoided where LLVM IR is written stands there: see `codegen/emit/llvm_writer`.


@dataclass(frozen=True, slots=True)
class Workaround:
    """A fault of assemblers, their versions, the test that shows it, and what changes a program that has one of `guards`."""

    name: str
    fault: str
    versions: str
    test: str
    guards: tuple[str, ...]
    rewrite: Callable[[str], str]


_SHARED = re.compile(r"^(\s*\.shared) \.align [1248] (?=\.b8 \S+\[(?:1[6-9]|[2-9]\d|\d{3,})\];)", re.M)


def align_shared(ptx: str) -> str:
    """The same program, whose shared arrays begin where the widest loads can, if they have room for any.

    So does ptxas. nvJitLink, to which a program is a part of one, leaves them where they are, and loads word for word.
    """
    return _SHARED.sub(r"\1 .align 16 ", ptx)


def avoid_faults(ptx: str) -> str:
    """The same program, as every assembler gets it right."""
    for row in WORKAROUNDS:
        if any(guard in ptx for guard in row.guards):
            ptx = row.rewrite(ptx)
    return ptx


# Stores of a part of a float
#
#     st.global.b32 [%rd1], %rd3;        →    cvt.u32.u64 %narrow0, %rd3;
#                                             st.global.b32 [%rd1], %narrow0;

_PART_STORE = re.compile(r"^(\s*)(st\.[\w.:]+\.b(8|16|32)\s+\[[^\]]*\], )(\{[^}]*\}|%r[sd]?\d+);$", re.M)
# One of a wider register: most programs have none.
_NARROW = re.compile(r"\sst\.[\w.:]+\.b(?:32\s+\[[^\]]*\], [^;]*%rd|16\s+\[[^\]]*\], [^;]*%r(?!s)|8\s)")
_REGISTER = re.compile(r"%r[sd]?\d+")
# An instruction whose first type is that of floats, and what it writes; and what copies registers.
_FLOAT = re.compile(
    r"^\s*[a-z]\w*(?:\.(?!(?:[sub]\d+)\b)[\w:]+)*?\.(?:bf|f)(?:16|32|64)(?:x2)?[\w.]*\s+(%r[sd]?\d+)\b", re.M
)
_COPY = re.compile(r"^\s*(?:mov|selp)\.b(?:16|32|64)\s+(%r[sd]?\d+), (%r[sd]?\d+)(?:, (%r[sd]?\d+))?[,;]", re.M)
_BITS = {"%r": 32, "%rs": 16, "%rd": 64}


def store_integers(ptx: str) -> str:
    """The same program, where a stored part of a float passes an instruction of integers first."""
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

    body = _PART_STORE.sub(rewritten, body)
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


# Negations, bytes and recursion

_SHORT = re.compile(r"\t(neg|abs)\.s16 \t(%\w+), (%\w+);\n")
_BYTE = re.compile(r"\tld\.param\.s8 \t(%rs\d+), (.*);\n")
_NEGATION = re.compile(r"\tneg\.s32 \t(%\w+), (%\w+);\n")
_LEAST = re.compile(r"\t(?:min|max)\.s32 ")
_NAME = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
_CALLED = re.compile(r"\tcall(?:\.uni)?\s+(?:\([\w, ]*\),\s+)?([\w$]+)")
# What threads of a warp or a block do together.
_MEETING = re.compile(r"\t(?:shfl|vote|match|redux|bar|barrier)\.[^;]*;\n")
_MAY_PART = """\
	{{
	.reg .pred %apart;
	.reg .b32 %me;
	mov.b32 \t%me, %lanemask_eq;
	setp.eq.b32 \t%apart, %me, 0;
	@%apart bra \t$L__behind;
{meeting}$L__behind:
	}}
"""


def complement_operands(ptx: str) -> str:
    """The same program, where functions with several signed minima or maxima negate by `~x + 1`."""
    return by_function(ptx, _complement_operands)


def _complement_operands(body: str) -> str:
    if len(_LEAST.findall(body)) < 2:
        return body
    return _NEGATION.sub(lambda match: _complement(32, *match.groups()), body)


def spell_short(ptx: str) -> str:
    """The same program, where negations and absolute values of 16 bits are sums."""
    return _SHORT.sub(lambda match: _short(*match.groups()), ptx)


def load_bytes(ptx: str) -> str:
    """The same program, where signed bytes of parameters are loaded without a sign, which is copied then."""
    return _BYTE.sub(r"\tld.param.b8 \t\1, \2;\n\tcvt.s16.s8 \t\1, \1;\n", ptx)


def _short(name: str, result: str, operand: str) -> str:
    if name == "neg":
        return _complement(16, result, operand)
    return (
        f"\t{{\n\t.reg .b16 %sign;\n\tshr.s16 \t%sign, {operand}, 15;\n\txor.b16 \t{result}, {operand}, %sign;\n"
        f"\tsub.s16 \t{result}, {result}, %sign;\n\t}}\n"
    )


def _complement(bits: int, result: str, operand: str) -> str:
    return f"\tnot.b{bits} \t{result}, {operand};\n\tadd.s{bits} \t{result}, {result}, 1;\n"


def part_in_recursion(ptx: str) -> str:
    """A module in whose recursive functions threads may part, and in which they meet wherever they have to.

    That a thread has a lane is always so, but the assembler cannot know. (What it can take for the same in all threads, such as
    the mask of those that are here, does not do: threads that are apart share it.)
    """
    calls = {name[1]: set(_CALLED.findall(body)) for body in functions(ptx) if (name := _NAME.search(body))}
    if not recursive(calls):
        return ptx
    return _MEETING.sub(lambda meeting: _MAY_PART.format(meeting=meeting[0]), ptx)


WORKAROUNDS = (
    Workaround(
        "parts of floats",
        "A store of the low bits of a register that an instruction of floats wrote converts the number to an integer: of 3.0 it"
        " stores 3. LLVM writes such a store where memory is less aligned than a float, or where bits are looked at.",
        "the driver's assembler, 580",
        "tests/test_alignment.py",
        ("st.",),
        store_integers,
    ),
    Workaround(
        "negated operands of minima",
        "The least of three numbers (`VIMNMX3`) of which one is `-x` takes `x` for it.",
        "12.9 to 13.3",
        "tests/test_workarounds.py::test_three_numbers_and_one_of_them_negated",
        ("neg.s32",),
        complement_operands,
    ),
    Workaround(
        "short negations",
        "`-x` and `abs(x)` of 16 bits, read as a wider number, are 32768 for the least `x`.",
        "12.9 to 13.2",
        "tests/test_workarounds.py::test_every_short_number_negated_and_its_size",
        ("neg.s16", "abs.s16"),
        spell_short,
    ),
    Workaround(
        "signed bytes of functions",
        "A signed byte that a function gets or returns in a register of 16 bits is not equal to its number if that is below"
        " zero, and larger than any as an unsigned one.",
        "12.9 to 13.4",
        "tests/test_workarounds.py::test_signed_bytes_of_functions",
        ("ld.param.s8",),
        load_bytes,
    ),
    Workaround(
        "barriers in recursion",
        "A function that calls itself keeps its caller's barrier registers in its frame, and clears them: threads that wait at"
        " one go on without the others. The assembler takes them to be together behind it, and shuffles, votes and barriers do"
        " not wait either. A branch around each of those, at which threads might part for all that the assembler knows, makes"
        " it look at run time who is there, and wait for the rest.",
        "12.9 to 13.5, the newest, where it has the whole program",
        "tests/test_workarounds.py::test_threads_are_together_after_recursion",
        ("call",),
        part_in_recursion,
    ),
)
"""In this order."""
