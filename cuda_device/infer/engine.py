"""The type-inference engine: infers a function and all functions that it calls.

Inference executes the program on facts about its values (`types.known`). A block's parameters have the facts that hold on every
edge to the block; if a new edge changes them, the block is visited again. This one pass infers types, folds constants, removes
branches that constants decide, and specialises callees. A loop over a tuple has a version of its blocks for each element, which
unrolls it.

    func @f python                                func @f(%x: float32) typed
    ^1(%x):                                       ^0(%x: float32):
      %1 = py.const {value=2}                       %1: float32 = const {value=2.0}
      %2 = py.binary {op="*"} %x %1                 %2: float32 = py.binary {op="*"} %x %1
      return %2                                     return %2

An error in a block is raised only if it is still there when no fact changes any more, because the first visit of a loop may see
types that the second visit corrects.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from cuda_device import hooks
from cuda_device.bytecode.suspension import POSITION
from cuda_device.bytecode.to_ir import slots
from cuda_device.device import functions
from cuda_device.device.functions import Extern, Func, Kernel
from cuda_device.device.hints import const_parameters
from cuda_device.device.options import DEFAULTS, Options
from cuda_device.device.parameters import defaults_of, parameter_names
from cuda_device.device.target import SMSelector, sm90
from cuda_device.errors import Call, CompileError, Location
from cuda_device.infer import calls
from cuda_device.infer.body import Body, Specialisation
from cuda_device.infer.calls import as_constant, bind
from cuda_device.infer.dependencies import Dependency
from cuda_device.infer.frame import CallContext, Cell, Frame, NeverReturns, Program, is_static
from cuda_device.infer.meanings import Origin
from cuda_device.ir import dominance, ops
from cuda_device.ir.nodes import Module, Op, Value
from cuda_device.lazy_dataclasses import replace
from cuda_device.lazy_imports import import_lazily
from cuda_device.library import NAMES
from cuda_device.library.builtins import row_of_entity
from cuda_device.types.known import (
    Identity,
    Known,
    Undefined,
    constant,
    describe,
    identities,
    renamed,
    state_of,
)
from cuda_device.types.model import NONE
from cuda_device.types.promote import is_narrow_number, is_wide_float

if TYPE_CHECKING:
    from cuda_device.infer import closures, loops, objects, precision, remedies, reporting
else:
    import_lazily(globals(), "cuda_device.infer", "closures", "loops", "objects", "precision", "remedies", "reporting")


# The symbols of a program's functions, which debuggers and profilers show.
#
#     func @0, @1, @2         →     func @saxpy, @clamp, @clamp_2
#
# Functions other than the kernel get a prefix on a GPU, and names that mean something to the assembler are avoided.


_HELPER = "device_"


def name_functions(module: Module, symbols: set[str]) -> None:
    """Names each function after its source, with a number if the name is taken, for example by `symbols`."""
    main, names = module.main, dict[str, str]()
    taken, spelled = set(symbols), set(symbols)
    if main.prototype is not None and main.shown.rpartition(".")[2] in symbols:
        reason = f"{main.shown} calls a function of CUDA C++ of the same name"
        raise CompileError(reason, main.location, "rename it, or pass symbol=… to @extern")
    for function in module.functions:
        plain = re.sub(r"\W", "_", function.shown.rpartition(".")[2], flags=re.ASCII)
        name = plain = f"_{plain}" if plain[0].isdigit() else plain
        prefix, number = "" if function is main else _HELPER, 2
        while name in taken or prefix + name in spelled or re.fullmatch(functions.RESERVED_SYMBOLS, prefix + name):
            name, number = f"{plain}_{number}", number + 1
        taken.add(name)
        spelled.add(prefix + name)
        names[function.name] = name
    for function in module.functions:
        function.name = names[function.name]
    for function in module.functions:
        for op in function.ops():
            if op.code is ops.CALL:
                op.attributes["callee"] = names[str(op.attributes["callee"])]


# The maximum depth of calls at compile time, and the maximum number of variants of a function for different constants.
_DEPTH = 2_000
_CALLS_PER_THREAD = 30
_RECURSION = 64
_CONSTANT_VARIANTS = 32


def infer_module(
    source: FunctionType,
    arguments: Sequence[Known],
    kernel: bool,
    target: SMSelector | None = sm90,
    options: Options = DEFAULTS,
    interop: bool = False,
    **facts: Any,
) -> tuple[Module, tuple[Dependency, ...]]:
    """The typed module of `source` for `arguments` on `target`, and the names that it read.

    The main function of an `interop` module has a prototype. The target of the host is None. For `facts` see `Program`.
    """
    program = Inference(target, options, **facts)
    main = program.specialise(source, tuple(arguments), CallContext())
    main.kernel, main.outermost = kernel, True
    program.infer(main)
    if main.error is not None:
        raise main.error
    assert main.function is not None
    main.function.kernel = kernel
    if interop:
        result = main.result if isinstance(main.result, Known) else None
        main.function.prototype = calls.prototype(source, arguments, result, main.function.location)
    module = Module([main.function], tuple(program.links))
    if len(program.order) > 1:
        program.name_families()
        functions = [spec.function for spec in program.order if spec.function is not None]
        callees = {function.name: dominance.callees(function) for function in functions}
        reached = dominance.reached_from(callees, main.function.name)
        module.functions += [f for f in functions if f.name in reached and f is not main.function]
        dominance.propagate(module)
    if program.adopted or _has_narrow_or_wide(module):
        module.losses = precision.losses(module, program.adopted, program.given, program.checked)
    name_functions(module, set(program.symbols))
    for check, chosen in program.chosen.items():
        named = {spec.function.name: spec.source for spec in program.order if spec.function and spec.source in chosen}
        check(module, named, options)
    return module, tuple(program.dependencies.values())


def _has_narrow_or_wide(module: Module) -> bool:
    """Whether an operation computes in a format in which promotion may lose digits."""
    codes = (ops.CONVERT, ops.PY_BINARY)
    types = {op.result.type for function in module.functions for op in function.ops() if op.code in codes}
    return any(is_narrow_number(type) or is_wide_float(type) for type in types)


class Inference(Program):
    """The inference of a whole program: its specialisations."""

    def __init__(self, target: SMSelector | None, options: Options, **facts: Any) -> None:
        super().__init__(target, options, **facts)
        self.row = row_of_entity
        self.links: list[object] = []
        self.symbols: dict[str, Extern] = {}
        self.found: dict[tuple[int, int, tuple[Known, ...], CallContext], Specialisation] = {}
        self.order: list[Specialisation] = []
        self.variants: dict[tuple[object, ...], set[tuple[Known, ...]]] = {}
        self.active: list[Specialisation] = []
        self.constants: dict[FunctionType, dict[str, Any]] = {}

    def const_parameters(self, source: FunctionType) -> dict[str, Any]:
        """The parameters of a function that are annotated with `ConstExpr`, as `hints.const_parameters` finds them, once."""
        constants = self.constants.get(source)
        if constants is None:
            constants = self.constants[source] = const_parameters(source)
        return constants

    def call(self, frame: Frame, function: object, arguments: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
        """Calls a Python function or a CUDA C++ function."""
        if isinstance(function, Extern):
            return calls.call_extern(frame, function, arguments, named)
        if isinstance(function, Func):
            self.links += function.options.link
        source = _callable(function)
        if source.__module__ not in NAMES:  # tools that reload modules replace the code of functions
            self.depend(source, "__code__", source.__code__)
        cells: Sequence[Cell] = bind(frame, source, arguments, named, defaults_of(source))
        if loops.is_generator_function(source):
            cells = _converted(frame, source, self.const_parameters(source), cells)
            return loops.generator(frame, Cell(constant(source)), source, cells)
        where = (frame.where or frame.location) if source.__module__ in NAMES and reporting.reports(source) else None
        return self.enter(frame, source, cells, CallContext(where=where), {})

    def link(self, function: Extern) -> None:
        """Records that the program calls a function of CUDA C++."""
        self.links += function.links
        other = self.symbols.setdefault(function.symbol, function)
        if (other.parameters, other.result) != (function.parameters, function.result):
            raise CompileError(
                f"there are two declarations of {function.symbol} with different types",
                help="overloaded functions of C++ have mangled names: give each its symbol=…",
            )

    def enter(
        self,
        frame: Frame,
        source: FunctionType,
        cells: Sequence[Cell],
        variant: CallContext,
        captured: Mapping[Origin, Cell],
    ) -> Cell:
        """Calls a function with bound arguments. `captured` are the values that a closed function captured."""
        if not str(source.__module__).startswith("cuda_device.library."):
            frame.sealed_values.clear()
        types = self.const_parameters(source)
        constants = {*types, *([POSITION] if variant.reading else [])}
        cells = cells if variant.reading else _converted(frame, source, types, cells)
        if variant.code is not None and variant.code.captured is not None:
            # Variables of an earlier call, which it captured, may have the names of those that its arguments read.
            cells = [closures.close(frame, cell, everything=True) for cell in cells]
        else:
            captured = closures.environment(frame, cells, variant.code)
        cells, variant = [*cells, *captured.values()], replace(variant, captured=tuple(captured))
        names = _names(source, variant)
        reached = dict.fromkeys(identity for cell in cells for identity in identities(cell.known))
        in_callee = {identity: Identity(("argument", number)) for number, identity in enumerate(reached)}
        known = self._generalise(source, names, [renamed(cell.known, in_callee) for cell in cells], constants)
        spec = self.specialise(source, known, variant)
        cell = self._result(frame, spec, cells)
        in_caller = {name: identity for identity, name in in_callee.items()}
        if not reached:
            return objects.from_callee(frame, cell, in_caller)
        result, *contents = (objects.from_callee(frame, part, in_caller) for part in frame.fields(cell))
        for number, identity in enumerate(reached):
            if in_callee[identity] in spec.changed:
                frame.change(identity, contents[number])
                if variant.reading:
                    frame.left[identity] = contents[len(reached) + number]
        return result

    def _result(self, frame: Frame, spec: Specialisation, cells: Sequence[Cell]) -> Cell:
        """The result of a call of a specialisation with the arguments `cells`."""
        if spec in self.active:
            if spec.variant.reading:
                raise loops.endless(spec.source.__qualname__)
            spec.used_early = True
        elif spec.function is None and spec.error is None:
            self.infer(spec)
        if spec.error is not None:
            raise _called(spec, spec.error, frame.location)
        if isinstance(spec.result, Undefined) and spec.function is None:
            raise NeverReturns
        pairs = zip(cells, spec.arguments, strict=True)
        operands = [frame.carry(cell, known) for cell, known in pairs if not is_static(known)]
        known = spec.result if isinstance(spec.result, Known) else None  # of a function that always raises
        result = None if known is None or is_static(known) else Value(known.type, nonneg=known.nonneg)
        frame.build.append(Op(ops.CALL, operands, [result or Value(NONE)], {"callee": spec.name}, [], frame.location))
        if known is None:
            raise NeverReturns
        return Cell(known, result)

    def _generalise(
        self, source: FunctionType, names: Sequence[str], known: list[Known], constants: Collection[str]
    ) -> tuple[Known, ...]:
        """Generalises arguments: constants are forgotten in recursion, and if there are too many variants of a function.

        Arguments that are the same constant in all of these variants, such as what it captured, stay so.
        """
        known = [k if n in constants else k.settled() for n, k in zip(names, known, strict=True)]
        loose = tuple(k if n in constants else k.forget() for n, k in zip(names, known, strict=True))
        if any(active.source.__code__ is source.__code__ for active in self.active):
            return loose
        variants = self.variants.setdefault((id(source.__code__), id(source), loose), set())
        if len(variants) < _CONSTANT_VARIANTS:
            variants.add(tuple(known))
        if tuple(known) in variants:
            return tuple(known)
        return tuple(
            k if all(variant[i] == k for variant in variants) else general
            for i, (k, general) in enumerate(zip(known, loose, strict=True))
        )

    def specialise(self, source: FunctionType, arguments: tuple[Known, ...], variant: CallContext) -> Specialisation:
        """The specialisation of `source` for `arguments`, which may not have been inferred yet."""
        key = (id(source.__code__), id(source), arguments, variant)
        spec = self.found.get(key)
        if spec is None:
            spec = self.found[key] = Specialisation(str(len(self.order)), source, arguments, variant)
            self.order.append(spec)
        return spec

    def name_families(self) -> None:
        """Gives the specialisations of a function one `family` if they differ only in constants."""
        families: dict[tuple[object, ...], str] = {}
        for spec in self.order:
            if spec.function is not None:
                constants = self.const_parameters(spec.source)
                pairs = zip(_names(spec.source, spec.variant), spec.arguments, strict=True)
                plain = tuple(known if name in constants else known.plain() for name, known in pairs)
                key = id(spec.source), plain, spec.variant.reading
                spec.function.family = families.setdefault(key, str(len(families)))

    def infer(self, spec: Specialisation) -> None:
        """Infers a specialisation and its callees. Deep calls continue in another thread, which has its own stack."""
        if len(self.active) >= _DEPTH:
            raise CompileError(
                f"{spec.source.__qualname__} is more than {_DEPTH} calls deep",
                help="use fewer nested calls",
            )
        again = sum(active.source.__code__ is spec.source.__code__ for active in self.active)
        if again >= _RECURSION:
            raise CompileError(
                f"{spec.source.__qualname__} calls itself more than {_RECURSION} deep, each time with other argument types",
                help="recursive calls must return to the same argument types",
            )
        self.active.append(spec)
        try:
            if len(self.active) % _CALLS_PER_THREAD:
                self._infer(spec)
            else:
                from concurrent.futures import ThreadPoolExecutor

                with ThreadPoolExecutor(1) as thread:
                    thread.submit(self._infer, spec).result()
        except CompileError as error:
            spec.error = error
        finally:
            self.active.pop()

    def _infer(self, spec: Specialisation) -> None:
        """Infers a body, repeatedly if a recursive call used its result before it was final."""
        again = True
        while again:
            spec.used_early, mark = False, len(self.order)
            function, result, changed = Body(self, spec).run()
            if spec.used_early and isinstance(result, Undefined):
                raise CompileError(
                    f"{spec.source.__qualname__} never returns: it calls itself on every path",
                    function.location,
                    "return without a recursive call on some path",
                )
            if spec.used_early and isinstance(result, Known):
                result = result.settled()  # bounds would rise in each run: 1 + max(depth(left), depth(right))
            again = spec.used_early and (spec.result, spec.changed) != (result, changed)
            spec.function, spec.result, spec.changed = function, result, changed
            if again:
                # Callees that were inferred in this run may depend on the old result.
                stale = {id(other) for other in self.order[mark:]}
                del self.order[mark:]
                self.found = {key: other for key, other in self.found.items() if id(other) not in stale}


def _converted(
    frame: Frame, source: FunctionType, constants: Mapping[str, Any], cells: Sequence[Cell]
) -> Sequence[Cell]:
    """The arguments of a call, with those of `ConstExpr` parameters converted to the types of their hints."""
    cells = [*cells]
    for index, name in enumerate(parameter_names(source.__code__)):
        if name in constants:
            label = f"the parameter {name!r} of {source.__qualname__}"
            cells[index] = as_constant(frame, cells[index], label, constants[name])
    return cells


def _called(spec: Specialisation, error: CompileError, where: Location) -> CompileError:
    """The error of a callee, with the call added to its chain. For errors in the library, the place is the user's call.

    An error in a user's function that the library calls, such as a generator in a sum, keeps its place.
    """
    if spec.source.__module__ in NAMES:
        if not error.chain:
            return type(error)(error.reason, where, error.help)
        *inner, last = error.chain
        return type(error)(error.reason, error.location, error.help, (*inner, replace(last, location=where)))
    names = parameter_names(spec.source.__code__)
    arguments = spec.arguments[1:] if spec.variant.reading else spec.arguments
    pairs = zip(names, arguments, strict=False)
    shown = ", ".join(f"{name}: {known}" for name, known in pairs if isinstance(state_of(known), Known))
    call = Call(spec.source.__qualname__, shown, where)
    return type(error)(error.reason, error.location, error.help, (*error.chain, call))


def _names(source: FunctionType, variant: CallContext) -> tuple[str, ...]:
    """The names of the arguments of a specialisation: its parameters and captured variables."""
    captured = tuple(f".{variable.name} captured" for variable in variant.captured)
    if variant.reading:
        return POSITION, *slots(source.__code__), *captured
    return parameter_names(source.__code__) + captured


def _callable(function: object) -> FunctionType:
    if isinstance(function, Func):
        return function.underlying
    if isinstance(function, FunctionType):
        if _is_for_the_host(function):
            ours = function.__module__.startswith("cuda_device.")
            name = function.__name__ if ours else f"{function.__module__}.{function.__qualname__}"
            raise CompileError(
                f"device code cannot call {name}: it can only run on the host", help=remedies.of_call(function)
            )
        return function
    if isinstance(function, Kernel):
        shown = function.underlying.__name__
        raise CompileError(f"{shown} is a kernel: device code cannot call it", help="move the shared code into a @func")
    module = getattr(function, "__module__", None)
    name = describe(function)
    if isinstance(function, (np.ufunc, BuiltinFunctionType, type(np.dot))) and module not in ("builtins", None):
        name = f"{module}.{name}"
    raise CompileError(f"{name} cannot be called in device code", help=remedies.of_call(function))


def _is_for_the_host(function: FunctionType) -> bool:
    """Whether a function can only run on the host, such as most functions of this package and those of `os`."""
    module = function.__module__ or ""
    if module.startswith("cuda_device."):
        return module == functions.__name__ or not module.startswith(_DEVICE_CODE)
    return module in remedies.OF_THE_HOST


_DEVICE_CODE = tuple(f"cuda_device.{folder}" for folder in ("device.", "library.", *hooks.DEVICE_CODE))
