"""The CUDA Array Interface, rule by rule, from dictionaries that are made up."""

import numpy as np
import pytest
from fake_driver import installed, no_gpu

import cuda_device as device
from cuda_device.runtime.arrays.array_interface import produce, view_of
from cuda_device.runtime.arrays.array_view import ArrayView, Device
from cuda_device.types.host import ROWS, element_of_dtype
from cuda_device.types.layout import placement
from cuda_device.types.model import Layout

ADDRESS = 0x7F0000001000


class Fake:
    """An object with the interface; `read` counts how often it is asked for."""

    def __init__(self, **changes):
        self.count = 0
        self.description = {"shape": (2, 3), "typestr": "<f4", "data": (ADDRESS, False), "version": 3}
        self.description.update(changes)
        self.description = {key: value for key, value in self.description.items() if value is not ...}

    @property
    def __cuda_array_interface__(self):
        self.count += 1
        return self.description


@pytest.fixture(autouse=True)
def without_gpu():
    with no_gpu():
        yield


def test_a_description_is_read_once():
    fake = Fake()
    view = view_of(fake)
    assert fake.count == 1
    assert (view.data, view.shape, view.strides, str(view.element)) == (ADDRESS, (2, 3), (12, 4), "float32")
    assert (view.device, view.ordinal, view.readonly, view.stream) == (Device.CUDA, 0, False, None)
    assert view.keep_alive is fake


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.typestr)
def test_every_element_type(row):
    assert view_of(Fake(typestr=np.dtype(row.scalar).str)).element == row.number


@pytest.mark.parametrize("typestr", ["<c32", "|V8", "<f2x", ">f4", "", None])
def test_other_element_types_are_named(typestr):
    with pytest.raises(TypeError, match=repr(typestr)):
        view_of(Fake(typestr=typestr))


RECORDS = [
    [("a", "<i4"), ("b", "<f8")],
    [("a", "<i4"), ("", "|V4"), ("b", "<f8")],
    [("a", "<f2", (2, 3)), ("inner", [("q", "|u1"), ("r", "<c8")])],
    [(("title", "a"), "<i4"), ("b", "|b1")],
]


@pytest.mark.parametrize("descr", RECORDS)
def test_structures_are_described_by_descr(descr):
    dtype = np.lib.format.descr_to_dtype(descr)
    view = view_of(Fake(typestr=f"|V{dtype.itemsize}", descr=descr))
    assert view.element == element_of_dtype(dtype)
    assert view.strides == (3 * dtype.itemsize, dtype.itemsize)
    placed = placement(view.element)
    assert (placed.size, list(placed.offsets)) == (dtype.itemsize, [dtype.fields[n][1] for n in dtype.names])


@pytest.mark.parametrize("descr", [None, ..., [("", "<f4")], "nonsense"])
def test_descr_of_what_is_no_structure_says_nothing_new(descr):
    assert view_of(Fake(descr=descr)).element == element_of_dtype(np.dtype("f4"))


@pytest.mark.parametrize(
    ("descr", "message"),
    [
        ([("a", "<f8"), ("b", "<f8")], r"the typestr '\|V12', but its descr has 16 bytes"),
        ([("a", "<f8"), ("b", "<nothing")], "which describes no structure"),
        ([("a", "<f8"), ("b", 3.5)], "which describes no structure"),
        ([("a", "<f8"), ("b", ">f4")], "not in native byte order"),
        ([("a", "<f8"), ("b", "<U1")], "is not a type of device code"),
    ],
)
def test_a_descr_that_fits_not(descr, message):
    with pytest.raises((device.LaunchError, TypeError), match=message):
        view_of(Fake(typestr="|V12", descr=descr))


@device.struct
class Particle:
    tag: device.int8
    position: device.float32x4
    extent: tuple[int, device.float64]


@pytest.mark.parametrize("type", [Particle, device.float32x3, device.bfloat16x2, tuple[int, device.float64]])
def test_vectors_and_structs_go_out_with_a_descr(type):
    dtype = device.numpy_dtype(type)
    view = ArrayView(ADDRESS, (2,), (dtype.itemsize,), element_of_dtype(dtype), device=Device.CUDA, stream=1)
    description = produce(view)
    assert (description["typestr"], description["descr"]) == (f"|V{dtype.itemsize}", dtype.descr)
    if type is not device.bfloat16x2:  # NumPy has no word for bfloat16
        there, here = placement(view_of(Fake(**description)).element), placement(view.element)
        assert (there.size, there.offsets) == (here.size, here.offsets)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        *(({"strides": no, "typestr": "<i2", "shape": (4, 3, 2)}, {"strides": (12, 4, 2)}) for no in (..., None)),
        (
            {"strides": (-24, 8)},
            {"strides": (-24, 8), "layout": Layout.STRIDED, "extent": (ADDRESS - 24, ADDRESS + 20)},
        ),
        ({"strides": (4, 8)}, {"layout": Layout.F}),
        *(({"shape": (0, 3), "data": (data, False)}, {"data": 0}) for data in (0, ADDRESS)),
        ({"shape": ()}, {"shape": (), "strides": (), "size": 1}),
        *(({"stream": no}, {"stream": None}) for no in (..., None)),
        *(({"stream": stream}, {"stream": stream}) for stream in (1, 2, 0xABC0)),
        ({"version": 2, "stream": 5}, {"stream": None, "shape": (2, 3)}),
    ],
    ids=str,
)
def test_what_a_description_says(changes, expected):
    view = view_of(Fake(**changes))
    assert {name: getattr(view, name) for name in expected} == expected


def test_numpys_integers_are_integers():
    view = view_of(Fake(shape=(np.int64(2), np.int32(3)), data=(np.uint64(ADDRESS), np.False_), stream=np.int64(1)))
    assert (view.data, view.shape, view.stream) == (ADDRESS, (2, 3), 1)
    assert {type(n) for n in (view.data, *view.shape, view.stream)} == {int}
    assert type(view.readonly) is bool


RULE = "is {.*}, which does not follow its specification"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stream": 0}, "has stream=0, which is ambiguous: 1 is the legacy"),
        ({"mask": Fake()}, "has a mask.*pass the data and the mask"),
        *(({key: ...}, RULE) for key in ("version", "shape", "typestr", "data")),
        *(({"data": data}, RULE) for data in (None, ADDRESS, (None, False), (-8, False), (1 << 64, False), (0, False))),
        *(({"shape": shape}, RULE) for shape in (5, (2.0, 3), (2, -3))),
        *(({"strides": strides}, RULE) for strides in ((4,), (4, "x"))),
        *(({"stream": stream}, RULE) for stream in (-1, "x")),
        *(({"version": version}, RULE) for version in (1, "3")),
    ],
)
def test_broken_rules_are_named(changes, message):
    with pytest.raises(device.LaunchError, match=f"__cuda_array_interface__ of the .*Fake {message}"):
        view_of(Fake(**changes))
    assert view_of(Fake()).data == ADDRESS


class Telling:
    """An object whose interface is something else, or an exception."""

    def __init__(self, interface):
        self.interface = interface

    @property
    def __cuda_array_interface__(self):
        if isinstance(self.interface, Exception):
            raise self.interface
        return self.interface


@pytest.mark.parametrize(
    ("interface", "message"),
    [
        (5, "is 5, which does not follow its specification"),
        (RuntimeError("requires grad: detach first"), "detach first"),
    ],
)
def test_what_is_no_description(interface, message):
    with pytest.raises(device.LaunchError, match=message):
        view_of(Telling(interface))
    assert view_of(Telling) is view_of(Telling(AttributeError("host memory"))) is None


def test_dlpack_goes_first():
    class Both(Fake):
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **arguments):
            return np.zeros(5).__dlpack__(**arguments)

    fake = Both()
    assert view_of(fake).shape == (5,)
    assert fake.count == 0


def test_addresses_are_checked_where_there_is_a_gpu():
    with installed() as gpu:
        with pytest.raises(device.LaunchError, match=f"{ADDRESS:#x}, which is not memory that the GPU can access"):
            view_of(Fake())
        gpu.foreign_addresses.add(ADDRESS)
        assert view_of(Fake()).ordinal == 0
        assert view_of(Fake(shape=(0,), data=(0, False))).size == 0
    with installed() as gpu:
        gpu.attributes["PAGEABLE_MEMORY_ACCESS"] = 1
        assert view_of(Fake()).data == ADDRESS


@pytest.mark.parametrize("stream", [None, 1, 0x70])
@pytest.mark.parametrize(("shape", "strides"), [((2, 3), (12, 4)), ((2, 3), (-40, 8)), ((0, 3), (12, 4)), ((), ())])
def test_what_we_produce_we_understand(stream, shape, strides):
    view = ArrayView(
        ADDRESS if 0 not in shape else 0,
        shape,
        strides,
        element_of_dtype(np.dtype("f4")),
        True,
        Device.CUDA,
        stream=stream,
    )
    description = produce(view)
    back = view_of(Fake(**description))
    for name in ("data", "shape", "strides", "element", "readonly", "device", "stream"):
        assert getattr(back, name) == getattr(view, name), name


def test_what_we_produce_has_the_words_of_the_specification():
    view = ArrayView(ADDRESS, (2, 3), (6, 2), element_of_dtype(np.dtype("i2")), device=Device.CUDA, stream=1)
    assert produce(view) == {
        "shape": (2, 3), "typestr": "<i2", "data": (ADDRESS, False), "version": 3, "strides": None, "stream": 1,
    }  # fmt: skip
