"""The run-time system: arguments, arrays, streams and launches."""
