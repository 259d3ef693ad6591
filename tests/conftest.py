"""What all tests share: the `stream` fixture, which runs a test on the CPU and on a GPU, and golden texts.

    def test_doubles(stream):
        assert stream.run(double, np.arange(4, dtype=np.float32), block=4).tolist() == [0, 2, 4, 6]

    def test_ir(golden):
        golden("saxpy", show(module))        # in tests/golden/test_this_module.txt; --update-golden writes it there

The compiler verifies its IR after each stage of every compilation that tests make.

Tests of a plugin are in its folder, and those of the CPU target in tests/cpu. Other tests that need a plugin have a mark, and
are skipped where it is not installed (.ci/deletions). Without the CPU target, tests are skipped that take the fixture `stream`
or call `cpu_stream()`.

    @pytest.mark.needs("ltoir")
"""

from __future__ import annotations

import contextlib
import difflib
import faulthandler
import gc
import importlib
import importlib.util
import itertools
import os
import re
import runpy
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from unittest import mock

import fake_driver
import golden_pages
import hypothesis
import numpy as np
import pytest
from emulated_gpu import installed

import cuda_device as device
from cuda_device import compiler, hooks
from cuda_device.codegen.gpu import assemblers
from cuda_device.lazy_dataclasses import replace
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.launch import launcher
from cuda_device.types.architectures import of_gpu, parse

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or JAX takes most of a GPU's memory
os.environ["CUDA_DEVICE_VERIFY"] = "1"  # for the processes that tests start, too
# Each run has a cache of its own, which its processes share: LLVM compiles the same program once. The compiler runs up to LLVM IR
# each time, because verifying compares what the cache knows of a program with what the compiler generates.
if "CUDA_DEVICE_TEST_CACHE" not in os.environ:
    _CACHE = tempfile.TemporaryDirectory(prefix="cuda_device_tests_")
    os.environ["CUDA_DEVICE_TEST_CACHE"] = _CACHE.name
os.environ["CUDA_DEVICE_CACHE"] = os.environ["CUDA_DEVICE_TEST_CACHE"]

# On a machine that does other things, too, an example may take any time.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")

ASSEMBLED = os.environ.get("CUDA_DEVICE_TEST_CUBINS", "") == "1"
"""Whether every kernel that a test runs on the CPU is also compiled for a GPU, down to machine code."""
HAS_GPU = driver.available()
GPUS = driver.device_count() if HAS_GPU else 0
EMULATED = os.environ.get("CUDA_DEVICE_TEST_PTX", "") == "1"
"""Whether what is compiled for GPUs runs where there is none: ptx_machine executes the PTX."""
_STDERR = pytest.StashKey[int]()
HAS_CPU = importlib.util.find_spec("cuda_device.cpu") is not None
_LAYOUT = hooks.installed("plugins.launchers.memory_layout")
HAS_LAUNCHERS = _LAYOUT is not None and _LAYOUT.is_usable()
"""Whether machine code launches kernels on GPUs: all but the first ones of each, which are `BY_PYTHON`."""
BY_PYTHON = launcher.FIRST_LAUNCHER
LAUNCHES = BY_PYTHON + 4
POISON = 0xA5  # what every byte of memory holds that a kernel should write


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what code does that checks would report: kernels on CPU streams are not checked, as on GPUs."""
    monkeypatch.setenv("CUDA_DEVICE_CHECKED", "0")


@pytest.fixture(autouse=True, scope="module")
def _old_objects_stay() -> None:
    """Tests that collect garbage look through what their own module has made, and not through all that the session has."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of these tests."""
    parser.addoption(
        "--update-golden", action="store_true", help="write golden texts and documents instead of comparing them"
    )
    parser.addoption(
        "--apart", action="store_true", help="with it: what differs, as texts of this release of Python alone"
    )
    parser.addoption("--part", metavar="K/N", default="0/1", help="each N-th test alone, from the K-th one on")
    parser.addoption("--most-seconds", type=float, default=900, help="how long one test may take; 0 for ever")


def pytest_configure(config: pytest.Config) -> None:
    """Where the stacks of a test are written that does not end; pytest puts files in the place of what tests write to.

    With `-n`, each process gets a row of files, whose tests share fixtures and what is compiled. One that has no tests left takes
    some from the end of another's row.
    """
    config.stash[_STDERR] = os.dup(2)
    if getattr(config.option, "dist", "no") == "load":
        config.option.dist = "worksteal"
    if not HAS_CPU:
        device.cpu_stream = _no_cpu_stream


def _no_cpu_stream(**_: object) -> NoReturn:
    """Whoever asks for a CPU stream, a test or all of its module, is skipped."""
    pytest.skip("the CPU target is not installed", allow_module_level=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the part of the tests that `--part` says, spread over all of them."""
    first, step = map(int, config.getoption("--part").split("/"))
    items[:] = items[first::step]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what needs a plugin, or the CPU target (`needs("cpu")`), that is not installed."""
    for (name,) in (mark.args for mark in item.iter_markers("needs")):
        ring = name if name == "cpu" else f"plugins.{name}"
        assert f'"{ring}' in Path(hooks.__file__).read_text(), f"there is no plugin {name!r}"
        if not (HAS_CPU if name == "cpu" else hooks.installed(ring)):
            pytest.skip(f"{name!r} is not installed")


def pytest_report_header() -> str | None:
    """Says what does not run."""
    return None if HAS_GPU or EMULATED else "no GPU: kernels run on the CPU; CUDA_DEVICE_TEST_PTX=1 emulates a GPU, too"


def pytest_unconfigure(config: pytest.Config) -> None:
    """Closes it."""
    os.close(config.stash[_STDERR])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Ends the process, and shows all threads' stacks, when a test takes too long: one that hangs fails, and holds up no other.

    What watches is a thread without Python's lock. With `-n`, other tests go on in a new process.
    """
    seconds = item.config.getoption("--most-seconds")
    if seconds and not item.config.getoption("--pdb"):
        faulthandler.dump_traceback_later(seconds, exit=True, file=item.config.stash[_STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


class ExamplesOfTransformers(dict[str, ModuleType]):
    """Modules of `examples/transformer` by their names, which are imported at their first use."""

    def __missing__(self, name: str) -> ModuleType:
        self[name] = importlib.import_module(name)
        return self[name]


@pytest.fixture(scope="module")
def examples() -> Iterator[ExamplesOfTransformers]:
    """The modules of `examples/transformer`."""
    folder = str(Path(__file__).parents[1] / "examples" / "transformer")
    sys.path.insert(0, folder)
    yield ExamplesOfTransformers()
    sys.path.remove(folder)


class StreamUnderTest:
    """A stream, and arrays that can be launched on it. `kind` is "cpu" or "gpu"; a GPU may be `emulated`."""

    def __init__(self, kind: str, stream: device.Stream, emulated: bool = False) -> None:
        self.kind, self.stream, self.emulated = kind, stream, emulated

    def array(self, elements: Any) -> Any:
        """A copy of a NumPy array, with its strides, that kernels on this stream can read and write.

        On the CPU that is a NumPy array. On a GPU it is contiguous.
        """
        elements = np.asarray(elements)
        if self.kind == "cpu":
            return _copy_with_strides(elements)
        return device.array(elements, stream=self.stream)

    def empty(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> Any:
        """An array of poison: NaN for floats, else bytes of 0xA5. What a kernel does not write shows."""
        return self.array(poison(shape, dtype))

    def numpy(self, array: Any) -> np.ndarray[Any, Any]:
        """The elements, when all launches on the stream have ended."""
        device.synchronize(self.stream)
        return array if isinstance(array, np.ndarray) else array.numpy()

    def launch(self, kernel: device.Kernel, *args: Any, grid: Any, block: Any, shared: int = 0, **kwargs: Any) -> None:
        """Launches a kernel on this stream and waits for it, so that its errors appear here."""
        device.launch(kernel, *args, grid=grid, block=block, stream=self.stream, shared=shared, **kwargs)
        device.synchronize(self.stream)
        if self.kind == "cpu" and ASSEMBLED:
            assemble(kernel)

    def run(self, kernel: device.Kernel, *args: Any, grid: Any = 1, block: Any = 1, **kwargs: Any) -> Any:
        """Launches a kernel on copies of NumPy arrays. Returns what they hold then: one array, or a tuple of several."""
        copies = [self.array(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
        self.launch(kernel, *copies, grid=grid, block=block, **kwargs)
        results = [self.numpy(copy) for arg, copy in zip(args, copies, strict=True) if copy is not arg]
        return results[0] if len(results) == 1 else tuple(results)


def thinned(*axes: Iterable[Any], one_in: int) -> list[Any]:
    """The cases of a product, for `parametrize`. One in so many runs each time; the others are `long`.

    Each value is in a case that runs if another axis has at least `one_in` values.
    """
    cases = []
    for numbered in itertools.product(*map(enumerate, axes)):
        multiple, rest = divmod(sum(number for number, _ in numbered), one_in)
        marks = long(multiple) if rest else []
        cases.append(pytest.param(*(value for _, value in numbered), marks=marks))
    return cases


def long(number: int, one_in: int = 4) -> list[pytest.MarkDecorator]:
    """The marks of a long case with this number: one in so many is not nightly."""
    return [pytest.mark.long, *[pytest.mark.nightly] * (number % one_in > 0)]


def assemble(kernel: device.Kernel) -> None:
    """Puts the PTX of a kernel's newest variant through the assembler, as a launch on a GPU would."""
    job = next(reversed(kernel.variants.values())).work.job
    if job not in _assembled:
        _assembled.add(job)
        compiler.run(replace(job, target=compiler.Target(job.target.architecture)), "cubin")


_assembled: set[compiler.Job] = set()


def can_assemble(target: str = "sm_90", by: str = "") -> bool:
    """Whether there is an assembler for a target here: any, or the one of this name."""
    return any(each.available(parse(target)) for each in assemblers.ASSEMBLERS if by in ("", each.name))


def properties_of(stream: device.GpuStream) -> driver.Properties:
    """The driver's facts about the GPU of a stream."""
    return driver.properties(stream.ordinal)


def with_capability(stream: StreamUnderTest, least: tuple[int, int], what: str) -> StreamUnderTest:
    """The stream, if it runs what GPUs have from a compute capability on, as CPU streams do; otherwise the test is skipped."""
    if stream.emulated or (stream.kind == "gpu" and properties_of(stream.stream).capability < least):
        pytest.skip(f"no {what}")
    return stream


@pytest.fixture
def warpgroups(stream: StreamUnderTest) -> StreamUnderTest:
    """The stream, where it has warpgroups that multiply, which sm_90a alone has."""
    if stream.kind == "cpu":
        return StreamUnderTest("cpu", device.cpu_stream(target="sm_90a"))
    if stream.emulated or properties_of(stream.stream).capability != (9, 0):
        pytest.skip("no wgmma")
    return stream


@pytest.fixture
def current_gpu() -> Iterator[Any]:
    """A fake GPU whose context is current; `stream` is one of its streams."""
    with fake_driver.installed() as fake:
        fake.stack[-1] = fake_driver.CONTEXT
        fake.stream = device.GpuStream(7, 0, context=fake_driver.CONTEXT)
        yield fake


def target_of(stream: device.GpuStream) -> str:
    """The architecture for which launches on a stream are compiled."""
    return str(of_gpu(*properties_of(stream).capability))


def command(*words: str) -> int:
    """The exit status of `python -m cuda_device`, which runs in this process."""
    with mock.patch.object(sys, "argv", ["cuda_device", *words]), pytest.raises(SystemExit) as ended:
        runpy.run_path(str(Path(device.__file__).with_name("__main__.py")), run_name="__main__")
    return ended.value.code


def has_nvshmem() -> bool:
    """Whether NVSHMEM is installed, with headers that kernels can use."""
    nvshmem = hooks.installed("plugins.nvshmem")
    try:
        return nvshmem is not None and bool(nvshmem._source())
    except ImportError:
        return False


def poison(shape: int | tuple[int, ...], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """A NumPy array that no kernel would write: NaN for floats and complex numbers, else bytes of 0xA5; bools are True."""
    result = np.empty(shape, dtype)
    if result.dtype.kind in "fc":
        result[...] = np.nan
    elif result.dtype.kind == "b":
        result[...] = True
    else:
        result.reshape(-1).view(np.uint8)[...] = POISON
    return result


def _copy_with_strides(elements: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy with the very same strides, so that tests of strided arrays test them."""
    if not elements.size:
        return elements.copy()
    low = sum(min(0, stride * (n - 1)) for stride, n in zip(elements.strides, elements.shape, strict=True))
    high = sum(max(0, stride * (n - 1)) for stride, n in zip(elements.strides, elements.shape, strict=True))
    memory = np.full(high - low + elements.itemsize, POISON, np.uint8)
    result = np.ndarray(elements.shape, elements.dtype, memory.data, -low, elements.strides)
    result[...] = elements
    return result


@pytest.fixture(params=["cpu", "gpu"] if HAS_GPU or EMULATED else ["cpu"])
def stream(request: pytest.FixtureRequest) -> Iterator[StreamUnderTest]:
    """The CPU stream, then a GPU's stream, which `ptx_machine` emulates if that is asked for."""
    if request.param == "cpu":
        yield StreamUnderTest("cpu", device.cpu_stream())
    else:
        with a_gpu() as found:
            yield StreamUnderTest("gpu", found, not HAS_GPU)


@contextlib.contextmanager
def a_gpu() -> Iterator[device.Stream]:
    """A GPU's stream; skips the test where there is none, and the emulated one is not wanted."""
    if HAS_GPU:
        yield device.default_stream()
    elif EMULATED:
        with installed():
            yield device.default_stream()
    else:
        pytest.skip("no GPU; CUDA_DEVICE_TEST_PTX=1 emulates one")


@pytest.fixture
def no_gpu() -> Iterator[None]:
    """Makes this machine one without a GPU: the default stream is the CPU's."""
    with fake_driver.no_gpu():
        yield


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether a test writes what it would compare with. Such a test never skips then, and CI writes nothing."""
    update: bool = request.config.getoption("--update-golden")
    if update and os.environ.get("CI"):
        pytest.fail("--update-golden where CI is set: whoever writes golden texts reads them", pytrace=False)
    return update


@pytest.fixture
def golden(request: pytest.FixtureRequest, update_golden: bool) -> golden_pages.Golden:
    """A function of a name and a text that fails, with the difference, where the text is not the golden one."""

    def compare(name: str, text: str, page: str = request.path.stem) -> None:
        assert re.fullmatch(r"\S(.*\S)?", name), f"{name!r} cannot be the name of a text"
        if update_golden:
            golden_pages.update(page, name, text, request.config.getoption("--apart"))
            return
        expected = golden_pages.text_of(page, name)
        if text != expected:
            old, new = expected.splitlines(), text.splitlines()
            lines = difflib.unified_diff(old, new, f"{name} in golden/{page}.txt", "this run", lineterm="")
            pytest.fail("\n".join([*lines, "If this is right: pytest --update-golden"]), pytrace=False)

    return compare


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With `--update-golden` a test that would write and skips has failed: nobody should believe that it has written."""
    report = yield
    if (
        report.skipped
        and item.config.getoption("--update-golden")
        and "update_golden" in getattr(item, "fixturenames", ())
    ):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"nothing is written here: {why}"
    return report
