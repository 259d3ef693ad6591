"""What LLVM is told beside instructions: laws of its IR, by CUDA's limits, the options, and the text of the program.

    %v3 = call range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x()      as 'Technical Specifications' say
    %v5 = fadd nnan contract float %v3, %v4, !dbg !1006                     as the options say, and where it stands
    store float %v5, ptr addrspace(1) %v2, align 4, !alias.scope !1012      as the array that the address comes from

Nothing is computed wrongly if these are, or seldom; but the optimiser believes them, and profilers and people read them.
"""

from __future__ import annotations

import linecache
import re

from cuda_device.compiler import Options

_BLOCK, _GRID = {"x": 1024, "y": 1024, "z": 64}, {"x": 2**31 - 1, "y": 65535, "z": 65535}
REGISTERS = {
    **{f"tid.{axis}": (0, most) for axis, most in _BLOCK.items()},
    **{f"ntid.{axis}": (1, most + 1) for axis, most in _BLOCK.items()},
    **{f"ctaid.{axis}": (0, most) for axis, most in _GRID.items()},
    **{f"nctaid.{axis}": (1, most + 1) for axis, most in _GRID.items()},
    "laneid": (0, 32),
}
"""Which numbers a register may have: the half-open range."""
_READ = re.compile(r"call (?:range\(i32 (-?\d+), (-?\d+)\) )?i32 @llvm\.nvvm\.read\.ptx\.sreg\.([\w.]+)\(\)")
_TOGETHER = re.compile(
    r"@(?:llvm\.nvvm\.(?:barrier|bar\.warp|vote|shfl|match|activemask)[\w.]*|device_meet|device_program\w*)\("
)
_SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8}
_ACCESS = re.compile(
    r"(?:load|store) (?:volatile )?(?:<(?P<n>\d+) x )?(?P<type>i\d+|half|bfloat|float|double|ptr)>?\b.*?, align (?P<align>\d+)"
)
_FLOATS = re.compile(
    r"= (f(?:add|sub|mul|div|neg|cmp)) ((?:(?:nnan|ninf|nsz|arcp|contract|afn|reassoc|fast) )*)(?:o\w\w |une )?(\w+)\b"
)


def wrong(text: str, options: Options, on_cpu: bool, plain: bool) -> str | None:
    """The first law that does not hold of a module; `plain`: of a program that says nothing of alignment."""
    checks = (arithmetic,) if on_cpu else (arithmetic, registers, together, declared, places)
    return next(filter(None, (check(text, options) for check in checks)), None) or aligned(text, plain)


def registers(text: str, _: Options) -> str | None:
    """Registers have the ranges that CUDA promises."""
    for low, high, name in _READ.findall(text.partition("define internal void @device_report")[0]):
        found = (int(low), int(high) % 2**32) if low else None
        if found != REGISTERS.get(name) and (found or "_meet(" not in text):
            return f"%{name} is said to be in {found}, not {REGISTERS.get(name)}"
    return None


def together(text: str, _: Options) -> str | None:
    """What threads do together is convergent: where it is called, and where it is declared."""
    for line in text.splitlines():
        if _TOGETHER.search(line) and not line.startswith(";") and " convergent" not in line.partition(", !")[0]:
            if "device_program" not in line:
                return f"this is not convergent: {line.strip()}"
    return None


def arithmetic(text: str, options: Options) -> str | None:
    """What arithmetic of floats may do is what the options say; conversions are exact."""
    relaxed = {flag for flag in options.fastmath if flag != "ftz"}
    fused = relaxed | ({"contract"} if options.contract else set())
    for function in re.split(r"(?m)^(?=define)", text):
        exact = "@float8_" in function.partition("\n")[0]
        for name, flags, type in _FLOATS.findall(function):
            allowed = set() if exact else fused if name in ("fadd", "fsub", "fmul") else relaxed
            if set(flags.split()) != allowed and (name != "fdiv" or not exact):
                how = f"with {options.fastmath} and contract={options.contract}"
                return f"{how}, {name} of {type} may {flags or 'nothing'}"
    return None


def declared(text: str, _: Options) -> str | None:
    """No intrinsic is declared that nobody calls."""
    for name in re.findall(r"(?m)^declare .*?@([\w.]+)\(", text):
        if text.count(f"@{name}(") < 2:
            return f"{name} is declared, and not called"
    return None


def aligned(text: str, plain: bool) -> str | None:
    """Numbers are aligned to their size, where no program says otherwise; what reports knows how its words are."""
    own = False
    for line in text.splitlines():
        if line.startswith("define"):
            own = "@device_report" in line or "@cuda_device." in line
        match = _ACCESS.search(line) if line.startswith("  ") and ".account" not in line else None
        if match is not None and (own or plain):
            size = _SIZES[match["type"]] * int(match["n"] or 1)
            if int(match["align"]) != size:
                return f"an access of {size} bytes is aligned to {match['align']}: {line.strip()}"
    return None


# Lines


_NODE = re.compile(r"(?m)^(!\d+) = (distinct )?!(\w+)\((.*)\)$")
_FIELD = re.compile(r'(\w+): ("(?:[^"\\]|\\..)*"|[^,]+)')


def _nodes(text: str) -> dict[str, tuple[str, dict[str, str]]]:
    return {name: (kind, dict(_FIELD.findall(fields))) for name, _, kind, fields in _NODE.findall(text)}


def _plain(text: str) -> str:
    """A text of LLVM's, without its quotes."""
    return re.sub(rb"\\([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), text.strip('"').encode()).decode()


def places(text: str, options: Options) -> str | None:
    """Instructions stand where there is something, in a function that is defined here; but only if lines are asked for."""
    if not options.lineinfo or "!llvm.dbg.cu" not in text:
        return "there are lines, though nobody asked" if "!DILocation" in text or " !dbg " in text else None
    nodes = _nodes(text)
    units = [name for name, (kind, _) in nodes.items() if kind == "DICompileUnit"]
    version = re.search(r'!\{i32 2, !"Debug Info Version", i32 3\}', text)
    if len(units) != 1 or f"!llvm.dbg.cu = !{{{units[0]}}}" not in text or version is None:
        return f"there are the units {units}, or no version"
    flags = re.search(r"(?m)^!llvm\.module\.flags = !\{(.*)\}$", text)
    if flags is None or not all(re.search(rf"(?m)^{flag} = !\{{i32", text) for flag in flags[1].split(", ")):
        return "the flags of the module are none"
    where, begun = "", False
    for line in text.splitlines():
        if line.startswith("define"):
            subprogram = re.search(r"!dbg (!\d+) \{$", line)
            where = subprogram[1] if subprogram else ""
            symbol = re.search(r"@([\w.$]+)\(", line)
            if where and symbol and (wrong := _defined(nodes, where, symbol[1], units[0])):
                return wrong
            begun = False
        elif where and line.startswith("  ") and " phi " not in line:
            place = re.search(r", !dbg (!\d+)$", line)
            if place is None and begun:
                return f"nobody knows where this stands: {line.strip()}"
            if place and (wrong := _stands(nodes, place[1], where)):
                return f"{wrong}: {line.strip()}"
            begun = begun or place is not None
    return None


def _file(nodes: dict[str, tuple[str, dict[str, str]]], name: str) -> str:
    folder, file = (_plain(nodes[name][1][each]) for each in ("directory", "filename"))
    return f"{folder.rstrip('/')}/{file}" if folder else file


def _defined(nodes: dict[str, tuple[str, dict[str, str]]], name: str, symbol: str, unit: str) -> str | None:
    kind, fields = nodes[name]
    file = _file(nodes, fields["file"])
    start = linecache.getline(file, int(fields["line"])) or "def"
    if kind != "DISubprogram" or fields["unit"] != unit or fields["scopeLine"] != fields["line"]:
        return f"{symbol} is no subprogram of the unit: {fields}"
    if fields["scope"] != fields["file"] or not re.search(r"\b(def|lambda|for)\b|@", start):
        return f"{symbol} begins at {start!r}, line {fields['line']} of {file}"
    if "device_" + _plain(fields["linkageName"]) != symbol and _plain(fields["linkageName"]) != symbol:
        return f"{symbol} is linked as {fields['linkageName']}"
    return None


def _stands(nodes: dict[str, tuple[str, dict[str, str]]], name: str, function: str) -> str | None:
    """What is wrong with a place, which has to be in this function, or a file within it."""
    kind, fields = nodes[name]
    scope, file = fields["scope"], ""
    if nodes[scope][0] == "DILexicalBlockFile":
        file = _file(nodes, nodes[scope][1]["file"])
        if nodes[scope][1]["discriminator"] != "0":
            return "it is told from others"
        scope = nodes[scope][1]["scope"]
    if kind != "DILocation" or scope != function:
        return "it stands in another function"
    own = _file(nodes, nodes[function][1]["file"])
    if file == own:
        return "it stands in its own file as in another"
    return _begins(file or own, int(fields["line"]), int(fields["column"]), int(nodes[function][1]["line"]))


def _begins(file: str, line: int, column: int, first: int) -> str | None:
    """Whether something is there, and no word has begun before; files of this process may be others by now."""
    shown = linecache.getline(file, line)
    if "<" in file and "<said" not in file or not shown or (column == 0 and line == first):
        return None
    before, here = shown.encode()[max(column - 2, 0) : column - 1], shown.encode()[column - 1 : column]
    if column == 1 or (here.strip() and not (before.isalnum() and here.isalnum())):
        return None
    return f"nothing begins at line {line}, column {column} of {file}: {shown.rstrip()!r}"


# Memory


_ROOT = re.compile(r"^  (%[\w.]+) = (?:getelementptr .*?, ptr addrspace\(1\)|bitcast ptr addrspace\(1\)) ([%@][\w.]+)")
_GLOBAL = re.compile(r"^  (?:%\S+ = )?(load|store) .*?ptr addrspace\(1\) (%[\w.]+), align \d+(.*)$")


def aliasing(text: str) -> str | None:
    """An access belongs to the scope of the array that its address comes from, and to no other's."""
    head = re.search(r"(?m)^define ptx_kernel .*?\((.*)\)", text)
    if head is None:
        return None
    pointers = re.findall(r"ptr addrspace\(1\) (%\w+)", head[1])
    roots = {pointer: {pointer} for pointer in pointers}
    body = text[head.end() : text.index("\n}\n", head.end())]
    names = dict(re.findall(r'(?m)^(!\d+) = !\{!"array (\d+)", !\d+\}$', text))
    sets = {
        name: {names.get(each) for each in inside.split(", ")}
        for name, inside in re.findall(r"(?m)^(!\d+) = !\{(!\d+(?:, !\d+)*)\}$", text)
    }
    waits = re.search(r"(?m)^  .*(?:fence|cmpxchg|nanosleep|asm sideeffect \"(?:atom|.*b128))", body) is not None
    calls = re.search(r"call .*@device_(?!report)", body) is not None
    accesses = []
    for line in body.splitlines():
        if match := _ROOT.match(line):
            roots[match[1]] = roots.get(match[2], set())
        elif match := _GLOBAL.match(line):
            kind, pointer, said = match.groups()
            accesses.append((kind, roots.get(pointer, set()), dict(re.findall(r"!([\w.]+) (!\d+)", said)), line))
    written = set().union(*(root for kind, root, _, _ in accesses if kind == "store"))
    unknown = calls or any(not root for kind, root, _, _ in accesses if kind == "store") or " asm " in body
    scopes: dict[str, set[str | None]] = {}
    for kind, root, said, line in accesses:
        if len(root) != 1:
            continue
        mine = sets.get(said.get("alias.scope", ""), set())
        others = sets.get(said.get("noalias", ""), set())
        if (
            len(mine) != 1
            or (mine & others)
            or len(others) != len(pointers) - 1
            or scopes.setdefault(min(root), mine) != mine
        ):
            return f"it is of the arrays {mine} and not of {others}: {line.strip()}"
        if kind == "load" and not unknown and not waits and ("invariant.load" in said) != (not root & written):
            return f"of an array that is {'' if root & written else 'not '}written: {line.strip()}"
    return None
