"""A plugin for pytest: which lines of the compiler each test runs, and for how long it does.

    python -m pytest -p tests.mutation.lines --lines FILE tests/test_x.py

The file then holds, as JSON, the lines of each file that importing ran, and for each test its outcome, its seconds of processor
time, and the lines that it was the first to run since it began. A line that a process ran without a test's help (in a
thread, in another process) may be missing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

ROOT = str(Path(__file__).parents[2] / "cuda_device") + os.sep
TOOL = 4  # a number that no debugger, profiler or coverage tool has

_seen: defaultdict[str, set[int]] = defaultdict(set)
_tests: dict[str, dict[str, Any]] = {}
_imported: dict[str, list[int]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--lines`."""
    parser.addoption("--lines", help="a file for the lines that each test runs")


def _line(code: CodeType, line: int) -> object:
    if code.co_filename.startswith(ROOT):
        _seen[code.co_filename[len(ROOT) :]].add(line)
    return sys.monitoring.DISABLE


sys.monitoring.use_tool_id(TOOL, "lines of tests")
sys.monitoring.register_callback(TOOL, sys.monitoring.events.LINE, _line)
sys.monitoring.set_events(TOOL, sys.monitoring.events.LINE)


def compiled(code: CodeType) -> None:
    """Notes the lines of a function that is compiled."""
    if code.co_filename.startswith(ROOT):
        _seen[code.co_filename[len(ROOT) :]].update(line for _, _, line in code.co_lines() if line)


def taken() -> dict[str, list[int]]:
    """The lines of each file that ran since the last call."""
    taken = {file: sorted(lines) for file, lines in _seen.items()}
    _seen.clear()
    sys.monitoring.restart_events()
    return taken


def pytest_collection_finish() -> None:
    """All that ran so far was importing."""
    _imported.update(taken())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    """One test, with its fixtures."""
    taken()
    start = time.process_time()
    result = yield
    record = _tests.setdefault(item.nodeid, {})
    record |= {"seconds": round(time.process_time() - start, 4), "lines": taken()}
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """The worst outcome of the three parts of a test."""
    record = _tests.setdefault(report.nodeid, {})
    if report.outcome != "passed" or "outcome" not in record:
        record["outcome"] = report.outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the file."""
    sys.monitoring.free_tool_id(TOOL)
    if file := session.config.getoption("--lines"):
        Path(file).write_text(json.dumps({"imported": _imported, "tests": _tests}))
