"""Our rows of the driver's functions beside its header, and how Python calls a row."""

import ctypes
import functools
import re
from pathlib import Path

import pytest

from cuda_device.codegen.gpu import libcuda, toolkit

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
    path = toolkit.find("cuda.h")
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


@pytest.fixture(scope="module", name="header")
def installed_header():
    found = header()
    if found is None:
        pytest.skip("no cuda.h: pip install nvidia-cuda-runtime")
    return found


@pytest.mark.parametrize("symbol", libcuda.FUNCTIONS)
def test_a_row_is_what_the_header_says(header, symbol):
    assert row_differs(header, symbol) is None


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
        assert getattr(libcuda.DriverLibrary, name) == int(value, 0)


def test_all_that_the_package_calls_has_a_row():
    paths = (path for path in Path(libcuda.__file__).parents[2].rglob("*.py") if path.name != "libcuda.py")
    text = "\n".join(path.read_text() for path in paths)
    called = set(re.findall(r"\b(?:api|driver|bindings\(\))\.(cu[A-Z]\w+)", text))
    assert called <= {symbol.partition("_v")[0] for symbol in libcuda.FUNCTIONS} and len(called) > 40
    members = {member for member in re.findall(r"\.(CU_\w+)\b", text) if not member.endswith("_")}
    known = {member for row in libcuda.ENUMERATIONS.values() for member in row} | set(vars(libcuda.DriverLibrary))
    assert members <= known


@ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)
def foreign(a, b, c):
    """Stands for a C function: it adds 1 to the 64 bits at each address, of which small numbers are none."""
    for address in (a, b, c):
        if (address or 0) > 1 << 16:
            ctypes.c_uint64.from_address(address).value += 1
    return 7


@pytest.mark.parametrize(
    ("row", "inputs", "answer"),
    [
        ("i u l", (5, 0xFFFF, 3), (7,)),
        (">l i u", (1, 2), (7, 1)),
        ("i >p u", (1, 2), (7, 1)),
        ("i >l >z", (1,), (7, 1, 1)),
        ("&l i u", (2**40, 1, 2), (7, 2**40 + 1)),
        (">l &l i", (2**64 - 2, 1), (7, 1, 2**64 - 1)),
    ],
)
def test_a_row_says_what_c_gets_and_gives(row, inputs, answer):
    kinds = [ctypes.POINTER(libcuda._TYPES[mark[-1]]) if mark[:-1] else libcuda._TYPES[mark] for mark in row.split()]
    address = ctypes.cast(foreign, ctypes.c_void_p).value
    call = libcuda._function(ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(address), row.split(), "f")
    assert call(*inputs) == answer
    with pytest.raises((TypeError, ctypes.ArgumentError)):
        call(*inputs[1:])


def test_other_threads_run_while_the_driver_works(monkeypatch):
    """What takes long releases the GIL; what answers at once keeps it, since to get it back could take longer."""
    symbols = dict.fromkeys(libcuda.FUNCTIONS, "free"), dict.fromkeys(libcuda.FUNCTIONS, "locked")
    monkeypatch.setattr(libcuda, "_function", lambda foreign, *_: foreign)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: symbols[0])
    monkeypatch.setattr(ctypes, "PyDLL", lambda name: symbols[1])
    library = libcuda.DriverLibrary("libcuda.so.1")
    for name in ("cuCtxSynchronize", "cuStreamSynchronize", "cuMemAlloc", "cuLinkAddData", "cuLibraryLoadData"):
        assert getattr(library, name) == "free"
    for name in ("cuCtxGetCurrent", "cuStreamGetCtx", "cuDeviceGetAttribute"):
        assert getattr(library, name) == "locked"
    with pytest.raises(AttributeError, match="cuNothing is not in the table"):
        _ = library.cuNothing


def test_without_a_driver():
    with pytest.raises(OSError, match="no_such_library"):
        libcuda.DriverLibrary("no_such_library.so.1")
