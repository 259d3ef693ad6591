"""Rewrites PTX by two tables: peephole optimisations, and workarounds for bugs of NVIDIA's assemblers and of LLVM.

    apply_peepholes(ptx)     applies `PEEPHOLES`
    avoid_faults(ptx)        applies `WORKAROUNDS`

They do what LLVM cannot express: a property of an instruction that only the assembler uses, or a form that the assembler
recognises. A peephole states its gain, the time of a kernel on an H100 without it, relative to that with it
(`docs/optimisations.md`); one that does not gain at least 2 % on any kernel is removed. A workaround states the versions that
have the bug; one whose versions `pyproject.toml` excludes is removed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from cuda_device.ir.dominance import recursive

_FUNCTION = re.compile(r"^(?=.*\.(?:entry|func)\b)", re.M)


def functions(ptx: str) -> list[str]:
    """Splits a module into its head and its functions, each of which has its own registers."""
    return _FUNCTION.split(ptx)


def by_function(ptx: str, change: Callable[[str], str]) -> str:
    """Changes each function of a module."""
    return "".join(map(change, functions(ptx)))


# Loop latches
#
#     setp.eq.b32 %p6, %r1, %r2;                 setp.ne.b32 %p6, %r1, %r2;
#     @%p6 bra $L__BB0_4;                  →     @%p6 bra $L__BB0_10;
#     bra.uni $L__BB0_10;                    $L__BB0_4:
# $L__BB0_4:

_OPPOSITES = {"eq": "ne", "lt": "ge", "le": "gt"}
_OPPOSITES |= {b: a for a, b in _OPPOSITES.items()}

_PREDICATE = re.compile(r"%p\d+")
# Only of integers: loops do not count with floats, and the inverse of a comparison of floats is an unordered one.
_COMPARISON = re.compile(rf"\tsetp\.({'|'.join(_OPPOSITES)})\.([usb]\d+) \t(%p\d+),")
_PAIR = re.compile(r"\t@(%p\d+) bra \t(\$\w+);\n\tbra\.uni \t(\$\w+);\n(?=\2:)")


def invert_latches(ptx: str) -> str:
    """Replaces each such pair of branches by one, if nothing else uses its condition. Gain: convolution 1.34.

    The assembler looks for loops to unroll before it inverts branches, and recognises only loops that end with a conditional
    branch to their head. LLVM ends a loop with two branches if the exit block follows it.
    """
    return by_function(ptx, _invert)


def _invert(body: str) -> str:
    pairs = {pair[1]: pair for pair in _PAIR.finditer(body)}
    if not pairs:
        return body
    uses = Counter(_PREDICATE.findall(body))
    turned = {name for name in pairs if uses[name] == 2}  # the comparison and the branch
    inverted = {name for _, _, name in _COMPARISON.findall(body)} & turned

    def turn(comparison: re.Match[str]) -> str:
        sign, type, name = comparison.groups()
        return f"\tsetp.{_OPPOSITES[sign]}.{type} \t{name}," if name in inverted else comparison[0]

    def join(pair: re.Match[str]) -> str:
        name, _, back = pair.groups()
        return f"\t@{name} bra \t{back};\n" if name in inverted else pair[0]

    return _PAIR.sub(join, _COMPARISON.sub(turn, body))


# Unrolled loops

_LOOP = re.compile(r"^(\$\w+:\n)((?:\t.*\n)*?\t@!?%p\d+ bra \t(\$\w+);\n)", re.M)
_ACCESSES = ("\tst.global", "\tld.shared")
_UNROLLED = 4
"""How often LLVM unrolls a loop, at most."""


def mark_nounroll(ptx: str) -> str:
    """Adds the pragma `nounroll` to unrolled loops that write to global memory or read shared memory. Gain: convolution 1.34.

    The assembler unrolls a loop that LLVM has unrolled by 4 again, to 16 iterations. Sixteen loads followed by sixteen stores
    evict the cache lines of other warps, and a loop over shared memory is short: on each entry, the unrolled code tests for
    sixteen iterations, then for eight, and runs four. Loops that only read global memory gain from unrolling.
    """
    return _LOOP.sub(_marked, ptx) if _is_unrolled(ptx) else ptx


def _is_unrolled(text: str) -> bool:
    return any(text.count(access) >= _UNROLLED for access in _ACCESSES)


def _marked(loop: re.Match[str]) -> str:
    label, body, target = loop.groups()
    if label != f"{target}:\n" or not _is_unrolled(body) or ".pragma" in body:
        return loop[0]
    return f'{label}\t.pragma "nounroll";\n{body}'


# Stores to memory that is not read
#
#     st.global.b32 [%rd2], %r1;         →    st.global.L1::no_allocate.b32 [%rd2], %r1;

_STORE = re.compile(r"(?<=[\t ])st\.global\.(?=[vbfsu])")
# Instructions that may read what the kernel has written: atomics, calls, and loads from memory that is not read-only or private.
_READS = re.compile(r"[\t ](?:atom|red|call|ld(?!\.(?:global\.nc|param|shared|local|const)\.))\b")


def mark_no_allocate(ptx: str) -> str:
    """Lets stores bypass the L1 cache if the kernel reads nothing that it writes. Gain: softmax 1.07.

    A store would allocate a line of the cache, which is useless then. All loads of such a kernel are `ld.global.nc` (see
    `Aliasing` in `codegen/emit/llvm_writer`).
    """
    return ptx if _READS.search(ptx) else _STORE.sub("st.global.L1::no_allocate.", ptx)


# Workarounds for bugs of NVIDIA's assemblers, and of LLVM
#
# A workaround costs an instruction or two. It is applied for all assemblers, because which one will read the text is not known
# yet. Bugs that are avoided in LLVM IR are described in `codegen/emit/llvm_writer`.


_SHARED = re.compile(r"^(\s*\.shared) \.align [1248] (?=\.b8 \S+\[(?:1[6-9]|[2-9]\d|\d{3,})\];)", re.M)


def align_shared(ptx: str) -> str:
    """Aligns shared arrays of 16 bytes or more to 16 bytes, for wide loads.

    ptxas does the same. nvJitLink keeps the alignment of linked code, and splits wide loads.
    """
    return _SHARED.sub(r"\1 .align 16 ", ptx)


# Stores of the low bits of floats
#
#     st.global.b32 [%rd1], %rd3;        →    cvt.u32.u64 %narrow0, %rd3;
#                                             st.global.b32 [%rd1], %narrow0;

_PART_STORE = re.compile(r"^(\s*)(st\.[\w.:]+\.b(8|16|32)\s+\[[^\]]*\], )(\{[^}]*\}|%r[sd]?\d+);$", re.M)
# A store of a part of a register.
_NARROW = re.compile(r"\sst\.[\w.:]+\.b(?:32\s+\[[^\]]*\], [^;]*%rd|16\s+\[[^\]]*\], [^;]*%r(?!s)|8\s)")
_REGISTER = re.compile(r"%r[sd]?\d+")
# An instruction of floats, by its first type, with its result; and a copy of registers.
_FLOAT = re.compile(
    r"^\s*[a-z]\w*(?:\.(?!(?:[sub]\d+)\b)[\w:]+)*?\.(?:bf|f)(?:16|32|64)(?:x2)?[\w.]*\s+(%r[sd]?\d+)\b", re.M
)
_COPY = re.compile(r"^\s*(?:mov|selp)\.b(?:16|32|64)\s+(%r[sd]?\d+), (%r[sd]?\d+)(?:, (%r[sd]?\d+))?[,;]", re.M)
_BITS = {"%r": 32, "%rs": 16, "%rd": 64}


def store_integers(ptx: str) -> str:
    """Extracts the stored bits of floats by an integer instruction first. Bug of the driver's assembler, 580.

    A store of the low bits of the result of a float instruction converts the number to an integer: for 3.0 it stores 3. LLVM
    writes such stores for unaligned memory and for reinterpreted bits (`tests/device/test_alignment.py`).
    """
    return by_function(ptx, _in_function) if _NARROW.search(ptx) else ptx


def _in_function(body: str) -> str:
    floats = _floats(body)
    temporaries: list[str] = []

    def rewritten(store: re.Match[str]) -> str:
        blanks, head, bits, registers = store.groups()
        lines: list[str] = []
        wide = [name for name in _REGISTER.findall(registers) if name in floats and _width(name) > int(bits)]

        def part(register: re.Match[str]) -> str:
            name = register[0]
            # The registers of a vector have the same width, that of the extracted bits.
            if not wide or (name not in wide and _width(name) == 32):
                return name
            temporaries.append(f"%narrow{len(temporaries)}")
            if name.startswith("%rd"):
                lines.append(f"{blanks}cvt.u32.u64 \t{temporaries[-1]}, {name};")
            elif name.startswith("%rs"):
                lines.append(f"{blanks}cvt.u32.u16 \t{temporaries[-1]}, {name};")
            else:
                lines.append(f"{blanks}and.b32 \t{temporaries[-1]}, {name}, {(1 << int(bits)) - 1};")
            return temporaries[-1]

        stored = _REGISTER.sub(part, registers)
        return "\n".join([*lines, f"{blanks}{head}{stored};"])

    body = _PART_STORE.sub(rewritten, body)
    return body.replace("{\n", f"{{\n\t.reg .b32 \t%narrow<{len(temporaries)}>;\n", 1) if temporaries else body


def _width(register: str) -> int:
    """The bits of a register."""
    return _BITS[register.rstrip("0123456789")]


def _floats(body: str) -> set[str]:
    """The registers that hold results of instructions of floats."""
    floats = set(_FLOAT.findall(body))
    copies = _COPY.findall(body)
    while True:
        more = {into for into, *sources in copies if into not in floats and not floats.isdisjoint(sources)}
        if not more:
            return floats
        floats |= more


# Negations, bytes and recursion

_SHORT_NEGATION = re.compile(r"\tneg\.s16 \t(%\w+), (%\w+);\n")
_SHORT_SIZE = re.compile(r"\tabs\.s16 \t(%\w+), (%\w+);\n")
_BYTE = re.compile(r"\tld\.param\.s8 \t(%rs\d+), (.*);\n")
_NEGATION = re.compile(r"\tneg\.s32 \t(%\w+), (%\w+);\n")
_LEAST = re.compile(r"\t(?:min|max)\.s32 ")
_NAME = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
_CALLED = re.compile(r"\tcall(?:\.uni)?\s+(?:\([\w, ]*\),\s+)?([\w$]+)")
# Instructions at which the threads of a warp or a block synchronise.
_MEETING = re.compile(r"\t(?:shfl|vote|match|redux|bar|barrier)\.[^;]*;\n")
_COMPLEMENT = r"""\tnot.b{0} \t\1, \2;
\tadd.s{0} \t\1, \1, 1;
"""
_SIZE = r"""\t{
\t.reg .b16 %sign;
\tshr.s16 \t%sign, \2, 15;
\txor.b16 \t\1, \2, %sign;
\tsub.s16 \t\1, \1, %sign;
\t}
"""
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
    """Negates by `~x + 1` in functions with several signed minima or maxima. Bug of 12.9 to 13.3.

    The minimum or maximum of three numbers (`VIMNMX3`) uses `x` for an operand `-x`.
    """

    def change(body: str) -> str:
        return _NEGATION.sub(_COMPLEMENT.format(32), body) if len(_LEAST.findall(body)) > 1 else body

    return by_function(ptx, change)


def spell_short(ptx: str) -> str:
    """Computes negations and absolute values of 16 bits by additions. Bug of 12.9 to 13.2.

    `-x` and `abs(x)` of 16 bits, extended to more bits, are 32768 for -32768.
    """
    return _SHORT_SIZE.sub(_SIZE, _SHORT_NEGATION.sub(_COMPLEMENT.format(16), ptx))


def load_bytes(ptx: str) -> str:
    """Loads signed bytes of parameters without their sign, and then extends them. Bug of 12.9 to 13.4.

    A negative signed byte that a function takes or returns in a register of 16 bits compares wrongly.
    """
    return _BYTE.sub(r"\tld.param.b8 \t\1, \2;\n\tcvt.s16.s8 \t\1, \1;\n", ptx)


def part_in_recursion(ptx: str) -> str:
    """Puts a branch around each synchronising instruction of a module with recursion. Bug of 12.9 to 13.5, the newest.

    A recursive function saves its caller's barrier registers in its frame and clears them, so threads that wait at such a
    barrier continue without the others. An assembler that has the whole program assumes that the warp has converged there, and
    shuffles, votes and barriers do not wait. With a branch around each of them that may diverge, it waits for the other threads
    at run time. The branch is never taken, because each thread has a lane, but the assembler does not know that. A condition
    that it takes for the same in all threads, such as a test of `activemask`, does not work.
    """
    calls = {name[1]: set(_CALLED.findall(body)) for body in functions(ptx) if (name := _NAME.search(body))}
    if not recursive(calls):
        return ptx
    return _MEETING.sub(lambda meeting: _MAY_PART.format(meeting=meeting[0]), ptx)


_BLOCK_LIMIT = re.compile(r"(?m)^(\.maxntid .*\n)(?!\.minnctapersm)")


def state_resident_blocks(ptx: str) -> str:
    """States that a block at a time is enough, in kernels with `setmaxnreg`. All versions up to 13.5, the newest.

    The assembler ignores `setmaxnreg` unless both directives determine the registers with which the threads start.
    """
    return _BLOCK_LIMIT.sub(r"\1.minnctapersm 1\n", ptx)


# Subnormal numbers of bfloat16
#
#     setp.gt.ftz.bf16 %p1, %rs1, %rs2;  →    setp.gt.bf16 %p1, %rs1, %rs2;

_FLUSHING = re.compile(r"(\t(?:setp?|min|max|add|sub|mul|fma|neg|abs)(?:\.\w+)*?)\.ftz(?=\.bf16)")


def keep_subnormal(ptx: str) -> str:
    """Removes `.ftz` from instructions that compute with or compare bfloat16, which do not have it. Bug of LLVM 22.

    All assemblers refuse it there. `ex2` of bfloat16 requires it, and conversions may have it.
    """
    return _FLUSHING.sub(r"\1", ptx)


Rows = tuple[tuple[Callable[[str], str], tuple[str, ...]], ...]
"""Rewritings, in their order, each with texts: programs without any of them are not rewritten."""

PEEPHOLES: Rows = (
    (invert_latches, ("\tbra.uni \t",)),
    (mark_nounroll, ("bra \t",)),
    (mark_no_allocate, ("ld.global.nc",)),
)
WORKAROUNDS: Rows = (
    (store_integers, ("st.",)),
    (complement_operands, ("neg.s32",)),
    (spell_short, ("neg.s16", "abs.s16")),
    (load_bytes, ("ld.param.s8",)),
    (part_in_recursion, ("call",)),
    (state_resident_blocks, ("setmaxnreg",)),
    (keep_subnormal, (".ftz.bf16",)),
)


def apply_peepholes(ptx: str) -> str:
    """Applies all peephole optimisations."""
    return _rewritten(ptx, PEEPHOLES)


def avoid_faults(ptx: str) -> str:
    """Applies all workarounds."""
    return _rewritten(ptx, WORKAROUNDS)


def _rewritten(ptx: str, rows: Rows) -> str:
    for rewrite, texts in rows:
        if any(map(ptx.__contains__, texts)):
            ptx = rewrite(ptx)
    return ptx
