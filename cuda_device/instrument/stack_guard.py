"""Checked mode on the CPU: recursion that would use up the stack is reported, where the process would end without a word.

    ^0:  …        →      ^0:  %1: bool = room
                              branch %1 ^rest() ^reports()

A GPU's driver knows the stack of a launch, and reports what exceeds it. So this is a pass of its own.
"""

from __future__ import annotations

from cuda_device.instrument import checks, fuel
from cuda_device.ir import ops
from cuda_device.ir.builder import Builder
from cuda_device.ir.nodes import Block, Edge, Function, Module, Op
from cuda_device.types.model import BOOL

TOO_DEEP = "the recursion is too deep: the stack is full"


def run(module: Module) -> Module:
    """Changes the functions of a device-level module that may call themselves, and returns it."""
    places = [int(str(op.attributes["place"])) for f in module.functions for op in f.ops() if "place" in op.attributes]
    for place, name in enumerate(sorted(fuel.in_recursion(module)), max(places, default=0) + 1):
        _guard(module[name], place)
    checks.propagate(module)
    return module


def _guard(function: Function, place: int) -> None:
    """Lets a function report at its beginning when the stack is nearly full. The report has the number `place`."""
    entry = function.blocks[0]
    rest, failed = Block(ops=entry.ops), Block()
    location = entry.ops[0].location
    entry.ops = []
    build = Builder(entry, location)
    build.branch(build.op(ops.ROOM, BOOL), Edge(rest, []), Edge(failed, []))
    words = {"status": "check", "message": TOO_DEEP, "help": "write the recursion as a loop", "place": place}
    failed.ops = [Op(ops.REPORT, attributes=words, location=location), Op(ops.EXIT, location=location)]
    function.blocks[1:1] = [failed, rest]
