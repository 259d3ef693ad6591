"""The race detector: vector clocks over the accesses of a launch on the CPU stream."""
