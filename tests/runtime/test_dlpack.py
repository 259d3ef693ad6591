"""DLPack both ways: against NumPy, torch, and capsules that are built by hand, byte by byte."""

import ctypes
import gc
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest
from processes import python
from producers import new_capsule

import cuda_device as device
from cuda_device.runtime.arrays import dlpack
from cuda_device.runtime.arrays.array_interface import view_of
from cuda_device.runtime.arrays.array_view import ArrayView, Device, numpy_over
from cuda_device.types import exchange_formats, host
from cuda_device.types.model import BFLOAT16, BOOL, FLOAT32, INT16, INT32, NUMBERS, Layout

DTYPES = [np.dtype(row.scalar) for row in host.ROWS]

name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))


class ByProtocol:
    """A NumPy array that can be had by DLPack only, and only in one generation of it."""

    def __init__(self, array, old=False):
        self.array, self.old, self.asked = array, old, []

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **arguments):
        self.asked.append(arguments)
        if self.old and "max_version" in arguments:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**arguments)


class Producer:
    """A capsule with the layout of dlpack.h, as a C library would make it. `deleted` counts calls of the deleter."""

    def __init__(self, versioned=True, **fields):
        self.deleted = 0
        self.asked = []
        self.versioned = versioned
        self.fields = fields
        self.device = (fields.get("device", 1), fields.get("ordinal", 0))

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def deleter(address):
            assert address == ctypes.addressof(self.frame)
            self.deleted += 1

        self.deleter = deleter

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **arguments):
        self.asked.append(arguments)
        shape = self.fields.get("shape", (2, 3))
        strides = self.fields.get("strides")
        self.shape = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self.strides = (ctypes.c_int64 * max(1, len(shape)))(*strides) if strides is not None else None
        code, bits, lanes = self.fields.get("dtype", (2, 32, 1))
        tensor = np.zeros(6, np.int64)  # DLTensor is 48 bytes: written here by offset, not by our own structure.
        raw = tensor.view(np.uint8)
        raw[0:8].view(np.uint64)[0] = self.fields.get("data", 0x10000)
        raw[8:16].view(np.int32)[:] = self.device
        raw[16:20].view(np.int32)[0] = len(shape)
        raw[20], raw[21] = code, bits
        raw[22:24].view(np.uint16)[0] = lanes
        raw[24:32].view(np.uint64)[0] = ctypes.addressof(self.shape) if shape else 0
        raw[32:40].view(np.uint64)[0] = ctypes.addressof(self.strides) if self.strides else 0
        raw[40:48].view(np.uint64)[0] = self.fields.get("byte_offset", 0)
        deleter = ctypes.cast(self.deleter, ctypes.c_void_p).value if self.fields.get("deleter", True) else 0
        if self.versioned:
            frame = np.zeros(10, np.uint64)
            frame[0] = self.fields.get("version", (1, 1))[0] | self.fields.get("version", (1, 1))[1] << 32
            frame[2], frame[3] = deleter, self.fields.get("flags", 0)
            frame[4:] = tensor.view(np.uint64)
        else:
            frame = np.zeros(8, np.uint64)
            frame[:6] = tensor.view(np.uint64)
            frame[7] = deleter
        self.frame = (ctypes.c_uint8 * frame.nbytes).from_buffer_copy(frame.tobytes())
        self.capsule = new_capsule(ctypes.addressof(self.frame), self.name, None)
        return self.capsule

    @property
    def name(self):
        return b"dltensor_versioned" if self.versioned else b"dltensor"


class Owner:
    """What a view of ours keeps alive."""


class Exporter:
    """An object with `__dlpack__` over a view of ours."""

    def __init__(self, view, device=(1, 0)):
        self.view, self.device = view, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, max_version=None, **_):
        return dlpack.export(self.view, max_version)


def same(view: ArrayView, array: np.ndarray) -> None:
    assert (view.shape, view.element) == (array.shape, host.element_of_dtype(array.dtype))
    if array.size:
        assert view.data == array.ctypes.data
        moved = [i for i, length in enumerate(array.shape) if length != 1]
        assert [view.strides[i] for i in moved] == [array.strides[i] for i in moved]
        assert view.layout is layout_by_numpy(array)
    np.testing.assert_array_equal(numpy_over(view), array)


def layout_by_numpy(array):
    return Layout.C if array.flags.c_contiguous else Layout.F if array.flags.f_contiguous else Layout.STRIDED


BASE = np.arange(120, dtype=np.int16).reshape(4, 5, 6)
SHAPES = [
    BASE, BASE.T, BASE[::2], BASE[:, ::-1], BASE[::-1, ::-2, ::-3], BASE[1:2], BASE[:, 1:2, :], BASE[..., :1], BASE[0, 0, 0:0],
    BASE[:0], BASE[:, :0, ::2], BASE[2, 3, 4, ...], BASE.transpose(1, 0, 2), np.broadcast_to(BASE[0, 0], (3, 6)),
    BASE[:1, ::-1, :1], np.asfortranarray(BASE), BASE.reshape(1, 1, -1)[..., ::7],
]  # fmt: skip


# The table of types


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_row_agrees_with_numpy(dtype):
    element = host.element_of_dtype(dtype)
    assert host.dtype_of_element(element) == dtype
    assert exchange_formats.element_of_typestr(dtype.str) == element
    # One byte has no order, whatever ml_dtypes says.
    assert exchange_formats.typestr_of_element(element) == (dtype.str if dtype.itemsize > 1 else f"|{dtype.str[1:]}")
    assert host.number_of(dtype.type) == element
    assert host.dtype_of(dtype.type) == host.dtype_of(dtype.name) == host.dtype_of(element) == dtype
    if dtype.isbuiltin == 1:  # NumPy exports its own types only
        assert dlpack.take(np.zeros(1, dtype).__dlpack__()).element == element
    read = dlpack.take(dlpack.export(view_of(np.zeros(1, dtype))))
    assert read.element == element
    if dtype.itemsize == 1 and dtype.isbuiltin == 1:
        orders = [exchange_formats.element_of_typestr(order + dtype.str[1:]) for order in "<>|"]
        assert orders == [element] * 3
    assert element is not BOOL or host.host_type_of(element) is bool
    assert element is BOOL or host.host_type_of(element) is dtype.type


def test_every_number_of_the_model_has_a_dtype():
    for number in NUMBERS.values():
        assert host.dtype_of_element(number).itemsize * 8 == number.bits
        assert isinstance(host.host_type_of(number), type)


PYTHON = (bool, int, float, complex)


def test_pythons_numbers_are_builtin_and_numpys_are_not():
    assert [host.number_of(t) for t in PYTHON] == [NUMBERS[t.__name__] for t in PYTHON]
    assert host.number_of(np.float64) == NUMBERS["float64"]
    assert host.number_of(type("Mine", (int,), {})) == NUMBERS["int"]
    assert [host.dtype_of(t).name for t in PYTHON] == ["bool", "int32", "float32", "complex64"]
    assert host.number_of(np.longlong) == NUMBERS["int64"]


@pytest.mark.parametrize(
    ("function", "argument", "name"),
    [
        (host.number_of, str, "str"),
        (host.number_of, np.clongdouble, "numpy.clongdouble"),
        (host.number_of, np.generic, "numpy.generic"),
        (host.number_of, ml_dtypes.float8_e3m4, "float8_e3m4"),
        (host.element_of_dtype, np.dtype(ml_dtypes.int4), "int4"),
        (host.element_of_dtype, np.dtype(np.clongdouble), "complex256"),
        (host.element_of_dtype, np.dtype([("a", "U3")]), "<U3"),
        (host.element_of_dtype, np.dtype("U3"), "<U3"),
        (
            host.element_of_dtype,
            np.dtype(">f4"),
            r"'>f4' is not in native byte order: convert with \.astype\('float32'\)",
        ),
        (exchange_formats.element_of_typestr, "<c32", "<c32"),
        (exchange_formats.element_of_typestr, ">f4", "not in native byte order"),
        (exchange_formats.element_of_typestr, "f4", "'f4' is invalid"),
        (exchange_formats.element_of_typestr, 4, "4 is invalid"),
        (host.dtype_of, "nonsense", "'nonsense' is not a dtype"),
        (host.dtype_of, None, "None is not a dtype"),
        (host.dtype_of, np.clongdouble, "complex256"),
        (host.dtype_of_element, NUMBERS, "float32"),
    ],
)
def test_other_types_are_named(function, argument, name):
    with pytest.raises(TypeError, match=name):
        function(argument)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ((4, 32, 1), "bfloat32 is"), ((5, 32, 1), "complex32"), ((8, 8, 1), "float8_e4m3 is"), ((2, 32, 4), "float32 x 4"),
        ((99, 8, 1), "code 99"), ((2, 80, 1), "float80"), ((6, 1, 1), "bool1"), ((1, 4, 1), "uint4"),
    ],
)  # fmt: skip
def test_dlpack_types_that_we_lack_are_named(dtype, name):
    producer = Producer(dtype=dtype)
    with pytest.raises(TypeError, match=name):
        dlpack.read(producer)
    gc.collect()
    assert producer.deleted == 1
    assert dlpack.read(Producer()).element == FLOAT32


# Reading


@pytest.mark.parametrize("array", SHAPES, ids=range(len(SHAPES)))
@pytest.mark.parametrize("old", [False, True], ids=["versioned", "old"])
def test_numpy_arrays_arrive_as_they_are(array, old):
    if array.flags.writeable or not old:
        same(dlpack.read(ByProtocol(array, old)), array)
    if not old:
        assert dlpack.read(ByProtocol(array)).readonly == (not array.flags.writeable)
    same(view_of(array), array)
    assert (view_of(array).data == 0) == (array.size == 0)
    assert view_of(array).readonly == (not array.flags.writeable)


@pytest.mark.parametrize("old", [False, True])
def test_old_producers_are_asked_again(old):
    producer = ByProtocol(np.zeros(3), old)
    dlpack.read(producer)
    assert [sorted(arguments) for arguments in producer.asked] == [["max_version"], []][: 1 + old]
    assert producer.asked[0]["max_version"][0] == 1


@pytest.mark.parametrize("versioned", [True, False])
def test_the_deleter_runs_once_when_the_view_dies(versioned):
    producer = Producer(versioned)
    view = dlpack.read(producer)
    assert name_of(producer.capsule) == b"used_" + producer.name
    keep = view.keep_alive
    del view
    assert producer.deleted == 0
    del keep
    gc.collect()
    assert producer.deleted == 1
    producer.capsule = None
    assert producer.deleted == 1


def test_a_tensor_that_cannot_be_used_goes_back_at_once():
    producer = Producer(dtype=(3, 64, 1))
    with pytest.raises(TypeError) as caught:  # noqa: F841 (the error lives on)
        dlpack.read(producer)
    assert producer.deleted == 1


@pytest.mark.parametrize("versioned", [True, False])
def test_fields_of_a_hand_built_tensor(versioned):
    view = dlpack.read(
        Producer(versioned, data=0x10000, byte_offset=0x24, shape=(2, 3), strides=(-7, 2), dtype=(0, 32, 1), flags=0)
    )
    assert (view.data, view.shape, view.strides, view.element) == (0x10024, (2, 3), (-28, 8), INT32)
    assert (view.device, view.ordinal, view.stream, view.readonly) == (Device.HOST, 0, None, not versioned)
    assert dlpack.read(Producer(versioned, deleter=False)).shape == (2, 3)


@pytest.mark.parametrize(("bits", "stride"), [(32, 2**62 - 1), (64, 2**61 - 2), (8, -3), (32, -3)])
def test_strides_that_were_divided_without_their_sign(bits, stride):
    """CuPy's: -4 bytes are 2**64 - 4, and a quarter of that elements."""
    nbytes = bits // 8
    view = dlpack.read(Producer(shape=(4,), strides=(stride,), dtype=(0, bits, 1)))
    assert view.strides == ((stride * nbytes + 2**63) % 2**64 - 2**63,)
    assert -32 < view.strides[0] < 0


@pytest.mark.parametrize(
    ("fields", "stream", "expected"),
    [
        ({"shape": (2, 3, 4), "dtype": (0, 16, 1)}, None, {"strides": (24, 8, 2)}),
        (
            {"shape": (), "byte_offset": 8},
            None,
            {"shape": (), "strides": (), "data": 0x10008, "size": 1, "layout": Layout.C},
        ),
        *(
            ({"shape": (0, 3), "data": data}, None, {"data": 0, "shape": (0, 3), "size": 0, "extent": (0, 0)})
            for data in (0, 0x10000)
        ),
        ({"device": 1}, None, {"device": Device.HOST, "ordinal": 0}),
        ({"device": 2, "ordinal": 3}, None, {"device": Device.CUDA, "ordinal": 3, "stream": None}),
        ({"device": 3, "ordinal": 3}, None, {"device": Device.PINNED, "ordinal": 3}),
        ({"device": 13, "ordinal": 3}, None, {"device": Device.MANAGED, "ordinal": 3, "stream": 1}),
        ({"device": 13}, 7, {"stream": None}),  # who reads managed memory on the CPU has to wait
        ({"device": 2}, 2, {"stream": 1}),
    ],
    ids=str,
)
def test_what_a_tensor_says(fields, stream, expected):
    view = dlpack.read(Producer(**fields), stream)
    assert {name: getattr(view, name) for name in expected} == expected


def test_where_memory_can_be_used():
    assert [kind for kind in Device if kind.on_host] == [Device.HOST, Device.PINNED, Device.MANAGED]
    assert [kind for kind in Device if kind.on_gpu] == [Device.CUDA, Device.PINNED, Device.MANAGED]


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"data": 0}, "at the address 0"),
        ({"data": 0, "byte_offset": 16}, "at the address 0"),
        ({"shape": (2, -3)}, "-3"),
        ({"version": (2, 0)}, r"DLPack 2\.0"),
    ],
    ids=["not an address", "an offset from none", "a negative length", "a major version"],
)
def test_what_cannot_be_memory_is_refused_and_given_back(versioned, fields, what):
    if "version" in fields and not versioned:
        return
    producer = Producer(versioned, **fields)
    with pytest.raises(device.LaunchError, match=what):
        dlpack.read(producer)
    assert producer.deleted == 1


@pytest.mark.parametrize("code", [10, 8, 77])
def test_other_devices_are_refused(code):
    with pytest.raises(device.LaunchError, match="neither a CUDA GPU nor the host"):
        dlpack.read(Producer(device=code))


@pytest.mark.parametrize(
    ("code", "stream", "asked"),
    [(2, None, {"stream": None}), (2, 1, {"stream": 1}), (2, -1, {"stream": -1}), (2, 0x5000, {"stream": 0x5000}),
     (13, None, {"stream": 1}), (2, 2, {"stream": 1}), (1, 5, {}), (3, 5, {})],
)  # fmt: skip
def test_streams_are_told_to_producers_on_a_gpu_only(code, stream, asked):
    producer = Producer(device=code)
    dlpack.read(producer, stream)
    assert producer.asked == [asked | {"max_version": dlpack.VERSION}]
    never = Producer(device=2)
    with pytest.raises(device.LaunchError, match="ambiguous"):
        dlpack.read(never, 0)
    assert never.asked == []


def test_a_capsule_is_used_once():
    capsule = np.zeros(3).__dlpack__()
    dlpack.take(capsule)
    with pytest.raises(device.LaunchError, match="used before"):
        dlpack.take(capsule)
    with pytest.raises(device.LaunchError, match="not a capsule"):
        dlpack.take(5)


@pytest.mark.parametrize("error", [BufferError, RuntimeError, ValueError, TypeError])
def test_the_producers_words_are_kept(error):
    class Refusing(ByProtocol):
        def __dlpack__(self, **_):
            raise error("not today")

    with pytest.raises((device.LaunchError, TypeError), match="not today"):
        view_of(Refusing(np.zeros(1)))
    assert view_of(ByProtocol(np.zeros(1))) is not None


def test_what_is_no_array():
    things = 3, 2.5, "x", None, (1, 2), [1], object(), np.ndarray, np.float32(1), np.float32, memoryview(b"x"), len
    assert [view_of(thing) for thing in things] == [None] * len(things)
    assert dlpack.read(np.ndarray) is None


def test_masked_arrays_are_refused():
    with pytest.raises(device.LaunchError, match="mask"):
        view_of(np.ma.masked_array([1, 2], [True, False]))

    @device.kernel
    def nothing(x):
        pass

    with pytest.raises(device.LaunchError, match="the argument 'x': .*mask"):
        device.launch(nothing, np.ma.masked_array([1, 2]), grid=1, block=1, stream=device.cpu_stream())


# Exporting


@pytest.mark.parametrize("array", SHAPES, ids=range(len(SHAPES)))
@pytest.mark.parametrize("max_version", [None, (1, 0), (1, 3)])
def test_numpy_takes_our_views(array, max_version):
    exporter = Exporter(view_of(array))
    if not array.flags.writeable and max_version is None:
        with pytest.raises(BufferError):
            dlpack.export(exporter.view, max_version)
        return
    back = np.from_dlpack(exporter)
    np.testing.assert_array_equal(back, array)
    assert back.flags.writeable == array.flags.writeable
    if array.size:
        assert back.ctypes.data == array.ctypes.data
    same(dlpack.take(dlpack.export(exporter.view, max_version)), array)


def owned(**fields):
    owner = Owner()
    view = ArrayView(0x7F0000000000, (4, 3), (12, 4), FLOAT32, keep_alive=owner, **fields)
    return view, weakref.ref(owner)


@pytest.mark.parametrize("max_version", [None, (0, 8), (1, 0), (1, 3), (2, 0)])
def test_a_gpu_array_goes_out_with_its_device(max_version):
    view, _ = owned(device=Device.CUDA, ordinal=3)
    capsule = dlpack.export(view, max_version)
    versioned = bool(max_version and max_version[0] >= 1)
    assert name_of(capsule) == (b"dltensor_versioned" if versioned else b"dltensor")
    back = dlpack.take(capsule)
    assert (back.data, back.shape, back.strides, back.element) == (view.data, view.shape, view.strides, view.element)
    assert (back.device, back.ordinal, back.readonly) == (Device.CUDA, 3, not versioned)


def test_an_empty_gpu_array_goes_out_without_an_address():
    view = ArrayView(0, (0, 3), (12, 4), INT16, device=Device.CUDA)
    capsule = dlpack.export(view, (1, 0))
    frame = dlpack.DLManagedTensorVersioned.from_address(dlpack._get_pointer(capsule, b"dltensor_versioned"))
    assert frame.dl_tensor.data is None
    assert dlpack.take(capsule).shape == (0, 3)


def test_flags_go_out():
    view, _ = owned(readonly=True)
    for copied, flags in ((False, 1), (True, 3)):
        capsule = dlpack.export(view, (1, 0), copied=copied)
        frame = dlpack.DLManagedTensorVersioned.from_address(dlpack._get_pointer(capsule, b"dltensor_versioned"))
        assert frame.flags == flags


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_an_unused_capsule_lets_the_owner_go(max_version):
    view, dead = owned()
    capsule = dlpack.export(view, max_version)
    del view
    gc.collect()
    assert dead() is not None
    del capsule
    gc.collect()
    assert dead() is None


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_a_used_capsule_lets_the_owner_go_with_the_consumer(max_version):
    view, dead = owned()
    capsule = dlpack.export(view, max_version)
    del view
    consumer = dlpack.take(capsule)
    del capsule
    gc.collect()
    assert dead() is not None
    thread = threading.Thread(target=[consumer].clear)
    del consumer
    thread.start()
    thread.join()
    del thread
    gc.collect()
    assert dead() is None


def test_a_consumer_that_fails_does_not_hide_its_error():
    # The capsule dies while NumPy's exception is on its way: code of Python's must not run then.
    view, dead = owned(device=Device.CUDA)
    with pytest.raises((BufferError, RuntimeError), match="Unsupported device"):
        np.from_dlpack(Exporter(view, (2, 0)))
    del view
    gc.collect()
    assert dead() is None


def test_strides_between_elements_cannot_go_out():
    with pytest.raises(BufferError, match="itemsize"):
        dlpack.export(ArrayView(64, (3,), (2,), FLOAT32))


@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "import sys; sys.modules.clear()",
        "import atexit; atexit.register(lambda: x.append(take(export(view, (1, 0)))))",
        "import threading; threading.Thread(target=lambda: x.append(view_of(np.zeros(3))), daemon=True).start()",
    ],
)
def test_the_interpreter_ends_without_noise(ending):
    code = f"""
import ctypes
import numpy as np
from cuda_device.runtime.arrays import array_interface, dlpack
view_of, export, take, read = array_interface.view_of, dlpack.export, dlpack.take, dlpack.read
class P:
    def __init__(self, a): self.a = a
    def __dlpack_device__(self): return (1, 0)
    def __dlpack__(self, **k): return self.a.__dlpack__(**k)
class Cycle:
    def __init__(self): self.me = self
view = view_of(np.arange(6.0))
x = [export(view, (1, 0)), take(export(view)), read(P(np.ones(5))), np.from_dlpack(P(np.ones(3)))]
c = Cycle(); c.view = take(export(view, (1, 0))); c.capsule = export(view)
# A reference that no one ever drops: its deleter never runs.
leaked = take(export(view)); ctypes.pythonapi.Py_IncRef(ctypes.py_object(leaked))
{ending}
"""
    assert python("-c", code).stderr == ""


# torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_torch_tensors_arrive(torch):
    tensor = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4).permute(2, 0, 1)
    view = view_of(tensor)
    assert view.data == tensor.data_ptr()
    assert view.strides == tuple(4 * stride for stride in tensor.stride())
    np.testing.assert_array_equal(numpy_over(view), tensor.numpy())
    slice_ = view_of(tensor[1:])
    assert slice_.data == tensor.data_ptr() + 4 * tensor.stride(0)
    assert view_of(torch.tensor(5, dtype=torch.int16)).element == INT16
    assert view_of(torch.tensor([True])).element == BOOL
    assert view_of(torch.empty(0, 3)).shape == (0, 3)


def test_a_torch_tensor_lives_as_long_as_the_view(torch):
    tensor = torch.full((1000,), 7.0)
    view = view_of(tensor)
    del tensor
    gc.collect()
    for _ in range(100):
        torch.full((1000,), 8.0)
    assert (numpy_over(view) == 7).all()


def test_torch_tensors_that_require_a_gradient_say_what_torch_says(torch):
    with pytest.raises(device.LaunchError, match=r"torch.Tensor refuses to share its memory: .*requires? grad.*detach"):
        view_of(torch.zeros(3, requires_grad=True))
    assert view_of(torch.zeros(3, dtype=torch.bfloat16)).element == BFLOAT16


def test_torch_takes_our_views(torch):
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    tensor = torch.from_dlpack(Exporter(view_of(array)))
    tensor[1, 2] = 100
    assert array[1, 2] == 100
    view, dead = owned()
    tensor = torch.from_dlpack(Exporter(view))
    del view
    gc.collect()
    assert dead() is not None
    del tensor
    gc.collect()
    assert dead() is None


def test_a_capsule_without_flags_is_read_only_as_numpy_takes_it():
    array = ByProtocol(np.zeros(4, np.float32), old=True)  # as of JAX, whose arrays are immutable
    assert not np.from_dlpack(array).flags.writeable
    assert view_of(array).readonly

    @device.kernel
    def store(x):
        x[0] = 1

    @device.kernel
    def load(x, y):
        y[0] = x[0]

    with pytest.raises(device.CompileError, match="read-only"):
        device.launch(store, array, grid=1, block=1, stream=device.cpu_stream())
    device.launch(load, array, np.ones(1, np.float32), grid=1, block=1, stream=device.cpu_stream())
    assert not array.array.any()


@pytest.mark.parametrize(("says", "readonly"), [(None, True), (True, True), (False, False)])
def test_on_a_gpu_the_array_interface_tells_whether_a_capsule_without_flags_may_be_written(says, readonly):
    producer = Producer(versioned=False, device=2)
    if says is not None:
        producer.__cuda_array_interface__ = {"data": (0x10000, says)}
    assert dlpack.read(producer, 1).readonly is readonly


def test_an_empty_array_has_an_address_on_the_host():
    """NumPy before 2.4 refuses address 0."""
    found = numpy_over(ArrayView(0, (0, 3), (12, 4), host.element_of_dtype(np.dtype(np.float32))))
    assert found.shape == (0, 3) and found.base.__array_interface__["data"][0] != 0
