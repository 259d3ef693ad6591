"""`torch_op`, `jax_op` and `tvm_ffi_function`: make operators of PyTorch, JAX and TVM-FFI from kernels.

    swish = torch_op("example::swish", swish_kernel, outputs={"y": "x"}, backward=swish_backward)
    swish = jax_op("example.swish", swish_kernel, outputs={"y": "x"}, backward=swish_backward)
    y = swish(x)                         # under torch.compile and autograd, under jax.jit and jax.grad

A kernel writes to its arguments, whereas an operator returns its results. `outputs` therefore says which parameters of the
kernel are results, and what shapes and dtypes they have. The other parameters are those of the operator. Each framework is
imported when its function is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import GenericAlias
from typing import TYPE_CHECKING, Any

import numpy as np

from cuda_device import DeviceArray, Kernel, LaunchError, Stream, as_array, cpu_stream, launch
from cuda_device.extend import array_view, as_stream, check_kernel, defaults_of, model, parameters_of, replace

if TYPE_CHECKING:
    from cuda_device import BoundKernel

_NUMBERS = {
    model.NumberKind.BOOL: bool,
    model.NumberKind.UINT: int,
    model.NumberKind.INT: int,
    model.NumberKind.FLOAT: float,
}
_targets: dict[str, Callable[..., None]] = {}
"""The function for each target of JAX's FFI; a process has one target of each name."""
_Outputs = Mapping[str, "str | Callable[..., Any]"]


def torch_op(
    name: str,
    kernel: Kernel | BoundKernel,
    /,
    *,
    outputs: _Outputs | None = None,
    mutates_args: Sequence[str] = (),
    backward: Callable[..., Any] | None = None,
) -> Any:
    """Makes a PyTorch operator from a kernel: the `CustomOpDef` of `torch.library.custom_op(name, …)`.

    `outputs` maps each kernel parameter that is a result to the name of a parameter with the same shape and dtype, or to a
    callable that takes the operator's arguments and returns an empty tensor, such as `lambda x: x.new_empty(len(x))`.
    `torch.compile` also calls it to find the shape of the result. The operator returns one tensor if there is one output, a
    tuple if there are several, and None if there are none. `mutates_args` names the parameters that the kernel changes; it must
    not change others.

    The operator's parameters are those of the kernel without the outputs. Those with a number type as their hint (`gain:
    float`, `n: int32`) take numbers; all others take tensors. The kernel runs on PyTorch's current stream of the tensors' GPU,
    or on a CPU stream, with one thread for each element of the first output; use `kernel.bind(grid=…)` for other sizes.

    `backward(*gradients, *arguments)` takes the gradient of each output and the operator's arguments. It returns the gradient,
    or None, for each tensor among the arguments. It must consist of differentiable operations, such as other operators.

    Raises `LaunchError` for unknown parameters, and `ImportError` without PyTorch. PyTorch raises an error for an invalid name.
    """
    operator = _Operator(kernel, outputs or {}, mutates_args)
    torch = _framework("torch")
    hints = {
        parameter: _number(parameter, operator.numbers[parameter]) if parameter in operator.numbers else torch.Tensor
        for parameter in operator.inputs
    }

    def empty(*args: Any) -> Any:
        return _result(operator.results(operator.values(*args), torch.empty_like))

    def run(*args: Any) -> Any:
        args = operator.values(*args)  # PyTorch omits arguments that are defaults
        produced = operator.results(args, torch.empty_like)
        named = dict(zip((*operator.inputs, *operator.outputs), (*args, *produced), strict=True))
        tensors = {parameter: value.detach() for parameter, value in named.items() if isinstance(value, torch.Tensor)}
        device = next(iter(tensors.values())).device
        stream = torch.cuda.current_stream(device) if device.type == "cuda" else cpu_stream()
        operator.launch(named | tensors, stream)
        return _result(produced)

    results = (torch.Tensor,) * len(operator.outputs)
    returned = GenericAlias(tuple, results) if len(results) > 1 else _result(results)
    run.__signature__ = operator.signature(hints, returned)  # type: ignore[attr-defined]
    made_op = torch.library.custom_op(name, run, mutates_args=tuple(mutates_args))
    made_op.register_fake(empty)
    if backward is not None:

        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*(value for value in inputs if isinstance(value, torch.Tensor)))
            ctx.numbers = [None if isinstance(value, torch.Tensor) else value for value in inputs]

        def derivative(ctx: Any, *gradients: Any) -> Any:
            tensors = iter(ctx.saved_tensors)
            args = [next(tensors) if number is None else number for number in ctx.numbers]
            of_tensors = iter(_gradients(backward(*gradients, *args), len(ctx.saved_tensors)))
            return tuple(next(of_tensors) if number is None else None for number in ctx.numbers)

        made_op.register_autograd(derivative, setup_context=keep)
    return made_op


def jax_op(
    name: str,
    kernel: Kernel | BoundKernel,
    /,
    *,
    outputs: _Outputs,
    backward: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Makes a function of JAX arrays from a kernel, for CPUs and GPUs, through JAX's FFI (`pip install jax-tvm-ffi`).

    `outputs` maps each kernel parameter that is a result to the name of a parameter with the same shape and dtype, or to a
    callable that takes the function's arguments and returns a `jax.ShapeDtypeStruct`. The function's parameters are those of
    the kernel without the outputs. Arguments that are Python or NumPy numbers become constants of the compiled program, and are
    passed to the kernel unchanged. All others are arrays, which the kernel may only read. The function returns one array if
    there is one output, and otherwise a tuple. It works under `jit`, and under `vmap` with one launch for each item.

    The kernel runs in the order of JAX's work, with one thread for each element of the first output; use `kernel.bind(grid=…)`
    for other sizes. `name` identifies the operator in compiled programs, including those that JAX caches on disk. A later
    operator with the same name replaces it.

    `backward(*gradients, *arguments)` takes the gradient of each output and the function's arguments. It returns the gradient,
    or None, for each array among the arguments.

    Raises `LaunchError` for unknown parameters and if there are no outputs, and `ImportError` without JAX or jax-tvm-ffi. JAX
    reports an error of the launch with the same message.
    """
    operator = _Operator(kernel, outputs)
    if not outputs:
        raise LaunchError(
            "a JAX operator must have outputs, because JAX's arrays cannot change", 'write outputs={"y": "x"}'
        )
    jax, ffi, tvm = (_framework(package) for package in ("jax", "jax_tvm_ffi", "tvm_ffi"))

    @cache
    def target(kinds: tuple[tuple[str, type], ...]) -> str:
        """The name of the target for calls with numbers of these types as these parameters."""
        numbers = dict(kinds)
        order = [*numbers, *(parameter for parameter in operator.inputs if parameter not in numbers), *operator.outputs]

        def run(*values: Any) -> None:
            stream = _stream(tvm, values)
            named = dict(zip(order, values, strict=True))
            converted = {parameter: numbers[parameter](named[parameter]) for parameter in numbers}
            arrays = {parameter: value for parameter, value in named.items() if parameter not in numbers}
            operator.launch(converted | operator.lent(arrays, stream), stream)

        def newest(*values: Any) -> None:
            _targets[full](*values)

        full = f"{name}({', '.join(f'{parameter}: {type.__name__}' for parameter, type in numbers.items())})"
        if full not in _targets:
            for platform in ("cpu", "gpu"):
                spec = [*(f"attrs.{parameter}" for parameter in numbers), "args", "rets"]
                ffi.register_ffi_target(full, tvm.convert(newest), spec, platform=platform, pass_owned_tensor=True)
        _targets[full] = run
        return full

    def call(*args: Any, **kwargs: Any) -> Any:
        values = operator.values(*args, **kwargs)
        isnumber = [isinstance(value, (bool, int, float, np.generic)) for value in values]
        operator.check_numbers(values, isnumber)
        inputs = zip(operator.inputs, values, isnumber, strict=True)
        numbers = {parameter: value for parameter, value, number in inputs if number}
        where = target(tuple((parameter, type(value)) for parameter, value in numbers.items()))
        attributes = {parameter: np.asarray(value)[()] for parameter, value in numbers.items()}

        def all_of(arrays: Sequence[Any]) -> list[Any]:
            rest = iter(arrays)
            return [value if number else next(rest) for value, number in zip(values, isnumber, strict=True)]

        def forward(*arrays: Any) -> Any:
            shapes = operator.results(all_of(arrays), lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
            results = jax.ffi.ffi_call(where, shapes, vmap_method="sequential")(*arrays, **attributes)
            return _result(results)

        arrays = [jax.numpy.asarray(value) for value, number in zip(values, isnumber, strict=True) if not number]
        if backward is None:
            return forward(*arrays)
        differentiable = jax.custom_vjp(forward)

        def derivative(kept: Sequence[Any], gradients: Any) -> tuple[Any, ...]:
            several = gradients if isinstance(gradients, tuple) else (gradients,)
            return _gradients(backward(*several, *all_of(kept)), len(kept))

        differentiable.defvjp(lambda *kept: (forward(*kept), kept), derivative)
        return differentiable(*arrays)

    call.__name__, call.__doc__ = operator.kernel.__name__, operator.kernel.__doc__
    call.__signature__ = operator.signature()  # type: ignore[attr-defined]
    return call


def tvm_ffi_function(kernel: Kernel | BoundKernel, /) -> Any:
    """Makes a `tvm_ffi.Function` from a kernel, for callers in C++, Rust and Python (`pip install apache-tvm-ffi`).

    The function takes the kernel's arguments: tensors with DLPack, and numbers. The kernel runs on TVM-FFI's current stream of
    the first tensor's GPU (`tvm_ffi.use_torch_stream()`), or on a CPU stream, with one thread for each element of the first
    tensor; use `kernel.bind(grid=…)` for other sizes. Raises `ImportError` without TVM-FFI. The caller gets an error of the
    launch with the same message.
    """
    operator = _Operator(kernel, {})
    tvm = _framework("tvm_ffi")

    def run(*values: Any) -> None:
        operator.launch(dict(zip(operator.names, operator.values(*values), strict=True)), _stream(tvm, values))

    return tvm.convert(run)


class _Operator:
    """A kernel whose parameters are inputs and outputs."""

    def __init__(self, kernel: Kernel | BoundKernel, outputs: _Outputs, changed: Sequence[str] = ()) -> None:
        inner = getattr(kernel, "kernel", None)  # of a `BoundKernel`, whose plugin need not be installed
        self.kernel: Kernel = inner if isinstance(inner, Kernel) else kernel  # type: ignore[assignment]
        check_kernel(self.kernel)
        parameters = parameters_of(self.kernel.underlying)
        self.names, self.outputs = parameters.names, dict(outputs)
        self.inputs = tuple(name for name in self.names if name not in outputs)
        self.numbers = {name: hint for name, hint in parameters.hints.items() if isinstance(hint, model.Number)}
        self._written = (*outputs, *changed)
        self._bound: Any = None if self.kernel is kernel else kernel
        for name in self._written:
            if name not in self.names:
                raise LaunchError(
                    f"{self.kernel.__name__} has no parameter {name!r}", f"its parameters are {', '.join(self.names)}"
                )
        for name, like in outputs.items():
            if not callable(like) and like not in self.inputs:
                raise LaunchError(
                    f"the output {name!r} of {self.kernel.__name__} is like {like!r}, which is not an argument",
                    f"give one of {', '.join(self.inputs)}, or a function of these arguments",
                )

    def signature(self, hints: Mapping[str, Any] | None = None, returned: Any = None) -> inspect.Signature:
        """The signature of the operator."""
        defaults, hints = defaults_of(self.kernel.underlying), hints or {}
        kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
        inputs = [
            inspect.Parameter(name, kind, default=defaults.get(name, empty), annotation=hints.get(name, empty))
            for name in self.inputs
        ]
        return inspect.Signature(inputs, return_annotation=returned if hints else empty)

    def values(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The inputs of a call, with defaults."""
        bound = self.signature().bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args

    def check_numbers(self, values: Sequence[Any], isnumber: Sequence[bool]) -> None:
        """Raises `LaunchError` if JAX traces a value for a parameter that is a number."""
        for name, value, number in zip(self.inputs, values, isnumber, strict=True):
            if name in self.numbers and not number:
                raise LaunchError(
                    f"the argument {name!r} of {self.kernel.__name__} is a number, not a {type(value).__name__}",
                    f"under jax.jit, make it a static argument (static_argnames={name!r}); or take an array in the kernel",
                )

    def lent(self, arrays: Mapping[str, Any], stream: Any) -> dict[str, DeviceArray]:
        """JAX's arrays by the names of their parameters, without references to them, because JAX frees the memory itself."""
        lent = {}
        for name, value in arrays.items():
            array = as_array(value, order="strided", readonly=name in self.inputs, stream=stream, name=name)
            lent[name] = DeviceArray.over(replace(array_view(array), keep_alive=None), array.stream)
        return lent

    def results(self, args: Sequence[Any], like: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Empty outputs for these inputs: the result of a function in `outputs`, or `like` of an input."""
        named = dict(zip(self.inputs, args, strict=True))
        return tuple(form(*args) if callable(form) else like(named[form]) for form in self.outputs.values())

    def launch(self, named: Mapping[str, Any], stream: Any) -> None:
        """Launches the kernel, unless it has no elements: those of the first array that it writes, or else of its first array."""
        args = [named[name] for name in self.names]
        first = named[self._written[0]] if self._written else next(array for array in args if hasattr(array, "shape"))
        shape = tuple(first.shape) or (1,)
        if 0 in shape:
            return
        if self._bound is not None:
            self._bound(*args, stream=stream)
        else:
            launch(self.kernel, *args, threads=shape, stream=stream)


def _result(several: Sequence[Any]) -> Any:
    """The return value of an operator: None, one value, or a tuple."""
    return tuple(several) if len(several) > 1 else several[0] if several else None


def _number(name: str, type: model.Number) -> Any:
    """The type of a number in PyTorch's schemas."""
    if type.kind not in _NUMBERS:
        raise LaunchError(f"an operator of PyTorch cannot take {name!r} of type {type}", "pass a tensor of one element")
    return _NUMBERS[type.kind]


def _gradients(returned: Any, count: int) -> tuple[Any, ...]:
    """The gradients that `backward` returned; raises `LaunchError` unless there is one for each array."""
    several = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
    if len(several) != count:
        raise LaunchError(
            f"backward returned {len(several)} gradients for {count} arrays",
            "return one for each array, or None for it",
        )
    return several


def _stream(tvm: Any, values: Sequence[Any]) -> Stream:
    """TVM-FFI's current stream for the device of the first tensor."""
    device = next((tensor.device for tensor in values if isinstance(tensor, tvm.Tensor)), None)
    if device is None or device.dlpack_device_type() != tvm.DLDeviceType.kDLCUDA:
        return cpu_stream()
    return as_stream(tvm.get_raw_stream(device))


def _framework(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = {"tvm_ffi": "apache-tvm-ffi"}.get(name, name.replace("_", "-"))
        raise ImportError(f"{error}\n  help: pip install {package}", name=error.name) from None
