"""CUDA C++ compiled by NVRTC: the peer that every kernel is compared with. Needs no GPU.

pip install nvidia-cuda-nvrtc nvidia-cuda-cccl nvidia-cuda-runtime      where no CUDA toolkit is installed
"""

from __future__ import annotations

from functools import lru_cache


def compile_cubin(text: str, target: str = "sm_90", *flags: str) -> bytes:
    """The cubin of a C++ program. Raises `RuntimeError` with NVRTC's log where it does not compile."""
    return compile_code(text, target, "CUBIN", "-default-device", *flags)


def compile_code(text: str, target: str, kind: str, *flags: str) -> bytes:
    """What NVRTC makes of a C++ program: "CUBIN", "PTX" or "LTOIR". Raises `RuntimeError` as above."""
    includes = include_options() if "#include" in text else ()
    return _compile(text, kind, (f"-arch={target}", "-std=c++17", *includes, *flags))


@lru_cache(maxsize=1)
def include_options() -> tuple[str, ...]:
    """Where CUDA's own headers are."""
    from cuda import pathfinder

    folders = [pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "cccl")]
    return tuple(f"-I{folder}" for folder in folders if folder)


@lru_cache(maxsize=256)
def _compile(text: str, kind: str, options: tuple[str, ...]) -> bytes:
    from cuda.bindings import nvrtc

    def check(result):
        error, *values = result
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(f"NVRTC: {error.name}")
        return values[0] if values else None

    program = check(nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], []))
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = b" " * check(nvrtc.nvrtcGetProgramLogSize(program))
        check(nvrtc.nvrtcGetProgramLog(program, log))
        raise RuntimeError(log.decode())
    code = b" " * check(getattr(nvrtc, f"nvrtcGet{kind}Size")(program))
    check(getattr(nvrtc, f"nvrtcGet{kind}")(program, code))
    check(nvrtc.nvrtcDestroyProgram(program))
    return bytes(code)


def version() -> str:
    """NVRTC's version."""
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    return f"{major}.{minor}"
