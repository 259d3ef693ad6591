"""The class patterns of `match`: whether one can match is known from the type of what is matched.

case Point(x=0, y=b):     the members x and y of a Point, then the pattern of each is matched
case int(n):              any integer
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.errors import CompileError
from cuda_device.infer import attributes
from cuda_device.infer.frame import Cell, Frame
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.types.known import constant, describe
from cuda_device.types.model import Static

# Classes whose one positional pattern is the value itself, as Python has it.
_WHOLE = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def match_class(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """The attributes that a pattern names, or None if the value is not of the class."""
    value, cls = cells
    kind = cls.known.value
    if not isinstance(cls.known.type, Static) or not isinstance(kind, type):
        raise CompileError(f"a class pattern names a type, not {cls.known}", help="write case T():, where T is a type")
    if not _is_of(value, kind):
        return [Cell(constant(None))]
    count, names = op.attributes["count"], op.attributes["names"]
    assert isinstance(count, int) and isinstance(names, tuple)
    if count == 1 and kind in _WHOLE:
        return [frame.tuple([value, *(_attribute(frame, value, name) for name in names)])]
    given = getattr(kind, "__match_args__", ())
    if count > len(given):
        raise CompileError(
            f"a pattern of {describe(kind)} has {len(given)} positional parts at most, not {count}",
            help="name the members, as in Point(x=0)",
        )
    return [frame.tuple([_attribute(frame, value, name) for name in (*given[:count], *names)])]


def _is_of(value: Cell, kind: type) -> bool:
    from cuda_device.infer.builtin_calls import type_of  # which needs sequences

    if isinstance(value.known.type, Static):
        return isinstance(value.known.value, kind)
    found = type_of(value.known)
    return isinstance(found, type) and issubclass(found, kind)


def _attribute(frame: Frame, value: Cell, name: str) -> Cell:
    (part,) = attributes.getattr_(frame, Op(ops.PY_GETATTR, attributes={"name": name}), [value])
    return part
