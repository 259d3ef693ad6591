"""What surrounds one kernel on the CPU: the threads of one block, and the exported `@cuda_device.run`.

    void @cuda_device.run(ptr control)      each worker calls it once for a launch; `scheduler` takes blocks, and calls
    void @cuda_device.block(ptr block)      plain kernel:       for z, y, x: kernel(thread), inlined, x vectorised by LLVM
                                            suspending kernel:  starts a coroutine for each thread; `scheduler` resumes them

Only this is compiled anew for each kernel, and so it is small: what is the same for all kernels is in `scheduler`.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.codegen.cpu.records import BLOCK, THREAD, Record

RUN = "cuda_device.run"
EXPORTS = tuple(f"cuda_device.{name}" for name in ("blocks", "crew", "frame", "keep", "trace"))
"""What `scheduler` defines for kernels."""
CREW = "cuda_device.crew"
CONVERSIONS = ("__truncdfhf2", "__truncsfhf2", "__truncdfbf2", "__truncsfbf2", "__extendhfsf2")
NANOSECONDS = "cuda_device.nanoseconds"
SUPPORT = frozenset((*EXPORTS, *CONVERSIONS, NANOSECONDS))
"""What kernels may call: `host_code` defines the others."""
_SIZE = ("size.x", "size.y", "size.z")
_AXES = "xyz"
# The loops over threads are vectorised, not unrolled, which would only cost time to compile. Nobody else takes this
# number.
_LOOP = "!900000000"


def parameter_record(leaves: Sequence[str]) -> str:
    """The LLVM type of the packed parameters: a C structure of the leaves, each at its natural alignment."""
    return "{ " + ", ".join(leaves) + " }" if leaves else "{}"


def runner(symbol: str, leaves: Sequence[str], suspends: bool, shared_bytes: int) -> str:
    """The text to add to the module of the kernel `symbol`, after `cpu.declarations()`.

    `leaves` are the LLVM types of the kernel's parameters after `ptr %thread`; `shared_bytes` is the size of its static
    shared memory.
    """
    block = _suspending(symbol, leaves) if suspends else _plain(symbol, leaves)
    worker = CREW if suspends else "cuda_device.blocks"
    return f"""\
define void @{RUN}(ptr %control) nounwind {{
  call void @{worker}(ptr %control, ptr @cuda_device.block, i64 {shared_bytes})
  ret void
}}

declare void @{worker}(ptr, ptr, i64)

{block}
{_report()}
{_LOOP} = distinct !{{{_LOOP}, !{{!"llvm.loop.unroll.disable"}}}}
"""


def _load_arguments(leaves: Sequence[str]) -> str:
    record = Record(parameter_record(leaves), tuple((str(i), type) for i, type in enumerate(leaves)))
    text = BLOCK.load("%parameters", "%block", "parameters")
    return text + "".join(record.load(f"%argument.{name}", "%parameters", name) for name, _ in record.fields)


def _arguments(leaves: Sequence[str]) -> str:
    return "".join(f", {type} %argument.{i}" for i, type in enumerate(leaves))


def _plain(symbol: str, leaves: Sequence[str]) -> str:
    """A block of a kernel that never waits: its threads one after the other, x fastest.

    The records are copied to where nothing else can write: so they dissolve into registers, and the optimiser sees that
    stores through the kernel's arrays do not change them.
    """
    sizes = "".join(BLOCK.load(f"%{name}", "%shared.block", name, ", !range !{i32 1, i32 1025}") for name in _SIZE)
    return f"""\
define internal void @cuda_device.block(ptr %shared.block) nounwind {{
entry:
  %thread = alloca {THREAD}
  %block = alloca {BLOCK}
  %copy = load {BLOCK}, ptr %shared.block
  store {BLOCK} %copy, ptr %block
{_load_arguments(leaves)}{sizes}{THREAD.store("%block", "%thread", "block")}
  br label %plane
plane:
  %z = phi i32 [0, %entry], [%z.next, %plane.end]
  %z.rows = mul nuw nsw i32 %z, %size.y
{THREAD.store("%z", "%thread", "z")}
  br label %row
row:
  %y = phi i32 [0, %plane], [%y.next, %row.end]
  %y.row = add nuw nsw i32 %z.rows, %y
  %y.first = mul nuw nsw i32 %y.row, %size.x
{THREAD.store("%y", "%thread", "y")}
  br label %each
each:
  %x = phi i32 [0, %row], [%x.next, %each]
  %linear = add nuw nsw i32 %y.first, %x
{THREAD.store("%x", "%thread", "x")}{THREAD.store("%linear", "%thread", "linear")}
  call void @{symbol}(ptr %thread{_arguments(leaves)}) alwaysinline
  %x.next = add nuw nsw i32 %x, 1
  %x.more = icmp ult i32 %x.next, %size.x
  br i1 %x.more, label %each, label %row.end, !llvm.loop {_LOOP}
row.end:
  %y.next = add nuw nsw i32 %y, 1
  %y.more = icmp ult i32 %y.next, %size.y
  br i1 %y.more, label %row, label %plane.end
plane.end:
  %z.next = add nuw nsw i32 %z, 1
  %z.more = icmp ult i32 %z.next, %size.z
  br i1 %z.more, label %plane, label %finished
finished:
  ret void
}}
"""


def _suspending(symbol: str, leaves: Sequence[str]) -> str:
    """A block of a suspending kernel: every thread runs up to where it first waits; the scheduler does the rest.

    A thread that gets no memory for its frame has already stopped the launch.
    """
    return f"""\
define internal void @cuda_device.block(ptr %block) nounwind {{
entry:
{_load_arguments(leaves)}{BLOCK.loads("%block", "count", "threads", "handles")}
  br label %each
each:
  %linear = phi i32 [0, %entry], [%linear.next, %started]
  %thread = getelementptr {THREAD}, ptr %threads, i32 %linear
  %handle = call ptr @{symbol}(ptr %thread{_arguments(leaves)})
  %refused = icmp eq ptr %handle, null
  br i1 %refused, label %leave, label %started
started:
  %handle.at = getelementptr ptr, ptr %handles, i32 %linear
  store ptr %handle, ptr %handle.at
  %linear.next = add nuw i32 %linear, 1
  %more = icmp ult i32 %linear.next, %count
  br i1 %more, label %each, label %leave, !llvm.loop {_LOOP}
leave:
  ret void
}}

declare ptr @cuda_device.frame(ptr, i64)
"""


def _report() -> str:
    """A thread's report. What it needs is read here, in the caller, so that the records need not be in memory."""
    loads = "".join(BLOCK.load(f"%block.{axis}", "%block", f"index.{axis}") for axis in _AXES)
    loads += "".join(THREAD.load(f"%thread.{axis}", "%thread", axis) for axis in _AXES)
    indices = "".join(f", i32 %{kind}.{axis}" for kind in ("block", "thread") for axis in _AXES)
    own = "i32 %status, i32 %place, i64 %first, i64 %second"
    return f"""\
declare void @cuda_device.keep(ptr{", i32" * 8}, i64, i64)

define internal void @cuda_device.report(ptr %thread, {own}) nounwind alwaysinline {{
{THREAD.loads("%thread", "block")}{BLOCK.loads("%block", "control")}{loads}
  call void @cuda_device.keep(ptr %control{indices}, {own})
  ret void
}}
"""
