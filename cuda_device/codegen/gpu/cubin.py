"""Assembles PTX to machine code (a cubin) with one of NVIDIA's assemblers on this machine.

    assemble(ptx, parse("sm_90"))  ->  Cubin(code=b"\\x7fELF...", assembler="ptxas")

The assemblers are tried in the order of `assemblers.ASSEMBLERS`. If one is missing, or older than the PTX or the architecture, or
of a newer release of CUDA than the driver, the next one is used:

    driver      comes with every GPU, and assembles only for the GPU of the current context
    nvJitLink   a library, in the toolkit or from pip
    ptxas       a program of the toolkit

The driver and nvJitLink treat every program as a part of a larger one, in which a division calls a function of another file,
a sequentially consistent fence also waits for shared memory that the kernel does not have, and requests for registers
(`setmaxnreg`) are ignored. For programs with such instructions, the order is reversed. If CUDA_DEVICE_ASSEMBLER is set, only the
assembler that it names is used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from cuda_device.cache.entries import Kept
from cuda_device.codegen.gpu import assembler_logs, elf, ptx_versions
from cuda_device.codegen.gpu.assemblers import (
    ASSEMBLERS,
    Assembler,
    Input,
    Rejection,
    Request,
    Unusable,
    check_inputs,
    loads,
)
from cuda_device.codegen.gpu.elf import Cubin
from cuda_device.errors import CompileError, CompilerBug
from cuda_device.instrument.outline import ProgramSummary
from cuda_device.lazy_dataclasses import replace
from cuda_device.types.architectures import Architecture

VARIABLE = "CUDA_DEVICE_ASSEMBLER"

# The patterns are text, because to compile them takes longer than to load a cached kernel.

# Messages of an assembler that is too old for the PTX or the architecture (the last is nvJitLink's). It is not tried again.
_TOO_OLD = r"Unsupported \.version (?P<version>[\d.]+)|is not defined for option 'gpu-name'|ERROR_UNRECOGNIZED_ARCH"
_VERSION = r"(?m)^\.version (\S+)"
# An instruction needs a newer PTX version than the program states.
_TOO_NEW = r"requires PTX ISA \.version (\d+\.\d+) or later"
_unusable: dict[tuple[Assembler, Architecture, str], str] = {}

# Instructions that become calls of the assembler's own functions, and fences (a counter of `atomic_ref` on an H100: 1.01). In a
# part of a program, `setmaxnreg` is ignored, and products of warpgroups may be serialised (attention on an H200: 1.13).
_BETTER_WHOLE = (
    r"\t(?:(?:div|rcp|sqrt)\.r[nzmp]\.|(?:div|rem)\.[us]64|call\b|fence\.sc\b)|\b(?:setmaxnreg|wgmma|tcgen05)\."
)
# Resources of which a kernel can use too much.
_TOO_MUCH = (
    r"Entry function '(?P<kernel>[^']+)' uses too much (?P<what>shared data|parameter space)"
    r" \(0x(?P<used>[0-9a-f]+) bytes, 0x(?P<most>[0-9a-f]+) max\)"
)
_TOO_MUCH_WORDS = {
    "shared data": ("static shared memory", "use dynamic shared memory, or smaller or fewer shared arrays"),
    "parameter space": ("arguments", "pass large structs and tuples in an array"),
}
_TOO_FEW_REGISTERS = (
    r"Insufficient registers \((?P<most>\d+)\) to compile instruction at line \d+ in function (?P<kernel>\S+)\."
    r".* register target of (?P<least>\d+)"
)

# Directives that bound the registers, and the beginning of a kernel's body.
_BOUNDS = r"\.(?:maxnreg|minnctapersm|maxntid|reqntid)\b"
_BODY = r"(?s)(\.entry\b.*?\)\s*)\{"
_REGISTERS_OF_A_PART, _REGISTER_UNIT = 1 << 14, 8
_SPILLS = 8  # the bytes of stack that it may cost to save a register

_MISSING = r"(?:Undefined reference to|Unresolved extern function) '([^']+)'"
_INLINE = r"(?s)// begin inline asm\n.*?// end inline asm"
_NO_CODE = r"unrecognized input|INVALID_INPUT|library processing|fatal +: Parsing error"
"""Messages of nvJitLink for files of an unknown format."""
_TWICE = r"Linking globals named '([^']+)': symbol multiply|Multiple definition of '([^']+)'"
_LINE = r"line (\d+); (?:error|fatal)"


def assemble(
    ptx: str,
    architecture: Architecture,
    inputs: tuple[Input, ...] = (),
    *,
    line_info: bool = False,
    relocatable: bool = False,
    debug: bool = False,
) -> Cubin:
    """Assembles PTX with the first assembler that is available and new enough, and links it to `inputs`; see `Request`.

    If the program has an instruction that needs a newer PTX version than it says, it is assembled as that version.

    Raises `CompileError` if there is none, if a kernel needs more of a resource than a GPU has, or if linking fails, and
    `CompilerBug` if the PTX is wrong.
    """
    request = Request(ptx, architecture, inputs, line_info, relocatable, debug)
    if inputs:
        check_inputs(Input("the program", ptx.encode()), inputs, architecture)
    directive = re.search(_VERSION, ptx)
    version = directive[1] if directive else ""
    reasons = []
    for assembler in _candidates(request):
        key = (assembler, architecture, version)
        if key not in _unusable and assembler.available(architecture):
            if excess := assembler.excess():
                reasons.append(f"{assembler.name} cannot be used ({excess})")
                continue
            try:
                code = _run(assembler, request)
                return Cubin(code, assembler.name, assembler_logs.read(request.log))
            except Rejection as rejection:
                text = str(rejection).strip()
                if newer := _newer(text, version):
                    options = {"line_info": line_info, "relocatable": relocatable, "debug": debug}
                    return assemble(ptx_versions.with_version(ptx, newer), architecture, inputs, **options)
                too_old = re.search(_TOO_OLD, text)
                is_linked = bool(inputs) and too_old is not None and too_old["version"] not in (None, version)
                if not isinstance(rejection, Unusable) and (too_old is None or is_linked):
                    raise _explain(assembler, request, text) from None
                _unusable[key] = f"{assembler.name} cannot be used ({text.splitlines()[0]})"
        reasons += [_unusable[key]] if key in _unusable else []
    raise _none_left(architecture, reasons, request)


def _newer(log: str, version: str) -> str:
    """The PTX version that an assembler's message asks for, if it is newer than that of the program; else empty."""
    required = max(re.findall(_TOO_NEW, log), key=float, default="")
    return required if required and version and float(required) > float(version) else ""


def _run(assembler: Assembler, request: Request) -> bytes:
    """Assembles, and again with a register or two less if more warps are resident then (Hartree-Fock on an H200: 1.08)."""
    code = assembler.run(request)
    # The order is reversed for some programs, so the assembler may be newer than the driver.
    if assembler.name != "driver" and _is_better_whole(request) and not loads(code, request.architecture):
        raise Unusable("the driver of this GPU does not accept its code")
    if (
        request.is_whole
        and not request.debug
        and len(counts := elf.registers(code)) == 1
        and not re.search(_BOUNDS, request.ptx)
    ):
        ((kernel, registers),) = counts.items()
        if most := fewer_registers(registers):
            bound = re.sub(_BODY, rf"\1.maxnreg {most}\n{{", request.ptx, count=1)
            bounded = replace(request, ptx=bound, log=[*request.log])
            tight = assembler.run(bounded)
            if elf.registers(tight).get(kernel, registers) <= most and _stack(tight) <= _stack(code) + _SPILLS:
                request.log[:] = bounded.log
                return tight
    return code


def fewer_registers(registers: int) -> int | None:
    """The number of registers, one or two less, with which more warps are resident; None if there is none."""
    least = (registers - 1) // _REGISTER_UNIT * _REGISTER_UNIT
    return least if 0 < registers - least <= 2 and _resident_warps(registers) < _resident_warps(least) else None


def _resident_warps(registers: int) -> int:
    """The number of warps with this many registers per thread on each of the four partitions of a multiprocessor."""
    return min(16, _REGISTERS_OF_A_PART // (32 * max(-(-registers // _REGISTER_UNIT) * _REGISTER_UNIT, 1)))


def _stack(code: bytes) -> int:
    return max(elf.stacks(code).values(), default=0)


def _is_better_whole(request: Request) -> bool:
    """Whether the code depends on whether the assembler treats the program as a whole."""
    return request.is_whole and re.search(_BETTER_WHOLE, request.ptx) is not None


def identity(architecture: Architecture) -> str:
    """The assemblers that `assemble` may use and their versions, for cache keys. Raises `CompileError` if there is none."""
    able = _candidates()
    installed = [assembler for assembler in able if assembler.installed()]
    first = next(
        (item for item in able if (item in installed or item.available(architecture)) and not item.excess()), None
    )
    if first is None:
        raise _none_left(architecture, [f"{item.name} cannot be used ({item.excess()})" for item in installed])
    return ", ".join(item.identity() for item in able if item is first or item in installed)


def _candidates(request: Request | None = None) -> tuple[Assembler, ...]:
    """The assemblers that support the request, or only the one that the environment variable names if it does."""
    able = tuple(assembler for assembler in ASSEMBLERS if request is None or assembler.can(request))
    if request is not None and _is_better_whole(request):
        able = able[::-1]
    forced = os.environ.get(VARIABLE, "")
    if not forced:
        return able
    for assembler in ASSEMBLERS:
        if assembler.name.lower() == forced.lower():
            return (assembler,) if assembler in able else able
    names = ", ".join(assembler.name for assembler in ASSEMBLERS)
    raise CompileError(f"{VARIABLE} is {forced!r}, which is not an assembler", help=f"set it to one of {names}")


def _explain(assembler: Assembler, request: Request, log: str) -> Exception:
    """The error for a rejected program: a `CompileError` if the user can correct it, else a `CompilerBug` with the lines."""
    if excess := re.search(_TOO_MUCH, log):
        resource, help = _TOO_MUCH_WORDS[excess["what"]]
        used, most = int(excess["used"], 16), int(excess["most"], 16)
        return CompileError(f"{excess['kernel']} needs {used} bytes of {resource}; the limit is {most}", help=help)
    if few := re.search(_TOO_FEW_REGISTERS, log):
        return CompileError(
            f"an instruction of {few['kernel']} needs {few['least']} registers a thread, and a thread may use {few['most']}",
            help="raise max_registers, lower max_threads or min_blocks, or multiply smaller matrices",
        )
    if missing := dict.fromkeys(re.findall(_MISSING, log)):
        return CompileError(
            f"nothing defines {', '.join(missing)}",
            help='link the code that defines it: link=… of @extern, @kernel or compile; in C++, declare it extern "C" __device__',
        )
    if twice := re.search(_TWICE, log):
        names = ", ".join(["the program", *(item.name for item in request.inputs)])
        return CompileError(f"{twice[1] or twice[2]} is defined twice, in {names}", help="link only one of them")
    if request.inputs:
        names = ", ".join(item.name for item in request.inputs)
        help = "link code for this architecture"
        if re.search(_TOO_OLD, log):
            help = f"install a newer {assembler.name}, or link code of an older CUDA toolkit"
        if re.search(_NO_CODE, log):
            help = "pass C++, or what nvcc, NVRTC or clang makes of it: PTX, a cubin, LTO-IR, bitcode, an object or a library"
        return CompileError(f"{assembler.name} cannot link the kernel to {names}: {log}", help=help)
    numbers = [int(number) for number in re.findall(_LINE, log)]
    return _of_inline_ptx(assembler, request, log, numbers) or _bug(assembler, request, log, numbers)


def _of_inline_ptx(assembler: Assembler, request: Request, log: str, numbers: Sequence[int]) -> CompileError | None:
    """The error for PTX of the user's that is rejected; None if the rejected lines are ours."""
    lines = request.ptx.splitlines()
    left = re.sub(_INLINE, lambda block: "\n" * block[0].count("\n"), request.ptx).splitlines()
    for number in numbers:
        if 0 < number <= len(lines) and lines[number - 1].strip() and not left[number - 1]:
            said = next((line for line in log.splitlines() if f"line {number};" in line), log).rpartition("error")[2]
            said = said.strip(" :") or "invalid"
            return CompileError(
                f"{assembler.name} does not accept the PTX '{lines[number - 1].strip()}' for {request.architecture}: {said}",
                help="the PTX ISA lists the operands and the targets of each instruction",
            )
    return None


def _bug(assembler: Assembler, request: Request, log: str, numbers: Sequence[int]) -> CompilerBug:
    """The error for PTX of ours that is rejected, with the lines."""
    lines = request.ptx.splitlines()
    culprits = [f"  {number:5} | {lines[number - 1]}" for number in dict.fromkeys(numbers) if 0 < number <= len(lines)]
    head = f"{assembler.name} rejects the generated PTX for {request.architecture}:"
    return CompilerBug("\n".join([head, log.strip(), *culprits[:10]]))


def _none_left(architecture: Architecture, reasons: list[str], request: Request | None = None) -> CompileError:
    kind = "assembler that links" if request is not None and request.inputs else "assembler"
    kind += " functions to a relocatable cubin" * (request is not None and bool(request.inputs) and request.relocatable)
    reason = f"there is no {kind} for {architecture} on this machine"
    if forced := os.environ.get(VARIABLE):
        reason += f" ({VARIABLE} allows only {forced})"
    remedies = [assembler.remedy() for assembler in reversed(_candidates(request))]  # the easiest first
    remedies = remedies or ["link the code to the kernel instead, or use nvJitLink of CUDA 13"]
    return CompileError("; ".join([reason, *reasons]), help="; or ".join(remedies))


# In the cache


def _key(program: ProgramSummary, architecture: Architecture, options: str) -> tuple[str, ...]:
    library = ""
    if program.library:
        from cuda_device.codegen.gpu import libdevice

        library = f"{' '.join(sorted(program.library))} {libdevice.content_hash()}"
    target = f"{architecture} PTX {ptx_versions.written(architecture)}"
    return identity(architecture), "cubin", target, options, library, program.digest


def _pack(cubin: Cubin, key: tuple[str, ...]) -> bytes | None:
    if cubin.assembler not in (identity.partition(" ")[0] for identity in key[0].split(", ")):
        return None  # the key does not have the version of this assembler, which was tried because others are too old
    return b"%s %s\0%s" % (cubin.assembler.encode(), assembler_logs.packed(cubin.notes), cubin.code)


def _unpack(data: bytes) -> Cubin:
    head, code = data.split(b"\0", 1)
    assembler, _, notes = head.partition(b" ")
    return Cubin(code, assembler.decode(), assembler_logs.unpacked(notes))


KEPT = Kept(_key, _pack, _unpack)
