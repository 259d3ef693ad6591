"""Calls between Python and CUDA C++: headers, bindings, ahead-of-time builds and framework operators."""
