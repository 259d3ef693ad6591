"""`ptx` and `intrinsic`: PTX instructions in device code, like `asm volatile` in CUDA C++.

    @device.func
    def dot4(a, b, c):
        return device.ptx("dp4a.s32.s32 $0, $1, $2, $3;", a, b, c, result=device.int32, host=device.dp4a)

`$0`, `$1`, … are first the results and then the operands, in registers that fit their types; `$$` is a dollar sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from cuda_device.device.functions import Extern
from cuda_device.device.lowering import ArrayTree, Lowering, Tree
from cuda_device.device.packing import from_bits
from cuda_device.device.parameters import parameter_names
from cuda_device.device.rows import Intrinsic, Typed, entered
from cuda_device.errors import CompileError, DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.types.host import host_type_of
from cuda_device.types.host import number_of as host_number_of
from cuda_device.types.known import Known, constant, of_type, tuple_of
from cuda_device.types.model import BFLOAT16, FLOAT16, INT16, UINT16, Array, Number, Ref, Type

_WIDTHS = (16, 32, 64)


def ptx(
    template: str, *operands: Any, result: Any = None, host: Callable[..., Any] | None = None, volatile: bool = True
) -> Any:
    """Executes PTX instructions, like `asm` in CUDA C++. Returns `result`: None, a number type, or a tuple of number types.

    In `template`, a constant string, `$0`, `$1`, … stand for the results, followed by the operands; `$$` is a dollar sign. An
    operand is a number of 16, 32 or 64 bits (the registers of CUDA C++'s constraints h, r, l, f, d; a Python number has 32
    bits), an array, which stands for the address of its first element, or a reference to a struct with atomic members. Addresses
    of shared memory are those that `ld.shared` takes; all others are generic. Put registers and labels that the template declares
    into braces, because the compiler may copy the code.

    With `volatile` (the default), the instructions are executed as often as in the program, in the same order and by the same
    threads, and no memory access moves across them. With `volatile=False`, the results must depend only on the operands, and
    the compiler may merge, move and remove the instructions.

    The CPU stream and the host call the function `host` instead, with the same operands, and convert its result to `result`.
    Without `host`, the CPU stream raises `CompileError` and the host raises `DeviceOnlyError`. Raises `CompileError` for an
    instruction that the target lacks, and for a template that names too many operands.
    """
    if host is None:
        raise DeviceOnlyError.of("ptx without host=…")
    values = host(*operands)
    numbers = results_of(result)
    if not isinstance(result, tuple):
        return None if result is None else host_type_of(numbers[0].machine)(values)
    return tuple(host_type_of(number.machine)(value) for number, value in zip(numbers, values, strict=True))


def results_of(result: object) -> tuple[Number, ...]:
    """Returns the number types in `result`. Raises `TypeError` for anything else."""
    kinds = result if isinstance(result, tuple) else () if result is None else (result,)
    numbers = tuple(host_number_of(kind) if isinstance(kind, type) else None for kind in kinds)
    for number, kind in zip(numbers, kinds, strict=True):
        if number is None or not is_register(number):
            raise TypeError(
                f"the result of ptx must be a number type of 16, 32 or 64 bits, or a tuple of these, not {kind!r}"
            )
    return numbers  # type: ignore[return-value]


def is_register(type: Type) -> bool:
    """Returns whether values of a type fit a register of PTX."""
    return isinstance(type, Number) and (type.is_integer or type.is_float) and type.bits in _WIDTHS


def wrong_operand(template: str, results: int, operands: int) -> str:
    """Describes what is wrong with the operands in a template; empty if nothing is."""
    named = re.findall(r"\$(\d+|\$|)", template)
    for name in named:
        if not name:
            return "has a lone dollar sign"
        if name != "$" and int(name) >= results + operands:
            return f"has ${name}, but there are {results + operands} results and operands"
    for i in range(results):
        if str(i) not in named:
            return f"does not set its result ${i}"
    return ""


def typed(template: str, operands: Sequence[Known], result: object, volatile: bool) -> Typed:
    """Infers a call. Raises `CompileError`."""
    try:
        numbers = results_of(result)
    except TypeError as error:
        raise CompileError(str(error), help="write result=uint32, for example") from None
    if not volatile and not numbers:
        raise CompileError("ptx without a result does nothing if it is not volatile", help="leave volatile=False out")
    types = [_operand(i, known, volatile) for i, known in enumerate(operands)]
    if reason := wrong_operand(template, len(numbers), len(types)):
        raise CompileError(
            f"the template of ptx {reason}", help="results come first, from $0; write $$ for a dollar sign"
        )
    results = [of_type(number.machine) for number in numbers]
    whole = tuple_of(tuple(results)) if isinstance(result, tuple) else results[0] if results else constant(None)
    return Typed(whole, tuple(enumerate(types)), (template, tuple(known.type for known in results), volatile))


def _operand(i: int, known: Known, volatile: bool) -> Type:
    if isinstance(known.type, (Array, Ref)):
        if volatile:
            return known.type
        reason, help = (
            f"{'an array' if isinstance(known.type, Array) else 'a reference'}, which is memory",
            "leave volatile=False out, or load the element first",
        )
        raise CompileError(f"the operand {i} of ptx is {reason}", help=help)
    if not isinstance(known.type, Number) or not is_register(known.type.machine):
        raise CompileError(
            f"the operand {i} of ptx is {known}: registers hold numbers of 16, 32 or 64 bits",
            help="convert it, as in int32(…), or pass its parts",
        )
    return known.type.machine


def _lower(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
    template, numbers, volatile = typed.settings
    values = [tree.data if isinstance(tree, ArrayTree) else _word(build, tree) for tree in operands]
    results = [Value(UINT16 if number.bits == 16 else number) for number in numbers]
    code = ops.PTX if volatile else ops.MACHINE
    build.append(Op(code, values, results, {"instruction": template}, [], build.location))
    build.sums.opaque.update(results)
    converted = tuple(from_bits(build, register, number) for register, number in zip(results, numbers, strict=True))
    return converted[0] if isinstance(typed.result.type, Number) else converted


def _word(build: Lowering, tree: Tree) -> Value:
    """Numbers of 16 bits, including floats, are in integer registers; a reference is an address."""
    assert isinstance(tree, Value)
    if isinstance(tree.type, Ref):
        return tree
    assert isinstance(tree.type, Number)
    return build.op(ops.BITS, UINT16, tree) if tree.type.is_float and tree.type.bits == 16 else tree


def _never(_: Sequence[Known]) -> Typed:
    raise AssertionError("infer/builtin_calls asks `typed`")


(ROW,) = entered(Intrinsic(ptx, "ptx", _never, _lower, effects=ops.PTX.effects, only_for=()))


class MachineInstruction(Extern):
    """The result of `intrinsic`: a GPU executes `instruction` for a call. `underlying` is the decorated function."""

    def __init__(self, underlying: FunctionType, instruction: str) -> None:
        super().__init__(underlying)
        self.instruction = instruction
        is_llvm, types = instruction.startswith("llvm."), (*self.parameters, self.result)
        for name, type in zip((*parameter_names(underlying.__code__), "return"), types, strict=True):
            if not is_register(type) or (is_llvm and type in (INT16, UINT16, FLOAT16, BFLOAT16)):
                widths = "32 or 64" if is_llvm else "16, 32 or 64"
                raise TypeError(f"{self.__qualname__}, {name}: {type} is not a number of {widths} bits")
        if not is_llvm and (reason := wrong_operand(instruction, 1, len(self.parameters))):
            raise ValueError(f"the instruction of {self.__qualname__} {reason}")

    @property
    def typed(self) -> Typed:
        """Infers the result of a call."""
        number = self.result
        return Typed(of_type(number), tuple(enumerate(self.parameters)), (self.instruction, (number,), False))

    def __repr__(self) -> str:
        return f"<instruction {self.instruction}>"

    def _parts(self) -> tuple[Any, ...]:
        return self.underlying, self.instruction


def intrinsic(instruction: str, /) -> Callable[[Callable[..., Any]], MachineInstruction]:
    """Declares a function that is one GPU instruction, or a few, whose result depends only on the arguments.

    `instruction` is the name of an LLVM intrinsic, "llvm.nvvm.…", or PTX text in which `$0` is the result, and `$1` and so on
    are the arguments. The decorated function has a hint for each parameter and for the result, which are numbers of 32 or 64
    bits (in PTX also 16), and a body that computes the same for the host and the CPU stream, or `...`. Arguments are converted
    to the parameters' types, as for `extern`. For instructions that access memory, use `device.ptx`. Raises `TypeError` for
    other types, and `ValueError` for text that does not name the result or names too many operands.
    """

    def decorate(target: Callable[..., Any]) -> MachineInstruction:
        if not isinstance(target, FunctionType):
            raise TypeError(f"@intrinsic decorates a function, not {target!r}")
        return MachineInstruction(target, instruction)

    return decorate
