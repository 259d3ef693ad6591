"""What a call between Python and CUDA C++ costs: kernels and device functions in either language, beside all of it in C++.

    python benchmarks/interop.py                    times over all-C++, in one run on one GPU; calls left in the machine code
    python benchmarks/interop.py --compile sm_90    the calls alone, without a GPU

Each row is a kernel that calls a device function in a loop. The function takes and returns a number, a struct of vectors, a
tuple, an array (`mdspan` in C++) or a pointer. The columns say in which language the kernel and the function are, and how they
are linked.
"""

from __future__ import annotations

import argparse
import ctypes
import struct
from typing import Any, NamedTuple

import numpy as np
import nvrtc

import cuda_device as device
from cuda_device.codegen.gpu import assemblers, cubin, elf, linking
from cuda_device.runtime.gpu import driver
from cuda_device.types.architectures import of_capability, parse

COUNT, TIMES, BLOCK, REPEATS = 1 << 20, 256, 256, 40
CALLS = (0x343, 0x344, 0x943, 0x944)
"""The last twelve bits of CALL, since sm_70."""


@device.struct
class Body:
    """What moves, with a mass of its own."""

    position: device.float32x4
    velocity: device.float32x4


PAIR = tuple[device.float32, device.float32]
TABLE = device.ArrayType(device.float32, 2)
FLOATS = device.pointer(device.float32)


function: Any = None
"""What kernels call: each gets its own."""


class Row(NamedTuple):
    """A function in both languages. `data` is the type that the kernel has a pointer to."""

    data: Any
    types: tuple[Any, ...]
    result: Any
    function: Any
    kernel: Any
    cpp_types: str
    cpp_function: str
    cpp_kernel: str
    floats: int


def _number(x: Any, k: Any) -> Any:
    return x * 0.999 + k * 0.001


def _number_kernel(data: Any, n: Any, times: Any) -> None:
    i = device.tid(1)
    if i < n:
        x = data[i]
        for k in range(times):
            x = function(x, device.float32(k))
        data[i] = x


def _body(b: Any, t: Any) -> Any:
    velocity = b.velocity * 0.999 - b.position * 0.01
    return Body(b.position + velocity * t, velocity)


def _body_kernel(data: Any, n: Any, times: Any) -> None:
    i = device.tid(1)
    if i < n:
        x = data[i]
        for k in range(times):
            x = function(x, device.float32(k) * 0.0001)
        data[i] = x


def _pair(p: Any, t: Any) -> Any:
    x, y = p
    return x + y * t, y - x * t


def _table(x: Any, i: Any, k: Any) -> Any:
    total = device.float32(0)
    for j in range(8):
        total = total + x[i, j] * (k + j)
    return total


def _table_kernel(data: Any, n: Any, times: Any) -> None:
    i = device.tid(1)
    if i < n:
        x = data.array((n, 8))
        total = device.float32(0)
        for k in range(times):
            total = total + function(x, i, k)
        data[8 * i] = total


def _pointer(p: Any, i: Any, k: Any) -> Any:
    return p[8 * i + (k & 7)] * k


def _pointer_kernel(data: Any, n: Any, times: Any) -> None:
    i = device.tid(1)
    if i < n:
        total = device.float32(0)
        for k in range(times):
            total = total + function(data, i, k)
        data[8 * i] = total


STEPS = """
  T x = data[i];
  for (int k = 0; k < times; ++k) x = function(x, {time});
  data[i] = x;"""
SUMS = """
  float total = 0;
  for (int k = 0; k < times; ++k) total = total + function({array}, i, k);
  data[8 * i] = total;"""
ROWS = {
    "number": Row(
        device.float32, (device.float32, device.float32), device.float32, _number, _number_kernel,
        "using T = float;", "float function(float x, float k) { return x * 0.999f + k * 0.001f; }",
        STEPS.format(time="float(k)"), 1,
    ),
    "struct of vectors": Row(
        Body, (Body, device.float32), Body, _body, _body_kernel,
        "struct Body { float4 position, velocity; }; using T = Body;",
        """Body function(Body b, float t) {
  float4 p = b.position, v = b.velocity;
  v = {v.x * 0.999f - p.x * 0.01f, v.y * 0.999f - p.y * 0.01f, v.z * 0.999f - p.z * 0.01f, v.w * 0.999f - p.w * 0.01f};
  return {{p.x + v.x * t, p.y + v.y * t, p.z + v.z * t, p.w + v.w * t}, v};
}""",
        STEPS.format(time="float(k) * 0.0001f"), 8,
    ),
    "tuple": Row(
        PAIR, (PAIR, device.float32), PAIR, _pair, _body_kernel,
        "struct Pair { float _0, _1; }; using T = Pair;",
        "Pair function(Pair p, float t) { return {p._0 + p._1 * t, p._1 - p._0 * t}; }",
        STEPS.format(time="float(k) * 0.0001f"), 2,
    ),
    "array": Row(
        device.float32, (TABLE, int, int), device.float32, _table, _table_kernel,
        "#include <cuda_device/interop.h>\nusing T = float; using Table = cuda::interoperable_array_descriptor<float, 2>;",
        """float function(Table x, int i, int k) {
  auto view = x.to_mdspan();
  float total = 0;
  for (int j = 0; j < 8; ++j) total = total + view(i, j) * (k + j);
  return total;
}""",
        SUMS.format(array="(cuda::std::mdspan<float, cuda::std::dextents<int, 2>>(data, n, 8))"), 8,
    ),
    "pointer": Row(
        device.float32, (FLOATS, int, int), device.float32, _pointer, _pointer_kernel,
        "using T = float;", "float function(float* p, int i, int k) { return p[8 * i + (k & 7)] * k; }",
        SUMS.format(array="data"), 8,
    ),
}  # fmt: skip


def kernel_text(row: Row) -> str:
    """The kernel in C++."""
    return f"""
extern "C" __global__ void kernel(T* data, int n, int times) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;{row.cpp_kernel}
}}
"""


def programs(row: Row, target: str) -> dict[str, bytes]:
    """The machine code of a row, by who calls whom and how."""
    architecture = parse(target)
    function = f'extern "C" __device__ {row.cpp_function}\n'
    head = f'extern "C" __device__ {row.cpp_function.partition("{")[0]};\n'
    include = f"-I{device.get_include()}"

    def compiled(text: str, kind: str) -> bytes:
        """What NVRTC makes of the row's types and a text."""
        flags = (include, "-rdc=true", *["-dlto"] * (kind == "LTOIR"))
        return bytes(nvrtc.compile_code(f"{row.cpp_types}\n{text}", target, kind, *flags))

    def linked_to(kernel_source: Any, link: Any, callee: Any) -> bytes:
        """The kernel in Python."""
        names = {"function": callee, "device": device}
        code = kernel_source.__code__.replace(co_name="kernel", co_qualname="kernel")
        plain = type(kernel_source)(code, names)
        kernel = device.kernel(interop=True, link=link)(plain)
        made = device.compile(kernel, device.pointer(row.data), int, int, target=target).code
        assert isinstance(made, bytes)
        return made

    def stub() -> Any:
        """The function as a declaration."""
        names: dict[str, Any] = {}
        parameters = [f"a{i}" for i in range(len(row.types))]
        exec(f"def function({', '.join(parameters)}): ...", names)
        names["function"].__annotations__ = dict(zip(parameters, row.types, strict=True)) | {"return": row.result}
        return device.extern(names["function"])

    code = row.function.__code__.replace(co_name="function", co_qualname="function")
    ours = device.func(interop=True)(type(row.function)(code, globals()))
    theirs = assemblers.Input("kernel.cu", compiled(head + kernel_text(row), "LTOIR"))
    ltoir = linking.read([device.compile(ours, *row.types, target=target, output="ltoir")], architecture)
    whole = f"{row.cpp_types}\n{function}{kernel_text(row)}"
    ptx = compiled(head + kernel_text(row), "PTX").rstrip(b"\0").decode()
    as_ptx, as_cubin = (
        linking.read([device.compile(ours, *row.types, target=target, output=each)], architecture)
        for each in ("ptx", "cubin")
    )
    source = device.cuda_source(f"{row.cpp_types}\n{function}")
    return {
        "C++, C++": nvrtc.compile_code(whole, target, "CUBIN", include),
        "Python, Python": linked_to(row.kernel, (), row.function),
        "Python, C++ source": linked_to(row.kernel, source, stub()),
        "Python, C++ LTO-IR": linked_to(row.kernel, compiled(function, "LTOIR"), stub()),
        "C++, Python LTO-IR": cubin.assemble(assemblers.optimised((theirs, *ltoir), architecture), architecture).code,
        "Python, C++ PTX": linked_to(row.kernel, compiled(function, "PTX"), stub()),
        "Python, C++ cubin": linked_to(row.kernel, compiled(function, "CUBIN"), stub()),
        "C++, Python PTX": cubin.assemble(ptx, architecture, as_ptx).code,
        "C++, Python cubin": cubin.assemble(ptx, architecture, as_cubin).code,
    }


def calls(code: bytes) -> int:
    """How many CALL there are in machine code."""
    texts = [elf.content(code, each) for each in elf.sections(code) if each.name.startswith(".text.")]
    return sum(word & 0xFFF in CALLS for text in texts for (word,) in struct.iter_unpack("<Q8x", text))


def measured(row: Row, codes: dict[str, bytes]) -> dict[str, tuple[float, np.ndarray]]:
    """The least seconds of each program, and what it computes. Programs take turns."""
    stream: Any = device.default_stream()
    seconds: dict[str, float] = {}
    results: dict[str, np.ndarray] = {}
    first = np.random.default_rng(1).random(COUNT * row.floats, dtype=np.float32)
    with stream.using():
        kernels = {name: driver.get_kernel(driver.load_library(code), "kernel") for name, code in codes.items()}
        begin, end = (driver.create_event(timing=True) for _ in range(2))
        for _ in range(REPEATS):
            for name, kernel in kernels.items():
                data = device.array(first, stream=stream)
                address = ctypes.c_uint64(data.__cuda_array_interface__["data"][0])
                values = (address, ctypes.c_int(COUNT), ctypes.c_int(TIMES))
                parameters = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))
                stream.synchronize()
                driver.record_event(begin, stream.handle)
                grid, block = (COUNT // BLOCK, 1, 1), (BLOCK, 1, 1)
                driver.launch(kernel, grid, block, 0, stream.handle, ctypes.addressof(parameters))
                driver.record_event(end, stream.handle)
                driver.synchronize_event(end)
                took = driver.seconds_between(begin, end)
                seconds[name] = min(seconds.get(name, took), took)
                results[name] = data.numpy()
    return {name: (seconds[name], results[name]) for name in codes}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", metavar="TARGET", help="count calls for an architecture, and run nothing")
    parser.add_argument("--only", nargs="*", default=list(ROWS), choices=list(ROWS))
    wanted = parser.parse_args()
    target = wanted.compile
    if not target:
        stream: Any = device.default_stream()
        target = str(of_capability(*driver.properties(stream.ordinal).capability))
    print(f"{target}: kernel, function                  calls      µs   over all-C++   result")
    for name in wanted.only:
        codes = programs(ROWS[name], target)
        found = {} if wanted.compile else measured(ROWS[name], codes)
        print(name)
        for how, code in codes.items():
            line = f"    {how:32}{calls(code):8}"
            if found:
                seconds, result = found[how]
                base, expected = found["C++, C++"]
                alike = "alike" if np.allclose(result, expected, rtol=1e-4, atol=1e-4) else "DIFFERS"
                line += f"{seconds * 1e6:10.1f}{seconds / base:11.3f}       {alike}"
            print(line)


if __name__ == "__main__":
    main()
