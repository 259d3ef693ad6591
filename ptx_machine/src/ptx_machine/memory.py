"""The state spaces of PTX, in one range of addresses, and who may touch what.

    global, const, a kernel's parameters     the arena: memory of this process, so that the host's addresses are the GPU's
    shared                                   SHARED + offset, a window that every block sees as its own
    local                                    LOCAL + offset, a window that every thread sees as its own

Every access is checked: bytes that are not allocated, and addresses that are not multiples of the size, are a `Fault`.
"""

from __future__ import annotations

import ctypes

import numpy as np

SHARED = 1 << 56
LOCAL = 1 << 57
ARENA_BYTES = 1 << 30
LOCAL_BYTES = 1 << 16
GRANULE = 256
PAIR = np.dtype([("low", np.uint64), ("high", np.uint64)])
"""Sixteen bytes."""
WORDS = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64), 16: PAIR}


class Fault(Exception):
    """A thread did what ends a kernel; `status` is the driver's number."""

    def __init__(self, message: str, status: int = 700) -> None:
        super().__init__(message)
        self.status = status


MISALIGNED = 716
LAUNCH_FAILED = 719


class Bytes:
    """Memory, seen as words of every size."""

    def __init__(self, memory: np.ndarray) -> None:
        self.of = {size: memory[: len(memory) // 16 * 16].view(word) for size, word in WORDS.items()}

    def load(self, offsets: np.ndarray, size: int) -> np.ndarray:
        return self.of[size][offsets // size]

    def store(self, offsets: np.ndarray, size: int, values: np.ndarray) -> None:
        self.of[size][offsets // size] = values


class Arena:
    """Memory of the GPU: allocated in granules, checked byte by byte."""

    def __init__(self, nbytes: int = ARENA_BYTES) -> None:
        memory = np.zeros(nbytes + GRANULE, np.uint8)  # the operating system gives what is touched, not before
        start = -memory.ctypes.data % GRANULE
        self.memory = memory[start : start + nbytes]
        self.base = self.memory.ctypes.data
        self.bytes = Bytes(self.memory)
        self.live = np.zeros(nbytes, bool)
        self.sizes: dict[int, int] = {}
        self._free: dict[int, list[int]] = {}
        self._next = GRANULE

    def allocate(self, nbytes: int, byte: int = 0xAA) -> int:
        """The address of new bytes, each of which is `byte`."""
        room = -(-max(nbytes, 1) // GRANULE) * GRANULE
        offsets = self._free.get(room)
        if offsets:
            offset = offsets.pop(0)
        else:
            offset, self._next = self._next, self._next + room + GRANULE
            if self._next > len(self.memory):
                raise MemoryError(nbytes)
        # Atomic operations of bytes are done on words of four, which every real allocation is whole ones of.
        self.live[offset : offset + -(-nbytes // 4) * 4] = True
        self.memory[offset : offset + nbytes] = byte
        self.sizes[self.base + offset] = nbytes
        return self.base + offset

    @property
    def is_half_full(self) -> bool:
        return 2 * self._next > len(self.memory)

    def free(self, address: int) -> None:
        """Raises `KeyError` for what is not allocated."""
        nbytes, offset = self.sizes.pop(address), address - self.base
        self.live[offset : offset + -(-nbytes // 4) * 4] = False
        self._free.setdefault(-(-max(nbytes, 1) // GRANULE) * GRANULE, []).append(offset)

    def write(self, address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def read(self, address: int, nbytes: int) -> bytes:
        return ctypes.string_at(address, nbytes)

    def text(self, address: int) -> bytes:
        """The bytes before the next zero."""
        return ctypes.string_at(address)

    def offsets(self, addresses: np.ndarray, size: int) -> np.ndarray:
        """Offsets in the arena; a `Fault` where an address is nobody's."""
        offsets = (addresses - np.uint64(self.base)).astype(np.int64)
        inside = (offsets >= 0) & (offsets <= len(self.memory) - size)
        safe = np.where(inside, offsets, 0)
        allowed = inside & self.live[safe] & self.live[safe + (size - 1)]
        if not allowed.all():
            first = int(addresses[np.flatnonzero(~allowed)[0]])
            raise Fault(f"{size} bytes at {first:#x}, which no allocation holds{self._near(first)}")
        return offsets

    def _near(self, address: int) -> str:
        below = [start for start in self.sizes if start <= address]
        if not below:
            return ""
        start = max(below)
        return f": {address - start} bytes from the start of one of {self.sizes[start]}"


class Window:
    """Memory that `count` owners have of their own each, at the same offsets."""

    def __init__(self, count: int, nbytes: int, what: str) -> None:
        self.each = -(-nbytes // 16) * 16
        self.nbytes, self.what = nbytes, what
        self.bytes = Bytes(np.zeros(count * self.each + 16, np.uint8))
        if what == "shared":
            self.bytes.of[1][:] = 0xA7  # what nobody wrote shows

    def offsets(self, addresses: np.ndarray, size: int, owners: np.ndarray) -> np.ndarray:
        """Offsets in the memory of all owners."""
        offsets = addresses.astype(np.int64)
        if len(offsets) and not (0 <= offsets.min() and offsets.max() <= self.nbytes - size):
            wrong = offsets[(offsets < 0) | (offsets > self.nbytes - size)][0]
            raise Fault(f"{size} bytes at {wrong:#x} of {self.what} memory, which has {self.nbytes}")
        return offsets + owners * self.each


def check_aligned(addresses: np.ndarray, size: int) -> None:
    """A `Fault` where an address is not a multiple of `size`."""
    wrong = addresses % np.uint64(size) != 0
    if wrong.any():
        first = int(addresses[np.flatnonzero(wrong)[0]])
        raise Fault(f"{size} bytes at {first:#x}, which is no multiple of {size}", MISALIGNED)
