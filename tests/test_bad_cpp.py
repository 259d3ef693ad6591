"""C++ that is wrong is said where it is called, with what helps, and the next launch works."""

import pathlib

import cuda_cpp
import numpy as np
import pytest
from ptx_machine import gpu

import cuda_device as device

GOOD = device.cuda_source('extern "C" __device__ float scaled(float x) { return 3 * x; }', name="good.cu")
LINE = "        x[0] = scaled(x[0])"


def calling(link, type=device.float32, **options):
    def scaled(x): ...

    scaled.__annotations__ = {"x": type, "return": device.float32}
    scaled = device.extern(link=link, **options)(scaled)

    @device.kernel
    def kernel(x):
        x[0] = scaled(x[0])

    return kernel


@device.struct
class pair:  # noqa: N801 (a name in C++)
    x: device.float32
    y: device.float32


def old_cubin(_):
    return cuda_cpp.compile_cpp(GOOD.text, "cubin", target="sm_80")


def finished(_):
    return device.compile(device.kernel(lambda x: None), 1)


def not_a_library(folder):
    file = folder / "libnorms.a"
    file.write_text("!<arch>\nno library\n")
    return file


def not_code(folder):
    file = folder / "norms.ptx"
    file.write_text("once upon a time\n")
    return file


def twice(_):
    return [device.cuda_source(f"{GOOD.text} // {n}", name=f"{n}.cu") for n in range(2)]


def twice_as_ptx(_):
    return [cuda_cpp.compile_cpp(f"{GOOD.text} __device__ int v{n};") for n in range(2)]


BAD = {
    "syntax": (
        lambda _: device.cuda_source('extern "C" __device__ float scaled(float x) { return }'),
        "NVRTC cannot compile",
    ),
    "an undefined name": (
        lambda _: device.cuda_source(GOOD.text.replace("3", "three")),
        'identifier "three" is undefined',
    ),
    "no header": (lambda _: device.cuda_source("#include <nowhere.h>"), "nowhere.h"),
    "another symbol": (lambda _: device.cuda_source(GOOD.text.replace("scaled", "other")), "nothing defines scaled"),
    "no symbol in PTX": (lambda _: cuda_cpp.compile_cpp("__device__ int n;"), "nothing defines scaled"),
    "nothing": (lambda _: (), "nothing defines scaled"),
    "an architecture": (old_cubin, "was compiled for sm_80, and cannot be linked"),
    "a finished cubin": (finished, "is a finished cubin"),
    "no library": (not_a_library, "cannot link the kernel to libnorms.a"),
    "no PTX": (not_code, "cannot link the kernel to norms.ptx"),
    "no LTO-IR": (lambda _: b"\xedCN\x7fand so on", "cannot link the kernel to scaled|nvJitLink"),
    "no file": (lambda folder: folder / "missing.ltoir", "missing.ltoir' cannot be read"),
    "two definitions": (twice, "scaled is defined twice, in .*0.cu.*1.cu"),
    "two definitions in PTX": (twice_as_ptx, "scaled is defined twice"),
}


@pytest.mark.parametrize("what", BAD)
def test_it_is_refused_where_it_is_called(what, tmp_path):
    make, message = BAD[what]
    with pytest.raises(device.CompileError, match=message) as caught:
        device.compile(calling(make(tmp_path)), device.ArrayType(device.float32, 1))
    assert caught.value.help
    if caught.value.location.file == __file__:
        lines = pathlib.Path(__file__).read_text().splitlines()
        assert lines[caught.value.location.line - 1] == LINE
    else:
        assert caught.value.location.file.endswith(".cu") and what in ("syntax", "an undefined name", "no header")
    assert cuda_cpp.calls(device.compile(calling(GOOD), device.ArrayType(device.float32, 1)).code) == 0


def test_another_layout():
    text = "struct pair { float x; double y; };\n__device__ float first(pair p) { return p.x; }"

    @device.extern(link=device.cuda_source(text), cpp="first")
    def first(p: pair) -> device.float32: ...

    @device.kernel
    def kernel(x, out):
        out[0] = first(x[0])

    with pytest.raises(device.CompileError, match="sizeof pair") as caught:
        device.compile(kernel, device.ArrayType(pair, 1), device.ArrayType(device.float32, 1))
    assert caught.value.location.file == __file__ and caught.value.help


def test_the_next_launch_works(tmp_path):
    with gpu.installed():
        x = device.array(np.float32([2]))
        for what in ("syntax", "an undefined name", "no header", "an architecture", "no file"):
            with pytest.raises(device.CompileError):
                device.launch(calling(BAD[what][0](tmp_path)), x, grid=1, block=1)
            device.launch(calling(GOOD), x, grid=1, block=1)
        assert x.numpy()[0] == 2 * 3**5
