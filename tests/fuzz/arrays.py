"""Arrays of every layout in device code and in NumPy: views, copies of overlapping parts, methods, loops.

    def k(n, m, k, x, y, p, q, s, g, h):          s has one axis, g two, h three
        print(g[::-1, 1][n % 3], h.T.shape)
        s[1:] = s[:-1]

Both print the same, and the arrays are the same afterwards. The layouts are those of slices, of steps that go back, of
transposed arrays, of arrays that lie within one another, and of arrays that do not begin at a whole element.
"""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np

import cuda_device as device
from fuzz import library, viewed
from fuzz.cases import due
from fuzz.grammar import Grammar, rows, statements
from fuzz.library import EXPRESSIONS
from fuzz.printing import PARAMETERS, Printing, Statement, statement
from fuzz.pythonic_statements import PARTS, STATEMENTS

SHAPES = {"s": (6,), "g": (3, 4), "h": (2, 3, 4)}
DTYPES = ("int32", "int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64", "float32", "float64", "float16")
ELEMENTS = {
    "item": rows(r"""
        s[<#6>]  s[-<#6> - 1]  g[<#3>, <#4>]  g[-1, <#4>]  g[<#3>][<#4>]  h[<#2>, -<#3> - 1, <#4>]  h[1, <#3>][<#4>]
        s[n % 6]  s[-k]  g[m % 3, k % 4]  s[::-1][<#6>]  s[<#3>:][<#3>]  s[::2][<#3>]  s[1:5:2][<#2>]
        s[:-<#4> - 1][0]  g.T[<#4>, <#3>]  g[:, <#4>][<#3>]  g[::-1, ::2][<#3>, <#2>]  g[..., <#4>][<#3>]
        h[:, <#3>, 1:][<#2>, <#3>]  h.T[<#4>, <#3>, <#2>]  h[<#2>].T[<#4>, <#3>]  h[..., 1][<#2>, <#3>]
        h[1, ..., <#4>][<#3>]  s[None][0, <#6>]  s[k:][0]  s[:k][-1]  s[-k:][0]  g[k % 2:, 1:][0, <#3>]
        s.reshape(2, 3)[<#2>, <#3>]  s.reshape(-1, 2)[<#3>, 1]  (<new a> := s[1:4])[<#3>]  max(s)  min(g[<#3>])
        s[-1:][0]  s[5::-1][<#6>]  s[::-k][0]  g[<int> % 3][<#4>]  h[-1][-1][-1]
        s.reshape((3, 2))[<#3>][1]  g[:, None][<#3>, 0, <#4>]  h.T[<#4>].T[<#2>, <#3>]
        max(g[<#3>])  min(s[::2])  max(g[:, <#4>])
        g[::2, np.newaxis, 1][<#2>, 0]  g[-k % 3, -<#4> - 1]
    """),
    "sum": rows(r"""
        sum(s)  sum(g[<#3>])  sum(g[:, <#4>])  math.prod(s[:2])  sum(w for w in s if w > 2)  sum(s[k:])
        sum(g[:, 0])  sum(s[::-1])  sum(sum(w) for w in g)
    """),
    "count": rows(r"""
        len(s)  len(g[<#3>])  len(h)  s.size  h.size  g.ndim  h[0].ndim  s[k:].size  s[:-k].size  s[k:2].size
        s[::-2].size  g[1:, ::3].size  g.nbytes  s.itemsize  np.size(g)  np.ndim(h)  len(s[<#6>:<#6>])  len(s[k::2])
        h[..., None].ndim  len(range(*s.shape))  g.T.ndim  h[:, 1].size  s[n:].size  s[:n].size  s[n:m].size  s[n:m:-1].size
        s[n::k].size  g[m:, :n].size  s.nbytes  g[0].itemsize  h.T.nbytes  s.strides == s.strides  len(h.T)  len(g[:, 0])
    """),
    "shape": rows(r"""
        s.shape  g.shape  h.shape  g.T.shape  h[1].shape  h[:, 1].shape  g[k % 3:, ::2].shape  h.T.shape
        s[None].shape  g[..., None].shape  s.reshape(3, -1).shape  np.shape(h)  h[::-1, 1:2, k:].shape
        h[0, ...].shape  s[:0].shape
    """),
    "flag": rows(r"""
        any(g[:, 1])  all(s[::2])  (s.dtype == s.dtype)
        any(g[0])  all(w >= 0 for w in s)  any(s)  all(g[1])  (<item> in s)  (<item> < <item>)  (<item> == <item>)
        bool(<item>)
    """),
}
CHANGES = statements(r"""
print(<item>, <item>, <count>, <shape>, <flag>)

print(<sum>, <item>)

print(<shape>, <count>, int(<item>) + <count>)

s[<#6>] = <#9>

g[<#3>, <#4>] = <#9>

h[<#2>, -1, n % 4] = <#9>

s[<#6>] += <#4>

g[1, -<#4> - 1] -= <#2>

h[<#2>, <#3>, k % 4] *= 2

s[1:] = s[:-1]

s[:-1] = s[1:]

s[2:5] = s[<#4>:][:3]

s[::2] = s[1::2]

s[:] = <#9>

s[k:] = <#9>

s[:-k:2] = <#9>

g[...] = <#9>

g[:, <#4>] = <#9>

g[1] = g[2]

g[:2] = g[1:]

g[1:] = g[:-1]

g[:, 1:] = g[:, :-1]

h[0] = h[1]

h[0, 1] = h[1, 2][::-1]

h[:, ::2, 1:3] = <#9>

h[..., 0] = <#9>

h[:, 1:] = h[:, :-1]

g[:, 1] = g[:, 2]

g[0] = g[1, 0]

g[:] = g[0]

h[:] = h[0]

s[0], s[1] = s[1], s[0]

g[0, 0], s[2] = <#5>, <#7>

for <new a> in s:
    print(<new a>)

for <new a> in g:
    print(<new a>[0], <new a>.size)

for <new a> in s[::-2]:
    print(<new a>)

for <new a> in reversed(s):
    if <new a> > 3:
        break
    print(<new a>)

for <new a>, <new b> in enumerate(g[:, 1]):
    print(<new a>, <new b>)

for <new a>, <new b> in zip(s, h[0, 0]):
    print(<new a>, <new b>)

for <new a> in range(len(s)):
    s[<new a>] = s[-<new a> - 1]

for <new a> in range(3):
    for <new b> in range(k % 4):
        g[<new a>, <new b>] = g[<new a>, <new b> + 1]

<new a>, <new b>, <new c> = s[:3]
print(<new a>, <new c>)

<new a>, <new b> = g[1:, 0]
print(<new b>)

<new a> = s[1:5]
<new a>[0] = <#9>
<new a>[1:] = <new a>[:-1]
print(s[2])

<new a> = g.T
<new a>[1, 2] = <#9>
print(g[2, 1])

<new a> = h[1]
<new a>[k % 3] = <new a>[0]
print(h[1, 2, 1])

def <new f>(a, i):
    a[i] = <#9>
    return a[0]
print(<new f>(s, k % 6), <new f>(g[1], 2))

if <flag>:
    s[0] = <#9>
else:
    g[0, 1] = <#9>

if <flag>:
    <new a> = g[0]
else:
    <new a> = g[1]
print(<new a>[2])

print([int(w) + 1 for w in (s[0], g[1, 1], h[0, 0, 0])], min(int(s[1]), int(s[2])))

print(sum(s[1:]) if p else sum(s), any(g[1]), max(s[k % 3:]))

match s.shape:
    case (6,):
        print('six')
    case _:
        print('other')
""")


SHOWN = library.shown(ELEMENTS)


def _overlapping() -> list[str]:
    """Assignments of parts of arrays to other parts of the same ones, with the same steps."""
    choose, found = random.Random(3), []
    while len(found) < 240:
        name, shape = choose.choice([*SHAPES.items()])
        parts = []
        for n in shape:
            start, stop = choose.choice((None, 0, 1, 2, -1, -2)), choose.choice((None, None, n, n - 1, -1, 0))
            parts.append(slice(start, stop, choose.choice((None, None, 1, 2, -1, -1, -2))))
        other = [slice(choose.choice((None, 0, 1, -1, -2)), None, part.step) for part in parts]
        array = np.zeros(shape)
        target, source = array[tuple(parts)], array[tuple(other)]
        if target.size > 1 and target.shape == source.shape and np.may_share_memory(target, source):
            texts = [", ".join(map(_text, each)) for each in (parts, other)]
            found.append(f"{name}[{texts[0]}] = {name}[{texts[1]}]")
    return found


def _text(part: slice) -> str:
    return ":".join("" if bound is None else str(bound) for bound in (part.start, part.stop, part.step))


OVERLAPPING = _overlapping()


class _Whole(np.ndarray):  # type: ignore[type-arg]
    """An array to which others are assigned as they were before: NumPy 2.5 forgets that for some that overlap."""

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, np.array(value))


class Arrays(Printing):
    """A program of arrays."""

    kind = "arrays"

    def _numbers(self) -> tuple[Any, ...]:
        self.seed = self.random.random()
        return super()._numbers()

    def _statements(self) -> tuple[Statement, ...]:
        grammar = Grammar(EXPRESSIONS | PARTS | ELEMENTS, self.random)
        self.tries += 1
        rows = [self.random.choice((*STATEMENTS, *CHANGES))]
        rows += [row for row in self.due() if self.random.random() < 8 / max(8, self.tries)]
        return tuple(statement(grammar, row) for row in rows)

    def due(self) -> list[str]:
        return [
            *due(self.number, CHANGES, 2),
            *due(self.number, SHOWN, 4),
            *due(self.number, OVERLAPPING, self.number % 2),
        ]

    def parameters(self) -> tuple[str, ...]:
        return (*PARAMETERS, *SHAPES)

    def arrays(self) -> list[Any]:
        """The arrays, of the same layouts and content whenever it is called."""
        choose = random.Random(self.seed)
        return [laid_out(choose, choose.choice(DTYPES), shape) for shape in SHAPES.values()]

    def arguments(self) -> tuple[Any, ...]:
        self.made = self.arrays()
        return (*self.given, *self.made)

    def _run(self, out: io.StringIO) -> None:
        self.arguments()
        host = [each.view(_Whole) for each in self.made]
        self.run_in_cpython(out, (*self.given, *host))
        self.left = [each.tolist() for each in host]

    def launched(self, stream: device.Stream) -> tuple[Any, ...]:
        """On a GPU the arrays are contiguous."""
        self.made = self.arrays()
        if not isinstance(stream, type(device.cpu_stream())):
            self.made = [device.array(np.ascontiguousarray(each), stream=stream) for each in self.made]
        return (*self.given, *self.made)

    def attempt(self, stream: device.Stream) -> str | None:
        wrong = super().attempt(stream)
        if wrong is None:
            for name, array, left in zip(SHAPES, self.made, self.left, strict=True):
                if (array if isinstance(array, np.ndarray) else array.numpy()).tolist() != left:
                    return f"{name} ({array.dtype}, strides {array.strides}) is {array}, not {left}"
            if isinstance(stream, type(device.cpu_stream())):
                wrong = viewed.views(self.number, stream) or viewed.writes(self.number, stream)
        return wrong


def laid_out(choose: random.Random, dtype: str, shape: tuple[int, ...]) -> Any:
    """An array of small numbers in memory that is laid out in some way."""
    steps = [choose.choice((1, 1, 1, 2, -1, -3)) for _ in shape]
    order = choose.sample(range(len(shape)), len(shape)) if choose.random() < 0.4 else range(len(shape))
    if choose.random() < 0.4:
        steps = [1] * len(shape)
    wide = [abs(step) * n for step, n in zip(steps, shape, strict=True)]
    large = np.full([wide[axis] for axis in order], 99, dtype).transpose(np.argsort(list(order)))
    found = large[tuple(slice(None, None, step) for step in steps)]
    found[...] = np.array([choose.randint(0, 9) for _ in range(found.size)]).reshape(shape)
    return found
