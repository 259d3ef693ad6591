"""Code generation for GPUs: LLVM IR to PTX to cubin, with libdevice, peepholes, and NVIDIA's assemblers and linker."""
