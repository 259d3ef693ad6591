"""Texts in device code: constants, and such with values of run time, which `print` and exceptions show as Python does."""

from __future__ import annotations

import contextlib
import io
import sys

import numpy as np
import pytest
from against_python import refused
from ir_helpers import define

import cuda_device as device

STATEMENTS = [
    "print(str(n), repr(n), ascii(n), format(n), format(n, '04d'), format(v, '.2f'))",
    "print('n = ' + str(n) + '!', ('ab' + str(n)) * 2, 2 * f'{n}', -1 * f'{n}')",
    "print(hex(n), oct(n), hex(-n), hex(255), bin(5), oct(8))",
    "print('n = %d' % n, '%d %s %r %i %u' % (n, n, n, n, n))",
    "print('%5d|%-5d|%05d|%+d|% d|%-+6d|' % (n, n, n, n, n, n))",
    "print('%x %X %#x %o %08x' % (n, n, n, n, n))",
    "print('%.3f %8.2e %g %+.1f %#.3g' % (v, v, v, v, v))",
    "print('%d %d' % (v, -v), '%5s|%-5s|%s' % (n, n, n > 3))",
    "print('%s %s %c %5.1f %r' % ('a', n, 65, 2.25, 'b'), '%%%d%%' % n, '%(k)d %(k)s' % {'k': n})",
    "print('{} {:.3f} {!r} {{}}'.format(n, v, n), '{1} {0} {0}'.format(n, 'x'))",
    "print('{a:>{w}}|{b:<{w}d}|'.format(a=n, b=n, w=6), '{0.real} {0.imag}'.format(n))",
    "print(', '.join(str(k) for k in (n, 2, n + 1)), '-'.join([str(n), 'a']), ''.join(('b', f'{n}')), '+'.join('abc'))",
    "print(str((n, 2)), str([n, 'a']), f'{[1, 2]} {(1, n)}', str([1, 2]))",
    "print(f'{n!s:>5}|{n!s:5}|{n!r:<4}|{str(n):>5}|{n!s}|{v!r}')",
    "t = 'n'\nt += str(n)\nt += '.'\nprint(t, t + t)",
    "print(str(n > 3) + str(None) + str(v == 2), f'{n=} {v=:.2f} {n > 3=}')",
    "print('abc'[1], 'abc'.upper(), 'a' * 3, 'x' in 'axb', 'abc' == 'ab' + 'c', len('ab' 'c'), 'ab' < 'b', 'cba'[::-1])",
    "print('%s-%d' % ('a', 3), '{}-{:03d}'.format('a', 3), 'a b'.split()[1], ' a '.strip(), 'aa'.replace('a', 'bc'))",
    "print(len('%5d' % 3), len(hex(1000)), len(str(12345)), int('12') + n, float('1.5') + v, ord('a') + n)",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_texts_are_those_of_python(stream, capfd, statement):
    lines = "".join(f"    {line}\n" for line in statement.splitlines())
    function = define(f"def f(n, v):\n{lines}", "f")
    expected = io.StringIO()
    with contextlib.redirect_stdout(expected):
        function(7, 2.5)

    @device.kernel
    def shows(n, x):
        function(n, x[0])

    capfd.readouterr()
    stream.launch(shows, 7, stream.array(np.array([2.5])), grid=1, block=1)
    sys.stdout.flush()
    assert capfd.readouterr().out == expected.getvalue()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("raise ValueError('n = ' + str(n))", "ValueError: n = 7"),
        ("raise ValueError('%d of %5.2f' % (n, v))", "ValueError: 7 of  2.50"),
        ("raise ValueError('{} {}'.format(n, 'x'))", "ValueError: 7 x"),
        ("raise ValueError(hex(n), 'a')", "ValueError: ('0x7', 'a')"),
    ],
)
def test_exceptions_show_them(stream, statement, message):
    function = define(f"def f(n, v):\n    {statement}", "f")

    @device.kernel
    def fails(n, x):
        function(n, x[0])

    with pytest.raises(device.KernelError) as caught:
        stream.launch(fails, 7, stream.array(np.array([2.5])), grid=1, block=1)
    assert str(caught.value).splitlines()[0] == message


@pytest.mark.parametrize(
    ("expression", "match"),
    [
        ("len(str(n))", "how long a text with values of run time is, nobody knows"),
        ("print('%d %d' % n)", "there are not enough values for the format '%d %d'"),
        ("print('%d' % (n, n))", "there are too many values for the format '%d'"),
        ("print('%q' % n)", "has a % that begins no format"),
        ("print('%c' % n)", "'%c' takes constants"),
        ("print('%.3d' % n)", "'%.3d' takes constants"),
        ("print('%d' % 'a')", "'%d' cannot show 'a'"),
        ("print('%999d' % n)", "'%999d' is too wide"),
        ("print('%(k)d' % {'j': n})", "the dict has no key 'k'"),
        ("print('%(k)d' % n)", r"%\(k\) takes a dict, not int"),
        ("print('{} {}'.format(n))", "there is no value '1' for the format '{} {}'"),
        ("print('{x}'.format(n))", "there is no value 'x'"),
        ("print('{'.format(n))", "is no format"),
        ("print('{:{}}'.format(3, n))", "a format in device code is made of constants|there is no value"),
        ("print(','.join((n, 'a')))", "join takes texts, not int"),
        ("print(','.join((str(n), 'a'), 'b'))", "join takes 1 argument, not 2"),
        ("print(f'{n!s:d}')", "'d' is no format of texts"),
        ("print(f'{str(n) + str(n):5}')", "a string that is known at run time cannot be formatted"),
        ("'a' * 100_000", "a text of 100000 characters is too long"),
        ("str(n).upper()", "has no attribute 'upper'"),
        ("1 if str(n) == 'a' else 0", "is not defined"),
    ],
)
def test_what_texts_of_run_time_cannot(expression, match):
    refused(define(f"def f(n):\n    return {expression}", "f"), int, match=match)
