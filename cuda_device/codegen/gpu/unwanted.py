"""Atomic operations of PTX whose result nobody wants do not wait for it.

    atom.relaxed.gpu.global.add.f64 %rd1, [%rd2], %rd3;      →      red.relaxed.gpu.global.add.f64 [%rd2], %rd3;

The assembler does that for an `atom` without order and scope alone, which ours never is. Whether the number that was there before
is wanted is known when functions are inlined: here. One that acquires is not one of these, since there is nothing to acquire
before it is there.
"""

from __future__ import annotations

from collections import Counter

from cuda_device.codegen.gpu.branches import by_function
from cuda_device.lazy_patterns import pattern

_REGISTER = pattern(r"%\w+")
_UPDATE = pattern(
    r"\batom(\.(?:relaxed|release)\.\w+(?:\.global|\.shared)?\.(?:add|and|or|xor|min|max)(?:\.noftz)?\.\w+)\s+(%\w+), (?=\[)"
)


def forget(ptx: str) -> str:
    """The same program with reductions in place of such operations."""
    return by_function(ptx, _forget) if "atom." in ptx and _UPDATE.search(ptx) else ptx


def _forget(body: str) -> str:
    uses = Counter(_REGISTER.findall(body))
    return _UPDATE.sub(lambda match: match[0] if uses[match[2]] > 1 else f"red{match[1]} ", body)
