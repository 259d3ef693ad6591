"""Loads machine code for the CPU into this process; cached code is loaded without LLVM.

native = load_native(object_code)                 made before by `codegen/cpu/native`
native.address("cuda_device.run")                 an exported function, for ctypes
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import platform
import struct
from collections.abc import Callable, Mapping, Sequence

from cuda_device.cache import disk
from cuda_device.cache.programs import Kept
from cuda_device.codegen.cpu.processor import LOCK, identity, vector_library
from cuda_device.codegen.cpu.records import EXPORTS, RUN, STRAIGHT, SUPPORT
from cuda_device.codegen.gpu.elf import Section, Symbol, content, sections, symbols
from cuda_device.errors import CompilerBug
from cuda_device.instrument.outline import ProgramSummary
from cuda_device.types.architectures import Architecture

# Links object files without LLVM, because loading LLVM's library takes longer than running a kernel. The objects of kernels are
# simple: instructions and constants that refer to each other by relative addresses, and calls of external functions. For all
# other objects `UnsupportedObject` is raised, and LLVM's linker takes over.

_X86_64 = b"\x7fELF\2\1\1"
_RELOCATABLE, _MACHINE = 1, 62
# Kinds of sections, and their flags.
_BITS, _RELOCATIONS, _ZEROS = 1, 4, 8
_WRITE, _ALLOCATE, _THREAD_LOCAL = 1, 2, 0x400
_RELOCATION = struct.Struct("<QIIq")
_UNDEFINED, _RESERVED, _FILE = 0, 0xFF00, 4
# Relocations: an address of 64 bits, a relative address of 32 bits, the same of a function that may be external.
_ADDRESS, _DISTANCE, _CALL = 1, 2, 4
# jmp *0(%rip), followed by the address.
_JUMP = struct.Struct("<6sQ2x")
_JUMP_THERE = b"\xff\x25\0\0\0\0"


class UnsupportedObject(Exception):
    """Raised for an object file that only LLVM's linker can link."""


class Linked:
    """The result of a linker: the addresses of functions, and the object that owns their code."""

    def __init__(self, addresses: Mapping[str, int], keep: object) -> None:
        self.addresses, self._keep = addresses, keep


def load(object_code: bytes, find: Callable[[str], int | None]) -> Linked:
    """Loads an object file; `find` returns the addresses of external functions. Raises `UnsupportedObject`."""
    if platform.machine() != "x86_64" or not object_code.startswith(_X86_64):
        raise UnsupportedObject("the machine")
    if struct.unpack_from("<HH", object_code, 16) != (_RELOCATABLE, _MACHINE):
        raise UnsupportedObject("the file")
    found = sections(object_code)
    named = list(symbols(object_code))
    if any(symbol.section >= _RESERVED and symbol.kind != _FILE for symbol in named):  # the file's name has no section
        raise UnsupportedObject("a symbol")
    elsewhere = {symbol.name: find(symbol.name) for symbol in named if not symbol.section and symbol.name}
    if None in elsewhere.values():
        raise UnsupportedObject(f"a name: {elsewhere}")
    places, jumps, writable, size = _laid_out(found, len(elsewhere))
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.c_char.from_buffer(memory)
    base = ctypes.addressof(start)
    for number, place in places.items():
        if found[number].kind == _BITS:
            memory[place : place + found[number].size] = content(object_code, found[number])
    at = {name: base + jumps + _JUMP.size * i for i, name in enumerate(elsewhere)}
    for name, address in elsewhere.items():
        _JUMP.pack_into(memory, at[name] - base, _JUMP_THERE, address)
    values = [base + places[s.section] + s.value if s.section in places else at.get(s.name) for s in named]
    for number, place in places.items():
        for section in found:
            if section.kind == _RELOCATIONS and section.info == number:
                _relocate(memory, base, place, content(object_code, section), values, named)
    _protect(base, writable)
    exported = zip(named, values, strict=True)
    addresses = {s.name: value for s, value in exported if s.is_global and s.section and value is not None}
    return Linked(addresses, (memory, start))


def _laid_out(found: list[Section], jumps: int) -> tuple[dict[int, int], int, int, int]:
    """The offsets of the sections by their numbers, of the jumps and of writable memory, and the size of all."""
    kept = {i: section for i, section in enumerate(found) if section.flags & _ALLOCATE and section.name != ".eh_frame"}
    if any(section.kind not in (_BITS, _ZEROS) or section.flags & _THREAD_LOCAL for section in kept.values()):
        raise UnsupportedObject("a section")
    places, end = {}, 0
    for number, section in kept.items():
        if not section.flags & _WRITE:
            places[number] = _aligned(end, section.align)
            end = places[number] + section.size
    first_jump = _aligned(end, 16)
    writable = end = _aligned(first_jump + jumps * _JUMP.size, mmap.PAGESIZE)
    for number, section in kept.items():
        if section.flags & _WRITE:
            places[number] = _aligned(end, section.align)
            end = places[number] + section.size
    return places, first_jump, writable, max(end, mmap.PAGESIZE)


def _aligned(place: int, align: int) -> int:
    return -(-place // max(align, 1)) * max(align, 1)


def _relocate(
    memory: mmap.mmap, base: int, place: int, relocations: bytes, values: list[int | None], named: list[Symbol]
) -> None:
    """Applies the relocations of a section."""
    for offset, kind, number, more in _RELOCATION.iter_unpack(relocations):
        value = values[number]
        is_here = named[number].section != _UNDEFINED
        if value is None or not (kind == _CALL or (is_here and kind in (_ADDRESS, _DISTANCE))):
            raise UnsupportedObject(f"a reference of the kind {kind}")
        if kind == _ADDRESS:
            struct.pack_into("<Q", memory, place + offset, value + more)
        else:
            struct.pack_into("<i", memory, place + offset, value + more - (base + place + offset))


@functools.cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _protect(start: int, size: int) -> None:
    """Makes memory executable and read-only."""
    if _process().mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise UnsupportedObject("memory that can be executed")


def in_process(name: str) -> int | None:
    """The address of a function of this process, for example of the C library; None if there is none."""
    if name.startswith("_ZGV"):
        vector_library()
    try:
        return ctypes.cast(getattr(_process(), name), ctypes.c_void_p).value
    except (AttributeError, ValueError):
        return None


class Native:
    """Machine code in this process. Its addresses are valid as long as this object lives."""

    def __init__(self, object_code: bytes, linked: Linked, bitcode: bytes = b"", level: int = 2) -> None:
        self.object_code = object_code
        self._linked, self._bitcode, self._level = linked, bitcode, level

    def address(self, name: str) -> int:
        """The address of the exported function `name`."""
        return self._linked.addresses[name]

    @property
    def assembly(self) -> str:
        """The machine code as text; empty for code that was cached."""
        from cuda_device.codegen.cpu import native

        return native.assembly_of(self._bitcode, self._level) if self._bitcode else ""


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
    from cuda_device.codegen.cpu import native

    with LOCK:
        module, object_code, bitcode = native.compile_module(ir, level)
        try:
            return Native(object_code, link(object_code, symbols or {}, exports, alone), bitcode, level)
        except RuntimeError as error:
            known = {*SUPPORT, *(symbols or {})}
            missing = native.unknown(module, known)
            raise CompilerBug(f"cannot link machine code ({error}); unknown functions: {missing}") from error


def load_native(object_code: bytes) -> Native:
    """Loads a kernel that was compiled on a machine with the same `identity()`."""
    return Native(object_code, link(object_code, {}, (RUN,)))


def link(object_code: bytes, symbols: Mapping[str, int], exports: Sequence[str], alone: bool = False) -> Linked:
    """Links an object file; see `compile_native`. Raises `RuntimeError` if a function is unknown."""

    def find(name: str) -> int | None:
        ours = _support(name) if name in SUPPORT and not alone else None
        return symbols.get(name) or ours or in_process(name)

    is_debugged = b".debug_info" in object_code
    with contextlib.suppress(UnsupportedObject):
        if not is_debugged:
            return load(object_code, find)
    from cuda_device.codegen.cpu import native

    vector_library()
    # Only the object's symbol table tells which helpers the code generator calls.
    known = {name: _support(name) for name in SUPPORT if name.encode() in object_code and not alone}
    linker = native.link_for_debuggers if is_debugged else native.link
    return Linked(*linker(object_code, {**known, **symbols}, exports))


@functools.cache
def _support(name: str) -> int:
    """The address of a `SUPPORT` function, which is compiled when a kernel first calls it."""

    def text() -> str:
        from cuda_device.codegen.cpu import host_code, scheduler

        return scheduler.text(name) if name in EXPORTS else host_code.support_text(name)

    # Functions with floats of 16 bits as parameters (see `native`) or with loops over lanes must not be `quick`.
    return shared(name, text, (name,), quick=name in STRAIGHT)[name]


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
        from cuda_device.codegen.cpu import native

        return native.compile_piece(text(), quick)

    whole = " ".join((name, "quick" * quick, identity()))
    with LOCK:
        return disk.loaded(whole, make, lambda object_code: link(object_code, symbols or {}, exports, alone=True))


_KEPT: list[Linked] = []


def shared(
    name: str,
    text: Callable[[], str],
    exports: Sequence[str],
    symbols: Mapping[str, int] | None = None,
    quick: bool = False,
) -> dict[str, int]:
    """The addresses of functions that are never unloaded; the parameters are those of `piece`."""
    made = piece(name, text, exports, symbols, quick)
    _KEPT.append(made)
    return {name: made.addresses[name] for name in exports}


# In the cache


def _key(program: ProgramSummary, architecture: Architecture, options: str) -> tuple[str, ...]:
    return "native", identity(), repr(architecture), options, program.digest, program.outline.symbol


def _pack(native: Native, key: tuple[str, ...]) -> bytes:
    return b"\0".join((key[-1].encode(), native.object_code))  # the kernel's name, for `cache list`


def _unpack(data: bytes) -> Native:
    return load_native(data.split(b"\0", 1)[1])


KEPT = Kept(_key, _pack, _unpack)
