"""NVIDIA's assemblers: a table of how to find, run and identify each of them. `cubin.py` chooses one.

    ASSEMBLERS[1].run(Request(ptx, parse("sm_90")))  ->  b"\\x7fELF..."

NVIDIA's packages are imported only when an assembler is needed.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from cuda_device.cache import sha256
from cuda_device.codegen.gpu import elf, libcuda, ptx_versions, toolkit
from cuda_device.errors import CompileError
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.types.architectures import Architecture, parse

if TYPE_CHECKING:
    from concurrent.futures import Executor

# The inputs that `linking` has read: PTX, cubins, LTO-IR, objects and libraries, whose kind nvJitLink detects. If two inputs
# define the same function, or declare it with other parameters, nvJitLink may terminate the process, so this is checked first.

_LTO_IR = b"\xedCN\x7f"
_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
_ELF = b"\x7fELF"
_RELOCATABLE = 1
_PTX_DEFINITION = rb"(?m)^\s*\.visible \.(?:func|entry)\s*(?:\([^)]*\))?\s*([\w$]+)\s*(?:\([^)]*\))?[^;{]*\{"
_PTX_PROTOTYPE = rb"(?m)^\s*\.(?:extern|visible|weak) \.func\s*(?:\(([^)]*)\))?\s*([\w$]+)\s*(?:\(([^)]*)\))?"
_PTX_PARAMETER = rb"\.param\s*(?:\.align\s+\d+\s*)?\.[a-z](\d+)\s+[\w$]+(?:\[(\d+)\])?"
_PTX_NOTATION = {b"32": "i", b"64": "l"}


@dataclass(frozen=True, slots=True)
class Input:
    """An input of the linker, with its name in messages."""

    name: str
    data: bytes

    @property
    def is_lto(self) -> bool:
        """Whether it is LTO-IR."""
        return self.data.startswith(_LTO_IR)

    @property
    def is_bitcode(self) -> bool:
        """Whether it is LLVM bitcode, which assemblers do not read."""
        return self.data.startswith(_BITCODE)

    @property
    def functions(self) -> frozenset[str]:
        """The functions that it defines for others, if it is PTX or a cubin."""
        if self.data.startswith(_ELF):
            try:
                return elf.functions(self.data, only_global=True)
            except (struct.error, IndexError, ValueError):
                return frozenset()  # nvJitLink reports what is wrong with it
        return frozenset(name.decode() for name in re.findall(_PTX_DEFINITION, self.data))

    @property
    def prototypes(self) -> dict[str, str]:
        """The prototypes of the functions that it declares or defines, if it is PTX or a cubin; see `elf.prototypes`."""
        if self.data.startswith(_ELF):
            try:
                return elf.prototypes(self.data)
            except (struct.error, IndexError, ValueError):
                return {}
        declarations = re.findall(_PTX_PROTOTYPE, self.data)
        return {name.decode(): f"#{_notation(result) or 'v'}{_notation(taken)}" for result, name, taken in declarations}

    @property
    def architecture(self) -> int | None:
        """The number of a cubin's architecture (90 for sm_90a, too)."""
        return elf.architecture(self.data)

    @property
    def is_finished(self) -> bool:
        """Whether it is a cubin that is linked already."""
        return elf.is_cubin(self.data) and int.from_bytes(self.data[16:18], "little") != _RELOCATABLE

    @property
    def digest(self) -> str:
        """A hash of its contents."""
        return sha256(self.data).hexdigest()


def _notation(parameters: bytes) -> str:
    """Parameters in PTX in the notation of `elf.prototypes`."""
    return "".join(
        f"b{int(bits) * int(count or 1) // 8}" if count or bits not in _PTX_NOTATION else _PTX_NOTATION[bits]
        for bits, count in re.findall(_PTX_PARAMETER, parameters)
    )


def check_inputs(main: Input, inputs: Iterable[Input], architecture: Architecture) -> None:
    """Raises `CompileError` if inputs contradict each other or `main`, and if a cubin is for another architecture.

    A function is defined once, with the parameters and the result that `main` declares. A cubin fits its architecture and the
    later ones of the same generation: one for sm_80 also fits sm_86 and sm_89.
    """
    owners: dict[str, str] = {}
    for item in (main, *inputs):
        made_for = item.architecture
        if made_for is not None and not (
            made_for // 10 == architecture.number // 10 and made_for <= architecture.number
        ):
            raise CompileError(
                f"{item.name} was compiled for sm_{made_for}, and cannot be linked to a kernel for {architecture}",
                help="link code for this architecture, or PTX",
            )
        for function in sorted(item.functions):
            if function in owners:
                raise CompileError(
                    f"{function} is defined twice, in {owners[function]} and in {item.name}",
                    help="link only one of them",
                )
            owners[function] = item.name
    declared = main.prototypes
    for item in inputs:
        for function, prototype in item.prototypes.items():
            if declared.get(function, prototype) != prototype:
                raise CompileError(
                    f"{function} has other parameters or another result in {item.name} than in its declaration",
                    help="give the stub the types that the function has in C++",
                )


@dataclass(frozen=True, slots=True)
class Request:
    """The input of an assembler. `line_info` adds line tables for profilers; a `relocatable` cubin is for a linker."""

    ptx: str
    architecture: Architecture
    inputs: tuple[Input, ...] = ()
    """What is linked to it, which only nvJitLink can do."""
    line_info: bool = False
    relocatable: bool = False
    debug: bool = False
    log: list[str] = field(default_factory=list, compare=False)
    """What the assembler says each time that it accepts the program; the last is about the code in use."""

    @property
    def is_whole(self) -> bool:
        """Whether the PTX is the whole program."""
        return not (self.inputs or self.relocatable)

    @property
    def flags(self) -> tuple[str, ...]:
        """The options of ptxas and nvJitLink for optimisation and debugging."""
        return ("-O0", "-g") if self.debug else ("-O3", *["-lineinfo"] * self.line_info)


class Rejection(Exception):
    """An assembler rejected its input; the message is its log."""


class Unusable(Rejection):
    """An assembler could not be started; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Assembler:
    """An assembler of PTX."""

    name: str
    available: Callable[[Architecture], bool]
    run: Callable[[Request], bytes]
    """Returns the code or raises `Rejection`."""
    identity: Callable[[], str]
    """Is different for another version."""
    remedy: Callable[[], str]
    installed: Callable[[], bool] = lambda: False
    """May find it quickly without loading it; if it does not, `available` decides."""
    relocates: Callable[[], bool] = lambda: True
    links: bool = False
    version: Callable[[], str] = lambda: ""
    """For people, and slow."""
    release: Callable[[], int] = lambda: 0
    """The CUDA release to which it belongs, 12 or 13; 0 for the driver itself."""

    def excess(self) -> str:
        """Why the driver does not load its code, if it belongs to a newer CUDA release than the driver; else empty."""
        cuda = libcuda.version()
        if cuda is None or cuda[0] >= toolkit.NEWEST or self.release() <= cuda[0]:
            return ""
        return f"a driver of CUDA {cuda[0]}.{cuda[1]} does not load code from CUDA {self.release()}"

    def can(self, request: Request) -> bool:
        """Whether it supports what the request asks for."""
        return (self.links or not request.inputs) and (not request.relocatable or self.relocates())


# nvJitLink


@cache
def _nvjitlink() -> Any:
    """The bindings of nvJitLink, or None if it is missing."""
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()  # loads the library
        return nvjitlink
    except (ImportError, RuntimeError, OSError):
        return None


_COPIES = "enable-func-clone-sc"
"""Clones functions for their callers; versions of nvJitLink before about 13.1 do not know the option."""


@cache
def _knows(option: str) -> bool:
    """Whether nvJitLink knows an option of the assembler. An unknown option beside it keeps nvJitLink from assembling."""
    try:
        _link(Request(".version 8.0\n", parse("sm_90")), f"-Xptxas=-{option}=true", "-Xptxas=-none")
    except Rejection as rejection:
        return f"'{option}'" not in str(rejection)
    return True


def _run_nvjitlink(request: Request) -> bytes:
    """Runs nvJitLink, which treats each program as a part of a larger one, and calls division routines unless it clones them."""
    copies = request.is_whole and _knows(_COPIES)
    return _link(request, *[f"-Xptxas=-{_COPIES}=true"] * copies)


# One thread at a time uses nvJitLink. If it finds a cubin for another architecture, the calling thread never releases a lock of
# nvJitLink's (13.0 to 13.5). Foreign code is therefore linked in a separate thread, and everything after it too.
_lock = threading.RLock()
_apart: Executor | None = None
_is_lost = False
"""Whether the process was forked while that thread existed, which the child does not have."""


def _link(request: Request, *more: str) -> bytes:
    global _apart
    if _is_lost:
        raise Unusable(
            "a thread that did not survive a fork may still hold its lock: link before the fork, or start a new process"
        )
    with _lock:
        if request.inputs and _apart is None:
            from concurrent.futures import ThreadPoolExecutor  # slow to import

            _apart = ThreadPoolExecutor(1, "cuda_device nvJitLink")
        return _apart.submit(_linked, request, *more).result() if _apart else _linked(request, *more)


def _after_fork() -> None:
    global _lock, _is_lost
    _lock, _is_lost = threading.RLock(), _apart is not None


os.register_at_fork(after_in_child=_after_fork)


def _linked(request: Request, *more: str) -> bytes:
    # Not by cuda.core: it takes 120 ms to import, and its `Linker` has neither relocatable output nor all kinds of inputs.
    library, data = _nvjitlink(), request.ptx.encode()
    options = [f"-arch={request.architecture}", *request.flags, *more]
    options += ["-r"] * request.relocatable + ["-lto"] * any(item.is_lto for item in request.inputs)
    options += [f"-Xptxas={_VERBOSE}"] * (_AS_PTX not in more)
    try:
        handle = library.create(len(options), options)
    except library.nvJitLinkError as error:
        raise Rejection(f"{' '.join(options)}: {error}") from None
    try:
        if data:
            library.add_data(handle, library.InputType.PTX, data, len(data), "kernel.ptx")
        for item in request.inputs:
            library.add_data(handle, library.InputType.ANY, item.data, len(item.data), item.name)
        library.complete(handle)
        kind = "ptx" if _AS_PTX in more else "cubin"
        code = bytearray(getattr(library, f"get_linked_{kind}_size")(handle))
        getattr(library, f"get_linked_{kind}")(handle, code)
        request.log.append(_log(library, handle, "info"))
    except library.nvJitLinkError as error:
        raise Rejection(_log(library, handle, "error") or str(error)) from None
    finally:
        library.destroy(handle)
    if kind == "cubin" and not request.relocatable:
        _refuse_undefined(bytes(code))
    return bytes(code)


def _log(library: Any, handle: Any, kind: str) -> str:
    """One of the two logs of a link."""
    log = bytearray(getattr(library, f"get_{kind}_log_size")(handle))
    if log:
        getattr(library, f"get_{kind}_log")(handle, log)
    return log.rstrip(b"\0").decode(errors="replace")


_OF_THE_DRIVER = re.compile(r"vprintf|malloc|free|__assertfail|cudaGraph\w+|__cuda_syscall_\w+")
"""The functions that kernels call and the driver defines."""


def _refuse_undefined(cubin: bytes) -> None:
    """Raises `Rejection` for a function that nothing defines, which nvJitLink 13.5 overlooks after some other links."""
    for name in elf.undefined_functions(cubin):
        if not _OF_THE_DRIVER.fullmatch(name):
            raise Rejection(f"Undefined reference to '{name}'")


_AS_PTX = "-ptx"
_VERBOSE = "-v"
"""Makes the assembler say how many registers it spills."""


def optimised(inputs: tuple[Input, ...], architecture: Architecture, *options: str) -> str:
    """Links LTO-IR, with its functions inlined into the kernels that call them, and returns PTX.

    Raises `CompileError` if nvJitLink is missing or rejects the input.
    """
    if _nvjitlink() is None:
        raise CompileError("there is no nvJitLink on this machine", help=toolkit.pip_install())
    try:
        return _link(Request("", architecture, inputs), _AS_PTX, *options).rstrip(b"\0").decode()
    except Rejection as rejection:
        raise CompileError(f"nvJitLink cannot optimise LTO-IR: {rejection}", help="link PTX or cubins") from None


def _identify_nvjitlink() -> str:
    """The size and time of the file if it is in a usual place, else the version, for which loading the library takes 40 ms."""
    file = toolkit.library_file("nvJitLink")
    return f"nvJitLink {toolkit.stamp(file) if file else _nvjitlink_version()}"


def _nvjitlink_version() -> str:
    return ".".join(map(str, _nvjitlink().version()))


def _nvjitlink_release() -> int:
    return int(_nvjitlink().version()[0]) if _nvjitlink() else 0


# ptxas


@cache
def _ptxas() -> str | None:
    """The path of ptxas, or None if it is missing."""
    path = _ptxas_file()
    if path is None:
        try:
            from cuda.pathfinder import find_nvidia_binary_utility

            path = find_nvidia_binary_utility("ptxas")
        except (ImportError, RuntimeError, OSError):
            return None
    return path or None


@cache
def _ptxas_file() -> str | None:
    """The path of ptxas if it is on the PATH, in the toolkit that CUDA_HOME or CUDA_PATH names, or in a wheel."""
    homes = (os.path.join(home, "bin") for home in toolkit.cuda_homes())
    files = (os.path.join(folder, "ptxas") for folder in (*os.get_exec_path(), *homes) if folder)
    path = next((file for file in files if os.path.isfile(file) and os.access(file, os.X_OK)), None)
    return path or toolkit.find("ptxas")


def _run_ptxas(request: Request) -> bytes:
    import subprocess
    import tempfile
    from pathlib import Path

    flags = [_VERBOSE, *request.flags, *["-c"] * request.relocatable]
    with tempfile.TemporaryDirectory(prefix="cuda_device_") as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(request.ptx, encoding="utf-8")
        command = [str(_ptxas()), f"-arch={request.architecture}", *flags, str(source), "-o", str(target)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise Unusable(f"{command[0]}: {error}") from None
        log = (done.stderr + done.stdout).replace(str(source), "kernel.ptx")  # it names the temporary file
        if done.returncode != 0:
            raise Rejection(log or f"{command[0]} ended with status {done.returncode}")
        request.log.append(log)
        return target.read_bytes()


def _identify_ptxas() -> str:
    path = _ptxas()
    return f"ptxas {toolkit.stamp(path)}" if path else "ptxas"


def _ptxas_version() -> str:
    return f"{_version_of_ptxas(str(_ptxas()))}, {_ptxas()}"


@cache
def _version_of_ptxas(path: str) -> str:
    import subprocess

    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError as error:
        output = str(error)
    match = re.search(r"\bV(\d\S*)", output)
    return match[1] if match else output


def _ptxas_release() -> int:
    """The CUDA release to which it belongs; 0 if its version is not known."""
    major, _, _ = _version_of_ptxas(str(_ptxas())).partition(".")
    return int(major) if major.isdecimal() else 0


# The driver


@cache
def _driver() -> Any:
    """The driver's library, or None if it is missing."""
    try:
        return libcuda.load_driver()
    except OSError:
        return None


def _driver_fits(architecture: Architecture) -> bool:
    """Whether the GPU of the current context has this architecture, the only one for which the driver assembles."""
    # If the process has not loaded the driver's library, it has no context.
    driver = _driver() if _is_loaded("libcuda.so.1") else None
    if driver is None:
        return False
    status, device = driver.cuCtxGetDevice()
    return bool(status == 0) and _capability(driver, device) == architecture.capability


def _is_loaded(library: str) -> bool:
    """Whether this process has loaded a library."""
    try:
        ctypes.CDLL(library, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return False
    return True


def _capability(driver: Any, device: Any) -> tuple[int, int]:
    attribute = driver.CUdevice_attribute
    major = attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    minor = attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
    return driver.cuDeviceGetAttribute(major, device)[1], driver.cuDeviceGetAttribute(minor, device)[1]


def loads(code: bytes, architecture: Architecture) -> bool:
    """Whether the GPU of the current context can load machine code; True if there is no GPU of this architecture."""
    if not _driver_fits(architecture):
        return True
    status, library = _driver().cuLibraryLoadData(code, None, None, 0, None, None, 0)
    if status == 0:
        _driver().cuLibraryUnload(library)
    return bool(status == 0)


def _run_driver(request: Request) -> bytes:
    driver, log, said = _driver(), ctypes.create_string_buffer(1 << 14), ctypes.create_string_buffer(1 << 16)
    option = driver.CUjit_option
    values: dict[int, int] = {
        option.CU_JIT_INFO_LOG_BUFFER: ctypes.addressof(said),
        option.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: len(said),
        option.CU_JIT_LOG_VERBOSE: 1,
        option.CU_JIT_ERROR_LOG_BUFFER: ctypes.addressof(log),
        option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: len(log),
        option.CU_JIT_OPTIMIZATION_LEVEL: 0 if request.debug else 3,
        option.CU_JIT_GENERATE_DEBUG_INFO: int(request.debug),
        option.CU_JIT_GENERATE_LINE_INFO: int(request.line_info),
    }
    data = f"{request.ptx}\n\0".encode()

    def check(answer: tuple[Any, ...]) -> tuple[Any, ...]:
        if answer[0] != 0:
            raise Rejection(log.value.decode(errors="replace") or f"the driver's error {answer[0]}")
        return answer[1:]

    # The values, numbers as well as addresses, are passed as pointers.
    names = (ctypes.c_int * len(values))(*values)
    pointers = (ctypes.c_void_p * len(values))(*values.values())
    (state,) = check(driver.cuLinkCreate(len(values), ctypes.addressof(names), ctypes.addressof(pointers)))
    try:
        kind = driver.CUjitInputType.CU_JIT_INPUT_PTX
        check(driver.cuLinkAddData(state, kind, data, len(data), b"kernel.ptx", 0, None, None))
        address, size = check(driver.cuLinkComplete(state))
        request.log.append(said.value.decode(errors="replace"))
        return ctypes.string_at(address, size)
    finally:
        driver.cuLinkDestroy(state)


@cache
def _identify_driver() -> str:
    """The version of CUDA and that of the driver."""
    return f"driver {libcuda.driver_version()} {_kernel_module()}".rstrip()


def _driver_version() -> str:
    cuda = libcuda.version_of("", libcuda.driver_version())
    if cuda is None:
        return "not found"
    version = re.search(r"\b\d+\.\d[\d.]*", _kernel_module())
    reads = f"reads PTX up to {ptx_versions.dotted(ptx_versions.readable(cuda))}"
    return ", ".join([f"CUDA {cuda[0]}.{cuda[1]}", *([version[0]] if version else []), reads])


def _kernel_module() -> str:
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


# In the order in which they are tried. The driver is the fastest from the first kernel on (9 ms on an H200, then 5 to 10 ms), but
# needs a GPU. nvJitLink takes 140 to 220 ms once to load its library and then 5 to 10 ms for each kernel; a process of ptxas
# takes 9 to 45 ms. The driver and nvJitLink also use NVIDIA's cache on disk, which answers in 0.2 ms.
ASSEMBLERS: tuple[Assembler, ...] = (
    Assembler(
        "driver",
        _driver_fits,
        _run_driver,
        _identify_driver,
        lambda: "use a machine with a GPU of this architecture, and make its context current",
        relocates=lambda: False,
        version=_driver_version,
    ),
    Assembler(
        "nvJitLink",
        lambda architecture: _nvjitlink() is not None,
        _run_nvjitlink,
        _identify_nvjitlink,
        toolkit.pip_install,
        lambda: toolkit.library_file("nvJitLink") is not None,
        relocates=lambda: _nvjitlink_release() >= 13,
        links=True,
        version=_nvjitlink_version,
        release=_nvjitlink_release,
    ),
    Assembler(
        "ptxas",
        lambda architecture: _ptxas() is not None,
        _run_ptxas,
        _identify_ptxas,
        lambda: f"{toolkit.pip_install('nvidia-cuda-nvcc')}, or install a CUDA toolkit and set CUDA_HOME",
        lambda: _ptxas_file() is not None,
        version=_ptxas_version,
        release=_ptxas_release,
    ),
)


def toolchain() -> Iterator[tuple[str, str]]:
    """What this machine has for GPUs, as names and descriptions for a report: the driver, assemblers and libdevice.

    A description says how to get what is missing, and why an assembler is not used.
    """
    from cuda_device.codegen.gpu import libdevice

    yield "driver", ASSEMBLERS[0].version()
    for assembler in ASSEMBLERS[1:]:
        is_there = assembler.available(parse("sm_90"))
        description = assembler.version() if is_there else f"not found ({assembler.remedy()})"
        if is_there and (excess := assembler.excess()):
            description += f"; not used, the driver assembles: {excess} ({assembler.remedy()})"
        yield f"assembler {assembler.name}", description
    try:
        yield "libdevice", str(libdevice.file())
    except CompileError as error:
        yield "libdevice", f"not found ({error.help})"
