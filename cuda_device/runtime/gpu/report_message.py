"""What a running kernel reported, in the words of the program: who, where, why.

    deadlock in block (0, 0, 0): threads (0..15, 0, 0) wait at kernel.py:10 and threads (16..31, 0, 0) at kernel.py:12
      help: every thread of a block must reach the same syncthreads(); move it out of the branch

Kernels number the places that may report; the compiler keeps the table from the number to a `ReportPlace`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

import numpy as np

from cuda_device.errors import NOWHERE, Index, KernelError, Location
from cuda_device.instrument.outline import ReportPlace
from cuda_device.lazy_dataclasses import dataclass

_MANY = 4


ALL_AT_BARRIER = "all threads of a block must reach the same syncthreads(), also those that return early"


def barrier_place(location: Location) -> ReportPlace:
    """The place of a barrier that some threads do not reach."""
    return ReportPlace(
        location, "divergent barrier: some threads of the block have returned, or wait at another", ALL_AT_BARRIER
    )


@dataclass(frozen=True, slots=True)
class Waiting:
    """The threads, as numbers within their block, that wait at one place; None is where returned threads are."""

    place: int | None
    threads: tuple[int, ...]


class ReportedNumber(int):
    """A report's number, 64 bits. A message says what they mean if they are no integer: `{0.float32:.3f}`."""

    @property
    def float64(self) -> float:
        """The bits of a float64."""
        return float(struct.unpack("<d", struct.pack("<q", self))[0])

    @property
    def float32(self) -> np.float32:
        """A float32, which is shown with fewer digits; it travels as a float64."""
        return np.float32(self.float64)

    @property
    def float16(self) -> np.float16:
        """A float16, likewise."""
        return np.float16(self.float64)

    @property
    def uint64(self) -> int:
        """An integer without a sign."""
        return self & (1 << 64) - 1

    @property
    def bool(self) -> bool:
        """True or False."""
        return self != 0


def thread_report(place: ReportPlace, block: Index, thread: Index, values: tuple[int, int]) -> KernelError:
    """The error for a report that one thread made: an assertion, an exception, a check."""
    message = place.message or "the kernel failed"
    if place.has_values:
        message = message.format(*map(ReportedNumber, values))
    lines = [f"{message}\n  at {place.location}, in thread {thread} of block {block}", place.location.excerpt()]
    lines += [f"  help: {place.help}"] if place.help else []
    return KernelError("\n".join(line for line in lines if line), block, thread, place.location)


def waiting_report(
    what: str, help: str, block: Index, size: Index, waiting: Iterable[Waiting], places: Mapping[int, ReportPlace]
) -> KernelError:
    """The error for a block whose threads wait for each other."""
    groups: list[str] = []
    returned = ""
    for group in waiting:
        who = f"threads {ranges(group.threads, size)}"
        if group.place is None:
            returned = f"{who} have returned"
            continue
        place = places.get(group.place, ReportPlace(NOWHERE))
        groups.append(f"{who} {'at' if groups else 'wait at'} {place.location}")
    text = " and ".join([*groups, returned] if returned else groups)
    return KernelError(f"{what} in block {block}: {text}\n  help: {help}", block)


def ranges(threads: Iterable[int], size: Index) -> str:
    """The boxes that the threads with these numbers make in a block of `size`: `(0..15, 0, 0)`, at most four of them.

    Runs along x first, then equal runs of neighbouring rows, then equal pieces of neighbouring planes.
    """
    boxes = [
        ((n % size[0],) * 2, (n // size[0] % size[1],) * 2, (n // (size[0] * size[1]),) * 2) for n in sorted(threads)
    ]
    for axis in range(3):
        boxes = _merge(boxes, axis)
    shown = [f"({', '.join(f'{a}..{b}' if a != b else str(a) for a, b in box)})" for box in boxes[:_MANY]]
    return ", ".join(shown) + (f" and {len(boxes) - _MANY} more groups" if len(boxes) > _MANY else "")


_Span = tuple[int, int]
_Box = tuple[_Span, _Span, _Span]


def _merge(boxes: list[_Box], axis: int) -> list[_Box]:
    """Joins boxes that touch along `axis` and agree on the other axes."""
    merged: list[_Box] = []
    open_ends: dict[tuple[_Span, ...], int] = {}
    for box in boxes:
        others = box[:axis] + box[axis + 1 :]
        last = open_ends.get(others)
        if last is not None and merged[last][axis][1] + 1 == box[axis][0]:
            spans = list(merged[last])
            spans[axis] = (spans[axis][0], box[axis][1])
            merged[last] = (spans[0], spans[1], spans[2])
        else:
            open_ends[others] = len(merged)
            merged.append(box)
    return merged
