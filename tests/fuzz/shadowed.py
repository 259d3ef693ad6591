"""Statements with one name for several variables: of comprehensions, of functions in them, and of the function around.

    v = n
    w = [(lambda: v + m)() for v in (1, 2)]
    print(v, w)

Each program of `printing`, and of kinds like it, has one of them.
"""

from __future__ import annotations

from fuzz.grammar import statements

SHADOWED = statements(r"""
<new a> = <int>
<new b> = [(lambda: <new a> * 2 + m)() for <new a> in <three>]
print(<new a>, <new b>)

<new a> = <int>
<new f> = lambda w: <new a> - w
<new b> = [(lambda w: <new a> + w)(n) for <new a> in <three>]
print(<new f>(<int>), <new a>, <new b>)

<new a>, <new b> = <int>, <int>
<new c> = [[(lambda: <new a> - <new b>)() for <new b> in (<new a>, n)] for <new a> in <three>]
print(<new a>, <new b>, <new c>)

<new a> = <int>
<new b> = {<new a>: (lambda k=m: <new a> + k)() for <new a> in (1, 2, 4)}
<new a> += 1
print(<new b>, <new a>)

<new a> = <int>
<new b> = [<new a> + sum((lambda: <new a> * w)() for w in (1, n)) for <new a> in (4, 2, 1) if (lambda: <new a> != 2)()]
print(<new b>, <new a>)

<new a> = [<int>, n, 3]
<new b> = [sum([(lambda: <new a> + k)() for <new a> in <new a>]), len(<new a>)]
print(<new a>, <new b>)

<new a> = <int>
def <new f>(v):
    def inner():
        return <new a> + v
    return [inner() + (lambda: v)() for v in (1, v)] + [v, <new a>]
print(<new f>(<int>), <new f>(m), <new a>)

<new a> = <int>
<new b> = [(lambda: (lambda: <new a>)() + 1)() for <new a> in <three>]
<new c> = [<new a> for <new a> in <new b>]
print(<new a>, <new b>, <new c>)

<new a> = <int>
for <new b> in [(lambda: <new a>)() for <new a> in (n, 2)]:
    <new a> += <new b>
    print(<new a>, [(lambda: <new b>)() for <new b> in (<new a>, 1)], <new b>)

<new a> = <int>
<new f> = [(lambda w: w - <new a>) for <new a> in <three>][1]
print(<new f>(<int>), <new a>, [(lambda: <new a>)() for <new a> in 'xy'])

<new a> = <int>
print([<new b> := <new a> + w for w in <three>], <new b>, [(lambda: w + <new b>)() for w in (n, k)], <new a>)

<new a>, <new b> = <int>, <float>
<new c> = [(lambda: (<new a>, <new b>))() for <new a>, <new b> in zip(<three>, (m, n, k))]
print(<new a>, <new b>, <new c>)

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

<new a> = <int>
if <bool>:
    <new b> = [(lambda: <new a> + 1)() for <new a> in (k, m)]
else:
    <new b> = [(lambda: <new a> - 1)() for <new a> in (m, n)]
print(<new a>, <new b>)

<new a> = <int>
<new b> = 0
while <new b> < k:
    <new b> += 1 + max([(lambda: abs(<new b>) % 2)() for <new b> in (<new b>, <new a>)])
    print(<new b>, [(lambda: <new a>)() for <new a> in (<new b>,)], <new a>)
""")
"""Of lists, dicts and generators; in functions, loops and branches; of names that are captured outside, too, or are not."""
