"""`LoadedKernel`: a kernel that was compiled ahead of time, for some architectures and types of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuda_device import CallError, Compiled, GpuStream, LaunchError, Stream
from cuda_device.extend import (
    Argument,
    CompiledKernel,
    LaunchSizes,
    architectures,
    as_stream,
    driver,
    kernel_of,
    start_variant,
    users_traceback,
)


class LoadedKernel:
    """A kernel compiled ahead of time; `variants` lists its architectures and argument types."""

    def __init__(self, name: str, variants: tuple[Compiled, ...]) -> None:
        self.name, self.variants = name, variants
        self._kernels: dict[object, CompiledKernel] = {}
        self._fits: dict[tuple[int, int], list[tuple[Compiled, str]]] = {}

    def __repr__(self) -> str:
        described = "; ".join(
            f"({', '.join(p.type for p in variant.parameters)}) on {variant.target} as {variant.output}"
            for variant in self.variants
        )
        return f"<loaded kernel {self.name}: {described}>"

    @users_traceback
    def launch(
        self,
        /,
        *args: Any,
        grid: Any = None,
        block: Any = None,
        stream: Any = None,
        shared: int = 0,
        threads: Any = None,
        cluster: Any = None,
        dependent: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Launches the variant for the stream's GPU and these arguments, with the keywords of `device.launch`.

        Python numbers are converted to the types that the variant was compiled for. Raises `LaunchError` if there is no variant
        for the GPU, or if no variant takes the arguments; in the second case, the error is a `TypeError` as well.
        """
        where = as_stream(stream)
        refused: list[LaunchError] = []
        for variant, target in self._for(where):
            assert isinstance(where, GpuStream)
            try:
                arguments = variant.record.signature.arguments(args, kwargs, where)
            except LaunchError as error:
                refused.append(error)
                continue
            kernel = self._kernel(variant, target, arguments)
            start_variant(kernel, where, LaunchSizes(grid, block, shared, threads, cluster, dependent), arguments)
            return
        if len(refused) == 1:
            raise refused[0]
        reasons = "; ".join(dict.fromkeys(error.reason for error in refused))
        raise CallError(
            f"no variant of {self.name} takes these arguments: {reasons}", "build the kernel for these types as well"
        )

    def _for(self, stream: Stream) -> Sequence[tuple[Compiled, str]]:
        """The variants for a stream's GPU with their targets: machine code of the nearest architecture, or else PTX."""
        known = self._fits.get(driver.properties(stream.ordinal).capability) if isinstance(stream, GpuStream) else None
        if known is not None:
            return known
        if not all(variant.record.is_loadable for variant in self.variants):
            raise LaunchError(
                f"{self.name} ({self.variants[0].output}) is not a kernel that a GPU can load",
                "compile a kernel to 'cubin', 'fatbin' or 'ptx'",
            )
        targets = ", ".join(dict.fromkeys(f"{variant.target} ({variant.output})" for variant in self.variants))
        if not isinstance(stream, GpuStream):
            raise LaunchError(
                f"{self.name} was compiled for {targets}, but the stream is a CPU stream",
                "launch on a GPU stream; on the CPU, launch the original kernel with device.launch",
            )
        major, minor = driver.properties(stream.ordinal).capability
        here = 10 * major + minor
        fits = [(rank, variant) for variant in self.variants if (rank := _rank(variant, here)) is not None]
        if not fits:
            raise LaunchError(
                f"{self.name} was compiled for {targets}, but this GPU is sm_{here}",
                f"build it for sm_{here}, or as PTX",
            )
        best = max(rank for rank, _ in fits)
        self._fits[major, minor] = fitting = [(variant, rank[-1]) for rank, variant in fits if rank == best]
        return fitting

    def _kernel(self, variant: Compiled, target: str, arguments: Sequence[Argument]) -> CompiledKernel:
        known = tuple(argument.known for argument in arguments)
        kernel = self._kernels.get((variant, *known))
        if kernel is None:
            kernel = self._kernels[variant, *known] = kernel_of(variant, target, known)
        return kernel


def _rank(compiled: Compiled, here: int) -> tuple[int, int, str] | None:
    """The rank of code for a GPU, with the target that fits; None if the GPU cannot run it."""
    ranks = []
    for name in compiled.target.split(", "):
        made_for = architectures.parse(name)
        exact = made_for.number == here
        is_plain = name == f"sm_{made_for.number}"
        if compiled.output == "ptx":
            if exact or (is_plain and made_for.number <= here):
                ranks.append((0, made_for.number, name))
        elif exact or (
            (is_plain or name.endswith("f")) and made_for.number // 10 == here // 10 and made_for.number <= here
        ):
            ranks.append((1, made_for.number, name))
        elif name == compiled.record.ptx and is_plain and made_for.number <= here:
            ranks.append((0, made_for.number, name))  # by the PTX in the fatbin
    return max(ranks, default=None)
