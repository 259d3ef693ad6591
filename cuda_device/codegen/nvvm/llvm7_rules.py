"""What lines of LLVM IR become in the language of LLVM 7: memory, calls of intrinsics, bfloat.

    store float %v, ptr %p, align 4      →   %q = bitcast i8* %p to float*
                                             store float %v, float* %q, align 4

A pointer gets the type of what is there where it is used, and is one to a byte elsewhere. Atomic loads, stores and
compare-and-swap, which had no scopes, and fences are inline PTX. Patterns of types, and the names that a module needs more, stand
here, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cuda_device.errors import CompileError
from cuda_device.lazy_dataclasses import dataclass, field

FLAGS = r"(?:(?:nnan|ninf|nsz|arcp|contract|afn|reassoc|fast) )*"
TYPE = r"(?:ptr(?: addrspace\(\d+\))?|\{.*?\}|\[.*?\]|<[^>]*>|%[\w.]+|\w+)"
SPACE = r"(?: addrspace\((\d+)\))?"
_UNTYPED = re.compile(r"\bptr( addrspace\(\d+\))?(?![\w.])")
NAME = r"%[\w.]+"


@dataclass(slots=True)
class FunctionNames:
    """Names for values that the translation makes, and the declarations of functions that it calls."""

    declarations: set[str] = field(default_factory=set)
    count: int = 0

    def fresh(self) -> str:
        """A register that nothing else has."""
        self.count += 1
        return f"%old.{self.count}"

    def declare(self, text: str) -> None:
        """Notes a function that is defined elsewhere."""
        self.declarations.add(f"declare {text}")


Rule = Callable[[FunctionNames, re.Match[str]], list[str]]
"""What the lines that match a pattern become. Pointers in them may be written as before."""


def typed(space: str | None) -> str:
    """The type of all pointers that are not used at the moment."""
    return f"i8{space or ''}*"


def pointers(text: str) -> str:
    """The text with typed pointers, and with bfloat as the integer that it is in memory."""
    text = _UNTYPED.sub(lambda match: typed(match[1]), text)
    text = re.sub(r"\b0xR([0-9A-F]{4})\b", lambda match: str(int(match[1], 16)), text)
    return re.sub(r"\bbfloat\b", "i16", text)


def split(text: str) -> list[str]:
    """The parts of a list, at the commas that are in no bracket."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += letter in "([{<"
        depth -= letter in ")]}>"
        if letter == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


# Accesses


def _load(to: FunctionNames, match: re.Match[str]) -> list[str]:
    result, volatile, type, space, pointer, rest = match.groups()
    before, operand = pointer_to(to, type, space, pointer)
    return [*before, f"  {result} = load {volatile or ''}{type}, {type}{space or ''}* {operand}{rest}"]


def _store(to: FunctionNames, match: re.Match[str]) -> list[str]:
    volatile, type, value, space, pointer, rest = match.groups()
    before, operand = pointer_to(to, type, space, pointer)
    return [*before, f"  store {volatile or ''}{type} {value}, {type}{space or ''}* {operand}{rest}"]


def _element(to: FunctionNames, match: re.Match[str]) -> list[str]:
    result, inbounds, type, space, pointer, indices = match.groups()
    before, operand = pointer_to(to, type, space, pointer)
    moved = to.fresh()
    return [
        *before,
        f"  {moved} = getelementptr {inbounds or ''}{type}, {type}{space or ''}* {operand}, {indices}",
        f"  {result} = bitcast {_pointee(to, type, indices)}{space or ''}* {moved} to {typed(space)}",
    ]


def _pointee(to: FunctionNames, type: str, indices: str) -> str:
    """What a `getelementptr` points to; with more than one index, a member."""
    for index in split(indices)[1:]:
        inside = type[1:-1]
        type = split(inside)[int(index.split()[-1])] if type.startswith("{") else inside.split(" x ", 1)[1]
    return type


def pointer_to(to: FunctionNames, type: str, space: str | None, pointer: str) -> tuple[list[str], str]:
    """Lines that make a pointer to `type` of one to a byte; and the operand. A pointer may be one to an element of a variable."""
    before = []
    constant = re.fullmatch(rf"getelementptr(?: inbounds)? \(({TYPE}), ptr{SPACE} (@[\w.]+), (.*)\)", pointer)
    if constant:
        element, _, name, indices = constant.groups()
        byte, moved, whole = to.fresh(), to.fresh(), to.fresh()
        before = [
            f"  {byte} = bitcast ptr{space or ''} {name} to {element}{space or ''}*",
            f"  {moved} = getelementptr {element}, {element}{space or ''}* {byte}, {indices}",
            f"  {whole} = bitcast {element}{space or ''}* {moved} to {typed(space)}",
        ]
        pointer = whole
    operand = to.fresh()
    return [*before, f"  {operand} = bitcast ptr{space or ''} {pointer} to {type}{space or ''}*"], operand


def _alloca(to: FunctionNames, match: re.Match[str]) -> list[str]:
    result, type, align = match.groups()
    memory = to.fresh()
    return [f"  {memory} = alloca {type}, align {align}", f"  {result} = bitcast {type}* {memory} to i8*"]


# Atomics and fences

_SPACES = {None: "", " addrspace(1)": ".global", " addrspace(3)": ".shared"}
_SCOPES = {None: "sys", "device": "gpu", "block": "cta"}
_ORDERS = {
    "monotonic": "relaxed",
    "acquire": "acquire",
    "release": "release",
    "acq_rel": "acq_rel",
    "seq_cst": "acquire",
}
# Register constraints; bytes travel in registers of 16 bits.
_REGISTERS = {"i8": "h", "i16": "h", "i32": "r", "i64": "l"}


def _fence_before(order: str, scope: str | None) -> list[str]:
    return [_fence_text("sc", scope)] if order == "seq_cst" else []


def _fence_text(kind: str, scope: str | None) -> str:
    return f'  call void asm sideeffect "fence.{kind}.{_SCOPES[scope]};", "~{{memory}}"()'


def _fence(_: FunctionNames, match: re.Match[str]) -> list[str]:
    scope, order = match.groups()
    return [_fence_text("sc" if order == "seq_cst" else "acq_rel", scope)]


def _atomic_load(to: FunctionNames, match: re.Match[str]) -> list[str]:
    result, type, space, pointer, scope, order = match.groups()
    code = f"ld.{_ORDERS[order]}.{_SCOPES[scope]}{_SPACES[space]}.{_unsigned(type)} $0, [$1];"
    lines, got = _into(to, type, result)
    constraints = f"={_REGISTERS[type]},l,~{{memory}}"
    call = f'call {_carried(type)} asm sideeffect "{code}", "{constraints}"(ptr{space or ""} {pointer})'
    return [*_fence_before(order, scope), f"  {got} = {call}", *lines]


def _atomic_store(to: FunctionNames, match: re.Match[str]) -> list[str]:
    type, value, space, pointer, scope, order = match.groups()
    suffix = "release" if order == "seq_cst" else _ORDERS[order]
    code = f"st.{suffix}.{_SCOPES[scope]}{_SPACES[space]}.{_unsigned(type)} [$0], $1;"
    before, carried = _out_of(to, type, value)
    call = f'  call void asm sideeffect "{code}", "l,{_REGISTERS[type]},~{{memory}}"(ptr{space or ""} {pointer}, {carried})'
    return [*before, *_fence_before(order, scope), call]


def _exchange(to: FunctionNames, match: re.Match[str]) -> list[str]:
    result, space, pointer, type, old, new, scope, order = match.groups()
    if type == "i8":
        raise CompileError(
            "LTO-IR for GPUs below sm_100 has no atomics of 8 bits",
            help="compile for sm_100 or newer, use 16 bits or more, or make PTX",
        )
    code = f"atom.{_ORDERS[order]}.{_SCOPES[scope]}{_SPACES[space]}.cas.b{type[1:]} $0, [$1], $2, $3;"
    register = _REGISTERS[type]
    seen, same, pair = to.fresh(), to.fresh(), to.fresh()
    operands = f"ptr{space or ''} {pointer}, {type} {old}, {type} {new}"
    return [
        *_fence_before(order, scope),
        f'  {seen} = call {type} asm sideeffect "{code}", "={register},l,{register},{register},~{{memory}}"({operands})',
        f"  {same} = icmp eq {type} {seen}, {old}",
        f"  {pair} = insertvalue {{ {type}, i1 }} undef, {type} {seen}, 0",
        f"  {result} = insertvalue {{ {type}, i1 }} {pair}, i1 {same}, 1",
    ]


def _unsigned(type: str) -> str:
    return f"u{type[1:]}"


def _carried(type: str) -> str:
    return "i16" if type == "i8" else type


def _into(to: FunctionNames, type: str, result: str) -> tuple[list[str], str]:
    """Lines that make `result` of what a register holds; and the register."""
    if type != "i8":
        return [], result
    wide = to.fresh()
    return [f"  {result} = trunc i16 {wide} to i8"], wide


def _out_of(to: FunctionNames, type: str, value: str) -> tuple[list[str], str]:
    if type != "i8":
        return [], f"{type} {value}"
    wide = to.fresh()
    return [f"  {wide} = zext i8 {value} to i16"], f"i16 {wide}"


_SYNC = r'(?: syncscope\("(\w+)"\))?'
_POINTER = r"ptr( addrspace\(\d+\))?"


def _exchanged(type: str) -> re.Pattern[str]:
    """What such an operation on integers looks like."""
    return re.compile(rf"  ({NAME}) = cmpxchg {_POINTER} (\S+), ({type}) (\S+), \w+ (\S+){_SYNC} (\w+) \w+")


SCOPED: tuple[re.Pattern[str], Rule] = (_exchanged("i(?:16|32|64)"), _exchange)
"""Compare and exchange: libNVVM of CUDA 13.0 forgets its scope in LLVM's present language, too."""
RULES: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (re.compile(rf"  ({NAME}) = load atomic (\w+), {_POINTER} (\S+){_SYNC} (\w+), align \d+"), _atomic_load),
    (re.compile(rf"  store atomic (\w+) (\S+), {_POINTER} (\S+){_SYNC} (\w+), align \d+"), _atomic_store),
    (_exchanged(r"\w+"), _exchange),
    (re.compile(rf"  fence{_SYNC} (\w+)"), _fence),
    (re.compile(rf"  ({NAME}) = load (volatile )?({TYPE}), {_POINTER} (.+?)(, align \d+)"), _load),
    (re.compile(rf"  store (volatile )?({TYPE}) (.+), {_POINTER} (.+?)(, align \d+)"), _store),
    (re.compile(rf"  ({NAME}) = getelementptr (inbounds )?({TYPE}), {_POINTER} (\S+), (.*)"), _element),
    (re.compile(rf"  ({NAME}) = alloca ({TYPE}), align (\d+)"), _alloca),
)
"""What memory looks like in LLVM's present language."""


# Calls in the language of LLVM 7: intrinsics that are newer, or were called otherwise, are instructions of PTX or older ones.


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
CALL_RULES: tuple[tuple[re.Pattern[str], Rule], ...] = (
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
