"""LLVM IR → native code: loops over the threads of a block, in regions where these wait, and the scheduler that runs them."""
