"""Arguments of an interoperable kernel: each is one parameter with the bytes that CUDA C++ would pass.

    describe(arguments, names)          arrays become descriptors: address, shape, strides in elements; None a null address
    boundary_packing(types)             where the leaves lie in a buffer, one parameter behind the other

`types/abi` says what the bytes are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache

from cuda_device.errors import LaunchError
from cuda_device.lazy_dataclasses import replace
from cuda_device.runtime.arrays.array_view import ArrayView
from cuda_device.runtime.launch.arguments import Argument
from cuda_device.types.abi import representation
from cuda_device.types.layout import accesses, align_of, leaves, size_of
from cuda_device.types.leaf_packing import Leaf, Packing, code_of, marks
from cuda_device.types.model import Array, NoneType, Struct, Tuple, Type

_NO_ALIGNMENT = 1


def describe(arguments: Sequence[Argument], names: Sequence[str]) -> list[Argument]:
    """The arguments with the leaves of their representations. Raises `LaunchError` for an array that has none."""
    described = []
    for argument, name in zip(arguments, names, strict=True):
        parts = _describe(argument.known.type, iter(argument.leaves), iter(argument.views), name)
        described.append(replace(argument, leaves=tuple(parts)))
    return described


def _describe(type: Type, values: Iterator[Leaf], views: Iterator[ArrayView], name: str) -> Iterator[Leaf]:
    match type:
        case NoneType():
            yield 0
        case Array():
            for _ in leaves(type):
                next(values)
            yield from _descriptor(next(views), name)
        case Tuple(elements):
            for i, element in enumerate(elements):
                yield from _describe(element, values, views, f"{name}[{i}]")
        case Struct(_, fields):
            for field in fields:
                yield from _describe(field.type, values, views, f"{name}.{field.name}")
        case _:
            for _ in leaves(type):
                yield next(values)


def _descriptor(view: ArrayView, name: str) -> Iterator[Leaf]:
    size = size_of(view.element)
    if any(stride % size for stride in view.strides):
        raise LaunchError(
            f"the argument {name!r}: its strides {view.strides} are no multiples of its elements' {size} bytes, which an "
            "interoperable kernel needs",
            "copy it (.copy())",
        )
    yield from (view.data, *view.shape, *(stride // size for stride in view.strides))


@lru_cache(maxsize=4096)
def boundary_packing(types: tuple[Type, ...]) -> Packing:
    """The packing of arguments of these types: an offset for each parameter."""
    found, codes, offsets, places, letters = [], [], [], [], []
    end = filled = 0
    for form in map(representation, types):
        start = -(-end // align_of(form)) * align_of(form)
        offsets.append(start)
        for access in accesses(form, _NO_ALIGNMENT):
            at, code = start + access.offset, code_of(access.type)
            codes.append(f"{at - filled}x{code}")
            places.append(at)
            letters.append(code)
            found.append(access.type)
            filled = at + struct.calcsize(f"={code}")
        end = start + size_of(form)
    codes.append(f"{end - filled}x")
    structure = struct.Struct("=" + "".join(codes))
    return Packing(structure, tuple(offsets), tuple(places), tuple(letters), *marks(found))
