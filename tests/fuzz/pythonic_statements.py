"""The statements of the grammar of `pythonic`, and those that fail.

for <new a> in <iterable>:
    print(<new a>, <int>)
"""

from __future__ import annotations

from fuzz.grammar import rows, statements

STATEMENTS = statements(r"""
print(<wide>, <real>, <vector>, <point>, <triple>)

print(f'{<int>:<ispec>}|{<real>:<fspec>}', <wide>, <point>.total(), <triple>.y)

print(f'W{device.uint64(<positive>) * 3 + 2**63:20} W{device.int64(<int>) * 10**12:<24}')

print(f'W{device.float64(<part>) / 3:.9f} W{device.float64(<part>) * 10**9:.3e}')

<new a> = <triple>
<new a>.y = <int>
<new a>[<#3>] += <int>
<new b>, <new c>, _ = <new a>
print(<new a>, <new c>, sum(<new a>), max(<new a>), len(<new a>), <new a>[<int> % 3])

<new a> = <point>
<new a>.a = <int>
<new a>.b *= 2
print(<new a>, <new a>.total(), <new a> == <point>)

<new a>, <new b> = <point>, <vector>
print(<new a>.a, <new b>.y, <new b> == <new b>, <new a>.moved(2).a);=int <new a>.a

for <new a> in <triple>:
    print(<new a>)

print(<any>, <any>)

print(<any>, <int>, <any>, sep='<letter>')

print(<text>, end=';\n')

print(*<three>, <any>)

print(f'<word> {<int>:<ispec>} {<float>:<fspec>}')

<new a> = <int>;=int <new a>

<new a> = <float>;=float <new a>

<new a> = <bool>;=bool <new a>

<new a> = <three>;=three <new a>

<new a> = <ints>
<new a>.append(<int>)
print(<new a>);=ints <new a>

<new a> = [<int>, *<three>, <int>]
<edit a>
<edit a>
print(<new a>, len(<new a>));=ints <new a>

<new a> = <dict>
<change a>
<change a>
print(<new a>);=dict <new a>

<new a>, *<new b>, <new c> = <three>
print(<new b>, <new c>);=int <new a>

(<new a>, <new b>), <new c> = (<int>, <int>), <float>
print(<new c>);=int <new b>

<new a> = <int>
<new a> <augment>= <small>;=int <new a>

<new a>, <new b> = <int>, <int>
<new a>, <new b> = <new b>, <new a>;=int <new a>

<new a> = <new b> = <int>;=int <new b>

if <bool>:
    print(<any>)
elif <bool>:
    print(<any>)
else:
    print(<int>)

if <bool>:
    <new a> = <int>
else:
    <new a> = <int>;=int <new a>

for <new a> in <iterable>:
    print(<new a>, <int>)

for <new a>, <new b> in <pairs>:
    print(<new a>, <new b>)

<new a> = <int>
for <new b> in range(<#4>, <positive>):
    <new a> = <new a> // 2 + <new b>
    if <bool>:
        continue
    print(<new a>)
else:
    print('<word>');=int <new a>

for <new a> in range(k, -3, -2):
    if <new a> < <int>:
        print('break', <new a>)
        break
else:
    print('none')

<new a> = <positive>
while <new a> > 0:
    <new a> -= 2
    if <bool>:
        continue
    print(<new a>)
else:
    print('over')

<new a> = 0
while True:
    <new a> += 1
    if <new a> > k or <bool>:
        break
print(<new a>);=int <new a>

for <new a> in range(<#4>):
    for <new b> in range(<new a>, k):
        if <new b> == <int>:
            break
        print(<new a>, <new b>)

match <int>:
    case 0 | 1:
        print('few')
    case <new a> if <new a> > <int>:
        print('many', <new a>)
    case _:
        print('other')

match (<int>, <three>):
    case 1, _:
        print('one')
    case <new a>, (_, *<new b>):
        print(<new a>, <new b>)

match <two>:
    case 1:
        print(<any>)
    case 2:
        print(<any>)

match <three>:
    case (<new a>, 1, _) | (_, <new a>, _):
        print(<new a>)

def <new f>(a, b=<int>, *c, d=<int>):
    return a - b * 2 + d + len(c)
print(<new f>(<int>, d=<int>), <new f>(<int>, <int>, <int>))

def <new f>(a):
    return <int>, a
print(<new f>(<any>))

def <new f>(**w):
    return w
print(<new f>(a=<int>, b=<float>))

def <new f>(a):
    if a > <int>:
        return a
    return a * 2 + <int>
print(<new f>(<int>));=call <new f>(<#9>)

def <new g>():
    yield <own>
    yield from (<own>, 2, <own>)
    if p:
        return
    yield <own>
for <new a> in <new g>():
    print(<new a>)

def <new g>(a):
    while a > 0:
        yield a
        a -= 2
print(sum(<new g>(<positive>)), max(<new g>(3)))

<new a> = <int>
def <new f>(w):
    nonlocal <new a>
    <new a> += w
    return <new a>
print(<new f>(<int>), <new f>(2), <new a>)

<new a> = <int>
<new f> = lambda w: w + <new a>
<new a> = <int>
print(<new f>(<int>));=call <new f>(<#5>)

<new f> = functools.partial(divmod, <int>)
print(<new f>(<positive>), <new f>(-3))

<new a> = [[<int>, 1], [<int>]]
<new b> = <new a>[1]
<new b>.append(<int>)
print(<new a>, <new b>)

<new a> = iter(<three>)
print(next(<new a>), next(<new a>))
for <new b> in <new a>:
    print(<new b>)

assert <bool> or True, '<word>'

print([(a, b) for a in <three> for b in 'xy' if b != 'y'], {a: b for a, b in zip(WORDS, TABLE)})

<new a> = [0] * 4
<new a>[<int> % 4] = <int>
print(<new a>);=ints <new a>

global TABLE
print(TABLE, WORDS, PAIRS['two'])

for <new a> in <three>:
    if not <new a>:
        continue
    print(<new a>, end=' ')
print()

if (<new a> := <int>) > 2 and (<new b> := <int>) < 5:
    print(<new a>, <new b>);=int <new a>

del_<new a> = <int>
del del_<new a>

print(<float>, <float>, <int>)

print(<bool>, <bool>, <int>)

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

<new b> = <int>
def <new f>(w):
    return <new b> if w <= 0 else <new g>(w - 1) + <new b>
def <new g>(w):
    return n if w <= 0 else <new f>(w - 1) * 2
<new a> = {'f': <new f>, 'g': (<new g>, <new f>)}
def <new h>():
    return <new a>['f'](k) - <new a>['g'][1](<small>)
print(<new h>(), <new a>['g'][0](3), [w(2) for w in <new a>['g']])

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

def <new f>():
    for w in range(3):
        yield lambda v: v * w + n
print([w(<int>) for w in <new f>()], sum(w(m) for w in <new f>()))

<new a> = <int>
<new b> = [(lambda: <new a> * 2 + m)() for <new a> in <three>]
print(<new a>, <new b>)

<new a>, <new b> = <int>, <int>
<new c> = [[(lambda: <new a> - <new b>)() for <new b> in (<new a>, n)] for <new a> in <three>]
print(<new a>, <new b>, <new c>)

<new a> = <int>
<new b> = [<new a> + sum((lambda: <new a> * w)() for w in (1, n)) for <new a> in (4, 2, 1) if (lambda: <new a> != 2)()]
print(<new b>, <new a>)

<new a> = <int>
def <new f>(v):
    def inner():
        return <new a> + v
    return [inner() + (lambda: v)() for v in (1, v)] + [v, <new a>]
print(<new f>(<int>), <new f>(m), <new a>)

<new a> = <int>
def <new f>():
    nonlocal <new a>
    <new a> += 2
    return sum((lambda: <new a> + n)() for <new a> in (1, <new a>)), [w + <new a> for w in (1, <new a>)]
print(<new f>(), <new a>, <new f>(), <new a>)

<new a> = <three>
<new b> = tuple((lambda: <new a> * 2)() for <new a> in <new a>)
<new c> = [*map(lambda <new a>: <new a> + m, <new a>), max(<new a>, key=lambda <new a>: -<new a>)]
print(<new a>, <new b>, <new c>)
""")
"""Statements; behind `;=` is what there is from then on."""

PARTS = {
    "edit": rows(r"""
        {}.append(<int>)
        {}[<#2>] = <int>  {}[-1] += <int>  {}[<#2>], {}[-1] = {}[-1], {}[0]
        {}[<int> % 3] = <int>  print({}[<#2>:])
        print({}.count(<int>), <int> in {})
    """),
    "change": rows(r"""
        {}['a'] = <int>
        for <new k>, <new v> in {}.items():\n print(<new k>, <new v>)
        print('b' in {}, {}.get('b'))  print(list({}.keys()), len({}))
    """),
    "augment": rows(r"""
        +  -  *  |  &  ^
    """),
    "iterable": rows(r"""
        <three>  <ints>  range(<#5>)  range(<int>, <int>, <positive>)  reversed(<three>)  '<word>'  <dict>
        (<any>, <any>)  reversed(range(k))
        map(abs, <three>)  filter(lambda w: w > <own>, range(6))
        (w - 1 for w in range(k) if w != <int>)  TABLE  WORDS
    """),
    "pairs": rows(r"""
        enumerate(<three>)  zip(<three>, <ints>)  <dict>.items()  ((1, <any>), (<any>, 2))  enumerate(range(k), <int>)
        zip(<three>, range(<positive>))  [(w, w * 2) for w in <three>]
        zip('<word>', TABLE)
    """),
}

FAULTS = statements(r"""
raise ValueError(f'<word> {<int>}')

if n < 20:
    raise ValueError('<word>')

assert n > 20, f'<word> {<int>} {<float>:.2f}'

assert n > 20, '<word>'

assert <int> == 99 and <bool>

print(<int> // (n - n))

print(<int> % (m * 0))

<new a> = <int>
<new a> //= n - <int> * 0 - n

print(divmod(<int>, k & 0))

print((n, m, k, <int>)[k + 3])

print([<int>, <int>][n - n + 2])

print(TABLE[-k - 5])

print(TABLE[<#3> + 4 + k])

for <new a> in range(9):
    print(TABLE[<new a>])

for <new a> in range(2, -3, -1):
    print(<int> // <new a>)

def <new f>(a):
    return <own> // a
print(<new f>(n - n))

def <new f>(a):
    if a > 2:
        raise ValueError(f'{a} of {n:3d}')
    if a > 9:
        return a
    return <new f>(a + 1)
print(<new f>(0))

<new a> = 0
while True:
    <new a> += 1
    assert <new a> < k, <new a>

if <bool> or n < 20:
    raise ValueError
""")
"""Statements that CPython cannot run, whatever the parameters are."""
