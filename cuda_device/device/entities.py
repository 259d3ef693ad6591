"""The host side of device-only entities: names that raise an error when host code uses them."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from cuda_device.errors import DeviceOnlyError

# The type of integers of device code, for type checkers.
Integer = int | np.integer[Any]
Real = float | np.generic
"""A float. The formats of ml_dtypes are `np.generic`, but not `np.floating`."""


class CompileTime:
    """The base of compile-time objects, whose operators Python evaluates during compilation."""

    __slots__ = ()


class DeviceValue:
    """An entity that is a value in device code, such as `thread_idx`. On the host, using it raises `DeviceOnlyError`.

    Printing, copying, pickling and comparing it with itself work.
    """

    def __init__(self, name: str, doc: str, module: str) -> None:
        vars(self).update(_name=name, __doc__=doc, __module__=module)

    def __repr__(self) -> str:
        return f"<device value {self._name}>"

    def __reduce__(self) -> str:
        return self._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        return self is other or self._refuse()

    def __ne__(self, other: object) -> bool:
        return self is not other and self._refuse()

    def __format__(self, spec: str) -> str:
        return self._refuse() if spec else str(self)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # which Python and its tools look up on any object
            raise AttributeError(name)
        raise DeviceOnlyError.of(f"{self._name}.{name}")

    def __setattr__(self, name: str, _: object) -> NoReturn:
        raise DeviceOnlyError.of(f"{self._name}.{name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise DeviceOnlyError.of(f"{self._name}.{name}")

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise DeviceOnlyError.of(self._name)

    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __divmod__ = __pow__ = __matmul__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rdivmod__ = __rpow__ = _refuse
    __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = __rmatmul__ = _refuse
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = _refuse
    __neg__ = __pos__ = __invert__ = __abs__ = __round__ = __trunc__ = __floor__ = __ceil__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = __index__ = __float__ = __complex__ = _refuse
    __len__ = __iter__ = __reversed__ = __contains__ = __getitem__ = __setitem__ = __delitem__ = __call__ = _refuse


def device_value(name: str, doc: str) -> Any:
    """Returns a `DeviceValue`, called `name` in `cuda_device`, with the type of the value that it stands for."""
    return DeviceValue(name, doc, "cuda_device")


# Functions of floats, for the library and the host


def float_floor(x: Any) -> Any:
    """The floor of a float, as a float (`math.floor` is an int)."""
    return math.copysign(float(math.floor(x)), x) if math.isfinite(x) else x


def float_trunc(x: Any) -> Any:
    """The integral part of a float, as a float."""
    return math.copysign(float(math.trunc(x)), x) if math.isfinite(x) else x


def float_round(x: Any) -> Any:
    """A float's nearest integer, halves to even, as a float."""
    return math.copysign(float(round(x)), x) if math.isfinite(x) else x
