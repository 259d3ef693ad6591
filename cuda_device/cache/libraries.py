"""Objects that Python, NumPy, ml_dtypes and this package define: their names, with the versions, say all about them.

name_of(math.floor)        "math:floor"
name_of(floor_of_mine)     None
"""

from __future__ import annotations

import functools
import os
import sys
from types import ModuleType

import ml_dtypes
import numpy as np


def _folder(module: ModuleType) -> str:
    return os.path.dirname(str(module.__file__)) + os.sep


_OWN = __name__.partition(".")[0]
_LIBRARIES = (_folder(np), _folder(ml_dtypes))


@functools.cache
def _is_library(name: str) -> bool:
    """Whether a module is Python's, NumPy's, ml_dtypes' or ours: a version says all of it. A user's may have the name of one."""
    module = sys.modules.get(name)
    spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None) or ""
    if name.partition(".")[0] == _OWN or getattr(spec, "origin", None) in ("built-in", "frozen"):
        return True
    standard = file.startswith(_folder(os)) and not any(
        f"{os.sep}{kind}-packages{os.sep}" in file for kind in _PACKAGES
    )
    return standard or file.startswith(_LIBRARIES)


_PACKAGES = ("site", "dist")


def name_of(value: object) -> str | None:
    """The whole name of what a library defines; None if it is nothing of that."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(value, np.ufunc):
        module, name = "numpy", value.__name__
    if not isinstance(module, str) or not isinstance(name, str) or not _is_library(module):
        return None
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is value else None
