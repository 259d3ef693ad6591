"""Source text and code objects for `compile`."""

import numpy as np
import pytest

import cuda_device as device

FLOATS = device.ArrayType(device.float32, 1)
TEXT = "def helper(x):\n    return x * SCALE\n\ndef scaled(x):\n    return helper(x) + float32(1)\n"
NAMES = {"SCALE": np.float32(3), "float32": np.float32}


def test_text_is_compiled_for_a_result():
    made = device.compile(TEXT, np.float32, globals=NAMES, result=np.float32, output="ptx")
    assert made.symbol == "scaled" and made.result == "float32"
    assert "def scaled" not in NAMES and set(NAMES) == {"SCALE", "float32"}
    with pytest.raises(device.CompileError, match="scaled returns float32, not float64") as caught:
        device.compile(TEXT, np.float32, globals=NAMES, result=np.float64, output="ptx")
    assert "def scaled(x):" in str(caught.value) and "help: convert what it returns" in str(caught.value)


def test_a_code_object_is_compiled():
    code = compile(TEXT, "generated.py", "exec").co_consts
    (helper,) = (each for each in code if getattr(each, "co_name", "") == "helper")
    assert device.compile(helper, np.float32, globals=NAMES, output="ptx").result == "float32"


def test_text_may_be_a_kernel():
    text = "@device.kernel\ndef fill(x):\n    x[device.tid(1)] = 7\n"
    made = device.compile(text, FLOATS, globals={"device": device})
    assert made.output == "cubin" and made.symbol == "fill"


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("def f(x:\n", device.CompileError, "the text is not valid Python"),
        ("x = 3\n", TypeError, "defines no function"),
        ("def f(x):\n    return x + nothing\n", device.CompileError, "return x \\+ nothing"),
        ((lambda y: lambda x: x + y)(1).__code__, TypeError, "captures y"),
        (3, TypeError, "compile takes"),
        ("def f(*x):\n    return x[0]\n", TypeError, r"f cannot be compiled by itself with \*args or \*\*kwargs"),
        ("def f(x, y=device.float32(1)):\n    return x\n", NameError, "name 'device' is not defined"),
    ],
)
def test_wrong_text(source, error, message):
    with pytest.raises(error, match=message):
        device.compile(source, np.float32, output="ptx")


def test_an_expression_that_the_parser_refuses():
    with pytest.raises(device.CompileError, match="the text has an expression that is nested too deeply") as caught:
        device.compile(f"def f(x): return {' + '.join(['x'] * 100_000)}", device.float32)
    assert "use an array" in caught.value.help


def test_expressions_may_have_many_terms():
    """Python reads about three times as many terms as its recursion limit."""
    text = f"def f(x): return {' + '.join(['x'] * 2_000)}"
    assert device.compile(text, device.float32, output="ir").result == "float32"
