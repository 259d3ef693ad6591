"""The versions of a function's blocks, with the facts about their parameters on each incoming edge.

before the loop   uint32, the back edge   float32     first visit: `x` is uint32, so `x = x / y` makes it a float32
before the loop   int64,  the back edge   ?           an earlier loop has made it an int64, so the back edge is inferred again
before the loop   int64,  the back edge   float64     the result, instead of the join of int64 and float32
"""

from __future__ import annotations

from cuda_device.errors import CompileError, Location
from cuda_device.infer.frame import Cell, Frame, Pending
from cuda_device.infer.meanings import NestedFunction
from cuda_device.ir.nodes import Block, Op, Value
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.types.known import FAILED, Known, State

WIDENING_DELAY = 8
"""After so many changes what is known of a block only becomes less."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """What else a specialisation depends on.

    Of a nested function, its meaning; of a generator, how its code is read; of a function of ours that raises, where the user
    called it.
    """

    code: NestedFunction | None = None
    reading: str = ""
    where: Location | None = None


PLAIN = CallContext()

EdgeKey = tuple[tuple[int, ...], int]
"""An edge: the key of the block version that it leaves, and which of the terminator's successors it is."""


@dataclass(slots=True, eq=False)
class BlockVersion:
    """A block for given positions of the tuple loops that it stands in.

    `states` tell what is known of its parameters: the join of `incoming`, the last state of each edge. `outgoing` are
    the edges that leave it.
    """

    source: Block
    key: tuple[int, ...]
    states: list[State] = field(default_factory=list)
    incoming: dict[EdgeKey, list[State]] = field(default_factory=dict)
    is_new: bool = True
    """Whether nothing is known of it, as nothing has arrived yet, or all of it was forgotten."""
    changes: int = 0
    restarts: int = 0
    block: Block = field(default_factory=Block)
    end: Op | None = None
    outgoing: list[tuple[BlockVersion, EdgeKey, list[Cell | Pending]]] = field(default_factory=list, repr=False)
    returned: Cell | None = None
    frame: Frame | None = None
    error: CompileError | None = None
    changed: set[Value] = field(default_factory=set)
    """What an assignment to a part of it has given a new value."""
    fresh: set[Value] = field(default_factory=set)
    """What was computed since memory may have changed."""

    def receive(self, edge: EdgeKey, states: list[State]) -> bool:
        """Notes the state at an edge. Returns whether what was found behind this block has to be forgotten: see above."""
        before, self.incoming[edge] = self.incoming.get(edge), states
        if (
            before is None
            or edge[0] >= self.key
            or self.restarts >= WIDENING_DELAY
            or all(other[0] < self.key for other in self.incoming)
            or not any(map(_is_another, before, states))
        ):
            return False
        self.restarts += 1
        return True

    def forget(self, first: tuple[int, ...]) -> None:
        """Drops what came from the block `first`, where a loop begins, and from those behind it: this is visited again."""
        for edge in [edge for edge in self.incoming if edge[0] >= first]:
            del self.incoming[edge]
        self.is_new = True


def _is_another(old: State, new: State) -> bool:
    """Whether a state is of another type than before. What else is known may change at any time."""
    return (
        old is not new
        and old is not FAILED
        and isinstance(new, Known)
        and not (isinstance(old, Known) and old.type == new.type)
    )
