"""What all kernels share when they run on the CPU: taking blocks, letting threads take turns, reports.

It is compiled once for a process; `cpu_runner` makes the part that belongs to one kernel, which calls this one:

    blocks(control, block_function, static_bytes, suspends)
        while blocks are left: take a chunk of them                       (atomic counter in the control record)
            for each block of the chunk, unless told to stop:
                block_function(block)                                     (runs its threads)

For a kernel whose threads wait for each other, `cpu_crew` does that, where `block_function` only starts the threads.
"""

from __future__ import annotations

from cuda_device.codegen.cpu.crew import DECLARATIONS, crew, prepare, step
from cuda_device.codegen.cpu.records import BLOCK, CONTROL, EVENT, LOG, RECORDS, WARP, WARP_SIZE
from cuda_device.codegen.cpu.scheduler import schedule
from cuda_device.codegen.emit.status import Status

# What the kernels' modules, and the executor, may call.
_AXES = "xyz"


def support() -> str:
    """The whole module."""
    records = "".join(record.declaration() for record in RECORDS)
    parts = (records, DECLARATIONS, _blocks(), crew(), schedule(), _deadlock(), _keep(), _log())
    return "\n".join(parts)


def _blocks() -> str:
    """What a worker does: gets memory, then runs blocks until none are left. A chunk's first index costs divisions."""
    return f"""\
define void @cuda_device.blocks(ptr %control, ptr %function, i64 %static, i1 %suspends) nounwind {{
entry:
  %block = alloca {BLOCK}
  br i1 %suspends, label %crew, label %plain
crew:
  call void @cuda_device.crew(ptr %control, ptr %function, i64 %static)
  ret void
plain:
{prepare()}
{CONTROL.loads("%control", "blocks", "chunk")}
{CONTROL.address("%next.at", "%control", "next")}{CONTROL.address("%stop.at", "%control", "stop")}
  %grid.x.wide = zext i32 %grid.x to i64
  %grid.y.wide = zext i32 %grid.y to i64
  br label %take
take:
  %first = atomicrmw add ptr %next.at, i64 %chunk monotonic
  %some = icmp ult i64 %first, %blocks
  br i1 %some, label %taken, label %close
taken:
  %left = sub i64 %blocks, %first
  %length = call i64 @llvm.umin.i64(i64 %left, i64 %chunk)
  %first.x = urem i64 %first, %grid.x.wide
  %first.row = udiv i64 %first, %grid.x.wide
  %first.y = urem i64 %first.row, %grid.y.wide
  %first.z = udiv i64 %first.row, %grid.y.wide
  %start.x = trunc i64 %first.x to i32
  %start.y = trunc i64 %first.y to i32
  %start.z = trunc i64 %first.z to i32
  br label %each
each:
  %done = phi i64 [0, %taken], [%done.next, %run]
  %x = phi i32 [%start.x, %taken], [%x.next, %run]
  %y = phi i32 [%start.y, %taken], [%y.next, %run]
  %z = phi i32 [%start.z, %taken], [%z.next, %run]
  %stop = load atomic i32, ptr %stop.at monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %close, label %run
run:
{"".join(BLOCK.store(f"%{axis}", "%block", f"index.{axis}") for axis in _AXES)}
  call void %function(ptr %block)
{step()}
  %done.next = add nuw i64 %done, 1
  %more = icmp ult i64 %done.next, %length
  br i1 %more, label %each, label %take
close:
  call void @free(ptr %shared)
  ret void
}}
"""


def _claim() -> str:
    """The start of every report: only the first writer of a launch goes on to `write`."""
    return f"""\
{CONTROL.address("%status.at", "%control", "status")}
  %claim = cmpxchg ptr %status.at, i32 0, i32 {Status.CLAIMED:d} acq_rel monotonic
  %mine = extractvalue {{ i32, i1 }} %claim, 1
  br i1 %mine, label %write, label %leave
write:
"""


def _publish() -> str:
    """The end of every report: the status last, then the flag that stops all workers."""
    return f"""\
  store atomic i32 %status, ptr %status.at release, align 4
{CONTROL.address("%stop.at", "%control", "stop")}
  store atomic i32 1, ptr %stop.at release, align 4
  br label %leave
leave:
  ret void
"""


def _deadlock() -> str:
    """A report about a whole block: its index, and where each of its threads waits."""
    block = "".join(
        BLOCK.load(f"%block.{axis}", "%block", f"index.{axis}")
        + CONTROL.store(f"%block.{axis}", "%control", f"report.block.{axis}")
        for axis in _AXES
    )
    return f"""\
define internal void @cuda_device.deadlock(ptr %block, i32 %status) nounwind noinline cold {{
entry:
{BLOCK.loads("%block", "control")}{_claim()}
{block}{BLOCK.loads("%block", "warps", "count")}
{CONTROL.address("%waiting", "%control", "waiting")}
  %count.up = add i32 %count, {WARP_SIZE - 1}
  %many = udiv i32 %count.up, {WARP_SIZE}
  br label %each
each:
  %w = phi i32 [0, %write], [%w.next, %each]
  %warp = getelementptr {WARP}, ptr %warps, i32 %w
  %first = mul i32 %w, {WARP_SIZE}
  %to = getelementptr i32, ptr %waiting, i32 %first
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %warp, i64 {4 * WARP_SIZE}, i1 false)
  %w.next = add nuw i32 %w, 1
  %more = icmp ult i32 %w.next, %many
  br i1 %more, label %each, label %written
written:
{_publish()}}}
"""


def _keep() -> str:
    """A report of one thread, from `@cuda_device.report`."""
    indices = [f"{kind}.{axis}" for kind in ("block", "thread") for axis in _AXES]
    stores = "".join(CONTROL.store(f"%{index}", "%control", f"report.{index}") for index in indices)
    parameters = "".join(f", i32 %{name}" for name in (*indices, "status", "place"))
    return f"""\
define void @cuda_device.keep(ptr %control{parameters}, i64 %first, i64 %second) nounwind noinline cold {{
entry:
{_claim()}{stores}{CONTROL.store("%place", "%control", "place")}
{CONTROL.store("%first", "%control", "value.0")}{CONTROL.store("%second", "%control", "value.1")}
{_publish()}}}
"""


def _log() -> str:
    """An event for the race detector, from `@cuda_device.trace`. Such a launch has one worker: nobody else writes."""
    names = [name for name, _ in EVENT.fields]
    parameters = ", ".join(f"{type} %{name}" for name, type in EVENT.fields)
    return f"""\
define void @cuda_device.log(ptr %control, {parameters}) nounwind {{
entry:
{CONTROL.loads("%control", "log")}{LOG.loads("%log", "count", "capacity", "events")}
  %event = getelementptr {EVENT}, ptr %events, i64 %count
{"".join(EVENT.store(f"%{name}", "%event", name) for name in names)}
  %more = add i64 %count, 1
{LOG.store("%more", "%log", "count")}
  %filled = icmp eq i64 %more, %capacity
  br i1 %filled, label %flush, label %leave
flush:
{LOG.loads("%log", "full")}
  call void %full()
  br label %leave
leave:
  ret void
}}
"""
