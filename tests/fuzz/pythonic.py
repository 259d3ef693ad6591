"""The grammar of plain Python that prints: lists, dicts, texts, functions, generators, loops, `match`.

    v1 = [n, 2, m]
    for v2, v3 in enumerate(v1[::-1]):
        print(v2, f"{v3:5d}")

`printing` makes programs of it. Numbers are small, and floats have few binary digits, so that they are the same in both.
"""

from __future__ import annotations

EXPRESSIONS = {
    "int": [
        "n", "m", "k", "n", "m", "0", "1", "2", "3", "7", "-1", "10",
        "(<int> + <int>)", "(<int> - <int>)", "(<small> * <small>)", "(<int> // <positive>)", "(<int> % <positive>)",
        "(<int> // -<positive>)", "(<int> % -<positive>)", "(<int> & <int>)", "(<int> | <int>)", "(<int> ^ <int>)",
        "(<small> << <#5>)", "(<int> >> <#5>)", "-<int>", "~<int>", "abs(<int>)", "(<int> if <bool> else <int>)",
        "min(<int>, <int>)", "max(<int>, <int>, <int>)", "int(<float>)", "round(<float>)", "int(<bool>)", "sum(<ints>)",
        "len(<ints>)", "len(<str>)", "len(<dict>)", "<three>[<#3>]", "<three>[-<#3> - 1]", "<three>[<int> % 3]", "TABLE[<int> % 5]",
        "<dict>['a']", "<dict>.get('z', <int>)", "<dict>[<two>]", "(4, 6).index(6)",
        "<ints>.count(<int>)", "divmod(<int>, <positive>)[<#2>]", "pow(<small>, <#4>)", "<small> ** <#3>", "<int>.bit_length()",
        "<int>.bit_count()", "math.gcd(<int>, <int>)", "math.lcm(<small>, <small>)", "math.floor(<float>)", "math.ceil(<float>)",
        "math.trunc(<float>)", "math.isqrt(<positive>)", "math.comb(<positive>, <#4>)", "math.factorial(<#6>)", "ord('<letter>')",
        "'<word>'.find('<letter>')", "'<word>'.count('<letter>')", "math.prod((<small>, <small>))", "max(<three>)", "min(<three>)",
        "max(<three>, key=lambda w: -w)", "min(<three>, key=abs)", "sum(w * w for w in (<small>, <small>))", "sum(<three>, <int>)",
        "functools.reduce(lambda a, b: a * 2 + b, <three>)", "functools.reduce(operator.sub, <three>, <int>)", "<call>",
        "(lambda a, b=<int>: a - b)(<int>)", "(lambda a, *b: a + len(b))(<int>, <int>, 2)", "next(iter(<three>))", "int('<#9><#9>')",
        "(<new a> := <int>) - <new a>", "operator.mul(<small>, <small>)", "operator.itemgetter(1)(<three>)", "PAIRS['two'][<#2>]",
        "sum(a - b for a, b in zip(<three>, <three>))",
        "np.sign(<int>)", "np.maximum(<int>, <int>)", "np.clip(<int>, -2, 3)", "operator.floordiv(<int>, <positive>)",
        "[<int>, <int>][<bool>]", "len(range(<int>, <int>, <positive>))", "range(<int>, 90, 7)[<#4>]", "(<int>, <int>)[<bool>]",
        "math.perm(<positive>, 2)", "int(math.copysign(3, <float>))", "operator.neg(<int>)",
    ],
    "own": ["n", "m", "k", "3", "(n - <own>)", "len(TABLE)", "(m if q else <own>)"],
    "small": ["n", "m", "k", "2", "3", "-4", "5", "(<int> % 7)", "(<int> & 15)"],
    "positive": ["k", "1", "2", "3", "5", "(abs(<int>) % 9 + 1)", "(k + <#5>)"],
    "float": [
        "x", "y", "x", "0.5", "1.5", "-2.25", "3.0", "(<part> + <part>)", "(<part> - <part>)", "(<part> * <part>)", "(<part> / 2)",
        "(<part> // <half>)", "(<part> % <half>)", "-<part>", "abs(<part>)", "float(<small>)", "(<part> if <bool> else <part>)",
        "min(<part>, <part>)", "max(<part>, <part>)", "(<small> / 4)", "math.fabs(<part>)", "math.copysign(<part>, <part>)",
        "math.fmod(<part>, <half>)", "math.modf(<part>)[<#2>]", "math.frexp(<part>)[0]", "math.ldexp(<part>, <#3>)", "math.sqrt(6.25)",
        "(<part> ** 2)", "np.floor(<part>)", "np.abs(<part>)", "sum((<part>, <part>))", "+<part>",
        "np.rint(<part>)", "np.trunc(<part>)", "float('<#9>.5')", "<part>.real", "<part>.conjugate()", "math.remainder(<part>, <half>)",
        "divmod(<part>, <half>)[<#2>]", "complex(<part>, <part>).imag", "(<cplx>).real", "abs(complex(0.0, <part>))",
    ],
    "part": ["x", "y", "0.5", "1.5", "-0.75", "float(k)", "(<small> / 2)", "(x + <small>)", "(y * 2)"],
    "half": ["0.5", "1.5", "2.0", "-0.75", "float(k)"],
    "cplx": ["complex(x, y)", "(<part> + 1j * <part>)", "(complex(x, 1) * 2j)", "-complex(y, x)", "complex(x, y).conjugate()"],
    "bool": [
        "p", "q", "True", "False", "(<int> < <int>)", "(<int> >= <int>)", "(<int> == <int>)", "(<int> != <int>)", "(<float> <= <float>)",
        "(<int> < <int> < <int>)", "(<int> <= <float> > <int>)", "(<bool> and <bool>)", "(<bool> or <bool>)", "(not <bool>)",
        "(<int> in <ints>)", "(<int> not in <three>)", "('<letter>' in '<word>')", "('a' in <dict>)", "(<int> is None)",
        "isinstance(<int>, int)", "isinstance(<float>, (int, str))", "any(w > <int> for w in <three>)", "all(w != 2 for w in <ints>)",
        "bool(<int>)", "('<word>' < '<word>')", "(<three> == <three>)", "(<three> < <three>)", "(<ints> == <ints>)", "callable(len)",
        "('<word>').startswith('<letter>')", "math.isclose(<float>, <float>)", "math.isnan(<float>)", "(<part>).is_integer()",
        "(<bool> ^ <bool>)", "(<bool> & <bool>)", "any((<bool>, <bool>))", "all([<bool>, <bool>])", "bool(<dict>)", "(<int> in range(<int>, 9))",
        "(<int> in {1, 3, 4})", "(<int> in (1, n, 4))", "hasattr(<int>, 'real')", "(<two> in <dict>)", "operator.lt(<int>, <int>)",
        "(<cplx> == <cplx>)", "(None is None)", "(<str> is not None)", "issubclass(bool, int)", "operator.contains(<three>, <int>)",
        "np.logical_and(<bool>, <bool>)", "np.isfinite(<float>)", "operator.not_(<bool>)",
    ],
    "ints": [
        "[<int>, <int>]", "[<int>]", "[]", "[<int>, 2, <int>]", "list(range(<#4>))", "[w * 2 for w in <three>]", "list(<three>)",
        "(<ints> + [<int>])", "(<ints> * 2)", "<ints>[<#3>:]", "<ints>[::-1]", "[n, 5, m, 8][<#3>:<#5>:2]", "sorted(<three>)",
        "sorted(<three>, reverse=True)", "sorted([<int>, 1], key=lambda w: -w)", "list(map(lambda w: w + <own>, <three>))",
        "[a + b for a in (<int>, 1) for b in <three>]", "[w for w in TABLE if w > <#4>]", "list(reversed(<three>))", "[*<three>, <int>]",
        "list(itertools.accumulate(<three>))", "list(itertools.chain(<three>, (<int>,)))", "list(<dict>.values())", "<ints>.copy()",
        "[a - b for a, b in zip(<three>, TABLE)]", "[i * w for i, w in enumerate(<three>, <#3>)]", "list(filter(lambda w: w > 0, TABLE))",
        "list(itertools.islice(<three>, <#4>))", "[w for pair in ((1, <int>), (<int>, 4)) for w in pair]",
        "list(itertools.takewhile(lambda w: w > 0, TABLE))", "list(itertools.starmap(operator.add, [(1, <int>), (<int>, 3)]))",
        "list(itertools.compress(<three>, (1, 0, 1)))", "[a * b for a, b in itertools.product((1, <small>), (2, 3))]",
    ],
    "three": [
        "(n, m, k)", "(1, n, 4)", "(<int>, <int>, <int>)", "(*(<int>, <int>), <int>)", "((<int>,) + (2, <int>))", "tuple([<int>, m, 3])",
        "(TABLE[<#3>:][:2] + (<int>,))", "tuple(w + 1 for w in (n, m, <int>))", "(n, m, k)[::-1]", "((<int>,) * 3)", "tuple(reversed((1, k, <int>)))",
    ],
    "dict": [
        "{'a': n, 1: m, 2: k}", "{'a': <int>, 1: <int>, 2: <int>}", "{**{'a': <int>, 2: 5}, 1: <int>}", "dict([('a', <int>), (1, <int>), (2, 0)])",
        "{**{w: w * <int> for w in (1, 2)}, 'a': <int>}", "dict(zip(('a', 1, 2), <three>))",
    ],
    "two": ["1", "2"],
    "str": [
        "'<word>'", "'<word>'", "('<word>' + '<word>')", "('<letter>' * <#4>)", "'<word>'[::-1]", "'<word>'[<#3>:]", "'<word>'.upper()",
        "'<word>'.replace('<letter>', '-')", "'-'.join(('<word>', 'q'))", "'<word>'.title()", "chr(<#9> + 66)", "str(<#9>)", "repr('<word>')",
        "bin(<#9>)", "hex(<#9> * 31)", "'<word>'.rjust(6, '.')", "' <word> '.strip()", "WORDS[<#3>]", "'<word>'.split('<letter>')[0]",
        "'{:>6}'.format('<word>')", "'%3d|%s' % (<#9>, '<word>')", "f'{<#9>:03d}'", "format(<#9>, '05.1f')", "ascii('<word>')", "str(TABLE[<#3>])",
    ],
    "text": [
        "<str>", "f'{<int>:<ispec>}'", "f'{<int>}'", "f'{<float>:<fspec>}'", "f'{<bool>} {<int>!r}'", "str(<int>)", "str(<bool>)", "('<word>' + str(<int>))",
        "('%d %5.2f' % (<int>, <float>))", "('%s<%4d>' % (<bool>, <int>))", "'{} {:>4}'.format(<int>, <int>)", "'{1}{0}'.format(<int>, '<word>')",
        "'+'.join([str(<int>), '<word>'])", "hex(<int>)", "format(<int>, '<ispec>')", "(<text> + <text>)", "repr(<int>)", "f'{<str>:>5}'", "f'{<int>=}'",
        "oct(<int>)", "f'{<str>!r}'", "('%-6d|%+d|%x' % (<int>, <int>, abs(<int>)))", "'{a} {b:.2f}'.format(a=<int>, b=<float>)",
        "f'{<int>:{<#4> + 2}d}'",
    ],
    "ispec": ["d", "5d", "05d", "+d", "<6", ">4d", " d", "x", "#x", "o", "#o", "X", "-3d", "08x", "+05d", ".2f", "e", "<5d", "0=7d"],
    "fspec": [".2f", ".1f", "8.3f", "<9.2f", "+.1e", "010.3f", "g", "e", ".0f", "%", ".1%", "G", "E", " .3f", ".3g", "12g"],
    "word": ["abc", "cab", "aXc", "b", "bca", "it is"],
    "letter": ["a", "b", "c"],
    "call": ["<int>"],
    "any": ["<int>", "<float>", "<bool>", "<text>", "<ints>", "<three>", "<dict>", "<cplx>", "None", "(<int>, <float>)", "[<three>, <bool>]",
            "(<any>,)", "{<#4>: <any>}", "()", "[<any>, <any>]", "<str>"],
}  # fmt: skip
"""Expressions of each kind. A `text` may have numbers of run time in it, a `str` has none."""

STATEMENTS = (
    "print(<any>, <any>)",
    "print(<any>, <int>, <any>, sep='<letter>')",
    "print(<text>, end=';\\n')",
    "print(*<three>, <any>)",
    "print(f'<word> {<int>:<ispec>} {<float>:<fspec>}|{<bool>!s:>7}')",
    "<new a> = <int>;=int <new a>",
    "<new a> = <float>;=float <new a>",
    "<new a> = <bool>;=bool <new a>",
    "<new a> = <three>;=three <new a>",
    "<new a> = <ints>\n<new a>.append(<int>)\nprint(<new a>);=ints <new a>",
    "<new a> = [<int>, *<three>, <int>]\n<edit a>\n<edit a>\nprint(<new a>, len(<new a>));=ints <new a>",
    "<new a> = <dict>\n<change a>\n<change a>\nprint(<new a>);=dict <new a>",
    "<new a>, *<new b>, <new c> = <three>\nprint(<new b>, <new c>);=int <new a>",
    "(<new a>, <new b>), <new c> = (<int>, <int>), <float>\nprint(<new c>);=int <new b>",
    "<new a> = <int>\n<new a> <augment>= <small>;=int <new a>",
    "<new a>, <new b> = <int>, <int>\n<new a>, <new b> = <new b>, <new a>;=int <new a>",
    "<new a> = <new b> = <int>;=int <new b>",
    "if <bool>:\n    print(<any>)\nelif <bool>:\n    print(<any>)\nelse:\n    print(<int>)",
    "if <bool>:\n    <new a> = <int>\nelse:\n    <new a> = <int>;=int <new a>",
    "for <new a> in <iterable>:\n    print(<new a>, <int>)",
    "for <new a>, <new b> in <pairs>:\n    print(<new a>, <new b>)",
    "<new a> = <int>\nfor <new b> in range(<#4>, <positive>):\n    <new a> = <new a> // 2 + <new b>\n    if <bool>:\n"
    "        continue\n    print(<new a>)\nelse:\n    print('<word>');=int <new a>",
    "for <new a> in range(k, -3, -2):\n    if <new a> < <int>:\n        print('break', <new a>)\n        break\nelse:\n    print('none')",
    "<new a> = <positive>\nwhile <new a> > 0:\n    <new a> -= 2\n    if <bool>:\n        continue\n    print(<new a>)\nelse:\n    print('over')",
    "<new a> = 0\nwhile True:\n    <new a> += 1\n    if <new a> > k or <bool>:\n        break\nprint(<new a>);=int <new a>",
    "for <new a> in range(<#4>):\n    for <new b> in range(<new a>, k):\n        if <new b> == <int>:\n            break\n"
    "        print(<new a>, <new b>)",
    "match <int>:\n    case 0 | 1:\n        print('few')\n    case <new a> if <new a> > <int>:\n        print('many', <new a>)\n"
    "    case _:\n        print('other')",
    "match (<int>, <three>):\n    case 1, _:\n        print('one')\n    case <new a>, (_, *<new b>):\n        print(<new a>, <new b>)",
    "match <two>:\n    case 1:\n        print(<any>)\n    case 2:\n        print(<any>)",
    "match <three>:\n    case (<new a>, 1, _) | (_, <new a>, _):\n        print(<new a>)",
    "def <new f>(a, b=<int>, *c, d=<int>):\n    return a - b * 2 + d + len(c)\nprint(<new f>(<int>, d=<int>), <new f>(<int>, <int>, <int>))",
    "def <new f>(a):\n    return <int>, a\nprint(<new f>(<any>))",
    "def <new f>(**w):\n    return w\nprint(<new f>(a=<int>, b=<float>))",
    "def <new f>(a):\n    if a > <int>:\n        return a\n    return a * 2 + <int>\nprint(<new f>(<int>));=call <new f>(<#9>)",
    "def <new g>():\n    yield <own>\n    yield from (<own>, 2, <own>)\n    if p:\n        return\n    yield <own>\n"
    "for <new a> in <new g>():\n    print(<new a>)",
    "def <new g>(a):\n    while a > 0:\n        yield a\n        a -= 2\nprint(sum(<new g>(<positive>)), max(<new g>(3)))",
    "<new a> = <int>\ndef <new f>(w):\n    nonlocal <new a>\n    <new a> += w\n    return <new a>\nprint(<new f>(<int>), <new f>(2), <new a>)",
    "<new a> = <int>\n<new f> = lambda w: w + <new a>\n<new a> = <int>\nprint(<new f>(<int>));=call <new f>(<#5>)",
    "<new f> = functools.partial(divmod, <int>)\nprint(<new f>(<positive>), <new f>(-3))",
    "<new a> = [[<int>, 1], [<int>]]\n<new b> = <new a>[1]\n<new b>.append(<int>)\nprint(<new a>, <new b>)",
    "<new a> = iter(<three>)\nprint(next(<new a>), next(<new a>))\nfor <new b> in <new a>:\n    print(<new b>)",
    "assert <bool> or True, '<word>'",
    "print([(a, b) for a in <three> for b in 'xy' if b != 'y'], {a: b for a, b in zip(WORDS, TABLE)})",
    "<new a> = [0] * 4\n<new a>[<int> % 4] = <int>\nprint(<new a>);=ints <new a>",
    "global TABLE\nprint(TABLE, WORDS, PAIRS['two'])",
    "for <new a> in <three>:\n    if not <new a>:\n        continue\n    print(<new a>, end=' ')\nprint()",
    "if (<new a> := <int>) > 2 and (<new b> := <int>) < 5:\n    print(<new a>, <new b>);=int <new a>",
    "del_<new a> = <int>\ndel del_<new a>",
    "print(<float>, <float>, <int>)",
    "print(<bool>, <bool>, <int>)",
)  # fmt: skip
"""Statements; behind `;=` is what there is from then on."""

PARTS = {
    "edit": [
        "{}.append(<int>)", "{}.insert(<#4>, <int>)", "{}.pop()", "{}.pop(<#2>)", "{}.reverse()", "{}.sort()", "{}.extend(<three>)",
        "{}[<#2>] = <int>", "{}[-1] += <int>", "{}[<#2>], {}[-1] = {}[-1], {}[0]", "del {}[<#2>]", "{} += [<int>]", "{}[1:2] = <three>",
        "{}.sort(key=lambda w: -w)", "{}.sort(reverse=True)", "{}[<int> % 3] = <int>", "print({}[<#2>:])",
        "print({}.count(<int>), <int> in {})", "del {}[1:2]", "{}.clear()\n{} += [1, <int>, 3, <int>]",
    ],
    "change": [
        "{}['b'] = <any>", "{}['a'] = <int>", "{}.update({{3: <int>}})", "del {}[1]\n{}[1] = <int>", "print({}.pop(2))\n{}[2] = <int>",
        "print({}.setdefault('c', <int>))", "for <new k>, <new v> in {}.items():\n    print(<new k>, <new v>)", "print(list({}), sorted((1, 2)))",
        "print('b' in {}, {}.get('b'))", "print(list({}.keys()), len({}))",
    ],
    "augment": ["+", "-", "*", "|", "&", "^"],
    "iterable": [
        "<three>", "<ints>", "range(<#5>)", "range(<int>, <int>, <positive>)", "reversed(<three>)", "'<word>'", "<dict>", "(<any>, <any>)",
        "reversed(range(k))", "itertools.islice(itertools.count(<int>, 2), <#5>)", "itertools.pairwise(<three>)", "map(abs, <three>)",
        "filter(lambda w: w > <own>, range(6))", "itertools.dropwhile(lambda w: w < <own>, range(5))", "itertools.accumulate(range(k), operator.add)",
        "(w - 1 for w in range(k) if w != <int>)", "itertools.filterfalse(lambda w: w > <own>, range(5))", "TABLE", "WORDS",
    ],
    "pairs": [
        "enumerate(<three>)", "zip(<three>, <ints>)", "<dict>.items()", "((1, <any>), (<any>, 2))", "enumerate(range(k), <int>)",
        "zip(<three>, range(<positive>))", "[(w, w * 2) for w in <three>]", "itertools.product((1, 2), <three>)", "zip('<word>', TABLE)",
    ],
}  # fmt: skip

FAULTS = (
    "raise ValueError(f'<word> {<int>}')",
    "if n < 20:\n    raise ValueError('<word>')",
    "assert n > 20, f'<word> {<int>} {<float>:.2f}'",
    "assert n > 20, '<word>'",
    "assert <int> == 99 and <bool>",
    "print(<int> // (n - n))",
    "print(<int> % (m * 0))",
    "<new a> = <int>\n<new a> //= n - <int> * 0 - n",
    "print(divmod(<int>, k & 0))",
    "print((n, m, k, <int>)[k + 3])",
    "print([<int>, <int>][n - n + 2])",
    "print(TABLE[-k - 5])",
    "print(TABLE[<#3> + 4 + k])",
    "for <new a> in range(9):\n    print(TABLE[<new a>])",
    "for <new a> in range(2, -3, -1):\n    print(<int> // <new a>)",
    "def <new f>(a):\n    return <own> // a\nprint(<new f>(n - n))",
    "def <new f>(a):\n    if a > 2:\n        raise ValueError(f'{a} of {n:3d}')\n    if a > 9:\n        return a\n    return <new f>(a + 1)\nprint(<new f>(0))",
    "<new a> = 0\nwhile True:\n    <new a> += 1\n    assert <new a> < k, <new a>",
    "if <bool> or n < 20:\n    raise ValueError",
)
"""Statements that CPython cannot run, whatever the parameters are."""
