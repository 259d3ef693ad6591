"""What the package says, and that it imports `logging` for that only."""

import io
import logging
import re
import sys
import time
from types import SimpleNamespace

import pytest
from processes import python

import cuda_device as device
from cuda_device import compiler, logs


def test_messages_go_to_the_logger(caplog):
    caplog.set_level(logging.DEBUG, "cuda_device")
    logs.say(logs.WARNING, "%s is %d", "x", 5)
    logs.say(logs.INFO, "100 %")
    logs.say(logs.DEBUG, "no launcher", error=ValueError("a reason"))
    found = [(record.name, record.levelno, record.getMessage()) for record in caplog.records]
    expected = [(logging.WARNING, "x is 5"), (logging.INFO, "100 %"), (logging.DEBUG, "no launcher")]
    assert found == [("cuda_device", *row) for row in expected]
    assert "ValueError: a reason" in caplog.text


@pytest.mark.needs("cpu")
def test_only_warnings_import_logging():
    script = (
        "import sys, numpy; assert 'logging' not in sys.modules\n"
        "import cuda_device as device; device.launch, device.cpu_stream()\n"
        "from cuda_device import logs; logs.say(logs.INFO, 'nobody hears it')\n"
        "assert 'logging' not in sys.modules\n"
        "logs.say(logs.WARNING, 'everybody %s', 'hears it')\n"
    )
    assert python("-c", script).stderr == "everybody hears it\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal at which nobody waits for a second."""
    made = Terminal()
    monkeypatch.setattr(logs, "sys", SimpleNamespace(stderr=made, modules=sys.modules))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(logs, "PATIENCE", 0.02)
    monkeypatch.setattr(logs, "_INTERVAL", 0.01)
    return made


@device.kernel
def slow(x):
    x[0] = 1


def compile_slowly(monkeypatch):
    first, *others = compiler.GPU

    def run(work):
        time.sleep(0.1)
        return first.run(work)

    stages = (compiler.Stage(first.name, run, first.suffix, first.show), *others)
    monkeypatch.setattr(compiler, "GPU", stages)
    device.compile(slow, device.ArrayType(device.float32, 1), output="ptx")


def test_a_terminal_shows_what_takes_long(terminal, monkeypatch):
    compile_slowly(monkeypatch)
    shown = terminal.getvalue().split("\r\x1b[K")
    assert shown[0] == shown[-1] == "" and len(shown) > 3  # the line is gone at the end
    assert re.fullmatch(r"cuda_device: compiling slow for sm_90 \(python\), 0 s", shown[1])
    assert not logs.Progress._busy.locked()


def test_progress_ends_with_an_error(terminal):
    def wait_and_fail():
        with logs.Progress(lambda: "a division"):
            time.sleep(0.1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        wait_and_fail()
    assert "a division" in terminal.getvalue() and terminal.getvalue().endswith("\r\x1b[K")
    with logs.Progress(lambda: "outer"), logs.Progress(lambda: "inner"):
        time.sleep(0.1)
    assert "outer" in terminal.getvalue() and "inner" not in terminal.getvalue()


def test_what_is_quick_or_no_terminal_shows_nothing(terminal, monkeypatch):
    monkeypatch.setattr(logs, "PATIENCE", 60)
    compile_slowly(monkeypatch)
    assert terminal.getvalue() == ""
    monkeypatch.setattr(logs, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "dumb")
    compile_slowly(monkeypatch)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    compile_slowly(monkeypatch)
    assert terminal.getvalue() == ""
