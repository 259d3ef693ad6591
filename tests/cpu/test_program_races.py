"""The race detector over whole programs: right ones give no report; taking out what synchronises one of them does.

What orders or protects accesses is changed in the compiler's IR, one place of the program at a time: a barrier or `syncwarp`
is deleted, an atomic operation counts as a plain one, an acquire or release becomes relaxed. The detector, or the results,
must show it.
"""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import long

import cuda_device as device
from cuda_device.cpu import traces

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
programs = importlib.import_module("programs")

STREAM = device.cpu_stream(races=True)
WAITS = ("barrier", "warp.sync")
ATOMICS = ("atomic.load", "atomic.store", "atomic.update", "atomic.cas")

# Here run the cases of a program that have few inputs, or these: several tiles, a graph with many ways to a node.
FEW = 700
CHOSEN = {
    "nbody": (4,),
    "bfs": (2, 3, 4),
    "fft": (2, 3),
    "radix_sort": (2, 4),
    "histogram": (1, 2, 4),
    "alignment": (1, 2),
    "search": (0, 2),
}
MORE = {"matmul": (np.ones((2, 20), np.float32), np.ones((20, 3), np.float32))}

# Barriers that no two accesses need, by their number in the file, counted from 0.
UNNEEDED = {
    ("cholesky", 2): "each thread changes the row of which it is the next to read the diagonal",
    ("cholesky", 4): "each thread changes the element that it is the next to read",
    ("cholesky", 6): "each thread changes the element that it is the next to read",
    ("cholesky", 7): "each thread first reads the row that it has loaded",
    ("fft", 0): "with half as many threads as points, each thread first reads the points that it has loaded",
    ("softmax", 1): "`max` and `+` make two specialisations, each with an array of its own",
}


def place(op):
    """Where it is in the program: the bytecode of a loop may hold one operation twice."""
    return op.location.file, op.location.line, op.location.column


class Change:
    """What is done to the IR of every kernel that is compiled: nothing, or `how` at the place `where`."""

    def __init__(self):
        self.where, self.how, self.seen = None, "", {}

    def run(self, module, launch_facts):
        for function in module.functions:
            for block in function.blocks:
                block.ops = [op for op in block.ops if self._keep(op)]
        traces_of(module, launch_facts)
        for block in (block for function in module.functions for block in function.blocks):
            block.ops = [each for op in block.ops for each in self._told(op)]
        return module

    def _keep(self, op):
        if op.code.name in WAITS or op.code.name in ATOMICS:
            self.seen[place(op)] = op.code.name, op.attributes.get("memory", "")
        here = place(op) == self.where
        if here and self.how == "relax" and op.code.name in ATOMICS:
            op.attributes["memory"] = "relaxed"
        return not (here and self.how == "delete" and op.code.name in WAITS)

    def _told(self, op):
        """The race detector's event, that of an atomic operation as those of a load and a store."""
        atomic = op.code.name == "trace" and str(op.attributes["event"]).startswith("atomic")
        if not (atomic and place(op) == self.where and self.how == "plain"):
            return [op]
        said = {"atomic.load": [traces.Event.LOAD], "atomic.store": [traces.Event.STORE]}
        kinds = said.get(op.attributes["event"], [traces.Event.LOAD, traces.Event.STORE])
        told = [{"event": str(kind), "place": op.attributes["place"] + i * 10**6} for i, kind in enumerate(kinds)]
        return [type(op)(op.code, op.operands[:1], [], attributes, [], op.location) for attributes in told]


traces_of = traces.add_events


def run(program, cases):
    """Whether the program is right, and its accesses are ordered."""
    for value in vars(program).values():
        if isinstance(value, device.Kernel):
            value.variants.clear()
            value.recent.clear()
    try:
        for case in cases:
            programs.check(program, program.run(STREAM, *case), program.expect(*case))
    except (device.KernelError, device.GroupError, AssertionError, IndexError, ValueError):
        return False
    return True


# Without the barrier of a cluster, the shared memory of a block is freed before others have read it.
CLUSTERS = "cluster_histogram", "multicast"
NAMES = [pytest.param(name, marks=long(n)) for n, name in enumerate(programs.NAMES) if name not in CLUSTERS]


@pytest.mark.parametrize("name", NAMES)
def test_every_barrier_and_atomic_matters(name, monkeypatch):
    pytest.importorskip("scipy")
    program = programs.load(name)
    every = list(program.cases(np.random.default_rng(7)))
    few = [case for case in every if sum(np.size(each) for each in case) <= FEW]
    cases = [every[i] for i in CHOSEN[name]] if name in CHOSEN else few
    cases += [MORE[name]] if name in MORE else []
    change = Change()
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "")  # its record of a program is that of the whole program
    monkeypatch.setattr(traces, "add_events", change.run)
    assert run(program, cases), "the program itself"
    own = sorted(where for where in change.seen if where[0] == program.__file__)
    waits = [where for where in own if change.seen[where][0] in WAITS]
    unnoticed = []
    for where in own:
        code, memory = change.seen[where]
        hows = ["delete"] if code in WAITS else ["plain"] if memory == "relaxed" else ["plain", "relax"]
        for how in hows:
            change.where, change.how = where, how
            if run(program, cases):
                unnoticed.append((name, waits.index(where) if where in waits else f"line {where[1]}"))
    change.where = None
    assert unnoticed == [key for key in UNNEEDED if key[0] == name]
    run(program, [])  # forgets the kernels that were changed
