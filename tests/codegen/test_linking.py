"""Linking of Python and CUDA C++, each of which calls functions of the other. `tests/gpu` runs the programs."""

import math
import os
import pickle
import re
import threading

import cuda_cpp
import numpy as np
import pytest
from ir_helpers import define, stage
from processes import python

import cuda_device as device
from cuda_device.codegen.gpu import assemblers
from cuda_device.optimise import points_to

LTOIR = pytest.param("ltoir", marks=pytest.mark.needs("ltoir"))
FLOATS = device.ArrayType(device.float32, 1)
EMPTY = ".version 8.8\n.target sm_90\n.address_size 64\n.visible .entry nothing() { ret; }\n"


@device.struct
class pair:  # noqa: N801 (a name in C++)
    x: device.float32
    y: device.int8


HYPOTENUSE = 'extern "C" __device__ float hypotenuse(float x, float y) { return sqrtf(x * x + y * y); }'


def hypotenuse_from(link):
    @device.extern(link=link)
    def hypotenuse(x: device.float32, y: device.float32) -> device.float32:
        return (x * x + y * y) ** 0.5

    return hypotenuse


def hypotenuses_with(hypotenuse, **options):
    @device.kernel(**options)
    def hypotenuses(x, out):
        i = device.tid(1)
        out[i] = hypotenuse(x[i], 4)

    return hypotenuses


def linked_with(link):
    """The kernel with these links of its stub."""
    return hypotenuses_with(hypotenuse_from(link))


# Linking


@pytest.mark.parametrize("output", ["ptx", "cubin", LTOIR])
def test_what_nvrtc_makes_can_be_linked(output, tmp_path):
    code = cuda_cpp.compile_cpp(HYPOTENUSE, output, *["-dlto"] * (output == "ltoir"))
    file = tmp_path / f"hypotenuse.{output}"
    file.write_bytes(code)
    plain = linked_with(())
    for link in (code, file, str(file), [file, file, code]):
        of_stub, of_kernel = linked_with(link), hypotenuses_with(hypotenuse_from(()), link=link)
        for kernel, options in ((of_stub, {}), (of_kernel, {}), (plain, {"link": link})):
            assert device.compile(kernel, FLOATS, FLOATS, **options).code.startswith(b"\x7fELF")


def test_a_function_that_a_kernel_calls_brings_what_it_is_linked_to():
    hypotenuse = hypotenuse_from(())

    @device.func(link=cuda_cpp.compile_cpp(HYPOTENUSE))
    def helper(x):
        return hypotenuse(x, x)

    @device.kernel
    def k(x):
        x[0] = helper(x[1])

    assert device.compile(k, FLOATS).code


@pytest.mark.parametrize("output", ["ptx", "cubin"])
def test_python_links_to_python(output):
    @device.func(interop=True)
    def hypotenuse(x, y):
        return x + y

    compiled = device.compile(hypotenuse, device.float32, device.float32, output=output)
    assert device.compile(linked_with(compiled), FLOATS, FLOATS).code.startswith(b"\x7fELF")


def test_two_kernels_that_report_are_linked_to_one():
    texts = []
    for name in ("first", "second"):
        kernel = define(f"def {name}(x):\n    assert x > 0\n", name)
        texts.append(device.compile(device.kernel(interop=True)(kernel), int, output="ptx"))
    made = cuda_cpp.assembled(texts[0].code, *texts[1:])
    assert b"first" in made.code and b"second" in made.code


def test_a_cubin_of_a_function_is_relocatable():
    @device.func(interop=True)
    def twice(x):
        return x + x

    code = device.compile(twice, float).code
    assert (code[:4], int.from_bytes(code[16:18], "little")) == (b"\x7fELF", 1)
    user = 'extern "C" __device__ float twice(float); extern "C" __global__ void k(float* x) { *x = twice(*x); }'
    assert cuda_cpp.assembled(cuda_cpp.compile_cpp(user), code).code


def test_arguments_that_cpp_takes_by_its_address_are_copies():
    @device.extern
    def half2(x: device.float16x2, y: device.float16x2) -> device.float16x2: ...

    @device.kernel
    def k(x):
        x[0] = half2(x[0], x[0])

    text = device.compile(k, device.ArrayType(device.float16x2, 1), output="ptx").code
    assert cuda_cpp.signatures(text)["half2"] == "func void (.param .b64 x, .param .b64 x, .param .b64 x)"
    assert ".local .align 4 .b8" in text


ELEMENT = """
#include <cuda_device/interop.h>
extern "C" __device__ float element(cuda::interoperable_array_descriptor<float, 2> x, int i, int j) {
  return x.to_mdspan()(i, j);
}
extern "C" __device__ void store(cuda::interoperable_array_descriptor<float, 1> x, float value) {
  for (unsigned long long i = 0; i < x.shape[0]; ++i) x.data[i * x.strides[0]] = value + i;
}
"""


@pytest.mark.needs("cpp")
def test_cpp_reads_and_writes_arrays(stream):
    code = cuda_cpp.compile_cpp(ELEMENT)

    @device.extern(link=code)
    def element(x: device.ArrayType(device.float32, 2), i: int, j: int) -> device.float32:
        return x[i, j]

    @device.extern(link=code)
    def store(x: device.ArrayType(device.float32, 1), value: float) -> None:
        for i in range(len(x)):
            x[i] = value + i

    @device.kernel
    def k(x, y, out):
        tile = device.shared_array((2, 3), device.float32)
        tile[1, 2] = 7.5
        out[0] = element(x, 1, 2)
        out[1] = element(y, 1, 2)
        out[2] = element(x[::-1, 1:], 0, 0)
        out[3] = element(tile, 1, 2)
        store(out[8:3:-2], 10.0)

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    out = stream.empty(9)
    stream.launch(k, stream.array(x), stream.array(np.asfortranarray(x)), out, grid=1, block=1)
    found = stream.numpy(out)
    assert found[:4].tolist() == [x[1, 2], x[1, 2], x[2, 1], 7.5]
    assert found[8:3:-2].tolist() == [10, 11, 12] and np.isnan(found[[5, 7]]).all()


# What cannot be linked


def refused(match, function, *types, help="", **options):
    with pytest.raises(device.CompileError, match=match) as caught:
        device.compile(function, *types, **options)
    assert caught.value.help and help in caught.value.help or not help and "cannot link" in str(caught.value)
    return caught.value


def test_what_nothing_can_be_linked_to(tmp_path):
    refused("nothing defines hypotenuse", linked_with(()), FLOATS, FLOATS)
    assert "hypotenuse" in device.compile(linked_with(()), FLOATS, FLOATS, output="ptx").code
    refused("cannot be read: No such file", linked_with(tmp_path / "hypotenuse.ptx"), FLOATS, FLOATS)
    finished = device.compile(device.kernel(lambda x: None), FLOATS)
    refused("^_lambda_ is a finished cubin", linked_with(finished), FLOATS, FLOATS)


@pytest.mark.parametrize("output", ["ptx", "cubin"])
def test_what_two_define(output):
    one, other = (cuda_cpp.compile_cpp(text, output) for text in (HYPOTENUSE, HYPOTENUSE.replace("x * x", "2 * x * x")))
    kernel = linked_with([one, other])
    refused("hypotenuse is defined twice, in link 1 and in link 2", kernel, FLOATS, FLOATS)
    kernel = cuda_cpp.compile_cpp('extern "C" __global__ void hypotenuses(int) {}', output)
    twice = "hypotenuses is defined twice, in the program and in link 2"
    refused(twice, linked_with([one, kernel]), FLOATS, FLOATS)


def test_what_a_file_defines():
    text = """
        extern "C" __device__ int outside(int); __device__ int inside(int x) { return outside(x); }
        static __device__ __noinline__ int hidden(int x) { return x * outside(x); }
        extern "C" __global__ void k(int* x) { *x = inside(*x) + hidden(*x); } extern "C" __device__ void nothing() {}
    """
    for output in ("ptx", "cubin"):
        (item,) = cuda_cpp.inputs(cuda_cpp.compile_cpp(text, output))
        assert item.functions == {"k", "nothing", "_Z6insidei"}, output


@pytest.mark.parametrize("link", [3, [None], "file.ptx".split], ids=["number", "none", "method"])
def test_links_that_are_none(link):
    for decorator in (device.extern, device.func, device.kernel):
        with pytest.raises(TypeError, match="takes files, bytes, cuda_source.…., or results of device.compile"):
            decorator(link=link)


def test_two_declarations_of_one_symbol():
    @device.extern(symbol="hypotenuse")
    def other(x: device.float64) -> device.float64: ...

    hypotenuse = hypotenuse_from(())

    @device.kernel
    def k(x):
        x[0] = hypotenuse(1, 2) + other(3)

    refused("two declarations of hypotenuse with different types", k, FLOATS)


def test_a_function_of_the_same_name():
    @device.extern(symbol="same")
    def other(x: int) -> int: ...

    @device.func(interop=True)
    def same(x):
        return other(x)

    refused("calls a function of CUDA C.. of the same name", same, int)


def test_a_helper_of_the_same_name_makes_way():
    @device.extern(symbol="helper")
    def other(x: int) -> int: ...

    def helper(n):
        return helper(n - 1) + other(n) if n > 0 else 0

    @device.kernel
    def k(x):
        x[0] = helper(3)

    text = device.compile(k, device.ArrayType(int, 1), output="ptx").code
    assert cuda_cpp.signatures(text)["helper"] == "func .param .b32 x (.param .b32 x)"


# Declarations


def no_hint(x, y: int) -> int: ...
def no_result(x: int): ...
def any_number(*x: int) -> int: ...
def wrong_hint(x: str) -> int: ...
def text_hint(x: "device.float32") -> "tuple[int, device.float64]": ...


@pytest.mark.parametrize(
    ("stub", "match"),
    [
        (no_hint, "is missing the type of its parameter 'x': add a type hint"),
        (no_result, "is missing the type of its result .-> None for void."),
        (any_number, "cannot take .args"),
        (wrong_hint, "wrong_hint, x: "),
        (3, "@extern decorates a stub, not 3"),
    ],
)
def test_stubs_that_say_too_little(stub, match):
    with pytest.raises(TypeError, match=match):
        device.extern(stub)


def test_a_symbol_is_a_name():
    for symbol in ("a b", "Größe", "WARP_SZ"):
        with pytest.raises(TypeError, match="cannot be the symbol"):
            device.extern(symbol=symbol)(text_hint)
    assert device.extern(symbol="_Z4normff$1")(text_hint).symbol == "_Z4normff$1"


@device.extern(symbol="__nv_normcdff")
def normcdf(x: device.float32) -> device.float32:
    return device.float32(0.5 * math.erfc(-x * math.sqrt(0.5)))


@device.extern(symbol="__nv_frexp")
def frexp(x: device.float64, exponent: device.pointer(device.int32)) -> device.float64: ...


@device.kernel
def of_libdevice(x):
    x[0] = normcdf(x[0])


@pytest.mark.needs("ltoir")
def test_functions_of_libdevice(stream):
    x = stream.array(np.float32([1]))
    stream.launch(of_libdevice, x, grid=1, block=1)
    np.testing.assert_allclose(stream.numpy(x), [0.84134475], rtol=1e-5)

    @device.kernel
    def kernel(x, e):
        x[0] = frexp(x[0], e.pointer(0))

    floats, ints = device.ArrayType(device.float64, 1), device.ArrayType(device.int32, 1)
    for output in ("ptx", "ltoir"):
        assert device.compile(kernel, floats, ints, output=output).code
    assert "call" not in str(device.compile(kernel, floats, ints, output="ptx"))


@pytest.mark.parametrize("output", ["cubin", LTOIR])
@pytest.mark.parametrize(
    ("symbol", "result", "reason"),
    [
        ("__nv_no_such", device.float32, "there is none of this name"),
        ("__nv_sin", device.float32, "its types are double, double"),
        ("__nv_sinf", device.float64, "its types are float, float"),
    ],
)
def test_libdevice_has_no_such_function(symbol, result, reason, output):
    def declared(x): ...

    declared.__annotations__ = {"x": device.float32, "return": result}
    declared = device.extern(symbol=symbol)(declared)

    @device.kernel
    def kernel(x):
        x[0] = device.float32(declared(x[0]))

    says = f"no function of libdevice {symbol} for this call: {reason}"
    error = refused(says, kernel, FLOATS, help="libdevice User's Guide", output=output)
    assert error.location.file == __file__


def test_a_declaration_runs_its_body_on_the_host():
    hypotenuse = hypotenuse_from(())
    assert hypotenuse(3.0, 4.0) == 5.0
    assert repr(hypotenuse) == "<C++ function hypotenuse>"
    declared = device.extern(text_hint)
    assert [str(type) for type in (*declared.parameters, declared.result)] == ["float32", "tuple<int, float64>"]
    with pytest.raises(device.DeviceOnlyError, match="has no body"):
        declared(1)


def linked_to(made_for, target):
    """A kernel for one architecture that calls a function which was compiled for another one."""

    def doubled(x):
        return x * 2

    doubled.__annotations__ = dict.fromkeys(("x", "return"), device.int32)
    there = device.compile(device.func(doubled, interop=True), device.int32, target=made_for, output="cubin")
    declared = device.extern(link=[there])(doubled)

    def kernel(x):
        x[0] = declared(x[0])

    return device.compile(device.kernel(kernel), device.ArrayType(device.int32, 1), target=target, output="cubin")


@pytest.mark.parametrize(
    "pair", ["sm_80 sm_90", "sm_90 sm_80", "sm_89 sm_86", "sm_90 sm_100", "sm_103 sm_100", "sm_100 sm_120"]
)
def test_code_for_another_architecture_cannot_be_linked(pair):
    made_for, target = pair.split()
    with pytest.raises(
        device.CompileError, match=f"^doubled was compiled for {made_for}, and cannot .* a kernel for {target}"
    ) as caught:
        linked_to(made_for, target)
    assert caught.value.help == "link code for this architecture, or PTX"


@pytest.mark.parametrize("pair", ["sm_80 sm_80", "sm_80 sm_89", "sm_86 sm_87", "sm_90 sm_90a", "sm_100 sm_103"])
def test_code_for_an_older_architecture_of_a_generation_is_linked(pair):
    try:
        assert linked_to(*pair.split()).code.startswith(b"\x7fELF")
    except device.CompileError as error:  # nvJitLink 13.0 takes fewer pairs than 13.1
        assert pair in ("sm_86 sm_87", "sm_100 sm_103") and not links_newer_pairs()
        assert "cannot link the kernel to doubled: " in str(error)
        assert error.help == "link code for this architecture"


def links_newer_pairs():
    """Whether nvJitLink is 13.1 or newer: which cubins it takes for which architecture changed there."""
    from cuda.bindings import nvjitlink

    return nvjitlink.version() >= (13, 1)


def test_what_tells_the_architecture_of_a_cubin():
    def header(version, flags):
        return b"\x7fELF\2\1\1A" + bytes([version]) + bytes(9) + b"\xbe\0" + bytes(28) + flags + bytes(12)

    found = [assemblers.Input("x", header(7, b"\x5a\x05\x5a\0")), assemblers.Input("x", header(8, b"\4\x5a\0\6"))]
    assert [each.architecture for each in found] == [90, 90]
    others = header(9, b"\4\x5a\0\6"), header(8, b"\4\x5a\0\6")[:50], b".version 8.8", b""
    assert [assemblers.Input("x", each).architecture for each in others] == [None] * 4


def test_other_threads_link_after_one_that_cannot():
    """nvJitLink never releases a lock after it has found a cubin of another architecture."""
    if not links_newer_pairs():
        pytest.skip("nvJitLink 13.0 links the cubin that newer versions refuse")
    with pytest.raises(device.CompileError, match="cannot link the kernel to doubled: .*bad input") as caught:
        linked_to("sm_90a", "sm_90")
    assert caught.value.help == "link code for this architecture"
    made = []
    threads = [
        threading.Thread(target=lambda: made.append(cuda_cpp.assembled(EMPTY)), daemon=True),
        threading.Thread(target=lambda: made.append(linked_to("sm_90", "sm_90")), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(made) == 2


FORKS = """
import os, sys, threading
from test_linking import *
made = cuda_cpp.assembled(EMPTY).assembler
if "links" in sys.argv:
    linked_to("sm_90", "sm_90")
child = os.fork()
if child == 0:
    threading.Timer(60, os._exit, [2]).start()
    try:
        print(made, cuda_cpp.assembled(EMPTY).assembler, linked_to("sm_80", "sm_80").code[1:4].decode(), flush=True)
    except device.CompileError as error:
        print(error, flush=True)
    finally:
        os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize(("argument", "said"), [("", "nvJitLink nvJitLink ELF"), ("links", "did not survive a fork")])
def test_a_forked_child_waits_for_no_thread_of_its_parent(argument, said):
    """A child whose parent has linked cannot use nvJitLink; the parent would not link what is in the cache."""
    done = python("-c", FORKS, argument, CUDA_DEVICE_ASSEMBLER="nvJitLink", CUDA_DEVICE_CACHE="0")
    *lines, status = done.stdout.splitlines()
    assert said in "\n".join(lines) and status == "0", done


def test_a_declaration_without_a_body_is_not_for_the_cpu():
    declared = device.extern(text_hint)
    kernel = device.kernel(lambda x: declared(x[0]))
    with pytest.raises(
        device.CompileError, match="text_hint is a function of CUDA C.*, and its stub has no body"
    ) as caught:
        device.launch(kernel, np.zeros(1, np.float32), grid=1, block=1, stream=device.cpu_stream())
    assert caught.value.help == "write the same computation in Python as its body"


def test_members_of_packed_elements_are_not_aligned_as_cpp_has_it():
    def scale(x): ...

    scale.__annotations__ = {"x": device.ArrayType(device.float32, 1), "return": None}
    declared = device.extern(scale)
    kernel = device.kernel(lambda x: declared(x[0].m))
    packed = [("tag", "u1"), ("m", "f4", (3,))]
    device.compile(kernel, device.ArrayType(np.dtype(packed, align=True), 1), target="sm_90", output="ptx")
    says = "the argument 'x' of scale: .* less aligned"
    refused(says, kernel, device.ArrayType(np.dtype(packed), 1), help="align=True", target="sm_90", output="ptx")


# Calls, where the body takes the place of C++


@device.extern
def shifted(p: pair, by: device.float32, k: device.int8 = 1) -> pair:
    """Moves a pair."""
    return pair(p.x + by, p.y + k)


@device.extern
def first_row(x: device.ArrayType(device.float32, 2), unused: None = None) -> device.ArrayType(device.float32, 1):
    return x[0]


@device.extern
def store(x: device.ArrayType(device.float32, 1), v: tuple[int, device.float32]) -> None:
    x[0] = v[0] + v[1]


@device.kernel
def through_bodies(x, out):
    q = shifted(pair(x[1, 1], device.int8(3)), 2)
    out[1] = q.x
    out[2] = shifted(q, k=device.int8(5), by=1).y
    store(out[3:], (1, 2.5))
    row = first_row(x[::-1])
    out[4] = row[1] + len(row)


def test_bodies_run_on_the_cpu():
    x, out = np.arange(6, dtype=np.float32).reshape(2, 3), np.full(5, np.nan, np.float32)
    device.launch(through_bodies, x, out, grid=1, block=1, stream=device.cpu_stream())
    assert out[1:].tolist() == [6, 9, 3.5, 7]


def test_the_same_calls_for_a_gpu():
    text = device.compile(through_bodies, device.ArrayType(device.float32, 2), FLOATS, output="ptx").code
    array = ".param .align 8 .b8 x[{}]"
    assert pickle.loads(pickle.dumps(shifted)) is shifted
    found = cuda_cpp.signatures(text)
    assert found["shifted"] == "func .param .align 4 .b8 x[8] (.param .align 4 .b8 x[8], .param .b32 x, .param .b32 x)"
    assert found["first_row"] == f"func {array.format(24)} ({array.format(40)}, .param .b64 x)"
    assert found["store"] == f"func void ({array.format(24)}, .param .align 4 .b8 x[8])"
    small = device.compile(
        through_bodies, device.ArrayType(device.float32, 2), FLOATS, output="ptx", launch_facts=True
    ).code
    assert cuda_cpp.signatures(small)["first_row"].endswith("(.param .align 8 .b8 x[40], .param .b64 x)")


@pytest.mark.parametrize(
    ("call", "match"),
    [
        ("shifted(p, x[0])", "the argument 'by' of shifted is of type float32, not float64"),
        ("shifted(1, 2)", "the argument 'p' of shifted is of type pair"),
        ("shifted(p)", "missing a required argument: 'by'"),
        ("shifted(p, 1, 2, 3)", "too many positional arguments"),
        ("first_row(x)", "the argument 'x' of first_row is an array of 2 dimensions of float32"),
        ("store(y, (1, 2))", "may write to, and this one is read-only"),
        ("store(z, (1, 2, 3))", r"the argument 'v' of store is of type tuple<int32, float32>"),
        ("store(z, (1, None))", r"the argument 'v' of store\[1\] is of type float32"),
    ],
)
def test_arguments_have_the_types_of_the_hints(call, match):
    kernel = device.kernel(
        _with_names(f"def k(x, y, z, p):\n    {call}\n", shifted=shifted, first_row=first_row, store=store)
    )
    readonly = device.ArrayType(device.float32, 1, readonly=True)
    with pytest.raises(device.CompileError, match=match):
        device.compile(kernel, device.ArrayType(device.float64, 1), readonly, FLOATS, pair, output="ptx")


def _with_names(text, **names):
    exec(text, names)
    return names["k"]


def test_strides_of_views_are_checked_where_they_are_passed():
    @device.extern
    def first(x: device.ArrayType(device.float32x3, 1)) -> device.float32:
        return x[0].x

    @device.kernel
    def k(x, out):
        out[0] = first(x[::2])

    dtype = device.numpy_dtype(device.float32x3)
    good = np.zeros(4, dtype)
    bad = np.zeros(4, np.dtype([("a", dtype), ("b", np.float32)]))["a"]
    out = np.full(1, np.nan, np.float32)
    device.launch(k, good, out, grid=1, block=1, stream=device.cpu_stream())
    assert out[0] == 0
    with pytest.raises(device.KernelError, match="strides are multiples of the size of an element"):
        device.launch(k, bad[1:4], out, grid=1, block=1, stream=device.cpu_stream())


def test_lto_ir_is_told_from_the_rest():
    lto, ptx = cuda_cpp.compile_cpp(HYPOTENUSE, "ltoir", "-dlto"), cuda_cpp.compile_cpp(HYPOTENUSE)
    assert [item.is_lto for item in cuda_cpp.inputs(lto, ptx)] == [True, False]
    assert len(cuda_cpp.inputs(lto, lto, ptx, lto)) == 2
    assert re.fullmatch("[0-9a-f]{64}", cuda_cpp.inputs(ptx)[0].digest)


def test_what_cpp_is_handed_counts_as_written():
    """Launches check that nothing overlaps what a kernel writes: C++ may write to the second of these arrays."""

    @device.kernel
    def k(x, y, out):
        store(y, (1, x[0]))
        out[0] = x[0]

    assert points_to.written(stage("device", k, FLOATS, FLOATS, FLOATS)) == {1, 2}
