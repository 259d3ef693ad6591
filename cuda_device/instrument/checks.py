"""Checked mode at the device level: what our own Python found wrong is told of the user's line, and who may end is known.

Lowering and inference write the checks (`Lowering.check`, `Frame.check`), each a branch to a report and an `exit`. Those
that ended up in a function of ours, such as the one behind `x[i][:]`, are inlined with it:

    call {callee="place"} %i %n        at kernel.py:7      →      its blocks, all of them at kernel.py:7
"""

from __future__ import annotations

from cuda_device.instrument import inline
from cuda_device.ir import ops
from cuda_device.ir.nodes import Function, Module
from cuda_device.ir.ops import Effect


def run(module: Module) -> Module:
    """The module with its checks in their places; changes its functions."""
    propagate(module)
    own = {f.name for f in module.functions if f.location.is_ours and Effect.EXITS in f.effects}
    return inline.run_own(module, own)


def propagate(module: Module) -> None:
    """A function may end its thread if one of its operations does, or one of its callees."""
    for function in module.functions:
        if any(op.code is ops.EXIT for op in function.ops()):
            function.effects |= Effect.EXITS
    changed = True
    while changed:
        changed = False
        for function in module.functions:
            if Effect.EXITS not in function.effects and any(_may_exit(module, function)):
                function.effects |= Effect.EXITS
                changed = True


def _may_exit(module: Module, function: Function) -> list[bool]:
    callees = (module[str(op.attributes["callee"])] for op in function.ops() if op.code is ops.CALL)
    return [Effect.EXITS in callee.effects for callee in callees]
