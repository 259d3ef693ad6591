"""Lists of lists: a row that only run time chooses is that row, under all of its names, and not a copy."""

from __future__ import annotations

import numpy as np
import pytest
from against_python import check_body, refused

import cuda_device as device

STENCIL = [[1, 2, 1], [2, 4, 2], [1, 2, 1]]
LARGE = [[p * q % 7 for p in range(9)] for q in range(12)]
LARGE_TUPLES = tuple(map(tuple, LARGE))
MIXED = [(1, 2.5), (2, 0.5), (3, 0.25)]
ROWS = {"STENCIL": STENCIL, "LARGE": LARGE, "LARGE_TUPLES": LARGE_TUPLES, "MIXED": MIXED}
"""Rows that are there before the kernel is."""
X = np.arange(8) * 1.5 - 3
A = np.array([5, 3, -2, 7, 0, 11, -9, 4], np.int32)

# Each is the body of a function of i (0 to 7), n (an integer), v (a float), x and a (arrays).
OF_CONSTANTS = {
    "stencil": "return sum(STENCIL[r][c] * a[(i + r * c) % 8] for r in range(3) for c in range(3))",
    "loops": """
s = 0
for r in range(3):
    for c in range(3):
        s += STENCIL[r][c] * a[(i + r * c) % 8] + STENCIL[r - 1][-c]
return s
""",
    "rows": "row = STENCIL[n % 3]\nreturn sum(row) + len(row) * 100 + row[1:][1] * 1000 + max(STENCIL[i % 3])",
    "ends": "return STENCIL[-1][n % 3] * 10 + STENCIL[n % 3][-1] + STENCIL[i % 3 - 3][i % 3 - 3] * 100",
    "large": "return LARGE[i + n % 4][i] + 10 * LARGE_TUPLES[i][n % 9] + 100 * sum(LARGE[n % 12]) + 1e5 * len(LARGE[i])",
    "mixed": "k, w = MIXED[n % 3]\nreturn k * w + MIXED[i % 3][1] * 10",
}
BODIES = {
    "item": "m = [[1, 2], [3, n]]\nm[i % 2][i // 4] = 9\nreturn m[0][0] + 10 * m[0][1] + 100 * m[1][0] + 1000 * m[1][1]",
    "added_to": """
m = [[0] * 3 for _ in range(3)]
for j in range(8):
    m[a[j] % 3][j % 3] += a[j]
    m[j % 3][1] -= 1
return sum(m[p][q] * 7 ** (3 * p + q) for p in range(3) for q in range(3)) % 100003
""",
    "seen_by_an_older_name": """
m = [[1, 2], [3, 4]]
row = m[i % 2]
m[0][0], m[1][0] = n, 9
return row[0] * 10 + row[1]
""",
    "seen_by_the_list": """
m = [[1, 2], [3, 4]]
row = m[i % 2]
row[n % 2] = 7
row[0] += 10
return m[0][0] + 100 * m[0][1] + 10000 * m[1][0] + 1000000 * m[1][1]
""",
    "from_the_end": "m = [[1, 2], [3, 4]]\nm[i % 2 - 2][-1] = n\nreturn m[0][1] * 100 + m[1][1]",
    "items_of_two_types": "m = [[1, 2], [3, v]]\nm[i % 2][0] = v\nreturn m[0][0] * 100 + m[1][0] + m[i % 2][1]",
    "a_row_twice": "m = [[n, 2]] * 2\nm[i % 2][0] = 5\nm[1][1] += i\nreturn m[0][0] * 100 + m[i % 2][1]",
    "in_a_tuple_of_rows": "m = ([1, 2], [3, 4])\nm[i % 2][0] = n\nreturn m[0][0] * 100 + m[1][0]",
    "three_axes": """
m = [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
m[i % 2][i // 4][n % 2] = 50
m[i % 2][1][0] += 100
m[1][i % 2][1] += 1000
return sum(m[p][q][r] * (4 * p + 2 * q + r + 1) for p in range(2) for q in range(2) for r in range(2))
""",
    "a_slice_of_a_row": "m = [[1, 2, 3], [4, 5, 6]]\nm[i % 2][:2] = [n, 9]\nreturn sum(m[0]) * 100 + m[1][0] + m[i % 2][1:][0]",
    "methods": """
m = [[3, n, 2], [6, 4, 5]]
m[i % 2].reverse()
m[i // 4].sort()
return sum(m[p][q] * 10 ** (3 * p + q) for p in range(2) for q in range(3)) + m[i % 2].index(4 if i % 2 else 3)
""",
    "read_as_a_list": """
m = [[1, n], [3, 4]]
row = m[i % 2]
first, second = row
total = sum(row) + max(row) * 10 + len(row) * 100 + (3 in row) * 1000 + (row == [3, 4]) * 2000 + (m[i % 2] < [2, 0]) * 4000
for j, value in enumerate(row):
    total += j * value
for p, q in zip(m[0], row):
    total += p * q
whole = [*row, 5] + row
return total + first - second + whole[3] + len(whole) + bool(row)
""",
    "a_copy_is_another_list": "m = [[1, 2], [3, 4]]\nrow = m[i % 2].copy()\nrow[0] = n\nreturn m[0][0] * 10 + m[1][0] + row[0]",
    "given_to_a_function": """
def put(row, j, value):
    row[j] = value
    return row
m = [[1, 2], [3, 4]]
same = put(m[i % 2], n % 2, 9)
return m[0][0] + 10 * m[0][1] + 100 * m[1][0] + 1000 * m[1][1] + same[0]
""",
    "returned": """
def pick(rows, j):
    return rows[j]
m = [[1, 2], [3, 4]]
pick(m, i % 2)[0] = n
return m[0][0] * 10 + m[1][0]
""",
    "captured": """
m = [[1, 2], [3, 4]]
row = m[i % 2]
def put(value):
    row[1] = value
put(n)
return m[0][1] * 10 + m[1][1]
""",
    "in_a_loop": """
m = [[1, 1], [1, 1]]
for j in range(4):
    row = m[(i + j) % 2]
    if a[j] > 0:
        row[j % 2] *= a[j]
return m[0][0] + 3 * m[0][1] + 5 * m[1][0] + 7 * m[1][1]
""",
}


@pytest.mark.parametrize("name", BODIES)
def test_rows_change_as_in_python(stream, name):
    check_body(stream, BODIES[name], X, A)


@pytest.mark.parametrize(
    ("body", "match", "help"),
    [
        ("m[n].append(1)", "how many items each of these lists has would depend on run time", "local_array"),
        ("m[n].pop()", "how many items each of these lists has would depend on run time", "local_array"),
        ("m[n] += [1]", "which list this is depends on the way that leads here", "name of its own"),
        ("del m[n][0]", "which list this is depends on the way that leads here", "name of its own"),
        ("m[n] = [1, 2]", "have no common type, and which one is assigned to", "xs[i][:] = vs"),
        ("m[n].push(1)", "one of several lists has no attribute 'push'", "append"),
        ("m[0].append(1)\n    m[n][0] = 1", "the lists among which .* have no common type", "one length"),
        ("m[n][2] = 1", "there is no index 2 in 2 elements", "-2 to 1"),
    ],
)
def test_what_rows_cannot(body, match, help):
    scope: dict = {}
    exec(f"def f(n):\n    m = [[1, 2], [3, 4]]\n    {body}\n    return m[0][0]\n", scope)
    error = refused(scope["f"], int, match=match)
    assert help in error.help


def test_rows_out_of_bounds_are_reported(stream):
    @device.kernel(checked=True)
    def beyond(x, i, j):
        m = [[0, 0, 0], [0, 0, 0]]
        m[i][j] = 1
        x[0] = m[0][0]

    x = stream.array(X)
    stream.launch(beyond, x, -2, -3, grid=1, block=1)
    assert stream.numpy(x)[0] == 1
    for i, j, size in ((2, 0, 2), (-3, 0, 2), (1, 3, 3), (0, -4, 3)):
        with pytest.raises(
            device.KernelError, match=f"index {j if size == 3 else i} is out of bounds for a list of size {size}"
        ):
            stream.launch(beyond, x, i, j, grid=1, block=1)


GROWING = {
    "append": "xs = [1]\nfor j in range(n):\n    xs.append(j)",
    "append_to_nothing": "xs = []\nfor j in range(n):\n    xs.append(j)",
    "append_if": "xs = [1]\nif n > 3:\n    xs.append(2)",
    "append_while": "xs = [1]\nwhile len(xs) < n:\n    xs.append(2)",
    "pop": "xs = [1, 2, 3]\nfor j in range(n):\n    xs.pop()",
    "extend": "xs = [1]\nfor j in range(n):\n    xs.extend([1, 2])",
    "insert": "xs = [1]\nfor j in range(n):\n    xs.insert(0, j)",
    "delete": "xs = [1, 2, 3]\nwhile n > 0:\n    del xs[0]\n    n -= 1",
    "clear": "xs = [1]\nif n:\n    xs.clear()",
    "in_place": "xs = [1]\nfor j in range(n):\n    xs += [j]",
    "sum": "xs = [1]\nfor j in range(n):\n    xs = xs + [j]",
    "product": "xs = [1] * n",
    "comprehension": "xs = [j for j in range(n)]",
    "condition": "xs = [j for j in range(4) if j < n]",
    "list_of_range": "xs = list(range(n))",
    "unpacked": "xs = [*range(n)]",
    "tuple": "xs = ()\nfor j in range(n):\n    xs = xs + (j,)",
    "tuple_of_generator": "xs = tuple(j for j in range(n))",
}


@pytest.mark.parametrize("name", GROWING)
def test_lists_of_unknown_length_are_refused_with_what_to_use(name):
    scope: dict = {}
    exec("def f(n):\n" + "".join(f"    {line}\n" for line in (GROWING[name] + "\nreturn len(xs)").splitlines()), scope)
    error = refused(scope["f"], int, match="items? on |length|tuple<> on one way|list")
    assert "local_array" in error.help, str(error)


@pytest.mark.parametrize("text", OF_CONSTANTS.values(), ids=OF_CONSTANTS)
def test_rows_of_constants_are_pythons(stream, text):
    check_body(stream, text, X, A, **ROWS)
