"""docs/reference.md: every public name, its signature, and the first sentence of its docstring; `--update-golden` writes it."""

import functools
import importlib
import inspect
import re
from pathlib import Path

import numpy as np

import cuda_device as device
from cuda_device import tiles
from cuda_device.device.entities import DeviceValue

TESTS = Path(__file__).parents[1]
REFERENCE = TESTS.parent / "docs" / "reference.md"

# Chapters, in the specification's order, and the names that belong to them: patterns of names, else where they are defined.
CHAPTERS = {
    "Functions and kernels": (
        r"func|kernel|launch|prepare|Func|\w*Kernel|PreparedLaunch|\w+unction|ConstExpr|[cC]ompiled?"
        r"|load|Parameter|[gG]raph"
    ),
    "Groups of devices": r"Device\w*Group|launch_group|group_barrier|signal|wait_until",
    "Numbers": r"(u?int|float|complex|bfloat)\d+|float8e\dm\d",
    "Vectors": r"\w+x[1-4]|Dim3",
    "Structs, layout and arrays": (
        r"struct|\w*align\w*|sizeof|replace|numpy_dtype|\w*Array\w*|(as_)?array|(empty|zeros|full)\w*|pinned|managed"
    ),
    "CUDA C++": r"machine_representation|pointer|ptx|extern|Extern|cuda_source|[bB]indings|cpp_\w+|get_include",
    "Target specialisation": r"(is_|any_|no_)?(target|host|device)|TargetDescription|SMSelector|sm\d\w+|is_exactly|provides",
    "Thread positioning": r"cluster_(idx|dim)|block_rank|thread_idx|block_idx|block_dim|grid_dim|tid|grid_size|lane_id|warp_size",
    "Memory": r"cache_(load|store)|cluster_shared|local_array|shared_array|dynamic_shared_array",
    "Atomics": r"Atomic\w*|atomic_ref|threadfence",
    "Thread block synchronisation": r"syncthreads\w*|(grid|cluster)_sync",
    "Thread warp synchronisation": r"WarpMask|activemask|lanemask_lt|syncwarp|(?!tcgen05)\w+_sync",
    "Numeric intrinsics": r"popc|brev|clz|ffs|cbrt|fma|rsqrt",
    "Random numbers": r"(?i)philox\w*",
    "Time": r"clock64|globaltimer|nanosleep",
    "Tensor cores, asynchronous copies, barriers in memory": "",
    "Tiles: `cuda_device.tiles`": "",
    "Errors": r"\w*(Error|Warning)",
    "Streams, and the rest": r".*",
}
# Names that differ in a number alone stand in one row: with one in its place, and what the row says.
FAMILIES = {
    r"sm\d+[af]?": ("smXX", "An architecture: `sm75` to `sm121f`."),
    r"(\w+)x[1-4]": ("{}xN", "A vector of N elements: `N` is 1, 2, 3 or 4."),
}
# What stands behind those in a signature.
MEMBERS = {"XX": ": SMSelector", "xN": "(x, …)"}
# What the docstrings of others do not say: those of NumPy's types, and of values.
SUMMARIES = {
    "any_target": "Matches every target.",
    "no_target": "Matches no target.",
    "is_host": "Matches the host.",
    "is_device": "Matches every GPU, and the CPU stream, which emulates one.",
    "WarpMask": "A set of the lanes of a warp: an int32 with a bit for each.",
    "complex64": "NumPy's type: `cuda::std::complex<float>`.",
    "complex128": "NumPy's type: `cuda::std::complex<double>`.",
    "bfloat16": "ml_dtypes' type: `__nv_bfloat16`.",
    "float8e4m3": "ml_dtypes' `float8_e4m3fn`: `__nv_fp8_e4m3`.",
    "float8e5m2": "ml_dtypes' `float8_e5m2`: `__nv_fp8_e5m2`.",
}
INTRODUCTION = """\
# Every public name

For a function, its signature; for a class that functions of this package return, its members; for a value, its type.
`help(cuda_device.launch)` shows the whole docstring, which also says what a parameter without a type takes. In device code,
integers in parameters and results have types of fixed width: see [Types and promotion](numbers.md).
"""
# Classes that programs make objects of.
MADE = r"Atomic|WarpMask|Dim3|SMSelector|Vector"


def family(name):
    for pattern, (label, summary) in FAMILIES.items():
        if match := re.fullmatch(pattern, name):
            return label.format(*match.groups()), summary
    return name, ""


def signature(name, namespace=device):
    """What a program writes: `popc(x: int) -> np.int32`, `Compiled: .code .symbol`, `lane_id: np.int32`."""
    thing = getattr(namespace, name)
    if isinstance(thing, type) and issubclass(thing, np.generic) and not re.fullmatch(MADE, name):
        return f"{name}(value)"
    if isinstance(thing, type) and not re.fullmatch(MADE, name):
        if issubclass(thing, Exception):
            members = {
                name: None for name in "reason location help chain block thread".split() if name in vars_of(thing)
            }
        else:
            members = {each: getattr(thing, each, None) for each in vars_of(thing)}
        routines = [each for each, member in members.items() if inspect.isroutine(member)]
        values = [each for each, member in members.items() if isinstance(member, functools.cached_property)]
        shown = [f".{each}{'()' * (each in routines and each not in values)}" for each in members]
        return ": ".join(filter(None, [name, " ".join(shown)]))
    if callable(thing) and not isinstance(thing, DeviceValue):
        return name + signature_text(thing)
    assert namespace is device
    module = importlib.import_module(f"cuda_device.{device._HOMES[name][0]}")
    return f"{name}: {vars(module).get('__annotations__', {}).get(name, type(thing).__name__)}"


# Members that the package uses, and programs do not.
INTERNAL = "|".join(re.findall(r'^ +- "!(.+)"$', (TESTS.parent / "mkdocs.yml").read_text(), re.M)) + "|^(self|message)$"


def vars_of(kind):
    """The names that a class and its bases, but Python's, define, its own first; slots and attributes set on making, too."""
    bases = [base for base in kind.__mro__ if base.__module__.startswith("cuda_device")]
    made = [inspect.signature(base.__init__).parameters for base in bases if "__init__" in vars(base)]
    own = dict.fromkeys(name for names in map(vars, bases) for name in names)
    own |= {name: None for names in made[:1] for name, each in names.items() if not each.kind.name.startswith("VAR")}
    return [name for name in own if not re.search(INTERNAL, name) and not isinstance(getattr(kind, name, None), type)]


def signature_text(function):
    """A signature as one writes it: without `Any`, and with long defaults left out."""
    found = inspect.signature(function)
    shown = [
        p.replace(
            annotation=p.empty if p.annotation == "Any" else p.annotation,
            default=Shown(p.default) if p.default is not p.empty else p.default,
        )
        for p in found.parameters.values()
    ]
    result = found.empty if found.return_annotation == "Any" or isinstance(function, type) else found.return_annotation
    return str(found.replace(parameters=shown, return_annotation=result)).replace("'", "").replace('"', "'")


class Shown:
    """A default, as a program would write it."""

    def __init__(self, value):
        self.text = (
            value.__name__ if isinstance(value, type) else f'"{value}"' if isinstance(value, str) else repr(value)
        )

    def __repr__(self):
        return self.text


def summary(name, namespace=device):
    """The first sentence of a docstring."""
    thing = getattr(namespace, name)
    if name in SUMMARIES:
        return SUMMARIES[name]
    if isinstance(thing, type) and issubclass(thing, np.generic):
        return f"NumPy's type: `cuda::std::{name}_t`."
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.match(r"(.*?[.])(\s|$)|.*", text)[0].strip()


def chapter_of(name):
    if device._HOMES[name][0].startswith("plugins.tensor_cores."):
        return "Tensor cores, asynchronous copies, barriers in memory"
    if device._HOMES[name][0] == "device.machine_functions" and not re.fullmatch(CHAPTERS["Time"], name):
        return "Numeric intrinsics"
    return next(chapter for chapter, pattern in CHAPTERS.items() if re.fullmatch(pattern, name))


def reference():
    rows = {chapter: {} for chapter in CHAPTERS}
    for name in sorted(device.__all__, key=str.lower):
        label, text = family(name)
        shown = signature(name) if label == name else label + MEMBERS[label[-2:]]
        label = shown.replace("|", chr(92) + "|")
        rows[chapter_of(name)].setdefault(label, text or summary(name))
    for name in sorted(tiles.__all__, key=str.lower):
        shown = signature(name, tiles)
        made = inspect.signature(getattr(tiles, name)) if isinstance(getattr(tiles, name), type) else None
        shown = f"{name}({', '.join(made.parameters)}): {shown.partition(': ')[2]}" if made else shown
        rows["Tiles: `cuda_device.tiles`"][shown.replace("|", chr(92) + "|")] = summary(name, tiles)
    lines = [INTRODUCTION]
    for chapter, found in rows.items():
        lines += [f"## {chapter}\n", "| name | what it is |", "|---|---|"]
        lines += [f"| `{name}` | {text.replace('|', chr(92) + '|')} |" for name, text in found.items()]
        lines.append("")
    return "\n".join(lines)


def test_the_reference_is_up_to_date(update_golden):
    text = reference()
    if update_golden:
        REFERENCE.write_text(text)
    assert REFERENCE.read_text() == text, "pytest --update-golden tests/repository/test_reference.py"


def test_help_shows_types():
    for name in device.__all__:
        thing = getattr(device, name)
        if inspect.isfunction(thing):
            found = inspect.signature(thing)
            assert found.return_annotation is not found.empty, name
            assert all(p.annotation is not p.empty for p in found.parameters.values()), name
