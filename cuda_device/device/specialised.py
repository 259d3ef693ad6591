"""`specialised`: entities that choose, at compile time, the device function that is called in their place.

@specialised(movmatrix, since=sm75)
def _(x: Known) -> Callable[..., Any]:
    if x.type != UINT32:
        raise CompileError(f"movmatrix takes a uint32, not {x}", help="convert it, as in uint32(…)")
    return _movmatrix
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cuda_device.device.rows import Intrinsic, Typed, entered
from cuda_device.device.target import SMSelector, needing
from cuda_device.types.known import Known, constant
from cuda_device.types.sealed import Sealed

Choice = Callable[..., Callable[..., Any]]


def specialised(
    entity: Callable[..., Any],
    *,
    since: SMSelector | None = None,
    otherwise: str = "",
    options: bool = False,
    check: Callable[..., None] | None = None,
    opens: bool = False,
    seals: tuple[str, str] | None = None,
) -> Callable[[Choice], Choice]:
    """Makes device code call, in place of `entity`, the function that the decorated function returns.

    `entity` is a function whose body raises `DeviceOnlyError`: the host sees its signature and its documentation. For each call
    in device code, the decorated function gets what the compiler knows of every argument, a `Known`, in the order of the
    entity's parameters, with those of `*args` one by one; and, if `options`, the keyword `options`, those of the kernel. It
    returns a plain function, which is compiled as if the program called it with the same arguments, by position; return the same
    function object for the same types. It raises `CompileError` for arguments that it refuses, to which the compiler adds the
    location.

    `since` is the first architecture that has the entity: code for an older one raises `CompileError`, whose help continues
    with `otherwise`, what to write there. `check(module, chosen, options)` is called once for each program with such calls, with
    its typed IR and the returned functions by the names that they have there. It raises `CompileError` if the calls do not fit
    together.

    `seals` is for results that the program may pass on and not read yet: the tuple that the function returns is a sealed tuple,
    which messages call by the first text, with the second one as their help. An entity with `opens` takes sealed tuples, and its
    function gets them as tuples. The `value` of a sealed tuple's `Known` has `newer`, how many the program has sealed since, or
    None if that is not known.
    """

    def decorate(choose: Choice) -> Choice:
        def infer(arguments: Sequence[Known]) -> Typed:
            operands, settings = list(arguments), dict[str, Any]()
            if options:
                settings["options"] = operands.pop().value
            return Typed(constant(None), instead=choose(*operands, **settings))

        name, meaning = entity.__qualname__.rpartition("<locals>.")[2], Sealed(*seals) if seals is not None else None
        row = Intrinsic(entity, name, infer, _never, asks_options=options, check=check, opens=opens, seals=meaning)
        entered(row if since is None else needing(since, otherwise, row))
        return choose

    return decorate


def _never(*_: Any) -> Any:
    raise AssertionError("the chosen function is called instead")
