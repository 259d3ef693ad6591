"""Bytecode and the IR of the python level: what they mean, by running them in Python, and what must hold of them.

Each case has a program of `printing`, functions of the standard library, and functions of the tests. Of every function the
instructions and blocks are those that can be reached, the stack has one depth at each place, operations stand where the bytecode
says, and the text of the IR is read as it was printed. The program is run by its instructions, and functions of
`decoding.programs` by their instructions and by their IR, with CPython's results.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import io
import linecache
import random
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

import ir_interpreter
import test_cfg
import test_to_ir
from decoding import programs, reference
from ir_helpers import underlying

import cuda_device as device
from cuda_device.bytecode.decode import decode
from cuda_device.bytecode.instructions import Instruction
from cuda_device.bytecode.suspension import STEP, STEP_UNROLLED
from cuda_device.bytecode.to_ir import read
from cuda_device.errors import CompileError
from cuda_device.ir.nodes import Function, Module
from cuda_device.ir.text import parse, show
from cuda_device.ir.verify import verify
from fuzz.cases import Case, due, first_difference
from fuzz.collected import compared
from fuzz.printing import OF_NUMPY, Printing, defined

MODULES = tuple(
    """
argparse ast bdb bisect calendar cmd code collections colorsys configparser contextlib copy csv datetime decimal
difflib dis doctest email.message enum fileinput filecmp fnmatch fractions ftplib functools getopt gettext glob
graphlib gzip heapq html.parser http.client http.cookiejar imaplib inspect ipaddress json.decoder json.encoder keyword
linecache locale logging mailbox mimetypes netrc numbers opcode operator optparse pathlib pdb pickle pickletools
plistlib poplib pprint profile pstats pyclbr pydoc queue quopri random re._compiler re._parser reprlib rlcompleter
sched selectors shelve shlex shutil smtplib socket socketserver statistics string stringprep subprocess symtable
tabnanny tarfile tempfile textwrap threading timeit tokenize trace traceback turtle types typing unittest.mock
urllib.parse urllib.request uuid warnings wave weakref xml.dom.minidom zipfile zipapp
""".split()
)
FUNCTIONS = 8
"""How many functions of a module are read in one case, and how many of the tests."""
INVARIANTS: tuple[Callable[[Any], object], ...] = (
    test_cfg.test_spans_are_the_reachable_instructions_once,
    test_cfg.test_successors_are_where_execution_goes,
    test_cfg.test_spans_come_after_those_that_lead_to_them,
    test_to_ir.test_blocks_are_those_that_can_be_reached,
    test_to_ir.test_is_python_level_ir,
)
RUNNABLE = tuple((function, calls) for function, calls in programs.PROGRAMS if function.__name__ != "augmented")
"""`a += b` of lists changes a list in place: device code has no value that could be changed so."""


class Reading(Case):
    """A program and some functions."""

    kind = "reading"

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.random = random.Random(f"reading {number}")
        self.program = Printing(number)
        self.module = due(number, MODULES, 1)[0]

    def source(self) -> str:
        return f"{self.program.source()}\n# and of {self.module}\n"

    def attempt(self, stream: device.Stream) -> str | None:
        ways = (self.printed_by_instructions, self.run_by_ir, self.well_formed, self.stepped)
        return next(filter(None, (way() for way in ways)), None)

    def printed_by_instructions(self) -> str | None:
        """What the instructions of the program print, and its nested functions."""
        program, out = self.program, io.StringIO()
        function = defined(program.source(), "k", program.names(on_host=True), program.file)
        assert program.expected is not None
        with contextlib.redirect_stdout(out):
            reference.run(function, *program.arguments())
        text = OF_NUMPY.sub(r"\1", out.getvalue())
        return first_difference(text, program.expected)

    def run_by_ir(self) -> str | None:
        """What functions of `decoding.programs` give."""
        for function, calls in due(self.number, RUNNABLE, 12):
            programs.compare(function, calls)
            for arguments in calls:
                with contextlib.suppress(ir_interpreter.Unsupported, CompileError):
                    found = test_to_ir.outcome(ir_interpreter.run, function, arguments)
                    expected = test_to_ir.outcome(programs.native, function, arguments)
                    if found != expected:
                        return f"{function.__name__}{arguments} gives {found}, not {expected}"
        return None

    def well_formed(self) -> str | None:
        """What must hold of functions."""
        program = defined(self.program.source(), "k", {}, self.program.file)
        tests = [underlying(row.function) for row in due(self.number, compared(), FUNCTIONS)]
        for code in (program.__code__, *(each.__code__ for each in tests), *self._library()):
            for each in programs.all_code(code):
                if wrong := whats_wrong(each):
                    return f"{each.co_qualname} of {each.co_filename}: {wrong}"
        return None

    def _library(self) -> list[CodeType]:
        codes = functions_of(self.module)
        return self.random.sample(codes, min(FUNCTIONS, len(codes)))

    def stepped(self) -> str | None:
        """What generators yield, one step at a time."""
        n, step = self.random.randrange(9), self.random.choice((STEP, STEP_UNROLLED))
        for function, arguments in ((test_to_ir.up_to, (n,)), (test_to_ir.one_after_the_other, ((1, n), (3, 2, n)))):
            found = list(ir_interpreter.run_steps(function, *arguments, reading=step))
            if found != list(function(*arguments)):
                return f"{function.__name__}{arguments} yields {found}"
        return None

    def smaller(self) -> Iterator[Case]:
        return iter(())


@functools.cache
def functions_of(module: str) -> list[CodeType]:
    """The functions of a module, without those of many hundred instructions."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    loader: Any = spec.loader
    code = loader.get_code(module)
    return [
        each for each in programs.all_code(code) if each.co_flags & inspect.CO_OPTIMIZED and len(each.co_code) < 2000
    ]


def whats_wrong(code: CodeType) -> str | None:
    """What does not hold of the instructions and the IR of a function; those that device code has not are left out."""
    instructions = decode(code)
    reference.check(instructions)
    for instruction in instructions:
        if wrong := misplaced(code, instruction.location):
            return f"{instruction}: {wrong}"
    if wrong := confused(instructions):
        return wrong
    try:
        python = read(code)
    except CompileError:
        return None
    function = FunctionType(code, {}, closure=tuple(map(_cell, code.co_freevars)))
    for holds in INVARIANTS:
        holds(function)
    verify(Module([python]))
    for op in python.ops():
        if wrong := misplaced(code, op.location):
            return f"{op.code.name}: {wrong}"
    return reread(python)


def _cell(_: str) -> Any:
    return (lambda value: lambda: value)(0).__closure__[0]  # type: ignore[index]


def misplaced(code: CodeType, location: Any) -> str | None:
    """Whether something does not stand where the bytecode says.

    What a handler protects stands at the word `try`, and what pytest has made of an assertion where that was written.
    """
    if any(name.startswith("@py") for name in code.co_names + code.co_varnames):
        return None
    if linecache.getline(code.co_filename, location.line)[location.column : location.end_column] == "try":
        return None
    line, end_line, column, end_column = list(code.co_positions())[location.offset // 2]
    expected = (code.co_filename, line or 0, -1 if column is None else column)
    found = (location.file, location.line, location.column)
    if found != expected:
        return f"it stands at {found}, not {expected}"
    ends = (location.end_line, location.end_column)
    if ends != (end_line or 0, -1 if end_column is None else end_column):
        return f"it ends at {ends}, not {(end_line, end_column)}"
    return None if location.function == code.co_qualname else f"it stands in {location.function!r}"


def confused(instructions: Sequence[Instruction]) -> str | None:
    """Whether the text of an instruction is that of another one, or does not begin with what it does."""
    shown: dict[str, tuple[object, ...]] = {}
    for each in instructions:
        parts = (each.opcode, repr(each.argument), each.target)
        if shown.setdefault(str(each), parts) != parts or str(each).split()[0] != each.opcode.name:
            return f"{parts} is shown as {each}"
    return None


def reread(function: Function) -> str | None:
    """Whether the text of IR is read as something else: as another text, or as other operations of the same names."""
    objects: list[object] = []
    shown = show(function, objects)
    copy = parse(shown, objects)
    if (again := show(copy)) != shown:
        return f"the IR of the level {function.level.value} is read as another: {first_difference(again, shown)}"
    for op, other in zip(function.ops(), copy.ops(), strict=True):
        if op.code is not other.code or op.attributes.keys() != other.attributes.keys():
            return f"{op.code.name} is read as another operation"
    return None
