"""The CPU as a target that the core knows by `hooks` alone."""

import numpy as np
import pytest
from ir_helpers import job

import cuda_device as device
from cuda_device import compiler, hooks
from cuda_device.errors import PluginError
from cuda_device.lazy_dataclasses import replace
from cuda_device.optimise import loop_addresses, symbolic_bounds, trip_counts


@device.kernel
def store(x):
    x[device.tid(1)] = device.tid(1)


F32 = device.ArrayType(device.float32, 1)


@device.kernel
def store_all(x):
    for i in range(device.tid(1), len(x), 4):
        x[-i] = i


def test_the_target_adds_its_stages():
    cpu, gpu = job(store, F32, on_cpu=True), job(store, F32)
    assert " ".join(stage.name for stage in compiler.stages_of(cpu)) == "python typed device inlined llvm native"
    assert compiler.stages_of(gpu) == compiler.GPU


def test_passes_of_the_target_follow_those_that_learn_facts(monkeypatch):
    """Iterations are counted for GPUs only."""
    ran = []
    monkeypatch.setattr(hooks.target("cpu"), "PASSES", (lambda module: ran.append("of the target"),))
    for module, name in (
        (symbolic_bounds, "remove_proven_checks"),
        (loop_addresses, "add_pointer_variables"),
        (trip_counts, "count_down_loops"),
    ):
        monkeypatch.setattr(module, name, lambda function, name=name: ran.append(name))
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "0")
    compiler.run(job(store_all, F32, on_cpu=True), "device")
    assert ran == ["remove_proven_checks", "of the target", "add_pointer_variables"]
    ran.clear()
    compiler.run(job(store_all, F32), "device")
    assert ran == ["remove_proven_checks", "add_pointer_variables", "count_down_loops"]


def test_what_a_stream_asks_for_is_a_part_of_the_key():
    streams = [device.cpu_stream(), device.cpu_stream(races=True), device.cpu_stream(schedule=3)]
    for stream in streams:
        device.launch(store, np.zeros(4, np.float32), grid=1, block=4, stream=stream)
    asked = [variant.work.job.target.options for variant in store.variants.values()]
    assert asked == [(), ("races",), ("permuted",)]


def test_code_for_other_options_has_another_entry_in_the_cache():
    plain = job(store, F32, on_cpu=True)
    keys = set()
    for options in ((), ("races",), ("permuted",)):
        work = compiler.run(replace(plain, target=replace(plain.target, options=options)), "llvm")
        keys.add(compiler._entry(work, "native").key)
    assert len(keys) == 3


def test_without_recall_the_program_is_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_CACHE", str(tmp_path))
    monkeypatch.setattr(hooks, "RECALL", "plugins.removed.programs")
    works = [compiler.run(job(store, F32, on_cpu=True)) for _ in range(2)]
    assert [work.cached for work in works] == [False, True]
    assert all("typed" in work.artifacts for work in works)


def test_without_the_target_nothing_is_compiled_for_it(monkeypatch):
    monkeypatch.setitem(hooks.TARGETS, "cpu", "cpu.removed")
    with pytest.raises(PluginError, match="needs the CPU target"):
        compiler.run(job(store, F32, on_cpu=True))
    assert "define" in compiler.run(job(store, F32), "llvm")["llvm"].text
