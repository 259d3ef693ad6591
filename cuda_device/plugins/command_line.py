"""The command line: what a bug report needs, the stages of a kernel, and the cache.

python -m cuda_device info
python -m cuda_device dump saxpy.py:saxpy --signature "float32, ArrayType(float32, 1), ArrayType(float32, 1)"
python -m cuda_device dump package.module:kernel --stage ir,ptx --target sm_100        in columns, by source line
python -m cuda_device build saxpy.py:saxpy --target sm_90,sm_100 --output kernels      for device.load("kernels")
python -m cuda_device cache            shows where the cache is, and its size
python -m cuda_device cache list       shows the kernels whose machine code is in it
python -m cuda_device cache clear
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import inspect
import itertools
import linecache
import os
import platform
import re
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import cuda_device as device

STAGES = ("ir", "llvm", "ptx")
_PACKAGES_OF_CUDA_12 = (
    "nvidia-nvjitlink-cu12",
    "nvidia-cuda-nvcc-cu12",
    "nvidia-cuda-nvrtc-cu12",
    "nvidia-nvfatbin-cu12",
)
PACKAGES = (
    "numpy",
    "ml_dtypes",
    "llvmlite",
    "cuda-bindings",
    "cuda-pathfinder",
    "cuda-core",
    "nvidia-nvjitlink",
    "nvidia-nvvm",
    "nvidia-cuda-nvrtc",
    "nvidia-nvfatbin",
    "nvtx",
    "torch",
    "cupy",
    "jax",
)


def main(words: Sequence[str] | None = None) -> int:
    """Runs a command, by default that of the process; returns the exit status."""
    parser = argparse.ArgumentParser("python -m cuda_device", description="The compiler's command line.")
    commands = parser.add_subparsers(required=True, metavar="command")

    info = commands.add_parser("info", help="versions, GPUs, assemblers and the cache: what to paste into a bug report")
    info.set_defaults(run=_info)

    dump = commands.add_parser("dump", help="print the stages of a kernel: typed IR, LLVM IR, PTX")
    dump.add_argument("kernel", help="file.py:name or package.module:name")
    dump.add_argument("--signature", help="the types of the arguments; the default is the kernel's hints")
    dump.add_argument("--target", default="sm_90", help="the architecture (default: sm_90)")
    dump.add_argument(
        "--stage", type=_stages, help="print only this stage, or several side by side: ir, llvm, ptx; or ir,ptx"
    )
    dump.set_defaults(run=_dump)

    build = commands.add_parser("build", help="compile kernels to a folder for device.load, and for C++")
    build.add_argument("kernel", nargs="+", help="file.py:name or package.module:name")
    build.add_argument(
        "--signature", action="append", help="argument types; one for each kernel, or several for one kernel"
    )
    build.add_argument("--target", default="sm_90", help="architectures, separated by commas (default: sm_90)")
    build.add_argument(
        "--output", required=True, help="the folder for the files; files with the same names are replaced"
    )
    build.add_argument("--fatbin", action="store_true", help="one file for all targets, made by nvFatbin")
    build.add_argument("--ltoir", action="store_true", help="also write LTO-IR, for a linker")
    build.set_defaults(run=_build)

    cache = commands.add_parser("cache", help="show the cache on disk, list its kernels, or clear it")
    cache.add_argument("action", nargs="?", choices=("info", "list", "clear"), default="info")
    cache.set_defaults(run=_cache)

    arguments = parser.parse_args(words)
    try:
        arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # which Python flushes when it exits
        return 128 + signal.SIGPIPE
    except (device.Error, LookupError, TypeError, ValueError, OSError, ImportError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        others = (os.path.dirname(device.__file__), os.path.dirname(os.__file__), "<")  # us and the standard library
        frames = traceback.extract_tb(error.__traceback__)
        users = [frame for frame in frames if not frame.filename.startswith(others)]
        if users and not isinstance(error, device.Error):  # the kernel's file raised it
            print(f"  at {users[-1].filename}:{users[-1].lineno}", file=sys.stderr)
        return 1
    return 0


def _info(_: argparse.Namespace) -> None:
    rows = list(facts())
    width = max(len(name) for name, _ in rows)
    print("\n".join(f"{name:<{width}} {value}" for name, value in rows))


def facts() -> Iterator[tuple[str, str]]:
    """The facts that a bug report needs, as names and values."""
    from cuda_device.extend import driver, toolchain

    here = os.path.dirname(device.__file__)
    total = sum(
        os.path.getsize(os.path.join(folder, file))
        for folder, _, files in os.walk(here)
        for file in files
        if not file.endswith(".pyc")
    )
    yield "cuda_device", f"{device.__version__}, {_mib(total)}, {here}"
    yield "Python", f"{sys.version.split()[0]}, {platform.python_implementation()}, {platform.platform()}"
    for package in (*PACKAGES, *_PACKAGES_OF_CUDA_12):
        try:
            installed = importlib.metadata.distribution(package)
        except importlib.metadata.PackageNotFoundError:
            if package in PACKAGES:
                yield package, "not installed"
        else:
            size = sum(file.size or 0 for file in installed.files or ())
            total += size
            yield package, f"{installed.version}, {_mib(size)}"
    yield "total", _mib(total)
    yield from toolchain()
    if driver.available():
        for ordinal in range(driver.device_count()):
            gpu = driver.properties(ordinal)
            major, minor = gpu.capability
            yield f"GPU {ordinal}", f"{gpu.name}, compute capability {major}.{minor}, {gpu.memory >> 20} MiB"
    else:
        yield "GPU", f"none ({driver.unavailable_reason()})"
    yield "cache", _cache_in_words()
    for name in sorted(os.environ):
        if name.startswith("CUDA_DEVICE_"):
            yield name, os.environ[name]


def _mib(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"


def _cache_in_words() -> str:
    info = device.cache_info()
    if info.folder is None:
        return "off"
    return f"{info.folder}, {info.entries} entries, {info.nbytes / 2**20:.1f} MiB"


def _cache(arguments: argparse.Namespace) -> None:
    from cuda_device.extend import disk

    store = disk.current()
    if arguments.action == "clear":
        print(f"removed {store.clear() if store else 0} entries")
    elif arguments.action == "list" and store:
        print(f"{'kernel':<32} {'target':<8} {'KiB':>7}  last use")
        for used, data in store.contents():
            if machine_code := _machine_code(data):
                when = time.strftime("%Y-%m-%d %H:%M", time.localtime(used))
                print(f"{machine_code[0]:<32} {machine_code[1]:<8} {len(data) / 2**10:7.1f}  {when}")
        print("Other entries record what was compiled, or are machine code that kernels share.")
    print(_cache_in_words())


def _machine_code(entry: bytes) -> tuple[str, str] | None:
    """The kernels and the target of an entry of the cache; None if it is not the machine code of kernels."""
    from cuda_device.extend import elf

    name, _, code = entry.partition(b"\0")
    if not code.startswith(b"\x7fELF"):
        return None
    kernels, architecture = elf.kernels(code)
    return (", ".join(kernels), f"sm_{architecture}") if architecture else (name.decode(), "cpu")


def _stages(words: str) -> list[str]:
    stages = words.replace(" ", "").split(",")
    if unknown := [stage for stage in stages if stage not in STAGES]:
        raise argparse.ArgumentTypeError(f"there is no stage {unknown[0]!r}: choose from {', '.join(STAGES)}")
    return stages


def _dump(arguments: argparse.Namespace) -> None:
    kernel = load_function(arguments.kernel)
    options = {"launch_facts": isinstance(kernel, device.Kernel) and not kernel.options.interop, "lineinfo": True}
    signature = _types(arguments.signature, kernel)
    shown = {}
    for stage in arguments.stage or STAGES:
        compiled = device.compile(kernel, *signature, target=arguments.target, output=stage, **options)
        shown[stage] = _groups(_LINES[stage](compiled))
    if arguments.stage and len(arguments.stage) > 1:
        print("\n".join(_columns(shown)))
        return
    for stage, groups in shown.items():
        if not arguments.stage:
            print(f"==== {stage}")
        for source_line, lines in groups:
            if source_line:
                print(f"  {';' if stage == 'llvm' else '//'} {_source(source_line)}")
            print("\n".join(lines))


def _types(signature: str | None, kernel: Any) -> tuple[Any, ...]:
    """The types that a signature names, also by names of the kernel's module; empty without a signature."""
    help = (
        "separate types by commas, as in --signature 'float32, ArrayType(float32, 1)'; "
        "names are those of cuda_device and of the kernel's file"
    )
    if signature is None:
        parameters = inspect.signature(kernel.underlying).parameters.values()
        missing = [p.name for p in parameters if p.annotation is p.default is p.empty]
        if missing and all(p.kind is not p.VAR_POSITIONAL for p in parameters):
            name = kernel.underlying.__qualname__
            raise ValueError(f"{name} has no type hint for {', '.join(missing)}\n  help: pass --signature; {help}")
        return ()
    try:
        names = {**dict(_names()), **kernel.underlying.__globals__}
        return eval(f"({signature},)", names) if signature.strip() else ()
    except Exception as error:  # `eval` may raise anything
        said = error.msg if isinstance(error, SyntaxError) else error
        raise ValueError(f"the signature {signature!r} cannot be read: {said}\n  help: {help}") from None


def _build(arguments: argparse.Namespace) -> None:
    run: dict[str, Any] = {}  # a file runs once, so that its kernels have the same structs
    loaded = [load_function(kernel, run) for kernel in arguments.kernel]
    signatures = arguments.signature or [None] * len(arguments.kernel)
    if len(loaded) == 1:
        loaded *= len(signatures)
    if len(loaded) != len(signatures):
        raise ValueError(f"{len(loaded)} kernels have {len(signatures)} signatures: give each kernel one")
    kernels: dict[Any, list[tuple[Any, ...]]] = {}
    for kernel, signature in zip(loaded, signatures, strict=True):
        kernels.setdefault(kernel, []).append(_types(signature, kernel))
    targets = [target.strip() for target in arguments.target.split(",")]
    files = device.build(
        list(kernels.items()), targets, arguments.output, fatbin=arguments.fatbin, ltoir=arguments.ltoir
    )
    print("\n".join(os.path.join(arguments.output, file) for file in files))


# The lines of stages, with their lines of the source if they are known

SourceLine = tuple[str, int]
"""A file and the number of a line."""


def _lines_of_ir(compiled: Any) -> Iterator[tuple[SourceLine | None, str]]:
    from cuda_device.extend import compile_job, show

    module = compile_job(compiled.job, "typed")["typed"]
    operations = iter(module.ops())
    for line in show(module).splitlines():
        where = next(operations).location if line.startswith("  ") else None
        yield (where.file, where.line) if where and where.line > 0 else None, line


def _lines_of_llvm(compiled: Any) -> Iterator[tuple[SourceLine | None, str]]:
    nodes = dict(re.findall(r"^(!\d+) = (?:distinct )?(!DI.*)$", compiled.code, re.M))

    def part(node: str, name: str) -> str:
        match = re.search(rf"\b{name}: (!?\d+|\".*?\")", nodes[node])
        return match[1].strip('"') if match else part(part(node, "scope"), name)

    for line in compiled.code.splitlines():
        if re.match(r"!(\d+ = (distinct )?!(DI|\{null)|llvm\.dbg)", line):
            continue
        source_line = None
        if match := re.search(r", !dbg (!\d+)", line):
            file = part(match[1], "file")
            path = os.path.join(part(file, "directory"), part(file, "filename"))
            source_line = path, int(part(match[1], "line"))
        yield source_line, re.sub(r",? !dbg !\d+", "", line)


def _lines_of_ptx(compiled: Any) -> Iterator[tuple[SourceLine | None, str]]:
    files = dict(re.findall(r'^\s*\.file\s+(\d+) "(.*)"', compiled.code, re.M))
    source_line = None
    for line in compiled.code.partition("\t.section")[0].splitlines():
        if match := re.match(r"\s*\.loc\s+(\d+) (\d+)", line):
            source_line = (files[match[1]], int(match[2])) if match[2] != "0" else None
        elif not re.match(r"\s*\.file\b|\$L__tmp\d+:|\$L__func_\w+:", line):
            yield source_line, line.expandtabs(4)
            source_line = None


_LINES = {"ir": _lines_of_ir, "llvm": _lines_of_llvm, "ptx": _lines_of_ptx}


def _groups(lines: Iterable[tuple[SourceLine | None, str]]) -> list[tuple[SourceLine | None, list[str]]]:
    """Groups consecutive lines from the same line of the source. Labels and phis belong to the lines that follow them."""
    groups: list[tuple[SourceLine | None, list[str]]] = []
    current, labels = None, list[str]()
    for source_line, line in lines:
        if re.fullmatch(r"[\^$\w].*:|.* = phi .*", line):
            labels.append(line)
            continue
        current = source_line or current
        if not groups or groups[-1][0] != current:
            groups.append((current, []))
        groups[-1][1].extend([*labels, line])
        labels.clear()
        if line == "}":
            current = None
    return groups


def _columns(stages: dict[str, list[tuple[SourceLine | None, list[str]]]]) -> Iterator[str]:
    """Stages side by side: below each line of the source, all lines that come from it."""
    columns: list[dict[SourceLine | None, list[str]]] = []
    for stage, groups in stages.items():
        columns.append({None: [f"==== {stage}"]})
        for source_line, lines in groups:
            columns[-1].setdefault(source_line, []).extend(line for line in lines if line)
    widths = [max(len(line) for lines in column.values() for line in lines) for column in columns]
    for source_line in dict.fromkeys(source_line for column in columns for source_line in column):
        if source_line:
            yield f"// {_source(source_line)}"
        for row in itertools.zip_longest(*(column.get(source_line, ()) for column in columns), fillvalue=""):
            yield " | ".join(f"{line:<{width}}" for line, width in zip(row, widths, strict=True)).rstrip()


def _source(source_line: SourceLine) -> str:
    return f"{os.path.basename(source_line[0])}:{source_line[1]}   {linecache.getline(*source_line).strip()}"


def _names() -> Iterator[tuple[str, Any]]:
    """The public names of the package and its plugins, and the package itself as `device`, which signatures may use."""
    yield "device", device
    for name in dir(device):
        with contextlib.suppress(ImportError):  # a plugin that is not installed
            yield name, getattr(device, name)


def load_function(reference: str, run: dict[str, Any] | None = None) -> Any:
    """The kernel or function that `file.py:name` or `package.module:name` means. Raises `ValueError` if there is none.

    `run` holds the files that have run before. Their output is redirected to standard error.
    """
    run = {} if run is None else run
    home, colon, name = reference.rpartition(":")
    if not colon:
        raise ValueError(f"{reference}: write file.py:name or package.module:name")
    with contextlib.redirect_stdout(sys.stderr):
        if home.endswith(".py"):
            if home not in run:
                run[home] = SimpleNamespace(**runpy.run_path(home))
            value: Any = run[home]
        else:
            sys.path.insert(0, "")
            value = importlib.import_module(home)
    for part in name.split("."):
        if not hasattr(value, part):
            raise ValueError(f"{home} has no {name!r}")
        value = getattr(value, part)
    if not isinstance(value, (device.Kernel, device.Func)):
        raise ValueError(f"{reference} is a {type(value).__name__}\n  help: name a function with @kernel or @func")
    return value
