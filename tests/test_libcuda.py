"""Our rows of the driver's functions beside its header, and, through a library made of them, what C gets and gives."""

import ctypes
import re
from pathlib import Path

import driver_header
import pytest
from driver_header import enumerations, versions

from cuda_device.codegen.gpu import libcuda


@pytest.fixture(scope="module")
def header():
    found = driver_header.header()
    if found is None:
        pytest.skip("no cuda.h: pip install nvidia-cuda-runtime")
    return found


@pytest.fixture(scope="module")
def stand_in():
    made = driver_header.stand_in()
    if made is None:
        pytest.skip("no C compiler")
    return made


@pytest.mark.parametrize("symbol", libcuda.FUNCTIONS)
def test_a_row_is_what_the_header_says(header, symbol):
    assert driver_header.row_differs(header, symbol) is None


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
    names = {symbol.partition("_v")[0] for symbol in libcuda.FUNCTIONS}
    package = Path(libcuda.__file__).parents[2]
    called = driver_header.called()
    assert called <= names and len(called) > 40
    members = {
        member
        for path in package.rglob("*.py")
        for member in re.findall(r"\.(CU_\w+)\b", path.read_text())
        if path.name != "libcuda.py" and not member.endswith("_")
    }
    known = {member for row in libcuda.ENUMERATIONS.values() for member in row} | set(vars(libcuda.DriverLibrary))
    assert members <= known


@pytest.mark.parametrize("symbol", libcuda.FUNCTIONS)
def test_c_gets_and_gives_what_python_says(stand_in, symbol):
    assert driver_header.call_differs(stand_in, symbol) is None


def test_other_threads_run_while_the_driver_works(stand_in, monkeypatch):
    """What takes long lets go of Python's lock; what answers at once keeps it, to let go could take longer."""
    monkeypatch.setattr(libcuda, "_function", lambda foreign, *_: foreign)
    library = libcuda.DriverLibrary(stand_in[0]._free._name)

    def keeps(name):
        return type(getattr(library, name))._flags_ == ctypes.PyDLL._func_flags_

    waits = (
        "cuCtxSynchronize",
        "cuStreamSynchronize",
        "cuEventSynchronize",
        "cuMemAlloc",
        "cuLinkAddData",
        "cuLibraryLoadData",
    )
    assert not any(map(keeps, waits))
    assert all(map(keeps, ("cuCtxGetCurrent", "cuStreamGetCtx", "cuDeviceGetAttribute")))


def test_wrong_names_and_counts(stand_in):
    api, _ = stand_in
    with pytest.raises(AttributeError, match="cuNothing is not in the table"):
        _ = api.cuNothing
    with pytest.raises(TypeError, match="cuLinkComplete takes 1 arguments, not 2"):
        api.cuLinkComplete(1, 2)
    with pytest.raises((TypeError, ctypes.ArgumentError)):
        api.cuStreamGetCtx()
    with pytest.raises((TypeError, ctypes.ArgumentError)):
        api.cuInit("text")


def test_without_a_driver():
    with pytest.raises(OSError, match="no_such_library"):
        libcuda.DriverLibrary("no_such_library.so.1")
