"""Indices that may count from the end, in PTX of small arrays: what they cost.

if n >= i + 1: x[n - i - 1] = 1      as much as x[uint32(n - i - 1)], which cannot count from the end
x[y[i]] = 1                          one instruction more
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import cuda_device as device
from cuda_device import compiler
from cuda_device.types.architectures import parse
from cuda_device.types.known import of_type, small
from cuda_device.types.parse import parse as parse_type
from fuzz.cases import defined, due

SHOWN = (
    ("n > i", "n - i"), ("i >= 3", "i - 3"), ("True", "max(n, i) - i"), ("True", "max(n, 3) - 3"), ("True", "i - min(i, 3)"),
    ("n - i > 0 and n - i < 10", "(n - i) * 2"), ("n * 2 > 6", "n * 2 - 6"), ("n > 3", "n * 2 - 6"),
    ("n > i and i > t", "n - t"), ("not n < i", "n - i + 1"), ("n - 2 * i >= 5", "n - 2 * i - 1"), ("n + h > 2", "n + h"),
    ("n + h > 2", "n + h - 1"), ("n ^ i > 0", "n ^ i"), ("(n | 3) > 0", "(n | 3) + 1"), ("-n > 0", "-n"), ("-n > 0", "-n - 1"),
    ("~n > 0", "~n + 1"), ("n > 5 or n > 7", "n - 4"), ("n == i + 4", "n - i"), ("n == i + 4", "n - t - 4 + t - i"),
    ("i - t * 2 + n > 0", "i - t * 2 + n"), ("n > 0", "n - n // 2"), ("n > 0", "n // 2 - n // 4"), ("n > 0", "n - n % 7"),
    ("h - 3 > 0", "h - 3"), ("h > 3", "h - 3"), ("h > t", "h - t"), ("n > len(x)", "n - len(x)"), ("h > i", "n - n + h - i"),
    ("len(x) > i", "len(x) - i - 1"), ("n >= i + 1", "n - i - 1"), ("i < n < len(x)", "n - i"), ("h == 2 * t", "h - t"),
    ("s[i] > 0", "s[i]"), ("s[i] > 3", "s[i] - 3"), ("(j := s[i] - i) >= 0", "j"), ("(j := s[i] * n) >= 0", "j"),
    ("(j := n * n * n) >= 0", "j"), ("(j := h * h) >= 0", "j"),
)  # fmt: skip
"""What a branch shows not to be negative."""
FREE = (
    "s[i]", "s[i + {0}] + 1", "s[i + {0}] - n", "n - s[i + {0}]", "s[i + {0}] * n", "h * (h + {0})", "h * h + i - {0}",
    "-s[i + {0}]", "device.int64(s[i + {0}])", "device.int16(s[i + {0}])", "device.shfl_sync(0xffffffff, h, {0})",
    "device.atomic_ref(s, {0}).add(1)",
)  # fmt: skip
"""What may be anything: it comes from memory, from another thread, or of a product that wraps."""


def wrong(number: int) -> str | None:
    """What is wrong with the rows whose turn it is with a number."""
    shown = due(number, SHOWN, 8)
    if costs(shown) != costs(shown, "device.uint32"):
        costly = [each for each in shown if costs([each]) != costs([each], "device.uint32")]
        return f"an index that is shown not to be negative costs instructions: {costly}"
    free = [("True", each.format(k + 1)) for k, each in enumerate(due(number, FREE, 3))]
    before, after = costs(free, "device.uint32"), costs(free)
    if after != before + Counter(min=len(free)):
        return f"indices that may be negative cost {after - before}: {free}"
    return None


def costs(rows: Sequence[tuple[str, str]], made: str = "") -> Counter[str]:
    """How often PTX compares and selects where each index is one of a small array, behind its branch."""
    lines = ["def k(x, s, n, h):", "    i, t = device.tid(1), device.thread_idx.x"]
    for condition, index in rows:
        lines += [f"    if {condition}:", f"        x[{made}({index})] = 1"]
    function = defined("\n".join(lines) + "\n", "k", {"device": device}, "<shown>")
    arrays = (small(of_type(parse_type(f"array<{each}, 1, C>"))) for each in ("float32", "int32"))
    known = (*arrays, of_type(parse_type("int")), of_type(parse_type("int32")))
    options = compiler.Options(checked=False, launch_facts=True)
    job = compiler.Job(device.kernel(function).underlying, known, True, compiler.Target(parse("sm_90")), options)
    ptx = compiler.run(job, "ptx")["ptx"].text
    return Counter(re.findall(r"\t(setp|selp|min|max)\.", ptx))
