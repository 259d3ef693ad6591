"""Writes LLVM IR for functions that check conditions and return false at the first that does not hold.

    code = GuardWriter("is_seven", "i1", "ptr %object")
    number = code.call("PyLong_AsLong", "%object")
    code.require(code.equal("i64", number, 7))
    code.text()

    define i1 @cuda_device.is_seven(ptr %object) {
      %v1 = call i64 @PyLong_AsLong(ptr %object)
      %v2 = icmp eq i64 %v1, 7
      br i1 %v2, label %next.3, label %surprise
    next.3:
      ret i1 true
    surprise:
      ret i1 false
    }

A function holds no references when it checks a condition, so it can return at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from cuda_device.cpu.records import Record
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.plugins.launchers import memory_layout
from cuda_device.plugins.launchers.memory_layout import TABLE, Word

PYTHON = {
    "PyBuffer_Release": ("void", "ptr"),
    "PyCell_Get": ("ptr", "ptr"),  # new
    "PyComplex_ImagAsDouble": ("double", "ptr"),
    "PyComplex_RealAsDouble": ("double", "ptr"),
    "PyDict_GetItemWithError": ("ptr", "ptr", "ptr"),
    "PyErr_Clear": ("void",),
    "PyErr_Occurred": ("ptr",),
    "PyEval_RestoreThread": ("void", "ptr"),
    "PyEval_SaveThread": ("ptr",),
    "PyFloat_AsDouble": ("double", "ptr"),
    "PyLong_AsLongLongAndOverflow": ("i64", "ptr", "ptr"),
    "PyList_Append": ("i32", "ptr", "ptr"),
    "PyType_IsSubtype": ("i32", "ptr", "ptr"),
    "PyLong_AsUnsignedLongLong": ("i64", "ptr"),
    "PyObject_CallOneArg": ("ptr", "ptr", "ptr"),  # new
    "PyObject_GetAttr": ("ptr", "ptr", "ptr"),  # new
    "PyObject_GetBuffer": ("i32", "ptr", "ptr", "i32"),
    "PyObject_Size": ("i64", "ptr"),
    "PyObject_RichCompareBool": ("i32", "ptr", "ptr", "i32"),
    "PyObject_Vectorcall": ("ptr", "ptr", "ptr", "i64", "ptr"),  # new
    "PyObject_VectorcallMethod": ("ptr", "ptr", "ptr", "i64", "ptr"),  # new
    "PyTuple_New": ("ptr", "i64"),  # new
    "PyTuple_SetItem": ("i32", "ptr", "i64", "ptr"),  # takes the reference
    "Py_DecRef": ("void", "ptr"),
    "Py_IncRef": ("void", "ptr"),
}
"""Functions of Python's C interface: the LLVM types of the result and of the parameters. The caller releases new references."""


@dataclass(frozen=True)
class SharedFunction:
    """A function in machine code: its LLVM type, whether launchers or Python call it, and the function that writes it.

    A `rare` function is kept out of its callers, whose usual path it would slow down.
    """

    result: str
    parameters: tuple[str, ...]
    exported: bool
    rare: bool
    write: Callable[[GuardWriter], None]


FUNCTIONS: dict[str, SharedFunction] = {}
"""The functions of `entry` and `object_reading`, which all launchers share."""


def shared(
    result: str, *parameters: str, exported: bool = False, rare: bool = False
) -> Callable[[Callable[[GuardWriter], None]], Callable[[GuardWriter], None]]:
    """Registers the decorated function as the writer of a shared function of the same name."""

    def declare(write: Callable[[GuardWriter], None]) -> Callable[[GuardWriter], None]:
        FUNCTIONS[write.__name__] = SharedFunction(result, parameters, exported, rare, write)
        return write

    return declare


def symbol_of(name: str) -> str:
    """The symbol of a shared function, which is unique in the process."""
    return f"cuda_device.{name}"


def declarations() -> str:
    """The declarations of Python's functions."""
    return "".join(f"declare {result} @{name}({', '.join(types)})\n" for name, (result, *types) in PYTHON.items())


def exported() -> list[str]:
    """The names of the shared functions that launchers or Python call."""
    return [name for name, function in FUNCTIONS.items() if function.exported]


def shared_declarations() -> str:
    """The declarations of these functions."""
    rows = ((name, FUNCTIONS[name]) for name in exported())
    return "".join(
        f"declare {function.result} @{symbol_of(name)}({', '.join(function.parameters)})\n" for name, function in rows
    )


def shared_text() -> str:
    """The definitions of all shared functions."""
    texts = []
    for name, function in FUNCTIONS.items():
        code = GuardWriter(name, function.result, *function.parameters, exported=function.exported, rare=function.rare)
        function.write(code)
        texts.append(code.text())
    return "".join(texts)


Operand = str | int
"""An LLVM value: the name of one, or a number."""


class GuardWriter:
    """Writes one function. A function of type `i1` returns true at its end; any other ends with a call of `finish`."""

    def __init__(self, name: str, result: str, *parameters: str, exported: bool = False, rare: bool = False) -> None:
        self.name, self.result, self.parameters = name, result, parameters
        self._linkage = "" if exported else "internal "
        self._attributes = "nounwind noinline cold" if rare else "nounwind"
        self._lines: list[str] = []
        self._memory: list[str] = []
        self._number = 0
        self._finished = False

    def text(self) -> str:
        """The LLVM IR of the function."""
        if not self._finished:
            self.finish("true")
        called = f"{self.result} @{symbol_of(self.name)}({', '.join(self.parameters)})"
        head = f"define {self._linkage}{called} {self._attributes} {{\nentry:\n"
        body = "".join(f"  {line}\n" if not line.endswith(":") else f"{line}\n" for line in self._memory + self._lines)
        surprise = "surprise:\n  ret i1 false\n" if self.result == "i1" else ""
        return f"{head}{body}{surprise}}}\n"

    def finish(self, value: Operand = "") -> None:
        """Writes a return."""
        self._lines.append(f"ret {self.result} {value}".rstrip())
        self._finished = True

    def line(self, text: str) -> None:
        """Writes an instruction without a result."""
        self._lines.append(text)

    def value(self, text: str) -> str:
        """Writes an instruction, and returns the name of its result."""
        self._number += 1
        self._lines.append(f"%v{self._number} = {text}")
        return f"%v{self._number}"

    # Memory

    def memory(self, nbytes: int) -> str:
        """Allocates memory on the stack, aligned to 16 bytes."""
        self._number += 1
        self._memory.append(f"%m{self._number} = alloca [{max(nbytes, 1)} x i8], align 16")
        return f"%m{self._number}"

    def at(self, base: str, offset: Operand, size: int = 1) -> str:
        """The address of the element `offset` of `size` bytes behind `base`."""
        return self.value(f"getelementptr [{size} x i8], ptr {base}, i64 {offset}") if offset != 0 else base

    def load(self, type: str, base: str, offset: int = 0) -> str:
        """A value in memory."""
        return self.value(f"load {type}, ptr {self.at(base, offset)}, align 1")

    def store(self, type: str, value: Operand, base: str, offset: int = 0) -> None:
        """Writes to memory."""
        self.line(f"store {type} {value}, ptr {self.at(base, offset)}, align 1")

    def copy(self, target: str, source: str, nbytes: Operand) -> None:
        """Copies bytes."""
        self.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {nbytes}, i1 false)")

    def field(self, record: Record, base: str, name: str) -> str:
        """The address of a field of a record."""
        return self.value(f"getelementptr {record}, ptr {base}, i32 0, i32 {record.index(name)}")

    def get(self, record: Record, base: str, name: str) -> str:
        """A field of a record."""
        return self.load(record.fields[record.index(name)][1], self.field(record, base, name))

    def set(self, record: Record, base: str, name: str, value: Operand) -> None:
        """Writes a field of a record."""
        self.store(record.fields[record.index(name)][1], value, self.field(record, base, name))

    # Arithmetic

    def compare(self, how: str, type: str, left: Operand, right: Operand) -> str:
        """A comparison: `how` is LLVM's word for it."""
        return self.value(f"icmp {how} {type} {left}, {right}")

    def equal(self, type: str, left: Operand, right: Operand) -> str:
        """Whether two values are the same."""
        return self.compare("eq", type, left, right)

    def between(self, number: Operand, low: int, high: int) -> str:
        """Whether low <= number <= high, as signed numbers of 64 bits."""
        above = self.value(f"sub i64 {number}, {low}")
        return self.compare("ule", "i64", above, high - low)

    def both(self, left: str, right: str) -> str:
        """Whether two conditions hold."""
        return self.value(f"and i1 {left}, {right}")

    def either(self, left: str, right: str) -> str:
        """Whether one of two conditions holds."""
        return self.value(f"or i1 {left}, {right}")

    def opposite(self, condition: str) -> str:
        """Whether a condition does not hold."""
        return self.value(f"xor i1 {condition}, true")

    # Calls

    def call(self, name: str, *arguments: Operand) -> str:
        """Calls a function of Python or a shared one."""
        if name in PYTHON:
            symbol, (result, *types) = name, PYTHON[name]
        else:
            symbol, function = symbol_of(name), FUNCTIONS[name]
            result, types = function.result, [each.split()[0] for each in function.parameters]
        return self.call_pointer(result, f"@{symbol}", *zip(types, arguments, strict=True))

    def call_pointer(self, result: str, function: str, *arguments: tuple[str, Operand]) -> str:
        """Calls a function by its address; `arguments` are pairs of a type and a value."""
        text = f"call {result} {function}({', '.join(f'{type} {value}' for type, value in arguments)})"
        if result != "void":
            return self.value(text)
        self.line(text)
        return ""

    # Control

    def require(self, condition: str) -> None:
        """Returns false if `condition` does not hold."""
        self._number += 1
        self.line(f"br i1 {condition}, label %next.{self._number}, label %surprise")
        self.line(f"next.{self._number}:")

    @contextlib.contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Runs what is written in the `with` block if `condition` holds."""
        self._number += 1
        number = self._number
        self.line(f"br i1 {condition}, label %then.{number}, label %end.{number}")
        self.line(f"then.{number}:")
        yield
        self.line(f"br label %end.{number}")
        self.line(f"end.{number}:")

    @contextlib.contextmanager
    def repeat(self, count: Operand) -> Iterator[str]:
        """Runs what is written in the `with` block for each number below `count`."""
        place = self.memory(8)
        self.store("i64", 0, place)
        self._number += 1
        number = self._number
        self.line(f"br label %loop.{number}")
        self.line(f"loop.{number}:")
        index = self.load("i64", place)
        more = self.compare("ult", "i64", index, count)
        self.line(f"br i1 {more}, label %turn.{number}, label %done.{number}")
        self.line(f"turn.{number}:")
        yield index
        self.store("i64", self.value(f"add i64 {index}, 1"), place)
        self.line(f"br label %loop.{number}")
        self.line(f"done.{number}:")

    def leave_when(self, condition: str, value: Operand) -> None:
        """Returns `value` if `condition` holds."""
        with self.when(condition):
            self.line(f"ret {self.result} {value}")
            self._number += 1
            self.line(f"unreached.{self._number}:")

    # Python's objects, whose layout `memory_layout.is_usable` has checked

    def type_of(self, obj: str) -> str:
        """The type of a Python object, borrowed."""
        return self.load("ptr", obj, memory_layout.TYPE)

    def size_of(self, obj: str) -> str:
        """The length of a tuple, list or bytes object."""
        return self.load("i64", obj, memory_layout.SIZE)

    def item(self, obj: str, index: Operand) -> str:
        """An item of a tuple, borrowed; the caller has checked the length."""
        return self.load("ptr", self.at(self.at(obj, memory_layout.ITEMS), index, 8))

    def octets(self, obj: str) -> str:
        """The address of the bytes of a bytes object."""
        return self.at(obj, memory_layout.OCTETS)

    def slot(self, obj: str, kind: type[Any], name: str) -> str:
        """The value of a slot of an object that is exactly of a class, borrowed. Returns false if it is not set."""
        found = self.load("ptr", obj, memory_layout.slot(kind, name))
        self.require(self.compare("ne", "ptr", found, "null"))
        return found

    def release(self, obj: str) -> None:
        """Releases a reference."""
        self.call("Py_DecRef", obj)

    def word(self, word: Word, type: str = "ptr") -> str:
        """An item of the table of words."""
        return self.load(type, f"@{symbol_of(TABLE)}", 8 * word)

    def is_word(self, value: str, word: Word) -> str:
        """Whether an address is equal to a word."""
        return self.equal("ptr", value, self.word(word))

    def has_type(self, obj: str, word: Word) -> str:
        """Whether a Python object is exactly of the type that a word names."""
        return self.is_word(self.type_of(obj), word)
