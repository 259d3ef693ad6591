"""The host side of device only entities: what a program names, and what says so when host code uses it."""

from __future__ import annotations

from typing import NoReturn

from cuda_device.errors import DeviceOnlyError


class CompileTime:
    """The base of objects that exist only while compiling and whose operators are evaluated then, by Python itself."""

    __slots__ = ()


class DeviceValue:
    """An entity that is a value in device code, such as `thread_idx`. On the host every use is a `DeviceOnlyError`."""

    def __init__(self, name: str, doc: str) -> None:
        self._name = name
        self.__doc__ = doc

    def __repr__(self) -> str:
        return f"<device value {self._name}>"

    def _refuse(self, *_: object) -> NoReturn:
        raise DeviceOnlyError.of(self._name)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise DeviceOnlyError.of(f"{self._name}.{name}")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __floordiv__ = __mod__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __int__ = __index__ = __bool__ = __iter__ = __getitem__ = __len__ = _refuse
