"""What the header of CUDA's driver says of its functions, and a library made of our rows, which notes what it gets."""

import ctypes
import functools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from cuda_device.codegen.gpu import assemblers, libcuda

# How the parameters of our rows are spelt in C; all other types are enumerations, or handles, which are pointers.
NUMBERS = {
    "int": "i", "unsigned int": "u", "unsigned char": "b", "size_t": "z", "float": "f", "cuuint64_t": "l", "CUdevice": "i",
    "CUdeviceptr": "p", "char*": "n", "const char*": "s",
}  # fmt: skip
# What C calls void* holds an int, and what it calls the PTX's text is one; data come as bytes.
READ_AS = {
    ("cuPointerGetAttribute", "data"): ">i",
    ("cuMemPoolGetAttribute", "value"): ">l",
    ("cuMemPoolSetAttribute", "value"): "&l",
    ("cuLibraryLoadData", "code"): "s",
    ("cuLinkAddData_v2", "data"): "s",
}


@functools.cache
def header():
    """The text of cuda.h without comments; None where it is not."""
    path = assemblers.find("nvidia/cu13/include/cuda.h", "include/cuda.h")
    if path is None:
        return None
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", Path(path).read_text(errors="replace"), flags=re.S)


@functools.cache
def versions(header):
    """The symbols that the header's names stand for."""
    return dict(re.findall(r"#\s*define (cu\w+)\s+(?:__CUDA_API_PT\w+\()?(cu\w+_v\d+)\)?\s*$", header, re.M))


@functools.cache
def prototypes(header):
    """The parameters of each function by its symbol: pairs of a type and a name."""
    symbols, found = versions(header), {}
    for name, inside in re.findall(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(([^)]*)\)\s*;", header):
        parameters = [] if inside.strip() in ("", "void") else [part.strip() for part in inside.split(",")]
        pairs = [re.fullmatch(r"(.*?)\s*(\w+)", parameter, re.S).groups() for parameter in parameters]
        found.setdefault(symbols.get(name, name), [(re.sub(r"\s*\*", "*", kind), what) for kind, what in pairs])
    return found


@functools.cache
def enumerations(header):
    found = {}
    for body, name in re.findall(r"typedef enum \w+\s*\{(.*?)\}\s*(\w+);", header, re.S):
        found[name], following = {}, 0
        for member, value in re.findall(r"(\w+)\s*(?:=\s*(\w+))?\s*(?:,|$)", body.strip()):
            # Some are names of other members; ours are not among them.
            following = int(value, 0) if value[:1].isdigit() else following
            found[name][member], following = following, following + 1
    return found


def letter(kind, enums):
    """How a parameter of this type is written, without its direction."""
    plain = kind.removesuffix("_enum")
    return NUMBERS.get(plain, "i" if plain in enums else "p")


def row_differs(header, symbol):
    """What is not in a row of ours as the header has it; None if nothing is."""
    enums = enumerations(header)
    parameters, row = prototypes(header)[symbol], libcuda.FUNCTIONS[symbol].split()
    if len(parameters) != len(row):
        return f"{symbol} has {len(parameters)} parameters, not {len(row)}"
    for (kind, name), ours in zip(parameters, row, strict=True):
        if (symbol, name) in READ_AS:
            right = ours == READ_AS[symbol, name]
        elif ours[:-1] and kind == "char*":
            right = ours == ">n"
        elif ours[:-1]:
            right = kind.endswith("*") and ours[-1] == letter(kind.removesuffix("*"), enums)
        else:
            right = ours == ("p" if kind.endswith("*") and kind != "const char*" else letter(kind, enums))
        if not right:
            return f"{name} of {symbol} is {kind}, not {ours}"
    return None


@functools.cache
def called():
    """The names of the driver's functions that the package calls."""
    found = set()
    for path in Path(libcuda.__file__).parents[2].rglob("*.py"):
        if path.name != "libcuda.py":
            found |= set(re.findall(r"\b(?:api|driver|bindings\(\))\.(cu[A-Z]\w+)", path.read_text()))
    return found


GIVEN = {"b": 200, "i": -5, "u": 0xFFFF_FFFE, "l": 2**64 - 3, "z": 2**63 + 1, "p": 2**64 - 7, "s": b"a\0b"}
WORDS = {"s": b"some words", "n": b"a name"}


def call_differs(stand_in, symbol):
    """What C does not get or give as it should; None if it does."""
    api, got = stand_in
    row = libcuda.FUNCTIONS[symbol].split()
    inputs = [GIVEN[mark[-1]] for mark in row if mark[0] != ">"]
    got[:] = [0] * 16
    answer = getattr(api, symbol.partition("_v")[0])(*inputs)
    expected = (7, *(WORDS.get(mark[-1], 1000 + i) for i, mark in enumerate(row) if mark[0] in ">&"))
    if tuple(answer) != expected:
        return f"{symbol} gives {answer}, not {expected}"
    for i, mark in enumerate(row):
        if mark == "s" and ctypes.string_at(got[i], 3) != GIVEN["s"]:
            return f"the argument {i} of {symbol} is not the text"
        if mark != "s" and mark[0] != ">" and got[i] != GIVEN[mark[-1]] % 2**64:
            return f"the argument {i} of {symbol} is {got[i]}, not {GIVEN[mark[-1]]}"
    return None


@functools.cache
def stand_in():
    """A library whose functions note what they get as 64-bit numbers, and give 1000, 1001, … for outputs; the status is 7.

    None where there is no compiler of C.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    lines = ["#include <stdint.h>", "#include <stddef.h>", "#include <string.h>", "uint64_t got[16];"]
    spelt = {
        "b": "unsigned char",
        "i": "int",
        "u": "unsigned",
        "l": "uint64_t",
        "z": "size_t",
        "f": "float",
        "p": "void*",
        "s": "char*",
    }
    for symbol, row in libcuda.FUNCTIONS.items():
        parameters, body = [], []
        for i, mark in enumerate(row.split()):
            match mark:
                case ">n":
                    parameters.append(f"char* a{i}")
                    body.append(f'strcpy(a{i}, "a name");')
                case ">s":
                    parameters.append(f"char** a{i}")
                    body.append(f'*a{i} = "some words";')
                case _ if mark[0] in ">&":
                    parameters.append(f"{spelt[mark[-1]]}* a{i}")
                    body += [f"got[{i}] = (uint64_t)*a{i};"] * (mark[0] == "&")
                    body.append(f"*a{i} = ({spelt[mark[-1]]}){1000 + i};")
                case _:
                    parameters.append(f"{spelt[mark]} a{i}")
                    body.append(f"got[{i}] = (uint64_t)a{i};")
        lines.append(f"int {symbol}({', '.join(parameters) or 'void'}) {{ {' '.join(body)} return 7; }}")
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "libcuda.c"), Path(folder, "libcuda.so")
        source.write_text("\n".join(lines))
        subprocess.run([compiler, "-w", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        return libcuda.DriverLibrary(str(library)), (ctypes.c_uint64 * 16).in_dll(ctypes.CDLL(str(library)), "got")
