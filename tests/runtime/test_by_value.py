"""Arguments by value: objects that kernels take as a copy of some bytes, to which they have a reference."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest
from fake_driver import CONTEXT

import cuda_device as device
from cuda_device import extend
from cuda_device.codegen.gpu import elf

FLOATS = device.ArrayType(device.float32, 1)


@device.struct
class Pair:
    first: device.int32
    second: device.float32


@device.struct(align=64)
class Columns:
    data: device.pointer(device.float32)
    shape: tuple[device.int64, device.int64]
    pair: Pair
    rest: tuple[(device.int64,) * 12]
    factor = 10

    @device.func
    def at(self, i, j):
        return self.data[i * self.shape[1] + j]


class Table(extend.ByValue):
    """A matrix of float32, with an int in the struct."""

    def __init__(self, array, number=7):
        super().__init__(Columns, array, extend.array_view(device.as_array(array)))
        self.number = number

    def pack(self, on_gpu):
        return struct.pack("=Q2qif", self._view.data, *self._view.shape, self.number, 0.5).ljust(128, b"\0")


BY_VALUE = extend.model.Ref(extend.model.Space.PARAMETER, extend.struct_model(Columns), readonly=True)


def corner(table, i):
    """The last element of a row, and what else the struct has."""
    return table.at(i, table.shape[1] - 1) + table.factor * table.pair.first + table["pair"].second


@device.kernel
def corners(flag, tables, one, out, by_choice):
    i = device.tid(1)
    first, (second, _) = tables
    chosen = first if flag else second
    for _ in range(3):
        first, second = second, first
    if i < len(out):
        out[i] = corner(one, i)
        by_choice[i] = corner(chosen, i) + 1000 * second.at(0, 0)


MATRICES = [np.arange(12, dtype=np.float32).reshape(4, 3) + 100 * k for k in range(3)]


@pytest.mark.needs("graphs")
@pytest.mark.parametrize("flag", [True, False])
def test_references_are_passed_on_chosen_and_read(stream, flag):
    a, b, c = [Table(stream.array(m), k) for k, m in enumerate(MATRICES)]
    out, by_choice = stream.empty(4), stream.empty(4)
    arguments = flag, (a, (b, 1)), c, out, by_choice
    prepared = device.prepare(corners, *arguments, grid=2, block=32, stream=stream.stream)
    with device.graph(stream.stream) as graph:
        device.launch(corners, *arguments, grid=2, block=32, stream=graph.stream)
    chosen = 0 if flag else 1
    for launch in (lambda: stream.launch(corners, *arguments, grid=2, block=32), prepared, graph.launch):
        launch()
        assert (stream.numpy(out) == MATRICES[2][:, 2] + 20.5).all()
        assert (stream.numpy(by_choice) == MATRICES[chosen][:, 2] + 10 * chosen + 0.5 + 1000 * MATRICES[0][0, 0]).all()
        for array in (out, by_choice):
            stream.launch(clear, array, grid=1, block=32)


@device.kernel
def clear(x):
    if device.tid(1) < len(x):
        x[device.tid(1)] = -1


@pytest.mark.parametrize("schedule", [None, 3])
def test_threads_that_wait_keep_the_reference(schedule):
    """It lives across barriers, also where it differs between threads, and for the race detector."""

    @device.kernel
    def rows(a, b, out):
        i = device.thread_idx.x
        mine = a if i % 2 else b
        tile = device.shared_array(64, device.float32)
        tile[i] = mine.at(0, i % 3)
        device.syncthreads()
        out[i] = tile[63 - i] + mine.pair.first

    out, stream = np.zeros(64, np.float32), device.cpu_stream(races=True, schedule=schedule)
    device.launch(rows, Table(MATRICES[1], 1), Table(MATRICES[2], 2), out, grid=1, block=64, stream=stream)
    other = np.where(np.arange(64) % 2 == 0, 100, 200) + (63 - np.arange(64)) % 3
    assert (out == other + np.where(np.arange(64) % 2, 1, 2)).all()


def test_a_write_through_the_bytes_is_a_race_like_any_other():
    @device.kernel
    def writes(table):
        table.data[0] = device.thread_idx.x

    with pytest.raises(device.KernelError, match="race"):
        device.launch(writes, Table(MATRICES[0].copy()), grid=1, block=2, stream=device.cpu_stream(races=True))


# The code, and what the driver gets


def test_the_parameter_has_its_bytes_and_its_address_is_taken():
    made = device.compile(corners, bool, tuple[BY_VALUE, tuple[BY_VALUE, int]], BY_VALUE, FLOATS, FLOATS, output="ptx")
    assert len(re.findall(r"\.param \.align 64 \.b8 \w+\[128\]", made.code)) == 3
    assert ".local" not in made.code


def test_parameters_are_where_the_cubin_has_them():
    """In constant memory, that is: those of sm_90 begin there at 0x210, and are aligned there."""
    types = bool, tuple[BY_VALUE, tuple[BY_VALUE, int]], BY_VALUE, FLOATS, FLOATS
    made = device.compile(corners, *types, target="sm_100")
    assert [(p.name, p.offset, p.size) for p in made.parameters] == [
        ("flag", 0, 1), ("tables", 64, 260), ("one", 384, 128), ("out", 512, 16), ("by_choice", 528, 16),
    ]  # fmt: skip
    (info,) = [section for section in elf.sections(made.code) if section.name == f".nv.info.{made.symbol}"]
    leaves = sorted(
        (struct.unpack_from("<H", value, 6)[0], struct.unpack_from("<I", value, 8)[0] >> 18)
        for kind, value in elf._attributes(elf.content(made.code, info))
        if kind == 0x17
    )
    assert leaves == [(0, 1), (64, 128), (192, 128), (320, 4), (384, 128), (512, 8), (520, 8), (528, 8), (536, 8)]


@device.kernel
def copies(table, out):
    out[0] = table.at(1, 1)


def test_saved_kernels(current_gpu, tmp_path):
    out = device.zeros(4, stream=current_gpu.stream)
    table = Table(device.zeros((4, 3), stream=current_gpu.stream), 5)
    current_gpu.sizes = [128, 8]
    device.launch(copies, table, out, grid=1, block=1, stream=current_gpu.stream)
    device.compile(copies, BY_VALUE, FLOATS).save(tmp_path / "copies")
    loaded = device.load(tmp_path / "copies")
    loaded.launch(table, out, grid=1, block=1, stream=current_gpu.stream)
    assert (
        current_gpu.bytes[0]
        == current_gpu.bytes[1]
        == [table.pack(True), struct.pack("Q", extend.array_view(out).data)]
    )
    assert loaded.parameters[0].type.startswith("ref<parameter, struct<Columns align 64, data: pointer<float32>")
    with pytest.raises(device.CallError, match=r"argument 'table' is of type array.* compiled for ref<parameter"):
        loaded.launch(out, out, grid=1, block=1, stream=current_gpu.stream)


def test_a_launch_is_ordered_with_the_array_and_keeps_it_alive(current_gpu):
    elsewhere = device.GpuStream(8, 0, context=CONTEXT)
    x, out = device.zeros((4, 3), stream=elsewhere), device.zeros(4, stream=current_gpu.stream)
    current_gpu.log.clear()
    device.launch(copies, Table(x), out, grid=1, block=1, stream=current_gpu.stream)
    names = current_gpu.names()
    assert names.index("cuStreamWaitEvent") < names.index("cuLaunchKernel")
    with pytest.raises(device.LaunchError, match="argument 'table' is in GPU memory, but the stream is a CPU stream"):
        device.launch(copies, Table(x), np.zeros(4, np.float32), grid=1, block=1, stream=device.cpu_stream())


def test_groups(current_gpu):
    group = device.DeviceGroup([device.cpu_stream(), device.cpu_stream()])
    out = [np.zeros(4, np.float32) for _ in range(2)]
    device.launch_group(group, copies, [Table(m) for m in MATRICES[:2]], out, grid=1, block=1)
    group.synchronize()
    assert [x[0] for x in out] == [m[1, 1] for m in MATRICES[:2]]


# What is refused


def test_the_struct_is_read_only():
    @device.kernel
    def writes(table):
        table.pair.first = 3

    @device.kernel
    def hinted(table: BY_VALUE):
        pass

    @device.kernel(interop=True)
    def interoperable(table):
        pass

    with pytest.raises(device.CompileError, match="an argument that is passed by value is read-only") as caught:
        device.compile(writes, BY_VALUE)
    assert "help: assign the new value to a variable" in str(caught.value)
    with pytest.raises(device.CallError, match="argument 'table' is float, but the parameter's type hint is Columns"):
        device.launch(hinted, 2.5, grid=1, block=1, stream=device.cpu_stream())
    device.launch(hinted, Table(MATRICES[0]), grid=1, block=1, stream=device.cpu_stream())
    with pytest.raises(device.CompileError, match=r"'table' of .*interoperable is Columns, which has no counterpart"):
        device.compile(interoperable, BY_VALUE)


def test_bytes_of_another_size_are_refused():
    class Short(Table):
        def pack(self, on_gpu):
            return b"short"

    with pytest.raises(TypeError, match=r"has 128 bytes, and Short\.pack returns 5"):
        device.launch(copies, Short(MATRICES[0]), np.zeros(1, np.float32), grid=1, block=1, stream=device.cpu_stream())
