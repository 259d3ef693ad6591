"""What of device code is written in Python: modules whose functions are compiled like a user's, and what they stand for."""

from __future__ import annotations

from cuda_device.device import (
    array_functions,
    complex_functions,
    complex_numbers,
    copying,
    iterators,
    matching,
    numbers,
    prelude,
    standard,
)

_MODULES = (
    array_functions,
    complex_functions,
    complex_numbers,
    copying,
    iterators,
    matching,
    numbers,
    prelude,
    standard,
)
NAMES = frozenset(module.__name__ for module in _MODULES)
"""The names of these modules: in their functions, messages tell where the user called them."""
REPLACEMENTS = prelude.REPLACEMENTS | standard.REPLACEMENTS | iterators.REPLACEMENTS
"""By a function of Python, the one that device code runs instead."""
