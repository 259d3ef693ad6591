"""Runs the tests of bytecode and the IR of the python level in an interpreter that has pytest and nothing else.

The repository is at /repository, pytest at /packages. Names stand in for NumPy, and for what of this package needs it: to read a
kernel's bytecode, it does not matter what the names in it mean.
"""

import os
import sys
import types

sys.dont_write_bytecode = True
sys.path[:0] = ["/repository/tests", "/packages"]
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"

import pytest  # noqa: E402

TESTS = ("test_decode.py", "test_to_ir.py")
OPTIONS = ("-q", "--noconftest", "-p", "no:cacheprovider", "-o", "addopts=")


class Names(types.ModuleType):
    """A module in which every name is there, and means a class."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__init__": lambda self, *_, **__: None, "__class_getitem__": lambda item: item})
        setattr(self, name, made)
        return made


def decorator(function=None, **_):
    """`@kernel`, `@func` and `@struct`."""
    if function is None:
        return decorator
    function.underlying = function
    return function


class Goldens:
    """The fixture of golden texts."""

    @pytest.fixture
    def golden(self):
        """Skips the test."""
        pytest.skip("golden texts are of Python 3.12")


package = sys.modules["cuda_device"] = Names("cuda_device")
package.__path__ = ["/repository/cuda_device"]
package.kernel = package.func = package.struct = decorator
sys.modules["numpy"] = Names("numpy")
for name in ("compiler", "codegen.architectures", "types.known"):
    sys.modules[f"cuda_device.{name}"] = Names(name)
package.compiler = sys.modules["cuda_device.compiler"]

os.chdir("/repository")
failed = pytest.main([*OPTIONS, *(f"tests/{name}" for name in TESTS)], [Goldens()])
assert not failed
print(f"Python {sys.version.split()[0]}: passed")
