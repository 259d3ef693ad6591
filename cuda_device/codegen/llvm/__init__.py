"""LLVM's library, by ctypes: bindings, and modules in its memory."""
