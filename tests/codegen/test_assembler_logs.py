"""What assemblers say of code that they accept: `Compiled.warnings`, `Compiled.spills` and `PerformanceWarning`."""

import warnings

import numpy as np
import pytest
from conftest import can_assemble

import cuda_device as device
from cuda_device.codegen.gpu import assembler_logs, assemblers, cubin, elf, slow_code
from cuda_device.codegen.gpu.elf import AssemblerNotes
from cuda_device.codegen.gpu.peephole import avoid_faults
from cuda_device.device.options import Options
from cuda_device.types.architectures import parse

FLOATS = device.ArrayType(np.float32, 1)
ASSEMBLERS = [
    pytest.param(name, marks=pytest.mark.skipif(not can_assemble("sm_90a", by=name), reason=f"no {name}"))
    for name in ("ptxas", "nvJitLink")
]

# As they were recorded: ptxas 13.0, nvJitLink 13.5, and the driver's form of the same messages.
RECORDED = {
    "ptxas": """\
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    456 bytes stack frame, 664 bytes spill stores, 660 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers, 456 bytes cumulative stack size
ptxas info    : Compile time = 7.689 ms
""",
    "nvJitLink": """\
ptxas warning : Value of threads per SM for entry k is out of range. .minnctapersm will be ignored
ptxas info    : (C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility across compilation units.
ptxas info    : 0 bytes gmem
ptxas info    : Function properties for f
ptxas         .     8 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Function properties for k
ptxas         .     0 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
""",
    "driver": """\
info    : 0 bytes gmem
warning : Stack size for entry function 'k' cannot be statically determined
info    : (C7519) warpgroup.arrive is injected in around line 9 by compiler to allow use of registers in GMMA in function 'k'
info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ill formed pipeline stage
""",
}
NOTES = {
    "ptxas": AssemblerNotes(
        ("(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.",),
        664,
    ),
    "nvJitLink": AssemblerNotes(
        (
            "Value of threads per SM for entry k is out of range. .minnctapersm will be ignored",
            "(C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility across compilation units.",
        ),
        12,
    ),
    "driver": AssemblerNotes(
        (
            "Stack size for entry function 'k' cannot be statically determined",
            "(C7519) warpgroup.arrive is injected in around line 9 by compiler to allow use of registers in GMMA in function 'k'",
            "(C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ill formed pipeline stage",
        )
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_logs(name):
    notes = assembler_logs.read([RECORDED[name]])
    assert notes == NOTES[name] and assembler_logs.unpacked(assembler_logs.packed(notes)) == notes
    assert (
        assembler_logs.read([]) == AssemblerNotes() == assembler_logs.unpacked(assembler_logs.packed(AssemblerNotes()))
    )


def told(notes, assembler="ptxas", symbols=("k",), registers=24, **options):
    """What is said of a kernel with these notes, as pairs of reason and help."""

    def k():
        pass

    made = elf.Cubin(b"", assembler, notes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elf, "functions", lambda code: frozenset(symbols))
        patch.setattr(elf, "undefined_functions", lambda code: [])
        patch.setattr(elf, "registers", lambda code: {"k": registers})
        return [(loss.reason, loss.help) for loss in slow_code.losses(made, "k", k, Options(**options), is_kernel=True)]


def test_what_is_a_loss_of_time_and_its_remedy():
    spilled, (ignored, remedy) = told(NOTES["ptxas"], max_registers=24)
    assert spilled[0] == "k needs more registers than a thread may use: each one spills 664 bytes to local memory"
    assert spilled[1] == "raise max_registers, or lower max_threads or min_blocks, or keep fewer values at a time"
    assert ignored.startswith("ptxas says of k: (C7508)") and "max_threads" in remedy
    of_linker = told(NOTES["nvJitLink"])
    assert [any(word in help for word in ("split", "min_blocks", "nvidia-cuda-nvcc")) for _, help in of_linker] == [
        True
    ] * 3
    ((serialised, _),) = told(NOTES["driver"], "driver")
    assert "driver says of k: (C7514)" in serialised and "wgmma.mma_async instructions are serialized" in serialised
    assert told(NOTES["ptxas"], debug=True) == []


def test_registers_that_calls_spill_are_no_loss():
    """Where functions are called, registers are spilled for lack of them only if a thread uses all that it may use."""
    spills = AssemblerNotes((), 48)
    assert told(spills, symbols=("k", "f")) == []
    assert len(told(spills, symbols=("k", "f"), registers=250)) == 1
    limits = {"max_threads": 1024}, {"max_threads": 256, "min_blocks": 4}, {"max_registers": 64}, {"max_registers": 70}
    assert [len(told(spills, symbols=("k", "f"), registers=64, **limit)) for limit in limits] == [1] * 4
    assert told(spills, symbols=("k", "f"), registers=64, max_threads=512) == []


def test_registers_that_the_compiler_spills_on_purpose_are_no_loss():
    """`cubin` limits registers where more warps are resident then, at the cost of 8 bytes of stack."""
    clean = RECORDED["ptxas"].replace("664 bytes spill stores", "0 bytes spill stores")
    notes = assembler_logs.read([clean, RECORDED["ptxas"].split("\n", 1)[1]])
    assert notes == AssemblerNotes((), 664, on_purpose=True) and told(notes) == []
    assert not assembler_logs.read([RECORDED["ptxas"]] * 2).on_purpose


def spilling(registers: int = 24):
    """A kernel that needs about 60 registers and may use 24."""

    @device.kernel(max_registers=registers)
    def spills(x, n):
        values = tuple(x[i] for i in range(40))
        for j in range(n):
            values = tuple(v * v + x[j] for v in values)
        total = device.float32(0)
        for v in values:
            total += v
        x[device.thread_idx.x] = total

    return spills


def asking(**options):
    """A kernel that asks for registers."""

    @device.kernel(**options)
    def asks(x):
        if device.thread_idx.x < 128:
            device.ptx("setmaxnreg.dec.sync.aligned.u32 24;")
        else:
            device.ptx("setmaxnreg.inc.sync.aligned.u32 240;")
        x[device.thread_idx.x] = 1

    return asks


@pytest.mark.parametrize("name", ASSEMBLERS)
def test_spills(monkeypatch, name):
    monkeypatch.setenv(cubin.VARIABLE, name)
    kernel = spilling()
    with pytest.warns(
        device.PerformanceWarning, match=r"^spills needs .* spills \d+ bytes to local memory\n  at "
    ) as caught:
        compiled, again = (device.compile(kernel, FLOATS, device.int32, target="sm_90") for _ in range(2))
    (warning,) = caught  # once
    assert (warning.filename, warning.lineno) == (__file__, kernel.underlying.__code__.co_firstlineno)
    assert compiled.registers == 24 and compiled.spills == again.spills > 0 and compiled.warnings == ()
    assert device.compile(kernel, FLOATS, device.int32, output="ptx").spills is None


def test_the_cache_keeps_the_notes_and_a_cached_kernel_warns(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_DEVICE_CACHE", str(tmp_path))
    seen = []
    for kernel in (spilling(), spilling()):
        with pytest.warns(device.PerformanceWarning):
            seen.append(device.compile(kernel, FLOATS, device.int32, target="sm_90").spills)
    assert seen[0] == seen[1] > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", device.PerformanceWarning)
        with pytest.raises(device.PerformanceWarning, match="help: raise max_registers"):
            device.compile(spilling(), FLOATS, device.int32, target="sm_90")
        assert device.compile(spilling(128), FLOATS, device.int32, target="sm_90").spills == 0
        warnings.filterwarnings("ignore", module=__name__, category=device.PerformanceWarning)
        device.compile(spilling(), FLOATS, device.int32, target="sm_90")


def test_saved_code_has_the_notes(monkeypatch, tmp_path):
    monkeypatch.setenv(cubin.VARIABLE, "nvJitLink")
    compiled = device.compile(asking(max_threads=384), FLOATS, target="sm_90a")
    compiled.save(tmp_path / "asks.cubin")
    loaded = device.load(tmp_path / "asks.cubin")
    assert (loaded.warnings, loaded.spills) == (compiled.warnings, compiled.spills)
    assert bool(compiled.warnings) == can_assemble("sm_90a", by="nvJitLink")


# Registers that the warps of a kernel exchange


@pytest.mark.skipif(not can_assemble("sm_90a", by="ptxas"), reason="no ptxas")
def test_a_kernel_that_asks_for_registers_is_assembled_as_a_whole():
    """It starts with 65536 // 384 registers, rounded down to 8, because nothing is ignored."""
    compiled = device.compile(asking(max_threads=384), FLOATS, target="sm_90a")
    assert (compiled.registers, compiled.warnings) == (168, ())


@pytest.mark.skipif(not can_assemble("sm_90a", by="nvJitLink"), reason="no nvJitLink")
def test_a_request_that_is_ignored_is_told(monkeypatch):
    monkeypatch.setenv(cubin.VARIABLE, "nvJitLink")
    with pytest.warns(
        device.PerformanceWarning, match="nvJitLink says of asks: .C7504.*'setmaxnreg' ignored"
    ) as caught:
        compiled = device.compile(asking(max_threads=384), FLOATS, target="sm_90a")
    assert "nvidia-cuda-nvcc" in str(caught[0].message) and "C7504" in compiled.warnings[0]
    if can_assemble("sm_90a", by="ptxas"):
        monkeypatch.setenv(cubin.VARIABLE, "ptxas")
        with pytest.warns(device.PerformanceWarning, match="C7508"):
            device.compile(asking(), FLOATS, target="sm_90a")


PRODUCT = (
    "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0,$1,$2,$3}, $4, $4, 0, 1, 1, 0, 0;\n"
    "wgmma.commit_group.sync.aligned;"
)


@pytest.mark.parametrize("name", ASSEMBLERS)
def test_a_wait_that_the_assembler_adds_is_told(monkeypatch, name):
    """The accumulators are read before the program waits for the products."""
    monkeypatch.setenv(cubin.VARIABLE, name)

    @device.kernel
    def hasty(x, n):
        for i in range(n):
            x[i] = device.ptx(PRODUCT, device.uint64(i), result=(device.float32,) * 4)[0]
        device.ptx("wgmma.wait_group.sync.aligned 0;")

    with pytest.warns(
        device.PerformanceWarning, match=rf"^{name} says of hasty: .C7517. w\w+.wait\w* is injected"
    ) as caught:
        assert len(device.compile(hasty, FLOATS, device.int32, target="sm_90a").warnings) == len(caught) == 1
    assert "help: wait for the products before their accumulators are read" in str(caught[0].message)


@pytest.mark.parametrize("instruction", ["setmaxnreg.dec.sync.aligned.u32 24", "wgmma.fence.sync.aligned"])
def test_the_assemblers_of_whole_programs_come_first(instruction):
    request = assemblers.Request(f"\t{instruction};\n", parse("sm_90a"))
    assert [each.name for each in cubin._candidates(request)] == ["ptxas", "nvJitLink", "driver"]
    linked = assemblers.Request(request.ptx, parse("sm_90a"), relocatable=True)
    assert cubin._candidates(linked)[0].name == "nvJitLink"


def test_the_registers_at_the_start_are_determined():
    entry = ".visible .entry k(\n)\n.maxntid 384\n{0}{{\n\tsetmaxnreg.dec.sync.aligned.u32 24;\n}}\n"
    stated = entry.format(".minnctapersm 1\n")
    assert avoid_faults(entry.format("")) == stated == avoid_faults(stated)
    for other in (entry.format(".minnctapersm 2\n"), entry.format("").replace("setmaxnreg", "other")):
        assert avoid_faults(other) == other
