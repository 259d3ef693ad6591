"""IR with one thing wrong: the verifier says so, at that place; of IR without a mistake it says nothing.

Programs are compiled to the IR of each stage. Then one operation, value or edge of it is made wrong, in one of the ways of
`ir_mistakes`, and put right again. Text of IR that cannot be read is refused, and any attribute is read as it was printed.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import cuda_device as device
from cuda_device import compiler
from cuda_device.errors import CompilerBug
from cuda_device.ir import ops, text
from cuda_device.ir.nodes import Block, Function, Module, Op
from cuda_device.ir.text import show
from cuda_device.ir.verify import verify
from cuda_device.types import model
from cuda_device.types.architectures import parse
from cuda_device.types.known import of_type
from cuda_device.types.parse import parse as parse_type
from fuzz.cases import Case
from fuzz.ir_mistakes import MAKERS, Maker
from fuzz.ordered import Ordered
from fuzz.printing import NAMES, Printing, defined

MISTAKES = 120
"""How many are tried in the IR of one program."""
TYPES = ("int", "int", "int", "float", "float", "bool", "bool")
Damage = Callable[[list[str], int], list[str]]
DAMAGES: tuple[tuple[Damage, str], ...] = (
    (lambda lines, at: lines[1:], "^not the head of a function: '"),
    (lambda lines, at: [lines[0].replace("func", "fun"), *lines[1:]], "^not the head of a function: 'fun "),
    (lambda lines, at: lines[:-1], "^the function does not end with a line '}': '"),
    (lambda lines, at: [*lines[:at], "  nothing.there %0", *lines[at + 1 :]], "^cannot read 'nothing.there %0': "),
    (lambda lines, at: [*lines[:at], "  return ?", *lines[at + 1 :]], "^cannot read 'return .': no operation$"),
    (lambda lines, at: [*lines[:at], "  jump ^999()", *lines[at + 1 :]], "^cannot read 'jump .999..': "),
    (lambda lines, at: [*lines[:at], "  jump ^0(x)", *lines[at + 1 :]], "^cannot read 'jump .*': 'x' is no value$"),
    (lambda lines, at: [*lines[:at], "  const {a=3 b}", *lines[at + 1 :]], "^cannot read 'const .*': no attribute: "),
    (lambda lines, at: [*lines[:at], "  const {a=b}", *lines[at + 1 :]], "^cannot read 'const .*': "),
    (lambda lines, at: [*lines[:at], "^0():", *lines[at:]], "^cannot read '.0..:': there are two blocks .0$"),
    (
        lambda lines, at: [*lines[:1], "  return", *lines[1:]],
        "^cannot read 'return': an operation before the first block$",
    ),
    (lambda lines, at: [*lines[:at], "  x = const {value=3}", *lines[at:]], "^cannot read 'x = .*': no operation$"),
)
"""Lines with something wrong, and what is said of them."""
LITERALS: tuple[object, ...] = (
    0, -1, 1 << 70, -(1 << 300), 0.5, -0.0, 1e300, float("inf"), -float("inf"), 1e-9, 2j, complex(-1.5, float("inf")), None, True,
    False, "", "a b", 'it"s', "back\\slash\\n", "line\nline", "π\U0001f600\x00", "%1 ^2(", "{x=1}", "<int>", "$0", ",", ")",
    model.INT32, model.Tuple((model.BOOL, model.Tuple(()))), model.Ref(model.Space.SHARED, model.FLOAT64),
)  # fmt: skip


class WrongIr(Case):
    """The IR of a program, with mistakes."""

    kind = "wrong IR"
    at_once = 2

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.random = random.Random(f"wrong ir {number}")
        self.meets = number % 2 == 1
        self.program: Case = Ordered(number, rows=16) if self.meets else Printing(number)
        self.on_cpu = self.random.random() < 0.5

    def source(self) -> str:
        return self.program.source()

    def work(self) -> compiler.Work:
        """The program, compiled up to LLVM's part."""
        file, on_cpu = f"<wrong IR {self.number}>", self.on_cpu
        names = NAMES | {"out": 0}
        function: Any = device.kernel(defined(self.source(), "k", names, file))
        types = TYPES
        if isinstance(self.program, Ordered):
            array = self.program.type
            types = (f"array<{array}, 1, C>", "array<float64, 1, C>", "array<complex128, 1, C>", array, "float32")
        known = tuple(of_type(parse_type(each)) for each in types)
        target = compiler.Target(parse("sm_90"), on_cpu)
        options = compiler.Options(checked=self.random.random() < 0.3)
        job = compiler.Job(function.underlying, known, True, target, options)
        with mock.patch.dict(os.environ, {"CUDA_DEVICE_VERIFY": "1"}):
            return compiler.run(job, "inlined" if on_cpu else "device")

    def attempt(self, stream: device.Stream) -> str | None:
        modules = list(self.work().artifacts.values())
        for _ in range(MISTAKES):
            module: Module = self.random.choice(modules)
            function = self.random.choice(module.functions)
            block = self.random.choice(function.blocks)
            op = self.random.choice(block.ops)
            make = self.random.choice(MAKERS)
            wrong = self.wrong(make, module, function, block, op)
            if wrong is not None:
                return f"{make.__name__} of {op.code.name}: {wrong}"
        for module in modules:
            verify(module)
            for function in module.functions[:2]:
                if wrong := self.damaged(function) or self.literals(function):
                    return wrong
        return None

    def damaged(self, function: Function) -> str | None:
        """What cannot be read is refused, and the line is named."""
        objects: list[object] = []
        lines = show(function, objects).splitlines()
        change, complaint = self.random.choice(DAMAGES)
        at = self.random.choice([i for i, line in enumerate(lines) if line.startswith("  ")])
        damaged = change(lines, at)
        try:
            text.parse("\n".join(damaged), objects)
        except ValueError as error:
            named = complaint.startswith("cannot read") and damaged[at].strip() not in str(error)
            return f"{damaged[at]!r} is refused as {error}" if named or not re.search(complaint, str(error)) else None
        return f"{damaged[at]!r} is read, where {complaint!r} is due"

    def literals(self, function: Function) -> str | None:
        """Attributes of any value are read as they were printed."""
        values = {f"a{k}": self.literal(3) for k in range(4)}
        objects: list[object] = []
        block = Block([], [Op(ops.RETURN, attributes=values)])
        shown = show(Function("f", [block], function.level), objects)
        copy = text.parse(f"\n  {shown}".replace("\n", "\n\n"), objects)
        found = copy.blocks[0].ops[0].attributes
        if repr(found) != repr(values) or copy.level is not function.level:
            return f"{values!r} is read as {found!r}"
        return None

    def literal(self, depth: int) -> object:
        """A value, some of which hold others."""
        if depth and self.random.random() < 0.4:
            return tuple(self.literal(depth - 1) for _ in range(self.random.randrange(4)))
        return self.random.choice(LITERALS)

    def wrong(self, make: Maker, module: Module, function: Function, block: Block, op: Op) -> str | None:
        """What the verifier should have said."""
        mistake = make(self.random, function, block, op)
        if mistake is None:
            return None
        with mistake.made:
            try:
                verify(module)
                report = ""
            except CompilerBug as bug:
                report = str(bug)
            if mistake.complaint is None:
                return f"it is right, but the verifier says {report!r}" if report else None
            lines = report.splitlines()[:-1]  # the last one asks for a report
            marks = [i for i, line in enumerate(lines) if re.fullmatch(rf"  \^\^\^ {mistake.complaint}", line)]
            if not marks:
                found = [line for line in lines if line.startswith("  ^^^")]
                return f"the verifier says {found}, not {mistake.complaint!r}"
            if lines[0] != f"the IR of {function.name} is wrong":
                return f"the verifier says {lines[0]!r}"
            return self.misplaced(function, lines, marks, mistake.culprit)

    def misplaced(self, function: Function, lines: list[str], marks: list[int], culprit: Op | None) -> str | None:
        """Whether no complaint stands under the operation that is wrong."""
        shown = show(function).splitlines()
        if [line for line in lines[1:] if not line.startswith("  ^^^")] != shown:
            return "the report does not show the function"
        whole: list[object] = [function, *(each for block in function.blocks for each in (block, *block.ops))]
        place = next((i for i, each in enumerate(whole) if each is culprit), 0)
        for mark in marks:
            above = sum(not line.startswith("  ^^^") for line in lines[1:mark])
            if above == place + 1:
                return None
        return f"the complaint does not stand under {shown[place]!r}"
