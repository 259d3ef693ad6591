"""PTX to cubin: all architectures, the choice of the assembler, and the errors for rejected PTX."""

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cuda_device as device
from cuda_device.codegen.gpu import assemblers, cubin, libcuda
from cuda_device.errors import CompilerBug
from cuda_device.lazy_dataclasses import replace
from cuda_device.types.architectures import ARCHITECTURES, Architecture, parse

SM_90 = parse("sm_90")
ELF = b"\x7fELF"

# Those of the table that work here; the tests of the others are skipped, and those of the choice use stand-ins.
HERE = [row.name for row in assemblers.ASSEMBLERS if row.name != "driver" and row.available(SM_90)]
needs_an_assembler = pytest.mark.skipif(not HERE, reason="no assembler on this machine")


def ptx(architecture: Architecture = SM_90, body: str = "st.global.b32 [%rd1], 3;", version: str = "") -> str:
    return f"""
.version {version or architecture.ptx / 10}
.target {architecture}
.address_size 64
.visible .entry k(.param .u64 p)
{{
    .reg .b64 %rd<3>;
    .reg .b32 %r<99>;
    .shared .b32 numbers[100];
    ld.param.b64 %rd1, [p];
    {body}
    ret;
}}
"""


@pytest.fixture(autouse=True)
def no_forced_assembler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(cubin.VARIABLE, raising=False)
    yield


@pytest.fixture(params=[row.name for row in assemblers.ASSEMBLERS if row.name != "driver"])
def forced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each assembler that works without a GPU, forced."""
    name = str(request.param)
    if name not in HERE:
        pytest.skip(f"no {name} on this machine")
    monkeypatch.setenv(cubin.VARIABLE, name.upper())
    return name


def machine_of(cubin: bytes) -> int | None:
    """The architecture that a cubin says it is for."""
    return assemblers.Input("cubin", cubin).architecture


# ---- making cubins


@needs_an_assembler
@pytest.mark.parametrize("architecture", [*map(parse, ARCHITECTURES)], ids=str)
def test_cubin_for_every_architecture(architecture: Architecture) -> None:
    made = cubin.assemble(ptx(architecture), architecture)
    assert made.code[:4] == ELF and b".text.k" in made.code and made.assembler in [*HERE, "driver"]
    assert machine_of(made.code) == architecture.number


@pytest.mark.parametrize("name", ["sm_75", "sm_88", "sm_90a", "sm_110f", "sm_121"])
def test_all_assemblers_take_our_ptx_versions(forced: str, name: str) -> None:
    made = cubin.assemble(ptx(parse(name)), parse(name))
    assert made.code[:4] == ELF and made.assembler == forced


def test_line_table(forced: str) -> None:
    source = ptx(body=".loc 1 42 3\n    st.global.b32 [%rd1], 3;") + '.file 1 "kernel.py"\n'
    assert b"kernel.py" in cubin.assemble(source, SM_90, line_info=True).code


def test_eight_threads(forced: str) -> None:
    numbers = range(16)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda i: cubin.assemble(ptx(body=f"st.global.b32 [%rd1], {i};"), SM_90).code, numbers))
    assert len(set(made)) == len(numbers)
    assert made[3] == cubin.assemble(ptx(body="st.global.b32 [%rd1], 3;"), SM_90).code


# ---- the choice


def stand_in(monkeypatch: pytest.MonkeyPatch, **rows: object) -> list[str]:
    """Replaces the table by stand-ins, which are missing if they are None and raise exceptions; returns those that run."""
    ran: list[str] = []

    def row(name: str, outcome: object) -> assemblers.Assembler:
        def run(request: assemblers.Request) -> bytes:
            ran.append(name)
            if isinstance(outcome, Exception):
                raise outcome
            return ELF

        return assemblers.Assembler(
            name, lambda _: outcome is not None, run, lambda: name + " 1", lambda: "get " + name
        )

    monkeypatch.setattr(cubin, "ASSEMBLERS", tuple(row(name, outcome) for name, outcome in rows.items()))
    return ran


def test_first_available_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = stand_in(monkeypatch, a=None, b=True, c=True)
    made = cubin.assemble(ptx(), SM_90)
    assert (made.assembler, ran) == ("b", ["b"])
    assert cubin.identity(SM_90) == "b 1"


def test_an_assembler_that_cannot_link_is_no_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, ptxas=True)
    with pytest.raises(device.CompileError, match="there is no assembler that links for sm_90"):
        cubin.assemble(ptx(), SM_90, (assemblers.Input("other.ptx", b".version 8.0"),))


@pytest.mark.parametrize(
    "log",
    [
        "ptxas k.ptx, line 1; fatal   : Unsupported .version 9.0; current version is '8.4'",
        "ptxas fatal   : Value 'sm_121' is not defined for option 'gpu-name'",
        "-arch=sm_121 -O3: ERROR_UNRECOGNIZED_ARCH (16)",
    ],
)
def test_too_old_leaves_it_to_the_next(monkeypatch: pytest.MonkeyPatch, log: str) -> None:
    ran = stand_in(monkeypatch, a=assemblers.Rejection(log), b=True)
    assert cubin.assemble(ptx(), SM_90).assembler == "b" and ran == ["a", "b"]
    assert cubin.assemble(ptx(), SM_90).assembler == "b" and ran == ["a", "b", "b"], "asked but once"
    stand_in(monkeypatch, a=assemblers.Rejection(log))
    for _ in range(2):
        with pytest.raises(device.CompileError, match="a cannot be used") as error:
            cubin.assemble(ptx(), SM_90)
        assert log in str(error.value)


def test_what_any_assembler_makes_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Cubins of the last assembler, which gets a division, are cached, but not those of one that the key does not name."""
    monkeypatch.setenv("CUDA_DEVICE_CACHE", str(tmp_path))

    @device.kernel
    def divide(x: device.ArrayType(device.float32, 1), by: device.float32):  # type: ignore[valid-type]
        x[0] = x[0] / by

    for found, kept in ((True, 1), (False, 2)):
        ran = stand_in(monkeypatch, a=True, b=True)
        rows = [replace(each, installed=partial(bool, found)) for each in cubin.ASSEMBLERS]
        monkeypatch.setattr(cubin, "ASSEMBLERS", tuple(rows))
        for _ in range(2):
            device.compile(divide, output="cubin")
        assert ran == ["b"] * kept


DIVISION = "mov.b32 %r1, 2; \n\tdiv.rn.f32 \t%r2, %r1, %r1; st.global.b32 [%rd1], %r2;"


@pytest.mark.parametrize(
    ("body", "relocatable", "first"),
    [
        ("\n\tadd.f32 \t%r2, %r1, %r1;", False, "a"),
        ("\n\tdiv.full.f32 \t%r2, %r1, %r1;", False, "a"),
        ("\n\tdiv.s32 \t%r2, %r1, %r1;", False, "a"),
        (DIVISION, False, "c"),
        (DIVISION, True, "a"),
        ("\n\tsqrt.rn.f64 \t%rd2, %rd1;", False, "c"),
        ("\n\tfence.sc.sys;", False, "c"),
        ("\n\tfence.acq_rel.gpu;", False, "a"),
        ("\n\trcp.rn.ftz.f32 \t%r2, %r1;", False, "c"),
        ("\n\trem.u64 \t%rd2, %rd1, %rd1;", False, "c"),
        ("\n\tcall.uni \tf;", False, "c"),
    ],
)
def test_what_calls_is_assembled_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, body: str, relocatable: bool, first: str
) -> None:
    """The last assembler of the table treats the program as a whole; the driver, which is the first, as a part."""
    ran = stand_in(monkeypatch, a=True, b=True, c=True)
    assert cubin.assemble(ptx(body=body), SM_90, relocatable=relocatable).assembler == first and ran == [first]


def test_code_that_the_driver_does_not_take_is_made_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = stand_in(monkeypatch, driver=True, b=True, c=True)
    monkeypatch.setattr(cubin, "loads", lambda code, architecture: len(ran) > 1 and architecture == SM_90)
    assert cubin.assemble(ptx(body=DIVISION), SM_90).assembler == "b" and ran == ["c", "b"]
    monkeypatch.setattr(cubin, "loads", lambda code, architecture: False)
    assert cubin.assemble(ptx(body=DIVISION), SM_90).assembler == "driver" and ran == ["c", "b", "b", "driver"]
    assert cubin.assemble(ptx(), SM_90).assembler == "driver"


def test_loading_for_no_gpu() -> None:
    """Without a GPU of the architecture, nothing is loaded."""
    assert assemblers.loads(b"no code at all", parse("sm_75" if SM_90.number != 75 else "sm_80"))


def test_nvjitlink_that_cannot_copy_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    if "nvJitLink" not in HERE:
        pytest.skip("no nvJitLink on this machine")
    assert assemblers._knows("allow-expensive-optimizations")
    asked = []
    genuine = assemblers._link

    def link(request: assemblers.Request, *more: str) -> bytes:
        asked.append(more)
        return genuine(request, *more)

    monkeypatch.setattr(assemblers, "_link", link)
    monkeypatch.setattr(assemblers, "_COPIES", "enable-no-such-thing")
    monkeypatch.setenv(cubin.VARIABLE, "nvJitLink")
    for _ in range(2):
        assert cubin.assemble(ptx(body=DIVISION), SM_90).code[:4] == ELF
    question = ("-Xptxas=-enable-no-such-thing=true", "-Xptxas=-none")
    assert asked == [question, (), ()], "it is asked but once"
    with pytest.raises(CompilerBug):
        cubin.assemble(ptx(body="st.global.b33 [%rd1], 3;"), SM_90)


# ---- registers


def test_a_register_or_two_fewer_where_more_warps_run() -> None:
    """By CUDA's occupancy table: 64 warps of a multiprocessor have up to 32 registers, then 48, 40, 36, 32, 28, 24, 20, 16, …"""
    fewer = {97: 96, 98: 96, 33: 32, 34: 32, 129: 128, 130: 128, 169: 168}
    same = (1, 2, 8, 25, 31, 32, 35, 89, 96, 99, 105, 113, 255)
    assert {registers: cubin.fewer_registers(registers) for registers in (*fewer, *same)} == fewer | dict.fromkeys(same)


@pytest.mark.parametrize(
    ("registers", "stack", "expected"), [(97, 0, 96), (97, 8, 96), (97, 12, 97), (96, 0, 96), (100, 0, 100)]
)
def test_it_is_assembled_again_for_more_warps(
    monkeypatch: pytest.MonkeyPatch, registers: int, stack: int, expected: int
) -> None:
    asked = []

    def run(request: assemblers.Request) -> bytes:
        bound = re.search(r"\)\n\.maxnreg (\d+)\n\{", request.ptx)
        asked.append(int(bound[1]) if bound else 0)
        return b"%d" % (asked[-1] or registers)

    monkeypatch.setattr(cubin, "ASSEMBLERS", (assemblers.Assembler("a", lambda _: True, run, str, str),))
    monkeypatch.setattr(cubin.elf, "registers", lambda code: {"k": int(code)})
    monkeypatch.setattr(cubin.elf, "stacks", lambda code: {"k": stack * (code == b"96")})
    assert cubin.assemble(ptx(), SM_90).code == b"%d" % expected
    assert asked == ([0, 96] if registers == 97 else [0])
    asked.clear()
    cubin.assemble(ptx(body=".maxntid 128"), SM_90)
    cubin.assemble(ptx(), SM_90, relocatable=True)
    assert asked == [0, 0]


# ---- the driver, by a stand-in, and where there is a GPU


class LinkingDriver:
    """The part of the driver that links; `refuses` makes it write that to its log, and fail."""

    CUjit_option = SimpleNamespace(**libcuda.ENUMERATIONS["CUjit_option"])
    CUjitInputType = SimpleNamespace(**libcuda.ENUMERATIONS["CUjitInputType"])

    def __init__(self, refuses: bytes = b"") -> None:
        self.refuses, self.living = refuses, 0
        self.code = ctypes.create_string_buffer(ELF + b" made by a stand-in")

    def cuLinkCreate(self, count: int, options: int, values: int) -> tuple[Any, ...]:
        names, numbers = (ctypes.c_int * count).from_address(options), (ctypes.c_uint64 * count).from_address(values)
        self.options = dict(zip(names, numbers, strict=True))
        self.living += 1
        return 0, 77

    def cuLinkAddData(
        self, state: int, kind: int, data: bytes, size: int, name: bytes, count: int, options: Any, values: Any
    ) -> tuple[Any, ...]:
        assert state == 77 and kind == self.CUjitInputType.CU_JIT_INPUT_PTX and size == len(data) and count == 0
        self.data = data
        assert len(self.refuses) < self.options[self.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        ctypes.memmove(self.options[self.CUjit_option.CU_JIT_ERROR_LOG_BUFFER], self.refuses, len(self.refuses))
        return (218 if self.refuses else 0,)

    def cuLinkComplete(self, state: int) -> tuple[Any, ...]:
        assert state == 77 and self.options[self.CUjit_option.CU_JIT_LOG_VERBOSE]
        said = b"info    : 8 bytes stack frame, 8 bytes spill stores"
        assert len(said) < self.options[self.CUjit_option.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES]
        ctypes.memmove(self.options[self.CUjit_option.CU_JIT_INFO_LOG_BUFFER], said, len(said))
        return 0, ctypes.addressof(self.code), len(self.code) - 1

    def cuLinkDestroy(self, state: int) -> tuple[Any, ...]:
        self.living -= 1
        return (0,)


@pytest.mark.parametrize("debug", [False, True])
def test_the_driver_links_a_text_that_ends_in_zero(monkeypatch: pytest.MonkeyPatch, debug: bool) -> None:
    driver = LinkingDriver()
    monkeypatch.setattr(assemblers, "_driver", lambda: driver)
    request, option = assemblers.Request(ptx(), SM_90, line_info=True, debug=debug), driver.CUjit_option
    assert assemblers.ASSEMBLERS[0].run(request) == ELF + b" made by a stand-in"
    assert request.log == ["info    : 8 bytes stack frame, 8 bytes spill stores"]
    assert driver.data == ptx().encode() + b"\n\0" and driver.living == 0
    assert driver.options[option.CU_JIT_OPTIMIZATION_LEVEL] == (0 if debug else 3)
    assert driver.options[option.CU_JIT_GENERATE_DEBUG_INFO] == debug
    assert driver.options[option.CU_JIT_GENERATE_LINE_INFO] == 1
    assert driver.options[option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES] > 1000
    assert request.flags == (("-O0", "-g") if debug else ("-O3", "-lineinfo"))
    driver = LinkingDriver(refuses=b"ptxas fatal   : it is a stand-in")
    with pytest.raises(assemblers.Rejection, match=r"^ptxas fatal   : it is a stand-in$"):
        assemblers.ASSEMBLERS[0].run(request)
    assert driver.living == 0


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Architecture]:
    """The architecture of GPU 0, whose primary context is current, with the driver forced."""
    driver = assemblers._driver()
    if driver is None or driver.cuInit(0)[0] != 0 or driver.cuDeviceGetCount()[1] == 0:
        pytest.skip("no GPU on this machine")
    device = driver.cuDeviceGet(0)[1]
    driver.cuCtxPushCurrent(driver.cuDevicePrimaryCtxRetain(device)[1])
    monkeypatch.setenv(cubin.VARIABLE, "driver")
    major, minor = assemblers._capability(driver, device)
    yield parse(f"sm_{major}{minor}")
    driver.cuCtxPopCurrent()
    driver.cuDevicePrimaryCtxRelease(device)


def test_driver_assembles(gpu: Architecture) -> None:
    made = cubin.assemble(ptx(gpu, body="st.shared.b32 [numbers], 1; bar.sync 0;"), gpu)
    assert made.code[:4] == ELF and made.assembler == "driver" and machine_of(made.code) == gpu.number
    assert re.match(r"driver \d+", cubin.identity(gpu))


def test_driver_assembles_for_exactly_this_gpu(gpu: Architecture) -> None:
    exact = parse(f"{gpu}a") if f"{gpu}a" in ARCHITECTURES else None
    if exact is None:
        pytest.skip("this generation has no variant a")
    made = cubin.assemble(ptx(exact, body="setmaxnreg.inc.sync.aligned.u32 64;" if exact.number == 90 else ""), exact)
    assert made.code[:4] == ELF and made.assembler == "driver"


def test_driver_rejects(gpu: Architecture) -> None:
    with pytest.raises(CompilerBug) as error:
        cubin.assemble(ptx(gpu, body="st.global.b33 [%rd1], 3;"), gpu)
    assert re.search(r"^ +11 \|     st\.global\.b33 \[%rd1\], 3;$", str(error.value), re.M), str(error.value)
    with pytest.raises(device.CompileError, match="static shared memory"):
        cubin.assemble(ptx(gpu, body="st.shared.b32 [numbers], 1;").replace("[100]", "[100000]"), gpu)
    with pytest.raises(device.CompileError, match="driver cannot be used"):
        cubin.assemble(ptx(gpu, version="99.0"), gpu)
    other = parse("sm_75" if gpu.number != 75 else "sm_80")
    with pytest.raises(device.CompileError, match="no assembler for"):
        cubin.assemble(ptx(other), other)


# ---- refusals


def test_wrong_ptx_is_a_bug_with_its_line(forced: str) -> None:
    with pytest.raises(CompilerBug) as error:
        cubin.assemble(ptx(body="st.global.b33 [%rd1], 3;"), SM_90)
    text = str(error.value)
    assert text.startswith(f"{forced} rejects the generated PTX for sm_90:\n")
    assert "'.b33'" in text, "the assembler's own words"
    assert re.search(r"^ +11 \|     st\.global\.b33 \[%rd1\], 3;$", text, re.M), text
    assert "report it" in text


def test_what_no_compiler_can_mend_is_the_users_business(forced: str) -> None:
    for source, reason, remedy in (
        (ptx(version="99.0"), rf"{forced} cannot be used \(.*Unsupported \.version 99\.0", ""),
        # After that nvJitLink 13.5 does not say which kernels have too much shared memory, until it has rejected another.
        (ptx(body="nonsense;"), "nonsense", "report it"),
        (
            ptx(body="st.shared.b32 [numbers], 1;").replace("numbers[100]", "numbers[100000]"),
            "k needs 400000 bytes of static shared memory; the limit is 49152",
            "dynamic shared memory",
        ),
        (
            ptx().replace(".param .u64 p)", ".param .u64 p, .param .align 8 .b8 q[70000])"),
            r"k needs 700\d\d bytes of arguments; the limit is 32764",
            "",
        ),
        (
            ptx(body="call foo;").replace(".visible .entry", ".extern .func foo;\n.visible .entry"),
            "nothing defines foo",
            "",
        ),
    ):
        with pytest.raises(CompilerBug if "report" in remedy else device.CompileError, match=reason) as error:
            cubin.assemble(source, SM_90)
        assert remedy in str(error.value)


def test_no_temporary_files_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if "ptxas" not in HERE:
        pytest.skip("no ptxas on this machine")
    monkeypatch.setenv(cubin.VARIABLE, "ptxas")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert cubin.assemble(ptx(), SM_90).code[:4] == ELF
    with pytest.raises(CompilerBug) as error:
        cubin.assemble(ptx(body="nonsense;"), SM_90)
    assert list(tmp_path.iterdir()) == [] and str(tmp_path) not in str(error.value)


def test_ptxas_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(assemblers, "_ptxas", lambda: tmp_path)
    monkeypatch.setenv(cubin.VARIABLE, "ptxas")
    with pytest.raises(device.CompileError, match="ptxas cannot be used"):
        cubin.assemble(ptx(version="1.2345"), SM_90)


def test_ptxas_that_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess([], returncode=-11, stdout="", stderr="")
    monkeypatch.setattr(assemblers, "_ptxas", lambda: Path("ptxas"))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    monkeypatch.setenv(cubin.VARIABLE, "ptxas")
    with pytest.raises(CompilerBug, match="ended with status -11"):
        cubin.assemble(ptx(), SM_90)


def test_a_function_that_nothing_defines_is_refused_if_the_linker_overlooks_it():
    declared = ".extern .func {0};\n.visible .entry kernel() {{ call {0}; ret; }}\n"
    head = ".version 8.0\n.target sm_90\n.address_size 64\n"
    overlooked = cubin.assemble(head + declared.format("missing"), parse("sm_90"), relocatable=True).code
    with pytest.raises(assemblers.Rejection, match="Undefined reference to 'missing'"):
        assemblers._refuse_undefined(overlooked)
    assemblers._refuse_undefined(cubin.assemble(head + declared.format("free"), parse("sm_90"), relocatable=True).code)
