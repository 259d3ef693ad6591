"""`lower`: operations of Python on typed values become machine operations on numbers and addresses.

Each case is typed IR. The tests check properties of what the cases become.
"""

from __future__ import annotations

from typing import Any

import pytest
from ir_helpers import checked, operations, read

from cuda_device import lower


def indexed(array: str, *indices: str) -> str:
    """A function that reads an element."""
    result, names = array.removeprefix("array<").split(",")[0], "ijk"[: len(indices)]
    parameters = ", ".join(f"%{name}: {index}" for name, index in zip(names, indices, strict=True))
    read = f"%1: {result} = py.getitem %x {' '.join(f'%{name}' for name in names)}"
    return f"func @f -> {result} typed {{\n^0(%x: {array}, {parameters}):\n  {read}\n  return %1\n}}\n"


def computed(type: str, *signs: str) -> str:
    """A function that applies operators to two numbers, from the left."""
    plain, lines = type.split()[0], [f'  %1: {type} = py.binary {{op="{signs[0]}"}} %a %b']
    lines += [f'  %{i + 1}: {type} = py.binary {{op="{sign}"}} %{i} %b' for i, sign in enumerate(signs[1:], 1)]
    body = "\n".join([*lines, f"  return %{len(signs)}"])
    return f"func @f -> {plain} typed {{\n^0(%a: {type}, %b: {type}):\n{body}\n}}\n"


CASES = {
    # Arrays
    "index": indexed("array<float32, 1, C>", "int"),
    "index_nonneg": indexed("array<float32, 1, C>", "int32 nonneg"),
    "index_unsigned": """
        func @f -> none typed {
        ^0(%x: array<uint8, 1, C>, %i: uint32, %v: uint8):
          py.setitem %x %i %v
          return
        }""",
    "index_uint64": indexed("array<uint8, 1, C>", "uint64"),
    "index_last": """
        func @f -> float32 typed {
        ^0(%x: array<float32, 1, C>):
          %1: index = const {value=-1}
          %2: float32 = py.getitem %x %1
          return %2
        }""",
    "index_int8": indexed("array<float32, 1, C>", "int8"),
    "layout_c": indexed("array<float64, 3, C>", *["index nonneg"] * 3),
    "layout_f": indexed("array<float64, 3, F>", *["index nonneg"] * 3),
    "layout_strided": indexed("array<float64, 2, strided>", "index nonneg", "index"),
    "extents_and_strides": """
        func @f -> tuple<index, index, index> typed {
        ^0(%c: array<float32, 2, C>, %f: array<float32, 2, F>, %s: array<float32, 2, strided>):
          %1: index nonneg = extent {axis=1} %c
          %2: index = stride {axis=0} %c
          %3: index = stride {axis=1} %f
          %4: index = stride {axis=1} %s
          %5: index = stride {axis=0} %f
          %6: index = py.binary {op="+"} %4 %5
          %7: index = py.binary {op="+"} %2 %3
          %8: tuple<index, index, index> = make %1 %7 %6
          return %8
        }""",
    "shared_arrays": """
        func @f -> none kernel typed {
        ^0(%x: float32):
          %1: array<float32, 2, C, shared> = intrinsic {name="shared_array", settings=((16, 18,), 4,)}
          %2: array<int8, 1, C, shared> = intrinsic {name="shared_array", settings=((7,), 16,)}
          %3: index nonneg = const {value=1}
          py.setitem %1 %3 %3 %x
          %4: none = call {callee="g"} %x
          return
        }
        func @g -> none typed {
        ^0(%x: float32):
          %1: array<float32, 1, C, shared> = intrinsic {name="shared_array", settings=((5,), 4,)}
          %2: none = intrinsic {name="syncthreads"}
          %3: index nonneg = const {value=1}
          py.setitem %1 %3 %x
          %4: none = intrinsic {name="syncthreads"}
          return
        }""",
    # Ranges
    **{
        f"range_{name}": f"""
        func @f -> none typed {{
        ^0(%x: array<int32, 1, C>, %a: {item}{nonneg}, %b: {item}, %c: {item}{nonneg}):
          %1: range<{item}> = intrinsic {{name="range"}} %a %b %c
          %2: range_iterator<{item}> = py.iter %1
          jump ^1(%2)
        ^1(%3: range_iterator<{item}>):
          %4: bool, %5: {item}{nonneg}, %6: range_iterator<{item}> = py.next {{step={step}}} %3
          branch %4 ^2() ^3()
        ^2():
          %7: int32 = convert %5
          py.setitem %x %5 %7
          jump ^1(%6)
        ^3():
          return
        }}"""
        for name, item, step, nonneg in [
            ("up", "int", 1, " nonneg"),
            ("down", "int", -1, ""),
            ("runtime", "int32", None, ""),
            ("unsigned", "uint32", 1, ""),
        ]
    },
    "range_of_one": """
        func @f -> none typed {
        ^0(%n: index nonneg):
          %1: range<index> = intrinsic {name="range"} %n
          %2: range_iterator<index> = py.iter %1
          jump ^1(%2)
        ^1(%3: range_iterator<index>):
          %4: bool, %5: index nonneg, %6: range_iterator<index> = py.next {step=1} %3
          branch %4 ^1(%6) ^2()
        ^2():
          return
        }""",
    # Numbers
    "sums": """
        func @f -> tuple<int, int32, float32, uint8> typed {
        ^0(%a: int, %b: int32, %c: float32, %d: uint8):
          %1: int = py.binary {op="+"} %a %a
          %2: int32 = py.binary {op="-"} %b %b
          %3: float32 = py.binary {op="*"} %c %c
          %4: uint8 = py.binary {op="*"} %d %d
          %5: tuple<int, int32, float32, uint8> = make %1 %2 %3 %4
          return %5
        }""",
    "floor_division": computed("int32", "//"),
    "floor_division_nonneg": computed("int32 nonneg", "//", "%"),
    "unsigned_division": computed("uint64", "//", "%"),
    "shift_left": computed("int32", "<<"),
    "compare_signs": """
        func @f -> bool typed {
        ^0(%a: int32, %b: uint64):
          %1: bool = py.compare {op="<"} %a %b
          %2: bool = py.compare {op=">="} %a %b
          %3: bool = py.compare {op="!="} %b %a
          %4: bool = py.compare {op="!="} %1 %2
          %5: bool = py.compare {op="=="} %4 %3
          return %5
        }""",
    # What falls apart
    "aggregates": """
        func @f -> int typed {
        ^0(%t: tuple<int, tuple<array<float32, 1, C>, none>>, %c: bool):
          jump ^1(%t)
        ^1(%u: tuple<int, tuple<array<float32, 1, C>, none>>):
          %1: int = field {index=0} %u
          %2: tuple<array<float32, 1, C>, none> = field {index=1} %u
          %3: array<float32, 1, C> = field {index=0} %2
          %4: none = field {index=1} %2
          %5: index nonneg = intrinsic {name="len"} %3
          %6: int = py.binary {op="+"} %1 %1
          %7: tuple<int, tuple<array<float32, 1, C>, none>> = make %6 %2
          branch %c ^1(%7) ^2()
        ^2():
          return %1
        }""",
    "calls": """
        func @f -> float32 typed {
        ^0(%x: array<float32, 1, C>, %t: tuple<int, float32>):
          %1: tuple<float32, tuple<int>> = call {callee="pair"} %x %t
          %2: float32 = field {index=0} %1
          %3: tuple<float32> = call {callee="single"} %2
          %4: none = call {callee="nothing"}
          %5: float32 = field {index=0} %3
          return %5
        }
        func @pair -> tuple<float32, tuple<int>> typed {
        ^0(%x: array<float32, 1, C>, %t: tuple<int, float32>):
          %1: int = field {index=0} %t
          %2: float32 = field {index=1} %t
          %3: tuple<int> = make %1
          %4: tuple<float32, tuple<int>> = make %2 %3
          return %4
        }
        func @single -> tuple<float32> typed {
        ^0(%x: float32):
          %1: tuple<float32> = make %x
          return %1
        }
        func @nothing -> none typed {
        ^0():
          return
        }""",
    "no_value_on_this_way": """
        func @f -> index typed {
        ^0(%c: bool, %x: array<float32, 1, C>):
          branch %c ^1() ^2()
        ^1():
          jump ^3(%x)
        ^2():
          %1: array<float32, 1, C> = const {value=None}
          jump ^3(%1)
        ^3(%y: array<float32, 1, C>):
          %2: index nonneg = intrinsic {name="len"} %y
          return %2
        }""",
    "positions": """
        func @f -> none kernel typed {
        ^0(%x: array<int32, 2, C>):
          %1: tuple<int32, int32> = intrinsic {name="tid", settings=(2,)}
          %2: int32 nonneg = field {index=0} %1
          %3: int32 nonneg = field {index=1} %1
          %4: int32 nonneg = intrinsic {name="grid_size", settings=(1,)}
          py.setitem %x %3 %2 %4
          return
        }""",
}


def lowered(text: str) -> Any:
    """The device module, verified."""
    module = lower.lower_module(read(text))
    lower.number_places(module)
    return checked(module)


# What matters in the texts


@pytest.mark.parametrize("name", [name for name in CASES if "calls" not in name and "shared" not in name])
def test_device_values_are_leaves(name: str) -> None:
    function = lowered(CASES[name]).main
    assert function.level.name == "DEVICE"
    for op in function.ops():
        for value in op.results:
            assert not any(word in str(value.type) for word in ("array", "range", "none", "index")) or (
                op.code.name == "make"
            )


@pytest.mark.parametrize(
    ("name", "wraps"),
    [("index", 1), ("index_last", 1), ("index_int8", 1), ("layout_strided", 1), ("index_nonneg", 0), ("index_unsigned", 0),
     ("index_uint64", 0), ("layout_c", 0), ("layout_f", 0), ("positions", 0), ("range_up", 0),
     ("range_of_one", 0), ("range_unsigned", 0)],
)  # fmt: skip
def test_an_index_is_counted_from_the_end_only_where_it_may_be_negative(name: str, wraps: int) -> None:
    function = lowered(CASES[name]).main
    made = {value: op for op in function.ops() for value in op.results}
    compared = [op.operands[1] for op in function.ops() if op.attributes.get("op") == "<"]
    zeros = [value for value in compared if value in made and made[value].attributes.get("value") == 0]
    assert len(zeros) == wraps


@pytest.mark.parametrize(
    ("name", "selects"),
    [("range_up", 0), ("range_down", 1), ("range_unsigned", 0), ("range_of_one", 0)],
)
def test_loops_with_a_simple_step_have_no_selection(name: str, selects: int) -> None:
    """LLVM's canonical loop: one comparison, one sum. (What is left: the index's wrap, or the clamp of a long step.)"""
    assert len(operations(lowered(CASES[name]), "select")) == selects


def test_builtin_integers_never_overflow_and_fixed_ones_wrap() -> None:
    sums = [op for op in lowered(CASES["sums"]).main.ops() if op.code.name in ("add", "sub", "mul")]
    assert [(str(op.result.type), op.attributes) for op in sums] == [
        ("int32", {"exact": True}),
        ("int32", {}),
        ("float32", {}),
        ("uint8", {}),
    ]


def test_divisions_of_what_is_not_negative_are_single() -> None:
    codes = [op.code.name for op in lowered(CASES["floor_division_nonneg"]).main.ops()]
    assert codes == ["quotient", "remainder", "return"]
    codes = [op.code.name for op in lowered(CASES["unsigned_division"]).main.ops()]
    assert codes == ["quotient", "remainder", "return"]


def test_places_and_shared_arrays_are_numbered_through_the_module() -> None:
    assert [op.attributes["place"] for op in operations(lowered(CASES["shared_arrays"]), "barrier")] == [1, 2]
    assert [op.attributes["number"] for op in operations(lowered(CASES["shared_arrays"]), "shared")] == [0, 1, 2]


def test_facts_of_the_typed_level_stay() -> None:
    """Lengths and positions are known not to be negative."""
    x = lowered(CASES["index"]).main.params
    assert [value.nonneg for value in x] == [False, True, False]
    (load,) = operations(lowered(CASES["positions"]), "element")
    assert load.operands[1].nonneg


WIDENED = """
func @f -> int32 typed {
^0(%i: int32, %j: int32 nonneg):
  %1: int64 = convert %i
  %2: int32 = convert {exact=True} %1
  %3: int64 nonneg = convert %j
  %4: int32 nonneg = convert {exact=True} %3
  %5: int32 = py.binary {op="+"} %2 %4
  return %5
}
"""


def test_what_was_made_wider_is_itself_when_it_is_narrow_again():
    """A counter that is an index between two uses needs no second register."""
    function = lower.lower_module(read(WIDENED)).main
    (total,) = (op for op in function.ops() if op.code.name == "add")
    assert total.operands == function.blocks[0].params


def test_what_was_made_narrow_is_another_number():
    text = WIDENED.replace("int32 = convert {exact=True} %1", "int32 = convert %1").replace("%i: int32", "%i: int8")
    function = lower.lower_module(read(text.replace("int64 = convert %i", "uint8 = convert %i"))).main
    (total,) = (op for op in function.ops() if op.code.name == "add")
    assert total.operands[0] not in function.blocks[0].params
