"""The types of values: their model, promotion and memory layout, and what the compiler knows about each value."""
