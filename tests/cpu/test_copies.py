"""Asynchronous copies under the race detector: right programs give no report, and each mistake gives one with both lines.

The programs of copy_programs.txt take arrays `x` and `y`, and a `mistake`: "" where the program is right. For each mistake
they say which two statements the report names, and a part of its help.
"""

from pathlib import Path

import numpy as np
import pytest
from ir_helpers import define, programs_in
from race_reports import has_report, mistakes

import cuda_device as device
from cuda_device import extend

NAMES = {name: getattr(device, name) for name in ("ConstExpr", "atomic_ref", "int32", "lane_id", "thread_idx")}
PROGRAMS = programs_in(
    Path(__file__).with_name("copy_programs.txt"),
    "@device.kernel\ndef k(x, y, mistake):",
    extend=extend,
    **NAMES,
)
STREAM = device.cpu_stream(races=True)
MISTAKES = [(program, mistake) for program in PROGRAMS for mistake in program.fields["mistakes"]]
VALUES = mistakes(mistake for _, mistake in MISTAKES)


def run(program, mistake, *more, stream=None):
    x, y = np.arange(1024, dtype=np.int32), np.zeros(1024, np.int32)
    sizes = {"grid": 1, "block": program.fields["block"]}
    device.launch(program.function, x, y, VALUES[mistake], *more, **sizes, stream=stream or STREAM)
    return x, y


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_right_program_gives_no_report(program):
    for one, other in zip(run(program, ""), run(program, "", stream=device.cpu_stream()), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("stages", [1, 3, 4])
def test_rings_of_stages(stages):
    (rings,) = (program for program in PROGRAMS if program.name == "rings")
    run(rings, "", stages)
    with pytest.raises(device.KernelError, match="nothing orders"):
        run(rings, "arrival before the reads", stages)


@pytest.mark.parametrize("program, mistake", MISTAKES, ids=lambda each: each if isinstance(each, str) else each.name)
def test_a_mistake_is_reported_with_both_lines(program, mistake):
    with pytest.raises(device.KernelError) as caught:
        run(program, mistake)
    assert has_report(caught.value, *program.fields["mistakes"][mistake]), caught.value


def moves(x, y, copies: device.ConstExpr[bool]):
    i = device.thread_idx.x
    if copies:
        extend.copies.begin_copy("bulk", proxy=True, reads=(x,))
    y[i] = x[i]
    if copies:
        extend.copies.end_copy()
        extend.copies.commit_copies("bulk")
        extend.copies.proxy_fence()
        extend.copies.await_copies("bulk", i, read=True)


def test_without_race_detection_they_compile_to_nothing():
    for target in ("sm_90", "sm_80"):
        both = [
            device.compile(
                device.kernel(moves), *[device.ArrayType(device.int32, 1)] * 2, copies, target=target, output="ptx"
            ).code
            for copies in (True, False)
        ]
        assert both[0] == both[1]
    kernel = device.kernel(moves)
    device.launch(
        kernel, np.zeros(4, np.int32), np.zeros(4, np.int32), True, grid=1, block=4, stream=device.cpu_stream()
    )
    ((variant),) = kernel.variants.values()
    assert not variant.work["inlined"].has(extend.ops.TRACE)


@pytest.mark.parametrize("call, reason", [
    ('extend.copies.begin_copy("bulk", reads=(x[::2],))', "reads must be a tuple of C-contiguous arrays"),
    ('extend.copies.begin_copy("bulk", reads=x)', "reads must be a tuple of C-contiguous arrays"),
    ('extend.copies.begin_copy("bulk", proxy=x[0] > 0)', "proxy must be a constant expression"),
    ("extend.copies.commit_copies(x[0])", "kind must be a constant"),
])  # fmt: skip
def test_arguments(call, reason):
    kernel = define(f"@device.kernel\ndef k(x):\n    {call}\n", device=device, extend=extend)
    with pytest.raises(device.CompileError, match=reason):
        device.launch(kernel, np.zeros(8, np.int32), grid=1, block=1, stream=STREAM)
    with pytest.raises(device.DeviceOnlyError):
        extend.copies.begin_copy("bulk")
