"""Code generation: device IR to LLVM IR to machine code, for GPUs, for the CPU, and for libNVVM."""
