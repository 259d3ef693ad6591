"""How the threads of one block take turns on the CPU: part of what `cpu_support` compiles once for a process.

    schedule(block)
        rounds: if all live threads are at a barrier: resume them
                else for each warp: its lanes go on as far as they can (`cpu_lanes`);
                     then each thread that yielded has a turn
        until all have returned, or those that yield seem to wait for another block

Between two rounds `settle` looks at the words in which the threads said where they wait, a warp at a time, in vectors.
All live threads of a warp must be at one barrier, as `bar.sync` on a GPU wants it; in checked mode all threads of the block
must. Where nobody may go on, that is a deadlock, and is reported with everyone's place: nothing ever hangs.
"""

from __future__ import annotations

import enum

from cuda_device.codegen.cpu.lanes import ALIGNMENT, LANES, bits, lanes, load_lanes, splat
from cuda_device.codegen.cpu.records import BLOCK, CONTROL, KIND_SHIFT, WARP, WARP_SIZE, Suspension
from cuda_device.codegen.emit.status import Status

# So many rounds in which the same number of threads yield, and nothing else happens, make room for another block.
_PATIENCE = 4


class Outcome(enum.IntEnum):
    """What `schedule` says of a block: it has ended, or it waits for something that only other blocks can do."""

    ENDED = 0
    SPINS = 1


class Verdict(enum.IntEnum):
    """What `settle` says: all threads have returned, the live ones are at a plain barrier, or anything else."""

    OVER = 0
    TOGETHER = 1
    MIXED = 2


def schedule() -> str:
    """The functions."""
    return _schedule() + _settle() + _reduce() + _together() + _turns() + lanes()


def _schedule() -> str:
    return f"""\
define internal i32 @cuda_device.schedule(ptr %block) nounwind {{
entry:
{BLOCK.loads("%block", "count", "warps", "handles", "control")}{CONTROL.loads("%control", "checked")}
{CONTROL.address("%stop.at", "%control", "stop")}
  %count.up = add i32 %count, {WARP_SIZE - 1}
  %many = udiv i32 %count.up, {WARP_SIZE}
  %strict = icmp ne i32 %checked, 0
  br label %round
round:
  %patience = phi i32 [{_PATIENCE}, %entry], [{_PATIENCE}, %released], [%patience.next, %waiting]
  %before = phi i32 [-1, %entry], [-1, %released], [%yields, %waiting]
  %stop = load atomic i32, ptr %stop.at monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %leave, label %ask
ask:
  %verdict = call i32 @cuda_device.settle(ptr %warps, i32 %many)
  switch i32 %verdict, label %mixed [
    i32 {Verdict.OVER:d}, label %leave
    i32 {Verdict.TOGETHER:d}, label %barrier
  ]
barrier:
  br i1 %strict, label %check, label %release
check:
  %all = call i1 @cuda_device.together(ptr %block)
  br i1 %all, label %release, label %apart
apart:
  call void @cuda_device.deadlock(ptr %block, i32 {Status.DIVERGENT_BARRIER:d})
  ret i32 {Outcome.ENDED:d}
release:
  %w = phi i32 [0, %barrier], [0, %check], [0, %mixed], [%w.next, %warp.end]
  %warp = getelementptr {WARP}, ptr %warps, i32 %w
  %w.first = mul i32 %w, {WARP_SIZE}
  %w.handles = getelementptr ptr, ptr %handles, i32 %w.first
  br label %each
each:
  %lane = phi i32 [0, %release], [%lane.next, %next]
  %state.at = getelementptr i32, ptr %warp, i32 %lane
  %state = load i32, ptr %state.at
  %live = icmp ne i32 %state, 0
  br i1 %live, label %resume, label %next
resume:
  %handle.at = getelementptr ptr, ptr %w.handles, i32 %lane
  %handle = load ptr, ptr %handle.at
  call void @llvm.coro.resume(ptr %handle)
  br label %next
next:
  %lane.next = add nuw i32 %lane, 1
  %lane.more = icmp ult i32 %lane.next, {WARP_SIZE}
  br i1 %lane.more, label %each, label %warp.end
warp.end:
  %w.next = add nuw i32 %w, 1
  %w.more = icmp ult i32 %w.next, %many
  br i1 %w.more, label %release, label %released
released:
  br label %round
mixed:
  %reduced = call i1 @cuda_device.reduce(ptr %block)
  br i1 %reduced, label %release, label %warps.each
warps.each:
  %v = phi i32 [0, %mixed], [%v.next, %warps.each]
  %progress = phi i1 [false, %mixed], [%progress.next, %warps.each]
  %v.warp = getelementptr {WARP}, ptr %warps, i32 %v
  %v.first = mul i32 %v, {WARP_SIZE}
  %v.handles = getelementptr ptr, ptr %handles, i32 %v.first
  %went = call i1 @cuda_device.warp(ptr %block, ptr %v.warp, ptr %v.handles)
  %progress.next = or i1 %progress, %went
  %v.next = add nuw i32 %v, 1
  %v.more = icmp ult i32 %v.next, %many
  br i1 %v.more, label %warps.each, label %turns
turns:
  %yields = call i32 @cuda_device.turns(ptr %block)
  %nobody = icmp eq i32 %yields, 0
  %idle = xor i1 %progress.next, true
  %stuck = and i1 %nobody, %idle
  br i1 %stuck, label %deadlock, label %waiting
deadlock:
  call void @cuda_device.deadlock(ptr %block, i32 {Status.DEADLOCK:d})
  ret i32 {Outcome.ENDED:d}
waiting:
  %changed = icmp ne i32 %yields, %before
  %moved = or i1 %changed, %progress.next
  %less = sub i32 %patience, 1
  %patience.next = select i1 %moved, i32 {_PATIENCE}, i32 %less
  %tired = icmp eq i32 %patience.next, 0
  br i1 %tired, label %spins, label %round
spins:
  ret i32 {Outcome.SPINS:d}
leave:
  ret i32 {Outcome.ENDED:d}
}}
"""


def _settle() -> str:
    """The verdict on `many` warps. A returned thread's word is 0.

    The threads of a warp agree if the greatest word is the least word, leaving the zeros out: of the unsigned words
    less one, a zero is the greatest of all. A warp without live threads agrees, too: 0 and 0.
    """
    return f"""\
define internal i32 @cuda_device.settle(ptr %warps, i32 %many) nounwind {{
entry:
  br label %each
each:
  %w = phi i32 [0, %entry], [%w.next, %each]
  %greatest = phi i32 [0, %entry], [%greatest.next, %each]
  %torn = phi i1 [false, %entry], [%torn.next, %each]
  %warp = getelementptr {WARP}, ptr %warps, i32 %w
{load_lanes("%words", "%warp", "words")}
  %less = sub {LANES} %words, splat (i32 1)
  %most = call i32 @llvm.vector.reduce.umax.v{WARP_SIZE}i32({LANES} %words)
  %least = call i32 @llvm.vector.reduce.umin.v{WARP_SIZE}i32({LANES} %less)
  %least.word = add i32 %least, 1
  %differ = icmp ne i32 %most, %least.word
  %torn.next = or i1 %torn, %differ
  %greatest.next = call i32 @llvm.umax.i32(i32 %greatest, i32 %most)
  %w.next = add nuw i32 %w, 1
  %more = icmp ult i32 %w.next, %many
  br i1 %more, label %each, label %judge
judge:
  %over = icmp eq i32 %greatest.next, 0
  %kind = lshr i32 %greatest.next, {KIND_SHIFT}
  %plain = icmp eq i32 %kind, {Suspension.BARRIER:d}
  %whole = xor i1 %torn.next, true
  %together = and i1 %plain, %whole
  %other = select i1 %together, i32 {Verdict.TOGETHER:d}, i32 {Verdict.MIXED:d}
  %verdict = select i1 %over, i32 {Verdict.OVER:d}, i32 %other
  ret i32 %verdict
}}
"""


def _reduce() -> str:
    """Joins the flags of a barrier with a predicate and gives everyone the result, if all live threads are at such ones."""
    first, last = Suspension.COUNT, Suspension.OR
    return f"""\
define internal i1 @cuda_device.reduce(ptr %block) nounwind {{
entry:
{BLOCK.loads("%block", "count", "warps", "control")}{CONTROL.loads("%control", "checked")}
  %count.up = add i32 %count, {WARP_SIZE - 1}
  %many = udiv i32 %count.up, {WARP_SIZE}
  br label %each
each:
  %w = phi i32 [0, %entry], [%w.next, %after]
  %common = phi i32 [0, %entry], [%common.next, %after]
  %threads = phi i32 [0, %entry], [%threads.next, %after]
  %flags = phi i32 [0, %entry], [%flags.next, %after]
  %warp = getelementptr {WARP}, ptr %warps, i32 %w
{load_lanes("%words", "%warp", "words")}
  %greatest = call i32 @llvm.vector.reduce.umax.v{WARP_SIZE}i32({LANES} %words)
  %returned = icmp eq i32 %greatest, 0
  br i1 %returned, label %after, label %some
some:
{bits("%live", f"icmp ne {LANES} %words, zeroinitializer")}{splat("%splat", "%greatest")}
{bits("%equal", f"icmp eq {LANES} %words, %splat")}
  %whole = icmp eq i32 %live, %equal
  %kind = lshr i32 %greatest, {KIND_SHIFT}
  %is.first = icmp eq i32 %common, 0
  %is.same = icmp eq i32 %kind, %common
  %fits = or i1 %is.first, %is.same
  %from.first = sub i32 %kind, {first:d}
  %reduces = icmp ule i32 %from.first, {last - first}
  %fitting = and i1 %fits, %reduces
  %good = and i1 %fitting, %whole
  br i1 %good, label %take, label %refuse
take:
{load_lanes("%lows", "%warp", "lows")}{bits("%true", f"icmp ne {LANES} %lows, zeroinitializer")}
  %flagged = and i32 %true, %live
  %flags.here = call i32 @llvm.ctpop.i32(i32 %flagged)
  %threads.here = call i32 @llvm.ctpop.i32(i32 %live)
  br label %after
after:
  %common.next = phi i32 [%common, %each], [%kind, %take]
  %more.flags = phi i32 [0, %each], [%flags.here, %take]
  %more.threads = phi i32 [0, %each], [%threads.here, %take]
  %flags.next = add i32 %flags, %more.flags
  %threads.next = add i32 %threads, %more.threads
  %w.next = add nuw i32 %w, 1
  %more = icmp ult i32 %w.next, %many
  br i1 %more, label %each, label %judge
judge:
  %strict = icmp ne i32 %checked, 0
  br i1 %strict, label %check, label %answer
check:
  %all.here = call i1 @cuda_device.together(ptr %block)
  br i1 %all.here, label %answer, label %apart
apart:
  call void @cuda_device.deadlock(ptr %block, i32 {Status.DIVERGENT_BARRIER:d})
  br label %refuse
answer:
  %all = icmp eq i32 %flags.next, %threads.next
  %any = icmp ne i32 %flags.next, 0
  %is.count = icmp eq i32 %common.next, {Suspension.COUNT:d}
  %is.and = icmp eq i32 %common.next, {Suspension.AND:d}
  %joined = select i1 %is.and, i1 %all, i1 %any
  %joined.wide = zext i1 %joined to i32
  %result = select i1 %is.count, i32 %flags.next, i32 %joined.wide
{splat("%results", "%result")}
  br label %give
give:
  %g = phi i32 [0, %answer], [%g.next, %give]
  %g.warp = getelementptr {WARP}, ptr %warps, i32 %g
{WARP.address("%lows.to", "%g.warp", "lows")}  store {LANES} %results, ptr %lows.to, align {ALIGNMENT}
  %g.next = add nuw i32 %g, 1
  %g.more = icmp ult i32 %g.next, %many
  br i1 %g.more, label %give, label %done
done:
  ret i1 true
refuse:
  ret i1 false
}}
"""


def _together() -> str:
    """Whether every thread of the block, none of which has returned, waits at one place."""
    return f"""\
define internal i1 @cuda_device.together(ptr %block) nounwind noinline {{
entry:
{BLOCK.loads("%block", "count", "warps")}
  %word = load i32, ptr %warps
  br label %each
each:
  %i = phi i32 [0, %entry], [%i.next, %each]
  %same = phi i1 [true, %entry], [%same.next, %each]
  %w = udiv i32 %i, {WARP_SIZE}
  %lane = urem i32 %i, {WARP_SIZE}
  %at = getelementptr {WARP}, ptr %warps, i32 %w, i32 {WARP.index("words")}, i32 %lane
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


def _turns() -> str:
    """Resumes each thread that has yielded, once; returns how many."""
    return f"""\
define internal i32 @cuda_device.turns(ptr %block) nounwind {{
entry:
{BLOCK.loads("%block", "count", "warps", "handles")}
  %count.up = add i32 %count, {WARP_SIZE - 1}
  %many = udiv i32 %count.up, {WARP_SIZE}
  br label %each
each:
  %w = phi i32 [0, %entry], [%w.next, %after]
  %total = phi i32 [0, %entry], [%total.next, %after]
  %warp = getelementptr {WARP}, ptr %warps, i32 %w
  %first = mul i32 %w, {WARP_SIZE}
  %own = getelementptr ptr, ptr %handles, i32 %first
{load_lanes("%words", "%warp", "words")}
  %kinds = lshr {LANES} %words, splat (i32 {KIND_SHIFT})
{bits("%yielded", f"icmp eq {LANES} %kinds, splat (i32 {Suspension.YIELD:d})")}
  %here = call i32 @llvm.ctpop.i32(i32 %yielded)
  %total.next = add i32 %total, %here
  %none = icmp eq i32 %yielded, 0
  br i1 %none, label %after, label %resume
resume:
  %left = phi i32 [%yielded, %each], [%left.next, %resume]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %handle.at = getelementptr ptr, ptr %own, i32 %lane
  %handle = load ptr, ptr %handle.at
  call void @llvm.coro.resume(ptr %handle)
  %less = add i32 %left, -1
  %left.next = and i32 %left, %less
  %again = icmp ne i32 %left.next, 0
  br i1 %again, label %resume, label %after
after:
  %w.next = add nuw i32 %w, 1
  %more = icmp ult i32 %w.next, %many
  br i1 %more, label %each, label %end
end:
  ret i32 %total.next
}}
"""
