"""Memory in the language of LLVM 7: a pointer gets the type of what is there where it is used, and is one to a byte elsewhere.

    store float %v, ptr %p, align 4      →   %q = bitcast i8* %p to float*
                                             store float %v, float* %q, align 4

Atomic loads, stores and compare-and-swap, which had no scopes, and fences are inline PTX. What all translators to LLVM 7 share
stands here, too: patterns of types, and the names that a module needs more.
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
