"""The target "host": functions that a program on the host calls, in the calling convention of C."""

from cuda_device.extend import Output
from cuda_device.plugins.cpp.native_functions import NativeFunction

OUTPUTS = {
    "object": Output("object", "object"),
    "callable": Output("callable", "object", finish=NativeFunction),
    "ir": Output("ir", "typed"),
    "llvm": Output("llvm", "llvm"),
}
