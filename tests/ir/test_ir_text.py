"""The IR as text: what is printed can be read back, at every level, for every operation and attribute."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from conftest import HAS_CPU
from hypothesis import given
from hypothesis import strategies as st
from ir_helpers import checked, job, read, text_of
from ir_programs import IDS, PROGRAMS

from cuda_device import compiler
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Edge, Function, Module, Op, Value
from cuda_device.ir.text import parse, show
from cuda_device.types.model import BOOL, FLOAT32, INT, INT32, NONE, Array, Ref, Space, Tuple, Type


def round_trip(function: Function) -> Function:
    """Prints and reads a function; fails unless the copy prints the same and is the same."""
    objects: list[object] = []
    text = show(function, objects)
    copy = parse(text, objects)
    again: list[object] = []
    assert show(copy, again) == text
    assert all(a is b for a, b in zip(objects, again, strict=True))
    assert (copy.name, copy.level, copy.result, copy.kernel) == (
        function.name, function.level, function.result, function.kernel
    )  # fmt: skip
    for a, b in zip(function.blocks, copy.blocks, strict=True):
        assert [(v.type, v.nonneg, v.hint) for v in a.params] == [(v.type, v.nonneg, v.hint) for v in b.params]
        for x, y in zip(a.ops, b.ops, strict=True):
            assert x.code is y.code
            assert list(x.attributes) == list(y.attributes)
            assert [(v.type, v.nonneg) for v in x.results] == [(v.type, v.nonneg) for v in y.results]
    return copy


# Hand-written IR

PYTHON = """\
func @count -> none python {
^0(%n.0, %x.1):
  %2 = py.const {value=0}
  jump ^1(%2, %n.0, %x.1)
^1(%i.3, %n.4, %x.5):
  %6 = py.compare {op="<"} %i.3 %n.4
  %7 = py.truth %6
  branch %7 ^2(%i.3, %n.4, %x.5) ^3()
^2(%i.8, %n.9, %x.10):
  %11 = py.global {name="scale"}
  %12 = py.getitem %x.10 %i.8
  %13 = py.call {names=("by",)} %11 %12 %i.8
  py.setitem %x.10 %i.8 %13
  %14, %15 = py.unpack %13
  jump ^1(%14, %n.9, %x.10)
^3():
  %16 = py.const {value=None}
  return %16
}
"""
TYPED = """\
func @first -> tuple<float32, index> kernel typed {
^0(%x.0: array<float32, 2, strided, readonly>, %n.1: int nonneg, %pair.2: tuple<int, tuple<bool>>):
  %3: vector<uint32, 3> = intrinsic {name="thread_idx"}
  %4: array<float32, 1, C, shared> = intrinsic {name="shared_array", settings=((256,), 4,)}
  %5: uint32 = field {index=0} %3
  %6: float32 nonneg = const {value=0.5}
  %7: float32 = py.getitem %x.0 %5 %n.1
  %8: range_iterator<int> = py.iter %n.1
  jump ^1(%8)
^1(%9: range_iterator<int>):
  %10: bool, %11: int nonneg, %12: range_iterator<int> = py.next {step=-1} %9
  branch %10 ^1(%12) ^2(%11)
^2(%13: int nonneg):
  %14: index = convert %13
  %15: tuple<float32, index> = make %7 %14
  return %15
}
"""
DEVICE = """\
func @store -> none kernel device {
^0(%x.0: ref<global, float32>, %1: int64 nonneg):
  %2: ref<shared, float32> = shared {count=256, align=16, number=0}
  %3: uint32 = register {name="thread_idx.x"}
  %4: int64 nonneg = convert %3
  %5: bool = compare {op="<"} %4 %1
  barrier {place=1}
  branch %5 ^1() ^2()
^1():
  %6: ref<global, float32> = element %x.0 %4
  %7: float32 = const {value=float('-inf')}
  %8: float32 = math {function="sqrt"} %7
  store %6 %8
  jump ^2()
^2():
  return
}
"""


@pytest.mark.parametrize("text", [PYTHON, TYPED, DEVICE], ids=["python", "typed", "device"])
def test_hand_written_ir_is_read_and_printed_alike(text: str) -> None:
    function = parse(text)
    assert show(function) == text
    round_trip(function)
    checked(function)


# Every row and every kind of attribute


def _sample(row: ops.OpDef, level: ops.Level) -> Function:
    """A function with an operation of the row: operands and results as many as it has, or two."""
    type: Type | None = None if level is ops.Level.PYTHON else INT32
    operands = [Value(type) for _ in range(2 if row.operands == ops.MANY else row.operands)]
    results = [Value(type, nonneg=False) for _ in range(2 if row.results == ops.MANY else row.results)]
    attributes: dict[str, object] = {name: (i, "a", None) for i, name in enumerate(row.attributes)}
    other = Block([], [Op(ops.UNREACHABLE)])
    edges = [Edge(other, []) for _ in range(row.successors)]
    block = Block(operands, [Op(row, operands, results, attributes, edges)])
    if ops.Effect.TERMINATES not in row.effects:
        block.ops.append(Op(ops.JUMP, successors=[Edge(other, [])]))
    return Function("sample", [block, other], level)


@pytest.mark.parametrize(
    ("row", "level"),
    [(row, level) for row in ops.ALL for level in ops.Level if level in row.levels],
    ids=lambda part: part.name,
)
def test_every_row_at_every_level(row: ops.OpDef, level: ops.Level) -> None:
    copy = round_trip(_sample(row, level))
    op = copy.blocks[0].ops[0]
    assert op.code is row
    assert [len(op.operands), len(op.results), len(op.successors)] == [
        len(_sample(row, level).blocks[0].ops[0].operands),
        len(_sample(row, level).blocks[0].ops[0].results),
        row.successors,
    ]
    assert op.attributes == {name: (i, "a", None) for i, name in enumerate(row.attributes)}


def constant(value: object) -> Function:
    """A function with one constant."""
    return Function(
        "f", [Block([], [Op(ops.PY_CONST, [], [Value()], {"value": value}), Op(ops.UNREACHABLE)])], ops.Level.PYTHON
    )


def read_back(value: object) -> Any:
    """The attribute after a round trip."""
    return round_trip(constant(value)).blocks[0].ops[0].attributes["value"]


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, 0, 1, -1, 10**30, -(10**30), 2**64, "", "plain", 'with "quotes"', "back\\slash", '\\"', '"', "\\",
        "new\nline", "tab\t\0\x85\u2028", "größe ∀ 🎈", "\ud800", 'c={1} ^0(%x) type("int")', "}", "float('inf')",
        0.0, 1.5, -2.25, 1e-300, 1e300, 0.1, 5e-324, math.inf, -math.inf, (), (1,), ((), ((1,), "a", (None,))), (1.5, -0.0),
        ("a, b", ")("), INT, NONE, Tuple((INT, Tuple(()))), Array(FLOAT32, 2), (Ref(Space.SHARED, INT), INT),
        Tuple((Array(Tuple((INT,)), 1),)),
    ],
    ids=repr,
)  # fmt: skip
def test_attributes(value: object) -> None:
    back = read_back(value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("value", [0.0, -0.0, math.nan])
def test_floats_that_do_not_compare_as_they_are(value: float) -> None:
    back = read_back(value)
    assert math.copysign(1, back) == math.copysign(1, value)
    assert math.isnan(back) == math.isnan(value)


@pytest.mark.parametrize("real", [0.0, -0.0, 1.5, -2.0, 1e-300, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("imaginary", [0.0, -0.0, 0.1, -3.0, math.inf, -math.inf, math.nan])
def test_complex_numbers(real: float, imaginary: float) -> None:
    back = read_back(complex(real, imaginary))
    assert isinstance(back, complex)
    for part, expected in ((back.real, real), (back.imag, imaginary)):
        assert part == expected or (math.isnan(part) and math.isnan(expected))
        assert math.isnan(expected) or math.copysign(1, part) == math.copysign(1, expected)


def test_integers_too_long_for_decimal_digits() -> None:
    """CPython refuses to write more than 4300 digits; a constant of a code object can have them."""
    assert read_back(1 << 20_000) == 1 << 20_000


@pytest.mark.parametrize("value", [math, len, test_attributes.__code__, b"bytes", ..., frozenset({1}), [1], complex])
def test_objects_without_a_literal(value: object) -> None:
    assert read_back(value) is value
    assert read_back((1, value, value))[2] is value


def test_objects_are_numbered_in_the_order_in_which_they_appear() -> None:
    function = constant((math, len, math))
    objects: list[object] = []
    assert "value=(object(0), object(1), object(0),)" in show(function, objects)
    assert objects == [math, len]


literals = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(),
        st.sampled_from([INT, BOOL, Tuple((INT,))]),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(ops.SHARED.attributes), literals), literals)
def test_any_attributes(attributes: dict[str, object], value: object) -> None:
    op = Op(ops.SHARED, [], [Value(INT)], attributes)
    copy = round_trip(Function("f", [Block([], [op, Op(ops.UNREACHABLE)])], ops.Level.DEVICE))
    assert copy.blocks[0].ops[0].attributes == attributes
    assert read_back(value) == value


@given(st.from_regex(r"[^\W\d]\w*", fullmatch=True))
def test_any_names(name: str) -> None:
    """Python's names may have letters of any alphabet; comprehensions make names with dots."""
    for hint in (name, f".{name}", "n.1"):
        param = Value(None, hint)
        block = Block([param], [Op(ops.RETURN, [param])])
        copy = round_trip(Function(name, [block], ops.Level.PYTHON))
        assert copy.params[0].hint == hint


# Real programs


@pytest.mark.parametrize(("program", "types"), PROGRAMS, ids=IDS)
def test_programs_at_every_stage(program: Any, types: tuple[Any, ...]) -> None:
    seen = set()
    for on_cpu in (False, True):
        if on_cpu and not (HAS_CPU and hasattr(program, "variants")):
            continue  # the CPU stream runs kernels only
        work = compiler.run(job(program, *types, on_cpu=on_cpu), "llvm")
        for stage, artifact in work.artifacts.items():
            if isinstance(artifact, Module):
                copies = [round_trip(function) for function in artifact.functions]
                checked(Module(copies))
                seen.add(stage)
    assert {"python", "typed", "device"} <= seen


CORE = """
    py.const py.global py.cell py.undefined py.unary py.binary py.compare py.is py.truth py.getattr py.getitem py.setitem py.tuple
    py.unpack py.call py.iter py.next intrinsic call const convert make field extent stride add sub mul div quotient remainder and
    or xor shl shr neg compare select math element bytes load store shared register barrier jump branch return
"""


def test_programs_have_every_common_operation() -> None:
    """Else the programs above prove less than they seem to."""
    used = set()
    for program, types in PROGRAMS:
        work = compiler.run(job(program, *types), "device")
        used |= {op.code.name for stage in work.artifacts.values() for f in stage.functions for op in f.ops()}
    assert set(CORE.split()) - used == set()


def test_a_module_is_its_functions() -> None:
    module = read(DEVICE + "\n" + TYPED.replace("kernel ", ""))
    assert text_of(module) == DEVICE + "\n" + TYPED.replace("kernel ", "")


def test_an_operations_repr_does_not_follow_edges() -> None:
    """Debuggers and pytest print values when something goes wrong: a program has too many paths for that."""
    blocks = [Block() for _ in range(60)]
    condition = Value(BOOL)
    for block, following in itertools.pairwise(blocks):
        block.ops.append(Op(ops.BRANCH, [condition], [], {}, [Edge(following, []), Edge(following, [])]))
    blocks[-1].ops.append(Op(ops.JUMP, successors=[Edge(blocks[0], [])]))
    assert len(repr(blocks[0])) < 10_000
