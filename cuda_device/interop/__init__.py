"""The other side: C++ headers, names and declarations of what Python and CUDA C++ exchange."""
