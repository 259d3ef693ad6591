"""Loops in IR of machines, before and after the passes that only make them faster: they go to the same places in memory.

And a pass does what it is for, exactly where it says so: pointers go along with short loops behind branches, four at most; loops
in steps of a grid, or of a few passes, count those down.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

from ir_helpers import read

from cuda_device.ir.nodes import Block, Function, Op
from cuda_device.optimise import hoisting, pointer_induction, trip_counts
from cuda_device.types.model import Number, Ref
from fuzz.bounds import COMPARED

MOST, LONG, FEW = 4, 128, 7
"""Pointers of a loop, operations of a loop that is long, and passes that are few."""
REGISTERS = {"thread_idx.x": 3, "block_dim.x": 5, "grid_dim.x": 4, "grid_dim.y": 2, "hidden_zero": 0}
_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "or": operator.or_, "quotient": operator.floordiv,
}  # fmt: skip


def trace(function: Function, arguments: tuple[Any, ...]) -> list[Any]:
    """Which places a function reads and writes, in order: (array, element)."""
    found: list[Any] = []
    block, given = function.blocks[0], arguments
    values: dict[Any, Any] = {}
    for _ in range(999):
        values |= dict(zip(block.params, given, strict=True))
        for op in block.ops:
            if op.code.name in ("jump", "branch", "return"):
                break
            result = _done(op, [values[each] for each in op.operands], found)
            values |= {each: _fitting(each.type, result) for each in op.results}
        if not op.successors:
            return found
        edge = op.successors[0 if op.code.name == "jump" or values[op.operands[0]] else 1]
        block, given = edge.block, tuple(values[each] for each in edge.arguments)
    return [*found, "it does not end"]


def _done(op: Op, given: list[Any], found: list[Any]) -> Any:
    name = op.code.name
    if name in _BINARY:
        return _BINARY[name](*given) if name != "quotient" or given[1] else 0
    match name:
        case "const":
            return op.attributes["value"]
        case "register":
            return REGISTERS[str(op.attributes["name"])]
        case "convert":
            return given[0]
        case "compare":
            return COMPARED[str(op.attributes["op"])](*given)
        case "select":
            return given[1] if given[0] else given[2]
        case "element":
            return given[0][0], given[0][1] + given[1]
    found.append((name, given[0]))
    return 1.5


def _fitting(type: Any, value: Any) -> Any:
    if not isinstance(type, Number) or not type.is_integer:
        return value
    value %= 1 << type.bits
    return value - (1 << type.bits) if type.signed and value >> type.bits - 1 else value


class Loop:
    """The text of a loop, what its arguments may be, and what the passes make of it."""

    def __init__(self, choose: random.Random) -> None:
        self.type = choose.choice(("uint32", "uint32", "int32"))
        self.spaces = [choose.choice(("global", "global", "global", "shared")) for _ in range(6)]
        self.exact = choose.random() < 0.85
        self.branch = choose.random() < 0.85
        self.long = choose.random() < 0.1
        self.start = choose.choice(("%a", "%a", "%thread", "%zero"))
        step = choose.choice((1, 2, 3, 4, 8))
        self.steps = choose.choice(("constant", "given", "grid", "wide", "chosen", "block", "product"))
        self.step = step
        self.stop = choose.choice(
            (None, None, step, step + 1, step * FEW - 1, step * FEW, step * FEW + 1, step * FEW * 2)
        )
        self.accesses = [
            (choose.randrange(6), choose.choice(("", "", "far", "less")), choose.choice((0, 0, 1, 2, 5)))
            for _ in range(choose.choice((1, 2, 3, 4, 5, 8, 9)))
        ]

    def text(self) -> str:
        type = self.type
        arrays = "".join(f"%x{k}: ref<{space}, float32>, " for k, space in enumerate(self.spaces))
        made = {
            "constant": f"%t: {type} = const {{value={self.step}}}",
            "given": f"%t: {type} = add {{exact=True}} %s %zero",
            "grid": f'%t: {type} = register {{name="grid_dim.x"}}',
            "wide": f'%g: uint32 = register {{name="grid_dim.y"}}\\n  %t: {type} = convert %g',
            "product": f'%g: {type} = register {{name="grid_dim.x"}}\\n  %t: {type} = mul {{exact=True}} %g %s',
            "block": f'%t: {type} = register {{name="block_dim.x"}}',
            "chosen": f'%g: {type} = register {{name="grid_dim.x"}}\\n  %p: bool = compare {{op="!="}} %s %zero\\n'
            f"  %t: {type} = select %p %g %one",
        }[self.steps].replace("\\n", "\n")
        stop = (
            f"%n: {type} = const {{value={self.stop}}}"
            if self.stop is not None
            else f"%n: {type} = add {{exact=True}} %e %zero"
        )
        body = "".join(self._access(k, *each) for k, each in enumerate(self.accesses))
        more = "".join(f"  %l{k}: {type} = add {{exact=False}} %i %s\n" for k in range(LONG if self.long else 0))
        return f"""
func @f -> none kernel device {{
^0({arrays}%a: {type}, %e: {type}, %s: {type}, %far: {type}, %c: bool):
  %zero: {type} = const {{value=0}}
  %one: {type} = const {{value=1}}
  %thread: {type} = register {{name="thread_idx.x"}}
  {made}
  {stop}
  jump ^1({self.start})
^1(%i: {type}):
  %more: bool = compare {{op="<"}} %i %n
  branch %more ^2() ^5()
^2():
  {"branch %c ^3() ^4()" if self.branch else "jump ^3()"}
^3():
{more}{body}  jump ^4()
^4():
  %after: {type} = add {{exact={self.exact}}} %i %t
  jump ^1(%after)
^5():
  return
}}
"""

    def _access(self, k: int, array: int, form: str, constant: int) -> str:
        type, exact = self.type, "{exact=True}"
        lines, place = [f"%k{k}: {type} = const {{value={constant}}}"], "%i"
        if form == "far":
            lines.append(f"%f{k}: {type} = add {exact} %i %far")
            place = f"%f{k}"
        elif form == "less":
            lines.append(f"%f{k}: {type} = sub {exact} %far %i")
            place = f"%f{k}"
        if constant:
            lines.append(f"%o{k}: {type} = add {exact} {place} %k{k}")
            place = f"%o{k}"
        lines.append(f"%w{k}: int64 = convert {place}")
        lines.append(f"%e{k}: ref<{self.spaces[array]}, float32> = element %x{array} %w{k}")
        lines.append(f"%v{k}: float32 = load %e{k}")
        return "".join(f"  {line}\n" for line in lines)

    @property
    def pointers(self) -> int:
        """How many go along."""
        keys = {(array, form) for array, form, _ in self.accesses if self.spaces[array] == "global"}
        return min(MOST, len(keys)) if self.branch and self.exact and not self.long else 0

    @property
    def split(self) -> int:
        """How many addresses have a part that the loop leaves alone, and what goes along with it."""
        return sum(form != "" and (self.branch or self.spaces[array] == "global") for array, form, _ in self.accesses)

    @property
    def counts_down(self) -> bool:
        """Whether the passes are counted."""
        few = self.steps == "constant" and self.stop is not None and self.start != "%zero"
        few = few and 1 < self.step < (self.stop or 0) <= FEW * self.step
        return self.type == "uint32" and self.exact and (few or self.steps in ("grid", "wide", "product", "chosen"))

    def arguments(self, choose: random.Random) -> tuple[Any, ...]:
        """Numbers for which no sum goes below zero where it may not."""
        far = choose.randint(200, 210)
        arrays = tuple((f"x{k}", 100 * k) for k in range(6))
        return (
            *arrays,
            choose.randint(1, 9),
            choose.choice((0, 1, 5, 9, 23)),
            choose.randint(1, 4),
            far,
            choose.random() < 0.8,
        )


PASSES = ((hoisting,), (pointer_induction,), (trip_counts,), (trip_counts, pointer_induction, hoisting))


def walk(choose: random.Random) -> str | None:
    """A loop before and after each pass, and after both."""
    loop = Loop(choose)
    text = loop.text()
    for passes in PASSES:
        function = read(text).main
        for each in passes:
            each.run(function)
        head = function.blocks[1]
        found = sum(isinstance(param.type, Ref) for param in head.params)
        wanted = loop.pointers if pointer_induction in passes else 0
        if found != wanted:
            return f"{found} pointers go along, not {wanted}, with\n{text}"
        if passes == (hoisting,) and (split := _split(function)) != loop.split:
            return f"{split} addresses begin before the loop, not {loop.split}, with\n{text}"
        if trip_counts in passes and _counts_down(head) != loop.counts_down:
            return f"it {'counts down' if _counts_down(head) else 'does not count down'}:\n{text}"
        for _ in range(4):
            given = loop.arguments(choose)
            before, after = trace(read(text).main, given), trace(function, given)
            if before != after:
                return f"with {given} it goes to {after}, not {before}:\n{text}"
    return None


def _split(function: Function) -> int:
    """How many addresses are made of others."""
    makers = {result: op for op in function.ops() for result in op.results}
    elements = [op for op in function.ops() if op.code.name == "element"]
    return sum(makers[op.operands[0]].code.name == "element" for op in elements if op.operands[0] in makers)


def _counts_down(head: Block) -> bool:
    return any(op.attributes.get("op") == "!=" for op in head.ops)
