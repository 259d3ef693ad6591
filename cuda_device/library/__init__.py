"""The library: device functions written in Python, and the tables that map what programs call to them."""

from cuda_device import hooks

_MODULES = "barriers complex_functions copying numbers prelude standard"
_FOLDERS = {"library": _MODULES, "device": "atomics", **hooks.LIBRARIES}
NAMES = frozenset(f"cuda_device.{folder}.{name}" for folder, names in _FOLDERS.items() for name in names.split())
"""The names of the modules whose functions are compiled like a user's. Messages show the place where the user called them."""
STANDARD = "cuda_device.library.standard"
"""The one that computes by the rules of the program that calls it (`infer/policies`)."""
