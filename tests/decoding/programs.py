"""Functions that together use every construct, each with calls to make: CPython's results are the right ones.

`PROGRAMS` lists (function, calls); a call is a tuple of positional arguments, deep-copied for each run, since
functions may change them.
"""

# Odd Python is what this file is for; a linter has nothing to mend here.
# ruff: noqa: B023, B905, C416, E731, F541, F821, F841, FURB136, FURB171, PLW1641, PLW2901, RUF012, RUF021, SIM108, SIM208, SIM210

import copy
import types

PROGRAMS = []
SCALE = 3


def called_with(*calls):
    """Lists the function, with those calls."""

    def register(function):
        PROGRAMS.append((function, calls))
        return function

    return register


class Box:
    """Something with attributes, methods and matching."""

    __match_args__ = ("first", "second")

    def __init__(self, first=1, second=2):
        self.first, self.second = first, second

    def __eq__(self, other):
        return isinstance(other, Box) and vars(self) == vars(other)

    def __repr__(self):
        return f"Box({vars(self)})"

    @staticmethod
    def make(first):
        return Box(first)

    table = {"key": len}

    def copy(self, **options):
        return self.first, options

    def total(self, *more, scale=1):
        return (self.first + self.second + sum(more)) * scale


class Odd:
    """Compares to something that is not a bool."""

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return [self.value < other.value]

    def __bool__(self):
        return self.value % 2 == 1

    def __eq__(self, other):
        return type(other) is Odd and other.value == self.value

    __hash__ = None


def collect(*args, **kwargs):
    return args, kwargs


# Operators


@called_with((2,))
def imports(x):
    import collections.abc as abc
    import os.path
    from math import floor
    from math import pi as circle

    return floor(x * circle), isinstance(x, abc.Sized), os.path.sep


@called_with((7, 2), (-7, 2), (7, -3))
def arithmetic(a, b):
    return a + b, a - b, a * b, a / b, a // b, a % b, a ** (b * b), -a, +b, ~a


@called_with((12, 3))
def bits(a, b):
    return a << b, a >> b, a & b, a | b, a ^ b


class Matrix:
    def __matmul__(self, other):
        return "product", other


@called_with((4,))
def matrix_product(a):
    m = Matrix()
    r = m @ a
    m @= a
    return r, m


@called_with((7, 2))
def augmented(a, b):
    a += b
    a -= 1
    a *= 5
    a //= b
    a %= 13
    a **= 2
    a <<= 3
    a >>= 1
    a |= 1
    a &= 0xFFF
    a ^= 5
    c = a
    c /= 4
    return a, c


@called_with((1, 2), (2, 2), (3, 2))
def comparisons(a, b):
    return a < b, a <= b, a == b, a != b, a > b, a >= b, a is b, a is not b, a in (1, b), a not in [b]


@called_with((1, 2, 3), (3, 2, 1), (1, 1, 1))
def chained(a, b, c):
    if a < b < c:
        return "up"
    if not a >= b >= c:
        return "mixed"
    return a == b == c, a <= b > c


@called_with((0, 0, 0), (0, 1, 0), (2, 0, 3), (2, 5, 0))
def short_circuit(a, b, c):
    if a and b or c:
        d = 1
    else:
        d = 2
    return a and b, a or b, a and b or c, a or b and c, not a, not (a and b), d


@called_with((0,), (5,), ("",), ([1],))
def truth(x):
    return not not x, not not not x, bool(x), True if x else False


@called_with((Odd(1), Odd(2)), (Odd(2), Odd(1)))
def truth_of_comparison(a, b):
    return a < b, not a < b, not not a < b, 1 if a < b else 2, not not a, a and b, a or b


@called_with((None,), (3,), (0,))
def none_tests(x):
    y = 1 if x is None else 2
    if x is not None:
        y += 10
    z = x if x is not None else "none"
    while x is not None:
        x = None if x == 0 else x - 1
    while x is None:
        x = y
    return y, z, x


@called_with((5,), (-5,), (0,))
def ternary(x):
    return "positive" if x > 0 else "negative" if x < 0 else "zero"


# Loops


@called_with((0,), (1,), (10,))
def sum_of_squares(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


@called_with((0, 3), (4, 3), (4, 0))
def nested_loops(n, m):
    out = []
    for i in range(n):
        for j in range(m):
            if i == j:
                continue
            if i + j > 4:
                break
            out.append((i, j))
        else:
            out.append(i)
    return out


@called_with(([1, 3, 5],), ([1, 4, 5],), ([],))
def for_else(xs):
    for x in xs:
        if x % 2 == 0:
            found = x
            break
    else:
        return "none"
    return found


@called_with((0,), (1,), (27,))
def collatz(n):
    steps = 0
    while n > 1:
        n = 3 * n + 1 if n % 2 else n // 2
        steps += 1
    return steps


@called_with((0,), (3,), (9,))
def while_else(n):
    while n > 0:
        n -= 2
        if n == 5:
            break
        if n == 3:
            continue
        n -= 0
    else:
        return "done", n
    return "broken", n


@called_with((3,), (8,))
def endless(n):
    i = 0
    while True:
        i += 1
        if i * i > n:
            return i


@called_with(([1, 2, 3], 2), ([1, 2, 3], 9), ([[1], [2]], 3))
def return_from_loop(xs, y):
    for i, x in enumerate(xs):
        for _ in (0, 1):
            if x == y:
                return i
    return -1


@called_with((3,))
def loop_without_body(n):
    for _ in range(n):
        pass
    while n:
        n -= 1
    return n


@called_with((True,), (False,))
def maybe_undefined(flag):
    if flag:
        x = 1
    return x


@called_with((1,))
def deleted(x):
    y = x
    del x
    y += 1
    return x + y


# Tuples, items, slices, attributes


@called_with(((1, 2), [3, 4, 5]), ((1, 2), "abc"), ((1, 2), [3]))
def unpacking(pair, rest):
    a, b = pair
    (c, d), (e, *f) = (b, a), rest
    *g, h = rest
    i, *j, k = rest
    a, b = b, a
    a, b, c = c, a, b
    a, b, c, d = d, c, b, a
    return a, b, c, d, e, f, g, h, i, j, k


@called_with(([1, 2], (3,)))
def starred(xs, ys):
    return (*xs, *ys), [0, *xs], [*ys, 1, *xs], (*xs, 5)


@called_with(([0, 1, 2, 3, 4, 5, 6], 2), ("abcdefg", 3))
def slices(xs, n):
    return xs[n], xs[-1], xs[n:], xs[:n], xs[1:n], xs[::2], xs[n::-1], xs[1:5:n], xs[:], xs[1:4], xs[1:6:2]


@called_with(([0, 1, 2, 3, 4, 5], 1))
def item_stores(xs, n):
    xs[0] = 7
    xs[n] += 2
    xs[n + 1] *= xs[0]
    xs[3:5] = [9]
    xs[-2:] += [1, 2]
    xs[n:2] = xs[2:n]
    xs[0:4:2] = (8, 8)
    return xs


@called_with(({(1, 2): 3}, 1))
def tuple_keys(table, i):
    table[i, 5] = table[i, i + 1]
    table[i, 5] -= 1
    return table


@called_with((Box(3, 4),))
def attributes(box):
    box.first += 1
    box.extra = box.second
    box.total = box.total(1)
    box.second = box.first = 9
    return box


@called_with((1, 2, 3))
def displays(a, b, c):
    return (a, b), [], [a, b, c], {}, {"x": a, "y": b}, {a: b, b: c}, [1, 2, 3], (1, 2), ()


@called_with(({"a": 1}, {"a": 2, "b": 3}))
def merged_dicts(d, e):
    return {**d, "z": 1, **e}, {"a": 0, **e}


# Calls


@called_with((Box(1, 2), 5))
def method_calls(box, n):
    return box.total(), box.total(n), box.total(n, scale=2), box.total(box.total(n), n, scale=box.total()), "a".upper()


@called_with((1, 2))
def keyword_calls(a, b):
    return collect(), collect(a, b), collect(a, x=b), collect(x=a, y=b), collect(collect(a, z=1), y=collect(b))


@called_with(((1, 2), {"x": 3}), ([], {}), ((1,), {"k": 4}))
def star_calls(xs, options):
    return (
        collect(*xs),
        collect(0, *xs, 9),
        collect(*xs, k=1, j=2) if "k" not in options else None,
        collect(**options),
        collect(*xs, **options),
        collect(*xs, k=1, **options),
    )


@called_with(({"y": 3},), ({},))
def call_of_method_of_result(options):
    return Box.make(1).total(4, *options.values()), Box.make(2).copy(**options), Box.make(1).table["key"](options)


@called_with((3,))
def global_names(x):
    return x * SCALE, len([x]), types.SimpleNamespace(a=x).a


# Functions


# Comprehensions


# The match statement


@called_with((0,), (1,), (2,), (None,), (True,), ("abc",), (4.5,), (-3,), (7,))
def match_values(x):
    match x:
        case None:
            return "none"
        case True:
            return "true"
        case 0 | 1:
            return "bit"
        case 4.5 | "abc" as s:
            return s
        case n if n < 0:
            return "negative", n
    return "other"


@called_with(([],), ([1],), ([1, 2],), ((0, 5, 6),), ([7, [8, 9]],), ("ab",), ([1, 2, 3, 4],))
def match_sequences(x):
    match x:
        case []:
            return "empty"
        case [1]:
            return "one"
        case (0, *rest):
            return rest
        case [a, [b, c]]:
            return a, b, c
        case [a, b]:
            return a, b
        case [first, *_, last]:
            return first, last
        case _:
            return "other"


# Assertions, exceptions, strings


@called_with((1, True), (0, True), (5, False), (-1, True))
def assertions(x, flag):
    assert x
    assert flag, "flag"
    assert x > 0, f"{x} is {'negative' if x < 0 else 'zero'}, {x!r:>4}"
    assert x > 0 or flag, (x, flag)
    assert x < 0 if not flag else x > 0, max(x, 1)
    return x


@called_with((1,), (2,), (3,), (0,))
def raising(x):
    if x == 1:
        raise ValueError("one")
    if x == 2:
        raise ValueError("two") from KeyError("cause")
    if x == 3:
        raise AssertionError
    return 1 / x


@called_with((3.14159, "text", "é"))
def f_strings(x, s, t):
    width = 9
    return f"{x}", f"{x:.2f}|{s!r}", f"{x:{width}.3f}{s!s:>{width}}{t!a}", f"{s!r:>{width}}", f"{x=}", f"a{s}b", f"{{}}"


# Branches that constants decide, dead code, odd shapes


@called_with((1,))
def constant_branches(x):
    if False:
        x = unknown
    if True:
        x += 1
    while 0:
        x = 5
    return x
    return 7


@called_with((0,), (1,), (2,), (3,))
def elif_chain(x):
    if x == 0:
        r = "a"
    elif x == 1:
        r = "b"
    elif x == 2:
        pass
    else:
        r = "d"
    if x == 2:
        r = "c"
    return r


@called_with((1,))
def no_return(x):
    x + 1


@called_with((3, 5), (5, 3))
def loop_with_ternary_and_comparison(n, m):
    out = []
    for i in range(n if n < m else m):
        while 0 < i < 4 and (i % 2 or i == 2):
            i += 2 if i % 2 else 1
        out.append(i if i in (1, 2) else -i)
    return out


def _long_function():
    """A function whose constants, names and jumps need more than eight bits."""
    lines = ["def long(n, out):", "    for i in range(n):"]
    lines += [f"        v{k} = i * {1000 + k}" for k in range(300)]
    lines += [f"        if v{k} > 2001: out.append(v{k}, )" for k in range(300)]
    lines += ["    else:", "        out.append(n)", "    return out, collect(n, keyword=out)"]
    namespace = {"collect": collect}
    exec("\n".join(lines), namespace)
    return namespace["long"]


called_with((3, []))(_long_function())


# The check


def outcome(call, function, arguments):
    """The result, the arguments afterwards, or the exception."""
    arguments = copy.deepcopy(arguments)
    try:
        return comparable((call(function, *arguments), arguments))
    except (ArithmeticError, AssertionError, LookupError, NameError, TypeError, ValueError) as error:
        detail = error.args if isinstance(error, AssertionError) else ()
        return type(error), detail, type(error.__cause__)


def comparable(value):
    """The value with its type all through, since 1 == 1.0 == True."""
    if isinstance(value, (list, tuple)):
        return type(value), [comparable(item) for item in value]
    if isinstance(value, dict):
        return dict, [(comparable(key), comparable(item)) for key, item in value.items()]
    return type(value), value


def native(function, *arguments):
    """Calls the function."""
    return function(*arguments)


def all_code(code):
    """The code object and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from all_code(constant)
