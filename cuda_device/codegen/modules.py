"""A module in LLVM's memory that dies before its context, whoever collects it.

Each module has a context of its own, which owns its types and constants: they go when it goes, and no name is changed
because of an earlier kernel. LLVM wants the module destroyed first; Python's collector destroys the members of a cycle,
such as a traceback's frames, in any order, and the process with them. A finaliser outside of the cycle keeps the order.

    module = read_assembly("define void @f() { ret void }")      # RuntimeError where LLVM cannot read it
    module.handle.get_function("f")
"""

from __future__ import annotations

import threading
import weakref
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from cuda_device.lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Module:
    """`handle` is llvmlite's reference to the module; it is dead when this object is. `str` gives the module's text."""

    handle: Any
    context: Any

    def __post_init__(self) -> None:
        weakref.finalize(self, _close, self.handle, self.context).atexit = False

    def __str__(self) -> str:
        return str(self.handle)

    def link(self, text: str) -> None:
        """Adds what this IR text defines and this module wants. Raises `RuntimeError`."""
        self.handle.link_in(llvm.parse_assembly(text, self.context))


def read_assembly(text: str) -> Module:
    """The module of this IR text. Raises `RuntimeError`."""
    context = llvm.create_context()
    return Module(llvm.parse_assembly(text, context), context)


def read_bitcode(data: bytes) -> Module:
    """The module of this bitcode. Raises `RuntimeError`."""
    context = llvm.create_context()
    return Module(llvm.parse_bitcode(data, context), context)


def pass_builder(machine: Any, tuning: Any) -> Any:
    """What makes LLVM's pipelines for a target machine. They are made with the limits that are set by then."""
    _set_limits()
    return llvm.create_pass_builder(machine, tuning)


def run_passes(manager: Any, handle: Any, builder: Any) -> None:
    """Runs a pass manager over a module and frees it. It runs once: LLVM's inliner empties itself, and would end the process."""
    try:
        manager.run(handle, builder)
    finally:
        # llvmlite 0.50 inherits the `_dispose` that does nothing: 130 KB would stay behind for each kernel.
        llvm.NewPassManager._dispose(manager)
        manager.detach()


# Whoever writes code holds it: that LLVM reduces the strength of loops, or not, is said for the whole process.
_WRITING = threading.Lock()


def write_assembly(machine: Any, handle: Any, reduce: bool = True) -> str:
    """A module as text for an assembler; `reduce` says whether LLVM reduces the strength of loops. It changes the module."""
    with _WRITING:
        if reduce:
            return str(machine.emit_assembly(handle))
        llvm.set_option("", "--disable-lsr=1")
        try:
            return str(machine.emit_assembly(handle))
        finally:
            llvm.set_option("", "--disable-lsr=0")


def write_object(machine: Any, handle: Any) -> bytes:
    """A module as an object file."""
    with _WRITING:
        return bytes(machine.emit_object(handle))


@cache
def _set_limits() -> None:
    """What loops LLVM unrolls, and which branches it joins, in the whole process: it has no other way to say these."""
    # A loop is unrolled, too, whose number of passes takes a maximum and a shift to compute: one with a step that is known.
    # LLVM allows 4 such instructions. A division, of a step that only run time knows, would cost more than it brings.
    llvm.set_option("", "--scev-cheap-expansion-budget=8")
    # So is a loop that is known to end after 3 to 7 passes, though not whether after fewer,
    llvm.set_option("", "--unroll-max-upperbound=2")
    # and what is left of an unrolled loop.
    llvm.set_option("", "--unroll-remainder")
    # Four passes may become 150 instructions, twice as many as LLVM allows here: as many as in a body of the n-body problem.
    llvm.set_option("", "--unroll-partial-threshold=150")
    # More than 4 passes are left to the assembler, which unrolls only what is short.
    llvm.set_option("", "--unroll-max-count=4")
    # `a and b` is one branch where b is a comparison and up to 4 instructions: branches that diverge cost more than those.
    llvm.set_option("", "--bonus-inst-threshold=4")


def _close(handle: Any, context: Any) -> None:
    handle.close()
    context.close()
