"""LTO-IR, which nvJitLink inlines into CUDA C++ when it links, and C++ into it: what libNVVM makes of our LLVM IR.

    make(llvm, parse("sm_90"), Options())       bytes that begin with b"\\xedCN\\x7f"

The language that libNVVM reads for every GPU is that of LLVM 7. So the LLVM IR is translated:

    %v9 = getelementptr inbounds nuw float, ptr addrspace(1) %v1, i64 %v8
    %v10 = load float, ptr addrspace(1) %v9, align 4
                                                →   %v9.1 = bitcast i8 addrspace(1)* %v1 to float addrspace(1)*
                                                    %v9.2 = getelementptr inbounds float, float addrspace(1)* %v9.1, i64 %v8
                                                    %v9 = bitcast float addrspace(1)* %v9.2 to i8 addrspace(1)*
                                                    %v10.1 = bitcast i8 addrspace(1)* %v9 to float addrspace(1)*
                                                    %v10 = load float, float addrspace(1)* %v10.1, align 4

Pointers had types then: here all are `i8*`, and become others where they are used. Kernels were marked by metadata. Of what LLVM
has learned since, atomics with scopes and saturating conversions become inline PTX, and bfloat an integer.

Rules are for lines as `to_llvm` and its dialect write them, one instruction a line; what matches none passes as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from cuda_device.codegen import cpp_signatures
from cuda_device.codegen.cpp_signatures import split
from cuda_device.codegen.emit.to_llvm import Llvm
from cuda_device.codegen.gpu import libdevice
from cuda_device.device.functions import Options
from cuda_device.errors import CompileError, CompilerBug
from cuda_device.ir.nodes import Prototype
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.types.architectures import Architecture

FLAGS = r"(?:(?:nnan|ninf|nsz|arcp|contract|afn|reassoc|fast) )*"
TYPE = r"(?:ptr(?: addrspace\(\d+\))?|\{.*?\}|\[.*?\]|<[^>]*>|%[\w.]+|\w+)"
SPACE = r"(?: addrspace\((\d+)\))?"
_UNTYPED = re.compile(r"\bptr( addrspace\(\d+\))?(?![\w.])")
NAME = r"%[\w.]+"


@dataclass(slots=True)
class Translation:
    """The state of a translation: variables with their space and type, what metadata will say, how the next block begins.

    `declarations` are those of functions that it calls beside.
    """

    globals: dict[str, tuple[str, str]] = field(default_factory=dict)
    marks: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    opening: list[str] = field(default_factory=list)
    declarations: set[str] = field(default_factory=set)
    count: int = 0

    def fresh(self) -> str:
        """A register that nothing else has."""
        self.count += 1
        return f"%old.{self.count}"

    def declare(self, text: str) -> None:
        """Notes a function that is defined elsewhere."""
        self.declarations.add(f"declare {text}")

    def annotations(self) -> str:
        """The metadata that says which functions are kernels, and what holds for them."""
        if not self.marks:
            return ""
        numbered = list(enumerate(self.marks, 900000001))
        listed = ", ".join(f"!{number}" for number, _ in numbered)
        return f"!nvvm.annotations = !{{{listed}}}\n" + "".join(f"!{number} = {mark}\n" for number, mark in numbered)

    def line(self, line: str) -> list[str]:
        """What one line becomes."""
        if line.startswith("target datalayout"):
            return [f'target datalayout = "{_LAYOUT}"']
        if line.startswith("!"):
            return []
        line = _plain(line)
        if line.startswith("declare"):
            return [] if "@llvm." in line else [self.declaration(line)]
        if line.startswith("define"):
            return self.definition(line)
        if self.opening and line.endswith(":"):
            opening, self.opening = self.opening, []
            return [line, *opening]
        for pattern, rule in _RULES:
            if match := pattern.fullmatch(line):
                return [self.typed(each) for each in rule(self, match)]
        return [self.typed(line)]

    def typed(self, line: str) -> str:
        """The line with typed pointers; a variable is one of its own type, as a byte's."""

        def cast(match: re.Match[str]) -> str:
            found = self.globals.get(match[2])
            if found is None:
                return match[0]
            space, type = found
            return f"{match[1]} bitcast ({type}{space}* {match[2]} to {match[1]})"

        return re.sub(r"(i8(?: addrspace\(\d+\))?\*) (@[\w.]+)(?!\()", cast, pointers(line))

    def declaration(self, line: str) -> str:
        """A function that is defined elsewhere."""
        head, name, parameters, rest = _DECLARE.fullmatch(line).groups()  # type: ignore[union-attr]
        aligned, types = alignments([head, *map(self.typed, split(parameters))])
        result = self.typed(types[0])
        self.mark(result.removeprefix("declare").strip(), types[1:], name, [("align", each) for each in aligned])
        return f"{result}@{name}({', '.join(types[1:])}){rest}"

    def mark(self, result: str, types: Iterable[str], name: str, facts: Iterable[tuple[str, int]]) -> None:
        """Notes what metadata says of a function."""
        plain = (re.sub(r" (?:byval|align|signext|zeroext)\b.*", "", each) for each in types)
        signature = f"{re.sub(r'^(?:signext|zeroext) ', '', result)} ({', '.join(plain)})* @{name}"
        for key, value in facts:
            self.marks.append(f'!{{{signature}, !"{key}", i32 {value}}}')
            self.kernels += [signature] if key == "kernel" else []

    def definition(self, line: str) -> list[str]:
        """The head of a function. What is passed as a copy is brought to memory in the first block."""
        head, name, parameters, attributes = _DEFINE.fullmatch(line).groups()  # type: ignore[union-attr]
        casts, listed = [], []
        for parameter in split(parameters):
            shown, by_value = parameter, _BY_VALUE.fullmatch(parameter)
            if by_value:
                lines, shown = _taken(int(by_value["size"]), int(by_value["align"]), by_value["name"])
                casts += lines
            listed.append(self.typed(shown))
        aligned, (result, *listed) = alignments([head.replace("ptx_kernel ", ""), *listed])
        result = self.typed(result)
        facts = [("align", each) for each in aligned] + _facts("ptx_kernel " in head, attributes)
        returned = re.sub(r"^define (internal )?", "", result).strip()
        self.mark(returned, (each.rsplit(" ", 1)[0] for each in listed), name, facts)
        self.opening = casts
        plain = re.sub(r' "[\w.-]+"="[^"]*"', "", attributes)
        return [f"{result}@{name}({', '.join(listed)}){plain} {{"]


Rule = Callable[[Translation, re.Match[str]], list[str]]
"""What the lines that match a pattern become. Pointers in them may be written as before."""


def typed(space: str | None) -> str:
    """The type of all pointers that are not used at the moment."""
    return f"i8{space or ''}*"


def pointers(text: str) -> str:
    """The text with typed pointers, and with bfloat as the integer that it is in memory."""
    text = _UNTYPED.sub(lambda match: typed(match[1]), text)
    text = re.sub(r"\b0xR([0-9A-F]{4})\b", lambda match: str(int(match[1], 16)), text)
    return re.sub(r"\bbfloat\b", "i16", text)


# Accesses


def _load(to: Translation, match: re.Match[str]) -> list[str]:
    result, volatile, type, space, pointer, rest = match.groups()
    before, operand = pointer_to(to, type, space, pointer)
    return [*before, f"  {result} = load {volatile or ''}{type}, {type}{space or ''}* {operand}{rest}"]


def _store(to: Translation, match: re.Match[str]) -> list[str]:
    volatile, type, value, space, pointer, rest = match.groups()
    before, operand = pointer_to(to, type, space, pointer)
    return [*before, f"  store {volatile or ''}{type} {value}, {type}{space or ''}* {operand}{rest}"]


def _element(to: Translation, match: re.Match[str]) -> list[str]:
    result, inbounds, type, space, pointer, indices = match.groups()
    before, operand = pointer_to(to, type, space, pointer)
    moved = to.fresh()
    return [
        *before,
        f"  {moved} = getelementptr {inbounds or ''}{type}, {type}{space or ''}* {operand}, {indices}",
        f"  {result} = bitcast {_pointee(to, type, indices)}{space or ''}* {moved} to {typed(space)}",
    ]


def _pointee(to: Translation, type: str, indices: str) -> str:
    """What a `getelementptr` points to; with more than one index, a member."""
    for index in split(indices)[1:]:
        inside = type[1:-1]
        type = split(inside)[int(index.split()[-1])] if type.startswith("{") else inside.split(" x ", 1)[1]
    return type


def pointer_to(to: Translation, type: str, space: str | None, pointer: str) -> tuple[list[str], str]:
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


def _alloca(to: Translation, match: re.Match[str]) -> list[str]:
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


def _fence(_: Translation, match: re.Match[str]) -> list[str]:
    scope, order = match.groups()
    return [_fence_text("sc" if order == "seq_cst" else "acq_rel", scope)]


def _atomic_load(to: Translation, match: re.Match[str]) -> list[str]:
    result, type, space, pointer, scope, order = match.groups()
    code = f"ld.{_ORDERS[order]}.{_SCOPES[scope]}{_SPACES[space]}.{_unsigned(type)} $0, [$1];"
    lines, got = _into(to, type, result)
    constraints = f"={_REGISTERS[type]},l,~{{memory}}"
    call = f'call {_carried(type)} asm sideeffect "{code}", "{constraints}"(ptr{space or ""} {pointer})'
    return [*_fence_before(order, scope), f"  {got} = {call}", *lines]


def _atomic_store(to: Translation, match: re.Match[str]) -> list[str]:
    type, value, space, pointer, scope, order = match.groups()
    suffix = "release" if order == "seq_cst" else _ORDERS[order]
    code = f"st.{suffix}.{_SCOPES[scope]}{_SPACES[space]}.{_unsigned(type)} [$0], $1;"
    before, carried = _out_of(to, type, value)
    call = f'  call void asm sideeffect "{code}", "l,{_REGISTERS[type]},~{{memory}}"(ptr{space or ""} {pointer}, {carried})'
    return [*before, *_fence_before(order, scope), call]


def _exchange(to: Translation, match: re.Match[str]) -> list[str]:
    result, space, pointer, type, old, new, scope, order = match.groups()
    if type == "i8":
        raise CompileError(
            "LTO-IR has no atomics of 8 bits",
            help="use 16 bits or more, or make PTX",
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


def _into(to: Translation, type: str, result: str) -> tuple[list[str], str]:
    """Lines that make `result` of what a register holds; and the register."""
    if type != "i8":
        return [], result
    wide = to.fresh()
    return [f"  {result} = trunc i16 {wide} to i8"], wide


def _out_of(to: Translation, type: str, value: str) -> tuple[list[str], str]:
    if type != "i8":
        return [], f"{type} {value}"
    wide = to.fresh()
    return [f"  {wide} = zext i8 {value} to i16"], f"i16 {wide}"


_SYNC = r'(?: syncscope\("(\w+)"\))?'
_POINTER = r"ptr( addrspace\(\d+\))?"


RULES: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (re.compile(rf"  ({NAME}) = load atomic (\w+), {_POINTER} (\S+){_SYNC} (\w+), align \d+"), _atomic_load),
    (re.compile(rf"  store atomic (\w+) (\S+), {_POINTER} (\S+){_SYNC} (\w+), align \d+"), _atomic_store),
    (re.compile(rf"  ({NAME}) = cmpxchg {_POINTER} (\S+), (\w+) (\S+), \w+ (\S+){_SYNC} (\w+) \w+"), _exchange),
    (re.compile(rf"  fence{_SYNC} (\w+)"), _fence),
    (re.compile(rf"  ({NAME}) = load (volatile )?({TYPE}), {_POINTER} (.+?)(, align \d+)"), _load),
    (re.compile(rf"  store (volatile )?({TYPE}) (.+), {_POINTER} (.+?)(, align \d+)"), _store),
    (re.compile(rf"  ({NAME}) = getelementptr (inbounds )?({TYPE}), {_POINTER} (\S+), (.*)"), _element),
    (re.compile(rf"  ({NAME}) = alloca ({TYPE}), align (\d+)"), _alloca),
)
"""What memory looks like in LLVM's present language."""


# Calls in the language of LLVM 7: intrinsics that are newer, or were called otherwise, are instructions of PTX or older ones.


def _call(to: Translation, match: re.Match[str]) -> list[str]:
    result, type, name, operands = match["result"], match["type"], match["name"], split(match["operands"])
    for pattern, write in _CALLS.items():
        if found := re.fullmatch(pattern, name):
            return write(to, f"{result} = " if result else "", type, found, operands)
    types = ", ".join(operand.rsplit(" ", 1)[0] for operand in operands)
    old = _OLD_NAMES.get(name, name)
    to.declare(f"{pointers(type)} @{old}({pointers(types)}){match['rest']}")
    call = f"call {match['flags']}{type} @{old}({', '.join(operands)}){match['rest']}"
    return [f"  {f'{result} = ' if result else ''}{call}"]


def _warp_reduce(to: Translation, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
    kind = match[1].removeprefix("u")
    letter = "u" if match[1].startswith("u") else "b" if kind in ("and", "or", "xor") else "s"
    return [_asm(result, type, f"redux.sync.{kind}.{letter}32 $0, $1, $2;", "=r,r,r", *operands, convergent=True)]


def _asm(to: str, type: str, code: str, constraints: str, *operands: str, convergent: bool = False) -> str:
    return (
        f'  {to}call {type} asm sideeffect "{code}", "{constraints}"({", ".join(operands)}){" convergent" * convergent}'
    )


_Call = Callable[[Translation, str, str, re.Match[str], list[str]], list[str]]


def _code(code: str, constraints: str, *, convergent: bool = False) -> _Call:
    """A call that is one instruction of PTX."""

    def write(to: Translation, result: str, type: str, _: re.Match[str], operands: list[str]) -> list[str]:
        return [_asm(result, type, code, constraints, *operands, convergent=convergent)]

    return write


def _barrier(to: Translation, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
    to.declare("void @llvm.nvvm.barrier0() convergent nounwind")
    return ["  call void @llvm.nvvm.barrier0() convergent"]


def _barrier_reduce(to: Translation, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
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


def _vote(to: Translation, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
    modes = {"all": 0, "any": 1, "uni": 2, "ballot": 3}
    both = to.fresh()
    to.declare("{ i32, i1 } @llvm.nvvm.vote.sync(i32, i32, i1) convergent nounwind")
    mask, flag = operands
    call = f"call {{ i32, i1 }} @llvm.nvvm.vote.sync({mask}, i32 {modes[match[1]]}, {flag}) convergent"
    return [f"  {both} = {call}", f"  {result}extractvalue {{ i32, i1 }} {both}, {0 if type == 'i32' else 1}"]


def _shuffle(to: Translation, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
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


def _saturate(to: Translation, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
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


def _to_float8(to: Translation, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
    code = f"cvt.rn.satfinite.{match[1]}.f32 $0, $1, $2;"
    return [f'  {result}call i16 asm "{code}", "=h,f,f"({", ".join(operands)})']


def _from_float8(to: Translation, result: str, type: str, match: re.Match[str], operands: list[str]) -> list[str]:
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


def _function(to: Translation, match: re.Match[str]) -> list[str]:
    """A call of a function: alignments are metadata."""
    result, type, name, operands, rest = match.groups()
    aligned, (type, *given) = alignments([type, *split(operands)])
    numbers = ", ".join(f"i32 {each}" for each in aligned)
    metadata = f", !callalign !{{{numbers}}}" if aligned else ""
    return [f"  {result or ''}call {type.strip()} @{name}({', '.join(given)}){rest}{metadata}"]


def alignments(parts: list[str]) -> tuple[list[int], list[str]]:
    """The alignments of a result and of parameters, as metadata writes them, beside their number; and the parts without them."""
    found = [(i, re.search(r" ?alignstack\((\d+)\)", part)) for i, part in enumerate(parts)]
    numbers = [i << 16 | int(match[1]) for i, match in found if match]
    return numbers, [re.sub(r" ?alignstack\(\d+\)", "", part) for part in parts]


def _negate(_: Translation, match: re.Match[str]) -> list[str]:
    result, flags, type, value = match.groups()
    zero = "-0.0" if type in ("float", "double") else "0xH8000"
    return [f"  {result} = fsub {flags}{type} {zero}, {value}"]


_INTRINSIC = re.compile(
    rf"  (?:(?P<result>{NAME}) = )?call (?P<flags>{FLAGS})(?P<type>{TYPE}) "
    r"@(?P<name>llvm\.[\w.]+)\((?P<operands>.*)\)(?P<rest>[\w ]*)"
)
CALL_RULES: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (_INTRINSIC, _call),
    (
        re.compile(
            rf"  ({NAME} = )?call ((?:(?:alignstack\(\d+\)|signext|zeroext) )?{TYPE}\**) @([\w.]+)\((.*)\)([\w ]*)"
        ),
        _function,
    ),
    (re.compile(rf"  ({NAME}) = fneg ({FLAGS})({TYPE}) (\S+)"), _negate),
)
"""What calls, and an operation that once was another one, look like in LLVM's present language."""


# bfloat in the language of LLVM 7, which does not have it: an integer of 16 bits, and arithmetic in float32.
#
#     %v3 = fadd bfloat %v1, %v2       →    both widened to float, fadd, and rounded to the nearest, ties to even
#
# A sum, difference, product or quotient that is rounded to float32 first is the one that is rounded once: 24 bits are more than
# twice 8 and 2.


def _widen(to: Translation, value: str, result: str = "") -> tuple[list[str], str]:
    """Lines that make a float of a bfloat; and its name."""
    wide, shifted, result = to.fresh(), to.fresh(), result or to.fresh()
    lines = [
        f"  {wide} = zext bfloat {value} to i32",
        f"  {shifted} = shl i32 {wide}, 16",
        f"  {result} = bitcast i32 {shifted} to float",
    ]
    return lines, result


def _round(to: Translation, value: str, result: str) -> list[str]:
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


def _extend(to: Translation, match: re.Match[str]) -> list[str]:
    result, value, wanted = match.groups()
    if wanted == "float":
        return _widen(to, value, result)[0]
    lines, single = _widen(to, value)
    return [*lines, f"  {result} = fpext float {single} to double"]


def _truncate(to: Translation, match: re.Match[str]) -> list[str]:
    result, value = match.groups()
    return _round(to, value, result)


def _arithmetic(to: Translation, match: re.Match[str]) -> list[str]:
    result, operation, a, b = match.groups()
    return _computed(to, result, operation, a, b)


def _computed(to: Translation, result: str, operation: str, a: str, b: str) -> list[str]:
    first, x = _widen(to, a)
    second, y = _widen(to, b)
    exact = to.fresh()
    return [*first, *second, f"  {exact} = {operation} float {x}, {y}", *_round(to, exact, result)]


def _compare(to: Translation, match: re.Match[str]) -> list[str]:
    result, how, a, b = match.groups()
    first, x = _widen(to, a)
    second, y = _widen(to, b)
    return [*first, *second, f"  {result} = fcmp {how} float {x}, {y}"]


def _negate_bfloat(_: Translation, match: re.Match[str]) -> list[str]:
    result, value = match.groups()
    return [f"  {result} = xor bfloat {value}, -32768"]


def _refuse(_: Translation, match: re.Match[str]) -> list[str]:
    raise CompileError(
        f"LTO-IR has no {match[1]} of bfloat16",
        help="compute in float32, or make PTX",
    )


BFLOAT_RULES: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (re.compile(rf"  ({NAME}) = fpext bfloat (\S+) to (float|double)"), _extend),
    (re.compile(rf"  ({NAME}) = fptrunc float (\S+) to bfloat"), _truncate),
    (re.compile(rf"  ({NAME}) = (fadd|fsub|fmul|fdiv) {FLAGS}bfloat (\S+), (\S+)"), _arithmetic),
    (re.compile(rf"  ({NAME}) = fcmp {FLAGS}(\w+) bfloat (\S+), (\S+)"), _compare),
    (re.compile(rf"  ({NAME}) = fneg {FLAGS}bfloat (\S+)"), _negate_bfloat),
    (re.compile(r"  .* = (?:call bfloat @llvm\.)?(\w+to\w+|f\w+|[\w.]+bf16)\b.*\bbfloat\b.*"), _refuse),
)
"""What says more of a bfloat than where its bits go."""


_LAYOUT = (
    "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-"
    "v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
)
_VERSION = "!nvvmir.version = !{!900000000}\n!900000000 = !{i32 2, i32 0, i32 3, i32 2}\n"
"""What every module says for libNVVM: version 2.0 of its IR."""


def translate(text: str) -> str:
    """The module in the language of LLVM 7. Raises `CompileError` for what that cannot say."""
    module = Translation(globals=_globals(text))
    lines = [translated for line in text.splitlines() for translated in module.line(line)]
    declared = "".join(f"{line}\n" for line in sorted(module.declarations))
    # A linker that optimises would drop what nobody calls, and what only the host writes.
    symbols = [f"i8* bitcast ({kernel} to i8*)" for kernel in module.kernels]
    symbols += [
        f"i8* addrspacecast ({type}{space}* {name} to i8*)" for name, (space, type) in _globals(text, _WRITTEN).items()
    ]
    used = f"[{len(symbols)} x i8*] [{', '.join(symbols)}]"
    kept = f'@llvm.used = appending global {used}, section "llvm.metadata"\n' * bool(symbols)
    return "\n".join(lines) + f"\n{declared}{kept}{module.annotations()}{_VERSION}"


_WRITTEN = "externally_initialized"
_GLOBAL = re.compile(rf"^(@[\w.]+) = .*?(?:addrspace\((\d+)\) )?(?:{_WRITTEN} )?(?:global|constant) ({TYPE})")


def _globals(text: str, mark: str = "") -> dict[str, tuple[str, str]]:
    """The variables of a module in whose lines a mark is: name → address space in words, type."""
    found = {}
    for line in text.splitlines():
        if mark in line and (match := _GLOBAL.match(line)):
            found[match[1]] = f" addrspace({match[2]})" if match[2] else "", match[3]
    return found


# By what lines look like: what they become.
_RULES: tuple[tuple[re.Pattern[str], Rule], ...] = (
    *BFLOAT_RULES,
    *RULES,
    *CALL_RULES,
)


_DECLARE = re.compile(r"(declare .*?)@([\w.]+)\((.*)\)([^()]*)")
_DEFINE = re.compile(r"(define .*?)@([\w.]+)\((.*)\)([^()]*) \{")


_BY_VALUE = re.compile(r"ptr byval\(\[(?P<size>\d+) x i8\]\) align (?P<align>\d+) (?P<name>%[\w.]+)")


def _taken(size: int, align: int, register: str) -> tuple[list[str], str]:
    """A parameter that is passed as a copy, and the lines that bring it to memory.

    Not `byval`, whose copies libNVVM aligns to 4 at least where C++ aligns them as their type: it takes the words instead.
    """
    width = min(align, 8)
    words = f"[{size // width} x i{8 * width}]"
    lines = [
        f"  {register}.memory = alloca {words}, align {align}",
        f"  store {words} {register}.in, {words}* {register}.memory, align {align}",
        f"  {register} = bitcast {words}* {register}.memory to i8*",
    ]
    return lines, f"{words} alignstack({align}) {register}.in"


def _facts(kernel: bool, attributes: str) -> list[tuple[str, int]]:
    """What metadata says of a function, as keys and values."""
    facts = [("kernel", 1)] if kernel else []
    for key, value in re.findall(r'"nvvm\.(\w+)"="([\d,]+)"', attributes):
        numbers = [int(each) for each in value.split(",")]
        names = {"maxntid": ["maxntidx", "maxntidy", "maxntidz"], "minctasm": ["minctasm"], "maxnreg": ["maxnreg"]}[key]
        facts += zip(names, numbers, strict=False)
    return facts


_NEWER = (
    (re.compile(r", ![\w.]+ ![\w{}]+.*$"), ""),  # metadata of instructions
    (re.compile(r"^(define .*) !dbg !\d+ \{"), r"\1 {"),
    (re.compile(r"\bpoison\b"), "undef"),
    (re.compile(r"\b(zext|uitofp) nneg "), r"\1 "),
    (re.compile(r"\b(or) disjoint "), r"\1 "),
    (re.compile(r"\b(trunc) (?:nuw |nsw )+"), r"\1 "),
    (re.compile(r"\bgetelementptr( inbounds)?(?: nuw| nusw)+ "), r"getelementptr\1 "),
    (re.compile(r"\brange\(i\d+ -?\d+, -?\d+\) "), ""),
    (re.compile(r" captures\(none\)"), ""),
)


def _plain(line: str) -> str:
    """The line without what says no more than how it may be optimised."""
    for pattern, replacement in _NEWER:
        line = pattern.sub(replacement, line)
    return line


MAGIC = b"\xedCN\x7f"


def identity() -> str:
    """libNVVM's version, for cache keys; empty where it is missing."""
    try:
        from cuda.bindings import nvvm

        return "libNVVM {}.{}".format(*nvvm.version())
    except (ImportError, RuntimeError):
        return ""


def make(llvm: Llvm, architecture: Architecture, options: Options, functions: Mapping[str, Prototype]) -> bytes:
    """The LTO-IR of a module; `functions` are those that C++ defines or calls.

    Raises `CompileError` where libNVVM is missing, or cannot say what the module says.
    """
    if not identity():
        raise CompileError(
            "LTO-IR is made by libNVVM, which is not on this machine",
            help="pip install cuda_device[cu13], or install a CUDA toolkit and set CUDA_HOME",
        )
    from cuda.bindings import nvvm

    text = translate(cpp_signatures.run(llvm.text, functions))
    if architecture.number >= 100:  # where libNVVM wants the type of a copy said twice
        text = re.sub(r"(%cpp\.\d+)\* byval ", r"\1* byval(\1) ", text)
    program = nvvm.create_program()
    try:
        data = text.encode()
        nvvm.add_module_to_program(program, data, len(data), "cuda_device")
        if llvm.library:
            library = libdevice.file().read_bytes()
            nvvm.lazy_add_module_to_program(program, library, len(library), "libdevice")
        words = [
            f"-arch={architecture.name.replace('sm_', 'compute_')}",
            "-gen-lto",
            f"-opt={3 if options.level else 0}",
        ]
        words += floating_point(options)
        try:
            nvvm.compile_program(program, len(words), words)
        except nvvm.nvvmError as error:
            raise CompilerBug(f"libNVVM refuses the module: {_log(program)}") from error
        code = bytearray(nvvm.get_compiled_result_size(program))
        nvvm.get_compiled_result(program, code)
        return bytes(code)
    finally:
        nvvm.destroy_program(program)


def floating_point(options: Options) -> list[str]:
    """How exact numbers are, for libNVVM and for a linker that optimises."""
    approximate = "afn" in options.fastmath
    return [
        f"-fma={int(options.contract)}",
        f"-ftz={int('ftz' in options.fastmath)}",
        f"-prec-div={int(not approximate)}",
        f"-prec-sqrt={int(not approximate)}",
    ]


def _log(program: int) -> str:
    from cuda.bindings import nvvm

    log = bytearray(nvvm.get_program_log_size(program))
    nvvm.get_program_log(program, log)
    return log.rstrip(b"\0").decode(errors="replace").strip()
