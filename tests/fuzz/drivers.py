"""Calls of the driver's library: each row is what CUDA's header says, and C gets and gives what Python does.

There need be no driver: a library made of the rows notes what it gets.
"""

from __future__ import annotations

import random

import driver_header

import cuda_device as device
from cuda_device.codegen.gpu import libcuda
from fuzz.cases import Case, due


class Drivers(Case):
    """Some functions and enumerations of the driver."""

    kind = "driver"
    at_once = 2

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.random = random.Random(f"driver {number}")
        names = sorted(driver_header.called())
        self.names, self.enumerations = due(number, names, 8), due(number, [*libcuda.ENUMERATIONS], 2)

    def source(self) -> str:
        return "".join(f"# {name}\n" for name in (*self.names, *self.enumerations))

    def attempt(self, stream: device.Stream) -> str | None:
        symbols = {symbol.partition("_v")[0]: symbol for symbol in libcuda.FUNCTIONS}
        header, stand_in = driver_header.header(), driver_header.stand_in()
        for name in self.names:
            if name not in symbols:
                return f"{name} is called, but has no row"
            if header is not None:
                if driver_header.versions(header).get(name, name) != symbols[name]:
                    return f"{symbols[name]} is not what the header calls {name}"
                if wrong := driver_header.row_differs(header, symbols[name]):
                    return str(wrong)
            if stand_in is not None and (wrong := driver_header.call_differs(stand_in, symbols[name])):
                return str(wrong)
        for name in self.enumerations if header is not None else ():
            theirs = driver_header.enumerations(header)[name]
            for member, value in libcuda.ENUMERATIONS[name].items():
                if theirs.get(member) != value:
                    return f"{member} is {value}, not {theirs.get(member)}"
        return None
