"""Functions with what `decode` makes of them, in every version alike. (pytest rewrites `assert` in tests, not here.)

`GOLDENS` lists (function, listing), `UNSUPPORTED` (function, construct).
"""

# Odd Python is what this file is for; a linter has nothing to mend here.
# ruff: noqa: C416, F821


def saxpy(a, x, y, out):
    i = block.x * SIZE + thread.x
    if i < len(out):
        out[i] = a * x[i] + y[i]


SAXPY = """GLOBAL 'block' | ATTR 'x' | GLOBAL 'SIZE' | BINARY '*' | GLOBAL 'thread' | ATTR 'x' | BINARY '+' |
STORE 'i' | LOAD 'i' | GLOBAL 'len' | LOAD 'out' | CALL 1 | COMPARE '<' | JUMP_IF_FALSE -> 28 | LOAD
'a' | LOAD 'x' | LOAD 'i' | SUBSCR | BINARY '*' | LOAD 'y' | LOAD 'i' | SUBSCR | BINARY '+' | LOAD
'out' | LOAD 'i' | STORE_SUBSCR | CONST None | RETURN | CONST None | RETURN"""


def scale(x, n):
    if n > 0:
        return x * 2
    return x


SCALE = """LOAD 'n' | CONST 0 | COMPARE '>' | JUMP_IF_FALSE -> 8 | LOAD 'x' | CONST 2 | BINARY '*' | RETURN |
LOAD 'x' | RETURN"""


def calls(f, o, x):
    f()
    o.m(x, f(1))
    f(x, k=x, j=2)
    return o.m(o.n(), scale=-x)


CALLS = """LOAD 'f' | CALL 0 | POP | LOAD 'o' | ATTR 'm' | LOAD 'x' | LOAD 'f' | CONST 1 | CALL 1 | CALL 2 |
POP | LOAD 'f' | LOAD 'x' | LOAD 'x' | CONST 2 | CALL_KW (3, ('k', 'j')) | POP | LOAD 'o' | ATTR 'm'
| LOAD 'o' | ATTR 'n' | CALL 0 | LOAD 'x' | UNARY '-' | CALL_KW (2, ('scale',)) | RETURN"""


def star_calls(f, xs, d):
    f(*xs)
    return f(1, *xs, k=2, **d)


STAR_CALLS = """LOAD 'f' | LOAD 'xs' | CALL_EX False | POP | LOAD 'f' | CONST 1 | BUILD ('list', 1) | LOAD 'xs' |
LIST_EXTEND 1 | LIST_TO_TUPLE | CONST 'k' | CONST 2 | BUILD ('map', 1) | LOAD 'd' | MAP_MERGE 1 |
CALL_EX True | RETURN"""


def loop(xs, n):
    for i in range(n):
        if xs[i] is None:
            continue
        xs[i] += 1
    return n


LOOP = """GLOBAL 'range' | LOAD 'n' | CALL 1 | ITER | FOR_ITER -> 24 | STORE 'i' | LOAD 'xs' | LOAD 'i' |
SUBSCR | CONST None | IS False | JUMP_IF_FALSE -> 13 | JUMP -> 4 | LOAD 'xs' | LOAD 'i' | COPY 2 |
COPY 2 | SUBSCR | CONST 1 | BINARY '+=' | SWAP 3 | SWAP 2 | STORE_SUBSCR | JUMP -> 4 | LOAD 'n' |
RETURN"""


def asserts(x):
    assert x, f"no {x!r:>4}"
    assert not x < 3
    return x


ASSERTS = """LOAD 'x' | JUMP_IF_TRUE -> 8 | CONST 'no ' | LOAD 'x' | CONST '>4' | FORMAT ('r', True) | BUILD
('string', 2) | ASSERT_FAIL True | LOAD 'x' | CONST 3 | COMPARE '<' | JUMP_IF_FALSE -> 13 |
ASSERT_FAIL False | LOAD 'x' | RETURN"""


def slices(x, n):
    x[1:n] = x[n:]
    x[:4:2] = x[:3]


SLICES = """LOAD 'x' | LOAD 'n' | CONST None | BUILD_SLICE 2 | SUBSCR | LOAD 'x' | CONST 1 | LOAD 'n' |
BUILD_SLICE 2 | STORE_SUBSCR | LOAD 'x' | CONST None | CONST 3 | BUILD_SLICE 2 | SUBSCR | LOAD 'x' |
CONST None | CONST 4 | CONST 2 | BUILD_SLICE 3 | STORE_SUBSCR | CONST None | RETURN"""


def logic(a, b, c):
    if a < b < c or not c:
        return not a
    return a is not b, a not in c, a or b


LOGIC = """LOAD 'a' | LOAD 'b' | SWAP 2 | COPY 2 | COMPARE '<' | JUMP_IF_FALSE -> 10 | LOAD 'c' | COMPARE '<' |
JUMP_IF_TRUE -> 13 | JUMP -> 11 | POP | LOAD 'c' | JUMP_IF_TRUE -> 16 | LOAD 'a' | UNARY 'not' |
RETURN | LOAD 'a' | LOAD 'b' | IS True | LOAD 'a' | LOAD 'c' | CONTAINS True | LOAD 'a' | COPY 1 |
JUMP_IF_TRUE -> 27 | POP | LOAD 'b' | BUILD ('tuple', 3) | RETURN"""


def closure(x):
    def inner(y, z=(x,)):
        return x + y

    return inner(x)


CLOSURE = """LOAD_CELL 'x' | BUILD ('tuple', 1) | BUILD ('tuple', 1) | CLOSURE 'x' | BUILD ('tuple', 1) | CONST
inner | MAKE_FUNCTION ('defaults', 'closure') | STORE 'inner' | LOAD 'inner' | LOAD_CELL 'x' | CALL
1 | RETURN"""


def imports():
    import math
    from operator import add as plus

    return plus(math.pi, 1)


IMPORTS = """CONST 0 | CONST None | IMPORT 'math' | STORE 'math' | CONST 0 | CONST ('add',) | IMPORT 'operator' |
IMPORT_FROM 'add' | STORE 'plus' | POP | LOAD 'plus' | LOAD 'math' | ATTR 'pi' | CONST 1 | CALL 2 | RETURN"""

GOLDENS = [
    (saxpy, SAXPY),
    (scale, SCALE),
    (calls, CALLS),
    (star_calls, STAR_CALLS),
    (loop, LOOP),
    (asserts, ASSERTS),
    (slices, SLICES),
    (logic, LOGIC),
    (closure, CLOSURE),
    (imports, IMPORTS),
]


def tries(x):
    x = x + 1
    try:
        x.f()
    except ValueError:
        x = 2
    return x


def tries_in_loop(xs):
    for x in xs:
        try:
            x.f()
            continue
        finally:
            x.g()


def tries_a_comprehension(xs):
    try:
        return [x for x in xs]
    except* ValueError:
        pass


def manages(x):
    with x as y:
        return y


async def waits(x):
    await x


async def yields_and_waits(x):
    async for y in x:
        yield y


def assigns_global(x):
    global GOLDENS
    GOLDENS = x


def deletes_global():
    global GOLDENS
    del GOLDENS


def has_class():
    class Inner:
        pass

    return Inner


def has_generator(xs):
    return sum(x for x in xs)


def assigns_somewhere(x):
    global GOLDENS
    if x:
        GOLDENS = x
        return x
    return 1


UNSUPPORTED = [
    (tries, "try"),
    (tries_in_loop, "try with finally"),
    (tries_a_comprehension, "try"),
    (manages, "with"),
    (waits, "async"),
    (yields_and_waits, "async"),
    (assigns_global, "assignment to a global variable"),
    (deletes_global, "del of a global variable"),
    (has_class, "class"),
]
