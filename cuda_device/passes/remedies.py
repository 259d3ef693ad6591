"""What to write instead: the `help` of errors about Python constructs and builtins that device code does not have."""

from __future__ import annotations

import numpy as np

CONSTRUCTS = {
    "a set": "use a tuple",
    "a dict": "use a tuple, or pass arrays",
    "a comprehension": "write a for loop, or make a list or tuple",
    "a generator expression that a variable keeps": "write it where it is used, as in sum(… for …), or make a tuple of it",
    "a generator expression that is returned": "return tuple(… for …)",
    "nonlocal": "return the value, or write it to an array: nested functions only read what they capture",
    "try": "there are no exceptions to catch in device code: test with if",
    "with": "device code has no context managers",
    "yield": "return the values in a tuple, or write them to an array",
    "async": "device code has no coroutines",
    "import": "import at the top of the module",
    "assignment to a global variable": "write to an array that the kernel takes as an argument",
    "del of a global variable": "device code cannot change globals",
    "class": "define it outside of the kernel",
    "a call with **kwargs": "write the arguments one by one",
    "del of an item": "arrays keep their size",
    "an assignment to an attribute": "only elements of arrays are assigned to",
    "raise without an exception": "write raise ValueError('why')",
    "a mapping pattern of match": "match numbers, strings and tuples",
    "a class pattern of match": "match numbers, strings and tuples",
}

_CALLS: dict[object, str] = {
    print: "store values in an array and print them on the host",
    sorted: "sort on the host, or write the algorithm",
    open: "read the file on the host",
    input: "pass the value to the kernel as an argument",
}


def of_call(function: object) -> str:
    """What to do instead of calling `function`."""
    try:
        known = _CALLS.get(function)
    except TypeError:
        known = None
    if known:
        return known
    if isinstance(function, np.ufunc):
        return f"use math.{function.__name__}, if there is one"
    if isinstance(function, type):
        return "device code makes numbers, vectors, tuples, and classes with @struct"
    return "write it as a Python function, or compute it on the host"
