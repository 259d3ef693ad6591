"""Every kind of value goes from Python to CUDA C++ and back."""

import cuda_cpp
import exchange

import cuda_device as device


def test_cpp_calls_every_kind_of_function_in_python():
    made = exchange.cpp_calls_python()
    assert made.assembler == "nvJitLink"
    assert all(f"k{i}".encode() in made.code for i in range(len(exchange.KINDS)))


def test_python_calls_every_kind_of_function_in_cpp():
    arrays = [device.ArrayType(type, 1) for type in exchange.TYPES for _ in range(2)]
    assert device.compile(exchange.python_kernel(), *arrays).code.startswith(b"\x7fELF")
    found = cuda_cpp.signatures(device.compile(exchange.python_kernel(), *arrays, output="ptx").code)
    expected = cuda_cpp.signatures(exchange.cpp_ptx().decode())
    for i, (_, cpp, _) in enumerate(exchange.KINDS):
        assert found[f"e{i}"] == expected[f"e{i}"], cpp


def test_values_come_back_from_cpp(stream):
    """On the CPU stream the declarations' bodies hand them on."""
    values, poisoned = zip(*map(exchange.sample, exchange.TYPES), strict=True)
    arrays = [stream.array(array) for pair in zip(values, poisoned, strict=True) for array in pair]
    stream.launch(exchange.python_kernel(), *arrays, grid=1, block=1)
    for (_, cpp, _), value, result in zip(exchange.KINDS, values, arrays[1::2], strict=True):
        assert exchange.parts(stream.numpy(result)) == exchange.parts(value), cpp
