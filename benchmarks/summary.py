"""What `kernels.py` says of its results: ratios to the best peer, shares of a copy's bandwidth, and what is behind.

    results = [{"kernel": "stream copy", "contender": "cuda_device", "seconds": 1.4e-4, "bytes": 5.4e8, "right": True}, …]
    rate(results, copy=4.1e12)        gives each a "ratio" and a "share"
    summary(results)                  lines of text

Like is compared with like: ratios of ours, and of CUDA C++, with fast mathematics are to the best of those, all others to the
best peer without. Wrong results are nobody's best, and neither is another algorithm.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

OURS, PEER, FAST = "cuda_device", "CUDA C++", " fast"
MOST, NEAR = 1.05, 0.95
"""A ratio above the first is behind; a share of a copy's bandwidth from the second on is a copy's."""

Result = dict[str, Any]


def rate(results: Sequence[Result], copy: float) -> None:
    """Adds to the results of one kernel what they are to the best peer's, and to a copy of `copy` bytes a second."""
    for result in results:
        best = _least(results, result["contender"])
        result["ratio"] = result["seconds"] / best if best else None
        result["share"] = result["bytes"] / result["seconds"] / copy if result["bytes"] and copy else None


def _least(results: Sequence[Result], contender: str) -> float | None:
    """The time of the best peer with a contender's mathematics; None if there is no peer."""
    fast = contender.endswith(FAST)
    peers = [r for r in results if not r["contender"].startswith(OURS) and _counts(r)]
    return min((float(r["seconds"]) for r in peers if r["contender"].endswith(FAST) == fast), default=None)


def _counts(result: Result) -> bool:
    """Whether a peer's result is a measure of ours."""
    return bool(result["right"]) and bool(result.get("alike", True))


def line(result: Result) -> str:
    """One result as a line of the table."""
    seconds, share, ratio = result["seconds"], result["share"], result["ratio"]
    return (
        f"{result['kernel']:24}{result['contender']:17}{1e6 * seconds:10.1f}"
        f"{result['bytes'] / seconds / 1e9:9.0f}{f'{share:.0%}' if share else '-':>7}{result['flops'] / seconds / 1e9:10.0f}"
        f"{result.get('registers', '-'):>6}{result.get('spills', '-'):>7}{f'{ratio:.3f}' if ratio else '-':>8}"
        f"{'' if result['right'] else '  WRONG'}{'' if result.get('alike', True) else '  another algorithm'}"
    )


HEAD = f"{'':24}{'':17}{'us':>10}{'GB/s':>9}{'copy':>7}{'GFLOP/s':>10}{'regs':>6}{'spills':>7}{'ratio':>8}"


def summary(results: Sequence[Result]) -> Iterator[str]:
    """What all results come to."""
    peers = dict.fromkeys(r["contender"] for r in results if not r["contender"].startswith(OURS))
    yield "geometric means of our time over a peer's, and over that of the best:"
    for peer in peers:
        mine = OURS + FAST if peer.endswith(FAST) else OURS
        found = _ratios(results, mine, peer)
        if found:
            yield f"{mine:20} {peer:16}{statistics.geometric_mean(found.values()):8.3f}   of {len(found)}"
    for mine in (OURS, OURS + FAST):
        rated = {r["kernel"]: r["ratio"] for r in results if r["contender"] == mine and r["ratio"]}
        if rated:
            yield f"{mine:20} {'best peer':16}{statistics.geometric_mean(rated.values()):8.3f}   of {len(rated)}"
            behind = [f"{kernel} {ratio:.2f}" for kernel, ratio in rated.items() if ratio > MOST]
            yield f"{mine:20} above {MOST}: {', '.join(behind) or 'none'}"
    shares = {(r["contender"], r["kernel"]): r["share"] for r in results if r["share"]}
    bound = [kernel for name, kernel in shares if name == PEER and shares[name, kernel] >= NEAR]
    yield f"as fast as a copy ({NEAR:.0%} at least) in CUDA C++: {', '.join(bound) or 'none'}"
    short = [f"{k} {shares[OURS, k]:.0%}" for k in bound if (OURS, k) in shares and shares[OURS, k] < NEAR]
    yield f"{OURS:20} below that: {', '.join(short) or 'none'}"


def _ratios(results: Sequence[Result], mine: str, peer: str) -> dict[str, float]:
    """By kernel that both have, and in which the peer counts, the time of one contender over that of the other."""
    seconds = {(r["contender"], r["kernel"]): r["seconds"] for r in results if _counts(r) or r["contender"] == mine}
    kernels = [kernel for name, kernel in seconds if name == peer and (mine, kernel) in seconds]
    return {kernel: seconds[mine, kernel] / seconds[peer, kernel] for kernel in kernels}
