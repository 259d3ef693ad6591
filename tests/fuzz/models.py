"""The types of the compiler against the rules that they follow: text, layout, dtypes, promotion, what is known of numbers.

    parse(str(T)) == T                        damaged text is refused, or is the text of a type
    placement(struct<…>).offsets              those that C++ gives its members, here written once more

Each check makes some of what it is about; one takes less than a millisecond.
"""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import numpy as np
import reference

from cuda_device.types import dtypes, float_formats, host, layout, model, promote
from cuda_device.types.model import NUMBERS, Array, Field, Layout, Number, Ref, Space, Struct, Subarray, Tuple, Vector
from cuda_device.types.parse import parse

FIXED = {name: reference.storage(name) for name in reference.EVERY_FIXED} | {"bool": np.dtype(np.bool_)}
"""By name: the dtype that NumPy or ml_dtypes has for it."""
BUILTIN = {
    "int": np.dtype(np.int32),
    "index": np.dtype(np.int64),
    "float": np.dtype(np.float32),
    "complex": np.dtype(np.complex64),
}
BYTES = {name: dtype.itemsize for name, dtype in (FIXED | BUILTIN | {"warp_mask": np.dtype(np.int32)}).items()}


def a_number(choose: random.Random) -> Number:
    """Any of them."""
    return NUMBERS[choose.choice([*NUMBERS])]


def a_type(choose: random.Random, depth: int = 2) -> model.Type:
    """What can lie in memory."""
    match choose.randrange(8 if depth else 3):
        case 0 | 1:
            return NUMBERS[choose.choice([*FIXED, *BUILTIN])]
        case 2:
            return Vector(
                NUMBERS[choose.choice([name for name in FIXED if "complex" not in name])], choose.randint(1, 4)
            )
        case 3:
            return Tuple(tuple(a_type(choose, depth - 1) for _ in range(choose.randint(0, 3))))
        case 4:
            return model.NONE
        case 5:
            return Subarray(a_type(choose, depth - 1), tuple(choose.randint(1, 3) for _ in range(choose.randint(1, 2))))
    names = choose.sample(("a", "b1", "two words", "é", "align", "x'y"), choose.randint(0, 4))
    fields = [Field(name, a_type(choose, depth - 1), choose.choice((0, 0, 0, 8, 16, 32))) for name in names]
    if fields and choose.random() < 0.2:  # a layout of its own, with gaps
        ends = list(itertools.accumulate(size_and_align(field.type)[0] + choose.randint(0, 3) for field in fields))
        own = [Field(field.name, field.type, 0, start) for field, start in zip(fields, [0, *ends], strict=False)]
        return Struct("own", tuple(own), 1, size=ends[-1] + choose.randint(0, 2) or 1)
    return Struct(choose.choice(("S", "pixel")), tuple(fields), choose.choice((0, 0, 8, 64)))


def other_type(choose: random.Random) -> model.Type:
    """Also what cannot."""
    space, dtype = choose.choice([*Space]), a_type(choose, 1)
    match choose.randrange(8):
        case 0:
            flags = {
                "readonly": choose.random() < 0.5,
                "align": choose.choice((0, 0, 1, 4)),
                "small": choose.random() < 0.5,
            }
            return Array(dtype, choose.randint(0, 3), choose.choice([*Layout]), space=space, **flags)
        case 1:
            return Ref(space, dtype, choose.random() < 0.5, choose.choice((0, 0, 2, 8)))
        case 2:
            return model.Range(a_number(choose))
        case 3:
            return model.RangeIterator(a_number(choose), choose.choice((None, a_number(choose))))
        case 4:
            return model.TupleIterator(Tuple((dtype, a_type(choose, 1))), choose.randint(0, 12))
        case 5:
            return model.Bundle((dtype, model.STATIC))
        case 6:
            return model.Atomic(a_number(choose))
    return dtype


# Text


def texts(choose: random.Random) -> str | None:
    """A type is what its text says, and nothing else is."""
    made = other_type(choose)
    text = str(made)
    if parse(text) != made:
        return f"{text} is read as {parse(text)}"
    words = re.findall(r"\w+|\s+|.", text)
    damaged = list(words)
    place = choose.randrange(len(words))
    match choose.randrange(4):
        case 0:
            del damaged[place]
        case 1:
            damaged[place] = choose.choice(
                words + ["<", ">", ",", "int32", "9", "readonly", "small", "C", "global", "align4"]
            )
        case 2:
            damaged.insert(
                place, choose.choice(words + [">", ",", "int", "3", "readonly", "align8", "size", "at", ":"])
            )
        case 3:
            damaged = damaged[:place]
    changed = "".join(damaged)
    try:
        read = str(parse(changed))
    except ValueError:
        return None
    if "'" not in changed and '"' not in changed and _squeezed(read) != _squeezed(changed):
        return f"{changed!r} is read as {read}"
    return None


def _squeezed(text: str) -> str:
    return re.sub(r"\s|\b0+(?=\d)", "", text)


# Layout


def size_and_align(type: model.Type) -> tuple[int, int]:
    """What C++ says of a type. Complex numbers, and vectors of 2 and 4, are aligned to their size, but to 16 bytes at most."""
    match type:
        case Number():
            return BYTES[str(type)], BYTES[str(type)]
        case Vector(dtype, size):
            width = BYTES[str(dtype)]
            return width * size, min(width * size, 16) if size % 2 == 0 else width
        case Subarray(dtype, shape):
            size, align = size_and_align(dtype)
            for length in shape:
                size *= length
            return size, align
        case model.NoneType():
            return 8, 8
        case Struct() if type.size:
            return type.size, type.align
    return members(type)[1:]


def members(type: model.Type) -> tuple[list[int], int, int]:
    """Where the members of a struct or tuple are, its size, and its alignment."""
    parts = type.elements if isinstance(type, Tuple) else [field.type for field in type.fields]  # type: ignore[union-attr]
    least = [0] * len(parts) if isinstance(type, Tuple) else [field.align for field in type.fields]  # type: ignore[union-attr]
    at, most, offsets = 0, max(1, getattr(type, "align", 0)), []
    for part, more in zip(parts, least, strict=True):
        size, align = size_and_align(part)
        align = max(align, more)
        at += -at % align
        offsets.append(at)
        at, most = at + size, max(most, align)
    at += -at % most
    return offsets, at if parts else most, most


def layouts(choose: random.Random) -> str | None:
    """Sizes, alignments, offsets, and NumPy's dtypes with them."""
    type = a_type(choose, 3)
    if (layout.size_of(type), layout.align_of(type)) != size_and_align(type):
        return (
            f"{type} has {layout.size_of(type)} bytes, aligned to {layout.align_of(type)}, not {size_and_align(type)}"
        )
    if isinstance(type, Tuple | Struct) and not getattr(type, "size", 0):
        offsets, _, _ = members(type)
        if list(layout.placement(type).offsets) != offsets:
            return f"the members of {type} are at {layout.placement(type).offsets}, not {offsets}"
    size, align = size_and_align(type)
    if isinstance(type, Struct | Tuple):
        usual = max(align, next(power for power in (16, 8, 4, 2, 1) if size % power == 0))
        if layout.usual_alignment(type) != usual:
            return f"{type} is usually aligned to {layout.usual_alignment(type)}, not {usual}"
    given = choose.choice((1, 2, 4, 8, 16))
    here = given if given < layout.usual_alignment(type) else 0
    if layout.shortfall(type, given) != here or layout.known_alignment(Ref(Space.LOCAL, type, False, given)) != given:
        return f"of {type}, aligned to {given}, not all is known"
    dtype = dtypes.numpy_dtype(type)
    if dtype.itemsize != size and not isinstance(type, model.NoneType):
        return f"the dtype of {type} has {dtype.itemsize} bytes"
    return None


def elements(choose: random.Random) -> str | None:
    """A type is that of its dtype; and dtypes of NumPy, with gaps or without, are structs with the same members."""
    type = a_type(choose, 2)
    if isinstance(type, Struct | Tuple | Vector) and dtypes.element_of_dtype(dtypes.numpy_dtype(type)) != type:
        return f"the dtype of {type} is that of {dtypes.element_of_dtype(dtypes.numpy_dtype(type))}"
    parts = [
        (name, choose.choice([*FIXED]), choose.choice(((), (), (2,), (2, 3)))) for name in "abc"[: choose.randint(1, 3)]
    ]
    described = [(name, FIXED[each], shape) for name, each, shape in parts]
    foreign = np.dtype(described, align=choose.random() < 0.5)
    if choose.random() < 0.4:
        at, offsets = 0, []
        for name in foreign.names or ():
            at += choose.randint(0, 3)
            offsets.append(at)
            at += foreign.fields[name][0].itemsize
        forms = [foreign.fields[name][0] for name in foreign.names or ()]
        spread = {"names": foreign.names, "formats": forms, "offsets": offsets, "itemsize": at + choose.randint(0, 3)}
        foreign = np.dtype(spread)
    found = dtypes.element_of_dtype(foreign)
    again = dtypes.numpy_dtype(found)
    if again != foreign:
        return f"{foreign} became {again}"
    assert isinstance(found, Struct)
    types = [Subarray(NUMBERS[each], shape) if shape else NUMBERS[each] for _, each, shape in parts]
    if [field.type for field in found.fields] != types or layout.size_of(found) != foreign.itemsize:
        return f"{foreign} is {found}"
    if any(foreign.itemsize % layout.align_of(found) for _ in (0,)):
        return f"elements of {foreign} are not aligned to {layout.align_of(found)}"
    offsets = [foreign.fields[name][1] for name in foreign.names or ()]
    if list(layout.placement(found).offsets) != offsets:
        return f"the members of {foreign} are at {layout.placement(found).offsets}"
    return None


def loads(choose: random.Random) -> str | None:
    """The accesses of a value: each of its numbers once, in their order, none that is not aligned, as wide as can be."""
    type, align, offset = a_type(choose, 2), choose.choice((1, 2, 4, 8, 16, 32)), choose.choice((0, 0, 4, 8, 16, 6))
    found, leaves = list(layout.accesses(type, align, offset)), layout.leaves(type)
    widths: list[int] = [BYTES[str(leaf)] for leaf in leaves if isinstance(leaf, Number)]
    if len(widths) != len(leaves) or layout.has_leaves(type) != bool(leaves):
        return f"{type} has the leaves {leaves}"
    read = [
        str(layout.machine(access.type))
        for access in found
        for _ in range(access.count)
        if isinstance(access.type, Number)
    ]
    if read != [str(leaf) for leaf in leaves]:
        return f"{type} is read by {found}"
    end = offset
    for access in found:
        size = layout.size_of(access.type) * access.count
        most = min(align, access.offset & -access.offset) if access.offset else align
        if min(access.align, 16) != min(most, 16) or size > 16 or access.offset < end:
            return f"{type} at {offset}, aligned to {align}, is read by {access}"
        if access.count > 1 and access.align < size:
            return f"{type} at {offset}, aligned to {align}, is read by {access}, which is too wide"
        end = access.offset + size
    if end > offset + layout.size_of(type):
        return f"{type} at {offset} is read up to {end}"
    if isinstance(type, Vector) and type.size in (2, 4) and str(type.dtype) != "bool" and not type.dtype.is_complex:
        here = min(align, offset & -offset) if offset else align
        size = layout.size_of(type)
        few = -(-size // 16) if here >= min(size, 16) else type.size
        if len(found) != few:
            return f"{type} at {offset}, aligned to {align}, takes {len(found)} accesses, not {few}"
    return None


# Numbers


def words(choose: random.Random) -> str | None:
    """What others call a number."""
    name = choose.choice([*FIXED])
    number, dtype = NUMBERS[name], FIXED[name]
    rows: list[tuple[str, Any, Any]] = [
        ("bits", number.bits, 8 * dtype.itemsize),
        ("of the dtype", host.element_of_dtype(dtype), number),
        ("dtype", host.dtype_of_element(number), dtype),
        ("of the scalar", host.number_of(dtype.type), number),
        ("of DLPack", host.element_of_dlpack(*host.dlpack_of_element(number)), number),
        ("of the typestr", host.element_of_typestr(host.typestr_of_element(number)), number),
        ("DLPack's bits", host.dlpack_of_element(number)[1], 8 * dtype.itemsize),
        ("integer", number.is_integer, dtype.kind in "iu"),
        ("float", number.is_float, reference.is_float(name)),
        ("complex", number.is_complex, dtype.kind == "c"),
        ("signed", number.signed, dtype.kind not in "bu"),
        ("bfloat", number.bfloat, name == "bfloat16"),
        ("float8", number.is_float8, name in ("float8e4m3", "float8e5m2")),
        ("part", str(number.part), reference.part(name) if dtype.kind == "c" else name),
        ("spelled", host.dtype_of(dtype.type), dtype),
        ("hint", dtypes.numpy_dtype(dtype.type), dtype),
    ]
    if name not in reference.NARROW:
        rows.append(("typestr", host.typestr_of_element(number), dtype.str))
        if dtype.itemsize > 1:
            try:
                host.element_of_typestr(dtype.str.replace("<", ">"))
                return f"{name} of the other byte order is taken"
            except TypeError:
                pass
    if number.is_integer:
        info = np.iinfo(dtype)
        rows += [("least", number.low, int(info.min)), ("greatest", number.high, int(info.max))]
    for other, stored in BUILTIN.items():
        rows.append((f"stored {other}", host.dtype_of_element(NUMBERS[other]), stored))
        rows.append((f"machine {other}", host.dtype_of_element(layout.machine(NUMBERS[other])), stored))
    rows += [(f"Python's {kind}", str(host.number_of(kind)), kind.__name__) for kind in (bool, int, float, complex)]
    rows += [("of Python", host.host_type_of(NUMBERS[kind.__name__]), kind) for kind in (bool, int, float, complex)]
    rows += [("index", host.host_type_of(model.INDEX), int), ("mask", str(layout.machine(model.MASK)), "int32")]
    return next((f"{what} of {name} is {found}, not {wanted}" for what, found, wanted in rows if found != wanted), None)


def promotions(choose: random.Random) -> str | None:
    """Types of results, by the tables of the Array API."""
    names = choose.choice(reference.EVERY), choose.choice(reference.EVERY)
    a, b = (NUMBERS[name] for name in names)
    expected = reference.promote(*names)
    joined = "bool" if names == ("bool", "bool") else expected
    divided = reference.result_type("/", *names)
    rows = [
        ("promote", promote.promote(a, b), expected),
        ("join", promote.join_numbers(a, b), joined),
        ("divide", promote.divide(a, b), divided),
    ]
    function = (
        names[0]
        if reference.is_float(names[0]) or reference.is_complex(names[0])
        else reference.result_type("/", names[0], names[0])
    )
    if not reference.is_complex(names[0]):
        rows.append(("float", promote.to_float(a), function))
    whole = reference.promote(str(promote.to_float(a)) if not a.is_complex else names[0], "complex")
    rows.append(("complex", promote.to_complex(a), whole))
    for what, found, wanted in rows:
        if (None if found is None else str(found)) != wanted:
            return f"{what} of {names} is {found}, not {wanted}"
    return None


def small_floats(choose: random.Random) -> str | None:
    """The bits of numbers of formats that processors do not compute with, as ml_dtypes rounds."""
    for name in reference.NARROW:
        dtype = FIXED[name]
        value = choose.choice(
            (
                0.0,
                -0.0,
                np.inf,
                -np.inf,
                np.nan,
                choose.uniform(-4, 4),
                choose.uniform(-1, 1) * 2.0 ** choose.randint(-20, 20),
                choose.choice((448, 464, 465, 480, 57344, 61440, 61439.99, 65536, 3.3895e38, 3.4e38)),
                float(np.array(choose.getrandbits(7), np.uint8 if dtype.itemsize == 1 else np.uint16).view(dtype))
                * choose.choice((1, 1.0625, 1.03125, 1.03126)),
            )
        )
        with np.errstate(all="ignore"):
            rounded = np.array(value, np.float64).astype(dtype)
        expected = int(rounded.view(np.uint8 if dtype.itemsize == 1 else np.uint16))
        found = float_formats.float_bits(NUMBERS[name], float(value))
        nan = value != value
        if found != expected and not (
            nan
            and np.isnan(
                np.array(found, rounded.view(np.uint8 if dtype.itemsize == 1 else np.uint16).dtype).view(dtype)
            )
        ):
            return f"{value} as {name} is {found:#x}, not {expected:#x}"
    return None


CHECKS = (texts, texts, layouts, layouts, elements, loads, loads, words, promotions, promotions, small_floats)
