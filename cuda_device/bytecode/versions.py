"""Tables of the instructions of each CPython version, from which `decode` selects those of the running interpreter.

To support a new version, add an entry to `ADDED_ROWS`, and entries to `UNSUPPORTED` for new constructs. The test of completeness
lists the instructions that are still missing.
"""

from __future__ import annotations

from cuda_device.bytecode import translate
from cuda_device.bytecode.instructions import Opcode
from cuda_device.bytecode.translate import Row, Step

IGNORED = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "NOT_TAKEN", "PRECALL", "RESUME", "COPY_FREE_VARS"})
"""No effect of their own; EXTENDED_ARG is already in the argument of the instruction behind it."""

FUSED = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
"""Two instructions in one."""

ADDED_ROWS: dict[tuple[int, int], dict[str, Row]] = {}
"""By version: the rows that are new or different in this version."""

ADDED_ROWS[3, 11] = {
    "LOAD_CONST": translate.load_const,
    "LOAD_FAST": translate.simple(Opcode.LOAD, translate.value),
    "STORE_FAST": translate.store_fast,
    "DELETE_FAST": translate.simple(Opcode.DELETE, translate.value),
    "LOAD_DEREF": translate.simple(Opcode.LOAD_CELL, translate.value),
    "STORE_DEREF": translate.simple(Opcode.STORE_CELL, translate.value),
    "DELETE_DEREF": translate.simple(Opcode.DELETE_CELL, translate.value),
    "LOAD_CLOSURE": translate.simple(Opcode.CLOSURE, translate.value),
    "MAKE_CELL": translate.nothing,
    "LOAD_GLOBAL": translate.load_callable(Opcode.GLOBAL),
    "UNARY_POSITIVE": translate.fixed(Step(Opcode.UNARY, "+")),
    "UNARY_NEGATIVE": translate.fixed(Step(Opcode.UNARY, "-")),
    "UNARY_INVERT": translate.fixed(Step(Opcode.UNARY, "~")),
    "UNARY_NOT": translate.fixed(translate.NOT),
    "BINARY_OP": translate.binary,
    "COMPARE_OP": translate.compare,
    "IS_OP": translate.simple(Opcode.IS, translate.flag),
    "CONTAINS_OP": translate.simple(Opcode.CONTAINS, translate.flag),
    "BINARY_SUBSCR": translate.simple(Opcode.SUBSCR),
    "STORE_SUBSCR": translate.simple(Opcode.STORE_SUBSCR),
    "BUILD_SLICE": translate.simple(Opcode.BUILD_SLICE, translate.number),
    "LOAD_ATTR": translate.simple(Opcode.ATTR, translate.value),
    "LOAD_METHOD": translate.load_callable(Opcode.ATTR, translate.always),
    "STORE_ATTR": translate.simple(Opcode.STORE_ATTR, translate.value),
    "PUSH_NULL": translate.push_null,
    "KW_NAMES": translate.nothing,
    "CALL": translate.call,
    "CALL_FUNCTION_EX": translate.call_function_ex,
    "MAKE_FUNCTION": translate.make_function,
    "BUILD_TUPLE": translate.build("tuple"),
    "BUILD_LIST": translate.build("list"),
    "BUILD_MAP": translate.build("map"),
    "BUILD_STRING": translate.build("string"),
    "BUILD_CONST_KEY_MAP": translate.keyed_map,
    "LIST_APPEND": translate.into(Opcode.LIST_APPEND),
    "LIST_EXTEND": translate.into(Opcode.LIST_EXTEND),
    "LIST_TO_TUPLE": translate.simple(Opcode.LIST_TO_TUPLE),
    "MAP_ADD": translate.into(Opcode.MAP_ADD),
    "DICT_UPDATE": translate.into(Opcode.MAP_UPDATE),
    "DICT_MERGE": translate.into(Opcode.MAP_MERGE),
    "FORMAT_VALUE": translate.format_value,
    "UNPACK_SEQUENCE": translate.simple(Opcode.UNPACK, translate.number),
    "UNPACK_EX": translate.simple(Opcode.UNPACK_EX, lambda raw: (raw.number & 0xFF, raw.number >> 8)),
    "GET_ITER": translate.get_iter,
    "FOR_ITER": translate.for_iter,
    "JUMP_FORWARD": translate.jump(Opcode.JUMP),
    "JUMP_BACKWARD": translate.jump(Opcode.JUMP),
    "JUMP_BACKWARD_NO_INTERRUPT": translate.jump(Opcode.JUMP),
    "POP_JUMP_FORWARD_IF_TRUE": translate.jump(Opcode.JUMP_IF_TRUE),
    "POP_JUMP_BACKWARD_IF_TRUE": translate.jump(Opcode.JUMP_IF_TRUE),
    "POP_JUMP_FORWARD_IF_FALSE": translate.jump(Opcode.JUMP_IF_FALSE),
    "POP_JUMP_BACKWARD_IF_FALSE": translate.jump(Opcode.JUMP_IF_FALSE),
    "POP_JUMP_FORWARD_IF_NONE": translate.jump_if_none(Opcode.JUMP_IF_TRUE),
    "POP_JUMP_BACKWARD_IF_NONE": translate.jump_if_none(Opcode.JUMP_IF_TRUE),
    "POP_JUMP_FORWARD_IF_NOT_NONE": translate.jump_if_none(Opcode.JUMP_IF_FALSE),
    "POP_JUMP_BACKWARD_IF_NOT_NONE": translate.jump_if_none(Opcode.JUMP_IF_FALSE),
    "JUMP_IF_TRUE_OR_POP": translate.jump_if_or_pop(Opcode.JUMP_IF_TRUE),
    "JUMP_IF_FALSE_OR_POP": translate.jump_if_or_pop(Opcode.JUMP_IF_FALSE),
    "RETURN_VALUE": translate.simple(Opcode.RETURN),
    "RETURN_GENERATOR": translate.return_generator,
    "YIELD_VALUE": translate.yield_value,
    "GET_YIELD_FROM_ITER": translate.get_yield_from_iter,
    "SEND": translate.send,
    "LOAD_ASSERTION_ERROR": translate.load_assertion_error,
    "RAISE_VARARGS": translate.raise_varargs,
    "COPY": translate.copy,
    "SWAP": translate.swap,
    "POP_TOP": translate.pop_top,
    "GET_LEN": translate.simple(Opcode.GET_LEN),
    "MATCH_SEQUENCE": translate.simple(Opcode.MATCH_SEQUENCE),
}

ADDED_ROWS[3, 12] = {
    "END_FOR": translate.nothing,
    "END_SEND": translate.end_send,
    "LOAD_FAST_CHECK": translate.simple(Opcode.LOAD, translate.value),
    "LOAD_FAST_AND_CLEAR": translate.load_fast_and_clear,
    "LOAD_ATTR": translate.load_callable(Opcode.ATTR),
    "BINARY_SLICE": translate.fixed(Step(Opcode.BUILD_SLICE, 2), Step(Opcode.SUBSCR)),
    "STORE_SLICE": translate.fixed(Step(Opcode.BUILD_SLICE, 2), Step(Opcode.STORE_SUBSCR)),
    "CALL_INTRINSIC_1": translate.call_intrinsic,
    "CALL_INTRINSIC_2": translate.call_intrinsic,
    "POP_JUMP_IF_TRUE": translate.jump(Opcode.JUMP_IF_TRUE),
    "POP_JUMP_IF_FALSE": translate.jump(Opcode.JUMP_IF_FALSE),
    "POP_JUMP_IF_NONE": translate.jump_if_none(Opcode.JUMP_IF_TRUE),
    "POP_JUMP_IF_NOT_NONE": translate.jump_if_none(Opcode.JUMP_IF_FALSE),
    "RETURN_CONST": translate.settled(lambda cursor: (Step(Opcode.CONST, cursor.raw.value), Step(Opcode.RETURN))),
}

ADDED_ROWS[3, 13] = {
    "LOAD_FAST": translate.load_fast_or_cell,
    "LOAD_FAST_CHECK": translate.load_fast_or_cell,
    "CALL_KW": translate.call_kw,
    "SET_FUNCTION_ATTRIBUTE": translate.nothing,
    "TO_BOOL": translate.to_bool,
    "CONVERT_VALUE": translate.convert_value,
    "FORMAT_SIMPLE": translate.format_simple,
    "FORMAT_WITH_SPEC": translate.format_with_spec,
}

ADDED_ROWS[3, 14] = {
    "LOAD_FAST_BORROW": translate.load_fast_or_cell,
    "CALL_FUNCTION_EX": translate.call_function_ex_with_slot,
    "LOAD_SMALL_INT": translate.simple(Opcode.CONST, translate.value),
    "LOAD_COMMON_CONSTANT": translate.load_common_constant,
    "COPY": translate.copy_or_jump,
    "POP_ITER": translate.pop_top,
}

ADDED_ROWS[3, 15] = {
    "GET_ITER": translate.get_iter_with_index,
    "FOR_ITER": translate.for_iter_with_index,
    "POP_ITER": translate.pop_iter_with_index,
    "SEND": translate.send_with_index,
    "LOAD_COMMON_CONSTANT": translate.load_common_constant_or_number,
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
        "a set": "BUILD_SET SET_ADD SET_UPDATE",
        "del of an item": "DELETE_SUBSCR",
        "del of an attribute": "DELETE_ATTR",
        "a class pattern of match": "MATCH_CLASS",
        "a mapping pattern of match": "MATCH_KEYS MATCH_MAPPING",
        "an import statement": "IMPORT_NAME IMPORT_FROM",
        "a t-string": "BUILD_INTERPOLATION BUILD_TEMPLATE",
        "code outside of a function": "IMPORT_STAR LOAD_NAME STORE_NAME DELETE_NAME LOAD_LOCALS LOAD_CLASSDEREF"
        " LOAD_FROM_DICT_OR_DEREF LOAD_FROM_DICT_OR_GLOBALS PRINT_EXPR SETUP_ANNOTATIONS",
    }.items()
    for name in names.split()
}
"""Raw instructions of unsupported constructs, with the names of the constructs."""
