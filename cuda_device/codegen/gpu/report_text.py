"""The LLVM IR with which a GPU thread reports a failed `assert` or a `raise`.

When the runtime loads a module, it writes three words into a global variable of the module: the address of a claim in GPU memory,
the address of a record in host memory, and the number of the module. The first thread that sets the claim fills in the record,
the status last. Every thread that reports exits, and the context survives. If another program loaded the module, the thread
traps.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from cuda_device.instrument.outline import Status

WORDS = 3
"""The words of 64 bits: claim, record, module."""


class ReportField(enum.IntEnum):
    """The indices of the record's words of 32 bits. The two integers of a report take two words each."""

    STATUS = 0
    PLACE = 1
    MODULE = 2
    BLOCK_X = 4
    BLOCK_Y = 5
    BLOCK_Z = 6
    THREAD_X = 8
    THREAD_Y = 9
    THREAD_Z = 10
    FIRST = 12
    SECOND = 14


RECORD_BYTES = 64
TRAP = "  call void @llvm.trap()\n"
"""Stops the grid with an error of the driver."""
_POINTER = "ptr addrspace(1)"
_REGISTERS = {
    ReportField.BLOCK_X: "ctaid.x",
    ReportField.BLOCK_Y: "ctaid.y",
    ReportField.BLOCK_Z: "ctaid.z",
    ReportField.THREAD_X: "tid.x",
    ReportField.THREAD_Y: "tid.y",
    ReportField.THREAD_Z: "tid.z",
}


def record(symbol: str) -> str:
    """The global variable of a kernel's module; modules that are linked together have one each."""
    return f"cuda_device_record_{symbol}"


def report_call(status: int, place: int, values: Sequence[str] = ()) -> str:
    """A report from this thread with up to two integers of 64 bits. The thread must end after it."""
    first, second = (*values, "0", "0")[:2]
    return f"  call void @device_report(i32 {status}, i32 {place}, i64 {first}, i64 {second})\n"


def meeting_definition(places: Sequence[int]) -> str:
    """A function that is called before a barrier at one of these places, and reports unless all threads of the block reach it.

    It counts the threads by a barrier of its own, which the threads of a warp need not reach together. The threads then compare
    their places bit by bit.
    """
    bits = range(max(places).bit_length()) if len(places) > 1 else range(0)
    compared = "".join(_compare_bit(bit) for bit in bits)
    last = f"%same.{bits[-1]}" if bits else "%full"
    return f"""\
define internal void @device_meet(i32 %place) noinline convergent nounwind {{
  %here = call i32 @llvm.nvvm.barrier.cta.red.popc.all(i32 0, i1 true) convergent
  %x = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
  %z = call i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
  %row = mul i32 %x, %y
  %all = mul i32 %row, %z
  %full = icmp eq i32 %here, %all
{compared}  br i1 {last}, label %together, label %apart
apart:
  call void @device_report(i32 {Status.DIVERGENT_BARRIER:d}, i32 %place, i64 0, i64 0)
  call void @llvm.nvvm.exit()
  unreachable
together:
  ret void
}}
"""


def _compare_bit(bit: int) -> str:
    before = f"%same.{bit - 1}" if bit else "%full"
    return f"""\
  %shifted.{bit} = lshr i32 %place, {bit}
  %bit.{bit} = trunc i32 %shifted.{bit} to i1
  %ones.{bit} = call i32 @llvm.nvvm.barrier.cta.red.popc.all(i32 0, i1 %bit.{bit}) convergent
  %none.{bit} = icmp eq i32 %ones.{bit}, 0
  %every.{bit} = icmp eq i32 %ones.{bit}, %here
  %equal.{bit} = or i1 %none.{bit}, %every.{bit}
  %same.{bit} = and i1 {before}, %equal.{bit}
"""


def report_definitions(symbol: str) -> str:
    """The global variable, and the function that `report` calls."""
    words = record(symbol)
    stores = "".join(_store(field, f"%{field.name.lower()}") for field in _REGISTERS)
    values = _store(ReportField.FIRST, "%first", "i64") + _store(ReportField.SECOND, "%second", "i64")
    reads = "".join(
        f"  %{field.name.lower()} = call i32 @llvm.nvvm.read.ptx.sreg.{name}()\n" for field, name in _REGISTERS.items()
    )
    return f"""\
@{words} = addrspace(1) externally_initialized global [{WORDS} x i64] zeroinitializer, align 8
define internal void @device_report(i32 %status, i32 %place, i64 %first, i64 %second) noinline cold nounwind {{
{_load(words, "%claim.address", 0)}{_load(words, "%record.address", 1)}{_load(words, "%number", 2)}
  %missing = icmp eq i64 %claim.address, 0
  br i1 %missing, label %alone, label %claim
alone:
{TRAP}  unreachable
claim:
  %claim.at = inttoptr i64 %claim.address to {_POINTER}
  %claimed = cmpxchg {_POINTER} %claim.at, i32 0, i32 1 syncscope("device") monotonic monotonic
  %mine = extractvalue {{ i32, i1 }} %claimed, 1
  br i1 %mine, label %write, label %leave
write:
  %record = inttoptr i64 %record.address to {_POINTER}
  %module = trunc i64 %number to i32
{reads}{stores}{values}{_store(ReportField.PLACE, "%place")}{_store(ReportField.MODULE, "%module")}
  fence seq_cst
{_store(ReportField.STATUS, "%status")}
  fence seq_cst
  br label %leave
leave:
  ret void
}}
"""


def _load(name: str, result: str, word: int) -> str:
    address = f"getelementptr (i64, {_POINTER} @{name}, i64 {word})"
    return f"  {result} = load volatile i64, {_POINTER} {address}, align 8\n"


def _store(field: ReportField, value: str, type: str = "i32") -> str:
    address = f"%at.{field.name.lower()}"
    size = 4 if type == "i32" else 8
    return (
        f"  {address} = getelementptr i32, {_POINTER} %record, i64 {field:d}\n"
        f"  store volatile {type} {value}, {_POINTER} {address}, align {size}\n"
    )
