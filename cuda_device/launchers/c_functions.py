"""What machine code calls: functions of Python's C interface, and those of ours that all launchers share.

A row is a name, the LLVM type of the result, and those of the parameters. New references are marked: who calls gives them back.
"""

from __future__ import annotations

PYTHON = {
    "PyBuffer_Release": ("void", "ptr"),
    "PyCell_Get": ("ptr", "ptr"),  # new
    "PyComplex_ImagAsDouble": ("double", "ptr"),
    "PyComplex_RealAsDouble": ("double", "ptr"),
    "PyDict_GetItemWithError": ("ptr", "ptr", "ptr"),
    "PyErr_Clear": ("void",),
    "PyErr_Occurred": ("ptr",),
    "PyEval_RestoreThread": ("void", "ptr"),
    "PyEval_SaveThread": ("ptr",),
    "PyFloat_AsDouble": ("double", "ptr"),
    "PyLong_AsLongLongAndOverflow": ("i64", "ptr", "ptr"),
    "PyList_Append": ("i32", "ptr", "ptr"),
    "PyLong_AsUnsignedLongLong": ("i64", "ptr"),
    "PyObject_CallOneArg": ("ptr", "ptr", "ptr"),  # new
    "PyObject_GetAttr": ("ptr", "ptr", "ptr"),  # new
    "PyObject_GetBuffer": ("i32", "ptr", "ptr", "i32"),
    "PyObject_RichCompareBool": ("i32", "ptr", "ptr", "i32"),
    "PyObject_VectorcallMethod": ("ptr", "ptr", "ptr", "i64", "ptr"),  # new
    "PyTuple_New": ("ptr", "i64"),  # new
    "PyTuple_SetItem": ("i32", "ptr", "i64", "ptr"),  # takes the reference
    "Py_DecRef": ("void", "ptr"),
    "Py_IncRef": ("void", "ptr"),
}

SHARED = {
    "fits": ("i1", "ptr", "ptr"),
    "start": ("i1", "ptr", "ptr", "ptr"),
    "same_attribute": ("i1", "ptr", "ptr", "ptr"),
    "denies": ("i1", "ptr", "ptr"),
    "same_constant": ("i1", "ptr", "ptr"),
    "int_of": ("i1", "ptr", "i64", "i64", "ptr"),
    "integer": ("i1", "ptr", "ptr"),
    "scalar": ("i1", "ptr", "ptr", "i64"),
    "works_on": ("i1", "ptr", "i64", "ptr"),
    "own_array": ("i1", "ptr", "ptr", "i64", "ptr", "ptr"),
    "cupy_array": ("i1", "ptr", "ptr", "i64", "i64", "ptr"),
    "cupy_works_on": ("i1", "ptr", "ptr", "ptr"),
}
"""Those that a launcher of a signature calls: `support` says what they do."""

WITHIN = {
    "integers": ("i1", "ptr", "i64", "ptr"),
    "octets": ("i1", "ptr", "i64", "ptr"),
    "integer_attribute": ("i1", "ptr", "ptr", "ptr"),
    "int_attribute": ("i1", "ptr", "ptr", "ptr"),
    "integers_attribute": ("i1", "ptr", "ptr", "i64", "ptr"),
    "cupy_memory": ("i1", "ptr", "i64", "ptr"),
    "unchanged": ("i1", "ptr", "i64"),
    "place_of": ("i64", "ptr", "i64", "ptr"),
    "bind": ("i1", "ptr", "ptr", "i64", "ptr", "ptr", "ptr"),
    "size": ("i1", "ptr", "i64", "ptr"),
    "sizes": ("i1", "ptr", "i64", "i64", "i64", "ptr"),
    "find_stream": ("i1", "ptr", "ptr"),
    "foreign_stream": ("i1", "ptr", "ptr"),
    "tuple_of": ("ptr", "ptr", "i64"),
    "stream_pair": ("i1", "ptr", "ptr"),
    "numbered_stream": ("i1", "i64", "ptr"),
    "device_of": ("i1", "ptr", "ptr"),
    "read_launch": ("i1", "ptr", "ptr"),
    "current_context": ("i1", "ptr"),
    "is_here": ("i1", "ptr"),
    "capture_state": ("i1", "i64", "ptr"),
    "read_capture": ("i1", "ptr"),
    "made_on": ("i1", "i64", "ptr"),
    "take_event": ("i1", "ptr", "ptr", "ptr"),
    "give_event": ("i1", "ptr", "ptr", "ptr"),
    "keep_until": ("i1", "ptr", "ptr"),
    "wait_for_producers": ("i1", "ptr", "i64"),
    "hold_producers_back": ("i1", "ptr", "i64"),
    "record_of": ("ptr", "ptr", "i64"),
    "try_plans": ("i1", "ptr", "ptr", "i64", "ptr"),
    "try_launch": ("i1", "ptr", "i64", "ptr"),
}

CALLED = SHARED | WITHIN


def symbol_of(name: str) -> str:
    """The symbol of a function of ours: no other in the process has it."""
    return f"cuda_device.{name}"


def declarations() -> str:
    """The text that declares Python's functions."""
    return "".join(f"declare {result} @{name}({', '.join(types)})\n" for name, (result, *types) in PYTHON.items())


def shared_declarations() -> str:
    """The text that declares those of ours that all launchers share."""
    rows = SHARED.items()
    return "".join(f"declare {result} @{symbol_of(name)}({', '.join(types)})\n" for name, (result, *types) in rows)
