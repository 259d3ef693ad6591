"""Translates LLVM IR to that of LLVM 7, which libNVVM reads for all GPUs.

    %v9 = getelementptr inbounds nuw float, ptr addrspace(1) %v1, i64 %v8
    %v10 = load float, ptr addrspace(1) %v9, align 4
                                                →   %v9.1 = bitcast i8 addrspace(1)* %v1 to float addrspace(1)*
                                                    %v9.2 = getelementptr inbounds float, float addrspace(1)* %v9.1, i64 %v8
                                                    %v9 = bitcast float addrspace(1)* %v9.2 to i8 addrspace(1)*
                                                    %v10.1 = bitcast i8 addrspace(1)* %v9 to float addrspace(1)*
                                                    %v10 = load float, float addrspace(1)* %v10.1, align 4

Pointers have types in LLVM 7. All of them become `i8*`, and are cast where they are used. Kernels are marked by metadata. Newer
features of LLVM become inline PTX, and a bfloat becomes the integer of its bits.

The rules match lines as `to_llvm` and its dialect write them, one instruction per line. The output of a rule is translated again,
and lines that match no rule stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from cuda_device import CompileError
from cuda_device.extend import dataclass, field, llvm_text

# Syntax that LLVM 7 does not have, and its replacement, in lines of any kind.
_NEWER = [
    (re.compile(pattern), replacement)
    for pattern, replacement in {
        r", ![\w.]+ ![\w{}]+.*$": "",  # metadata of instructions
        r"^(define .*) !dbg !\d+ \{": r"\1 {",
        r"\bpoison\b": "undef",
        r"\bgetelementptr inbounds nuw ": "getelementptr inbounds ",
        r"\brange\(i\d+ -?\d+, -?\d+\) ": "",
        r"(@llvm\.nvvm\.match\.all\.sync\.i\d\d)p\b": r"\1",
        r"@llvm\.nvvm\.barrier\.cta\.sync\.aligned\.all\(i32(?: 0)?\)": "@llvm.nvvm.barrier0()",
    }.items()
]

_TAKES_FLAG = "{ .reg .pred %p, %q; setp.ne.u32 %p, $2, 0;"
_GIVES_FLAG = "selp.u32 $0, 1, 0, %q; }"
# The PTX instructions of intrinsics, by patterns of their names.
_INSTRUCTIONS = {
    r"nvvm\.barrier\.cta\.red\.popc\.aligned\.all": f"{_TAKES_FLAG} bar.red.popc.u32 $0, 0, %p; }}",
    r"nvvm\.barrier\.cta\.red\.popc\.all": f"{_TAKES_FLAG} barrier.red.popc.u32 $0, 0, %p; }}",
    r"nvvm\.barrier\.cta\.red\.(and|or)\.aligned\.all": rf"{_TAKES_FLAG} bar.red.\1.pred %q, 0, %p; {_GIVES_FLAG}",
    r"nvvm\.vote\.ballot\.sync": f"{_TAKES_FLAG} vote.sync.ballot.b32 $0, %p, $1; }}",
    r"nvvm\.vote\.(all|any|uni)\.sync": rf"{_TAKES_FLAG} vote.sync.\1.pred %q, %p, $1; {_GIVES_FLAG}",
    r"nvvm\.shfl\.sync\.(\w+)\.i32": r"shfl.sync.\1.b32 $0, $2, $3, $4, $1;",
    r"nvvm\.redux\.sync\.(and|or|xor)": r"redux.sync.\1.b32 $0, $1, $2;",
    r"nvvm\.redux\.sync\.u(min|max)": r"redux.sync.\1.u32 $0, $1, $2;",
    r"nvvm\.redux\.sync\.(add|min|max)": r"redux.sync.\1.s32 $0, $1, $2;",
    r"nvvm\.activemask": "activemask.b32 $0;",
    r"nvvm\.nanosleep": "nanosleep.u32 $0;",
    r"nvvm\.exit": "exit;",
    r"nvvm\.read\.ptx\.sreg\.lanemask\.lt": "mov.u32 $0, %lanemask_lt;",
    r"nvvm\.read\.ptx\.sreg\.(laneid|dynamic_smem_size)": r"mov.u32 $0, %\1;",
    r"nvvm\.ff\.to\.(e\dm\dx2)\.rn": r"cvt.rn.satfinite.\1.f32 $0, $1, $2;",
    r"nvvm\.(e\dm\dx2)\.to\.f16x2\.rn": r"cvt.rn.f16x2.\1 $0, $1;",
}
_PURE = ("cvt.", "mov.")
_REACHES_MEMORY = re.compile(r"\b(?:bar|barrier|ld|st|atom)\.")
# The register classes of types; values of other types are converted to integers of more bits.
_REGISTERS = {"i16": "h", "i32": "r", "i64": "l", "float": "f", "double": "d"}
_CARRIED = {
    "i1": ("i32", "zext", "icmp ne i32 {}, 0"),
    "i8": ("i16", "zext", "trunc i16 {} to i8"),
    "<2 x half>": ("i32", "bitcast", "bitcast i32 {} to <2 x half>"),
}
_SPACES = {"": "", " addrspace(1)": ".global", " addrspace(3)": ".shared"}
_SCOPES = {"": "sys", "device": "gpu", "block": "cta"}
_ORDERS = {"monotonic": "relaxed"}

_FLAGS = r"(?P<flags>(?:(?:nnan|ninf|nsz|arcp|contract|afn|reassoc|fast) )*)"
NAME = r"%[\w.]+"
_RESULT = rf"(?P<result>{NAME}) = "
_TYPE = rf"(?P<type>{llvm_text.LLVM_TYPE})"
_POINTER = r"ptr(?P<space> addrspace\(\d+\)|) (?P<pointer>getelementptr .*?\)|\S+)"
_SYNC = r'(?P<sync>(?: syncscope\("(?P<scope>\w+)"\))?)'


@dataclass(slots=True)
class Translation:
    """The state of a translation: the space and type of each global variable, metadata, and the lines that open the next block.

    `used` are the kernels and variables that a linker must not drop; `intrinsics` are the declarations of intrinsics.
    """

    globals: dict[str, tuple[str, str]] = field(default_factory=dict)
    marks: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    intrinsics: set[str] = field(default_factory=set)
    opening: list[str] = field(default_factory=list)
    count: int = 0

    def fresh(self) -> str:
        """A new register."""
        self.count += 1
        return f"%old.{self.count}"

    def line(self, line: str) -> list[str]:
        """Translates a line."""
        for pattern, replacement in _NEWER:
            line = pattern.sub(replacement, line)
        match line[:1]:
            case "!":
                return []
            case "@":
                self.variable(line)
            case "t" if line.startswith("target datalayout"):
                return [f'target datalayout = "{_LAYOUT}"']
            case "d" if line.startswith("declare"):
                return self.declaration(line)
            case "d" if line.startswith("define"):
                return self.definition(line)
            case " ":
                return self.instruction(line[2:])
        opening, self.opening = (self.opening, []) if line.endswith(":") else ([], self.opening)
        return [self.typed(line), *opening]

    def instruction(self, line: str) -> list[str]:
        """Translates an instruction by the first rule that matches."""
        for pattern, rule in _RULES:
            if match := pattern.fullmatch(line):
                lines = self.filled(rule, match) if isinstance(rule, str) else rule(self, match)
                if lines is not None:
                    return [translated for new in lines for translated in self.instruction(new)]
        return [f"  {self.typed(line)}"]

    def filled(self, template: str, match: re.Match[str]) -> list[str]:
        """The lines of a template, filled with the groups of a match and new registers `{t1}`, `{t2}`, …."""
        fresh = {f"t{i}": self.fresh() for i in range(1, 4) if f"{{t{i}}}" in template}
        groups = {name: value or "" for name, value in match.groupdict().items()}
        return [line.strip() for line in template.format(**groups, **fresh).strip().splitlines()]

    def typed(self, line: str) -> str:
        """Replaces pointers by `i8*`, to which global variables are cast, and bfloats by integers."""

        def element(match: re.Match[str]) -> str:
            type, space, name, index = match.groups()
            start = f"bitcast ({self.globals[name][1]}{space}* {name} to {type}{space}*)"
            return f"bitcast ({type}{space}* getelementptr ({type}, {type}{space}* {start}, {index}) to i8{space}*)"

        def cast(match: re.Match[str]) -> str:
            space, type = self.globals[match[2]]
            return f"{match[1]} bitcast ({type}{space}* {match[2]} to {match[1]})"

        line = _CONSTANT_ELEMENT.sub(element, line)
        line = re.sub(r"\bptr( addrspace\(\d+\)|)(?![\w.])", r"i8\1*", line)
        line = re.sub(r"\b0xR([0-9A-F]{4})\b", lambda match: str(int(match[1], 16)), line)
        line = re.sub(r"\bbfloat\b", "i16", line)
        return re.sub(r"(i8(?: addrspace\(\d+\))?\*) (@[\w.]+)(?!\()", cast, line) if self.globals else line

    def variable(self, line: str) -> None:
        """Records the type of a global variable, and whether the host writes to it."""
        match = re.match(
            rf"(@[\w.]+) = .*?(addrspace\(\d+\) |){_WRITTEN}(?:global|constant) ({llvm_text.LLVM_TYPE})", line
        )
        if match:
            name, space, written, type = match.groups()
            space = f" {space}".rstrip()
            self.globals[name] = space, type
            self.used += [f"i8* addrspacecast ({type}{space}* {name} to i8*)"] if written else []

    def declaration(self, line: str) -> list[str]:
        """Translates a declaration. Intrinsics are declared when they are called."""
        head, name, parameters, rest = _HEAD.fullmatch(line).groups()  # type: ignore[union-attr]
        if name.startswith("llvm."):
            return []
        aligned, (head, *types) = alignments([head, *map(self.typed, llvm_text.split_list(parameters))])
        head = self.typed(head)
        self.mark(head, types, name, [("align", alignment) for alignment in aligned])
        return [f"{head}@{name}({', '.join(types)}){rest}"]

    def definition(self, line: str) -> list[str]:
        """Translates the head of a function. The first block stores parameters that are passed as copies to memory.

        They are passed as arrays of words instead of `byval`, which libNVVM aligns to 4 or more and C++ as the type.
        """
        head, name, parameters, attributes = _HEAD.fullmatch(line.removesuffix(" {")).groups()  # type: ignore[union-attr]
        listed, by_value = [], list[str]()
        for index, shown in enumerate(llvm_text.split_list(parameters), 1):
            if kept := re.fullmatch(r'ptr byval\((\[\d+ x i8\])\) align (\d+) "nvvm.grid_constant" (%[\w.]+)', shown):
                self.opening.append(f"  {kept[3]} = bitcast {kept[1]}* {kept[3]}.in to i8*")
                by_value.append(f"!{{i32 {index}}}")
                listed.append(f"{kept[1]}* byval align {kept[2]} {kept[3]}.in")
            elif copied := re.fullmatch(r"ptr byval\(\[(\d+) x i8\]\) align (\d+) (%[\w.]+)", shown):
                size, align, register = int(copied[1]), int(copied[2]), copied[3]
                words = f"[{size // min(align, 8)} x i{8 * min(align, 8)}]"
                self.opening += [
                    f"  {register}.memory = alloca {words}, align {align}",
                    f"  store {words} {register}.in, {words}* {register}.memory, align {align}",
                    f"  {register} = bitcast {words}* {register}.memory to i8*",
                ]
                listed.append(f"{words} alignstack({align}) {register}.in")
            else:
                listed.append(self.typed(shown))
        aligned, (result, *listed) = alignments([head.replace("ptx_kernel ", ""), *listed])
        result = self.typed(result)
        facts: list[tuple[str, object]] = [("align", alignment) for alignment in aligned]
        facts += [("kernel", 1)] * ("ptx_kernel " in head) + [("grid_constant", node) for node in by_value]
        for key, value in re.findall(r'"nvvm\.(maxntid|minctasm|maxnreg)"="([\d,]+)"', attributes):
            numbers = [int(number) for number in value.split(",")]
            facts += zip([f"{key}{axis}" for axis in "xyz"] if key == "maxntid" else [key], numbers, strict=False)
        self.mark(result, [parameter.rsplit(" ", 1)[0] for parameter in listed], name, facts)
        plain = re.sub(r' "[\w.-]+"="[^"]*"', "", attributes)
        return [f"{result}@{name}({', '.join(listed)}){plain} {{"]

    def mark(self, head: str, types: Iterable[str], name: str, facts: Iterable[tuple[str, object]]) -> None:
        """Adds metadata of a function."""
        plain = (re.sub(r" (?:byval|align|signext|zeroext)\b.*", "", type) for type in types)
        result = re.sub(r"^(?:declare|define) (?:internal )?(?:signext |zeroext )?", "", head).strip()
        signature = f"{result} ({', '.join(plain)})* @{name}"
        for key, value in facts:
            self.marks.append(f'!{{{signature}, !"{key}", {value if isinstance(value, str) else f"i32 {value}"}}}')
            self.used += [f"i8* bitcast ({signature} to i8*)"] if key == "kernel" else []


_WRITTEN = "(externally_initialized |)"
_CONSTANT_ELEMENT = re.compile(
    rf"getelementptr(?: inbounds)? \(({llvm_text.LLVM_TYPE}), ptr( addrspace\(\d+\)|) (@[\w.]+), (\w+ \d+)\)"
)
_HEAD = re.compile(r"((?:declare|define) .*?)@([\w.]+)\((.*)\)([^()]*)")


def alignments(parts: list[str]) -> tuple[list[int], list[str]]:
    """The alignments of a result and of parameters, each with its index as in metadata, and the parts without them."""
    matches = [(i, re.search(r" ?alignstack\((\d+)\)", part)) for i, part in enumerate(parts)]
    numbers = [i << 16 | int(match[1]) for i, match in matches if match]
    return numbers, [re.sub(r" ?alignstack\(\d+\)", "", part) for part in parts]


# Rules


def _instruction(
    translation: Translation, result: str, type: str, code: str, operands: Iterable[str], more: str = ""
) -> list[str]:
    """A call of inline PTX."""
    lines, arguments, letters = list[str](), list[str](), list[str]()
    carried, _, taken = _CARRIED.get(type, (type, "", ""))
    for operand in operands:
        kind, _, name = operand.rpartition(" ")
        if kind in _CARRIED:
            wide, how, _ = _CARRIED[kind]
            lines.append(f"{(name := translation.fresh())} = {how} {operand} to {wide}")
            kind = wide
        arguments.append(f"{kind} {name}")
        letters.append(_REGISTERS.get(kind, "l"))
    if type != "void":
        letters.insert(0, f"={_REGISTERS[carried]}")
    letters += ["~{memory}"] if _REACHES_MEMORY.search(code) else []
    asm = "asm" if code.startswith(_PURE) else "asm sideeffect"
    call = f'call {carried} {asm} "{code}", "{",".join(letters)}"({", ".join(arguments)}){more}'
    if carried == type:
        return [*lines, f"{result} = {call}" if result else call]
    got = translation.fresh()
    return [*lines, f"{got} = {call}", f"{result} = {taken.format(got)}"]


def _intrinsic(translation: Translation, match: re.Match[str]) -> list[str] | None:
    """A call of an intrinsic as inline PTX if it is in the table; other intrinsics are declared."""
    for pattern, code in _INSTRUCTIONS.items():
        if known := re.fullmatch(pattern, match["name"]):
            return _instruction(
                translation,
                match["result"] or "",
                match["type"],
                known.expand(code),
                llvm_text.split_list(match["operands"]),
                match["rest"],
            )
    types = ", ".join(operand.rpartition(" ")[0] for operand in llvm_text.split_list(match["operands"]))
    declared = f"declare {match['type']} @llvm.{match['name']}({types}){match['rest']}\n"
    translation.intrinsics.add(translation.typed(declared))
    return None


def _atomic(translation: Translation, match: re.Match[str]) -> list[str]:
    """An atomic access, after a fence if it is sequentially consistent."""
    operation, type, order = match["what"], match["type"], match["order"]
    if operation == "cmpxchg" and type == "i8":
        raise CompileError("LTO-IR does not support 8-bit atomics", help="use 16 bits or more, or compile to PTX")
    before = [f"fence{match['sync']} seq_cst"] if order == "seq_cst" else []
    if order == "seq_cst":
        order = "release" if operation == "store" else "acquire"
    where = f"{_ORDERS.get(order, order)}.{_SCOPES[match['scope'] or '']}{_SPACES[match['space']]}"
    pointer = f"ptr{match['space']} {match['pointer']}"
    if operation == "load":
        return before + _instruction(translation, match["result"], type, f"ld.{where}.u{type[1:]} $0, [$1];", [pointer])
    if operation == "store":
        return before + _instruction(
            translation, "", "void", f"st.{where}.u{type[1:]} [$0], $1;", [pointer, f"{type} {match['value']}"]
        )
    seen, same, pair = translation.fresh(), translation.fresh(), translation.fresh()
    operands = [pointer, f"{type} {match['old']}", f"{type} {match['new']}"]
    return [
        *before,
        *_instruction(translation, seen, type, f"atom.{where}.cas.b{type[1:]} $0, [$1], $2, $3;", operands),
        f"{same} = icmp eq {type} {seen}, {match['old']}",
        f"{pair} = insertvalue {{ {type}, i1 }} undef, {type} {seen}, 0",
        f"{match['result']} = insertvalue {{ {type}, i1 }} {pair}, i1 {same}, 1",
    ]


def _fence(translation: Translation, match: re.Match[str]) -> list[str]:
    kind = "sc" if match["order"] == "seq_cst" else "acq_rel"
    return [f'call void asm sideeffect "fence.{kind}.{_SCOPES[match["scope"] or ""]};", "~{{memory}}"()']


def _saturate(translation: Translation, match: re.Match[str]) -> list[str]:
    """A saturating conversion from float to integer. PTX converts NaN to 0 only from float32 to 32 bits or fewer."""
    type, real, value = match["type"], match["real"], match["value"]
    lines = list[str]()
    if real in ("half", "bfloat"):
        lines.append(f"{(wide := translation.fresh())} = fpext {real} {value} to float")
        real, value = "float", wide
    got, none = translation.fresh(), translation.fresh()
    code = f"cvt.rzi.{match['sign']}{type[1:]}.f{32 if real == 'float' else 64} $0, $1;"
    lines += _instruction(translation, got, "i64" if type == "i64" else "i32", code, [f"{real} {value}"])
    if type in ("i8", "i16"):
        lines.append(f"{(narrow := translation.fresh())} = trunc i32 {got} to {type}")
        got = narrow
    lines.append(f"{none} = fcmp uno {real} {value}, {value}")
    return [*lines, f"{match['result']} = select i1 {none}, {type} 0, {type} {got}"]


def _call(translation: Translation, match: re.Match[str]) -> list[str]:
    """A call with alignments, which become metadata."""
    aligned, (type, *arguments) = alignments([match["type"], *llvm_text.split_list(match["operands"])])
    numbers = ", ".join(f"i32 {alignment}" for alignment in aligned)
    head = f"{match['assigned'] or ''}call {type.strip()} @{match['name']}({', '.join(arguments)})"
    return [f"{head}{match['rest']}, !callalign !{{{numbers}}}"]


def _refuse(_: Translation, match: re.Match[str]) -> list[str]:
    raise CompileError(
        f"LTO-IR does not support {match['what']} of bfloat16", help="compute in float32, or compile to PTX"
    )


_Rule = str | Callable[[Translation, re.Match[str]], list[str] | None]
_BFLOATS = r"bfloat (?P<a>\S+), (?P<b>\S+)"
_WIDENED = "{t1} = fpext bfloat {a} to float\n{t2} = fpext bfloat {b} to float\n"
# Patterns of lines and their translations. bfloat arithmetic in float32 is correctly rounded, since 24 >= 2 * 8 + 2 bits.
_PATTERNS: dict[str, _Rule] = {
    rf"{_RESULT}call {_TYPE} @llvm\.fpto(?P<sign>[su])i\.sat\.[\w.]+\((?P<real>\w+) (?P<value>\S+)\)": _saturate,
    rf"{_RESULT}fpext bfloat (?P<a>\S+) to float": "{result} = call float @bfloat16_widen(i16 {a})",
    rf"{_RESULT}fpext bfloat (?P<a>\S+) to double": "{t1} = fpext bfloat {a} to float\n{result} = fpext float {t1} to double",
    rf"{_RESULT}fptrunc float (?P<a>\S+) to bfloat": "{result} = call i16 @bfloat16_round(float {a})",
    rf"{_RESULT}(?P<what>fadd|fsub|fmul|fdiv) {_FLAGS}{_BFLOATS}": (
        _WIDENED + "{t3} = {what} float {t1}, {t2}\n{result} = fptrunc float {t3} to bfloat"
    ),
    rf"{_RESULT}fcmp {_FLAGS}(?P<what>\w+) {_BFLOATS}": _WIDENED + "{result} = fcmp {what} float {t1}, {t2}",
    rf"{_RESULT}fneg {_FLAGS}bfloat (?P<a>\S+)": "{result} = xor i16 {a}, -32768",
    r".* = (?:call bfloat @llvm\.)?(?P<what>\w+to\w+|f\w+|[\w.]+bf16)\b.*\bbfloat\b.*": _refuse,
    rf"{_RESULT}fneg {_FLAGS}{_TYPE} (?P<a>\S+)": "{result} = fsub {flags}{type} -0.0, {a}",
    rf"{_RESULT}(?P<what>load) atomic {_TYPE}, {_POINTER}{_SYNC} (?P<order>\w+), align \d+": _atomic,
    rf"(?P<what>store) atomic {_TYPE} (?P<value>\S+), {_POINTER}{_SYNC} (?P<order>\w+), align \d+": _atomic,
    rf"{_RESULT}(?P<what>cmpxchg) {_POINTER}, {_TYPE} (?P<old>\S+), \w+ (?P<new>\S+){_SYNC} (?P<order>\w+) \w+": _atomic,
    rf"fence{_SYNC} (?P<order>\w+)": _fence,
    rf"{_RESULT}load (?P<volatile>volatile )?{_TYPE}, {_POINTER}(?P<rest>, align \d+)": """
        {t1} = bitcast ptr{space} {pointer} to {type}{space}*
        {result} = load {volatile}{type}, {type}{space}* {t1}{rest}""",
    rf"store (?P<volatile>volatile )?{_TYPE} (?P<value>.+?), {_POINTER}(?P<rest>, align \d+)": """
        {t1} = bitcast ptr{space} {pointer} to {type}{space}*
        store {volatile}{type} {value}, {type}{space}* {t1}{rest}""",
    rf"{_RESULT}getelementptr (?P<inbounds>inbounds )?{_TYPE}, {_POINTER}, (?P<index>\w+ \S+)": """
        {t1} = bitcast ptr{space} {pointer} to {type}{space}*
        {t2} = getelementptr {inbounds}{type}, {type}{space}* {t1}, {index}
        {result} = bitcast {type}{space}* {t2} to ptr{space}""",
    rf"(?P<result>(?!%old){NAME}) = alloca {_TYPE}, align (?P<align>\d+)": """
        {t1} = alloca {type}, align {align}
        {result} = bitcast {type}* {t1} to ptr""",
    rf"(?:{_RESULT})?call {_FLAGS}{_TYPE} @llvm\.(?P<name>[\w.]+)\((?P<operands>.*)\)(?P<rest>[\w ]*)": _intrinsic,
    rf"(?=.*alignstack)(?P<assigned>{NAME} = )?call (?P<type>[^@]*) @(?P<name>[\w.]+)\((?P<operands>.*)\)(?P<rest>[\w ]*)": _call,
}
_RULES = [(re.compile(pattern), rule) for pattern, rule in _PATTERNS.items()]

_LAYOUT = (
    "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-"
    "v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
)
# The version of libNVVM's IR.
_VERSION = "!nvvmir.version = !{!900000000}\n!900000000 = !{i32 2, i32 0, i32 3, i32 2}\n"
# Rounding is to nearest even; a NaN keeps its upper bits and becomes quiet.
_BFLOAT = """\
define internal float @bfloat16_widen(i16 %x) alwaysinline nounwind {
  %wide = zext i16 %x to i32
  %shifted = shl i32 %wide, 16
  %result = bitcast i32 %shifted to float
  ret float %result
}
define internal i16 @bfloat16_round(float %x) alwaysinline nounwind {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %bias = add i32 %odd, 32767
  %sum = add i32 %bits, %bias
  %up = lshr i32 %sum, 16
  %quiet = or i32 %high, 64
  %none = fcmp uno float %x, %x
  %chosen = select i1 %none, i32 %quiet, i32 %up
  %result = trunc i32 %chosen to i16
  ret i16 %result
}
"""


def translate(text: str) -> str:
    """Translates a module to LLVM 7. Raises `CompileError` for operations that LLVM 7 does not have."""
    module = Translation()
    lines = "\n".join(translated for line in text.splitlines() for translated in module.line(line)) + "\n"
    lines += "".join(sorted(module.intrinsics))
    if "@bfloat16_" in lines:
        lines += _BFLOAT
    if module.used:
        used = f"[{len(module.used)} x i8*] [{', '.join(module.used)}]"
        lines += f'@llvm.used = appending global {used}, section "llvm.metadata"\n'
    if module.marks:
        listed = ", ".join(f"!{900000001 + i}" for i in range(len(module.marks)))
        lines += f"!nvvm.annotations = !{{{listed}}}\n"
        lines += "".join(f"!{900000001 + i} = {mark}\n" for i, mark in enumerate(module.marks))
    return lines + _VERSION
