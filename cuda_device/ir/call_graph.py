"""Who calls whom: `recursive({"even": {"odd"}, "odd": {"even"}, "k": {"odd"}})  ->  {"even", "odd"}`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

Calls = Mapping[str, Collection[str]]
"""What each function calls; what is not among them calls nothing."""


def reached(calls: Calls) -> dict[str, set[str]]:
    """The functions that each one calls, directly or not."""
    return {name: _reached(calls, name) for name in calls}


def recursive(calls: Calls) -> set[str]:
    """The functions that come to call themselves."""
    return {name for name, found in reached(calls).items() if name in found}


def _reached(calls: Calls, name: str) -> set[str]:
    found: set[str] = set()
    todo = [name]
    while todo:
        fresh = set(calls.get(todo.pop(), ())) - found
        found |= fresh
        todo += fresh
    return found
