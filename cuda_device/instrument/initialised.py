"""Checked mode on the CPU: reads of shared and local memory ask whether it has been written; recursion has an end.

The executor keeps a byte for each byte of a block's shared memory, and local arrays have such bytes behind them, all at the same
distance. A GPU has no room for them, so this is a pass of its own:

    %2: float32 = load %1       →     %3: bool = written %1
                                      branch %3 ^reads() ^reports()
    store %1 %2                 →     store %1 %2
                                      mark %1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cuda_device.instrument import checks, fuel
from cuda_device.ir import ops
from cuda_device.ir.builder import Builder
from cuda_device.ir.nodes import Block, Edge, Function, Module, Op, Value
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.layout import size_of
from cuda_device.types.model import BOOL, INT64, Ref, Space, Vector

_READS = (ops.LOAD, ops.ATOMIC_LOAD, ops.ATOMIC_CAS, ops.ATOMIC_UPDATE)
_WRITES = (ops.STORE, ops.ATOMIC_STORE)
TOO_DEEP = "the recursion is too deep: the stack is full"
# Of local arrays that take more, with their accounts, no account is kept.
_MOST_LOCAL_BYTES = 128 << 10


@dataclass(frozen=True, slots=True)
class _Account:
    """What is known of the bytes of a space: how operations find it, and what is said of a byte that nobody has written."""

    attributes: Mapping[str, Any]
    message: str
    help: str


_SHARED = _Account(
    {},
    "shared memory is read that no thread of the block has written",
    "its content is unspecified at first: write it, and call syncthreads()",
)


def _local(distance: int) -> _Account:
    message = "local memory is read that the thread has not written"
    return _Account({"account": distance}, message, "its content is unspecified at first: write it")


def run(module: Module) -> Module:
    """Changes the functions of a device-level module, and returns it."""
    places = [int(str(op.attributes["place"])) for f in module.functions for op in f.ops() if "place" in op.attributes]
    last = max(places, default=0)
    distance = _open_accounts(module)
    accounts = {Space.SHARED: _SHARED} | ({Space.LOCAL: _local(distance)} if distance else {})
    for function in module.functions:
        parts = _parts(function)
        blocks = list(function.blocks)
        while blocks:
            last = _guard(function, blocks.pop(), parts, accounts, last)
    for name in fuel.in_recursion(module):
        last = _bound(module[name], last)
    checks.propagate(module)
    return module


def _bound(function: Function, last: int) -> int:
    """A function that may call itself reports when the stack is nearly full; without that the process would end."""
    entry = function.blocks[0]
    rest, entry.ops = entry.ops, []
    build = Builder(entry, rest[0].location)
    after = _report_unless(
        function, build, build.op(ops.ROOM, BOOL), last + 1, TOO_DEEP, "write the recursion as a loop"
    )
    after.ops = rest
    return last + 1


def _open_accounts(module: Module) -> int:
    """Gives each local array an account; returns how far behind the arrays they lie, 0 if there are none.

    The arrays begin with their functions, so that a loop finds what it wrote in the pass before.
    """
    arrays = [op for function in module.functions for op in function.ops() if op.code is ops.LOCAL]
    sizes = [_bytes(op) for op in arrays]
    distance = max(sizes, default=0)
    if distance * len(arrays) + sum(sizes) > _MOST_LOCAL_BYTES:
        return 0
    for op in arrays:
        op.attributes["account"] = distance
    for function in module.functions:
        own = [op for op in function.ops() if op.code is ops.LOCAL]
        for block in function.blocks:
            block.ops = [op for op in block.ops if op.code is not ops.LOCAL]
        function.blocks[0].ops[:0] = own
    return distance


def _bytes(array: Op) -> int:
    count, type = array.attributes["count"], array.result.type
    assert isinstance(count, int) and isinstance(type, Ref)
    return count * size_of(type.pointee)


def _parts(function: Function) -> dict[Value, list[int]]:
    """The elements of each vector that a function needs; no list for a value that it does not need, an empty one for all of it.

    Reading an element that is a struct or vector reads all of it, although often only a part is needed.
    """
    needed: dict[Value, list[int]] = {}
    for op in function.ops():
        if op.code is not ops.FIELD:
            for value in (*op.operands, *(value for edge in op.successors for value in edge.arguments)):
                needed[value] = []
    whole = set(needed)
    for op in function.ops():
        if op.code is ops.FIELD and op.result in needed and op.operands[0] not in whole:
            needed.setdefault(op.operands[0], []).append(int(str(op.attributes["index"])))
    return needed


def _account_of(op: Op, accounts: Mapping[Space, _Account]) -> _Account | None:
    """The account of the memory that an operation reads or writes."""
    type = op.operands[0].type if op.code in _READS + _WRITES else None
    return accounts.get(type.space) if isinstance(type, Ref) else None


def _guard(
    function: Function, block: Block, parts: dict[Value, list[int]], accounts: Mapping[Space, _Account], last: int
) -> int:
    """Guards the reads in a block; returns the last number that a place has got."""
    ops_, block.ops = block.ops, []
    build = Builder(block)
    for op in ops_:
        build.location = op.location
        account = _account_of(op, accounts)
        if account and op.code in _READS:
            for reference in _references(build, op, parts):
                last += 1
                holds = build.op(ops.WRITTEN, BOOL, reference, **account.attributes)
                build.block = _report_unless(function, build, holds, last, account.message, account.help)
        build.append(op)
        if account and op.code in _WRITES:
            build.effect(ops.MARK, op.operands[0], **account.attributes)
    return last


def _references(build: Builder, op: Op, parts: dict[Value, list[int]]) -> list[Value]:
    """What a read needs: what its operand refers to, parts of that, or nothing."""
    (reference, *_), vector = op.operands, op.result.type
    if op.code is not ops.LOAD:
        return [reference]
    if not isinstance(vector, Vector) or not parts.get(op.result):
        return [reference] if op.result in parts else []
    assert isinstance(reference.type, Ref)
    target, size = Ref(reference.type.space, vector.dtype), size_of(vector.dtype)
    offsets = (build.const(INT64, index * size) for index in sorted(set(parts[op.result])))
    return [build.op(ops.BYTES, target, reference, offset) for offset in offsets]


def _report_unless(function: Function, build: Builder, holds: Value, place: int, message: str, help: str) -> Block:
    """Ends the block; returns the one that goes on."""
    failed, after = Block(), Block()
    build.branch(holds, Edge(after, []), Edge(failed, []))
    words = {"status": "check", "message": message, "help": help, "place": place}
    failed.ops = [
        Op(ops.REPORT, attributes=words, location=build.location),
        Op(ops.EXIT, location=build.location),
    ]
    position = function.blocks.index(build.block) + 1
    function.blocks[position:position] = [failed, after]
    return after
