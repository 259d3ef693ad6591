"""The LLVM IR dialect for GPUs: address spaces, intrinsics, attributes of kernels, and inline PTX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from cuda_device.codegen.emit import llvm_writer, to_llvm
from cuda_device.codegen.emit.dialect import (
    PAIR,
    AtomicAccess,
    Dialect,
    Emitter,
    shared_size,
)
from cuda_device.codegen.emit.llvm_writer import FunctionWriter
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


def _call(type: str, name: str, *operands: str) -> str:
    """A call of a convergent intrinsic, whose operands include their types."""
    return f"call {type} @llvm.nvvm.{name}({', '.join(operands)}) convergent"


def _operands(writer: FunctionWriter, op: Op) -> list[str]:
    return list(map(writer.typed, op.operands))


def _call_to(name: Callable[[str], str], first: tuple[str, ...] = (), step: int = 1) -> Emitter:
    """The emitter of an operation that is one convergent intrinsic, whose name depends on the kind of the operation.

    The operands are `first` and those of the operation; a `step` of -1 reverses the latter.
    """

    def emit(writer: FunctionWriter, op: Op) -> None:
        type = writer.module.type(op.result.type)
        writer.result(op, _call(type, name(op.attributes.get("kind", "")), *first, *_operands(writer, op)[::step]))

    return emit


def _shuffle(writer: FunctionWriter, op: Op) -> None:
    """`shfl.sync`, one for each half of a value of 64 bits."""
    mask, value, lane = _operands(writer, op)
    instruction, end = _SHUFFLES[op.attributes["kind"]]

    def word(part: str) -> str:
        return _call("i32", f"shfl.sync.{instruction}.i32", mask, f"i32 {part}", lane, f"i32 {end}")

    if value.startswith("i32"):
        writer.result(op, word(value.removeprefix("i32 ")))
        return
    low, down = writer.temporary(f"trunc {value} to i32"), writer.temporary(f"lshr {value}, 32")
    high = writer.temporary(f"trunc i64 {down} to i32")
    low, high = (writer.temporary(f"zext i32 {writer.temporary(word(half))} to i64") for half in (low, high))
    writer.result(op, f"or i64 {writer.temporary(f'shl i64 {high}, 32')}, {low}")


def _match(writer: FunctionWriter, op: Op) -> None:
    """`match.sync`; `match.all` returns only the mask, which is 0 if the predicate is false."""
    operands = _operands(writer, op)
    type = operands[1].split()[0]
    if op.attributes["kind"] == "any":
        writer.result(op, _call("i32", f"match.any.sync.{type}", *operands))
    else:
        both = writer.temporary(_call("{ i32, i1 }", f"match.all.sync.{type}p", *operands))
        writer.result(op, f"extractvalue {{ i32, i1 }} {both}, 0")


def _in_cluster(writer: FunctionWriter, op: Op) -> None:
    """`mapa`, of a generic address."""
    address, rank = _operands(writer, op)
    writer.result(op, f"call ptr @llvm.nvvm.mapa(ptr {writer.temporary(f'addrspacecast {address} to ptr')}, {rank})")


_GRID_WORD = "{ .reg .b32 %low, %high; mov.b32 %high, %envreg1; mov.b32 %low, %envreg2; mov.b64 $0, {%low, %high}; }"


def _grid_word(writer: FunctionWriter, op: Op) -> None:
    """The word that CUDA's cooperative groups use: the second one of the workspace of a cooperative launch."""
    workspace = writer.temporary(f'call i64 asm "{_GRID_WORD}", "=l"()')
    writer.result(op, f"inttoptr i64 {writer.temporary(f'add i64 {workspace}, 4')} to ptr addrspace(1)")


def _timer(writer: FunctionWriter, op: Op) -> None:
    """A special register, whose read is ordered with accesses to memory."""
    writer.result(op, f'call i64 asm sideeffect "mov.u64 $0, %{op.attributes["name"]};", "=l,~{{memory}}"()')


_EMITTERS: dict[OpDef, Emitter] = {
    ops.WARP_SYNC: lambda w, op: w.line(_call("void", "bar.warp.sync", *_operands(w, op))),
    ops.WARP_VOTE: _call_to(lambda kind: f"vote.{'uni' if kind == 'eq' else kind}.sync"),
    ops.WARP_SHUFFLE: _shuffle,
    ops.WARP_MATCH: _match,
    ops.WARP_REDUCE: _call_to(lambda kind: f"redux.sync.{kind}", step=-1),
    ops.WARP_ACTIVE: _call_to(lambda _: "activemask"),
    **dict.fromkeys((ops.YIELD, ops.AWAIT), lambda w, op: None),
    ops.PAUSE: lambda w, op: w.line(f"call void @llvm.nvvm.nanosleep({w.typed(op.operands[0])})"),
    ops.TIMER: _timer,
    ops.IN_CLUSTER: _in_cluster,
    ops.GRID_WORD: _grid_word,
    ops.ROOM: lambda w, op: w.result(op, "icmp eq i32 0, 0"),  # the driver ensures that the stack has room
    ops.EXIT: lambda w, op: w.line("call void @llvm.nvvm.exit()\n  unreachable"),
}
_reduce = _call_to(lambda kind: f"barrier.cta.red.{_BARRIERS[kind]}.aligned.all", ("i32 0",))


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
_DYNAMIC_ALIGN = 16
"""How assemblers align dynamic shared memory behind static arrays: nvJitLink 13.0 ignores a larger alignment."""
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
        Space.PARAMETER: "ptr",
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
        self.joined = "" if self.moved or self.dynamic_align <= _DYNAMIC_ALIGN else "@shared_0"
        """One array for all shared arrays, whose size aligns the dynamic one behind it."""
        self.has_float8 = architecture.capability >= (8, 9)
        self.constants = llvm_writer.constants_of(self)
        self.constants_fit = llvm_writer.constants_fit(self.constants)
        self.texts = to_llvm.texts(self.ops_by_code.get(ops.PRINT, ()))

    def preamble(self) -> str:
        """Triple, data layout, shared arrays, constants, and the functions that report."""
        lines = [f'target datalayout = "{DATA_LAYOUT}"', f'target triple = "{TRIPLE}"']
        boundary = max(128, self.dynamic_align)
        for number, op in self.shared_arrays.items():
            size, align = shared_size(op)
            boundary = max(boundary, align)
            if not self.moved and not self.joined:
                lines.append(f"@shared_{number} = internal addrspace(3) global [{size} x i8] undef, align {align}")
        if self.joined and self.shared_arrays:
            size = self.shared_bytes
            lines.append(f"{self.joined} = internal addrspace(3) global [{size} x i8] undef, align {boundary}")
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

    def emitters(self) -> dict[OpDef, Emitter]:
        """Intrinsics and inline PTX."""
        return _EMITTERS | {
            ops.REGISTER: self._register,
            ops.SHARED: self._shared,
            ops.DYNAMIC_SHARED: self._shared,
            ops.BARRIER: self._barrier,
            ops.BARRIER_REDUCE: self._barrier,
        }

    def _register(self, writer: FunctionWriter, op: Op) -> None:
        """A call of the intrinsic, with the range of its values."""
        name = op.attributes["name"]
        call = f"call {_REGISTERS[name]}()"
        is_moved = name == "dynamic_shared_bytes" and self.moved
        writer.result(op, f"sub i32 {writer.temporary(call)}, {self.moved}" if is_moved else call)

    def _shared(self, writer: FunctionWriter, op: Op) -> None:
        """A global variable in shared memory; the dynamic one begins after the static arrays."""
        number = op.attributes.get("number")
        if self.moved or (self.joined and number is not None):
            offset = self.moved if number is None else self.offsets[number]
            array = self.joined or "@dynamic_shared"
            writer.names[op.result] = f"getelementptr (i8, ptr addrspace(3) {array}, i64 {offset})"
        else:
            writer.names[op.result] = "@dynamic_shared" if number is None else f"@shared_{number}"

    def _barrier(self, writer: FunctionWriter, op: Op) -> None:
        if self.options.checked:
            writer.line(f"call void @device_meet(i32 {op.attributes['place']}) convergent")
        if op.results:
            _reduce(writer, op)
        else:
            writer.line(_call("void", "barrier.cta.sync.aligned.all", "i32 0"))

    def sync_scope(self, scope: Scope) -> str:
        """LLVM's scopes. The scope of one thread does not occur, because LLVM has no fence for it."""
        return {Scope.SYSTEM: "", Scope.DEVICE: ' syncscope("device")', Scope.BLOCK: ' syncscope("block")'}[scope]

    def update(self, operation: str, number: Number, access: AtomicAccess, result: str, is_used: bool) -> str:
        """Inline PTX, after a fence if it is sequentially consistent.

        If nothing reads the result and the operation does not acquire, it is a `red`, for which the thread does not wait. The
        assembler turns `atom` into `red` only if it has neither an order nor a scope.
        """
        real = number.is_float and operation == "add"
        letter = "f" if real else "b" if operation in _BITWISE else "u"
        if number.signed and operation in ("max", "min"):
            letter = "s"
        order, scope = _PTX_ORDERS.get(access.order, "acquire"), _PTX_SCOPES[access.scope]
        where = f"{order}.{scope}{_PTX_SPACES[access.space]}.{operation}.{letter}{number.bits}"
        register = ("d" if number.bits == 64 else "f") if real else "l" if number.bits == 64 else "r"
        type = access.value.split()[0]
        fence = f"  fence{self.sync_scope(access.scope)} seq_cst\n" if access.order is Order.SEQ_CST else ""
        operands = f"({access.pointer}, {access.value})"
        if not is_used and order in ("relaxed", "release") and operation != "exch":
            return f'{fence}  call void asm sideeffect "red.{where} [$0], $1;", "l,{register},~{{memory}}"{operands}\n'
        code = f'"atom.{where} $0, [$1], $2;", "={register},l,{register},~{{memory}}"'
        return f"{fence}  {result} = call {type} asm sideeffect {code}{operands}\n"

    def wide(self, access: AtomicAccess, result: str) -> str:
        """Inline PTX."""
        order = "relaxed" if access.order is Order.RELAXED else "release" if access.value else "acquire"
        where = f"{order}.{_PTX_SCOPES[access.scope]}{_PTX_SPACES[access.space]}.b128"
        halves = [f"{result}.{half}" for half in ("low", "high")]
        lines = [f"fence{self.sync_scope(access.scope)} seq_cst"] if access.order is Order.SEQ_CST else []
        if access.value:
            lines += [f"{half} = extractelement {access.value}, i32 {i}" for i, half in enumerate(halves)]
            code = f"mov.b128 %wide, {{$1, $2}};\\0A st.{where} [$0], %wide;"
            operands = f"{access.pointer}, i64 {halves[0]}, i64 {halves[1]}"
            lines.append(f'call void asm sideeffect "{_WIDE_REGISTER}{code} }}", "l,l,l,~{{memory}}"({operands})')
        else:
            code = f"ld.{where} %wide, [$2];\\0A mov.b128 {{$0, $1}}, %wide;"
            both, operands = f"{result}.both", f'"=l,=l,l,~{{memory}}"({access.pointer})'
            lines.append(f'{both} = call {{ i64, i64 }} asm sideeffect "{_WIDE_REGISTER}{code} }}", {operands}')
            lines += [f"{half} = extractvalue {{ i64, i64 }} {both}, {i}" for i, half in enumerate(halves)]
            lines.append(f"{result}.first = insertelement {PAIR} poison, i64 {halves[0]}, i32 0")
            lines.append(f"{result} = insertelement {PAIR} {result}.first, i64 {halves[1]}, i32 1")
        return "".join(f"  {line}\n" for line in lines)

    def report(self, status: int, place: int, values: Sequence[str]) -> str:
        """A call in kernels, and a trap in functions that are compiled for other programs."""
        return report_text.report_call(status, place, values) if self.module.main.kernel else report_text.TRAP

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
