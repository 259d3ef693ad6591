"""Launches by machine code: what `launch` does in Python, done again in LLVM for arguments that came before."""
