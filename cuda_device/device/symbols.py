"""Which names of Python functions can be those of symbols: CUDA C++ and the assembler have words of their own.

check_symbol("norm")        check_symbol("double")    TypeError: 'double' is a word of CUDA C++ …
"""

from __future__ import annotations

import re

# Those that are no keywords of Python as well.
CPP_WORDS = frozenset((
    "alignas", "alignof", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "case", "catch", "char", "char16_t",
    "char32_t", "char8_t", "co_await", "co_return", "co_yield", "compl", "concept", "const", "const_cast", "consteval",
    "constexpr", "constinit", "decltype", "default", "delete", "do", "double", "dynamic_cast", "enum", "explicit", "export",
    "extern", "false", "float", "friend", "goto", "inline", "int", "long", "mutable", "namespace", "new", "noexcept",
    "not_eq", "nullptr", "operator", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires",
    "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this",
    "thread_local", "throw", "true", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void",
    "volatile", "wchar_t", "xor", "xor_eq",
))  # fmt: skip

# What means something else to the assembler, and what our own code names.
_RESERVED = re.compile(
    r"_|WARP_SZ|shared_\d+|dynamic_shared|device_(?:report|report_values|meet)|cuda_device_\w+|vprintf|__nv_\w+"
)


def check_symbol(name: str) -> None:
    """Raises `TypeError` for what cannot be the name of an interoperable function, which is its symbol."""
    if name in CPP_WORDS or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or _RESERVED.fullmatch(name):
        raise TypeError(
            f"{name!r} cannot be the name of an interoperable function: give it one that is a name in CUDA C++"
        )
