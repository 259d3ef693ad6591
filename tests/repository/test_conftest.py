"""A test that hangs fails, and says where; tests need plugins; golden texts are compared, and written where that is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import golden_pages
import pytest

TESTS = """
import threading, time

def test_hangs():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def test_comes_after():
    time.sleep(0.01)
"""


def run(folder: Path, *options: str, program: str = TESTS) -> subprocess.CompletedProcess[str]:
    (folder / "test_waiting.py").write_text(program)
    here = Path(__file__).parents[1]
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-c", "/dev/null", f"--rootdir={folder}", *options]
    paths = f"{here}:{here.parent}:{here.parent}/ptx_machine/src"
    environment = {"PYTHONPATH": paths, "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100
    )


@pytest.mark.long
def test_one_that_hangs_ends_and_others_go_on(tmp_path: Path) -> None:
    done = run(tmp_path, "--most-seconds=1", "-n1")
    assert 'test_waiting.py", line 7 in test_hangs' in done.stderr
    assert "crashed while running 'test_waiting.py::test_hangs'" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


# Parts of tests, and tests that need a plugin

RINGS = """
import pytest
from cuda_device import hooks

hooks.installed = lambda module: None

@pytest.mark.needs("groups")
def test_of_a_plugin():
    raise AssertionError

@pytest.mark.needs("cpu")
def test_of_the_cpu():
    pass

@pytest.mark.needs("gruops")
def test_of_no_plugin():
    pass

def test_of_a_stream(stream):
    pass
"""


def test_what_needs_a_plugin_is_skipped_without_it(tmp_path: Path) -> None:
    done = run(tmp_path, "-rs", "-o", "markers=needs", program=RINGS)
    assert "'groups' is not installed" in done.stdout and "there is no plugin 'gruops'" in done.stdout
    assert "2 passed, 1 skipped, 1 error" in done.stdout
    assert "1 passed in" in run(tmp_path, "--part", "1/3", "-o", "markers=needs", program=RINGS).stdout


# Golden texts

GOLDEN_TESTS = """
import pathlib, sys, golden_pages, pytest
golden_pages.GOLDEN = pathlib.Path(__file__).parent / "golden"

@pytest.mark.parametrize("name", ["saxpy", "scale"])
def test_text(golden, name):
    golden(name, f"func @{name}\\n")

@pytest.mark.skipif(sys.version_info >= (3,), reason="columns are CPython 2.7's")
def test_elsewhere(golden):
    golden("other", "text\\n")
"""


@pytest.mark.long
def test_golden_texts_are_written_and_compared(tmp_path: Path) -> None:
    page = tmp_path / "golden" / "test_waiting.txt"
    page.parent.mkdir()
    page.write_text("=== before\n1\n=== saxpy\nfunc @axpy\n=== scale\nfunc @scale\n")
    compared = run(tmp_path, program=GOLDEN_TESTS).stdout
    assert "-func @axpy" in compared and "+func @saxpy" in compared and "1 failed, 1 passed, 1 skipped" in compared
    written = run(tmp_path, "--update-golden", program=GOLDEN_TESTS).stdout
    assert page.read_text() == "=== before\n1\n=== saxpy\nfunc @saxpy\n=== scale\nfunc @scale\n"
    assert "2 passed, 1 error" in written
    assert "nothing is written here: Skipped: columns are CPython 2.7's" in written


def test_a_release_may_have_a_text_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden_pages, "GOLDEN", tmp_path)
    page = tmp_path / "page.txt"
    page.write_text("=== saxpy\nof others\n")
    for apart, text in ((True, "func\n"), (False, "fun\n")):
        golden_pages.update("page", "saxpy", text, apart)
        assert page.read_text() == f"=== saxpy\nof others\n=== saxpy ({golden_pages.RELEASE})\n{text}"
        assert golden_pages.text_of("page", "saxpy") == text
