"""Functions that CUDA C++ calls, and functions of CUDA C++: parameters and results are passed as NVRTC passes them.

    @device.func(interop=True)
    def f(p0, p1): return p1            .func (.param .align 4 .b8 x[8]) f (.param .b32 x, .param .align 4 .b8 x[8])

The same function, as a declaration whose body takes its place on the CPU stream, gives what it gives in plain Python.
"""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np

import cuda_device as device
from fuzz.cases import Case, defined, first_difference, printed

SIMPLE: dict[str, tuple[str, Any]] = {
    "bool": ("bool", bool), "signed char": ("device.int8", device.int8), "unsigned char": ("device.uint8", device.uint8),
    "short": ("device.int16", device.int16), "unsigned short": ("device.uint16", device.uint16), "int": ("int", int),
    "unsigned int": ("device.uint32", device.uint32), "long long": ("device.int64", device.int64),
    "unsigned long long": ("device.uint64", device.uint64), "float": ("float", float),
    "double": ("device.float64", device.float64),
}  # fmt: skip
"""By the name in C++: the name in Python, and the type."""
TARGETS = ("sm_75", "sm_90", "sm_100")


@functools.cache
def has_nvrtc() -> bool:
    """Whether NVRTC and CUDA's headers are here."""
    try:
        import cuda_cpp

        return bool(cuda_cpp.include_options())
    except (ImportError, AssertionError, OSError, RuntimeError):
        return False


class Foreign(Case):
    """Some functions, each of parameters of its own."""

    kind = "C++"

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.random = random.Random(f"foreign {number}")
        self.python: list[str] = []
        self.cpp: list[str] = []
        self.members: dict[str, list[str]] = {}
        for _ in range(self.random.randint(1, 3)):
            self._struct()
        self.signatures = [self._signature() for _ in range(3)]
        self.target = self.random.choice(TARGETS)

    def _any(self) -> str:
        """The C++ name of a type."""
        return self.random.choice([*SIMPLE, *([*self.members] * 4)])

    def _struct(self) -> None:
        """A struct of some members, some of which are aligned to more than they have to be."""
        name = f"s{len(self.members)}"
        members = [self._any() for _ in range(self.random.randint(1, 4))]
        hints, fields = [], []
        for place, each in enumerate(members):
            wide = each in ("int", "float", "short") and self.random.random() < 0.3
            hints.append(
                f"    m{place}: device.align({self._python(each)}, 8)"
                if wide
                else f"    m{place}: {self._python(each)}"
            )
            fields.append(f"{'alignas(8) ' * wide}{each} m{place};")
        self.python += ["@device.struct", f"class {name}:", *hints]
        self.cpp.append(f"struct {name} {{ {' '.join(fields)} }};")
        self.members[name] = members

    def _python(self, name: str) -> str:
        return SIMPLE[name][0] if name in SIMPLE else name

    def _signature(self) -> tuple[tuple[str, ...], int]:
        """The types of the parameters, and which of them is returned; -1 if nothing is."""
        parameters = tuple(self._any() for _ in range(self.random.randint(1, 5)))
        return parameters, self.random.randrange(-1, len(parameters))

    def _value(self, name: str) -> str:
        """An argument of a type."""
        if name in self.members:
            return f"{name}({', '.join(map(self._value, self.members[name]))})"
        number = self.random.randint(0, 99)
        text = {"bool": f"n > {number - 50}", "int": f"n + {number}", "float": f"n + {number / 4}"}.get(name)
        return text or f"{SIMPLE[name][0]}({number}{'.5' * (name == 'double')})"

    def source(self) -> str:
        lines = [*self.python]
        for k, (parameters, result) in enumerate(self.signatures):
            hints = ", ".join(f"p{i}: {self._python(each)}" for i, each in enumerate(parameters))
            gives = "None" if result < 0 else self._python(parameters[result])
            names = ", ".join(f"p{i}" for i in range(len(parameters)))
            body = "pass" if result < 0 else f"return p{result}"
            heard = body if result >= 0 else "print('called with', p0)"
            lines += [f"def e{k}({hints}) -> {gives}:", f"    {heard}"]
            lines += [f"def f{k}({names}):", f"    {body}", f"def g{k}({names}):", "    pass"]
        lines += ["def k(n):"]
        for k, (parameters, result) in enumerate(self.signatures):
            call = f"e{k}({', '.join(map(self._value, parameters))})"
            lines.append(f"    {call}" if result < 0 else f"    print({call})")
        return "\n".join(lines) + "\n"

    def attempt(self, stream: device.Stream) -> str | None:
        self.random.seed(f"arguments {self.number}")
        text = self.source()
        file = f"<C++ {self.number}>"
        names = [f"{letter}{k}" for letter in "efg" for k in range(len(self.signatures))]
        scope: dict[str, Any] = {"device": device}
        plain = defined(text, "k", scope, file).__globals__
        found = dict(plain)
        exec(compile(text, file, "exec", dont_inherit=True), found)
        for name in names:
            decorator = {"e": device.extern, "f": device.func(interop=True), "g": device.kernel(interop=True)}[name[0]]
            found[name] = decorator(found[name])
        kernel: Any = device.kernel(found["k"])

        def run() -> None:
            cpu = device.cpu_stream()
            device.launch(kernel, 7, grid=1, block=1, stream=cpu)
            device.synchronize(cpu)

        wrong = first_difference(printed(run), printed(lambda: plain["k"](7)))
        return wrong or (self._compared(found, kernel) if has_nvrtc() else None)

    def _compared(self, found: dict[str, Any], kernel: Any) -> str | None:
        """How each function is declared, here and by NVRTC."""
        import cuda_cpp

        lines, calls = [*self.cpp], []
        for k, (parameters, result) in enumerate(self.signatures):
            listed = ", ".join(f"{each} p{i}" for i, each in enumerate(parameters))
            gives = "void" if result < 0 else parameters[result]
            body = "" if result < 0 else f"return p{result};"
            lines.append(f'extern "C" __device__ {gives} f{k}({listed}) {{ {body} }}')
            lines.append(f'extern "C" __global__ void g{k}({listed}) {{ }}')
            calls.append((f"e{k}", f"f{k}"))
        expected = cuda_cpp.signatures(cuda_cpp.compile_cpp("\n".join(lines)).decode())
        for k, (parameters, _) in enumerate(self.signatures):
            types = [SIMPLE[each][1] if each in SIMPLE else found[each] for each in parameters]
            for name in (f"f{k}", f"g{k}"):
                ptx = device.compile(found[name], *types, target=self.target, output="ptx").code
                mine = cuda_cpp.signatures(ptx)
                if mine != {name: expected[name]}:
                    return f"{name} is declared as {mine}, not {expected[name]}"
        mine = cuda_cpp.signatures(device.compile(kernel, np.int32, target=self.target, output="ptx").code)
        for name, theirs in calls:
            if mine.get(name) != expected[theirs]:
                return f"{name} is called as {mine.get(name)}, not {expected[theirs]}"
        return None
