"""The passes between bytecode and LLVM: each file is one `run`, with a before and an after in its docstring."""
