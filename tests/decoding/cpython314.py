"""Runs the tests of `test_decode.py` without pytest, in an interpreter that has none; the repository is at /repository.

The package's own `__init__` is passed over: what it needs may not be there.
"""

import importlib
import inspect
import sys
import types

sys.dont_write_bytecode = True
sys.path.insert(0, "/repository/tests")
package = types.ModuleType("cuda_device")
package.__path__ = ["/repository/cuda_device"]
sys.modules["cuda_device"] = package

test_decode = importlib.import_module("test_decode")

passed = 0
for name, test in list(vars(test_decode).items()):
    if not name.startswith("test_"):
        continue
    parameters = list(inspect.signature(test).parameters)
    for arguments in [(case,) for case in test_decode.PARAMETERS[parameters[0]]] if parameters else [()]:
        try:
            test(*arguments)
        except BaseException:
            print(f"FAILED {name}{arguments}"[:1000])
            raise
        passed += 1
print(f"Python {sys.version.split()[0]}: {passed} passed")
