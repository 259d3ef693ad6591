"""The functions that translate each raw CPython instruction; the tables in `versions` name them.

A row's function gets the `Cursor` at its raw instruction. It returns the instructions for it, usually one, and changes the
cursor's stack as the raw instruction does. For example, `CALL 1` after `LOAD_GLOBAL (len + NULL)` and an argument pops the
argument and the pair, finds one value in the pair, pushes a value, and returns `CALL 1`.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from operator import attrgetter
from types import CodeType

from cuda_device.bytecode.instructions import Opcode
from cuda_device.errors import CompilerBug, Location
from cuda_device.lazy_dataclasses import dataclass

# CPython's own instructions and their stack.
#
# `decode` reads `Raw` instructions from a code object and simulates their stack as `Slot`s. A row of the table in `versions` gets
# a `Cursor`, which has the instruction, its neighbours, and the stack, and changes the stack as the instruction does.


@dataclass(slots=True)
class Raw:
    """One instruction of CPython."""

    name: str
    number: int
    """Its raw argument; 0 if it has none."""
    value: object
    """The name or constant that the argument stands for."""
    text: str
    """The argument as `dis` prints it, which is the only source of some operators."""
    location: Location
    effect: int
    """By how many slots the raw stack grows if the instruction does not jump."""
    protection: str = ""
    """The statement whose handler protects the instruction: "try", "try with finally", "with" or none."""
    target: int = -1
    """The target of a jump: an index into the list of raw instructions."""


class Slot(Enum):
    """The content of one slot of the raw stack."""

    VALUE = auto()
    """An ordinary value."""
    NULL = auto()
    """Not a value: CPython's NULL, the second half of a method, or a constant that is part of the next instruction."""
    ASSERTION = auto()
    """AssertionError, as an `assert` loads it. Not a value either, because ASSERT_FAIL needs no exception."""
    FAILURE = auto()
    """The exception of an `assert` with a message."""
    SAVED_CELL = auto()
    """The cell that SAVE_CELL pushed."""
    STR = auto()
    """A value that FORMAT converts by `str`."""
    REPR = auto()
    """A value that FORMAT converts by `repr`."""
    ASCII = auto()
    """A value that FORMAT converts by `ascii`."""


@dataclass(frozen=True, slots=True)
class Step:
    """One of our instructions, whose target is still an index of a raw one; -1 if there is none."""

    opcode: Opcode
    argument: object = None
    target: int = -1


@dataclass(slots=True)
class Cursor:
    """A raw instruction with its surroundings and its stack."""

    code: CodeType
    raws: list[Raw]
    raw: Raw
    """The instruction to translate."""
    index: int
    slots: list[Slot]
    """The raw stack, its top last."""
    slots_at_target: list[Slot] | None = None
    """The stack if the instruction jumps; None if it is the same in both cases."""

    def near(self, distance: int) -> Raw:
        """The raw instruction at a distance behind this one, or before it if the distance is negative."""
        return self.raws[self.index + distance]

    def is_near(self, distance: int, *names: str) -> bool:
        """Whether there is a raw instruction at this distance with one of the names."""
        index = self.index + distance
        return 0 <= index < len(self.raws) and self.raws[index].name in names

    def pop(self, count: int = 1) -> list[Slot]:
        """Pops slots off the stack; the last one of the result was on top."""
        cut = len(self.slots) - count
        if cut < 0:
            raise CompilerBug(f"{self.raw.name} at offset {self.raw.location.offset} finds too little on the stack")
        popped = self.slots[cut:]
        del self.slots[cut:]
        return popped

    def push(self, slot: Slot = Slot.VALUE) -> None:
        """Pushes a slot on the stack."""
        self.slots.append(slot)

    def settle(self) -> None:
        """Shrinks or grows the stack as the instruction does; new slots are values."""
        if self.raw.effect < 0:
            self.pop(-self.raw.effect)
        self.slots += [Slot.VALUE] * self.raw.effect

    def position(self, raw_position: int) -> int:
        """The position on our stack, counted from 1 at the top, of a value's position on the raw stack."""
        reached = self.slots[-raw_position:]
        if len(reached) < raw_position or reached[0] in (Slot.NULL, Slot.ASSERTION):
            raise CompilerBug(f"{self.raw.name} at offset {self.raw.location.offset} does not reach a value")
        return len(reached) - reached.count(Slot.NULL) - reached.count(Slot.ASSERTION)


Steps = tuple[Step, ...]
Row = Callable[[Cursor], Steps]
"""Translates one raw instruction: returns our instructions, and changes the stack of the cursor."""


# Functions that make rows


def settled(steps: Callable[[Cursor], Steps]) -> Row:
    """A row that computes its instructions after the stack has changed."""

    def row(cursor: Cursor) -> Steps:
        cursor.settle()
        return steps(cursor)

    return row


def simple(opcode: Opcode, argument: Callable[[Raw], object] | None = None) -> Row:
    """One instruction."""

    def row(cursor: Cursor) -> Steps:
        cursor.settle()
        return (Step(opcode, argument(cursor.raw) if argument else None),)

    return row


def fixed(*steps: Step) -> Row:
    """Always the same instructions."""
    return settled(lambda _: steps)


def build(kind: str) -> Row:
    """BUILD of that kind."""
    return simple(Opcode.BUILD, lambda raw: (kind, raw.number))


def into(opcode: Opcode) -> Row:
    """Adds the top of the stack to a container further down."""
    return settled(lambda cursor: (Step(opcode, cursor.position(cursor.raw.number)),))


def jump(opcode: Opcode, *before: Step) -> Row:
    """A jump that pops the value that it tests; the instructions `before` convert that value."""
    return settled(lambda cursor: (*before, Step(opcode, None, cursor.raw.target)))


def jump_if_none(opcode: Opcode) -> Row:
    """A jump that tests `is None`."""
    return jump(opcode, Step(Opcode.CONST, None), Step(Opcode.IS, False))


def jump_if_or_pop(opcode: Opcode) -> Row:
    """A jump that pops what it tests only if it does not jump."""

    def row(cursor: Cursor) -> Steps:
        cursor.slots_at_target = cursor.slots.copy()
        cursor.settle()
        return (Step(Opcode.COPY, 1), Step(opcode, None, cursor.raw.target), Step(Opcode.POP))

    return row


value, number = attrgetter("value"), attrgetter("number")
"""Arguments: a name or constant, and a count."""


def flag(raw: Raw) -> bool:
    """An argument: the lowest bit."""
    return bool(raw.number & 1)


def always(raw: Raw) -> bool:
    """For a load that only calls use."""
    return True


# Constants and variables


def load_const(cursor: Cursor) -> Steps:
    """A constant; nothing if it holds the names for the next instruction, which reads them itself."""
    if cursor.is_near(1, "CALL_KW", "BUILD_CONST_KEY_MAP"):
        cursor.push(Slot.NULL)
        return ()
    cursor.push()
    constant = cursor.raw.value
    if isinstance(constant, slice):  # 3.14 folds slices; BUILD_SLICE is what every other version has.
        parts = [constant.start, constant.stop] + [constant.step] * (constant.step is not None)
        return (*(Step(Opcode.CONST, part) for part in parts), Step(Opcode.BUILD_SLICE, len(parts)))
    return (Step(Opcode.CONST, constant),)


def load_common_constant(cursor: Cursor) -> Steps:
    """A builtin, even if the program redefines its name. Only `assert` loads AssertionError this way."""
    if cursor.raw.text == "AssertionError":
        return load_assertion_error(cursor)
    cursor.push()
    return (Step(Opcode.CONST, getattr(builtins, cursor.raw.text)),)


def load_common_constant_or_number(cursor: Cursor) -> Steps:
    """A builtin, or since 3.15 None, True, False, an empty string or -1, which `dis` returns as values."""
    if cursor.raw.text == "AssertionError":
        return load_assertion_error(cursor)
    return load_const(cursor)


def load_assertion_error(cursor: Cursor) -> Steps:
    """The start of a failing `assert`."""
    cursor.push(Slot.ASSERTION)
    return ()


def load_fast_or_cell(cursor: Cursor) -> Steps:
    """LOAD, or CLOSURE if what follows makes a function with this cell in its closure."""
    cursor.push()
    return (Step(Opcode.CLOSURE if _makes_closure(cursor) else Opcode.LOAD, cursor.raw.value),)


def _makes_closure(cursor: Cursor) -> bool:
    """Whether there is: this and more loads, a tuple of them all, the code, a function, and its closure attribute."""
    count = 1
    while cursor.is_near(count, "LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK"):
        count += 1
    return (
        cursor.is_near(count, "BUILD_TUPLE")
        and cursor.near(count).number >= count
        and cursor.is_near(count + 1, "LOAD_CONST")
        and cursor.is_near(count + 2, "MAKE_FUNCTION")
        and cursor.is_near(count + 3, "SET_FUNCTION_ATTRIBUTE")
        and cursor.near(count + 3).number == FUNCTION_EXTRAS["closure"]
    )


def load_fast_and_clear(cursor: Cursor) -> Steps:
    """A comprehension hides a variable of its function. If MAKE_CELL follows, it is a cell variable."""
    if cursor.is_near(1, "MAKE_CELL"):
        cursor.push(Slot.SAVED_CELL)
        return (Step(Opcode.SAVE_CELL, cursor.raw.value),)
    cursor.push()
    return (Step(Opcode.LOAD_AND_CLEAR, cursor.raw.value),)


def store_fast(cursor: Cursor) -> Steps:
    """STORE, or RESTORE_CELL of what SAVE_CELL saved."""
    (slot,) = cursor.pop()
    return (Step(Opcode.RESTORE_CELL if slot is Slot.SAVED_CELL else Opcode.STORE, cursor.raw.value),)


# The stack


nothing = fixed()
"""Only the effect on the stack."""


def push_null(cursor: Cursor) -> Steps:
    """The NULL that goes with a callable."""
    cursor.push(Slot.NULL)
    return ()


def pop_top(cursor: Cursor) -> Steps:
    """POP; nothing for an iterator that FOR_ITER has taken away."""
    (slot,) = cursor.pop()
    return () if slot is Slot.NULL else (Step(Opcode.POP),)


def copy(cursor: Cursor) -> Steps:
    """COPY."""
    position = cursor.position(cursor.raw.number)
    cursor.push()
    return (Step(Opcode.COPY, position),)


def copy_or_jump(cursor: Cursor) -> Steps:
    """COPY. Before a test whether `all`, `any` or `tuple` is the builtin, a jump to where it is not.

    There, 3.14 calls it, as every other version does; if it is the builtin, 3.14 runs the generator in a loop instead. Since
    3.15, `case True` and `case False` compile to the same instructions, with another constant.
    """
    if (
        cursor.is_near(1, "LOAD_COMMON_CONSTANT")
        and cursor.near(1).text not in ("True", "False")
        and cursor.is_near(2, "IS_OP")
        and cursor.is_near(3, "POP_JUMP_IF_FALSE")
    ):
        return (Step(Opcode.JUMP, None, cursor.near(3).target),)
    return copy(cursor)


def swap(cursor: Cursor) -> Steps:
    """SWAP."""
    cursor.position(1)
    position = cursor.position(cursor.raw.number)
    other = -cursor.raw.number
    cursor.slots[-1], cursor.slots[other] = cursor.slots[other], cursor.slots[-1]
    return (Step(Opcode.SWAP, position),)


# Calls and functions


def load_callable(opcode: Opcode, is_called: Callable[[Raw], bool] = flag) -> Row:
    """A row that loads a value and, for a call, a NULL (or the parts of a method).

    Until 3.12, the NULL is below, and the value need not be the callable: `Name.method(x).other(*y)` loads `Name` with
    the NULL that belongs to `other`. Since 3.13, it is above; they are then a pair, whose order does not matter.
    """

    def row(cursor: Cursor) -> Steps:
        cursor.settle()
        if is_called(cursor.raw):
            cursor.slots[-2] = Slot.NULL
        return (Step(opcode, cursor.raw.value),)

    return row


def call(cursor: Cursor) -> Steps:
    """CALL, or CALL_KW if the names of keywords were noted just before (until 3.12)."""
    count = _pop_call(cursor)
    if count is None:
        return ()
    if cursor.is_near(-1, "KW_NAMES"):
        names = cursor.code.co_consts[cursor.near(-1).number]  # 3.11's `dis` does not know that it is a constant.
        return (Step(Opcode.CALL_KW, (count, names)),)
    return (Step(Opcode.CALL, count),)


def call_kw(cursor: Cursor) -> Steps:
    """CALL_KW, with the names in the constant before."""
    cursor.pop()
    return (Step(Opcode.CALL_KW, (_pop_call(cursor), cursor.near(-1).value)),)


def _pop_call(cursor: Cursor) -> int | None:
    """Pops the operands of a call and pushes its result; the number of arguments, or None for the call of an `assert`.

    Below the counted arguments is a pair: a callable and a NULL, or a callable and the first argument.
    """
    cursor.pop(cursor.raw.number)
    pair = cursor.pop(2)
    if Slot.ASSERTION in pair:
        cursor.push(Slot.FAILURE)
        return None
    cursor.push()
    return cursor.raw.number + 1 - pair.count(Slot.NULL)


def call_function_ex(cursor: Cursor) -> Steps:
    """CALL_EX, with a NULL beside the callable."""
    has_mapping = flag(cursor.raw)
    cursor.pop(3 + has_mapping)
    cursor.push()
    return (Step(Opcode.CALL_EX, has_mapping),)


def call_function_ex_with_slot(cursor: Cursor) -> Steps:
    """CALL_EX, where the mapping always has a slot, which can be NULL."""
    (mapping,) = cursor.pop()
    cursor.pop(3)
    cursor.push()
    return (Step(Opcode.CALL_EX, mapping is not Slot.NULL),)


FUNCTION_EXTRAS = {"defaults": 1, "kwdefaults": 2, "annotations": 4, "annotate": 16, "closure": 8}
"""The bit of each extra, in the order in which they lie on the stack."""


def make_function(cursor: Cursor) -> Steps:
    """MAKE_FUNCTION with its extras: bits of its own until 3.12, then instructions behind it, one for each."""
    cursor.settle()
    bits, distance = cursor.raw.number, 1
    while cursor.is_near(distance, "SET_FUNCTION_ATTRIBUTE"):
        bits |= cursor.near(distance).number
        distance += 1
    return (Step(Opcode.MAKE_FUNCTION, tuple(extra for extra, bit in FUNCTION_EXTRAS.items() if bits & bit)),)


def raise_varargs(cursor: Cursor) -> Steps:
    """RAISE, or the end of an `assert`."""
    slots = cursor.pop(cursor.raw.number)
    if slots == [Slot.ASSERTION] or slots == [Slot.FAILURE]:
        return (Step(Opcode.ASSERT_FAIL, slots == [Slot.FAILURE]),)
    return (Step(Opcode.RAISE, cursor.raw.number),)


def return_generator(cursor: Cursor) -> Steps:
    """The first instruction of a generator or coroutine."""
    if not cursor.code.co_flags & inspect.CO_GENERATOR:
        return (Step(Opcode.UNSUPPORTED, "async"),)
    cursor.push()
    return (Step(Opcode.CONST, None),)  # the value that the first `next` sends


def yield_value(cursor: Cursor) -> Steps:
    """YIELD."""
    cursor.pop()
    cursor.push()
    return (Step(Opcode.YIELD),)


# `yield from` is a loop that yields, and an expression whose value is None, because our generators return nothing else. The
# value lies below the iterator; CPython puts it there at the end.


get_yield_from_iter = fixed(Step(Opcode.CONST, None), Step(Opcode.SWAP, 2), Step(Opcode.ITER))
"""The value of the expression, and ITER."""


def send(cursor: Cursor) -> Steps:
    """FOR_ITER without the sent value. Until 3.11, it pops the iterator as our FOR_ITER does."""
    below = cursor.slots[:-2]
    cursor.slots_at_target = [*below, Slot.VALUE]
    if cursor.raws[cursor.raw.target].name == "END_SEND":
        cursor.slots_at_target = [*below, Slot.NULL, Slot.VALUE]
    return (Step(Opcode.POP), Step(Opcode.FOR_ITER, None, cursor.raw.target))


def end_send(cursor: Cursor) -> Steps:
    """Nothing, because FOR_ITER has popped the iterator."""
    cursor.settle()
    cursor.slots[-1] = Slot.VALUE
    return ()


# Operators, truth and loops

NOT = Step(Opcode.UNARY, "not")


binary = settled(
    lambda cursor: (Step(Opcode.SUBSCR) if cursor.raw.text == "[]" else Step(Opcode.BINARY, cursor.raw.text),)
)
"""BINARY; since 3.14 also SUBSCR."""


def compare(cursor: Cursor) -> Steps:
    """COMPARE, which may include a TO_BOOL since 3.13."""
    cursor.settle()
    converts = cursor.raw.text.startswith("bool(")
    return (Step(Opcode.COMPARE, cursor.raw.value), *(to_bool(cursor) if converts else ()))


def to_bool(cursor: Cursor) -> Steps:
    """Nothing if the next instruction tests truth itself. Otherwise this is how newer versions compile `not not`."""
    tested = cursor.is_near(1, "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT", "TO_BOOL")
    return () if tested else (NOT, NOT)


INTRINSICS = {
    "INTRINSIC_UNARY_POSITIVE": Step(Opcode.UNARY, "+"),
    "INTRINSIC_LIST_TO_TUPLE": Step(Opcode.LIST_TO_TUPLE),
}


def call_intrinsic(cursor: Cursor) -> Steps:
    """Two of CPython's internal functions are operators; the others belong to generic functions and classes."""
    cursor.settle()
    return (INTRINSICS.get(cursor.raw.text, Step(Opcode.UNSUPPORTED, "a type parameter")),)


get_iter = simple(Opcode.ITER)
"""ITER."""


def for_iter(cursor: Cursor) -> Steps:
    """FOR_ITER, which jumps with the iterator gone. Since 3.12, END_FOR and what follows it take the iterator away."""
    cursor.slots_at_target = cursor.slots[:-1]
    if cursor.raws[cursor.raw.target].name == "END_FOR":
        cursor.slots_at_target += [Slot.NULL, Slot.NULL]
    cursor.push()
    return (Step(Opcode.FOR_ITER, None, cursor.raw.target),)


# Since CPython 3.15, the stack has an index above each iterator. It is not a value.


def get_iter_with_index(cursor: Cursor) -> Steps:
    """ITER. The argument is not 0 in `yield from`."""
    steps = get_yield_from_iter(cursor) if cursor.raw.number else get_iter(cursor)
    cursor.slots[-1] = Slot.NULL
    return steps


def for_iter_with_index(cursor: Cursor) -> Steps:
    """FOR_ITER, which jumps to END_FOR with the iterator gone; END_FOR and POP_ITER take it away."""
    cursor.slots_at_target = [*cursor.slots[:-2], Slot.NULL, Slot.NULL, Slot.NULL]
    cursor.push()
    return (Step(Opcode.FOR_ITER, None, cursor.raw.target),)


def pop_iter_with_index(cursor: Cursor) -> Steps:
    """POP; nothing for an iterator that FOR_ITER has taken away."""
    cursor.pop()
    return pop_top(cursor)


def send_with_index(cursor: Cursor) -> Steps:
    """FOR_ITER without the sent value, which jumps to END_SEND with the iterator gone."""
    cursor.slots_at_target = [*cursor.slots[:-3], Slot.NULL, Slot.NULL, Slot.VALUE]
    return (Step(Opcode.POP), Step(Opcode.FOR_ITER, None, cursor.raw.target))


# Displays, formatting and patterns


def keyed_map(cursor: Cursor) -> Steps:
    """BUILD_KEYED: the keys are the constant before it."""
    cursor.settle()
    cursor.slots[-1] = Slot.VALUE
    return (Step(Opcode.BUILD_KEYED, cursor.near(-1).value),)


CONVERSIONS = (Slot.VALUE, Slot.STR, Slot.REPR, Slot.ASCII)
CONVERSION_TEXTS = {Slot.VALUE: "", Slot.STR: "s", Slot.REPR: "r", Slot.ASCII: "a"}


def convert_value(cursor: Cursor) -> Steps:
    """Leaves the conversion to the FORMAT that follows."""
    cursor.slots[-1] = CONVERSIONS[cursor.raw.number]
    return ()


def format_value(cursor: Cursor) -> Steps:
    """FORMAT until 3.12: bits 0 and 1 are the conversion, bit 2 says that there is a specification."""
    has_spec = bool(cursor.raw.number & 4)
    cursor.slots[-2 if has_spec else -1] = CONVERSIONS[cursor.raw.number & 3]
    return _format(cursor, has_spec)


def _format(cursor: Cursor, has_spec: bool) -> Steps:
    cursor.pop(has_spec)
    (converted,) = cursor.pop()
    cursor.push()
    return (Step(Opcode.FORMAT, (CONVERSION_TEXTS[converted], has_spec)),)


format_simple, format_with_spec = partial(_format, has_spec=False), partial(_format, has_spec=True)
