"""CUDA C++ and bitcode as text and files that kernels are linked to. No GPU is needed; `tests/gpu/test_interop.py` runs one."""

import pathlib
import pickle
import re

import cuda_cpp
import emulated_gpu
import llvmlite.binding as llvm
import numpy as np
import pytest

import cuda_device as device
from cuda_device.plugins.cpp import sources

FLOATS = device.ArrayType(device.float32, 1)
SCALED = 'extern "C" __device__ float scaled(float x) { return SCALE * x; }\n'


def calling(link=()):
    @device.extern(link=link)
    def scaled(x: device.float32) -> device.float32: ...

    @device.kernel
    def k(x):
        x[device.tid(1)] = scaled(x[device.tid(1)])

    return k


def links(kernel, target="sm_90", **options):
    return device.compile(kernel, FLOATS, target=target, **options).code.startswith(b"\x7fELF")


def refused(kernel, **options) -> device.CompileError:
    with pytest.raises(device.CompileError) as caught:
        device.compile(kernel, FLOATS, **options)
    assert caught.value.help
    return caught.value


@pytest.fixture
def compilations(monkeypatch, tmp_path):
    """How often NVRTC runs, with a cache that is empty at first."""
    monkeypatch.setenv("CUDA_DEVICE_CACHE", str(tmp_path / "cache"))
    runs = []
    genuine = sources.CudaSource._compile
    monkeypatch.setattr(sources.CudaSource, "_compile", lambda *given: (runs.append(given[0].name), genuine(*given))[1])
    return runs


# What is compiled


@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_120"])
def test_a_text_is_compiled_for_the_target_of_each_kernel(target):
    source = device.cuda_source(SCALED, define={"SCALE": 2})
    assert links(calling(source), target)
    assert links(calling(), target, link=source)


def test_each_place_that_takes_links_takes_a_file(tmp_path):
    file = tmp_path / "scaled.cu"
    file.write_text(SCALED.replace("SCALE", "2"))

    @device.extern
    def scaled(x: device.float32) -> device.float32: ...

    @device.func(link=str(file), interop=True)
    def helper(x):
        return scaled(x)

    @device.kernel
    def through_helper(x):
        x[0] = helper(x[1])

    def plain(x):
        x[0] = scaled(x[1])

    assert links(calling(str(file))) and links(calling(file))
    assert links(through_helper) and links(device.kernel(link=[file])(plain))
    assert links(device.kernel(plain), link=file)
    assert device.compile(helper, float).code.startswith(b"\x7fELF")


@pytest.mark.parametrize("suffix", [".cpp", ".cuh", ".cc", ".h"])
def test_files_of_cpp_by_their_names(suffix, tmp_path):
    file = tmp_path / f"scaled{suffix}"
    file.write_text(SCALED)
    assert links(calling(device.cuda_source(file, define={"SCALE": 2})))


def test_headers_are_found(tmp_path):
    (tmp_path / "beside.h").write_text("#define SCALE 2\n")
    folder = tmp_path / "include"
    folder.mkdir()
    (folder / "far.h").write_text("inline __device__ float far(float x) { return __half2float(__float2half(x)); }\n")
    file = tmp_path / "scaled.cu"
    file.write_text(
        '#include "beside.h"\n#include <cuda_fp16.h>\n#include <cuda/std/span>\n#include <cuda_device/interop.h>\n'
        "#include <far.h>\n" + SCALED.replace("* x", "* far(x)")
    )
    for include in (folder, str(folder), [folder]):
        assert links(calling(device.cuda_source(file, include=include)))


def test_the_standard_and_macros():
    text = '#if __cplusplus < 202002L || !defined(PLAIN)\n#error "other options"\n#endif\n' + SCALED
    assert links(calling(device.cuda_source(text, std="c++20", define={"PLAIN": None, "SCALE": 2.5})))
    assert "other options" in str(refused(calling(device.cuda_source(text, define={"SCALE": 1}))))


def test_what_cpp_computes_is_in_the_kernel():
    """The linker optimises what comes of two sources: a constant of one is in the code of the other."""
    sources = [
        device.cuda_source('extern "C" __device__ float factor() { return 1234.5f; }', name="factor.cu"),
        device.cuda_source('extern "C" __device__ float factor();\n' + SCALED, define={"SCALE": "factor()"}),
    ]
    code = device.compile(calling(sources), FLOATS).code
    assert np.float32(1234.5).tobytes() in code
    assert (
        np.float32(1234.5).tobytes()
        not in device.compile(calling(device.cuda_source(SCALED, define={"SCALE": 2})), FLOATS).code
    )


def test_a_source_is_a_value():
    source = device.cuda_source(SCALED, name="scaled.cu", include=[pathlib.Path("a")], define={"SCALE": 2})
    assert pickle.loads(pickle.dumps(source)) == source
    assert source != device.cuda_source(SCALED, name="scaled.cu", include=["a"], define={"SCALE": 3})
    assert hash(source)


# The cache


def test_what_nvrtc_made_is_kept(compilations):
    for _ in range(2):
        assert links(calling(device.cuda_source(SCALED, define={"SCALE": 2})))
    assert len(compilations) == 1
    assert links(calling(device.cuda_source(SCALED, define={"SCALE": 3})))
    assert links(calling(device.cuda_source(SCALED, define={"SCALE": 2})), "sm_80")
    assert links(calling(device.cuda_source(SCALED, define={"SCALE": 2}, std="c++20")))
    assert len(compilations) == 4


def test_changed_headers_are_seen(compilations, tmp_path):
    outer, inner, file = tmp_path / "outer.h", tmp_path / "inner.h", tmp_path / "scaled.cu"
    outer.write_text('#if __has_include("late.h")\n#include "late.h"\n#else\n#include "inner.h"\n#endif\n')
    inner.write_text("#define SCALE 2\n")
    file.write_text('#include "outer.h"\n' + SCALED)
    made = []
    for change in (lambda: None, lambda: inner.write_text("#define SCALE 77.25f\n")):
        change()
        for _ in range(2):
            made.append(cuda_cpp.inputs(file)[0].data)
    assert made[0] == made[1] != made[2] == made[3]
    assert len(compilations) == 2
    (tmp_path / "late.h").write_text("#define SCALE 5\n")
    assert cuda_cpp.inputs(file)[0].data not in made


def test_what_a_macro_includes_is_not_kept(compilations):
    text = "#define HEADER <cuda_fp16.h>\n#include HEADER\n" + SCALED
    for _ in range(2):
        cuda_cpp.inputs(device.cuda_source(text, define={"SCALE": 2}))
    assert len(compilations) == 2


def test_what_was_kept_and_is_damaged_is_made_again(compilations, tmp_path):
    source = device.cuda_source(SCALED, define={"SCALE": 2})
    first = cuda_cpp.inputs(source)
    for file in (tmp_path / "cache").rglob("*.bin"):
        file.write_bytes(file.read_bytes()[:-1])
    assert cuda_cpp.inputs(source) == first and len(compilations) == 2


# What is refused, and that the next one works


def test_the_messages_of_nvrtc_are_whole_and_have_a_place(tmp_path):
    file = tmp_path / "scaled.cu"
    file.write_text('extern "C" __device__ float scaled(float x) {\n  return x * factor;\n}\nint f( {\n')
    error = refused(calling(file))
    assert (error.location.file, error.location.line) == (str(file), 2)
    assert error.reason.startswith(f'NVRTC cannot compile {file} for sm_90: identifier "factor" is undefined\n')
    text = str(error)
    assert f"at {file}:2\n     2 |   return x * factor;" in text
    assert f"{file}(4): error" in text and "errors detected" in text
    file.write_text('\nextern "C" __device__ float scaled(float x) { return x * divisor; }\n')
    assert '2 | extern "C"' in str(refused(calling(file)))
    file.write_text(SCALED.replace("SCALE", "2"))
    assert links(calling(file))


def test_the_place_in_a_text(tmp_path):
    (tmp_path / "wrong.h").write_text("\nint f(what);\n")
    error = refused(calling(device.cuda_source("\n\n__device__ what f();\n", name="mine.cu")))
    assert (error.location.file, error.location.line) == ("mine.cu", 3)
    assert "3 | __device__ what f();" in str(error)
    error = refused(calling(device.cuda_source('#include "wrong.h"\n', include=tmp_path)))
    assert (error.location.file, error.location.line) == (str(tmp_path / "wrong.h"), 2)


def test_an_error_at_the_end_is_in_the_last_line():
    error = refused(calling(device.cuda_source('extern "C" __device__ float scaled(float x)\n{\n  return x;\n')))
    assert (error.location.file, error.location.line) == ("source.cu", 3)
    assert error.reason.startswith('NVRTC cannot compile source.cu for sm_90: expected a "}"')


def test_functions_for_the_host_do_no_harm():
    text = "void launch(int n);\ninline float half(float x) { return x / 2; }\n"
    assert links(calling(device.cuda_source(text + SCALED, define={"SCALE": 3})))


def test_headers_that_are_not_there():
    error = refused(calling(device.cuda_source("#include <nowhere.h>\n")))
    assert "include=folder" in error.help and "pip install nvidia-cuda-runtime nvidia-cuda-cccl" in error.help
    assert "<cuda/std/…>" in refused(calling(device.cuda_source("#include <cstdint>\n"))).help


def test_files_that_cannot_be_read(tmp_path):
    file = tmp_path / "missing.cu"
    for link in (file, device.cuda_source(file)):
        assert f"link={str(file)!r} cannot be read: No such file" in str(refused(calling(link)))
    file.write_bytes(b"// \xff\n")
    assert "missing.cu is not C++ in UTF-8" in str(refused(calling(file)))


def test_an_architecture_that_nvrtc_does_not_know():
    source = device.cuda_source(SCALED, define={"SCALE": 2})
    with pytest.raises(device.CompileError, match=r"for sm_70: .*gpu-architecture") as caught:
        source.compiled("sm_70", ())
    assert "another nvidia-cuda-nvrtc, or link PTX" in caught.value.help


def test_without_nvrtc(monkeypatch):
    from cuda.bindings import nvrtc

    def missing():
        raise RuntimeError("libnvrtc.so not found")

    monkeypatch.setattr(nvrtc, "nvrtcVersion", missing)
    error = refused(calling(device.cuda_source("// none\n" + SCALED, define={"SCALE": 9})))
    assert "NVRTC, which is not on this machine" in error.reason and "pip install nvidia-cuda-nvrtc" in error.help


def test_an_older_linker_gets_a_cubin(monkeypatch):
    source = device.cuda_source("// older\n" + SCALED, define={"SCALE": 2})
    monkeypatch.setattr("cuda_device.cache.disk.loaded", lambda name, make, load: load(make()))
    assert cuda_cpp.inputs(source)[0].is_lto
    monkeypatch.setattr(sources, "_linker_takes_lto", lambda: False)
    (item,) = cuda_cpp.inputs(source)
    assert item.functions == {"scaled"} and item.architecture == 90
    assert cuda_cpp.assembled(device.compile(calling(), FLOATS, output="ptx").code, source).code


def test_the_cpu_stream_has_no_cpp():
    kernel = calling(device.cuda_source(SCALED, define={"SCALE": 2}))
    with pytest.raises(device.CompileError, match="its stub has no body that the CPU stream could run"):
        device.launch(kernel, np.zeros(1, np.float32), grid=1, block=1, stream=device.cpu_stream())


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((3, {}), "C.. as text, or a file as pathlib.Path"),
        (("scaled.cu", {}), "name of a file, not C.."),
        ((SCALED, {"std": "c++98"}), "choose one of 'c..03'"),
        ((SCALED, {"define": {"a b": 1}}), "'a b' is not the name of a macro"),
        ((SCALED, {"include": 3}), r"cuda_source\(include=…\) takes a folder of headers, or several, not 3"),
        ((SCALED, {"include": ["here", 3]}), r"not \['here', 3\]"),
    ],
)
def test_wrong_arguments(arguments, match):
    source, keywords = arguments
    with pytest.raises(TypeError, match=match):
        device.cuda_source(source, **keywords)


# Bitcode

BITCODE = """
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare float @__nv_sinf(float)
define float @scaled(float %x) #0 { %y = call float @__nv_sinf(float %x) ret float %y }
attributes #0 = { "target-cpu"="sm_70" "target-features"="+ptx60" }
"""


def bitcode(text=BITCODE) -> bytes:
    return llvm.parse_assembly(text).as_bitcode()


def test_bitcode_is_inlined(tmp_path):
    file = tmp_path / "scaled.bc"
    file.write_bytes(bitcode())
    for link in (file, file.read_bytes(), [file, file]):
        for target in ("sm_75", "sm_90"):
            text = device.compile(calling(link), FLOATS, target=target, output="ptx").code
            assert "scaled" not in text and "call" not in text
            assert links(calling(link), target)


@device.struct
class Pair:
    first: device.float32
    second: device.int32


def test_bitcode_with_the_types_of_clang_is_inlined():
    """It extends small integers, passes copies by their addresses, and returns structures."""
    code = bitcode("""
        %struct.Pair = type { float, i32 }
        define dso_local noundef signext i8 @thrice(i8 noundef signext %x) { %y = mul i8 %x, 3 ret i8 %y }
        define float @first(ptr noundef readonly byval(%struct.Pair) align 4 %p) #0 { %x = load float, ptr %p ret float %x }
        define %struct.Pair @pair(float %x) { %p = insertvalue %struct.Pair { float 0.0, i32 7 }, float %x, 0
          ret %struct.Pair %p }
        define void @reset(ptr %x, i1 noundef zeroext %to) { %y = uitofp i1 %to to float store float %y, ptr %x ret void }
        attributes #0 = { "target-cpu"="sm_70" "target-features"="+ptx60,+sm_70" }
    """)  # fmt: skip

    @device.extern(link=code)
    def thrice(x: device.int8) -> device.int8: ...

    @device.extern(link=code)
    def first(p: Pair) -> device.float32: ...

    @device.extern(link=code)
    def pair(x: device.float32) -> Pair: ...

    @device.extern(link=code)
    def reset(x: device.pointer(device.float32), to: bool) -> None: ...

    @device.kernel
    def k(x, y):
        i = device.tid(1)
        made = pair(x[i])
        y[i] = thrice(y[i])
        reset(x.pointer(i), first(made) > made.second)

    text = device.compile(k, FLOATS, device.ArrayType(device.int8, 1), target="sm_90", output="ptx").code
    assert "call" not in text and ".func" not in text
    with emulated_gpu.installed():
        x, y = device.array([1.5, 8.5]), device.array(np.array([50, -3], np.int8))
        device.launch(k, x, y, grid=1, block=2)
        assert x.numpy().tolist() == [0, 1] and y.numpy().tolist() == [-106, -9]


def test_other_links_can_call_bitcode():
    """Its functions then stay, beside their copies in the kernel."""
    outer = b"""
.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) scaled (.param .b32 x);
.visible .func (.param .b32 result) outer (.param .b32 given) {
  .reg .f32 %f;
  .param .b32 a; .param .b32 b;
  ld.param.f32 %f, [given];
  st.param.f32 [a], %f;
  call (b), scaled, (a);
  ld.param.f32 %f, [b];
  st.param.f32 [result], %f;
  ret;
}
"""

    @device.extern(link=[outer, bitcode()])
    def outer_function(x: device.float32) -> device.float32: ...

    outer_function.symbol = "outer"

    @device.kernel
    def k(x):
        x[device.tid(1)] = outer_function(x[device.tid(1)])

    assert links(k)


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        (b"BC\xc0\xdeand so on", "link 1 is not bitcode that LLVM can read"),
        (bitcode(BITCODE.replace("nvptx64-nvidia-cuda", "x86_64-linux-gnu")), "link 1 is bitcode for x86_64.*, not for a GPU"),
        (bitcode('target datalayout = "e-m:e-i64:64"'), "link 1 is bitcode for the data layout e-m:e-i64:64, not for a GPU"),
        (bitcode(BITCODE + "define void @k() { ret void }"), "k is defined twice, in the program and in link 1"),
        (bitcode("define float @scaled() { ret float 0.0 }"), r"is float \(\) in bitcode, and its stub needs float \(float\)"),
        (bitcode("define i32 @scaled(float %x) { ret i32 0 }"), r"scaled is i32 \(float\) in bitcode"),
        (bitcode("define float @scaled(ptr byval(i32) align 4 %x) { ret float 0.0 }"), r"scaled is float \(ptr byval"),
    ],
)  # fmt: skip
def test_bitcode_that_cannot_be_linked(link, reason):
    error = refused(calling(link))
    assert re.search(reason, error.reason)
    assert error.location.file == __file__
