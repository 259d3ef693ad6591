"""LLVM IR → LTO-IR through libNVVM, which reads the language of LLVM 7."""
