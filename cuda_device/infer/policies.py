"""Rules of inference that a kernel can have in place of Python's (`Options.policy`).

    class Wide(Policy):                                      # x[i] + 0.5 is computed in float64
        def operands(self, frame, sign, cells):
            return [frame.convert(cell, FLOAT64) for cell in cells]

    POLICY = Wide()                                          # in the module that `hooks.POLICIES` names

A policy applies to all functions of a program but those of this package, which rely on Python's rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuda_device import hooks
from cuda_device.infer.frame import Cell, Frame
from cuda_device.types.known import Known, State

__all__ = ["Cell", "Frame", "Policy"]

Call = tuple[Cell, Sequence[Cell], Mapping[str, Cell]]


class Policy:
    """Python's rules; a subclass overrides what is different. All methods may raise `CompileError`."""

    wraps = False
    """Whether constants from -2**63 to 2**64 - 1 wrap in integer types that they do not fit, instead of being an error."""
    references = False
    """Whether a name for an element of a structured array refers to the element, instead of copying it."""

    def argument(self, frame: Frame, cell: Cell) -> Cell:
        """Returns what the kernel gets for an argument."""
        return cell

    def operands(self, frame: Frame, sign: str, cells: list[Cell]) -> list[Cell]:
        """Returns what an operator computes with, for one or two operands. `sign` is Python's: `+`, `<`, `not`."""
        return cells

    def result(self, frame: Frame, cell: Cell) -> Cell:
        """Returns what the function gets for the result of an operation, a constant, or the value of a name or attribute."""
        return cell

    def call(self, frame: Frame, function: Cell, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Call:
        """Returns the function that is called instead of `function`, and its positional and named arguments."""
        return function, positional, named

    def joined(self, known: Known) -> Known:
        """Returns the facts about a value where it meets a different one: where control flow joins, or as a result."""
        return known


def named(name: str) -> Policy | None:
    """The policy that `hooks.POLICIES` has under this name; None for Python's rules. Raises `PluginError` without its plugin."""
    policy: Policy | None = hooks.plugin(hooks.POLICIES[name]).POLICY if name else None
    return policy


def join_columns(policy: Policy, incoming: Sequence[Sequence[State]]) -> list[list[State]]:
    """The states on the edges into a block, with those that differ between edges as the policy joins them."""
    columns = (
        column
        if all(state == column[0] for state in column)
        else [policy.joined(state) if isinstance(state, Known) else state for state in column]
        for column in zip(*incoming, strict=True)
    )
    return [list(states) for states in zip(*columns, strict=True)]
