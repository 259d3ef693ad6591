"""Our rows of LLVM's functions beside those of llvmlite, which knows what its library has."""

import ctypes
import re
from pathlib import Path

import llvmlite.binding as theirs
import pytest
from llvmlite.binding import ffi
from processes import python

from cuda_device.codegen import llvm


def kind(type):
    """What a type is for the machine: how many bytes, whether a number with a sign, a pointer, or a pointer to one."""
    if type is None:
        return None
    pointed = getattr(type, "_type_", None)
    if isinstance(pointed, str) and pointed not in "zP":
        return pointed
    is_text = isinstance(pointed, str) or issubclass(pointed, ctypes.Structure)
    return "pointer" if is_text else ("place", kind(pointed))


@pytest.mark.parametrize("name", llvm.FUNCTIONS)
def test_a_row_is_what_llvmlite_says(name):
    ours, known = getattr(llvm.load_llvm(), name), getattr(ffi.lib, f"LLVMPY_{name}")
    assert callable(ours)
    result, *parameters = llvm.FUNCTIONS[name].split()
    # What returns nothing, or takes nothing, llvmlite does not say.
    if known.restype is not ctypes.c_int or result != "-":
        assert kind(llvm.TYPES[result]) == kind(known.restype)
    if known.argtypes is not None:
        assert [kind(llvm.TYPES[each]) for each in parameters] == [kind(type) for type in known.argtypes]
    elif name not in ("DisposeString",):
        assert not parameters


@pytest.mark.needs("cpu")
def test_all_that_the_package_calls_has_a_row_and_all_rows_are_called():
    folder = Path(llvm.__file__).parents[1]
    names = ("codegen/llvm", "codegen/gpu/nvptx", "cpu/native", "cpu/processor")
    text = "".join((folder / f"{name}.py").read_text() for name in names)
    called = set(re.findall(r"(?:api|load_llvm\(\)|library|self)\.([A-Z]\w+|buildPer\w+)", text))
    called |= {f"module_Add{name}" for name in re.findall(r'"([A-Z]\w+Pass)"', text)}
    called |= {f"PTOSet{name}" for name in re.findall(r"(\w+)=(?:level|vectorise|loops)\b", text) if name[0].isupper()}
    assert called == set(llvm.FUNCTIONS)


def test_another_name_is_no_function_of_llvm():
    with pytest.raises(AttributeError, match="ParseNothing is not in the table of LLVM's functions"):
        _ = llvm.load_llvm().ParseNothing


def test_it_is_the_library_of_llvmlite():
    assert llvm.version(llvm.load_llvm()) == theirs.llvm_version_info
    assert llvm.version(llvm.load_llvm())[0] == llvm.MAJOR


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("llvm.file = lambda: None", "needs llvmlite, which is not installed"),
        ("llvm.file = lambda: '/does/not/exist.so'", "llvmlite's library cannot be loaded"),
        ("llvm.MAJOR = 7", "needs LLVM 7, and this llvmlite has LLVM 22"),
    ],
)
def test_what_is_wrong_with_the_library_is_said(change, message):
    script = f"""
from cuda_device.codegen import llvm
{change}
try:
    llvm.load_llvm()
except ImportError as error:
    assert {message!r} in str(error), error
else:
    raise AssertionError
"""
    python("-c", script)


TEXT = """\
%pair = type { i32, float }
@one = global i32 1
@two = global %pair zeroinitializer
declare i32 @f(i32)
define i32 @g() {
  %x = call i32 @f(i32 2)
  ret i32 %x
}
"""


def test_what_is_in_a_module():
    module = llvm.read_module(TEXT)
    module.verify()
    bitcode = theirs.parse_assembly(TEXT).as_bitcode()
    assert str(llvm.read_bitcode(bitcode)).endswith(str(module).partition("\n\n")[2])


def test_modules_are_linked_and_hidden():
    module = llvm.read_module(TEXT)
    module.link("define i32 @f(i32 %x) { ret i32 %x }")
    module.hide(["f", "not_there"])
    assert "define internal i32 @f(" in str(module)
    with pytest.raises(RuntimeError, match="symbol multiply defined"):
        module.link("define i32 @g() { ret i32 1 }")


def test_what_llvm_refuses():
    with pytest.raises(RuntimeError, match="expected top-level entity"):
        llvm.read_module("nonsense")
    with pytest.raises(RuntimeError):
        llvm.read_bitcode(b"nonsense")
    broken = llvm.read_module("define i32 @f() {\nentry:\n  br label %entry\n}")
    with pytest.raises(RuntimeError, match="Entry block to function must not have predecessors"):
        broken.verify()
    with pytest.raises(RuntimeError, match="[Uu]nable to find target|No available targets"):
        llvm.Machine("nowhere-at-all", "", "", 2)
