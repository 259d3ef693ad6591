"""`cuda_device.extend`: its names, their documentation and examples, its stub, and what happens without a plugin."""

import ast
import importlib
import inspect
import itertools
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from at_once import at_once

import cuda_device
from cuda_device import extend, hooks

PACKAGE = Path(cuda_device.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "extend.md"
MOST_NAMES = 80
UPDATE = "pytest --update-golden tests/repository/test_extend.py"


def stub() -> str:
    """The module as type checkers see it: an import of each name."""
    homes = sorted(extend._HOMES.items(), key=lambda item: (item[1], item[0]))
    imports = [
        f"from cuda_device.{home} import {attribute}" + f" as {name}" * (name == attribute)
        for name, (home, attribute) in homes
    ]
    others = [f"{name} = {attribute}" for name, (_, attribute) in homes if name != attribute]
    return "\n".join(
        ["# ruff: isort: skip_file", f"# `{UPDATE}` makes it from `extend.py`.\n", *imports, "", *others, ""]
    )


def test_type_checkers_see_every_name(request):
    path = PACKAGE / "extend.pyi"
    if request.config.getoption("--update-golden"):
        path.write_text(stub())
    assert path.read_text() == stub(), f"{UPDATE} makes it"


def test_the_number_of_names():
    assert len(extend.__all__) <= MOST_NAMES
    assert dir(extend) == extend.__all__ == sorted(extend._HOMES)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = extend.nothing


def functions_of(value: object) -> list[object]:
    """What has to be documented: a namespace's own public functions, or the value itself."""
    if not isinstance(value, ModuleType):
        return [value]
    own = [part for name, part in vars(value).items() if not name.startswith("_")]
    return [value, *(part for part in own if inspect.isfunction(part) and part.__module__ == value.__name__)]


def is_documented(name: str, value: object) -> bool:
    """Whether a value has a docstring of its own; a constant has one behind its assignment."""
    if callable(value) or isinstance(value, ModuleType):
        return bool(inspect.getdoc(value)) and inspect.getdoc(value) != inspect.getdoc(type(value))
    home, attribute = extend._HOMES[name]
    body = ast.parse(inspect.getsource(importlib.import_module(f"cuda_device.{home}"))).body
    assignments = itertools.pairwise(body)
    return any(
        isinstance(behind, ast.Expr) and re.match(rf"{attribute}\b", ast.unparse(assignment))
        for assignment, behind in assignments
    )


@pytest.mark.parametrize("name", extend.__all__)
def test_each_name_is_documented(name):
    assert all(is_documented(name, part) for part in functions_of(getattr(extend, name))), name


def test_each_name_has_an_example():
    """Each is used by a program of the page, which `test_pages.py` runs."""
    programs = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S))
    used = set(re.findall(r"\bextend\.(\w+)", programs))
    assert sorted(set(extend.__all__) - used) == []


def test_the_page_names_each_table_of_hooks():
    tables = [name for name in vars(hooks) if name.isupper()]
    assert [name for name in tables if f"`{name}`" not in PAGE.read_text()] == []


WITHOUT = """
import cuda_device as device

def needs(what, call):
    try:
        call()
    except ImportError as error:
        assert isinstance(error, device.Error) and what in str(error), error
    else:
        raise AssertionError(f"{what} is not missed")

for module, names in device.hooks.NAMES.items():
    for name in names.split():
        needs(repr(module.split(".")[1]), lambda: getattr(device, name))
for name, module in device.hooks.MODULES.items():
    if name != "pytest_plugin":  # pytest asks for it in all its runs
        needs(repr(module.split(".")[1]), lambda: getattr(device, name))
needs("'bound_kernels'", lambda: device.kernel(lambda x: None).bind(grid=1, block=1))
assert device.hooks.installed(device.hooks.LAUNCHERS) is None
"""


def test_without_a_plugin_its_names_say_which_one_they_need(tmp_path):
    shutil.copytree(
        PACKAGE, tmp_path / "cuda_device", ignore=lambda folder, names: ["plugins"] if folder == str(PACKAGE) else []
    )
    subprocess.run([sys.executable, "-c", WITHOUT], check=True, cwd=tmp_path)


def test_an_undefined_name_that_a_plugin_would_have(monkeypatch):
    monkeypatch.setitem(cuda_device._HOMES, "philox", ("plugins.missing", "philox"))
    monkeypatch.delitem(vars(cuda_device), "philox", raising=False)

    @cuda_device.kernel
    def k(x: cuda_device.ArrayType(cuda_device.float32, 1)):
        x[0] = philox(1, 2)  # noqa: F821

    with pytest.raises(cuda_device.CompileError, match="philox"):
        cuda_device.compile(k)


SLOW = """
import time
time.sleep(0.3)
value = 1
"""


@pytest.mark.parametrize("module", ["plugins.slow", "slow"])
def test_threads_wait_for_a_plugin_that_another_one_imports(tmp_path, monkeypatch, module):
    plugin(tmp_path, monkeypatch, "slow.py", SLOW)
    names = {}

    def use():
        if module in hooks.MODULES:
            exec("from cuda_device.slow import value", names)
        else:
            assert hooks.plugin(module).value == 1

    def use_later():
        while "cuda_device.plugins.slow" not in sys.modules:
            time.sleep(0.01)
        use()

    at_once([use, use_later])


def test_a_plugin_of_which_only_bytecode_is_left_is_not_installed(tmp_path, monkeypatch):
    plugin(tmp_path, monkeypatch, "slow/__pycache__/__init__.txt", "")
    assert hooks.installed("plugins.slow") is None
    with pytest.raises(cuda_device.PluginError, match="needs the plugin 'slow' of"):
        importlib.import_module("cuda_device.slow")


def plugin(folder, monkeypatch, path, text):
    """Adds the plugin `slow`, whose public module has the same name."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    plugins = importlib.import_module("cuda_device.plugins")
    monkeypatch.setattr(plugins, "__path__", [*plugins.__path__, str(folder)])
    monkeypatch.setitem(hooks.MODULES, "slow", "plugins.slow")
    for name in ("cuda_device.slow", "cuda_device.plugins.slow"):
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
