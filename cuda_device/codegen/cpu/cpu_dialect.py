"""The dialect of LLVM IR for kernels on the CPU.

The first parameter of each device function is `ptr %thread`, which identifies the thread. A kernel that never waits is a plain
function, which the runner calls in a loop over the threads of a block. A kernel that waits is divided into regions (`regions`):
it stores why and where the thread waits, and returns. The scheduler (`scheduler`) compares these words and resumes threads. Only
the kernel's own body can wait, because functions with barriers have been inlined into it.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.codegen.cpu.processor import vector_functions
from cuda_device.codegen.cpu.records import (
    BLOCK,
    CONTROL,
    CREW,
    FUEL,
    KIND_SHIFT,
    NANOSECONDS,
    PLACE_MASK,
    READ,
    READ_TWICE,
    RECORDS,
    RUN,
    STATE_SHIFT,
    THREAD,
    WARP,
    WARP_SIZE,
    WHEN_SHIFT,
    WIDE,
    WORD,
    WRITE,
    Record,
    Suspension,
)
from cuda_device.codegen.cpu.regions import PARALLEL, Regions
from cuda_device.codegen.cpu.uniform import CUT, RANGE
from cuda_device.codegen.emit import llvm_writer
from cuda_device.codegen.emit.dialect import LLVM_ORDERS, PAIR, Dialect, Meeting, Update, Wide
from cuda_device.device.functions import DEFAULTS, Options
from cuda_device.instrument.outline import Status
from cuda_device.ir import ops
from cuda_device.ir.nodes import Function, Module, Op, Value
from cuda_device.ir.ops import Order, Scope
from cuda_device.types.architectures import MAXIMUM_STATIC_SHARED
from cuda_device.types.model import Number, Space

_RETURNED = "returned"
"""The label of the block that ends a thread of a kernel in regions."""
_FAILED = -1
"""Where a thread goes on that has reported a failure: nowhere."""

# What the hardware guarantees about a register: the half-open range of its values.
_RANGES = {"thread_idx": "0, i32 1024", "block_dim": "1, i32 1025", "block_idx": "0, i32 -2147483648"}
_BLOCK_FIELDS = {
    "block_idx": "index",
    "block_dim": "size",
    "grid_dim": "grid",
    "cluster_idx": "cluster_idx",
    "cluster_dim": "cluster_dim",
    "block_rank": "block_rank",
    "shared": "shared",
    "dynamic_shared": "dynamic",
    "dynamic_shared_bytes": "dynamic_bytes",
}
_FUNCTIONS = """\
declare void @cuda_device.trace(ptr readonly captures(none), i32, i64, i64)
declare i64 @cuda_device.nanoseconds(i32)
"""
# What accesses are checked with (`shadow_memory`). It does not change while a function, or a region of a kernel, runs.
_SHADOW = (
    THREAD.load("%shadow.linear", "%thread", "linear")
    + THREAD.load("%shadow.block", "%thread", "block")
    + "".join(BLOCK.load(f"%shadow.{name}", "%shadow.block", name) for name in ("unit", "words", "moment", "shared"))
    + f"  %shadow.when = shl i64 %shadow.moment, {WHEN_SHIFT}\n"
)
# A load or store of shared memory. Most are reads where two threads have read before, at this place and in this moment.
_ACCESS = f"""\
declare i1 @cuda_device.passes(i64, i64, i64, i32, i1)
define internal void @cuda_device.access(ptr %thread, i64 %unit, ptr %words, i64 %began, i32 %linear, i32 %place, i64 %value,
 i64 %bytes, i64 %word.bytes, i64 %kind) alwaysinline nounwind {{
  %has_word = icmp eq i64 %unit, %bytes
  br i1 %has_word, label %look, label %tell
look:
  %offset = mul i64 %value, %word.bytes
  %word.at = getelementptr i8, ptr %words, i64 %offset
  %word = load i64, ptr %word.at
  %here = zext i32 %place to i64
  %when = or i64 %began, %here
  %read.here = or i64 %when, {READ_TWICE << STATE_SHIFT}
  %reads = icmp eq i64 %kind, {READ}
  %same = icmp eq i64 %word, %read.here
  %repeats = and i1 %reads, %same
  br i1 %repeats, label %end, label %note, !prof !{{!"branch_weights", i32 2000, i32 1}}
note:
  %address = ptrtoint ptr %word.at to i64
  %passes = call i1 @cuda_device.passes(i64 %address, i64 %kind, i64 %when, i32 %linear, i1 true)
  br i1 %passes, label %end, label %tell
tell:
  call void @cuda_device.trace(ptr %thread, i32 %place, i64 %value, i64 1)
  br label %end
end:
  ret void
}}
"""
# Where accesses are checked at once (there is a unit), the scheduler tells of barriers.
_WAIT = """\
define internal void @cuda_device.wait(ptr %thread, i64 %unit, i32 %place) alwaysinline nounwind {
  %is_checked = icmp ne i64 %unit, 0
  br i1 %is_checked, label %end, label %tell
tell:
  call void @cuda_device.trace(ptr %thread, i32 %place, i64 0, i64 1)
  br label %end
end:
  ret void
}
"""
# What `Suspension` calls the operations and their kinds.
_PREFIXES = {
    ops.BARRIER: "BARRIER",
    ops.WARP_SYNC: "SYNC",
    ops.WARP_ACTIVE: "ACTIVE",
    ops.WARP_MATCH: "MATCH_",
    ops.WARP_REDUCE: "REDUCE_",
}
_OTHERWISE = {"eq": "EQUAL", "idx": "INDEX"}


def _of_block(result: str, field: str, record: Record = BLOCK, metadata: str = "") -> str:
    """Text that makes `result` a field of the record of the thread's block, or of the launch's."""
    text, at = THREAD.load(f"{result}.block", "%thread", "block"), f"{result}.block"
    if record is CONTROL:
        text, at = text + BLOCK.load(f"{result}.control", at, "control"), f"{result}.control"
    return text + record.load(result, at, field, metadata)


def _entry(result: str, state: str, field: str) -> str:
    """Text that makes `result` the address of one of the lane's entries in the warp's record."""
    return f"  {result} = getelementptr i8, ptr {state}, i64 {4 * WARP_SIZE * WARP.index(field)}\n"


def _store(label: str, field: str, value: str) -> str:
    at = f"%{label}.{field}"
    return _entry(at, f"%{label}.state", field) + f"  store {value}, ptr {at}\n"


def _load(result: str, field: str) -> str:
    """Reads one of the lane's entries after the meeting; the record's address is not kept in the frame meanwhile."""
    state = f"{result}.{field}.state"
    text = THREAD.load(state, "%thread", "state") + _entry(f"{result}.{field}.at", state, field)
    return text + f"  {result} = load i32, ptr {result}.{field}.at\n"


def _brought(label: str, mask: str, value: str, lane: str) -> str:
    """Text that leaves in the warp's record what a lane brings: operands with their types; flags are i1, values i32 or i64."""
    text = _store(label, "masks", mask) if mask else ""
    type, low, high, near = value.partition(" ")[0], *(f"%{label}.{part}" for part in ("low", "high", "near"))
    if lane:
        text += f"  {near} = and {lane}, {WARP_SIZE - 1}\n"
        if type == "i64":
            text += f"  {near}.wide = or i32 {near}, {WIDE}\n"
        text += _store(label, "sources", f"i32 {near}{'.wide' if type == 'i64' else ''}")
    if type == "i1":
        text += f"  {low} = zext {value} to i32\n"
    elif type == "i64":
        text += f"  {low} = trunc {value} to i32\n  {high}.down = lshr {value}, 32\n"
        text += f"  {high} = trunc i64 {high}.down to i32\n"
    if value:
        text += _store(label, "lows", value if type == "i32" else f"i32 {low}")
        text += _store(label, "highs", f"i32 {high}" if type == "i64" else "i32 0")
    return text


def _taken(result: str) -> str:
    """Text that takes the result of a meeting, whose name has its type before it, out of the warp's record."""
    type, _, name = result.partition(" ")
    if type == "i32":
        return _load(name, "lows")
    if type == "i1":
        return _load(f"{name}.word", "lows") + f"  {name} = icmp ne i32 {name}.word, 0\n"
    if type != "i64":
        return ""
    low, high = f"{name}.low", f"{name}.high"
    return (
        f"{_load(low, 'lows')}{_load(high, 'highs')}"
        f"  {low}.wide = zext i32 {low} to i64\n  {high}.wide = zext i32 {high} to i64\n"
        f"  {high}.up = shl i64 {high}.wide, 32\n  {name} = or i64 {high}.up, {low}.wide\n"
    )


def _update_alone(update: Update, operation: str, result: str) -> str:
    """A read-modify-write of memory that no other thread of the CPU accesses."""
    type, value = update.value.split(" ", 1)
    at, new = f"{update.pointer} monotonic, align {update.number.bits // 8}", f"{result}.new"
    if operation in _COMPARISONS:
        first = f"  {result}.is = icmp {_COMPARISONS[operation]} {type} {result}, {value}\n"
        made = f"{first}  {new} = select i1 {result}.is, {type} {result}, {type} {value}\n"
    else:
        made = f"  {new} = {operation} {type} {result}, {value}\n" if operation != "xchg" else ""
    stored = value if operation == "xchg" else new
    return f"  {result} = load atomic {type}, {at}\n{made}  store atomic {type} {stored}, {at}\n"


_COMPARISONS = {"max": "sgt", "min": "slt", "umax": "ugt", "umin": "ult"}


class Cpu(Dialect):
    """The host's processors: see `codegen/cpu/cpu_dialect`."""

    thread = "ptr readonly captures(none) %thread"
    """The first parameter of each function."""
    same_bits = 'asm "", "=r,0"'

    def __init__(
        self,
        module: Module,
        options: Options = DEFAULTS,
        most_shared: int = MAXIMUM_STATIC_SHARED,
        regions: Regions | None = None,
        limit: Function | None = None,
    ) -> None:
        super().__init__(module, options, most_shared)
        self.regions, self.limit = regions, limit
        self.forms: dict[str, int] = {}
        """The vector functions that are declared."""

    def preamble(self) -> str:
        """The records that threads and the scheduler share."""
        records = "".join(record.declaration() for record in RECORDS)
        return f"{records}{_FUNCTIONS}{(_ACCESS + _WAIT) * self.options.races}" + "".join(
            f"{line}\n" for line in llvm_writer.constant_definitions(self.module)
        )

    def pointer(self, space: Space) -> str:
        """One space."""
        return "ptr"

    def access(self, space: Space) -> str:
        """The threads of a block are independent between barriers: their loads and stores have no order."""
        return PARALLEL if space in (Space.GLOBAL, Space.SHARED) else ""

    @property
    def together(self) -> bool:
        """Whether the kernel waits, and all threads of a block come to the same waits."""
        return self.regions is not None and self.regions.together

    def symbol(self, function: Function) -> str:
        """Never the name of a function of the C library."""
        return f"device.{function.name}"

    def open(self, function: Function, result: str, parameters: Sequence[str], allocas: str) -> tuple[str, str]:
        """Every function takes the thread first; a kernel in regions also where it goes on, the frame, and its lane.

        If its threads are together, it also takes the memory of uniform values, and returns where the thread goes on next.

        Debuggers find a kernel as a function of its own; else a plain one becomes a part of the runner.
        """
        allocas += _SHADOW * self.options.races
        if function.kernel and self.regions:
            hidden = ["i32 %place", "ptr noalias %frame", "i64 %lane"]
            if self.together:
                hidden += ["ptr noalias %in", "ptr noalias %out"]
            listed = ", ".join((self.thread, *hidden, *parameters))
            head = (
                f"define internal {'i32' if self.together else 'void'} @{self.symbol(function)}({listed}) nounwind {{\n"
            )
            return head + self.regions.prologue(allocas), "start"
        how = " noinline" if self.options.debug else " alwaysinline"
        listed = ", ".join((self.thread, *parameters))
        head = f"define internal {result} @{self.symbol(function)}({listed}) nounwind{how if function.kernel else ''}"
        return f"{head} {{\nb0:\n{allocas}", "b0"

    def own(self, name: str, size: int, align: int, value: Value | None = None) -> str:
        """Memory of a kernel in regions that lives across a wait is in the warp's frame."""
        kept = self.regions.own(name, size, align, value) if self.regions and value else ""
        return kept or super().own(name, size, align, value)

    def variable(self, function: Function, name: str, type: str, size: int) -> tuple[str, str, str]:
        """Of a kernel in regions, debuggers find the address of a variable on the stack, and the variable in the frame."""
        if not (function.kernel and self.regions):
            return super().variable(function, name, type, size)
        text = f"{self.regions.place(name, size, 8)}  {name}.at = alloca ptr\n  store ptr {name}, ptr {name}.at\n"
        return text, f"{name}.at", "DW_OP_deref"

    def close(self, function: Function) -> str:
        """The end of a thread of a kernel in regions, and the beginnings of the regions."""
        if not (function.kernel and self.regions):
            return "}\n"
        if self.together:
            return f"{_RETURNED}:\n  ret i32 0\n{self.regions.epilogue()}}}\n"
        state = THREAD.load("%state", "%thread", "state")
        return f"{_RETURNED}:\n{state}  store i32 0, ptr %state\n  ret void\n{self.regions.epilogue()}}}\n"

    def leave(self, function: Function) -> str:
        """A thread of a kernel in regions says that it has ended."""
        return f"br label %{_RETURNED}" if function.kernel and self.regions else "ret void"

    def arguments(self) -> tuple[str, ...]:
        """The thread."""
        return ("ptr %thread",)

    def register(self, name: str, result: str) -> str:
        """A field of the thread's or block's record.

        Names: `thread_idx`, `block_idx`, `block_dim`, `grid_dim` with `.x`, `.y`, `.z`; `linear_thread` (the thread's number in
        its block), `lane_id`, `lanemask_lt`, `dynamic_shared_bytes`, `hidden_zero` (0): i32. `shared` and `dynamic_shared`: ptr,
        aligned to 128.
        """
        group, _, axis = name.partition(".")
        metadata = f", !range !{{i32 {_RANGES[group]}}}" if group in _RANGES else ""
        match group:
            case "shared" if self.options.races:
                return f"  {result} = getelementptr i8, ptr %shadow.shared, i64 0\n"
            case "thread_idx":
                return THREAD.load(result, "%thread", axis, metadata)
            case "hidden_zero":
                return f"  {result} = add i32 0, 0\n"
            case "lane_id":
                return THREAD.load(result, "%thread", "lane", f", !range !{{i32 0, i32 {WARP_SIZE}}}")
            case "lanes":
                return THREAD.load(result, "%thread", "lanes", f", !range !{{i32 1, i32 {WARP_SIZE + 1}}}")
            case "lanemask_lt":
                lane = self.register("lane_id", f"{result}.lane")
                return f"{lane}  {result}.bit = shl nuw i32 1, {result}.lane\n  {result} = add i32 {result}.bit, -1\n"
        return _of_block(result, _BLOCK_FIELDS[group] + (axis and f".{axis}"), metadata=metadata)

    def timer(self, name: str, result: str) -> str:
        """A clock of the C library, by its number on Linux."""
        return f"  {result} = call i64 @{NANOSECONDS}(i32 {0 if name == 'globaltimer' else 1})\n"

    def meet(self, meeting: Meeting) -> tuple[str, str]:
        """The end of a region. The operation goes on at its label: `yield`s only once in `FUEL` times, or `now`."""
        code, kind, label = meeting.code, meeting.kind, meeting.label
        if kind in (CUT, RANGE):
            return self._cut(meeting), label
        if code is ops.YIELD and kind == "now":
            return self._wait(Suspension.YIELD, meeting.place, label), label
        if code is ops.YIELD:
            fuel = THREAD.load(f"%{label}.fuel", "%thread", "fuel")
            fuel += f"  %{label}.left = add i32 %{label}.fuel, -1\n  %{label}.empty = icmp eq i32 %{label}.left, 0\n"
            fuel += f"  %{label}.kept = select i1 %{label}.empty, i32 {FUEL}, i32 %{label}.left\n"
            fuel += THREAD.store(f"%{label}.kept", "%thread", "fuel", f"%{label}.fuel.to")
            fuel += f"  br i1 %{label}.empty, label %{label}.out, label %{label}\n{label}.out:\n"
            wait = self._wait(Suspension.YIELD, meeting.place, f"{label}.in")
            return f"{fuel}{wait}  br label %{label}\n{label}:\n", label
        waits_for = Suspension[_PREFIXES.get(code, "") + _OTHERWISE.get(kind, kind.upper())]
        mask, value, lane = (*([""] * (code is ops.BARRIER_REDUCE)), *meeting.operands, "", "", "")[:3]
        wait = self._wait(waits_for, meeting.place, label, _brought(label, "" if self.together else mask, value, lane))
        return wait + _taken(meeting.result), label

    def _cut(self, meeting: Meeting) -> str:
        """Text that ends a region where no thread waits. In front of a range, all threads store the same bounds."""
        assert self.regions is not None
        number, label, bounds = len(self.regions.labels) + 1, meeting.label, ""
        if meeting.kind == RANGE:
            self.regions.ranges[number] = meeting.place
            for offset, operand in zip((0, 8), meeting.operands, strict=True):
                at = f"%{label}.bound.{offset}"
                bounds += f"  {at} = getelementptr inbounds i8, ptr %out, i64 {offset}\n  store {operand}, ptr {at}\n"
        elif meeting.place:
            self.regions.ends[meeting.place] = number
        return f"{bounds}{self.regions.leave(label)}{label}:\n"

    def _wait(self, kind: Suspension, place: int, label: str, before: str = "") -> str:
        """Text that waits and goes on at `label:`; `before` comes first, and finds `%label.state`, the thread's word."""
        assert self.regions is not None
        if not 0 <= place <= PLACE_MASK:
            raise ValueError(f"a place is a number from 0 to {PLACE_MASK}, not {place}")
        if self.together and kind in (Suspension.BARRIER, Suspension.SYNC):
            return f"{self.regions.leave(label)}{label}:\n"
        if self.together:
            self.regions.meetings[len(self.regions.labels) + 1] = kind
        state = THREAD.load(f"%{label}.state", "%thread", "state")
        word = f"  store i32 {kind << KIND_SHIFT | place}, ptr %{label}.state\n"
        return f"{state}{before}{word}{self.regions.leave(label)}{label}:\n"

    def shared(self, number: int | None, result: str) -> tuple[str, str]:
        """A part of the block's memory, behind which the launch's lies."""
        if number is None:
            return self.register("dynamic_shared", result), result
        base, offset = self.register("shared", f"{result}.base"), self.offsets[number]
        return f"{base}  {result} = getelementptr inbounds i8, ptr {result}.base, i64 {offset}\n", result

    def grid_word(self, result: str, cluster: bool) -> str:
        """A field of the launch's record, or the first one of the cluster's."""
        if cluster:
            return _of_block(result, "cluster")
        block, control = f"{result}.block", f"{result}.control"
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
        """LLVM's instruction, or plain ones for what only the block can see, which one thread of the CPU runs."""
        operation = {"exch": "xchg"}.get(update.operation, update.operation)
        if update.number.is_float and operation == "add":
            operation = "fadd"
        if not update.number.signed and operation in ("max", "min"):
            operation = f"u{operation}"
        if update.space is Space.SHARED and update.scope is Scope.BLOCK and update.order is not Order.SEQ_CST:
            return _update_alone(update, operation, result)
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
        """A call. The first report of a launch is kept, and stops the launch; the thread has to end after it."""
        first, second = (*values, "0", "0")[:2]
        return f"  call void @cuda_device.report(ptr %thread, i32 {status:d}, i32 {place}, i64 {first}, i64 {second})\n"

    def trace(self, place: int, event: str, value: str, done: str, shared: int) -> str:
        """A call; what has seldom to be told is inlined: loads and stores of shared memory, and waits."""
        if event in ("arrive", "leave"):
            return f"  call void @cuda_device.wait(ptr %thread, i64 %shadow.unit, i32 {place})\n"
        if shared and event in ("load", "store"):
            shadow = "i64 %shadow.unit, ptr %shadow.words, i64 %shadow.when, i32 %shadow.linear"
            sizes = f"i64 {shared}, i64 {WORD.dtype.itemsize // shared}, i64 {READ if event == 'load' else WRITE}"
            return f"  call void @cuda_device.access(ptr %thread, {shadow}, i32 {place}, i64 {value}, {sizes})\n"
        return f"  call void @cuda_device.trace(ptr %thread, i32 {place}, i64 {value}, i64 {done})\n"

    def exit(self, function: Function) -> str:
        """The kernel's end: other functions have told their callers (see `instrument/cpu_passes`)."""
        return f"ret i32 {_FAILED}" if function.kernel and self.together else self.leave(function)

    def library(self, stem: str, type: Number) -> str:
        """The C library's names: `sinf`, `sin`."""
        return f"{stem}{'f' if type.bits == 32 else ''}"

    def of_library(self, symbol: str, type: str, arity: int) -> tuple[str, list[str]]:
        """Only their result matters; where they may be approximate, several can be computed at once by a vector library."""
        forms = vector_functions(symbol, arity, 32 if type == "float" else 64) if "afn" in self.options.fastmath else {}
        self.forms.update(forms)
        vectors = {name: f"<{lanes} x {type}>" for name, lanes in forms.items()}
        listed = ",".join(f"_ZGV_LLVM_N{lanes}{'v' * arity}_{symbol}({name})" for name, lanes in forms.items())
        marks = " nounwind willreturn memory(none)" + (f' "vector-function-abi-variant"="{listed}"' if forms else "")
        return marks, [f"{vector} @{name}({', '.join([vector] * arity)})" for name, vector in vectors.items()]

    def runner(self, parameters: Sequence[str]) -> str:
        """What runs the kernel's threads."""
        symbol, found = self.symbol(self.module.main), self.regions
        limit = self.symbol(self.limit) if self.limit else ""
        whole = self.symbol(found.whole) if found and found.whole else ""
        crew = found is not None and not found.together
        frame = 0 if found is None else found.warp_bytes if crew else found.block_bytes
        worker, function = (CREW, "resume") if crew else ("cuda_device.blocks", "block")
        kept = ", ".join(f"ptr @{name}" for name in self.forms)
        used = f"@llvm.compiler.used = appending global [{len(self.forms)} x ptr] [{kept}]\n" if self.forms else ""
        return f"""\
{used}define void @{RUN}(ptr %control) nounwind {{
  call void @{worker}(ptr %control, ptr @cuda_device.{function}, i64 {self.shared_bytes}, i64 {frame})
  ret void
}}

declare void @{worker}(ptr, ptr, i64, i64)

{_regions(symbol, parameters, found) if found and crew else _blocks(symbol, parameters, limit, found, whole)}
{_report()}
{_LOOP} = distinct !{{{_LOOP}, !{{!"llvm.loop.unroll.disable"}}, !{{!"llvm.loop.parallel_accesses", {_ACCESSES}}}}}
{_ACCESSES} = distinct !{{}}
{_LANES} = distinct !{{{_LANES}, !{{!"llvm.loop.parallel_accesses", {_ACCESSES}}}}}
{_BLOCKS} = distinct !{{{_BLOCKS}, !{{!"llvm.loop.unroll.disable"}}}}
"""

    def print(self, op: Op, buffer: str, result: str) -> str:
        """The launch knows a function of the host."""
        function = f"{result}.function"
        call = f"  call void {function}(i32 {op.attributes['place']}, ptr {buffer})\n"
        return _of_block(function, "print", CONTROL) + call

    def room(self, result: str) -> str:
        """How much of the host thread's stack is in use."""
        limit = _of_block(f"{result}.stack", "stack", CONTROL)
        return f"""\
{limit}{BLOCK.load(f"{result}.base", f"{result}.stack.block", "base")}\
  {result}.here = call ptr @llvm.frameaddress.p0(i32 0)
  {result}.from = ptrtoint ptr {result}.base to i64
  {result}.to = ptrtoint ptr {result}.here to i64
  {result}.used = sub i64 {result}.from, {result}.to
  {result} = icmp slt i64 {result}.used, {result}.stack
"""


# What surrounds one kernel: the threads of one block, and the exported `@cuda_device.run`.
#
#     void @cuda_device.run(ptr control)      each worker calls it once for a launch; `scheduler` takes blocks, and calls
#     void @cuda_device.block(ptr block, i64 many)
#                                             of a kernel that does not wait, or whose threads wait together: for the blocks of a
#                                             row and each region: for z, y, x: kernel(thread), inlined, x vectorised by LLVM
#     void @cuda_device.resume(ptr block, i64 warp, i32 lanes)
#                                             of another kernel in regions: lets lanes go on to where they wait next
#
# Only this is compiled anew for each kernel, and so it is small: what is the same for all kernels is in `scheduler`.


_SIZE = ("size.x", "size.y", "size.z")
_AXES = "xyz"
# Rows of fewer threads do not make vectors.
_SHORT = 8
# The loops over threads are vectorised, not unrolled, which would only cost time to compile. Nobody else takes this
# number.
_LOOP = "!900000000"
_ACCESSES = PARALLEL.split()[-1]
_BLOCKS = "!900000002"
_LANES = "!900000003"


def _load_arguments(leaves: Sequence[str]) -> str:
    record = Record("{ " + ", ".join(leaves) + " }", tuple((str(i), type) for i, type in enumerate(leaves)))
    text = BLOCK.load("%parameters", "%block", "parameters")
    return text + "".join(record.load(f"%argument.{name}", "%parameters", name) for name, _ in record.fields)


def _arguments(leaves: Sequence[str]) -> str:
    return "".join(f", {type} %argument.{i}" for i, type in enumerate(leaves))


def _blocks(symbol: str, leaves: Sequence[str], limit: str, regions: Regions | None, whole: str) -> str:
    """The blocks of a row, one after the other; of each the regions, of which a kernel that does not wait has one.

    Short rows of threads run the `whole` kernel: its loops are better than loops around few threads.

    The records are copied to where nothing else can write: so they dissolve into registers, and the optimiser sees that
    stores through the kernel's arrays do not change them. So does the memory for uniform values: each region reads what the last
    one has written, as all its threads read the same.
    """
    sizes = "".join(BLOCK.load(f"%{name}", "%shared.block", name, ", !range !{i32 1, i32 1025}") for name in _SIZE)
    memory, count = "", regions.count if regions else 1
    if regions:
        memory = f"  %in = alloca [{regions.common_bytes} x i8], align 16\n"
        memory += f"  %out = alloca [{regions.common_bytes} x i8], align 16\n  %next = alloca i32\n"
        memory += BLOCK.loads("%block", "frames", "warps")
    if regions and not regions.by_row:
        inside = [_rows(f".{number}", _lanes(symbol, leaves, "", number, regions)) for number in range(count)]
        goal = "block.end"
    else:
        inside = [_lanes(symbol, leaves, limit, number, regions) for number in range(count)]
        goal = "row.end"
    ends = [
        f"region.end.{n}:\n{_onwards(n, regions, goal) if regions else '  br label %row.end'}\n" for n in range(count)
    ]
    stops = "".join(f"region.{n}:\n{text}{end}" for n, (text, end) in enumerate(zip(inside, ends, strict=True)))
    if goal == "row.end":
        start = f"{_end_of_row(limit, leaves) if limit else '  br label %lanes'}\nlanes:\n"
        if whole:
            start += f"  %is.short = icmp ult i32 %size.x, {_SHORT}\n"
            start += "  br i1 %is.short, label %region.whole, label %region.0\nregion.whole:\n"
            start += _lanes(whole, leaves, limit, "whole", None) + "region.end.whole:\n  br label %row.end\n"
        else:
            start += "  br label %region.0\n"
        stops = f"  br label %planes\nplanes:\n{_rows('', start + stops)}region.end:\n  br label %block.end\n"
    else:
        stops = "  br label %region.0\n" + stops
    if regions:
        stops += "".join(_exchange(number, kind) for number, kind in regions.meetings.items())
    return f"""\
declare void @cuda_device.reduce(ptr)
declare void @cuda_device.exchange(ptr, i32, i32, i32)

define internal void @cuda_device.block(ptr %shared.block, i64 %many) nounwind {{
entry:
{_copied(leaves)}{sizes}{memory}{BLOCK.loads("%block", "control", "index.x", "cluster_idx.x")}\
{CONTROL.address("%stop.at", "%control", "stop")}  %count.rows = mul nuw nsw i32 %size.z, %size.y
  %count = mul nuw nsw i32 %count.rows, %size.x
  br label %block.next
block.next:
  %number = phi i64 [0, %entry], [%number.next, %block.end]
  %number.short = trunc i64 %number to i32
  %block.x = add i32 %index.x, %number.short
{BLOCK.store("%block.x", "%block", "index.x")}\
  %cluster.x = add i32 %cluster_idx.x, %number.short
{BLOCK.store("%cluster.x", "%block", "cluster_idx.x")}\
{stops}block.end:
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


def _onwards(number: int, regions: Regions, over: str) -> str:
    """Text that goes on behind a region where its threads said, at last at a label, unless the launch is to stop."""
    n = f".{number}"
    if number in regions.ranges:
        end = regions.ends.get(regions.ranges[number])
        goal, text = over if end is None else f"region.{end}", ""
    else:
        goal, text = (
            f"choose{n}",
            _copies(f".last{n}", "%out", "%in", regions),
        )
    text += f"""\
  %stop{n} = load atomic i32, ptr %stop.at monotonic, align 4
  %goes.on{n} = icmp eq i32 %stop{n}, 0
  br i1 %goes.on{n}, label %{goal}, label %finished
"""
    if number in regions.ranges:
        return text
    labels = {each: "exchange" if each in regions.meetings else "region" for each in range(1, regions.count)}
    cases = " ".join(f"i32 {each}, label %{label}.{each}" for each, label in labels.items())
    return f"""\
{text}choose{n}:
  %next{n} = load i32, ptr %next
  switch i32 %next{n}, label %{over} [{cases}]
"""


def _copies(n: str, source: str, target: str, regions: Regions) -> str:
    """Copies the uniform values, one by one: the optimiser makes them registers."""
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
    """The threads of a block, or of each of its warps, exchange what they have brought."""
    n = f".{number}"
    if kind < Suspension.YIELD:
        return f"exchange{n}:\n  call void @cuda_device.reduce(ptr %shared.block)\n  br label %region{n}\n"
    return f"""\
exchange{n}:
  %exchange.rows{n} = mul nuw nsw i32 %size.z, %size.y
  %count{n} = mul nuw nsw i32 %exchange.rows{n}, %size.x
  br label %warp{n}
warp{n}:
  %first{n} = phi i32 [0, %exchange{n}], [%first.next{n}, %warp{n}]
  %offset{n} = mul nuw nsw i32 %first{n}, {WARP.dtype.itemsize // WARP_SIZE}
  %record{n} = getelementptr inbounds i8, ptr %warps, i32 %offset{n}
  %rest{n} = sub i32 %count{n}, %first{n}
  %here{n} = call i32 @llvm.umin.i32(i32 %rest{n}, i32 {WARP_SIZE})
  %missing{n} = sub i32 {WARP_SIZE}, %here{n}
  %group{n} = lshr i32 -1, %missing{n}
  call void @cuda_device.exchange(ptr %record{n}, i32 %group{n}, i32 0, i32 {kind:d})
  %first.next{n} = add nuw nsw i32 %first{n}, {WARP_SIZE}
  %more{n} = icmp ult i32 %first.next{n}, %count{n}
  br i1 %more{n}, label %warp{n}, label %region{n}
"""


def _lanes(symbol: str, leaves: Sequence[str], limit: str, number: int | str, regions: Regions | None) -> str:
    """The loop over the threads of a row: those below the limit, or in the range of a region.

    If a region with warp operations has rows of whole warps, a loop over the 32 lanes is within a loop over the warps: what
    depends on the lane is constant after LLVM has unrolled it.
    """
    n, row, over = f".{number}", f".{number}", f"row.end.{number}"
    if regions is None or regions.by_row:
        row, over = "", f"region.end{n}" if regions else "row.end"
    before, first, end = "", "0", "%end" if limit else "%size.x"
    goes_on = f"  br label %each{n}\n"
    if regions and number in regions.limits:
        before = f"  %limited{n} = call i32 @llvm.umin.i32(i32 {end}, i32 {regions.limits[number]})\n"
        end = f"%limited{n}"
    if regions and number in regions.ranges:
        before += f"""\
  %from.wide{n} = load i64, ptr %in
  %end.at{n} = getelementptr inbounds i8, ptr %in, i64 8
  %end.wide{n} = load i64, ptr %end.at{n}
  %size.wide{n} = zext i32 {end} to i64
  %from.least{n} = call i64 @llvm.smax.i64(i64 %from.wide{n}, i64 0)
  %end.least{n} = call i64 @llvm.smin.i64(i64 %end.wide{n}, i64 %size.wide{n})
  %has.some{n} = icmp slt i64 %from.least{n}, %end.least{n}
  %from{n} = trunc i64 %from.least{n} to i32
  %end{n} = trunc i64 %end.least{n} to i32
"""
        first, end = f"%from{n}", f"%end{n}"
        goes_on = f"  br i1 %has.some{n}, label %each{n}, label %{over}\n"
    elif regions and number in regions.of_lanes:
        goes_on = f"""\
  %others{n} = and i32 {end}, {WARP_SIZE - 1}
  %has.warps{n} = icmp eq i32 %others{n}, 0
  br i1 %has.warps{n}, label %warps{n}, label %each{n}
warps{n}:
  %warp.x{n} = phi i32 [0, %{f"row{n}" if row else f"region{n}"}], [%warp.next{n}, %warp.end{n}]
  br label %each.lane{n}
each.lane{n}:
  %warp.lane{n} = phi i32 [0, %warps{n}], [%warp.lane.next{n}, %each.lane{n}]
  %x.warp{n} = add nuw nsw i32 %warp.x{n}, %warp.lane{n}
{_thread(symbol, leaves, number, regions, f".warp{n}", row, (f"%warp.lane{n}", str(WARP_SIZE)))}\
  %warp.lane.next{n} = add nuw nsw i32 %warp.lane{n}, 1
  %warp.more{n} = icmp ult i32 %warp.lane.next{n}, {WARP_SIZE}
  br i1 %warp.more{n}, label %each.lane{n}, label %warp.end{n}, !llvm.loop {_LANES}
warp.end{n}:
  %warp.next{n} = add nuw nsw i32 %warp.x{n}, {WARP_SIZE}
  %more.warps{n} = icmp ult i32 %warp.next{n}, {end}
  br i1 %more.warps{n}, label %warps{n}, label %{over}, !llvm.loop {_LOOP}
"""
    return f"""\
{before}{goes_on}each{n}:
  %x{n} = phi i32 [{first}, %{f"row{n}" if row else f"region{n}"}], [%x.next{n}, %each{n}]
{_thread(symbol, leaves, number, regions, n, row)}\
  %x.next{n} = add nuw nsw i32 %x{n}, 1
  %x.more{n} = icmp ult i32 %x.next{n}, {end}
  br i1 %x.more{n}, label %each{n}, label %{over}, !llvm.loop {_LOOP}
"""


def _thread(
    symbol: str,
    leaves: Sequence[str],
    number: int | str,
    regions: Regions | None,
    n: str,
    row: str,
    lane: tuple[str, str] | None = None,
) -> str:
    """Runs the thread `%x` of a row; `lane` is its lane, and how many its warp has."""
    text, call = "", f"  call void @{symbol}(ptr %thread{_arguments(leaves)})\n"
    if lane is None:
        lane, text = (
            (f"%lane{n}", f"%lanes{n}"),
            f"""\
  %lane{n} = and i32 %linear{n}, {WARP_SIZE - 1}
  %before{n} = sub nuw nsw i32 %linear{n}, %lane{n}
  %left{n} = sub nuw nsw i32 %count, %before{n}
  %lanes{n} = call i32 @llvm.umin.i32(i32 %left{n}, i32 {WARP_SIZE})
""",
        )
    if regions:
        given = f"ptr %thread, i32 {number}, ptr %frames, i64 %wide{n}, ptr %in, ptr %out"
        call = f"""\
  %wide{n} = zext nneg i32 %{"x" if regions.by_row else "linear"}{n} to i64
  %warp.first{n} = sub nuw nsw i32 %linear{n}, {lane[0]}
  %warp.offset{n} = mul nuw nsw i32 %warp.first{n}, {WARP.dtype.itemsize // WARP_SIZE}
  %warp.at{n} = getelementptr inbounds i8, ptr %warps, i32 %warp.offset{n}
  %state{n} = getelementptr inbounds i32, ptr %warp.at{n}, i32 {lane[0]}
{THREAD.store(f"%state{n}", "%thread", "state", f"%to.state{n}")}\
{_copies(f".first{n}", "%in", "%out", regions)}\
  %place{n} = call i32 @{symbol}({given}{_arguments(leaves)}) alwaysinline
  store i32 %place{n}, ptr %next
"""
    values = {"x": f"%x{n}", "linear": f"%linear{n}", "lane": lane[0], "lanes": lane[1]}
    stores = "".join(THREAD.store(value, "%thread", name, f"%to.{name}{n}") for name, value in values.items())
    return f"  %linear{n} = add nuw nsw i32 %y.first{row}, %x{n}\n{text}{stores}{call}"


def _rows(n: str, inside: str) -> str:
    """Text that does something for each row of a block: it ends at `row.end`. Behind all is the end of the region."""
    return f"""\
  br label %plane{n}
plane{n}:
  %z{n} = phi i32 [0, %{f"region{n}" if n else "planes"}], [%z.next{n}, %plane.end{n}]
  %z.rows{n} = mul nuw nsw i32 %z{n}, %size.y
{THREAD.store(f"%z{n}", "%thread", "z", f"%to.z{n}")}
  br label %row{n}
row{n}:
  %y{n} = phi i32 [0, %plane{n}], [%y.next{n}, %row.end{n}]
  %y.row{n} = add nuw nsw i32 %z.rows{n}, %y{n}
  %y.first{n} = mul nuw nsw i32 %y.row{n}, %size.x
{THREAD.store(f"%y{n}", "%thread", "y", f"%to.y{n}")}{inside}\
row.end{n}:
  %y.next{n} = add nuw nsw i32 %y{n}, 1
  %y.more{n} = icmp ult i32 %y.next{n}, %size.y
  br i1 %y.more{n}, label %row{n}, label %plane.end{n}, !llvm.loop {_LOOP}
plane.end{n}:
  %z.next{n} = add nuw nsw i32 %z{n}, 1
  %z.more{n} = icmp ult i32 %z.next{n}, %size.z
  br i1 %z.more{n}, label %plane{n}, label %region.end{n}, !llvm.loop {_LOOP}
"""


def _end_of_row(limit: str, leaves: Sequence[str]) -> str:
    """Finds out how many threads of a row have something to do, before the first one, of the x of 0."""
    return f"""\
{THREAD.store("0", "%thread", "x", "%to.first.x")}{THREAD.store("%y.first", "%thread", "linear", "%to.first.linear")}\
  %limit = call i64 @{limit}(ptr %thread{_arguments(leaves)})
  %size.wide = zext i32 %size.x to i64
  %least = call i64 @llvm.smin.i64(i64 %limit, i64 %size.wide)
  %end = trunc i64 %least to i32
  %has_some = icmp sgt i64 %limit, 0
  br i1 %has_some, label %lanes, label %row.end"""


def _copied(leaves: Sequence[str]) -> str:
    """Copies of the records, and the arguments."""
    return f"""\
  %thread = alloca {THREAD}
  %block = alloca {BLOCK}
  %copy = load {BLOCK}, ptr %shared.block
  store {BLOCK} %copy, ptr %block
{_load_arguments(leaves)}{THREAD.store("%block", "%thread", "block")}"""


def _regions(symbol: str, leaves: Sequence[str], regions: Regions) -> str:
    """What lets lanes of a warp go on.

    All lanes of a warp that go on at one place do so in a loop that is this place's own; others go on one by one.
    """
    return f"""\
define internal void @cuda_device.resume(ptr %shared.block, i64 %warp, i32 %lanes) nounwind {{
entry:
{_copied(leaves)}{BLOCK.loads("%block", "count", "threads", "warps", "frames")}
{THREAD.store(str(FUEL), "%thread", "fuel")}
  %number = trunc i64 %warp to i32
  %first = mul nuw nsw i32 %number, {WARP_SIZE}
  %offset = mul i64 %warp, {regions.warp_bytes}
  %frame = getelementptr i8, ptr %frames, i64 %offset
  %own = getelementptr {THREAD}, ptr %threads, i32 %first
{_together(symbol, leaves, regions.count) if regions.in_loops else "  br label %some"}
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
    values = {
        "x": f"%x{n}",
        "y": f"%y{n}",
        "z": f"%z{n}",
        "linear": f"%linear{n}",
        "lane": f"%lane{n}",
        "lanes": "%here",
        "state": f"%word{n}",
    }
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
