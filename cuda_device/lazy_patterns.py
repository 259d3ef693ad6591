"""Regular expressions that are compiled when they are first used.

    _NAME = pattern(r"\\w+")         # nothing yet
    _NAME.findall(text)

To compile one takes as long as to import a module, and most kernels have no use for most of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

__all__ = ["pattern"]


class _Pattern:
    """What `re.compile` gives, but for the time that it takes."""

    def __init__(self, text: str, flags: int = 0) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._given), name)  # which `re` remembers
        setattr(self, name, found)
        return found


if TYPE_CHECKING:
    pattern = re.compile
else:
    pattern = _Pattern
