"""The `help` of errors about Python constructs and builtins that device code does not support."""

from __future__ import annotations

import builtins
import enum
import functools
import math
import operator
import re
import sys
from collections.abc import Iterable
from types import FunctionType

import numpy as np

from cuda_device.errors import CompileError
from cuda_device.infer.constants import METHODS, UNARY_METHODS
from cuda_device.infer.meanings import ListIterator, Text, Thing, code_of, is_container, is_member, means, use_of
from cuda_device.types.known import Known
from cuda_device.types.model import NONE, Array, AtomicCell, Ref, Static, Struct, Tuple, Vector
from cuda_device.types.sealed import Sealed

_SUPER = "structs have no base classes: name the method's class"
CONSTRUCTS = {
    "a set": "use a tuple",
    "a generator that returns a value": "yield the value last, or write it to an array",
    "try": "device code has no exceptions to catch: test with if",
    "try with finally": "there is nothing to catch: write the body of finally after the block, and before each return in it",
    "with": "write what __enter__ does before the block, and what __exit__ does after it and before each return inside it",
    "async": "device code has no coroutines",
    "assignment to a global variable": "write to an array that the kernel takes as an argument",
    "del of an item": "make a list of the other items: ys = xs[:i] + xs[i + 1 :]",
    "del of an attribute": "leave it out: members of structs and of arrays cannot be deleted",
    "del of a global variable": "device code cannot change globals",
    "an import statement": "import it at the top of the module",
    "class": "define it outside of the kernel",
    "a t-string": "write an f-string",
    "code outside of a function": "put the code into a function and decorate the function",
    "super()": _SUPER,
    "raise without an exception": "write raise ValueError('why')",
    "a class pattern of match": "match numbers, strings and tuples; test types with isinstance, and read the members",
    "a mapping pattern of match": "match numbers, strings and tuples; test `key in d`, then read d[key]",
}

# Where numba-cuda and CUDA C++ have another name that no name here is like.
NAMES_ELSEWHERE = {"grid": "tid", "gridsize": "grid_size", "local": "local_array", "printf": "print"}
NAMES_ELSEWHERE |= {f"{name}{size}": f"{name}32x{size}" for name in ("float", "int", "uint") for size in (2, 3, 4)}

ON_THE_HOST = "do that on the host, and use the result through a variable"
_NEW_ARRAY = "use local_array or shared_array, which have a constant shape"
_CALLS: dict[object, str] = {
    **dict.fromkeys(
        (np.zeros, np.empty, np.ones, np.full, np.zeros_like, np.empty_like, np.ones_like, np.full_like), _NEW_ARRAY
    ),
    np.arange: "loop over range(…)",
    np.linspace: "compute each number from its index: start + i * step",
    np.array: "use a tuple or local_array, or make it on the host with np.array or device.array, and pass it",
    **dict.fromkeys((set, frozenset), "use a tuple, which supports `in` as well"),
    dict: "write a literal, {'a': 1}, or a comprehension; {**d} is a copy",
    sorted: "sort an array on the host, or by a bitonic or radix sort of your own; of two numbers write min(a, b), max(a, b)",
    super: _SUPER,
    **dict.fromkeys(
        (functools.cache, functools.lru_cache), "leave it out: a call in device code computes its result each time"
    ),
    functools.reduce: "write the loop: for x in xs: result = f(result, x)",
    functools.singledispatch: "use isinstance, which is decided at compile time",
    **dict.fromkeys(
        (operator.itemgetter, operator.attrgetter, operator.methodcaller), "write a lambda: lambda x: x[0]"
    ),
    np.errstate: "leave it out: arithmetic in device code raises no errors and no warnings",
    eval: "write the expression itself",
    exec: "write the statements themselves",
    slice: "write it where it indexes: x[a:b]",
    id: "give the objects numbers to tell them apart",
    open: "read the file on the host",
    input: "pass the value to the kernel as an argument",
}

_RANDOM = "compute random numbers from a seed and the thread's position, or pass an array of them"
# The first that fits counts.
_MODULES = {
    "cuda_device.runtime.arrays.device_array": "use local_array or shared_array, which have a constant shape",
    "cuda_device": "call it on the host; kernels take the result as an argument, or as a constant from a variable outside",
    "_operator": "write the operator itself: a in b, a is b, f(x)",
    "itertools": "write the loops, one inside the other or one after the other",
    "random": _RANDOM,
    "numpy.random": _RANDOM,
    "time": "measure time on the host, around a launch and synchronize()",
    "numpy": "NumPy's scalar functions are available (np.sqrt, np.maximum, np.clip); write loops over arrays",
    "logging": "print, or write to an array that the kernel takes as an argument",
    "os": "read it on the host, and pass it to the kernel as an argument",
    "_sitebuiltins": "write return to end a thread",
}

# Py_TPFLAGS_IMMUTABLETYPE: of the classes that are written in C.
_IMMUTABLE = 1 << 8

# Modules whose functions are not even looked at.
OF_THE_HOST = frozenset(("functools", "logging", "os", "random", "time", "_sitebuiltins"))


def nearest(name: str, names: Iterable[str], least: float = 0.6) -> list[str]:
    """The most similar of these names, or nothing."""
    import difflib  # for mistakes only: it takes a while to import

    return difflib.get_close_matches(name, list(names), 1, least)


def of_call(function: object) -> str:
    """What to do instead of calling `function`."""
    try:
        known = _CALLS.get(function)
    except TypeError:
        known = None
    if known:
        return known
    if isinstance(function, functools._lru_cache_wrapper):
        return "call the function itself, without functools.cache: f.__wrapped__"
    owner = getattr(function, "__self__", None)
    if isinstance(owner, (str, bytes, np.ndarray)):
        return f"print(f'…') shows run-time values; or {ON_THE_HOST}" if isinstance(owner, str) else ON_THE_HOST
    if isinstance(owner, (list, dict, set, bytearray)):
        return "compile-time values cannot change: write to an array that the kernel takes as an argument"
    module = getattr(function, "__module__", "") or type(owner).__module__
    for name, remedy in _MODULES.items():
        if module == name or module.startswith(f"{name}."):
            return remedy
    if hasattr(sys.modules.get(module.partition(".")[0]), "from_dlpack"):  # a library of arrays
        return "write loops over the elements"
    return (
        _of_class(function)
        if isinstance(function, type)
        else "write it as a Python function, or compute it on the host"
    )


def _of_class(function: type) -> str:
    if hasattr(function, "__dataclass_fields__"):
        return f"decorate {function.__name__} with @struct instead of @dataclass; or make the object on the host, and pass it"
    if isinstance(getattr(function, "__init__", None), FunctionType):
        return f"decorate {function.__name__} with @struct: its members are those with type hints; or make the object on the host"
    if not function.__flags__ & _IMMUTABLE:
        return f"make the object on the host, or decorate {function.__name__} with @struct if it has members with type hints"
    return "device code can create numbers, vectors, tuples, and structs (classes with @struct)"


def of_attribute(owner: str, name: str) -> str:
    """What to write instead of a name that a module of another programming model has."""
    there = "atomic_ref" if name.startswith("atomic") else NAMES_ELSEWHERE.get(name.removeprefix("make_"))
    if owner == "cuda_device" and there:
        return f"did you mean {there}?"
    if owner in ("tid", "grid_size"):
        return f"write {owner}(1), {owner}(2) or {owner}(3); the position in the block is thread_idx.{name}"
    plain = name.strip("_").removesuffix("f")
    for module, prefix in ((math, "math"), (builtins, "")):
        for candidate in (name, plain):
            if owner == "cuda_device" and hasattr(module, candidate):
                return f"write {prefix}.{candidate}" if prefix else f"write {candidate}: Python's own"
    return ""


def of_swizzle(name: str, dtype: object, size: int, is_assigned: bool = False) -> str:
    """What to write instead of `v.xy`, or of another language's names of the elements of a vector."""
    if 1 < len(name) <= 4 and set(name) <= set("xyzw"[:size]):
        elements = ", ".join(f"v.{letter}" for letter in name)
        return f"write {elements} = …" if is_assigned else f"write {dtype}x{len(name)}({elements})"
    if is_assigned or set(name) <= set("xyzwrgbastpq") or re.fullmatch(r"s\d", name):
        return f"its elements are {', '.join('xyzw'[:size])}"
    return ""


def with_length(known: Known) -> str:
    """A value as messages show it: a list with its length."""
    if known.value is not Thing.LIST:
        return str(known)
    return f"a list of {len(known.items)} item{'s' * (len(known.items) != 1)}"


def are_iterators(first: Known, second: Known) -> bool:
    """Whether two values that have different types are iterators."""
    return isinstance(first.value, ListIterator) or first.identity is not None or second.identity is not None


def of_two_types(first: Known, second: Known, otherwise: str) -> str:
    """The remedy for a value that has different types on two paths."""
    if NONE in (first.type, second.type) and any(isinstance(known.value, Sealed) for known in (first, second)):
        return "begin with a tuple of zeros, or make the first result before the loop"
    if NONE in (first.type, second.type):
        return "use a value that cannot occur, such as -1 or math.inf, or a separate bool that says whether there is a value"
    if means(first, Thing.LIST) and means(second, Thing.LIST):
        return (
            "the length of a list must be known at compile time: loop over a tuple, or write to a local_array and count"
        )
    if all(isinstance(known.value, str) and isinstance(known.type, Static) for known in (first, second)):
        return "strings must be known at compile time: print each part, or choose between numbers"
    if isinstance(first.type, Tuple) and isinstance(second.type, Tuple) and len(first.items) != len(second.items):
        return "the length of a tuple must be known at compile time: loop over a tuple, or write to a local_array and count"
    if all(code_of(known) is not None or callable(known.value) for known in (first, second)):
        return "call a function on each path: y = f(x) if c else g(x)"
    if are_iterators(first, second):
        return (
            "make tuples of them, or separate loops; test items in the loop, or call a function for each of them in place of a "
            "generator: the position of a tuple's iterator must be known at compile time"
        )
    if all(isinstance(known.value, enum.Enum) and isinstance(known.type, Static) for known in (first, second)):
        is_flag = isinstance(first.value, enum.Flag)
        return f"make the class an enum.{'IntFlag' if is_flag else 'IntEnum'}: its members are numbers"
    return otherwise


# Operators

MOST_CHARACTERS = 4096
"""The maximum length of `text * n`."""


def _remedy_of_text(sign: str, *operands: Known) -> str:
    """The remedy if an operand is a string, bytes or None; empty otherwise."""
    if any(isinstance(operand.value, bytes) for operand in operands):
        return "its items are numbers: b'a'[0]"
    if any(isinstance(operand.value, str | Text) for operand in operands):
        if sign in ("%", "+"):
            return "write one f-string: f'{n} {x:.3f}'"
        if sign in ("<", "<=", ">", ">=", "==", "!=") and any(isinstance(operand.value, Text) for operand in operands):
            return "strings with run-time values are for print: compare the values"
        if sign == "*":
            return f"repeat a string a constant number of times; the limit is {MOST_CHARACTERS} characters"
        return "convert text to a number with int('12'), float('1.5') or ord('a')"
    return "test for None with `is`" if any(operand.type == NONE for operand in operands) else ""


def _own_remedy(method: str, *operands: Known) -> str:
    for operand in operands:
        if isinstance(operand.type, Struct) and operand.type.host is not None and method:
            return f"give {operand.type.name} a method {method}"
    if any(is_member(operand) for operand in operands):
        return "use their .value, or make the class an enum.IntEnum, whose members are numbers"
    if any(isinstance(k.type, (Tuple, Vector)) or is_container(k) for k in operands):
        return f"write it for {'its' if len(operands) == 1 else 'their'} elements"
    return next(filter(None, map(use_of, operands)), "use the numbers in it: read its members or attributes")


def _remedy_of_array(known: Known) -> str:
    if isinstance(known.type, Array) or isinstance(known.value, np.ndarray):
        return "arithmetic in device code works on elements: index the array first"
    if isinstance(known.type, Ref) and isinstance(known.type.pointee, AtomicCell):
        return "an atomic is read and changed by its methods: x.load(), x.add(value), …"
    return ""


def undefined(sign: str, *operands: Known) -> CompileError:
    """The error of an operator that its operands do not have."""
    method = f"__{METHODS[sign]}__" if sign in METHODS else ""
    if len(operands) == 1:
        reason, method = f"the operator {sign} is not defined for {operands[0]}", f"__{UNARY_METHODS[sign]}__"
    else:
        reason = f"{operands[0]} {sign} {operands[1]} is not defined"
    return CompileError(
        reason,
        help=next(filter(None, map(_remedy_of_array, operands)), "")
        or _remedy_of_text(sign if len(operands) == 2 else "", *operands)
        or _own_remedy(method, *operands),
    )
