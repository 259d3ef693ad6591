"""Pieces of the text of LLVM IR, for what rewrites it line by line.

re.match(LLVM_TYPE, "ptr addrspace(1) %x")[0]         "ptr addrspace(1)"
split_list("i32 %a, { i8, i8 } %b")                   ["i32 %a", "{ i8, i8 } %b"]
"""

LLVM_TYPE = r"""(?:ptr(?: addrspace\(\d+\))?|\{.*?\}|\[.*?\]|<[^>]*>|%[\w.$]+|%"[^"]*"|\w+)"""
"""A pattern of the types of LLVM IR."""


def split_list(text: str) -> list[str]:
    """Splits a list at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += letter in "([{<"
        depth -= letter in ")]}>"
        if letter == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts
