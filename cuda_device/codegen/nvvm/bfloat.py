"""bfloat in the language of LLVM 7, which does not have it: an integer of 16 bits, and arithmetic in float32.

    %v3 = fadd bfloat %v1, %v2       →    both widened to float, fadd, and rounded to the nearest, ties to even

A sum, difference, product or quotient that is rounded to float32 first is the one that is rounded once: 24 bits are more than
twice 8 and 2.
"""

from __future__ import annotations

import re

from cuda_device.codegen.nvvm.typed_pointers import FLAGS, NAME, FunctionNames, Rule
from cuda_device.errors import CompileError


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


def _negate(_: FunctionNames, match: re.Match[str]) -> list[str]:
    result, value = match.groups()
    return [f"  {result} = xor bfloat {value}, -32768"]


def _refuse(_: FunctionNames, match: re.Match[str]) -> list[str]:
    raise CompileError(
        f"LTO-IR for GPUs below sm_100 has no {match[1]} of bfloat16",
        help="compile for sm_100 or newer, compute in float32, or make PTX",
    )


RULES: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (re.compile(rf"  ({NAME}) = fpext bfloat (\S+) to (float|double)"), _extend),
    (re.compile(rf"  ({NAME}) = fptrunc float (\S+) to bfloat"), _truncate),
    (re.compile(rf"  ({NAME}) = (fadd|fsub|fmul|fdiv) {FLAGS}bfloat (\S+), (\S+)"), _arithmetic),
    (re.compile(rf"  ({NAME}) = (fadd|fsub|fmul|fdiv) {FLAGS}<(\d) x bfloat> (\S+), (\S+)"), _packed),
    (re.compile(rf"  ({NAME}) = fcmp {FLAGS}(\w+) bfloat (\S+), (\S+)"), _compare),
    (re.compile(rf"  ({NAME}) = fneg {FLAGS}bfloat (\S+)"), _negate),
    (re.compile(r"  .* = (?:call bfloat @llvm\.)?(\w+to\w+|f\w+|[\w.]+bf16)\b.*\bbfloat\b.*"), _refuse),
)
"""What says more of a bfloat than where its bits go."""
