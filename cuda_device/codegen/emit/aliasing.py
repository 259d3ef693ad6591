"""What LLVM is told of memory where launches have checked that no array that a kernel writes overlaps another.

    load float, ptr addrspace(1) %v5, align 4, !alias.scope !1002, !noalias !1005, !invariant.load !1006

An access belongs to the scope of the array that its address comes from, and meets none of the other scopes. Loads of what
the kernel never writes always give the same, so a GPU may read them through its cache for constants (`ld.global.nc`); but
not where atomics, fences or foreign code may wait for another kernel's writes.

Parameters with `noalias` would say more than is true: LLVM then carries values over barriers.
"""

from __future__ import annotations

from cuda_device.codegen.emit.metadata import Metadata
from cuda_device.ir import ops
from cuda_device.ir.nodes import Module, Value
from cuda_device.ir.ops import Effect
from cuda_device.optimise import points_to
from cuda_device.optimise.points_to import Roots
from cuda_device.types.model import Ref, Space


class Aliasing:
    """What accesses of one module say; in functions, those of the arrays that any of their calls brings."""

    def __init__(self, module: Module, metadata: Metadata, constant_cache: bool) -> None:
        main = module.main
        self.metadata = metadata
        self.arrays = [i for i, param in enumerate(main.params) if isinstance(param.type, Ref)]
        self.roots = points_to.of_launch(module)
        self.written: Roots = frozenset(self.arrays[number] for number in points_to.written(module))
        self.constant_cache = constant_cache and not any(
            Effect.SPINS in op.code.effects or op.code in (ops.FENCE, ops.EXTERN)
            for function in module.functions
            for op in function.ops()
        )

    def store(self, reference: Value) -> str:
        """What a store says."""
        found = self.roots.get(reference)
        if not found or not isinstance(reference.type, Ref) or reference.type.space is not Space.GLOBAL:
            return ""
        others = [i for i in self.arrays if i not in found]
        text = f", !alias.scope {self._scopes(sorted(found))}"
        return text + (f", !noalias {self._scopes(others)}" if others else "")

    def load(self, reference: Value) -> str:
        """What a load says."""
        text = self.store(reference)
        if text and self.constant_cache and not self.roots[reference] & self.written:
            text += f", !invariant.load {self.metadata.node('!{}')}"
        return text

    def _scopes(self, arrays: list[int]) -> str:
        domain = self.metadata.node('!{!"arrays of a launch"}')
        scopes = [self.metadata.node(f'!{{!"array {i}", {domain}}}') for i in arrays]
        return self.metadata.node(f"!{{{', '.join(scopes)}}}")
