"""A pytest plugin with a fixture `stream`, which runs the kernels of tests on the CPU, on a GPU, or on both.

    def test_saxpy(stream):                          pytest --cuda-device=both --races --target=sm_80
        x = device.array(np.arange(9.0), stream=stream)
        device.launch(double, x, grid=1, block=9, stream=stream)
        assert x.numpy()[3] == 6

The package installs it. Without `--cuda-device`, the fixture `stream` is a CPU stream, and the other options do not exist.
`-p no:cuda_device.pytest_plugin` turns it off.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cuda_device import Stream
    from cuda_device.extend import Job

_KINDS = {"cpu": ("cpu",), "gpu": ("gpu",), "both": ("cpu", "gpu")}
_CHECKED = "CUDA_DEVICE_CHECKED"
_SCHEDULE = "cuda_device_schedule"
_UNDO = pytest.StashKey[list[Callable[[], object]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that turns the plugin on."""
    parser.getgroup("cuda_device").addoption(
        "--cuda-device",
        choices=list(_KINDS),
        help="where the fixture `stream` runs kernels; enables --races, --checked, --schedule and --target",
    )


def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> None:
    """Adds the options that exist only if the plugin is turned on, because other plugins use the same names."""
    if not any(arg.partition("=")[0] == "--cuda-device" for arg in args):
        return
    group = parser.getgroup("cuda_device")
    group.addoption(
        "--races", action="store_true", help="look for data races in launches on CPU streams, also the default one"
    )
    group.addoption("--checked", action="store_true", help="use checked mode, also on a GPU")
    group.addoption(
        "--schedule",
        type=_seed,
        metavar="SEED",
        help="run blocks and warps on CPU streams in the order of this seed; `random` chooses a seed, which the header and the "
        "reports of failed tests show",
    )
    group.addoption(
        "--target",
        action="append",
        metavar="sm_XX",
        help="also compile each kernel that a test launches on a CPU stream for this GPU; may be given several times",
    )


def _seed(text: str) -> int:
    """Parses a seed: a number, or `random` for a random one."""
    return random.randrange(1 << 31) if text == "random" else int(text)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """Hides the frames of this package in the report of a failed test, so that it ends with the user's line and the message."""
    errors = sys.modules.get("cuda_device.errors")
    if errors is not None and call.excinfo is not None and not call.excinfo.errisinstance(errors.CompilerBug):
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "cuda_device":
                vars(module)["__tracebackhide__"] = True


def pytest_configure(config: pytest.Config) -> None:
    """Applies the options that affect all tests; `pytest_unconfigure` undoes this."""
    undo = config.stash[_UNDO] = []
    from_controller = getattr(config, "workerinput", {})
    if _SCHEDULE in from_controller:
        config.option.schedule = from_controller[_SCHEDULE]
    if config.getoption("cuda_device", None) is not None:
        from cuda_device import cpu_stream

        defaults: dict[str, Any] = cpu_stream.__kwdefaults__ or {}
        plain = dict(defaults)
        chosen = {name: config.getoption(name) for name in ("races", "schedule")}
        defaults.update(chosen)
        undo.append(lambda: defaults.update(plain))
    if config.getoption("checked", False):
        before = os.environ.get(_CHECKED)
        os.environ[_CHECKED] = "1"
        undo.append(lambda: os.environ.pop(_CHECKED) if before is None else os.environ.update({_CHECKED: before}))
    if targets := config.getoption("target", None):
        undo.append(_compile_for(targets))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker of pytest-xdist the seed: it would choose one of its own."""
    node.workerinput[_SCHEDULE] = node.config.getoption("schedule", None)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restores the state of the process."""
    for undo in config.stash.get(_UNDO, []):
        undo()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Returns a line with the options."""
    kind = config.getoption("cuda_device", None)
    if kind is None:
        return None
    asked = [name for name in ("races", "checked") if config.getoption(name, False)]
    if (seed := config.getoption("schedule", None)) is not None:
        asked.append(f"schedule {seed}")
    return f"cuda_device: {', '.join([kind, *asked, *(config.getoption('target', None) or ())])}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs each test that uses this plugin's fixture `stream` once for each kind of stream."""
    kind = metafunc.config.getoption("cuda_device", None)
    if kind is not None and "cuda_device_kind" in metafunc.fixturenames:
        metafunc.parametrize("cuda_device_kind", _KINDS[kind], indirect=True)


@pytest.fixture
def cuda_device_kind(request: pytest.FixtureRequest) -> str:
    """Where the fixture `stream` runs kernels: "cpu" or "gpu"."""
    return getattr(request, "param", "cpu")


@pytest.fixture
def stream(cuda_device_kind: str, request: pytest.FixtureRequest) -> Iterator[Stream]:
    """A stream for `launch`, `array` and other functions. The test ends when all work on the stream has finished.

    A `KernelError` that the test has not waited for is an error of the test. If no GPU is usable, the GPU half of a test is
    skipped with `--cuda-device=both`, and fails with `--cuda-device=gpu`.
    """
    from cuda_device import cpu_stream, default_stream, synchronize
    from cuda_device.extend import driver

    if cuda_device_kind == "cpu":
        if (seed := request.config.getoption("schedule", None)) is not None:
            request.node.add_report_section("setup", "cuda_device", f"--cuda-device=cpu --schedule={seed}")
        yield cpu_stream()
        return
    if not driver.available():
        refuse: Any = pytest.skip if request.config.getoption("cuda_device") == "both" else pytest.fail
        refuse(f"no GPU is usable: {driver.unavailable_reason()}")
    default = default_stream()
    yield default
    synchronize(default)


def _compile_for(names: list[str]) -> Callable[[], object]:
    """Makes each compilation for the CPU also compile for other targets; returns a function that undoes this."""
    from cuda_device import CompileError
    from cuda_device.extend import Target, architectures, compile_job, observe_compilations, replace

    try:
        targets = [Target(architectures.parse(name)) for name in names]
    except ValueError as error:
        raise pytest.UsageError(f"--target: {error}") from None
    seen = set()

    def compile_for_all(job: Job) -> None:
        if not job.kernel or not job.target.on_cpu or job in seen:
            return
        for target in targets:
            try:
                compile_job(replace(job, target=target), "cubin")
            except CompileError as error:
                error.reason = f"for {target.architecture.name}, which --target names: {error.reason}"
                raise
        seen.add(job)

    return observe_compilations(compile_for_all)
