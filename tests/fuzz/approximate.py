"""Fast mathematics: the functions that 'Functions Affected by -use_fast_math' of CUDA's guide names, and what libNVVM is told.

math.sin(x)     __nv_sinf;  with fastmath=True __nv_fast_sinf;  of a float64 __nv_sin
"""

from __future__ import annotations

import math
import random
import re

import cuda_device as device
from cuda_device import compiler
from cuda_device.codegen.nvvm import ltoir
from cuda_device.types.architectures import ARCHITECTURES, parse
from cuda_device.types.known import of_type
from cuda_device.types.parse import parse as parse_type
from fuzz.cases import defined

_AFFECTED = ("sin", "cos", "tan", "exp", "log", "log2", "log10")
_OTHERS = ("sinh", "asin", "cbrt", "erf", "lgamma", "expm1", "log1p", "acosh")
_FLAGS = ("nnan", "ninf", "nsz", "arcp", "contract")


def functions(choose: random.Random) -> str | None:
    """Some functions in one kernel."""
    type = choose.choice(("float32", "float32", "float32", "float64"))
    fast = choose.sample(_FLAGS, choose.randint(0, 4)) + ["afn"] * (choose.random() < 0.6)
    names = [*_AFFECTED, *choose.sample(_OTHERS, 2)]
    lines = [f"    x[{i}] = math.{name}(x[{i}])\n" for i, name in enumerate(names)]
    text = f"def k(x):\n{''.join(lines)}    x[20] = math.pow(x[18], x[19])\n"
    function = defined(text, "k", {"math": math}, "<approximate>")
    options, target = (
        compiler.Options(fastmath=tuple(fast)),
        compiler.Target(parse(choose.choice(("sm_80", "sm_90", "sm_120")))),
    )
    known = (of_type(parse_type(f"array<{type}, 1, C>")),)
    job = compiler.Job(device.kernel(function).underlying, known, True, target, options)
    called = re.findall(r"@__nv_(\w+)\(", compiler.run(job, "llvm")["llvm"].text)
    letter = "f" if type == "float32" else ""
    wanted = {
        f"fast_{name}f" if "afn" in fast and letter and name in (*_AFFECTED, "pow") else name + letter
        for name in (*names, "pow")
    }
    return None if set(called) == wanted else f"of {type} with {fast} it calls {sorted(called)}"


def told(choose: random.Random) -> str | None:
    """What libNVVM is told, as nvcc tells it: '-use_fast_math' is '-ftz=true -prec-div=false -prec-sqrt=false'."""
    fast = [each for each in ("ftz", "afn", "nnan", "reassoc") if choose.random() < 0.5]
    level, contract = choose.randint(0, 3), choose.random() < 0.5
    architecture = choose.choice([*ARCHITECTURES.values()])
    options = compiler.Options(fastmath=tuple(fast), level=level, contract=contract)
    exact = int("afn" not in fast)
    wanted = {
        "-gen-lto", f"-arch=compute_{architecture.name[3:]}", f"-opt={3 * (level > 0)}", f"-fma={int(contract)}",
        f"-ftz={int('ftz' in fast)}", f"-prec-div={exact}", f"-prec-sqrt={exact}",
    }  # fmt: skip
    found = ltoir._options(architecture, options)
    return None if sorted(found) == sorted(wanted) else f"with {options} libNVVM is told {found}"


CHECKS = (told, told, told, functions, functions, functions)
