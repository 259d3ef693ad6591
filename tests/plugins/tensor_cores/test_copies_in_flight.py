"""Asynchronous copies under the race detector: right programs give no report, and each mistake gives one with both lines.

The programs of copies_in_flight.txt take maps `x` and `map` of two arrays, the second of which is `y`, and a `mistake`: "" where
the program is right. For each mistake they say which two statements the report names, and a part of its help; for those that
end in a deadlock, a wait that it names, and what it says of the barrier.
"""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from ir_helpers import programs_in
from race_reports import has_report, mistakes

import cuda_device as device

NAMES = {name: getattr(device, name) for name in ("MBarrier", "int32", "lane_id", "thread_idx")}
HEAD = "@device.kernel\ndef k(x, map, y, mistake):"
PROGRAMS = programs_in(Path(__file__).with_name("copies_in_flight.txt"), HEAD, **NAMES)
DEADLOCKS = [(program, mistake) for program in PROGRAMS for mistake in program.fields.get("deadlocks", ())]
MISTAKES = [(program, mistake) for program in PROGRAMS for mistake in program.fields["mistakes"]]
VALUES = mistakes(mistake for _, mistake in (*MISTAKES, *DEADLOCKS))


def run(program, mistake, stream=None):
    x, y = np.arange(1024, dtype=np.int32).reshape(32, 32), np.arange(512, dtype=np.int32).reshape(16, 32)
    maps = device.TensorMap.of(x, (4, 32)), device.TensorMap.of(y, (2, 32))
    sizes = {"grid": 1, "block": 64, **program.fields}
    sizes = {name: sizes[name] for name in sizes.keys() & {"grid", "block", "cluster"}}
    device.launch(program.function, *maps, y, VALUES[mistake], stream=stream or device.cpu_stream(races=True), **sizes)
    return y


def named(each):
    """The name of a program or a mistake."""
    return each if isinstance(each, str) else each.name


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_a_right_program_gives_no_report(program):
    assert np.array_equal(run(program, ""), run(program, "", device.cpu_stream()))


@pytest.mark.parametrize("program, mistake", MISTAKES, ids=named)
def test_a_mistake_is_reported_with_both_lines(program, mistake):
    with pytest.raises(device.KernelError) as caught:
        run(program, mistake)
    assert has_report(caught.value, *program.fields["mistakes"][mistake]), caught.value


@pytest.mark.parametrize("program, mistake", DEADLOCKS, ids=named)
def test_a_wait_that_nothing_ends_is_reported_with_its_line(program, mistake):
    statement, state = program.fields["deadlocks"][mistake]
    with pytest.raises(device.KernelError, match="^deadlock") as caught:
        run(program, mistake)
    waits = re.findall(r"\.py:(\d+):\d+ for an mbarrier in (.*?)(?: and|$)", str(caught.value), re.M)
    lines = inspect.getsource(program.function.underlying).splitlines()
    assert any(statement in lines[int(line) - 1] and said.startswith(state) for line, said in waits), caught.value
