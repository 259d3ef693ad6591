"""Atomic accesses to 16 bytes for processors that have no instruction for them: LLVM then calls functions that Python lacks.

    __atomic_load_16    __atomic_store_16

One lock guards all of them. Whoever holds it is done in a few instructions.
"""

from __future__ import annotations

EXPORTS = ("__atomic_load_16", "__atomic_store_16")

_LOCK = "@lock = internal global i32 0\n"
_TAKE = """\
  br label %try
try:
  %taken = atomicrmw xchg ptr @lock, i32 1 acquire
  %free = icmp eq i32 %taken, 0
  br i1 %free, label %mine, label %try
mine:
"""
_GIVE = "  store atomic i32 0, ptr @lock release, align 4\n"


def text() -> str:
    """The module with the two functions. Their last parameter is the memory order: the lock is as strong as it can be."""
    load = f"{_TAKE}  %value = load i128, ptr %at, align 1\n{_GIVE}  fence seq_cst\n  ret i128 %value\n"
    store = f"{_TAKE}  store i128 %value, ptr %at, align 1\n{_GIVE}  fence seq_cst\n  ret void\n"
    return (
        f"{_LOCK}define i128 @__atomic_load_16(ptr %at, i32 %order) {{\n{load}}}\n"
        f"define void @__atomic_store_16(ptr %at, i128 %value, i32 %order) {{\n{store}}}\n"
    )
