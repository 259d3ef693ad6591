"""Variables that nested functions capture: whatever may call one finds them as they are then, and not as they were before."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from against_python import check, refused
from conftest import thinned
from ir_helpers import define

import cuda_device as device
from cuda_device.bytecode.cfg import READS_CELLS
from cuda_device.bytecode.decode import decode

X = np.arange(8) * 1.5 - 3

# Each is the body of a function of i and x, for an instruction. `late` is assigned right before it, on two ways, and only a
# nested function reads it: were it not known that the instruction may call one, the variable would be lost where the ways meet.
STEPS = {
    "CALL": "def f():\n    return late + i\n{assign}\nreturn f()",
    "CALL_KW": "def f(*, a):\n    return late + a\n{assign}\nreturn f(a=i)",
    "CALL_EX": "def f(a):\n    return late + a\nt = (i,)\n{assign}\nreturn f(*t)",
    "RETURN": """
def make():
    k = i
    def f():
        return late + k
    {inner}
    return f
late = 0
return make()()""",
    "YIELD": """
def g():
    def f():
        return late + i
    {inner}
    yield f
for h in g():
    s = h()
return s""",
    "UNPACK": "g = (late + j for j in range(2))\n{assign}\na, b = g\nreturn a * 100 + b",
    "UNPACK_EX": "g = (late + j for j in range(3))\n{assign}\na, *b = g\nreturn a * 100 + b[1]",
    "LIST_EXTEND": "g = (late + j for j in range(2))\n{assign}\nboth = [0, *g]\nreturn both[1] * 100 + both[2]",
    "CONTAINS": "g = (late + j for j in range(4))\n{assign}\nreturn 5 in g",
    "FOR_ITER": "g = (late + j for j in range(3))\n{assign}\ns = 0\nfor v in g:\n    s = s * 10 + v\nreturn s",
}


def body_of(name: str):
    assign = "if i > 3:\n    late = 5\nelse:\n    late = i"
    inner = assign.replace("\n", "\n    ")
    lines = STEPS[name].replace("{inner}", inner).replace("{assign}", assign).strip().replace("\n", "\n    ")
    return define(f"def body(i, x):\n    {lines}\n", "body")


def test_there_is_a_program_for_each_such_instruction():
    assert {*STEPS} == {opcode.name for opcode in READS_CELLS}


@pytest.mark.parametrize("step", STEPS)
def test_variables_are_as_they_are_when_a_function_reads_them(stream, step):
    body = body_of(step)
    codes = [body.__code__, *(c for c in body.__code__.co_consts if hasattr(c, "co_code"))]
    assert any(instruction.opcode.name == step for code in codes for instruction in decode(code))
    check(stream, body, X)


@device.struct
class Pair:
    """Two numbers, the second of which is an array's part, too."""

    a: device.float64
    v: device.float64x2


TEN = 10

# What stands between reading `p[j].a` and writing it: each leaves the element where it was.
BETWEEN = {
    "item": "x[j]",
    "attribute": "p[j].v.x",
    "global": "TEN",
    "captured": "captured",
    "constant": "2.5",
    "arithmetic": "x[j] * 2 - 1",
    "sign": "-x[j]",
    "tuple": "(x[j], 3)[1]",
    "comparison": "x[j] < 0",
    "truth": "x[j] and 3",
    "choice": "x[j] if x[j] > 0 else captured",
    "call": "twice(x[j])",
    "builtin": "abs(x[j])",
    "slice": "x[j:][0]",
    "sum": "sum(t for t in (x[j], captured))",
    "name": "(named := x[j] + 1)",
}
TARGETS = ["p[j].a", "p[j].v.x", "p[j].v[1]", "p[j].v[n]"]


@pytest.mark.parametrize("name, target", thinned(BETWEEN, TARGETS, one_in=4))
def test_a_part_of_an_element_is_changed_whatever_is_added(stream, name, target):
    source = f"""
    def twice(v):
        return v + v

    def changes(p, x, j, n):
        captured = x[j] * 3
        def reads():
            return captured
        {target} += {BETWEEN[name]}
        {target} = {target} * 2 + {BETWEEN[name]}
        x[0] += reads()
    """
    scope = {"TEN": TEN}
    exec(textwrap.dedent(source), scope)
    changes = scope["changes"]

    @device.kernel
    def kernel(p, x, n):
        for j in range(len(p)):
            changes(p, x, j, n)

    dtype = device.numpy_dtype(Pair)
    given = np.zeros(8, dtype)
    given["a"], given["v"]["x"], given["v"]["y"] = X, X + 1, X + 2
    p, x = stream.array(given), stream.array(X)
    stream.launch(kernel, p, x, 1, grid=1, block=1)
    expected, plain = given.copy(), X.copy()
    for j in range(len(given)):
        changes(Elements(expected), plain, j, 1)
    assert stream.numpy(p).tolist() == expected.tolist()
    assert stream.numpy(x).tolist() == plain.tolist()


@pytest.mark.parametrize("name", ["item", "attribute", "global", "captured", "constant", "arithmetic", "sign", "tuple"])
@pytest.mark.parametrize("target", TARGETS[:3])
def test_nothing_but_that_part_is_written(name, target):
    """Another thread may write the other parts meanwhile."""
    kernel = define(
        f"""
        @device.kernel
        def k(p, x, j):
            captured = x[j] * 3
            def reads():
                return captured
            {target} += {BETWEEN[name]}
            x[0] += reads()
        """,
        TEN=TEN,
    )
    arrays = (device.ArrayType(Pair, 1), device.ArrayType(device.float64, 1))
    ptx = device.compile(kernel, *arrays, int, output="ptx").code
    stores = [line.split()[0] for line in ptx.splitlines() if "st.global" in line]
    assert stores == ["st.global.b64"] * 2, stores


LARGE = np.dtype([("a", np.float64), ("m", np.float32, (33, 35))])

# What stands between reading a record and writing it: each gives 3.
INDICES = {
    "item": "order[1]",
    "attribute": "order.ndim + 2",
    "global": "TEN - 7",
    "captured": "captured",
    "constant": "3",
    "arithmetic": "j + 3",
    "sign": "-captured + 6",
    "tuple": "(j + 2, j + 3)[1]",
}


@pytest.mark.parametrize("name", INDICES)
def test_a_record_too_large_for_a_value_is_copied_wherever_it_goes(stream, name):
    kernel = define(
        f"""
        @device.kernel
        def k(p, order, j):
            captured = order[1]
            def copies():
                p[{INDICES[name]}] = p[j]
            copies()
            p[{INDICES[name]} - 1]["m"] = p[{INDICES[name]}]["m"]
        """,
        TEN=TEN,
    )
    given = np.zeros(4, LARGE)
    given["a"] = 1, 2, 3, 4
    given["m"] = np.arange(4 * 1155, dtype=np.float32).reshape(4, 33, 35)
    p, _ = stream.run(kernel, given, np.array([2, 3]), 0)
    given[3] = given[0]
    given["m"][2] = given["m"][3]
    assert p.tobytes() == given.tobytes()


class Elements:
    """An array of pairs, whose elements are objects as they are in device code."""

    def __init__(self, of):
        self.of = of

    def __getitem__(self, j):
        return Element(self.of, j)


class Element:
    """One of them."""

    def __init__(self, of, j):
        object.__setattr__(self, "place", (of, j))

    @property
    def a(self):
        of, j = self.place
        return of["a"][j]

    @a.setter
    def a(self, value):
        of, j = self.place
        of["a"][j] = value

    @property
    def v(self):
        return Vector(*self.place)


class Vector:
    """The vector in it."""

    def __init__(self, of, j):
        self.__dict__.update(of=of, j=j)

    def __getattr__(self, name):
        return self.of["v"][name][self.j]

    def __setattr__(self, name, value):
        self.of["v"][name][self.j] = value

    def __getitem__(self, k):
        return getattr(self, "xy"[k])

    def __setitem__(self, k, value):
        setattr(self, "xy"[k], value)


def test_a_variable_of_the_host_stays_as_it_is():
    count = 0

    def up(x):
        nonlocal count
        count += 1
        return x

    refused(up, int, match="cannot assign to 'count', a variable of a host function")
    assert count == 0
