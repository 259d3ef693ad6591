"""Compiles interoperable functions for the host: wraps a device function in the C calling convention.

    define i64 @norm(i64 %a0, ptr byval([24 x i8]) align 8 %a1)        by the calling convention of C
    @norm.by_address = alias …      void(ptr %record, ptr %a0, ptr %a1, ptr %result), for Python

The first function writes its arguments to memory and calls the second, which is that of `cpp_calls.wrapper_for_cpp`. A failed
assertion is written to a record. The first function then traps; the second leaves the error to its caller.

Specification: 'System V Application Binary Interface, AMD64 Architecture Processor Supplement', 3.2.3.
"""

from __future__ import annotations

import platform
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from cuda_device import CompileError
from cuda_device.extend import abi, layout, model, ops, target

BY_ADDRESS = ".by_address"
"""The suffix of the function that takes the addresses of a record, the arguments, and the place for the result."""
RECORD_BYTES = 24
"""The size of the record of a failed assertion: its place, and two values of its message."""

_OF_THREADS = (ops.SHARED, ops.DYNAMIC_SHARED, ops.PRINT, ops.TIMER, ops.WARP_ACTIVE)
_MOST_IN_REGISTERS = 16
_REGISTERS = {"integer": 6, "float": 8}
"""The registers for arguments. An aggregate for which too few are left is passed in memory."""


def check_host_code(module: Any) -> None:
    """Raises `CompileError` for operations that need a thread of a kernel, and on other platforms than Linux on x86-64."""
    if platform.machine() != "x86_64" or sys.platform != "linux":
        raise CompileError(
            f"functions for the host need Linux on x86-64, and this is {sys.platform} on {platform.machine()}",
            help="call the function as Python there",
        )
    for op in (op for function in module.functions for op in function.ops()):
        is_register = op.code is ops.REGISTER and op.attributes["name"] != "hidden_zero"
        if is_register or op.code in _OF_THREADS or ops.Effect.SUSPENDS in op.code.effects:
            missing = op.attributes["name"] if is_register else op.code.name
            raise CompileError(
                f"a function for the host is not called by a kernel, so it has no {missing}",
                op.location,
                "pass what it needs as an argument, or test target(is_host) first",
            )


class HostDialect(target("cpu").Cpu):  # type: ignore[misc]  # a class of the target for CPUs
    """The dialect for functions without a thread, whose first argument is the record of a failed assertion."""

    thread = "ptr %thread"

    def __init__(self, module: Any, prototype: Any, symbol: str) -> None:
        super().__init__(module)
        self.prototype, self.name = prototype, symbol

    def report(self, status: int, place: int, values: Sequence[str]) -> str:
        """Stores the place and the values in the record."""
        words = [str(place), *values]
        return "".join(
            f"  %report.{place}.{i} = getelementptr i64, ptr %thread, i64 {i}\n"
            f"  store i64 {word}, ptr %report.{place}.{i}, align 8\n"
            for i, word in enumerate(words)
        )

    def exit_thread(self, function: Any) -> str:
        """A return, after which the exported function looks at the record."""
        return "ret void"

    def runner(self, parameters: Sequence[str]) -> str:
        """The two exported functions."""
        inner = self.symbol(self.module.main)
        alias = f"@{self.name}{BY_ADDRESS} = alias void (), ptr @{inner}\n"
        return alias + _for_c(self.name, inner, self.prototype)


def _for_c(name: str, inner: str, prototype: Any) -> str:
    """The function for C, which writes its arguments to memory, calls `inner`, and traps if the record is not empty."""
    free, parameters = dict(_REGISTERS), list[str]()
    lines = [f"  %record = alloca [{RECORD_BYTES} x i8], align 8", "  store i64 0, ptr %record, align 8"]
    pointers = ["ptr %record", *(f"ptr %a{i}" for i in range(len(prototype.arguments)))]
    head, end = "void", ["  ret void"]
    if prototype.result != model.NONE:
        pointers.append("ptr %result")
        parts = _parts(prototype.result)
        if parts is None:
            parameters.append(_in_memory("sret", prototype.result, "%result", 1))
            free["integer"] -= 1
        else:
            lines.append(f"  %result = alloca {_room(prototype.result, parts)}")
            if parts:
                plain, _, extended = (
                    parts[0].partition(" ") if len(parts) == 1 else (f"{{ {', '.join(parts)} }}", "", "")
                )
                head = f"{extended} {plain}".strip()
                align = layout.align_of(abi.representation(abi.exchanged(prototype.result)))
                end = [f"  %value = load {plain}, ptr %result, align {align}", f"  ret {plain} %value"]
    for i, type in enumerate(prototype.arguments):
        declared, stores = _argument(f"%a{i}", type, free)
        parameters += declared
        lines += stores
    lines += [
        f"  call void @{inner}({', '.join(pointers)})",
        "  %failed = load i64, ptr %record, align 8",
        "  %fails = icmp ne i64 %failed, 0",
        "  br i1 %fails, label %trap, label %return",
        "trap:",
        "  call void @llvm.trap()",
        "  unreachable",
        "return:",
    ]
    return "\n".join([f"define {head} @{name}({', '.join(parameters)}) nounwind {{", *lines, *end, "}\n"])


def _argument(name: str, type: model.Type, free: dict[str, int]) -> tuple[list[str], list[str]]:
    """The parameters for an argument, and the lines that store them; takes registers from those that are `free`."""
    way, parts = abi.passing(type, kernel=False), _parts(type)
    if way == "address":
        free["integer"] -= 1
        return [f"ptr {name}"], []
    needed = Counter(map(_kind, parts or ()))
    if parts is None or (way != "value" and any(count > max(free[kind], 0) for kind, count in needed.items())):
        return [_in_memory("byval", type, name, 8)], []
    for kind, count in needed.items():
        free[kind] -= count
    stores = [f"  {name} = alloca {_room(type, parts)}"]
    for i, part in enumerate(parts):
        stores.append(f"  {name}.at.{i} = getelementptr i8, ptr {name}, i64 {8 * i}")
        stores.append(f"  store {part.split()[0]} {name}.{i}, ptr {name}.at.{i}, align 8")
    return [f"{part} {name}.{i}" for i, part in enumerate(parts)], stores


def _in_memory(how: str, type: model.Type, name: str, least: int) -> str:
    """A parameter that is the address of a value; `least` is its minimum alignment."""
    form = abi.representation(abi.exchanged(type))
    return f"ptr {how}([{layout.size_of(form)} x i8]) align {max(least, layout.align_of(form))} {name}"


def _room(type: model.Type, parts: Sequence[str]) -> str:
    """Memory for a value and for whole registers."""
    form = abi.representation(abi.exchanged(type))
    return f"[{max(layout.size_of(form), 8 * len(parts))} x i8], align {max(8, layout.align_of(form))}"


def _kind(part: str) -> str:
    return "float" if part in ("float", "double") else "integer"


def _parts(type: model.Type) -> list[str] | None:
    """The types of the registers of eight bytes that hold a value; None if it is passed in memory."""
    form = abi.representation(abi.exchanged(type))
    match abi.passing(type, kernel=False):
        case "address":
            return None
        case "value" if isinstance(form, model.Number) and not form.is_float:
            extended = {True: " signext", False: " zeroext"}[form.signed] if form.bits < 32 else ""
            return [f"i{form.bits}{extended}"]
    size = layout.size_of(form)
    if size > _MOST_IN_REGISTERS:
        return None
    kinds: dict[int, str] = {}
    for access in layout.accesses(form, 1):
        number = access.type
        width = number.bits // 8 if isinstance(number, model.Number) else 8
        if access.offset % width:
            return None
        is_float = isinstance(number, model.Number) and number.is_float and number.bits >= 32
        word = access.offset // 8
        kinds[word] = "float" if is_float and kinds.get(word, "float") == "float" else "integer"
    types = []
    for word, kind in sorted(kinds.items()):  # an empty structure and padding have none
        count = min(8, size - 8 * word)
        types.append({4: "float", 8: "double"}[count] if kind == "float" else f"i{8 * count}")
    return types
