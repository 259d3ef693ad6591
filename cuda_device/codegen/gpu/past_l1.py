"""Stores of what a kernel never reads go past the L1 cache, and leave it to what is read.

    ld.global.nc.b32 %r1, [%rd1];           ld.global.nc.b32 %r1, [%rd1];
    st.global.b32 [%rd2], %r1;         →    st.global.L1::no_allocate.b32 [%rd2], %r1;

A store otherwise takes a line of the cache, from which nobody reads: a softmax whose rows are read three times, the last time to
write the result, is a twentieth faster so. That nothing is read which the kernel writes shows in the text: all loads are then
`ld.global.nc` (see `aliasing`).
"""

from __future__ import annotations

from cuda_device.lazy_patterns import pattern

_STORE = pattern(r"(?<=[\t ])st\.global\.(?=[vbfsu])")
# What may read what a kernel has written: atomics, functions, and loads, but for those of constants and of shared and own memory.
_READS = pattern(r"[\t ](?:atom|red|call|ld(?!\.(?:global\.nc|param|shared|local|const)\.))\b")


def store(ptx: str) -> str:
    """The same program, with such stores."""
    return ptx if "ld.global.nc" not in ptx or _READS.search(ptx) else _STORE.sub("st.global.L1::no_allocate.", ptx)
