"""What kernels print on the CPU: the host gets the values, formats them as printf would, and writes to `sys.stdout`.

    with Output(prints) as output:
        execute(…, output=output.address)       what was printed is written at the latest when the launch has ended

A call of `print` is one piece of text, which nothing comes between; the calls of a thread stay in their order.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

from cuda_device.instrument.outline import Print

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_void_p)
# So many calls are kept before they are written, so that a kernel that runs for long is heard.
_KEPT = 1000


class Output:
    """Takes what the kernel of one launch prints. `prints` tells how, by the numbers of places."""

    def __init__(self, prints: Mapping[int, Print]) -> None:
        self._texts: list[str] = []
        self._lock = threading.Lock()
        self.address: int | None = None
        """The function that the kernel calls, if it prints anything."""
        if prints:
            self._formats = {place: _formatter(printed) for place, printed in prints.items()}
            self._function = _FUNCTION(self._take)
            self.address = ctypes.cast(self._function, ctypes.c_void_p).value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.write()

    def _take(self, place: int, values: int | None) -> None:
        text = self._formats[place](values or 0)
        with self._lock:
            self._texts.append(text)
            many = len(self._texts) >= _KEPT
        if many:
            self.write()

    def write(self) -> None:
        """Writes what has been printed by now."""
        with self._lock:
            texts, self._texts = self._texts, []
            if texts and sys.stdout is not None:
                sys.stdout.write("".join(texts))


def _formatter(printed: Print) -> Callable[[int], str]:
    """Makes the text of a `print` of the values at an address."""
    kinds = [value if isinstance(value, str) else "?7x" for value in printed.values]
    record = struct.Struct("<" + "".join(kinds))

    def text(address: int) -> str:
        values: tuple[Any, ...] = record.unpack(ctypes.string_at(address, record.size)) if printed.values else ()
        return printed.format % tuple(map(_chosen, values, printed.values))

    return text


def _chosen(value: Any, kind: str | tuple[str, ...]) -> Any:
    """A number, or which of two texts it stands for: true is the first."""
    if isinstance(kind, str):
        return value
    return kind[not value]
