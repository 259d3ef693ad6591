"""The dialect of LLVM IR for kernels on the CPU.

The first parameter of each device function is `ptr %thread`, which identifies the thread. A kernel that never waits is a plain
function, called in a loop over the threads of a block (`thread_loops`). A kernel that waits is divided into regions (`regions`).
If its threads wait together, it returns the number of the next region. Otherwise it stores why and where the thread waits, and
returns; the scheduler (`scheduler`) compares these words and resumes threads. Only the kernel's own body can wait, because
functions with barriers have been inlined into it.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.codegen.emit import llvm_writer
from cuda_device.codegen.emit.dialect import LLVM_ORDERS, PAIR, AtomicAccess, Dialect, Emitter
from cuda_device.cpu import thread_loops
from cuda_device.cpu.processor import vector_functions
from cuda_device.cpu.records import (
    BLOCK,
    CLUSTER_WORDS,
    CONTROL,
    FUEL,
    GENERIC,
    HUSHES,
    KIND_SHIFT,
    NANOSECONDS,
    RECORDS,
    SKIPPED,
    THREAD,
    WAKES,
    WARP,
    WARP_SIZE,
    WIDE,
    Record,
    Suspension,
)
from cuda_device.cpu.regions import END, FIRST, PARALLEL, Regions, in_common
from cuda_device.cpu.uniform import CUT, RANGE
from cuda_device.device.options import DEFAULTS
from cuda_device.extend import Options, dataclass, ops
from cuda_device.ir.nodes import Function, Module, Op, Value
from cuda_device.ir.ops import Order, Scope
from cuda_device.types.architectures import MAXIMUM_STATIC_SHARED
from cuda_device.types.model import INT64, Number, Ref, Space

_RETURNED = "returned"
"""The label of the end of a kernel in regions."""
_FAILED = -1
"""The number of the next region after a failure was reported. There is no such region."""

# The half-open ranges of registers.
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
declare void @cuda_device.trace(ptr readonly captures(none), i32, i64, i64, i32)
declare i64 @cuda_device.nanoseconds(i32)
"""
# The names of operations and their kinds in `Suspension`.
_PREFIXES = {
    ops.BARRIER: "BARRIER",
    ops.WARP_SYNC: "SYNC",
    ops.WARP_ACTIVE: "ACTIVE",
    ops.WARP_MATCH: "MATCH_",
    ops.WARP_REDUCE: "REDUCE_",
}
_OTHERWISE = {"eq": "EQUAL", "idx": "INDEX"}


@dataclass(frozen=True, slots=True)
class _Meeting:
    """A convergent operation. `result` ("" if there is none) and `operands` include their types."""

    code: ops.OpDef
    kind: str
    place: int
    label: str
    result: str
    operands: tuple[str, ...]


def _of_block(result: str, field: str, record: Record = BLOCK, metadata: str = "") -> str:
    """Loads a field of the record of the block or of the launch."""
    text, pointer = THREAD.load(f"{result}.block", "%thread", "block"), f"{result}.block"
    if record is CONTROL:
        text, pointer = text + BLOCK.load(f"{result}.control", pointer, "control"), f"{result}.control"
    return text + record.load(result, pointer, field, metadata)


def _entry(result: str, state: str, field: str) -> str:
    """Computes the address of one of the lane's entries in the warp's record."""
    return f"  {result} = getelementptr i8, ptr {state}, i64 {4 * WARP_SIZE * WARP.index(field)}\n"


def _store(label: str, field: str, value: str) -> str:
    address = f"%{label}.{field}"
    return _entry(address, f"%{label}.state", field) + f"  store {value}, ptr {address}\n"


def _load(result: str, field: str) -> str:
    """Loads one of the lane's entries after a wait. The record's address is loaded again, so that it needs no slot."""
    state = f"{result}.{field}.state"
    text = THREAD.load(state, "%thread", "state") + _entry(f"{result}.{field}.at", state, field)
    return text + f"  {result} = load i32, ptr {result}.{field}.at\n"


def _brought(label: str, mask: str, value: str, lane: str) -> str:
    """Stores the operands of a warp operation in the warp's record. They have their types; flags are i1, values i32 or i64."""
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


def _awaited(label: str, reference: str, old: str) -> tuple[int, str]:
    """The size in bits of the number for which a thread waits; stores its address and its old value in the warp's record."""
    type, address, wide = old.partition(" ")[0], f"%{label}.address", f"%{label}.old"
    text = f"  {address} = ptrtoint {reference} to i64\n"
    text += f"  {wide} = {'or' if type == 'i64' else 'zext'} {old}{', 0' if type == 'i64' else ' to i64'}\n"
    for value, fields in ((address, ("masks", "sources")), (wide, ("lows", "highs"))):
        text += f"  {value}.up = lshr i64 {value}, 32\n  {value}.low = trunc i64 {value} to i32\n"
        text += f"  {value}.high = trunc i64 {value}.up to i32\n"
        text += _store(label, fields[0], f"i32 {value}.low") + _store(label, fields[1], f"i32 {value}.high")
    return int(type[1:]), text


def _taken(result: str) -> str:
    """Loads the result of a warp operation, a name with its type, from the warp's record."""
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


def _update_alone(operation: str, number: Number, access: AtomicAccess, result: str) -> str:
    """A read-modify-write of memory that no other host thread accesses."""
    type, value = access.value.split(" ", 1)
    location, new = f"{access.pointer} monotonic, align {number.bits // 8}", f"{result}.new"
    if operation in _COMPARISONS:
        first = f"  {result}.is = icmp {_COMPARISONS[operation]} {type} {result}, {value}\n"
        update = f"{first}  {new} = select i1 {result}.is, {type} {result}, {type} {value}\n"
    else:
        update = f"  {new} = {operation} {type} {result}, {value}\n" if operation != "xchg" else ""
    stored = value if operation == "xchg" else new
    return f"  {result} = load atomic {type}, {location}\n{update}  store atomic {type} {stored}, {location}\n"


_COMPARISONS = {"max": "sgt", "min": "slt", "umax": "ugt", "umin": "ult"}


def _grid_word(writer: llvm_writer.FunctionWriter, op: Op) -> None:
    """The counter in the launch's record, or the cluster's, which is its first field, or the words of the block."""
    result = writer.name(op.result)
    for memory, field in (("cluster", "cluster"), ("block", "words")):
        if op.attributes.get(memory):
            writer.lines.append(_of_block(result, field))
            return
    block, control = f"{result}.block", f"{result}.control"
    record = THREAD.load(block, "%thread", "block") + BLOCK.load(control, block, "control")
    writer.lines.append(record + CONTROL.address(result, control, "grid_word"))


def _in_cluster(writer: llvm_writer.FunctionWriter, op: Op) -> None:
    """The same offset in the other block's shared memory, or in the block's own if each block is a cluster."""
    (address, rank), result = map(writer.typed, op.operands), writer.name(op.result)
    block, shared = f"{result}.block", f"{result}.own"
    text = THREAD.load(block, "%thread", "block") + BLOCK.load(shared, block, "shared")
    writer.lines.append(text + BLOCK.load(f"{result}.cluster", block, "cluster"))
    number = writer.temporary(f"add {rank}, {CLUSTER_WORDS}")
    there = writer.temporary(f"getelementptr ptr, ptr {result}.cluster, i32 {number}")
    alone = writer.temporary(f"icmp eq ptr {result}.cluster, null")
    other = writer.temporary(f"load ptr, ptr {writer.temporary(f'select i1 {alone}, ptr {shared}.at, ptr {there}')}")
    begin, target = (writer.temporary(f"ptrtoint {pointer} to i64") for pointer in (f"ptr {shared}", address))
    writer.line(f"{result} = getelementptr i8, ptr {other}, i64 {writer.temporary(f'sub i64 {target}, {begin}')}")


def _has_stack_room(writer: llvm_writer.FunctionWriter, op: Op) -> None:
    """Compares how much of the host's stack is in use with the launch's limit."""
    result = writer.name(op.result)
    limit = _of_block(f"{result}.stack", "stack", CONTROL)
    writer.lines.append(limit + BLOCK.load(f"{result}.base", f"{result}.stack.block", "base"))
    here = writer.temporary("call ptr @llvm.frameaddress.p0(i32 0)")
    begin, end = (writer.temporary(f"ptrtoint ptr {pointer} to i64") for pointer in (f"{result}.base", here))
    writer.line(f"{result} = icmp slt i64 {writer.temporary(f'sub i64 {begin}, {end}')}, {result}.stack")


def _timer(writer: llvm_writer.FunctionWriter, op: Op) -> None:
    """Reads a clock of the C library, by its number on Linux."""
    clock = 0 if op.attributes["name"] == "globaltimer" else 1
    writer.result(op, f"call i64 @{NANOSECONDS}(i32 {clock})")


class Cpu(Dialect):
    """The dialect for the host's processor."""

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
        """The declared vector functions, with the numbers of their elements."""

    def preamble(self) -> str:
        """The types of the records, the functions of `scheduler`, and the constants."""
        records = "".join(record.declaration() for record in RECORDS)
        common = self.regions.common if self.regions and self.together else ""
        return f"{records}{common}{_FUNCTIONS}" + "".join(
            f"{line}\n" for line in llvm_writer.constant_definitions(llvm_writer.constants_of(self))
        )

    def pointer(self, space: Space) -> str:
        """All pointers are in one space."""
        return "ptr"

    def access(self, space: Space) -> str:
        """Metadata that lets LLVM reorder loads and stores of different threads, which are independent between barriers."""
        return PARALLEL if space in (Space.GLOBAL, Space.SHARED) else ""

    @property
    def together(self) -> bool:
        """Whether the kernel is in regions that all threads of a block, or row, execute together."""
        return self.regions is not None and self.regions.together

    def symbol(self, function: Function) -> str:
        """A name that no function of the C library has."""
        return f"device.{function.name}"

    def begin_function(
        self, function: Function, result: str, parameters: Sequence[str], allocas: str
    ) -> tuple[str, str]:
        """The first parameter is the thread. A kernel in regions also takes the number of the region, the frame, and the lane.

        If its threads run together, it also takes the memory of uniform values, and returns the number of the next region.
        Kernels are inlined, except for debuggers.
        """
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

    def allocate_local(self, name: str, size: int, align: int, value: Value | None = None) -> str:
        """Memory that is live across a wait is in the frame."""
        kept = self.regions.reserve_local(name, size, align, value) if self.regions and value else ""
        return kept or super().allocate_local(name, size, align, value)

    def variable(self, function: Function, name: str, type: str, size: int) -> tuple[str, str, str]:
        """Variables of a kernel in regions are in the frame; for debuggers, their addresses are on the stack."""
        if not (function.kernel and self.regions):
            return super().variable(function, name, type, size)
        text = f"{self.regions.reserve(name, size, 8)}  {name}.at = alloca ptr\n  store ptr {name}, ptr {name}.at\n"
        return text, f"{name}.at", "DW_OP_deref"

    def end_function(self, function: Function) -> str:
        """The end of a kernel in regions, and the beginnings of the regions."""
        if not (function.kernel and self.regions):
            return "}\n"
        if self.together:
            return f"{_RETURNED}:\n  ret i32 0\n{self.regions.epilogue()}}}\n"
        state = THREAD.load("%state", "%thread", "state")
        return f"{_RETURNED}:\n{state}  store i32 0, ptr %state\n  ret void\n{self.regions.epilogue()}}}\n"

    def return_void(self, function: Function) -> str:
        """A kernel in regions branches to its end."""
        return f"br label %{_RETURNED}" if function.kernel and self.regions else "ret void"

    def hidden_arguments(self) -> tuple[str, ...]:
        """The thread."""
        return ("ptr %thread",)

    def register(self, name: str, result: str) -> str:
        """Loads a field of the thread's or block's record.

        Names of i32 values: `thread_idx`, `block_idx`, `block_dim`, `grid_dim` with `.x`, `.y`, `.z`; `lane_id`, `lanes` (how
        many threads the warp has), `lanemask_lt`, `dynamic_shared_bytes`, `hidden_zero` (0). `shared` and `dynamic_shared` are
        pointers, aligned to 1024 and 128.
        """
        group, _, axis = name.partition(".")
        metadata = f", !range !{{i32 {_RANGES[group]}}}" if group in _RANGES else ""
        match group:
            case "thread_idx":
                return THREAD.load(result, "%thread", f"index.{axis}", metadata)
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

    def emitters(self) -> dict[ops.OpDef, Emitter]:
        """Loads from the records of the thread, the block and the launch, and waits."""
        return {
            **dict.fromkeys(
                (*_PREFIXES, ops.BARRIER_REDUCE, ops.WARP_VOTE, ops.WARP_SHUFFLE, ops.YIELD, ops.AWAIT), self._meet
            ),
            ops.REGISTER: lambda w, op: w.lines.append(self.register(op.attributes["name"], w.name(op.result))),
            ops.SHARED: self._shared,
            ops.DYNAMIC_SHARED: lambda w, op: w.lines.append(self.register("dynamic_shared", w.name(op.result))),
            ops.GRID_WORD: _grid_word,
            ops.IN_CLUSTER: _in_cluster,
            ops.TIMER: _timer,
            ops.PAUSE: lambda w, op: None,  # the `yield` after it lets other threads run
            ops.TRACE: self._trace,
            ops.ROOM: _has_stack_room,
            ops.EXIT: lambda w, op: w.line(self.exit_thread(w.function)),
        }

    def _meet(self, writer: llvm_writer.FunctionWriter, op: Op) -> None:
        kind = "now" if op.attributes.get("now") else op.attributes.get("kind", "")
        place, label = op.attributes.get("place", 0), writer.fresh().removeprefix("%")
        result = f"{writer.module.type(op.result.type)} {writer.name(op.result)}" if op.results else ""
        operands = tuple(map(writer.typed, op.operands))
        text, writer.label = self._convergent(_Meeting(op.code, kind, place, label, result, operands))
        writer.lines.append(text)

    def _convergent(self, meeting: _Meeting) -> tuple[str, str]:
        """Ends a region, and starts the next one at a label. A `yield` that is not `now` ends it only once in `FUEL` times."""
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
        if code is ops.AWAIT:
            bits, words = _awaited(label, *meeting.operands)
            return self._wait(Suspension[f"WORD{bits}"], meeting.place, label, words), label
        waits_for = Suspension[_PREFIXES.get(code, "") + _OTHERWISE.get(kind, kind.upper())]
        mask, value, lane = (*([""] * (code is ops.BARRIER_REDUCE)), *meeting.operands, "", "", "")[:3]
        wait = self._wait(waits_for, meeting.place, label, _brought(label, "" if self.together else mask, value, lane))
        return wait + _taken(meeting.result), label

    def _cut(self, meeting: _Meeting) -> str:
        """Ends a region without a wait. Before a range, all threads store the same bounds."""
        assert self.regions is not None
        number, label, bounds = len(self.regions.labels) + 1, meeting.label, ""
        if meeting.kind == RANGE:
            self.regions.ranges[number] = meeting.place
            for field, operand in zip((FIRST, END), meeting.operands, strict=True):
                bound = f"%{label}.bound.{field}"
                bounds += f"{in_common(bound, '%out', field)}  store {operand}, ptr {bound}\n"
        elif meeting.place:
            self.regions.ends[meeting.place] = number
        return f"{bounds}{self.regions.leave(label)}{label}:\n"

    def _wait(self, kind: Suspension, place: int, label: str, before: str = "") -> str:
        """Waits, and continues at `label:`. The text `before` comes first; it can use `%label.state`, the thread's word."""
        assert self.regions is not None
        if self.together and kind in (Suspension.BARRIER, Suspension.SYNC):
            return f"{self.regions.leave(label)}{label}:\n"
        if self.together:
            self.regions.meetings[len(self.regions.labels) + 1] = kind
        state = THREAD.load(f"%{label}.state", "%thread", "state")
        word = f"  store i32 {kind << KIND_SHIFT | place}, ptr %{label}.state\n"
        return f"{state}{before}{word}{self.regions.leave(label)}{label}:\n"

    def _shared_memory(self, writer: llvm_writer.FunctionWriter) -> str:
        """The first byte of the block's static shared memory."""
        base = writer.fresh()
        writer.lines.append(self.register("shared", base))
        return base

    def _shared(self, writer: llvm_writer.FunctionWriter, op: Op) -> None:
        base, offset = self._shared_memory(writer), self.offsets[op.attributes["number"]]
        writer.result(op, f"getelementptr inbounds i8, ptr {base}, i64 {offset}")

    def update(self, operation: str, number: Number, access: AtomicAccess, result: str, is_used: bool) -> str:
        """LLVM's instruction, or loads and stores if only the block, which one host thread runs, can see the memory."""
        operation = {"exch": "xchg"}.get(operation, operation)
        if number.is_float and operation == "add":
            operation = "fadd"
        if not number.signed and operation in ("max", "min"):
            operation = f"u{operation}"
        if access.space is Space.SHARED and access.scope is Scope.BLOCK and access.order is not Order.SEQ_CST:
            return _update_alone(operation, number, access, result)
        return f"  {result} = atomicrmw {operation} {access.pointer}, {access.value} {LLVM_ORDERS[access.order]}\n"

    def wide(self, access: AtomicAccess, result: str) -> str:
        """LLVM's instruction: processors of 64 bits have atomic accesses of 16 bytes."""
        order, pointer = LLVM_ORDERS[access.order], access.pointer
        if access.value:
            bits = f"{result}.bits"
            return (
                f"  {bits} = bitcast {access.value} to i128\n  store atomic i128 {bits}, {pointer} {order}, align 16\n"
            )
        load = f"  {result}.bits = load atomic i128, {pointer} {order}, align 16\n"
        return f"{load}  {result} = bitcast i128 {result}.bits to {PAIR}\n"

    def report(self, status: int, place: int, values: Sequence[str]) -> str:
        """A call. The first report of a launch stops it; the thread must end after the call."""
        first, second = (*values, "0", "0")[:2]
        return f"  call void @cuda_device.report(ptr %thread, i32 {status:d}, i32 {place}, i64 {first}, i64 {second})\n"

    def _trace(self, writer: llvm_writer.FunctionWriter, op: Op) -> None:
        """A call for the race detector, for which addresses in shared memory are offsets."""
        from cuda_device.cpu.traces import Event

        place, event, value, done, flags = op.attributes["place"], op.attributes["event"], "0", "1", 0
        for operand in op.operands[:1]:
            is_address = isinstance(operand.type, Ref)
            value = writer.temporary(f"{'ptrtoint' if is_address else 'zext'} {writer.typed(operand)} to i64")
            if isinstance(operand.type, Ref) and operand.type.space is Space.SHARED:
                begin = writer.temporary(f"ptrtoint ptr {self._shared_memory(writer)} to i64")
                value = writer.temporary(f"sub i64 {value}, {begin}")
            elif isinstance(operand.type, Ref) and operand.type.space is Space.GENERIC:
                flags |= GENERIC
        for operand in op.operands[1:]:
            wide = operand.type == INT64
            done = writer.name(operand) if wide else writer.temporary(f"zext {writer.typed(operand)} to i64")
        if event in (Event.LOAD, Event.STORE):
            flags |= SKIPPED
        flags |= HUSHES if "quiet" in op.attributes else WAKES if event == Event.COPY_END else 0
        writer.line(f"call void @cuda_device.trace(ptr %thread, i32 {place}, i64 {value}, i64 {done}, i32 {flags})")

    def exit_thread(self, function: Function) -> str:
        """Ends the kernel; other functions return to their callers (`cpu/cpu_passes`)."""
        return f"ret i32 {_FAILED}" if function.kernel and self.together else self.return_void(function)

    def library(self, stem: str, type: Number) -> str:
        """The C library's names: `sinf`, `sin`."""
        return f"{stem}{'f' if type.bits == 32 else ''}"

    def of_library(self, symbol: str, type: str, arity: int) -> tuple[str, list[str]]:
        """Attributes and vector forms of a function of the C library. `afn` allows the vector forms, which are less accurate."""
        forms = vector_functions(symbol, arity, 32 if type == "float" else 64) if "afn" in self.options.fastmath else {}
        self.forms.update(forms)
        vectors = {name: f"<{lanes} x {type}>" for name, lanes in forms.items()}
        listed = ",".join(f"_ZGV_LLVM_N{lanes}{'v' * arity}_{symbol}({name})" for name, lanes in forms.items())
        marks = " nounwind willreturn memory(none)" + (f' "vector-function-abi-variant"="{listed}"' if forms else "")
        return marks, [f"{vector} @{name}({', '.join([vector] * arity)})" for name, vector in vectors.items()]

    def runner(self, parameters: Sequence[str]) -> str:
        """The loops over the kernel's threads."""
        regions = self.regions
        kept = ", ".join(f"ptr @{name}" for name in self.forms)
        used = f"@llvm.compiler.used = appending global [{len(self.forms)} x ptr] [{kept}]\n" if self.forms else ""
        kernel = thread_loops.LoopedKernel(
            self.symbol(self.module.main),
            parameters,
            regions,
            self.symbol(self.limit) if self.limit else "",
            self.symbol(regions.whole) if regions and regions.whole else "",
        )
        return used + thread_loops.thread_loops_text(kernel, self.shared_bytes)

    def print(self, op: Op, buffer: str, result: str) -> str:
        """A call of the host function in the launch's record."""
        function = f"{result}.function"
        call = f"  call void {function}(i32 {op.attributes['place']}, ptr {buffer})\n"
        return _of_block(function, "print", CONTROL) + call
