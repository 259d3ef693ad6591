"""Where the integers of a function come from, as far as the addresses that are made of them profit by it.

    x[i - 1] + x[i + 1]     the element i, and 4 bytes before and behind it: one address, and offsets that loads have room for
    x[y[i]]                 y[i] comes from memory: that it is not negative, only a comparison can show

LLVM finds the first by itself only where sums keep their promises through all that it does to them, which is seldom.
"""

from __future__ import annotations

from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.types.model import Number

FAR = 1 << 12
"""What machines have room for in a load, in elements."""


class Sums:
    """What the lowering of one function has written. `opaque` is what comes from memory or from other threads.

    Products that may wrap are opaque, too: nothing follows from their factors.
    """

    def __init__(self) -> None:
        self.opaque: set[Value] = set()
        self.constants: dict[Value, int] = {}
        self._sources: dict[Value, Value] = {}
        self._parts: dict[Value, tuple[Value, int]] = {}

    def flows(self, value: Value, result: Value) -> None:
        """`result` is the value on some way, or is made of it."""
        if value in self.opaque:
            self.opaque.add(result)

    def added(self, code: ops.OpDef, result: Value, a: Value, b: Value, exact: bool) -> None:
        """`result` is the sum or difference of two numbers; unless it is `exact` it may have wrapped."""
        self.flows(a, result)
        self.flows(b, result)
        if code is ops.MUL and not exact:
            self.opaque.add(result)
        if a in self.constants and code is ops.ADD:
            a, b = b, a
        if exact and code is not ops.MUL and a.nonneg and b in self.constants:
            self._parts[result] = a, self.constants[b] if code is ops.ADD else -self.constants[b]

    def converted(self, result: Value, value: Value) -> None:
        """`result` is the value as another number, which may have no room for it."""
        self.flows(value, result)
        source, target = value.type, result.type
        assert isinstance(source, Number) and isinstance(target, Number)
        has_room = (value.nonneg or target.low <= source.low) and target.high >= source.high
        if source.is_integer and target.is_integer and has_room:
            self._sources[result] = value

    def before(self, value: Value, type: Number) -> Value:
        """The value that was made wider to get this one, if it is of the type, and as much is known of it; else this one."""
        source: Value | None = value
        while source is not None and source.type != type:
            source = self._sources.get(source)
        return source if source is not None and source.nonneg >= value.nonneg else value

    def split(self, value: Value) -> tuple[Value, int] | None:
        """A number that is not negative and a constant, of which `value` is the sum; None if it is no such sum."""
        while value in self._sources:
            value = self._sources[value]
        found = self._parts.get(value)
        return found if found is not None and 0 < abs(found[1]) <= FAR else None
