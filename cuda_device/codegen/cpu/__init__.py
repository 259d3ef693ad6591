"""LLVM IR → native code: kernels as coroutines or loops, and the scheduler that runs the threads of a block."""
