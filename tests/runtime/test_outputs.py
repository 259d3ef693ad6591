"""Outputs of `compile` that plugins add: code for an AMD GPU by LLVM's back end, which a few lines make of LLVM IR."""

import re
import sys
from functools import partial

import llvmlite.binding as llvm
import numpy as np
import pytest

import cuda_device as device
from cuda_device import extend, outputs
from cuda_device.errors import PluginError

FLOATS = device.ArrayType(device.float32, 1)
# LLVM's functions for the position of a thread.
POSITIONS = {
    "@llvm.nvvm.read.ptx.sreg.tid.x()": "@llvm.amdgcn.workitem.id.x()",
    "@llvm.nvvm.read.ptx.sreg.ctaid.x()": "@llvm.amdgcn.workgroup.id.x()",
    "@llvm.nvvm.read.ptx.sreg.ntid.x()": "@block_size()",
}
BLOCK_SIZE = """
define internal i32 @block_size() {
  %packet = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
  %place = getelementptr i8, ptr addrspace(4) %packet, i64 4
  %size = load i16, ptr addrspace(4) %place
  %wide = zext i16 %size to i32
  ret i32 %wide
}
"""


def amd_assembly(work: extend.Work) -> str:
    """The assembly of a kernel for an AMD GPU."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text = work["llvm"].text.replace("ptx_kernel", "amdgpu_kernel")
    for nvidia, amd in POSITIONS.items():
        text = text.replace(nvidia, amd)
    if unknown := re.search(r"@(llvm\.nvvm\.[\w.]+)", text):
        raise device.CompileError(f"an AMD GPU has no {unknown[1]}", help="use tid, block_idx and block_dim alone")
    text = re.sub("(?m)^target .*$", "", text) + BLOCK_SIZE
    machine = llvm.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(cpu="gfx90a", opt=2)
    module = llvm.parse_assembly(f'target triple = "amdgcn-amd-amdhsa"\n{text}')
    module.data_layout = str(machine.target_data)
    return machine.emit_assembly(module)


@pytest.fixture
def amd(monkeypatch):
    monkeypatch.setattr(outputs, "_OF_GPUS", dict(outputs._OF_GPUS))
    extend.add_output(extend.Output("amd", "llvm", amd_assembly))


@device.kernel
def saxpy(a, x, y):
    i = device.tid(1)
    if i < len(y):
        y[i] = a * x[i] + y[i]


def compiled(**options):
    return device.compile(saxpy, device.float32, FLOATS, FLOATS, output="amd", **options)


def test_code_of_another_back_end(amd):
    made = compiled()
    assert re.search(r"(?m)^saxpy:.*?\bglobal_load_dword\b.*?\bglobal_store_dword\b.*?\bs_endpgm\b", made.code, re.S)
    assert (made.output, made.symbol, len(made.parameters), made.result) == ("amd", "saxpy", 3, "none")


@pytest.mark.needs("cpu")
@pytest.mark.needs("saved")
def test_it_is_saved_and_not_launched(amd, tmp_path):
    made = compiled()
    made.save(tmp_path / "saxpy.amd")
    assert device.load(tmp_path / "saxpy.amd") == made and (tmp_path / "saxpy.amd").read_text() == made.code
    with pytest.raises(device.LaunchError, match=r"saxpy \(amd\) is not a kernel that a GPU can load"):
        made.launch(1.0, np.zeros(1), np.zeros(1), grid=1, block=1)
    with pytest.raises(ValueError, match="'amd' is not code for GPUs"):
        made.object_code()


def test_its_errors_are_those_of_the_program(amd):
    @device.kernel
    def waits(x):
        device.syncthreads()

    with pytest.raises(device.CompileError, match=r"an AMD GPU has no llvm.nvvm.barrier") as caught:
        device.compile(waits, FLOATS, output="amd")
    assert "waits(x: array<float32, 1, C>)" in str(caught.value) and caught.value.help


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda work: 1 // 0, "ZeroDivisionError in the stage 'new' for saxpy"),
        (partial(lambda divisor, work: 1 // divisor, 0), "ZeroDivisionError"),
        (lambda work: None, "an output is a str or bytes, not NoneType"),
        (lambda work: work["sass"], "there is no stage 'sass' for 'gpu': the stages are python, typed, device, llvm"),
    ],
)
def test_its_bugs_are_its_own(amd, make, message):
    extend.add_output(extend.Output("new", "llvm", make))
    with pytest.raises(extend.CompilerBug, match=f"(?s){message}.*a bug in {__name__.partition('.')[0]},"):
        device.compile(saxpy, device.float32, FLOATS, FLOATS, output="new")


def test_a_function_that_is_defined_again_replaces_it(amd):
    namespace = {"__name__": "plugin", "extend": extend}
    for text in ("first", "second"):
        exec(f"def make(work): return {text!r}\nextend.add_output(extend.Output('new', 'llvm', make))", namespace)
    assert device.compile(saxpy, device.float32, FLOATS, FLOATS, output="new").code == "second"
    extend.add_output(extend.Output("text", "llvm", lambda work: "first"))
    with pytest.raises(ValueError, match="there is an output 'text' already"):
        extend.add_output(extend.Output("text", "llvm", lambda work: "second"))


def test_unknown_stages_and_targets():
    job = extend.job_of(saxpy, (device.float32, FLOATS, FLOATS))
    with pytest.raises(ValueError, match="there is no stage 'ptxx' for 'gpu': the stages are python, .*, cubin"):
        extend.compile_job(job, "ptxx")
    with pytest.raises(ValueError, match="there is no target 'tpu': choose one of cpu"):
        extend.target("tpu")


def test_it_is_listed_and_has_a_name_of_its_own(amd):
    # Programs of the documents, which other tests run, add outputs, too.
    with pytest.raises(ValueError, match=r"choose one of ir, llvm, ptx, cubin, (.*, )?amd, .*or import the plugin"):
        device.compile(saxpy, 1.0, FLOATS, FLOATS, output="gcn")
    for name in ("ptx", "ltoir", "amd"):
        with pytest.raises(ValueError, match=f"there is an output '{name}' already"):
            extend.add_output(extend.Output(name, "llvm", str))
    extend.add_output(extend.Output("statistics", "sass", str))
    with pytest.raises(ValueError, match="follows 'sass', and the stages are python, typed, device, llvm"):
        device.compile(saxpy, 1.0, FLOATS, FLOATS, output="statistics")


@pytest.mark.parametrize(
    ("module", "use", "plugin"),
    [
        ("cpp.sources", lambda path: device.compile(saxpy, 1.0, FLOATS, FLOATS, link="norms.cu"), "cpp"),
        ("cpp.host_target", lambda path: device.compile(saxpy, 1.0, FLOATS, FLOATS, target="host"), "cpp"),
        ("ltoir", lambda path: device.compile(saxpy, 1.0, FLOATS, FLOATS, output="ltoir"), "ltoir"),
        ("saved.fatbin", lambda path: device.compile(saxpy, 1.0, FLOATS, FLOATS, output="fatbin"), "saved"),
        ("saved", lambda path: device.compile(saxpy, 1.0, FLOATS, FLOATS, output="ptx").save(path), "saved"),
        ("generated", lambda path: device.compile("def f(x): return x", 1.0), "generated"),
    ],
)
def test_what_needs_a_plugin_names_it(module, use, plugin, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, f"cuda_device.plugins.{module}", None)
    with pytest.raises(PluginError, match=f"needs the plugin '{plugin}'"):
        use(tmp_path / "saxpy")
    assert device.compile(saxpy, 1.0, FLOATS, FLOATS).code.startswith(b"\x7fELF")


def test_outputs_may_follow_any_stage(amd):
    extend.add_output(extend.Output("bytes", "ptx", lambda work: work["ptx"].encode()))
    made = device.compile(saxpy, device.float32, FLOATS, FLOATS, output="bytes")
    ptx = device.compile(saxpy, device.float32, FLOATS, FLOATS, output="ptx")
    assert made.code == ptx.code.encode() and made.shared == ptx.shared == 0
