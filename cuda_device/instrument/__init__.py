"""Device IR rewritten for checks, race detection and execution on the CPU."""
