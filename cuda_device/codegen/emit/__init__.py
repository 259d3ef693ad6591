"""Writes device IR as the text of LLVM IR, for all targets."""
