"""Code generation for the CPU: regions of threads that wait, machine code, and the scheduler that runs blocks."""
