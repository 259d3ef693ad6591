"""Import statements in functions: they are done while compiling, and name objects as globals do.

    from math import sin      py.import {name="math", names=("sin",), level=0}      the module math, of which sin is an attribute

To compile must not run code that nobody asked for. So modules are those that the program has imported already, and those of
Python's library and of this package, which importing does not change.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence

from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell, Frame
from cuda_device.ir.nodes import Op

_HELP = "import it at the top of the module"


def import_(frame: Frame, op: Op, _: Sequence[Cell]) -> Sequence[Cell]:
    """`import a.b` names a; `from a.b import c` and `import a.b as c` look into modules."""
    names = op.attributes["names"]
    full = _absolute(frame, str(op.attributes["name"]), int(str(op.attributes["level"])))
    module = _module(frame, full)
    if not isinstance(names, tuple):
        return [frame.literal(_module(frame, full.partition(".")[0]))]
    for name in names:
        if not hasattr(module, name) and hasattr(module, "__path__"):
            _module(frame, f"{full}.{name}")
        if not hasattr(module, name):
            raise CompileError(
                f"{name!r} cannot be imported from {full}, which does not have it", help="look at its name"
            )
    return [frame.literal(module)]


def _absolute(frame: Frame, name: str, level: int) -> str:
    """The whole name of a module; dots before it count from the package of the function's module."""
    if not level:
        return name
    package = frame.globals.get("__package__")
    try:
        return importlib.util.resolve_name("." * level + name, package if isinstance(package, str) else "")
    except ImportError as error:
        raise CompileError(f"the import leads nowhere: {error}", help="write the whole name of the module") from None


def _module(frame: Frame, name: str) -> object:
    """A module by its whole name."""
    root = name.partition(".")[0]
    if name not in sys.modules and (root in sys.stdlib_module_names or root == __name__.partition(".")[0]):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise CompileError(f"the module {name} cannot be imported: {error}", help="look at its name") from None
    module = sys.modules.get(name)
    if module is None:
        raise CompileError(f"the module {name} is not imported, which compiling does not do", help=_HELP)
    frame.program.depend(sys.modules, name, module)
    return module
