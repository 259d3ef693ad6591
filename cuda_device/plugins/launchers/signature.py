"""Describes the launches that a plan can make: a row for each argument of an example (`argument_reading`).

    launch(scale, 2.0, x, y, 7, grid=1, block=32)         # x, y: torch tensors of float32, one dimension, C order

    plan of scale for (float, Tensor, Tensor, int)  →     FLOAT, TORCH, STREAM, TORCH, INT

Machine code checks at each launch whether the arguments have exactly these types, layouts and devices. If anything differs, the
next plan is tried, and finally Python, which handles all cases.
"""

from __future__ import annotations

import ctypes
import math
import struct
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cuda_device import DeviceArray
from cuda_device.extend import Known, layout, model
from cuda_device.plugins.launchers import framework_fields, memory_layout
from cuda_device.plugins.launchers.memory_layout import Array, AxisOrder, OwnedRecord, Plan, Row, RowKind, buffer, pack
from cuda_device.runtime.arrays.dlpack import Exchange, exchange_of
from cuda_device.types.argument_packing import code_of
from cuda_device.types.exchange_formats import dlpack_of_element
from cuda_device.types.host import is_struct
from cuda_device.types.known import of_type
from cuda_device.types.struct_classes import REACHES_OTHERS

if TYPE_CHECKING:
    from cuda_device.extend import ByValue, CompiledKernel

_CUDA = 2  # DLPack's number for the memory of a CUDA GPU
_SPARE = 24
"""The bytes that a row may need behind the arguments."""
_EXACT = 1 << 53
"""Up to here each int is a double."""
_ORDERS = {model.Layout.C: AxisOrder.C, model.Layout.F: AxisOrder.F, model.Layout.STRIDED: AxisOrder.STRIDED}


class UnsupportedSignature(Exception):
    """Machine code cannot make launches with these arguments."""


def plan_of(
    variant: CompiledKernel, values: Sequence[Any], facts: bool | None, device: int, start: OwnedRecord
) -> OwnedRecord:
    """The record `Plan` for launches with arguments like `values` on a GPU. Raises `UnsupportedSignature`.

    `facts` says whether the variant relies on the facts of `runtime/launch/launcher`, or is for all other arrays, or (None) for
    all. `start` is the record of the loaded kernel.
    """
    packing = variant.packing
    if packing.structure.size > memory_layout.MOST_BYTES - _SPARE or len(packing.offsets) > memory_layout.MOST_LEAVES:
        raise UnsupportedSignature(f"arguments of {packing.structure.size} bytes")
    writer = _RowWriter(variant, device)
    for i, (known, value) in enumerate(zip(variant.work.job.known, values, strict=True)):
        writer.argument(known, value, (0, 8 * i))
    assert next(writer.leaves, None) is None
    rows, offsets = b"".join(writer.rows), struct.pack(f"={len(packing.offsets)}Q", *packing.offsets)
    tables = buffer(rows), buffer(offsets)
    record = pack(
        Plan,
        start=start.address,
        rows=ctypes.addressof(tables[0]),
        count=len(writer.rows),
        facts=-1 if facts is None else facts,
        written=sum(1 << i for i in writer.written),
        spans=writer.spans,
        offsets=ctypes.addressof(tables[1]),
        parameters=len(packing.offsets),
    )
    return OwnedRecord(buffer(record), (*tables, *writer.keep, start))


class _RowWriter:
    """Writes the rows of a signature. The `source` of an object is an owner and an offset in it."""

    def __init__(self, variant: CompiledKernel, device: int) -> None:
        self.device, self.written = device, variant.work.outline.written
        self.described = variant.described  # arrays are passed as descriptors, and None as a null pointer
        self.leaves = iter(zip(variant.packing.leaf_offsets, variant.packing.codes, strict=True))
        self.end = -(-variant.packing.structure.size // 8) * 8
        self.rows: list[bytes] = []
        self.keep: list[object] = []
        self.asked: set[object] = set()
        self.owners, self.spans = 1, 0

    def row(self, kind: RowKind, source: tuple[int, int], type_: Any = None, **fields: int) -> None:
        owner, offset = source
        type_of = 0 if type_ is None else self.address(type_)
        self.rows.append(pack(Row, kind=kind, owner=owner, offset=offset, type=type_of, **fields))

    def address(self, obj: object) -> int:
        """The address of an object, which lives as long as the plan."""
        self.keep.append(obj)
        return id(obj)

    def leaf(self) -> dict[str, int]:
        """The offset and the size of the next leaf."""
        offset, code = next(self.leaves)
        return {"target": offset, "size": struct.calcsize(code)}

    def span(self) -> int:
        """The number of the next span."""
        self.spans += 1
        if self.spans > memory_layout.MOST_SPANS:
            raise UnsupportedSignature(f"more than {memory_layout.MOST_SPANS} arrays")
        return self.spans - 1

    def owner(self) -> int:
        """The number of the next owner."""
        self.owners += 1
        if self.owners > memory_layout.MOST_OWNERS:
            raise UnsupportedSignature(f"more than {memory_layout.MOST_OWNERS} tuples and structs")
        return self.owners - 1

    # Arguments

    def argument(self, known: Known, value: Any, source: tuple[int, int]) -> None:
        """Reads an argument, or an item of one."""
        if isinstance(known.type, model.Tuple) and type(value) is tuple:
            self.items(known, value, source)
        elif known.constant:
            self.constant(known, value, source)
        elif isinstance(known.type, model.Array):
            self.array(known.type, value, source)
        elif isinstance(known.type, model.Number):
            self.number(known.type, value, source)
        elif isinstance(known.type, model.Pointer):
            self.pointer(known.type, value, source)
        elif isinstance(known.type, model.Ref):
            self.by_value(value, source)
        elif isinstance(known.type, model.Struct) and is_struct(type(value)):
            self.struct(known.type, value, source)
        else:
            raise UnsupportedSignature(f"a value of type {known.type}")

    def items(self, known: Known, value: tuple[Any, ...], source: tuple[int, int]) -> None:
        owner = self.owner()
        self.row(RowKind.TUPLE, source, tuple, size=len(value), target=owner)
        for i, (item, sample) in enumerate(zip(known.items, value, strict=True)):
            self.argument(item, sample, (owner, memory_layout.ITEMS + 8 * i))

    def struct(self, type_: model.Struct, value: Any, source: tuple[int, int]) -> None:
        """The members of a struct, which never change. Kernels that reach the memory of other devices keep it alive."""
        owner = self.owner()
        self.row(RowKind.STRUCT, source, type(value), target=owner, low=bool(getattr(value, REACHES_OTHERS, False)))
        for field in type_.fields:
            offset = memory_layout.slot(type(value), field.name)
            self.argument(of_type(field.type), getattr(value, field.name), (owner, offset))

    def by_value(self, value: ByValue, source: tuple[int, int]) -> None:
        """The bytes of an object, and the array to which they refer. Its address goes where the arguments do not reach."""
        owner, kind, leaf, array = self.owner(), type(value), self.leaf(), value._view.type
        if leaf["size"] % 8:
            raise UnsupportedSignature(f"an argument of {leaf['size']} bytes")
        self.row(RowKind.STRUCT, source, kind, target=owner)
        self.row(RowKind.SAME, (owner, memory_layout.slot(kind, "_known")), low=self.address(value._known))
        place = (owner, memory_layout.slot(kind, "_array"))
        self.read_array(array, value._array, place, {"align": 1, "target": self.end, "strides": -1})
        self.row(RowKind.UINT64, (owner, memory_layout.slot(kind, "_address")), int, target=self.end + 8, size=8)
        self.row(RowKind.BYTES, (owner, memory_layout.slot(kind, "_on_gpu")), bytes, low=self.end, **leaf)

    def constant(self, known: Known, value: Any, source: tuple[int, int]) -> None:
        plain = type(value) in (int, str) or (type(value) is float and value and not math.isnan(value))
        null = self.leaf() if self.described and isinstance(known.type, model.NoneType) else {}
        self.row(RowKind.EQUAL if plain else RowKind.SAME, source, low=self.address(value), **null)

    def number(self, type_: model.Number, value: Any, source: tuple[int, int]) -> None:
        """Reads a number, and converts it to the type of the hint in simple cases."""
        kind, real = type(value), type_.kind is model.NumberKind.FLOAT and type_.bits >= 32
        if kind is bool and type_ == model.BOOL:
            self.row(RowKind.BOOL, source, kind, **self.leaf())
        elif kind is int and type_.kind in (model.NumberKind.INT, model.NumberKind.UINT):
            row = RowKind.UINT64 if type_.high >> 63 else RowKind.INT
            self.row(row, source, kind, low=type_.low, high=type_.high, **self.leaf())
        elif kind is int and real:
            self.row(RowKind.INT_AS_FLOAT, source, kind, low=-_EXACT, high=_EXACT, **self.leaf())
        elif kind is float and real:
            self.row(RowKind.FLOAT, source, kind, **self.leaf())
        elif kind is complex and type_.is_complex:
            self.row(RowKind.COMPLEX, source, kind, **self.consecutive(2))
        elif isinstance(value, np.generic):
            self.scalar(type_, value, source)
        else:
            raise UnsupportedSignature(f"an object of type {kind} as {type_}")

    def consecutive(self, count: int) -> dict[str, int]:
        """The offset and the size of the first of several leaves, one of which follows the other."""
        first, *rest = (self.leaf() for _ in range(count))
        for i, leaf in enumerate(rest, 1):
            if leaf != first | {"target": first["target"] + i * first["size"]}:
                raise UnsupportedSignature("parts that are not in one piece")
        return first

    def scalar(self, type_: model.Number, value: np.generic, source: tuple[int, int]) -> None:
        """Reads the bytes of a NumPy scalar."""
        codes = [code_of(leaf) for leaf in layout.leaves(type_)]
        try:
            view: Any = value  # NumPy's annotations say that it is a buffer since 2.5
            nbytes = memoryview(view).nbytes
        except (TypeError, BufferError) as error:
            raise UnsupportedSignature(f"an object of type {type(value)}") from error
        if nbytes != sum(map(struct.calcsize, codes)):
            raise UnsupportedSignature(f"an object of type {type(value)} has {nbytes} bytes")
        self.row(RowKind.SCALAR, source, type(value), **self.consecutive(len(codes)) | {"size": nbytes})

    # Pointers and arrays

    def pointer(self, type_: model.Pointer, value: Any, source: tuple[int, int]) -> None:
        """Reads an address, or the address of an array in C order. Arrays that may be read-only are left to Python."""
        void = isinstance(type_.dtype, model.NoneType)
        align = 1 if void else layout.align_of(type_.dtype)
        if type(value) is int:
            target, span = self.leaf()["target"], self.span()
            self.row(RowKind.ADDRESS, source, int, high=span, target=target, size=align)
        else:
            is_ours = type(value) is DeviceArray
            if not (is_ours or type(value).__module__.partition(".")[0] == "torch") or (void and not is_ours):
                raise UnsupportedSignature(f"a pointer to an object of type {type(value)}")
            array = model.Array(value._view.element if is_ours else type_.dtype, len(value.shape), model.Layout.C)
            self.read_array(array, value, source, {"align": align, "target": self.leaf()["target"], "strides": -1})

    def array(self, type_: model.Array, value: Any, source: tuple[int, int]) -> None:
        """Reads an array with the leaves of its type."""
        if type_.align:
            raise UnsupportedSignature("an array of unusual alignment")
        described, strided = self.described, type_.layout is model.Layout.STRIDED
        form = {
            "align": min(layout.usual_alignment(type_.dtype), layout.WIDEST_ACCESS),
            "strides": -1,
            **self.leaf_of("target"),
        }
        if type_.ndim:
            lengths = self.consecutive(type_.ndim)
            form |= {"lengths": lengths["target"], "length_size": lengths["size"]}
            if described or strided:
                form |= self.leaf_of("strides", type_.ndim)
        self.read_array(type_, value, source, form)

    def read_array(self, type_: model.Array, value: Any, source: tuple[int, int], form: dict[str, int]) -> None:
        """Reads an array of the type of the example. `form` says where its leaves are."""
        kind, itemsize = type(value), layout.size_of(type_.dtype)
        form |= {"ndim": type_.ndim, "order": _ORDERS[type_.layout], "itemsize": itemsize, "span": self.span()}
        if kind is DeviceArray:
            row, unit, stream = RowKind.OWN_ARRAY, itemsize, None
            form["element"] = self.address(value._view.element)
        elif kind.__name__ == "ndarray" and kind.__module__ == "cupy":
            row, unit = RowKind.CUPY, 1
            form |= self.fields_of_cupy(value)
            function = sys.modules["cupy"].cuda.get_current_stream
            stream = RowKind.CUPY_STREAM, self.address(function), self.address(self.device)
        else:
            exchange = self.exchange(value, form["span"])
            fields = self.fields_of_torch(type_, value)
            row, unit = RowKind.TORCH if fields else RowKind.LENT, itemsize
            form |= fields | self.fields_of_dlpack(type_, value, exchange)
            stream = RowKind.STREAM, exchange.tell, self.device
        form |= {"unit": unit, "step": itemsize // unit, "divisor": itemsize // unit if self.described else 0}
        form["stride_align"] = form["align"] if unit < form["align"] else 1
        record = buffer(pack(Array, **form))
        self.keep.append(record)
        self.row(row, source, kind, low=ctypes.addressof(record))
        if stream is not None and stream not in self.asked:
            self.asked.add(stream)
            self.row(stream[0], (0, 0), low=stream[1], high=stream[2])

    def exchange(self, value: Any, span: int) -> Exchange:
        """The table of an array with DLPack's C exchange API."""
        kind = type(value)
        exchange = exchange_of(kind)
        # A lent tensor does not tell whether its memory is read-only. Torch has no such memory.
        is_safe = kind.__module__.partition(".")[0] == "torch" or span not in self.written
        if exchange is None or not exchange.lend or not is_safe:
            raise UnsupportedSignature(f"an array of type {kind}")
        return exchange

    def fields_of_torch(self, type_: model.Array, value: Any) -> dict[str, int]:
        """The fields of a torch tensor; none if they are unknown."""
        torch_type: Any = type(value)
        offsets = framework_fields.torch_layout(torch_type) if type_.ndim <= framework_fields.MOST_TORCH_AXES else None
        words = framework_fields.torch_words(offsets, value) if offsets is not None else None
        if offsets is None or words is None:
            return {}
        return {f"torch_{name}": offset for name, offset in offsets.items()} | dict(
            zip(("keys", "kind", "freed"), words, strict=True)
        )

    def fields_of_dlpack(self, type_: model.Array, value: Any, exchange: Exchange) -> dict[str, int]:
        """The words of a DLTensor, and the reservations about a tensor for which it is asked at each launch."""
        assert isinstance(type_.dtype, model.Number)
        element, bits = dlpack_of_element(type_.dtype)
        inexact, is_complex = (
            type_.dtype.kind in (model.NumberKind.FLOAT, model.NumberKind.COMPLEX),
            type_.dtype.is_complex,
        )
        names = {"graded": "requires_grad"}
        names |= {"negated": "is_neg"} if inexact else {}
        names |= {"conjugated": "is_conj"} if is_complex else {}
        return {
            "lend": exchange.lend,
            "where": int.from_bytes(struct.pack("=ii", _CUDA, self.device), sys.byteorder),
            "what": int.from_bytes(struct.pack("=iBBH", type_.ndim, element, bits, 1), sys.byteorder),
            **{field: self.address(name) for field, name in names.items() if hasattr(value, name)},
        }

    def fields_of_cupy(self, value: Any) -> dict[str, int]:
        """The fields of a CuPy array."""
        kind: Any = type(value)
        offsets = framework_fields.cupy_layout(kind)
        if offsets is None:
            raise UnsupportedSignature("arrays of an unknown version of CuPy")
        return {
            **{f"cupy_{name}": offset for name, offset in offsets.items()},
            "element": self.address(value.dtype),
            "buffer_type": self.address(type(value.data)),
            "device": self.device,
        }

    def leaf_of(self, name: str, count: int = 1) -> dict[str, int]:
        """The offset of the first of several leaves of 8 bytes, as the field `name` of an array."""
        first = self.consecutive(count)
        if first["size"] != 8:
            raise UnsupportedSignature("addresses and strides that do not have 64 bits")
        return {name: first["target"]}
