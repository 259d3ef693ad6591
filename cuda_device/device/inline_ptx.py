"""Instructions of PTX in device code: what CUDA C++ writes as `asm volatile("…" : "=r"(d) : "r"(a), "r"(b) : "memory")`.

    @device.func
    def dot4(a, b, c):
        return device.ptx("dp4a.s32.s32 $0, $1, $2, $3;", a, b, c, result=device.int32, host=device.dp4a)

`$0`, `$1`, … are first the results and then the operands, in registers that fit their types; `$$` is a dollar sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from cuda_device.device.lowering import ArrayTree, Lowering, Tree
from cuda_device.device.packing import from_bits
from cuda_device.device.rows import Intrinsic, Typed
from cuda_device.errors import CompileError, DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.types.host import host_type_of
from cuda_device.types.host import number_of as host_number_of
from cuda_device.types.known import Known, constant, of_type, tuple_of
from cuda_device.types.layout import machine
from cuda_device.types.model import UINT16, Array, Number, Type

_WIDTHS = (16, 32, 64)


def ptx(
    template: str, *operands: Any, result: Any = None, host: Callable[..., Any] | None = None, volatile: bool = True
) -> Any:
    """Executes PTX instructions, like `asm` in CUDA C++. Returns `result`: None, a number type, or a tuple of number types.

    In `template`, a constant string, `$0`, `$1`, … are the results and then the operands; `$$` is a dollar sign. An operand is a
    number of 16, 32 or 64 bits (the registers of CUDA C++'s constraints h, r, l, f, d; a Python number has 32 bits), or an array,
    which stands for the address of its first element: in shared memory for `ld.shared`, else a generic one. Registers and
    labels of the template's own belong into braces: the compiler may copy the code.

    With `volatile` (the default) the instructions are executed as often and in the order that the program says, by the same
    threads, and no access to memory moves across them. With `volatile=False` the results depend on the operands alone: the
    compiler may merge, move and drop them.

    `host` is what the CPU stream and the host call in its place, with the same operands; its result becomes `result`. Without it
    the CPU stream raises `CompileError`, and the host `DeviceOnlyError`. An instruction that the target lacks, and a template
    that names too many operands, is a `CompileError`.
    """
    if host is None:
        raise DeviceOnlyError.of("ptx without host=…")
    found = host(*operands)
    numbers = results_of(result)
    if not isinstance(result, tuple):
        return None if result is None else host_type_of(machine(numbers[0]))(found)
    return tuple(host_type_of(machine(each))(value) for each, value in zip(numbers, found, strict=True))


def results_of(result: object) -> tuple[Number, ...]:
    """The numbers that `result` asks for. Raises `TypeError` for anything else."""
    kinds = result if isinstance(result, tuple) else () if result is None else (result,)
    found = tuple(host_number_of(kind) if isinstance(kind, type) else None for kind in kinds)
    for number, kind in zip(found, kinds, strict=True):
        if number is None or not _fits(number):
            raise TypeError(f"result of ptx is a number type of 16, 32 or 64 bits, or a tuple of such, not {kind!r}")
    return found  # type: ignore[return-value]


def _fits(number: Number) -> bool:
    return (number.is_integer or number.is_float) and number.bits in _WIDTHS


def typed(template: str, operands: Sequence[Known], result: object, volatile: bool) -> Typed:
    """What a call comes to. Raises `CompileError`."""
    try:
        numbers = results_of(result)
    except TypeError as error:
        raise CompileError(str(error), help="write result=uint32, for example") from None
    if not volatile and not numbers:
        raise CompileError("ptx without a result does nothing if it is not volatile", help="leave volatile=False out")
    types = [_operand(i, known, volatile) for i, known in enumerate(operands)]
    count = len(numbers) + len(types)
    named = re.findall(r"\$(\d+|\$|)", template)
    for name in named:
        if not name or (name != "$" and int(name) >= count):
            what = f"has ${name}, but there are {count} results and operands" if name else "has a lone dollar sign"
            raise CompileError(
                f"the template of ptx {what}", help="results come first, from $0; write $$ for a dollar sign"
            )
    for i in range(len(numbers)):
        if str(i) not in named:
            raise CompileError(f"the template of ptx does not set its result ${i}", help="results come first, from $0")
    results = [of_type(machine(number)) for number in numbers]
    whole = tuple_of(tuple(results)) if isinstance(result, tuple) else results[0] if results else constant(None)
    return Typed(whole, tuple(enumerate(types)), (template, tuple(known.type for known in results), volatile))


def _operand(i: int, known: Known, volatile: bool) -> Type:
    if isinstance(known.type, Array):
        if volatile:
            return known.type
        reason, help = "an array, which is memory", "leave volatile=False out, or load the element first"
        raise CompileError(f"the operand {i} of ptx is {reason}", help=help)
    if not isinstance(known.type, Number) or not _fits(machine(known.type)):
        raise CompileError(
            f"the operand {i} of ptx is {known}: registers hold numbers of 16, 32 or 64 bits",
            help="convert it, as in int32(…), or pass its parts",
        )
    return machine(known.type)


def _lower(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
    template, numbers, volatile = typed.settings
    assert isinstance(numbers, tuple)
    values = [tree.data if isinstance(tree, ArrayTree) else _word(build, tree) for tree in operands]
    results = [Value(UINT16 if number.bits == 16 else number) for number in numbers]
    code = ops.PTX if volatile else ops.MACHINE
    build.append(Op(code, values, results, {"instruction": template}, [], build.location))
    build.sums.opaque.update(results)
    found = tuple(from_bits(build, each, number) for each, number in zip(results, numbers, strict=True))
    return found[0] if isinstance(typed.result.type, Number) else found


def _word(build: Lowering, tree: Tree) -> Value:
    """A number of 16 bits, also a float, is in the register of an integer."""
    assert isinstance(tree, Value) and isinstance(tree.type, Number)
    return build.op(ops.BITS, UINT16, tree) if tree.type.is_float and tree.type.bits == 16 else tree


def _never(_: Sequence[Known]) -> Typed:
    raise AssertionError("infer/builtin_calls asks `typed`")


ROW = Intrinsic(ptx, "ptx", _never, _lower, effects=ops.PTX.effects)
