"""Dicts, whose items change."""

from __future__ import annotations

import numpy as np
import pytest
from against_python import check, check_body, refused
from ir_helpers import define

X = np.arange(8) * 1.5 - 3
A = np.array([5, 3, -2, 7, 0, 11, -9, 4], np.int32)
CONFIGURATION = {"width": 3, "height": 4, "name": "abc"}

# Each is the body of a function of i (0 to 7), n (an integer), v (a float), x and a (arrays).
BODIES = {
    "alias": """
d = {'a': 1}
e = d
e['a'] = n
return d['a']
""",
    "loop": """
d = {'a': 0, 'b': 0.5}
for j in range(i):
    d['a'] += j
    d['b'] += x[j]
return d['a'] + d['b']
""",
    "condition": """
d = {1: 1, 2: 2}
if n > 3:
    d[1] = n
else:
    d[2] = n
return d[1] * 10 + d[2]
""",
    "nested": """
d = {'a': {'b': 1}, 'c': [1, 2]}
d['a']['b'] = n
d['c'][1] = i
return d['a']['b'] * 10 + d['c'][1]
""",
    "closure": """
d = {'a': 0}
def add(k):
    d['a'] += k
for k in a:
    add(k)
return d['a']
""",
    "copied": """
d = {'a': n, 'b': 2}
f = {**d, 'a': 7}
return d['a'] + f['a'] + f['b'] + len({})
""",
    "comprehension": """
d = {k: k * n for k in (1, 2, 3)}
d[2] = 5
return sum(d.values()) + sum(d)
""",
    "changed_in_a_loop": """
d = {'a': 1, 'b': n}
s = 0
for k, w in d.items():
    s = s * 10 + w
    d['b'] = 7
return s
""",
    "every_item": """
d = {'a': 1, 'b': n}
for k in d:
    d[k] = d[k] * 2
for k, w in d.items():
    d[k] = w + 1
return sum(d.values())
""",
    "keywords": """
def f(**options):
    options['a'] = 5
    return options['a'] + options['b']
d = {'a': 1, 'b': n}
return f(**d) * 10 + d['a']
""",
    "either": """
d = {'a': 1} if n > 3 else {'a': 2}
d['a'] += n
return d['a']
""",
}


@pytest.mark.parametrize("name", BODIES)
def test_dicts_change_as_in_python(stream, name):
    check_body(stream, BODIES[name], X, A, CONFIGURATION=CONFIGURATION)


def few(i, x):
    yield i
    yield 2.5
    yield from (x[i], 4)


def enumerated(i, x):
    d = {k: v * 2 for k, v in enumerate(few(i, x), 1)}
    return d[1] + d[2] * 10 + d[4] * 100 + len(d) * 1000


def test_values_of_a_generator_are_numbered(stream):
    check(stream, enumerated, np.arange(8) * 0.5)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("d = {}\nd.popitem()\nreturn 1", "a dict has no attribute 'popitem'"),
        ("return len(dict(a=1))", "dict cannot be called in device code"),
        ("return 1 if {1: 2} == {1: 3} else 0", "a dict == a dict is not defined"),
        ("d = {1: 2}\nreturn d[n]", "the key of a dict must be a constant expression"),
        ("return len({[]: 1})", "a list cannot be a key of a dict"),
        ("d = {}\nd[{}] = 1\nreturn 1", "a dict cannot be a key of a dict"),
        ("d = {}\nreturn d[(1, [2])]", "tuple<int, a list> cannot be a key of a dict"),
        (
            "p, q = {1: 1}, {1: 2}\nr = p if n > 3 else q\nr[1] = 9\nreturn p[1]",
            "this dict may be one of several",
        ),
    ],
)
def test_what_dicts_cannot(body, match):
    function = define("def f(n):\n" + "".join(f"    {line}\n" for line in body.splitlines()), "f")
    refused(function, int, match=match)
