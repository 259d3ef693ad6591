"""Lists that change: items, slices, lengths and methods, under all names that a list has, also beside `nonlocal`."""

from __future__ import annotations

import numpy as np
import pytest
from against_python import check_body, refused

import cuda_device as device

X = np.arange(8) * 1.5 - 3
A = np.array([5, 3, -2, 7, 0, 11, -9, 4], np.int32)

# Each is the body of a function of i (0 to 7), n (an integer), v (a float), x and a (arrays).
HOST = [1, 2]
BODIES = {
    "compared_with_what_is_no_list_of_its_own": """
f = lambda w: w + i
d = {'a': i}
results = HOST == [1, 2], [1, i] == HOST, HOST != [2], [1, 2] == (1, 2), f == 3, d == i, (1, i) != d, [f] == i
return sum(2 ** k * result for k, result in enumerate(results))
""",
    "swap_loop": """
p, q = [1, 2], [3, n]
for j in range(i):
    p, q = q, p
return p[0] * 1000 + p[1] * 100 + q[0]
""",
    "alias_then_rebind": """
p = [1, 2]
q = p
if n > 3:
    p = [3, 4]
return p[0] * 10 + q[1]
""",
    "rebind_in_loop": """
best = [0, 0]
for j in range(8):
    cand = [j, a[j]]
    if cand[1] > best[1]:
        best = cand
return best[0] * 100 + best[1]
""",
    "bubble": """
xs = [n, a[1], a[2], i]
for p in range(3):
    for q in range(3 - p):
        if xs[q] > xs[q + 1]:
            xs[q], xs[q + 1] = xs[q + 1], xs[q]
return xs[0] + 10 * xs[1] + 100 * xs[2] + 1000 * xs[3]
""",
    "iter_change": """
xs = [n, 2, 3]
s = 0
for j, q in enumerate(xs):
    s = s * 10 + q
    if j < 2:
        xs[j + 1] = xs[j + 1] + q
return s
""",
    "iter_append": """
xs = [n, 2]
s = 0
for q in xs:
    s = s * 10 + q
    if len(xs) < 5:
        xs.append(1)
return s
""",
    "matmul": """
m = [[1, n], [0, 1]]
r = [[1, 0], [0, 1]]
for k in range(i):
    t = [[0, 0], [0, 0]]
    for p in (0, 1):
        for q in (0, 1):
            for w in (0, 1):
                t[p][q] += r[p][w] * m[w][q]
    r = t
return r[0][0] + 10 * r[0][1] + 100 * r[1][0]
""",
    "alias_in_matrix": """
row = [0, 0]
m = [row, row]
m[0][1] = n
return m[1][1] + row[1]
""",
    "func_changes": """
def push(xs, q):
    xs.append(q)
    return len(xs)
xs = []
push(xs, n); push(xs, 2)
return push(xs, 3) * 100 + xs[0]
""",
    "func_sets_loop": """
def bump(xs, k):
    xs[k] += 1
xs = [0, 0, 0]
for j in range(8):
    bump(xs, a[j] % 3)
return xs[0] + xs[1] * 10 + xs[2] * 100
""",
    "returns_list": """
def make(q): return [q, q + 1]
p, q = make(n), make(2)
p[0] = 7
return p[0] * 100 + q[0] * 10 + p[1]
""",
    "cond_change": """
xs = [1, 2]
if n > 3:
    xs[0] = n
else:
    xs[1] = n
return xs[0] * 10 + xs[1]
""",
    "float_into_int": """
xs = [0, 0]
xs[i % 2] = v
return xs[0] + xs[1]
""",
    "neg": """
xs = [1, 2, 3]
xs[-1] = n
xs[-1 - i % 2] += 4
return xs[0] + xs[1] * 10 + xs[2] * 100
""",
    "tuple_items": """
xs = [(1, 2), (3, 4)]
xs[i % 2] = (n, 9)
return xs[0][0] + xs[1][1] * 10
""",
    "in_list": """
xs = [1, n]
xs.append(4)
return 1 if 4 in xs else 0
""",
    "concat": """
xs = [1] + [n]
xs[0] = 5
return xs[0] + xs[1]
""",
    "slice_copy": """
xs = [1, n, 3]
ys = xs[:]
ys[0] = 9
return xs[0] + ys[0] * 10
""",
    "tuple_of": """
xs = [1, n]
t = tuple(xs)
xs[0] = 5
return t[0] * 10 + xs[0]
""",
    "gen_func_list": """
def g(xs):
    for q in xs:
        yield q
        xs[2] = 50
s = 0
for q in g([n, 2, 3]): s = s * 7 + q
return s
""",
    "while_stack": """
st = [0, 0, 0, 0]
top = 0
k = i
while k > 0:
    st[top] = k
    top += 1
    k >>= 1
s = 0
while top > 0:
    top -= 1
    s = s * 10 + st[top]
return s
""",
    "comp_modify": """
xs = [q * n for q in range(4)]
xs[i % 4] = 100
return sum(xs)
""",
    "is": """
xs = [1]
ys = xs
zs = [1]
return (1 if xs is ys else 0) + (10 if xs is zs else 0) + (100 if xs is not zs else 0)
""",
    "rec_list": """
def fill(xs, k):
    if k > 0:
        xs[k] = k * n
        fill(xs, k - 1)
xs = [0, 0, 0, 0]
fill(xs, 3)
return sum(xs)
""",
    "index_after": """
xs = [3, n]
xs.append(9)
return xs.index(9) * 10 + xs.count(3)
""",
    "zip_set": """
xs = [1, n, 3]
for p, q in zip(xs, a):
    xs[0] += q
return sum(xs)
""",
    "met_then_change": """
if n > 3:
    xs = [1, 2]
else:
    xs = [n, 4]
xs[0] += 1
return xs[0] * 10 + xs[1]
""",
    "frozen_read": """
p = [1, 2]
q = [3, 4]
r = p if n > 3 else q
return r[0] + p[1] + q[1]
""",
    "comp_nested": """
m = [[0] * 3 for _ in range(2)]
m[1][i % 3] = n
return m[1][0] + m[1][1]*10 + m[1][2] *100 + m[0][0]
""",
    "list_in_gen_state": """
def g():
    xs = [0, 1]
    for _ in range(6):
        xs[0], xs[1] = xs[1], xs[0] + xs[1]
        yield xs[0]
s = 0
for q in g(): s = s * 3 + q
return s + n
""",
    "list_from_gen_changed_outside": """
xs = [n, 1]
def g():
    for j in range(4):
        yield xs[j & 1]
s = 0
for q in g():
    s = s * 5 + q
    xs[0] += 1
return s
""",
    "nonlocal_list_rebind": """
xs = [n, 1]
def swap():
    nonlocal xs
    xs = [xs[1], xs[0]]
for j in range(i): swap()
return xs[0] * 10 + xs[1]
""",
    "list_of_lists_swap": """
m = [[1, 2], [3, n]]
m[0], m[1] = m[1], m[0]
m[0][0] = 9
return m[0][0] * 100 + m[0][1] + m[1][0]
""",
    "list_arg_default_branch": """
def pick(xs, c):
    if c:
        return xs
    return [7, 8]
p = [n, 2]
q = pick(p, i > 3)
return q[0] + p[1]
""",
    "dict_of_lists": """
d = {'a': [0, 0], 'b': [1, 1]}
for k in ('a', 'b'):
    for j in range(4):
        d[k][j & 1] += a[j]
return d['a'][0] * 1000 + d['a'][1] * 100 + d['b'][0] * 10 + d['b'][1]
""",
    "two_funcs_share": """
log = [0, 0, 0]
top = 0
def push(k):
    nonlocal top
    log[top] = k
    top = min(top + 1, 2)
def pop():
    nonlocal top
    top -= 1
    return log[top]
push(n); push(2)
r = pop()
push(5)
return r * 100 + pop() * 10 + top
""",
    "lambda_captures_loop_list": """
xs = [0, 1]
get = lambda j: xs[j]
s = 0
for j in range(4):
    xs[j & 1] += j
    s = s * 3 + get(j & 1)
return s
""",
    "unpack_list": """
xs = [n, 2, 3]
p, *q = xs
q[0] = 50
return p + q[0] + xs[1]
""",
    "list_is_truthy": """
xs = []
if xs: return 1
xs.append(n)
return 2 if xs else 3
""",
    "pass_same_twice": """
def add(p, q):
    p[0] += 1
    q[0] += 10
    return p[0]
xs = [n]
return add(xs, xs) * 100 + xs[0]
""",
    "pass_row": """
def setr(r, k): r[0] = k
m = [[1, 2], [3, 4]]
for j, r in enumerate(m): setr(r, j + n)
return m[0][0] * 100 + m[1][0]
""",
    "nonlocal_any_early": """
count = 0
def see(q):
    nonlocal count
    count += 1
    return q > 6
r = any(see(q) for q in a)
return count * 10 + r
""",
    "tuple_of_closures": """
c = 0
def inc():
    nonlocal c
    c += 1
def dec():
    nonlocal c
    c -= 2
ops = (inc, dec)
for op in ops: op()
for j in range(3): ops[0]()
return c
""",
}


@pytest.mark.parametrize("name", BODIES)
def test_lists_change_as_in_python(stream, name):
    check_body(stream, BODIES[name], X, A, HOST=HOST)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (
            "xs = []\nwhile len(xs) < n:\n    xs.append(n)\nreturn 1",
            "a list of 0 items on one path here and a list of 1 item",
        ),
        (
            "xs = [1]\nif n > 3:\n    xs.append(2)\nreturn len(xs)",
            "a list of 1 item on one path here and a list of 2 items",
        ),
        ("p, q = [1], [2]\nr = p if n > 3 else q\nr[0] = 9\nreturn p[0]", "this list may be one of several"),
        (
            "xs = [0] * 65\nxs[n] = 1\nreturn xs[0]",
            "a list of 65 items is too long for an assignment by a run-time index",
        ),
        (
            "xs = [0, None]\nxs[n] = 1\nreturn 1",
            "have no common type, and the index is known only at run time",
        ),
        (
            "xs = [(n, 2)]\nif n > 3:\n    xs[0] = (n, 2, 3)\nreturn xs[0][0]",
            "item 0 of the variable 'xs' is tuple<int, int> on one path here and tuple<int, int, int> on another",
        ),
        (
            (
                "def change(a):\n    v = a[0]\n    v[0] = 7\n    a[0] = [9]\n    if n > 3:\n        v = [3]\n    return v[0]\n"
                "b = [1]\ny = change([b])\nreturn y + b[0]"
            ),
            "the contents of a list are not known, because a variable may refer to it or to another object",
        ),
        ("xs = [1]\nxs[1] = n\nreturn 1", "index 1 is out of range for 1 element"),
        ("xs = [1]\nxs[0.5 * n] = n\nreturn 1", "an index must be an integer, not float"),
        ("xs = [1]\nxs.push(2)\nreturn 1", "a list has no attribute 'push'"),
        ("xs = [1]\nxs.append(1, 2)\nreturn 1", "append: too many positional arguments"),
    ],
)
def test_what_lists_cannot(body, match):
    scope: dict = {}
    exec("def f(n):\n" + "".join(f"    {line}\n" for line in body.splitlines()), scope)
    refused(scope["f"], int, match=match)


def test_an_index_out_of_bounds_is_reported(stream):
    @device.kernel(checked=True)
    def beyond(x, n):
        few = [0, 0]
        few[n] = 1
        x[0] = few[0]

    stream.launch(beyond, stream.array(X), -2, grid=1, block=1)
    with pytest.raises(device.KernelError, match="index 2 is out of bounds for a list of size 2"):
        stream.launch(beyond, stream.array(X), 2, grid=1, block=1)


def test_a_short_list_stays_in_registers():
    @device.kernel
    def count(a, out):
        bins = [0] * 4
        for v in a:
            bins[v & 3] += 1
        for i, many in enumerate(bins):
            out[i] = many

    arrays = (device.ArrayType(device.int32, 1),) * 2
    text = device.compile(count, *arrays, output="ptx").code
    assert ".local" not in text
