"""What is appended to C++ for the stubs that call it: functions with their symbols, and checks that types agree.

@extern(link=source)                       additions([norm], text)
def norm(x: float32) -> float32: ...           static_assert(… == 'f' && sizeof(A0) == 4 && …, "norm, x: float32");

@extern(cpp="ns::norm<float>", link=source)
def norm(x: float32) -> float32: ...           extern "C" __device__ float cuda_device_…(float a0) { return ns::norm<float>(a0); }
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence

from cuda_device import CompileError, Extern
from cuda_device.extend import abi, layout, model, sha256
from cuda_device.plugins.cpp.type_names import OFFSETOF, cpp_name, headers_for


def additions(stubs: Sequence[Extern], text: str, checked: bool) -> str:
    """The C++ that is appended to a text for stubs; types are compared if `checked`."""
    by_declaration = {(stub.symbol, stub.parameters, stub.result, stub.header): stub for stub in reversed(stubs)}
    return "".join(sorted(_addition(stub, text, checked) for stub in by_declaration.values()))


def _addition(function: Extern, text: str, checked: bool) -> str:
    """The function that a stub calls, the header that declares it, or a check of its types."""
    if function.cpp is not None:
        return _instance(function, checked)
    if function.header:
        is_included = os.path.basename(function.header) in text
        return "" if is_included else f"\n#include {json.dumps(function.header)}\n"
    return _agreement(function) if checked else ""


_KINDS = """
#ifndef cuda_device_kinds
#define cuda_device_kinds
template <class T> struct cuda_device_kind { static constexpr char of = __is_class(T) || __is_union(T) ? 's' : 'i'; };
template <class T> struct cuda_device_kind<const T> : cuda_device_kind<T> {};
template <class T> struct cuda_device_kind<T*> { static constexpr char of = 'p'; };
template <class T> struct cuda_device_kind<T&> : cuda_device_kind<T*> {};
template <> struct cuda_device_kind<void> { static constexpr char of = 'v'; };
template <> struct cuda_device_kind<float> { static constexpr char of = 'f'; };
template <> struct cuda_device_kind<double> : cuda_device_kind<float> {};
template <class T> struct cuda_device_passing {  // by its address if its copies, or its end, run code
  static constexpr bool copies = __is_trivially_constructible(T, const T&) && __is_trivially_constructible(T, T&&)
                                 && __has_trivial_destructor(T);
};
template <class T> struct cuda_device_passing<T&> { static constexpr bool copies = true; };
template <> struct cuda_device_passing<void> { static constexpr bool copies = true; };
template <class T> struct cuda_device_pointee;
template <class T> struct cuda_device_pointee<T*> { using type = T; static constexpr bool is_const = false; };
template <class T> struct cuda_device_pointee<const T*> { using type = T; static constexpr bool is_const = true; };
template <class T> struct cuda_device_pointee<volatile T*> : cuda_device_pointee<T*> {};
template <class T> struct cuda_device_pointee<const volatile T*> : cuda_device_pointee<const T*> {};
template <class T> struct cuda_device_pointee<T&> : cuda_device_pointee<T*> {};
template <class T> struct cuda_device_pointee<const T> : cuda_device_pointee<T> {};
#endif
"""


def _agreement(function: Extern) -> str:
    """C++ that does not compile if the `extern "C"` function of a stub's symbol has other types. Its lines are the stub's.

    The kinds, sizes and members of the types are compared, not their names. If the source does not declare the symbol, it means
    the one in `cuda_device_absent`.
    """
    code, symbol = function.underlying.__code__, function.symbol
    types, cpp = (function.result, *function.parameters), ["R", *(f"A{i}" for i in range(len(function.parameters)))]
    names = (f"{symbol}, {name}" for name in ("result", *code.co_varnames[: len(function.parameters)]))
    check_name = f"cuda_device_stub_{symbol}_{sha256(repr(types).encode()).hexdigest()[:8]}"
    head = f"template <{', '.join(f'class {parameter}' for parameter in cpp)}>"
    lines = [
        f"namespace cuda_device_absent {{ extern const char {symbol}; }} using namespace cuda_device_absent;",
        f"{head} struct {check_name}_types {{",
        *(check for row in zip(names, cpp, types, strict=True) for check in (_passes(*row), *_fits(*row))),
        f"}}; {head} {check_name}_types<{', '.join(cpp)}> {check_name}(R (*)({', '.join(cpp[1:])}));",
        f"char {check_name}(const char*);",
        f'static_assert(sizeof({check_name}(&::{symbol})), "");',
    ]
    line_directive = f"\n#line {code.co_firstlineno} {json.dumps(code.co_filename)}\n"
    return f"\n{OFFSETOF}{_KINDS}{line_directive}{line_directive.join(lines)}\n"


def _passes(label: str, cpp: str, type: model.Type) -> str:
    """The check that values of a C++ type are passed in the same way: as a copy, or by the address of one."""
    copies = type == model.NONE or abi.passing(type, kernel=False) != "address"
    word, how = ("true", "as a copy") if copies else ("false", "by its address")
    return f'static_assert(cuda_device_passing<{cpp}>::copies == {word}, "{label}: {type} is passed {how}");'


def _fits(label: str, cpp: str, type: model.Type) -> list[str]:
    """The checks that a C++ type corresponds to one of ours: a number, a pointer, or a structure with these members."""
    ours = abi.representation(type) if type != model.NONE else type
    is_scalar = isinstance(ours, model.Number) and not (ours.is_complex or (ours.is_float and ours.bits < 32))
    scalar = "f" if isinstance(ours, model.Number) and ours.is_float else "i"
    kind = "v" if type == model.NONE else "p" if isinstance(ours, model.Ref) else scalar if is_scalar else "s"
    facts = [f"cuda_device_kind<{cpp}>::of == '{kind}'"] * (
        not isinstance(type, model.AtomicCell)
    )  # a number or a class
    if type == model.NONE:
        return [f'static_assert({facts[0]}, "{label}: {type}");']
    placement = layout.placement(ours)
    facts += [f"sizeof({cpp}) == {placement.size}", f"alignof({cpp}) == {placement.align}"]
    checks = [f'static_assert({" && ".join(facts)}, "{label}: {type}");']
    if isinstance(type, (model.Pointer, model.Array)):
        checks += _points_to(label, cpp if isinstance(type, model.Pointer) else f"decltype({cpp}::data)", type)
    if isinstance(type, model.Struct):
        for field, offset in zip(type.fields, placement.offsets, strict=True):
            if field.name not in abi.CPP_WORDS:
                condition = f"cuda_device_offsetof({cpp}, {field.name}) == {offset}"
                checks.append(f'static_assert({condition}, "{label}.{field.name}");')
                if not isinstance(field.type, model.Subarray):
                    checks += _fits(f"{label}.{field.name}", f"decltype({cpp}::{field.name})", field.type)
    return checks


def _points_to(label: str, cpp: str, type: model.Pointer | model.Array) -> list[str]:
    """The checks that a C++ pointer is to const if ours is, and to the same type, or to void."""
    name = f"cuda_device_{re.sub(r'[^a-zA-Z0-9]+', '_', label)}"
    checks = [f'static_assert(cuda_device_pointee<{cpp}>::is_const, "{label}: {type}");'] * type.readonly
    if type.dtype != model.NONE:
        checks += [
            f"template <class {name}_type, class = void> struct {name} {{",
            *_fits(f"{label}[0]", f"{name}_type", type.dtype),
            f"}}; template <class T> struct {name}<void, T> {{}};",
            f'static_assert(sizeof({name}<typename cuda_device_pointee<{cpp}>::type>), "");',
        ]
    return checks


def _instance(function: Extern, checked: bool) -> str:
    """A C++ function with the symbol of a stub, which calls the function that the stub names. Its lines are the stub's."""
    structs: dict[str, model.Struct] = {}

    def name_of(type: model.Struct | model.Tuple) -> str:
        if isinstance(type, model.Tuple) or not type.name.isidentifier():
            raise CompileError(
                f"{function.__qualname__}: C++ has no name for {type}", help="declare a struct of its name with @struct"
            )
        structs[type.name] = type
        return type.name

    code = function.underlying.__code__
    types = [cpp_name(type, name_of) for type in function.parameters]
    result = "void" if function.result == model.NONE else cpp_name(function.result, name_of)
    names = [f"a{i}" for i in range(len(types))]
    parameters = ", ".join(f"{type} {name}" for type, name in zip(types, names, strict=True))
    head = f'extern "C" __device__ {result} {function.symbol}({parameters})'
    passed = [record for record in (*function.parameters, function.result) if isinstance(record, model.Struct)]
    checks = [check for name, type in structs.items() for check in _fits(name, name, type)] * checked
    checks += [_passes(record.name, record.name, record) for record in passed] * checked
    if checks:
        checks = [f"struct {function.symbol}_types {{", *checks, "};"]
    includes = "".join(f"#include <{header}>\n" for header in headers_for(head))
    lines = [*checks, f"{head} {{ return {function.cpp}({', '.join(names)}); }}"]
    line_directive = f"\n#line {code.co_firstlineno} {json.dumps(code.co_filename)}\n"
    return f"\n{(OFFSETOF + _KINDS) * bool(checks)}{includes}{line_directive}{line_directive.join(lines)}\n"
