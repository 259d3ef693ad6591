"""LLVM IR to PTX: architectures, the precision of arithmetic, convergence, libdevice, and the reports of compiler bugs."""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from processes import python

import cuda_device as device
from cuda_device.codegen import llvm
from cuda_device.codegen.gpu import libdevice, nvptx
from cuda_device.errors import CompilerBug
from cuda_device.types.architectures import (
    ARCHITECTURES,
    DATA_LAYOUT,
    FLUSH_DENORMALS_ATTRIBUTE,
    FLUSH_DENORMALS_FLAG,
    TRIPLE,
    Architecture,
    of_capability,
    of_gpu,
    parse,
)

SM_90 = parse("sm_90")


def emit_ptx(ir: str, architecture: Architecture, level: int = 3, functions: Iterable[str] = frozenset()) -> str:
    """IR text compiled to PTX; `functions` are those of libdevice that it calls."""
    module = nvptx.parse(ir)
    nvptx.link_libdevice(module, functions)
    nvptx.optimise(module, architecture, level)
    return nvptx.emit(module, architecture, level)


def kernel(body: str, declarations: str = "", attributes: str = "", flags: str = "") -> str:
    """A kernel of `%x`, a float that it reads from `%p`, and `%y`, which `body` defines and which it writes there."""
    return f"""{declarations}
define ptx_kernel void @k(ptr %p) {attributes} {{
  %x = load float, ptr %p
  {body}
  store float %y, ptr %p
  ret void
}}
{flags}
"""


def calls(*names: str) -> str:
    """A kernel that applies these functions of libdevice, from float to float, one after the other."""
    values = ["%x", *(f"%v{i}" for i in range(1, len(names))), "%y"]
    lines = [f"{values[i + 1]} = call float @{name}(float {values[i]})" for i, name in enumerate(names)]
    return kernel("\n  ".join(lines), "\n".join(f"declare float @{name}(float)" for name in sorted(set(names))))


def instructions(ptx: str) -> Counter[str]:
    """How often each instruction occurs."""
    return Counter(re.findall(r"^\s+(?:@!?%\w+ )?([a-z][\w.:]*)\s", ptx, re.M))


# ---- architectures


@pytest.mark.parametrize("architecture", [*map(parse, ARCHITECTURES)], ids=str)
def test_llvm_knows_the_architecture_and_its_ptx(architecture: Architecture) -> None:
    text = emit_ptx(kernel("%y = fadd float %x, 1.0"), architecture)
    assert f"\n.target {architecture.name}\n" in text
    assert f"\n.version {architecture.ptx / 10}\n" in text
    assert architecture.ptx <= 90, "newer than driver 580 reads"


def test_llvm_knows_all_names() -> None:
    """LLVM ignores a name that it does not know, with a line on stderr: only a name that we invent may have one."""
    script = """
from cuda_device.codegen.gpu import nvptx
from cuda_device.types.architectures import ARCHITECTURES, Architecture, parse
invented = Architecture("sm_99", 99, "", 88)
for architecture in [*map(parse, ARCHITECTURES), invented]:
    nvptx.emit(nvptx.parse("define ptx_kernel void @k() { ret void }"), architecture, 0)
"""
    assert set(re.findall(r"'(\S+)' is not a recognized", python("-c", script).stderr)) == {"sm_99"}


def test_parse_architecture() -> None:
    assert parse("sm_100f") == Architecture("sm_100f", 100, "f", 88)
    assert parse("sm_103").capability == (10, 3)
    with pytest.raises(ValueError, match=r"no architecture 'sm_91': .*sm_75, .*sm_90, sm_90a, .*sm_121f"):
        parse("sm_91")
    for name in ("sm_90f", "sm_70", "90", ""):
        with pytest.raises(ValueError):
            parse(name)


@pytest.mark.parametrize(
    ("capability", "name"),
    [((7, 5), "sm_75"), ((8, 0), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90"), ((10, 1), "sm_100"), ((12, 1), "sm_121")],
)  # fmt: skip
def test_architecture_of_a_gpu(capability: tuple[int, int], name: str) -> None:
    assert of_capability(*capability) is parse(name)
    for wrong in ("7.0", "13.0", "6.1"):
        with pytest.raises(ValueError, match=f"{wrong} is not supported"):
            of_capability(*map(int, wrong.split(".")))


def test_launches_are_for_the_variant_of_the_gpu_that_every_assembler_of_its_architecture_knows() -> None:
    exact = {"7.5": "sm_75", "8.9": "sm_89", "9.0": "sm_90a", "10.0": "sm_100a", "10.1": "sm_100", "12.1": "sm_121a"}
    assert {text: str(of_gpu(*map(int, text.split(".")))) for text in exact} == exact
    for name, (number, variant, ptx) in ARCHITECTURES.items():
        assert variant != "a" or ARCHITECTURES[f"sm_{number}"][2] == ptx, name
    with pytest.raises(ValueError, match="7.0 is not supported"):
        of_gpu(7, 0)


# ---- what the PTX says


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_arithmetic_is_precise(level: int) -> None:
    body = """%s = call float @llvm.sqrt.f32(float %x)
  %d = fdiv float %s, %x
  %m = fmul float %d, %s
  %y = fadd float %m, %x"""
    ptx = emit_ptx(kernel(body), SM_90, level)
    found = instructions(ptx)
    for name in ("sqrt.rn.f32", "div.rn.f32", "mul.rn.f32", "add.rn.f32"):
        assert found[name] == 1, (name, ptx)
    assert ".entry k(" in ptx


def test_contraction_is_asked_for() -> None:
    body = "%m = fmul contract float %x, %x\n  %y = fadd contract float %m, %x"
    assert instructions(emit_ptx(kernel(body), SM_90))["fma.rn.f32"] == 1


def test_flushing_denormals_takes_two_marks() -> None:
    body = "%e = call float @__nv_expf(float %x)\n  %y = fdiv float %e, %x"
    ir = kernel(
        body,
        "declare float @__nv_expf(float)",
        FLUSH_DENORMALS_ATTRIBUTE,
        f"!llvm.module.flags = !{{!0}}\n!0 = {FLUSH_DENORMALS_FLAG}",
    )
    flushed = instructions(emit_ptx(ir, SM_90, 3, {"__nv_expf"}))
    assert flushed["div.rn.ftz.f32"] == 1 and flushed["fma.rn.ftz.f32"] >= 3 and not flushed["fma.rn.f32"]
    kept = instructions(emit_ptx(kernel(body, "declare float @__nv_expf(float)"), SM_90, 3, {"__nv_expf"}))
    assert kept["div.rn.f32"] == 1 and kept["fma.rn.f32"] >= 3 and not kept["fma.rn.ftz.f32"]


def test_barriers_are_neither_copied_nor_moved() -> None:
    """Both branches test one condition: an optimiser that knows nothing of convergence jumps from the first to the
    second, past a copy of the barrier."""
    ir = """
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32) convergent
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define ptx_kernel void @k(ptr %p, i32 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = icmp ult i32 %t, %n
  br i1 %c, label %first, label %join
first:
  store volatile i32 1, ptr %p
  br label %join
join:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) convergent
  br i1 %c, label %second, label %exit
second:
  store volatile i32 2, ptr %p
  br label %exit
exit:
  ret void
}
"""
    ptx = emit_ptx(ir, SM_90)
    barrier = re.compile(r"^\s+(?:@%p\d+ )?bar(?:rier)?(?:\.cta)?\.sync", re.M)
    assert len(barrier.findall(ptx)) == 1, ptx
    # The test can fail: the same kernel with a call in the barrier's place that is not convergent gets two copies.
    unaware = ir.replace("@llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) convergent", "@f(i32 0)")
    unaware = unaware.replace(
        "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32) convergent", "declare void @f(i32)"
    )
    assert len(re.findall(r"call\.uni", emit_ptx(unaware, SM_90))) == 2


def test_divergent_loops_are_not_split() -> None:
    """An optimiser that believes that all threads branch alike makes two loops of this, one for each `%c`."""
    ir = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define ptx_kernel void @k(ptr %p, i32 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = icmp ult i32 %t, %n
  br label %head
head:
  %i = phi i32 [ 0, %entry ], [ %j, %latch ]
  br i1 %c, label %body, label %latch
body:
  store volatile i32 %i, ptr %p
  br label %latch
latch:
  store volatile i32 7, ptr %p
  %j = add i32 %i, 1
  %again = icmp ult i32 %j, %n
  br i1 %again, label %head, label %exit, !llvm.loop !0
exit:
  ret void
}
!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.unroll.disable"}
"""
    assert instructions(emit_ptx(ir, SM_90))["st.volatile.global.b32"] == 2


def test_alignment_comes_from_our_data_layout() -> None:
    """Parsed without the data layout, a 64-bit load without `align` would be made of two of 32 bits."""
    body = "%v = load i64, ptr %p\n %w = add i64 %v, 1\n store i64 %w, ptr %p\n ret void"
    ir = f"define ptx_kernel void @k(ptr %p) {{\n {body} }}"
    found = instructions(emit_ptx(ir, SM_90))
    assert found["ld.global.b64"] == 1 and found["st.global.b64"] == 1


def test_steps_and_their_text() -> None:
    module = nvptx.parse(calls("__nv_fabsf"))
    assert "call float @__nv_fabsf" in str(module) and DATA_LAYOUT in str(module)
    nvptx.link_libdevice(module, {"__nv_fabsf"})
    assert "define internal float @__nv_fabsf" in str(module)
    nvptx.optimise(module, SM_90)
    assert "__nv_fabsf" not in str(module) and "llvm.nvvm.fabs" in str(module)
    assert instructions(nvptx.emit(module, SM_90))["abs.f32"] == 1


# ---- libdevice


def test_only_what_is_asked_for_is_linked() -> None:
    ptx = emit_ptx(calls("__nv_expf", "__nv_sinf"), SM_90, 3, {"__nv_expf", "__nv_sinf", "__nv_powf"})
    assert "__nv_" not in ptx and "reflect" not in ptx
    assert "mad.lo.cc.u32" in ptx, "the slow path of sinf"
    assert ptx.count(".func") == 0 and len(ptx) < 10_000
    assert "__nv_" not in emit_ptx(calls("__nv_expf"), SM_90, 0, {"__nv_expf"})


def test_helpers_and_tables_come_along() -> None:
    ir = """
declare double @__nv_sin(double)
declare double @__nv_pow(double, double)
define ptx_kernel void @k(ptr %p) {
  %x = load double, ptr %p
  %s = call double @__nv_sin(double %x)
  %y = call double @__nv_pow(double %s, double %x)
  store double %y, ptr %p
  ret void
}"""
    text = emit_ptx(ir, SM_90, 3, {"__nv_sin", "__nv_pow"})
    assert "__nv_" not in text
    assert "__cudart_sin_cos_coeffs" in text and ".visible .func" not in text and ".weak" not in text
    assert '.pragma "nounroll"' in text, "libdevice asks to keep a loop of the slow path of sin"


@pytest.mark.parametrize("name", ["__nv_sqrtf", "__nv_hypotf"])
def test_libdevice_is_precise(name: str) -> None:
    arguments = "float %x, float 3.0" if name == "__nv_hypotf" else "float %x"
    types = arguments.replace(" %x", "").replace(" 3.0", "")
    ir = kernel(f"%y = call float @{name}({arguments})", f"declare float @{name}({types})")
    found = instructions(emit_ptx(ir, SM_90, 3, {name}))
    assert sum(found[f"sqrt.rn{ftz}.f32"] for ftz in ("", ".ftz")) == 1 and not found["sqrt.approx.f32"]


@pytest.mark.parametrize(
    ("name", "answer"),
    [("__CUDA_FTZ", 0), ("__CUDA_ARCH", 900), ("__CUDA_PREC_SQRT", 0), ("__CUDA_PREC_DIV", 0), ("__UNHEARD_OF", 0)],
)
def test_what_llvm_answers_to_reflect(name: str, answer: int) -> None:
    """This is why __CUDA_PREC_SQRT is answered by us. Should LLVM learn to say 1, `_PRECISE_SQRT` can go."""
    ir = f"""
@name = private constant [{len(name) + 1} x i8] c"{name}\\00"
declare i32 @__nvvm_reflect(ptr)
define ptx_kernel void @k(ptr %p) {{
  %a = call i32 @__nvvm_reflect(ptr @name)
  store i32 %a, ptr %p
  ret void
}}"""
    assert re.search(rf"st\.global\.b32\s+\[%rd\d+\], {answer};", emit_ptx(ir, SM_90))


def names_in_libdevice() -> frozenset[str]:
    text = str(llvm.read_bitcode(libdevice.file().read_bytes()))
    return frozenset(re.findall(r"(?m)^define [^@]*@(__nv_\w+)", text))


def test_libdevice_asks_only_what_we_know() -> None:
    asked = set(re.findall(r'c"(__\w+)\\00"', "\n".join(libdevice._definitions(names_in_libdevice()).values())))
    assert asked == {"__CUDA_FTZ", "__CUDA_ARCH", "__CUDA_PREC_SQRT"}


def test_all_of_libdevice_can_be_extracted() -> None:
    names = names_in_libdevice()
    assert len(names) > 300
    text = libdevice.extract(names)
    module = nvptx.parse(text)  # it parses and verifies
    assert names <= set(re.findall(r"(?m)^define [^@]*@(\w+)", str(module)))
    assembly = [line for line in text.splitlines() if " asm " in line]
    assert assembly and all(line.endswith(" nounwind memory(none)") and "sideeffect" not in line for line in assembly)
    assert text.count("add i32 0, 1") > 10 and "@.str.2" not in str(module)


def test_the_cache_spares_parsing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_DEVICE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(libdevice, "_TEXTS", {})
    expected = libdevice.extract({"__nv_cosf"})
    assert set(libdevice._TEXTS) > {"@__nv_cosf"}
    monkeypatch.setattr(libdevice, "_TEXTS", {})
    monkeypatch.setattr(libdevice, "_definitions", lambda _: pytest.fail("the library is parsed"))
    assert libdevice.extract({"__nv_cosf"}) == expected


def test_content_hash_is_of_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = {libdevice.content_hash()}
    for content in (b"BC one", b"BC two"):
        (tmp_path / "a.bc").write_bytes(content)
        monkeypatch.setattr(libdevice, "file", lambda: tmp_path / "a.bc")
        hashes.add(libdevice.content_hash.__wrapped__())
    assert len(hashes) == 3


@pytest.mark.parametrize("conda", [False, True])
def test_where_libdevice_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, conda: bool) -> None:
    """In a wheel, in the toolkit, where cuda-pathfinder says: the first has it."""
    import cuda.pathfinder

    places = {
        "wheel": tmp_path / "site-packages/nvidia/cu13/nvvm/libdevice/libdevice.10.bc",
        "toolkit": tmp_path / "toolkit/nvvm/libdevice/libdevice.10.bc",
        "elsewhere": tmp_path / "elsewhere.bc",
    }
    for file in places.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.setattr(cuda.pathfinder, "find_bitcode_lib", lambda name: str(places["elsewhere"]))
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "site-packages")])
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path) if conda else "")
    assert libdevice.file() == places["wheel"]
    places["wheel"].unlink()
    assert libdevice.file() == places["elsewhere" if conda else "toolkit"]
    places["toolkit"].unlink()
    assert libdevice.file() == places["elsewhere"]


def test_missing_libdevice(monkeypatch: pytest.MonkeyPatch) -> None:
    import cuda.pathfinder

    def missing(name: str) -> str:
        raise cuda.pathfinder.BitcodeLibNotFoundError(name)

    monkeypatch.setattr(cuda.pathfinder, "find_bitcode_lib", missing)
    monkeypatch.setattr(sys, "path", [])
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(device.CompileError, match=r"libdevice") as error:
        libdevice.file()
    assert "pip install 'cuda-device[cu13]'" in str(error.value)


# ---- our mistakes


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("  %a = add i32 1, 2\n  %b = sub float %a, 1.0\n  ret i32 0", ":3:18: error:", "%b = sub float %a, 1.0"),
        (
            "  br label %b\na:\n  %x = add i32 1, 2\n  br label %b\nb:\n  ret i32 %x",
            "does not dominate",
            "%x = add i32 1, 2",
        ),
    ],
)
def test_ir_that_is_wrong_is_a_bug_with_its_line(text: str, said: str, line: str) -> None:
    with pytest.raises(CompilerBug) as error:
        nvptx.parse(f"define i32 @f() {{\n{text}\n}}")
    assert said in str(error.value) and line in str(error.value)


def test_our_machine_may_be_named() -> None:
    header = f'target triple = "{TRIPLE}"\ntarget datalayout = "{DATA_LAYOUT}"\n'
    assert emit_ptx(header + kernel("%y = fadd float %x, 1.0"), SM_90).count(".entry k(") == 1


def test_an_unresolved_function_is_a_bug() -> None:
    with pytest.raises(CompilerBug, match="calls __nv_expf, which was not linked from libdevice"):
        emit_ptx(calls("__nv_expf"), SM_90)
    with pytest.raises(CompilerBug, match="has no @__nv_no_such"):
        emit_ptx(calls("__nv_no_such"), SM_90, 3, {"__nv_no_such"})


# ---- threads and memory


def test_a_module_dies_before_its_context() -> None:
    """In the other order, LLVM ends the process. Python's collector takes the members of a cycle in any."""
    script = """
import gc
from cuda_device.codegen import llvm
from cuda_device.codegen.gpu import nvptx
gc.disable()
api, dead = llvm.load_llvm(), []
for name in ("DisposeModule", "ContextDispose"):
    setattr(api, name, lambda it, end=getattr(api, name), name=name: (dead.append(name), end(it)))
for _ in range(200):
    cycle = [nvptx.parse("define ptx_kernel void @k() { ret void }")]
    cycle.append(cycle)
    del cycle
gc.collect()
assert dead == ["DisposeModule", "ContextDispose"] * 200, dead
print("alive")
"""
    assert python("-c", script).stdout == "alive\n"


def test_eight_threads() -> None:
    irs = [calls(*names) for names in (["__nv_expf"], ["__nv_sinf"], ["__nv_expf", "__nv_sinf"], ["__nv_cosf"])]
    expected = [emit_ptx(ir, SM_90, 3, set(re.findall(r"__nv_\w+", ir))) for ir in irs]
    assert len(set(expected)) == len(irs)
    with ThreadPoolExecutor(8) as pool:
        work = [pool.submit(emit_ptx, ir, SM_90, 3, set(re.findall(r"__nv_\w+", ir))) for ir in irs * 8]
        assert [future.result() for future in work] == expected * 8


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_kernels_leave_no_memory_behind() -> None:
    """llvmlite's pass managers alone would leave 10 MB behind for these 100 kernels."""
    script = f"""
from pathlib import Path
from cuda_device.codegen.gpu import nvptx
from cuda_device.types.architectures import parse
pages = []
for kernels in (50, 100):
    for _ in range(kernels):
        module = nvptx.parse({calls("__nv_expf")!r})
        nvptx.link_libdevice(module, {{"__nv_expf"}})
        nvptx.optimise(module, parse("sm_90"))
        nvptx.emit(module, parse("sm_90"))
    pages.append(int(Path("/proc/self/statm").read_text().split()[1]))
print(4 * (pages[1] - pages[0]))
"""
    assert int(python("-c", script).stdout) < 3000, "kB"
