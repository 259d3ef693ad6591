"""How a kernel's thread meets others on the CPU: what it brings, where it waits, what it takes away.

A thread writes its part into its lane's entries of the warp's record (`records.WARP`), suspends, and finds the result
there when the scheduler (`meetings`) resumes it: nothing is exchanged between threads directly.

    vote(Suspension.ANY, 4, "after", "%voted", "%mask", "%flag")     mask and flag are stored, `any` is in the lane's low half
"""

from __future__ import annotations

from collections.abc import Callable

from cuda_device.codegen.cpu.kernel_text import suspend, yield_now, yield_sometimes
from cuda_device.codegen.cpu.records import THREAD, WARP, WARP_SIZE, WIDE, Suspension
from cuda_device.codegen.emit.dialect import Meeting
from cuda_device.ir import ops
from cuda_device.ir.op_def import OpDef

SHUFFLES = {"idx": Suspension.INDEX, "up": Suspension.UP, "down": Suspension.DOWN, "xor": Suspension.XOR}
VOTES = {
    "all": Suspension.ALL,
    "any": Suspension.ANY,
    "eq": Suspension.EQUAL,
    "ballot": Suspension.BALLOT,
}
MATCHES = {"any": Suspension.MATCH_ANY, "all": Suspension.MATCH_ALL}
COMBINATIONS = {
    kind: Suspension[f"REDUCE_{kind.upper()}"] for kind in ("add", "min", "umin", "max", "umax", "and", "or", "xor")
}
REDUCTIONS = {"count": Suspension.COUNT, "and": Suspension.AND, "or": Suspension.OR}


def reduce(kind: Suspension, place: int, label: str, result: str, flag: str) -> str:
    """A barrier that counts flags (`result` is an i32), or that joins them by `and` or `or` (an i1)."""
    return suspend(kind, place, label, _store_flag(label, flag)) + _load_vote(label, result, kind is Suspension.COUNT)


def sync(place: int, label: str, mask: str) -> str:
    """Waits for the lanes of a mask."""
    return suspend(Suspension.SYNC, place, label, _store(label, "masks", mask))


def vote(kind: Suspension, place: int, label: str, result: str, mask: str, flag: str) -> str:
    """What the lanes of a mask say of a flag: an i1, or of BALLOT an i32."""
    before = _store(label, "masks", mask) + _store_flag(label, flag)
    return suspend(kind, place, label, before) + _load_vote(label, result, kind is Suspension.BALLOT)


def shuffle(kind: Suspension, place: int, label: str, result: str, mask: str, value: str, type: str, lane: str) -> str:
    """The `value`, an i32 or i64, of another lane."""
    wide = type == "i64"
    near = f"%{label}.near"
    before = _store(label, "masks", mask) + f"  {near} = and i32 {lane}, {WARP_SIZE - 1}\n"
    if wide:
        before += f"  {near}.wide = or i32 {near}, {WIDE}\n"
    before += _store(label, "sources", f"{near}.wide" if wide else near) + _store_value(label, value, wide)
    return suspend(kind, place, label, before) + (_load_wide(label, result) if wide else _load(label, result, "lows"))


def match(kind: Suspension, place: int, label: str, result: str, mask: str, value: str, type: str) -> str:
    """The lanes with the same `value`, an i32 or i64: an i32."""
    wide = type == "i64"
    before = _store(label, "masks", mask) + _store_value(label, value, wide)
    before += "" if wide else _store(label, "highs", "0")
    return suspend(kind, place, label, before) + _load(label, result, "lows")


def combine(kind: Suspension, place: int, label: str, result: str, mask: str, value: str) -> str:
    """What the lanes' values, each an i32, are together: an i32."""
    before = _store(label, "masks", mask) + _store_value(label, value, wide=False)
    return suspend(kind, place, label, before) + _load(label, result, "lows")


def active(place: int, label: str, result: str) -> str:
    """The lanes that come here together: an i32."""
    return suspend(Suspension.ACTIVE, place, label) + _load(label, result, "lows")


def _entry(result: str, state: str, field: str) -> str:
    return f"  {result} = getelementptr i8, ptr {state}, i64 {4 * WARP_SIZE * WARP.index(field)}\n"


def _store(label: str, field: str, value: str) -> str:
    at = f"%{label}.{field}"
    return _entry(at, f"%{label}.state", field) + f"  store i32 {value}, ptr {at}\n"


def _store_flag(label: str, flag: str) -> str:
    return f"  %{label}.flag = zext i1 {flag} to i32\n" + _store(label, "lows", f"%{label}.flag")


def _store_value(label: str, value: str, wide: bool) -> str:
    if not wide:
        return _store(label, "lows", value)
    low, high, shifted = (f"%{label}.{part}" for part in ("low", "high", "shifted"))
    halves = f"  {low} = trunc i64 {value} to i32\n  {shifted} = lshr i64 {value}, 32\n"
    halves += f"  {high} = trunc i64 {shifted} to i32\n"
    return halves + _store(label, "lows", low) + _store(label, "highs", high)


def _load(label: str, result: str, field: str) -> str:
    """Reads one of the lane's entries after the meeting; the record's address is not kept in the frame meanwhile."""
    state = f"{result}.{field}.state"
    text = THREAD.load(state, "%thread", "state") + _entry(f"{result}.{field}.at", state, field)
    return text + f"  {result} = load i32, ptr {result}.{field}.at\n"


def _load_vote(label: str, result: str, is_number: bool) -> str:
    if is_number:
        return _load(label, result, "lows")
    return _load(label, f"{result}.word", "lows") + f"  {result} = icmp ne i32 {result}.word, 0\n"


def _load_wide(label: str, result: str) -> str:
    low, high = f"{result}.low", f"{result}.high"
    text = _load(label, low, "lows") + _load(label, high, "highs")
    text += f"  {low}.wide = zext i32 {low} to i64\n  {high}.wide = zext i32 {high} to i64\n"
    return text + f"  {high}.up = shl i64 {high}.wide, 32\n  {result} = or i64 {high}.up, {low}.wide\n"


def _meet_shuffle(m: Meeting) -> str:
    mask, value, lane = m.operands
    return shuffle(SHUFFLES[m.kind], m.place, m.label, m.result, mask, value, m.type, lane)


def _meet_match(m: Meeting) -> str:
    mask, value = m.operands
    return match(MATCHES[m.kind], m.place, m.label, m.result, mask, value, m.type)


_WRITERS: dict[OpDef, Callable[[Meeting], str]] = {
    ops.BARRIER_REDUCE: lambda m: reduce(REDUCTIONS[m.kind], m.place, m.label, m.result, *m.operands),
    ops.WARP_SYNC: lambda m: sync(m.place, m.label, *m.operands),
    ops.WARP_VOTE: lambda m: vote(VOTES[m.kind], m.place, m.label, m.result, *m.operands),
    ops.WARP_SHUFFLE: _meet_shuffle,
    ops.WARP_MATCH: _meet_match,
    ops.WARP_REDUCE: lambda m: combine(COMBINATIONS[m.kind], m.place, m.label, m.result, *m.operands),
    ops.WARP_ACTIVE: lambda m: active(m.place, m.label, m.result),
    ops.YIELD: lambda m: (yield_now if m.kind == "now" else yield_sometimes)(m.place, m.label),
}


def meet(meeting: Meeting) -> str:
    """The text of a convergent operation, which goes on at `label:`."""
    return _WRITERS[meeting.code](meeting)
