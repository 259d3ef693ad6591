"""The PTX version of a program: the oldest with its instructions, and none that the driver does not read."""

import re

import pytest
from conftest import can_assemble

import cuda_device as device
from cuda_device import ArrayType, float32, int32
from cuda_device.codegen.gpu import assemblers, cubin, libcuda, nvptx, ptx_versions
from cuda_device.instrument.outline import ProgramSummary
from cuda_device.types.architectures import ARCHITECTURES, parse

F4, R4, R2 = "{%f, %f, %f, %f}", "{%r, %r, %r, %r}", "{%r, %r}"
# A program for each row of the table, in its order: an architecture, and an instruction that the row is about.
PROGRAMS = (
    ("sm_89", "cvt.rn.satfinite.e4m3x2.f32 %h, %f, %f;"),
    ("sm_90", "cvt.rn.satfinite.f16.f32 %h, %f;"),
    ("sm_90", "fma.rn.oob.f16 %h, %h, %h, %h;"),
    ("sm_90", "red.relaxed.gpu.global.add.v2.f32 [%rd], {%f, %f};"),
    ("sm_90", "atom.relaxed.gpu.global.add.v2.f32 {%f, %f}, [%rd], {%f, %f};"),
    ("sm_90", "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r], %r, [%r];"),
    ("sm_90", "mov.u32 %r, %aggr_smem_size;"),
    ("sm_90", "multimem.st.relaxed.gpu.global.f32 [%rd], %f;"),
    ("sm_90", "ld.mmio.relaxed.sys.global.u32 %r, [%rd];"),
    ("sm_90", "multimem.ld_reduce.relaxed.gpu.global.add.acc::f32.v4.bf16x2 {%r, %r, %r, %r}, [%rd];"),
    ("sm_90", "lop3.or.b32 %r|%p, %r, %r, %r, 1, %p;"),
    ("sm_90", "trap;"),
    ("sm_90", '.pragma "used_bytes_mask 0xfff"; ld.global.v4.u32 {%r, %r, %r, %r}, [%rd];'),
    ("sm_90", "ld.relaxed.gpu.global.b128 %q, [%rd];"),
    ("sm_90", "isspacep.param::entry %p, %rd;"),
    ("sm_90", "fence.proxy.tensormap::generic.release.gpu;"),
    ("sm_90", "ld.relaxed.sys.global.b128 %q, [%rd];"),
    ("sm_89", f"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {F4}, {R4}, {R2}, {F4};"),
    ("sm_80", f"mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {R2}, {R2}, {R2}, {R2}, %r, 0;"),
    ("sm_90", "fence.acquire.gpu;"),
    ("sm_90", "fence.acquire.sync_restrict::shared::cluster.cluster;"),
    ("sm_90", "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r], [%rd], %r, [%r];"),
    ("sm_100", "ld.global.v8.b32 {%r, %r, %r, %r, %r, %r, %r, %r}, [%rd];"),
    ("sm_100", "ld.global.v4.b64 {%rd, %rd, %rd, %rd}, [%rd];"),
    ("sm_100", "min.f32 %f, %f, %f, %f;"),
    ("sm_100", "max.f32 %f, %f, %f, %f;"),
)  # fmt: skip
# Assemblers read these in programs of any version.
UNCHECKED = ("fence.acquire", "trap;")
BODY = """.version {version}
.target {architecture}
.address_size 64
.visible .entry k() {{
\t.reg .pred %p; .reg .b16 %h; .reg .b32 %r; .reg .f32 %f; .reg .b64 %rd; {more}
\t{instruction}
\tret;
}}
"""


def program(architecture: str, instruction: str, version: int) -> str:
    more = ".reg .b128 %q;" if "%q" in instruction else ""
    words = ptx_versions.dotted(version)
    return BODY.format(version=words, architecture=architecture, instruction=instruction, more=more)


def version_of(ptx: str) -> str:
    return re.search(r"^\.version (\S+)", ptx, re.M)[1]


@pytest.fixture
def cuda(monkeypatch):
    """Sets the version of CUDA to compile for."""
    return lambda version: monkeypatch.setenv(libcuda.VARIABLE, version)


@pytest.mark.parametrize(
    "row, case", [*zip(ptx_versions.FEATURES, PROGRAMS, strict=True)], ids=[case[1].split()[0] for case in PROGRAMS]
)
def test_a_row_says_what_the_assembler_says(row, case):
    architecture, instruction = parse(case[0]), case[1]
    text = program(case[0], instruction, ptx_versions.WRITTEN)
    assert row.word in text and re.search(row.pattern, text)
    assert ptx_versions.needed(text, architecture) == max(row.version, architecture.ptx)
    if not can_assemble(case[0]):
        pytest.skip("no assembler")
    assembler = next(each for each in assemblers.ASSEMBLERS[1:] if each.available(architecture))

    def log(version: int) -> str:
        try:
            assembler.run(assemblers.Request(program(case[0], instruction, version), architecture))
        except assemblers.Rejection as rejection:
            return str(rejection)
        return ""

    assert log(max(row.version, architecture.ptx)) == ""
    if row.version > architecture.ptx and not instruction.startswith(UNCHECKED):
        asked = re.findall(r"requires PTX ISA .version (\S+)", log(row.version - 1))
        assert max(asked) == ptx_versions.dotted(row.version)


@pytest.mark.parametrize("instruction", [
    "fence.acq_rel.gpu;", "fence.mbarrier_init.release.cluster;", "cvt.rn.satfinite.e4m3x2.f32 %h, %f, %f;", "trap; exit;",
    "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f, %f, %f, %f}, %rd, %rd, 1, 1, 1;", "lop3.b32 %r, %r, %r, %r, 1;",
    "ld.global.v4.b32 {%r, %r, %r, %r}, [%rd];", "min.f32 %f, %f, %f;", "red.relaxed.sys.global.add.f32 [%rd], %f;",
    "isspacep.shared::cluster %p, %rd;", "fma.rn.f32 %f, %f, %f, %f;", "redux.sync.min.s32 %r, %r, -1;", "ld.param.b32 %r, [x];",
])  # fmt: skip
def test_older_instructions_need_no_newer_version(instruction):
    assert ptx_versions.needed(program("sm_90", instruction, 88), parse("sm_90")) == 80


@pytest.mark.parametrize("cuda, version", [
    ((11, 8), 0), ((12, 0), 80), ((12, 2), 82), ((12, 6), 85), ((12, 7), 86), ((12, 9), 88), ((13, 0), 90), ((13, 4), 90),
    ((14, 1), 90),
])  # fmt: skip
def test_what_a_driver_reads(cuda, version):
    assert ptx_versions.readable(cuda) == version


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("driver", ["", "12.0", "12.4", "13.0"])
def test_llvm_writes_what_the_driver_reads(cuda, architecture, driver):
    cuda(driver)
    target = parse(architecture)
    made = nvptx.emit(nvptx.parse("define ptx_kernel void @k() { ret void }"), target)
    assert version_of(made) == ptx_versions.dotted(target.ptx)
    assert target.ptx <= ptx_versions.written(target) <= 90


@device.kernel
def publishes(flag, x):
    x[0] = 1
    device.threadfence("release")
    device.atomic_ref(flag, 0).store(1, "relaxed")
    device.threadfence("acquire")
    x[1] = x[2]


TYPES = ArrayType(int32, 1), ArrayType(float32, 1)


def fences(target="sm_90"):
    made = device.compile(publishes, *TYPES, target=target, output="ptx").code
    return version_of(made), set(re.findall(r"fence\.(\w+)", made))


def test_fences_are_those_that_the_driver_knows(cuda):
    newest = "8.6", {"acquire", "release"}
    assert fences() == newest
    older = "8.0", {"acq_rel"}
    for driver, expected in (("12.2", older), ("12.6", older), ("12.8", newest), ("13.0", newest)):
        cuda(driver)
        assert fences() == expected
    cuda("12.2")
    assert fences("sm_80") == older


def test_a_trap_ends_the_block_for_old_assemblers_too(cuda):
    text = "declare void @llvm.trap()\ndefine ptx_kernel void @k() {\ncall void @llvm.trap()\nunreachable\n}"

    def made():
        return nvptx.emit(nvptx.parse(text), parse("sm_90"))

    assert version_of(made()) == "8.3" and "exit;" not in made()
    cuda("12.2")
    assert version_of(made()) == "8.0" and re.search(r"trap;\s*exit;", made())


def test_the_variable_is_a_version(cuda):
    cuda("twelve")
    with pytest.raises(device.CompileError, match="'twelve', which is not a version of CUDA") as caught:
        device.compile(publishes, *TYPES, target="sm_90", output="ptx")
    assert "such as 12.2" in caught.value.help
    cuda("12")
    assert libcuda.version() == (12, 0)


@device.kernel
def cases(x):
    x[0] = device.ptx("mov.u32 $0, %aggr_smem_size;", result=int32)


@pytest.mark.skipif(not can_assemble(), reason="no assembler for sm_90 on this machine")
def test_ptx_of_a_program_raises_the_version(monkeypatch):
    """By the table, and where the table does not have an instruction, by what the assembler says."""
    types = (ArrayType(int32, 1),)
    made = device.compile(cases, *types, target="sm_90", output="ptx").code
    assert version_of(made) == "8.1"
    monkeypatch.setattr(ptx_versions, "FEATURES", ())
    assert version_of(device.compile(cases, *types, target="sm_90", output="ptx").code) == "8.0"
    assert device.compile(cases, *types, target="sm_90", output="cubin").code.startswith(b"\x7fELF")


def test_the_cache_has_the_code_of_each_driver_apart(cuda, monkeypatch):
    monkeypatch.setattr(cubin, "identity", lambda _: "the same")
    summary, keys = ProgramSummary(None, (), "digest", frozenset(), 0), []
    for driver in ("", "13.0", "12.9", "12.2"):
        cuda(driver)
        keys.append(cubin._key(summary, parse("sm_90"), ""))
    assert keys[0] == keys[1] == keys[2] != keys[3]
