"""More kinds of change: of objects that a kernel reads, which its own text and that of its callees do not show."""

from __future__ import annotations

from changed_programs import POINT, body, change, world

MAKE = "def make():\n    def f(v): return v\n    return f\n"
MAKE_CLASS = "def make():\n    class C: pass\n    return C\n"

CHANGES = (
    # What only a look at the objects shows: whether they are the same, what they hold, where they come from
    change(
        "whether two names are one function", world(MAKE + "f = make()\n«g = f→g = make()»", "1 if f is g else 2"), 1, 2
    ),
    change(
        "whether two names are one class",
        world(MAKE_CLASS + "C = make()\n«D = C→D = make()»", "1 if C is D else 2"),
        1,
        2,
    ),
    change(
        "an attribute that was looked for in vain",
        "«nothing→flag» = 1\n-----\nimport other\n" + body("out[i] = 1 if hasattr(other, 'flag') else 2"),
        2,
        1,
    ),
    change(
        "an attribute with a default",
        "«nothing = 1→flag = 9»\n-----\nimport other\n" + body("out[i] = getattr(other, 'flag', 7)"),
        7,
        9,
    ),
    change(
        "what a module answers for a name",
        "def __getattr__(name): «return 3→return 4»\n-----\nimport other\n" + body("out[i] = other.N"),
        3,
        4,
    ),
    change("a range", world("R = range(«1, 4→1, 4, 2»)", "sum(R)"), 6, 4),
    change("an element of a NumPy array", world("N = np.array([«1, 2→1, 4», 3], np.float32)", "N[1]"), 2, 4),
    change(
        "an element of a NumPy array at run time",
        world("N = np.array([1, 2, «3, 4→3, 5»], np.float32)", "N[i]"),
        [1, 2, 3, 4],
        [1, 2, 3, 5],
    ),
    change(
        "a NumPy array that was written to",
        world("N = np.array([1, 2, 3, 4])\nN[0] «+= 1→+= 2»", "N[i]"),
        [2, 2, 3, 4],
        [3, 2, 3, 4],
    ),
    change(
        "the dtype of a NumPy array",
        world("N = np.array([100, 2], np.«int8)→int16)»", "N[0] + int8(i + 27)"),
        [127, -128, -127, -126],
        [127, 128, 129, 130],
    ),
    change("the shape of a NumPy array", world("N = np.arange(6).reshape«(2, 3)→(3, 2)»", "N[1][0]"), 3, 2),
    change("the strides of a NumPy array", world("N = np.arange(4).reshape«(2, 2)→(2, 2).T»", "N[1, 0]"), 2, 1),
    change(
        "a record of NumPy's",
        world("N = np.array([(1, «2.5→3.5»)], [('a', 'i4'), ('b', 'f4')])", "N[0]['b']"),
        2.5,
        3.5,
    ),
    change("an item of a list", world("N = [1, «[2→[4», 3]]", "N[1][0]"), 2, 4),
    change("an item of a dict", world("N = {'a': 1, 'b': {«'c': 2→'c': 4»}}", "N['b']['c']"), 2, 4),
    change(
        "the order of a dict",
        world("N = {«'a': 1, 'b': 2→'b': 2, 'a': 1»}", "sum(j * v for j, v in enumerate(N.values()))"),
        2,
        1,
    ),
    change("bytes", world("N = «b'abc'→b'aec'»", "N[1]"), 98, 101),
    change("the real part of a complex number", world("N = «1 + 2j→3 + 2j»", "N.real"), 1, 3),
    change("the sign of zero", world("N «= 0.0→= -0.0»", "math.copysign(1.0, N)"), 1, -1),
    change("a large int", world("N = 1 «<< 70→<< 71»", "N >> 69"), 2, 4),
    change(
        "a member of a named tuple",
        world("import collections\nT = collections.namedtuple('T', 'a b')\nN = T«(1, 2)→(1, 3)»", "N.b"),
        2,
        3,
    ),
    change(
        "the order of a named tuple",
        world("import collections\nT = collections.namedtuple('T', «'a b'→'b a'»)", "T(1, 2).b"),
        2,
        1,
    ),
    change(
        "the default of a named tuple",
        world("import typing\nclass T(typing.NamedTuple):\n    a: int\n    b: int «= 2→= 3»", "T(1).b"),
        2,
        3,
    ),
    change(
        "a captured array",
        "def make(n):\n    @kernel\n    def k(out):\n        out[tid(1)] = n[tid(1)]\n    return k\n"
        "k = make(np.«arange(4)→arange(4)[::-1]»)\n",
        [0, 1, 2, 3],
        [3, 2, 1, 0],
    ),
    change(
        "a captured dict",
        "def make(n):\n    @kernel\n    def k(out):\n        out[tid(1)] = n['a']\n    return k\nk = make({'a': «3}→4}»)\n",
        3,
        4,
    ),
    change(
        "a variable that was set after it was captured",
        "def make():\n    n = 1\n    @kernel\n    def k(out):\n"
        "        out[tid(1)] = n\n    «n = 3→n = 4»\n    return k\nk = make()\n",
        3,
        4,
    ),
    change(
        "what a wrapper wraps",
        "def wrapped(f):\n    @functools.wraps(f)\n    def g(v): return f(v) * 10\n    return g\n"
        "@wrapped\ndef f(v): return «v + 1→v + 2»\n" + body("out[i] = f(i)"),
        [10, 20, 30, 40],
        [20, 30, 40, 50],
    ),
    # What is put into a world that stands already
    change(
        "a function's code is replaced",
        world("def f(v): return v\ndef g(v): return «v + 1→v + 2»\nh = f\nf.__code__ = g.__code__", "h(i)"),
        [1, 2, 3, 4],
        [2, 3, 4, 5],
    ),
    change(
        "a function's defaults are replaced",
        world("def f(v, n=1): return v + n\nf.__defaults__ = «(2,)→(3,)»", "f(i)"),
        [2, 3, 4, 5],
        [3, 4, 5, 6],
    ),
    change(
        "a keyword's default is replaced",
        world("def f(v, *, n=1): return v + n\nf.__kwdefaults__['n'] «= 2→= 3»", "f(i)"),
        [2, 3, 4, 5],
        [3, 4, 5, 6],
    ),
    change("an attribute of a function", world("def f(v): return v\nf.limit «= 3→= 4»", "f.limit"), 3, 4),
    change(
        "a method is replaced",
        world(POINT + "def other(self): return self.x «* 10→* 20»\npoint.sum = other", "point(i, 2).sum()"),
        [0, 10, 20, 30],
        [0, 20, 40, 60],
    ),
    change("a class attribute is set", world("class C:\n    n = 4\nC.n «= 5→= 6»", "C.n"), 5, 6),
    change("a global is deleted", "def len(v): return 9\n«del len\n→\n»" + body("out[i] = len((1, 2))"), 2, 9),
    change(
        "a module is exchanged",
        "N = 3\n-----\nimport sys, types\nimport other\nmodule = types.ModuleType('m')\nmodule.N = 5\n"
        "«m = other→m = module»\n" + body("out[i] = m.N"),
        3,
        5,
    ),
    change(
        "a module's attribute is set from elsewhere",
        "N = 3\n-----\nimport other\nother.N «= 4→= 5»\n" + body("out[i] = other.N"),
        4,
        5,
    ),
    change(
        "a constant of a library is set",
        world("import types\nlib = types.ModuleType('math')\nlib.pi «= 3→= 4»", "lib.pi"),
        3,
        4,
    ),
    # Classes
    change("an attribute of a base class", world("class B:\n    «n = 4→n = 5»\nclass C(B):\n    pass", "C.n"), 4, 5),
    change(
        "an attribute that hides the base class's",
        world("class B:\n    n = 4\nclass C(B):\n    «m = 5→n = 5»", "C.n"),
        4,
        5,
    ),
    change(
        "a base class",
        world("class A: pass\nclass B: pass\nclass «C(A)→C(B)»: pass", "1 if issubclass(C, B) else 2"),
        2,
        1,
    ),
    change(
        "a static method",
        world("class C:\n    @staticmethod\n    def f(v): return «v + 1→v + 2»", "C.f(i)"),
        [1, 2, 3, 4],
        [2, 3, 4, 5],
    ),
    change(
        "a static method of a struct",
        world("@struct\nclass s:\n    x: int32\n    @staticmethod\n    def f(v): return «v + 1→v + 2»", "s.f(i)"),
        [1, 2, 3, 4],
        [2, 3, 4, 5],
    ),
    change(
        "a property of a struct",
        world("@struct\nclass s:\n    x: int32\n    @property\n    def f(self): return self.«x + 1→x + 2»", "s(i).f"),
        [1, 2, 3, 4],
        [2, 3, 4, 5],
    ),
    change(
        "what a method reads",
        world("«N = 1→N = 2»\n@struct\nclass s:\n    x: int32\n    def f(self): return self.x + N", "s(i).f()"),
        [1, 2, 3, 4],
        [2, 3, 4, 5],
    ),
    change(
        "a default that is a global",
        world("«N = 1→N = 2»\n@struct\nclass s:\n    x: int32\n    y: int32 = N", "s(i).y"),
        1,
        2,
    ),
    change(
        "a struct in a struct",
        world("@struct\nclass a:\n    x: «int8→int64»\n@struct\nclass b:\n    a: a", "device.sizeof(b)"),
        1,
        8,
    ),
    # Enumerations
    change(
        "a member of an enum by its value",
        world("class C(enum.IntEnum):\n    A = 1\n    «B = 2→D = 2\n    B = 3»", "1 if C(2) == C.B else 2"),
        1,
        2,
    ),
    change(
        "a member of an enum by its name", world("class C(enum.IntEnum):\n    A = 1\n    «B = 2→B = 3»", "C['B']"), 2, 3
    ),
    change(
        "the members of an enum",
        world("class C(enum.IntEnum):\n    A = 1\n    «B = 2→B = 2\n    D = 4»", "sum(c.value for c in C)"),
        3,
        7,
    ),
    change(
        "the order of an enum",
        world(
            "class C(enum.IntEnum):\n    «A = 1\n    B = 2→B = 2\n    A = 1»",
            "sum(j * c.value for j, c in enumerate(C))",
        ),
        2,
        1,
    ),
    change(
        "an alias in an enum",
        world("class C(enum.Enum):\n    A = 1\n    B = 2\n    «D = 2→D = 3»", "1 if C.D is C.B else 2"),
        1,
        2,
    ),
    change("a flag", world("class C(enum.IntFlag):\n    A = 1\n    B = 2\nN = «C.A | C.B→C.B»", "N"), 3, 2),
    change(
        "the kind of an enum",
        world("class C(enum.«IntEnum→Enum»):\n    A = 1", "1 if isinstance(C.A, int) else 2"),
        1,
        2,
    ),
    change(
        "a property of an enum",
        world("«N = 3→N = 4»\nclass C(enum.Enum):\n    A = 1\n    @property\n    def n(self): return N", "C.A.n"),
        3,
        4,
    ),
    # Calls that are done while compiling
    change(
        "a partial's keyword",
        world("def f(a, b): return a - b\ng = functools.partial(f, «b=10→b=20»)", "g(i)"),
        [-10, -9, -8, -7],
        [-20, -19, -18, -17],
    ),
    change(
        "a partial of a partial",
        world("def f(a, b, c): return a - b + c\ng = functools.partial(functools.partial(f, «10), 1→10), 2»)", "g(i)"),
        [9, 10, 11, 12],
        [8, 9, 10, 11],
    ),
    change("a set", world("N = frozenset((1, «5))→6))»", "1 if 5 in N else 2"), 1, 2),
    change("the types of a check", world("T = int | «float→bool»", "1 if isinstance(1.5, T) else 2"), 1, 2),
    change(
        "an object of a class", world("class C:\n    def __init__(self, n): self.n = n\nN = «C(3)→C(4)»", "N.n"), 3, 4
    ),
    change(
        "the object of a bound method", world(POINT + "f = «point(3, 4)→point(4, 4)».__add__", "f(point(1, 1)).x"), 4, 5
    ),
    change("the rows of a dtype", world("T = np.dtype((np.int32, «(3,)→(4,)»))", "T.itemsize"), 12, 16),
    change(
        "what an array is that has two names",
        world("N = np.arange(3)\n«M = N→M = N * 2»", "N[0] + M[1] + (10 if N is M else 20)"),
        11,
        22,
    ),
    change(
        "a class with a metaclass", world("class M(type): pass\nclass C(metaclass=M):\n    «N = 3→N = 4»", "C.N"), 3, 4
    ),
    change(
        "the type of a constant parameter",
        world(
            "«T = int→T = float»\ndef f(v, n: 'device.ConstExpr[T]'): return 1 if isinstance(n, int) else 2", "f(i, 3)"
        ),
        1,
        2,
    ),
)
