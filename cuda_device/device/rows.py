"""The rows of the device table, each of which describes an entity that device code can name.

    Intrinsic(math.sqrt, "math.sqrt", infer=…, lower=…)

`infer` receives the types and values of the arguments and returns those of the result, or raises a `CompileError`, to which its
caller adds the location. `lower` writes the device operations. Rows do not import LLVM.
"""

from __future__ import annotations

import cmath
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from cuda_device.errors import CompileError, not_constant
from cuda_device.ir.ops import Effect
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.host import element_of
from cuda_device.types.known import Known
from cuda_device.types.model import INDEX, Array, Bundle, Number, Struct, Tuple, Type, Vector, is_index
from cuda_device.types.promote import promote

if TYPE_CHECKING:
    from cuda_device.device.lowering import Lowering, Tree
    from cuda_device.types.sealed import Sealed


@dataclass(frozen=True, slots=True)
class Typed:
    """What `infer` returns: the result, the arguments that are needed at run time with their types, and constants for `lower`.

    `instead` is a Python function that is called with the same arguments instead.
    """

    result: Known
    operands: tuple[tuple[int, Type], ...] = ()
    settings: tuple[Any, ...] = ()
    instead: Callable[..., object] | None = None


T = TypeVar("T")
Infer = Callable[[Sequence[Known]], Typed]
if TYPE_CHECKING:  # a launch needs no lowering, but the names of entities
    Lower = Callable[[Lowering, Sequence[Any], Typed], Tree]
    """The operands are trees."""


@dataclass(frozen=True, eq=False, slots=True)
class Intrinsic:
    """An entity of device code: how a use of it is inferred and lowered."""

    entity: object
    name: str
    infer: Infer
    lower: Lower
    arity: tuple[int, int] = (0, 0)
    """The range of positional arguments of a builtin; our functions have their own Python signatures."""
    effects: Effect = Effect.PURE
    is_value: bool = False
    """Whether it is used by its name, like `thread_idx`, and not called."""
    folds: bool = False
    """Whether a call with constant builtin numbers is evaluated by calling the entity."""
    asks_target: bool = False
    """Whether the last argument of `infer` is the selector of the target."""
    asks_options: bool = False
    """Whether the `Options` of the compilation come before it."""
    check: Callable[..., None] | None = None
    """Checks a program that calls a function that `infer` returned; see `specialised`."""
    predicates: tuple[str, ...] = ()
    """The parameters that take a function without parameters, which is called; `infer` receives the truth of its result."""
    named: bool = False
    """Whether the entity is a class with a signature."""
    only_for: tuple[type[Type], ...] | None = None
    """The types of arguments with which a call of a builtin is this row; otherwise `infer/builtin_calls` has a rule for it."""
    opens: bool = False
    """Whether it takes sealed tuples, which the function that is called instead gets as tuples."""
    seals: Sealed | None = None
    """What its result, a tuple, is until another entity opens it."""
    on_cpu: Callable[..., object] | None = None
    """A Python function that the CPU stream calls instead, with the operands of `infer`."""

    def bind(self, positional: Sequence[T], named: Mapping[str, T], literal: Callable[[object], T]) -> list[T]:
        """Returns the arguments in the order of the parameters, those of `*args` one by one.

        `literal` converts a default value to an argument.
        """
        if isinstance(self.entity, FunctionType) or self.named:
            assert callable(self.entity)
            bound = bind_call(self.entity, self.name, positional, named)
            args, arguments = bound.arguments, list[T]()
            for name, parameter in bound.signature.parameters.items():
                if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                    arguments += args.get(name, ())
                else:
                    arguments.append(args[name] if name in args else literal(parameter.default))
            return arguments
        low, high = self.arity
        if named:
            raise CompileError(f"{self.name} takes no keyword arguments in device code", help="pass them by position")
        if not low <= len(positional) <= high:
            count = str(low) if low == high else f"{low} to {high}"
            expected = f"{count} argument{'s' * (count != '1')}"
            raise CompileError(f"{self.name} takes {expected}, not {len(positional)}", help=f"pass {expected}")
        return list(positional)


def bind_call(
    function: Callable[..., object] | inspect.Signature,
    shown: str,
    positional: Sequence[object],
    named: Mapping[str, object],
    first: int = 0,
) -> inspect.BoundArguments:
    """Binds the arguments of a call to a signature. Messages leave out its `first` parameters, and `self`."""
    signature = function if isinstance(function, inspect.Signature) else _signature(function)
    try:
        return signature.bind(*positional, **named)
    except TypeError as error:
        plain = [p.replace(annotation=p.empty) for p in list(signature.parameters.values())[first:] if p.name != "self"]
        usage = signature.replace(parameters=plain, return_annotation=signature.empty)
        raise CompileError(f"{shown}: {error}", help=f"write {shown}{usage}") from None


BY_NAME: dict[str, Intrinsic] = {}
"""The rows of the modules that have been imported. A program has an entity only after the import of its module."""
BY_IDENTITY: dict[int, Intrinsic] = {}
"""By the `id` of the entity: some compare equal to others (np.float32 == np.dtype("float32")), and some do not hash."""


def entered(*rows: Intrinsic) -> tuple[Intrinsic, ...]:
    """Enters rows into the tables, and returns them."""
    for row in rows:
        BY_NAME[row.name] = BY_IDENTITY[id(row.entity)] = row
    return rows


@functools.cache
def _signature(entity: Callable[..., object]) -> inspect.Signature:
    return inspect.signature(entity)


def number_of(known: Known, name: str) -> Number:
    """Returns the type of an argument that must be a real number."""
    number = any_number_of(known, name)
    if number.is_complex:
        function = name.removeprefix("math.")
        has_twin = function != name and hasattr(cmath, function)
        remedy = f"write cmath.{function}(…)" if has_twin else "use its .real, or abs(…)"
        raise CompileError(f"{name} takes a real number, not {known}", help=remedy)
    return number


def any_number_of(known: Known, name: str) -> Number:
    """Returns the type of an argument that must be a real or complex number."""
    if not isinstance(known.type, Number):
        raise CompileError(f"{name} takes a number, not {known}", help=_remedy(known))
    return known.type


def common_type(types: Sequence[Number], name: str) -> Number:
    """Returns the type to which the types of arguments promote. Raises `CompileError` if there is none."""
    common: Number | None = types[0]
    for type in types[1:]:
        common = common and promote(common, type)
    if common is None:
        raise CompileError(f"{name} has no common type for {', '.join(map(str, types))}", help="convert one of them")
    return common


def _remedy(known: Known) -> str:
    """The help for an argument that is not a number."""
    if isinstance(known.value, str):
        return "only constant text that spells a number can be converted, as in float('inf')"
    match known.type:
        case Array():
            return "index the array first: its elements are numbers"
        case Vector() | Tuple() | Struct():
            return "use one of its elements"
    return "pass a number"


def constant_of(known: Known, name: str, otherwise: str = "") -> object:
    """Returns the value of an argument that must be a constant expression; `otherwise` is an alternative for the help."""
    if isinstance(known.type, Bundle):
        raise CompileError(f"{name} cannot be {known}", help="write a number, a tuple of numbers, or a type")
    if not known.constant:
        remedy = "use a literal, a global or closure variable, or a parameter with the type hint ConstExpr"
        raise not_constant(
            f"{name} must be a constant expression", help=f"{remedy}; {otherwise}" if otherwise else remedy
        )
    return known.python


def type_argument(dtype: Known, name: str) -> Type:
    """Returns the type that an argument, a constant expression, names."""
    try:
        return element_of(constant_of(dtype, name, "name it: float32, x.dtype, …"))
    except TypeError as error:
        raise CompileError(
            f"dtype: {error}", help="name a type of numbers, a vector or a struct: float32, x.dtype, …"
        ) from None


def index_type(array: Array, index: Known, name: str) -> Type:
    """Returns the type of an element's index. Raises `CompileError` unless it is an integer for each axis."""
    indices = [item.type for item in index.items] if isinstance(index.type, Tuple) else [index.type]
    for type in indices:
        if not is_index(type):
            raise CompileError(
                f"an index must be an integer or a tuple of integers, not {index}",
                help=f"write {name}(x, i), or {name}(x, (i, j))",
            )
    if len(indices) != array.ndim:
        raise CompileError(
            f"{array} has {array.ndim} axes, but there are {len(indices)} indices", help="give each axis one index"
        )
    return Tuple((INDEX,) * len(indices)) if isinstance(index.type, Tuple) else INDEX
