"""What holds of the repository as a whole: which way imports point, what importing costs, that the tables are complete."""

import ast
import builtins
import functools
import importlib
import inspect
import math
import os
import pathlib
import re
import subprocess
import sys
from collections import Counter
from types import FunctionType

import numpy as np
import pytest

import cuda_device
from cuda_device import extend, lower
from cuda_device.codegen.emit import to_llvm
from cuda_device.device import atomics, memory, numeric, packing
from cuda_device.device.entities import DeviceValue
from cuda_device.infer import builtin_calls, frame, rules
from cuda_device.ir import ops
from cuda_device.library import complex_functions, copying, prelude, table
from cuda_device.types.vector_classes import families

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "cuda_device"
MODULES = sorted(PACKAGE.rglob("*.py"))

# From below: a folder imports from itself and from those before it.
FOLDERS = (
    *"lazy_dataclasses lazy_imports logs errors hooks types ir device library bytecode".split(),
    *("infer", "infer/kinds"),
    *(f"infer/{top}" for top in ("builtin_calls", "rules", "body", "engine")),  # which need all kinds
    *("lower", "optimise", "instrument", "cache"),
    *"codegen/llvm codegen/llvm_text codegen/bitcode_types codegen/emit codegen/gpu jobs outputs compiler".split(),
    *"runtime/gpu runtime/arrays runtime/launch __init__ __main__ extend".split(),
    *("cpu", "plugins"),  # the other rings, which the core finds by `hooks`
)
# The decoder, which alone knows how versions of CPython differ.
DECODER = {f"bytecode/{name}.py" for name in ("decode", "translate", "versions")}
MOST_IMPORT_SECONDS = 0.050
USUAL_IMPORT_SECONDS_OF_NUMPY = 0.050
MOST_LINES_OF_A_SAXPY = 22_000
"""Of the modules that compiling a saxpy to PTX imports; this may only shrink."""


def name_of(path: pathlib.Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@functools.cache
def tree(path: pathlib.Path) -> ast.Module:
    """The syntax of a file."""
    return ast.parse(path.read_text())


# Imports


@functools.cache
def imports_of(path: pathlib.Path) -> tuple[tuple[int, str], ...]:
    """The cuda_device modules that a file imports, wherever it does: pairs of a line and a dotted name."""
    return tuple(_imports_of(path))


def _imports_of(path: pathlib.Path):
    package = ["cuda_device", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(tree(path)):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names if alias.name.split(".")[0] == "cuda_device")
            case ast.ImportFrom(module=source, names=names, level=level):
                base = (
                    [*package[: len(package) - level + 1], *(source or "").split(".")] if level else source.split(".")
                )
                if base[0] == "cuda_device":
                    yield from ((node.lineno, ".".join([*filter(None, base), alias.name])) for alias in names)


def file_of(dotted: str) -> str:
    """The file that a dotted name is of: `cuda_device.ir.ops.ADD` is of `ir/ops.py`."""
    path = PACKAGE
    for part in dotted.split(".")[1:]:
        if not (path / part).is_dir():
            return name_of(path / f"{part}.py") if (path / f"{part}.py").is_file() else name_of(path / "__init__.py")
        path /= part
    return name_of(path / "__init__.py")


def folder_of(file: str) -> str:
    """`infer/kinds` of `infer/kinds/tuples.py`; a file of the package itself is a folder of its own, and a plugin is one."""
    if file.startswith("plugins/"):
        return "plugins"
    name = file.removesuffix("/__init__.py").removesuffix(".py")
    return name if name in FOLDERS else name.rpartition("/")[0]


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """What can be reached from a node."""
    seen, todo = set[str](), [start]
    while todo:
        new = graph.get(todo.pop(), set()) - seen
        seen |= new
        todo += new
    return seen


def components(graph: dict[str, set[str]]) -> list[list[str]]:
    """The circles of a graph: its strongly connected components of more than one file."""
    reached = {start: reachable(graph, start) for start in graph}
    found = {frozenset(b for b in reached[a] if a in reached[b]) for a in graph if a in reached[a]}
    return sorted(sorted(circle) for circle in found)


def test_imports_point_one_way():
    """Also those in functions and for type checkers: what a file needs, a reader has to know."""
    against = set()
    for path in MODULES:
        for _, imported in imports_of(path):
            file, there = name_of(path), file_of(imported)
            if FOLDERS.index(folder_of(there)) > FOLDERS.index(folder_of(file)):
                against.add(f"{file} imports {there}")
    assert sorted(against) == []


@pytest.fixture(scope="module")
def graph():
    """The files that each file imports."""
    return {name_of(path): {file_of(name) for _, name in imports_of(path)} - {name_of(path)} for path in MODULES}


def test_no_circle_of_files(graph):
    assert components(graph) == []


def test_a_kind_of_value_needs_a_part_of_the_compiler(graph):
    lines = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}
    for path in MODULES:
        if folder_of(name_of(path)) == "infer/kinds":
            assert sum(lines[each] for each in {name_of(path)} | reachable(graph, name_of(path))) < 8000, name_of(path)


def test_no_kind_of_value_imports_another():
    """What a kind needs of others it asks its frame for (see `Kind` in `infer/frame`)."""
    kinds = [path for path in MODULES if folder_of(name_of(path)) == "infer/kinds"]
    assert len(kinds) > 10
    for path in kinds:
        others = {file_of(name) for _, name in imports_of(path)} - {name_of(path)}
        assert [name for name in others if folder_of(name) == "infer/kinds"] == [], name_of(path)


def test_the_rule_on_imports_sees_every_form():
    file = PACKAGE / "ir" / "imagined.py"

    class Imagined(type(file)):
        def read_text(self):
            return (
                "from .. import compiler\nfrom . import ops\nfrom ..types.model import INT\n"
                "import cuda_device.runtime.gpu.driver\n"
                "def f():\n    from cuda_device import kernel\n    import numpy, cuda_device\n"
                "if TYPE_CHECKING:\n    from ..infer import engine\n"
            )

    assert {file_of(imported) for _, imported in imports_of(Imagined(file))} == {
        "compiler.py", "ir/ops.py", "types/model.py", "runtime/gpu/driver.py", "__init__.py", "infer/engine.py",
    }  # fmt: skip
    assert folder_of("infer/kinds/tuples.py") == "infer/kinds"
    assert components({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["b", "c"]]


def test_only_the_decoder_knows_versions_of_cpython():
    wrong = []
    for path in MODULES:
        for node in ast.walk(tree(path)) if name_of(path) not in DECODER else ():
            match node:
                case ast.Import(names=names):
                    knows = bool({"dis", "opcode"} & {alias.name for alias in names})
                case (
                    ast.ImportFrom(module="dis" | "opcode" | "sys") | ast.Attribute(attr="version_info" | "hexversion")
                ):
                    knows = True
                case _:
                    knows = False
            wrong += [f"{path}:{node.lineno}"] if knows else []
    assert wrong == []


def test_no_name_stands_twice():
    """Of classes, and of files, but for `__init__`: a name says which one is meant without its folder."""
    files, classes = Counter(path.name for path in MODULES), Counter()
    for path in MODULES:
        classes.update({node.name for node in tree(path).body if isinstance(node, ast.ClassDef)})
    assert [name for name, count in (files + classes).items() if count > 1] == ["__init__.py"]


def test_data_classes_are_ours():
    """The standard library's would be made anew at each start; and ours read no hints, which so have to be text."""
    for path in MODULES:
        text = path.read_text()
        if name_of(path) != "lazy_dataclasses.py":
            assert "from dataclasses" not in text and "import dataclasses" not in text, (
                f"{path}: import from cuda_device.lazy_dataclasses"
            )
            assert "lazy_dataclasses import" not in text or "from __future__ import annotations" in text, path


# Files


def test_cuda_stays_a_namespace():
    assert not (ROOT / "cuda" / "__init__.py").exists()
    assert sorted(path.name for path in (ROOT / "cuda").glob("*.py")) == ["device.py"]


def stub() -> str:
    """The package as type checkers see it: an import of each public name.

    Numbers are Python's, so that members and parameters with hints such as `float32` take 2.0.
    """
    imports, others, vectors = ["from typing import TypeAlias\n\n"], [], []
    for name, (module, there) in sorted(cuda_device._HOMES.items(), key=lambda item: (item[1][0], item[0])):
        if name in families():
            vectors.append(f"class {name}(VectorValue): ...\n")
            continue
        value = getattr(cuda_device, name)
        if module in cuda_device._FOREIGN and isinstance(value, type) and issubclass(value, np.generic):
            python = {"i": "int", "u": "int", "c": "complex"}.get(np.dtype(value).kind, "float")
            others.append(f"{name}: TypeAlias = {python}\n")
            continue
        home = module if module in cuda_device._FOREIGN else f"cuda_device.{module}"
        imports.append(f"from {home} import {there}" + (f" as {name}\n" if name == there else "\n"))
        others += [] if name == there else [f"{name}: TypeAlias = {there}\n"]
    how = "`pytest --update-golden tests/repository/test_repository.py` makes it from the table in `__init__.py`."
    parts = [
        f"# ruff: isort: skip_file\n# ruff: noqa: N801, PYI042\n# {how}\n",
        *map("".join, (imports, others, vectors)),
    ]
    return "\n".join([*parts, "__version__: str\n"])


def stubs() -> dict[str, str]:
    """The stubs by their files: of the package, and of the public modules of plugins."""
    how = "# ruff: noqa: F403\n# `pytest --update-golden tests/repository/test_repository.py` makes it from `hooks.MODULES`.\n"
    modules = {
        f"{name}.pyi": f"{how}from cuda_device.{module} import *\n"
        for name, module in cuda_device.hooks.MODULES.items()
    }
    return {"__init__.pyi": stub(), **modules}


@pytest.mark.parametrize("file", ["__init__.pyi", *(f"{name}.pyi" for name in cuda_device.hooks.MODULES)])
def test_type_checkers_see_every_name(request, file):
    path = PACKAGE / file
    if request.config.getoption("--update-golden"):
        path.write_text(stubs()[file])
    assert path.read_text() == stubs()[file], "pytest --update-golden tests/repository/test_repository.py makes it"


FIRST = """
import os, sys, cuda_device
for names in {groups!r}:
    if os.fork() == 0:
        for name in names:
            getattr(cuda_device, name)
        os._exit(0)
    assert os.wait()[1] == 0, names
"""


def test_any_name_may_be_the_first():
    groups = [[n for n, (home, _) in cuda_device._HOMES.items() if home == module] for module in cuda_device._MODULES]
    run(FIRST.format(groups=groups))


def test_the_name_cuda_device_is_the_package():
    script = "from cuda import device; import cuda.core, cuda.device, cuda_device; assert device is cuda_device is cuda.device"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


def test_every_module_has_a_docstring():
    assert [path for path in MODULES if not ast.get_docstring(tree(path))] == []


def test_what_runs_is_this_checkout():
    installed = pathlib.Path(cuda_device.__file__).parent
    old = [
        path
        for path in {name_of(module) for module in MODULES}
        | {p.relative_to(installed).as_posix() for p in installed.rglob("*.py")}
        if not ((PACKAGE / path).exists() and (installed / path).exists())
        or (PACKAGE / path).read_bytes() != (installed / path).read_bytes()
    ]
    assert not old, f"{installed} is not this checkout: install it again. {sorted(old)}"


def test_the_package_says_that_it_is_typed():
    assert (pathlib.Path(cuda_device.__file__).parent / "py.typed").exists()


# Importing


def run(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT).stdout


OF_A_LAUNCH = "kernel tid array launch default_stream stream event"
RUNTIME = "import cuda_device.runtime.arrays.device_array, cuda_device.runtime.arrays.array_interface"
SLOW = {"pathlib", "shutil", "tempfile", "subprocess", "inspect", "dataclasses", "string", "logging", "_hashlib"}


@pytest.mark.parametrize(
    ("script", "slow"),
    [
        ("import cuda_device", set()),
        ("import cuda_device.types.architectures, cuda_device.codegen.gpu.cubin", set()),
        (RUNTIME, {"torch", "cupy", "cuda"}),
        (f"import cuda_device; [getattr(cuda_device, name) for name in {OF_A_LAUNCH.split()}]", SLOW),
    ],
)
def test_importing_loads_neither_the_compiler_nor_the_driver(script, slow):
    loaded = set(run(f"import sys, numpy; a = {{*sys.modules}}; {script}; print(*{{*sys.modules}} - a)").split())
    assert "cuda_device" in loaded and not slow & loaded
    assert not [
        name for name in loaded if "llvm" in name or name.startswith(("cuda.core", "cuda.bindings", "cuda.pathfinder"))
    ]


def test_importing_is_quick():
    # In processor time, and on a slow or busy machine with NumPy's own import as the yardstick.
    clock = "time.process_time()"
    script = f"import time; a = {clock}; import numpy; b = {clock}; import cuda_device; print(b - a, {clock} - b)"
    runs = [tuple(map(float, run(script).split())) for _ in range(7)]
    numpy, ours = (min(times) for times in zip(*runs, strict=True))
    assert ours <= MOST_IMPORT_SECONDS * max(1, numpy / USUAL_IMPORT_SECONDS_OF_NUMPY)


LOADED = """
import sys, cuda_device as device
@device.kernel
def saxpy(a, x, y):
    i = device.tid(1)
    if i < len(y):
        y[i] = a * x[i] + y[i]
floats = device.ArrayType(device.float32, 1)
device.compile(saxpy, device.float32, floats, floats, output="ptx")
print(*(module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "cuda_device"))
"""


def test_a_simple_kernel_loads_little_of_the_compiler(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(LOADED)
    ours = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_DEVICE_")}
    environment = {**ours, "PYTHONPATH": str(ROOT), "CUDA_DEVICE_CACHE": str(tmp_path)}
    paths = subprocess.run(
        [sys.executable, program], check=True, capture_output=True, text=True, env=environment
    ).stdout
    assert sum(pathlib.Path(path).read_text().count("\n") for path in paths.split()) <= MOST_LINES_OF_A_SAXPY


def lazy_imports(block: ast.If) -> tuple[set[str], set[str]]:
    """The modules that a file imports for type checkers, of packages of which it imports modules lazily, and those."""
    calls = [node.value for node in block.orelse if isinstance(node, ast.Expr)]
    lazy = {f"{call.args[1].value}.{name.value}" for call in calls for name in call.args[2:]}
    packages = {call.args[1].value for call in calls}
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom) and node.module in packages]
    return {f"{node.module}.{alias.name}" for node in imports for alias in node.names}, lazy


def test_lazy_imports_are_those_that_type_checkers_see():
    blocks = [
        node
        for path in MODULES
        for node in tree(path).body
        if isinstance(node, ast.If) and node.orelse and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    assert len(blocks) > 10
    for block in blocks:
        checked, lazy = lazy_imports(block)
        assert checked == lazy


def test_rows_of_builtins_with_a_rule_of_their_own_say_so():
    own = {row.name for row in table.all_rows() if row.entity in builtin_calls.BUILTINS}
    assert own == {row.name for row in table.all_rows() if row.only_for is not None} >= {"len", "ptx"}


def test_the_tables_of_inference_name_what_exists():
    for table_ in (rules.RULES, rules._KINDS):
        assert all(table_[key] is not None for key in table_)
    methods = inspect.get_annotations(frame.Frame)
    assert "kind" in methods and all(callable(getattr(frame.Frame, name)) for name in methods)


# How far one statement goes through the compiler


def test_one_statement_takes_few_calls_and_changes_of_file():
    path = [str(ROOT / "benchmarks"), *sys.path]
    alone = "os.environ |= {'CUDA_DEVICE_CACHE': '0', 'CUDA_DEVICE_VERIFY': '0'}"
    script = f"import os, sys; {alone}; sys.path[:] = {path}; import calls; calls.main()"
    count, _, changes = (int(number) for number in re.findall(r"\d+", run(script)))
    assert count <= 868 and changes <= 447


# Tables


def names(rows):
    return sorted(row.name for row in rows)


def operations_at(level: ops.Level) -> set[ops.OpDef]:
    """The operations that are legal at a level."""
    return {row for row in ops.ALL if level in row.levels}


def test_inference_has_a_rule_for_each_operation_of_python():
    python = {row for row in operations_at(ops.Level.PYTHON) if ops.Effect.TERMINATES not in row.effects}
    # No rules: see `infer/body`.
    by_body = {ops.PY_UNDEFINED, ops.PY_CELLS, ops.PY_AT, ops.PY_STEP, ops.VARIABLE}
    assert names({*rules.RULES, *by_body}) == names(python)


def test_lowering_has_a_rule_for_each_typed_operation():
    assert names(lower.RULES) == names(operations_at(ops.Level.TYPED))


@pytest.mark.parametrize(
    ("dialect", "missing"),
    [
        ("codegen.gpu.nvptx_dialect.Nvptx", {ops.TRACE}),
        pytest.param("cpu.cpu_dialect.Cpu", set(), marks=pytest.mark.needs("cpu")),
    ],
)
def test_llvm_has_an_emitter_for_each_device_operation(dialect, missing):
    """The race detector, whose operation `trace` is, is for the CPU only."""
    module, _, name = dialect.rpartition(".")
    kind = getattr(importlib.import_module(f"cuda_device.{module}"), name)
    of_machine = kind.emitters(object.__new__(kind))
    assert not to_llvm.EMITTERS.keys() & of_machine.keys()
    assert names({*to_llvm.EMITTERS, *of_machine, *missing}) == names(operations_at(ops.Level.DEVICE))


def test_each_operation_is_documented():
    for row in ops.ALL:
        assert row.doc and row.levels and ops.BY_NAME[row.name] is row, row


def test_tables_name_each_row_once():
    for rows in (ops.ALL, table.all_rows(), numeric.FUNCTIONS):
        assert len({row.name for row in rows}) == len(rows)


def test_each_device_entity_is_public_and_documented():
    ours = [getattr(home, name) for home in (cuda_device, extend) for name in home.__all__]
    spaces = (vars(math), vars(builtins), np.sctypeDict, vars(prelude), vars(numeric))
    spaces += (vars(atomics), vars(packing), vars(complex_functions), vars(extend.copies))
    theirs = [value for space in spaces for value in space.values()]
    methods = [method for owner in ours if isinstance(owner, type) for method in vars(owner).values()]
    internal = [getattr(memory, name) for name in "cluster_word array_at constant_array displaced grid_word".split()]
    known = {id(entity) for entity in (*ours, *theirs, *methods, *internal, copying.address)}
    # Pages of the documentation that have run in this process may have added entities of their own.
    for row in (row for row in table.all_rows() if getattr(row.entity, "__module__", "") != "__main__"):
        is_private = getattr(row.entity, "__name__", "").startswith("_")  # a plugin's own, which programs do not name
        assert id(row.entity) in known or is_private, row.name
        assert inspect.getdoc(row.entity), row.name
        assert row.is_value or not isinstance(row.entity, DeviceValue), row.name


FUNCTIONS = [row.entity for row in table.all_rows() if isinstance(row.entity, FunctionType)]
OF_DEVICES = [f"cuda_device.device.{name}" for name in ("positioning", "memory", "sync", "atomics")]


def test_the_host_cannot_call_what_only_devices_have():
    for function in (each for each in FUNCTIONS if each.__module__ in OF_DEVICES):
        with pytest.raises(cuda_device.DeviceOnlyError, match="can only be used in device code"):
            function(*inspect.signature(function).parameters)


def test_each_math_function_exists_on_both_targets():
    for function in numeric.FUNCTIONS:
        assert function.symbol and function.arity in (1, 2, 3), function.name


def test_every_public_name_is_there_and_documented():
    for name in cuda_device.__all__:
        assert inspect.getdoc(getattr(cuda_device, name)), name


def test_tests_import_each_other_without_the_folder():
    """`pytest` has the folder of the tests on its path, and not the one above, as `python -m pytest` does."""
    wrong = [
        file.name
        for file in pathlib.Path(__file__).parents[1].glob("*.py")
        if re.search(r"^from tests\b|^import tests\b", file.read_text(), re.M)
    ]
    assert wrong == []
