"""Gives interoperable functions the LLVM types that NVRTC uses, so that link-time optimisation inlines their calls.

    declare alignstack(4) [2 x i32] @norm([2 x i32] alignstack(4), i32)
                                            →   %cpp.0 = type { float, i8, i8, i8, i8 }
                                                declare alignstack(4) %cpp.0 @norm(%cpp.0 alignstack(4), i8 signext)
                                                define internal [2 x i32] @norm.plain([2 x i32] %p0, i32 %p1) alwaysinline {…}

The functions of this compiler have the parameters of PTX: structures are words, and small integers have 32 bits. LLVM does not
inline a call whose type differs from that of the function. Each function that the program calls or exports therefore gets a
wrapper, which moves values through memory; the optimiser removes these moves. Structures are the same type if their members,
including padding bytes, are the same; their names do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cuda_device.extend import abi, dataclass, field, layout, llvm_text, model

_HEAD = re.compile(r"(?P<kind>declare|define) (?P<result>.*?) ?@(?P<name>[\w.]+)\((?P<parameters>.*)\)(?P<rest>[^()]*)")
_ALIGNED = re.compile(r" ?alignstack\((\d+)\) ?")
_IN_MEMORY = re.compile(r"ptr byval\(.*\) align (\d+)")
_MOST_BYTES = 128
"""The size of the largest structure that is passed as a parameter; larger ones are passed in memory."""
_CALL = re.compile(r"\bcall [^@\"]*@([\w.]+)(?=\()")


class CppPrototype(NamedTuple):
    """The types of the arguments and of the result of a function of C++."""

    arguments: tuple[model.Type, ...]
    result: model.Type


def prototypes(typed: Any, by_address: bool) -> dict[str, CppPrototype]:
    """The C++ functions that a typed module calls, and the function that it exports, by their symbols."""
    by_symbol = {}
    for op in (op for function in typed.functions for op in function.ops() if op.code.name == "extern"):
        result = op.results[0].type if op.results else None
        by_symbol[op.attributes["symbol"]] = CppPrototype(
            tuple(operand.type or model.NONE for operand in op.operands), result or model.NONE
        )
    if typed.main.prototype is not None and not typed.main.kernel:
        main = typed.main.prototype
        count = len(main.arguments) + (main.result != model.NONE)
        addresses = CppPrototype((model.Pointer(model.NONE),) * count, model.NONE)
        by_symbol[typed.main.name] = addresses if by_address else CppPrototype(main.arguments, main.result)
    return by_symbol


def with_cpp_types(text: str, functions: Mapping[str, CppPrototype]) -> str:
    """Gives the functions of these names C++'s types, with typed pointers as in LLVM 7."""
    types = _Types()
    lines: list[str] = []
    around: list[str] = []
    for line in text.splitlines():
        head = _HEAD.fullmatch(line.removesuffix(" {")) if line.startswith("de") else None
        function = functions.get(head["name"]) if head else None
        if head is None or function is None:
            lines.append(_CALL.sub(lambda call: call[0] + ".plain" * (call[1] in functions), line))
            continue
        result, *values = types.passed(head, function)
        name, rest, plain = head["name"], head["rest"], f"{head['name']}.plain"
        theirs = f"{result.shown} @{name}({', '.join(f'{value.shown} %p{i}' for i, value in enumerate(values))})"
        if head["kind"] == "declare":
            lines.append(f"declare {re.sub(r' %p[0-9]+', '', theirs)}{rest}")
            ours = ", ".join(f"{value.plain} %p{i}" for i, value in enumerate(values))
            around.append(f"define internal {result.plain} @{plain}({ours}) alwaysinline {{")
            around += types.call(name, result, values, to_cpp=True)
        else:
            ours = ", ".join(f"{value.plain} {value.name}" for value in values)
            lines.append(f"define internal {result.plain} @{plain}({ours}) alwaysinline{rest} {{")
            around.append(f"define {theirs} {{")
            around += types.call(plain, result, values, to_cpp=False)
    begin = next(i for i, line in enumerate(lines) if not line.startswith("target "))
    return "\n".join([*lines[:begin], *types.definitions, *lines[begin:], *around, ""])


def _machine(number: model.Number) -> model.Number:
    """The number with the format of a builtin one in device code."""
    form = abi.representation(number)
    assert isinstance(form, model.Number)
    return form


@dataclass(frozen=True, slots=True)
class _Passed:
    """A parameter or result: its types in our IR and in C++'s, the latter with attributes, its name and size."""

    plain: str
    cpp: str
    shown: str
    name: str = ""
    size: int = 8
    align: int = 8
    in_memory: bool = False
    """Whether our parameter is the address of a copy."""
    is_large: bool = False
    """Whether the C++ parameter is the address of a copy."""


@dataclass(slots=True)
class _Types:
    """C++ types in LLVM IR: the names of structures, by their layouts and members, and their definitions."""

    names: dict[tuple[model.Type, str], str] = field(default_factory=dict)
    definitions: list[str] = field(default_factory=list)

    def passed(self, head: re.Match[str], function: CppPrototype) -> list[_Passed]:
        """The result and the parameters of a function, from a line of our IR and its prototype."""
        parameters = llvm_text.split_list(head["parameters"])
        types: list[model.Type | None] = list(function.arguments)
        result: model.Type | None = function.result
        if result != model.NONE and abi.passing(function.result, kernel=False) == "address":
            types, result = [model.Pointer(function.result), *types], None
        passed = [self._one(head["result"], None if result == model.NONE else result, is_result=True)]
        return passed + [self._one(text, type) for text, type in zip(parameters, types, strict=True)]

    def _one(self, text: str, type: model.Type | None, is_result: bool = False) -> _Passed:
        if type is None:
            return _Passed("void", "void", "void")
        copied = _IN_MEMORY.match(text)
        aligned = copied or _ALIGNED.search(text)
        plain, _, name = (_ALIGNED.sub(" ", text).strip() if not copied else f"ptr {text.split()[-1]}").partition(" %")
        cpp = self.pointer(type) if abi.passing(type, kernel=False) == "address" else self.name(type)
        size = layout.size_of(abi.representation(abi.exchanged(type)))
        align = int(aligned[1]) if aligned else 8
        if aligned and not is_result and size > _MOST_BYTES:
            return _Passed(plain, cpp, f"{cpp}* byval align {align}", f"%{name}", size, align, copied is not None, True)
        words = [f"alignstack({align})"] if aligned else []
        number = _machine(type) if isinstance(type, model.Number) else type
        if isinstance(number, model.Number) and cpp in ("i8", "i16"):
            words.append("signext" if number.signed else "zeroext")
        shown = " ".join([*words, cpp] if is_result else [cpp, *words])
        return _Passed(plain, cpp, shown, f"%{name}", max(size, 8), align, copied is not None)

    def call(self, name: str, result: _Passed, values: Sequence[_Passed], to_cpp: bool) -> list[str]:
        """The body of a wrapper that calls a function with C++'s types (`to_cpp`) or with ours."""
        lines: list[str] = []
        operands = [self._moved(lines, f"%p{i}", value, to_cpp) for i, value in enumerate(values)]
        pairs = zip(values, operands, strict=True)
        listed = ", ".join(f"{value.shown if to_cpp else value.plain} {operand}" for value, operand in pairs)
        called = f"call {result.shown if to_cpp else result.plain} @{name}({listed}) convergent"
        if result.cpp == "void":
            return [*lines, f"  {called}", "  ret void", "}"]
        lines.append(f"  %r = {called}")
        moved = self._moved(lines, "%r", result, not to_cpp)
        return [*lines, f"  ret {result.plain if to_cpp else result.cpp} {moved}", "}"]

    def _moved(self, lines: list[str], name: str, value: _Passed, to_cpp: bool) -> str:
        """Adds lines that convert a value to C++'s type or to ours; returns its name."""
        if value.plain == value.cpp and not value.in_memory:
            return name
        align = f"align {max(value.align, 8)}"
        memory, theirs = f"{name}.m", f"{value.cpp}* {name}.c"
        if value.is_large and not to_cpp:
            lines.append(f"  {memory} = bitcast {value.cpp}* {name} to ptr")
            return memory
        lines.append(f"  {memory} = alloca [{value.size} x i8], {align}")
        if value.cpp in ("i8", "i16"):
            lines.append(f"  store i64 0, ptr {memory}, {align}")  # our type is wider
        lines.append(f"  {name}.c = bitcast ptr {memory} to {value.cpp}*")
        if not to_cpp:
            lines.append(f"  store {value.cpp} {name}, {theirs}, {align}")
            if value.in_memory:
                return memory
            lines.append(f"  {name}.v = load {value.plain}, ptr {memory}, {align}")
            return f"{name}.v"
        lines.append(f"  store {value.plain} {name}, ptr {memory}, {align}")
        if value.is_large:
            return f"{name}.c"
        lines.append(f"  {name}.v = load {value.cpp}, {theirs}, {align}")
        return f"{name}.v"

    def pointer(self, pointee: model.Type) -> str:
        """The type of a pointer to a type."""
        return "i8*" if isinstance(pointee, model.NoneType) else f"{self.name(pointee)}*"

    def name(self, type: model.Type) -> str:
        """The type of a value or a member."""
        match type:
            case model.Number() if _machine(type).is_complex or (_machine(type).is_float and _machine(type).bits < 32):
                return self.structure(_machine(type))
            case model.Number():
                number = _machine(type)
                return {32: "float", 64: "double"}[number.bits] if number.is_float else f"i{number.bits}"
            case model.NoneType():
                return self.pointer(type)
            case model.Pointer(dtype):
                return self.pointer(dtype)
            case model.AtomicCell(dtype):
                return self.name(dtype)
            case model.Subarray(dtype, shape):
                name = self.name(dtype)
                for length in reversed(shape):
                    name = f"[{length} x {name}]"
                return name
        return self.structure(type)

    def structure(self, type: model.Type) -> str:
        """The name of the C++ structure for a type."""
        members = self.members(abi.exchanged(type))
        key = abi.representation(abi.exchanged(type)), members
        if key not in self.names:
            self.names[key] = f"%cpp.{len(self.definitions)}"
            self.definitions.append(f"{self.names[key]} = type {members}")
        return self.names[key]

    def members(self, type: model.Type) -> str:
        """The members of a structure."""
        placement = layout.placement(abi.representation(type))
        is_packed = isinstance(type, model.Struct) and bool(type.size)
        match type:
            case model.Number():
                half = self.name(model.FLOAT32 if type.bits == 64 else model.FLOAT64)
                return f"{{ {half}, {half} }}" if type.is_complex else f"{{ i{type.bits} }}"
            case model.Vector(dtype, size) if _machine(dtype).is_float and _machine(dtype).bits == 8 and size in (2, 4):
                return f"{{ i{8 * size} }}"
            case model.Vector(dtype, size):
                parts: list[model.Type] = [dtype] * size
            case model.Array(dtype, ndim):
                lengths = f", [{ndim} x i64], [{ndim} x i64]" if ndim else ""
                return f"{{ {self.pointer(dtype)}{lengths} }}"
            case model.Tuple(elements):
                parts = list(elements)
            case model.Struct(_, fields):
                parts = [field.type for field in fields]
            case _:
                raise AssertionError(type)
        words: list[str] = []
        end = 0
        for part, offset in zip((*parts, None), (*placement.offsets, placement.size), strict=True):
            word = self.name(part) if part is not None else "i8"
            gap = offset - end
            if is_packed and gap:
                words.append(f"[{gap} x i8]")  # as `cpp_declaration` writes it
            elif part is None or -(-end // self.alignment(word)) * self.alignment(word) != offset:
                words += ["i8"] * gap
            if part is not None:
                words.append(word)
                end = (
                    offset
                    + layout.placement(part if isinstance(part, model.Subarray) else abi.representation(part)).size
                )
        return f"<{{ {', '.join(words)} }}>" if is_packed else f"{{ {', '.join(words)} }}"

    def alignment(self, name: str) -> int:
        """LLVM's alignment of a type."""
        if array := re.fullmatch(r"\[\d+ x (.*)\]", name):
            return self.alignment(array[1])
        if name.startswith("%") and not name.endswith("*"):
            members = self.definitions[int(name.partition(".")[2])].partition(" = type ")[2]
            return 1 if members.startswith("<") else max(map(self.alignment, llvm_text.split_list(members[1:-1])))
        return {"i8": 1, "i16": 2, "i32": 4, "float": 4}.get(name, 8)
