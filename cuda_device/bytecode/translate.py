"""How each raw instruction of CPython is translated: the functions that the tables in `versions` name.

A row is called with the `Place` where its raw instruction stands. It returns our instructions for it, mostly one, and
does to the place's stack what the raw one does. `CALL 1` below `LOAD_GLOBAL (len + NULL)` and an argument, for
example, pops the argument and the pair, finds one value in the pair, pushes a value, and returns `CALL 1`.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable

from cuda_device.bytecode.instructions import Opcode
from cuda_device.bytecode.raw import Place, Raw, Row, Slot, Step, Steps

# Functions that make rows


def simple(opcode: Opcode, argument: Callable[[Raw], object] = lambda raw: None) -> Row:
    """One instruction."""

    def row(place: Place) -> Steps:
        place.settle()
        return (Step(opcode, argument(place.raw)),)

    return row


def fixed(*steps: Step) -> Row:
    """Always the same instructions."""

    def row(place: Place) -> Steps:
        place.settle()
        return steps

    return row


def build(kind: str) -> Row:
    """BUILD of that kind."""
    return simple(Opcode.BUILD, lambda raw: (kind, raw.number))


def into(opcode: Opcode) -> Row:
    """Adds the top of the stack to a container further down."""

    def row(place: Place) -> Steps:
        place.settle()
        return (Step(opcode, place.position(place.raw.number)),)

    return row


def jump(opcode: Opcode) -> Row:
    """A jump that pops what it tests."""

    def row(place: Place) -> Steps:
        place.settle()
        return (Step(opcode, None, place.raw.target),)

    return row


def jump_if_none(opcode: Opcode) -> Row:
    """A jump with an `is None` in it."""

    def row(place: Place) -> Steps:
        place.settle()
        return (Step(Opcode.CONST, None), Step(Opcode.IS, False), Step(opcode, None, place.raw.target))

    return row


def jump_if_or_pop(opcode: Opcode) -> Row:
    """A jump that pops what it tests only if it does not jump."""

    def row(place: Place) -> Steps:
        place.slots_at_target = place.slots.copy()
        place.settle()
        return (Step(Opcode.COPY, 1), Step(opcode, None, place.raw.target), Step(Opcode.POP))

    return row


def value(raw: Raw) -> object:
    """An argument: a name or constant."""
    return raw.value


def number(raw: Raw) -> object:
    """An argument: a count."""
    return raw.number


def flag(raw: Raw) -> bool:
    """An argument: the lowest bit."""
    return bool(raw.number & 1)


def always(raw: Raw) -> bool:
    """For a load that exists for calls only."""
    return True


# Constants and variables


def load_const(place: Place) -> Steps:
    """A constant; nothing if it is the names for the instruction behind it, which takes them itself."""
    if place.is_near(1, "CALL_KW", "BUILD_CONST_KEY_MAP"):
        place.push(Slot.NULL)
        return ()
    place.push()
    constant = place.raw.value
    if isinstance(constant, slice):  # 3.14 folds slices; BUILD_SLICE is what every other version has.
        parts = [constant.start, constant.stop] + [constant.step] * (constant.step is not None)
        return (*(Step(Opcode.CONST, part) for part in parts), Step(Opcode.BUILD_SLICE, len(parts)))
    return (Step(Opcode.CONST, constant),)


def load_common_constant(place: Place) -> Steps:
    """A builtin, whatever its name means in the program. Only `assert` loads AssertionError so."""
    if place.raw.text == "AssertionError":
        return load_assertion_error(place)
    place.push()
    return (Step(Opcode.CONST, getattr(builtins, place.raw.text)),)


def load_assertion_error(place: Place) -> Steps:
    """The start of a failing `assert`."""
    place.push(Slot.ASSERTION)
    return ()


def load_fast(place: Place) -> Steps:
    """LOAD."""
    place.push()
    return (Step(Opcode.LOAD, place.raw.value),)


def load_fast_or_cell(place: Place) -> Steps:
    """LOAD, or CLOSURE if what follows makes a function with this cell in its closure."""
    place.push()
    return (Step(Opcode.CLOSURE if _makes_closure(place) else Opcode.LOAD, place.raw.value),)


def _makes_closure(place: Place) -> bool:
    """Whether there is: this and more loads, a tuple of them all, the code, a function, and its closure attribute."""
    count = 1
    while place.is_near(count, "LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK"):
        count += 1
    return (
        place.is_near(count, "BUILD_TUPLE")
        and place.near(count).number >= count
        and place.is_near(count + 1, "LOAD_CONST")
        and place.is_near(count + 2, "MAKE_FUNCTION")
        and place.is_near(count + 3, "SET_FUNCTION_ATTRIBUTE")
        and place.near(count + 3).number == FUNCTION_EXTRAS["closure"]
    )


def load_fast_and_clear(place: Place) -> Steps:
    """A comprehension borrows a variable; MAKE_CELL tells that it is a cell variable."""
    if place.is_near(1, "MAKE_CELL"):
        place.push(Slot.SAVED_CELL)
        return (Step(Opcode.SAVE_CELL, place.raw.value),)
    place.push()
    return (Step(Opcode.LOAD_AND_CLEAR, place.raw.value),)


def store_fast(place: Place) -> Steps:
    """STORE, or RESTORE_CELL of what SAVE_CELL saved."""
    (slot,) = place.pop()
    return (Step(Opcode.RESTORE_CELL if slot is Slot.SAVED_CELL else Opcode.STORE, place.raw.value),)


# The stack


def nothing(place: Place) -> Steps:
    """Only the effect on the stack."""
    place.settle()
    return ()


def push_null(place: Place) -> Steps:
    """The NULL that goes with a callable."""
    place.push(Slot.NULL)
    return ()


def pop_top(place: Place) -> Steps:
    """POP."""
    place.position(1)
    place.pop()
    return (Step(Opcode.POP),)


def copy(place: Place) -> Steps:
    """COPY. Before a test whether `all`, `any` or `tuple` is the builtin, a jump to where it is not.

    There, 3.14 calls it, as every other version does; if it is the builtin, 3.14 runs the generator in a loop instead.
    """
    if place.is_near(1, "LOAD_COMMON_CONSTANT") and place.is_near(2, "IS_OP") and place.is_near(3, "POP_JUMP_IF_FALSE"):
        return (Step(Opcode.JUMP, None, place.near(3).target),)
    position = place.position(place.raw.number)
    place.push()
    return (Step(Opcode.COPY, position),)


def swap(place: Place) -> Steps:
    """SWAP."""
    place.position(1)
    position = place.position(place.raw.number)
    other = -place.raw.number
    place.slots[-1], place.slots[other] = place.slots[other], place.slots[-1]
    return (Step(Opcode.SWAP, position),)


# Calls and functions


def load_callable(opcode: Opcode, is_called: Callable[[Raw], bool] = flag) -> Row:
    """A row that loads a value and, if a call comes of it, a NULL (or the parts of a method).

    Until 3.12 the NULL is below, and the value need not be what is called: `Name.method(x).other(*y)` loads `Name` with
    the NULL that goes with `other`. Since 3.13 it is above, but then they are a pair, whose order does not matter.
    """

    def row(place: Place) -> Steps:
        place.settle()
        if is_called(place.raw):
            place.slots[-2] = Slot.NULL
        return (Step(opcode, place.raw.value),)

    return row


def call(place: Place) -> Steps:
    """CALL, or CALL_KW if the names of keywords were noted just before (until 3.12)."""
    count = _pop_call(place)
    if count is None:
        return ()
    if place.is_near(-1, "KW_NAMES"):
        names = place.code.co_consts[place.near(-1).number]  # 3.11's `dis` does not know that it is a constant.
        return (Step(Opcode.CALL_KW, (count, names)),)
    return (Step(Opcode.CALL, count),)


def call_kw(place: Place) -> Steps:
    """CALL_KW, with the names in the constant before."""
    place.pop()
    return (Step(Opcode.CALL_KW, (_pop_call(place), place.near(-1).value)),)


def _pop_call(place: Place) -> int | None:
    """Pops what a call takes and pushes its result; the number of arguments, or None for the call of an `assert`.

    Below the counted arguments is a pair: a callable and a NULL, or a callable and one more argument, the first.
    """
    place.pop(place.raw.number)
    pair = place.pop(2)
    if Slot.ASSERTION in pair:
        place.push(Slot.FAILURE)
        return None
    place.push()
    return place.raw.number + sum(slot.is_value for slot in pair) - 1


def call_function_ex(place: Place) -> Steps:
    """CALL_EX, with a NULL beside the callable."""
    has_mapping = flag(place.raw)
    place.pop(3 + has_mapping)
    place.push()
    return (Step(Opcode.CALL_EX, has_mapping),)


def call_function_ex_with_slot(place: Place) -> Steps:
    """CALL_EX, where the mapping always has a slot, which can be NULL."""
    (mapping,) = place.pop()
    place.pop(3)
    place.push()
    return (Step(Opcode.CALL_EX, mapping.is_value),)


FUNCTION_EXTRAS = {"defaults": 1, "kwdefaults": 2, "annotations": 4, "annotate": 16, "closure": 8}
"""The bit of each extra, in the order in which they lie on the stack."""


def make_function(place: Place) -> Steps:
    """MAKE_FUNCTION with its extras: bits of its own until 3.12, then instructions behind it, one for each."""
    place.settle()
    bits, distance = place.raw.number, 1
    while place.is_near(distance, "SET_FUNCTION_ATTRIBUTE"):
        bits |= place.near(distance).number
        distance += 1
    return (Step(Opcode.MAKE_FUNCTION, tuple(extra for extra, bit in FUNCTION_EXTRAS.items() if bits & bit)),)


def raise_varargs(place: Place) -> Steps:
    """RAISE, or the end of an `assert`."""
    slots = place.pop(place.raw.number)
    if slots == [Slot.ASSERTION] or slots == [Slot.FAILURE]:
        return (Step(Opcode.ASSERT_FAIL, slots == [Slot.FAILURE]),)
    return (Step(Opcode.RAISE, place.raw.number),)


def return_const(place: Place) -> Steps:
    """CONST and RETURN."""
    return (Step(Opcode.CONST, place.raw.value), Step(Opcode.RETURN))


def return_generator(place: Place) -> Steps:
    """The first instruction of a generator or coroutine."""
    if not place.code.co_flags & inspect.CO_GENERATOR:
        return (Step(Opcode.UNSUPPORTED, "async"),)
    place.push()
    return (Step(Opcode.CONST, None),)  # what the first `next` sends


def yield_value(place: Place) -> Steps:
    """YIELD."""
    place.pop()
    place.push()
    return (Step(Opcode.YIELD),)


# `yield from` is a loop that yields, and an expression: None, as no generator here returns anything else. Below the iterator
# lies that value, which CPython puts there in the end.


def get_yield_from_iter(place: Place) -> Steps:
    """The value, and ITER."""
    return (Step(Opcode.CONST, None), Step(Opcode.SWAP, 2), Step(Opcode.ITER))


def send(place: Place) -> Steps:
    """FOR_ITER, less what is sent. Until 3.11 it takes the iterator away as our FOR_ITER does."""
    below = place.slots[:-2]
    place.slots_at_target = [*below, Slot.VALUE]
    if place.near(0).target >= 0 and place.raws[place.raw.target].name == "END_SEND":
        place.slots_at_target = [*below, Slot.NULL, Slot.VALUE]
    return (Step(Opcode.POP), Step(Opcode.FOR_ITER, None, place.raw.target))


def end_send(place: Place) -> Steps:
    """Nothing: the iterator is gone."""
    place.pop(2)
    place.push()
    return ()


# Operators, truth and loops

NOT = Step(Opcode.UNARY, "not")


def binary(place: Place) -> Steps:
    """BINARY; since 3.14 also SUBSCR."""
    place.settle()
    return (Step(Opcode.SUBSCR) if place.raw.text == "[]" else Step(Opcode.BINARY, place.raw.text),)


def compare(place: Place) -> Steps:
    """COMPARE, with a TO_BOOL in it since 3.13."""
    place.settle()
    converts = place.raw.text.startswith("bool(")
    return (Step(Opcode.COMPARE, place.raw.value), *(to_bool(place) if converts else ()))


def to_bool(place: Place) -> Steps:
    """Nothing if what follows tests truth itself. If not, this is all that newer versions leave of `not not`."""
    tested = place.is_near(1, "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT", "TO_BOOL")
    return () if tested else (NOT, NOT)


INTRINSICS = {
    "INTRINSIC_UNARY_POSITIVE": Step(Opcode.UNARY, "+"),
    "INTRINSIC_LIST_TO_TUPLE": Step(Opcode.LIST_TO_TUPLE),
}


def call_intrinsic(place: Place) -> Steps:
    """Two of CPython's internal functions are operators; those that remain serve generic functions and classes."""
    place.settle()
    return (INTRINSICS.get(place.raw.text, Step(Opcode.UNSUPPORTED, "a type parameter")),)


def for_iter(place: Place) -> Steps:
    """FOR_ITER, which jumps with the iterator gone."""
    place.slots_at_target = place.slots[:-1]
    place.push()
    return (Step(Opcode.FOR_ITER, None, place.raw.target),)


# Displays, formatting and patterns


def keyed_map(place: Place) -> Steps:
    """BUILD_KEYED: the keys are the constant before it."""
    place.settle()
    place.slots[-1] = Slot.VALUE
    return (Step(Opcode.BUILD_KEYED, place.near(-1).value),)


CONVERSIONS = (Slot.VALUE, Slot.STR, Slot.REPR, Slot.ASCII)
CONVERSION_TEXTS = {Slot.VALUE: "", Slot.STR: "s", Slot.REPR: "r", Slot.ASCII: "a"}


def convert_value(place: Place) -> Steps:
    """Leaves the conversion to the FORMAT that follows."""
    place.slots[-1] = CONVERSIONS[place.raw.number]
    return ()


def format_value(place: Place) -> Steps:
    """FORMAT until 3.12: bits 0 and 1 are the conversion, bit 2 says that there is a specification."""
    has_spec = bool(place.raw.number & 4)
    place.slots[-2 if has_spec else -1] = CONVERSIONS[place.raw.number & 3]
    return _format(place, has_spec)


def format_simple(place: Place) -> Steps:
    """FORMAT without a specification."""
    return _format(place, has_spec=False)


def format_with_spec(place: Place) -> Steps:
    """FORMAT with one."""
    return _format(place, has_spec=True)


def _format(place: Place, has_spec: bool) -> Steps:
    place.pop(has_spec)
    (converted,) = place.pop()
    place.push()
    return (Step(Opcode.FORMAT, (CONVERSION_TEXTS[converted], has_spec)),)
