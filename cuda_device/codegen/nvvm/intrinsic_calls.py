"""Calls in the language of LLVM 7: intrinsics that are newer, or were called otherwise, are instructions of PTX or older ones."""

from __future__ import annotations

import re
from collections.abc import Callable

from cuda_device.codegen.nvvm.typed_pointers import FLAGS, NAME, TYPE, FunctionNames, Rule, pointer_to, pointers, split
from cuda_device.errors import CompileError


def _call(to: FunctionNames, match: re.Match[str]) -> list[str]:
    result, type, name, operands = match["result"], match["type"], match["name"], split(match["operands"])
    for pattern, write in _CALLS.items():
        if found := re.fullmatch(pattern, name):
            return write(to, f"{result} = " if result else "", type, found, operands)
    types = ", ".join(operand.rsplit(" ", 1)[0] for operand in operands)
    old = _OLD_NAMES.get(name, name)
    to.declare(f"{pointers(type)} @{old}({pointers(types)}){match['rest']}")
    call = f"call {match['flags']}{type} @{old}({', '.join(operands)}){match['rest']}"
    return [f"  {f'{result} = ' if result else ''}{call}"]


def _warp_reduce(to: FunctionNames, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
    kind = match[1].removeprefix("u")
    letter = "u" if match[1].startswith("u") else "b" if kind in ("and", "or", "xor") else "s"
    return [_asm(result, type, f"redux.sync.{kind}.{letter}32 $0, $1, $2;", "=r,r,r", *operands, convergent=True)]


def _asm(to: str, type: str, code: str, constraints: str, *operands: str, convergent: bool = False) -> str:
    return (
        f'  {to}call {type} asm sideeffect "{code}", "{constraints}"({", ".join(operands)}){" convergent" * convergent}'
    )


_Call = Callable[[FunctionNames, str, str, re.Match[str], list[str]], list[str]]


def _code(code: str, constraints: str, *, convergent: bool = False) -> _Call:
    """A call that is one instruction of PTX."""

    def write(to: FunctionNames, result: str, type: str, _: re.Match[str], operands: list[str]) -> list[str]:
        return [_asm(result, type, code, constraints, *operands, convergent=convergent)]

    return write


def _barrier(to: FunctionNames, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
    to.declare("void @llvm.nvvm.barrier0() convergent nounwind")
    return ["  call void @llvm.nvvm.barrier0() convergent"]


def _barrier_reduce(to: FunctionNames, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
    kind, aligned = match[1], match[2] is not None
    flag, got = to.fresh(), to.fresh()
    lines = [f"  {flag} = zext {operands[1]} to i32"]
    instruction = f"{'bar' if aligned else 'barrier'}.red.{kind}"
    if kind == "popc":
        code = f"{{ .reg .pred %p; setp.ne.u32 %p, $1, 0; {instruction}.u32 $0, 0, %p; }}"
        return [*lines, _asm(result, "i32", code, "=r,r,~{memory}", f"i32 {flag}", convergent=True)]
    code = f"{{ .reg .pred %p; .reg .pred %q; setp.ne.u32 %p, $1, 0; {instruction}.pred %q, 0, %p; selp.u32 $0, 1, 0, %q; }}"
    return [
        *lines,
        _asm(f"{got} = ", "i32", code, "=r,r,~{memory}", f"i32 {flag}", convergent=True),
        f"  {result}icmp ne i32 {got}, 0",
    ]


def _vote(to: FunctionNames, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
    modes = {"all": 0, "any": 1, "uni": 2, "ballot": 3}
    both = to.fresh()
    to.declare("{ i32, i1 } @llvm.nvvm.vote.sync(i32, i32, i1) convergent nounwind")
    mask, flag = operands
    call = f"call {{ i32, i1 }} @llvm.nvvm.vote.sync({mask}, i32 {modes[match[1]]}, {flag}) convergent"
    return [f"  {both} = {call}", f"  {result}extractvalue {{ i32, i1 }} {both}, {0 if type == 'i32' else 1}"]


def _shuffle(to: FunctionNames, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
    modes = {"idx": 0, "up": 1, "down": 2, "bfly": 3}
    both = to.fresh()
    to.declare("{ i32, i1 } @llvm.nvvm.shfl.sync.i32(i32, i32, i32, i32, i32) convergent nounwind")
    mask, *others = operands
    listed = ", ".join((mask, f"i32 {modes[match[1]]}", *others))
    return [
        f"  {both} = call {{ i32, i1 }} @llvm.nvvm.shfl.sync.i32({listed}) convergent",
        f"  {result}extractvalue {{ i32, i1 }} {both}, 0",
    ]


_INTEGERS = {"i8": "8", "i16": "16", "i32": "32", "i64": "64"}


def _saturate(to: FunctionNames, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
    """A conversion from float to integer. PTX's saturates; of a NaN it makes 0 in 32 bits or fewer of float32, else not."""
    sign, real = match[1], operands[0].split()[0]
    value = operands[0]
    lines = []
    if real == "half":
        wide = to.fresh()
        lines.append(f"  {wide} = fpext {value} to float")
        real, value = "float", f"float {wide}"
    bits = _INTEGERS[type]
    register, carried = ("l", "i64") if bits == "64" else ("r", "i32")
    got, narrow, none = to.fresh(), to.fresh(), to.fresh()
    source = {"float": ("f32", "f"), "double": ("f64", "d")}[real]
    code = f"cvt.rzi.{sign}{bits}.{source[0]} $0, $1;"
    lines.append(f'  {got} = call {carried} asm "{code}", "={register},{source[1]}"({value})')
    if carried != type:
        lines.append(f"  {narrow} = trunc {carried} {got} to {type}")
        got = narrow
    lines.append(f"  {none} = fcmp uno {value}, {value.split()[1]}")
    lines.append(f"  {result}select i1 {none}, {type} 0, {type} {got}")
    return lines


def _to_float8(to: FunctionNames, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
    code = f"cvt.rn.satfinite.{match[1]}.f32 $0, $1, $2;"
    return [f'  {result}call i16 asm "{code}", "=h,f,f"({", ".join(operands)})']


def _from_float8(to: FunctionNames, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
    bits = to.fresh()
    return [
        f'  {bits} = call i32 asm "cvt.rn.f16x2.{match[1]} $0, $1;", "=r,h"({operands[0]})',
        f"  {result}bitcast i32 {bits} to <2 x half>",
    ]


# By patterns of names: what a call becomes.
_CALLS: dict[str, _Call] = {
    r"llvm\.nvvm\.barrier\.cta\.sync\.aligned\.all": _barrier,
    r"llvm\.nvvm\.barrier\.cta\.red\.(\w+?)(\.aligned)?\.all": _barrier_reduce,
    r"llvm\.nvvm\.vote\.(\w+)\.sync": _vote,
    r"llvm\.nvvm\.shfl\.sync\.(\w+)\.i32": _shuffle,
    r"llvm\.nvvm\.redux\.sync\.(\w+)": _warp_reduce,
    r"llvm\.nvvm\.activemask": _code("activemask.b32 $0;", "=r", convergent=True),
    r"llvm\.nvvm\.nanosleep": _code("nanosleep.u32 $0;", "r"),
    r"llvm\.nvvm\.exit": _code("exit;", ""),
    r"llvm\.nvvm\.read\.ptx\.sreg\.lanemask\.lt": _code("mov.u32 $0, %lanemask_lt;", "=r"),
    r"llvm\.nvvm\.read\.ptx\.sreg\.laneid": _code("mov.u32 $0, %laneid;", "=r"),
    r"llvm\.nvvm\.read\.ptx\.sreg\.dynamic_smem_size": _code("mov.u32 $0, %dynamic_smem_size;", "=r"),
    r"llvm\.fpto([su])i\.sat\..*": _saturate,
    r"llvm\.nvvm\.ff\.to\.(e\dm\dx2)\.rn": _to_float8,
    r"llvm\.nvvm\.(e\dm\dx2)\.to\.f16x2\.rn": _from_float8,
}
# Those that only had other names.
_OLD_NAMES = {f"llvm.nvvm.match.all.sync.{type}p": f"llvm.nvvm.match.all.sync.{type}" for type in ("i32", "i64")}


def _function(to: FunctionNames, match: re.Match[str]) -> list[str]:
    """A call of a function: what it gets in memory is of its own type, and alignments are metadata."""
    result, type, name, operands, rest = match.groups()
    before, given = [], []
    for operand in split(operands):
        by_value = re.fullmatch(rf"ptr byval\(({TYPE})\) align (\d+) (\S+)", operand)
        if by_value:
            pointee, align, pointer = by_value.groups()
            lines, place = pointer_to(to, pointee, None, pointer)
            before += lines
            given.append(f"{pointee}* byval align {align} {place}")
        else:
            given.append(operand)
    aligned, (type, *given) = alignments([type, *given])
    numbers = ", ".join(f"i32 {each}" for each in aligned)
    metadata = f", !callalign !{{{numbers}}}" if aligned else ""
    return [*before, f"  {result or ''}call {type.strip()} @{name}({', '.join(given)}){rest}{metadata}"]


def in_memory(parameter: str) -> str:
    """A parameter in memory, whose type was that of a pointer to it; any other is itself."""
    return re.sub(rf"^ptr byval\(({TYPE})\)", r"\1* byval", parameter)


def alignments(parts: list[str]) -> tuple[list[int], list[str]]:
    """The alignments of a result and of parameters, as metadata writes them, beside their number; and the parts without them."""
    found = [(i, re.search(r" ?alignstack\((\d+)\)", part)) for i, part in enumerate(parts)]
    numbers = [i << 16 | int(match[1]) for i, match in found if match]
    return numbers, [re.sub(r" ?alignstack\(\d+\)", "", part) for part in parts]


def _negate(_: FunctionNames, match: re.Match[str]) -> list[str]:
    result, flags, type, value = match.groups()
    zero = "-0.0" if type in ("float", "double") else "0xH8000"
    if type.startswith("<"):
        count, element = type[1:-1].split(" x ")
        each = f"{element} {'0xH8000' if element == 'half' else '-0.0'}"
        zero = f"<{', '.join([each] * int(count))}>"
    return [f"  {result} = fsub {flags}{type} {zero}, {value}"]


def _intrinsic(name: str) -> re.Pattern[str]:
    """What calls of intrinsics of such names look like."""
    return re.compile(
        rf"  (?:(?P<result>{NAME}) = )?call (?P<flags>{FLAGS})(?P<type>{TYPE}) "
        rf"@(?P<name>llvm\.{name})\((?P<operands>.*)\)(?P<rest>[\w ]*)"
    )


NEWEST: tuple[re.Pattern[str], Rule] = (
    _intrinsic(
        r"nvvm\.(?:activemask|nanosleep|redux\.sync\.\w+|barrier\.cta\.[\w.]+|read\.ptx\.sreg\.dynamic_smem_size)"
    ),
    _call,
)
"""Those that libNVVM of CUDA 13.0 does not know in LLVM's present language either."""
RULES: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (_intrinsic(r"[\w.]+"), _call),
    (re.compile(rf"  ({NAME} = )?call ((?:alignstack\(\d+\) )?{TYPE}) @([\w.]+)\((.*)\)([\w ]*)"), _function),
    (re.compile(rf"  ({NAME}) = fneg ({FLAGS})({TYPE}) (\S+)"), _negate),
)
"""What calls, and an operation that once was another one, look like in LLVM's present language."""


# bfloat in the language of LLVM 7, which does not have it: an integer of 16 bits, and arithmetic in float32.
#
#     %v3 = fadd bfloat %v1, %v2       →    both widened to float, fadd, and rounded to the nearest, ties to even
#
# A sum, difference, product or quotient that is rounded to float32 first is the one that is rounded once: 24 bits are more than
# twice 8 and 2.


def _widen(to: FunctionNames, value: str, result: str = "") -> tuple[list[str], str]:
    """Lines that make a float of a bfloat; and its name."""
    wide, shifted, result = to.fresh(), to.fresh(), result or to.fresh()
    lines = [
        f"  {wide} = zext bfloat {value} to i32",
        f"  {shifted} = shl i32 {wide}, 16",
        f"  {result} = bitcast i32 {shifted} to float",
    ]
    return lines, result


def _round(to: FunctionNames, value: str, result: str) -> list[str]:
    """Lines that round a float to a bfloat. A NaN keeps the upper part of its bits, and is quiet."""
    bits, high, odd, bias, sum, up, quiet, none, chosen = (to.fresh() for _ in range(9))
    return [
        f"  {bits} = bitcast float {value} to i32",
        f"  {high} = lshr i32 {bits}, 16",
        f"  {odd} = and i32 {high}, 1",
        f"  {bias} = add i32 {odd}, 32767",
        f"  {sum} = add i32 {bits}, {bias}",
        f"  {up} = lshr i32 {sum}, 16",
        f"  {quiet} = or i32 {high}, 64",
        f"  {none} = fcmp uno float {value}, {value}",
        f"  {chosen} = select i1 {none}, i32 {quiet}, i32 {up}",
        f"  {result} = trunc i32 {chosen} to bfloat",
    ]


def _extend(to: FunctionNames, match: re.Match[str]) -> list[str]:
    result, value, wanted = match.groups()
    if wanted == "float":
        return _widen(to, value, result)[0]
    lines, single = _widen(to, value)
    return [*lines, f"  {result} = fpext float {single} to double"]


def _truncate(to: FunctionNames, match: re.Match[str]) -> list[str]:
    result, value = match.groups()
    return _round(to, value, result)


def _arithmetic(to: FunctionNames, match: re.Match[str]) -> list[str]:
    result, operation, a, b = match.groups()
    return _computed(to, result, operation, a, b)


def _computed(to: FunctionNames, result: str, operation: str, a: str, b: str) -> list[str]:
    first, x = _widen(to, a)
    second, y = _widen(to, b)
    exact = to.fresh()
    return [*first, *second, f"  {exact} = {operation} float {x}, {y}", *_round(to, exact, result)]


def _packed(to: FunctionNames, match: re.Match[str]) -> list[str]:
    """Arithmetic of vectors, an element at a time."""
    result, operation, count, a, b = match.groups()
    vector, lines, whole = f"<{count} x bfloat>", [], "undef"
    for i in range(int(count)):
        x, y, z = to.fresh(), to.fresh(), to.fresh()
        lines += [f"  {x} = extractelement {vector} {a}, i32 {i}", f"  {y} = extractelement {vector} {b}, i32 {i}"]
        lines += _computed(to, z, operation, x, y)
        name = result if i == int(count) - 1 else to.fresh()
        lines.append(f"  {name} = insertelement {vector} {whole}, bfloat {z}, i32 {i}")
        whole = name
    return lines


def _compare(to: FunctionNames, match: re.Match[str]) -> list[str]:
    result, how, a, b = match.groups()
    first, x = _widen(to, a)
    second, y = _widen(to, b)
    return [*first, *second, f"  {result} = fcmp {how} float {x}, {y}"]


def _negate_bfloat(_: FunctionNames, match: re.Match[str]) -> list[str]:
    result, value = match.groups()
    return [f"  {result} = xor bfloat {value}, -32768"]


def _refuse(_: FunctionNames, match: re.Match[str]) -> list[str]:
    raise CompileError(
        f"LTO-IR for GPUs below sm_100 has no {match[1]} of bfloat16",
        help="compile for sm_100 or newer, compute in float32, or make PTX",
    )


BFLOAT_RULES: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (re.compile(rf"  ({NAME}) = fpext bfloat (\S+) to (float|double)"), _extend),
    (re.compile(rf"  ({NAME}) = fptrunc float (\S+) to bfloat"), _truncate),
    (re.compile(rf"  ({NAME}) = (fadd|fsub|fmul|fdiv) {FLAGS}bfloat (\S+), (\S+)"), _arithmetic),
    (re.compile(rf"  ({NAME}) = (fadd|fsub|fmul|fdiv) {FLAGS}<(\d) x bfloat> (\S+), (\S+)"), _packed),
    (re.compile(rf"  ({NAME}) = fcmp {FLAGS}(\w+) bfloat (\S+), (\S+)"), _compare),
    (re.compile(rf"  ({NAME}) = fneg {FLAGS}bfloat (\S+)"), _negate_bfloat),
    (re.compile(r"  .* = (?:call bfloat @llvm\.)?(\w+to\w+|f\w+|[\w.]+bf16)\b.*\bbfloat\b.*"), _refuse),
)
"""What says more of a bfloat than where its bits go."""
