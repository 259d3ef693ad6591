"""`print` in device code: the text is Python's, on the CPU and on GPUs."""

from __future__ import annotations

import collections
import math
import re
import sys

import numpy as np
import pytest
from conftest import thinned
from ir_helpers import define

import cuda_device as device


@device.struct
class Point:
    """A struct with a number of each kind."""

    x: int
    y: device.float64
    inside: bool


def printed(stream, capfd, body, *arguments, block=1, grid=1, parameters=None, decorator="@device.kernel", **names):
    """What a kernel with this body prints; its parameters are called a, b, c, …"""
    parameters = parameters or "abcdefgh"[: len(arguments)]
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    source = f"{decorator}\ndef k({', '.join(parameters)}):\n{lines}\n"
    kernel = define(source, **names)
    given = [stream.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    capfd.readouterr()
    stream.launch(kernel, *given, grid=grid, block=block)
    sys.stdout.flush()
    return capfd.readouterr().out


# Formats

INTEGERS = [0, 1, -1, 7, -8, 255, -255, 2**31 - 1, -(2**31)]
INTEGER_SPECS = ["", *"d 5d <5d >5d 05d 12 -3d x X o #x #o +x +#x e .2f 9.1f g".split()]
SIGNED_SPECS = ["+d", " d", "+05d"]
UNSIGNED_SPECS = ["8x", "08x", "<8x", "6o", "1x", "02X"]
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 2.5, 123456.789, 1e20, -3e-7, 99999.5, math.inf, -math.inf]
FLOAT_SPECS = [" .3f", *"f .2f 8.3f <9.2f 010.3f +.1e e .3e g .3g 12g G E .0f >8.1f -.1f #12.4g".split()]


CASES = [
    *((spec, dtype) for spec in INTEGER_SPECS for dtype in (np.int32, np.int64, np.int8, np.uint8, np.uint64)),
    *((spec, dtype) for spec in SIGNED_SPECS for dtype in (np.int32, np.int64, np.int8, np.uint8)),
    *((spec, dtype) for spec in UNSIGNED_SPECS for dtype in (np.uint8, np.uint32, np.uint64)),
]


@pytest.mark.parametrize("case", thinned(CASES, one_in=2))
def test_integers_are_formatted_as_in_python(stream, capfd, case):
    spec, dtype = case
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    numbers = [n for n in (*INTEGERS, low, high) if low <= n <= high]
    body = "for i in range(len(a)):\n    print(f'[{a[i]:" + spec + "}]')"
    expected = "".join(f"[{n:{spec}}]\n" for n in numbers)
    assert printed(stream, capfd, body, np.array(numbers, dtype)) == expected


@pytest.mark.parametrize("spec", FLOAT_SPECS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_floats_are_formatted_as_in_python(stream, capfd, spec, dtype):
    numbers = np.array(FLOATS, dtype)
    if spec.startswith("0") and stream.kind == "gpu" and not stream.emulated:
        numbers = numbers[np.isfinite(numbers)]  # CUDA's printf puts blanks before infinity
    body = "for i in range(len(a)):\n    print(f'[{a[i]:" + spec + "}]')"
    assert printed(stream, capfd, body, numbers) == "".join(f"[{float(n):{spec}}]\n" for n in numbers)


WHOLE = [0.0, -0.0, 1.0, -1.0, 2.5, 12.0, -345.0, 9.99999, 99.996, 0.3, 0.04, 5e-4, 1e-6, 1e20, math.inf, -math.inf]


@pytest.mark.parametrize("spec", ["", "+", ".4", "+.4"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_floats_that_look_whole_have_a_point(stream, capfd, spec, dtype):
    body = "for i in range(len(a)):\n    print(f'[{a[i]:" + spec + "}]')"
    expected = "".join(f"[{float(str(n)):{spec}}]\n" for n in np.array(WHOLE, dtype))
    assert printed(stream, capfd, body, np.array(WHOLE, dtype)) == expected


def test_what_rounds_to_a_whole_number_has_a_point(stream, capfd):
    """Seven digits of a float32 are shown; the last of these has a neighbour that looks whole."""
    numbers = np.array([2.9999998, 5.9999995, 1048575.94, 2.000001, 0.5, 0.25], np.float32)
    body = "for i in range(len(a)):\n    print(a[i])"
    assert printed(stream, capfd, body, numbers) == "3.0\n6.0\n1048576.0\n2.000001\n0.5\n0.25\n"


def test_bools_with_a_format_are_numbers(stream, capfd):
    flags = np.array([True, False])
    body = "for i in range(2):\n    print(a[i], f'{a[i]} {a[i]!r} {a[i]:3} {a[i]:d}')"
    assert printed(stream, capfd, body, flags) == "".join(f"{f} {f} {f!r} {f:3} {f:d}\n" for f in (True, False))


PLAIN = {
    np.float64: [0.0, 1.0, -2.5, 0.1, 123456789.0, 1e-5, 0.0001, 1e20, 3.14159265358979, math.inf, -math.inf, math.nan],
    np.float32: [0.0, 1.0, -2.5, 0.1, 123456.0, 1e-5, 0.0001, 1e20, 0.3, math.inf, math.nan],
    np.float16: [0.0, 1.0, -2.5, 0.5, 2048.0, math.inf],
}


@pytest.mark.parametrize("dtype", PLAIN)
def test_floats_without_a_format_look_as_in_python(stream, capfd, dtype):
    numbers = PLAIN[dtype]
    body = "for i in range(len(a)):\n    print(a[i], f'{a[i]}', (a[i],))"
    expected = "".join(f"{n} {n} {(n,)}\n" for n in numbers)
    assert printed(stream, capfd, body, np.array(numbers, dtype)) == expected


def test_constants_of_narrow_floats_look_like_numbers_at_run_time(stream, capfd):
    body = "for _ in range(1):\n    print(X, a[0], (X,), f'{X} {X!r} {a[0]}', f'{X:.9f}')"
    expected = "0.1 0.1 (0.1,) 0.1 0.1 0.1 0.100000001\n"
    assert printed(stream, capfd, body, np.array([0.1], np.float32), X=np.float32(0.1)) == expected


# What there is to print


def test_arguments_separators_and_ends(stream, capfd):
    body = """\
print("x =", a)
print(a, b, sep=", ", end=";")
print(a, b, sep="", end="")
print(a, b, sep=None, end=None)
print()
print(end="")
print("50% of", a, "%d %s %%")
print("größe ∀", a, 'quoted "text" \\\\ and\\ttab')
print(a, flush=True)"""
    expected = 'x = 3\n3, 4;343 4\n\n50% of 3 %d %s %%\ngröße ∀ 3 quoted "text" \\ and\ttab\n3\n'
    assert printed(stream, capfd, body, 3, 4) == expected


def test_constants(stream, capfd):
    body = """\
print(None, True, 3, 2.5, "text", (1, "two", (3.0,)), 1 + 2j, ..., b"bytes", [1, "x"], G, (), device.int8(-3))
print(f"{3:03d} {'text':>8} {2.5!r} {G!r:>8} {'t'!r}")
print((None, a, "s", (a,), [a, None]))"""
    expected = "None True 3 2.5 text (1, 'two', (3.0,)) (1+2j) Ellipsis b'bytes' [1, 'x'] glob () -3\n"
    expected += "003     text 2.5   'glob' 't'\n(None, 5, 's', (5,), [5, None])\n"
    assert printed(stream, capfd, body, 5, G="glob") == expected


def test_vectors_structs_ranges_and_complex_numbers(stream, capfd):
    body = """\
v = device.float32x3(a, 2, 0.5)
p = Point(a, device.float64(a) / 4, a > 2)
print(v, v.x, f"<{v}>", device.int8x2(a, -1))
print(p, f"{p!r}", (p, v.x))
print(range(a), range(1, a), range(0, a, 2))
z = complex(a, -1.5)
print(z, z.real, (z,))
print([i * a for i in (1, 2)], device.thread_idx)"""
    vector = "float32x3(3.0, 2.0, 0.5)"
    point = "Point(x=3, y=0.75, inside=True)"
    expected = f"{vector} 3.0 <{vector}> int8x2(3, -1)\n{point} {point} ({point}, 3.0)\n"
    expected += "range(0, 3) range(1, 3) range(0, 3, 2)\n(3-1.5j) 3.0 ((3-1.5j),)\n[3, 6] uint32x3(0, 0, 0)\n"
    assert printed(stream, capfd, body, 3, Point=Point) == expected


def test_elements_of_arrays(stream, capfd):
    points = np.array([(1, 2.5, True), (-1, 0.25, False)], device.numpy_dtype(Point))
    body = """\
for i in range(len(a)):
    print(a[i], a[i].y, b[i, 1], b.shape)"""
    pairs = np.array([[1, 2], [3, 4]], np.int16)
    expected = "Point(x=1, y=2.5, inside=True) 2.5 2 (2, 2)\nPoint(x=-1, y=0.25, inside=False) 0.25 4 (2, 2)\n"
    assert printed(stream, capfd, body, points, pairs, Point=Point) == expected


def test_masks_show_their_bits(stream, capfd):
    body = """\
m = device.WarpMask(a)
print(m, f"{m:#x} {m:08x}")"""
    assert printed(stream, capfd, body, -16) == "-16 0xfffffff0 fffffff0\n"


def test_strings_of_run_time_can_be_built(stream, capfd):
    body = """\
def name(i):
    return f"item {i}"
text = f"<{name(a)}|{f'{a:03d}'}>"
print(text, f"{text}!")
print(text if a > 2 else text)"""
    assert printed(stream, capfd, body, 7) == "<item 7|007> <item 7|007>!\n<item 7|007>\n"


# When


def test_each_thread_prints_in_its_order(stream, capfd):
    body = """\
i = device.tid(1)
for step in range(5):
    print(f"thread {i} step {step}")
    device.syncthreads()
print("end of", i)"""
    lines = printed(stream, capfd, body, parameters="", block=40, grid=3).splitlines()
    assert len(lines) == 6 * 120
    for i in range(120):
        own = [
            line for line in lines if re.search(rf"\b{i}\b(?! *$)|of {i}$", line) and line.split()[1] in (str(i), "of")
        ]
        assert [line for line in own if line.startswith(f"thread {i} ")] == [f"thread {i} step {s}" for s in range(5)]
        assert f"end of {i}" in lines


def test_lines_are_whole(stream, capfd):
    body = """\
i = device.tid(1)
print("begin", i, i * 1.5, i > 3, "the rest of a line that is rather long", i, "end")"""
    lines = printed(stream, capfd, body, parameters="", block=32, grid=50).splitlines()
    expected = {f"begin {i} {i * 1.5} {i > 3} the rest of a line that is rather long {i} end" for i in range(1600)}
    assert sorted(lines) == sorted(expected)


def test_functions_branches_and_recursion_print(stream, capfd):
    body = """\
def down(n):
    print("down", n)
    if n > 0:
        down(n - 1)
if a > 3:
    print("never")
else:
    down(a)"""
    assert printed(stream, capfd, body, 3) == "down 3\ndown 2\ndown 1\ndown 0\n"


def test_what_was_printed_comes_before_the_error(capsys):
    kernel = define(
        """
        @device.kernel(checked=True)
        def k(x):
            print("before", len(x))
            x[len(x)] = 1
            print("after")
        """
    )
    with pytest.raises(device.KernelError, match="index 3 is out of bounds"):
        device.launch(kernel, np.zeros(3), grid=1, block=1, stream=device.cpu_stream())
    assert capsys.readouterr().out == "before 3\n"


def test_the_output_is_that_of_the_moment(capsys, monkeypatch):
    class Stream:
        text = ""

        def write(self, text):
            self.text += text

    kernel = define("@device.kernel\ndef k(n):\n    print('n is', n)\n")
    device.launch(kernel, 1, grid=1, block=1, stream=device.cpu_stream())
    assert capsys.readouterr().out == "n is 1\n"
    other = Stream()
    monkeypatch.setattr(sys, "stdout", other)
    device.launch(kernel, 2, grid=1, block=1, stream=device.cpu_stream())
    assert other.text == "n is 2\n"
    monkeypatch.setattr(sys, "stdout", None)
    device.launch(kernel, 3, grid=1, block=1, stream=device.cpu_stream())


def test_a_long_program_is_heard_before_it_ends(capsys):
    kernel = define("@device.kernel\ndef k(n):\n    for i in range(n):\n        print(i)\n")
    device.launch(kernel, 12345, grid=1, block=1, stream=device.cpu_stream())
    assert capsys.readouterr().out.splitlines() == [str(i) for i in range(12345)]


# For GPUs


def test_a_gpu_uses_printf_of_cuda():
    kernel = define("@device.kernel\ndef k(n, x):\n    print(f'{n:5d} {x:.3f} {n > 3}')\n")
    ptx = str(device.compile(kernel, int, device.float32, output="ptx"))
    texts = {
        bytes(map(int, found.split(", "))).rstrip(b"\0") for found in re.findall(r"\.b8 text_\d+\[\d+\] = {(.*)}", ptx)
    }
    assert texts == {b"%5lld %.3f %s\n", b"True", b"False"}
    assert ptx.count("call.uni") + ptx.count("call ") == 1
    assert "vprintf" in ptx


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("options", [{}, {"checked": True, "lineinfo": True}, {"level": 0}])
def test_prints_assemble(target, options):
    kernel = define(
        """
        @device.kernel
        def k(x, n):
            i = device.tid(1)
            print("i", i, x[i], f"{x[i]:8.3f} {n:#x} {n:o}", n > 2, (n, None), complex(n, 1))
            device.syncthreads()
            print("constant")
        """
    )
    assert device.compile(kernel, device.ArrayType(device.float32, 1), int, target=target, **options).code


def test_a_kernel_that_prints_nothing_has_no_printf():
    kernel = define("@device.kernel\ndef k(x):\n    print(end='')\n    x[0] = 1\n")
    assert "vprintf" not in str(device.compile(kernel, device.ArrayType(device.float32, 1), output="ptx"))


# What cannot be printed


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("print(a)", "array<float32, 1, C> cannot be printed"),
        ("print(device)", "cannot be printed"),
        ("print(lambda: 1)", "cannot be printed"),
        ("print(n, file=G)", "print: got an unexpected keyword argument 'file'"),
        ("print(n, color=1)", "print: got an unexpected keyword argument 'color'"),
        ("print(n, sep=n)", "sep of print must be a constant string, not int"),
        ("print(n, end=3)", "end of print must be a constant string, not int 3"),
        ("print(f'{n:^5}')", "device code does not support the format"),
        ("print(f'{n:,}')", "device code does not support the format"),
        ("print(f'{n:b}')", "device code does not support the format"),
        ("print(f'{n:*>5}')", "device code does not support the format"),
        ("print(f'{n:<06d}')", "device code does not support the format"),
        ("print(f'{a[0]:.1%}')", "device code does not support the format"),
        ("print(f'{a[0]:8}')", "a float cannot be printed with the format '8'"),
        ("print(f'{a[0]:d}')", "a float cannot be printed with the format 'd'"),
        ("print(f'{n:08x}')", "printf has no x with a sign or a prefix"),
        ("print(f'{n:.3}')", "the format of an integer cannot have a precision"),
        ("print(f'{n!s:>5}')", "cannot be formatted in this way"),
        ("print('%d' % n)", "'%d' % int is not defined"),
        ("print('{}'.format(n))", "format cannot be called in device code"),
        ("print(str(n))", "each argument of str must be a constant expression"),
        ("print(', '.join(f'{i}' for i in range(n)))", "join cannot be called in device code"),
        ("print('n = ' + f'{n}')", "is not defined"),
        ("print([f'{n}'])", "a string with run-time values must be printed by itself"),
        ("print(f'{n:5000}')", "too wide"),
        ("print(f'{n:nonsense}')", "device code does not support the format"),
        ("print(f'{n:{n}}')", "a format in device code must consist of constants"),
        ("print(f'{(n, n):>5}')", "cannot be formatted by '>5'"),
        ("print(f'{complex(n, n):.2f}')", "a complex number cannot be printed with a format"),
        (f"print({', '.join('n' * 33)})", "print takes at most 32 numbers, not 33"),
        ("print('a\\0b', n)", "the character 0"),
        ("assert n > 3, f'{a[0]} {n} {n}'", "the message of an exception can have at most 2 run-time numbers"),
        ("assert n > 3, f'{a[0]:d}'", "the message of an exception can have at most 2 run-time numbers"),
        ("raise ValueError(f'{n} {n} {n}')", "the message of an exception can have at most 2 run-time numbers"),
    ],
)
def test_what_cannot_be_printed(body, match):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    kernel = define(f"@device.kernel\ndef k(a, n):\n{lines}", G=sys.stderr)
    with pytest.raises(device.CompileError, match=match) as caught:
        device.compile(kernel, device.ArrayType(device.float32, 1), int)
    assert caught.value.help
    assert caught.value.location.line == 3


def test_a_text_may_be_an_argument_of_no_kernel():
    """There are no strings at run time but those that are printed."""
    kernel = define("@device.kernel\ndef k(a, n):\n    text = f'{n}'\n    a[0] = len(text)\n")
    with pytest.raises(device.CompileError, match="the length of a string with run-time values is not known"):
        device.compile(kernel, device.ArrayType(device.float32, 1), int)


def test_constants_keep_the_sign_of_zero(stream, capfd):
    body = "print(np.trunc(-0.75), np.rint(-0.25), np.floor(-0.0), np.ceil(-0.5), np.trunc(1.5))"
    assert printed(stream, capfd, body, np=np) == "-0.0 -0.0 -0.0 -0.0 1.0\n"


def test_constants_of_two_kinds_are_chosen_from_as_floats(stream, capfd):
    body = "print(np.maximum(0.5, 3), np.minimum(1, 2.5), np.fmin(0.5, 0), np.fmax(2, 1.0), np.clip(3, 0.5, 9))"
    assert printed(stream, capfd, body, np=np) == "3.0 1.0 0.0 2.0 3.0\n"
    assert printed(stream, capfd, "print(np.where(1, 2, 0.5), np.where(0, 0.5, 3))", np=np) == "2.0 3.0\n"


def test_complex_numbers_show_both_parts(stream, capfd):
    body = "z = complex(a, 1.5)\nprint(z, 2j, (z, -z), f'<{z}>', [complex(a - 3, a)])"
    assert printed(stream, capfd, body, 3) == "(3+1.5j) 2j ((3+1.5j), (-3-1.5j)) <(3+1.5j)> [(0+3j)]\n"


def test_named_tuples_of_run_time_are_shown(stream, capfd):
    pair = collections.namedtuple("Pair", "first second")  # noqa: PYI024
    body = "print(Pair(a, 2.5), [Pair('x', a)], f'{Pair(a, Pair(a, 1))}')"
    expected = f"{pair(3, 2.5)} {[pair('x', 3)]} {pair(3, pair(3, 1))}\n"
    assert printed(stream, capfd, body, 3, Pair=pair) == expected


def test_lists_of_the_host_are_shown(stream, capfd):
    body = "print(names, names[0], {'a': 1}, table, f'{table}')"
    expected = "['p', 2, (3.5, None)] p {'a': 1} {1: [2, 'z']} {1: [2, 'z']}\n"
    assert printed(stream, capfd, body, 1, names=["p", 2, (3.5, None)], table={1: [2, "z"]}) == expected
