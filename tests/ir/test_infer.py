"""`infer`: what is known of values, one behaviour a case."""

from __future__ import annotations

import math
from typing import Any

import pytest
from ir_helpers import define, job, operations, stage

import cuda_device as device
from cuda_device import ArrayType, compiler
from cuda_device.errors import CompilerBug
from cuda_device.infer.rules import RULES
from cuda_device.ir import ops

X = ArrayType(device.float32, 1)
SCALE = 3


def typed(function: Any, *arguments: Any) -> Any:
    return stage("typed", function, *arguments)


# Functions that tests share


def folds(x):
    a = 2 + 3 * SCALE
    b = -(a << 2) // 7 if a > 10 else x
    return x * (b / 2) + math.sqrt(16) + len((1, 2, 3)) + abs(-0.5) + round(2.5)


def prunes(x, n):
    if n is None:
        return x[0]
    if SCALE == 4:
        return x.nothing_like_that
    return n


def joins(flag, x):
    value = 0
    if flag:
        value = x[0]
    return value


def joins_kinds(flag, n):
    if flag:
        value, other, third = 1, 2.5, n
    else:
        value, other, third = 2, 1, 7
    return value, other, third


def accumulates(x):
    total = 0
    for i in range(len(x)):
        total += x[i]
    return total


def unrolls(x):
    total = 0
    for weight in (1, 2.5, x):
        total = total * 2 + weight
    return total


def unrolls_nested(n):
    total = 0
    for a in (1, 2):
        for b in (a, n):
            if b == 1:
                continue
            total += a * b
    return total


def power(x, n):
    return x if n == 1 else x * power(x, n - 1)


def specialises(x):
    return helper(x, 2) + helper(x, 3) + helper(1, 2) + helper(x, 2)


def helper(x, n):
    return x * n if n > 2 else x


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else is_even(n - 1)


def nonneg_facts(x):
    i = device.tid(1)
    n = len(x)
    j = i + 1
    k = i - 1
    m = (i * 2 + j) % n
    return x[i] + x[j] + x[k] + x[m] + x[i // 2] + x[min(i, 5)] + x[max(k, 0)] + x[k & 7]


def converts_at_edges(flag, i, x):
    while flag:
        i = i + 1.5
        flag = i < 10
    return i


def defined_on_some_ways(n, x):
    if n > 0:
        value = x[0]
    if n > 0:
        x[0] = value


def strides_and_shapes(x):
    rows, columns = x.shape
    return rows * columns + x.size + x.strides[0] + x.ndim


@device.kernel
def barrier_in_callee(x):
    wait(x, device.thread_idx.x)


def wait(x, i):
    device.syncthreads()
    x[i] += 1


def test_constants_are_folded_exactly() -> None:
    module = typed(folds, device.float32)
    assert not operations(module, "intrinsic")
    assert {op.attributes["op"] for op in operations(module, "py.binary")} == {"*", "+"}
    assert {op.attributes["value"] for op in operations(module, "const")} == {-(11 << 2) // 7 / 2, 4.0, 3.0, 0.5, 2.0}


def test_dead_branches_are_never_typed() -> None:
    module = typed(prunes, X, int)
    assert len(module.main.blocks) == 1
    assert not operations(module, "py.getitem")
    assert str(typed(prunes, X, None).main.result) == "float32"


@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        (joins, (bool, X), "float32"),
        (joins, (bool, ArrayType(device.uint8, 1)), "uint8"),
        (joins_kinds, (bool, device.int64), "tuple<int, float, int64>"),
        (accumulates, (X,), "float32"),
        (accumulates, (ArrayType(device.int64, 1),), "int64"),
        (unrolls, (device.float64,), "float64"),
        (fibonacci, (int,), "int"),
        (fibonacci, (device.int64,), "int64"),
        (is_even, (device.int32,), "bool"),
        (converts_at_edges, (bool, int, X), "float"),
        (converts_at_edges, (bool, device.float64, X), "float64"),
        (strides_and_shapes, (ArrayType(device.uint8, 2),), "index"),
        (defined_on_some_ways, (int, X), "none"),
        (lambda n: range(n), (int,), "range<int>"),
    ],
)  # fmt: skip
def test_results(function: Any, arguments: tuple[Any, ...], result: str) -> None:
    assert str(typed(function, *arguments).main.result) == result


def test_a_loop_over_a_tuple_has_a_copy_of_its_body_for_each_element() -> None:
    module = typed(unrolls, device.float32)
    assert len(module.main.blocks) == 1
    assert not operations(module, "py.next")
    (addition,) = operations(module, "py.binary")  # of x: what the constants give is known
    assert addition.attributes["op"] == "+"
    assert 9.0 in {op.attributes["value"] for op in operations(module, "const")}


def test_constants_of_outer_elements_decide_branches_of_inner_ones() -> None:
    module = typed(unrolls_nested, int)
    compared = operations(module, "py.compare")
    assert len(compared) == 2  # where b is n; the other two are known


def test_callees_are_specialised_by_types_and_constants() -> None:
    module = typed(specialises, device.float32)
    assert [function.name for function in module.functions] == ["specialises", "helper", "helper_2", "helper_3"] or (
        len(module.functions) == 3  # helper(1, 2) is a constant, so no function is left of it
    )
    callees = [op.attributes["callee"] for op in operations(module, "call")]
    assert callees[0] == callees[-1] != callees[1]


def test_recursion_forgets_constants() -> None:
    """Else power(x, 1000) had a thousand specialisations."""
    module = typed(define("def k(x):\n    return power(x, 1000)", power=power), device.float32)
    assert len(module.functions) <= 4  # one for 1000, one for an int from 0 up, one for any int


def test_a_const_expression_unrolls_recursion() -> None:
    source = """
        def power(x, n: device.ConstExpr):
            return x if n == 1 else x * power(x, n - 1)

        def k(x):
            return power(x, 4)
    """
    module = typed(define(source), device.float32)
    assert len(module.functions) == 5
    assert not operations(module, "branch")


@pytest.mark.parametrize("i", range(8))
def test_facts_about_signs(i: int) -> None:
    """x[tid], x[tid + 1], x[tid - 1], x[… % n], x[tid // 2], x[min(tid, 5)], x[max(…, 0)], x[… & 7]"""
    module = typed(nonneg_facts, X)
    # tid is an int32, which wraps: tid + 1 may be anything. `%` has the divisor's sign.
    expected = [True, False, False, True, True, True, True, True]
    index = operations(module, "py.getitem")[i].operands[1]
    assert index.nonneg == expected[i]


@pytest.mark.parametrize(
    ("loop", "item"),
    [
        ("range(n)", True),
        ("range(0, n)", True),
        ("range(1, n, 2)", True),
        ("range(m, n)", False),
        ("range(-1, n)", False),
        ("range(n, -1, -1)", True),
        ("range(n, -2, -1)", False),
        ("range(n, m, -1)", False),
        ("range(n, len(x), -3)", True),
        ("range(len(x), -1, -1)", True),
        ("range(len(x) - 1, -1, -1)", True),
        ("range(device.tid(1), len(x), device.grid_size(1))", True),
        ("range(0, n, m)", False),
        ("range(len(x))", True),
        ("range(device.uint8(n))", True),
    ],
)
def test_items_of_ranges(loop: str, item: bool) -> None:
    module = typed(define(f"def k(x, n, m):\n    for i in {loop}: x[i] = 1"), X, int, int)
    (step,) = operations(module, "py.next")
    assert step.results[1].nonneg == item
    (store,) = operations(module, "py.setitem")
    assert store.operands[1].nonneg == item


def test_a_number_is_converted_where_ways_meet() -> None:
    module = typed(converts_at_edges, bool, int, X)
    converted = [op for op in operations(module, "convert") if str(op.result.type) == "float"]
    assert {op.operands[0] for op in converted} == {module.main.params[1]}


def test_a_variable_without_a_value_on_this_way_has_any() -> None:
    module = typed(defined_on_some_ways, int, X)
    assert any(str(op.result.type) == "float32" for op in operations(module, "const"))


@pytest.mark.parametrize(
    "source",
    [
        # Each is typed at the second look, when the first was wrong.
        "def k(x):\n    j = 0\n    while x[0] > 0:\n        for i in range(j): x[i] = 1\n        j = len(x)",
        (
            "def k(x):\n    i = 0\n    while x[0] > 0:\n        y = -1 ** i * (x[1] if x[2] > 0 else i)\n        x[2] = y\n"
            "        i = device.uint8(x[0])"
        ),
        "def k(x):\n    t = (0, 1)\n    for i in range(3):\n        t = (x[0], t[0])\n    x[0] = t[1]",
        "def k(x):\n    a = b = c = 0\n    for i in range(9):\n        a, b, c = b, c, x[i]\n    x[0] = a",
        "def k(x):\n    v = 1\n    while v < 10:\n        v = v * 2.5\n        if v > 5: v = v + x[0]\n    x[0] = v",
        "def k(x):\n    last = None\n    for i in (1, 2, 3):\n        if last is not None: x[i] = last\n        last = x[i]",
    ],
)
def test_first_looks_are_corrected(source: str) -> None:
    typed(define(source), X)


def test_names_of_functions_are_made_unique_and_plain() -> None:
    source = """
        def outer():
            def same(a): return a + 1
            def größe(a): return a + 2
            return same, größe
        first, size = outer()
        second = outer()[0]
        def same(a): return a + 3
        def k(x): return first(x) + second(x) + same(x) + size(x)
    """
    names = [function.name for function in typed(define(source), device.float32).functions]
    assert len(set(names)) == len(names) == 5
    assert all(name.isascii() and name.isidentifier() for name in names)
    assert names[0] == "k"


def test_effects_of_callees_are_the_caller_s_too() -> None:
    module = typed(barrier_in_callee, X)
    for function in module.functions:
        assert {"SUSPENDS", "CONVERGENT"} <= {effect.name for effect in function.effects}
    assert {"SUSPENDS", "CONVERGENT"}.isdisjoint(effect.name for effect in typed(accumulates, X).main.effects)


def test_only_functions_that_are_called_are_kept() -> None:
    source = """
        def used(a): return a + 1
        def unused(a): return a + 2
        def k(x): return used(x) if True else unused(x)
    """
    assert [function.name for function in typed(define(source), device.float32).functions] == ["k", "used"]


# What the program read of the world


def dependencies(function: Any, *arguments: Any) -> Any:
    return compiler.run(job(function, *arguments), "typed").dependencies


def test_globals_attributes_and_cells_are_remembered() -> None:
    function = define(
        "def make(a):\n    def inner(x): return math.sqrt(x) * a * SCALE\n    return inner\nk = make(3)", SCALE=2
    )
    found = dependencies(function, device.float32)
    assert {dependency.name for dependency in found} == {"math", "sqrt", "a", "SCALE"}
    assert all(dependency.current() for dependency in found)
    function.__globals__["SCALE"] = 5
    assert [dependency.name for dependency in found if not dependency.current()] == ["SCALE"]
    function.__globals__["SCALE"] = 2
    function.__closure__[0].cell_contents = 4
    assert [dependency.name for dependency in found if not dependency.current()] == ["a"]
    del function.__globals__["math"]
    assert sorted(d.name for d in found if not d.current()) == ["a", "math"]


def test_what_a_dead_branch_would_read_is_not() -> None:
    function = define("def k(x):\n    return x if FLAG else OTHER", FLAG=True, OTHER=3)
    assert {dependency.name for dependency in dependencies(function, device.float32)} == {"FLAG"}


# Limits: a program that could be compiled for ever is refused


@pytest.mark.parametrize(
    "source",
    [
        "def f(n): return f(n + (1,))\ndef k(x): x[0] = f(())",
        "def k(x):\n    s = 0\n" + "".join(f"{'    ' * i}for a{i} in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10):\n" for i in range(1, 8))
        + "    " * 8 + "s += a1 * a7\n    x[0] = s",
    ],
    ids=["growing recursion", "huge unrolling"],
)  # fmt: skip
def test_endless_programs_are_refused(source: str) -> None:
    with pytest.raises(device.CompileError) as caught:
        typed(define(source), X)
    assert len(str(caught.value).splitlines()) < 20
    assert max(map(len, str(caught.value).splitlines())) < 300


@pytest.mark.parametrize(
    "expression",
    ["(10**4096) ** 4096 > 5", "(1, 2, 3) * 10**8", "'a' * 10**9", "1 << 10**9", "2 ** 10**9", "((9**999)**999)**999"],
)
def test_constants_do_not_grow_without_bound(expression: str) -> None:
    """Folded, refused, or left to run time, but soon."""
    try:
        typed(define(f"def k(x):\n    a = {expression}\n    x[0] = 1"), X)
    except device.CompileError:
        pass


def test_long_chains_of_calls_are_no_problem() -> None:
    source = "\n".join(f"def f{i}(x): return f{i + 1}(x) + {i}" for i in range(600)) + "\ndef f600(x): return x\nk = f0"
    module = typed(define(source), device.float32)
    assert len(module.functions) == 601


def test_calls_deeper_than_the_compiler_goes_are_refused():
    names = {}
    exec("def f0(x): return x\n" + "".join(f"def f{i}(x): return f{i - 1}(x)\n" for i in range(1, 2001)), names)
    deeper = names["f2000"]
    with pytest.raises(device.CompileError, match=r"f\d is more than 2000 calls deep") as caught:
        device.compile(device.func(lambda x: deeper(x)), float, output="ir")
    assert caught.value.help == "use fewer nested calls"


@pytest.mark.parametrize("text", ["2**5000", "1 << 5000", "2**4000 * 2**4000 * 2**4000", "3**3000 > n"])
def test_constants_of_thousands_of_bits_are_refused(text: str) -> None:
    """At run time they would be other numbers."""
    with pytest.raises(device.CompileError, match="a constant of thousands of bits is too large") as caught:
        typed(eval(f"lambda n: {text}"), int)
    assert caught.value.help == "compute it outside of the kernel, and use the result"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2**4000 * 2**4000 >> 7999", 2),
        ("(1 << 4000) >> 3999", 2),
        ("1**10**9", 1),
        ("0 << 10**9", 0),
        ("2**-5000", 0.0),
    ],
)
def test_constants_of_hundreds_of_bits_are_exact(text: str, value: object) -> None:
    module = typed(eval(f"lambda n: n + ({text})"), int)
    assert [op.attributes["value"] for op in operations(module, "const")] == [value]


def test_the_first_of_two_readings_is_no_context_of_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that several blocks use makes inference read a function again. Reports of bugs do not mention that."""

    def changes(n):
        items = [1, 2]
        for _ in range(n):
            items[0] = 3
        return items.nothing

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setitem(RULES, ops.PY_GETATTR, broken)
    with pytest.raises(CompilerBug) as caught:
        typed(changes, device.int32)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.__cause__.__context__ is None


def test_a_loop_is_inferred_again_if_the_type_of_a_value_before_it_changes() -> None:
    """`first` becomes a float32 after the inner loop was inferred for an int, which made `total` a float32."""

    def counts(x, n):
        start: Any = 1
        for _ in range(n):
            first = start + 1
            total = 0
            for _ in range(2):
                if isinstance(first, int):
                    total = total + device.float32(1)
                else:
                    total = total + device.int64(1)
            x[0] = total
            if isinstance(first, int):
                start = total
            else:
                start = 0.5

    module = typed(counts, X, device.int32)
    types = [str(op.result.type) for op in operations(module, "py.binary")]
    assert types == ["float32", "int64"]
