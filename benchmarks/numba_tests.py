"""numba-cuda's own tests over `cuda_device.numba_compat`: how many pass, by file.

    pip install numba-cuda numba pytest pytest-timeout pytest-xdist filecheck cffi ml_dtypes
    CUDA_DEVICE_CHECKED=0 python benchmarks/numba_tests.py [file …] [--failures]

numba checks nothing without `debug=True`, and some of its tests rely on that: hence CUDA_DEVICE_CHECKED=0.

The tests are those of the installed wheel, unmodified. Before they are imported, the names of `numba.cuda` that this package has
take the places of numba's; what it does not have stays numba's, and needs a GPU. `OTHERS` are files that are about numba itself:
its compiler, its typing, PTX text, its caches and drivers. `ASKS` and `ASKED` tell single tests that are; they count as skipped.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib.util
import inspect
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
import pytest

FOLDERS = ("cudapy", "doc_examples")
SECONDS = 60
# What is about numba itself, by file: its compiler and its passes, typing and extensions, text of PTX and debug information,
# caches, serialisation, several processes and GPUs, C code, warnings and options of the simulator. `cuda_array_interface` needs
# memory of a GPU; what is about `vectorize` and `guvectorize`, and about numba.njit, is about the rest of numba.
OTHERS = frozenset(
    """
    analysis array_reductions bfloat16 bfloat16_bindings byteflow cache_hints caching cffi
    compiler copy_propagate cpointer cpu_gpu_compat cuda_array_interface cupy_bfloat16_interop
    debug debuginfo debuginfo_types device_array_capture dispatcher extending extending_types fastmath ffi fp8_bindings
    gufunc gufunc_scalar gufunc_scheduling inline inspect ipc ir ir_utils launch_config_sensitive lineinfo
    make_function_to_jit_function multigpu multiprocessing numba_interop optimization overload serialize sm_creation_ptx
    tracing typeconv typeinfer vectorize vectorize_complex vectorize_decor
    vectorize_device vectorize_scalar_arg warning
    """.split()  # noqa: SIM905
)
# Matches the source of tests that need numba's compiler: text of PTX and LLVM IR (also in methods that they call), numba's own
# errors, and other processes.
ASKS = re.compile(
    r"inspect_|\.extensions|TypingError|LoweringError|subprocess|run_in_subprocess|compile_ptx|"
    r"nrt|filecheck|FileCheck|\.definition|typeof|StructModel|override_config|nvjitlink"
)
# Matches the errors of other tests that need it.
ASKED = re.compile(
    r"'Func' object has no attribute '(inspect_\w+|overloads)'|"
    r"no attribute '(_type_annotation|\w*cooperative\w*|device_pointer)'|"
    r"CalledProcessError|CudaSupportError|BrokenProcessPool|DynamicLibNotFoundError|process failed"
)


def tests_of_numba() -> Path:
    """The folder of the tests in the wheel."""
    spec = importlib.util.find_spec("numba_cuda")
    if spec is None or spec.origin is None:
        raise SystemExit("numba-cuda is not installed: pip install numba-cuda numba")
    return Path(spec.origin).parent / "numba" / "cuda" / "tests"


def replace_names() -> None:
    """Puts our names into `numba.cuda`."""
    from numba import cuda
    from numba.cuda import random, testing

    from cuda_device import numba_compat, numba_random

    for name in vars(numba_random):
        if "xoroshiro128p" in name and not name.endswith("_type"):
            setattr(random, name, getattr(numba_random, name))
    used = {"np", "int64", "Any", "Callable", "Iterator", "Sequence", "FunctionType", "SimpleNamespace", "annotations"}
    for name, value in vars(numba_compat).items():
        imported = isinstance(value, ModuleType) and not value.__name__.startswith(numba_compat.__name__)
        is_number = isinstance(value, type) and issubclass(value, np.generic)
        if not name.startswith("_") and name not in used and not imported and not is_number:
            setattr(cuda, name, value)
    for name in vars(testing):
        if name.startswith("skip_unless_cc") or name == "skip_if_cudadevrt_missing":
            setattr(testing, name, lambda test: test)
    testing.CUDATestCase.setUp = testing.CUDATestCase.tearDown = lambda self: None
    # pytest 9 reports subtests one by one, and pytest-xdist cannot send their parameters: a test ends with its first failure.
    testing.CUDATestCase.subTest = lambda self, *args, **params: contextlib.nullcontext()


def pytest_configure(config: Any) -> None:
    """As a plugin of pytest."""
    replace_names()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """As a plugin of pytest: leaves out what asks for numba's compiler."""
    for item in items:
        source = inspect.getsource(item.function)
        helpers = (getattr(item.cls, name, None) for name in re.findall(r"self\.(\w+)\(", source))
        compared = any("inspect_" in inspect.getsource(helper) for helper in helpers if inspect.isfunction(helper))
        if compared or ASKS.search(source):
            item.add_marker(pytest.mark.skip(reason="asks for numba's compiler"))


@pytest.fixture
def initialize_from_pytest_config() -> None:
    """What numba's configuration of pytest has, for tests of its compiler."""


def run(files: list[Path]) -> list[tuple[str, str, str, str]]:
    """File, test, outcome and reason of each test."""
    with TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        plugin = ["-p", Path(__file__).stem, "-p", "no:cacheprovider", "-p", "no:randomly", f"--timeout={SECONDS}"]
        words = [
            *map(str, files),
            "-q",
            "-n",
            "2",
            *plugin,
            f"--junitxml={results}",
            "--import-mode=importlib",
            "--no-header",
            "-W",
            "ignore",
            "--tb=line",
        ]
        pytest.main(words)
        cases = ET.parse(results).getroot().iter("testcase")
        found = []
        for case in cases:
            ends = {child.tag: child for child in case}
            kind = next((kind for kind in ("failure", "error", "skipped") if kind in ends), "passed")
            reason = (ends[kind].get("message") or "").partition("\n")[0] if kind in ends else ""
            if kind in ("failure", "error") and ASKED.search(reason):
                kind = "skipped"
            if reason.endswith("Unexpected success"):  # numba cannot do that
                kind = "passed"
            name = case.get("classname", "").split(".")
            file = next((part for part in name if part.startswith("test_")), name[-1])
            found.append((file, f"{name[-1]}.{case.get('name')}", kind, reason))
        return found


def main() -> None:
    """Prints the table, and with `--failures` what does not pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="files without test_ and .py")
    parser.add_argument("--failures", action="store_true", help="show what does not pass")
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    paths = [path for folder in FOLDERS for path in sorted((tests_of_numba() / folder).glob("test_*.py"))]
    chosen = given.names or [path.stem[5:] for path in paths if path.stem[5:] not in OTHERS]
    found = run([path for path in paths if path.stem[5:] in chosen])
    table: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for file, test, kind, reason in found:
        table[file][kind] += 1
        if given.failures and kind in ("failure", "error"):
            print(f"{file}: {test}: {reason[:200]}")
    whole: collections.Counter[str] = collections.Counter()
    for file, counts in sorted(table.items()):
        whole += counts
        failed = counts["failure"] + counts["error"]
        print(f"{file:40} {counts['passed']:5} passed {failed:5} failed {counts['skipped']:5} skipped")
    ran = whole["passed"] + whole["failure"] + whole["error"]
    print(f"{whole['passed']} of {ran} pass ({whole['passed'] / max(1, ran):.1%}), {whole['skipped']} are skipped")


if __name__ == "__main__":
    main()
