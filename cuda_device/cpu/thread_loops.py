"""Generates the LLVM IR that runs a kernel's threads on the CPU: loops around calls of the kernel, which LLVM inlines.

    void @cuda_device.run(ptr %control)         each worker calls this once per launch; passes one of the others to `scheduler`
    void @cuda_device.block(ptr %block, i64 %many)
                                                runs blocks of a kernel that does not wait, or whose threads wait together
    void @cuda_device.resume(ptr %block, i64 %warp, i32 %lanes)
                                                resumes lanes of a warp of any other kernel

For a kernel whose threads wait together, the loops over the threads are inside of those over the regions (`regions`):

    for each block of a row:  for each region:  for z, y, x:  kernel(thread)            LLVM vectorises the loop over x

LLVM compiles this text for each kernel, and inlines all functions into these, so that records are in registers and loops over x
can be vectorised. What does not depend on the kernel is in `scheduler`.
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
from cuda_device.cpu.regions import COMMON, END, FIRST, NEXT, PARALLEL, Regions, in_common
from cuda_device.extend import dataclass, replace

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
_SIZES = "i32 %size.x, i32 %size.y, i32 %size.z, i32 %count"


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
        return "".join(f", {'ptr' if _is_in_place(leaf) else leaf} %argument.{i}" for i, leaf in enumerate(self.leaves))

    @property
    def context(self) -> str:
        """The first parameters of all functions that `_function` defines, and, as their names are the same, the arguments."""
        memory = "ptr %shared.block, ptr %stop.at, ptr %frames, ptr %warps, ptr %in, ptr %out, "
        return f"ptr %thread, {memory * (self.regions is not None)}{_SIZES}{self.arguments}"

    @property
    def by_row(self) -> bool:
        """Whether the regions, or the kernel, run within a loop over the rows of a block."""
        return self.regions is None or self.regions.by_row


def thread_loops_text(kernel: LoopedKernel, shared_bytes: int) -> str:
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


def _function(kernel: LoopedKernel, name: str, parameters: str, body: str, result: str = "void") -> str:
    """The definition of a function that is inlined."""
    head = f"define internal {result} @cuda_device.{name}({kernel.context}{parameters}) nounwind alwaysinline"
    return f"{head} {{\nentry:\n{body}}}\n"


def _loop(
    i: str, start: str, first: str, end: str, body: str, *, step: int = 1, latch: str = "", metadata: str = _LOOP
) -> str:
    """Runs `body` for each `%i` from `first` to `end`, at least once.

    The loop follows the block `start`, and ends at the label `{i}.end`. `latch` is the label of the last block of `body`.
    """
    return f"""\
  br label %{i}.loop
{i}.loop:
  %{i} = phi i32 [{first}, %{start}], [%{i}.next, %{latch or f"{i}.loop"}]
{body}\
  %{i}.next = add nuw nsw i32 %{i}, {step}
  %{i}.more = icmp ult i32 %{i}.next, {end}
  br i1 %{i}.more, label %{i}.loop, label %{i}.end, !llvm.loop {metadata}
{i}.end:
"""


def _is_in_place(leaf: str) -> bool:
    """Whether an argument stays where it is packed, and the kernel takes its address."""
    return leaf.startswith("[")


def _records(kernel: LoopedKernel) -> str:
    """Copies of the thread's and the block's record, and the kernel's arguments.

    Nothing else can write to the copies. The optimiser therefore keeps their fields in registers, although the kernel stores
    through its arrays.
    """
    leaves = kernel.leaves
    record = Record("{ " + ", ".join(leaves) + " }", {str(i): type for i, type in enumerate(leaves)})
    arguments = "".join(
        (record.address if _is_in_place(leaf) else record.load)(f"%argument.{i}", "%parameters", str(i))
        for i, leaf in enumerate(leaves)
    )
    return f"""\
  %thread = alloca {THREAD}
  %block = alloca {BLOCK}
  %copy = load {BLOCK}, ptr %shared.block
  store {BLOCK} %copy, ptr %block
{BLOCK.load("%parameters", "%block", "parameters")}\
{arguments}\
{THREAD.store("%block", "%thread", "block")}"""


def _store(**values: str) -> str:
    """Stores fields of the thread's record, or `x`, `y` or `z` of its index."""
    return "".join(
        THREAD.store(value, "%thread", f"index.{name}" if name in _AXES else name) for name, value in values.items()
    )


# Blocks whose threads run together


def _blocks(kernel: LoopedKernel) -> str:
    """`@cuda_device.block`, which runs `%many` blocks, the first of which is given."""
    regions = kernel.regions
    # Loads from a copy of the record would lose their ranges.
    metadata = f", !range !{{i32 1, i32 {MAXIMUM_THREADS + 1}}}"
    memory = "".join(BLOCK.load(f"%size.{axis}", "%shared.block", f"size.{axis}", metadata) for axis in _AXES)
    functions = _lanes(kernel, 0)
    if regions:
        memory += f"""\
  %in = alloca {COMMON}
  %out = alloca {COMMON}
{BLOCK.loads("%block", "frames", "warps")}"""
        functions = "".join(_lanes(kernel, n) for n in range(regions.count)) + _regions(kernel, regions)
    every = f"  %stops = call i1 @cuda_device.regions({kernel.context})\n  br i1 %stops, label %finished, label %z.end\nz.end:\n"
    threads = _rows(kernel) if kernel.by_row else every
    return f"""\
declare void @cuda_device.settle(ptr)
declare void @cuda_device.exchange(ptr, i32)

{functions}
define internal void @cuda_device.block(ptr %shared.block, i64 %many) nounwind {{
entry:
{_records(kernel)}{memory}{BLOCK.loads("%block", "control", "index.x", "cluster_idx.x")}\
{CONTROL.address("%stop.at", "%control", "stop")}\
  %count.rows = mul nuw nsw i32 %size.z, %size.y
  %count = mul nuw nsw i32 %count.rows, %size.x
  br label %block.next
block.next:
  %number = phi i64 [0, %entry], [%number.next, %z.end]
  %number.short = trunc i64 %number to i32
  %block.x = add i32 %index.x, %number.short
{BLOCK.store("%block.x", "%block", "index.x")}\
  %cluster.x = add i32 %cluster_idx.x, %number.short
{BLOCK.store("%cluster.x", "%block", "cluster_idx.x")}\
{threads}\
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


def _planes(start: str, row: str, latch: str = "") -> str:
    """The loops over z and y around the text `row`, up to the label `z.end`. `%row.first` is the row's first thread."""
    row_body = f"""\
  %row = add nuw nsw i32 %plane.rows, %y
  %row.first = mul nuw nsw i32 %row, %size.x
{_store(y="%y")}{row}"""
    rows = f"  %plane.rows = mul nuw nsw i32 %z, %size.y\n{_store(z='%z')}"
    rows += _loop("y", "z.loop", "0", "%size.y", row_body, latch=latch)
    return _loop("z", start, "0", "%size.z", rows, latch="y.end")


def _rows(kernel: LoopedKernel) -> str:
    """The loops over the rows of a block: each with all its regions, or with one loop over the threads of the row."""
    call = f"({kernel.context}, i32 %row.first, i32 {'%end' if kernel.limit else '%size.x'})"
    before = f"{_end_of_row(kernel)}lanes:\n" if kernel.limit else ""
    if not kernel.regions:
        row = f"  call void @cuda_device.lanes.0{call}\n  br label %row.end\n"
    else:
        row = f"  %stops = call i1 @cuda_device.regions{call}\n  br i1 %stops, label %finished, label %row.end\n"
    return _planes("block.next", f"{before}{row}row.end:\n", "row.end")


def _end_of_row(kernel: LoopedKernel) -> str:
    """Calls the limit function with the first thread of the row; it computes the x of the first thread that has nothing to do."""
    return f"""\
{_store(x="0", linear="%row.first")}\
  %limit = call i64 @{kernel.limit}(ptr %thread{kernel.arguments})
  %size.wide = zext i32 %size.x to i64
  %least = call i64 @llvm.smin.i64(i64 %limit, i64 %size.wide)
  %end = trunc i64 %least to i32
  %has_some = icmp sgt i64 %limit, 0
  br i1 %has_some, label %lanes, label %row.end
"""


def _regions(kernel: LoopedKernel, regions: Regions) -> str:
    """`@cuda_device.regions`, which runs the regions of a block or row, in the order that the threads choose.

    Returns true if the launch is to stop.
    """
    functions, parameters, first = "", "", "  br label %region.0\n"
    if kernel.by_row:
        parameters = ", i32 %row.first, i32 %end"
        functions += _lanes(replace(kernel, symbol=kernel.whole), "whole")
        first = f"""\
  %is.short = icmp ult i32 %size.x, {_SHORT}
  br i1 %is.short, label %region.whole, label %region.0
region.whole:
  call void @cuda_device.lanes.whole({kernel.context}{parameters})
  ret i1 false
"""
    text = first
    for n in range(regions.count):
        run = f"lanes.{n}" if kernel.by_row else f"rows.{n}"
        text += f"region.{n}:\n  call void @cuda_device.{run}({kernel.context}{parameters})\n{_onwards(n, regions)}"
        if not kernel.by_row:
            call = f"  call void @cuda_device.lanes.{n}({kernel.context}, i32 %row.first, i32 %size.x)\n"
            functions += _function(kernel, run, "", f"{_planes('entry', call)}  ret void\n")
    text += "".join(_exchange(number, kind) for number, kind in regions.meetings.items())
    return functions + _function(
        kernel, "regions", parameters, f"{text}over:\n  ret i1 false\nstops:\n  ret i1 true\n", "i1"
    )


def _onwards(number: int, regions: Regions) -> str:
    """After a region: goes to the region that its threads chose, or to the end, unless the launch is to stop."""
    n = f".{number}"
    if number in regions.ranges:
        end = regions.ends.get(regions.ranges[number])
        return _unless_stopped(n, "over" if end is None else f"region.{end}")
    labels = {region: "exchange" if region in regions.meetings else "region" for region in range(1, regions.count)}
    cases = " ".join(f"i32 {region}, label %{label}.{region}" for region, label in labels.items())
    return f"""\
{_copy("%out", "%in", n)}{_unless_stopped(n, f"choose{n}")}\
choose{n}:
{in_common(f"%next.at{n}", "%in", NEXT)}\
  %next{n} = load i32, ptr %next.at{n}
  switch i32 %next{n}, label %over [{cases}]
"""


def _unless_stopped(n: str, label: str) -> str:
    return f"""\
  %stop{n} = load atomic i32, ptr %stop.at monotonic, align 4
  %goes.on{n} = icmp eq i32 %stop{n}, 0
  br i1 %goes.on{n}, label %{label}, label %stops
"""


def _copy(source: str, target: str, n: str = "") -> str:
    """Copies the uniform values. Each region reads what the previous one has written, because all its threads read the same."""
    return f"  %common{n} = load {COMMON}, ptr {source}\n  store {COMMON} %common{n}, ptr {target}\n"


def _exchange(number: int, kind: Suspension) -> str:
    """Exchanges values between the threads of the block, or of each warp, before a region."""
    call = "settle(ptr %shared.block)" if kind < Suspension.YIELD else f"exchange(ptr %shared.block, i32 {kind:d})"
    return f"exchange.{number}:\n  call void @cuda_device.{call}\n  br label %region.{number}\n"


def _lanes(kernel: LoopedKernel, number: int | str) -> str:
    """`@cuda_device.lanes.N`, the loop over the threads of a row: those before `%end`, or in the range of a region.

    If the region has warp operations and the row consists of whole warps, a loop over the 32 lanes is inside of one over the
    warps. LLVM unrolls it, and what depends on the lane becomes constant.
    """
    regions, text, start, first, end = kernel.regions, "", "entry", "0", "%end"
    if regions and number in regions.limits:
        text, end = f"  %last = call i32 @llvm.umin.i32(i32 %end, i32 {regions.limits[number]})\n", "%last"
    if regions and number in regions.ranges:
        text, start, first, end = text + _within_range(end), "some", "%from", "%to"
    elif regions and number in regions.of_lanes:
        text, start = text + _by_warps(kernel, number, end), "some"
    call = f"""\
  %linear = add nuw nsw i32 %row.first, %x
  %lane = and i32 %linear, {WARP_SIZE - 1}
  %before = sub nuw nsw i32 %linear, %lane
  %left = sub nuw nsw i32 %count, %before
  %lanes = call i32 @llvm.umin.i32(i32 %left, i32 {WARP_SIZE})
  call void @cuda_device.thread.{number}({kernel.context}, i32 %x, i32 %linear, i32 %lane, i32 %lanes)
"""
    loops = f"{text}{_loop('x', start, first, end, call)}  ret void\n"
    return _thread(kernel, number) + _function(kernel, f"lanes.{number}", ", i32 %row.first, i32 %end", loops)


def _within_range(end: str) -> str:
    """Goes on at `some` with the threads of the range at `%in`, before `end`, or at `x.end` if there are none."""
    return f"""\
{in_common("%from.at", "%in", FIRST)}{in_common("%to.at", "%in", END)}\
  %from.wide = load i64, ptr %from.at
  %to.wide = load i64, ptr %to.at
  %end.wide = zext i32 {end} to i64
  %from.least = call i64 @llvm.smax.i64(i64 %from.wide, i64 0)
  %to.least = call i64 @llvm.smin.i64(i64 %to.wide, i64 %end.wide)
  %has.some = icmp slt i64 %from.least, %to.least
  %from = trunc i64 %from.least to i32
  %to = trunc i64 %to.least to i32
  br i1 %has.some, label %some, label %x.end
some:
"""


def _by_warps(kernel: LoopedKernel, number: int | str, end: str) -> str:
    """The loops over the warps of a row, and over the lanes of a warp, if the row consists of whole warps."""
    call = f"""\
  %warp.x = add nuw nsw i32 %warp, %warp.lane
  %warp.linear = add nuw nsw i32 %row.first, %warp.x
  call void @cuda_device.thread.{number}({kernel.context}, i32 %warp.x, i32 %warp.linear, i32 %warp.lane, i32 {WARP_SIZE})
"""
    lanes = _loop("warp.lane", "warp.loop", "0", str(WARP_SIZE), call, metadata=_LANES)
    return f"""\
  %others = and i32 {end}, {WARP_SIZE - 1}
  %has.warps = icmp eq i32 %others, 0
  br i1 %has.warps, label %whole, label %some
whole:
{_loop("warp", "whole", "0", end, lanes, step=WARP_SIZE, latch="warp.lane.end")}\
  br label %x.end
some:
"""


def _thread(kernel: LoopedKernel, number: int | str) -> str:
    """`@cuda_device.thread.N`, which runs one thread of a region."""
    regions, call = kernel.regions, f"  call void @{kernel.symbol}(ptr %thread{kernel.arguments})\n"
    if regions and number != "whole":
        arguments = f"ptr %thread, i32 {number}, ptr %frames, i64 %wide, ptr %in, ptr %out"
        call = f"""\
  %wide = zext nneg i32 %{"x" if regions.by_row else "linear"} to i64
  %warp.first = sub nuw nsw i32 %linear, %lane
  %warp.offset = mul nuw nsw i32 %warp.first, {_ENTRY}
  %warp.at = getelementptr inbounds i8, ptr %warps, i32 %warp.offset
  %state = getelementptr inbounds i32, ptr %warp.at, i32 %lane
{_store(state="%state")}{_copy("%in", "%out")}{in_common("%next", "%out", NEXT)}\
  %place = call i32 @{kernel.symbol}({arguments}{kernel.arguments}) alwaysinline
  store i32 %place, ptr %next
"""
    record = _store(x="%x", linear="%linear", lane="%lane", lanes="%lanes")
    parameters = ", i32 %x, i32 %linear, i32 %lane, i32 %lanes"
    return _function(kernel, f"thread.{number}", parameters, f"{record}{call}  ret void\n")


# Warps whose lanes wait in different places


def _resume(kernel: LoopedKernel, regions: Regions) -> str:
    """`@cuda_device.resume`. Lanes that continue at the same place do so in a loop for this place, others one by one."""
    return f"""\
define internal void @cuda_device.resume(ptr %shared.block, i64 %warp, i32 %lanes) nounwind {{
entry:
{_records(kernel)}{BLOCK.loads("%block", "count", "threads", "warps", "frames")}{_store(fuel=str(FUEL))}\
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
    call = f"""\
  %wide{n} = zext nneg i32 %lane{n} to i64
  %thread.at{n} = getelementptr inbounds {THREAD}, ptr %own, i64 %wide{n}
  %record{n} = load {THREAD}, ptr %thread.at{n}
  store {THREAD} %record{n}, ptr %thread
{THREAD.store("%block", "%thread", "block", f"%to.block{n}")}\
  call void @{kernel.symbol}(ptr %thread, i32 {number}, ptr %frame, i64 %wide{n}{kernel.arguments}) alwaysinline
"""
    return f"region{n}:\n{_loop(f'lane{n}', f'region{n}', '0', '%here', call)}  br label %leave\n"


# Reports


def _report() -> str:
    """`@cuda_device.report`, which is inlined and reads the indices, so that the records need not be in memory."""
    loads = "".join(BLOCK.load(f"%block.{axis}", "%block", f"index.{axis}") for axis in _AXES)
    loads += "".join(THREAD.load(f"%thread.{axis}", "%thread", f"index.{axis}") for axis in _AXES)
    indices = "".join(f", i32 %{kind}.{axis}" for kind in ("block", "thread") for axis in _AXES)
    parameters = "i32 %status, i32 %place, i64 %first, i64 %second"
    return f"""\
declare void @cuda_device.keep(ptr{", i32" * 8}, i64, i64)

define internal void @cuda_device.report(ptr %thread, {parameters}) nounwind alwaysinline {{
{THREAD.loads("%thread", "block")}{BLOCK.loads("%block", "control")}{loads}\
  call void @cuda_device.keep(ptr %control{indices}, {parameters})
  ret void
}}
"""
