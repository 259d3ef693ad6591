"""What kernels on GPUs reported: a mailbox for each context, and who may write into it.

    attach(library, symbol, places)       when a module that may report is loaded
    check(context)                raises the `KernelError` of the first report since, in the current context

A mailbox is a record in the host's memory that the GPU writes, and a claim in the GPU's memory, so that one thread only
writes (see `codegen/gpu/report_text`). To look into it costs one read of the host's memory.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Mapping

from cuda_device.codegen.gpu.report_text import RECORD_BYTES, WORDS, ReportField, record
from cuda_device.errors import NOWHERE
from cuda_device.instrument.outline import ReportPlace
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.runtime.gpu import driver, loaded_kernels
from cuda_device.runtime.gpu.report_message import thread_report

_CLAIM_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Mailbox:
    """Addresses: of the claim, and of the record for the GPU. `words` is the record itself."""

    claim: int
    record: int
    words: ctypes.Array[ctypes.c_uint32]


_lock = threading.RLock()
_mailboxes: dict[int, _Mailbox] = {}
_numbers = itertools.count(1)
_NOTHING = ctypes.c_uint32(0)
# By context: the address of the word that says whether there is a report; machine code looks there before each launch.
_status: dict[int, ctypes.c_uint64] = {}
# By the number of their module: kept as long as the process, as the modules are.
_places: dict[int, Mapping[int, ReportPlace]] = {}


def attach(library: int, symbol: str, places: Mapping[int, ReportPlace]) -> None:
    """Tells the kernel `symbol` that was loaded in the current context where to report; `places` are those in its text."""
    with _lock:
        mailbox = _mailbox(driver.current_context())
        number = next(_numbers)
        _places[number] = places
        words = (ctypes.c_uint64 * WORDS)(mailbox.claim, mailbox.record, number)
        loaded_kernels.write_global(library, record(symbol), ctypes.addressof(words), ctypes.sizeof(words))


def _mailbox(context: int) -> _Mailbox:
    found = _mailboxes.get(context)
    if found is None:
        host, record = driver.allocate_mapped(RECORD_BYTES)
        words = (ctypes.c_uint32 * (RECORD_BYTES // 4)).from_address(host)
        ctypes.memset(host, 0, RECORD_BYTES)
        claim = driver.allocate_for_good(_CLAIM_BYTES)
        found = _mailboxes[context] = _Mailbox(claim, record, words)
        status_of(context).value = host + ctypes.sizeof(ctypes.c_uint32) * ReportField.STATUS
    return found


def status_of(context: int) -> ctypes.c_uint64:
    """Holds, for good, the address of a word that is 0 while nothing was reported in `context`."""
    with _lock:
        return _status.setdefault(context, ctypes.c_uint64(ctypes.addressof(_NOTHING)))


def check(context: int) -> None:
    """Raises what a kernel reported in `context`, which is current, once. The context is as good as before."""
    mailbox = _mailboxes.get(context) if _mailboxes else None
    if mailbox is None or not mailbox.words[ReportField.STATUS]:
        return
    with _lock:
        if not mailbox.words[ReportField.STATUS]:
            return
        # Other threads of the launch may still report: only when all have ended is the mailbox free again.
        driver.synchronize_context()
        words = list(mailbox.words)
        ctypes.memset(ctypes.addressof(mailbox.words), 0, RECORD_BYTES)
        driver.fill_zero(mailbox.claim, _CLAIM_BYTES, driver.LEGACY_STREAM)
        driver.synchronize_stream(driver.LEGACY_STREAM)
    place = _places.get(words[ReportField.MODULE], {}).get(words[ReportField.PLACE], ReportPlace(NOWHERE))
    block = words[ReportField.BLOCK_X], words[ReportField.BLOCK_Y], words[ReportField.BLOCK_Z]
    thread = words[ReportField.THREAD_X], words[ReportField.THREAD_Y], words[ReportField.THREAD_Z]
    raise thread_report(place, block, thread, (_integer(words, ReportField.FIRST), _integer(words, ReportField.SECOND)))


def _integer(words: list[int], field: ReportField) -> int:
    """The int64 in two words of the record."""
    return ctypes.c_int64(words[field] | words[field + 1] << 32).value
