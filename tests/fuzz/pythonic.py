"""The grammar of plain Python that prints: lists, dicts, texts, functions, generators, loops, `match`.

    v1 = [n, 2, m]
    for v2, v3 in enumerate(v1[::-1]):
        print(v2, f"{v3:5d}")

`printing` makes programs of it. Numbers are small, and floats have few binary digits, so that they are the same in both.
"""

from __future__ import annotations

from fuzz.grammar import rows, statements

EXPRESSIONS = {
    "int": rows(r"""
        n  m  k  n  m  0  1  2  3  7  -1  10  (<int> + <int>)  (<int> - <int>)  (<small> * <small>)
        (<int> // <positive>)  (<int> % <positive>)  (<int> // -<positive>)  (<int> % -<positive>)  (<int> & <int>)
        (<int> | <int>)  (<int> ^ <int>)  (<small> << <#5>)  (<int> >> <#5>)  -<int>  ~<int>  abs(<int>)
        (<int> if <bool> else <int>)  min(<int>, <int>)  max(<int>, <int>, <int>)  int(<float>)  round(<float>)
        int(<bool>)  sum(<ints>)  len(<ints>)  len(<str>)  len(<dict>)  <three>[<#3>]  <three>[-<#3> - 1]
        <three>[<int> % 3]  TABLE[<int> % 5]  <dict>['a']  <dict>.get('z', <int>)  <dict>[<two>]  (4, 6).index(6)
        <ints>.count(<int>)  divmod(<int>, <positive>)[<#2>]  pow(<small>, <#4>)  <small> ** <#3>  <int>.bit_length()
        <int>.bit_count()  math.gcd(<int>, <int>)  math.lcm(<small>, <small>)  math.floor(<float>)  math.ceil(<float>)
        math.trunc(<float>)  math.isqrt(<positive>)  math.comb(<positive>, <#4>)  math.factorial(<#6>)
        ord('<letter>')  '<word>'.find('<letter>')  '<word>'.count('<letter>')  math.prod((<small>, <small>))
        max(<three>)  min(<three>)  max(<three>, key=lambda w: -w)  min(<three>, key=abs)
        sum(w * w for w in (<small>, <small>))  sum(<three>, <int>)  functools.reduce(lambda a, b: a * 2 + b, <three>)
        functools.reduce(operator.sub, <three>, <int>)  <call>  (lambda a, b=<int>: a - b)(<int>)
        (lambda a, *b: a + len(b))(<int>, <int>, 2)  next(iter(<three>))  int('<#9><#9>')
        (<new a> := <int>) - <new a>  operator.mul(<small>, <small>)  operator.itemgetter(1)(<three>)
        PAIRS['two'][<#2>]  sum(a - b for a, b in zip(<three>, <three>))  np.sign(<int>)  np.maximum(<int>, <int>)
        np.clip(<int>, -2, 3)  operator.floordiv(<int>, <positive>)  [<int>, <int>][<bool>]
        len(range(<int>, <int>, <positive>))  range(<int>, 90, 7)[<#4>]  (<int>, <int>)[<bool>]
        math.perm(<positive>, 2)  int(math.copysign(3, <float>))  operator.neg(<int>)
    """),
    "own": rows(r"""
        n  m  k  3  (n - <own>)  len(TABLE)  (m if q else <own>)
    """),
    "wide": rows(r"""
        (device.int64(2**40) - 2**40 + <int>)  (device.uint64(2**63) >> 60)
        device.uint64(<positive>)  device.int64(<int>)  (device.int64(<int>) // -<positive>)  device.uint8(<positive>)
        (device.int8(<small>) - 3)  device.uint32(<positive>)  device.uint16(<positive>)  device.int16(<small>)
        (device.int64(<int>) % <positive>)  (device.uint64(<positive>) << 3)  abs(device.int16(<small>))
        (device.uint64(<positive>) | 64)  max(device.int64(<int>), <int>)  device.popc(<positive>)  device.sizeof(device.int16x4)
    """),
    "real": rows(r"""
        device.float64(<part>)  device.float32(<part>)  device.float16(<part>)  (device.float64(<part>) / 2)
        (device.float64(<part>) // <half>)  abs(device.float64(<part>))  device.bfloat16(0.5)  <vector>.x  <point>.b
    """),
    "vector": rows(r"""
        device.float32x2(x, y)  device.float32x2(<part>, <part>)  (<vector> + <vector>)  (<vector> - 0.5)  -device.float32x2(y, 1)
        (device.float32x2(x, 2) * 2)  (device.float32x2(x, <part>) / 2)  (<vector> if <bool> else <vector>)
    """),
    "triple": rows(r"""
        device.int32x3(n, m, k)  device.int32x3(<int>, 1, <int>)  (device.int32x3(n, m, k) + <int>)  -device.int32x3(1, n, m)
        (device.int32x3(n, 2, m) % <positive>)  (device.int32x3(n, k, m) & 7)  (device.int32x3(n, k, m) // <positive>)
    """),
    "point": rows(r"""
        Point(n, x)  Point(<int>, <part>)  (Point(n, x) + Point(<int>, y))  device.replace(Point(m, y), a=<int>)
        (Point(1, x) if <bool> else Point(n, <part>))  Point(<int>, y).moved(<int>)  Point(b=x, a=m)  Point(n)
    """),
    "small": rows(r"""
        n  m  k  2  3  -4  5  (<int> % 7)  (<int> & 15)
    """),
    "positive": rows(r"""
        k  1  2  3  5  (abs(<int>) % 9 + 1)  (k + <#5>)
    """),
    "float": rows(r"""
        x  y  x  0.5  1.5  -2.25  3.0  (<part> + <part>)  (<part> - <part>)  (<part> * <part>)  (<part> / 2)
        (<part> // <half>)  (<part> % <half>)  -<part>  abs(<part>)  float(<small>)  (<part> if <bool> else <part>)
        min(<part>, <part>)  max(<part>, <part>)  (<small> / 4)  math.fabs(<part>)  math.copysign(<part>, <part>)
        math.fmod(<part>, <half>)  math.modf(<part>)[<#2>]  math.frexp(<part>)[0]  math.ldexp(<part>, <#3>)
        math.sqrt(6.25)  (<part> ** 2)  np.floor(<part>)  np.abs(<part>)  sum((<part>, <part>))  +<part>
        np.rint(<part>)  np.trunc(<part>)  float('<#9>.5')  <part>.real  <part>.conjugate()
        math.remainder(<part>, <half>)  divmod(<part>, <half>)[<#2>]  complex(<part>, <part>).imag  (<cplx>).real
        abs(complex(0.0, <part>))
    """),
    "part": rows(r"""
        x  y  0.5  1.5  -0.75  float(k)  (<small> / 2)  (x + <small>)  (y * 2)
    """),
    "half": rows(r"""
        0.5  1.5  2.0  -0.75  float(k)
    """),
    "cplx": rows(r"""
        complex(x, y)  (<part> + 1j * <part>)  (complex(x, 1) * 2j)  -complex(y, x)  complex(x, y).conjugate()
    """),
    "bool": rows(r"""
        p  q  True  False  (<int> < <int>)  (<int> >= <int>)  (<int> == <int>)  (<int> != <int>)  (<float> <= <float>)
        (<int> < <int> < <int>)  (<int> <= <float> > <int>)  (<bool> and <bool>)  (<bool> or <bool>)  (not <bool>)
        (<int> in <ints>)  (<int> not in <three>)  ('<letter>' in '<word>')  ('a' in <dict>)  (<int> is None)
        isinstance(<int>, int)  isinstance(<float>, (int, str))  any(w > <int> for w in <three>)
        all(w != 2 for w in <ints>)  bool(<int>)  ('<word>' < '<word>')  (<three> == <three>)  (<three> < <three>)
        (<ints> == <ints>)  callable(len)  ('<word>').startswith('<letter>')  math.isclose(<float>, <float>)
        math.isnan(<float>)  (<part>).is_integer()  (<bool> ^ <bool>)  (<bool> & <bool>)  any((<bool>, <bool>))
        all([<bool>, <bool>])  bool(<dict>)  (<int> in range(<int>, 9))  (<int> in {1, 3, 4})  (<int> in (1, n, 4))
        hasattr(<int>, 'real')  (<two> in <dict>)  operator.lt(<int>, <int>)  (<cplx> == <cplx>)  (None is None)
        (<str> is not None)  issubclass(bool, int)  operator.contains(<three>, <int>)  np.logical_and(<bool>, <bool>)
        np.isfinite(<float>)  operator.not_(<bool>)
    """),
    "ints": rows(r"""
        [<int>, <int>]  [<int>]  []  [<int>, 2, <int>]  list(range(<#4>))  [w * 2 for w in <three>]  list(<three>)
        (<ints> + [<int>])  (<ints> * 2)  <ints>[<#3>:]  <ints>[::-1]  [n, 5, m, 8][<#3>:<#5>:2]  sorted(<three>)
        sorted(<three>, reverse=True)  sorted([<int>, 1], key=lambda w: -w)  list(map(lambda w: w + <own>, <three>))
        [a + b for a in (<int>, 1) for b in <three>]  [w for w in TABLE if w > <#4>]  list(reversed(<three>))
        [*<three>, <int>]  list(itertools.accumulate(<three>))  list(itertools.chain(<three>, (<int>,)))
        list(<dict>.values())  <ints>.copy()  [a - b for a, b in zip(<three>, TABLE)]
        [i * w for i, w in enumerate(<three>, <#3>)]  list(filter(lambda w: w > 0, TABLE))
        list(itertools.islice(<three>, <#4>))  [w for pair in ((1, <int>), (<int>, 4)) for w in pair]
        list(itertools.takewhile(lambda w: w > 0, TABLE))
        list(itertools.starmap(operator.add, [(1, <int>), (<int>, 3)]))  list(itertools.compress(<three>, (1, 0, 1)))
        [a * b for a, b in itertools.product((1, <small>), (2, 3))]
    """),
    "three": rows(r"""
        (n, m, k)  (1, n, 4)  (<int>, <int>, <int>)  (*(<int>, <int>), <int>)  ((<int>,) + (2, <int>))
        tuple([<int>, m, 3])  (TABLE[<#3>:][:2] + (<int>,))  tuple(w + 1 for w in (n, m, <int>))  (n, m, k)[::-1]
        ((<int>,) * 3)  tuple(reversed((1, k, <int>)))
    """),
    "dict": rows(r"""
        {'a': n, 1: m, 2: k}  {'a': <int>, 1: <int>, 2: <int>}  {**{'a': <int>, 2: 5}, 1: <int>}
        dict([('a', <int>), (1, <int>), (2, 0)])  {**{w: w * <int> for w in (1, 2)}, 'a': <int>}
        dict(zip(('a', 1, 2), <three>))
    """),
    "two": rows(r"""
        1  2
    """),
    "str": rows(r"""
        '<word>'  '<word>'  ('<word>' + '<word>')  ('<letter>' * <#4>)  '<word>'[::-1]  '<word>'[<#3>:]
        '<word>'.upper()  '<word>'.replace('<letter>', '-')  '-'.join(('<word>', 'q'))  '<word>'.title()
        chr(<#9> + 66)  str(<#9>)  repr('<word>')  bin(<#9>)  hex(<#9> * 31)  '<word>'.rjust(6, '.')
        ' <word> '.strip()  WORDS[<#3>]  '<word>'.split('<letter>')[0]  '{:>6}'.format('<word>')
        '%3d|%s' % (<#9>, '<word>')  f'{<#9>:03d}'  format(<#9>, '05.1f')  ascii('<word>')  str(TABLE[<#3>])
    """),
    "text": rows(r"""
        <str>  f'{<int>:<ispec>}'  f'{<int>}'  f'{<float>:<fspec>}'  f'{<bool>} {<int>!r}'  str(<int>)  str(<bool>)
        ('<word>' + str(<int>))  ('%d %5.2f' % (<int>, <float>))  ('%s<%4d>' % (<bool>, <int>))
        '{} {:>4}'.format(<int>, <int>)  '{1}{0}'.format(<int>, '<word>')  '+'.join([str(<int>), '<word>'])
        hex(<int>)  format(<int>, '<ispec>')  (<text> + <text>)  repr(<int>)  f'{<str>:>5}'  f'{<int>=}'  oct(<int>)
        f'{<str>!r}'  ('%-6d|%+d|%x' % (<int>, <int>, abs(<int>)))  '{a} {b:.2f}'.format(a=<int>, b=<float>)
        f'{<int>:{<#4> + 2}d}'
    """),
    "ispec": rows(r"""
        d  5d  05d  +d  <6  >4d   d  x  #x  o  #o  X  -3d  08x  +05d  .2f  e  <5d  0=7d
    """),
    "fspec": rows(r"""
        .2f  .1f  8.3f  <9.2f  +.1e  010.3f  g  e  .0f  %  .1%  G  E   .3f  .3g  12g
    """),
    "word": rows(r"""
        abc  cab  aXc  b  bca  it is
    """),
    "letter": rows(r"""
        a  b  c
    """),
    "call": rows(r"""
        <int>
    """),
    "any": rows(r"""
        <int>  <float>  <bool>  <text>  <ints>  <three>  <dict>  <cplx>  None  (<int>, <float>)  [<three>, <bool>]
        (<any>,)  {<#4>: <any>}  ()  [<any>, <any>]  <str>
    """),
}
"""Expressions of each kind. A `text` may have numbers of run time in it, a `str` has none."""
EXPRESSIONS["ispec"] += [" d", " 6o"]
EXPRESSIONS["fspec"] += [" .3f"]

STATEMENTS = statements(r"""
print(<wide>, <real>, <vector>, <point>, <triple>)

print(f'{<wide>:<ispec>}|{<real>:<fspec>}', <wide>, <point>.total(), <triple>.y)

print(f'W{device.uint64(<positive>) * 3 + 2**63:<ispec>} W{device.int64(<int>) * 10**12:<ispec>}')

print(f'W{device.float64(<part>) / 3:.9f} W{device.float64(<part>) * 10**9:.3e} W{device.float64(<part>) / 7:.3%}')

<new a> = <triple>
<new a>.y = <int>
<new a>[<#3>] += <int>
<new b>, <new c>, _ = <new a>
print(<new a>, <new c>, sum(<new a>), max(<new a>), len(<new a>), <new a>[<int> % 3])

<new a> = <point>
<new a>.a = <int>
<new a>.b *= 2
print(<new a>, <new a>.total(), <new a> == <point>)

match <point>:
    case Point(a=<new a>, b=<new b>) if <new a> > <int>:
        print('much', <new a>, <new b>)
    case Point(b=<new b>):
        print('little', <new b>)

<new a>, <new b> = <point>, <vector>
print(<new a>.a, <new b>.y, <new b> == <new b>, <new a>.moved(2).a);=int <new a>.a

for <new a> in <triple>:
    print(<new a>)

print(<any>, <any>)

print(<any>, <int>, <any>, sep='<letter>')

print(<text>, end=';\n')

print(*<three>, <any>)

print(f'<word> {<int>:<ispec>} {<float>:<fspec>}|{<bool>!s:>7}')

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
""")
"""Statements; behind `;=` is what there is from then on."""

PARTS = {
    "edit": rows(r"""
        {}.append(<int>)  {}.insert(<#4>, <int>)  {}.pop()  {}.pop(<#2>)  {}.reverse()  {}.sort()  {}.extend(<three>)
        {}[<#2>] = <int>  {}[-1] += <int>  {}[<#2>], {}[-1] = {}[-1], {}[0]  del {}[<#2>]  {} += [<int>]
        {}[1:2] = <three>  {}.sort(key=lambda w: -w)  {}.sort(reverse=True)  {}[<int> % 3] = <int>  print({}[<#2>:])
        print({}.count(<int>), <int> in {})  del {}[1:2]  {}.clear()\n{} += [1, <int>, 3, <int>]
    """),
    "change": rows(r"""
        {}['b'] = <any>  {}['a'] = <int>  {}.update({{3: <int>}})  del {}[1]\n{}[1] = <int>
        print({}.pop(2))\n{}[2] = <int>  print({}.setdefault('c', <int>))
        for <new k>, <new v> in {}.items():\n print(<new k>, <new v>)  print(list({}), sorted((1, 2)))
        print('b' in {}, {}.get('b'))  print(list({}.keys()), len({}))
    """),
    "augment": rows(r"""
        +  -  *  |  &  ^
    """),
    "iterable": rows(r"""
        <three>  <ints>  range(<#5>)  range(<int>, <int>, <positive>)  reversed(<three>)  '<word>'  <dict>
        (<any>, <any>)  reversed(range(k))  itertools.islice(itertools.count(<int>, 2), <#5>)
        itertools.pairwise(<three>)  map(abs, <three>)  filter(lambda w: w > <own>, range(6))
        itertools.dropwhile(lambda w: w < <own>, range(5))  itertools.accumulate(range(k), operator.add)
        (w - 1 for w in range(k) if w != <int>)  itertools.filterfalse(lambda w: w > <own>, range(5))  TABLE  WORDS
    """),
    "pairs": rows(r"""
        enumerate(<three>)  zip(<three>, <ints>)  <dict>.items()  ((1, <any>), (<any>, 2))  enumerate(range(k), <int>)
        zip(<three>, range(<positive>))  [(w, w * 2) for w in <three>]  itertools.product((1, 2), <three>)
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
