"""How threads meet on a GPU: the intrinsics of LLVM for barriers with a predicate and for a warp's operations.

    shuffle("%result", "idx", "%mask", "%value", "i64", "%lane")     two shuffles of 32 bits: the hardware has no wider ones

All are convergent: LLVM must not move them to where fewer threads come.
"""

from __future__ import annotations

from collections.abc import Callable

from cuda_device.codegen.emit.dialect import Meeting
from cuda_device.ir import ops
from cuda_device.ir.op_def import OpDef

_VOTES = {"all": "all", "any": "any", "eq": "uni", "ballot": "ballot"}
_REDUCTIONS = {"count": "popc", "and": "and", "or": "or"}
# The instruction's name, and its last operand: the lane at which the segment of 32 lanes ends.
_SHUFFLES = {"idx": ("idx", 31), "up": ("up", 0), "down": ("down", 31), "xor": ("bfly", 31)}


def _call(result: str, type: str, name: str, *operands: str) -> str:
    assigned = f"{result} = " if result else ""
    return f"  {assigned}call {type} @llvm.nvvm.{name}({', '.join(operands)}) convergent\n"


def reduce(result: str, kind: str, flag: str) -> str:
    """`barrier.red`, of the barrier 0."""
    type = "i32" if kind == "count" else "i1"
    return _call(result, type, f"barrier.cta.red.{_REDUCTIONS[kind]}.aligned.all", "i32 0", f"i1 {flag}")


def sync(mask: str) -> str:
    """`bar.warp.sync`."""
    return _call("", "void", "bar.warp.sync", f"i32 {mask}")


def vote(result: str, kind: str, mask: str, flag: str) -> str:
    """`vote.sync`."""
    type = "i32" if kind == "ballot" else "i1"
    return _call(result, type, f"vote.{_VOTES[kind]}.sync", f"i32 {mask}", f"i1 {flag}")


def shuffle(result: str, kind: str, mask: str, value: str, type: str, lane: str) -> str:
    """`shfl.sync`, for each half of a wide value."""
    if type == "i32":
        return _shuffle_word(result, kind, mask, value, lane)
    low, high = f"{result}.low", f"{result}.high"
    text = f"  {low} = trunc i64 {value} to i32\n"
    text += f"  {high}.down = lshr i64 {value}, 32\n  {high} = trunc i64 {high}.down to i32\n"
    for half in (low, high):
        text += _shuffle_word(f"{half}.got", kind, mask, half, lane)
        text += f"  {half}.wide = zext i32 {half}.got to i64\n"
    return text + f"  {high}.up = shl i64 {high}.wide, 32\n  {result} = or i64 {high}.up, {low}.wide\n"


def _shuffle_word(result: str, kind: str, mask: str, value: str, lane: str) -> str:
    name, end = _SHUFFLES[kind]
    return _call(result, "i32", f"shfl.sync.{name}.i32", f"i32 {mask}", f"i32 {value}", f"i32 {lane}", f"i32 {end}")


def match(result: str, kind: str, mask: str, value: str, type: str) -> str:
    """`match.sync`; of all, only the mask, which is 0 where the predicate is false."""
    operands = (f"i32 {mask}", f"{type} {value}")
    if kind == "any":
        return _call(result, "i32", f"match.any.sync.{type}", *operands)
    both = f"{result}.both"
    text = _call(both, "{ i32, i1 }", f"match.all.sync.{type}p", *operands)
    return text + f"  {result} = extractvalue {{ i32, i1 }} {both}, 0\n"


def active(result: str) -> str:
    """`activemask`."""
    return _call(result, "i32", "activemask")


_WRITERS: dict[OpDef, Callable[[Meeting], str]] = {
    ops.BARRIER_REDUCE: lambda m: reduce(m.result, m.kind, *m.operands),
    ops.WARP_SYNC: lambda m: sync(*m.operands),
    ops.WARP_VOTE: lambda m: vote(m.result, m.kind, *m.operands),
    ops.WARP_SHUFFLE: lambda m: shuffle(m.result, m.kind, m.operands[0], m.operands[1], m.type, m.operands[2]),
    ops.WARP_MATCH: lambda m: match(m.result, m.kind, m.operands[0], m.operands[1], m.type),
    ops.WARP_ACTIVE: lambda m: active(m.result),
    ops.YIELD: lambda _: "",
}


def meet(meeting: Meeting) -> str:
    """The text of a convergent operation, after which the same block goes on."""
    return _WRITERS[meeting.code](meeting)
