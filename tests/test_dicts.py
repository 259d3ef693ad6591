"""Dicts that change, `dict(…)`, and mapping patterns of `match`."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from against_python import check, check_body, refused
from ir_helpers import define

import cuda_device as device

X = np.arange(8) * 1.5 - 3
A = np.array([5, 3, -2, 7, 0, 11, -9, 4], np.int32)
CONFIGURATION = {"width": 3, "height": 4, "name": "abc"}

# Each is the body of a function of i (0 to 7), n (an integer), v (a float), x and a (arrays).
BODIES = {
    "item": """
d = {'a': 1}
d['b'] = n
d['a'] += 4
return d['a'] * 100 + d['b'] + len(d)
""",
    "choices": """
d = {3: 10 if n > 3 else 32}
d.update({3: v if n > 4 and v > 0 else -v, 'a': 5 if i else n, (1, 2): 1})
e = {'b': n if n < 3 else i}
return d[3] * 100 + d['a'] + e['b'] + len(d)
""",
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
    "function": """
def put(d, k):
    d['a'] = k
    d['n'] = 1
d = {}
put(d, n)
return d['a'] + len(d)
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
    "delete": """
d = {'a': 1, 'b': n}
del d['a']
return len(d) * 100 + d['b']
""",
    "methods": """
d = {'a': 1}
d.update({'b': n}, c=3)
d.update((('e', 5), ('a', 2)))
p = d.pop('b') + d.pop('z', 7) + d.setdefault('a', 9) * 10 + d.setdefault('f', n)
e = d.copy()
e['a'] = 100
d.clear()
return p + len(d) + e['a'] + len(e) + e.get('c') + e.get('q', 1)
""",
    "or": """
d = {'a': 1}
e = d
d |= {'b': n}
return e['b'] + len(e)
""",
    "made": """
d = dict(a=n, b=2)
e = dict(zip(('a', 'c'), (3, i)))
f = dict(d, a=7)
return d['a'] + e['c'] * 10 + f['a'] + len(dict())
""",
    "comprehension": """
d = {k: k * n for k in (1, 2, 3)}
d[2] = 5
return sum(d.values()) + sum(d)
""",
    "views": """
d = {'a': 1, 'b': n}
v = d.values()
d['a'] = 9
d['c'] = 2
return sum(v) * 10 + len(d.items()) + (1 if 'c' in d.keys() else 0)
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
d = dict(a=1, b=n)
return f(**d) * 10 + d['a']
""",
    "either": """
d = {'a': 1} if n > 3 else {'a': 2}
d['a'] += n
return d['a']
""",
    "pattern": """
match CONFIGURATION:
    case {'depth': q}:
        return q
    case {'width': w, 'height': 4}:
        return w + n
return -1
""",
    "pattern_with_rest": """
match CONFIGURATION:
    case {'width': w, **rest}:
        return w + len(rest) + rest['height']
return -1
""",
    "pattern_of_values": """
d = {'k': n, 'z': 2}
match d:
    case {'k': 3}:
        return 1
    case {'k': k, 'z': 2} if k > 4:
        return k * 2
    case {'q': _} | []:
        return 7
    case {}:
        return 5
""",
    "no_mapping": """
match n:
    case {'k': _}:
        return 1
    case _:
        return 2
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


WORLD = {"w": 4, "a": 5}
COSTS = {3: 5, 1: 7.5, 4: 9}
MIXED = {"a": 1, 2: 5, (1, 2): 7, 4.0: 9}
OPERATIONS = {0: lambda a, b: a + b, 1: operator.mul, 2: max, 3: math.fmod}
PAIRS = {(0, 1): 3, (1, 0): 4, (1, 1): 5}


def looked_up(i, x):
    cost = COSTS[i] if i in COSTS else -1
    local = {k: x[k] * i for k in (0, 2, 5)}
    total = cost + COSTS.get(i, -1) * 2 + MIXED.get(i, 0) * 100 + OPERATIONS[i % 4](x[i], 2.0) * 1000
    total += local.get(i, 0.5) + (i in local) * 7 + (i not in COSTS) * 9 + (i not in MIXED) * 11
    return (
        total
        + PAIRS.get((i % 2, i // 4), 0) * 13
        + {0: (1, 2), 1: (3, 4.5)}[i % 2][1]
        + {1: [i, 2], 0: [3, x[i]]}[i % 2][1]
    )


def counted(i, x):
    counts = {k: 0 for k in (0, 1, 2)}  # noqa: C420
    alias = counts
    for v in x:
        counts[int(v + i) % 3] += 1
    counts[i % 3] *= 2
    best = max(counts, key=lambda k: counts[k])
    return sum(alias[k] * 10**k for k in counts) + 0.5 * best


def switched(i, x):
    """Functions by an index: lambdas with captures, entities, and with keywords."""
    scale = x[i]
    functions = [lambda v: v + scale, math.floor, lambda v: v * i]
    chosen = functions[i % 3]
    total = chosen(2.5) + (math.sqrt, abs)[i % 2](4.0)

    def plus(a, b=1, *, c=0):
        return a + b * 10 + c * 100

    def minus(a, b=2, *, c=1):
        return a - b * 10 - c * 100

    return total + (plus, minus)[i % 2](i, c=2) + {"p": plus, "m": minus}["p"](1, 2)


def lists_by_keys_of_run_time(i, x):
    first = [i, 2, 3]
    rows = {0: first, 1: [4, i, 6], 5: first}
    rows[i % 2][i % 3] += 10
    rows[5 - 4 * (i % 2)][0] -= 1
    row = rows[i % 2]
    row[1] = 7
    rows.get(0)[2] += 5
    return sum(rows[0]) + 10 * sum(rows[i % 2]) + 100 * rows[5 * (i % 2)][i % 3] + first[0] + max(row)


@pytest.mark.parametrize("function", [looked_up, counted, switched, lists_by_keys_of_run_time])
def test_keys_of_run_time_are_pythons(stream, function):
    check(stream, function, np.arange(8) * 0.5 - 1)


def test_a_wrong_key_is_reported(stream):
    @device.kernel
    def reads(out, n):
        out[0] = COSTS[n]

    @device.kernel
    def writes(out, n):
        counts = {1: 0, 2: 0}
        counts[n] += 1
        counts[n + 1] = 7
        out[0] = counts[2]

    @device.kernel
    def calls(out, n):
        out[0] = (math.sqrt, abs)[n](4.0)

    out = stream.array(np.zeros(1))
    for kernel, good, value, bad, message in (
        (reads, 3, 5, 2, "KeyError: 2"),
        (writes, 1, 7, 2, "no new keys at run time: 3"),
        (calls, -2, 2, 2, "tuple index out of range"),
    ):
        stream.launch(kernel, out, good, grid=1, block=1)
        assert stream.numpy(out)[0] == value
        with pytest.raises(device.KernelError, match=message):
            stream.launch(kernel, out, bad, grid=1, block=1)


def united(i, x):
    d = {"a": i, "b": 2} | {"b": x[i], "c": 3}
    e = d | WORLD
    f = WORLD | d
    d["b"] = 7
    return d["b"] + e["b"] * 10 + e["a"] * 100 + f["a"] * 1000 + len(e) * 10000 + len({} | {})


def test_dicts_are_united(stream):
    check(stream, united, np.arange(8) * 0.5)


def test_a_dict_is_printed(stream, capfd):
    @device.kernel
    def shows(n):
        d = {"a": n, 2: (n, 0.5)}
        d["b"] = [1, n]
        print(d, f"{d}")

    capfd.readouterr()
    stream.launch(shows, 7, grid=1, block=1)
    shown = "{'a': 7, 2: (7, 0.5), 'b': [1, 7]}"
    assert capfd.readouterr().out == f"{shown} {shown}\n"


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("d = {}\nd[n] = 1\nreturn 1", "the dict is empty, and the key int is known at run time alone"),
        ("d = {}\nif n > 3:\n    d['a'] = 1\nreturn len(d)", "is a dict on one way here and a dict on another"),
        ("d = {}\nreturn d.pop('a')", "the dict has no key 'a'"),
        ("d = {}\ndel d['a']\nreturn 1", "the dict has no key 'a'"),
        ("d = {}\nd.popitem()\nreturn 1", "a dict has no attribute 'popitem'"),
        ("d = dict(((1, 2, 3),))\nreturn 1", "a dict is made of pairs"),
        ("d = dict(((n, 2),))\nreturn 1", "the key of a dict must be a constant expression"),
        ("return len({[]: 1})", "a list cannot be a key of a dict"),
        ("d = {}\nd[{}] = 1\nreturn 1", "a dict cannot be a key of a dict"),
        ("d = {}\nreturn d[(1, [2])]", "tuple<int, a list> cannot be a key of a dict"),
        (
            "p, q = {1: 1}, {1: 2}\nr = p if n > 3 else q\nr[1] = 9\nreturn p[1]",
            "which dict this is depends on the way",
        ),
    ],
)
def test_what_dicts_cannot(body, match):
    function = define("def f(n):\n" + "".join(f"    {line}\n" for line in body.splitlines()), "f")
    refused(function, int, match=match)
