"""Kinds of change to a kernel's world, for the tests of the cache: a program, a change of its text, and both results.

Each program has a kernel `k` of four threads that writes into `out`. A change is marked in its text: `«old→new»`.
`other` is a module of its own, whose text precedes a line of dashes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD = """
import enum, functools, math, operator
import numpy as np
import cuda_device as device
from cuda_device import float32, float64, int8, int16, int32, int64, uint8, uint32, func, kernel, struct, tid
"""


@dataclass(frozen=True)
class Change:
    name: str
    old: str
    new: str
    before: list[float]
    after: list[float]


def change(name: str, text: str, before: object, after: object) -> Change:
    """`text` has «the old→the new» in one place. A result that is a number stands for four of it."""
    head, old, new, tail = re.fullmatch("(.*)«(.*)→(.*)»(.*)", text, re.S).groups()
    lists = [[float(r)] * 4 if isinstance(r, (int, float)) else [float(x) for x in r] for r in (before, after)]
    return Change(name, head + old + tail, head + new + tail, *lists)


def marked(text: str, old: str, new: str) -> str:
    """A text with a mark around something that stands in it once."""
    assert text.count(old) == 1, f"{old!r} in {text}"
    return text.replace(old, f"«{old}→{new}»")


def body(line: str, head: str = "") -> str:
    """A program whose kernel has this body."""
    return f"{head}\n@kernel\ndef k(out):\n    i = tid(1)\n" + "".join(f"    {each}\n" for each in line.split("\n"))


def world(head: str, value: str) -> str:
    """A program whose kernel writes `value`."""
    return body(f"out[i] = {value}", head)


POINT = """
@struct
class point:
    x: int32
    y: int32 = 5
    scale = 2

    @func
    def sum(self):
        return self.x + self.y

    def __add__(self, other):
        return point(self.x + other.x, self.y + other.y)
"""

CHANGES = (
    # The kernel's own text
    change("a constant", body("out[i] «= 3→= 4»"), 3, 4),
    change("a constant that is as long", body("out[i] = «0.1→0.2»"), 0.1, 0.2),
    change("an operator", body("out[i] = i «+→*» 3"), [3, 4, 5, 6], [0, 3, 6, 9]),
    change("a comparison", body("out[i] = i «<→>» 2"), [1, 1, 0, 0], [0, 0, 0, 1]),
    change("the order of operands", body("out[i] = «i - 3→3 - i»"), [-3, -2, -1, 0], [3, 2, 1, 0]),
    change("which branch is which", body("out[i] = «1 if i < 2 else 2→2 if i < 2 else 1»"),
           [1, 1, 2, 2], [2, 2, 1, 1]),
    change("a guard", body("if «i < 4→i < 2»: out[i] = 1"), 1, [1, 1, -7, -7]),
    change("the bounds of a loop", body("s = 0\nfor j in range«(5)→(2, 5)»: s += j\nout[i] = s"), 10, 9),
    change("the step of a loop", body("s = 0\nfor j in range(0, «9, 2→9, 3»): s += j\nout[i] = s"), 20, 9),
    change("the condition of a loop", body("s = i\nwhile «s < 9→s < 12»: s += 4\nelse: s += 1\nout[i] = s"),
           [13, 10, 11, 12], [13, 14, 15, 16]),
    change("a slice", body("out«[1:]→[2:]»[i & 1] = 1"), [-7, 1, 1, -7], [-7, -7, 1, 1]),
    change("an index", body("out[i] = 0\nout«[-1]→[-2]» = 5"), [0, 0, 0, 5], [0, 0, 5, 0]),
    change("a nested function", body("def f(v): return «v + 1→v + 2»\nout[i] = f(i)"), [1, 2, 3, 4], [2, 3, 4, 5]),
    change("a lambda", body("f = lambda v: «v * 2→v * 3»\nout[i] = f(i)"), [0, 2, 4, 6], [0, 3, 6, 9]),
    change("a comprehension", body("out[i] = sum(«j * j→j + j» for j in range(4))"), 14, 12),
    change("a match", body("match i:\n    «case 0→case 1»: out[i] = 1\n    case _: out[i] = 2"),
           [1, 2, 2, 2], [2, 1, 2, 2]),
    change("a negative zero", body("out[i] = math.copysign(1.0, «0.0)→-0.0)»"), 1, -1),
    change("True instead of 1", body("out[i] = device.sizeof(type(int8(1) + 1)) + len(«(1, 2)→(True, 2, 3)»)"), 3, 4),
    change("a float instead of an int", body("out[i] = 7 / 2 if isinstance«(1, int)→(1.0, int)» else 0"), 3.5, 0),
    change("the name of a type", body("out[i] = «int8(100)→int16(100)» + int8(i + 27)"),
           [127, -128, -127, -126], [127, 128, 129, 130]),
    # Globals
    change("a global int", world("«N = 3→N = 4»", "N"), 3, 4),
    change("a global float", world("N = «0.5→0.25»", "N"), 0.5, 0.25),
    change("a global bool", world("N = «True→False»", "10 if N else 20"), 10, 20),
    change("a global None", world("N «= None→= 1»", "10 if N is None else 20"), 10, 20),
    change("the type of a global", world("«N = 7→N = 7.0»", "N // 2 if isinstance(N, int) else -1"), 3, -1),
    change("a tuple", world("N = «(1, 2→(1, 9», 3)", "N[1]"), 2, 9),
    change("a tuple in a tuple", world("N = (1, «(2, 3)→(2, 4)»)", "N[1][1]"), 3, 4),
    change("the length of a tuple", world("N = (1, «2, 3→2, 3, 4»)", "len(N)"), 3, 4),
    change("a NumPy number", world("N = np.int32«(5)→(6)»", "N"), 5, 6),
    change("the type of a NumPy number", world("N = «np.int8→np.int16»(100)", "N + int8(100)"), -56, 200),
    change("a vector", world("N = device.int32x2«(1, 2)→(1, 3)»", "N.y"), 2, 3),
    change("a string", marked(world("N = 'up'", "1 if N == 'up' else 2"), "N = 'up'\n", "N = 'down'\n"), 1, 2),
    change("an enum", world("class C(enum.IntEnum):\n    A = 1\n    «B = 2→B = 3»", "C.B"), 2, 3),
    change("a class attribute", world("class C:\n    «n = 4→n = 5»", "C.n"), 4, 5),
    change("an attribute of a class in a class", world("class C:\n    class D:\n        «n = 4→n = 5»", "C.D.n"), 4, 5),
    change("an alias of a type", world("«T = int8→T = int16»", "T(100) + T(100)"), -56, 200),
    change("what a name stands for", world("from math import «floor→ceil» as f", "f(2.5)"), 2, 3),
    change("a global that hides a builtin", world("h = 0\n«def m(→def max(»a, b): return 42", "max(1, 2)"), 2, 42),
    # Functions
    change("a callee", world("def f(v): return «v + 1→v + 2»", "f(i)"), [1, 2, 3, 4], [2, 3, 4, 5]),
    change("a @func", world("@func\ndef f(v): return «v + 1→v + 2»", "f(i)"), [1, 2, 3, 4], [2, 3, 4, 5]),
    change("a callee of a callee", world("def g(v): return v «* 2→* 3»\ndef f(v): return g(v)", "f(i)"),
           [0, 2, 4, 6], [0, 3, 6, 9]),
    change("a global of a callee", world("«N = 2→N = 3»\ndef f(v): return v * N", "f(i)"), [0, 2, 4, 6], [0, 3, 6, 9]),
    change("which function is called", world("def f(v): return 1\ndef g(v): return 2\n«h = f→h = g»", "h(i)"), 1, 2),
    change("a recursive function", world("def f(n): return «1 if n→2 if n» < 2 else n * f(n - 1)", "f(i)"),
           [1, 1, 2, 6], [2, 2, 4, 12]),
    change("a default", world("def f(a, «b=3→b=4»): return a + b", "f(i)"), [3, 4, 5, 6], [4, 5, 6, 7]),
    change("a keyword's default", world("def f(a, *, «b=3→b=4»): return a + b", "f(i)"), [3, 4, 5, 6], [4, 5, 6, 7]),
    change("the kernel's default", "@kernel\ndef k(out, «n=3→n=4»):\n    out[tid(1)] = n\n", 3, 4),
    change("a constant parameter's default",
           "@kernel\ndef k(out, n: device.ConstExpr[int] «= 3→= 4»):\n    out[tid(1)] = device.local_array(n, int32).size\n",
           3, 4),
    change("the order of parameters", world("def f«(a, b)→(b, a)»: return a - b", "f(i, 1)"), [-1, 0, 1, 2], [1, 0, -1, -2]),
    change("a partial's argument", world("def f(a, b): return a - b\ng = functools.partial(«f, 10→f, 20»)", "g(i)"),
           [10, 9, 8, 7], [20, 19, 18, 17]),
    change("a partial's function",
           world("def f(a, b): return a - b\ndef h(a, b): return a + b\ng = functools.«partial(f→partial(h», 10)",
           "g(i)"), [10, 9, 8, 7], [10, 11, 12, 13]),
    change("an operator's function", world("op = «operator.add→operator.mul»", "op(i, 2)"), [2, 3, 4, 5], [0, 2, 4, 6]),
    change("a function of mathematics", world("f = «math.floor→math.ceil»", "f(-1.5)"), -2, -1),
    # Closures
    change("a captured int",
           "def make(n):\n    @kernel\n    def k(out):\n        out[tid(1)] = n\n    return k\nk = «make(3)→make(4)»\n", 3, 4),
    change("a captured tuple",
           "def make(n):\n    @kernel\n    def k(out):\n        out[tid(1)] = n[1]\n    return k\nk = make((«1, 3→1, 4»))\n",
           3, 4),
    change("a captured function", "def make(f):\n    @kernel\n    def k(out):\n        out[tid(1)] = f(2.5)\n    return k\n"
           "k = make(lambda v: «v + 1→v + 2»)\n", 3.5, 4.5),
    change("what a captured function captured",
           "def add(n): return lambda v: v + n\nf = «add(1)→add(2)»\n" + body("out[i] = f(i)"), [1, 2, 3, 4], [2, 3, 4, 5]),
    # Structs
    change("a method", marked(world(POINT, "point(i, 2).sum()"), "self.x + self.y\n\n",
           "self.x - self.y\n\n"), [2, 3, 4, 5], [-2, -1, 0, 1]),
    change("an operator of a struct", marked(world(POINT, "(point(i, 1) + point(1, 1)).x"), "point(self.x + other.x",
           "point(self.x - other.x"),
           [1, 2, 3, 4], [-1, 0, 1, 2]),
    change("a member's default", marked(world(POINT, "point(i).y"), "= 5", "= 6"), 5, 6),
    change("a member's type", marked(world(POINT, "device.sizeof(point)"), "y: int32", "y: int64"), 8, 16),
    change("the order of members", marked(world(POINT.replace(" = 5", ""), "point(1, 2).x"), "x: int32\n    y: int32",
           "y: int32\n    x: int32"), 1, 2),
    change("a member more", marked(world(POINT, "device.sizeof(point)"), "scale = 2", "z: int32 = 1"), 8, 12),
    change("a struct's alignment", marked(world(POINT, "device.alignof(point)"), "@struct", "@struct(align=16)"), 4, 16),
    change("an attribute of a struct's class", marked(world(POINT, "point.scale"), "scale = 2", "scale = 3"), 2, 3),
    change("the members of a global struct", world(POINT + "«P = point(1, 2)→P = point(1, 3)»", "P.y"), 2, 3),
    change("a member of an element", body("s = device.local_array(2, point)\ns[0] = point(1, 2)\nout[i] = «s[0].x→s[0].y»",
           POINT), 1, 2),
    # The programming model
    change("the size of shared memory", body("s = device.shared_array«(8,→(16,» int32)\nout[i] = s.size"), 8, 16),
    change("the type of shared memory", body("s = device.shared_array(8, «int32)→float64)»\nout[i] = s.itemsize"), 4, 8),
    change("a barrier's reduction", body("out[i] = device.syncthreads_count(«i > 2→i > 1»)"), 1, 2),
    change("a shuffle's lane", body("out[i] = device.shfl_sync(0xF, «i, 2→i, 3»)"), 2, 3),
    change("an atomic operation", body("out[i] = 0\ndevice.syncthreads()\ndevice.atomic_ref(out, 0)«.add(→.sub(»2.0)"),
           [8, 0, 0, 0], [-8, 0, 0, 0]),
    change("which target is asked for", body("out[i] = 1 if device.target(device.is_exactly(device.«sm90)→sm80)») else 2"), 1, 2),
    # Another module
    change("a callee in another module", "def f(v): return «v + 1→v + 2»\n-----\nimport other\n" + body("out[i] = other.f(i)"),
           [1, 2, 3, 4], [2, 3, 4, 5]),
    change("a global of another module", "«N = 3→N = 4»\n-----\nimport other\n" + body("out[i] = other.N"), 3, 4),
    change("a global that a callee reads there",
           "«N = 3→N = 4»\ndef f(v): return v + N\n-----\nfrom other import f\n" + body("out[i] = f(i)"),
           [3, 4, 5, 6], [4, 5, 6, 7]),
    change("a method of a struct there", marked(POINT + "\n-----\nfrom other import point\n" + body("out[i] = point(i, 2).sum()"),
           "self.x + self.y\n\n", "self.x * self.y\n\n"), [2, 3, 4, 5], [0, 2, 4, 6]),
)  # fmt: skip
