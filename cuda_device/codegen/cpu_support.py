"""What all kernels share when they run on the CPU: taking blocks, resuming threads, opening barriers, reports.

It is compiled once for a process; `cpu_runner` makes the part that belongs to one kernel, which calls this one:

    blocks(control, block_function, static_bytes, suspends)
        while blocks are left: take a chunk of them                       (atomic counter in the control record)
            for each block of the chunk, unless told to stop:
                block_function(block)                                     (runs its threads, or starts them)
                if suspends: schedule(block)
    schedule(block)
        rounds: settle(block) says who may go on; resume those; until all have returned

Between two rounds `settle` looks at the words in which the threads said where they wait, a warp at a time, in vectors.
All live threads of a warp must be at one place, as `bar.sync` on a GPU wants it; in checked mode all threads of the
block must. Where nobody may go on, that is a deadlock, and is reported with everyone's place: a barrier never hangs.
"""

from __future__ import annotations

from cuda_device.codegen.cpu_records import BLOCK, CONTROL, KIND_SHIFT, RECORDS, THREAD, WARP_SIZE, Status, Suspension

# What the kernels' modules, and the executor, may call.
EXPORTS = tuple(f"cuda_device.{name}" for name in ("blocks", "frames", "keep"))
_ALIGNMENT = 128
_AXES = "xyz"
_SIZE = ("size.x", "size.y", "size.z")
_GRID = ("grid.x", "grid.y", "grid.z")
_WARP = f"<{WARP_SIZE} x i32>"
_OWNED = ("states", "handles", "threads", "frames")

# LLVM declares its own functions by itself.
_DECLARATIONS = """\
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
"""


def support() -> str:
    """The whole module."""
    records = "".join(record.declaration() for record in RECORDS)
    parts = (
        records,
        _DECLARATIONS,
        _blocks(),
        _threads(),
        _close(),
        _frames(),
        _schedule(),
        _settle(),
        _deadlock(),
        _keep(),
    )
    return "\n".join(parts)


def _allocate(result: str, bytes: str) -> str:
    """Memory for an array; `aligned_alloc` wants a size that is a multiple of the alignment, and more than none."""
    return f"""\
  {result}.more = add i64 {bytes}, {2 * _ALIGNMENT - 1}
  {result}.size = and i64 {result}.more, -{_ALIGNMENT}
  {result} = call ptr @aligned_alloc(i64 {_ALIGNMENT}, i64 {result}.size)
"""


def _blocks() -> str:
    """What a worker does: gets memory, then runs blocks until none are left. A chunk's first index costs divisions."""
    copied = "".join(
        CONTROL.load(f"%{name}", "%control", name) + BLOCK.store(f"%{name}", "%block", name)
        for name in (*_SIZE, *_GRID, "dynamic_bytes", "parameters")
    )
    return f"""\
define void @cuda_device.blocks(ptr %control, ptr %function, i64 %static, i1 %suspends) nounwind {{
entry:
  %block = alloca {BLOCK}
{copied}{BLOCK.store("%control", "%block", "control")}
  %plane = mul i32 %size.x, %size.y
  %count = mul i32 %plane, %size.z
{BLOCK.store("%count", "%block", "count")}
  %static.up = add i64 %static, {_ALIGNMENT - 1}
  %static.bytes = and i64 %static.up, -{_ALIGNMENT}
  %dynamic.wide = zext i32 %dynamic_bytes to i64
  %shared.bytes = add i64 %dynamic.wide, %static.bytes
{_allocate("%shared", "%shared.bytes")}{BLOCK.store("%shared", "%block", "shared")}
  %dynamic = getelementptr i8, ptr %shared, i64 %static.bytes
{BLOCK.store("%dynamic", "%block", "dynamic")}
  br i1 %suspends, label %own, label %ready
own:
  call void @cuda_device.threads(ptr %block)
  br label %ready
ready:
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
  %done = phi i64 [0, %taken], [%done.next, %ran]
  %x = phi i32 [%start.x, %taken], [%x.next, %ran]
  %y = phi i32 [%start.y, %taken], [%y.next, %ran]
  %z = phi i32 [%start.z, %taken], [%z.next, %ran]
  %stop = load atomic i32, ptr %stop.at monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %close, label %run
run:
{"".join(BLOCK.store(f"%{axis}", "%block", f"index.{axis}") for axis in _AXES)}
  call void %function(ptr %block)
  br i1 %suspends, label %rounds, label %ran
rounds:
  call void @cuda_device.schedule(ptr %block)
  br label %ran
ran:
  %x.one = add i32 %x, 1
  %x.over = icmp eq i32 %x.one, %grid.x
  %x.next = select i1 %x.over, i32 0, i32 %x.one
  %y.carry = zext i1 %x.over to i32
  %y.one = add i32 %y, %y.carry
  %y.over = icmp eq i32 %y.one, %grid.y
  %y.next = select i1 %y.over, i32 0, i32 %y.one
  %z.carry = zext i1 %y.over to i32
  %z.next = add i32 %z, %z.carry
  %done.next = add nuw i64 %done, 1
  %more = icmp ult i64 %done.next, %length
  br i1 %more, label %each, label %take
close:
  call void @free(ptr %shared)
  br i1 %suspends, label %disown, label %end
disown:
  call void @cuda_device.close(ptr %block)
  br label %end
end:
  ret void
}}
"""


def _threads() -> str:
    """What a worker needs for suspending threads: made once, used for each of its blocks."""
    thread = "".join(THREAD.store(f"%{name}", "%thread", name) for name in ("x", "y", "z", "linear", "block", "state"))
    return f"""\
define internal void @cuda_device.threads(ptr %block) nounwind {{
entry:
{BLOCK.loads("%block", "size.x", "size.y", "count")}
  %many = zext i32 %count to i64
  %whole = add i64 %many, {WARP_SIZE - 1}
  %words = and i64 %whole, -{WARP_SIZE}
  %states.bytes = mul i64 %words, 4
{_allocate("%states", "%states.bytes")}{BLOCK.store("%states", "%block", "states")}
  call void @llvm.memset.p0.i64(ptr %states, i8 0, i64 %states.bytes, i1 false)
  %handles.bytes = mul i64 %many, 8
{_allocate("%handles", "%handles.bytes")}{BLOCK.store("%handles", "%block", "handles")}
  %threads.end = getelementptr {THREAD}, ptr null, i64 %many
  %threads.bytes = ptrtoint ptr %threads.end to i64
{_allocate("%threads", "%threads.bytes")}{BLOCK.store("%threads", "%block", "threads")}
{BLOCK.store("null", "%block", "frames")}
  br label %each
each:
  %linear = phi i32 [0, %entry], [%linear.next, %each]
  %thread = getelementptr {THREAD}, ptr %threads, i32 %linear
  %state = getelementptr i32, ptr %states, i32 %linear
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
    frees = "".join(f"  call void @free(ptr %{name})\n" for name in _OWNED)
    return f"""\
define internal void @cuda_device.close(ptr %block) nounwind {{
{BLOCK.loads("%block", *_OWNED)}{frees}
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
{_allocate("%frames", "%bytes")}
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


def _schedule() -> str:
    """Rounds: ask who may go on, resume those, until everybody has returned or the launch is stopped."""
    return f"""\
define internal void @cuda_device.schedule(ptr %block) nounwind {{
entry:
{BLOCK.loads("%block", "count", "states", "handles", "control")}
{CONTROL.address("%stop.at", "%control", "stop")}
  br label %round
round:
  %stop = load atomic i32, ptr %stop.at monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %leave, label %ask
ask:
  %least = call i32 @cuda_device.settle(ptr %block)
  %nobody = icmp eq i32 %least, 0
  br i1 %nobody, label %leave, label %each
each:
  %i = phi i32 [0, %ask], [%i.next, %next]
  %state.at = getelementptr i32, ptr %states, i32 %i
  %state = load i32, ptr %state.at
  %ready = icmp uge i32 %state, %least
  br i1 %ready, label %resume, label %next
resume:
  %handle.at = getelementptr ptr, ptr %handles, i32 %i
  %handle = load ptr, ptr %handle.at
  call void @llvm.coro.resume(ptr %handle)
  br label %next
next:
  %i.next = add nuw i32 %i, 1
  %more = icmp ult i32 %i.next, %count
  br i1 %more, label %each, label %round
leave:
  ret void
}}
"""


def _settle() -> str:
    """Who may go on: every thread whose word is at least the answer; 0 where nobody may. A returned thread's word is 0.

    The threads of a warp agree if the greatest word is the least word, leaving the zeros out: of the unsigned words
    less one, a zero is the greatest of all. A warp without live threads agrees, too: 0 and 0.
    """
    return f"""\
define internal i32 @cuda_device.settle(ptr %block) nounwind {{
entry:
{BLOCK.loads("%block", "count", "states", "control")}{CONTROL.loads("%control", "checked")}
  br label %warp
warp:
  %start = phi i32 [0, %entry], [%start.next, %warp]
  %greatest = phi i32 [0, %entry], [%greatest.next, %warp]
  %live = phi i32 [0, %entry], [%live.next, %warp]
  %torn = phi i1 [false, %entry], [%torn.next, %warp]
  %words.at = getelementptr i32, ptr %states, i32 %start
  %words = load {_WARP}, ptr %words.at, align {_ALIGNMENT}
  %waits = icmp ne {_WARP} %words, zeroinitializer
  %mask = bitcast <{WARP_SIZE} x i1> %waits to i32
  %lanes = call i32 @llvm.ctpop.i32(i32 %mask)
  %less = sub {_WARP} %words, splat (i32 1)
  %most = call i32 @llvm.vector.reduce.umax.v{WARP_SIZE}i32({_WARP} %words)
  %least = call i32 @llvm.vector.reduce.umin.v{WARP_SIZE}i32({_WARP} %less)
  %least.word = add i32 %least, 1
  %differ = icmp ne i32 %most, %least.word
  %torn.next = or i1 %torn, %differ
  %live.next = add i32 %live, %lanes
  %greatest.next = call i32 @llvm.umax.i32(i32 %greatest, i32 %most)
  %start.next = add nuw i32 %start, {WARP_SIZE}
  %more = icmp ult i32 %start.next, %count
  br i1 %more, label %warp, label %judge
judge:
  br i1 %torn.next, label %stuck, label %agreed
stuck:
  call void @cuda_device.deadlock(ptr %block, i32 {Status.DEADLOCK:d})
  ret i32 0
agreed:
  %strict = icmp ne i32 %checked, 0
  %any = icmp ne i32 %live.next, 0
  %look = and i1 %strict, %any
  br i1 %look, label %check, label %pass
check:
  %together = call i1 @cuda_device.together(ptr %block, i32 %greatest.next)
  br i1 %together, label %pass, label %apart
apart:
  call void @cuda_device.deadlock(ptr %block, i32 {Status.DIVERGENT_BARRIER:d})
  ret i32 0
pass:
  %least.ready = select i1 %any, i32 {Suspension.BARRIER << KIND_SHIFT}, i32 0
  ret i32 %least.ready
}}

define internal i1 @cuda_device.together(ptr %block, i32 %word) nounwind noinline {{
entry:
{BLOCK.loads("%block", "count", "states")}
  br label %each
each:
  %i = phi i32 [0, %entry], [%i.next, %each]
  %same = phi i1 [true, %entry], [%same.next, %each]
  %at = getelementptr i32, ptr %states, i32 %i
  %its = load i32, ptr %at
  %equal = icmp eq i32 %its, %word
  %same.next = and i1 %same, %equal
  %i.next = add nuw i32 %i, 1
  %more = icmp ult i32 %i.next, %count
  br i1 %more, label %each, label %end
end:
  ret i1 %same.next
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
{block}{BLOCK.loads("%block", "states", "count")}
{CONTROL.address("%waiting", "%control", "waiting")}
  %many = zext i32 %count to i64
  %bytes = mul i64 %many, 4
  call void @llvm.memcpy.p0.p0.i64(ptr %waiting, ptr %states, i64 %bytes, i1 false)
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
