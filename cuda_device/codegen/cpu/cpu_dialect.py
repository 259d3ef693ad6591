"""How a kernel looks to LLVM when it runs on the CPU: the pieces of text that the lowering puts into a kernel's body.

Each function that runs on the device takes `ptr %thread` first, and finds there which thread it is. A kernel that never
waits is a plain function, which the runner calls in a loop over the threads of a block. A kernel that waits is divided into
regions (`regions`), or is a coroutine: each thread has a frame of its own, and a barrier is the point where it suspends.

    <declarations()>
    <kernel_signature("kernel", "ptr %out", suspends=True)>
    <prologue()>                                              ends inside the block `coro.start`
      store i32 1, ptr %out
    <barrier(7, "after")>                                     ends at the label `after:`
      br label %coro.finish                                   what `return` is
    <epilogue()>
    }
    <runner("kernel", ["ptr"], suspends=True, shared_bytes=0)>

A barrier stores why and where the thread waits, and hands control back to the scheduler (`scheduler`), which compares these
words and resumes the threads. Only a kernel's own body can suspend: what holds a barrier is inlined into it before.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.codegen.cpu.records import (
    BLOCK,
    CONTROL,
    CREW,
    FUEL,
    KIND_SHIFT,
    NANOSECONDS,
    PLACE_MASK,
    RECORDS,
    RUN,
    THREAD,
    WARP,
    WARP_SIZE,
    WIDE,
    Record,
    Suspension,
)
from cuda_device.codegen.cpu.regions import Regions
from cuda_device.codegen.emit import llvm_writer
from cuda_device.codegen.emit.dialect import LLVM_ORDERS, PAIR, Dialect, Meeting, Status, Update, Wide
from cuda_device.device.functions import DEFAULTS, Options
from cuda_device.ir import ops
from cuda_device.ir.nodes import Function, Module, Op
from cuda_device.ir.ops import Effect
from cuda_device.types.architectures import MAXIMUM_STATIC_SHARED
from cuda_device.types.model import Number, Space

THREAD_PARAMETER = "ptr readonly captures(none) %thread"
RETURNED = "coro.finish"

# What the hardware guarantees about a register: the half-open range of its values.
_RANGES = {"thread_idx": "0, i32 1024", "block_dim": "1, i32 1025", "block_idx": "0, i32 -2147483648"}
_BLOCK_FIELDS = {
    "block_idx": "index",
    "block_dim": "size",
    "grid_dim": "grid",
    "cluster_idx": "cluster_idx",
    "cluster_dim": "cluster_dim",
}
_POINTERS = {
    "block_rank": "block_rank",
    "shared": "shared",
    "dynamic_shared": "dynamic",
    "dynamic_shared_bytes": "dynamic_bytes",
}
_FUNCTIONS = """\
declare ptr @llvm.frameaddress.p0(i32)
declare void @cuda_device.trace(ptr, i32, i64, i64)
declare i64 @cuda_device.nanoseconds(i32)
"""


def declarations() -> str:
    """The types that the other texts use: once in each module, before the first function."""
    return "".join(record.declaration() for record in RECORDS) + _FUNCTIONS


def kernel_signature(symbol: str, parameters: str, suspends: bool, debug: bool = False) -> str:
    """The line that opens the kernel; `parameters` is `"ptr %x, i64 %n"`, what the runner passes after the thread.

    Debuggers find it as a function of its own; else it becomes a part of the runner.
    """
    separator = ", " if parameters else ""
    if suspends:
        return f"define internal ptr @{symbol}(ptr %thread{separator}{parameters}) nounwind presplitcoroutine {{\n"
    how = "noinline" if debug else "alwaysinline"
    return f"define internal void @{symbol}({THREAD_PARAMETER}{separator}{parameters}) nounwind {how} {{\n"


def region_signature(symbol: str, parameters: str) -> str:
    """The line that opens a kernel in regions: where the thread goes on, its warp's frame, and its lane."""
    separator = ", " if parameters else ""
    hidden = f"{THREAD_PARAMETER}, i32 %place, ptr noalias %frame, i64 %lane"
    return f"define internal void @{symbol}({hidden}{separator}{parameters}) nounwind {{\n"


def returned() -> str:
    """Where a thread of a kernel in regions ends."""
    text = THREAD.load("%coro.state", "%thread", "state")
    return f"{RETURNED}:\n{text}  store i32 0, ptr %coro.state\n  ret void\n"


def special_register(name: str, result: str) -> str:
    """Text that makes `result` (a name, not a number: temporaries are `result.something`) the value of a register.

    Names: `thread_idx`, `block_idx`, `block_dim`, `grid_dim` with `.x`, `.y`, `.z`; `linear_thread` (the thread's
    number in its block), `lane_id`, `lanemask_lt`, `dynamic_shared_bytes`, `hidden_zero` (0): i32. `shared` and
    `dynamic_shared`: ptr, aligned to 128.
    """
    group, _, axis = name.partition(".")
    metadata = f", !range !{{i32 {_RANGES[group]}}}" if group in _RANGES else ""
    if group == "thread_idx":
        return THREAD.load(result, "%thread", axis, metadata)
    if name == "hidden_zero":
        return f"  {result} = add i32 0, 0\n"
    if name == "linear_thread":
        return THREAD.load(result, "%thread", "linear", f", !range !{{i32 {_RANGES['thread_idx']}}}")
    if name == "lane_id":
        linear = THREAD.load(f"{result}.linear", "%thread", "linear")
        return linear + f"  {result} = and i32 {result}.linear, {WARP_SIZE - 1}\n"
    if name == "lanemask_lt":
        lane = special_register("lane_id", f"{result}.lane")
        return lane + f"  {result}.bit = shl nuw i32 1, {result}.lane\n  {result} = add i32 {result}.bit, -1\n"
    field = f"{_BLOCK_FIELDS[group]}.{axis}" if group in _BLOCK_FIELDS else _POINTERS[name]
    block = f"{result}.block"
    return THREAD.load(block, "%thread", "block") + BLOCK.load(result, block, field, metadata)


def room(result: str) -> str:
    """Text that makes `result`, an i1, whether the host thread's stack has room for another call: checked mode."""
    block, control = f"{result}.block", f"{result}.control"
    return (
        THREAD.load(block, "%thread", "block")
        + BLOCK.load(f"{result}.base", block, "base")
        + BLOCK.load(control, block, "control")
        + CONTROL.load(f"{result}.stack", control, "stack")
        + f"""\
  {result}.here = call ptr @llvm.frameaddress.p0(i32 0)
  {result}.from = ptrtoint ptr {result}.base to i64
  {result}.to = ptrtoint ptr {result}.here to i64
  {result}.used = sub i64 {result}.from, {result}.to
  {result} = icmp slt i64 {result}.used, {result}.stack
"""
    )


def prologue(allocas: str = "") -> str:
    """Text that opens a kernel that may suspend: the block `entry` with `allocas`, then the start of `coro.start`.

    Every alloca of the kernel belongs into `allocas`: LLVM moves those that live across a suspension into the frame.
    """
    return f"""\
entry:
{allocas}  %coro.id = call token @llvm.coro.id(i32 64, ptr null, ptr null, ptr null)
  %coro.size = call i64 @llvm.coro.size.i64()
  %coro.memory = call ptr @cuda_device.frame(ptr %thread, i64 %coro.size)
  %coro.refused = icmp eq ptr %coro.memory, null
  br i1 %coro.refused, label %coro.nothing, label %coro.start
coro.nothing:
  ret ptr null
coro.start:
  %coro.handle = call ptr @llvm.coro.begin(token %coro.id, ptr %coro.memory)
"""


def barrier(place: int, label: str) -> str:
    """Text for `syncthreads()`: waits for the threads of the block that have not returned; goes on at `label:`."""
    return suspend(Suspension.BARRIER, place, label)


def yield_now(place: int, label: str) -> str:
    """Text that lets other threads run, also those of other blocks; goes on at `label:`."""
    return suspend(Suspension.YIELD, place, label)


def yield_sometimes(place: int, label: str) -> str:
    """`yield_now`, but only once in `FUEL` times that a thread comes to such a place; goes on at `label:`."""
    return (
        THREAD.load(f"%{label}.fuel", "%thread", "fuel")
        + f"""\
  %{label}.left = add i32 %{label}.fuel, -1
  %{label}.empty = icmp eq i32 %{label}.left, 0
  %{label}.kept = select i1 %{label}.empty, i32 {FUEL}, i32 %{label}.left
"""
        + THREAD.store(f"%{label}.kept", "%thread", "fuel", f"%{label}.fuel.to")
        + f"  br i1 %{label}.empty, label %{label}.out, label %{label}\n{label}.out:\n"
        + yield_now(place, f"{label}.in")
        + f"  br label %{label}\n{label}:\n"
    )


def suspend(kind: Suspension, place: int, label: str, before: str = "") -> str:
    """Text that waits and goes on at `label:`; `before` comes first, and finds `%label.state`, the thread's word."""
    if not 0 <= place <= PLACE_MASK:
        raise ValueError(f"a place is a number from 0 to {PLACE_MASK}, not {place}")
    return (
        THREAD.load(f"%{label}.state", "%thread", "state")
        + before
        + f"""\
  store i32 {kind << KIND_SHIFT | place}, ptr %{label}.state
  %{label}.signal = call i8 @llvm.coro.suspend(token none, i1 false)
  switch i8 %{label}.signal, label %coro.leave [i8 0, label %{label}]
{label}:
"""
    )


def epilogue() -> str:
    """Text that closes a kernel that may suspend: `br label %coro.finish` from anywhere in its body ends the thread."""
    return (
        f"{RETURNED}:\n"
        + THREAD.load("%coro.state", "%thread", "state")
        + """\
  store i32 0, ptr %coro.state
  br label %coro.leave
coro.leave:
  call void @llvm.coro.end(ptr %coro.handle, i1 false, token none)
  ret ptr %coro.handle
"""
    )


def report(status: Status, place: int, first: str = "0", second: str = "0") -> str:
    """Text that reports from this thread; `first` and `second` are i64 values for the message.

    The first report of a launch is kept, and stops the launch. The thread has to end after it.
    """
    arguments = f"ptr %thread, i32 {status:d}, i32 {place}, i64 {first}, i64 {second}"
    return f"  call void @cuda_device.report({arguments})\n"


def trace(place: int, value: str, done: str) -> str:
    """Text that tells the race detector what this thread does; `value` and `done` are i64."""
    return f"  call void @cuda_device.trace(ptr %thread, i32 {place}, i64 {value}, i64 {done})\n"


_PREFIXES = {
    ops.BARRIER: "BARRIER",
    ops.WARP_SYNC: "SYNC",
    ops.WARP_ACTIVE: "ACTIVE",
    ops.WARP_MATCH: "MATCH_",
    ops.WARP_REDUCE: "REDUCE_",
}
_OTHERWISE = {"eq": "EQUAL", "idx": "INDEX"}
"""What `Suspension` calls the operations and their kinds."""


def exchange(
    kind: Suspension, place: int, label: str, result: str = "", *, mask: str = "", value: str = "", lane: str = ""
) -> str:
    """Text that meets others: leaves what the lane brings in the warp's record, waits, and takes `result` out of it.

    All operands have their types: `"i32 -1"`, `"i64 %sum"`. Flags are i1; values have 32 or 64 bits.
    """
    before = _store(label, "masks", mask) if mask else ""
    type, _, name = value.partition(" ")
    low, high, near = (f"%{label}.{part}" for part in ("low", "high", "near"))
    if lane:
        before += f"  {near} = and {lane}, {WARP_SIZE - 1}\n"
        if type == "i64":
            before += f"  {near}.wide = or i32 {near}, {WIDE}\n"
        before += _store(label, "sources", f"i32 {near}{'.wide' if type == 'i64' else ''}")
    if type == "i1":
        before += f"  {low} = zext {value} to i32\n"
    elif type == "i64":
        before += f"  {low} = trunc {value} to i32\n  {high}.down = lshr {value}, 32\n"
        before += f"  {high} = trunc i64 {high}.down to i32\n"
    if value:
        before += _store(label, "lows", value if type == "i32" else f"i32 {low}")
        before += _store(label, "highs", f"i32 {high}" if type == "i64" else "i32 0")
    text = suspend(kind, place, label, before)
    type, _, name = result.partition(" ")
    if type == "i32":
        text += _load(name, "lows")
    elif type == "i1":
        text += _load(f"{name}.word", "lows") + f"  {name} = icmp ne i32 {name}.word, 0\n"
    elif type == "i64":
        low, high = f"{name}.low", f"{name}.high"
        text += _load(low, "lows") + _load(high, "highs")
        text += f"  {low}.wide = zext i32 {low} to i64\n  {high}.wide = zext i32 {high} to i64\n"
        text += f"  {high}.up = shl i64 {high}.wide, 32\n  {name} = or i64 {high}.up, {low}.wide\n"
    return text


def _entry(result: str, state: str, field: str) -> str:
    return f"  {result} = getelementptr i8, ptr {state}, i64 {4 * WARP_SIZE * WARP.index(field)}\n"


def _store(label: str, field: str, value: str) -> str:
    at = f"%{label}.{field}"
    return _entry(at, f"%{label}.state", field) + f"  store {value}, ptr {at}\n"


def _load(result: str, field: str) -> str:
    """Reads one of the lane's entries after the meeting; the record's address is not kept in the frame meanwhile."""
    state = f"{result}.{field}.state"
    text = THREAD.load(state, "%thread", "state") + _entry(f"{result}.{field}.at", state, field)
    return text + f"  {result} = load i32, ptr {result}.{field}.at\n"


def _meet(m: Meeting) -> str:
    """The text of a convergent operation, which goes on at `label:`."""
    if m.code is ops.YIELD:
        return (yield_now if m.kind == "now" else yield_sometimes)(m.place, m.label)
    kind = Suspension[_PREFIXES.get(m.code, "") + _OTHERWISE.get(m.kind, m.kind.upper())]
    mask, value, lane = (*([""] * (m.code is ops.BARRIER_REDUCE)), *m.operands, "", "", "")[:3]
    return exchange(kind, m.place, m.label, m.result, mask=mask, value=value, lane=lane)


# What surrounds one kernel: the threads of one block, and the exported `@cuda_device.run`.
#
#     void @cuda_device.run(ptr control)      each worker calls it once for a launch; `scheduler` takes blocks, and calls
#     void @cuda_device.block(ptr block)      plain kernel:       for z, y, x: kernel(thread), inlined, x vectorised by LLVM
#                                             suspending kernel:  starts a coroutine for each thread; `scheduler` resumes them
#
# Only this is compiled anew for each kernel, and so it is small: what is the same for all kernels is in `scheduler`.


_SIZE = ("size.x", "size.y", "size.z")
_AXES = "xyz"
# The loops over threads are vectorised, not unrolled, which would only cost time to compile. Nobody else takes this
# number.
_LOOP = "!900000000"


def parameter_record(leaves: Sequence[str]) -> str:
    """The LLVM type of the packed parameters: a C structure of the leaves, each at its natural alignment."""
    return "{ " + ", ".join(leaves) + " }" if leaves else "{}"


def runner(
    symbol: str,
    leaves: Sequence[str],
    suspends: bool,
    shared_bytes: int,
    regions: Regions | None = None,
) -> str:
    """The text to add to the module of the kernel `symbol`, after `cpu.declarations()`.

    `leaves` are the LLVM types of the kernel's parameters after `ptr %thread`; `shared_bytes` is the size of its static
    shared memory. `regions` are those of a kernel that has some.
    """
    plain = _suspending if suspends else _plain
    block = _regions(symbol, leaves, regions) if regions else plain(symbol, leaves)
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
  call void @{symbol}(ptr %thread{_arguments(leaves)})
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
{BLOCK.store("@cuda_device.resume", "%block", "resume")}  br label %each
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

define internal void @cuda_device.resume(ptr %block, i64 %warp, i32 %lanes) nounwind {{
entry:
{BLOCK.loads("%block", "handles")}
  %first = mul i64 %warp, {WARP_SIZE}
  %own = getelementptr ptr, ptr %handles, i64 %first
  br label %each
each:
  %left = phi i32 [%lanes, %entry], [%rest, %each]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %handle.at = getelementptr ptr, ptr %own, i32 %lane
  %handle = load ptr, ptr %handle.at
  call void @llvm.coro.resume(ptr %handle)
  %less = add i32 %left, -1
  %rest = and i32 %left, %less
  %more = icmp ne i32 %rest, 0
  br i1 %more, label %each, label %leave
leave:
  ret void
}}

declare ptr @cuda_device.frame(ptr, i64)
declare i32 @llvm.cttz.i32(i32, i1)
"""


def _regions(symbol: str, leaves: Sequence[str], regions: Regions) -> str:
    """A block of a kernel in regions, whose threads all begin; and what lets lanes of a warp go on.

    All lanes of a warp that go on at one place do so in a loop that is this place's own; others go on one by one.
    """
    return f"""\
define internal void @cuda_device.block(ptr %block) nounwind {{
entry:
{BLOCK.loads("%block", "count", "threads")}{BLOCK.store("@cuda_device.resume", "%block", "resume")}
  %frames = call ptr @cuda_device.frame(ptr %threads, i64 {-(-regions.bytes // WARP_SIZE)})
  %refused = icmp eq ptr %frames, null
  br i1 %refused, label %leave, label %ready
ready:
{BLOCK.loads("%block", "stride")}  %warp.bytes = mul i64 %stride, {WARP_SIZE}
  br label %each
each:
  %warp = phi i64 [0, %ready], [%warp.next, %each]
  %left = phi i32 [%count, %ready], [%rest, %each]
  %offset = mul i64 %warp, %warp.bytes
  %frame = getelementptr i8, ptr %frames, i64 %offset
  store <{WARP_SIZE} x i32> zeroinitializer, ptr %frame, align 64
  %here = call i32 @llvm.umin.i32(i32 %left, i32 {WARP_SIZE})
  %missing = sub i32 {WARP_SIZE}, %here
  %lanes = lshr i32 -1, %missing
  call void @cuda_device.resume(ptr %block, i64 %warp, i32 %lanes)
  %warp.next = add i64 %warp, 1
  %rest = sub i32 %left, %here
  %more = icmp ne i32 %rest, 0
  br i1 %more, label %each, label %leave
leave:
  ret void
}}

define internal void @cuda_device.resume(ptr %shared.block, i64 %warp, i32 %lanes) nounwind {{
entry:
  %thread = alloca {THREAD}
  %block = alloca {BLOCK}
  %copy = load {BLOCK}, ptr %shared.block
  store {BLOCK} %copy, ptr %block
{_load_arguments(leaves)}{BLOCK.loads("%block", "count", "threads", "warps", "frames", "stride")}
{THREAD.store("%block", "%thread", "block")}{THREAD.store(str(FUEL), "%thread", "fuel")}
  %number = trunc i64 %warp to i32
  %first = mul nuw nsw i32 %number, {WARP_SIZE}
  %warp.bytes = mul i64 %stride, {WARP_SIZE}
  %offset = mul i64 %warp, %warp.bytes
  %frame = getelementptr i8, ptr %frames, i64 %offset
  %own = getelementptr {THREAD}, ptr %threads, i32 %first
{_together(symbol, leaves, regions.count)}
some:
  %left = phi i32 [%lanes, %entry], [%rest, %some]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %lane.wide = zext i32 %lane to i64
  %point.at = getelementptr i32, ptr %frame, i64 %lane.wide
  %place = load i32, ptr %point.at
  %thread.one = getelementptr {THREAD}, ptr %own, i64 %lane.wide
  call void @{symbol}(ptr %thread.one, i32 %place, ptr %frame, i64 %lane.wide{_arguments(leaves)}) noinline
  %less = add i32 %left, -1
  %rest = and i32 %left, %less
  %more = icmp ne i32 %rest, 0
  br i1 %more, label %some, label %leave, !llvm.loop {_LOOP}
leave:
  ret void
}}

declare ptr @cuda_device.frame(ptr, i64)
declare i32 @llvm.cttz.i32(i32, i1)
declare i32 @llvm.umin.i32(i32, i32)
"""


def _together(symbol: str, leaves: Sequence[str], regions: int) -> str:
    """The loops of all regions, for when all lanes of a warp that are left go on at one place."""
    cases = " ".join(f"i32 {number}, label %region.{number}" for number in range(regions))
    sizes = "".join(BLOCK.load(f"%{name}", "%block", name, ", !range !{i32 1, i32 1025}") for name in _SIZE[:2])
    return f"""\
{sizes}{THREAD.loads("%own", "x", "y", "z")}
  %threads.left = sub i32 %count, %first
  %here = call i32 @llvm.umin.i32(i32 %threads.left, i32 {WARP_SIZE})
  %missing = sub i32 {WARP_SIZE}, %here
  %existing = lshr i32 -1, %missing
  %words = getelementptr {WARP}, ptr %warps, i64 %warp
  %points = load <{WARP_SIZE} x i32>, ptr %frame, align 64
  %point = extractelement <{WARP_SIZE} x i32> %points, i32 0
  %one = insertelement <{WARP_SIZE} x i32> poison, i32 %point, i32 0
  %all = shufflevector <{WARP_SIZE} x i32> %one, <{WARP_SIZE} x i32> poison, <{WARP_SIZE} x i32> zeroinitializer
  %same = icmp eq <{WARP_SIZE} x i32> %points, %all
  %alike = bitcast <{WARP_SIZE} x i1> %same to i32
  %agree = and i32 %alike, %lanes
  %together = icmp eq i32 %agree, %existing
  br i1 %together, label %choose, label %some
choose:
  switch i32 %point, label %leave [{cases}]
{"".join(_region(symbol, leaves, number) for number in range(regions))}"""


def _region(symbol: str, leaves: Sequence[str], number: int) -> str:
    """The loops over the lanes of a warp that go on at one place: a row of the block at a time, along which x grows."""
    n = f".{number}"
    values = {"x": f"%x{n}", "y": f"%y{n}", "z": f"%z{n}", "linear": f"%linear{n}", "state": f"%word{n}"}
    stores = "".join(THREAD.store(value, "%thread", name, f"%to.{name}{n}") for name, value in values.items())
    return f"""\
region{n}:
  br label %row{n}
row{n}:
  %from{n} = phi i32 [0, %region{n}], [%to{n}, %row.end{n}]
  %x.from{n} = phi i32 [%x, %region{n}], [0, %row.end{n}]
  %y{n} = phi i32 [%y, %region{n}], [%y.new{n}, %row.end{n}]
  %z{n} = phi i32 [%z, %region{n}], [%z.new{n}, %row.end{n}]
  %rest{n} = sub i32 %here, %from{n}
  %row.left{n} = sub i32 %size.x, %x.from{n}
  %run{n} = call i32 @llvm.umin.i32(i32 %rest{n}, i32 %row.left{n})
  br label %each{n}
each{n}:
  %i{n} = phi i32 [0, %row{n}], [%i.next{n}, %each{n}]
  %x{n} = add nuw nsw i32 %x.from{n}, %i{n}
  %lane{n} = add nuw nsw i32 %from{n}, %i{n}
  %linear{n} = add nuw nsw i32 %first, %lane{n}
  %wide{n} = zext nneg i32 %lane{n} to i64
  %word{n} = getelementptr inbounds i32, ptr %words, i64 %wide{n}
{stores}
  call void @{symbol}(ptr %thread, i32 {number}, ptr %frame, i64 %wide{n}{_arguments(leaves)}) alwaysinline
  %i.next{n} = add nuw nsw i32 %i{n}, 1
  %i.more{n} = icmp ult i32 %i.next{n}, %run{n}
  br i1 %i.more{n}, label %each{n}, label %row.end{n}, !llvm.loop {_LOOP}
row.end{n}:
  %to{n} = add nuw nsw i32 %from{n}, %run{n}
  %y.next{n} = add nuw nsw i32 %y{n}, 1
  %plane.full{n} = icmp eq i32 %y.next{n}, %size.y
  %y.new{n} = select i1 %plane.full{n}, i32 0, i32 %y.next{n}
  %z.next{n} = zext i1 %plane.full{n} to i32
  %z.new{n} = add nuw nsw i32 %z{n}, %z.next{n}
  %more{n} = icmp ult i32 %to{n}, %here
  br i1 %more{n}, label %row{n}, label %leave
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


class Cpu(Dialect):
    """The host's processors: see `codegen/cpu/cpu_dialect`."""

    # The frame of a coroutine is memory of ours, at the boundary of a cache line.
    frame_alignment = 64
    same_bits = 'asm "", "=r,0"'

    def __init__(
        self,
        module: Module,
        options: Options = DEFAULTS,
        most_shared: int = MAXIMUM_STATIC_SHARED,
        regions: Regions | None = None,
    ) -> None:
        super().__init__(module, options, most_shared)
        self.suspends = Effect.SUSPENDS in module.main.effects
        self.regions = regions

    def preamble(self, text: str) -> str:
        """The records that threads and the scheduler share."""
        lines = "".join(f"{line}\n" for line in llvm_writer.constant_definitions(self.module))
        return declarations() + lines

    def pointer(self, space: Space) -> str:
        """One space."""
        return "ptr"

    def symbol(self, function: Function) -> str:
        """Never the name of a function of the C library."""
        return f"device.{function.name}"

    def open(self, function: Function, result: str, parameters: Sequence[str], allocas: str) -> tuple[str, str]:
        """Every function takes the thread first; a kernel that suspends is in regions, or a coroutine."""
        if function.kernel and self.regions:
            head = region_signature(self.symbol(function), ", ".join(parameters))
            return head + self.regions.prologue(allocas), "coro.start"
        if function.kernel:
            head = kernel_signature(self.symbol(function), ", ".join(parameters), self.suspends, self.options.debug)
            if self.suspends:
                return head + prologue(allocas), "coro.start"
            return f"{head}b0:\n{allocas}", "b0"
        listed = ", ".join((THREAD_PARAMETER, *parameters))
        return f"define internal {result} @{self.symbol(function)}({listed}) nounwind {{\nb0:\n{allocas}", "b0"

    def close(self, function: Function) -> str:
        """A coroutine's end, or the beginnings of regions."""
        if function.kernel and self.regions:
            return f"{returned()}{self.regions.epilogue()}}}\n"
        return (epilogue() if function.kernel and self.suspends else "") + "}\n"

    def leave(self, function: Function) -> str:
        """A thread of a coroutine leaves through its epilogue."""
        return f"br label %{RETURNED}" if function.kernel and self.suspends else "ret void"

    def arguments(self) -> tuple[str, ...]:
        """The thread."""
        return ("ptr %thread",)

    def register(self, name: str, result: str) -> str:
        """A field of the thread's or block's record."""
        return special_register(name, result)

    def timer(self, name: str, result: str) -> str:
        """A clock of the C library, by its number on Linux."""
        return f"  {result} = call i64 @{NANOSECONDS}(i32 {0 if name == 'globaltimer' else 1})\n"

    def meet(self, meeting: Meeting) -> tuple[str, str]:
        """A suspension, or the end of a region."""
        text = _meet(meeting)
        return self.regions.wait(text) if self.regions else text, meeting.label

    def shared(self, number: int | None, result: str) -> tuple[str, str]:
        """A part of the block's memory, behind which the launch's lies."""
        if number is None:
            return special_register("dynamic_shared", result), result
        base = special_register("shared", f"{result}.base")
        offset = self.offsets[number]
        return base + f"  {result} = getelementptr inbounds i8, ptr {result}.base, i64 {offset}\n", result

    def grid_word(self, result: str, cluster: bool) -> str:
        """A field of the launch's record, or the first one of the cluster's."""
        block, control = f"{result}.block", f"{result}.control"
        if cluster:
            return THREAD.load(block, "%thread", "block") + BLOCK.load(result, block, "cluster")
        found = THREAD.load(block, "%thread", "block") + BLOCK.load(control, block, "control")
        return found + CONTROL.address(result, control, "grid.word")

    def in_cluster(self, address: str, rank: str, result: str) -> str:
        """As far from where the other block's shared memory begins. Where each block is a cluster, that is the block's own."""
        block, own, other = f"{result}.block", f"{result}.own", f"{result}.other"
        text = THREAD.load(block, "%thread", "block") + BLOCK.load(own, block, "shared")
        text += BLOCK.load(f"{result}.cluster", block, "cluster") + f"  {result}.number = add {rank}, 1\n"
        lines = (
            f"{result}.there = getelementptr ptr, ptr {result}.cluster, i32 {result}.number",
            f"{result}.alone = icmp eq ptr {result}.cluster, null",
            f"{result}.from = select i1 {result}.alone, ptr {own}.at, ptr {result}.there",
            f"{other} = load ptr, ptr {result}.from",
            f"{result}.begin = ptrtoint ptr {own} to i64",
            f"{result}.place = ptrtoint {address} to i64",
            f"{result}.offset = sub i64 {result}.place, {result}.begin",
            f"{result} = getelementptr i8, ptr {other}, i64 {result}.offset",
        )
        return text + "".join(f"  {line}\n" for line in lines)

    def update(self, update: Update, result: str) -> str:
        """LLVM's instruction."""
        operation = {"exch": "xchg"}.get(update.operation, update.operation)
        if update.number.is_float and operation == "add":
            operation = "fadd"
        if not update.number.signed and operation in ("max", "min"):
            operation = f"u{operation}"
        return f"  {result} = atomicrmw {operation} {update.pointer}, {update.value} {LLVM_ORDERS[update.order]}\n"

    def wide(self, wide: Wide, result: str) -> str:
        """LLVM's instruction: processors of 64 bits have one that takes 16 bytes."""
        order = LLVM_ORDERS[wide.order]
        if wide.value:
            bits = f"{result}.bits"
            return f"  {bits} = bitcast {wide.value} to i128\n  store atomic i128 {bits}, {wide.pointer} {order}, align 16\n"
        load = f"  {result}.bits = load atomic i128, {wide.pointer} {order}, align 16\n"
        return f"{load}  {result} = bitcast i128 {result}.bits to {PAIR}\n"

    def report(self, status: Status, place: int, values: Sequence[str]) -> str:
        """A call."""
        return report(status, place, *values)

    def trace(self, place: int, value: str, done: str) -> str:
        """A call."""
        return trace(place, value, done)

    def exit(self, function: Function) -> str:
        """The kernel's end: other functions have told their callers (see `instrument/cpu_passes`)."""
        assert function.kernel, function.name
        return self.leave(function)

    def library(self, stem: str, type: Number) -> str:
        """The C library's names: `sinf`, `sin`."""
        return f"{stem}{'f' if type.bits == 32 else ''}"

    def runner(self, parameters: Sequence[str]) -> str:
        """What runs the kernel's threads."""
        return runner(self.symbol(self.module.main), parameters, self.suspends, self.shared_bytes, self.regions)

    def print(self, op: Op, buffer: str, result: str) -> str:
        """The launch knows a function of the host."""
        block, control, function = f"{result}.block", f"{result}.control", f"{result}.function"
        return (
            THREAD.load(block, "%thread", "block")
            + BLOCK.load(control, block, "control")
            + CONTROL.load(function, control, "print")
            + f"  call void {function}(i32 {op.attributes['place']}, ptr {buffer})\n"
        )

    def room(self, result: str) -> str:
        """How much of the host thread's stack is in use."""
        return room(result)
