"""What each version of CPython has in its bytecode: tables, from which `decode` takes what its interpreter needs.

A new version is an entry in `ADDED_ROWS` and one in `LOOP_END`, and in `UNSUPPORTED` where it has new constructs. The
test of completeness lists the instructions that are still missing.
"""

from __future__ import annotations

from cuda_device.bytecode import rows
from cuda_device.bytecode.instructions import Opcode
from cuda_device.bytecode.raw import Row, Step

IGNORED = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "NOT_TAKEN", "PRECALL", "RESUME", "COPY_FREE_VARS"})
"""No effect of their own; EXTENDED_ARG is already in the argument of the instruction behind it."""

FUSED = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
"""Two instructions in one."""

LOOP_END: dict[tuple[int, int], tuple[str, ...]] = {
    (3, 11): (),
    (3, 12): ("END_FOR",),
    (3, 13): ("END_FOR", "POP_TOP"),
    (3, 14): ("END_FOR", "POP_ITER"),
}
"""What FOR_ITER's target starts with, to take the exhausted iterator away. Our FOR_ITER does so itself."""

ADDED_ROWS: dict[tuple[int, int], dict[str, Row]] = {}
"""By version: the rows that the version before has not, or has differently."""

ADDED_ROWS[3, 11] = {
    "LOAD_CONST": rows.load_const,
    "LOAD_FAST": rows.load_fast,
    "STORE_FAST": rows.store_fast,
    "DELETE_FAST": rows.simple(Opcode.DELETE, rows.value),
    "LOAD_DEREF": rows.simple(Opcode.LOAD_CELL, rows.value),
    "STORE_DEREF": rows.simple(Opcode.STORE_CELL, rows.value),
    "DELETE_DEREF": rows.simple(Opcode.DELETE_CELL, rows.value),
    "LOAD_CLOSURE": rows.simple(Opcode.CLOSURE, rows.value),
    "MAKE_CELL": rows.nothing,
    "LOAD_GLOBAL": rows.load_callable(Opcode.GLOBAL),
    "IMPORT_NAME": rows.simple(Opcode.IMPORT, rows.value),
    "IMPORT_FROM": rows.simple(Opcode.IMPORT_FROM, rows.value),
    "UNARY_POSITIVE": rows.fixed(Step(Opcode.UNARY, "+")),
    "UNARY_NEGATIVE": rows.fixed(Step(Opcode.UNARY, "-")),
    "UNARY_INVERT": rows.fixed(Step(Opcode.UNARY, "~")),
    "UNARY_NOT": rows.fixed(rows.NOT),
    "BINARY_OP": rows.binary,
    "COMPARE_OP": rows.compare,
    "IS_OP": rows.simple(Opcode.IS, rows.flag),
    "CONTAINS_OP": rows.simple(Opcode.CONTAINS, rows.flag),
    "BINARY_SUBSCR": rows.simple(Opcode.SUBSCR),
    "STORE_SUBSCR": rows.simple(Opcode.STORE_SUBSCR),
    "DELETE_SUBSCR": rows.simple(Opcode.DELETE_SUBSCR),
    "BUILD_SLICE": rows.simple(Opcode.BUILD_SLICE, rows.number),
    "LOAD_ATTR": rows.simple(Opcode.ATTR, rows.value),
    "LOAD_METHOD": rows.load_callable(Opcode.ATTR, rows.always),
    "STORE_ATTR": rows.simple(Opcode.STORE_ATTR, rows.value),
    "DELETE_ATTR": rows.simple(Opcode.DELETE_ATTR, rows.value),
    "PUSH_NULL": rows.push_null,
    "KW_NAMES": rows.nothing,
    "CALL": rows.call,
    "CALL_FUNCTION_EX": rows.call_function_ex,
    "MAKE_FUNCTION": rows.make_function,
    "BUILD_TUPLE": rows.build("tuple"),
    "BUILD_LIST": rows.build("list"),
    "BUILD_SET": rows.build("set"),
    "BUILD_MAP": rows.build("map"),
    "BUILD_STRING": rows.build("string"),
    "BUILD_CONST_KEY_MAP": rows.keyed_map,
    "LIST_APPEND": rows.into(Opcode.LIST_APPEND),
    "LIST_EXTEND": rows.into(Opcode.LIST_EXTEND),
    "LIST_TO_TUPLE": rows.simple(Opcode.LIST_TO_TUPLE),
    "SET_ADD": rows.into(Opcode.SET_ADD),
    "SET_UPDATE": rows.into(Opcode.SET_UPDATE),
    "MAP_ADD": rows.into(Opcode.MAP_ADD),
    "DICT_UPDATE": rows.into(Opcode.MAP_UPDATE),
    "DICT_MERGE": rows.into(Opcode.MAP_MERGE),
    "FORMAT_VALUE": rows.format_value,
    "UNPACK_SEQUENCE": rows.simple(Opcode.UNPACK, rows.number),
    "UNPACK_EX": rows.simple(Opcode.UNPACK_EX, lambda raw: (raw.number & 0xFF, raw.number >> 8)),
    "GET_ITER": rows.simple(Opcode.ITER),
    "FOR_ITER": rows.for_iter,
    "JUMP_FORWARD": rows.jump(Opcode.JUMP),
    "JUMP_BACKWARD": rows.jump(Opcode.JUMP),
    "JUMP_BACKWARD_NO_INTERRUPT": rows.jump(Opcode.JUMP),
    "POP_JUMP_FORWARD_IF_TRUE": rows.jump(Opcode.JUMP_IF_TRUE),
    "POP_JUMP_BACKWARD_IF_TRUE": rows.jump(Opcode.JUMP_IF_TRUE),
    "POP_JUMP_FORWARD_IF_FALSE": rows.jump(Opcode.JUMP_IF_FALSE),
    "POP_JUMP_BACKWARD_IF_FALSE": rows.jump(Opcode.JUMP_IF_FALSE),
    "POP_JUMP_FORWARD_IF_NONE": rows.jump_if_none(Opcode.JUMP_IF_TRUE),
    "POP_JUMP_BACKWARD_IF_NONE": rows.jump_if_none(Opcode.JUMP_IF_TRUE),
    "POP_JUMP_FORWARD_IF_NOT_NONE": rows.jump_if_none(Opcode.JUMP_IF_FALSE),
    "POP_JUMP_BACKWARD_IF_NOT_NONE": rows.jump_if_none(Opcode.JUMP_IF_FALSE),
    "JUMP_IF_TRUE_OR_POP": rows.jump_if_or_pop(Opcode.JUMP_IF_TRUE),
    "JUMP_IF_FALSE_OR_POP": rows.jump_if_or_pop(Opcode.JUMP_IF_FALSE),
    "RETURN_VALUE": rows.simple(Opcode.RETURN),
    "RETURN_GENERATOR": rows.return_generator,
    "YIELD_VALUE": rows.yield_value,
    "GET_YIELD_FROM_ITER": rows.get_yield_from_iter,
    "SEND": rows.send,
    "LOAD_ASSERTION_ERROR": rows.load_assertion_error,
    "RAISE_VARARGS": rows.raise_varargs,
    "COPY": rows.copy,
    "SWAP": rows.swap,
    "POP_TOP": rows.pop_top,
    "GET_LEN": rows.simple(Opcode.GET_LEN),
    "MATCH_SEQUENCE": rows.simple(Opcode.MATCH_SEQUENCE),
    "MATCH_MAPPING": rows.simple(Opcode.MATCH_MAPPING),
    "MATCH_KEYS": rows.simple(Opcode.MATCH_KEYS),
    "MATCH_CLASS": rows.match_class,
}

ADDED_ROWS[3, 12] = {
    "END_SEND": rows.end_send,
    "LOAD_FAST_CHECK": rows.load_fast,
    "LOAD_FAST_AND_CLEAR": rows.load_fast_and_clear,
    "LOAD_ATTR": rows.load_callable(Opcode.ATTR),
    "BINARY_SLICE": rows.fixed(Step(Opcode.BUILD_SLICE, 2), Step(Opcode.SUBSCR)),
    "STORE_SLICE": rows.fixed(Step(Opcode.BUILD_SLICE, 2), Step(Opcode.STORE_SUBSCR)),
    "CALL_INTRINSIC_1": rows.call_intrinsic,
    "CALL_INTRINSIC_2": rows.call_intrinsic,
    "POP_JUMP_IF_TRUE": rows.jump(Opcode.JUMP_IF_TRUE),
    "POP_JUMP_IF_FALSE": rows.jump(Opcode.JUMP_IF_FALSE),
    "POP_JUMP_IF_NONE": rows.jump_if_none(Opcode.JUMP_IF_TRUE),
    "POP_JUMP_IF_NOT_NONE": rows.jump_if_none(Opcode.JUMP_IF_FALSE),
    "RETURN_CONST": rows.return_const,
}

ADDED_ROWS[3, 13] = {
    "LOAD_FAST": rows.load_fast_or_cell,
    "LOAD_FAST_CHECK": rows.load_fast_or_cell,
    "CALL_KW": rows.call_kw,
    "SET_FUNCTION_ATTRIBUTE": rows.nothing,
    "TO_BOOL": rows.to_bool,
    "CONVERT_VALUE": rows.convert_value,
    "FORMAT_SIMPLE": rows.format_simple,
    "FORMAT_WITH_SPEC": rows.format_with_spec,
}

ADDED_ROWS[3, 14] = {
    "LOAD_FAST_BORROW": rows.load_fast_or_cell,
    "CALL_FUNCTION_EX": rows.call_function_ex_with_slot,
    "LOAD_SMALL_INT": rows.simple(Opcode.CONST, rows.value),
    "LOAD_COMMON_CONSTANT": rows.load_common_constant,
    "POP_ITER": rows.pop_top,
}


UNSUPPORTED = {
    name: description
    for description, names in {
        "with": "BEFORE_WITH LOAD_SPECIAL",
        "try": "CHECK_EG_MATCH CHECK_EXC_MATCH CLEANUP_THROW POP_EXCEPT PREP_RERAISE_STAR PUSH_EXC_INFO RERAISE"
        " WITH_EXCEPT_START",
        "async": "ASYNC_GEN_WRAP BEFORE_ASYNC_WITH END_ASYNC_FOR GET_AITER GET_ANEXT GET_AWAITABLE",
        "assignment to a global variable": "STORE_GLOBAL",
        "del of a global variable": "DELETE_GLOBAL",
        "class": "LOAD_BUILD_CLASS",
        "super()": "LOAD_SUPER_ATTR",
        "a t-string": "BUILD_INTERPOLATION BUILD_TEMPLATE",
        "code outside of a function": "IMPORT_STAR LOAD_NAME STORE_NAME DELETE_NAME LOAD_LOCALS LOAD_CLASSDEREF"
        " LOAD_FROM_DICT_OR_DEREF LOAD_FROM_DICT_OR_GLOBALS PRINT_EXPR SETUP_ANNOTATIONS",
    }.items()
    for name in names.split()
}
"""Raw instructions of constructs that device code has not, and the constructs' names."""
