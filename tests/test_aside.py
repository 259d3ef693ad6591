"""Work that a thread does while the assembler works."""

import _thread
import threading

import pytest

from cuda_device.cache.aside import Aside


def test_it_is_done_in_another_thread():
    """`start` does not wait for it, `finish` does."""
    go, done = threading.Event(), []

    def work():
        assert go.wait(60)
        done.append(threading.get_ident())

    task = Aside(work)
    task.start()
    assert not done
    go.set()
    task.finish()
    assert len(done) == 1 and done != [threading.get_ident()]


def test_what_was_not_started_is_done_at_last():
    done = []
    task = Aside(lambda: done.append(threading.get_ident()))
    assert not done
    task.finish()
    assert done == [threading.get_ident()]


def test_where_no_thread_can_be_had(monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    done = []
    task = Aside(lambda: done.append(1))
    task.start()
    task.finish()
    assert done == [1]


def test_what_it_raises():
    def fail():
        raise ValueError("what it is about")

    task = Aside(fail)
    task.start()
    with pytest.raises(ValueError, match="what it is about"):
        task.finish()
