"""The three rings: the core, the CPU target and the plugins; what each may import, and what the core may know."""

import ast
import re
from pathlib import Path

import pytest
from test_repository import MODULES, imports_of, name_of, tree

import cuda_device
from cuda_device import extend, hooks

OUTER = ("cuda_device.cpu", "cuda_device.plugins")
CORE = [path for path in MODULES if not name_of(path).startswith(("cpu/", "plugins/")) and path.name != "hooks.py"]
PLUGINS = [path for path in MODULES if name_of(path).startswith("plugins/")]
CPU = [path for path in MODULES if name_of(path).startswith("cpu/")]
FRIENDS = ("launchers",)
"""The plugins that may use private names of the core, from a list in their tests."""
CLIENTS = re.compile(r"(?<![a-z])(numba|torch|cupy|dask|nvshmem|jax|pytest|tvm|triton)s?(?![a-z])", re.IGNORECASE)
MOST_MESSAGES = 12
"""The number of messages of the core that may name a client, to say what to do."""


def within(module: str, package: str) -> bool:
    """Whether a module is a package or inside it."""
    return module == package or module.startswith(f"{package}.")


def is_outer(module: str) -> bool:
    """Whether a module is of the CPU target or a plugin."""
    return any(within(module, package) for package in OUTER)


def docstrings(module: ast.Module) -> set[int]:
    """The ids of the docstrings of a file."""
    return {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}


def texts_of(path: Path):
    """The lines and values of the strings of a file that are not docstrings."""
    skipped = docstrings(tree(path))
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def plugin_of(path: Path) -> str:
    """The name of the plugin that a file belongs to."""
    return name_of(path).removesuffix(".py").split("/")[1]


def private_names(path: Path, own: str):
    """What a file imports that is neither public, nor in `extend`, nor of its own package."""
    for line, name in imports_of(path):
        package, _, attribute = name.rpartition(".")
        public = package == "cuda_device" and attribute in {
            *cuda_device.__all__,
            *hooks.MODULES,
            "extend",
            "__version__",
        }
        if not (
            public
            or name == "cuda_device"
            or within(name, own)
            or (package == "cuda_device.extend" and attribute in extend.__all__)
        ):
            yield line, name


def test_the_core_imports_neither_the_cpu_target_nor_plugins():
    assert [f"{name_of(p)}:{line} {name}" for p in CORE for line, name in imports_of(p) if is_outer(name)] == []


def test_only_hooks_has_the_names_of_outer_modules():
    outer = re.compile(r"(cuda_device\.)?(cpu|plugins)(\.\w+)+")
    found = [
        f"{name_of(path)}:{line} {word}"
        for path in CORE
        for line, text in texts_of(path)
        for word in text.split()
        if outer.fullmatch(word)
    ]
    assert found == []


def test_the_cpu_target_imports_no_plugin():
    assert [f"{name_of(p)}:{line} {name}" for p in CPU for line, name in imports_of(p) if within(name, OUTER[1])] == []


@pytest.mark.parametrize("plugin", sorted({plugin_of(path) for path in PLUGINS} - {"__init__", *FRIENDS}))
def test_a_plugin_uses_public_names(plugin):
    files = [path for path in PLUGINS if plugin_of(path) == plugin]
    own = f"cuda_device.plugins.{plugin}"
    assert [f"{name_of(path)}:{line} {name}" for path in files for line, name in private_names(path, own)] == []


def identifiers(path: Path):
    """The lines and names of the identifiers of a file."""
    for node in ast.walk(tree(path)):
        for field in ("id", "attr", "arg", "name", "module", "asname"):
            if isinstance(name := getattr(node, field, None), str):
                yield getattr(node, "lineno", 0), re.sub(r"([a-z])([A-Z])", r"\1_\2", name)


def test_the_core_knows_no_client():
    names = [
        f"{name_of(path)}:{line} {name}" for path in CORE for line, name in identifiers(path) if CLIENTS.search(name)
    ]
    texts = [
        (f"{name_of(path)}:{line} {text}", " " in text.strip())
        for path in CORE
        for line, text in texts_of(path)
        if CLIENTS.search(text)
    ]
    assert names + [text for text, is_message in texts if not is_message] == []
    assert len([text for text, is_message in texts if is_message]) <= MOST_MESSAGES
