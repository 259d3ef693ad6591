"""Loads machine code for the CPU into this process; cached code is only linked, by LLVM.

native = load_native(object_code)                 made before by `cpu/native`
native.address("cuda_device.run")                 an exported function, for ctypes
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from cuda_device.cache.entries import Kept
from cuda_device.codegen import llvm
from cuda_device.codegen.llvm import Linked
from cuda_device.cpu.processor import identity, vector_library
from cuda_device.cpu.records import EXPORTS, RUN, STRAIGHT, SUPPORT
from cuda_device.extend import CompilerBug, disk
from cuda_device.instrument.outline import ProgramSummary
from cuda_device.types.architectures import Architecture


class Native:
    """Machine code in this process. Its addresses are valid as long as this object lives."""

    def __init__(self, object_code: bytes, linked: Linked, ir: str = "", level: int = 2) -> None:
        self.object_code = object_code
        self._linked, self.ir, self._level = linked, ir, level

    def address(self, name: str) -> int:
        """The address of the exported function `name`."""
        return self._linked.addresses[name]

    @property
    def assembly(self) -> str:
        """The machine code as text; empty for code that was cached."""
        from cuda_device.cpu import native

        return native.assembly_of(self.ir, self._level) if self.ir else ""


def compile_native(
    ir: str,
    symbols: Mapping[str, int] | None = None,
    level: int = 2,
    exports: Sequence[str] = (RUN,),
    alone: bool = False,
) -> Native:
    """Compiles the module `ir`, whose functions `exports` can then be called.

    `symbols` are the addresses of declared functions that the process does not have. `level` is LLVM's optimisation level, 0 to
    3. A module that is `alone` calls no `SUPPORT` functions. Raises `CompilerBug` with the line if LLVM rejects the text.
    """
    from cuda_device.cpu import native

    module, object_code = native.compile_module(ir, level)
    try:
        return Native(object_code, link(object_code, symbols or {}, exports, alone), ir, level)
    except RuntimeError as error:
        known = {*SUPPORT, *(symbols or {})}
        missing = native.unknown(module, known)
        raise CompilerBug(f"cannot link machine code ({error}); unknown functions: {missing}") from error


def load_native(object_code: bytes) -> Native:
    """Loads a kernel that was compiled on a machine with the same `identity()`."""
    return Native(object_code, link(object_code, {}, (RUN,)))


def link(object_code: bytes, symbols: Mapping[str, int], exports: Sequence[str], alone: bool = False) -> Linked:
    """Links an object file; see `compile_native`. Raises `RuntimeError` if a function is unknown."""
    if b"_ZGV" in object_code:
        vector_library()
    # Only the object's symbol table tells which helpers the code generator calls.
    known = {name: _support(name) for name in SUPPORT if name.encode() in object_code and not alone}
    if b".debug_info" not in object_code:
        return llvm.link(object_code, {**known, **symbols}, exports)
    from cuda_device.cpu import native

    return native.link_for_debuggers(object_code, {**known, **symbols}, exports)


@functools.cache
def _support(name: str) -> int:
    """The address of a `SUPPORT` function, which is compiled when a kernel first calls it."""

    def text() -> str:
        from cuda_device.cpu import host_code, scheduler

        return scheduler.scheduler_text(name) if name in EXPORTS else host_code.support_text(name)

    # Functions with floats of 16 bits as parameters (see `native`) or with loops over lanes must not be `quick`.
    return shared_functions(name, text, (name,), quick=name in STRAIGHT)[name]


def piece(
    name: str,
    text: Callable[[], str],
    exports: Sequence[str],
    symbols: Mapping[str, int] | None = None,
    quick: bool = False,
) -> Linked:
    """Functions that kernels and launches share; for `symbols` see `compile_native`, for `quick` see `native.compile_piece`.

    The name must contain everything that the text depends on, except the version of this package.
    """

    def make() -> bytes:
        from cuda_device.cpu import native

        return native.compile_piece(text(), quick)

    whole = " ".join((name, "quick" * quick, identity()))
    return disk.loaded(whole, make, lambda object_code: link(object_code, symbols or {}, exports, alone=True))


_KEPT: list[Linked] = []


def shared_functions(
    name: str,
    text: Callable[[], str],
    exports: Sequence[str],
    symbols: Mapping[str, int] | None = None,
    quick: bool = False,
) -> dict[str, int]:
    """The addresses of functions that are never unloaded; the parameters are those of `piece`."""
    linked = piece(name, text, exports, symbols, quick)
    _KEPT.append(linked)
    return {name: linked.addresses[name] for name in exports}


# In the cache


def _key(program: ProgramSummary, architecture: Architecture, options: str) -> tuple[str, ...]:
    return "native", identity(), repr(architecture), options, program.digest, program.outline.symbol


def _pack(native: Native, key: tuple[str, ...]) -> bytes:
    return b"\0".join((key[-1].encode(), native.object_code))  # the kernel's name, for `cache list`


def _unpack(data: bytes) -> Native:
    return load_native(data.split(b"\0", 1)[1])


KEPT = Kept(_key, _pack, _unpack)
