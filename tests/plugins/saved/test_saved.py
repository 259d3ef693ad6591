"""What `compile` says of its result, and kernels that are saved, loaded and launched without the compiler, on a fake driver."""

import ctypes
import enum
import struct

import numpy as np
import pytest
from fake_driver import CONTEXT, installed

import cuda_device as device
from cuda_device.runtime.gpu import report_message

FLOATS = device.ArrayType(device.float32, 1)


@device.struct
class Point:
    x: device.float32
    y: device.int8


SCALE = 3


@device.kernel
def saxpy(a, x, y, n=5):
    i = device.tid(1)
    if i < n:
        y[i] = SCALE * a * x[i] + y[i]


@device.kernel(interop=True)
def shifted(p, x, flag):
    if flag:
        x[0] = p.x


@device.kernel
def repeated(x, count: device.ConstExpr):
    for _ in range(count):
        x[device.tid(1)] += 1


@device.kernel(max_threads=64)
def shares(x):
    tile = device.shared_array(64, device.float32)
    tile[device.thread_idx.x] = x[device.thread_idx.x]
    device.syncthreads()
    x[device.thread_idx.x] = tile[63 - device.thread_idx.x]


@pytest.fixture
def gpu():
    """A fake GPU of compute capability 9.0, whose context is current; `stream` is one of its streams."""
    with installed() as fake:
        fake.stack[-1] = CONTEXT
        fake.stream = device.GpuStream(7, 0, context=CONTEXT)
        yield fake


def compiled_saxpy(**options):
    return device.compile(saxpy, device.float32, FLOATS, FLOATS, int, **options)


def arrays(gpu, count, dtype=np.float32):
    return [device.array(np.arange(8, dtype=dtype), stream=gpu.stream) for _ in range(count)]


def start(gpu, made):
    """Launches one thread of what was made of the saxpy."""
    made.launch(1.0, *arrays(gpu, 2), grid=1, block=1, stream=gpu.stream)


def address(array):
    return array.__cuda_array_interface__["data"][0]


# What is said of it


def test_parameters_of_a_kernel():
    made = compiled_saxpy()
    assert [tuple(each) for each in made.parameters] == [
        ("a", "float32", 0, 4, None, None),
        ("x", "array<float32, 1, C>", 8, 16, None, None),
        ("y", "array<float32, 1, C>", 24, 16, None, None),
        ("n", "int", 40, 4, None, "5"),
    ]
    assert (made.result, made.target, made.output) == ("none", "sm_90", "cubin")
    assert {"SCALE", "device"} <= set(made.dependencies)
    assert 4 <= made.registers <= 40 and (made.shared, made.local, made.constant) == (0, 0, 0)


def test_parameters_are_where_the_cubin_has_them():
    """The assembler's own list: attribute 0x17 of a kernel, with the offset and size of each leaf."""
    made = compiled_saxpy()
    from cuda_device.codegen.gpu import elf

    (info,) = [each for each in elf.sections(made.code) if each.name == f".nv.info.{made.symbol}"]
    leaves = sorted(
        (struct.unpack_from("<H", value, 6)[0], struct.unpack_from("<I", value, 8)[0] >> 18)
        for kind, value in elf._attributes(elf.content(made.code, info))
        if kind == 0x17
    )
    assert leaves == [(0, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4)]


def test_parameters_of_interoperable_kernels_and_functions():
    made = device.compile(shifted, Point, FLOATS, bool)
    assert [each[2:4] for each in made.parameters] == [(0, 8), (8, 24), (32, 1)]
    assert made.parameters[0].type == "struct<Point, x: float32, y: int8>"

    @device.func(interop=True)
    def moved(p):
        return Point(p.x + 1, p.y)

    found = device.compile(moved, Point, output="ptx")
    assert found.result == found.parameters[0].type and found.registers is None


def test_shared_constant_and_local_memory():
    assert device.compile(shares, FLOATS).shared == 256
    table = 'static __constant__ int table[6]; extern "C" __device__ int entry(int i) { return table[i]; }'

    @device.extern(link=device.cuda_source(table))
    def entry(i: int) -> int: ...

    @device.kernel
    def looks_up(x, i):
        x[0] = entry(i)

    @device.kernel
    def spills(x, i):
        tile = device.local_array(100, device.float32)
        for j in range(100):
            tile[j] = x[j]
        x[0] = tile[i]

    assert device.compile(looks_up, FLOATS, int).constant == 24
    assert device.compile(spills, FLOATS, int).local >= 400


def test_typed_ir_has_parameters_alone():
    made = compiled_saxpy(output="ir")
    assert len(made.parameters) == 4 and made.shared is None and made.registers is None
    assert hash(made) == hash(compiled_saxpy(output="ir")) and made == compiled_saxpy(output="ir")


# Launches of what was saved


@pytest.mark.parametrize("output", ["cubin", "ptx"])
def test_a_saved_kernel_is_launched(gpu, tmp_path, output):
    file = tmp_path / f"saxpy.{output}"
    made = compiled_saxpy(output=output)
    made.save(file)
    assert file.read_bytes() == (made.code if output == "cubin" else made.code.encode())
    loaded = device.load(file)
    assert loaded == made and loaded.parameters == made.parameters
    x, y = arrays(gpu, 2)
    gpu.sizes = [4, 8, 8, 8, 8, 4]
    for launch in (made.launch, loaded.launch):
        launch(2.5, x, y=y, grid=2, block=(32, 2), stream=gpu.stream)
        floats, *rest = gpu.bytes[-1]
        assert floats == np.float32(2.5).tobytes()
        addresses = [int.from_bytes(each, "little") for each in rest]
        assert addresses == [address(x), 8, address(y), 8, 5]
        name, _, *where, stream = gpu.log[-1]
        assert (name, where, stream) == ("cuLaunchKernel", [(2, 1, 1), (32, 2, 1), 0], 7)
    loaded.launch(np.float32(1), x, y, 3, threads=100, block=32, stream=gpu.stream)
    assert gpu.log[-1][2] == (4, 1, 1) and gpu.bytes[-1][-1] == b"\3\0\0\0"


def test_clusters_and_large_shared_arrays_of_saved_kernels(gpu, tmp_path):
    @device.kernel
    def large(x):
        tile = device.shared_array(20_000, device.float32)
        tile[device.thread_idx.x] = x[0]
        device.cluster_sync()
        x[0] = tile[0]

    clusters = []
    gpu.cuLaunchKernelEx = lambda config, *_: (
        clusters.append(struct.unpack("=7I", ctypes.string_at(config, 28))) or (0,)
    )
    x = device.zeros(1, stream=gpu.stream)
    device.compile(large, FLOATS).save(tmp_path / "plain")
    device.compile(device.kernel(cluster=2)(large.underlying), FLOATS).save(tmp_path / "clustered")
    plain, clustered = device.load(tmp_path / "plain"), device.load(tmp_path / "clustered")
    plain.launch(x, grid=8, block=32, cluster=4, shared=100, stream=gpu.stream)
    assert clusters == [(8, 1, 1, 32, 1, 1, 80_000 + 100)]
    clustered.launch(x, grid=8, block=32, stream=gpu.stream)  # the driver knows of its clusters
    assert [entry[2:5] for entry in gpu.log if entry[0] == "cuLaunchKernel"] == [((8, 1, 1), (32, 1, 1), 80_000)]
    with pytest.raises(device.LaunchError, match=r"grid=\(7, 1, 1\) is not a multiple of cluster=\(2, 1, 1\)"):
        clustered.launch(x, grid=7, block=32, stream=gpu.stream)


def test_interoperable_kernels_take_descriptors(gpu, tmp_path):
    file = tmp_path / "shifted.cubin"
    device.compile(shifted, Point, FLOATS, bool).save(file)
    (x,) = arrays(gpu, 1)
    gpu.sizes = [8, 24, 1]
    device.load(file).launch(Point(1.5, 2), x, True, grid=1, block=1, stream=gpu.stream)
    point, descriptor, flag = gpu.bytes[-1]
    assert point[:5] == struct.pack("<fb", 1.5, 2) and flag == b"\1"
    assert struct.unpack("<Qqq", descriptor) == (address(x), 8, 1)


def test_constants_may_be_left_out_and_not_be_others(gpu):
    made = device.compile(repeated, FLOATS, 3)
    assert made.parameters[1] == ("count", "int", 0, 0, "3", None)  # it has a value, and no place
    (x,) = arrays(gpu, 1)
    made.launch(x, 3, grid=1, block=8, stream=gpu.stream)
    made.launch(x, grid=1, block=8, stream=gpu.stream)
    with pytest.raises(TypeError, match="'count' is 4, but the kernel was compiled for 3") as caught:
        made.launch(x, 4, grid=1, block=8, stream=gpu.stream)
    assert "build the kernel for this argument" in caught.value.help


def returned(x):
    return x


@pytest.mark.parametrize(
    ("default", "constant", "shown", "also"),
    [
        ((1, 2.5), False, "(1, 2.5)", (1, 2.5)),
        (float("inf"), False, "inf", 2.0),
        (np.float32(2), False, "2.0", np.float32(3)),
        (1 + 2j, False, "(1+2j)", 1j),
        ((1, (2.5, "a"), returned), True, f"(1, (2.5, 'a'), {__name__}.returned)", (1, (2.5, "a"), returned)),
        (np.int32(3), True, "3", 3),
        (enum.IntEnum("Mode", ["FAST"]).FAST, True, "1", 1),
        (returned, True, f"{__name__}.returned", returned),
        (device.float64, True, "numpy.float64", np.float64),
    ],
)
def test_defaults_and_constants_of_all_kinds_are_in_the_file(gpu, tmp_path, default, constant, shown, also):
    def stores(x, value):
        x[0] = 1

    stores.__defaults__ = (default,)
    stores.__annotations__ = {"value": device.ConstExpr} if constant else {}
    device.compile(device.kernel(stores), FLOATS).save(tmp_path / "stores.cubin")
    loaded = device.load(tmp_path / "stores.cubin")
    assert (loaded.parameters[1].constant if constant else loaded.parameters[1].default) == shown
    (x,) = arrays(gpu, 1)
    for value in ((), (default,), (also,)):
        loaded.launch(x, *value, grid=1, block=8, stream=gpu.stream)
    with pytest.raises(device.LaunchError, match="the argument 'value' is "):
        loaded.launch(x, "other", grid=1, block=8, stream=gpu.stream)


def test_a_constant_of_a_type_takes_the_numbers_of_it(gpu):
    @device.kernel
    def stores(x, value: device.ConstExpr[device.float32]):
        x[0] = value

    made = device.compile(stores, FLOATS, 2)
    (x,) = arrays(gpu, 1)
    for value in (2, 2.0, np.float32(2)):
        made.launch(x, value, grid=1, block=8, stream=gpu.stream)
    with pytest.raises(TypeError, match="'value' is 3.0, but the kernel was compiled for 2.0"):
        made.launch(x, 3, grid=1, block=8, stream=gpu.stream)


def test_pointers_to_structs_and_pointers(gpu, tmp_path):
    @device.kernel
    def moves(p: device.pointer(Point), table: device.pointer(device.pointer(device.float32), readonly=True)):
        p[0].x = table[1][0]

    device.compile(moves).save(tmp_path / "moves.cubin")
    loaded = device.load(tmp_path / "moves.cubin")
    points = device.array([Point(1, 2)], stream=gpu.stream)
    for given in (points, address(points)):
        loaded.launch(given, 4096, grid=1, block=1, stream=gpu.stream)
    assert gpu.names().count("cuLaunchKernel") == 2
    for wrong, message in ((arrays(gpu, 1)[0], "is an array of float32"), (None, "is None"), (3, "the address 0x3")):
        with pytest.raises(device.LaunchError, match=f"the argument 'p' {message}|the argument 'p' is {message}"):
            loaded.launch(wrong, 4096, grid=1, block=1, stream=gpu.stream)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"x": "float64"}, "'x' is of type array<float64, 1, C>, but the kernel was compiled for array<float32, 1, C>"),
        ({"a": 2 + 1j}, "'a' is .2.1j., but .*float32"),
        ({"a": np.float64(2)}, "'a' is .*, but .*float32"),
        ({"n": 2**40}, "'n' is 1099511627776"),
        ({"n": None}, "'n' is of type none, but the kernel was compiled for int"),
        ({"m": 3}, "saxpy has no parameter 'm'"),
    ],
)
def test_arguments_that_are_not_those_it_was_compiled_for(gpu, wrong, match):
    x, y = arrays(gpu, 2)
    given = {"a": 1.0, "x": x, "y": y, **wrong}
    if wrong == {"x": "float64"}:
        (given["x"],) = arrays(gpu, 1, np.float64)
    with pytest.raises(device.LaunchError, match=match) as caught:
        compiled_saxpy().launch(**given, grid=1, block=1, stream=gpu.stream)
    assert caught.value.help
    compiled_saxpy().launch(1.0, x, y, grid=1, block=1, stream=gpu.stream)
    assert gpu.names().count("cuLaunchKernel") == 1


def test_launches_are_checked(gpu):
    x, y = arrays(gpu, 2)
    with pytest.raises(device.LaunchError, match="max_threads"):
        device.compile(shares, FLOATS).launch(x, grid=1, block=65, stream=gpu.stream)
    made = compiled_saxpy(launch_facts=True)
    made.launch(1.0, x, y, grid=1, block=8, stream=gpu.stream)
    with pytest.raises(device.LaunchError, match="compiled with launch_facts=True"):
        made.launch(1.0, y, y, grid=1, block=8, stream=gpu.stream)
    made = device.compile(saxpy, device.float32, device.ArrayType(device.float32, 1, readonly=True), FLOATS, int)
    made.launch(1.0, x, y, grid=1, block=8, stream=gpu.stream)  # other arrays fit, too


def test_gpus_that_it_is_not_for(gpu):
    for target, output in (("sm_80", "cubin"), ("sm_100", "ptx"), ("sm_100", "cubin")):
        says = f"compiled for {target} .{output}., but this GPU is sm_90"
        with pytest.raises(device.LaunchError, match=says) as caught:
            start(gpu, compiled_saxpy(target=target, output=output))
        assert "build it for sm_90" in caught.value.help
    start(gpu, compiled_saxpy(target="sm_80", output="ptx"))
    start(gpu, compiled_saxpy(target="sm_90a"))


def test_the_cpu_stream_is_for_the_kernel_itself():
    x = np.zeros(4, np.float32)
    with pytest.raises(device.LaunchError, match="the stream is a CPU stream") as caught:
        compiled_saxpy().launch(1.0, x, x, grid=1, block=1, stream=device.cpu_stream())
    assert "device.launch" in caught.value.help
    with pytest.raises(TypeError, match="not an object of type Compiled") as caught:
        device.launch(compiled_saxpy(), 1.0, x, x, grid=1, block=1, stream=device.cpu_stream())
    assert "its own launch" in caught.value.help


def test_functions_and_texts_are_not_launched(gpu):
    @device.func(interop=True)
    def twice(x):
        return x + x

    for made in (device.compile(twice, float), compiled_saxpy(output="llvm"), compiled_saxpy(output="ir")):
        with pytest.raises(device.LaunchError, match="is not a kernel that a GPU can load") as caught:
            made.launch(1.0, grid=1, block=1, stream=gpu.stream)
        assert caught.value.help


def test_reports_and_recursion_are_as_those_of_the_kernel(gpu, tmp_path, monkeypatch):
    def depth(n):
        return 1 + depth(n - 1) * depth(n - 2) if n > 1 else n

    @device.kernel
    def asserts(x, n):
        if n >= 5:
            raise ValueError("too deep")
        x[0] = depth(n)

    attached = []
    monkeypatch.setattr(report_message, "attach", lambda library, symbol, places: attached.append((symbol, places)))
    file = tmp_path / "asserts.cubin"
    device.compile(asserts, FLOATS, int).save(file)
    (x,) = arrays(gpu, 1)
    device.load(file).launch(x, 3, grid=1, block=1, stream=gpu.stream)
    ((symbol, places),) = attached
    (place,) = places.values()
    assert symbol == "asserts" and "too deep" in place.message and place.location.file == __file__
    assert gpu.limits[next(iter(gpu.limits))] == 32 * 1024


# On disk


def test_what_cannot_be_loaded(tmp_path):
    with pytest.raises(device.LaunchError, match="cannot be loaded: .*No such file") as caught:
        device.load(tmp_path / "nothing.cubin")
    assert "Compiled.save" in caught.value.help
    with pytest.raises(device.LaunchError, match="index.json: No such file"):
        device.load(tmp_path)
    file = tmp_path / "saxpy.cubin"
    compiled_saxpy().save(file)
    index = tmp_path / "saxpy.cubin.json"
    text = index.read_text()
    for changed, match in (
        ("{}", "not an index of compiled kernels"),
        ("[3", "not an index of compiled kernels"),
        ('{"cuda_device": 5, "kernels": []}', "not an index of compiled kernels"),
        ('{"cuda_device": 5, "kernels": [""]}', "not an index of compiled kernels"),
        (text.replace('"cuda_device": 5', '"cuda_device": 4'), "of format 4, and not 5"),
        (text.replace('"symbol"', '"other"'), "not an index of compiled kernels"),
    ):
        index.write_text(changed)
        with pytest.raises(device.LaunchError, match=match):
            device.load(file)
    index.write_text(text)
    assert device.load(str(file)).symbol == "saxpy"
    file.write_bytes(compiled_saxpy(target="sm_80").code)
    with pytest.raises(device.LaunchError, match=r"saxpy.cubin has changed since, or is another file") as caught:
        device.load(file)
    assert caught.value.help == "build it again"
    index.rename(tmp_path / "index.json")
    file.unlink()
    with pytest.raises(device.LaunchError, match=r"cannot be loaded: .*saxpy.cubin: No such file"):
        device.load(tmp_path)


# Several targets in one file


def nvfatbin_is_here():
    try:
        from cuda.bindings import nvfatbin

        return bool(nvfatbin.version())
    except (ImportError, RuntimeError, OSError):
        return False


@pytest.mark.skipif(not nvfatbin_is_here(), reason="no nvFatbin: pip install nvidia-nvfatbin")
def test_a_fatbin_has_all_targets(gpu, tmp_path):
    made = compiled_saxpy(target=["sm_80", "sm_90"], output="fatbin")
    assert made.code[:4] == b"\x50\xed\x55\xba" and made.target == "sm_80, sm_90"
    assert len(made.code) > sum(len(compiled_saxpy(target=each).code) for each in ("sm_80", "sm_90")) // 2
    file = tmp_path / "saxpy.fatbin"
    made.save(file)
    start(gpu, device.load(file))
    assert gpu.names().count("cuLaunchKernel") == 1
    with pytest.raises(device.LaunchError, match="compiled for sm_100, sm_120 .fatbin., but this GPU is sm_90"):
        start(gpu, compiled_saxpy(target=("sm_100", "sm_120"), output="fatbin"))
    start(gpu, compiled_saxpy(target="sm_75", output="fatbin"))


@pytest.mark.skipif(not nvfatbin_is_here(), reason="no nvFatbin: pip install nvidia-nvfatbin")
@pytest.mark.parametrize("options", [{"target": ["sm_80", "sm_100"]}, {"target": "sm_80", "link": "PTX"}])
def test_the_ptx_of_a_fatbin_is_for_its_highest_target_and_only_if_nothing_is_linked(gpu, tmp_path, options):
    if "link" in options:
        options = options | {
            "link": device.compile(device.func(interop=True)(returned), 1, target="sm_80", output="ptx")
        }
    compiled_saxpy(**options, output="fatbin").save(tmp_path / "saxpy.fatbin")
    with pytest.raises(device.LaunchError, match=r"compiled for sm_80.* .fatbin., but this GPU is sm_90"):
        start(gpu, device.load(tmp_path / "saxpy.fatbin"))


def test_without_nvfatbin(monkeypatch):
    from cuda.bindings import nvfatbin

    def missing(*_):
        raise RuntimeError("libnvfatbin.so not found")

    monkeypatch.setattr(nvfatbin, "create", missing)
    with pytest.raises(device.CompileError, match="nvFatbin, which is not installed") as caught:
        compiled_saxpy(output="fatbin")
    assert "pip install nvidia-nvfatbin" in caught.value.help


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"output": "fatbin", "by_address": True}, TypeError, "by_address=True is for functions"),
        ({"output": "fatbin", "result": int}, device.CompileError, "saxpy returns none, not int32"),
        ({"target": ["sm_90", "sm_100"]}, ValueError, "target"),
        ({"target": ()}, ValueError, "target"),
        ({"output": "fatbin", "target": []}, ValueError, "at least one"),
        ({"output": "fatbin", "target": ["sm_90", "sm_1"]}, ValueError, "there is no architecture 'sm_1'"),
    ],
)
def test_several_targets_are_for_a_fatbin_and_what_holds_for_a_cubin_holds_for_it(options, error, message):
    with pytest.raises(error, match=message):
        compiled_saxpy(**options)
