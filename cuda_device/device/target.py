"""`target` and target descriptions, with which code tests what it is compiled for ('Target Specialization').

    if device.target(device.provides(device.sm90)):     decided at compile time: the other branch is not compiled
        …
    elif device.target(device.is_host):                 true where a @func runs as ordinary Python
        …

A description is a set of targets, so `|`, `&` and `~` are set operations. Each set has a single object, because inference
compares compile-time objects by identity.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cuda_device.device.entities import CompileTime
from cuda_device.device.rows import Intrinsic, Typed, constant_of, entered
from cuda_device.errors import CompileError
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.types.known import Known, constant

if TYPE_CHECKING:
    from cuda_device.device.lowering import Lowering, Tree

_HOST = "host"


@dataclass(frozen=True, slots=True)
class SMSelector:
    """One CUDA architecture: `sm90` is `SMSelector(90)`, `sm90a` is `SMSelector(90, "a")`.

    `number` is the compute capability times ten; `variant` is "", "a" (features of exactly this architecture) or "f" (features
    of its family). Specification: 'Target Specialization'.
    """

    number: int
    variant: str = ""

    def __repr__(self) -> str:
        return f"sm{self.number}{self.variant}"

    def __reduce__(self) -> tuple[Any, ...]:
        return selector, (f"sm_{self.number}{self.variant}",)

    @property
    def name(self) -> str:
        """The name that assemblers use: "sm_90a"."""
        return f"sm_{self.number}{self.variant}"

    def provides(self, other: SMSelector) -> bool:
        """Returns whether code for this target may use the features of `other`.

        Every architecture has the features of all earlier ones, with two exceptions: only an `a` variant has its own features,
        and the features of an `f` variant are only in the `a` and `f` variants of later architectures of its family.
        """
        if other.variant == "a":
            return self == other
        if other.variant == "f" and (not self.variant or self.number // 10 != other.number // 10):
            return False
        return self.number >= other.number

    def is_exactly(self, other: SMSelector) -> bool:
        """Returns whether this target has the number of `other`, and its variant if `other` has one."""
        return self == other or (not other.variant and self.number == other.number)


class TargetDescription(CompileTime):
    """A set of targets, made by `is_exactly`, `provides` and the operators `|`, `&` and `~`.

    Specification: 'Target Specialization'.
    """

    __slots__ = ("_targets", "_text")

    def __init__(self, targets: frozenset[object], text: str) -> None:
        self._targets, self._text = targets, text

    def matches(self, target: SMSelector | None) -> bool:
        """Returns whether this set contains a GPU's architecture, or, for None, the host."""
        return (target or _HOST) in self._targets

    def __or__(self, desc: TargetDescription) -> TargetDescription:
        """Matches what either matches."""
        if not isinstance(desc, TargetDescription):
            return NotImplemented
        return _describe(self._targets | desc._targets, f"({self} | {desc})")

    def __and__(self, desc: TargetDescription) -> TargetDescription:
        """Matches what both match."""
        if not isinstance(desc, TargetDescription):
            return NotImplemented
        return _describe(self._targets & desc._targets, f"({self} & {desc})")

    def __invert__(self) -> TargetDescription:
        """Matches what this does not match."""
        return _describe(_EVERY - self._targets, f"~{self}")

    def __bool__(self) -> bool:
        raise TypeError(f"{self} has no truth value: write target({self}), and combine descriptions with &, | and ~")

    def __repr__(self) -> str:
        return self._text

    def __reduce__(self) -> tuple[Any, ...]:
        return _describe, (self._targets, self._text)


_DESCRIPTIONS: dict[frozenset[object], TargetDescription] = {}


def _describe(targets: Iterable[object], text: str) -> TargetDescription:
    """Returns the description of this set of targets; `text` is the `repr` of a new one."""
    key = frozenset(targets)
    return _DESCRIPTIONS.setdefault(key, TargetDescription(key, text))


sm20, sm21, sm30, sm32, sm35, sm37 = map(SMSelector, (20, 21, 30, 32, 35, 37))
sm50, sm52, sm53 = map(SMSelector, (50, 52, 53))
sm60, sm61, sm62 = map(SMSelector, (60, 61, 62))
sm70, sm72, sm75 = map(SMSelector, (70, 72, 75))
sm80, sm86, sm87, sm88, sm89 = map(SMSelector, (80, 86, 87, 88, 89))
sm90, sm90a = (SMSelector(90, variant) for variant in ("", "a"))
sm100, sm100a, sm100f = (SMSelector(100, variant) for variant in ("", "a", "f"))
sm101, sm101a, sm101f = (SMSelector(101, variant) for variant in ("", "a", "f"))
sm103, sm103a, sm103f = (SMSelector(103, variant) for variant in ("", "a", "f"))
sm110, sm110a, sm110f = (SMSelector(110, variant) for variant in ("", "a", "f"))
sm120, sm120a, sm120f = (SMSelector(120, variant) for variant in ("", "a", "f"))
sm121, sm121a, sm121f = (SMSelector(121, variant) for variant in ("", "a", "f"))

SELECTORS: dict[str, SMSelector] = {row.name: row for row in list(globals().values()) if isinstance(row, SMSelector)}
"""Every architecture that programs can name, by the name for assemblers, including older ones that are not compiled for."""
_DEVICES: frozenset[object] = frozenset(SELECTORS.values())
_EVERY = _DEVICES | {_HOST}

any_target = _describe(_EVERY, "any_target")
no_target = _describe((), "no_target")
is_host = _describe((_HOST,), "is_host")
is_device = _describe(_DEVICES, "is_device")


def selector(name: str) -> SMSelector:
    """Returns the selector of an architecture by its name for assemblers."""
    return SELECTORS[name]


@functools.cache
def _matching(test: Callable[[SMSelector, SMSelector], bool], sm: SMSelector) -> TargetDescription:
    return _describe((row for row in SELECTORS.values() if test(row, sm)), f"{test.__name__}({sm})")


def _check_selector(sm: object, name: str) -> SMSelector:
    if not isinstance(sm, SMSelector):
        raise TypeError(f"{name} takes an architecture such as sm90, not {sm!r}")
    return sm


def is_exactly(sm: SMSelector) -> TargetDescription:
    """Describes the target `sm` and no other: `is_exactly(sm90)` is `__CUDA_ARCH__ == 900`.

    `is_exactly(sm90)` also matches sm_90a, which is the same hardware; `is_exactly(sm90a)` does not match sm_90. Works on
    host and device. Raises `TypeError` if `sm` is not an `SMSelector`. Specification: 'Target Specialization'.
    """
    return _matching(SMSelector.is_exactly, _check_selector(sm, "is_exactly"))


def provides(sm: SMSelector) -> TargetDescription:
    """Describes every target that has the features of `sm`: `provides(sm90)` is `__CUDA_ARCH__ >= 900`.

    Only sm_90a has the features of `sm90a`. The features of `sm100f` are those of the `a` and `f` variants of its family,
    from sm_100 on. Works on host and device. Raises `TypeError` if `sm` is not an `SMSelector`. Specification: 'Target
    Specialization'.
    """
    return _matching(SMSelector.provides, _check_selector(sm, "provides"))


def target(desc: TargetDescription) -> bool:
    """Returns whether the calling code runs on a target that `desc` matches.

    In device code the result is a constant: an `if` on it is decided at compile time, and the branch that is not taken may
    use features that this target lacks. On the CPU stream, kernels see the architecture that the stream emulates. In host
    code only `is_host` matches. Raises `TypeError` if `desc` is not a `TargetDescription`. Specification: 'Target
    Specialization'.
    """
    return _described(desc).matches(None)


_SELECTORS = "write target(provides(sm90)), for example"


def _described(desc: object) -> TargetDescription:
    if not isinstance(desc, TargetDescription):
        help = f": write is_exactly({desc}) or provides({desc})" if isinstance(desc, SMSelector) else ""
        raise TypeError(f"target takes a description of targets, such as provides(sm90), not {desc!r}{help}")
    return desc


_OR_LATER = {"": " or later", "a": "", "f": " or later in its family"}


def needing(least: SMSelector, otherwise: str, row: Intrinsic) -> Intrinsic:
    """The row, with an error on targets older than `least`; `otherwise` is an alternative for the help."""

    def infer(arguments: Sequence[Known]) -> Typed:
        *operands, machine = arguments
        selector = machine.value
        assert selector is None or isinstance(selector, SMSelector)
        if selector is None or not selector.provides(least):
            needed = f"{least.name}{_OR_LATER[least.variant]}"
            raise CompileError(
                f"{row.name} needs {needed}, and this is compiled for {selector.name if selector else 'the host'}",
                help=f"test target(provides({least})) first" + (otherwise and f", and {otherwise}"),
            )
        return row.infer(operands)

    return replace(row, infer=infer, asks_target=True)


def _infer_target(arguments: Sequence[Known]) -> Typed:
    desc, machine = (constant_of(argument, "desc") for argument in arguments)
    assert machine is None or isinstance(machine, SMSelector)
    try:
        return Typed(constant(_described(desc).matches(machine)))
    except TypeError as error:
        raise CompileError(str(error), help=_SELECTORS) from None


def _description(entity: Callable[[SMSelector], TargetDescription]) -> Intrinsic:
    """The row of a function that returns a description."""

    def infer(arguments: Sequence[Known]) -> Typed:
        try:
            return Typed(constant(entity(constant_of(arguments[0], "sm"))))  # type: ignore[arg-type]
        except TypeError as error:
            raise CompileError(str(error), help=_SELECTORS) from None

    return Intrinsic(entity, entity.__name__, infer, _nothing)


def _nothing(_: Lowering, __: Sequence[Tree], ___: Typed) -> Tree:
    raise AssertionError("a constant is never lowered")


ROWS = entered(
    Intrinsic(target, "target", _infer_target, _nothing, asks_target=True),
    _description(is_exactly),
    _description(provides),
)
