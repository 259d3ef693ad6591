"""The instructions of a Python function, the same for every supported version of CPython.

CPython changes its bytecode with each release. So that the rest of the compiler need not change, `decode` translates the bytecode
of the running interpreter to the opcodes listed here, those of a stack machine with these conventions:

* Arguments are resolved: a variable is its name, a constant is the object, an operator is its text, a jump knows the
  index of the instruction that it goes to.
* The stack holds Python values only. CPython's NULL markers, and names that it passes on the stack (the keywords of a
  call), are gone.
* No instruction is fused or specialised: each has one effect.
* Every instruction is reachable from the first one, and an `UNSUPPORTED` instruction ends its path.

For example,

    def scale(x, n):            0  LOAD 'n'                 4  LOAD 'x'
        if n > 0:               1  CONST 0                  5  CONST 2
            return x * 2        2  COMPARE '>'              6  BINARY '*'
        return x                3  JUMP_IF_FALSE -> 8       7  RETURN
                                                            8  LOAD 'x'
                                                            9  RETURN
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from cuda_device.errors import NOWHERE, Location
from cuda_device.lazy_dataclasses import dataclass


class Opcode(Enum):
    """What an instruction does.

    Comments give the argument, if there is one, and the effect on the stack as `before → after`, with the top of the
    stack at the right and whatever lies below left out. Positions in the stack count from 1, the top.
    """

    # Constants and variables. A name is looked up in one of three places: the function's fast locals (LOAD), its cells
    # (LOAD_CELL: variables that it shares with functions inside or around it), or the globals and builtins (GLOBAL).
    # Fast locals and cells are different places, and one name can be in both: a comprehension's own variable may be
    # called like a captured variable of the function. When a function starts, its parameters are in fast locals, and
    # those of them that `co_cellvars` lists are in their cells too.

    CONST = auto()
    """Argument: the object. `→ value`"""
    LOAD = auto()
    """Argument: a fast local's name; it may be undefined (Python raises UnboundLocalError). `→ value`"""
    STORE = auto()
    """Argument: a fast local's name. `value →`. What LOAD_AND_CLEAR pushed may be stored again, even if undefined."""
    DELETE = auto()
    """Argument: a fast local's name, undefined from here on. `→`"""
    LOAD_AND_CLEAR = auto()
    """Argument: a fast local's name, undefined from here on. `→ value`, and the value may be "undefined".

    Comprehensions that run inside their function (3.12) borrow a variable so, and STORE it when they are done."""
    LOAD_CELL = auto()
    """Argument: name of a cell variable; it may be undefined. `→ value`"""
    STORE_CELL = auto()
    """Argument: name of a cell variable. `value →`"""
    DELETE_CELL = auto()
    """Argument: name of a cell variable, undefined from here on. `→`"""
    CLOSURE = auto()
    """Argument: name of a cell variable; pushes its cell, not its value. `→ cell`"""
    SAVE_CELL = auto()
    """Argument: name of a cell variable, which gets a new, empty cell. `→ cell`, the old one.

    As LOAD_AND_CLEAR, for a comprehension's variable that a function inside the comprehension captures."""
    RESTORE_CELL = auto()
    """Argument: name of a cell variable, which gets back the cell that SAVE_CELL pushed. `cell →`"""
    GLOBAL = auto()
    """Argument: name of a global or builtin. `→ value`"""

    # Operators.

    UNARY = auto()
    """Argument: "-", "+", "~" or "not" (which tests truth and gives a bool). `a → value`"""
    BINARY = auto()
    """Argument: the operator, such as "+" or "//", with "=" behind it if in place ("+="). `a, b → value`"""
    COMPARE = auto()
    """Argument: "<", "<=", "==", "!=", ">" or ">=". `a, b → value`"""
    IS = auto()
    """Argument: True for `is not`. `a, b → bool`"""
    CONTAINS = auto()
    """Argument: True for `not in`. `item, container → bool`"""

    # Items and attributes.

    SUBSCR = auto()
    """`container, key → value`"""
    STORE_SUBSCR = auto()
    """`value, container, key →`"""
    BUILD_SLICE = auto()
    """Argument: 2 or 3. `start, stop → slice` or `start, stop, step → slice`"""
    ATTR = auto()
    """Argument: the attribute's name; a method is one bound value. `object → value`"""
    STORE_ATTR = auto()
    """Argument: the attribute's name. `value, object →`"""

    # Calls and functions.

    CALL = auto()
    """Argument: n, the number of arguments, all positional. `callable, a1, … an → result`"""
    CALL_KW = auto()
    """Argument: (n, names): the number of all arguments, the names of the last ones. `callable, a1, … an → result`"""
    CALL_EX = auto()
    """Argument: whether there is a mapping. `callable, iterable → result` or `callable, iterable, mapping → result`.

    The iterable may be any, not only a tuple."""
    MAKE_FUNCTION = auto()
    """Argument: the extras on the stack, in their order from the bottom. `extra, … code → function`

    Extras are "defaults" (a tuple), "kwdefaults" (a dict), "annotations" (a tuple), "annotate" (a function, 3.14) and
    "closure" (a tuple of cells)."""

    # Displays, comprehensions and f-strings.

    BUILD = auto()
    """Argument: (kind, n), kind "tuple", "list", "string" (all n are str) or "map" (n pairs of key and value).
    `a1, … an → value` or `k1, v1, … kn, vn → dict`"""
    BUILD_KEYED = auto()
    """Argument: a tuple of n keys. `v1, … vn → dict`"""
    LIST_APPEND = auto()
    """Argument: the position of the list after the pop. `list, …, item → list, …`"""
    LIST_EXTEND = auto()
    """Argument: the position of the list after the pop. `list, …, iterable → list, …`"""
    LIST_TO_TUPLE = auto()
    """`list → tuple`"""
    MAP_ADD = auto()
    """Argument: the position of the dict after the pops. `dict, …, key, value → dict, …`"""
    MAP_UPDATE = auto()
    """Argument: the position of the dict after the pop; later keys win. `dict, …, mapping → dict, …`"""
    MAP_MERGE = auto()
    """As MAP_UPDATE, for the keywords of a call: a repeated key is an error."""
    FORMAT = auto()
    """Argument: (conversion, has_spec), conversion "", "s", "r" or "a". `value → str` or `value, spec → str`"""

    # Unpacking and iteration.

    UNPACK = auto()
    """Argument: n, which must be the length. `iterable → an, … a1`: the first item is on top"""
    UNPACK_EX = auto()
    """Argument: (before, after). `iterable → z_after, … z1, list, a_before, … a1`: the first item is on top"""
    ITER = auto()
    """`iterable → iterator`"""
    FOR_ITER = auto()
    """Pushes the next item: `iterator → iterator, item`; or jumps, and the exhausted iterator is gone: `iterator →`"""

    # Control.

    JUMP = auto()
    """`→`"""
    JUMP_IF_TRUE = auto()
    """Jumps if the value is true in Python's sense (any value: `bool(value)`). `value →`, both ways"""
    JUMP_IF_FALSE = auto()
    """Jumps if the value is false in Python's sense. `value →`, both ways"""
    RETURN = auto()
    """`value →`"""
    YIELD = auto()
    """Yields a value. Execution continues with None. `value → None`"""
    RAISE = auto()
    """Argument: n from 0 to 2. `→` (the current exception), `exception →` or `exception, cause →`"""
    ASSERT_FAIL = auto()
    """An `assert` did not hold. Argument: whether it has a message. `→` or `message →`"""

    # The stack itself.

    COPY = auto()
    """Argument: n. `an, … a1 → an, … a1, an`"""
    SWAP = auto()
    """Argument: n. `an, … a1 → a1, … an`: exchanges the top with position n"""
    POP = auto()
    """`value →`"""

    # The `match` statement.

    GET_LEN = auto()
    """`value → value, len(value)`"""
    MATCH_SEQUENCE = auto()
    """`value → value, bool`: is it a sequence, in the sense of a sequence pattern?"""

    # The rest.

    UNSUPPORTED = auto()
    """Argument: the name of the unsupported construct, such as "try". Ends the path."""


TERMINATORS = frozenset({Opcode.JUMP, Opcode.RETURN, Opcode.RAISE, Opcode.ASSERT_FAIL, Opcode.UNSUPPORTED})
"""After these, execution never goes on to the next instruction."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: `target` is an index into the tuple that `decode` returned."""

    opcode: Opcode
    argument: Any = None
    target: int | None = None
    location: Location = NOWHERE

    def __str__(self) -> str:
        argument = "" if self.argument is None and self.opcode is not Opcode.CONST else f" {self.argument!r}"
        return self.opcode.name + argument + ("" if self.target is None else f" -> {self.target}")
