"""Statements in which functions are kept in lists, dicts and tuples, and read variables of several functions around them.

    v1 = [abs, lambda w: w * m]
    def f():
        m = 5
        v1[0] = lambda w: w - m
        return v1[1](n)
    print(f(), v1[0](2), v1[1](2))

Each variable is that of the function that assigns it, wherever the list is when one of its functions is called.
"""

from __future__ import annotations

from fuzz.grammar import statements

KEPT = statements(r"""
<new a> = [abs, lambda w: w * 2 - m]
def <new f>(i):
    return <new a>[i](<int>) + <new a>[1](n)
print(<new f>(0), <new f>(1), [w(k) for w in <new a>], sum(w(<int>) for w in <new a>))

<new c>, <new a> = <int>, [lambda w: w, lambda w: w + <new c>]
def <new f>(i):
    <new c> = n
    <new a>[0] = lambda w: w * 3 - <new c> + i
    return <new a>[1](<int>) + <new c>
print(<new f>(m), <new a>[0](2), <new a>[1](k), <new c>)

<new a> = [lambda w: <new a>[1](w) * 3, lambda w: w + n]
def <new f>():
    return <new a>[0](<int>)
print(<new f>(), [<new f>() for _ in range(2)], <new a>[0](m), <new a>[1](<int>))

<new b>, <new a> = m, [abs, lambda w: w * <new b>]
def <new f>():
    def <new g>():
        <new a>[0] = lambda w: w + <new b>
        return <new a>[1](<int>)
    return <new g>() + <new a>[0](n)
print(<new f>(), <new a>[0](k), <new f>())

<new b>, <new a> = n, [abs, lambda w: w - <new b>]
def <new f>(f, those):
    f(those)
    return those[0](<int>)
def <new g>(those):
    those[0] = lambda w: w * <new b> + k
def <new h>(those):
    <new b> = <int>
    those[1] = lambda w: w - <new b> + those[0](m) if w > k else <new b>
print(<new f>(<new g>, <new a>), <new a>[0](<int>), <new f>(<new g>, [abs, abs]), <new a>[1](n))

<new b> = <int>
def <new f>(w):
    return <new b> if w <= 0 else <new g>(w - 1) + <new b>
def <new g>(w):
    return n if w <= 0 else <new f>(w - 1) * 2
<new a> = {'f': <new f>, 'g': (<new g>, <new f>)}
def <new h>():
    return <new a>['f'](k) - <new a>['g'][1](<small>)
print(<new h>(), <new a>['g'][0](3), [w(2) for w in <new a>['g']])

<new b> = <int>
def <new f>(by=1):
    <new d> = <new b>
    return <new d> + by
<new a> = [<new f>, lambda by: <new f>(by) + m]
<new c> = [w(2) for w in <new a>]
def <new g>(i):
    return <new a>[i](n) * <new a>[1 - i](k)
print(<new g>(0), <new g>(1), <new c>)

<new c> = [0, 0]
def <new f>():
    <new b> = 0
    def <new g>(by):
        nonlocal <new b>
        <new b> += by
        <new c>[1] = <new b>
        return <new b>
    return [<new g>, lambda by: <new g>(-by) + <new c>[1]]
<new a> = <new f>()
print(<new a>[0](n), <new a>[1](<int>), <new a>[0](m), <new c>)

<new b> = n
<new a> = map(lambda w: w * <new b>, (1, <int>, m))
def <new f>():
    <new b> = <int>
    return next(<new a>) + <new b>
print(<new f>(), <new f>(), next(<new a>))

def <new f>(by):
    <new b> = lambda w: w + by
    def <new g>(those):
        those[0] = <new b>
    def <new h>(those, other):
        <new g>(those)
        <new c> = those[0](<int>)
        other(those)
        return <new c>, those[0](k)
    return <new g>, <new h>
<new a> = [abs]
<new d> = <new f>(n)
<new e> = <new f>(<int>)
print(<new d>[1](<new a>, <new e>[0]), <new a>[0](1), <new e>[1](<new a>, <new d>[0]), <new a>[0](m))

<new c> = <int>
def <new f>(w):
    return sum([(lambda: <new c> + w)() for <new c> in (1, <new c>, n)]) * 10 + w
print(<new f>(m), [<new f>(<new c>) for <new c> in (k, 2)], <new c>)

def <new f>():
    for w in range(3):
        yield lambda v: v * w + n
print([w(<int>) for w in <new f>()], sum(w(m) for w in <new f>()))

<new a> = functools.partial(lambda v, w: v * w - m, <int>)
<new b> = {'a': <new a>, 'b': lambda w: <new a>(w) + n}
def <new f>(name, m=<int>):
    return <new b>['a'](m) + <new b>[name](k)
print(<new f>('a'), <new f>('b', n), <new b>['b'](2))
""")
