"""Generates the LLVM IR that runs a kernel's threads on the CPU: loops around calls of the kernel, which LLVM inlines.

    void @cuda_device.run(ptr %control)         each worker calls this once per launch; passes one of the others to `scheduler`
    void @cuda_device.block(ptr %block, i64 %many)
                                                runs blocks of a kernel that does not wait, or whose threads wait together
    void @cuda_device.resume(ptr %block, i64 %warp, i32 %lanes)
                                                resumes lanes of a warp of any other kernel

For a kernel whose threads wait together, the loops over the threads are inside of those over the regions (`regions`):

    for each block of a row:  for each region:  for z, y, x:  kernel(thread)            LLVM vectorises the loop over x

LLVM compiles this text for each kernel. What does not depend on the kernel is in `scheduler`.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.cpu.records import (
    BLOCK,
    CONTROL,
    CREW,
    FUEL,
    MAXIMUM_THREADS,
    RUN,
    THREAD,
    WARP,
    WARP_SIZE,
    Record,
    Suspension,
)
from cuda_device.cpu.regions import PARALLEL, Regions
from cuda_device.lazy_dataclasses import dataclass, replace

_AXES = "xyz"
_SHORT = 3
"""The least length of a row for which regions are faster than the undivided kernel."""
_ENTRY = WARP.dtype.itemsize // WARP_SIZE

# Metadata nodes. `llvm_writer` numbers its own from 0. Unrolling loops over threads would only cost time to compile, except if
# constants for the lanes of a warp result.
_ACCESSES = PARALLEL.split()[-1]
_LOOP, _BLOCKS, _LANES = "!900000000", "!900000002", "!900000003"
_METADATA = f"""\
{_LOOP} = distinct !{{{_LOOP}, !{{!"llvm.loop.unroll.disable"}}, !{{!"llvm.loop.parallel_accesses", {_ACCESSES}}}}}
{_ACCESSES} = distinct !{{}}
{_BLOCKS} = distinct !{{{_BLOCKS}, !{{!"llvm.loop.unroll.disable"}}}}
{_LANES} = distinct !{{{_LANES}, !{{!"llvm.loop.parallel_accesses", {_ACCESSES}}}}}
"""


@dataclass(frozen=True, slots=True)
class LoopedKernel:
    """A kernel: the name of its function, the types of its parameters, and its regions if it has any.

    `limit` names the function that computes how many threads of a row have something to do, and `whole` the kernel that is not
    divided into regions, for short rows. Both may be empty.
    """

    symbol: str
    leaves: Sequence[str]
    regions: Regions | None = None
    limit: str = ""
    whole: str = ""

    @property
    def arguments(self) -> str:
        """The arguments after the thread, as text that starts with a comma."""
        return "".join(f", {type} %argument.{i}" for i, type in enumerate(self.leaves))

    @property
    def by_row(self) -> bool:
        """Whether the regions, or the kernel, run within a loop over the rows of a block."""
        return self.regions is None or self.regions.by_row


def text(kernel: LoopedKernel, shared_bytes: int) -> str:
    """The functions that run the threads of a kernel. `shared_bytes` is the size of a block's static shared memory."""
    regions = kernel.regions
    if regions is None or regions.together:
        worker, function, loops = "cuda_device.blocks", "block", _blocks(kernel)
        frame = regions.block_bytes if regions else 0
    else:
        worker, function, loops, frame = CREW, "resume", _resume(kernel, regions), regions.warp_bytes
    return f"""\
define void @{RUN}(ptr %control) nounwind {{
  call void @{worker}(ptr %control, ptr @cuda_device.{function}, i64 {shared_bytes}, i64 {frame})
  ret void
}}

declare void @{worker}(ptr, ptr, i64, i64)

{loops}
{_report()}
{_METADATA}"""


def _records(kernel: LoopedKernel) -> str:
    """Copies of the thread's and the block's record, and the kernel's arguments.

    Nothing else can write to the copies. The optimiser therefore keeps their fields in registers, although the kernel stores
    through its arrays.
    """
    leaves = kernel.leaves
    record = Record("{ " + ", ".join(leaves) + " }", tuple((str(i), type) for i, type in enumerate(leaves)))
    return f"""\
  %thread = alloca {THREAD}
  %block = alloca {BLOCK}
  %copy = load {BLOCK}, ptr %shared.block
  store {BLOCK} %copy, ptr %block
{BLOCK.load("%parameters", "%block", "parameters")}\
{"".join(record.load(f"%argument.{name}", "%parameters", name) for name, _ in record.fields)}\
{THREAD.store("%block", "%thread", "block")}"""


def _store(n: str, **values: str) -> str:
    """Stores fields of the thread's record."""
    return "".join(THREAD.store(value, "%thread", name, f"%to.{name}{n}") for name, value in values.items())


# Blocks whose threads run together


def _blocks(kernel: LoopedKernel) -> str:
    """`@cuda_device.block`, which runs `%many` blocks, the first of which is given."""
    regions = kernel.regions
    # Loads from a copy of the record would lose their ranges.
    metadata = f", !range !{{i32 1, i32 {MAXIMUM_THREADS + 1}}}"
    memory = "".join(BLOCK.load(f"%size.{axis}", "%shared.block", f"size.{axis}", metadata) for axis in _AXES)
    if regions:
        memory += f"""\
  %in = alloca [{regions.common_bytes} x i8], align 16
  %out = alloca [{regions.common_bytes} x i8], align 16
  %next = alloca i32
{BLOCK.loads("%block", "frames", "warps")}"""
    return f"""\
declare void @cuda_device.settle(ptr)
declare void @cuda_device.exchange(ptr, i32, i32, i32)

define internal void @cuda_device.block(ptr %shared.block, i64 %many) nounwind {{
entry:
{_records(kernel)}{memory}{BLOCK.loads("%block", "control", "index.x", "cluster_idx.x")}\
{CONTROL.address("%stop.at", "%control", "stop")}\
  %count.rows = mul nuw nsw i32 %size.z, %size.y
  %count = mul nuw nsw i32 %count.rows, %size.x
  br label %block.next
block.next:
  %number = phi i64 [0, %entry], [%number.next, %block.end]
  %number.short = trunc i64 %number to i32
  %block.x = add i32 %index.x, %number.short
{BLOCK.store("%block.x", "%block", "index.x")}\
  %cluster.x = add i32 %cluster_idx.x, %number.short
{BLOCK.store("%cluster.x", "%block", "cluster_idx.x")}\
{_rows_of_regions(kernel) if kernel.by_row else _regions_of_rows(kernel)}\
block.end:
  %number.next = add i64 %number, 1
  %stop = load atomic i32, ptr %stop.at monotonic, align 4
  %goes.on = icmp eq i32 %stop, 0
  %more = icmp ult i64 %number.next, %many
  %another = and i1 %more, %goes.on
  br i1 %another, label %block.next, label %finished, !llvm.loop {_BLOCKS}
finished:
  ret void
}}
"""


def _regions_of_rows(kernel: LoopedKernel) -> str:
    """All regions of a block, one after the other, each with the loops over the threads of the block."""
    regions = kernel.regions
    assert regions is not None
    found = "  br label %region.0\n"
    for n in range(regions.count):
        rows = _rows(f".{n}", f"region.{n}", _lanes(kernel, n))
        found += f"region.{n}:\n{rows}region.end.{n}:\n{_onwards(n, regions, 'block.end')}"
    return found + "".join(_exchange(number, kind) for number, kind in regions.meetings.items())


def _rows_of_regions(kernel: LoopedKernel) -> str:
    """All rows of a block, each with its regions, or with one loop over the threads of the row."""
    inside = f"{_end_of_row(kernel) if kernel.limit else '  br label %lanes'}\nlanes:\n"
    if kernel.whole:
        inside += f"""\
  %is.short = icmp ult i32 %size.x, {_SHORT}
  br i1 %is.short, label %region.whole, label %region.0
region.whole:
{_lanes(replace(kernel, symbol=kernel.whole, regions=None), "whole")}"""
    else:
        inside += "  br label %region.0\n"
    for n in range(kernel.regions.count if kernel.regions else 1):
        inside += f"region.{n}:\n{_lanes(kernel, n)}"
        if kernel.regions:
            inside += f"region.end.{n}:\n{_onwards(n, kernel.regions, 'row.end')}"
    return f"  br label %planes\nplanes:\n{_rows('', 'planes', inside)}region.end:\n  br label %block.end\n"


def _onwards(number: int, regions: Regions, over: str) -> str:
    """After a region: goes to the region that its threads chose, or to the label `over`, unless the launch is to stop."""
    n = f".{number}"
    if number in regions.ranges:
        end = regions.ends.get(regions.ranges[number])
        return _unless_stopped(n, over if end is None else f"region.{end}")
    labels = {each: "exchange" if each in regions.meetings else "region" for each in range(1, regions.count)}
    cases = " ".join(f"i32 {each}, label %{label}.{each}" for each, label in labels.items())
    return f"""\
{_copies(f".last{n}", "%out", "%in", regions)}{_unless_stopped(n, f"choose{n}")}\
choose{n}:
  %next{n} = load i32, ptr %next
  switch i32 %next{n}, label %{over} [{cases}]
"""


def _unless_stopped(n: str, label: str) -> str:
    return f"""\
  %stop{n} = load atomic i32, ptr %stop.at monotonic, align 4
  %goes.on{n} = icmp eq i32 %stop{n}, 0
  br i1 %goes.on{n}, label %{label}, label %finished
"""


def _copies(n: str, source: str, target: str, regions: Regions) -> str:
    """Copies the uniform values and the bounds of a range, each with its type, so that the optimiser keeps them in registers.

    Each region reads what the previous one has written, because all its threads read the same.
    """
    kept = [(slot.offset, slot.type) for slot in regions.slots if slot.common]
    kept += [(0, "i64"), (8, "i64")] if regions.ranges else []
    return "".join(
        f"""\
  %source.{offset}{n} = getelementptr inbounds i8, ptr {source}, i64 {offset}
  %copy.{offset}{n} = load {type}, ptr %source.{offset}{n}
  %target.{offset}{n} = getelementptr inbounds i8, ptr {target}, i64 {offset}
  store {type} %copy.{offset}{n}, ptr %target.{offset}{n}
"""
        for offset, type in kept
    )


def _exchange(number: int, kind: Suspension) -> str:
    """Exchanges values between the threads of the block, or of each warp, before a region."""
    n = f".{number}"
    if kind < Suspension.YIELD:
        return f"exchange{n}:\n  call void @cuda_device.settle(ptr %shared.block)\n  br label %region{n}\n"
    return f"""\
exchange{n}:
  br label %warp{n}
warp{n}:
  %first{n} = phi i32 [0, %exchange{n}], [%first.next{n}, %warp{n}]
  %offset{n} = mul nuw nsw i32 %first{n}, {_ENTRY}
  %record{n} = getelementptr inbounds i8, ptr %warps, i32 %offset{n}
  %rest{n} = sub i32 %count, %first{n}
  %here{n} = call i32 @llvm.umin.i32(i32 %rest{n}, i32 {WARP_SIZE})
  %missing{n} = sub i32 {WARP_SIZE}, %here{n}
  %group{n} = lshr i32 -1, %missing{n}
  call void @cuda_device.exchange(ptr %record{n}, i32 %group{n}, i32 0, i32 {kind:d})
  %first.next{n} = add nuw nsw i32 %first{n}, {WARP_SIZE}
  %more{n} = icmp ult i32 %first.next{n}, %count
  br i1 %more{n}, label %warp{n}, label %region{n}
"""


def _rows(n: str, start: str, inside: str) -> str:
    """The loops over z and y around `inside`, which ends at `row.end`. They follow the label `start` and end at `region.end`."""
    return f"""\
  br label %plane{n}
plane{n}:
  %z{n} = phi i32 [0, %{start}], [%z.next{n}, %plane.end{n}]
  %z.rows{n} = mul nuw nsw i32 %z{n}, %size.y
{_store(n, z=f"%z{n}")}\
  br label %row{n}
row{n}:
  %y{n} = phi i32 [0, %plane{n}], [%y.next{n}, %row.end{n}]
  %y.row{n} = add nuw nsw i32 %z.rows{n}, %y{n}
  %y.first{n} = mul nuw nsw i32 %y.row{n}, %size.x
{_store(n, y=f"%y{n}")}{inside}\
row.end{n}:
  %y.next{n} = add nuw nsw i32 %y{n}, 1
  %y.more{n} = icmp ult i32 %y.next{n}, %size.y
  br i1 %y.more{n}, label %row{n}, label %plane.end{n}, !llvm.loop {_LOOP}
plane.end{n}:
  %z.next{n} = add nuw nsw i32 %z{n}, 1
  %z.more{n} = icmp ult i32 %z.next{n}, %size.z
  br i1 %z.more{n}, label %plane{n}, label %region.end{n}, !llvm.loop {_LOOP}
"""


def _end_of_row(kernel: LoopedKernel) -> str:
    """Calls the limit function with the first thread of the row; it computes the x of the first thread that has nothing to do."""
    return f"""\
{_store(".first", x="0", linear="%y.first")}\
  %limit = call i64 @{kernel.limit}(ptr %thread{kernel.arguments})
  %size.wide = zext i32 %size.x to i64
  %least = call i64 @llvm.smin.i64(i64 %limit, i64 %size.wide)
  %end = trunc i64 %least to i32
  %has_some = icmp sgt i64 %limit, 0
  br i1 %has_some, label %lanes, label %row.end"""


def _lanes(kernel: LoopedKernel, number: int | str) -> str:
    """The loop over the threads of a row: those below the limit, or in the range of a region.

    If the region has warp operations and the row consists of whole warps, a loop over the 32 lanes is inside of one over the
    warps. LLVM unrolls it, and what depends on the lane becomes constant.
    """
    regions, n = kernel.regions, f".{number}"
    row, start, over = ("", f"region{n}", "row.end") if kernel.by_row else (n, f"row{n}", f"row.end{n}")
    if regions and regions.by_row:
        over = f"region.end{n}"
    before, goes_on, first, end = "", f"  br label %each{n}\n", "0", "%end" if kernel.limit else "%size.x"
    if regions and number in regions.limits:
        before = f"  %limited{n} = call i32 @llvm.umin.i32(i32 {end}, i32 {regions.limits[number]})\n"
        end = f"%limited{n}"
    if regions and number in regions.ranges:
        goes_on = _within_range(n, end, over)
        first, end = f"%from{n}", f"%end{n}"
    elif regions and number in regions.of_lanes:
        goes_on = _by_warps(kernel, number, n, row, start, end, over)
    return f"""\
{before}{goes_on}each{n}:
  %x{n} = phi i32 [{first}, %{start}], [%x.next{n}, %each{n}]
{_call(kernel, number, n, row)}\
  %x.next{n} = add nuw nsw i32 %x{n}, 1
  %x.more{n} = icmp ult i32 %x.next{n}, {end}
  br i1 %x.more{n}, label %each{n}, label %{over}, !llvm.loop {_LOOP}
"""


def _within_range(n: str, end: str, over: str) -> str:
    """Goes on with the threads of the range at `%in`, below `end`, or to `over` if there are none."""
    return f"""\
  %from.wide{n} = load i64, ptr %in
  %end.at{n} = getelementptr inbounds i8, ptr %in, i64 8
  %end.wide{n} = load i64, ptr %end.at{n}
  %size.wide{n} = zext i32 {end} to i64
  %from.least{n} = call i64 @llvm.smax.i64(i64 %from.wide{n}, i64 0)
  %end.least{n} = call i64 @llvm.smin.i64(i64 %end.wide{n}, i64 %size.wide{n})
  %has.some{n} = icmp slt i64 %from.least{n}, %end.least{n}
  %from{n} = trunc i64 %from.least{n} to i32
  %end{n} = trunc i64 %end.least{n} to i32
  br i1 %has.some{n}, label %each{n}, label %{over}
"""


def _by_warps(kernel: LoopedKernel, number: int | str, n: str, row: str, start: str, end: str, over: str) -> str:
    """The loops over the warps of a row, and over the lanes of a warp, if the row consists of whole warps."""
    return f"""\
  %others{n} = and i32 {end}, {WARP_SIZE - 1}
  %has.warps{n} = icmp eq i32 %others{n}, 0
  br i1 %has.warps{n}, label %warps{n}, label %each{n}
warps{n}:
  %warp.x{n} = phi i32 [0, %{start}], [%warp.next{n}, %warp.end{n}]
  br label %each.lane{n}
each.lane{n}:
  %lane.warp{n} = phi i32 [0, %warps{n}], [%lane.next{n}, %each.lane{n}]
  %x.warp{n} = add nuw nsw i32 %warp.x{n}, %lane.warp{n}
{_call(kernel, number, f".warp{n}", row, str(WARP_SIZE))}\
  %lane.next{n} = add nuw nsw i32 %lane.warp{n}, 1
  %more.lanes{n} = icmp ult i32 %lane.next{n}, {WARP_SIZE}
  br i1 %more.lanes{n}, label %each.lane{n}, label %warp.end{n}, !llvm.loop {_LANES}
warp.end{n}:
  %warp.next{n} = add nuw nsw i32 %warp.x{n}, {WARP_SIZE}
  %more.warps{n} = icmp ult i32 %warp.next{n}, {end}
  br i1 %more.warps{n}, label %warps{n}, label %{over}, !llvm.loop {_LOOP}
"""


def _call(kernel: LoopedKernel, number: int | str, n: str, row: str, lanes: str = "") -> str:
    """Runs the thread `%x` of a row. With `lanes`, the known number of lanes of its warp, its `%lane` is defined already."""
    regions, found, call = kernel.regions, "", f"  call void @{kernel.symbol}(ptr %thread{kernel.arguments})\n"
    if not lanes:
        lanes = f"%lanes{n}"
        found = f"""\
  %lane{n} = and i32 %linear{n}, {WARP_SIZE - 1}
  %before{n} = sub nuw nsw i32 %linear{n}, %lane{n}
  %left{n} = sub nuw nsw i32 %count, %before{n}
  {lanes} = call i32 @llvm.umin.i32(i32 %left{n}, i32 {WARP_SIZE})
"""
    if regions:
        given = f"ptr %thread, i32 {number}, ptr %frames, i64 %wide{n}, ptr %in, ptr %out"
        call = f"""\
  %wide{n} = zext nneg i32 %{"x" if regions.by_row else "linear"}{n} to i64
  %warp.first{n} = sub nuw nsw i32 %linear{n}, %lane{n}
  %warp.offset{n} = mul nuw nsw i32 %warp.first{n}, {_ENTRY}
  %warp.at{n} = getelementptr inbounds i8, ptr %warps, i32 %warp.offset{n}
  %state{n} = getelementptr inbounds i32, ptr %warp.at{n}, i32 %lane{n}
{_store(n, state=f"%state{n}")}{_copies(f".first{n}", "%in", "%out", regions)}\
  %place{n} = call i32 @{kernel.symbol}({given}{kernel.arguments}) alwaysinline
  store i32 %place{n}, ptr %next
"""
    return f"""\
  %linear{n} = add nuw nsw i32 %y.first{row}, %x{n}
{found}{_store(n, x=f"%x{n}", linear=f"%linear{n}", lane=f"%lane{n}", lanes=lanes)}{call}"""


# Warps whose lanes wait in different places


def _resume(kernel: LoopedKernel, regions: Regions) -> str:
    """`@cuda_device.resume`. Lanes that continue at the same place do so in a loop for this place, others one by one."""
    return f"""\
define internal void @cuda_device.resume(ptr %shared.block, i64 %warp, i32 %lanes) nounwind {{
entry:
{_records(kernel)}{BLOCK.loads("%block", "count", "threads", "warps", "frames")}{_store("", fuel=str(FUEL))}\
  %number = trunc i64 %warp to i32
  %first = mul nuw nsw i32 %number, {WARP_SIZE}
  %offset = mul i64 %warp, {regions.warp_bytes}
  %frame = getelementptr i8, ptr %frames, i64 %offset
  %own = getelementptr {THREAD}, ptr %threads, i32 %first
{_together(kernel, regions) if regions.in_loops else "  br label %some"}
some:
  %left = phi i32 [%lanes, %entry], [%rest, %some]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %lane.wide = zext i32 %lane to i64
  %point.at = getelementptr i32, ptr %frame, i64 %lane.wide
  %place = load i32, ptr %point.at
  %thread.one = getelementptr {THREAD}, ptr %own, i64 %lane.wide
  call void @{kernel.symbol}(ptr %thread.one, i32 %place, ptr %frame, i64 %lane.wide{kernel.arguments}) noinline
  %less = add i32 %left, -1
  %rest = and i32 %left, %less
  %more = icmp ne i32 %rest, 0
  br i1 %more, label %some, label %leave, !llvm.loop {_LOOP}
leave:
  ret void
}}
"""


def _together(kernel: LoopedKernel, regions: Regions) -> str:
    """Chooses the loop of a region if all lanes of the warp that exist continue at its place."""
    cases = " ".join(f"i32 {number}, label %region.{number}" for number in range(regions.count))
    return f"""\
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
{"".join(_lanes_of_warp(kernel, number) for number in range(regions.count))}"""


def _lanes_of_warp(kernel: LoopedKernel, number: int) -> str:
    """The loop over the lanes of a warp that continue at one place."""
    n = f".{number}"
    return f"""\
region{n}:
  %lane{n} = phi i32 [0, %choose], [%lane.next{n}, %region{n}]
  %wide{n} = zext nneg i32 %lane{n} to i64
  %thread.at{n} = getelementptr inbounds {THREAD}, ptr %own, i64 %wide{n}
  %record{n} = load {THREAD}, ptr %thread.at{n}
  store {THREAD} %record{n}, ptr %thread
{THREAD.store("%block", "%thread", "block", f"%to.block{n}")}\
  call void @{kernel.symbol}(ptr %thread, i32 {number}, ptr %frame, i64 %wide{n}{kernel.arguments}) alwaysinline
  %lane.next{n} = add nuw nsw i32 %lane{n}, 1
  %more{n} = icmp ult i32 %lane.next{n}, %here
  br i1 %more{n}, label %region{n}, label %leave, !llvm.loop {_LOOP}
"""


# Reports


def _report() -> str:
    """`@cuda_device.report`, which is inlined and reads the indices, so that the records need not be in memory."""
    loads = "".join(BLOCK.load(f"%block.{axis}", "%block", f"index.{axis}") for axis in _AXES)
    loads += "".join(THREAD.load(f"%thread.{axis}", "%thread", axis) for axis in _AXES)
    indices = "".join(f", i32 %{kind}.{axis}" for kind in ("block", "thread") for axis in _AXES)
    own = "i32 %status, i32 %place, i64 %first, i64 %second"
    return f"""\
declare void @cuda_device.keep(ptr{", i32" * 8}, i64, i64)

define internal void @cuda_device.report(ptr %thread, {own}) nounwind alwaysinline {{
{THREAD.loads("%thread", "block")}{BLOCK.loads("%block", "control")}{loads}\
  call void @cuda_device.keep(ptr %control{indices}, {own})
  ret void
}}
"""
