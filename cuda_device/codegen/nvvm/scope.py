"""What the translators to LLVM 7 share: patterns of types, and the names that a module needs more."""

from __future__ import annotations

import re
from collections.abc import Callable

from cuda_device.lazy_dataclasses import dataclass, field

FLAGS = r"(?:(?:nnan|ninf|nsz|arcp|contract|afn|reassoc|fast) )*"
TYPE = r"(?:ptr(?: addrspace\(\d+\))?|\{.*?\}|\[.*?\]|<[^>]*>|%[\w.]+|\w+)"
SPACE = r"(?: addrspace\((\d+)\))?"
_POINTER = re.compile(r"\bptr( addrspace\(\d+\))?(?![\w.])")
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
    text = _POINTER.sub(lambda match: typed(match[1]), text)
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
