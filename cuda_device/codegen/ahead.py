"""LLVM's library is loaded while Python imports the compiler: what the first kernel of a process would wait for otherwise.

    ahead.load_llvm()       # returns at once
    import llvmlite.binding # later: finds the library loaded, or waits for it

To load it takes 7 ms, and none of that Python's lock. So a thread of its own does nothing else: no module is imported there.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import sys
import threading
from pathlib import Path

_NAMES = {"win32": "llvmlite.dll", "darwin": "libllvmlite.dylib"}


@functools.cache
def load_llvm() -> None:
    """Begins to load it, once in a process."""
    found = importlib.util.find_spec("llvmlite")
    if "llvmlite.binding" in sys.modules or found is None or not found.submodule_search_locations:
        return
    folder = Path(found.submodule_search_locations[0], "binding")
    library = str(folder / _NAMES.get(sys.platform, "libllvmlite.so"))
    threading.Thread(target=_load, args=(library,), name="load LLVM", daemon=True).start()


def _load(library: str) -> None:
    with contextlib.suppress(OSError):  # whoever needs it says what is wrong
        ctypes.CDLL(library)
