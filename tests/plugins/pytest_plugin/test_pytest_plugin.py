"""The pytest plugin: what tests of kernels get, and what each option finds."""

import importlib
import os
import pkgutil
from contextlib import suppress

import pytest

import cuda_device
from cuda_device.errors import PluginError

pytest_plugins = ["pytester"]

PROGRAM = """
    import numpy as np
    import pytest
    import cuda_device as device

    @device.kernel
    def double(x):
        i = device.tid(1)
        x[i] = 2 * x[i]

    @device.kernel
    def race(x):
        x[0] = device.tid(1)

    @device.kernel
    def reduces(x):
        x[device.tid(1)] = device.reduce_add_sync(-1, device.int32(1))

    def launch(kernel, stream, dtype=np.int32):
        x = device.array(np.arange(32, dtype=dtype), stream=stream)
        device.launch(kernel, x, grid=1, block=32, stream=stream)
        return x.numpy()
"""


@pytest.fixture(scope="module", autouse=True)
def imported():
    """All modules: those that pytest within pytest imports, it forgets. A plugin may need one that is not installed."""
    for module in pkgutil.walk_packages(cuda_device.__path__, "cuda_device."):
        if not module.name.endswith("__main__"):
            with suppress(PluginError):
                importlib.import_module(module.name)


@pytest.fixture
def run(pytester):
    """Runs pytest on a file with these tests, in this process."""

    def run(tests, *options):
        pytester.makepyfile(test_it=f"{PROGRAM}\n{tests}".replace("\n    ", "\n"))
        return pytester.runpytest_inprocess("-p", "cuda_device.pytest_plugin", "-p", "no:cacheprovider", "-v", *options)

    return run


DOUBLES = """
    def test_doubles(stream):
        assert launch(double, stream)[3] == 6
"""


def test_without_options_there_is_a_cpu_stream(run):
    result = run(DOUBLES)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*test_doubles PASSED*"])
    result.stdout.no_fnmatch_line("cuda_device:*")
    assert run(DOUBLES, "--races").ret == pytest.ExitCode.USAGE_ERROR


def test_both_kinds(run, no_gpu):
    result = run(DOUBLES, "--cuda-device=both", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(
        ["cuda_device: both", "*test_doubles?cpu? PASSED*", "*no GPU is usable: the driver sees no GPU*"]
    )
    result = run(DOUBLES, "--cuda-device=gpu")
    result.assert_outcomes(failed=0, errors=1)
    result.stdout.fnmatch_lines(["*no GPU is usable: the driver sees no GPU*"])


def test_a_fixture_of_the_users_own_comes_first(run):
    own = """
    @pytest.fixture
    def stream():
        return 5

    def test_it(stream):
        assert stream == 5
    """
    run(own, "--cuda-device=both").assert_outcomes(passed=1)


def test_a_failed_launch_shows_the_line_and_the_message(run):
    fails = """
    def test_launch(stream):
        device.launch(double, {}, grid=1, block=1, stream=stream)
    """
    result = run(fails)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "> *device.launch(double, {}, grid=1, block=1, stream=stream)",
            "E *LaunchError: the argument 'x' is of type dict*",
        ],
        consecutive=True,
    )
    result.stdout.no_fnmatch_line("*launcher.py*")


def test_races(run):
    races = """
    def test_races(stream):
        launch(race, stream)
    """
    run(races, "--cuda-device=cpu").assert_outcomes(passed=1)
    result = run(races, "--cuda-device", "cpu", "--races")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["cuda_device: cpu, races", "*KernelError: race on*"])


def test_checked(run, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_CHECKED", "0")
    checks = """
    import os

    def test_checks(stream):
        x = device.zeros(4, stream=stream)
        with pytest.raises(device.KernelError, match="index 4 is out of bounds"):
            device.launch(double, x, grid=1, block=5, stream=stream)
    """
    run(checks, "--cuda-device=cpu", "--checked").assert_outcomes(passed=1)
    assert os.environ["CUDA_DEVICE_CHECKED"] == "0"


def test_schedule(run):
    order = """
    @device.kernel
    def order(x, count):
        x[device.atomic_ref(count, 0).add(1)] = device.tid(1)

    def test_order(stream):
        x, count = np.zeros(8, np.int32), np.zeros(1, np.int32)
        device.launch(order, x, count, grid=8, block=1, stream=stream)
        assert x.tolist() == [*range(8)]
    """
    run(order, "--cuda-device=cpu").assert_outcomes(passed=1)
    result = run(order, "--cuda-device=cpu", "--schedule=7")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["cuda_device: cpu, schedule 7"])
    result = run(order, "--cuda-device=cpu", "--schedule=random")
    result.stdout.re_match_lines([r"cuda_device: cpu, schedule \d+$"])


def test_the_seed_of_a_schedule_is_in_the_report(run):
    fails = """
    def test_fails(stream):
        assert stream.schedule is None
    """
    result = run(fails, "--cuda-device=cpu", "--schedule=random", "-q", "-q", "--tb=short")
    result.stdout.re_match_lines([r".*Captured cuda_device setup.*", r"--cuda-device=cpu --schedule=\d+$"])


def test_workers_have_the_seed_of_the_controller(pytester):
    pytest.importorskip("xdist")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("i", range(4))
        def test_seed(stream, i, request):
            print("seed", stream.schedule, request.config.getoption("schedule"))
        """
    )
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "-n2", "--cuda-device=cpu", "--schedule=random", "-rP"
    )
    result.assert_outcomes(passed=4)
    (header,) = (line for line in result.outlines if line.startswith("cuda_device: cpu, schedule "))
    seed = header.split()[-1]
    seeds = [line for line in result.outlines if line.startswith("seed ")]
    assert seeds == [f"seed {seed} {seed}"] * 4


def test_options_hold_for_default_cpu_streams(run, no_gpu):
    launches = """
    from cuda_device import numba_compat as cuda

    @cuda.jit
    def numba_race(x):
        x[0] = cuda.grid(1)

    def test_default():
        numba_race[1, 32](np.zeros(1))

    def test_own():
        launch(race, device.cpu_stream())
    """
    run(launches, "--cuda-device=cpu").assert_outcomes(passed=2)
    run(launches, "--cuda-device=cpu", "--races").assert_outcomes(failed=2)
    run(launches, "--cuda-device=cpu").assert_outcomes(passed=2)


def test_target(run):
    reduces = """
    def test_reduces(stream):
        assert launch(reduces, stream)[0] == 32
    """
    run(reduces, "--cuda-device=cpu", "--target=sm_80").assert_outcomes(passed=1)
    result = run(reduces, "--cuda-device=cpu", "--target=sm_75", "--target=sm_90")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "cuda_device: cpu, sm_75, sm_90",
            "*CompileError: for sm_75, which --target names: reduce_add_sync needs sm_80 or later*",
            "*help: test target(provides(sm80)) first*",
        ]
    )
    run(reduces, "--cuda-device=cpu").assert_outcomes(passed=1)
    result = run(reduces, "--cuda-device=cpu", "--target=volta")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--target: *volta*"])
