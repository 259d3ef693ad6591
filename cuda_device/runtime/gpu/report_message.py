"""Turns the report of a failed kernel into an error message that names the thread, the line and the reason.

    deadlock in block (0, 0, 0): threads (0..15, 0, 0) wait at kernel.py:10 and threads (16..31, 0, 0) at kernel.py:12
      help: every thread of a block must reach the same syncthreads(); move it out of the branch

A kernel writes its report to a mailbox. Its code numbers the places that may report, and the compiler keeps a table that maps
each number to a `ReportPlace`.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from _thread import RLock
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from cuda_device.codegen.gpu.report_text import RECORD_BYTES, WORDS, ReportField, record
from cuda_device.errors import NOWHERE, Index, KernelError, Location
from cuda_device.instrument.outline import ReportPlace
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.runtime.gpu import driver

_MANY = 4


ALL_AT_BARRIER = "all threads of a block must reach the same syncthreads(), including those that return early"


def barrier_place(location: Location) -> ReportPlace:
    """The report of a barrier that some threads do not reach."""
    return ReportPlace(
        location, "divergent barrier: some threads of the block have returned, or wait at another", ALL_AT_BARRIER
    )


@dataclass(frozen=True)
class Waiting:
    """The threads, as numbers within their block, that wait at a place; None is the place of threads that have returned.

    `number` is the one in memory for which they wait, if they do.
    """

    place: int | None
    threads: tuple[int, ...]
    number: int | None = None


class ReportedNumber(int):
    """The 64 bits of a reported value. Messages use the properties for values that are not int64: `{0.float32:.3f}`.

    A format such as `within …` or `bits …` returns a text by a function of `_HELPS`.
    """

    def __format__(self, spec: str) -> str:
        name, *words = spec.split(" ")
        return _HELPS[name](self, *map(int, words)) if name in _HELPS else super().__format__(spec)

    @property
    def float64(self) -> float:
        """The value of a float64."""
        return float(struct.unpack("<d", struct.pack("<q", self))[0])

    @property
    def float32(self) -> np.float32:
        """The value of a float32, which is reported as a float64."""
        return np.float32(self.float64)

    @property
    def float16(self) -> np.float16:
        """The value of a float16, which is reported as a float64."""
        return np.float16(self.float64)

    @property
    def uint64(self) -> int:
        """The value of an unsigned integer."""
        return self & (1 << 64) - 1

    @property
    def bool(self) -> bool:
        """The value of a bool."""
        return self != 0


def _within(index: ReportedNumber, length: int, bits: int, nbytes: int, whole: int) -> str:
    """The help for an index out of bounds for an axis of a length.

    Of an unsigned index, `bits` is the size, and otherwise 0. `nbytes` is the size of an element of dynamic shared memory, and
    otherwise 0; if the array is the `whole` of this memory, its size follows.
    """
    number = index.uint64 if bits else int(index)
    if bits and number >> bits - 1:
        return (
            f"thread positions are unsigned, as in CUDA C++, so {number - (1 << bits)} is {number}: test `if i > 0` before "
            "x[i - 1], or compute int(i) - 1, which is -1 and, as an index, means the last element"
        )
    if nbytes and number >= length:
        size = (
            f"shared={(number + 1) * nbytes}" if whole else f"{(number + 1 - length) * nbytes} bytes more as shared=…"
        )
        return f"the launch sets the size of dynamic shared memory: launch with {size}, or test the index first"
    return "test the index first: if i < len(x)"


def _reshaped(elements: ReportedNumber, count: int, nbytes: int) -> str:
    """The help for an array in shared memory, with elements of `nbytes`, that has too few or too many of them."""
    remedy = "give lengths whose product is the number of elements"
    return f"{remedy}; for dynamic shared memory, launch with shared={count * nbytes}" if elements < count else remedy


def _bits(number: ReportedNumber, low: int, count: int, factor: int = 1) -> str:
    """Some bits of the number, times a factor."""
    return str((number.uint64 >> low & (1 << count) - 1) * factor)


_HELPS: dict[str, Callable[..., str]] = {"within": _within, "reshaped": _reshaped, "bits": _bits}


def failure(
    place: ReportPlace, values: tuple[int, int], block: Index | None = None, thread: Index | None = None
) -> KernelError:
    """The error for a failed assertion, an exception, or a failed check; functions on the host have no thread."""
    message, help = place.message or "the kernel failed", place.help
    if place.has_values:
        numbers = [*map(ReportedNumber, values)]
        message, help = message.format(*numbers), help.format(*numbers) if help.startswith("{0:") else help
    thread_text = "" if thread is None else f", in thread {thread} of block {block}"
    lines = [f"{message}\n  at {place.location}{thread_text}", place.location.excerpt()]
    lines += [f"  help: {help}"] if help else []
    return KernelError("\n".join(line for line in lines if line), block, thread, place.location)


def waiting_report(
    problem: str, help: str, block: Index, size: Index, waiting: Iterable[Waiting], places: Mapping[int, ReportPlace]
) -> KernelError:
    """The error for a block whose threads wait at different places."""
    groups: list[str] = []
    returned = ""
    for group in waiting:
        threads = f"threads {ranges(group.threads, size)}"
        if group.place is None:
            returned = f"{threads} have returned"
            continue
        place = places.get(group.place, ReportPlace(NOWHERE))
        state = "" if group.number is None else f" for {place.message.format(ReportedNumber(group.number))}"
        groups.append(f"{threads} {'at' if groups else 'wait at'} {place.location}{state}")
    text = " and ".join([*groups, returned] if returned else groups)
    return KernelError(f"{problem} in block {block}: {text}\n  help: {help}", block)


def ranges(threads: Iterable[int], size: Index) -> str:
    """Describes the threads with these numbers in a block of `size` as up to four boxes: `(0..15, 0, 0)`.

    Joins threads along x first, then equal runs of neighbouring rows, and then equal parts of neighbouring planes.
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


# The mailboxes for reports of kernels, one for each context
#
#     attach(library, symbol, places)       when a module that may report is loaded
#     driver.raise_report(context)          raises the `KernelError` of the first report, if there is one
#
# A mailbox is a record in host memory, which the GPU writes, and a claim in GPU memory, so that only one thread writes (see
# `codegen/gpu/report_text`). A check costs one read of host memory.


_CLAIM_BYTES = 16


@dataclass(frozen=True)
class _Mailbox:
    """The addresses of the claim and of the record for the GPU, and the words of the record."""

    claim: int
    record: int
    words: ctypes.Array[ctypes.c_uint32]


_lock = RLock()
_mailboxes: dict[int, _Mailbox] = {}
_numbers = itertools.count(1)
_NOTHING = ctypes.c_uint32(0)
# The addresses of status words by context; launchers in machine code read the word before each launch.
_status: dict[int, ctypes.c_uint64] = {}
# By the number of the module. Modules are never unloaded.
_places: dict[int, Mapping[int, ReportPlace]] = {}


def attach(library: int, symbol: str, places: Mapping[int, ReportPlace]) -> None:
    """Connects the kernel `symbol` of a library with the current context's mailbox; `places` are its reports."""
    with _lock:
        mailbox = _mailbox(driver.current_context())
        number = next(_numbers)
        _places[number] = places
        words = (ctypes.c_uint64 * WORDS)(mailbox.claim, mailbox.record, number)
        driver.write_global(library, record(symbol), ctypes.addressof(words), ctypes.sizeof(words))


def _mailbox(context: int) -> _Mailbox:
    mailbox = _mailboxes.get(context)
    if mailbox is None:
        host, record = driver.allocate_mapped(RECORD_BYTES)
        words = (ctypes.c_uint32 * (RECORD_BYTES // 4)).from_address(host)
        ctypes.memset(host, 0, RECORD_BYTES)
        claim = driver.allocate_for_good(_CLAIM_BYTES)
        mailbox = _mailboxes[context] = _Mailbox(claim, record, words)
        driver.REPORTERS[context] = _check
        status_of(context).value = host + ctypes.sizeof(ctypes.c_uint32) * ReportField.STATUS
    return mailbox


def status_of(context: int) -> ctypes.c_uint64:
    """Contains the address of a word that is 0 as long as there is no report in `context`. It lives forever."""
    with _lock:
        return _status.setdefault(context, ctypes.c_uint64(ctypes.addressof(_NOTHING)))


def _check(context: int) -> None:
    """Raises the error that a kernel reported in `context`, which is current, and clears the report."""
    mailbox = _mailboxes[context]
    if not mailbox.words[ReportField.STATUS]:
        return
    with _lock:
        if not mailbox.words[ReportField.STATUS]:
            return
        # Other threads of the launch may still report, so wait for all of them before clearing the mailbox.
        driver.synchronize_context()
        words = list(mailbox.words)
        ctypes.memset(ctypes.addressof(mailbox.words), 0, RECORD_BYTES)
        driver.fill_zero(mailbox.claim, _CLAIM_BYTES, driver.LEGACY_STREAM)
        driver.synchronize_stream(driver.LEGACY_STREAM)
    place = _places.get(words[ReportField.MODULE], {}).get(words[ReportField.PLACE], ReportPlace(NOWHERE))
    block = words[ReportField.BLOCK_X], words[ReportField.BLOCK_Y], words[ReportField.BLOCK_Z]
    thread = words[ReportField.THREAD_X], words[ReportField.THREAD_Y], words[ReportField.THREAD_Z]
    values = _integer(words, ReportField.FIRST), _integer(words, ReportField.SECOND)
    raise failure(place, values, block, thread)


def _integer(words: list[int], field: ReportField) -> int:
    """The int64 in two words of the record."""
    return ctypes.c_int64(words[field] | words[field + 1] << 32).value
