"""A plugin for pytest: runs the tests in the order that a file gives, says which one is running, and limits each one's time.

    python -m pytest -x -p tests.mutation.order --order order.json --running running.txt

`order.json` is {"order": {id: rank}, "seconds": {id: usual seconds}, "without": [id, …], "limit": seconds}. Tests that it does
not name come last. After so many seconds of processor time no more tests begin. One test may take 60 seconds of it, or 20 times
its usual ones; then the process is killed.
"""

from __future__ import annotations

import json
import resource
import signal
import time
from pathlib import Path
from typing import Any

import pytest

SECONDS, TIMES, BYTES = 60, 20, 12 << 30
LIMIT = 9
"""The exit status where the time for all tests has passed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--order` and `--running`."""
    parser.addoption("--order", type=Path, required=True, help="a file with the order of the tests")
    parser.addoption("--running", type=Path, required=True, help="a file for the name of the test that runs")


def pytest_configure(config: pytest.Config) -> None:
    """Whatever a broken compiler does, it does not take all of the machine's memory."""
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
    config.stash[_PLAN] = json.loads(config.getoption("--order").read_text())


_PLAN = pytest.StashKey[dict[str, Any]]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts the tests."""
    plan = config.stash[_PLAN]
    without = set(plan["without"])
    items[:] = [item for item in items if item.nodeid not in without]
    items.sort(key=lambda item: plan["order"].get(item.nodeid, len(plan["order"])))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    """Names a test and starts its clock, whose signal nobody handles."""
    if time.process_time() > item.config.stash[_PLAN]["limit"]:
        pytest.exit("no time is left", LIMIT)
    seconds = item.config.stash[_PLAN]["seconds"].get(item.nodeid, 0)
    item.config.getoption("--running").write_text(item.nodeid)
    signal.setitimer(signal.ITIMER_PROF, max(SECONDS, TIMES * seconds))
    result = yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    return result
