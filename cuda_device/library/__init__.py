"""What of builtins, `math`, `cmath`, NumPy and the programming model Python itself can say: compiled like a user's code."""
