"""`@host_function`: lets host functions accept the arguments of kernels and run in stream order.

@host_function
def total(g: Globals):
    return float(np.asarray(g.out).sum())

total((weights, out))                       # with Globals.of(weights, out)
later = total(g, stream=stream)             # when the stream comes to it: a concurrent.futures.Future
later.result()
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import itertools
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from cuda_device import GpuStream, LaunchError
from cuda_device.extend import DecoratedFunction, as_stream, as_type, defaults_of, driver, parameters_of

if TYPE_CHECKING:
    from concurrent.futures import Future

Call = tuple["Future[Any]", Callable[[], Any]]


class HostFunction(DecoratedFunction):
    """The result of `host_function`; `underlying` is the decorated function.

    A call runs the function and returns its result. With `stream=`, the function runs in the order of the stream, after the
    work that is already queued and before later work, and the call returns a `concurrent.futures.Future`. On a CPU stream, the
    function has finished when the call returns. On a GPU stream, a thread of the driver calls the function. That thread cannot
    use CUDA: the function must not launch kernels, copy from the GPU (as `numpy()` does) or wait for the GPU. If the function
    raises an exception, it is logged, and the Future's `result()` raises it. If the context breaks first, the driver never
    calls the function, so pass a timeout to `result`.

    Raises `TypeError` and `LaunchError` for arguments that do not fit, and `LaunchError` while the stream is being captured.
    """

    def _parts(self) -> tuple[Any, ...]:
        return (self.underlying,)

    def __call__(self, *args: Any, stream: Any = None, **kwargs: Any) -> Any:
        """Converts the arguments to the type hints, and runs the function, on `stream` if given."""
        bound = self._converted(args, kwargs)
        call = functools.partial(self.underlying, *bound.args, **bound.kwargs)
        if stream is None:
            return call()
        from concurrent.futures import Future

        where, future = as_stream(stream), Future[Any]()
        if where.is_captured:
            raise LaunchError(
                "the stream is being captured into a graph, which could run the host function many times for one Future",
                "call it on a stream that is not captured, or add a host node to the graph",
            )
        if isinstance(where, GpuStream):
            _enqueue(where, (future, call))
        else:
            _run((future, call))
        return future

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _converted(self, args: Any, kwargs: Any) -> inspect.BoundArguments:
        """The arguments and defaults, converted to the type hints of their parameters. None stays None."""
        bound = inspect.signature(self.underlying).bind(*args, **kwargs)
        bound.arguments = defaults_of(self.underlying) | bound.arguments
        for name, hint in parameters_of(self.underlying).hints.items():
            if (value := bound.arguments.get(name)) is not None:
                bound.arguments[name] = as_type(value, hint, name)
        return bound

    def __repr__(self) -> str:
        return f"<host function {self.underlying.__qualname__}>"


def host_function(function: Callable[..., Any], /) -> HostFunction:
    """Makes a host function accept the arguments of a kernel and convert them to its type hints.

    A parameter with a struct `T` as its hint takes a `T`, or a tuple or dict that `T.of` converts. With `ArrayType(…)` it takes
    an array of any library, like `as_array`; with a number type, what a struct's member of that type takes. Parameters without
    such hints take anything, and all parameters take None, as those of kernels do. Raises `TypeError` if `function` is not a
    plain function, and for a parameter called stream.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"@host_function decorates a Python function, not {function!r}")
    if "stream" in inspect.signature(function).parameters:
        raise TypeError("a parameter cannot be called 'stream', which says when a host function runs")
    return HostFunction(function)


# The calls that streams have not run yet, by the number that the driver passes to `_run_number`.
_waiting: dict[int, Call] = {}
_numbers = itertools.count(1)


def _run(call: Call) -> None:
    future, function = call
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)
            import logging

            logging.getLogger("cuda_device").warning(
                "a host function raised in the order of its stream", exc_info=error
            )


def _run_number(number: int) -> None:
    _run(_waiting.pop(number))


_CALLED = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_run_number)


def _enqueue(stream: GpuStream, call: Call) -> None:
    """Makes the driver run the call in the order of the stream."""
    with stream.using():
        number = next(_numbers)
        _waiting[number] = call
        try:
            answer = driver.bindings().cuLaunchHostFunc(
                stream.handle, ctypes.cast(_CALLED, ctypes.c_void_p).value or 0, number
            )
            driver.check(answer, "putting a host function into a stream")
        except BaseException:
            del _waiting[number]
            raise
