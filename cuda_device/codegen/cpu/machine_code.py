"""Machine code of kernels for the CPU, in this process: from the cache, without LLVM, where that is possible.

native = load_native(object_code)                 made before by `codegen/cpu/native`
native.address("cuda_device.run")                 an exported function, for ctypes
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from cuda_device.cache import disk
from cuda_device.cache.programs import Kept, ProgramSummary
from cuda_device.codegen.cpu import object_loader
from cuda_device.codegen.cpu.processor import LOCK, identity
from cuda_device.codegen.cpu.runner import CREW, EXPORTS, RUN, SUPPORT, WIDE_ATOMICS
from cuda_device.errors import CompilerBug
from cuda_device.types.architectures import Architecture


class Native:
    """Machine code in this process. It lives as long as this object: whoever calls an address keeps the object."""

    def __init__(self, object_code: bytes, linked: Linked, bitcode: bytes = b"", level: int = 2) -> None:
        self.object_code = object_code
        self._linked, self._bitcode, self._level = linked, bitcode, level

    def address(self, name: str) -> int:
        """Where the exported function `name` starts."""
        return self._linked.addresses[name]

    @property
    def optimised(self) -> str:
        """The LLVM IR as the code generator saw it; empty for code that came from a cache."""
        from cuda_device.codegen.cpu import native

        return native.text_of(self._bitcode) if self._bitcode else ""

    @property
    def assembly(self) -> str:
        """The machine code as text; empty for code that came from a cache."""
        from cuda_device.codegen.cpu import native

        return native.assembly_of(self._bitcode, self._level) if self._bitcode else ""


class Linked:
    """What a linker made: the addresses of functions, and whatever keeps them."""

    def __init__(self, addresses: Mapping[str, int], keep: object) -> None:
        self.addresses, self._keep = addresses, keep


def compile_native(
    ir: str,
    symbols: Mapping[str, int] | None = None,
    level: int = 2,
    exports: Sequence[str] = (RUN,),
    alone: bool = False,
) -> Native:
    """Machine code for the module `ir`, whose functions `exports` can then be called.

    `symbols` gives addresses to functions that the module declares and that neither the process nor its C library
    knows. `level` is LLVM's optimisation level, 0 to 3. A module that is `alone` calls nothing of what kernels call. One that
    LLVM refuses is a `CompilerBug` that shows the line.
    """
    from cuda_device.codegen.cpu import native

    with LOCK:
        module, object_code, bitcode = native.compile_module(ir, level)
        try:
            return Native(object_code, link(object_code, symbols or {}, exports, alone), bitcode, level)
        except RuntimeError as error:
            known = {*SUPPORT, *(symbols or {})}
            missing = native.unknown(module, known)
            raise CompilerBug(f"cannot link machine code ({error}); unknown functions: {missing}") from error


def load_native(
    object_code: bytes, symbols: Mapping[str, int] | None = None, exports: Sequence[str] = (RUN,)
) -> Native:
    """Machine code made before on a machine with the same `identity()`; `symbols` are addresses of functions that it calls."""
    return Native(object_code, link(object_code, symbols or {}, exports))


def link(object_code: bytes, symbols: Mapping[str, int], exports: Sequence[str], alone: bool = False) -> Linked:
    """Links an object file, which may be `alone`: it calls nothing of what kernels call. Raises `RuntimeError` if it cannot."""

    def find(name: str) -> int | None:
        ours = _support(name) if name in SUPPORT and not alone else None
        return symbols.get(name) or ours or object_loader.in_process(name)

    try:
        code = object_loader.load(object_code, find)
        return Linked(code.addresses, code)
    except object_loader.UnsupportedObject:
        from cuda_device.codegen.cpu import native

        # Which helpers the code generator calls only the object's table of names tells.
        called = () if alone else (name for name in SUPPORT if name.encode() in object_code)
        known = {name: _support(name) for name in called}
        return Linked(*native.link(object_code, {**known, **symbols}, exports))


@functools.cache
def _support(name: str) -> int:
    """The address of a function of ours that kernels call. It is compiled when a kernel first calls it."""

    def text() -> str:
        from cuda_device.codegen.cpu import runtime_library, scheduler

        return scheduler.text(name) if name in EXPORTS else runtime_library.text(name)

    names = WIDE_ATOMICS if name in WIDE_ATOMICS else (name,)
    # Quick code takes no floats of 16 bits through calls (see `native`), and no vectors of what lanes bring.
    return shared(names[0], text, names, level=2, quick=name in EXPORTS and name != CREW)[name]


def piece(
    name: str,
    text: Callable[[], str],
    exports: Sequence[str],
    symbols: Mapping[str, int] | None = None,
    level: int = 0,
    quick: bool = False,
) -> Linked:
    """Functions that kernels and launches share; `symbols` and `level` as in `compile_native`.

    The name says all that their text depends on, but for our code generator. `quick`: see `native.compile_piece`.
    """

    def make() -> bytes:
        from cuda_device.codegen.cpu import native

        return native.compile_piece(text(), level, quick)

    whole = " ".join((name, "quick" if quick else str(level), identity()))
    with LOCK:
        return disk.loaded(whole, make, lambda object_code: link(object_code, symbols or {}, exports, alone=True))


_KEPT: list[Linked] = []


def shared(
    name: str,
    text: Callable[[], str],
    exports: Sequence[str],
    symbols: Mapping[str, int] | None = None,
    level: int = 0,
    quick: bool = False,
) -> dict[str, int]:
    """The addresses of functions that stay in the process for good; the parameters are those of `piece`."""
    made = piece(name, text, exports, symbols, level, quick)
    _KEPT.append(made)
    return {name: made.addresses[name] for name in exports}


# In the cache


def _key(program: ProgramSummary, architecture: Architecture, options: str) -> tuple[str, ...]:
    return "native", identity(), repr(architecture), options, program.digest


def _pack(native: Native, key: tuple[str, ...]) -> bytes:
    return native.object_code


KEPT = Kept(_key, _pack, load_native)
