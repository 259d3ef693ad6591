"""Ways round mistakes of NVIDIA's assemblers.

- The least of three numbers (`VIMNMX3`) of which one is `-x` takes `x` for it: ptxas 12.9 to 13.3. So `~x + 1` is written.
- `-x` and `abs(x)` of 16 bits, read as a wider number, are 32768 for the least `x`: 12.9 to 13.2. So `~x + 1` and
  `(x ^ sign) - sign` are written.
- A signed byte that a function gets or returns, in a register of 16 bits, is not equal to its number if that is below zero, and
  larger than any as an unsigned one: 12.9 to 13.4. So it is loaded without a sign, which is copied then.
- A function that calls itself keeps its caller's barrier registers in its frame, and clears them: threads that wait at one go
  on without the others. The assembler takes them to be together behind it, and shuffles, votes and barriers do not wait either:
  12.9 to 13.5, the newest, where it has the whole program. So there is a branch around each of those, at which threads might
  part for all that it knows; then it looks at run time who is there, and waits for the rest.

The fuzzer found all but the second on a GPU. The texts that come out mean the same, cost an instruction more, and are there for
every assembler: which one will read them is not known when they are written.

    neg.s32 %r2, %r1;      →      not.b32 %r2, %r1;
                                  add.s32 %r2, %r2, 1;
"""

from __future__ import annotations

from cuda_device.codegen.gpu.branches import by_function, functions
from cuda_device.ir.call_graph import recursive
from cuda_device.lazy_patterns import pattern

_WORDS = ("neg.s", "abs.s16", "ld.param.s8", "call")
"""One of these is in every program that goes wrong."""
_SHORT = pattern(r"\t(neg|abs)\.s16 \t(%\w+), (%\w+);\n")
_BYTE = pattern(r"\tld\.param\.s8 \t(%rs\d+), (.*);\n")
_NEGATION = pattern(r"\tneg\.s32 \t(%\w+), (%\w+);\n")
_LEAST = pattern(r"\t(?:min|max)\.s32 ")
_NAME = pattern(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
_CALLED = pattern(r"\tcall(?:\.uni)? (?:\([\w, ]*\), )?([\w$]+),?")
# What threads of a warp or a block do together.
_MEETING = pattern(r"\t(?:shfl|vote|match|redux|bar|barrier)\.[^;]*;\n")
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


def take(ptx: str) -> str:
    """The same program, as every assembler gets it right."""
    return _meet(by_function(ptx, _spell)) if any(word in ptx for word in _WORDS) else ptx


def _spell(body: str) -> str:
    """A function without instructions that go wrong."""
    body = _BYTE.sub(r"\tld.param.b8 \t\1, \2;\n\tcvt.s16.s8 \t\1, \1;\n", body)
    body = _SHORT.sub(lambda match: _short(*match.groups()), body)
    if len(_LEAST.findall(body)) > 1:
        body = _NEGATION.sub(lambda match: _complement(32, *match.groups()), body)
    return body


def _short(name: str, result: str, operand: str) -> str:
    if name == "neg":
        return _complement(16, result, operand)
    return (
        f"\t{{\n\t.reg .b16 %sign;\n\tshr.s16 \t%sign, {operand}, 15;\n\txor.b16 \t{result}, {operand}, %sign;\n"
        f"\tsub.s16 \t{result}, {result}, %sign;\n\t}}\n"
    )


def _complement(bits: int, result: str, operand: str) -> str:
    return f"\tnot.b{bits} \t{result}, {operand};\n\tadd.s{bits} \t{result}, {result}, 1;\n"


def _meet(ptx: str) -> str:
    """A module in whose recursive functions threads may part, and in which they meet wherever they have to.

    That a thread has a lane is always so, but the assembler cannot know. (What it can take for the same in all threads, such as
    the mask of those that are here, does not do: threads that are apart share it.)
    """
    calls = {name[1]: set(_CALLED.findall(body)) for body in functions(ptx) if (name := _NAME.search(body))}
    if not recursive(calls):
        return ptx
    return _MEETING.sub(lambda meeting: _MAY_PART.format(meeting=meeting[0]), ptx)
