"""How the lanes of one warp go on, on the CPU: part of what `cpu_support` compiles once for a process.

    warp(block, warp, handles)        what lanes bring stands in the warp's record, as `cpu_warp` wrote it
        steps: for each set of lanes that wait at one operation with one mask:
                   if all live lanes of the mask are there: exchange what they brought, they are ready
               if none are ready: those that wait in the first `activemask` of the text are
               resume the ready ones; until none are

A warp needs no other one for this. Lanes outside a mask do not matter, so that disjoint groups go on independently. What
is left waits for a whole block's barrier, for its next turn, or for ever, which `cpu_schedule` finds out.
"""

from __future__ import annotations

from cuda_device.codegen.cpu.records import (
    BLOCK,
    CONTROL,
    FIRST_MASKED,
    KIND_SHIFT,
    PLACE_MASK,
    THREAD,
    WARP,
    WARP_SIZE,
    WIDE,
    Suspension,
)
from cuda_device.codegen.emit.status import Status

ALIGNMENT = 128
LANES = f"<{WARP_SIZE} x i32>"
_FLAGS = f"<{WARP_SIZE} x i1>"
_NUMBERS = f"<{', '.join(f'i32 {i}' for i in range(WARP_SIZE))}>"
_AXES = "xyz"


def lanes() -> str:
    """The functions."""
    return _warp() + _exchange() + _vote() + _shuffle() + _match() + _outside()


def load_lanes(result: str, warp: str, field: str) -> str:
    """One of a warp's arrays, as a vector."""
    return (
        WARP.address(f"{result}.at", warp, field) + f"  {result} = load {LANES}, ptr {result}.at, align {ALIGNMENT}\n"
    )


def bits(result: str, test: str) -> str:
    """The lanes for which `test`, a comparison of vectors, holds: a bit for each."""
    return f"  {result}.each = {test}\n  {result} = bitcast {_FLAGS} {result}.each to i32\n"


def splat(result: str, value: str) -> str:
    """A vector with `value` in each lane."""
    return f"""\
  {result}.one = insertelement {LANES} poison, i32 {value}, i32 0
  {result} = shufflevector {LANES} {result}.one, {LANES} poison, {LANES} zeroinitializer
"""


def _give(value: str, old: str, group: str) -> str:
    """Writes the vector `value` to the low halves of the lanes in `group`; `old` is what stands there."""
    return f"""\
  %given = bitcast i32 {group} to {_FLAGS}
  %blended = select {_FLAGS} %given, {LANES} {value}, {LANES} {old}
{WARP.address("%blended.at", "%warp", "lows")}  store {LANES} %blended, ptr %blended.at, align {ALIGNMENT}
"""


def _lane(result: str, field: str, lane: str) -> str:
    """One lane's entry."""
    return (
        WARP.address(f"{result}.row", "%warp", field)
        + f"  {result}.at = getelementptr i32, ptr {result}.row, i32 {lane}\n  {result} = load i32, ptr {result}.at\n"
    )


def _warp() -> str:
    """Returns whether any lane went on. `handles` are those of this warp's coroutines."""
    masked, active = FIRST_MASKED << KIND_SHIFT, Suspension.ACTIVE << KIND_SHIFT
    sync = Suspension.SYNC << KIND_SHIFT
    return f"""\
define internal i1 @cuda_device.warp(ptr %block, ptr %warp, ptr %handles) nounwind {{
entry:
{BLOCK.loads("%block", "control")}{CONTROL.address("%stop.at", "%control", "stop")}
  br label %step
step:
  %progress = phi i1 [false, %entry], [true, %resumed]
  %stop = load atomic i32, ptr %stop.at monotonic, align 4
{load_lanes("%words", "%warp", "words")}
{bits("%live", f"icmp ne {LANES} %words, zeroinitializer")}
{bits("%masked", f"icmp uge {LANES} %words, splat (i32 {masked})")}
  %running = icmp eq i32 %stop, 0
  br i1 %running, label %begin, label %leave
begin:
  %none = icmp eq i32 %masked, 0
  br i1 %none, label %idle, label %look
look:
  %rest = phi i32 [%masked, %begin], [%rest.next, %looked]
  %ready = phi i32 [0, %begin], [%ready.next, %looked]
  %lane = call i32 @llvm.cttz.i32(i32 %rest, i1 true)
{_lane("%word", "words", "%lane")}{_lane("%mask", "masks", "%lane")}
  %kind = lshr i32 %word, {KIND_SHIFT}
  %is.sync = icmp eq i32 %kind, {Suspension.SYNC:d}
  %low.word = select i1 %is.sync, i32 {sync}, i32 %word
  %high.word = select i1 %is.sync, i32 {sync | PLACE_MASK}, i32 %word
{splat("%low.words", "%low.word")}{splat("%high.words", "%high.word")}{splat("%same.mask", "%mask")}
{load_lanes("%masks", "%warp", "masks")}
{bits("%from", f"icmp uge {LANES} %words, %low.words")}
{bits("%to", f"icmp ule {LANES} %words, %high.words")}
{bits("%alike", f"icmp eq {LANES} %masks, %same.mask")}
  %there.also = and i32 %from, %to
  %there = and i32 %there.also, %alike
  %absent = xor i32 %mask, -1
  %strays = and i32 %there, %absent
  %stray = icmp ne i32 %strays, 0
  br i1 %stray, label %outside, label %inside
outside:
  call void @cuda_device.outside(ptr %block, ptr %warp, i32 %strays)
  ret i1 true
inside:
  %needed = and i32 %mask, %live
  %others = xor i32 %there, -1
  %missing = and i32 %needed, %others
  %complete = icmp eq i32 %missing, 0
  br i1 %complete, label %meet, label %looked
meet:
  call void @cuda_device.exchange(ptr %warp, i32 %there, i32 %lane, i32 %kind)
  br label %looked
looked:
  %met = phi i32 [0, %inside], [%there, %meet]
  %ready.next = or i32 %ready, %met
  %rest.next = and i32 %rest, %others
  %more = icmp ne i32 %rest.next, 0
  br i1 %more, label %look, label %judge
judge:
  %some = icmp ne i32 %ready.next, 0
  br i1 %some, label %go, label %idle
idle:
{bits("%late", f"icmp uge {LANES} %words, splat (i32 {active})")}
  %not.masked = xor i32 %masked, -1
  %active = and i32 %late, %not.masked
  %any.active = icmp ne i32 %active, 0
  br i1 %any.active, label %together, label %leave
together:
  %are.active = bitcast i32 %active to {_FLAGS}
  %active.words = select {_FLAGS} %are.active, {LANES} %words, {LANES} splat (i32 -1)
  %first = call i32 @llvm.vector.reduce.umin.v{WARP_SIZE}i32({LANES} %active.words)
{splat("%firsts", "%first")}{bits("%group", f"icmp eq {LANES} %words, %firsts")}
{splat("%groups", "%group")}{load_lanes("%lows", "%warp", "lows")}{_give("%groups", "%lows", "%group")}
  br label %go
go:
  %going = phi i32 [%ready.next, %judge], [%group, %together]
  br label %resume
resume:
  %left = phi i32 [%going, %go], [%left.next, %resume]
  %next = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %handle.at = getelementptr ptr, ptr %handles, i32 %next
  %handle = load ptr, ptr %handle.at
  call void @llvm.coro.resume(ptr %handle)
  %less = add i32 %left, -1
  %left.next = and i32 %left, %less
  %again = icmp ne i32 %left.next, 0
  br i1 %again, label %resume, label %resumed
resumed:
  br label %step
leave:
  ret i1 %progress
}}
"""


def _exchange() -> str:
    """Puts the result of a meeting into the records of `group`; `lane` is one of them."""
    votes = ", ".join(f"i32 {kind:d}" for kind in (Suspension.ALL, Suspension.ANY, Suspension.EQUAL, Suspension.BALLOT))
    cases = "\n".join(f"    {kind.strip()}, label %vote" for kind in votes.split(","))
    matches = "\n".join(f"    i32 {kind:d}, label %match" for kind in (Suspension.MATCH_ANY, Suspension.MATCH_ALL))
    return f"""\
define internal void @cuda_device.exchange(ptr %warp, i32 %group, i32 %lane, i32 %kind) nounwind {{
entry:
  switch i32 %kind, label %shuffle [
    i32 {Suspension.SYNC:d}, label %done
{cases}
{matches}
  ]
vote:
  call void @cuda_device.vote(ptr %warp, i32 %group, i32 %kind)
  ret void
match:
  call void @cuda_device.match(ptr %warp, i32 %group, i32 %kind)
  ret void
shuffle:
  call void @cuda_device.shuffle(ptr %warp, i32 %group, i32 %lane, i32 %kind)
  ret void
done:
  ret void
}}
"""


def _vote() -> str:
    return f"""\
define internal void @cuda_device.vote(ptr %warp, i32 %group, i32 %kind) nounwind {{
entry:
{load_lanes("%lows", "%warp", "lows")}
{bits("%true", f"icmp ne {LANES} %lows, zeroinitializer")}
  %ballot = and i32 %true, %group
  %all = icmp eq i32 %ballot, %group
  %none = icmp eq i32 %ballot, 0
  %any = xor i1 %none, true
  %equal = or i1 %all, %none
  %is.all = icmp eq i32 %kind, {Suspension.ALL:d}
  %is.any = icmp eq i32 %kind, {Suspension.ANY:d}
  %is.ballot = icmp eq i32 %kind, {Suspension.BALLOT:d}
  %all.or.any = select i1 %is.all, i1 %all, i1 %any
  %is.either = or i1 %is.all, %is.any
  %answer = select i1 %is.either, i1 %all.or.any, i1 %equal
  %answer.wide = zext i1 %answer to i32
  %result = select i1 %is.ballot, i32 %ballot, i32 %answer.wide
{splat("%results", "%result")}{_give("%results", "%lows", "%group")}
  ret void
}}
"""


def _shuffle() -> str:
    """Lanes outside of the group have nothing to give: then a lane keeps its own, as past the warp's edge."""
    last = WARP_SIZE - 1
    halves = {"low": "lows", "high": "highs"}
    copies = "".join(load_lanes(f"%{name}", "%warp", field) for name, field in halves.items())
    rows = "".join(WARP.address(f"%{name}.row", "%warp", field) for name, field in halves.items())
    moved = {
        name: f"""\
  %{name}.from = getelementptr i32, ptr %{name}.copy, i32 %source
  %{name}.got = load i32, ptr %{name}.from
  %{name}.to = getelementptr i32, ptr %{name}.row, i32 %next
  store i32 %{name}.got, ptr %{name}.to
"""
        for name in halves
    }
    return f"""\
define internal void @cuda_device.shuffle(ptr %warp, i32 %group, i32 %lane, i32 %kind) nounwind {{
entry:
  %low.copy = alloca {LANES}, align {ALIGNMENT}
  %high.copy = alloca {LANES}, align {ALIGNMENT}
  %from = alloca {LANES}, align {ALIGNMENT}
{load_lanes("%sources", "%warp", "sources")}{_lane("%source.word", "sources", "%lane")}
  %width = and i32 %source.word, {WIDE}
  %wide = icmp ne i32 %width, 0
  %near = and {LANES} %sources, splat (i32 {last})
  %up = sub {LANES} {_NUMBERS}, %near
  %down = add {LANES} {_NUMBERS}, %near
  %crossed = xor {LANES} {_NUMBERS}, %near
  %is.up = icmp eq i32 %kind, {Suspension.UP:d}
  %is.down = icmp eq i32 %kind, {Suspension.DOWN:d}
  %is.index = icmp eq i32 %kind, {Suspension.INDEX:d}
  %up.or.down = select i1 %is.up, {LANES} %up, {LANES} %down
  %is.shift = or i1 %is.up, %is.down
  %absolute = select i1 %is.index, {LANES} %near, {LANES} %crossed
  %wanted = select i1 %is.shift, {LANES} %up.or.down, {LANES} %absolute
  %there = icmp ule {LANES} %wanted, splat (i32 {last})
  %shift = and {LANES} %wanted, splat (i32 {last})
{splat("%groups", "%group")}
  %shifted = lshr {LANES} %groups, %shift
  %bit = and {LANES} %shifted, splat (i32 1)
  %member = icmp ne {LANES} %bit, zeroinitializer
  %valid = and {_FLAGS} %there, %member
  %chosen = select {_FLAGS} %valid, {LANES} %wanted, {LANES} {_NUMBERS}
  store {LANES} %chosen, ptr %from, align {ALIGNMENT}
{copies}
  store {LANES} %low, ptr %low.copy, align {ALIGNMENT}
  store {LANES} %high, ptr %high.copy, align {ALIGNMENT}
{rows}
  br label %each
each:
  %left = phi i32 [%group, %entry], [%left.next, %moved]
  %next = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %source.at = getelementptr i32, ptr %from, i32 %next
  %source = load i32, ptr %source.at
{moved["low"]}
  br i1 %wide, label %second, label %moved
second:
{moved["high"]}
  br label %moved
moved:
  %less = add i32 %left, -1
  %left.next = and i32 %left, %less
  %more = icmp ne i32 %left.next, 0
  br i1 %more, label %each, label %end
end:
  ret void
}}
"""


def _match() -> str:
    return f"""\
define internal void @cuda_device.match(ptr %warp, i32 %group, i32 %kind) nounwind {{
entry:
{load_lanes("%lows", "%warp", "lows")}{load_lanes("%highs", "%warp", "highs")}
  %is.all = icmp eq i32 %kind, {Suspension.MATCH_ALL:d}
  br label %each
each:
  %left = phi i32 [%group, %entry], [%left.next, %each]
  %results = phi {LANES} [zeroinitializer, %entry], [%results.next, %each]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 true)
{_lane("%low", "lows", "%lane")}{_lane("%high", "highs", "%lane")}
{splat("%same.low", "%low")}{splat("%same.high", "%high")}
  %low.equal = icmp eq {LANES} %lows, %same.low
  %high.equal = icmp eq {LANES} %highs, %same.high
{bits("%equal", f"and {_FLAGS} %low.equal, %high.equal")}
  %members = and i32 %equal, %group
  %agreed = icmp eq i32 %members, %group
  %all = select i1 %agreed, i32 %group, i32 0
  %result = select i1 %is.all, i32 %all, i32 %members
{splat("%result.each", "%result")}
  %these = bitcast i32 %members to {_FLAGS}
  %results.next = select {_FLAGS} %these, {LANES} %result.each, {LANES} %results
  %apart = xor i32 %members, -1
  %left.next = and i32 %left, %apart
  %more = icmp ne i32 %left.next, 0
  br i1 %more, label %each, label %end
end:
{_give("%results.next", "%lows", "%group")}
  ret void
}}
"""


def _outside() -> str:
    """Reports the first of `lanes`, which wait in an operation whose mask they are not in."""
    block = "".join(BLOCK.load(f"%block.{axis}", "%block", f"index.{axis}") for axis in _AXES)
    thread = "".join(THREAD.load(f"%thread.{axis}", "%thread", axis) for axis in _AXES)
    indices = "".join(f", i32 %{kind}.{axis}" for kind in ("block", "thread") for axis in _AXES)
    return f"""\
define internal void @cuda_device.outside(ptr %block, ptr %warp, i32 %lanes) nounwind noinline cold {{
entry:
  %lane = call i32 @llvm.cttz.i32(i32 %lanes, i1 true)
{_lane("%word", "words", "%lane")}{_lane("%mask", "masks", "%lane")}
{BLOCK.loads("%block", "control", "warps", "threads")}
  %here = ptrtoint ptr %warp to i64
  %start = ptrtoint ptr %warps to i64
  %distance = sub i64 %here, %start
  %size.end = getelementptr {WARP}, ptr null, i64 1
  %size = ptrtoint ptr %size.end to i64
  %number = udiv i64 %distance, %size
  %first = mul i64 %number, {WARP_SIZE}
  %lane.wide = zext i32 %lane to i64
  %linear = add i64 %first, %lane.wide
  %thread = getelementptr {THREAD}, ptr %threads, i64 %linear
{block}{thread}
  %place = and i32 %word, {PLACE_MASK}
  %mask.wide = zext i32 %mask to i64
  call void @cuda_device.keep(ptr %control{indices}, i32 {Status.OUTSIDE_MASK:d}, i32 %place, i64 %mask.wide, i64 %lane.wide)
  ret void
}}
"""
