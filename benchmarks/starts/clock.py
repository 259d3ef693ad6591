"""What the programs of `start.py` share: a clock whose marks are printed as JSON, and a CUDA context to begin with."""

from __future__ import annotations

import ctypes
import time
from typing import Any


def open_context() -> None:
    """Makes device 0's primary context current, as a program that works on a GPU already has it."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    for status in (
        driver.cuInit(0),
        driver.cuDeviceGet(ctypes.byref(device), 0),
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        driver.cuCtxSetCurrent(context),
    ):
        assert status == 0, status


class Clock:
    """Starts when it is made; the time from one mark to the next is the part that the latter names."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self._last = time.perf_counter()

    def mark(self, name: str) -> None:
        """Ends a part."""
        now = time.perf_counter()
        self.parts[name], self._last = now - self._last, now

    def report(self, version: str, **more: Any) -> None:
        """Prints all parts in seconds."""
        import json  # not earlier, because `device.load` imports it, too

        print(json.dumps({"version": version, "parts": self.parts, "stages": {}, **more}))
