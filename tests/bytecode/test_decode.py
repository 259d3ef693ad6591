"""Decoding: that the result is well formed, that every version gives the same, and that no instruction is missing.

A test's parameter is filled from the list of that name in `PARAMETERS`.
"""

import dis
import importlib.util
import pathlib
import re
import sys
from unittest import mock

from decoding import depths, programs, samples

import cuda_device as device
from cuda_device.bytecode import decode as decoder
from cuda_device.bytecode import translate, versions
from cuda_device.bytecode.instructions import Opcode
from cuda_device.bytecode.translate import Cursor, Raw, Slot
from cuda_device.errors import NOWHERE, CompilerBug

PACKAGE = pathlib.Path(decoder.__file__).parents[1]


def text(function):
    """The listing of a function."""
    return [str(instruction) for instruction in decoder.decode(function.__code__)]


# The form of what is decoded. What it means, `test_to_ir` shows by running IR.


def test_programs_are_well_formed(program):
    depths.check(decoder.decode(program[0].__code__))


def test_functions_of_the_standard_library_are_well_formed(module):
    code = importlib.util.find_spec(module).loader.get_code(module)
    for inner in programs.all_code(code):
        depths.check(decoder.decode(inner))


def test_positions_count_values_only():
    slots = [Slot.VALUE, Slot.NULL, Slot.ASSERTION, Slot.VALUE]
    raw = Raw("COPY", 4, 4, "", NOWHERE, 1)
    place = Cursor(samples.loop.__code__, [raw], raw, 0, slots)
    assert (place.position(1), place.position(4)) == (1, 2)
    for position in (2, 3, 5):
        try:
            place.position(position)
        except CompilerBug:
            continue
        raise AssertionError("reached what is not there")


def test_a_pattern_is_not_a_test_of_a_builtin():
    """`all(x for x in xs)` begins like `case True`: the first is a jump to the call, the second compares a copy."""
    for constant in ("True", "False", "<built-in function all>", "tuple"):
        names = {"COPY": 1, "LOAD_COMMON_CONSTANT": 0, "IS_OP": 0, "POP_JUMP_IF_FALSE": 0}
        raws = [Raw(name, number, None, constant, NOWHERE, 0, target=7) for name, number in names.items()]
        (step,) = translate.copy_or_jump(Cursor(samples.loop.__code__, raws, raws[0], 0, [Slot.VALUE]))
        is_pattern = constant in ("True", "False")
        assert (step.opcode, step.target) == ((Opcode.COPY, -1) if is_pattern else (Opcode.JUMP, 7))


# The same instructions in every version


def test_is_the_same_in_every_version(golden):
    function, expected = golden
    found = " | ".join(text(function))
    assert re.sub(r"<code object (\w+).*?>", r"\1", found) == expected.replace("\n", " ")


# Nothing is forgotten

INTERNAL = {
    "INTERPRETER_EXIT": "in no code object of a function",
    "ENTER_EXECUTOR": "put in by the optimiser at run time",
    "EXIT_INIT_CHECK": "in a frame that CPython makes for a class",
    "RESERVED": "never used",
    "ANNOTATIONS_PLACEHOLDER": "gone before the code object is made",
    "TRACE_RECORD": "put in by the optimiser at run time",
}


def test_every_instruction_of_the_interpreter_is_known():
    # Numbers from 256 up never leave CPython's own compiler; instrumented ones `dis` does not show.
    real = {name for name, number in dis.opmap.items() if number < 256 and not name.startswith("INSTRUMENTED_")}
    known = decoder.ROWS.keys() | versions.IGNORED | versions.FUSED.keys() | versions.UNSUPPORTED.keys()
    assert real - known - INTERNAL.keys() == set()


def test_new_rows_are_instructions_of_their_version():
    assert versions.ADDED_ROWS[decoder.VERSION].keys() <= dis.opmap.keys()


def test_no_row_is_unsupported_too():
    names = [*decoder.ROWS, *versions.IGNORED, *versions.FUSED, *versions.UNSUPPORTED]
    assert len(names) == len(set(names))


def test_an_unknown_version_is_refused():
    with mock.patch.object(decoder, "VERSION", (3, 99)):
        try:
            decoder.decode(samples.loop.__code__)
        except device.CompileError as error:
            assert "Python 3.99" in error.reason and error.help == "use Python 3.11 to 3.15"
            assert error.location.line == samples.loop.__code__.co_firstlineno
        else:
            raise AssertionError("decoded what it cannot know")


def test_an_unknown_instruction_is_reported_where_it_stands():
    rows = {name: row for name, row in decoder.ROWS.items() if name != "BINARY_OP"}
    with mock.patch.object(decoder, "ROWS", rows):
        assert text(lambda x: x + 1)[-1] == "UNSUPPORTED 'the bytecode instruction BINARY_OP'"


def test_only_decode_looks_at_the_version():
    pattern = re.compile(r"^\s*(import|from) dis\b|sys\.version_info|sys\.hexversion|python_version", re.MULTILINE)
    found = [path.name for path in PACKAGE.rglob("*.py") if pattern.search(path.read_text())]
    assert found == ["decode.py"]


# What device code has not


def test_unsupported_ends_the_path(unsupported):
    function, construct = unsupported
    found = decoder.decode(function.__code__)
    depths.check(found)
    assert [i.argument for i in found if i.opcode is Opcode.UNSUPPORTED] == [construct]
    assert not {i.opcode for i in found} & {Opcode.RETURN, Opcode.RAISE} or function is samples.tries_in_loop
    assert found[-1].location.function == function.__qualname__


def test_unsupported_begins_with_the_protected_part():
    assert text(samples.tries) == ["LOAD 'x'", "CONST 1", "BINARY '+'", "STORE 'x'", "UNSUPPORTED 'try'"]
    assert decoder.decode(samples.tries.__code__)[-1].location.line == samples.tries.__code__.co_firstlineno + 2


def test_other_paths_go_on():
    assert text(samples.assigns_somewhere) == [
        "LOAD 'x'",
        "JUMP_IF_FALSE -> 4",
        "LOAD 'x'",
        "UNSUPPORTED 'assignment to a global variable'",
        "CONST 1",
        "RETURN",
    ]


def test_handlers_of_comprehensions_are_not_the_users():
    def comprehends(xs):
        return [[y + 1 for y in x] for x in xs]

    assert not {i.opcode for i in decoder.decode(comprehends.__code__)} & {Opcode.UNSUPPORTED, Opcode.RAISE}


def test_super_needs_a_class():
    class Child(programs.Box):
        def total(self):
            return super().total()

    # 3.11 has no instruction for it: there, it is a call of the global `super`.
    assert text(Child.total)[0] == "GLOBAL 'super'"
    assert text(Child.total)[-1] in ("UNSUPPORTED 'super()'", "RETURN")


# Where it comes from


def placed(x):
    y = x[0] + x[1]
    return y


def test_locations():
    first = placed.__code__.co_firstlineno
    add = next(i.location for i in decoder.decode(placed.__code__) if i.opcode is Opcode.BINARY)
    assert (add.line, add.end_line, add.column, add.end_column) == (first + 1, first + 1, 8, 19)
    assert add.file == __file__ and add.function == "placed"
    offsets = [i.location.offset for i in decoder.decode(placed.__code__)]
    assert offsets == sorted(offsets) and offsets[0] >= 0
    raw = {i.offset: i.opname for i in dis.get_instructions(placed)}
    assert raw[add.offset] == "BINARY_OP"


def test_unknown_positions():
    code = placed.__code__.replace(co_linetable=b"")
    for instruction in decoder.decode(code):
        location = instruction.location
        assert (location.end_line, location.column, location.end_column) == (0, -1, -1)
        assert location.line == 0 and "bytecode offset" in str(location)


def test_listing():
    assert text(lambda x: None) == ["CONST None", "RETURN"]
    assert text(lambda x: x[:1]) == ["LOAD 'x'", "CONST None", "CONST 1", "BUILD_SLICE 2", "SUBSCR", "RETURN"]


# What running the function does to its bytecode does not show


def hot(n):
    total = 0
    for i in range(n):
        total += i * n if i < 5 else programs.Box().total(i, scale=n)
    return total


def test_specialised_code_is_decoded_as_it_was():
    before = decoder.decode(hot.__code__)
    for _ in range(100):
        hot(20)
    assert decoder.decode(hot.__code__) == before


def test_traced_code_is_decoded_as_it_was():
    before = decoder.decode(hot.__code__)
    inside = []

    def trace(frame, event, argument):
        if event == "line" and frame.f_code is hot.__code__ and not inside:
            inside.append(decoder.decode(hot.__code__))
        return trace

    tracer = sys.gettrace()
    sys.settrace(trace)
    try:
        hot(3)
    finally:
        sys.settrace(tracer)
    assert inside == [before]


# The parameters of the tests

PARAMETERS = {
    "program": programs.PROGRAMS,
    "module": ["argparse", "ast", "collections", "dataclasses", "enum", "functools", "heapq", "inspect", "statistics"],
    "golden": samples.GOLDENS,
    "unsupported": samples.UNSUPPORTED,
}


def pytest_generate_tests(metafunc):
    """Fills a test's parameter from the list of its name."""
    for name, cases in PARAMETERS.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, cases, ids=lambda case: case if isinstance(case, str) else case[0].__name__)
