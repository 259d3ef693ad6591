"""LLVM IR → PTX → cubin: NVPTX, libdevice, peepholes, NVIDIA's assemblers and linker."""
