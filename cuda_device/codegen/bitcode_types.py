"""Wrappers for functions in linked bitcode, which has clang's types: small integers, `byval` pointers, and structures.

declare i64 @norm([2 x i32], i32)              in the program, which has the types of PTX
define i64 @norm(ptr byval(%point), i8)        in the bitcode
                                        →   the latter becomes @norm.bitcode, which a new @norm calls
"""

from __future__ import annotations

import re

from cuda_device.codegen.llvm_text import LLVM_TYPE, split_list
from cuda_device.errors import CompileError

_SIGNATURE = re.compile(r"(?m)^(?:declare|define) (?P<result>[^@]*?) ?@(?P<name>[\w$]+)\((?P<given>.*)\)[^()]*$")
_BY_VALUE = re.compile(r"byval\((.*?)\) align \d+")
_SCALAR = re.compile(r"i\d+|float|double|half|bfloat|void|ptr(?: addrspace\(\d+\))?")
_BEHIND = ".bitcode"
"""The suffix of functions in bitcode that have a wrapper."""


def wrapped(theirs: str, ours: str) -> str:
    """Adds wrappers to the module `theirs` for the functions that `ours` declares with other types.

    Raises `CompileError` for types that do not correspond.
    """
    wanted = {found["name"]: found for found in _SIGNATURE.finditer(ours) if found[0].startswith("declare")}
    for found in list(_SIGNATURE.finditer(theirs)):
        own = wanted.get(found["name"])
        if own is not None and found[0].startswith("define") and _types_of(own) != _types_of(found):
            theirs = re.sub(rf"@{re.escape(found['name'])}(?![\w$.])", lambda name: name[0] + _BEHIND, theirs)
            theirs += _wrapper(own, found)
    return theirs


def _types_of(signature: re.Match[str]) -> list[str]:
    """The types of a function's result and parameters; those of copies in memory include `byval`."""
    result = re.search(rf"{LLVM_TYPE}$", signature["result"])
    given = [(re.match(LLVM_TYPE, each), _BY_VALUE.search(each)) for each in split_list(signature["given"])]
    types = [f"ptr {copied[0]}" if copied else plain[0] if plain else "" for plain, copied in given]
    return [result[0] if result else "", *types]


def _correspond(ours: str, theirs: str) -> bool:
    """Whether one value can have two types: the same, two integers, or two aggregates."""
    is_scalar = [_SCALAR.fullmatch(type) is not None for type in (ours, theirs)]
    return ours == theirs or (ours[0] == theirs[0] == "i" if all(is_scalar) else not any(is_scalar))


def _wrapper(ours: re.Match[str], theirs: re.Match[str]) -> str:
    """A function with our types that calls one with theirs."""
    (result, *own), (got, *types) = _types_of(ours), _types_of(theirs)
    given = split_list(ours["given"])
    if len(own) != len(types) or not all(map(_correspond, (result, *own), (got, *types))):
        raise CompileError(
            f"{ours['name']} is {got} ({', '.join(types)}) in bitcode, and its stub needs {result} ({', '.join(own)})",
            help="give the stub the types that the function has in C++",
        )
    lines: list[str] = []

    def moved(value: str, type: str, wanted: str) -> str:
        if type == wanted:
            return value
        if _SCALAR.fullmatch(type):
            lines.append(
                f"{value}.n = {'trunc' if int(type[1:]) > int(wanted[1:]) else 'zext'} {type} {value} to {wanted}"
            )
            return f"{value}.n"
        lines.extend((f"{value}.m = alloca {type}, align 16", f"store {type} {value}, ptr {value}.m"))
        if wanted.startswith("ptr "):
            return f"{value}.m"
        lines.append(f"{value}.n = load {wanted}, ptr {value}.m, align 16")
        return f"{value}.n"

    values = [f"{to} {moved(f'%p{i}', type, to)}" for i, (type, to) in enumerate(zip(own, types, strict=True))]
    call = f"call {got} @{ours['name']}{_BEHIND}({', '.join(values)}) convergent"
    if got == "void":
        lines += [call, "ret void"]
    else:
        lines.append(f"%r = {call}")
        lines.append(f"ret {result} {moved('%r', got, result)}")
    head = f"define {ours['result']} @{ours['name']}({', '.join(f'{each} %p{i}' for i, each in enumerate(given))}) alwaysinline"
    return "\n".join([f"{head} convergent {{", *lines, "}\n"])
