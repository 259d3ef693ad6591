"""What users set and name: formats, options, targets, architectures, symbols; against Python, nvJitLink, and plain rules.

f"{-3:+05d}"                       as printf makes it of the specification
target(provides(sm100f))           the set of targets that has what that one has
extern "C" … xor_eq(…)             no name in C++, so none for a function with interop=True
"""

from __future__ import annotations

import functools
import random
import re
from typing import Any

import cuda_device as device
from cuda_device.codegen.gpu import kernel_attributes, occupancy
from cuda_device.device import options, printf_formats, symbols, target
from cuda_device.errors import CompileError
from cuda_device.types import architectures
from cuda_device.types.model import NUMBERS

# Formats


def specifications(choose: random.Random) -> str | None:
    """printf makes of a specification what Python makes; what it cannot is refused."""
    fill, align = choose.choice(
        (("", ""), ("", "<"), ("", ">"), (" ", ">"), ("0", "="), ("*", ">"), ("", "^"), ("", "="), ("x", "<"))
    )
    sign, alternate, zero = (
        choose.choice(("", "", "+", "-", " ")),
        choose.choice(("", "", "#")),
        choose.choice(("", "", "0")),
    )
    width, group = (
        choose.choice(("", str(choose.randint(1, 12)), "200", "201")),
        choose.choice(("", "", "", "", ",", "_")),
    )
    kind = choose.choice(("d", "x", "o", "X", "f", "e", "g", "E", "G"))
    point = choose.choice(("", f".{choose.randint(0, 9)}", ".201")) if kind in "feEgG" else ""
    mark = choose.choice(("", "", "", "", "z")) if kind in "feEgG" else ""
    text = f"{fill}{align}{sign}{mark}{alternate}{zero}{width}{group}{point}{kind}"
    value: Any = (
        choose.randint(-300, 300) if kind in "dxoX" else choose.choice((-2.5, 0.0, 3.0, 1234.5678, 1e-7, -1e20))
    )
    zeros = (zero and not align) or (fill, align) == ("0", "=")
    bad = (
        (zero and width and not fill and align)
        or group
        or mark
        or align == "^"
        or "201" in (width, point[1:])
        or (fill not in ("", " ") and not zeros)
        or (align == "=" and not zeros)
    )
    try:
        spec = printf_formats.parse(text)
    except CompileError:
        return None if bad else f"the format {text!r} is refused"
    if bad:
        return f"the format {text!r} is taken"
    if kind == "d":
        found, expected = spec.conversion(kind) % value, format(value, text)
        if found != expected and not alternate:
            return f"{value} as {text!r} is {found!r}, not {expected!r}"
    elif kind in "feEgG" and not alternate:
        found, expected = spec.conversion(kind) % value, format(value, text)
        if found != expected:
            return f"{value} as {text!r} is {found!r}, not {expected!r}"
    parts = (spec.alternate, spec.width, spec.precision, spec.kind, spec.sign, spec.plain)
    wanted = (bool(alternate), int(width or 0), int(point[1:]) if point else None, kind, sign.replace("-", ""), False)
    if parts != wanted or not printf_formats.parse("").plain or spec.conversion("d", 3)[-3:] != ".3d":
        return f"{text!r} is read as {parts}, not {wanted}"
    try:
        printf_formats.parse(choose.choice(("5dd", "d5", "..", "5.", "<<<", "é5")))
    except CompileError:
        return None
    return "what is no format is taken"


def digits(choose: random.Random) -> str | None:
    """So many digits tell a float from its neighbours, or nearly."""
    wanted = {"float16": 4, "bfloat16": 3, "float8e4m3": 3, "float8e5m2": 3, "float32": 7, "float64": 15, "float": 7}
    return next(
        (
            f"{name} has {printf_formats.digits_of(NUMBERS[name])} digits"
            for name, n in wanted.items()
            if printf_formats.digits_of(NUMBERS[name]) != n
        ),
        None,
    )


# Options

_RANGES = {
    "level": (0, 3),
    "max_threads": (1, 1024),
    "min_blocks": (1, 32),
    "max_registers": (16, 255),
    "stack_size": (1, 1 << 19),
}
_FLAGS = ("nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc")


def _fits(name: str, value: object) -> bool:
    if name in _RANGES:
        low, high = _RANGES[name]
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    if name == "checked":
        return value is None or isinstance(value, bool)
    if name == "fastmath":
        return isinstance(value, bool) or (
            isinstance(value, list | tuple | set) and set(value) <= {*_FLAGS, "ftz", "fast"}
        )
    return isinstance(value, bool)


def keywords(choose: random.Random) -> str | None:
    """Options that are taken, and what they become."""
    names = choose.sample(
        [*_RANGES, "contract", "checked", "fastmath", "lineinfo", "races", "fast"], choose.randint(1, 3)
    )
    given: dict[str, Any] = {}
    for name in names:
        low, high = _RANGES.get(name, (0, 1))
        few = (
            (low, high, choose.randint(low, high), low - 1, high + 1, True)
            if name in _RANGES
            else (True, False, True, None, 1)
        )
        if name == "fastmath":
            few = (True, False, {"fast"}, ["nsz", "afn"], ("ftz", "fast"), "fast", {"sloppy"}, 3, ())  # type: ignore[assignment]
        given[name] = choose.choice(few)
    for_kernels = choose.random() < 0.7
    known = {"level", "contract", "checked", "fastmath", "lineinfo"} | ({*_RANGES} if for_kernels else set())
    good = set(given) <= known and all(_fits(name, value) for name, value in given.items())
    good = good and ("min_blocks" not in given or "max_threads" in given)
    try:
        made = options.with_options(options.DEFAULTS, given, "@kernel", kernel=for_kernels)
    except TypeError:
        return f"{given} is refused" if good else None
    if not good:
        return f"{given} is taken"
    for name, value in given.items():
        wanted = value
        if name == "fastmath":
            chosen = {"afn", "ftz"} if value is True else set(value or ())
            wanted = tuple(flag for flag in (*_FLAGS, "ftz") if flag in chosen or ("fast" in chosen and flag != "ftz"))
        if getattr(made, name) != wanted:
            return f"{name}={value!r} becomes {getattr(made, name)!r}"
    found = kernel_attributes.attributes(made, for_kernels)
    for name, word in (("max_threads", "maxntid"), ("min_blocks", "minctasm"), ("max_registers", "maxnreg")):
        if (f'"nvvm.{word}"="{given.get(name)}"' in found) != (name in given):
            return f"{given} becomes {found}"
    ftz = "ftz" in made.fastmath
    if ('"preserve-sign,preserve-sign"' in found) != ftz or bool(kernel_attributes.flags(made)) != ftz:
        return f"{given} becomes {found}"
    return None


# Targets

_NUMBERS = (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121)
_NAMES = [f"sm_{n}{v}" for n in _NUMBERS for v in ("", *(("a",) if n >= 90 else ()), *(("f",) if n >= 100 else ()))]


def _has(one: str, other: str) -> bool:
    """Whether a target has what another one has."""
    n, m = (int(re.sub(r"\D", "", name)) for name in (one, other))
    if other[-1] == "a":
        return one == other
    if other[-1] == "f":
        return one[-1] in "af" and n // 10 == m // 10 and n >= m
    return n >= m


def descriptions(choose: random.Random) -> str | None:
    """Sets of targets, made of others."""
    if sorted(target.SELECTORS) != sorted(_NAMES):
        return f"there are targets {set(target.SELECTORS) ^ set(_NAMES)}"
    first, second = choose.choice(_NAMES), choose.choice(_NAMES)
    a, b = target.provides(target.SELECTORS[first]), target.is_exactly(target.SELECTORS[second])
    sets = {name: (_has(name, first), name == second or (name.rstrip("af") == second)) for name in _NAMES}
    for name in choose.sample(_NAMES, 9):
        x, y = sets[name]
        sm = target.SELECTORS[name]
        found = tuple(
            each.matches(sm)
            for each in (a, b, a | b, a & b, ~a, device.any_target, device.no_target, device.is_host, device.is_device)
        )
        wanted = (x, y, x or y, x and y, not x, True, False, False, True)
        if (
            found != wanted
            or sm.name != name
            or repr(sm) != name.replace("_", "")
            or getattr(device, repr(sm)) is not sm
        ):
            return f"{name}: {a}, {b}, and made of them: {found}, not {wanted}"
        if sm.provides(target.SELECTORS[first]) != x or sm.is_exactly(target.SELECTORS[second]) != y:
            return f"{name}, {first} and {second}"
    host = [each.matches(None) for each in (a, ~a, device.is_host, device.is_device, device.any_target)]
    if (
        host != [False, True, True, False, True]
        or device.target(device.is_host) is not True
        or device.target(a) is not False
    ):
        return f"the host is taken for a GPU: {host}"
    if (a | b) is not (b | a) or (a & a) is not a or ~~a is not a:
        return f"{a} and {b} are not sets"
    return None


def refused(choose: random.Random) -> str | None:
    """What is no target is refused."""
    sm = device.sm90
    for run in (
        lambda: device.provides("sm_90"), lambda: device.is_exactly(90), lambda: device.target(sm),  # type: ignore[arg-type]
        lambda: device.target(True), lambda: bool(device.provides(sm)), lambda: device.provides(sm) | sm,  # type: ignore[arg-type, operator]
        lambda: device.provides(sm) & 3,  # type: ignore[operator]
    ):  # fmt: skip
        try:
            run()
            return "what is no target is taken"
        except TypeError:
            continue
    return None


# Architectures


@functools.cache
def _assembled(name: str, version: str) -> bool | None:
    """Whether nvJitLink takes PTX of a version for an architecture; None where there is none."""
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except (ImportError, RuntimeError, OSError):
        return None
    text = f".version {version}\n.target {name}\n.address_size 64\n.visible .entry k()\n{{\nret;\n}}\n".encode()
    try:
        handle = nvjitlink.create(1, [f"-arch={name}"])
    except nvjitlink.nvJitLinkError:
        return False
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, text, len(text), "k")
        nvjitlink.complete(handle)
        return True
    except nvjitlink.nvJitLinkError:
        return False
    finally:
        nvjitlink.destroy(handle)


_LATE = (88, 110)
"""Those that 'PTX ISA' has since version 9.0; nvJitLink 13.0 takes the first with any."""
_EVERY = [f"sm_{number}{variant}" for number in _NUMBERS if number >= 75 for variant in ("", "a", "f")]


def machines(choose: random.Random) -> str | None:
    """NVIDIA's assembler takes all architectures that there are, with the version of PTX that they need."""
    name = choose.choice(_EVERY)
    known = architectures.ARCHITECTURES.get(name)
    if known is None:
        if _assembled(name, "9.0") and name != "sm_101":
            return f"{name} is missing"
    else:
        number = int(re.sub(r"\D", "", name))
        version = "9.0" if number in _LATE else "8.8"
        if _assembled(name, version) is False:
            return f"{name} does not take PTX {version}"
        if str(known.ptx) != version or known.ptx.feature != f"+ptx{version.replace('.', '')}":
            return f"{name} is asked for PTX {known.ptx}"
        if (str(known), known.number, known.capability, known.variant.value) != (
            name,
            number,
            divmod(number, 10),
            name[-1] if name[-1] in "af" else "",
        ):
            return f"{name} is {known!r}"
    major, minor = choose.randint(6, 13), choose.randint(0, 9)
    fitting = [n for n in _NUMBERS if n >= 75 and n != 101 and n // 10 == major and n % 10 <= minor]
    try:
        found: Any = architectures.of_capability(major, minor).name
    except ValueError:
        found = None
    wanted = f"sm_{max(fitting)}" if fitting else None
    return None if found == wanted else f"compute capability {major}.{minor} takes {found}, not {wanted}"


def registers(choose: random.Random) -> str | None:
    """How many warps run: as CUDA's occupancy calculator says."""
    n = choose.randint(1, 255)
    block = -(-n * 32 // 256) * 256
    wanted = 4 * min(16, 16384 // block)
    if occupancy.warps(n) != wanted:
        return f"{occupancy.warps(n)} warps have {n} registers, not {wanted}"
    better = [m for m in (n - 1, n - 2) if m > 0 and 4 * min(16, 16384 // (-(-m * 32 // 256) * 256)) > wanted]
    if occupancy.fewer(n) != (max(better) if better else None):
        return f"of {n} registers {occupancy.fewer(n)} are enough"
    return None


# Symbols

_WORDS = """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
concept const const_cast consteval constexpr constinit continue co_await co_return co_yield decltype default delete do double
dynamic_cast else enum explicit export extern false float for friend goto if
inline int long mutable namespace new noexcept not not_eq nullptr
operator or or_eq private protected public register reinterpret_cast requires return short signed sizeof static static_assert
static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void
volatile wchar_t while xor xor_eq""".split()
"""The keywords of C++20."""
_OURS = (
    "WARP_SZ",
    "shared_0",
    "shared_12",
    "dynamic_shared",
    "device_report",
    "device_report_values",
    "device_meet",
    "cuda_device_x",
    "vprintf",
    "__nv_sinf",
    "_",
)
_PYTHON = ("and", "break", "class", "continue", "else", "for", "if", "not", "or", "return", "try", "while")


def names(choose: random.Random) -> str | None:
    """Names of functions of C++ are those that are no words of C++, of the assembler's, or of ours."""
    cpp = [word for word in _WORDS if word not in _PYTHON]
    good = (
        "norm",
        "f",
        "Double",
        "xor_",
        "shared_x",
        "device_reports",
        "x1",
        "_x",
        "WARP",
        "printf",
        "nv_sinf",
        "int8_t",
    )
    for name in choose.sample([*cpp, *_OURS, *good, "é", "2x", "a b", ""], 30):
        try:
            symbols.check_symbol(name)
            taken = True
        except TypeError:
            taken = False
        if taken != (name in good):
            return f"{name!r} is {'taken' if taken else 'refused'} for a function of C++"
    return None


CHECKS = (
    specifications,
    specifications,
    specifications,
    digits,
    keywords,
    keywords,
    descriptions,
    refused,
    machines,
    registers,
    registers,
    names,
)
