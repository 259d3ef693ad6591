"""Adds events for the race detector: one for each access to memory that threads share, and each wait.

    store %13 %12           →    trace {event="store", place=4} %13
                                 store %13 %12
    barrier {place=1}       →    trace {event="arrive", place=5}
                                 barrier {place=1}
                                 trace {event="leave", place=6}

A launch with race detection runs its threads one after the other on one worker, so the order of the events is the order of
execution. Accesses to an array that the kernel only reads, and that overlaps no other, are not recorded, nor are reads of shared
memory that barriers separate from all writes (`cpu.uniform`), nor barriers if nothing else orders the threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import count

from cuda_device.extend import Location, dataclass, layout, ops, replace
from cuda_device.ir.nodes import Module, Op, Value
from cuda_device.ir.ops import Order, Scope
from cuda_device.optimise import points_to
from cuda_device.types.model import BOOL, UINT32, Number, Ref, Space


class Event(StrEnum):
    """The kind of an event. The event of a compare-and-swap has an operand that is true if it wrote.

    The event of a store has one if the number can be compared. It is true if memory already had this number. `device/copies`
    has the events of asynchronous copies; that of a read of an array has the number of bytes as an operand.
    """

    LOAD = "load"
    STORE = "store"
    ATOMIC_LOAD = "atomic.load"
    ATOMIC_STORE = "atomic.store"
    ATOMIC_UPDATE = "atomic.update"
    FENCE = "fence"
    ARRIVE = "arrive"
    LEAVE = "leave"
    WARP_ARRIVE = "warp.arrive"
    WARP_LEAVE = "warp.leave"
    COPY_BEGIN = "copy.begin"
    COPY_READ = "copy.read"
    COPY_END = "copy.end"
    COPY_COMMIT = "copy.commit"
    COPY_AWAIT = "copy.await"
    PROXY_FENCE = "proxy.fence"


@dataclass(frozen=True, slots=True)
class TracePoint:
    """A place in the program with an event, the number of bytes that it accesses, and their memory."""

    event: Event
    location: Location
    bytes: int = 0
    shared: bool = False
    memory: Order = Order.RELAXED
    scope: Scope = Scope.SYSTEM
    may_fail: bool = False
    """Whether it is a compare-and-swap, which does not always write."""
    generic: bool = False
    """Whether the address may be in any memory."""
    align: int = 0
    """The alignment of the address; 0 if it is that of `bytes`."""
    compares: bool = False
    """Whether it is a store whose event has an operand."""
    kind: str = ""
    """The kind of copies that it concerns."""
    proxy: bool = False
    """Whether a copy begins that accesses shared memory through the asynchronous proxy."""
    only_reads: bool = False
    """Whether a thread waits only for the reads of copies."""
    open: bool = False
    """Whether a thread also waits for copies that belong to no group."""

    @property
    def of_copies(self) -> bool:
        """Whether it is an event of asynchronous copies other than an access."""
        return self.event.startswith(("copy", "proxy"))


_PLAIN = {ops.LOAD: Event.LOAD, ops.STORE: Event.STORE}
_ATOMIC = {
    ops.ATOMIC_LOAD: Event.ATOMIC_LOAD,
    ops.ATOMIC_STORE: Event.ATOMIC_STORE,
    ops.ATOMIC_UPDATE: Event.ATOMIC_UPDATE,
    ops.ATOMIC_CAS: Event.ATOMIC_UPDATE,
}
_OF_COPIES = ("proxy", "read", "open")
"""Attributes of the events of copies, which are true if they are there."""
_BARRIERS = (ops.BARRIER, ops.BARRIER_REDUCE)
_WAITS = (Event.ARRIVE, Event.LEAVE)
_SHARED = (Space.GLOBAL, Space.SHARED, Space.GENERIC)


def add_events(module: Module, launch_facts: bool) -> Module:
    """Changes the functions of a device-level module, before `inline`, and returns it."""
    places = count()
    constant = points_to.only_read(module) if launch_facts else set[Value]()
    for function in module.functions:
        for block in function.blocks:
            block.ops = [
                traced
                for op in block.ops
                for traced in ([op] if op.operands and op.operands[0] in constant else _traced(op, places))
            ]
    return module


def points(module: Module) -> dict[int, TracePoint]:
    """The events that `add_events` added, by their numbers."""
    return {op.attributes["place"]: _point(op) for op in module.ops() if op.code is ops.TRACE}


def ordered_by_barriers(points: Iterable[TracePoint]) -> bool:
    """Whether only barriers of blocks order threads: atomic operations are relaxed, and their scope includes all threads.

    Nothing orders accesses that may be to the shared memory of other blocks.
    """
    return all(
        (point.event in (*_PLAIN.values(), *_WAITS) and not point.generic)
        or (
            point.event in _ATOMIC.values()
            and not point.generic
            and point.memory is Order.RELAXED
            and (point.scope in (Scope.DEVICE, Scope.SYSTEM) or (point.shared and point.scope is Scope.BLOCK))
        )
        for point in points
    )


def drop_waits(module: Module) -> Module:
    """The module without the events of barriers if only these order its threads: the scheduler knows of them."""
    if ordered_by_barriers(points(module).values()):
        for function in module.functions:
            for block in function.blocks:
                block.ops = [op for op in block.ops if op.code is not ops.TRACE or op.attributes["event"] not in _WAITS]
    return module


def _point(op: Op) -> TracePoint:
    attributes = op.attributes
    event = Event(attributes["event"])
    order = Order(attributes.get("memory", "relaxed")), Scope(attributes.get("scope", "system"))
    type = op.operands[0].type if op.operands else None
    if not isinstance(type, Ref):
        kind, (proxy, only_reads, open) = attributes.get("kind", ""), (name in attributes for name in _OF_COPIES)
        point = TracePoint(event, op.location, 0, False, *order)
        return replace(point, kind=kind, proxy=proxy, only_reads=only_reads, open=open)
    shared, generic = type.space is Space.SHARED, type.space is Space.GENERIC
    has_answer, is_store = len(op.operands) > 1 and event is not Event.COPY_READ, event is Event.STORE
    align, may_fail = type.align or layout.align_of(type.pointee), has_answer and not is_store
    nbytes, compares = layout.size_of(type.pointee), has_answer and is_store
    return TracePoint(event, op.location, nbytes, shared, *order, may_fail, generic, align, compares)


def _traced(op: Op, places: Iterator[int]) -> list[Op]:
    """The operation with its events."""

    def tell(event: Event, *operands: Value, **attributes: object) -> Op:
        attributes |= {"event": str(event), "place": next(places)}
        return Op(ops.TRACE, list(operands), [], attributes, [], op.location)

    if op.code in _PLAIN and _is_shared(op.operands[0]):
        before, answer = _is_in_memory(op) if op.code is ops.STORE else ([], [])
        return [*before, tell(_PLAIN[op.code], op.operands[0], *answer), op]
    if op.code in _ATOMIC and _is_shared(op.operands[0]):
        after: list[Op] = []
        operands = [op.operands[0]]
        if op.code is ops.ATOMIC_CAS:
            after, done = _same_bits(op, op.result, op.operands[1])
            operands.append(done)
        return [op, *after, tell(_ATOMIC[op.code], *operands, **_order(op))]
    if op.code is ops.TRACE:
        return [Op(ops.TRACE, op.operands, [], op.attributes | {"place": next(places)}, [], op.location)]
    if op.code is ops.FENCE:
        return [tell(Event.FENCE, **_order(op)), op]
    if op.code in _BARRIERS:
        return [tell(Event.ARRIVE), op, tell(Event.LEAVE)]
    if op.code is ops.WARP_SYNC:
        mask = op.operands[0]
        return [tell(Event.WARP_ARRIVE, mask), op, tell(Event.WARP_LEAVE, mask)]
    return [op]


def _order(op: Op) -> dict[str, object]:
    return {"memory": op.attributes["memory"], "scope": op.attributes["scope"]}


def _is_shared(reference: Value) -> bool:
    assert isinstance(reference.type, Ref)
    return reference.type.space in _SHARED


def _is_in_memory(op: Op) -> tuple[list[Op], list[Value]]:
    """Operations that compute whether the number that is stored is in memory already, and their result; none for other types."""
    reference, value = op.operands
    if not isinstance(value.type, Number) or value.type.is_complex:
        return [], []
    old = Value(value.type)
    load = Op(ops.LOAD, [reference], [old], dict(op.attributes), [], op.location)
    operations, same = _same_bits(op, old, value)
    return [load, *operations], [same]


def _same_bits(op: Op, *numbers: Value) -> tuple[list[Op], Value]:
    """Operations that compute whether two numbers have the same bits, and their result."""
    operations: list[Op] = []
    sides = [*numbers]
    number = sides[0].type
    assert isinstance(number, Number)
    if number.is_float:
        bits = Number(UINT32.kind, number.bits)
        for i, side in enumerate(sides):
            sides[i] = Value(bits)
            operations.append(Op(ops.BITS, [side], [sides[i]], {}, [], op.location))
    done = Value(BOOL)
    operations.append(Op(ops.COMPARE, sides, [done], {"op": "=="}, [], op.location))
    return operations, done
