"""Generates the launcher for one signature: machine code that checks and reads its arguments and starts the kernel.

    launch(scale, 2.0, x, y, grid=1, block=32)         # x, y: torch tensors of float32, one dimension, C order

    i1 launcher(state, values, launch):
        values[0] is a float: round it                  values[1], values[2] are torch.Tensor: ask torch for the DLTensor
        of float32 and one dimension, on the GPU of the kernel, contiguous, aligned, of fewer than 2**31 elements
        torch works on the stream of the launch,        y, which is written, shares no memory with x
        or on another one that is waited for
        start(launch, start, parameters)

If anything differs, the launcher gives up. The next launcher is tried, and finally Python, which handles all cases.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import reduce
from typing import Any

import numpy as np

from cuda_device.lazy_dataclasses import dataclass
from cuda_device.plugins.launchers import framework_fields
from cuda_device.plugins.launchers.entry import addresses
from cuda_device.plugins.launchers.guard_writer import GuardWriter, declarations, shared_declarations
from cuda_device.plugins.launchers.memory_layout import LAUNCH, OWN_ARRAY, RECORDS
from cuda_device.plugins.launchers.object_reading import torch_tensor
from cuda_device.runtime.arrays.device_array import DeviceArray
from cuda_device.runtime.arrays.dlpack import Exchange, exchange_of
from cuda_device.types.argument_packing import Packing, code_of
from cuda_device.types.exchange_formats import dlpack_of_element
from cuda_device.types.host import is_struct
from cuda_device.types.known import Known, of_type
from cuda_device.types.layout import WIDEST_ACCESS, align_of, leaves, size_of, usual_alignment
from cuda_device.types.model import BOOL, INT, Array, Layout, NoneType, Number, NumberKind, Pointer, Struct, Tuple
from cuda_device.types.struct_classes import REACHES_OTHERS

NAME = "launcher"
_CUDA = 2  # DLPack's number for the memory of a CUDA GPU
_EXACT = 1 << 53
"""Up to here each int is a double."""


class UnsupportedSignature(Exception):
    """Machine code cannot make launches with these arguments."""


@dataclass(frozen=True)
class Signature:
    """The launches that a launcher can make: `known` describes the arguments of the variant, `values` are an example."""

    known: tuple[Known, ...]
    values: tuple[Any, ...]
    written: frozenset[int]
    """The indices of the arrays that the kernel writes."""
    facts: bool | None
    """Whether the variant relies on the facts of `runtime/launch/launcher`, or is for all other arrays, or (None) for all."""
    packing: Packing
    described: bool
    """Whether arrays are passed as descriptors, and None as a null pointer."""
    device: int
    """The number of the GPU."""
    start: int
    """The address of the record of the loaded kernel."""


@dataclass(frozen=True)
class Launcher:
    """The LLVM IR of a launcher, and its memory: words that it reads, and words that it keeps between launches.

    The text does not depend on the process: addresses of objects and functions are in the memory. `keep` holds these objects.
    """

    text: str
    words: tuple[int, ...]
    keep: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Axes:
    """The address, lengths and strides of an array, as LLVM values; the strides are in units of `unit` bytes."""

    data: str
    lengths: tuple[str, ...]
    strides: tuple[str, ...]
    unit: int


def launcher(signature: Signature) -> Launcher:
    """The launcher of a signature. Raises `UnsupportedSignature`."""
    return _LauncherWriter(signature).write()


class _LauncherWriter:
    """Writes one launcher."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.code = GuardWriter(NAME, "i1", "ptr %state", "ptr %values", "ptr %launch", exported=True)
        self.buffer = self.code.memory(signature.packing.structure.size)
        self.leaves = iter(zip(signature.packing.places, signature.packing.codes, strict=True))
        self.spans: list[tuple[str, str]] = []
        self.facts: list[str] = []
        self.asked: set[object] = set()
        self.keep: list[object] = []
        self.words: list[int] = []
        self.given: dict[int, int] = {}

    def write(self) -> Launcher:
        code, signature = self.code, self.signature
        for i, (known, value) in enumerate(zip(signature.known, signature.values, strict=True)):
            self.argument(known, value, code.load("ptr", "%values", 8 * i))
        self.check_facts()
        start = self.word(signature.start)
        assert next(self.leaves, None) is None
        parameters = addresses(code, self.buffer, signature.packing.offsets)
        code.require(code.call("start", "%launch", start, parameters))
        types = "".join(record.declaration() for record in RECORDS)
        text = types + declarations() + shared_declarations() + code.text()
        return Launcher(text, tuple(self.words), tuple(self.keep))

    def word(self, value: int, type_: str = "ptr") -> str:
        """A number that depends on the process, such as an address, from the launcher's memory."""
        place = self.given.setdefault(value, len(self.words))
        if place == len(self.words):
            self.words.append(value)
        return self.code.load(type_, "%state", 8 * place)

    def address(self, obj: object) -> str:
        """The address of an object, which lives as long as the launcher."""
        self.keep.append(obj)
        return self.word(id(obj))

    # Arguments

    def leaf(self, kind: str, value: str) -> None:
        """Packs the next leaf, like `types/argument_packing`, before its value is checked: no register keeps it after that."""
        place, letter = next(self.leaves)
        bits = 8 * struct.calcsize(letter)
        if kind == "i64" and bits < 64:
            kind, value = f"i{bits}", self.code.value(f"trunc i64 {value} to i{bits}")
        self.code.store(kind, value, self.buffer, place)

    def argument(self, known: Known, value: Any, operand: str) -> None:
        """Reads an argument, or an item of one."""
        if isinstance(known.type, Tuple) and type(value) is tuple:
            self.items(known, value, operand)
        elif known.constant:
            self.constant(value, operand)
            if self.signature.described and isinstance(known.type, NoneType):
                self.leaf("i64", "0")
        elif isinstance(known.type, Array):
            self.array(known.type, value, operand)
        elif isinstance(known.type, Number):
            self.require_type(operand, type(value))
            self.number(known.type, value, operand)
        elif isinstance(known.type, Pointer):
            self.pointer(known.type, value, operand)
        elif isinstance(known.type, Struct) and is_struct(type(value)):
            self.struct(known.type, value, operand)
        else:
            raise UnsupportedSignature(f"a value of type {known.type}")

    def require_type(self, operand: str, kind: type[Any]) -> None:
        self.code.require(self.code.equal("ptr", self.code.type_of(operand), self.address(kind)))

    def items(self, known: Known, value: tuple[Any, ...], operand: str) -> None:
        self.require_type(operand, tuple)
        self.code.require(self.code.equal("i64", self.code.size_of(operand), len(value)))
        for i, (item, sample) in enumerate(zip(known.items, value, strict=True)):
            self.argument(item, sample, self.code.item(operand, i))

    def struct(self, type_: Struct, value: Any, operand: str) -> None:
        """The members of a struct, which never change. Kernels that reach the memory of other devices keep it alive."""
        code = self.code
        self.require_type(operand, type(value))
        for field in type_.fields:
            member = code.slot(operand, type(value), field.name)
            self.argument(of_type(field.type), getattr(value, field.name), member)
        if getattr(value, REACHES_OTHERS, False):
            code.require(code.compare("ne", "ptr", code.get(LAUNCH, "%launch", "pending"), "null"))
            code.set(LAUNCH, "%launch", "retained", 1)

    def constant(self, value: Any, operand: str) -> None:
        expected = self.address(value)
        if type(value) in (int, str) or (type(value) is float and value and not math.isnan(value)):
            self.code.require(self.code.call("same_constant", operand, expected))
        else:
            self.code.require(self.code.equal("ptr", operand, expected))

    def number(self, type_: Number, value: Any, operand: str) -> None:
        """Reads a number whose type has been compared, and converts it to the type of the hint in simple cases."""
        code, kind = self.code, type(value)
        if kind is bool and type_ == BOOL:
            true = code.equal("ptr", operand, self.address(True))
            self.leaf("i8", code.value(f"zext i1 {true} to i8"))
        elif kind is int and type_.kind in (NumberKind.INT, NumberKind.UINT):
            self.leaf("i64", self.integer(type_.low, type_.high, operand))
        elif kind is int and _is_real(type_):
            number = self.integer(-_EXACT, _EXACT, operand)
            self.real(type_, code.value(f"sitofp i64 {number} to double"))
        elif kind is float and _is_real(type_):
            self.real(type_, code.call("PyFloat_AsDouble", operand))
        elif kind is complex and type_.is_complex:
            for part in ("Real", "Imag"):
                self.real(type_.part, code.call(f"PyComplex_{part}AsDouble", operand))
        elif isinstance(value, np.generic):
            self.scalar(type_, value, operand)
        else:
            raise UnsupportedSignature(f"an object of type {kind} as {type_}")

    def integer(self, low: int, high: int, operand: str) -> str:
        """An int between two bounds."""
        code, found = self.code, self.code.memory(8)
        reads = ("integer", operand, found) if high >> 63 else ("int_of", operand, low, high, found)
        code.require(code.call(*reads))
        return code.load("i64", found)

    def real(self, type_: Number, double: str) -> None:
        """A float of 32 or 64 bits."""
        if type_.bits == 64:
            self.leaf("double", double)
        else:
            self.leaf("float", self.code.value(f"fptrunc double {double} to float"))

    def scalar(self, type_: Number, value: np.generic, operand: str) -> None:
        """Reads the bytes of a NumPy scalar."""
        codes = [code_of(leaf) for leaf in leaves(type_)]
        nbytes = sum(map(struct.calcsize, codes))
        try:
            buffer: Any = value  # NumPy's annotations say that it is a buffer since 2.5
            whole = memoryview(buffer).nbytes
        except (TypeError, BufferError) as error:
            raise UnsupportedSignature(f"an object of type {type(value)}") from error
        if whole != nbytes:
            raise UnsupportedSignature(f"an object of type {type(value)} has {whole} bytes")
        place = self.code.memory(nbytes)
        self.code.require(self.code.call("scalar", operand, place, nbytes))
        offset = 0
        for each in codes:
            bits = f"i{8 * struct.calcsize(each)}"
            self.leaf(bits, self.code.load(bits, place, offset))
            offset += struct.calcsize(each)

    # Pointers and arrays

    def pointer(self, type_: Pointer, value: Any, operand: str) -> None:
        """Reads an address, or the address of an array in C order. Arrays that may be read-only are left to Python."""
        void = isinstance(type_.dtype, NoneType)
        align = 1 if void else align_of(type_.dtype)
        if type(value) is int:
            self.require_type(operand, int)
            address = self.integer(0, (1 << 63) - 1, operand)
            self.leaf("i64", address)
            self.require_multiple(address, align)
            self.spans.append((address, address))
        else:
            own = type(value) is DeviceArray
            if not (own or type(value).__module__.partition(".")[0] == "torch") or (void and not own):
                raise UnsupportedSignature(f"a pointer to an object of type {type(value)}")
            array = Array(value._view.element if own else type_.dtype, len(value.shape), Layout.C)
            axes = self.axes(array, value, operand)
            self.leaf("i64", axes.data)
            self.check(array, axes, align)

    def require_multiple(self, number: str, factor: int) -> None:
        self.code.require(self.code.equal("i64", self.code.value(f"and i64 {number}, {factor - 1}"), 0))

    def array(self, type_: Array, value: Any, operand: str) -> None:
        """Reads an array, and packs its leaves."""
        if type_.align:
            raise UnsupportedSignature("an array of unusual alignment")
        axes = self.axes(type_, value, operand)
        for number in (axes.data, *axes.lengths):
            self.leaf("i64", number)
        if self.signature.described:
            for stride in axes.strides:
                self.leaf("i64", self.scaled(stride, axes.unit, size_of(type_.dtype)))
        elif type_.layout is Layout.STRIDED:
            for stride in axes.strides:
                self.leaf("i64", self.times(stride, axes.unit))
        align = min(usual_alignment(type_.dtype), WIDEST_ACCESS)
        self.check(type_, axes, align)
        if type_.layout is Layout.STRIDED and axes.unit < align:
            for stride in axes.strides:
                self.require_multiple(stride, align)

    def check(self, type_: Array, axes: _Axes, align: int) -> None:
        """Checks the layout, the alignment and the size of an array, and notes its span."""
        self.check_layout(type_, axes)
        self.require_multiple(axes.data, align)
        self.spans.append(self.span(type_, axes, self.size(axes)))

    def axes(self, type_: Array, value: Any, operand: str) -> _Axes:
        """Reads an array of the type of the example."""
        kind = type(value)
        if kind is DeviceArray:
            return self.own(type_, value, operand)
        if kind.__name__ == "ndarray" and kind.__module__ == "cupy":
            return self.cupy(type_, value, operand)
        return self.exchanged(type_, value, operand)

    def exchanged(self, type_: Array, value: Any, operand: str) -> _Axes:
        """Reads an array by DLPack's C exchange API."""
        kind = type(value)
        exchange = exchange_of(kind)
        # A lent tensor does not tell whether its memory is read-only. Torch has no such memory.
        is_safe = kind.__module__.partition(".")[0] == "torch" or len(self.spans) not in self.signature.written
        if exchange is None or not exchange.lend or not is_safe:
            raise UnsupportedSignature(f"an array of type {kind}")
        code, ndim, found = self.code, type_.ndim, self.code.memory(24)
        fields = self.torch_fields(type_, value, operand, found)
        with nullcontext() if fields is None else code.when(code.opposite(fields)):
            self.lend(type_, value, operand, exchange, found)
        data, shape, steps = (code.load(kind, found, 8 * i) for i, kind in enumerate(("i64", "ptr", "ptr")))
        axes = _Axes(data, self.loaded(shape, 0, ndim), self.loaded(steps, 0, ndim), size_of(type_.dtype))
        if exchange.address not in self.asked:
            self.asked.add(exchange.address)
            code.require(code.call("works_on", self.word(exchange.tell), self.signature.device, "%launch"))
        return axes

    def torch_fields(self, type_: Array, value: Any, operand: str, found: str) -> str | None:
        """Reads the fields of a torch tensor; returns whether they are as in the example, or None if they are unknown."""
        torch_type: Any = type(value)
        layout = framework_fields.torch_layout(torch_type) if type_.ndim <= framework_fields.MOST_TORCH_AXES else None
        words = framework_fields.torch_words(layout, value) if layout is not None else None
        if layout is None or words is None:
            return None
        keys, kind, freed = words
        expected = self.word(keys, "i64"), kind, self.word(freed, "i64")
        shape = type_.ndim, size_of(type_.dtype)
        return torch_tensor(self.code, operand, self.address(torch_type), layout, expected, shape, found)

    def lend(self, type_: Array, value: Any, operand: str, exchange: Exchange, found: str) -> None:
        """Stores the address of the memory of an array, and of its lengths and strides, in `found`."""
        graded = self.address("requires_grad") if hasattr(value, "requires_grad") else "null"
        element, bits = dlpack_of_element(type_.dtype)
        what = int.from_bytes(struct.pack("=iBBH", type_.ndim, element, bits, 1), sys.byteorder)
        where = int.from_bytes(struct.pack("=ii", _CUDA, self.signature.device), sys.byteorder)
        kind, lend = self.address(type(value)), self.word(exchange.lend)
        self.code.require(self.code.call("lent_tensor", operand, kind, graded, lend, where, what, found))
        self.check_reservations(type_, value, operand)

    def check_reservations(self, type_: Array, value: Any, operand: str) -> None:
        """Refuses tensors that are negated or conjugated views. The tensor is asked at each launch."""
        assert isinstance(type_.dtype, Number)
        inexact = type_.dtype.kind in (NumberKind.FLOAT, NumberKind.COMPLEX)
        questions = {"is_neg": inexact, "is_conj": type_.dtype.kind is NumberKind.COMPLEX}
        for name in [name for name, asked in questions.items() if asked and hasattr(value, name)]:
            self.code.require(self.code.call("denies", operand, self.address(name)))

    def own(self, type_: Array, value: DeviceArray, operand: str) -> _Axes:
        """Reads an array of ours, which is always in C order."""
        code, ndim, found = self.code, type_.ndim, self.code.memory(8)
        element = self.address(value._view.element)
        code.require(code.call("own_array", operand, element, ndim, "%launch", found))
        words = code.load("ptr", found)
        lengths = self.loaded(words, 8 * len(OWN_ARRAY), ndim)
        return _Axes(code.load("i64", words), lengths, self.row_major(lengths), size_of(type_.dtype))

    def row_major(self, lengths: Sequence[str]) -> tuple[str, ...]:
        """The strides of an array in C order, in elements."""
        strides, step = [], "1"
        for length in reversed(lengths):
            strides.append(step)
            step = self.code.value(f"mul i64 {step}, {length}")
        return tuple(reversed(strides))

    def cupy(self, type_: Array, value: Any, operand: str) -> _Axes:
        """Reads the fields of a CuPy array."""
        code, ndim, device = self.code, type_.ndim, self.signature.device
        kind: Any = type(value)
        layout = framework_fields.cupy_layout(kind)
        if layout is None:
            raise UnsupportedSignature("arrays of an unknown version of CuPy")
        self.require_type(operand, kind)
        code.require(code.equal("ptr", code.load("ptr", operand, layout["dtype"]), self.address(value.dtype)))
        data = code.load("ptr", operand, layout["data"])
        code.require(code.compare("ne", "ptr", data, "null"))
        self.require_type(data, type(value.data))
        code.require(code.equal("i32", code.load("i32", data, layout["device"]), device))
        numbers = {}
        for name in ("shape", "strides"):
            begin, end = (code.load("ptr", operand, layout[name] + 8 * i) for i in range(2))
            code.require(code.equal("ptr", end, code.at(begin, 8 * ndim)))
            numbers[name] = self.loaded(begin, 0, ndim)
        axes = _Axes(code.load("i64", data, layout["address"]), numbers["shape"], numbers["strides"], 1)
        if "cupy" not in self.asked:
            self.asked.add("cupy")
            function = self.address(sys.modules["cupy"].cuda.get_current_stream)
            code.require(code.call("cupy_works_on", function, self.address(device), "%launch"))
        return axes

    def loaded(self, memory: str, offset: int, count: int) -> tuple[str, ...]:
        return tuple(self.code.load("i64", memory, offset + 8 * i) for i in range(count))

    # Layout and facts

    def check_layout(self, type_: Array, axes: _Axes) -> None:
        """Requires that an array has elements and the layout of its type; one that is C and F is C."""
        code = self.code
        for length in axes.lengths:
            code.require(code.compare("sgt", "i64", length, 0))
        step = size_of(type_.dtype) // axes.unit
        in_c = self.dense(axes.lengths[::-1], axes.strides[::-1], step)
        if type_.layout is Layout.C:
            code.require(in_c)
            return
        in_f = self.dense(axes.lengths, axes.strides, step)
        code.require(code.opposite(in_c))
        code.require(in_f if type_.layout is Layout.F else code.opposite(in_f))

    def dense(self, lengths: Sequence[str], strides: Sequence[str], step: int) -> str:
        """Whether axes, from the fastest to the slowest, leave no gap (see `array_view.layout_of`)."""
        code, found, here = self.code, "true", str(step)
        for length, stride in zip(lengths, strides, strict=True):
            right = code.either(code.equal("i64", length, 1), code.equal("i64", stride, here))
            found = code.both(found, right)
            here = code.value(f"mul i64 {here}, {length}")
        return found

    def size(self, axes: _Axes) -> str:
        """The number of elements. The facts include that it and each length are small."""
        code, size, facts = self.code, "1", []
        for length in axes.lengths:
            size = code.value(f"mul i64 {size}, {length}")
            facts += [code.compare("ule", "i64", number, INT.high) for number in (length, size)]
        self.add_facts(facts)
        return size

    def span(self, type_: Array, axes: _Axes, size: str) -> tuple[str, str]:
        """The addresses of the first byte of an array and of the byte after its last."""
        code, itemsize = self.code, size_of(type_.dtype)
        if type_.layout is not Layout.STRIDED:
            return axes.data, code.value(f"add i64 {axes.data}, {self.times(size, itemsize)}")
        low = high = axes.data
        for length, stride in zip(axes.lengths, axes.strides, strict=True):
            last = code.value(f"sub i64 {length}, 1")
            reach = self.times(code.value(f"mul i64 {last}, {stride}"), axes.unit)
            down = code.compare("slt", "i64", reach, 0)
            low = code.value(f"add i64 {low}, {code.value(f'select i1 {down}, i64 {reach}, i64 0')}")
            high = code.value(f"add i64 {high}, {code.value(f'select i1 {down}, i64 0, i64 {reach}')}")
        return low, code.value(f"add i64 {high}, {itemsize}")

    def times(self, number: str, factor: int) -> str:
        return number if factor == 1 else self.code.value(f"mul i64 {number}, {factor}")

    def scaled(self, stride: str, unit: int, itemsize: int) -> str:
        """A stride in elements."""
        if unit == itemsize:
            return stride
        code = self.code
        code.require(code.equal("i64", code.value(f"srem i64 {stride}, {itemsize // unit}"), 0))
        return code.value(f"sdiv i64 {stride}, {itemsize // unit}")

    def add_facts(self, facts: list[str]) -> None:
        """Requires facts on which the variant relies, or notes them for the variant that is launched if one of them fails."""
        if self.signature.facts:
            self.code.require(reduce(self.code.both, facts, "true"))
        self.facts += facts

    def check_facts(self) -> None:
        """Adds the fact that no written array overlaps another one, and requires that a fact fails, in that variant."""
        if self.signature.facts is None:
            return
        code = self.code
        pairs = {frozenset((i, j)) for i in self.signature.written for j in range(len(self.spans)) if i != j}
        for i, j in sorted(map(sorted, pairs)):
            (low, high), (start, end) = self.spans[i], self.spans[j]
            apart = code.either(code.compare("uge", "i64", start, high), code.compare("uge", "i64", low, end))
            self.add_facts([apart])
        if not self.signature.facts:
            code.require(code.opposite(reduce(code.both, self.facts, "true")))


def _is_real(type_: Number) -> bool:
    """Whether a type is a float of 32 or 64 bits."""
    return type_.kind is NumberKind.FLOAT and type_.bits >= 32
