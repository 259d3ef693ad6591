"""`ptx` and `intrinsic`: PTX instructions in device code, like `asm volatile` in CUDA C++.

    @device.func
    def dot4(a, b, c):
        return device.ptx("dp4a.s32.s32 $0, $1, $2, $3;", a, b, c, result=device.int32, host=device.dp4a)

`$0`, `$1`, … are first the values of `inout`, then the results and then the operands, in registers that fit their types; `$$` is
a dollar sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain
from types import FunctionType
from typing import Any

from cuda_device.device.functions import Extern
from cuda_device.device.lowering import ArrayTree, Lowering, Tree, flatten, grow
from cuda_device.device.packing import from_bits, from_word, to_word
from cuda_device.device.parameters import parameter_names
from cuda_device.device.rows import Intrinsic, Typed, entered
from cuda_device.errors import CompileError, DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.types.host import host_type_of, type_of_hint
from cuda_device.types.known import Known, constant, of_type, tuple_of
from cuda_device.types.layout import leaves, size_of
from cuda_device.types.model import (
    BFLOAT16,
    FLOAT16,
    INT16,
    NONE,
    UINT16,
    UINT32,
    UINT64,
    Array,
    Number,
    Pointer,
    Ref,
    Tuple,
    Type,
    Vector,
)
from cuda_device.types.vector_classes import host_vector

_WIDTHS = (16, 32, 64)
_REGISTERS = "numbers of 16, 32 or 64 bits, vectors of these, and pointers"


def ptx(
    template: str,
    *operands: Any,
    inout: Any = None,
    result: Any = None,
    host: Callable[..., Any] | None = None,
    volatile: bool = True,
) -> Any:
    """Executes PTX instructions, like `asm` in CUDA C++.

    In `template`, a constant string, `$0`, `$1`, … stand for the values of `inout`, followed by the results and the operands;
    `$$` is a dollar sign. Put registers and labels that the template declares into braces, because the compiler may copy the
    code.

    An operand is a number of 16, 32 or 64 bits (the registers of CUDA C++'s constraints h, r, l, f, d; a Python number has 32
    bits), a vector, or an address: a pointer, an array, which stands for its first element, or a reference to an atomic or a
    struct with atomic members. A vector of 4 or 8 bytes is in one register of 32 or 64 bits, and `$0` stands for the registers of
    a larger one in braces, as `ld.global.v4.f32 $0, [$1];` takes them. Addresses of shared memory are those that `ld.shared`
    takes if they come from arrays or references; all others are generic. `result` is the type of the result, or a
    tuple of types: numbers, vectors and pointers. `inout` is a value, or a tuple of values, that the instructions read and
    change: the constraint "+" of CUDA C++. The template does not have to name them all.

    Returns the results in the form of `result`; with `inout`, its new values in its form; with both, the pair of these.

    With `volatile` (the default), the instructions are executed as often as in the program, in the same order and by the same
    threads, and no memory access moves across them. With `volatile=False`, the results must depend only on the operands, none
    of which may be an address, and the compiler may merge, move and remove the instructions.

    The CPU stream and the host call the function `host` instead, with `inout`, if there is one, and the operands, and convert
    what it returns. Without `host`, the CPU stream raises `CompileError` and the host raises `DeviceOnlyError`. Raises
    `CompileError` for an instruction that the target lacks, and for a template that names too many operands.
    """
    if host is None:
        raise DeviceOnlyError.of("ptx without host=…")
    if inout is None:
        return _as_form(result, host(*operands))
    form = tuple(map(type, inout)) if isinstance(inout, tuple) else type(inout)
    return _as_form(form if result is None else (form, result), host(inout, *operands))


def _as_form(form: Any, value: Any) -> Any:
    """Converts the result of `host` to a form: a type, None, or a tuple of forms."""
    if isinstance(form, tuple):
        return tuple(_as_form(part, item) for part, item in zip(form, value, strict=True))
    if form is None:
        return None
    (register,) = results_of(form)
    if isinstance(register, Number):
        return host_type_of(register.machine)(value)
    vector = host_vector(register) if isinstance(register, Vector) else None
    return value if vector is None else vector(*value)


def results_of(result: object) -> tuple[Type, ...]:
    """Returns the types in `result`. Raises `TypeError` for anything else."""
    kinds = result if isinstance(result, tuple) else () if result is None else (result,)
    return tuple(map(_result_of, kinds))


def _result_of(kind: object) -> Type:
    try:
        type = type_of_hint(kind)
    except TypeError:
        type = NONE
    if not _fits(type) and not isinstance(type, Pointer):
        raise TypeError(
            "the result of ptx must be a number type of 16, 32 or 64 bits, a vector type of these, a pointer type, or "
            f"a tuple of these, not {kind!r}"
        )
    return _machine(type)


def is_register(type: Type) -> bool:
    """Whether values of a type fit a register of PTX."""
    if isinstance(type, Vector):
        return size_of(type) in (4, 8)
    return isinstance(type, Number) and (type.is_integer or type.is_float) and type.bits in _WIDTHS


def _fits(type: Type) -> bool:
    """Whether values of a type fit one register, or are vectors whose elements do."""
    return is_register(type) or (isinstance(type, Vector) and is_register(type.dtype))


def _machine(type: Type) -> Type:
    return type.machine if isinstance(type, Number) else type


def wrong_operand(template: str, results: range, count: int) -> str:
    """Describes what is wrong with the operands in a template, which are `count` with the results; empty if nothing is."""
    named = set(re.findall(r"\$(\d+|\$|)", template))
    if "" in named:
        return "has a lone dollar sign"
    for name in sorted(named - {"$"}, key=int):
        if int(name) >= count:
            return f"has ${name}, but there are {count} results and operands"
    return next((f"does not set its result ${i}" for i in results if str(i) not in named), "")


def typed(template: str, inout: Known | None, operands: Sequence[Known], result: object, volatile: bool) -> Typed:
    """Infers a call, whose arguments are `inout`, if that is not None, and the operands. Raises `CompileError`."""
    try:
        results = results_of(result)
    except TypeError as error:
        raise CompileError(str(error), help="write result=uint32, for example") from None
    if not volatile and not results and inout is None:
        raise CompileError("ptx without a result does nothing if it is not volatile", help="leave volatile=False out")
    changed = () if inout is None else _in_out(inout)
    outputs = (*changed, *results)
    if reason := wrong_operand(template, range(len(changed), len(outputs)), len(outputs) + len(operands)):
        order = "inout comes first, from $0, and then the results" if changed else "results come first, from $0"
        raise CompileError(f"the template of ptx {reason}", help=f"{order}; write $$ for a dollar sign")
    forms = [] if inout is None else [_form(isinstance(inout.type, Tuple), changed)]
    arguments = [(i, form.type) for i, form in enumerate(forms) if changed]
    arguments += [(len(forms) + i, _operand(i, known, volatile)) for i, known in enumerate(operands)]
    forms += [] if result is None else [_form(isinstance(result, tuple), results)]
    whole = tuple_of(tuple(forms)) if len(forms) > 1 else forms[0] if forms else constant(None)
    instruction = _with_vectors(template, (*outputs, *(_machine(known.type) for known in operands)))
    return Typed(whole, tuple(arguments), (instruction, outputs, len(changed), volatile))


def _with_vectors(template: str, types: Sequence[Type]) -> str:
    """A template that names registers, in place of one that names values of these types."""
    counts = [len(_registers_of(type)) for type in types]
    if set(counts) == {1}:
        return template
    firsts = [*accumulate(counts, initial=0)]

    def named(match: re.Match[str]) -> str:
        if match[1] == "$":
            return match[0]
        first, count = firsts[int(match[1])], counts[int(match[1])]
        names = ", ".join([f"${first + i}" for i in range(count)])
        return names if count == 1 else f"{{{names}}}"

    return re.sub(r"\$(\d+|\$)", named, template)


def _form(is_tuple: bool, types: Sequence[Type]) -> Known:
    """What the program gets: a tuple, or the only value."""
    return tuple_of(tuple(map(of_type, types))) if is_tuple else of_type(types[0])


def _in_out(known: Known) -> tuple[Type, ...]:
    """The types of the values of `inout`."""
    is_tuple = isinstance(known.type, Tuple)
    items = known.items if is_tuple else (known,)
    for i, item in enumerate(items):
        if not _fits(_machine(item.type)) and not isinstance(item.type, Pointer):
            raise CompileError(
                f"the inout{f'[{i}]' * is_tuple} of ptx is {item}: registers hold {_REGISTERS}",
                help="give a value or a tuple of values, as in inout=tuple(x) for a list x",
            )
    return tuple([_machine(item.type) for item in items])


def _operand(i: int, known: Known, volatile: bool) -> Type:
    if isinstance(known.type, (Array, Pointer, Ref)):
        if volatile:
            return known.type
        raise CompileError(
            f"the operand {i} of ptx is {_AS_MEMORY[known.type.__class__]}, which is memory",
            help="leave volatile=False out, or load the element first",
        )
    type = _machine(known.type)
    if not _fits(type):
        raise CompileError(
            f"the operand {i} of ptx is {known}: registers hold {_REGISTERS}",
            help="convert it, as in int32(…), or pass its parts",
        )
    return type


_AS_MEMORY: dict[type, str] = {Array: "an array", Pointer: "a pointer", Ref: "a reference"}


def _lower(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
    template, outputs, tied, volatile = typed.settings
    changed = flatten(operands[0]) if tied else iter(())
    words = [word for type in outputs[:tied] for word in _words(build, grow(type, changed))]
    values = [word for tree in operands[bool(tied) :] for word in _words(build, tree)]
    registers = [[Value(register) for register in _registers_of(type)] for type in outputs]
    results = [*chain.from_iterable(registers)]
    attributes = {"instruction": template} | ({"tied": len(words)} if tied else {})
    build.append(Op(ops.PTX if volatile else ops.MACHINE, values + words, results, attributes, [], build.location))
    build.sums.opaque.update(results)
    parts = (part for pair in zip(registers, outputs, strict=True) for part in _parts(build, *pair))
    return grow(typed.result.type, parts)


def _registers_of(type: Type) -> list[Type]:
    """The types of the registers that hold a value: numbers of 16 bits, and vectors in one register, are in integer registers."""
    if isinstance(type, Vector) and not is_register(type):
        return _registers_of(type.dtype) * type.size
    if isinstance(type, Vector):
        return [UINT32 if size_of(type) == 4 else UINT64]
    if isinstance(type, Number):
        return [UINT16 if type.bits == 16 else type]
    return [leaves(type)[0]]


def _words(build: Lowering, tree: Tree) -> list[Value]:
    """The registers for an operand."""
    if isinstance(tree, ArrayTree):
        return [tree.data]
    if isinstance(tree, tuple):
        (dtype,) = {part.type for part in flatten(tree)}
        assert isinstance(dtype, Number)
        vector = Vector(dtype, len(tree))
        if is_register(vector):
            return [to_word(build, vector, tree)]
        return [word for part in flatten(tree) for word in _words(build, part)]
    is_short = isinstance(tree.type, Number) and tree.type.is_float and tree.type.bits == 16
    return [build.op(ops.BITS, UINT16, tree) if is_short else tree]


def _parts(build: Lowering, registers: Sequence[Value], type: Type) -> Iterator[Value]:
    """The leaves of the value of `type` in its registers."""
    if isinstance(type, Vector) and is_register(type):
        yield from flatten(from_word(build, registers[0], type))
        return
    for register in registers:
        number = type.dtype if isinstance(type, Vector) else type
        yield from_bits(build, register, number) if isinstance(number, Number) else register


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
            if (
                not isinstance(type, Number)
                or not is_register(type)
                or (is_llvm and type in (INT16, UINT16, FLOAT16, BFLOAT16))
            ):
                widths = "32 or 64" if is_llvm else "16, 32 or 64"
                raise TypeError(f"{self.__qualname__}, {name}: {type} is not a number of {widths} bits")
        if not is_llvm and (reason := wrong_operand(instruction, range(1), 1 + len(self.parameters))):
            raise ValueError(f"the instruction of {self.__qualname__} {reason}")

    @property
    def typed(self) -> Typed:
        """Infers the result of a call."""
        number = self.result
        return Typed(of_type(number), tuple(enumerate(self.parameters)), (self.instruction, (number,), 0, False))

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
