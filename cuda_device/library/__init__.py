"""Functions of builtins, `math`, `cmath`, NumPy and the programming model, written in Python and compiled like users' code."""
