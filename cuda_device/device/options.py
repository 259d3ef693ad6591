"""How to compile: the options that `@kernel`, `@func` and `compile` take.

@device.kernel(checked=True, level=1)
def k(x): ...

device.compile(k, x, level=3)               here the options of `compile` come first, then those of the kernel

A kernel's options hold for all that it calls; those of a `@func` for `compile` of that function alone.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile.

    `level` is LLVM's, 0 to 3; `contract` lets a product and a sum fuse, as nvcc does. `checked` adds checks to the code: of
    indices, divisors, lanes, masks, barriers, and of variables without a value; None leaves it to the environment
    variable CUDA_DEVICE_CHECKED. `races` looks for races, on the CPU alone: the stream says so.
    """

    level: int = 3
    contract: bool = True
    checked: bool | None = None
    races: bool = False

    def resolve(self) -> Options:
        """The same with the environment's answer where there is none."""
        return self if self.checked is not None else dataclasses.replace(self, checked=checked_by_environment())


DEFAULTS = Options()


def checked_by_environment() -> bool:
    """Whether the environment asks for checks."""
    return os.environ.get("CUDA_DEVICE_CHECKED", "") not in ("", "0")


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


_TAKES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "level": (lambda value: type(value) is int and 0 <= value <= 3, "an optimisation level from 0 to 3"),
    "contract": (_is_bool, "True or False"),
    "checked": (lambda value: value is None or isinstance(value, bool), "True, False or None"),
}
NAMES = tuple(_TAKES)


def with_options(options: Options, keywords: Mapping[str, object], who: str, others: tuple[str, ...] = ()) -> Options:
    """`options` with some changed; `others` are names that `who` takes, too.

    An unknown name or a wrong value is a `TypeError`.
    """
    for name, value in keywords.items():
        if name not in _TAKES:
            raise TypeError(f"{who} has no keyword {name!r}: there are {', '.join((*others, *NAMES))}")
        fits, wanted = _TAKES[name]
        if not fits(value):
            raise TypeError(f"{who}({name}=…) takes {wanted}, not {value!r}")
    return dataclasses.replace(options, **keywords)  # type: ignore[arg-type]
