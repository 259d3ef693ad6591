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


@called_with((7, 2), (-7, 2), (7, -3))
def arithmetic(a, b):
    return a + b, a - b, a * b, a / b, a // b, a % b, a ** (b * b), -a, +b, ~a


@called_with((12, 3))
def bits(a, b):
    return a << b, a >> b, a & b, a | b, a ^ b


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


# Functions of integers, which device code runs, too


def ladder(a, b):
    if a < 0:
        result = 1
    elif a == 0 and b:
        result = 2
    elif a == 0:
        result = 3
    elif a > 100:
        if b > 100:
            result = 4
        else:
            result = 5
    else:
        result = 6
    return result * 10 + (b > 0)


def early_returns(a, b):
    if a == 0:
        return 1
    for i in range(b):
        if i == a:
            return 100 + i
        for j in range(i):
            if i * j == a:
                return 1000 + j
        else:
            if i == 7:
                return 7
    if b < 0:
        return -b
    return 2


def while_else(n):
    total = 0
    while n > 0:
        n -= 1
        if n % 7 == 3:
            continue
        if n == 20:
            break
        total += n
    else:
        total += 1000
    return total


def for_else(n):
    found = -1
    for d in range(2, n):
        if n % d == 0:
            found = d
            break
    else:
        found = 0
    return found


def nested_breaks(n, limit):
    count = 0
    for i in range(n):
        j = 0
        while True:
            j += 1
            if (i + j) % 3 == 0:
                continue
            if j > limit:
                break
            for k in range(j):
                if k == 2:
                    break
                count += 1
            else:
                count += 100
        if count > 5000:
            break
    else:
        count += 1
    return count


def break_in_else(n):
    count = 0
    for i in range(10):
        for j in range(5):
            if i * j > n:
                break
        else:
            continue
        count = i * 100 + j
        break
    return count


def rotate(a, b, c):
    for _ in range(c % 5):
        a, b, c = c, a, b
    (a, (b, c)) = (b, (c, a))
    return a * 10000 + b * 100 + c


def swaps(a, b):
    a, b = b, a
    x = y = a
    x, (y, z) = y + 1, (x, b)
    x, y, x = 1, x, y
    return (x * 100 + y) * 100 + z


def ternaries(a, b):
    x = a if a > b else b if b > 10 else -1 if b < 0 else 0
    y = (1 if a else 2) + (3 if b else 4) * (10 if a > 0 else 20 if a < 0 else 30)
    return x * 1000 + y


def walrus(n):
    total = 0
    while (n := n - 3) > 0:
        if (rest := n % 4) > 1:
            total += rest * (last := n)
            total -= last
    return total * 10 + n % 10


def loop_variables(n):
    i = -5
    for i in range(3, n):
        i *= 2  # the loop does not care
    last = i
    for i in range(n):
        if i == 4:
            break
    return last * 1000 + i


def bound_changes(n):
    m = n
    count = 0
    for i in range(m):
        m = 2
        count += m + i
    return count


def range_twice(n):
    numbers = range(1, n, 2)
    total = 0
    for i in numbers:
        for j in numbers:
            total += i * 10 + j
    return total


def deleted(n):
    x = n
    y = x + 1
    del x
    if y > 3:
        x = 5
        y += x
    return y


def tuple_loops(a, b):
    total = 0
    for x in (a, b, 7):
        if x == 3:
            continue
        if x == 5:
            total += 1000
            break
        total += x
        for y, (z, w) in ((1, (a, 2)), (b, (3, 4))):
            if z == w:
                break
            total += y * z + w
        else:
            total += 50
    else:
        total += 500
    for _ in ():
        total = -1
    return total


def returns_in_tuple_loop(a):
    for x, y in ((1, 10), (2, 20), (3, 30)):
        if x == a:
            return y
    return -1


def comparisons_in_loops(a, b):
    count = 0
    while 0 <= a < 10 <= b and not (a == 5 or b == 13):
        a += 1
        b -= 1 if b % 2 else 2
        count += 1
    return count * 10000 + a * 100 + b


def boolean_values(a, b):
    x = a and b or 7
    y = not a or not b
    z = (a or b) and (a and b)
    return x * 100 + y * 10 + (z if z else -1)


def downwards(n):
    total = 0
    for i in range(n - 1, -1, -1):
        total = total * 3 % 1000 + i
    return total


INTEGER_FUNCTIONS = (
    ladder, early_returns, while_else, for_else, nested_breaks, break_in_else, rotate, swaps, ternaries, walrus, loop_variables,
    bound_changes, range_twice, deleted, tuple_loops, returns_in_tuple_loop, comparisons_in_loops, boolean_values, downwards,
)  # fmt: skip
for function in INTEGER_FUNCTIONS:
    count = function.__code__.co_argcount
    called_with(*[call[:count] for call in ((0, 0, 0), (3, 5, 2), (9, 4, 7), (-2, 12, 1), (27, 3, 13))])(function)


@called_with((True,), (False,))
def maybe_undefined(flag):
    if flag:
        x = 1
    return x


@called_with((1,))
def deleted_and_read(x):
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


@called_with((0,), (1,), (2,), (None,), (True,), (False,), ("abc",), (4.5,), (-3,), (7,))
def match_values(x):
    match x:
        case None:
            return "none"
        case True:
            return "true"
        case False:
            return "false"
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


@called_with((1,))
def no_return(x):
    x + 1


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
