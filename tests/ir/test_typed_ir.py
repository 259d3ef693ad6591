"""`compile` of typed IR as text: it makes the same code as the function that the text was printed for."""

import re

import ir_programs
import numpy as np
import pytest

import cuda_device as device

SCALE = """
func @scale -> none kernel typed {
^0(%gain.0: float32, %x.1: array<float32, 1, C>):
  %2: int32 nonneg = intrinsic {name="tid", settings=(1,)}
  %3: index nonneg = intrinsic {name="len"} %x.1
  %4: bool = py.compare {op="<"} %2 %3
  branch %4 ^1() ^2()
^1():
  %5: float32 = py.getitem %x.1 %2
  %6: float32 = call {callee="twice"} %5 %gain.0
  py.setitem %x.1 %2 %6
  jump ^2()
^2():
  return
}

func @twice -> float32 typed {
^0(%x.0: float32, %gain.1: float32):
  %2: float32 = py.binary {op="+"} %x.0 %x.0
  %3: float32 = py.binary {op="*"} %2 %gain.1
  return %3
}
"""


def code(text):
    """PTX without what tells of the source."""
    return re.sub(r"(?m)^\s*(//|\.loc|\.file).*", "", str(text))


@pytest.mark.parametrize("program", ir_programs.PROGRAMS, ids=ir_programs.IDS)
def test_the_same_code_as_the_function(program):
    f, types = program
    try:
        text = str(device.compile(f, *types, output="ir"))
    except device.CompileError:
        pytest.skip("arguments that compile does not take")
    if "$0" in text:
        pytest.skip("it names objects of Python")
    assert code(device.compile(text, output="ptx")) == code(device.compile(f, *types, output="ptx"))
    assert str(device.compile(text, output="ir")) == text


@pytest.mark.needs("saved")
def test_written_by_hand():
    made = device.compile(SCALE)
    assert [(each.name, each.type) for each in made.parameters] == [("gain", "float32"), ("x", "array<float32, 1, C>")]
    assert made.symbol == "scale"
    assert device.compile(SCALE, target=("sm_90", "sm_100"), output="fatbin").target == "sm_90, sm_100"
    twice = SCALE[SCALE.index("func @twice") :]
    assert device.compile(twice, output="ptx", result=np.float32).result == "float32"
    with pytest.raises(device.CompileError, match="twice returns float32, not float64"):
        device.compile(twice, output="ptx", result=np.float64)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kernel typed", "kernel device", "scale is not typed"),
        ("float32 = py.getitem", "flaot32 = py.getitem", r"cannot read '%5: flaot32 = py.getitem %x.1 %2'"),
        ('callee="twice"', 'callee="thrice"', "the IR of scale is wrong"),
        ('name="len"', 'name="lens"', "there is no intrinsic 'lens'"),
        ("%x.1 %2 %6", "%x.1 %2 %7", "the IR of scale is wrong"),
        ('"<"} %2', '"<"} %x.1', "the IR cannot be compiled"),
        ("  return\n}", "  return", "not the head of a function|cannot read"),
        ("  return %3\n}", "  return %3\n", "the text does not end with a line '}'"),
        ("func @scale", "func @empty -> none kernel typed {\n}\nfunc @scale", "empty has no block"),
    ],
)
def test_bad_text(old, new, message):
    assert old in SCALE
    with pytest.raises(device.CompileError, match=rf"({message})[\s\S]*help:"):
        device.compile(SCALE.replace(old, new), output="ptx")
    assert device.compile(SCALE, output="ptx")


def test_arguments_are_in_the_text():
    with pytest.raises(TypeError, match=r"scale takes 2 arguments, not 3"):
        device.compile(SCALE, 1, 2, 3)
