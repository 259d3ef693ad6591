"""What makes the machine code of a kernel slow, for `PerformanceWarning`: spilled registers, and what an assembler says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import FunctionType

from cuda_device.codegen.gpu import elf
from cuda_device.device.options import Options
from cuda_device.errors import Location, Loss

# What a program asks for and does not get, or what costs time: the part of a message, and a remedy.
_LOSSES = {
    r"'setmaxnreg' ignored.*(?:compilation units|'extern' call)": (
        "let ptxas assemble the kernel, and link nothing to it: install nvidia-cuda-nvcc, or a CUDA toolkit"
    ),
    r"'setmaxnreg' ignored.*register count at entry": "give the kernel max_threads=…, which determines it",
    r"'setmaxnreg' ignored.*minimum register requirements": "ask for more registers",
    r"wgmma.*serialized.*insufficient register": "give each thread more registers, or smaller accumulators",
    r"wgmma.*serialized": (
        "start the first product from None, before the loop, and not from zeros; touch no operand or accumulator before the wait "
        "for the products, and call no function there"
    ),
    r"\bwait\w* is injected": "wait for the products before their accumulators are read, in the same branch",
    r"\.(?:minnctapersm|maxnreg|maxntid|reqntid)\b.*ignored|maxrregcount.*ignored": (
        "change max_threads, min_blocks or max_registers of the kernel"
    ),
    r"Potential Performance Loss": "",
}

_REGISTERS_OF_A_MULTIPROCESSOR, _MOST_REGISTERS, _REGISTER_UNIT = 1 << 16, 255, 8


def losses(
    cubin: elf.Cubin, symbol: str, function: FunctionType, options: Options, *, is_kernel: bool
) -> Iterator[Loss]:
    """What costs time in code, at the line where its function is defined. Code for debuggers is meant to be slow."""
    if options.debug:
        return
    code, name, spills = function.__code__, function.__name__, cubin.notes.spills
    location = Location(code.co_filename, code.co_firstlineno, function=code.co_qualname)
    if spills and not cubin.notes.on_purpose and is_kernel and _lacks_registers(cubin, symbol, options):
        is_limited = options.max_registers or options.max_threads or options.min_blocks
        remedy = "raise max_registers, or lower max_threads or min_blocks" if is_limited else "split the kernel"
        reason = f"{name} needs more registers than a thread may use: each one spills {spills} bytes to local memory"
        yield Loss(location, reason, f"{remedy}, or keep fewer values at a time")
    for text in cubin.notes.warnings:
        remedies = [remedy for pattern, remedy in _LOSSES.items() if re.search(pattern, text)]
        if remedies:
            yield Loss(location, f"{cubin.assembler} says of {name}: {text}", remedies[0])


def _lacks_registers(cubin: elf.Cubin, symbol: str, options: Options) -> bool:
    """Whether registers are spilled for lack of them. Where functions are called, the convention of calls spills some, too."""
    calls = {*elf.functions(cubin.code), *elf.undefined_functions(cubin.code)} != {symbol}
    used = elf.registers(cubin.code).get(symbol, 0)
    return not calls or used > most_registers(options) - _REGISTER_UNIT


def most_registers(options: Options) -> int:
    """The registers that a thread may use at the start of a kernel with these options."""
    most = min(_MOST_REGISTERS, options.max_registers or _MOST_REGISTERS)
    if not options.max_threads:
        return most
    resident = options.max_threads * max(1, options.min_blocks)
    return min(most, _REGISTERS_OF_A_MULTIPROCESSOR // resident // _REGISTER_UNIT * _REGISTER_UNIT)
