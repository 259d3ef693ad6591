"""Refusals of calls of builtins with arguments that they do not take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell


def no_keywords(name: str, named: Mapping[str, Cell]) -> None:
    """Refuses keywords."""
    if named:
        raise CompileError(f"{name} takes no keyword arguments in device code", help="give the arguments by position")


def check_count(name: str, positional: Sequence[Cell], low: int, high: int) -> None:
    """Refuses too few or too many arguments."""
    if not low <= len(positional) <= high:
        count = str(low) if low == high else f"{low} to {high}"
        raise CompileError(
            f"{name} takes {count} argument{'s' * (count != '1')}, not {len(positional)}",
            help=f"give {name} what it takes in Python",
        )
