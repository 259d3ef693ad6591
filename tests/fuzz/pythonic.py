"""The grammar of plain Python that prints: lists, dicts, texts, functions, generators, loops, `match`.

    v1 = [n, 2, m]
    for v2, v3 in enumerate(v1[::-1]):
        print(v2, f"{v3:5d}")

`printing` makes programs of it. Numbers are small, and floats have few binary digits, so that they are the same in both.
"""

from __future__ import annotations

from fuzz.grammar import rows

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
        ord('<letter>')  math.prod((<small>, <small>))
        max(<three>)  min(<three>)  max(<three>, key=lambda w: -w)  min(<three>, key=abs)
        sum(w * w for w in (<small>, <small>))  sum(<three>, <int>)
        <call>  (lambda a, b=<int>: a - b)(<int>)
        (lambda a, *b: a + len(b))(<int>, <int>, 2)  next(iter(<three>))  int('<#9><#9>')
        ((<new a> := <int>) - <new a>)  operator.mul(<small>, <small>)
        PAIRS['two'][<#2>]  sum(a - b for a, b in zip(<three>, <three>))  np.sign(<int>)  np.maximum(<int>, <int>)
        np.clip(<int>, -2, 3)  operator.floordiv(<int>, <positive>)  [<int>, <int>][<bool>]
        len(range(<int>, <int>, <positive>))  (<int>, <int>)[<bool>]
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
        (<ints> == <ints>)  callable(len)  math.isclose(<float>, <float>)
        math.isnan(<float>)  (<part>).is_integer()  (<bool> ^ <bool>)  (<bool> & <bool>)  any((<bool>, <bool>))
        all([<bool>, <bool>])  bool(<dict>)  (<int> in range(<int>, 9))  (<int> in {1, 3, 4})  (<int> in (1, n, 4))
        hasattr(<int>, 'real')  (<two> in <dict>)  operator.lt(<int>, <int>)  (<cplx> == <cplx>)  (None is None)
        (<str> is not None)  issubclass(bool, int)  np.logical_and(<bool>, <bool>)
        np.isfinite(<float>)  operator.not_(<bool>)
    """),
    "ints": rows(r"""
        [<int>, <int>]  [<int>]  []  [<int>, 2, <int>]  list(range(<#4>))  [w * 2 for w in <three>]  list(<three>)
        (<ints> + [<int>])  (<ints> * 2)  <ints>[<#3>:]  <ints>[::-1]  [n, 5, m, 8][<#3>:<#5>:2]
        list(map(lambda w: w + <own>, <three>))
        [a + b for a in (<int>, 1) for b in <three>]  [w for w in TABLE if w > <#4>]  list(reversed(<three>))
        [*<three>, <int>]
        list(<dict>.values())  [a - b for a, b in zip(<three>, TABLE)]
        [i * w for i, w in enumerate(<three>, <#3>)]  list(filter(lambda w: w > 0, TABLE))
        [w for pair in ((1, <int>), (<int>, 4)) for w in pair]
    """),
    "three": rows(r"""
        (n, m, k)  (1, n, 4)  (<int>, <int>, <int>)  (*(<int>, <int>), <int>)  ((<int>,) + (2, <int>))
        tuple([<int>, m, 3])  (TABLE[<#3>:][:2] + (<int>,))  tuple(w + 1 for w in (n, m, <int>))  (n, m, k)[::-1]
        ((<int>,) * 3)  tuple(reversed((1, k, <int>)))
    """),
    "dict": rows(r"""
        {'a': n, 1: m, 2: k}  {'a': <int>, 1: <int>, 2: <int>}  {**{'a': <int>, 2: 5}, 1: <int>}
        {'a': <int>, 1: <int>, 2: 0}  {**{w: w * <int> for w in (1, 2)}, 'a': <int>}
    """),
    "two": rows(r"""
        1  2
    """),
    "str": rows(r"""
        '<word>'  '<word>'  ('<word>' + '<word>')  ('<letter>' * <#4>)  '<word>'[::-1]  '<word>'[<#3>:]
        chr(<#9> + 66)  str(<#9>)  repr('<word>')  bin(<#9>)  hex(<#9> * 31)
        WORDS[<#3>]
        f'{<#9>:03d}'  format(<#9>, '05.1f')  ascii('<word>')  str(TABLE[<#3>])
    """),
    "text": rows(r"""
        <str>  f'{<int>:<ispec>}'  f'{<int>}'  f'{<float>:<fspec>}'  f'{<bool>} {<int>!r}'  f'{<str>:>5}'  f'{<int>=}'
        f'{<str>!r}'  f'{<int>:{<#4> + 2}d}'
    """),
    "ispec": rows(r"""
        d  5d  05d  +d  <6  >4d   d  x  #x  o  X  -3d  +6d  +05d  .2f  e  <5d
    """),
    "fspec": rows(r"""
        .2f  .1f  8.3f  <9.2f  +.1e  010.3f  g  e  .0f  G  E   .3f  .3g  12g
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
        <int>  <float>  <bool>  <ints>  <three>  <dict>  <cplx>  None  (<int>, <float>)  [<three>, <bool>]
        (<any>,)  {<#4>: <any>}  ()  [<any>, <any>]  <str>
    """),
}
"""Expressions of each kind. A `text` may have numbers of run time in it, a `str` has none."""
EXPRESSIONS["ispec"] += [" d", " 6d"]
EXPRESSIONS["fspec"] += [" .3f"]
