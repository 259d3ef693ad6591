"""What `match` asks of values, in Python: compiled like a user's functions. It is for `bytecode`, so nothing is imported here."""

from __future__ import annotations

from typing import Any


def values_of(mapping: Any, keys: Any) -> Any:
    """What a mapping pattern of `match` takes: the values of the keys, or None if one of them is not there."""
    for key in keys:
        if key not in mapping:
            return None
    return tuple(mapping[key] for key in keys)
