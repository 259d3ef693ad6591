"""Asynchronous copies, for the race detector: where they begin, what they access, and who waits for them.

    begin_copy("bulk", proxy=True)
    for i in range(len(tile)):
        out[i] = tile[i]
    end_copy()
    commit_copies("bulk")
    await_copies("bulk", 0)

A CPU stream makes an asynchronous copy at once, in the thread that starts it. With `races=True`, the accesses between
`begin_copy` and `end_copy` count as those of the copy, which comes after what its thread has done so far, and before nothing
until a thread waits for it. Without `races=True`, and on GPUs, these entities compile to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuda_device.device.entities import Integer
from cuda_device.device.lowering import ArrayTree, Lowering, Tree
from cuda_device.device.rows import Infer, Intrinsic, Typed, constant_of, entered
from cuda_device.errors import CompileError, DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.types.known import Known, constant
from cuda_device.types.layout import size_of
from cuda_device.types.model import INT64, UINT32, Array, Layout, Tuple, Type


def begin_copy(kind: str, proxy: bool = False, reads: tuple[Any, ...] | None = None) -> None:
    """Begins an asynchronous copy: what the thread does until `end_copy` is done by the copy.

    `kind` names the mechanism, such as "cp_async"; `commit_copies` and `await_copies` take the same name. With `proxy`, the copy
    accesses shared memory through the asynchronous proxy, to which ordinary stores are visible after `proxy_fence` only.
    `reads` are C-contiguous arrays that the copy reads as a whole; its own loads and stores are then not recorded. A copy that
    releases, such as one that completes bytes of an mbarrier, precedes what follows the acquire, and belongs to no group. All
    parameters but the arrays are constant expressions. Copies are not nested. Device code only, for functions that emulate
    instructions on CPU streams.
    """
    raise DeviceOnlyError.of("begin_copy")


def end_copy() -> None:
    """Ends the accesses of the copy that the thread began last. The copy remains in flight. See `begin_copy`."""
    raise DeviceOnlyError.of("end_copy")


def commit_copies(kind: str) -> None:
    """Makes a group of the thread's copies of a kind that belong to no group. See `begin_copy`."""
    raise DeviceOnlyError.of("commit_copies")


def await_copies(kind: str, pending: Integer | None = 0, read: bool = False) -> None:
    """Waits for all groups of the thread's copies of a kind but the last `pending`: what they did precedes what follows.

    `None` for `pending` waits for all copies, including those that belong to no group. With `read`, only their reads precede
    what follows. Within a copy, it is the copy that waits. See `begin_copy`.
    """
    raise DeviceOnlyError.of("await_copies")


def proxy_fence() -> None:
    """Makes the thread's earlier stores to shared memory visible to copies with `proxy`. See `begin_copy`."""
    raise DeviceOnlyError.of("proxy_fence")


def _contiguous(known: Known) -> Type:
    """The type of the argument for `reads`, which must be a tuple of C-contiguous arrays."""
    types = known.type.elements if isinstance(known.type, Tuple) else ()
    if not types or not all(isinstance(type, Array) and type.layout is Layout.C for type in types):
        raise CompileError(
            f"reads must be a tuple of C-contiguous arrays, not {known}", help="write reads=(tile,), or leave it out"
        )
    return known.type


def _event(operands: tuple[tuple[int, Type], ...] = (), **attributes: object) -> Typed:
    """An event of the race detector, with those of these attributes that are true."""
    return Typed(constant(None), operands, tuple((name, value) for name, value in attributes.items() if value))


def _infer_begin(arguments: Sequence[Known]) -> Typed:
    kind, proxy, reads = arguments
    named, has_proxy = constant_of(kind, "kind"), bool(constant_of(proxy, "proxy"))
    if reads.constant and reads.value is None:
        return _event(kind=named, proxy=has_proxy)
    if reads.type == Tuple(()):
        return _event(kind=named, proxy=has_proxy, quiet=True)
    arrays = _contiguous(reads)
    return _event(((2, arrays),), kind=named, proxy=has_proxy, quiet=True, arrays=arrays)


def _lower_begin(build: Lowering, operands: Sequence[Any], typed: Typed) -> Tree:
    if build.traced:
        attributes = dict(typed.settings)
        arrays = attributes.pop("arrays", Tuple(()))
        build.effect(ops.TRACE, event="copy.begin", **attributes)
        for array, tree in zip(arrays.elements, operands[0] if operands else (), strict=True):
            _read(build, tree, array)
    return ()


def _read(build: Lowering, tree: ArrayTree, array: Array) -> None:
    """The event of a read of a whole array."""
    nbytes = build.number(INT64, size_of(array.dtype))
    for extent in tree.extents:
        nbytes = build.sum(ops.MUL, nbytes, build.convert(extent, INT64))
    build.effect(ops.TRACE, tree.data, nbytes, event="copy.read")


def _infer_commit(arguments: Sequence[Known]) -> Typed:
    return _event(kind=constant_of(arguments[0], "kind"))


def _infer_await(arguments: Sequence[Known]) -> Typed:
    kind, pending, read = arguments
    named, only_reads = constant_of(kind, "kind"), bool(constant_of(read, "read"))
    if pending.constant and pending.value is None:
        return _event(kind=named, read=only_reads, open=True)
    return _event(((1, UINT32),), kind=named, read=only_reads)


def _row(entity: Any, event: str, infer: Infer = lambda _: _event()) -> Intrinsic:
    def lower(build: Lowering, operands: Sequence[Any], typed: Typed) -> Tree:
        if build.traced:
            build.effect(ops.TRACE, *operands, event=event, **dict(typed.settings))
        return ()

    return Intrinsic(entity, entity.__name__, infer, lower, effects=ops.TRACE.effects)


ROWS = entered(
    Intrinsic(begin_copy, "begin_copy", _infer_begin, _lower_begin, effects=ops.TRACE.effects),
    _row(end_copy, "copy.end"),
    _row(commit_copies, "copy.commit", _infer_commit),
    _row(await_copies, "copy.await", _infer_await),
    _row(proxy_fence, "proxy.fence"),
)
