"""The command line: what a bug report needs, the stages of a kernel, and the cache.

python -m cuda_device info
python -m cuda_device dump saxpy.py:saxpy --signature "float32, ArrayType(float32, 1), ArrayType(float32, 1)"
python -m cuda_device dump package.module:kernel --stage ptx --target sm_100
python -m cuda_device build saxpy.py:saxpy --target sm_90,sm_100 --output kernels      for device.load("kernels")
python -m cuda_device cache            shows where the cache is, and its size
python -m cuda_device cache list       shows the kernels whose machine code is in it
python -m cuda_device cache clear
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import linecache
import os
import platform
import re
import runpy
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import cuda_device as device

STAGES = ("ir", "llvm", "ptx")
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
    """Runs the command that `words` spell, or the process's own; returns the exit status."""
    parser = argparse.ArgumentParser("python -m cuda_device", description="The compiler's command line.")
    commands = parser.add_subparsers(required=True, metavar="command")

    info = commands.add_parser("info", help="versions, GPUs, assemblers and the cache: what to paste into a bug report")
    info.set_defaults(run=_info)

    dump = commands.add_parser("dump", help="print the stages of a kernel: typed IR, LLVM IR, PTX")
    dump.add_argument("kernel", help="file.py:name or package.module:name")
    dump.add_argument("--signature", help="the types of the arguments; the default is the kernel's hints")
    dump.add_argument("--target", default="sm_90", help="the architecture (default: sm_90)")
    dump.add_argument("--stage", choices=STAGES, help="print only this stage")
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

    wanted = parser.parse_args(words)
    try:
        wanted.run(wanted)
    except (device.Error, LookupError, TypeError, ValueError, OSError, ImportError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _info(_: argparse.Namespace) -> None:
    found = list(facts())
    width = max(len(name) for name, _ in found)
    print("\n".join(f"{name:<{width}} {value}" for name, value in found))


def facts() -> Iterator[tuple[str, str]]:
    """What a bug report needs, as names and values."""
    from cuda_device.codegen.gpu import libdevice
    from cuda_device.codegen.gpu.assemblers import ASSEMBLERS
    from cuda_device.runtime.gpu import driver
    from cuda_device.types.architectures import parse

    here = os.path.dirname(device.__file__)
    total = sum(
        os.path.getsize(os.path.join(folder, file))
        for folder, _, files in os.walk(here)
        for file in files
        if not file.endswith(".pyc")
    )
    yield "cuda_device", f"{device.__version__}, {_mib(total)}, {here}"
    yield "Python", f"{sys.version.split()[0]}, {platform.python_implementation()}, {platform.platform()}"
    for package in PACKAGES:
        try:
            installed = importlib.metadata.distribution(package)
        except importlib.metadata.PackageNotFoundError:
            yield package, "not installed"
        else:
            size = sum(file.size or 0 for file in installed.files or ())
            total += size
            yield package, f"{installed.version}, {_mib(size)}"
    yield "total", _mib(total)
    yield "driver", ASSEMBLERS[0].version()
    if driver.available():
        for ordinal in range(driver.device_count()):
            found = driver.properties(ordinal)
            major, minor = found.capability
            yield f"GPU {ordinal}", f"{found.name}, compute capability {major}.{minor}, {found.memory >> 20} MiB"
    else:
        yield "GPU", f"none ({driver.unavailable_reason()})"
    for assembler in ASSEMBLERS[1:]:
        is_there = assembler.available(parse("sm_90"))
        yield f"assembler {assembler.name}", assembler.version() if is_there else f"not found ({assembler.remedy})"
    try:
        yield "libdevice", str(libdevice.file())
    except device.CompileError as error:
        yield "libdevice", f"not found ({error.help})"
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


def _cache(wanted: argparse.Namespace) -> None:
    from cuda_device.cache import disk

    found = disk.current()
    if wanted.action == "clear":
        print(f"removed {found.clear() if found else 0} entries")
    elif wanted.action == "list" and found:
        print(f"{'kernel':<32} {'target':<8} {'KiB':>7}  last use")
        for used, data in found.contents():
            if machine_code := _machine_code(data):
                when = time.strftime("%Y-%m-%d %H:%M", time.localtime(used))
                print(f"{machine_code[0]:<32} {machine_code[1]:<8} {len(data) / 2**10:7.1f}  {when}")
        print("Other entries record what was compiled, or are machine code that kernels share.")
    print(_cache_in_words())


def _machine_code(entry: bytes) -> tuple[str, str] | None:
    """The kernels and the target of an entry of the cache, if it is machine code of kernels: `Kept` says how it is kept."""
    from cuda_device.codegen.gpu import elf
    from cuda_device.codegen.gpu.assemblers import Input

    name, _, code = entry.partition(b"\0")
    if not code.startswith(b"\x7fELF"):
        return None
    architecture = Input("", code).architecture
    return (", ".join(sorted(elf.registers(code))), f"sm_{architecture}") if architecture else (name.decode(), "cpu")


def _dump(wanted: argparse.Namespace) -> None:
    kernel = load(wanted.kernel)
    facts_of_launches = isinstance(kernel, device.Kernel) and not kernel.options.interop
    signature = _types(wanted.signature, kernel)
    for stage in [wanted.stage] if wanted.stage else STAGES:
        if not wanted.stage:
            print(f"==== {stage}")
        options = {"launch_facts": facts_of_launches, "lineinfo": stage == "ptx"}
        text = str(device.compile(kernel, *signature, target=wanted.target, output=stage, **options).code)
        print(_with_source(text) if stage == "ptx" else text)


def _types(signature: str | None, kernel: Any) -> tuple[Any, ...]:
    """The types that a signature names, also by names of the kernel's module; none where there is no signature."""
    names = {**dict(_names()), **kernel.underlying.__globals__}
    return eval(f"({signature},)", names) if signature and signature.strip() else ()


def _build(wanted: argparse.Namespace) -> None:
    from cuda_device.interop.building import build

    loaded, given = [load(kernel) for kernel in wanted.kernel], wanted.signature or [None] * len(wanted.kernel)
    if len(loaded) == 1:
        loaded *= len(given)
    if len(loaded) != len(given):
        raise ValueError(f"{len(loaded)} kernels have {len(given)} signatures: give each kernel one")
    kernels: dict[Any, list[tuple[Any, ...]]] = {}
    for kernel, signature in zip(loaded, given, strict=True):
        kernels.setdefault(kernel, []).append(_types(signature, kernel))
    targets = [target.strip() for target in wanted.target.split(",")]
    files = build(list(kernels.items()), targets, wanted.output, fatbin=wanted.fatbin, ltoir=wanted.ltoir)
    print("\n".join(os.path.join(wanted.output, file) for file in files))


def _with_source(ptx: str) -> str:
    """PTX with the line of the source above the instructions that come from it, in place of directives for debuggers."""
    files = dict(re.findall(r'^\s*\.file\s+(\d+) "(.*)"', ptx, re.M))
    text: list[str] = []
    before: tuple[str | Any, ...] = ()
    for line in ptx.partition("\t.section")[0].splitlines():
        if found := re.match(r"\s*\.loc\s+(\d+) (\d+)", line):
            if found.groups() != before and found[2] != "0":
                before = found.groups()
                source = linecache.getline(files[before[0]], int(before[1])).strip()
                text.append(f"\t// {os.path.basename(files[before[0]])}:{before[1]}   {source}")
        elif not re.match(r"\s*\.file\b|\$L__tmp\d+:|\$L__func_\w+:", line):
            text.append(line)
    return "\n".join(text)


def _names() -> Iterator[tuple[str, Any]]:
    """What signatures may name besides: the package's public names, and the package itself as `device`."""
    yield "device", device
    yield from ((name, getattr(device, name)) for name in dir(device) if name != "__version__")


def load(place: str) -> Any:
    """The kernel or function that `file.py:name` or `package.module:name` means."""
    home, colon, name = place.rpartition(":")
    if not colon:
        raise ValueError(f"{place}: write file.py:name or package.module:name")
    if home.endswith(".py"):
        found = runpy.run_path(home)
    else:
        sys.path.insert(0, "")
        found = vars(importlib.import_module(home))
    for part in name.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    return found


if __name__ == "__main__":
    sys.exit(main())
