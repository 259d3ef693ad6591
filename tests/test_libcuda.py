"""Our rows of the driver's functions beside its header, and, through a library made of the header, what C gets and gives."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cuda_device.codegen import installed, libcuda

# How the parameters of our rows are spelt in C; all other types are enumerations, or handles, which are pointers.
NUMBERS = {
    "int": "i", "unsigned int": "u", "unsigned char": "b", "size_t": "z", "cuuint64_t": "l", "CUdevice": "i",
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


@pytest.fixture(scope="module")
def header():
    path = installed.find("nvidia/cu13/include/cuda.h", "include/cuda.h")
    if path is None:
        pytest.skip("no cuda.h: pip install nvidia-cuda-runtime")
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(errors="replace"), flags=re.S)


def versions(header):
    """The symbols that the header's names stand for."""
    return dict(re.findall(r"#\s*define (cu\w+)\s+(?:__CUDA_API_PT\w+\()?(cu\w+_v\d+)\)?\s*$", header, re.M))


def prototypes(header):
    """The parameters of each function by its symbol: pairs of a type and a name."""
    symbols, found = versions(header), {}
    for name, inside in re.findall(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(([^)]*)\)\s*;", header):
        parameters = [] if inside.strip() in ("", "void") else [part.strip() for part in inside.split(",")]
        pairs = [re.fullmatch(r"(.*?)\s*(\w+)", parameter, re.S).groups() for parameter in parameters]
        found.setdefault(symbols.get(name, name), [(re.sub(r"\s*\*", "*", kind), what) for kind, what in pairs])
    return found


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


@pytest.mark.parametrize("symbol", libcuda.FUNCTIONS)
def test_a_row_is_what_the_header_says(header, symbol):
    enums = enumerations(header)
    parameters, row = prototypes(header)[symbol], libcuda.FUNCTIONS[symbol].split()
    assert len(parameters) == len(row)
    for (kind, name), ours in zip(parameters, row, strict=True):
        if (symbol, name) in READ_AS:
            assert ours == READ_AS[symbol, name]
        elif ours[:-1] and kind == "char*":
            assert ours == ">n"
        elif ours[:-1]:
            assert kind.endswith("*") and ours[-1] == letter(kind.removesuffix("*"), enums), (kind, name, ours)
        else:
            assert ours == ("p" if kind.endswith("*") and kind != "const char*" else letter(kind, enums)), (kind, name)


def test_symbols_are_those_that_the_header_names_stand_for(header):
    newest = versions(header)
    for symbol in libcuda.FUNCTIONS:
        name = symbol.partition("_v")[0]
        assert newest.get(name, name) == symbol


@pytest.mark.parametrize("name", libcuda.ENUMERATIONS)
def test_an_enumeration_has_the_headers_numbers(header, name):
    theirs = enumerations(header)[name]
    assert {member: theirs.get(member) for member in libcuda.ENUMERATIONS[name]} == libcuda.ENUMERATIONS[name]


def test_flags(header):
    for name in ("CU_MEMHOSTALLOC_PORTABLE", "CU_MEMHOSTALLOC_DEVICEMAP"):
        (value,) = re.findall(rf"#define {name}\s+(0x\w+)", header)
        assert getattr(libcuda.Library, name) == int(value, 0)


def test_all_that_the_package_calls_has_a_row():
    names = {symbol.partition("_v")[0] for symbol in libcuda.FUNCTIONS}
    package = Path(libcuda.__file__).parent.parent
    called = {
        name
        for path in package.rglob("*.py")
        if path.name != "libcuda.py"
        for name in re.findall(r"\b(?:api|driver|bindings\(\))\.(cu[A-Z]\w+)", path.read_text())
    }
    assert called <= names and len(called) > 40
    members = {
        member
        for path in package.rglob("*.py")
        for member in re.findall(r"\.(CU_\w+)\b", path.read_text())
        if path.name != "libcuda.py" and not member.endswith("_")
    }
    known = {member for row in libcuda.ENUMERATIONS.values() for member in row} | set(vars(libcuda.Library))
    assert members <= known


@pytest.fixture(scope="module")
def stand_in(header, tmp_path_factory):
    """A library whose functions note what they get as 64-bit numbers, and give 1000, 1001, … for outputs; the status is 7."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("libcuda")
    lines = ["#include <stdint.h>", "#include <stddef.h>", "#include <string.h>", "uint64_t got[16];"]
    spelt = {
        "b": "unsigned char",
        "i": "int",
        "u": "unsigned",
        "l": "uint64_t",
        "z": "size_t",
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
    source, library = folder / "libcuda.c", folder / "libcuda.so"
    source.write_text("\n".join(lines))
    subprocess.run([compiler, "-w", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return libcuda.Library(str(library)), (ctypes.c_uint64 * 16).in_dll(ctypes.CDLL(str(library)), "got")


@pytest.mark.parametrize("symbol", libcuda.FUNCTIONS)
def test_c_gets_and_gives_what_python_says(stand_in, symbol):
    api, got = stand_in
    given = {"b": 200, "i": -5, "u": 0xFFFF_FFFE, "l": 2**64 - 3, "z": 2**63 + 1, "p": 2**64 - 7, "s": b"a\0b"}
    row = libcuda.FUNCTIONS[symbol].split()
    inputs = [given[mark[-1]] for mark in row if mark[0] != ">"]
    got[:] = [0] * 16
    status, *results = getattr(api, symbol.partition("_v")[0])(*inputs)
    words = {"s": b"some words", "n": b"a name"}
    assert status == 7
    assert results == [words.get(mark[-1], 1000 + i) for i, mark in enumerate(row) if mark[0] in ">&"]
    for i, mark in enumerate(row):
        if mark == "s":
            assert ctypes.string_at(got[i], 3) == b"a\0b"
        elif mark[0] != ">":
            assert got[i] == given[mark[-1]] % 2**64


def test_wrong_names_and_counts(stand_in):
    api, _ = stand_in
    with pytest.raises(AttributeError, match="cuNothing is not among"):
        _ = api.cuNothing
    with pytest.raises(TypeError, match="cuLinkComplete takes 1 arguments, not 2"):
        api.cuLinkComplete(1, 2)
    with pytest.raises((TypeError, ctypes.ArgumentError)):
        api.cuStreamGetCtx()
    with pytest.raises((TypeError, ctypes.ArgumentError)):
        api.cuInit("text")


def test_without_a_driver():
    with pytest.raises(OSError, match="no_such_library"):
        libcuda.Library("no_such_library.so.1")
