"""Parts of a module in PTX: what stands before the functions, and each function. Registers are local to a function.

functions(ptx)  ->  [".version 8.8 …", ".visible .entry k(…) {…}", ".func f(…) {…}"]
"""

from __future__ import annotations

import re
from collections.abc import Callable

_FUNCTION = re.compile(r"^(?=.*\.(?:entry|func)\b)", re.M)


def functions(ptx: str) -> list[str]:
    """The parts of a module: what stands before the functions, and each of these."""
    return _FUNCTION.split(ptx)


def by_function(ptx: str, change: Callable[[str], str]) -> str:
    """A module with each of its functions changed."""
    return "".join(map(change, functions(ptx)))
