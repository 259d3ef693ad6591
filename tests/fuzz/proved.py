"""Indices behind comparisons of what they are made of, at the borders: below zero they count from the end, and else they do not.

if n < m + 1:
    o[3, j] = x[m - n - 1]          for each n and m of 0 to 3; in CPython, too
"""

from __future__ import annotations

import random

import numpy as np

import cuda_device as device
from fuzz.cases import defined, due
from fuzz.grammar import Grammar, rows, statements

AT_ONCE, LENGTH, MOST = 9, 24, 4
SIGNS = ("<", "<=", ">", ">=", "==", "!=")
SYMBOLS = {
    "number": rows("""
        n  m  n  m  (n + 1)  (m - 1)  <#4>
    """),
    "test": rows("""
        <number> < <number>  <number> >= <number>  not <number> > <number>  <number> <= <number> and <number> != <number>
        <number> == <number> or <number> < <number>
    """),
}
PARTS = {
    "around": "(x[{}] + 3 * x[{} - 1] + 5 * x[{} + 1])".replace("{}", "<number a> - <number b>"),
    "back": "(7 * x[{}] + 11 * x[{} - 1] + 13 * x[{} + 1])".replace("{}", "<number b> - <number a>"),
}
"""Elements around zero."""
FORMS = statements("""
if <number a> ? <number b>:
    o[at, j] = <around> + <back>
else:
    o[at, j] = <around> + <back>

o[at, j] = <around> + <back> if not <number a> ? <number b> else <back> - <around>

if <number a> ? <number b> or <test>:
    o[at, j] = <around>
else:
    o[at, j] = <around> + <back>

if (<number a> ? <number b>) | (<number> < <number>):
    o[at, j] = <back>
else:
    o[at, j] = <around> + <back>

if (<number a> ? <number b>) & (<number> != <number>):
    o[at, j] = <around> + <back>
else:
    o[at, j] = <around> - <back>

if <number a> ? <number b> and <test>:
    o[at, j] = <around> + <back>
else:
    o[at, j] = <back>

if <number a> <= <number b>:
    if <number a> ? <number b>:
        o[at, j] = <back>
    else:
        o[at, j] = <back> - <around>
else:
    o[at, j] = <around> + <back>

if min(<number a>, <number c>) ? <number b>:
    o[at, j] = <around> + <back> + x[<number c> - <number b>]
else:
    o[at, j] = <around> + <back> + x[<number b> - <number c>]

for i in range(<number a>, <number b>):
    o[at, j] += <back> + x[i - <number a>] * x[i - <number b>] + x[<number b> - i - 1]

for i in range(<number a>, <number b>, -1):
    if <test>:
        continue
    o[at, j] += <around> + x[<number a> - i - 1] * x[i - <number b> - 1]

i = <number a>
while i ? <number b> and -6 < i < 9:
    o[at, j] += x[i - <number b>] + x[<number b> - i - 1] + x[i - <number a>]
    i += 1 if <number b> > <number a> else -1
""")
ROWS = tuple((form, sign) for form in FORMS for sign in SIGNS if "?" in form or sign == "<")


def _filled(grammar: Grammar, form: str) -> str:
    for symbol, text in PARTS.items():
        form = form.replace(f"<{symbol}>", text)
    return grammar.fill(form, 1)


def borders(number: int, stream: device.Stream) -> str | None:
    """Some ways to an element, of each pair of small numbers."""
    grammar = Grammar(SYMBOLS, random.Random(f"borders {number}"))
    lines = ["def one(x, o, n, m, j):"]
    for at, (form, sign) in enumerate(due(number, ROWS, AT_ONCE)):
        text = _filled(grammar, form).replace("?", sign).replace("[at,", f"[{at},")
        lines += [f"    {line}" for line in text.splitlines()]
    lines += ["def k(x, o, c):", "    for j in range(c * c):", "        one(x, o, j % c, j // c, j)"]
    source = "\n".join(lines) + "\n"
    x, pairs = np.arange(1, LENGTH + 1, dtype=np.int32), MOST * MOST
    expected, found = (np.zeros((AT_ONCE, pairs), np.int32) for _ in range(2))
    defined(source, "k", {}, "<borders>")(x, expected, MOST)
    kernel = device.kernel(level=0)(defined(source, "k", {}, "<borders>"))
    device.launch(kernel, x, found, MOST, grid=1, block=1, stream=stream)
    for at, j in np.argwhere(found != expected).tolist():
        return f"row {at} of n = {j % MOST}, m = {j // MOST} is {found[at, j]}, not {expected[at, j]}, of\n{source}"
    return None
