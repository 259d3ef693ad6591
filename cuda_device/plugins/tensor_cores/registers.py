"""`set_max_registers`: moves registers from the warpgroups of a block that need few to those that need many.

    @kernel(max_threads=384)                each of the three warpgroups starts with 65536 // 384 registers a thread: 168
    def gemm(…):
        if thread_idx.x < 128:
            set_max_registers(24)           the producer gives 144 of them back
            …
        else:
            set_max_registers(240)          and each consumer takes 72
            …

A warpgroup that asks for more registers waits until the block has them. A program whose warpgroups ask for more than there are
would wait for ever, so it is refused: `_check_sum` follows the branches that each warpgroup takes.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cuda_device import CompileError, DeviceOnlyError, ptx, sm90a
from cuda_device.extend import Known, Options, constant_of, model, ops, specialised
from cuda_device.plugins.tensor_cores.single_instructions import nothing

WARPGROUP, _UNIT = 128, 8
_LEAST, _MOST, _OF_A_BLOCK = 24, 256, 1 << 16


def set_max_registers(n: int) -> None:
    """Sets the most registers that each thread of the calling warpgroup may use; its 128 threads call it together.

    `n` is a constant, a multiple of 8 from 24 to 256. The kernel needs the option `max_threads`: its threads start with
    65536 // `max_threads` registers, rounded down to a multiple of 8, or fewer with `min_blocks` or `max_registers`. A smaller
    `n` gives registers back to the block. A larger one takes some, and waits until other warpgroups have given enough.

    Raises `CompileError` for another `n`, and if the warpgroups of the kernel ask for more than the block has. It has no effect
    on CPU streams. Device code only, for sm_90a. PTX: setmaxnreg.
    """
    raise DeviceOnlyError.of("set_max_registers")


@functools.cache
def _request(n: int, direction: str) -> Callable[[int], None]:
    text = f"setmaxnreg.{direction}.sync.aligned.u32 {n};"

    def request_registers(_: int) -> None:
        ptx(text, host=nothing)

    _REQUESTED[request_registers] = n
    return request_registers


_REQUESTED: dict[Callable[..., object], int] = {}
"""The registers for which each function asks."""


def _at_start(options: Options) -> int:
    """The registers of each thread at the start of a kernel."""
    most = _OF_A_BLOCK // (options.max_threads * max(1, options.min_blocks))
    return min(most, options.max_registers or most) // _UNIT * _UNIT


def _check_sum(module: Any, requests: Mapping[str, Callable[..., object]], options: Options) -> None:
    """Raises `CompileError` if the warpgroups of a kernel certainly ask for more registers than its block has."""
    counts = {name: _REQUESTED[function] for name, function in requests.items()}
    try:
        asked = _certain(_Program(module, counts), range(0, options.max_threads, WARPGROUP))
    except RecursionError:  # in a condition that is nested too deeply to be certain of anything
        return
    needed = sum(count * min(WARPGROUP, options.max_threads - first) for first, count in asked.items())
    there = _at_start(options) * options.max_threads
    if needed > there:
        calls = [op for op in module.ops() if op.code is ops.CALL and op.attributes["callee"] in counts]
        raise CompileError(
            f"the warpgroups of this kernel ask for {', '.join(map(str, asked.values()))} registers a thread, {needed} in all, "
            f"but a block of {options.max_threads} threads has {there}: some warpgroup would wait for ever",
            max(calls, key=lambda op: counts[op.attributes["callee"]]).location,
            f"let them ask for at most {there // WARPGROUP} together",
        )


def _certain(program: _Program, warpgroups: Iterable[int]) -> dict[int, int]:
    """The registers with which each warpgroup at least ends, by its first thread, for those that certainly ask for some."""
    last = {first: _Call(program, first, program.main).requests() for first in warpgroups}
    certain = {
        first: {count for count in counts if count is not None} for first, counts in last.items() if None not in counts
    }
    return {first: min(counts) for first, counts in certain.items() if counts}


# The branches of a warpgroup are those of its first thread, because all threads make the same requests. The value of an
# expression is known if it depends on constants and on the position of the thread in a block with one axis.

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_UNDEFINED: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("//", "%"), lambda right: right == 0),
    **dict.fromkeys(("<<", ">>"), lambda right: not 0 <= right <= 31),
}
"""The right operands for which the result is not known."""


class _Program:
    """A typed module; `counts` are the registers for which functions ask, by their names."""

    def __init__(self, module: Any, counts: Mapping[str, int]) -> None:
        self.main, self.counts = module.main, counts
        self.functions = {function.name: function for function in module.functions}
        self.asking = set(counts)
        """The functions that ask for registers, also those that call others which do."""
        callees = {
            name: {op.attributes["callee"] for op in f.ops() if op.code is ops.CALL}
            for name, f in self.functions.items()
        }
        while more := {name for name in callees if callees[name] & self.asking} - self.asking:
            self.asking |= more
        fields = [op for op in module.ops() if op.code is ops.FIELD]
        positions = {op.result for op in module.ops() if _is_intrinsic(op, "thread_idx")}
        self.is_flat = not any(op.operands[0] in positions and op.attributes["index"] != 0 for op in fields)
        """Whether the kernel uses positions along x only."""
        self.definitions: dict[str, tuple[dict[Any, Any], dict[Any, list[Any]]]] = {}

    def define(self, function: Any) -> tuple[dict[Any, Any], dict[Any, list[Any]]]:
        """The operations by their results, and the values that arrive at the parameters of blocks."""
        if function.name not in self.definitions:
            arrives: dict[Any, list[Any]] = {}
            for edge in (edge for block in function.blocks for edge in block.successors):
                for parameter, argument in zip(edge.block.params, edge.arguments, strict=True):
                    arrives.setdefault(parameter, []).append(argument)
            self.definitions[function.name] = {value: op for op in function.ops() for value in op.results}, arrives
        return self.definitions[function.name]


class _Call:
    """A call of a function by the warpgroup whose first thread is `first`, with what is known of the arguments."""

    def __init__(
        self,
        program: _Program,
        first: int,
        function: Any,
        arguments: Sequence[int | None] = (),
        active: tuple[str, ...] = (),
    ) -> None:
        self.program, self.first, self.function = program, first, function
        self.known: dict[Any, int | None] = dict(zip(function.params, arguments, strict=False))
        self.makers, self.arrives = program.define(function)
        self.active = (*active, function.name)

    def requests(self) -> set[int | None]:
        """The last requests with which the call may end, and None if it may end without one; empty if it never ends."""
        before: dict[Any, set[int | None]] = {self.function.blocks[0]: {None}}
        ends: set[int | None] = set()
        todo = [self.function.blocks[0]]
        while todo:
            block = todo.pop()
            after = self._after(block, before[block])
            if block.terminator.code is ops.RETURN:
                ends |= after
            for following in self._following(block):
                known = before.setdefault(following, set())
                if not after <= known:
                    known |= after
                    todo.append(following)
        return ends

    def _after(self, block: Any, counts: set[int | None]) -> set[int | None]:
        """The last requests after a block."""
        for op in block.ops:
            name = str(op.attributes["callee"]) if op.code is ops.CALL else ""
            if name in self.program.counts:
                counts = {self.program.counts[name]}
            elif name in self.program.asking:
                called = self._called(op)
                if called is not None:
                    inner = called.requests()
                    counts = counts | {count for count in inner if count is not None} if None in inner else inner
        return counts

    def _following(self, block: Any) -> list[Any]:
        """The blocks that may follow."""
        edges = block.successors
        if block.terminator.code is ops.BRANCH:
            condition = self.value(block.terminator.operands[0])
            if condition is not None:
                edges = [edges[0 if condition else 1]]
        return [edge.block for edge in edges]

    def _called(self, op: Any) -> _Call | None:
        """A call from here; None for recursion and functions of C++."""
        name = op.attributes["callee"]
        if name in self.active or name not in self.program.functions:
            return None
        arguments = [self.value(operand) for operand in op.operands]
        return _Call(self.program, self.first, self.program.functions[name], arguments, self.active)

    def value(self, value: Any) -> int | None:
        """The value that the first thread has, if it is known."""
        if value not in self.known:
            self.known[value] = None  # while it is computed, for loops
            number, type = self._computed(value), value.type
            is_integer = isinstance(type, model.Number) and type.is_integer
            fits = type == model.BOOL or (is_integer and number is not None and type.low <= number <= type.high)
            self.known[value] = number if fits else None
        return self.known[value]

    def _computed(self, value: Any) -> int | None:
        op = self.makers.get(value)
        if op is None:
            return _same([self.value(argument) for argument in self.arrives.get(value, ())])
        if op.code is ops.CONST:
            number = op.attributes["value"]
            return number if isinstance(number, int) else None
        if op.code is ops.FIELD:
            made = self.makers.get(op.operands[0])
            is_position = self.program.is_flat and made is not None and _is_intrinsic(made, "thread_idx")
            return self.first if is_position else None
        if op.code is ops.CALL:
            return self._returned(op)
        operands = [self.value(operand) for operand in op.operands]
        return None if not operands or None in operands else _result(op, operands)

    def _returned(self, op: Any) -> int | None:
        """The result of a call, if all its ends return the same."""
        call = self._called(op)
        if call is None:
            return None
        ends = [block.terminator for block in call.function.blocks if block.terminator.code is ops.RETURN]
        return _same([call.value(end.operands[0]) for end in ends if end.operands])


def _same(values: Sequence[int | None]) -> int | None:
    """The value that all of them are, if there is one."""
    return values[0] if len({*values}) == 1 else None


def _is_intrinsic(op: Any, *names: str) -> bool:
    return op.code is ops.INTRINSIC and op.attributes["name"] in names


def _result(op: Any, operands: Sequence[Any]) -> int | None:
    """The result of an operation on known numbers."""
    if op.code in (ops.PY_BINARY, ops.PY_COMPARE):
        sign, right = op.attributes["op"], operands[1]
        is_known = sign in _BINARY and not (sign in _UNDEFINED and _UNDEFINED[sign](right))
        return _BINARY[sign](operands[0], right) if is_known else None
    if op.code is ops.PY_TRUTH:
        return int(operands[0] != 0)
    if op.code is ops.PY_UNARY:
        return int(operands[0] == 0) if op.attributes["op"] == "not" else None
    if op.code is ops.CONVERT or _is_intrinsic(op, str(op.result.type), "int", "bool"):
        return operands[0]  # type: ignore[no-any-return]
    # The first thread is lane 0 of its warp.
    return int(operands[1]) if _is_intrinsic(op, "shfl_sync") and operands[2] == 0 else None


@specialised(set_max_registers, since=sm90a, otherwise="leave it out elsewhere", options=True, check=_check_sum)
def _(n: Known, options: Options) -> Callable[[int], None]:
    count = constant_of(n, "n")
    if not isinstance(count, int) or isinstance(count, bool) or count % _UNIT or not _LEAST <= count <= _MOST:
        raise CompileError(
            f"set_max_registers takes a multiple of {_UNIT} from {_LEAST} to {_MOST}, not {count!r}",
            help="give the least of these numbers that suffices, or leave it out",
        )
    if not options.max_threads:
        raise CompileError(
            "set_max_registers needs a kernel with max_threads, which determines the registers that its threads start with",
            help="write @kernel(max_threads=384), for a block of three warpgroups",
        )
    return _request(count, "inc" if count > _at_start(options) else "dec")
