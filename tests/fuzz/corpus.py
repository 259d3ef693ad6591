"""Functions that the tests compare with CPython, many in one kernel, each called in some context that changes nothing.

def body(i, n, out, a):             # i: the thread's number, n: 1, a: the arguments of each function
    out[0, i] = f0(i, *a[0])
    for w in range(n):
        out[1, i] = f1(i, *a[1])
    out[2, i] = (lambda z: f2(z, *a[2]))(i) if n else 0

CPython runs the same text.
"""

from __future__ import annotations

import copy
import functools
import operator
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from against_python import THREADS

import cuda_device as device
from fuzz.cases import Case, defined, due
from fuzz.collected import Row, compared
from fuzz.grammar import statements

AT_ONCE = 14
"""So many functions are called by one kernel."""
POISON = -12345.5

# `{f}` is the function, `{a}` the arguments behind the first, `{r}` where the result goes, `{k}` a number of its own.
CONTEXTS = statements("""
{r} = {f}(i, {a})

for w{k} in range(n):
    {r} = {f}(i, {a})

while True:
    {r} = {f}(i, {a})
    if n:
        break

if i < 3 * n:
    {r} = {f}(i, {a})
else:
    v{k} = {f}(i, {a})
    {r} = v{k}

{r} = (lambda z: {f}(z, {a}))(i)

def g{k}():
    return {f}(i, {a})
{r} = g{k}()

def g{k}(z, *more):
    for w in range(2):
        if w == n:
            return {f}(z, *more)
    return 0
{r} = g{k}(i, {a})

{r} = functools.partial({f}, i)({a})

{r} = [{f}(z, {a}) for z in (i,)][0]

{r} = next({f}(z, {a}) for z in (i,))

{r} = sum({f}(i, {a}) for w in range(n))

def g{k}(z):
    yield 0
    yield {f}(z, {a})
for w{k} in g{k}(i):
    {r} = w{k}

match n:
    case 0:
        {r} = -1
    case _:
        {r} = {f}(i, {a})

{r} = {f}(i, {a}) if n > 0 else {f}(i, {a})

t{k} = (1, {f}(i, {a}), n)
{r} = t{k}[n]

t{k} = {{'a': {f}(i, {a}), 'b': n}}
{r} = t{k}['a']

if i % 2 == 0:
    {r} = {f}(i, {a})
elif i > 4:
    {r} = {f}(i, {a})
else:
    for w{k} in (0, 1):
        {r} = {f}(i, {a})

def g{k}(z, again):
    if again > 0:
        return g{k}(z, again - 1)
    return {f}(z, {a})
{r} = g{k}(i, n)

z{k} = i
assert n == 1, "there is one"
{r} = {f}(z{k}, {a})

def g{k}(f):
    def inner(z):
        return f(z, {a})
    return inner
{r} = g{k}({f})(i)

v{k} = 0
def g{k}(z):
    nonlocal v{k}
    v{k} = {f}(z, {a})
g{k}(i)
{r} = v{k}

for w{k} in range(i, i + 1):
    {r} = {f}(w{k}, {a})

if i == {c}:
    {r} = {f}({c}, {a})
else:
    {r} = 0

{r} = n and {f}(i, {a})

{r} = {f}(i, {a}) + n - 1
""")


class Corpus(Case):
    """Some of the functions."""

    kind = "corpus"

    def __init__(self, number: int, parts: Sequence[tuple[Row, str]] = ()) -> None:
        super().__init__(number)
        choose = random.Random(f"corpus {number}")
        self.parts = tuple(parts) or tuple((row, choose.choice(CONTEXTS)) for row in due(number, compared(), AT_ONCE))
        self.constant = choose.randrange(THREADS)

    def source(self) -> str:
        lines = ["def body(i, n, out, a):"]
        for k, (row, context) in enumerate(self.parts):
            inner = context.format(
                f=f"f{k}", k=k, c=self.constant, r=f"out[{k}, i]", a=f"*a[{k}]" if row.arguments else "*()"
            )
            lines += [f"    {line}" for line in inner.splitlines()]
        return "\n".join(lines) + "\n" + "".join(f"# f{k} is {row.name}\n" for k, (row, _) in enumerate(self.parts))

    def attempt(self, stream: device.Stream) -> str | None:
        names = {f"f{k}": row.function for k, (row, _) in enumerate(self.parts)}
        names |= {"functools": functools, "operator": operator}
        file = f"<corpus {self.number}>"
        expected = np.full((len(self.parts), THREADS), POISON)
        body = defined(self.source(), "body", names, file)
        with np.errstate(all="ignore"):
            given = self.given()
            for here in range(THREADS):
                body(here, 1, expected, given)

        body = defined(self.source(), "body", names, file)

        @device.kernel(level=3 * (self.number % 8 == 0))
        def k(n, out, a):
            body(device.tid(1), n, out, a)

        found = np.full((len(self.parts), THREADS), POISON)
        device.launch(k, 1, found, self.given(), grid=1, block=THREADS, stream=stream)
        for at, (row, _) in enumerate(self.parts):
            if wrong := different(row, found[at], expected[at]):
                return wrong
        return None

    def given(self) -> tuple[Any, ...]:
        """The arguments of all functions, made anew."""
        return tuple(copy.deepcopy(row.arguments) for row, _ in self.parts)

    def smaller(self) -> Iterator[Case]:
        """Each of the functions alone."""
        if len(self.parts) > 1:
            for part in self.parts:
                yield Corpus(self.number, (part,))


def different(row: Row, found: Any, expected: Any) -> str | None:
    """The first thread that has another result."""
    near = 0 if row.exact else 1e-6
    for thread, (a, b) in enumerate(zip(found.tolist(), expected.tolist(), strict=True)):
        if not (a == b or abs(a - b) <= near * abs(b) or (a != a and b != b)):
            return f"{row.name} gives {a!r} for {thread}, not {b!r}"
    return None
