"""How a worker runs the blocks of a kernel whose threads wait, on the CPU: part of what `cpu_support` compiles once.

    crew(control, block_function, static_bytes)
        while blocks are left: start one (block_function), let its threads take turns (`cpu_schedule`)
            it ended: its memory serves the next block
            it spins: it is put aside, and the next block gets memory of its own
        those put aside have turns, too: after each power of two of them, and when no more can be started

So up to `INTERLEAVED` blocks of a worker may wait for each other, while a kernel whose blocks do not has only one in memory.
"""

from __future__ import annotations

from cuda_device.codegen.cpu.lanes import ALIGNMENT
from cuda_device.codegen.cpu.records import BLOCK, CONTROL, CURSOR, FUEL, THREAD, WARP, WARP_SIZE
from cuda_device.codegen.cpu.scheduler import Outcome
from cuda_device.codegen.emit.status import Status

# So many blocks of a worker may wait at a time.
INTERLEAVED = 256

_AXES = "xyz"
_SIZE = ("size.x", "size.y", "size.z")
_GRID = ("grid.x", "grid.y", "grid.z")
_OWNED = ("warps", "handles", "threads", "frames")

DECLARATIONS = """\
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i32 @sched_yield()
declare ptr @llvm.frameaddress.p0(i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


def crew() -> str:
    """The functions."""
    return _crew() + _next() + _open() + _threads() + _close() + _frames()


def allocate(result: str, bytes: str) -> str:
    """Memory for an array; `aligned_alloc` wants a size that is a multiple of the alignment, and more than none."""
    return f"""\
  {result}.more = add i64 {bytes}, {2 * ALIGNMENT - 1}
  {result}.size = and i64 {result}.more, -{ALIGNMENT}
  {result} = call ptr @aligned_alloc(i64 {ALIGNMENT}, i64 {result}.size)
"""


def prepare() -> str:
    """Text that makes `%block` ready for a worker's blocks: sizes from `%control`, shared memory, `%static` bytes of it fixed."""
    copied = "".join(
        CONTROL.load(f"%{name}", "%control", name) + BLOCK.store(f"%{name}", "%block", name)
        for name in (*_SIZE, *_GRID, "dynamic_bytes", "parameters")
    )
    return f"""\
{copied}{BLOCK.store("%control", "%block", "control")}
  %plane = mul i32 %size.x, %size.y
  %count = mul i32 %plane, %size.z
{BLOCK.store("%count", "%block", "count")}
  %static.up = add i64 %static, {ALIGNMENT - 1}
  %static.bytes = and i64 %static.up, -{ALIGNMENT}
  %dynamic.wide = zext i32 %dynamic_bytes to i64
  %shared.bytes = add i64 %dynamic.wide, %static.bytes
{allocate("%shared", "%shared.bytes")}{BLOCK.store("%shared", "%block", "shared")}
  %base = call ptr @llvm.frameaddress.p0(i32 0)
{BLOCK.store("%base", "%block", "base")}
  %dynamic = getelementptr i8, ptr %shared, i64 %static.bytes
{BLOCK.store("%dynamic", "%block", "dynamic")}
"""


def _crew() -> str:
    return f"""\
define internal void @cuda_device.crew(ptr %control, ptr %function, i64 %static) nounwind {{
entry:
  %cursor = alloca {CURSOR}
  %aside = alloca [{INTERLEAVED} x ptr]
{CURSOR.store("0", "%cursor", "left")}{CONTROL.address("%stop.at", "%control", "stop")}
  %first = call ptr @cuda_device.open(ptr %control, i64 %static)
  br label %loop
loop:
  %block = phi ptr [%first, %entry], [%block, %start], [%fresh, %spun], [%spare, %swept]
  %many = phi i32 [0, %entry], [%many, %start], [%many.more, %spun], [%many.left, %swept]
  %stop = load atomic i32, ptr %stop.at monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %close, label %room
room:
  %fits = icmp ult i32 %many, {INTERLEAVED}
  br i1 %fits, label %take, label %sweep
take:
  %got = call i1 @cuda_device.next(ptr %control, ptr %cursor, ptr %block)
  br i1 %got, label %start, label %left
start:
  call void %function(ptr %block)
  %outcome = call i32 @cuda_device.schedule(ptr %block)
  %ended = icmp eq i32 %outcome, {Outcome.ENDED:d}
  br i1 %ended, label %loop, label %spun
spun:
  %aside.at = getelementptr ptr, ptr %aside, i32 %many
  store ptr %block, ptr %aside.at
  %many.more = add i32 %many, 1
  %fresh = call ptr @cuda_device.open(ptr %control, i64 %static)
  %power = call i32 @llvm.ctpop.i32(i32 %many.more)
  %sweeps = icmp eq i32 %power, 1
  br i1 %sweeps, label %sweep, label %loop
left:
  %nothing = icmp eq i32 %many, 0
  br i1 %nothing, label %close, label %sweep
sweep:
  %spare = phi ptr [%block, %room], [%block, %left], [%fresh, %spun]
  %many.aside = phi i32 [%many, %room], [%many, %left], [%many.more, %spun]
  br label %each
each:
  %i = phi i32 [%many.aside, %sweep], [%i.less, %visited]
  %here = phi i32 [%many.aside, %sweep], [%here.next, %visited]
  %i.less = sub i32 %i, 1
  %visit.at = getelementptr ptr, ptr %aside, i32 %i.less
  %visit = load ptr, ptr %visit.at
  %visit.outcome = call i32 @cuda_device.schedule(ptr %visit)
  %visit.ended = icmp eq i32 %visit.outcome, {Outcome.ENDED:d}
  br i1 %visit.ended, label %finish, label %visited
finish:
  call void @cuda_device.close(ptr %visit)
  %here.less = sub i32 %here, 1
  %last.at = getelementptr ptr, ptr %aside, i32 %here.less
  %last = load ptr, ptr %last.at
  store ptr %last, ptr %visit.at
  br label %visited
visited:
  %here.next = phi i32 [%here, %each], [%here.less, %finish]
  %more = icmp ne i32 %i.less, 0
  br i1 %more, label %each, label %judge
judge:
  %same = icmp eq i32 %here.next, %many.aside
  br i1 %same, label %rest, label %swept
rest:
  %rested = call i32 @sched_yield()
  br label %swept
swept:
  %many.left = phi i32 [%here.next, %judge], [%here.next, %rest]
  br label %loop
close:
  %remaining = phi i32 [%many, %loop], [0, %left], [%remaining.less, %discard]
  %done = icmp eq i32 %remaining, 0
  br i1 %done, label %end, label %discard
discard:
  %remaining.less = sub i32 %remaining, 1
  %discard.at = getelementptr ptr, ptr %aside, i32 %remaining.less
  %discarded = load ptr, ptr %discard.at
  call void @cuda_device.close(ptr %discarded)
  br label %close
end:
  call void @cuda_device.close(ptr %block)
  ret void
}}
"""


def _next() -> str:
    """Gives `block` the index of the worker's next block; false where none is left. A chunk's first one costs divisions."""
    return f"""\
define internal i1 @cuda_device.next(ptr %control, ptr %cursor, ptr %block) nounwind {{
entry:
{CURSOR.loads("%cursor", "left", "next.x", "next.y", "next.z")}{CONTROL.loads("%control", "grid.x", "grid.y")}
  %empty = icmp eq i64 %left, 0
  br i1 %empty, label %take, label %have
take:
{CONTROL.loads("%control", "blocks", "chunk")}{CONTROL.address("%next.at", "%control", "next")}
  %first = atomicrmw add ptr %next.at, i64 %chunk monotonic
  %some = icmp ult i64 %first, %blocks
  br i1 %some, label %taken, label %none
none:
  ret i1 false
taken:
  %remaining = sub i64 %blocks, %first
  %length = call i64 @llvm.umin.i64(i64 %remaining, i64 %chunk)
  %grid.x.wide = zext i32 %grid.x to i64
  %grid.y.wide = zext i32 %grid.y to i64
  %first.x = urem i64 %first, %grid.x.wide
  %first.row = udiv i64 %first, %grid.x.wide
  %first.y = urem i64 %first.row, %grid.y.wide
  %first.z = udiv i64 %first.row, %grid.y.wide
  %start.x = trunc i64 %first.x to i32
  %start.y = trunc i64 %first.y to i32
  %start.z = trunc i64 %first.z to i32
  br label %have
have:
  %many = phi i64 [%left, %entry], [%length, %taken]
  %x = phi i32 [%next.x, %entry], [%start.x, %taken]
  %y = phi i32 [%next.y, %entry], [%start.y, %taken]
  %z = phi i32 [%next.z, %entry], [%start.z, %taken]
{"".join(BLOCK.store(f"%{axis}", "%block", f"index.{axis}") for axis in _AXES)}
{step()}
  %many.less = sub i64 %many, 1
{CURSOR.store("%many.less", "%cursor", "left")}
{"".join(CURSOR.store(f"%{axis}.next", "%cursor", f"next.{axis}") for axis in _AXES)}
  ret i1 true
}}
"""


def step() -> str:
    """Text that makes `%x.next` … the index after `%x`, `%y`, `%z`, x fastest."""
    return """\
  %x.one = add i32 %x, 1
  %x.over = icmp eq i32 %x.one, %grid.x
  %x.next = select i1 %x.over, i32 0, i32 %x.one
  %y.carry = zext i1 %x.over to i32
  %y.one = add i32 %y, %y.carry
  %y.over = icmp eq i32 %y.one, %grid.y
  %y.next = select i1 %y.over, i32 0, i32 %y.one
  %z.carry = zext i1 %y.over to i32
  %z.next = add i32 %z, %z.carry
"""


def _open() -> str:
    """Memory for one block at a time, and for its threads. It serves a worker's blocks one after the other."""
    return f"""\
define internal ptr @cuda_device.open(ptr %control, i64 %static) nounwind {{
entry:
  %bytes.end = getelementptr {BLOCK}, ptr null, i64 1
  %bytes = ptrtoint ptr %bytes.end to i64
{allocate("%block", "%bytes")}
{prepare()}
  call void @cuda_device.threads(ptr %block)
  ret ptr %block
}}
"""


def _threads() -> str:
    """The records of a block's threads and warps, and room for their handles."""
    thread = "".join(
        THREAD.store(f"%{name}", "%thread", name) for name in ("x", "y", "z", "linear", "block", "state")
    ) + THREAD.store(str(FUEL), "%thread", "fuel")
    return f"""\
define internal void @cuda_device.threads(ptr %block) nounwind {{
entry:
{BLOCK.loads("%block", "size.x", "size.y", "count")}
  %count.wide = zext i32 %count to i64
  %count.up = add i64 %count.wide, {WARP_SIZE - 1}
  %many = udiv i64 %count.up, {WARP_SIZE}
  %warps.end = getelementptr {WARP}, ptr null, i64 %many
  %warps.bytes = ptrtoint ptr %warps.end to i64
{allocate("%warps", "%warps.bytes")}{BLOCK.store("%warps", "%block", "warps")}
  call void @llvm.memset.p0.i64(ptr %warps, i8 0, i64 %warps.bytes, i1 false)
  %handles.bytes = mul i64 %count.wide, 8
{allocate("%handles", "%handles.bytes")}{BLOCK.store("%handles", "%block", "handles")}
  %threads.end = getelementptr {THREAD}, ptr null, i64 %count.wide
  %threads.bytes = ptrtoint ptr %threads.end to i64
{allocate("%threads", "%threads.bytes")}{BLOCK.store("%threads", "%block", "threads")}
{BLOCK.store("null", "%block", "frames")}
  br label %each
each:
  %linear = phi i32 [0, %entry], [%linear.next, %each]
  %thread = getelementptr {THREAD}, ptr %threads, i32 %linear
  %w = udiv i32 %linear, {WARP_SIZE}
  %lane = urem i32 %linear, {WARP_SIZE}
  %state = getelementptr {WARP}, ptr %warps, i32 %w, i32 {WARP.index("words")}, i32 %lane
  %x = urem i32 %linear, %size.x
  %row = udiv i32 %linear, %size.x
  %y = urem i32 %row, %size.y
  %z = udiv i32 %row, %size.y
{thread}
  %linear.next = add nuw i32 %linear, 1
  %more = icmp ult i32 %linear.next, %count
  br i1 %more, label %each, label %made
made:
  ret void
}}
"""


def _close() -> str:
    frees = "".join(f"  call void @free(ptr %{name})\n" for name in (*_OWNED, "shared", "block"))
    return f"""\
define internal void @cuda_device.close(ptr %block) nounwind {{
{BLOCK.loads("%block", *_OWNED, "shared")}{frees}
  ret void
}}
"""


def _frames() -> str:
    """Memory for the coroutines of all threads of a block, `size` bytes each.

    The stride is an odd number of cache lines: frames a power of two apart would all compete for the same few lines.
    """
    return f"""\
define void @cuda_device.frames(ptr %block, i64 %size) nounwind noinline cold {{
entry:
  %up = add i64 %size, 63
  %lines = and i64 %up, -64
  %stride = or i64 %lines, 64
{BLOCK.loads("%block", "count")}
  %many = zext i32 %count to i64
  %bytes = mul i64 %stride, %many
{allocate("%frames", "%bytes")}
{BLOCK.store("%frames", "%block", "frames")}{BLOCK.store("%stride", "%block", "stride")}
  %none = icmp eq ptr %frames, null
  br i1 %none, label %refused, label %made
refused:
  call void @cuda_device.deadlock(ptr %block, i32 {Status.OUT_OF_MEMORY:d})
  br label %made
made:
  ret void
}}
"""
