"""The vector classes on the host: `float32x4(1, 2, 3, 4)`, immutable, with elementwise arithmetic.

    v = float32x4(1, 2, 3, 4)
    v.x, v[3], len(v), tuple(v), v * 2, v + v

`host_vector` creates the class of each dtype and size. In device code they are `types.model.Vector`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import Parameter, Signature
from typing import Any, ClassVar

import numpy as np

from cuda_device.errors import ArgumentError
from cuda_device.types.host import dtype_of_type, element_of, host_type_of, members_of, number_of
from cuda_device.types.layout import size_of
from cuda_device.types.model import FIXED_NUMBERS, UINT32, AtomicCell, Number, Struct, Subarray, Tuple, Type, Vector

AXES = "xyzw"


Operator = Callable[["VectorValue", Any], Any]


def _elementwise(function: Callable[[Any, Any], Any]) -> tuple[Operator, Operator]:
    """The methods of an operator for a vector on the left, and on the right, of another operand."""
    return _operator(function, swapped=False), _operator(function, swapped=True)


def _operator(function: Callable[[Any, Any], Any], swapped: bool) -> Operator:
    def operate(self: VectorValue, other: Any) -> Any:
        if isinstance(other, VectorValue):
            if len(other) != len(self):
                return NotImplemented
            others = tuple(other)
        elif isinstance(other, (bool, int, float, complex, np.generic)):
            others = (_beside(other, self.model.dtype, self.dtype),) * len(self)
        else:
            return NotImplemented
        pairs = zip(others, self, strict=True) if swapped else zip(self, others, strict=True)
        return _vector_of([function(a, b) for a, b in pairs])

    return operate


def _beside(number: Any, dtype: Number, scalar: Any) -> Any:
    """A number as an operand for the elements of a vector: a Python number takes the type of a float element.

    NumPy does this for its own scalars; bfloat16 and 8-bit floats would become float64.
    """
    if isinstance(number, np.generic) or not dtype.is_float or isinstance(number, complex):
        return number
    return scalar(number)


def _unary(function: Callable[[Any], Any]) -> Callable[[VectorValue], Any]:
    return lambda self: _vector_of([function(item) for item in self])


class VectorValue:
    """The base of the host's vector classes. Specification: 'Vectors'."""

    __slots__ = ("_items",)
    __array_priority__ = -1.0
    """Above NumPy's scalars, so that `float32(2) * v` calls our method, and below arrays, for which a vector is a row."""
    dtype: ClassVar[Any]
    size: ClassVar[Any]
    model: ClassVar[Vector]
    _items: tuple[Any, ...]

    def __init__(self, *args: Any) -> None:
        if type(self) is VectorValue:
            raise TypeError(
                "Vector is the base class of all vectors: create one with a size and a dtype, such as float32x4(…)"
            )
        if len(args) != self.model.size:
            raise TypeError(f"{type(self).__name__} has {self.model.size} elements, not {len(args)}")
        if any(isinstance(arg, (str, bytes)) for arg in args):  # NumPy parses them, and ml_dtypes 0.6 crashes
            raise ArgumentError(f"{type(self).__name__} takes numbers, not strings")
        try:
            items = tuple(map(self.dtype, args))
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{type(self).__name__} takes numbers: {error}") from None
        if any(isinstance(item, np.ndarray) for item in items):
            raise ArgumentError(f"{type(self).__name__} takes numbers, not arrays")
        object.__setattr__(self, "_items", items)

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError(f"vectors are immutable: write v = replace(v, {name}=…)")

    def __delattr__(self, name: str) -> None:
        raise TypeError("vectors are immutable")

    def __getattribute__(self, name: str) -> Any:
        # `v.__setitem__(i, a)` returns a new vector; the statement `v[i] = a` looks the method up in the class, which refuses it.
        if name == "__setitem__":
            return object.__getattribute__(self, "_with_item")
        return object.__getattribute__(self, name)

    def __setitem__(self, i: int, value: Any) -> None:
        raise TypeError(f"vectors are immutable: write v = v.__setitem__({i!r}, …), which returns a new one")

    def _with_item(self, i: int, value: Any) -> Any:
        items = list(self._items)
        items[self._position(i)] = value
        return type(self)(*items)

    def _position(self, i: int) -> int:
        index = operator.index(i)
        if not -len(self._items) <= index < len(self._items):
            raise IndexError(f"{type(self).__name__} has no element {i}")
        return index % len(self._items)

    def __getitem__(self, i: int) -> Any:
        return self._items[self._position(i)]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VectorValue) or len(other) != len(self):
            return NotImplemented
        return all(bool(a == b) for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((type(self), self._items))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(str(item) for item in self._items)})"

    def view(self, dtype: Any) -> Any:
        """The bits of this vector as a number or vector of the same size: `float16x2(1, 2).view(uint32)`."""
        target = element_of(dtype)
        if not isinstance(target, (Number, Vector)) or size_of(target) != size_of(self.model):
            raise TypeError(f"{type(self).__name__} cannot be viewed as {target}: their sizes differ")
        bits = b"".join(item.tobytes() for item in self._items)
        return value_of(target, np.frombuffer(bits, dtype_of_type(target))[0])

    def __replace__(self, /, **changes: Any) -> Any:
        return replaced(self, AXES[: len(self)], changes)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._items

    __add__, __radd__ = _elementwise(operator.add)
    __sub__, __rsub__ = _elementwise(operator.sub)
    __mul__, __rmul__ = _elementwise(operator.mul)
    __truediv__, __rtruediv__ = _elementwise(operator.truediv)
    __floordiv__, __rfloordiv__ = _elementwise(operator.floordiv)
    __mod__, __rmod__ = _elementwise(operator.mod)
    __pow__, __rpow__ = _elementwise(operator.pow)
    __and__, __rand__ = _elementwise(operator.and_)
    __or__, __ror__ = _elementwise(operator.or_)
    __xor__, __rxor__ = _elementwise(operator.xor)
    __lshift__, __rlshift__ = _elementwise(operator.lshift)
    __rshift__, __rrshift__ = _elementwise(operator.rshift)
    __neg__ = _unary(operator.neg)
    __pos__ = _unary(operator.pos)
    __invert__ = _unary(operator.invert)
    __abs__ = _unary(operator.abs)


def replaced(value: Any, names: Iterable[str], changes: Mapping[str, Any]) -> Any:
    """A copy of a value with some of its members changed. Raises `TypeError` for members that do not exist."""
    values = {name: getattr(value, name) for name in names}
    for name in changes:
        if name not in values:
            raise TypeError(f"{type(value).__name__} has no member {name!r}")
    return type(value)(*{**values, **changes}.values())


def _vector_of(items: list[Any]) -> Any:
    """A vector of NumPy scalars of one type."""
    kind = type(items[0])
    cls = host_vector(Vector(number_of(kind), len(items)))
    if cls is None:
        raise TypeError(f"there is no vector of {kind.__name__}")
    return cls(*items)


def _axis(index: int) -> property:
    return property(lambda self: self._items[index], doc=f"Element {index}.")


def _make(scalar: Any, model: Vector) -> type[VectorValue]:
    name = f"{model.dtype}x{model.size}"
    body: dict[str, Any] = {
        "__slots__": (),
        "__doc__": f"An immutable vector of {model.size} {model.dtype}. Specification: 'Vectors'.",
        "__module__": "cuda_device",
        "dtype": scalar,
        "size": np.int32(model.size),
        "model": model,
        "__signature__": Signature(
            [Parameter(axis, Parameter.POSITIONAL_ONLY, annotation=scalar) for axis in AXES[: model.size]]
        ),
        **{AXES[i]: _axis(i) for i in range(model.size)},
    }
    return type(name, (VectorValue,), body)


_DTYPES = {name: number for name, number in FIXED_NUMBERS.items() if not number.is_complex}
_CLASSES: dict[Vector, type[VectorValue]] = {}


def host_vector(model: Vector) -> type[VectorValue] | None:
    """The host's class of a vector type, created at its first use, or None."""
    cls = _CLASSES.get(model)
    if cls is None and model.dtype in _DTYPES.values():
        cls = _CLASSES.setdefault(model, _make(host_type_of(model.dtype), model))
    return cls


def __getattr__(name: str) -> Any:
    """A class by its name, such as `float32x4`."""
    dtype, _, size = name.rpartition("x")
    if dtype in _DTYPES and size in ("1", "2", "3", "4"):
        return host_vector(Vector(_DTYPES[dtype], int(size)))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def families() -> dict[str, Any]:
    """All vector classes by their names."""
    return {name: __getattr__(name) for name in (f"{dtype}x{size}" for dtype in _DTYPES for size in (1, 2, 3, 4))}


_uint32x3: Any = host_vector(Vector(UINT32, 3))


class Dim3(_uint32x3):  # type: ignore[misc]
    """The size of a level of the thread hierarchy, or a position in it. Specification: 'Thread Positioning'."""

    __slots__ = ()
    __module__ = "cuda_device"


def host_class_of(type: Type) -> object:
    """The host class for an element type."""
    if isinstance(type, Number):
        return host_type_of(type)
    match type:
        case Vector():
            return host_vector(type)
        case Struct(host=None) | Subarray():
            return dtype_of_type(type)
        case Tuple(elements):
            return tuple[tuple(map(host_class_of, elements))]  # type: ignore[misc]
        case AtomicCell(content):
            return host_class_of(content)
    return getattr(type, "host", None) or dtype_of_type(type)


def value_of(type: Type, element: Any) -> Any:
    """The host value of an element of an array of `type`."""
    match type:
        case Number(builtin=False):
            return host_type_of(type)(element)
        case Struct(host=None):
            return element.copy()
        case Vector() | Tuple() | Struct():
            parts = tuple(value_of(part, element[name]) for name, part in members_of(type).items())
            host: Any = host_class_of(type)
            return parts if isinstance(type, Tuple) else host(*parts)
    return element.item()
