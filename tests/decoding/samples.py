"""Functions with what `decode` makes of them, in every version alike. (pytest rewrites `assert` in tests, not here.)

`GOLDENS` lists (function, listing), `UNSUPPORTED` (function, construct).
"""

# Odd Python is what this file is for; a linter has nothing to mend here.
# ruff: noqa: C416, F821


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


def closure(x):
    def inner(y, z=(x,)):
        return x + y

    return inner(x)


CLOSURE = """LOAD_CELL 'x' | BUILD ('tuple', 1) | BUILD ('tuple', 1) | CLOSURE 'x' | BUILD ('tuple', 1) | CONST
inner | MAKE_FUNCTION ('defaults', 'closure') | STORE 'inner' | LOAD 'inner' | LOAD_CELL 'x' | CALL
1 | RETURN"""


GOLDENS = [
    (star_calls, STAR_CALLS),
    (loop, LOOP),
    (asserts, ASSERTS),
    (closure, CLOSURE),
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
