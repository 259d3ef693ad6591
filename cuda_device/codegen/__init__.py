"""Device IR → LLVM IR → machine code, for GPUs, for this machine's CPU, and for libNVVM."""
