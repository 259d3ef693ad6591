"""Yields in loops that may wait for other threads: where the pass puts them."""

from ir_helpers import checked, read, text_of, written

from cuda_device.cpu import cpu_passes

LOAD = 'atomic.load {memory="acquire", scope="device"}'

SPIN = f"""\
func @main -> none kernel device {{
^0(%p: ref<global, atomic<int32>>):
  %zero: int32 = const {{value=0}}
  jump ^1()
^1():
  %seen: int32 = {LOAD} %p
  %waits: bool = compare {{op="=="}} %seen %zero
  branch %waits ^1() ^2()
^2():
  return
}}
"""


def fed(text):
    return checked(cpu_passes.add_yields(read(text)))


def test_a_loop_around_an_atomic_yields_before_it_turns_back():
    module = fed(SPIN)
    expected = SPIN.replace("  branch", "  yield\n  branch")
    assert text_of(module.main) == written(expected)
    assert suspends(module.main)


def test_it_yields_once_however_often_the_pass_runs():
    assert text_of(cpu_passes.add_yields(fed(SPIN)).main) == text_of(fed(SPIN).main)


def test_an_atomic_outside_of_loops_does_not_yield():
    text = f"""\
    func @main -> none kernel device {{
    ^0(%p: ref<global, atomic<int32>>):
      %seen: int32 = {LOAD} %p
      %zero: int32 = const {{value=0}}
      jump ^1(%seen)
    ^1(%i: int32):
      %more: bool = compare {{op=">"}} %i %zero
      branch %more ^2() ^3()
    ^2():
      %next: int32 = sub %i %seen
      jump ^1(%next)
    ^3():
      %last: int32 = {LOAD} %p
      return
    }}
    """
    module = fed(text)
    assert text_of(module.main) == written(text)
    assert not suspends(module.main)


NESTED = """\
func @main -> none kernel device {{
^0(%p: ref<global, atomic<int32>>, %n: int32):
  %zero: int32 = const {{value=0}}
  %one: int32 = const {{value=1}}
  jump ^1(%n)
^1(%i: int32):
  {outer}
  jump ^2(%i)
^2(%j: int32):
  {inner}
  %less: int32 = sub %j %one
  %again: bool = compare {{op=">"}} %less %zero{at_inner}
  branch %again ^2(%less) ^3()
^3():
  %next: int32 = sub %i %one
  %more: bool = compare {{op=">"}} %next %zero{at_outer}
  branch %more ^1(%next) ^4()
^4():
  return
}}
"""


def nested(outer="", inner="", at_inner="", at_outer=""):
    text = NESTED.format(outer=outer, inner=inner, at_inner=at_inner, at_outer=at_outer)
    return "\n".join(line for line in text.splitlines() if line.strip()) + "\n"


def test_only_the_loops_around_the_atomic_yield():
    atomic = f"%a: int32 = {LOAD} %p"
    outer = fed(nested(outer=atomic))
    assert text_of(outer.main) == written(nested(outer=atomic, at_outer="\n  yield"))
    inner = fed(nested(inner=atomic))
    assert text_of(inner.main) == written(nested(inner=atomic, at_inner="\n  yield", at_outer="\n  yield"))
    neither = fed(nested())
    assert text_of(neither.main) == written(nested())


CALLER = """\
func @main -> none kernel device {
^0(%p: ref<global, atomic<int32>>):
  jump ^1()
^1():
  %seen: int32 = call {callee="look"} %p
  %zero: int32 = const {value=0}
  %waits: bool = compare {op="=="} %seen %zero
  branch %waits ^1() ^2()
^2():
  return
}
"""
LOOK = f"""\
func @look -> int32 device {{
^0(%p: ref<global, atomic<int32>>):
  %seen: int32 = {LOAD} %p
  return %seen
}}
"""
WAIT = SPIN.replace("@main", "@look").replace("none kernel", "int32").replace("  return", "  return %seen")


def suspends(function):
    return "SUSPENDS" in [effect.name for effect in function.effects]


def yields(function):
    return sum(op.code.name == "yield" for op in function.ops())


def test_a_loop_around_a_call_of_a_function_with_an_atomic_yields():
    module = fed(CALLER + LOOK)
    assert [yields(function) for function in module.functions] == [1, 0]
    assert not suspends(module["look"])


def test_a_function_that_yields_is_inlined():
    module = fed(CALLER + WAIT)
    assert [yields(function) for function in module.functions] == [1, 1]
    assert all(suspends(function) for function in module.functions)
    inlined = checked(cpu_passes.inline_suspending(module))
    assert [yields(function) for function in inlined.functions] == [2]


RECURSIVE = """\
func @main -> none kernel device {
^0(%p: ref<global, atomic<int32>>):
  %zero: int32 = const {value=0}
  %seen: int32 = call {callee="again"} %p
  return
}
func @again -> int32 device {
^0(%p: ref<global, atomic<int32>>):
  %zero: int32 = const {value=0}
  %seen: int32 = call {callee="look"} %p
  %waits: bool = compare {op="=="} %seen %zero
  branch %waits ^1() ^2()
^1():
  %more: int32 = call {callee="again"} %p
  return %more
^2():
  return %seen
}
"""


def test_recursion_and_what_it_calls_is_left_alone():
    text = RECURSIVE + WAIT
    module = fed(text)
    assert [yields(function) for function in module.functions] == [0, 0, 0]
    assert not any(suspends(function) for function in module.functions)
    cpu_passes.inline_suspending(module)
