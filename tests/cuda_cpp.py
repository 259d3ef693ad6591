"""What CUDA C++ says: a source through NVRTC with NVIDIA's own headers, and the facts in the PTX that comes out."""

import functools
import re
import struct

from cuda.bindings import nvrtc

import cuda_device as device
from cuda import pathfinder
from cuda_device import hooks
from cuda_device.codegen.gpu import assemblers, cubin, elf, linking
from cuda_device.types.architectures import parse

TARGET = "sm_90"


@functools.cache
def include_options() -> tuple[str, ...]:
    """-I for CUDA's headers, CCCL's and, where the plugin cpp is installed, ours."""
    folders = [pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "cccl")]
    assert all(folders), "CUDA's headers are not here: pip install nvidia-cuda-runtime nvidia-cuda-cccl"
    ours = [device.get_include()] if hooks.installed("plugins.cpp") else []
    return tuple(f"-I{folder}" for folder in (*folders, *ours))


def compile_cpp(source: str, output: str = "ptx", *options: str, target: str = TARGET) -> bytes:
    """PTX, a cubin or LTO-IR of a C++ source, whose functions stay visible. What NVRTC complains about fails the test."""
    flags = [f"-arch={target}", "-std=c++17", "-rdc=true", *include_options(), *options]
    program = check(nvrtc.nvrtcCreateProgram(source.encode(), b"test.cu", 0, [], []))
    (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
    log = bytearray(check(nvrtc.nvrtcGetProgramLogSize(program)))
    nvrtc.nvrtcGetProgramLog(program, log)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.rstrip(b"\0").decode()
    name = {"ptx": "PTX", "cubin": "CUBIN", "ltoir": "LTOIR"}[output]
    code = bytearray(check(getattr(nvrtc, f"nvrtcGet{name}Size")(program)))
    getattr(nvrtc, f"nvrtcGet{name}")(program, code)
    check(nvrtc.nvrtcDestroyProgram(program))
    return bytes(code).rstrip(b"\0") if output == "ptx" else bytes(code)


def inputs(*links, target: str = TARGET):
    """What a linker gets of everything that `link=` of a kernel takes."""
    return linking.read(links, parse(target))


def assembled(ptx: str | bytes, *links, target: str = TARGET) -> elf.Cubin:
    """The cubin of PTX that is linked with others; nothing is inlined."""
    text = ptx.decode() if isinstance(ptx, bytes) else ptx
    return cubin.assemble(text, parse(target), inputs=inputs(*links, target=target))


def optimised(source: str, *links, target: str = TARGET) -> str:
    """The PTX of a C++ source that the linker optimises together with LTO-IR."""
    theirs = assemblers.Input("cpp", compile_cpp(source, "ltoir", "-dlto", target=target))
    return assemblers.optimised((theirs, *inputs(*links, target=target)), parse(target))


def check(answer):
    status, *values = answer
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, status
    return values[0] if values else None


def tables(ptx: str) -> dict[str, list[int]]:
    """The numbers in each `__device__ unsigned table[] = {…}`; PTX has its bytes, but for zeros at the end."""
    found = {}
    for name, size, numbers in re.findall(r"\.visible \.global \.align 4 \.b8 (\w+)\[(\d+)\] = \{([^}]*)\};", ptx):
        found[name] = list(
            struct.unpack(f"<{int(size) // 4}I", bytes(map(int, numbers.split(","))).ljust(int(size), b"\0"))
        )
    return found


def signatures(ptx: str) -> dict[str, str]:
    """The parameters and the result of each visible function and kernel, without names, and with sizes for types."""
    found = {}
    for kind, result, name, parameters in re.findall(
        r"^\.(?:visible|extern) \.(func|entry)\s*(\([^)]*\))?\s*(\w+)\s*\(([^)]*)\)", ptx, re.M
    ):
        plain = [_plain(parameter) for parameter in parameters.split(",") if parameter.strip()]
        found[name] = f"{kind} {_plain(result.strip('()')) if result else 'void'} ({', '.join(plain)})"
    return found


def _plain(parameter: str) -> str:
    text = re.sub(r"\.ptr(?: \.(?!align)\w+)?(?: \.align \d+)?", "", parameter)
    text = re.sub(r"\.[usfb](8|16|32|64)\b", r".b\1", text)
    return " ".join(re.sub(r"(?:\w*param_\d+|func_retval0)", "x", text).split())


# The last twelve bits of an instruction of 16 bytes, since sm_70: CALL to an address in a register or in the instruction.
_CALLS = (0x343, 0x344, 0x943, 0x944)


def functions(code: bytes, only_global: bool = False) -> set[str]:
    """The functions that a cubin defines."""
    return set(elf.functions(code, only_global))


def instructions(code: bytes) -> list[int]:
    """The instructions of a cubin, of 16 bytes."""
    texts = [elf.content(code, each) for each in elf.sections(code) if each.name.startswith(".text.")]
    assert texts, "a cubin without machine code"
    return [int.from_bytes(text[i : i + 16], "little") for text in texts for i in range(0, len(text), 16)]


def calls(code: bytes) -> int:
    """How many CALL there are in the machine code of a cubin."""
    return sum(word & 0xFFF in _CALLS for word in instructions(code))
