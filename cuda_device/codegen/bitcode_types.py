"""Wrappers for functions in linked bitcode, which has clang's types: small integers, `byval` pointers, and structures.

declare i64 @norm([2 x i32], i32)              in the program, which has the types of PTX
define i64 @norm(ptr byval(%point), i8)        in the bitcode
                                        →   the latter becomes @norm.bitcode, which a new @norm calls
"""

from __future__ import annotations

import re

from cuda_device.codegen.llvm_text import LLVM_TYPE, split_list
from cuda_device.errors import CompileError

_SIGNATURE = re.compile(r"(?m)^(?:declare|define) (?P<result>[^@]*?) ?@(?P<name>[\w$]+)\((?P<parameters>.*)\)[^()]*$")
_BY_VALUE = re.compile(r"byval\((.*?)\) align \d+")
_SCALAR = re.compile(r"i\d+|float|double|half|bfloat|void|ptr(?: addrspace\(\d+\))?")
_BEHIND = ".bitcode"
"""The suffix of functions in bitcode that have a wrapper."""


def wrapped(theirs: str, ours: str) -> str:
    """Adds wrappers to the module `theirs` for the functions that `ours` declares with other types.

    Raises `CompileError` for types that do not correspond.
    """
    signatures = _SIGNATURE.finditer(ours)
    declarations = {signature["name"]: signature for signature in signatures if signature[0].startswith("declare")}
    for definition in list(_SIGNATURE.finditer(theirs)):
        name = definition["name"]
        declaration = declarations.get(name)
        if declaration is None or not definition[0].startswith("define"):
            continue
        if _types_of(declaration) != _types_of(definition):
            theirs = re.sub(rf"@{re.escape(name)}(?![\w$.])", f"@{name}{_BEHIND}", theirs)
            theirs += _wrapper(declaration, definition)
    return theirs


def _types_of(signature: re.Match[str]) -> list[str]:
    """The types of a function's result and parameters; those of copies in memory include `byval`."""
    result = re.search(rf"{LLVM_TYPE}$", signature["result"])
    types = [result[0] if result else ""]
    for parameter in split_list(signature["parameters"]):
        plain, copied = re.match(LLVM_TYPE, parameter), _BY_VALUE.search(parameter)
        types.append(f"ptr {copied[0]}" if copied else plain[0] if plain else "")
    return types


def _correspond(ours: str, theirs: str) -> bool:
    """Whether one value can have two types: the same, two integers, or two aggregates."""
    is_scalar = [_SCALAR.fullmatch(type) is not None for type in (ours, theirs)]
    return ours == theirs or (ours[0] == theirs[0] == "i" if all(is_scalar) else not any(is_scalar))


def _wrapper(ours: re.Match[str], theirs: re.Match[str]) -> str:
    """A function with our types that calls one with theirs."""
    (result, *types), (their_result, *their_types) = _types_of(ours), _types_of(theirs)
    if len(types) != len(their_types) or not all(map(_correspond, (result, *types), (their_result, *their_types))):
        form = f"{their_result} ({', '.join(their_types)})"
        raise CompileError(
            f"{ours['name']} is {form} in bitcode, and its stub needs {result} ({', '.join(types)})",
            help="give the stub the types that the function has in C++",
        )
    lines: list[str] = []

    def converted(value: str, source: str, target: str) -> str:
        if source == target:
            return value
        if _SCALAR.fullmatch(source):
            operation = "trunc" if int(source[1:]) > int(target[1:]) else "zext"
            lines.append(f"{value}.n = {operation} {source} {value} to {target}")
            return f"{value}.n"
        lines.extend((f"{value}.m = alloca {source}, align 16", f"store {source} {value}, ptr {value}.m"))
        if target.startswith("ptr "):
            return f"{value}.m"
        lines.append(f"{value}.n = load {target}, ptr {value}.m, align 16")
        return f"{value}.n"

    pairs = enumerate(zip(types, their_types, strict=True))
    arguments = [f"{target} {converted(f'%p{i}', source, target)}" for i, (source, target) in pairs]
    call = f"call {their_result} @{ours['name']}{_BEHIND}({', '.join(arguments)}) convergent"
    if their_result == "void":
        lines += [call, "ret void"]
    else:
        lines.append(f"%r = {call}")
        lines.append(f"ret {result} {converted('%r', their_result, result)}")
    parameters = ", ".join(f"{form} %p{i}" for i, form in enumerate(split_list(ours["parameters"])))
    head = f"define {ours['result']} @{ours['name']}({parameters}) alwaysinline convergent {{"
    return "\n".join([head, *lines, "}\n"])
