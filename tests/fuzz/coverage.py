"""Which rows of the compiler's own tables generated programs reach: operations of machines with each type, and device entities.

    reached(programs(…)) >= {("add", "", ("float16", "float16", "float16")), …}

`expected` are the rows that there are: what the verifier lets an operation take, crossed with the numbers that machines have.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import reference

from cuda_device import compiler
from cuda_device.device.atomics import INTEGERS, NUMBERS
from cuda_device.device.numeric import FUNCTIONS
from cuda_device.ir import ops
from cuda_device.ir.nodes import Module, Op, Value
from cuda_device.types.architectures import parse
from cuda_device.types.dtypes import element_of
from cuda_device.types.known import of_type
from cuda_device.types.model import Array, AtomicCell, Layout, Number, Ref, Tuple
from fuzz.generate import ARRAYS, inputs, of_rows
from fuzz.programs import Program
from fuzz.run import PLAIN, kernels
from fuzz.sweep import ALONE, STORED, TOGETHER, Row

Reached = tuple[str, str, tuple[str, ...]]

WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
REAL = ("float16", "bfloat16", "float32", "float64")
NARROW = ("float8e4m3", "float8e5m2")
"""Machines have no arithmetic of these: it is done in float32."""
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def programs(batch: int = 24) -> Iterator[list[Program]]:
    """Programs that begin with every function, and every operator of one type, and what threads do together."""
    alone = [row for row in ALONE if len(set(row[1:])) == 1 or row[0] in ("convert", "view", "vector", "position")]
    alone += 3 * [row for row in alone if row[:2] == ("convert", "bool")]  # which has two names
    sets: list[tuple[list[Row], list[Row]]] = [(alone[i : i + 10], []) for i in range(0, len(alone), 10)]
    sets += [([], TOGETHER[i : i + 6]) for i in range(0, len(TOGETHER), 6)]
    share = -(-len(STORED) // len(sets))
    near = [STORED[i * share : (i + 1) * share] for i in range(len(sets))]
    for begin in range(0, len(sets), batch):
        given = inputs(begin)
        yield [
            of_rows(begin + k, given, *sets[begin + k], near[begin + k], others=k % 4 == 0)
            for k in range(min(batch, len(sets) - begin))
        ]


def modules(batch: Sequence[Program]) -> tuple[Module, Module]:
    """The IR of a batch, with types and of the device level."""
    (kernel,) = kernels(batch, PLAIN[0])
    arrays = Tuple(tuple(Array(element_of(reference.storage(type)), 1, Layout.C) for type in ARRAYS))
    known = (of_type(arrays), of_type(arrays))
    job = compiler.Job(kernel.underlying, known, True, compiler.Target(parse("sm_90")), kernel.options.build)
    work = compiler.run(job, "device")
    return work["typed"], work["device"]


def reached(module: Module) -> Iterator[Reached]:
    """What is in a module of the device level."""
    for function in module.functions:
        for op in function.ops():
            yield op.code.name, _detail(op), tuple(map(_name, (*op.operands, *op.results)))


def entities(module: Module) -> set[str]:
    """The rows of the device tables that a typed module has."""
    found = (op for function in module.functions for op in function.ops() if op.code is ops.INTRINSIC)
    return {str(op.attributes["name"]) for op in found}


def _detail(op: Op) -> str:
    return next(
        (str(op.attributes[key]) for key in ("op", "function", "kind", "operation") if key in op.attributes), ""
    )


def _name(value: Value) -> str:
    match value.type:
        case Number():
            return str(value.type)
        case Ref(_, AtomicCell(dtype)) | Ref(_, dtype):
            return f"ref {dtype}"
    return "other"


def expected() -> set[Reached]:
    """Every operation of the device level that computes, with every type that it takes."""
    rows: set[Reached] = set()

    def add(names: Iterable[ops.OpDef], details: Iterable[str], types: Iterable[tuple[str, ...]]) -> None:
        rows.update((code.name, detail, each) for code, detail, each in itertools.product(names, details, list(types)))

    def same(types: Iterable[str], count: int = 3) -> list[tuple[str, ...]]:
        return [(type,) * count for type in types]

    add((ops.ADD, ops.SUB, ops.MUL), [""], same((*WHOLE, *REAL)))
    add((ops.DIV,), [""], same(REAL))
    add((ops.NEG,), [""], same(REAL, 2))
    add((ops.QUOTIENT, ops.REMAINDER, ops.SHL, ops.SHR), [""], same(WHOLE))
    add((ops.AND, ops.OR, ops.XOR), [""], same((*WHOLE, "bool")))
    add((ops.BITWISE,), ("ctpop", "ctlz", "cttz", "bitreverse"), same(("uint32", "uint64"), 2))
    add((ops.COMPARE,), COMPARISONS, [(type, type, "bool") for type in (*WHOLE, *REAL)])
    add((ops.SELECT,), [""], [("bool", *(type,) * 3) for type in (*WHOLE, *REAL, *NARROW, "bool")])
    every = (*WHOLE, *REAL, *NARROW, "bool")
    direct = [t for t in every if t not in ("bfloat16", *NARROW)]  # these convert by way of float32
    add((ops.CONVERT,), [""], [pair for pair in itertools.permutations(direct, 2)])
    add((ops.CONVERT,), [""], [pair for t in ("bfloat16", *NARROW) for pair in ((t, "float32"), ("float32", t))])
    for function in FUNCTIONS:
        add((ops.MATH,), (function.name,), same(("float32", "float64"), function.arity + 1))
    add((ops.MATH,), ("fma",), same(("float16", "bfloat16"), 4))
    add((ops.LOAD,), [""], [(f"ref {type}", type) for type in every])
    add((ops.STORE,), [""], [(f"ref {type}", type) for type in every])
    add((ops.ELEMENT,), [""], [(f"ref {type}", "int64", f"ref {type}") for type in every])
    words = [(t, f"uint{reference.bits(t)}") for t in (*REAL, *NARROW)]  # integers of one size need no operation
    add((ops.BITS,), [""], [pair for a, b in words for pair in ((a, b), (b, a))])
    add((ops.BARRIER_REDUCE,), ("count",), [("bool", "int32")])
    add((ops.BARRIER_REDUCE,), ("and", "or"), [("bool", "bool")])
    add((ops.WARP_VOTE,), ("all", "any", "eq"), [("int32", "bool", "bool")])
    add((ops.WARP_VOTE,), ("ballot",), [("int32", "bool", "int32")])
    add((ops.WARP_SHUFFLE,), ("idx", "up", "down", "xor"), [("int32", t, "int32", t) for t in ("uint32", "uint64")])
    add((ops.WARP_MATCH,), ("any", "all"), [("int32", t, "int32") for t in ("uint32", "uint64")])
    whole, numbers = [str(t) for t in INTEGERS], [str(t) for t in NUMBERS]
    add((ops.ATOMIC_UPDATE,), ("add",), [(f"ref {t}", t, t) for t in numbers])
    add((ops.ATOMIC_UPDATE,), ("and", "or", "xor", "max", "min"), [(f"ref {t}", t, t) for t in whole])
    return rows
