"""From the typed IR to machine code: LLVM IR, PTX and cubin for the GPU, native code for the CPU."""
