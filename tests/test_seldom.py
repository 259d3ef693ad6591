"""What is seldom written, and works as in Python; and what is seldom written and refused, with what to write instead."""

from __future__ import annotations

import cmath
import enum
import functools
import itertools
import operator
import types
import typing

import numpy as np
import pytest
from against_python import check
from ir_helpers import define

import cuda_device as device

X = np.arange(8) * 1.5 - 3
A = np.array([5, 3, -2, 7, 0, 11, -9, 4], np.int32)


@device.struct
class Bag:
    """A struct with the methods that Python's own functions and statements ask for."""

    few: device.float64
    many: device.float64 = 2.5

    def __bool__(self):
        return bool(self.few > 1)

    def __contains__(self, number):
        return number == self.few

    def __len__(self):
        return 7

    def __iter__(self):
        return iter((self.few, self.many))

    def __call__(self, number, times=1):
        return self.few + number * times

    def __abs__(self):
        return abs(self.few)

    def __neg__(self):
        return Bag(-self.few, self.many)

    def __getitem__(self, place):
        return self.few if place == 0 else self.many

    def __round__(self, digits=0):
        return self.few + digits

    def __float__(self):
        return float(self.many)

    def more(self, by=1, times=1):
        return self.few + by * times

    @staticmethod
    def twice(number):
        return number * 2

    @classmethod
    def alike(cls, number):
        return cls(number, number)

    def grown(self, times):
        while times > 0:
            self = Bag(self.few * 2, self.many)
            times -= 1
        return self.few


class Pair(typing.NamedTuple):
    """A named tuple in which there is another one."""

    first: float
    second: typing.Any = None


class Mode(enum.Enum):
    """What is no number."""

    FAST = "fast"
    SLOW = "slow"


class Part(enum.IntFlag):
    """Flags that are numbers."""

    X = 1
    Y = 2
    Z = 4


SPACE = types.SimpleNamespace(inner=types.SimpleNamespace(k=3), k=4)
SCOPE = {
    "np": np,
    "device": device,
    "operator": operator,
    "functools": functools,
    "Bag": Bag,
    "Pair": Pair,
    "Mode": Mode,
    "Part": Part,
    "SPACE": SPACE,
    "EVEN": {2, 4, -2, 0},
    "FROZEN": frozenset((3, 5)),
    "TABLE": {"a": 2, "b": 5},
    "first_of": operator.itemgetter(0),
    "both_of": operator.itemgetter(-1, 0),
    "deep": operator.attrgetter("second.first", "first"),
    "counted": operator.methodcaller("count", 3),
    "bits": operator.methodcaller("bit_length"),
    "more": operator.methodcaller("more", times=3),
    "more_by": operator.methodcaller("more", 2, times=3),
    "itertools": itertools,
    "cmath": cmath,
    "given": functools.partial(max, 2),
    "RECORDS": np.array([(1, 2.5), (3, 4.5)], [("n", np.int32), ("v", np.float64)]),
}

# Each is an expression of i (0 to 7), n (an int), v (a float64), x and a (arrays).
EXPRESSIONS = [
    (
        "len(Bag(v)) + (3 if Bag(v) else 4) + 10 * (v in Bag(v)) + abs(Bag(v)) +"
        " Bag(v)(2) + Bag(v)(2, times=3) + Bag(v)[0] + Bag(v)[1]"
    ),
    "sum(part for part in Bag(v)) + max(Bag(v)) + [*Bag(v, many=9.0)][1] + (-Bag(v)).few + (not Bag(v)) + bool(Bag(v))",
    "Bag(many=v, few=1.0).many + Bag(few=v).many",
    "round(Bag(v), 3) + round(2.567, 2) * 0 + round(n, -1) + round(n, 2)",
    "both_of((n, 1, 5))[0] + first_of((n, 1)) + first_of([n]) + bits(abs(n)) + counted((3, n, 3)) + given(n)",
    "deep(Pair(n, Pair(i)))[0] + deep(Pair(n, Pair(i)))[1] + Pair(n).first",
    (
        "(n in EVEN) + 2 * (n in FROZEN) + 4 * (n not in EVEN) +"
        " 8 * (4 in EVEN) + 16 * (n in TABLE.values()) + 32 * ('a' in TABLE)"
    ),
    "sorted((n, i, 3), key=None)[0] + sorted([n, i, 3], reverse=True)[0] + min((n, i), key=None)",
    (
        "type((1, n)) is tuple and type([n]) is list and"
        " type({'a': n}) is dict and type(range(n)) is range and type(None) is type(None)"
    ),
    (
        "(type(lambda: n) is type(lambda: 1)) + (type(Pair(n)) is Pair) +"
        " (type(Bag(v)) is Bag) + (type(Mode.FAST) is Mode)"
    ),
    (
        "callable(n) + 2 * callable(lambda: n) + 4 * callable(Bag(v)) +"
        " 8 * callable(abs) + 16 * callable((n,)) + 32 * callable(given)"
    ),
    (
        "bool({'a': n}) + 2 * bool({}) + 4 * bool(range(n)) +"
        " 8 * bool(range(abs(n), abs(n))) + 16 * bool(()) + 32 * bool([n])"
    ),
    (
        "([n] == (n,)) + 2 * ([n] != (n,)) +"
        " 4 * ((n,) == (n, 1)) + 8 * ([n, 1] == [n, 1]) + 16 * ((n, (v, 1)) == (n, (v, 1.0)))"
    ),
    (
        "(Mode.FAST is Mode.FAST) + 2 * (Mode.FAST == Mode.SLOW) +"
        " 4 * (Mode.FAST is not Mode.SLOW) + 8 * (Mode('fast') is Mode.FAST)"
    ),
    "SPACE.inner.k + SPACE.k + getattr(SPACE, 'k') + getattr(SPACE, 'z', 7) + hasattr(SPACE.inner, 'k')",
    "RECORDS[1]['n'] + RECORDS['v'][0] + len(RECORDS) + RECORDS[0]['v'] + RECORDS.dtype.itemsize",
    "device.func(lambda k: k + 1)(n)",
    "math.fsum(w for w in x if w > v) + math.fsum((v, n)) + math.fsum(w * 2 for w in (v, 1.5))",
    "x[slice(1, 4)][0] + (n, 2, 3, 4)[slice(2)][0] + x[slice(None, None, 3)][1] + x.reshape(2, 4)[1, slice(i % 4, None)][0]",
    "(Part.X in Part.X | Part.Y) + 2 * (Part.Z in Part.X | Part.Y) + 4 * (Part.Z not in Part(3)) + (Part.Y | abs(n))",
    (
        "x.nbytes + x.itemsize + x[1:].nbytes +"
        " x.reshape(2, 4).nbytes + len(x.reshape(2, 4).T) + x.reshape(2, 2, 2).shape[2]"
    ),
    "x[::2].reshape(2, 2)[1, 0] + x[::-1].reshape(4, 2)[1, 1] + x[i:][:1].reshape(())[()] + x[i:].reshape(-1)[0]",
    "(lambda *p, **k: sum(p) + k['z'] + len(k))(n, *(1, 2), *[3], z=4, **{'y': 5})",
    "[(p, q) for p in (1, 2) for q in (n, 5) if p < 2][-1][1] if n > 1 else {k: w for k, w in zip('ab', (n, 5))}['b']",
    "sum(1 for j, (p, q) in enumerate(zip(x, a), 2) if j > 3 and p < q)",
    "(p := n) + (q := p * 2) + p + q",
    "(n if v < 0 else v) + (v and n) + (n or v) + (not n) + (n > 1 < v) + (0 if n is None else 1)",
    "divmod(n, 3)[1] + divmod(v, 0.7)[0] + pow(n, 2) + pow(abs(n), 3, 7) + (n ** 2) + (-7 // 2) + (-7 % 3) + 7 // -2",
    (
        "device.float32x3(1, 2, 3).size + (device.float64x3(n, 2, 3).dtype == np.float64) +"
        " sum(device.float64x2(n, 2)) + len(device.int32x4(1, n, 3, 4))"
    ),
    (
        "(-device.float64x2(v, 1))[0] +"
        " (device.float64x2(v, 1) * 2).y + (device.float64x2(v, 1) == device.float64x2(v, 1))"
    ),
    (
        "max(zip((1, 2), (n, 5)))[1] + max([1, n]) +"
        " min((), default=n) + max(abs(w) for w in (n, i)) + min((w for w in ()), default=5)"
    ),
    "more(Bag(v)) + more_by(Bag(v)) + Bag(v).twice(n) + Bag(v).alike(n).many + Bag(v).grown(i % 3)",
    "slice(1, n).start + slice(1, n).stop + slice(1, n, i).step + (slice(n).start is None) + (slice(n, 2).step is None)",
    (
        "isinstance(zip(x, a), zip) + 2 * isinstance(map(abs, x), map) + 4 * isinstance(slice(1, i), slice) +"
        " 8 * isinstance(enumerate(x), enumerate) + 16 * isinstance(zip(x), map) + 32 * (type(zip(x)) is zip)"
    ),
    "sum(p * q for p, q in itertools.product((1, n), repeat=2)) + len([*itertools.product((1, n), repeat=0)])",
    "cmath.phase(-1) + cmath.exp(1 + 2j).real + cmath.sqrt(-2).imag + cmath.log(1j).imag + cmath.sin(0.5).real",
    "next(iter((n, 1))) + next((w for w in (1, n) if w > 100), -1) + next(iter(()), n)",
    "int('12') + int(True) + float('1.5') + int(v) + int(-2.5) + float(n) + bool(v) + int(2**31 - 1 == 2147483647)",
    (
        "(1, 2, n)[-1] + (1, 2, n)[i % 3] + [n, 1, 2][i % 3] +"
        " (n, 1, 2)[::-1][0] + [n, 1][:1][0] + 'abc'.index('c') + len('abc' * 2)"
    ),
    "functools.reduce(lambda p, q: p * 2 + q, (1, n, 3)) + functools.reduce(operator.add, [n, 1], 5)",
    (
        "any([]) + 2 * all([]) + 4 * any((0, n)) +"
        " 8 * all((1, n)) + 16 * any(w > 4 for w in x) + 32 * all(w > -9 for w in a)"
    ),
]

BODIES = {
    "match_of_types": """
match v if i > 3 else v:
    case float() if v > 2: return 1
    case np.float64(): return 2
""",
    "match_of_classes": """
match Pair(n, Bag(v)):
    case Pair(5, _): return 1
    case Pair(first=p, second=Bag(few=q)) if p > 3: return p + q
    case Pair(p, second=s): return p - s.many
""",
    "match_of_sequences": """
match (n, (v, i)):
    case (7, _): return 1
    case (p, (q, 3 | 4 as r)): return p + q + r
    case [p, [q, *_]] if p < 0: return p * q
    case (*_, (_, r)): return r
""",
    "match_of_mappings": """
match {'kind': 'a', 'n': n, 'more': 5}:
    case {'kind': 'b'}: return 1
    case {'kind': 'a', 'n': 5}: return 2
    case {'kind': 'a', 'n': p, **rest}: return p + len(rest)
""",
    "match_of_none_and_texts": """
mode = 'fast' if len(x) > 3 or True else None
match mode:
    case None: return 1
    case 'slow' | 'none': return 2
    case Mode.FAST.value: return 3
""",
    "zip_of_used_up_iterators": """
it = iter((1, 2, n))
total = 0
for p, q in zip(it, it):
    total = total * 10 + p * q
rest = [*it]
both = iter(x)
for p, q in zip(both, both):
    total += p * q
return total + len(rest)
""",
    "an_iterator_goes_on": """
it = iter([n, 2, 3, i])
first = next(it)
total = 0
for p in it:
    total = total * 10 + p
    if p == 2: break
for p in it: total += p * first
return total
""",
    "imports": """
import math as m, os.path
from itertools import pairwise as pairs, chain
import xml.dom
total = 0
for p, q in pairs((1, n, 3)): total += p * q
return total + m.floor(2.5) + sum(chain((1,), (n,))) + len(os.path.sep) + len(xml.dom.__name__)
""",
    "unpacking": """
(p, *q), [r, s] = (n, 1, 2), (3, i)
*t, u = x[0], x[1], x[2]
p, r = r, p
q[0], s = s, q[0]
w = z = p
w += 1
return p + q[0] * 2 + r * 3 + s * 5 + t[1] * 7 + u * 11 + w - z
""",
    "del_and_again": """
p = n
del p
p = 2
q = [n, 1, 2]
del q[1], q[0]
d = {'a': n, 'b': 1}
del d['a']
return p + len(q) + len(d) + q[0]
""",
    "else_of_loops": """
total = 0
for j in range(3):
    for k in range(j):
        if k == n: break
    else:
        total += 1
        continue
    total += 10
while total < 20:
    total += 7
    if total % 5 == 0: break
else:
    total += 100
return total
""",
}


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)))
def test_expressions(stream, number):
    expression = EXPRESSIONS[number]
    function = define(f"def f(i, n, v, x, a):\n    return {expression}\n", "f", **SCOPE)
    check(stream, lambda i, x, a: function(i, int(a[i]), x[i], x, a), X, A, exact=False)


@pytest.mark.parametrize("name", BODIES)
def test_statements(stream, name):
    lines = BODIES[name].strip().replace("\n", "\n    ")
    function = define(f"def f(i, n, v, x, a):\n    {lines}\n    return -1\n", "f", **SCOPE)
    check(stream, lambda i, x, a: function(i, int(a[i]), x[i], x, a), X, A, exact=False)


REFUSED = [
    ("[n].copy()(n)", "a list cannot be called", "call a function"),
    ("device.float32x2(n, 1) < device.float32x2(1, 1)", "there are no vectors of bools|< .* is not defined", ""),
    ("abs(**3)", r"\*\* takes a dict|3", ""),
    ("n[1:2:0]", "cannot be indexed|step of a slice", ""),
    ("(1, 2)[::0]", "the step of a slice cannot be 0", "positive or a negative"),
    ("functools.partial()", "partial takes a function", "partial"),
    ("np.float32(n).astype()", "astype takes a dtype", "astype"),
    ("np.float32(n).astype('nothing')", "dtype", ""),
    ("np.float32(n).reshape((2,))", "its only shape is", "reshape"),
    ("x.view()", "view takes a dtype", "view"),
    ("x.astype(n)", "the dtype of astype must be a constant expression", "name it"),
    ("np.frompyfunc(abs, 1, 1)(n)", "cannot be called|ufunc", ""),
    ("np.arctanh.outer(n, 1)", "cannot be called|outer", ""),
    ("device.WarpMask(1)[32]", "the lanes of a mask are integers from 0 to 31", ""),
    ("device.WarpMask(1)['a']", "the lanes of a mask are integers", ""),
    ("device.float32x2(n, 1).w", "has no (member|attribute) 'w'", ""),
    ("device.float32x2(n, 1)[x[0]]", "index", "int"),
    ("str(n) < 'a'", "is not defined", ""),
    ("device.replace(n, x=1)", "replace takes a struct or a vector", "replace"),
    ("device.replace()", "replace takes one struct", "replace"),
    ("Bag(1.0, 2.0, 3.0)", "Bag", ""),
    ("Bag(1.0, few=2.0)", "got two values for 'few'", "its members"),
    ("Bag(1.0, fewer=2.0)", "has no member 'fewer'", "its members"),
    ("print(f'{(n, 1):d}')", "cannot be formatted", "format"),
]


@pytest.mark.parametrize(("expression", "match", "help"), REFUSED)
def test_what_is_refused(expression, match, help):
    kernel = define(f"@device.kernel\ndef k(x, n):\n    x[0] = {expression}\n", **SCOPE)
    with pytest.raises(device.CompileError, match=match) as caught:
        device.compile(kernel, device.ArrayType(device.float32, 1), int)
    assert caught.value.help, str(caught.value)
    assert help in caught.value.help, caught.value.help
    assert caught.value.location.line == 3


@pytest.mark.parametrize("decorator", [device.kernel, device.func], ids=["kernel", "func"])
def test_decorators_name_themselves(decorator):
    name = decorator.__name__
    with pytest.raises(TypeError, match=f"^@{name} decorates a Python function, not 3$"):
        decorator(3)
    with pytest.raises(TypeError, match=f"^@{name} decorates a Python function, not <built-in function abs>$"):
        decorator(level=1)(abs)
    with pytest.raises(TypeError, match="is decorated already: a function is either a @func or a @kernel"):
        decorator(device.func(lambda x: None))
