"""Statements that choose by numbers of run time: items of dicts and lists by keys and indices, what generators skip.

    d = {0: n, 1: m, 2: 4}
    d[k % 3] += 2
    print(d, d.get(n, -1), m in d)

Each program of `printing`, and of kinds like it, has two of them.
"""

from __future__ import annotations

from fuzz.grammar import statements

CHOSEN = statements(r"""
<new a> = {0: <int>, 1: <int>, 2: n}
<new a>[(<int> + n) % 3] = <int>
<new a>[(<int> - m) % 3] += <small>
print(<new a>, <new a>[(n + <int>) % 3], <new a>.get(m, <int>), n in <new a>, <new a>.get(k % 3, 0))

<new a> = {w: w * <int> for w in range(5)}
for <new b> in range(k):
    <new a>[(<new b> + n) % 5] -= <new b> - m
print(<new a>, sum(<new a>.values()), max(<new a>, key=<new a>.get), <new a>[m % 5])

<new a> = {True: <part>, False: x}
<new a>[<bool>] = y
<new a>[n > m] *= 2
print(<new a>, <new a>[p], <new a>[<bool>])

<new a> = {3: (n, <int>), 4: (m, 2), 9: (k, <int>)}
<new a>[3 + n % 2] = (<int>, m)
<new b>, <new c> = <new a>[4 - m % 2]
print(<new a>, <new b>, <new c>, <new a>[3 + k % 2][1], <new a>[9 if p else 4])

<new a> = {0: abs, 1: (lambda w: w * 2 - m), 2: operator.neg}
print(<new a>[n % 3](<int>), <new a>[m % 2](<int>), <new a>[1](n), <new a>[2](k))

<new a> = {(0, 1): <int>, (1, 1): m, (1, 0): 3}
<new a>[n % 2, 1] = <int>
<new a>[1, <int> % 2] -= k
print(<new a>, <new a>[1, m % 2], (n % 2, 0) in <new a>, <new a>.get((0, k), <int>))

<new a> = {0.5: n, 1.5: <int>, -2.0: k}
<new a>[0.5 + m % 2] += <int>
print(<new a>, x in <new a>, <new a>.get(y, <int>), <new a>[1.5 - n % 2])

<new a> = {0: [n, <int>], 1: [<int>, 2]}
print(<new a>[n % 2][1], sum(<new a>[m % 2]), [*<new a>[k % 2]], <new a>[<int> % 2][m % 2])

<new a> = {0: n, 1: <int>, 2: 5}
<new b> = <new a>
<new b>[m % 3] = <int>
def <new f>(d, i, by=<int>):
    d[i] += by
    return d[i] - d.get(i + 1, by)
print(<new f>(<new a>, n % 3), <new f>(<new b>, k % 3, 2), <new a>, <new b>)

<new a> = {0: n, 4: m}
<new a>[7] = <int>
<new a>[4 * (n % 2)], <new a>[7] = <new a>[7], <new a>[4 * (m % 2)]
if <bool>:
    <new a>[4 * (k % 2)] = <int>
print(<new a>, len(<new a>), <new a>.setdefault(4, 9), <new a> | {4: k})

<new a> = [n, <int>, 3, m]
<new a>[n % 4] = <int>
<new a>[m % 3 + 1] += <new a>[-k % 4]
<new a>[k % 4], <new a>[m % 4] = <new a>[n % 4], <int>
print(<new a>, <new a>[n % 4], <new a>[-(k % 4) - 1])

<new a> = [(n, m), (<int>, 2), (k, 5)]
<new a>[m % 3] = (<int>, n)
<new a>[-(n % 3) - 1] = (2, <int>)
print(<new a>, <new a>[n % 3][0], <new a>[k % 3][m % 2])

<new a> = [x, <part>, 0.5]
for <new b>, <new c> in enumerate((y, <part>, 0.25)):
    <new a>[(<new b> + n) % 3] -= <new c>
print(<new a>, <new a>[m % 3], (x, <part>, y)[k % 3], (n, <int>, m)[-(k % 3) - 1])

<new a> = [<point>, <point>, <point>]
<new a>[n % 3] = <point>
print(<new a>[m % 3].a, <new a>[k % 3].total(), <new a>[n % 3].moved(<int>).a)

<new a> = [[n, 1], [<int>, m], [2, k]]
print(<new a>[n % 3][m % 2], sum(<new a>[k % 3]), [w * 2 for w in <new a>[m % 3]])

<new a> = [n, <int>, m, 4]
def <new g>(items, by):
    for w in items:
        if w % by == 0:
            continue
        yield w
        if w > 9:
            break
<new c> = <new g>(<new a>, 3)
print(next(<new c>, <int>), next(<new c>, 0), sum(<new g>(<three>, 2)), max(<new g>(<new a>, 5), default=k))
for <new b>, <new d> in zip(<new g>(<new a>, 2), <new g>(<three>, 4)):
    print(<new b>, <new d>)

def <new g>(items):
    for i, w in enumerate(items, <#3>):
        if w < m:
            yield w, i
<new a> = [<int>, n, *<three>]
for <new b>, <new c> in <new g>(<new a>):
    <new a>[1] -= 1
    print(<new b>, <new c>)
print(<new a>, any(w == n for w, _ in <new g>(<new a>)))

<new a> = [n, <int>, 3]
<new b> = (w * 2 - m for w in <new a> if w != m)
<new a>[0] = <int>
print(next(<new b>, 7), sum(<new b>), sum(w for w in <new a> if w % 2), next(<new b>, k))

def <new g>(first, other):
    for w in first:
        for v in other:
            if v != w:
                yield w * v
        yield len(other) - w
for <new a> in <new g>([n, <int>], <three>):
    print(<new a>, end=' ')
print(sum(<new g>((m, 2), [k, n])))

print(math.prod((w for w in (n, 2, <small>)), start=<small>))
print(sum((w * 2 for w in range(k)), <int>), sum((w for w in <three>), start=n))
print(min((w for w in range(n, m)), default=<int>))
print(max((w for w in <three> if w > 99), default=-m), math.fsum(w / 2 for w in (n, m, k)))
print(math.prod([n, <small>], start=2), math.prod((w + 1 for w in range(k))))
print(math.prod((), start=m), sum([x, <part>], y), sum((), n))

print(max((w for w in <three>), key=lambda w: -w))
print(min((w - n for w in (n, <int>, k)), key=abs), sorted((w * 2 for w in <three>), reverse=p))
print(any(w > <int> for w in range(n, m)), all(w < m for w in <three>))
print(tuple(w - m for w in (n, k)), [*(w for w in (m, <int>) for v in (1, 2))])
print(functools.reduce(lambda a, b: a * 2 - b, (w for w in range(k)), n))
print(list(enumerate((w for w in <three>), <int>)), dict((w, w * n) for w in (1, 2)))

for <new a>, <new b> in enumerate((w for w in range(k + 2) if w != m), <int>):
    print(<new a>, <new b>)
for <new a>, (<new b>, <new c>) in enumerate(zip(<three>, (w * n for w in range(k))), start=n):
    print(<new a>, <new b>, <new c>)
print(list(enumerate(zip((n, m), <three>))), list(zip(enumerate((n, k)), enumerate(<three>, m))))
print([*map(max, <three>, (w for w in (m, n, k)))])

<new a> = Shade.DARK if p else Shade.PALE
<new b> = (Shade.PALE, Shade.DIM, Shade.DARK)[m % 3]
print(<new a> is Shade.DIM, <new a> is not Shade.DARK, <new a> == Shade.PALE)
print(<new a> != Shade.DIM, <new a> is <new b>, <new a> == <new b>)
print(<new a>.name, <new b> in (Shade.DARK, <int>), <new b> == 2)
print(<new a> != <int>, <new b> is None, <new b> is not <new a>)
match <new b>:
    case Shade.DARK:
        print('dark')
    case Shade.PALE if q:
        print('pale', m)
    case _:
        print('other')

<new a> = Color((1, 2, 4)[n % 3])
<new b> = Color.BLUE if q else Color.RED
print(<new a> == 1, <new a> != 2, <new a> == Color.BLUE, <new a> < <new b>)
print(<new a> == <new b>, <new a> + <new b>, <new a> ^ 3, <new b> * <int>)
print(<new a> in (Color.RED, 4), <new b> == <int>)
print({Color.RED: n, Color.BLUE: m, Color.GREEN: 5}[<new a>], <new b> in (1, Color.GREEN), -<new a>)

<new a> = Shade.DARK if n > m else Shade.PALE
print(<new a>.is_dark, <new a>.among(<int>, k), <new a>.name)
print([w.is_dark for w in (<new a>, Shade.DIM)], Shade.DARK.is_dark, <new a>.rank + n)

print(type(enumerate(<three>)) is enumerate, type(zip(<three>)) is zip)
print(type(map(abs, <three>)) is map, type(<ints>) is list)
print(isinstance(zip(<three>), enumerate), isinstance(enumerate(<ints>), enumerate))
print(isinstance(map(abs, (n, m)), (zip, map)))
print(type(<three>) is tuple, type(<dict>) is dict, type(range(k)) is range)
print(type(slice(n)) is slice, type(<str>) is str, type(None) is None)
print(type(<cplx>) is complex, type(<bool>) is bool, type(<point>) is Point)
print(type(<new a> := <part>) is float, isinstance(<ints>, (dict, tuple)))

def <new g>(first, second):
    i = <#3>
    yield first[0]
    while i < k:
        second[i % 2] += 1
        yield second[i % 2] + first[1]
        i += 1
    yield sum(second)
<new a>, <new b> = [n, 1], [m, <int>]
<new c> = <new g>(<new a>, <new b>)
print(next(<new c>))
<new b>[0] = <int>
<new a>[1] += 5
for <new d> in <new c>:
    print(<new d>)
    <new b>[1] -= 1
print(<new a>, <new b>)

<new a>, <new b> = complex(x + 20, y), complex(m - 20, <part>)
print(<new a>, <new b>, <new a> + 1, n, <new b> * 2, -<new a>, sep='<letter>')
print([<new a>, <int>, <new b>], (<new a>, <new b>), {'a': <new b>}, [<new b> + w for w in range(4)], end=';\n')
print(*[<new a> - w for w in (0, k, 1, 2)], f'{<new b>}', <new a>.imag)

print((1 << 1<#9 a>7) >> 1<#9 a>0, (1 << 3<#9 b>07) >> 3<#9 b>00 | <int>)
print(-(5 << 409<#6>) >> 4093, (1 << <#9><#9>0) % 1009)
print(7 ** 1<#3>00 % 1001, 10 ** 6<#9> // 10 ** 60 % 997)
print(10 ** 9<#9>0 % (<#9> + 90), (-3) ** 4<#9>1 % 1013, 2 ** 20<#4>0 % 97)
print((2 ** 2000 * 3 ** 900) % 10007, (1 << 3000) - (1 << 3000) + n)
print(0 ** 2000 + m, 1 ** 4000, (1 << 4000) > n, 3 << 4096 != 0)
""")
"""Of dicts, of lists and tuples, of generators, of complex numbers, and of constants that are large."""
