"""Target specialisation: selectors and descriptions on the host, and branches on them in device code, which are folded."""

import itertools
import pickle
import re

import numpy as np
import pytest
from conftest import can_assemble, poison, properties_of
from fake_driver import CONTEXT, installed
from ir_helpers import define
from llvmlite import binding

import cuda_device as device
from cuda_device.device.target import SELECTORS, selector
from cuda_device.types.architectures import ARCHITECTURES

# What NVIDIA's table of architectures says: each, and those whose code may use what it has.
FAMILY = {"sm_100f": {"sm_100f", "sm_100a", "sm_103f", "sm_103a"}, "sm_103f": {"sm_103f", "sm_103a"}}


def compiled(kernel, target="sm_90", output="ir"):
    return str(device.compile(kernel, device.ArrayType(np.int32, 1), target=target, output=output))


def answers(expression, target):
    """Whether `target(expression)` holds on a target, as a constant of the typed IR."""
    source = f"""
        @device.kernel
        def k(out):
            if device.target({expression}):
                out[0] = 111
            else:
                out[0] = 222
    """
    text = compiled(define(source, file="<target>"), target)
    found = [value for value in (111, 222) if f"value={value}" in text]
    assert len(found) == 1, text
    return found == [111]


# Selectors


def test_each_architecture_has_a_selector():
    for name in ARCHITECTURES:
        assert selector(name) is getattr(device, name.replace("_", ""))
    for old in (device.sm50, device.sm70, device.sm72, device.sm80):
        assert isinstance(old, device.SMSelector)
    assert repr(device.sm90a) == "sm90a"
    assert device.sm90a != device.sm90


def test_each_processor_of_llvm_has_a_selector(capfd):
    binding.initialize_all_targets()
    target = binding.Target.from_triple("nvptx64-nvidia-cuda")
    target.create_target_machine(cpu="help")
    assert set(re.findall(r"(sm_\w+) +- Select", capfd.readouterr().err)) == {*SELECTORS}


@pytest.mark.parametrize("name", [*ARCHITECTURES])
def test_provides_on_each_target(name):
    this = selector(name)
    for other in SELECTORS.values():
        if other.variant == "a":
            right = other.name == name
        elif other.variant == "f":
            family = FAMILY.get(other.name)
            same = this.number // 10 == other.number // 10
            right = name in family if family else bool(this.variant) and same and this.number >= other.number
        else:
            right = this.number >= other.number
        assert device.provides(other).matches(this) == right, (this, other)


def test_exactly_is_the_number_and_the_variant_if_one_is_named():
    assert device.is_exactly(device.sm90).matches(device.sm90)
    assert device.is_exactly(device.sm90).matches(device.sm90a)
    assert not device.is_exactly(device.sm90a).matches(device.sm90)
    assert not device.is_exactly(device.sm90).matches(device.sm100)


# Descriptions


def test_descriptions_are_sets():
    atoms = [device.is_host, device.is_device, device.provides(device.sm80), device.is_exactly(device.sm90)]
    everywhere = [None, *SELECTORS.values()]
    for a, b in itertools.product(atoms, repeat=2):
        for where in everywhere:
            assert (a | b).matches(where) == (a.matches(where) or b.matches(where))
            assert (a & b).matches(where) == (a.matches(where) and b.matches(where))
            assert (~a).matches(where) != a.matches(where)
    assert (device.is_host | device.is_device) is device.any_target
    assert (device.is_host & device.is_device) is device.no_target
    assert ~device.is_host is device.is_device
    assert str(device.provides(device.sm80) & ~device.is_exactly(device.sm86)) == "(provides(sm80) & ~is_exactly(sm86))"


def test_on_the_host_only_the_host_matches():
    assert device.target(device.is_host) is True
    assert device.target(device.any_target) is True
    for other in (device.is_device, device.no_target, device.provides(device.sm50), device.is_exactly(device.sm90)):
        assert device.target(other) is False
        assert device.target(~other) is True


def test_they_are_pickled_as_themselves():
    for thing in (device.sm90a, device.is_host, device.provides(device.sm80) | device.is_host):
        assert pickle.loads(pickle.dumps(thing)) is thing


def test_mistakes_on_the_host():
    with pytest.raises(TypeError, match=r"write is_exactly\(sm90\) or provides\(sm90\)"):
        device.target(device.sm90)
    with pytest.raises(TypeError, match="provides takes an architecture such as sm90, not 90"):
        device.provides(90)
    with pytest.raises(TypeError):
        device.provides(device.sm90) | device.sm90
    with pytest.raises(TypeError, match="has no truth value: .* combine descriptions with &"):
        bool(device.is_host)


# Device code


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_103f", "sm_120a"])
def test_the_table_of_the_specification(target):
    number = selector(target).number
    assert answers("device.is_device", target)
    assert not answers("device.is_host", target)
    assert answers("device.any_target", target)
    assert not answers("device.no_target", target)
    some = "device.is_exactly(device.sm80) | device.is_exactly(device.sm86) | device.is_exactly(device.sm90)"
    assert answers(some, target) == (number in (80, 86, 90))
    assert answers("~device.provides(device.sm90)", target) == (number < 90)
    assert answers("~device.provides(device.sm90) | device.is_exactly(device.sm90)", target) == (number <= 90)
    assert answers("device.provides(device.sm90) & ~device.is_exactly(device.sm90)", target) == (number > 90)
    assert answers("device.provides(device.sm90)", target) == (number >= 90)
    assert answers("device.provides(device.sm72)", target)
    assert answers("device.provides(device.sm90a)", target) == (target == "sm_90a")


NEW = device.provides(device.sm100) | device.is_host


@device.func
def name_of_target():
    if device.target(device.is_host):
        return len({"not": 1, "device": 2, "code": 3})
    elif device.target(NEW):
        return 100
    else:
        return 7


@device.kernel
def ask(out):
    if device.target(device.is_host):
        out[0] = open("nothing")
        undefined_name()  # noqa: F821
    else:
        out[0] = name_of_target()
    if not device.target(device.is_device):
        print("never")
    out[1] = 1 if device.target(device.provides(device.sm70)) and device.target(~NEW) else 2
    what = device.is_host
    for sm in (device.sm75, device.sm80):
        what |= device.is_exactly(sm)
    out[2] = 5 if device.target(what) else 6


def capability(stream):
    """The compute capability that kernels on a stream see, times 10. It is the driver's word, not the compiler's."""
    if stream.kind == "cpu":
        return selector(stream.stream.target).number
    major, minor = properties_of(stream.stream).capability
    return 10 * major + minor


@device.kernel
def ask_for_each(exact, at_least, others):
    for place, sm in enumerate(PLAIN):
        exact[place] = device.target(device.is_exactly(sm))
        at_least[place] = device.target(device.provides(sm) & device.is_device)
    for place, desc in enumerate(ALWAYS):
        others[place] = device.target(desc)


PLAIN: tuple[device.SMSelector, ...] = tuple(SELECTORS[name] for name in SELECTORS if name[-1].isdigit())
ALWAYS: tuple[device.TargetDescription, ...] = (
    device.any_target,
    device.any_target & device.is_device,
    device.is_device | device.is_host,
    ~device.is_host,
    ~device.no_target,
    device.no_target | device.is_device,
)
NEVER = tuple(~desc for desc in ALWAYS)


@device.kernel
def ask_in_vain(others):
    for place, desc in enumerate(NEVER):
        others[place] = device.target(desc)


def test_each_selector_on_the_machine_itself(stream):
    here, numbers = capability(stream), np.array([int(str(sm).strip("sm_")) for sm in PLAIN])
    exact, at_least = stream.empty(len(PLAIN), np.bool_), stream.empty(len(PLAIN), np.bool_)
    always, never = stream.array(np.zeros(len(ALWAYS), np.bool_)), stream.empty(len(NEVER), np.bool_)
    stream.launch(ask_for_each, exact, at_least, always, grid=1, block=1)
    stream.launch(ask_in_vain, never, grid=1, block=1)
    assert stream.numpy(exact).tolist() == (numbers == here).tolist()
    assert stream.numpy(at_least).tolist() == (numbers <= here).tolist()
    assert stream.numpy(always).all() and not stream.numpy(never).any()


def test_a_dead_branch_may_be_anything(stream):
    out = stream.run(ask, poison(3, np.int32))
    here = out[0]
    assert here in ((7,) if stream.kind == "cpu" else (7, 100))
    assert out[1] == (1 if here == 7 else 2)
    assert out[2] == (5 if capability(stream) in (75, 80) else 6)
    assert name_of_target() == 3
    assert "100" in compiled(ask, "sm_100a")


@device.kernel
def ask_for_this_very_gpu(out):
    out[0] = device.target(device.provides(device.sm90a))


@pytest.mark.skipif(not can_assemble("sm_90a"), reason="no assembler")
def test_launches_have_the_features_of_exactly_their_gpu(monkeypatch):
    """A launch is compiled for sm_90a on a GPU of 9.0, `compile` for what it is told, and the default CPU stream is sm_90a."""
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "0")
    with installed() as gpu:
        gpu.stack[-1] = CONTEXT
        stream = device.GpuStream(0x77, 0, context=CONTEXT)
        device.launch(ask_for_this_very_gpu, device.zeros(1, np.bool_, stream=stream), grid=1, block=1, stream=stream)
        ((variant,),) = (ask_for_this_very_gpu.variants.values(),)
        own = variant.work["ptx"]
    assert ".target sm_90a" in own and str(variant).split(",")[-2].endswith("on sm_90a")
    flags = device.ArrayType(np.bool_, 1)
    texts = [device.compile(ask_for_this_very_gpu, flags, target=t, output="ptx").code for t in ("sm_90", "sm_90a")]
    assert own != texts[0] and ".target sm_90\n" in texts[0]
    out = np.zeros(2, np.bool_)
    device.launch(ask_for_this_very_gpu, out[:1], grid=1, block=1, stream=device.cpu_stream())
    device.launch(ask_for_this_very_gpu, out[1:], grid=1, block=1, stream=device.cpu_stream(target="sm_90"))
    assert out.tolist() == [True, False]


def test_the_cpu_stream_emulates_a_target():
    for target, right in (("sm_75", [7, 1, 5]), ("sm_90", [7, 1, 6]), ("sm_120", [100, 2, 6])):
        out = np.full(3, -1, np.int32)
        device.launch(ask, out, grid=1, block=1, stream=type(device.cpu_stream())(target))
        assert out.tolist() == right


def test_no_branch_is_left():
    text = compiled(ask, output="ir")
    assert "branch" not in text.split("func @")[2]


def refusal(source):
    with pytest.raises(device.CompileError) as caught:
        compiled(define(source, file="<target>"))
    return str(caught.value)


def test_mistakes_in_device_code():
    head = "@device.kernel\ndef k(out):\n    out[0] = 1 if "
    assert "target takes a description of targets" in refusal(head + "device.target(device.sm90) else 2")
    assert "write is_exactly(sm90) or provides(sm90)" in refusal(head + "device.target(device.sm90) else 2")
    assert "desc must be a constant expression" in refusal(head + "device.target(out[1]) else 2")
    assert "sm must be a constant expression" in refusal(head + "device.target(device.provides(out[1])) else 2")
    assert "provides takes an architecture such as sm90, not 90" in refusal(
        head + "device.target(device.provides(90)) else 2"
    )
    assert "has no truth value" in refusal(head + "device.is_host else 2")
    assert "not defined" in refusal(head + "device.target(device.is_host | 3) else 2")
