"""Threads that link the functions that kernels share."""

import threading
from functools import partial

from at_once import at_once

from cuda_device.cpu import machine_code


def test_two_threads_that_link_what_kernels_share(monkeypatch):
    """Each gets the addresses of its own functions."""
    both_have_linked = threading.Barrier(2, timeout=10)

    class Kept(list):
        def append(self, item):
            super().append(item)
            both_have_linked.wait()

    def piece(name, text, exports, symbols, quick):
        return machine_code.Linked(dict.fromkeys(exports, int(name)), None)

    monkeypatch.setattr(machine_code, "_KEPT", Kept())
    monkeypatch.setattr(machine_code, "piece", piece)
    found = {}

    def link(number):
        found[number] = machine_code.shared_functions(str(number), str, [f"f{number}"])

    at_once(partial(link, number) for number in range(2))
    assert found == {0: {"f0": 0}, 1: {"f1": 1}}
