"""LLVM IR that checks itself: what it promises to the optimiser is computed, and a promise that is broken is noted.

    %v3 = add nsw i32 %v1, %v2          @llvm.sadd.with.overflow.i32, and a note if it overflowed
    store float %v4, ptr %v5, align 4   a note if the address is no multiple of 4

A wrong promise gives wrong results only where the optimiser makes something of it, so programs that compute what they should
may be wrong all the same.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable

Check = tuple[list[str], str]
"""Lines, and the register of a bool that says whether the promise is broken."""

_TYPED = r"(?P<type>i\d+) (?P<a>[^,\s]+)"
_RULES: list[tuple[re.Pattern[str], Callable[[str, re.Match[str]], list[Check]]]] = []


def _rule(*patterns: str) -> Callable[[Callable[[str, re.Match[str]], list[Check]]], None]:
    def add(rule: Callable[[str, re.Match[str]], list[Check]]) -> None:
        _RULES.extend((re.compile(pattern), rule) for pattern in patterns)

    return add


@_rule(rf"(?P<op>add|sub|mul) (?P<flags>(?:nuw |nsw )+){_TYPED}, (?P<b>[^,\s]+)")
def _arithmetic(name: str, match: re.Match[str]) -> list[Check]:
    """It does not overflow."""
    found, type = [], match["type"]
    for sign, flag in (("s", "nsw"), ("u", "nuw")):
        if flag in match["flags"]:
            call = f"@llvm.{sign}{match['op']}.with.overflow.{type}({type} {match['a']}, {type} {match['b']})"
            both = f"{name}.{flag}"
            lines = [f"{both} = call {{ {type}, i1 }} {call}", f"{both}.bad = extractvalue {{ {type}, i1 }} {both}, 1"]
            found.append((lines, f"{both}.bad"))
    return found


@_rule(
    rf"(?:zext|uitofp) nneg {_TYPED} to",
    r"getelementptr inbounds nuw .*, (?P<type>i\d+) (?P<a>[^,\s]+)(?:, !.*)?$",
)
def _not_negative(name: str, match: re.Match[str]) -> list[Check]:
    """The operand, or the last index, is not negative."""
    return [([f"{name}.bad = icmp slt {match['type']} {match['a']}, 0"], f"{name}.bad")]


@_rule(rf"(?:udiv|sdiv|urem|srem) {_TYPED}, (?P<b>[^,\s]+)")
def _divisor(name: str, match: re.Match[str]) -> list[Check]:
    """The divisor is not zero."""
    return [([f"{name}.bad = icmp eq {match['type']} {match['b']}, 0"], f"{name}.bad")]


@_rule(rf"(?:sdiv|srem) {_TYPED}, (?P<b>[^,\s]+)")
def _least_by_minus_one(name: str, match: re.Match[str]) -> list[Check]:
    """Nor is it -1 for the least integer."""
    type, a, b = match["type"], match["a"], match["b"]
    least = -(1 << int(type[1:]) - 1)
    lines = [
        f"{name}.least = icmp eq {type} {a}, {least}",
        f"{name}.minus = icmp eq {type} {b}, -1",
        f"{name}.over = and i1 {name}.least, {name}.minus",
    ]
    return [(lines, f"{name}.over")]


@_rule(rf"(?:shl|lshr|ashr) (?:nuw |nsw |exact )*{_TYPED}, (?P<b>[^,\s]+)")
def _shift(name: str, match: re.Match[str]) -> list[Check]:
    """It shifts by fewer bits than there are."""
    return [([f"{name}.bad = icmp uge {match['type']} {match['b']}, {match['type'][1:]}"], f"{name}.bad")]


@_rule(r"(?:load|store) .*\bptr (?P<at>[%@][\w.]+)(?: \w+)?, align (?P<align>\d+)")
def _aligned(name: str, match: re.Match[str]) -> list[Check]:
    """The address is a multiple of the alignment."""
    lines = [
        f"{name}.address = ptrtoint ptr {match['at']} to i64",
        f"{name}.low = and i64 {name}.address, {int(match['align']) - 1}",
        f"{name}.bad = icmp ne i64 {name}.low, 0",
    ]
    return [(lines, f"{name}.bad")]


_RANGE = re.compile(r"^  (?P<result>%[\w.]+) = .*!range !\{i\d+ (?P<low>-?\d+), i\d+ (?P<high>-?\d+)\}")
_SAID = re.compile(r"\brange\(i\d+ -?\d+, -?\d+\) |, !range !\{[^}]*\}")
_LOADED = re.compile(r"= load (i\d+),")
_PROMISED = re.compile(r"(i\d+) range\(i\d+ (-?\d+), (-?\d+)\) (%[\w.]+)")


def _within(name: str, type: str, low: str, high: str, value: str) -> Check:
    """The value is one of a half-open range, which may go around."""
    lines = [
        f"{name}.from = sub {type} {value}, {low}",
        f"{name}.out = icmp uge {type} {name}.from, {(int(high) - int(low)) % (1 << int(type[1:]))}",
    ]
    return lines, f"{name}.out"


class Notes:
    """Where a module writes the number of a line whose promise was broken."""

    def __init__(self) -> None:
        self.words = (ctypes.c_int64 * 2)()
        self.lines: list[str] = []

    def checking(self, text: str) -> str:
        """The module, which checks itself."""
        written: list[str] = []
        entering: list[Check] = []
        for line in text.splitlines():
            number = len(self.lines)
            self.lines.append(line)
            before, after = _checks(line, number) if line.startswith("  ") else ([], [])
            if line.startswith("define"):
                promised = _PROMISED.findall(line.partition("(")[2])
                entering = [_within(f"%entry.{number}.{k}", *each) for k, each in enumerate(promised)]
            elif line.startswith("  "):
                before, entering = [*entering, *before], []
            written += self._noted(f"%before.{number}", before, number)
            written.append(_SAID.sub("", line))  # else LLVM would know that the check holds
            written += self._noted(f"%after.{number}", after, number)
        return "\n".join([*written, *_declarations(written)]) + "\n"

    def _noted(self, name: str, checks: list[Check], number: int) -> list[str]:
        """Lines that write the number of a line if one of the checks fails: to one place if it does, else to another."""
        place, found = ctypes.addressof(self.words), list[str]()
        for k, (lines, bad) in enumerate(checks):
            found += [
                *lines,
                f"{name}.{k}.place = select i1 {bad}, i64 {place}, i64 {place + 8}",
                f"{name}.{k}.at = inttoptr i64 {name}.{k}.place to ptr",
                f"store volatile i64 {number + 1}, ptr {name}.{k}.at",
            ]
        return [f"  {line}" for line in found]

    @property
    def broken(self) -> str | None:
        """The line of a promise that was broken."""
        number = self.words[0]
        return self.lines[number - 1].strip() if number else None


def _checks(line: str, number: int) -> tuple[list[Check], list[Check]]:
    """The checks before an instruction, and those behind it."""
    if " phi " in line:
        return [], []
    before: list[Check] = [([], "true")] if line.strip() == "unreachable" else []
    for k, (pattern, rule) in enumerate(_RULES):
        if match := pattern.search(line):
            before += rule(f"%check.{number}.{k}", match)
    promised, loaded = _RANGE.match(line), _LOADED.search(line)
    if not promised or not loaded:
        return before, []
    return before, [_within(f"%range.{number}", loaded[1], promised["low"], promised["high"], promised["result"])]


def _declarations(lines: list[str]) -> list[str]:
    """Of the intrinsics that checks call."""
    called = set(re.findall(r"@llvm\.([su])(add|sub|mul)\.with\.overflow\.(i\d+)\(", "\n".join(lines)))
    return [
        f"declare {{ {type}, i1 }} @llvm.{sign}{op}.with.overflow.{type}({type}, {type})"
        for sign, op, type in sorted(called)
    ]
