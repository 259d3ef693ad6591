"""How a thread of a GPU reports: the text that is in a module if an `assert` or a `raise` is.

The runtime writes three words into `RECORD` when it loads the module: the address of a claim in the GPU's memory, the
address of a record in the host's, which the GPU sees, too, and a number that says which module this is. The thread whose
claim is the first fills the record in, its status last; then, as every thread that reports, it exits. So the context
survives, and the host sees who was first.
"""

from __future__ import annotations

import enum

RECORD = "cuda_device_record"
WORDS = 3
"""Of 64 bits each: claim, record, module."""


class Field(enum.IntEnum):
    """The 32-bit words of the record."""

    STATUS = 0
    PLACE = 1
    MODULE = 2
    BLOCK_X = 4
    BLOCK_Y = 5
    BLOCK_Z = 6
    THREAD_X = 8
    THREAD_Y = 9
    THREAD_Z = 10


RECORD_BYTES = 64
_POINTER = "ptr addrspace(1)"
_REGISTERS = {
    Field.BLOCK_X: "ctaid.x",
    Field.BLOCK_Y: "ctaid.y",
    Field.BLOCK_Z: "ctaid.z",
    Field.THREAD_X: "tid.x",
    Field.THREAD_Y: "tid.y",
    Field.THREAD_Z: "tid.z",
}


def report(status: int, place: int) -> str:
    """Text that reports from this thread; the thread has to end after it."""
    return f"  call void @device_report(i32 {status}, i32 {place})\n"


def leave() -> str:
    """Text that ends the thread and its block of the program."""
    return "call void @llvm.nvvm.exit()\n  unreachable"


def definitions() -> str:
    """The global words, and the function that `report` calls."""
    stores = "".join(_store(field, f"%{field.name.lower()}") for field in _REGISTERS)
    reads = "".join(
        f"  %{field.name.lower()} = call i32 @llvm.nvvm.read.ptx.sreg.{name}()\n" for field, name in _REGISTERS.items()
    )
    return f"""\
@{RECORD} = addrspace(1) externally_initialized global [{WORDS} x i64] zeroinitializer, align 8
declare void @llvm.nvvm.exit() noreturn nounwind
define internal void @device_report(i32 %status, i32 %place) noinline cold nounwind {{
{_load("%claim.address", 0)}{_load("%record.address", 1)}{_load("%number", 2)}
  %missing = icmp eq i64 %claim.address, 0
  br i1 %missing, label %leave, label %claim
claim:
  %claim.at = inttoptr i64 %claim.address to {_POINTER}
  %claimed = cmpxchg {_POINTER} %claim.at, i32 0, i32 1 syncscope("device") monotonic monotonic
  %mine = extractvalue {{ i32, i1 }} %claimed, 1
  br i1 %mine, label %write, label %leave
write:
  %record = inttoptr i64 %record.address to {_POINTER}
  %module = trunc i64 %number to i32
{reads}{stores}{_store(Field.PLACE, "%place")}{_store(Field.MODULE, "%module")}
  fence seq_cst
{_store(Field.STATUS, "%status")}
  fence seq_cst
  br label %leave
leave:
  ret void
}}
"""


def _load(result: str, word: int) -> str:
    at = f"getelementptr (i64, {_POINTER} @{RECORD}, i64 {word})"
    return f"  {result} = load volatile i64, {_POINTER} {at}, align 8\n"


def _store(field: Field, value: str) -> str:
    at = f"%at.{field.name.lower()}"
    return (
        f"  {at} = getelementptr i32, {_POINTER} %record, i64 {field:d}\n"
        f"  store volatile i32 {value}, {_POINTER} {at}, align 4\n"
    )
