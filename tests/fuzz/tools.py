"""NVIDIA's tools and libraries by stand-ins: which is found first, what it is told, and what it gives.

CUDA_HOME/bin/ptxas     a program that writes down its arguments
nvJitLink, libcuda      objects that write down their calls
ASSEMBLERS              rows that refuse, or are too old, or are missing
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from cuda_device.codegen.gpu import assemblers, installed
from cuda_device.codegen.gpu.assemblers import Options, Rejection, Request, Unusable
from cuda_device.codegen.gpu.linking import Input
from cuda_device.types.architectures import ARCHITECTURES, Architecture

_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "CUDA_DEVICE_ASSEMBLER", "CUDA_DEVICE_CACHE", "XDG_CACHE_HOME")


@contextlib.contextmanager
def world(**variables: str) -> Iterator[Path]:
    """A folder, and an environment with these variables and none of the others."""
    left = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    with tempfile.TemporaryDirectory() as name, mock.patch.dict(os.environ, left | variables, clear=True):
        yield Path(name)


def some_options(choose: random.Random) -> Options:
    """How to assemble."""
    level, most = choose.randint(0, 3), choose.choice((0, 0, 32, 255))
    return Options(level, most, choose.random() < 0.5, choose.random() < 0.5, choose.random() < 0.3)


def an_architecture(choose: random.Random) -> Architecture:
    """Any of them."""
    return choose.choice([*ARCHITECTURES.values()])


# Where they are


def places(choose: random.Random) -> str | None:
    """The first place that has a file: folders of packages in their order, then CUDA_HOME, then CUDA_PATH, but none in conda."""
    with world() as top:
        folders = [top / name for name in ("a/site-packages", "b/dist-packages", "c/other")]
        homes = {name: top / name.lower() for name in ("CUDA_HOME", "CUDA_PATH") if choose.random() < 0.7}
        conda = choose.random() < 0.2
        expected: list[Path] = []
        for folder in (*folders, *homes.values()):
            is_home = folder in homes.values()
            inside = folder / ("lib64" if is_home else "nvidia/lib")
            inside.mkdir(parents=True)
            numbers = choose.sample(range(10), choose.choice((0, 0, 1, 2)))
            for number in numbers:
                (inside / f"libx.so.{number}").touch()
            if numbers and folder.name != "other" and not (is_home and conda):
                expected.append(inside / f"libx.so.{min(numbers)}")
        environment = {name: str(folder) for name, folder in homes.items()} | ({"CONDA_PREFIX": "/c"} if conda else {})
        with mock.patch.dict(os.environ, environment), mock.patch.object(sys, "path", [*map(str, folders), ""]):
            found = installed.find("nvidia/lib/libx.so.*", "lib64/libx.so.*")
            if found != (str(expected[0]) if expected else None):
                return f"{found} is found, not {expected[:1]}"
            if installed.cuda_homes() != [*map(str, homes.values())]:
                return f"the toolkits are {installed.cuda_homes()}"
    return None


_SCRIPT = """#!/bin/sh
for last; do :; done
echo "$@" > "{folder}/arguments"
cp "$3" "{folder}/source" 2> /dev/null
for one in "$@"; do case "$one" in *.ptx) cp "$one" "{folder}/source";; esac; done
echo "ptxas info: $0 says {status}, of $last" >&2
[ {status} = 0 ] && printf 'code of {folder}' > "$last"
exit {status}
"""


def programs(choose: random.Random) -> str | None:
    """The assembler of the PATH, of a toolkit or of a wheel, as it is called; its log, and its refusals."""
    with world() as top:
        where = {
            "path": top / "path/ptxas", "CUDA_HOME": top / "home/bin/ptxas", "CUDA_PATH": top / "other/bin/ptxas",
            "wheel": top / "site-packages/nvidia/cu13/bin/ptxas",
        }  # fmt: skip
        here = [name for name in where if choose.random() < 0.6]
        status = choose.choice((0, 0, 0, 1, 255))
        for name in here:
            where[name].parent.mkdir(parents=True)
            where[name].write_text(_SCRIPT.format(folder=where[name].parent, status=status))
            where[name].chmod(0o755)
        homes = {name: str(where[name].parents[1]) for name in ("CUDA_HOME", "CUDA_PATH") if name in here}
        environment = {"PATH": f"{where['path'].parent}{os.pathsep}/bin{os.pathsep}/usr/bin", **homes}
        request = Request(".version 8.8\n// é\n", an_architecture(choose), some_options(choose))
        with mock.patch.dict(os.environ, environment), mock.patch.object(sys, "path", [str(top / "site-packages")]):
            for each in (assemblers._ptxas, assemblers._ptxas_file):
                each.cache_clear()
            try:
                return _called(request, where, here, status)
            finally:
                for each in (assemblers._ptxas, assemblers._ptxas_file):
                    each.cache_clear()


def _called(request: Request, where: dict[str, Path], here: list[str], status: int) -> str | None:
    row = next(each for each in assemblers.ASSEMBLERS if each.name == "ptxas")
    if row.installed() != bool(here):
        return f"a ptxas is found, of {here}" if row.installed() else f"no ptxas is found, of {here}"
    if not here:
        return None
    file = where[here[0]]
    before = row.identity()
    if str(file) not in before or str(file.stat().st_size) not in before or not row.available(request.architecture):
        return f"of {here} it is {before}"
    given = request.options
    try:
        code, log = row.run(request)
        if status or code != f"code of {file.parent}".encode():
            return f"the status {status} is taken for a success, or {code!r} is not what was written"
    except Rejection as rejection:
        log = str(rejection)
        if not status or isinstance(rejection, Unusable):
            return f"the status {status} is taken for a failure: {rejection}"
    wanted = [f"-O{given.level}", f"-arch={request.architecture}"]
    wanted += [f"-maxrregcount={given.max_registers}"] * bool(given.max_registers) + ["-lineinfo"] * given.line_info
    wanted += ["-v"] * given.report_usage + ["-c"] * given.relocatable + ["-o"]
    arguments = (file.parent / "arguments").read_text().split()
    if (
        sorted(arg for arg in arguments if "/" not in arg) != sorted(wanted)
        or (file.parent / "source").read_text() != request.ptx
    ):
        return f"it is called as {arguments}, not {wanted}"
    if f"says {status}" not in log or "/kernel.ptx" in log:
        return f"the log is {log!r}"
    file.write_text(_SCRIPT + "# newer")
    file.chmod(0o755)
    if row.identity() == before:
        return f"another ptxas is {before}, too"
    file.write_bytes(b"\0")
    try:
        row.run(request)
        return "what is no program runs"
    except Unusable:
        return None


# What libraries are told


class _Linker:
    """nvJitLink, which knows some options."""

    class nvJitLinkError(Exception):  # noqa: N801, N818
        """What it raises."""

    InputType = SimpleNamespace(PTX=1, ANY=2)

    def __init__(self, fails: str, copies: bool) -> None:
        self.fails, self.copies, self.options, self.data = fails, copies, [""], [("", b"", 0)]
        self.alive = 0

    def create(self, count: int, options: list[str]) -> int:
        assert count == len(options)
        self.options, self.data, self.alive = options, [], self.alive + 1
        if self.fails == "create" and "-Xptxas=-none" not in options:
            self.alive -= 1
            raise self.nvJitLinkError("ERROR_UNRECOGNIZED_ARCH")
        return 7

    def add_data(self, handle: int, kind: int, data: bytes, size: int, name: str) -> None:
        assert (handle, size) == (7, len(data))
        self.data.append((name, data, kind))

    def complete(self, handle: int) -> None:
        if "-Xptxas=-none" in self.options or self.fails == "complete":
            raise self.nvJitLinkError("ERROR_PTX")

    def _error(self) -> bytes:
        unknown = "" if self.copies else "Unknown option 'enable-func-clone-sc'\n"
        return (
            f"{unknown}Unknown option 'none'" if "-Xptxas=-none" in self.options else "line 3; error : é"
        ).encode() + b"\0\0"

    def get_linked_cubin_size(self, handle: int) -> int:
        return 4

    def get_linked_cubin(self, handle: int, code: bytearray) -> None:
        code[:] = b"CODE"

    def get_info_log_size(self, handle: int) -> int:
        return 5

    def get_info_log(self, handle: int, text: bytearray) -> None:
        text[:] = b"fine\0"

    def get_error_log_size(self, handle: int) -> int:
        return len(self._error())

    def get_error_log(self, handle: int, text: bytearray) -> None:
        text[:] = self._error()

    def destroy(self, handle: int) -> None:
        self.alive -= 1


def linkers(choose: random.Random) -> str | None:
    """nvJitLink: its options, what it is given, what it says."""
    inputs = tuple(
        choose.sample(
            (Input("a.ptx", b"text"), Input("b", b"\xedCN\x7fx"), Input("c", b"\x7fELF")), choose.choice((0, 0, 1, 2))
        )
    )
    linker = _Linker(choose.choice(("", "", "create", "complete")), choose.random() < 0.5)
    request = Request(".version 8.8\n", an_architecture(choose), some_options(choose), inputs)
    row = next(each for each in assemblers.ASSEMBLERS if each.name == "nvJitLink")
    assemblers._knows.cache_clear()
    try:
        with mock.patch.object(assemblers, "_nvjitlink", return_value=linker):
            if not row.available(request.architecture):
                return "nvJitLink is there, but not available"
            found: Any = row.run(request)
    except Rejection as rejection:
        found = str(rejection)
    finally:
        assemblers._knows.cache_clear()
    given = request.options
    whole = not inputs and not given.relocatable
    wanted = [f"-arch={request.architecture}", "-O3" if given.level else "-O0"]
    wanted += [f"-maxrregcount={given.max_registers}"] * bool(given.max_registers) + ["-lineinfo"] * given.line_info
    wanted += ["-Xptxas=-v", "-no-cache"] * given.report_usage + ["-r"] * given.relocatable
    wanted += ["-lto"] * any(each.is_lto for each in inputs) + ["-Xptxas=-enable-func-clone-sc=true"] * (
        whole and linker.copies
    )
    if sorted(linker.options) != sorted(wanted):
        return f"nvJitLink is told {linker.options}, not {wanted}"
    if linker.fails != "create" and linker.data != [
        ("kernel.ptx", b".version 8.8\n", 1),
        *((each.name, each.data, 2) for each in inputs),
    ]:
        return f"nvJitLink is given {linker.data}"
    if linker.alive:
        return "nvJitLink keeps what it made"
    if linker.fails:
        words = "ERROR_UNRECOGNIZED_ARCH" if linker.fails == "create" else "line 3; error : é"
        return None if isinstance(found, str) and words in found else f"what it says becomes {found!r}"
    return None if found == (b"CODE", "fine") else f"nvJitLink gives {found}"


class _Driver:
    """The driver's library, with a GPU."""

    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=76
    )
    CUjit_option = SimpleNamespace(
        CU_JIT_MAX_REGISTERS=0, CU_JIT_INFO_LOG_BUFFER=3, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES=4, CU_JIT_ERROR_LOG_BUFFER=5,
        CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES=6, CU_JIT_OPTIMIZATION_LEVEL=7, CU_JIT_GENERATE_LINE_INFO=11, CU_JIT_LOG_VERBOSE=12,
    )  # fmt: skip
    CUjitInputType = SimpleNamespace(CU_JIT_INPUT_PTX=1)

    def __init__(self, capability: tuple[int, int], fails: str, current: bool) -> None:
        self.capability, self.fails, self.current = capability, fails, current
        self.values: dict[int, int] = {}
        self.data, self.destroyed, self.unloaded = b"", 0, 0
        self.code = ctypes.create_string_buffer(b"CUBIN", 5)

    def cuCtxGetDevice(self) -> tuple[int, int]:  # noqa: N802
        return (0, 1) if self.current else (201, 0)

    def cuDeviceGetAttribute(self, which: int, device: int) -> tuple[int, int]:  # noqa: N802
        assert device == 1
        return 0, self.capability[which - 75]

    def cuLinkCreate(self, count: int, names: int, values: int) -> tuple[int, int]:  # noqa: N802
        keys, words = (ctypes.c_int * count).from_address(names), (ctypes.c_void_p * count).from_address(values)
        self.values = {key: word or 0 for key, word in zip(keys, words, strict=True)}
        return (int(self.fails == "create"), 9)

    def _say(self, buffer: int, text: bytes) -> None:
        ctypes.memmove(self.values[buffer], text + b"\0", len(text) + 1)

    def cuLinkAddData(self, state: int, kind: int, data: bytes, size: int, name: bytes, *more: object) -> tuple[int]:  # noqa: N802
        assert (state, kind, size, name) == (9, 1, len(data), b"kernel.ptx")
        self.data = data
        if self.fails == "add":
            self._say(5, "not ptx: é".encode())
        return (218 * (self.fails == "add"),)

    def cuLinkComplete(self, state: int) -> tuple[int, int, int]:  # noqa: N802
        self._say(3, b"all is well")
        return 0, ctypes.addressof(self.code), 5

    def cuLinkDestroy(self, state: int) -> tuple[int]:  # noqa: N802
        self.destroyed += 1
        return (0,)

    def cuLibraryLoadData(self, code: bytes, *more: object) -> tuple[int, int]:  # noqa: N802
        return int(self.fails == "load"), 4

    def cuLibraryUnload(self, library: int) -> tuple[int]:  # noqa: N802
        self.unloaded += 1
        return (0,)


def drivers(choose: random.Random) -> str | None:
    """The driver assembles for its GPU alone; its options, its logs, its errors."""
    architecture = an_architecture(choose)
    capability = choose.choice((architecture.capability, architecture.capability, (9, 1)))
    driver = _Driver(capability, choose.choice(("", "", "create", "add", "load")), choose.random() < 0.8)
    request = Request(".version 8.8\n", architecture, some_options(choose))
    row = next(each for each in assemblers.ASSEMBLERS if each.name == "driver")
    loaded = choose.random() < 0.8
    with (
        mock.patch.object(assemblers, "_driver", return_value=driver),
        mock.patch.object(assemblers, "_is_loaded", return_value=loaded),
    ):
        fits = loaded and driver.current and capability == architecture.capability
        if row.available(architecture) != fits:
            return f"for {architecture} a GPU of {capability} is {'not ' * fits}taken"
        takes = assemblers.loads(b"x", architecture)
        if takes != (not fits or driver.fails != "load") or driver.unloaded != (fits and takes):
            return (
                f"the GPU {'takes' if takes else 'does not take'} the code, which is unloaded {driver.unloaded} times"
            )
        try:
            found: Any = row.run(request)
        except Rejection as rejection:
            found = str(rejection)
    given, size = request.options, 1 << 14
    told = {key: value for key, value in driver.values.items() if key not in (3, 5)}
    wanted = {4: size, 6: size, 7: given.level, 11: int(given.line_info), 12: int(given.report_usage)}
    wanted |= {0: given.max_registers} if given.max_registers else {}
    if told != wanted:
        return f"the driver is told {told}, not {wanted}"
    if driver.fails == "create":
        return None if found == "the driver's error 1" else f"the driver's refusal becomes {found}"
    if driver.destroyed != 1 or not driver.data.startswith(b".version 8.8\n") or driver.data[-1:] != b"\0":
        return f"the driver is given {driver.data!r}, and ends {driver.destroyed} times"
    if (b"//" in driver.data) != given.report_usage:
        return f"the text is {driver.data!r}"
    expected = "not ptx: é" if driver.fails == "add" else (b"CUBIN", "all is well")
    return None if found == expected else f"the driver gives {found}, not {expected}"


CHECKS = (places, places, programs, linkers, linkers, drivers, drivers)
