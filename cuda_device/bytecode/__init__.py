"""From a Python function's bytecode to the compiler's own representation; `decode` alone knows CPython's versions."""
