"""How a kernel looks to LLVM when it runs on the CPU: the pieces of text that the lowering puts into a kernel's body.

Each function that runs on the device takes `ptr %thread` first, and finds there which thread it is. A kernel that never
waits is a plain function, which the runner calls in a loop over the threads of a block. A kernel that waits is a
coroutine: each thread has a frame of its own, and a barrier is the point where it suspends.

    <declarations()>
    <kernel_signature("kernel", "ptr %out", suspends=True)>
    <prologue()>                                              ends inside the block `coro.start`
      store i32 1, ptr %out
    <barrier(7, "after")>                                     ends at the label `after:`
      br label %coro.finish                                   what `return` is
    <epilogue()>
    }
    <runner("kernel", ["ptr"], suspends=True, shared_bytes=0)>

A barrier stores why and where the thread waits, and hands control back to the scheduler (`scheduler`), which compares
these words and resumes the threads. Only a kernel's own body can suspend: what holds a barrier is inlined into it
before. `special_register` and `report` may stand in any device function.
"""

from __future__ import annotations

from cuda_device.codegen.cpu.records import (
    BLOCK,
    CONTROL,
    FUEL,
    KIND_SHIFT,
    PLACE_MASK,
    RECORDS,
    THREAD,
    WARP_SIZE,
    Suspension,
)
from cuda_device.codegen.emit.dialect import Status

THREAD_PARAMETER = "ptr readonly captures(none) %thread"
RETURNED = "coro.finish"

# What the hardware guarantees about a register: the half-open range of its values.
_RANGES = {"thread_idx": "0, i32 1024", "block_dim": "1, i32 1025", "block_idx": "0, i32 -2147483648"}
_BLOCK_FIELDS = {"block_idx": "index", "block_dim": "size", "grid_dim": "grid"}
_POINTERS = {"shared": "shared", "dynamic_shared": "dynamic", "dynamic_shared_bytes": "dynamic_bytes"}
_FUNCTIONS = """\
declare ptr @llvm.frameaddress.p0(i32)
declare void @cuda_device.trace(ptr, i32, i64, i64)
declare i64 @cuda_device.nanoseconds(i32)
"""


def declarations() -> str:
    """The types that the other texts use: once in each module, before the first function."""
    return "".join(record.declaration() for record in RECORDS) + _FUNCTIONS


def kernel_signature(symbol: str, parameters: str, suspends: bool) -> str:
    """The line that opens the kernel; `parameters` is `"ptr %x, i64 %n"`, what the runner passes after the thread."""
    separator = ", " if parameters else ""
    if suspends:
        return f"define internal ptr @{symbol}(ptr %thread{separator}{parameters}) nounwind presplitcoroutine {{\n"
    return f"define internal void @{symbol}({THREAD_PARAMETER}{separator}{parameters}) nounwind alwaysinline {{\n"


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
