"""Passes over device IR for checks, race detection and execution on the CPU."""
