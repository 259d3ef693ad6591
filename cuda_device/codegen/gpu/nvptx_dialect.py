"""The LLVM IR dialect for GPUs: address spaces, intrinsics, attributes of kernels, and inline PTX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from cuda_device.codegen.emit import llvm_writer, to_llvm
from cuda_device.codegen.emit.dialect import (
    PAIR,
    Dialect,
    Meeting,
    Update,
    Wide,
    shared_size,
)
from cuda_device.codegen.gpu import report_text
from cuda_device.device.options import DEFAULTS, Options
from cuda_device.ir import ops
from cuda_device.ir.nodes import Function, Module, Op
from cuda_device.ir.ops import OpDef, Order, Scope
from cuda_device.types.architectures import (
    DATA_LAYOUT,
    FLUSH_DENORMALS_ATTRIBUTE,
    FLUSH_DENORMALS_FLAG,
    MAXIMUM_STATIC_SHARED,
    TRIPLE,
    Architecture,
    moved_bytes,
)
from cuda_device.types.model import Number, Space

# Read-modify-writes and atomic accesses to 16 bytes are inline PTX: LLVM drops the order and scope of the former, and lacks the
# latter. The C++ orders are mapped as NVIDIA does: a sequentially consistent one is a `fence.sc` and an acquire.
_PTX_SCOPES = {Scope.SYSTEM: "sys", Scope.DEVICE: "gpu", Scope.BLOCK: "cta"}
_PTX_SPACES = {Space.GLOBAL: ".global", Space.SHARED: ".shared", Space.GENERIC: ""}
_PTX_ORDERS = {Order.RELAXED: "relaxed", Order.RELEASE: "release", Order.ACQ_REL: "acq_rel"}  # any other: acquire
_BITWISE = ("and", "or", "xor", "exch")
_WIDE_REGISTER = "{ .reg .b128 %wide;\\0A "

_BARRIERS = {"count": "popc", "and": "and", "or": "or"}
# The instruction's name and its last operand, the boundary of the segment of 32 lanes.
_SHUFFLES = {"idx": ("idx", 31), "up": ("up", 0), "down": ("down", 31), "xor": ("bfly", 31)}


def _call(result: str, name: str, *operands: str) -> str:
    """A call of a convergent intrinsic; `result` and the operands include their types."""
    type, _, assigned = result.partition(" ")
    called = f"call {type or 'void'} @llvm.nvvm.{name}({', '.join(operands)}) convergent\n"
    return f"  {assigned} = {called}" if assigned else f"  {called}"


def _shuffle(m: Meeting) -> str:
    """`shfl.sync`, one for each half of a value of 64 bits."""
    mask, value, lane = m.operands
    instruction, end = _SHUFFLES[m.kind]

    def word(result: str, part: str) -> str:
        return _call(f"i32 {result}", f"shfl.sync.{instruction}.i32", mask, f"i32 {part}", lane, f"i32 {end}")

    type, result = m.result.split()
    if type == "i32":
        return word(result, value.removeprefix("i32 "))
    low, high = f"{result}.low", f"{result}.high"
    text = f"  {low} = trunc {value} to i32\n"
    text += f"  {high}.down = lshr {value}, 32\n  {high} = trunc i64 {high}.down to i32\n"
    for half in (low, high):
        text += word(f"{half}.got", half) + f"  {half}.wide = zext i32 {half}.got to i64\n"
    return text + f"  {high}.up = shl i64 {high}.wide, 32\n  {result} = or i64 {high}.up, {low}.wide\n"


def _match(m: Meeting) -> str:
    """`match.sync`; `match.all` returns only the mask, which is 0 if the predicate is false."""
    type, (_, result) = m.operands[1].split()[0], m.result.split()
    if m.kind == "any":
        return _call(m.result, f"match.any.sync.{type}", *m.operands)
    text = (
        f"  {result}.both = call {{ i32, i1 }} @llvm.nvvm.match.all.sync.{type}p({', '.join(m.operands)}) convergent\n"
    )
    return text + f"  {result} = extractvalue {{ i32, i1 }} {result}.both, 0\n"


_WRITERS: dict[OpDef, Callable[[Meeting], str]] = {
    ops.BARRIER: lambda _: _call("", "barrier.cta.sync.aligned.all", "i32 0"),
    ops.BARRIER_REDUCE: lambda m: _call(
        m.result, f"barrier.cta.red.{_BARRIERS[m.kind]}.aligned.all", "i32 0", *m.operands
    ),
    ops.WARP_SYNC: lambda m: _call("", "bar.warp.sync", *m.operands),
    ops.WARP_VOTE: lambda m: _call(m.result, f"vote.{'uni' if m.kind == 'eq' else m.kind}.sync", *m.operands),
    ops.WARP_SHUFFLE: _shuffle,
    ops.WARP_MATCH: _match,
    ops.WARP_REDUCE: lambda m: _call(m.result, f"redux.sync.{m.kind}", *m.operands[::-1]),
    ops.WARP_ACTIVE: lambda m: _call(m.result, "activemask"),
    ops.YIELD: lambda _: "",
}


# The functions of float32 of which libdevice also has an approximate form.
_APPROXIMATE = frozenset(("sin", "cos", "tan", "exp", "exp10", "log", "log2", "log10", "pow"))

# The half-open ranges of special registers along x, y and z; the upper bound of `grid_dim.x` is 2**31 as an int32.
_RANGES = {
    ("thread_idx", "tid"): ((0, 1024), (0, 1024), (0, 64)),
    ("block_dim", "ntid"): ((1, 1025), (1, 1025), (1, 65)),
    ("block_idx", "ctaid"): ((0, 2147483647), (0, 65535), (0, 65535)),
    ("grid_dim", "nctaid"): ((1, -2147483648), (1, 65536), (1, 65536)),
    ("cluster_idx", "clusterid"): ((0, 2147483647), (0, 65535), (0, 65535)),
    ("cluster_dim", "cluster.nctaid"): ((1, 17), (1, 17), (1, 17)),
}
_SPECIAL = "@llvm.nvvm.read.ptx.sreg."
# The calls that read special registers.
_REGISTERS = {
    "lane_id": f"range(i32 0, 32) i32 {_SPECIAL}laneid",
    "lanemask_lt": f"i32 {_SPECIAL}lanemask.lt",
    "block_rank": f"range(i32 0, 16) i32 {_SPECIAL}cluster.ctarank",
    "dynamic_shared_bytes": f"i32 {_SPECIAL}dynamic_smem_size",
    "hidden_zero": 'i32 asm "mov.b32 $0, 0;", "=r"',
} | {
    f"{name}.{axis}": f"range(i32 {low}, {high}) i32 {_SPECIAL}{register}.{axis}"
    for (name, register), ranges in _RANGES.items()
    for axis, (low, high) in zip("xyz", ranges, strict=True)
}


class Nvptx(Dialect):
    """A GPU."""

    is_gpu = True
    dwarf = 2
    same_bits = 'asm "mov.b16 $0, $1;", "=h,h"'
    # LLVM's call site splitting copies a call, and the barriers and shuffles before it, to the incoming edges of its block, but
    # does not touch convergent calls. LLVM later removes the mark if the callee is not convergent.
    called = " convergent"
    _SPACES: ClassVar = {
        Space.GENERIC: "ptr",
        Space.GLOBAL: "ptr addrspace(1)",
        Space.SHARED: "ptr addrspace(3)",
        Space.LOCAL: "ptr",
        Space.CONSTANT: "ptr addrspace(4)",
    }

    def __init__(
        self,
        module: Module,
        architecture: Architecture,
        options: Options = DEFAULTS,
        most_shared: int = MAXIMUM_STATIC_SHARED,
    ) -> None:
        super().__init__(module, options, most_shared)
        self.moved = moved_bytes(self.shared_bytes)
        self.has_float8 = architecture.capability >= (8, 9)
        self.constants = llvm_writer.constants_of(self)
        self.constants_fit = llvm_writer.constants_fit(self.constants)
        self.texts = to_llvm.texts(self.ops_by_code.get(ops.PRINT, ()))

    def preamble(self) -> str:
        """Triple, data layout, shared arrays, constants, and the functions that report."""
        lines = [f'target datalayout = "{DATA_LAYOUT}"', f'target triple = "{TRIPLE}"']
        boundary = 128
        for number, op in self.shared_arrays.items():
            size, align = shared_size(op)
            boundary = max(boundary, align)
            if not self.moved:
                lines.append(f"@shared_{number} = internal addrspace(3) global [{size} x i8] undef, align {align}")
        lines += llvm_writer.constant_definitions(
            self.constants, self.pointer(Space.CONSTANT).removeprefix("ptr ") + " "
        )
        lines.append(_texts(self.texts))
        if self.moved or ops.DYNAMIC_SHARED in self.ops_by_code:
            lines.append(f"@dynamic_shared = external addrspace(3) global [0 x i8], align {boundary}")
        reports = ops.REPORT in self.ops_by_code
        places = _checked_barriers(self)
        if places or (reports and self.module.main.kernel):
            lines.append(report_text.report_definitions(self.module.main.name))
        if places:
            lines.append(report_text.meeting_definition(places))
        return "\n".join(lines) + "\n"

    def module_flags(self) -> tuple[str, ...]:
        """The flags that libdevice queries."""
        return (FLUSH_DENORMALS_FLAG,) if "ftz" in self.options.fastmath else ()

    def pointer(self, space: Space) -> str:
        """The pointer of a space; constants that do not fit in constant memory are in global memory."""
        if space is Space.CONSTANT and not self.constants_fit:
            space = Space.GLOBAL
        return self._SPACES[space]

    def symbol(self, function: Function) -> str:
        """The main function keeps its name; other names get a prefix."""
        return function.name if function is self.module.main else f"device_{function.name}"

    def begin_function(
        self, function: Function, result: str, parameters: Sequence[str], allocas: str
    ) -> tuple[str, str]:
        """Marks kernels by their calling convention."""
        linkage = "ptx_kernel " if function.kernel else "" if function is self.module.main else "internal "
        head = f"define {linkage}{result} @{self.symbol(function)}({', '.join(parameters)})"
        more = self.definition(function) + _attributes(self.options, function.kernel)
        return f"{head} nounwind{more} {{\nb0:\n{allocas}", "b0"

    def register(self, name: str, result: str) -> str:
        """A call of the intrinsic, with the range of its values."""
        if name == "dynamic_shared_bytes" and self.moved:
            return f"  {result}.all = call {_REGISTERS[name]}()\n  {result} = sub i32 {result}.all, {self.moved}\n"
        return f"  {result} = call {_REGISTERS[name]}()\n"

    def timer(self, name: str, result: str) -> str:
        """A special register, whose read is ordered with accesses to memory."""
        return f'  {result} = call i64 asm sideeffect "mov.u64 $0, %{name};", "=l,~{{memory}}"()\n'

    def convergent(self, meeting: Meeting) -> tuple[str, str]:
        """An intrinsic."""
        of_block = meeting.code in (ops.BARRIER, ops.BARRIER_REDUCE)
        check = report_text.meeting_check(meeting.place) if self.options.checked and of_block else ""
        return check + _WRITERS[meeting.code](meeting), ""

    def shared(self, number: int | None, result: str) -> tuple[str, str]:
        """A global variable in shared memory; the dynamic one begins after the static arrays."""
        if self.moved:
            offset = self.moved if number is None else self.offsets[number]
            return "", f"getelementptr (i8, ptr addrspace(3) @dynamic_shared, i64 {offset})"
        return "", "@dynamic_shared" if number is None else f"@shared_{number}"

    def in_cluster(self, address: str, rank: str, result: str) -> str:
        """`mapa`, of a generic address."""
        own = f"  {result}.own = addrspacecast {address} to ptr\n"
        return f"{own}  {result} = call ptr @llvm.nvvm.mapa(ptr {result}.own, {rank})\n"

    def grid_word(self, result: str, cluster: bool) -> str:
        """The word that CUDA's cooperative groups use: the second one of the workspace of a cooperative launch."""
        code = "{ .reg .b32 %low, %high; mov.b32 %high, %envreg1; mov.b32 %low, %envreg2; mov.b64 $0, {%low, %high}; }"
        address = f'  {result}.given = call i64 asm "{code}", "=l"()\n  {result}.at = add i64 {result}.given, 4\n'
        return address + f"  {result} = inttoptr i64 {result}.at to ptr addrspace(1)\n"

    def sync_scope(self, scope: Scope) -> str:
        """LLVM's scopes. The scope of one thread does not occur, because LLVM has no fence for it."""
        return {Scope.SYSTEM: "", Scope.DEVICE: ' syncscope("device")', Scope.BLOCK: ' syncscope("block")'}[scope]

    def update(self, update: Update, result: str) -> str:
        """Inline PTX, after a fence if it is sequentially consistent.

        If nothing reads the result and the operation does not acquire, it is a `red`, for which the thread does not wait. The
        assembler turns `atom` into `red` only if it has neither an order nor a scope.
        """
        number = update.number
        real = number.is_float and update.operation == "add"
        letter = "f" if real else "b" if update.operation in _BITWISE else "u"
        if number.signed and update.operation in ("max", "min"):
            letter = "s"
        order, scope = _PTX_ORDERS.get(update.order, "acquire"), _PTX_SCOPES[update.scope]
        where = f"{order}.{scope}{_PTX_SPACES[update.space]}.{update.operation}.{letter}{number.bits}"
        register = ("d" if number.bits == 64 else "f") if real else "l" if number.bits == 64 else "r"
        type = update.value.split()[0]
        fence = f"  fence{self.sync_scope(update.scope)} seq_cst\n" if update.order is Order.SEQ_CST else ""
        operands = f"({update.pointer}, {update.value})"
        if not update.is_used and order in ("relaxed", "release") and update.operation != "exch":
            return f'{fence}  call void asm sideeffect "red.{where} [$0], $1;", "l,{register},~{{memory}}"{operands}\n'
        code = f'"atom.{where} $0, [$1], $2;", "={register},l,{register},~{{memory}}"'
        return f"{fence}  {result} = call {type} asm sideeffect {code}{operands}\n"

    def wide(self, wide: Wide, result: str) -> str:
        """Inline PTX."""
        order = "relaxed" if wide.order is Order.RELAXED else "release" if wide.value else "acquire"
        where = f"{order}.{_PTX_SCOPES[wide.scope]}{_PTX_SPACES[wide.space]}.b128"
        halves = [f"{result}.{half}" for half in ("low", "high")]
        lines = [f"fence{self.sync_scope(wide.scope)} seq_cst"] if wide.order is Order.SEQ_CST else []
        if wide.value:
            lines += [f"{half} = extractelement {wide.value}, i32 {i}" for i, half in enumerate(halves)]
            code = f"mov.b128 %wide, {{$1, $2}};\\0A st.{where} [$0], %wide;"
            operands = f"{wide.pointer}, i64 {halves[0]}, i64 {halves[1]}"
            lines.append(f'call void asm sideeffect "{_WIDE_REGISTER}{code} }}", "l,l,l,~{{memory}}"({operands})')
        else:
            code = f"ld.{where} %wide, [$2];\\0A mov.b128 {{$0, $1}}, %wide;"
            both = f"{result}.both"
            lines.append(
                f'{both} = call {{ i64, i64 }} asm sideeffect "{_WIDE_REGISTER}{code} }}", "=l,=l,l,~{{memory}}"({wide.pointer})'
            )
            lines += [f"{half} = extractvalue {{ i64, i64 }} {both}, {i}" for i, half in enumerate(halves)]
            lines.append(f"{result}.first = insertelement {PAIR} poison, i64 {halves[0]}, i32 0")
            lines.append(f"{result} = insertelement {PAIR} {result}.first, i64 {halves[1]}, i32 1")
        return "".join(f"  {line}\n" for line in lines)

    def pause(self, nanoseconds: str) -> str:
        """`nanosleep`."""
        return f"  call void @llvm.nvvm.nanosleep({nanoseconds})\n"

    def report(self, status: int, place: int, values: Sequence[str]) -> str:
        """A call in kernels, and a trap in functions that are compiled for other programs."""
        return report_text.report_call(status, place, values) if self.module.main.kernel else report_text.TRAP

    def exit_thread(self, function: Function) -> str:
        """`exit`."""
        return report_text.exit_thread()

    def library(self, stem: str, type: Number) -> str:
        """libdevice's names: `__nv_sinf`, `__nv_sin`, and the approximate `__nv_fast_sinf`."""
        if type.bits == 32 and stem in _APPROXIMATE and "afn" in self.options.fastmath:
            return f"__nv_fast_{stem}f"
        return f"__nv_{stem}{'f' if type.bits == 32 else ''}"

    def print(self, op: Op, buffer: str, result: str) -> str:
        """CUDA's `vprintf`."""
        return f"  {result} = call i32 @vprintf(ptr {self.text(to_llvm.c_format(op))}, ptr {buffer})\n"

    def text(self, text: str) -> str:
        """A global constant."""
        return f"addrspacecast (ptr addrspace(1) @text_{self.texts[text]} to ptr)"


def _texts(texts: Mapping[str, int]) -> str:
    """The texts of a module as global constants, and the declaration of `vprintf`."""
    if not texts:
        return ""
    sized = [(number, len(text.encode()) + 1, llvm_writer.quoted(text)) for text, number in texts.items()]
    lines = [f'@text_{i} = internal addrspace(1) constant [{n} x i8] c"{text}\\00", align 1' for i, n, text in sized]
    return "\n".join([*lines, "declare i32 @vprintf(ptr, ptr)"])


def _attributes(options: Options, kernel: bool) -> str:
    """The attributes of a function's definition."""
    bounds: dict[str, object] = {
        "maxntid": options.max_threads,
        "minctasm": options.min_blocks,
        "maxnreg": options.max_registers,
    }
    if options.cluster is not None:
        bounds["cluster_dim"] = ",".join(map(str, options.cluster))
    attributes = [f' "nvvm.{name}"="{number}"' for name, number in bounds.items() if number and kernel]
    return "".join(attributes) + (f" {FLUSH_DENORMALS_ATTRIBUTE}" if "ftz" in options.fastmath else "")


def _checked_barriers(dialect: Dialect) -> list[int]:
    """The places of the barriers that checked mode checks."""
    if not dialect.options.checked:
        return []
    barriers = [op for code in (ops.BARRIER, ops.BARRIER_REDUCE) for op in dialect.ops_by_code.get(code, ())]
    return sorted({op.attributes["place"] for op in barriers})
