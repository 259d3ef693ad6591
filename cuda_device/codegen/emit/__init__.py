"""Device IR → LLVM IR as text, for all targets."""
