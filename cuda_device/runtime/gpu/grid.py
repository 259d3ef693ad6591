"""The size of a launch (blocks, threads, shared memory), checked against CUDA's limits, also for the CPU stream.

shape_of(LaunchSizes((64, 2), 256))     # Shape(grid=(64, 2, 1), block=(256, 1, 1), dynamic=0)
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Container
from typing import Any, NamedTuple

from cuda_device.errors import CallError, Index, LaunchError
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.host import vector_of

MOST_BLOCKS = (2**31 - 1, 65535, 65535)
MOST_THREADS = (1024, 1024, 64)
MOST_IN_BLOCK = 1024
MOST_IN_CLUSTER = 8  # on every GPU that has clusters
_MOST_COVERED = tuple(map(operator.mul, MOST_BLOCKS, MOST_THREADS))
MOST_POSITIONS = 1 << 31
"""The limit of threads along an axis that a kernel counts in int32 (`tid`, `grid_size`)."""


@dataclass(frozen=True)
class Shape:
    """The size of a launch: blocks, threads of a block, bytes of dynamic shared memory of a block, blocks of a cluster.

    A launch of 0 threads has a grid with a 0, and starts nothing. A `dependent` launch may start before the previous one in its
    stream has ended.
    """

    grid: Index
    block: Index
    dynamic: int
    cluster: Index = (1, 1, 1)
    dependent: bool = False


AUTO = "auto"
"""The block size that is chosen for each kernel."""
_MORE_BLOCKS = "launch more blocks of fewer threads"


class LaunchSizes(NamedTuple):
    """The sizes of a launch as they are passed to `launch`, not checked yet; `Shape` has those that were checked.

    `grid` is in blocks, `block` and `threads` in threads, `cluster` in blocks: ints, or tuples of one to three ints. `shared` is
    in bytes, and `dependent` is a bool. None stands for what is not given.
    """

    grid: Any = None
    block: Any = None
    shared: Any = 0
    threads: Any = None
    cluster: Any = None
    dependent: Any = None

    def without(self, kwargs: dict[str, Any], names: Container[str]) -> LaunchSizes:
        """The sizes of a launch of a kernel with parameters of these names.

        Those that are called like a parameter (`threads`, `cluster`, `dependent`) are arguments, and are moved to `kwargs`.
        """
        moved = {name: size for name in _SHADOWED if name in names and (size := getattr(self, name)) is not None}
        if not moved:
            return self
        kwargs.update(moved)
        return self._replace(**dict.fromkeys(moved))

    def has_block(self) -> bool:
        """Whether the size of a block is given. Raises `LaunchError` for combinations of sizes that are not a launch."""
        grid, block, _, threads, *_ = self
        if (grid is None) == (threads is None):
            problem = "needs grid or threads" if grid is None else "takes grid or threads, not both"
            raise CallError(f"a launch {problem}", "write either grid=… or threads=…")
        if block is None and threads is None:
            raise CallError("a launch with grid also needs block", 'write block=256, for example, or block="auto"')
        if isinstance(block, str) and block != AUTO:
            raise LaunchError(
                f"block={block!r} is not a size of a block", 'give an int, a tuple of one to three ints, or "auto"'
            )
        return block is not None and not isinstance(block, str)

    def given(self) -> dict[str, Any]:
        """The keywords of `launch` for the sizes that are given."""
        return {name: size for name, size in zip(self._fields, self, strict=True) if size is not None}


_SHADOWED = ("threads", "cluster", "dependent")


def sizes_of(shape: Shape) -> LaunchSizes:
    """The sizes with which a launch has this shape. Sizes along x alone are ints, which `launch` reads faster."""
    grid, block, cluster = (
        size[0] if size[1:] == (1, 1) else size for size in (shape.grid, shape.block, shape.cluster)
    )
    sizes = LaunchSizes(grid, block, shape.dynamic, None, None if cluster == 1 else cluster, shape.dependent or None)
    return sizes._replace(grid=None, threads=grid) if 0 in shape.grid else sizes


def shape_of(sizes: LaunchSizes, most_threads: int = 0, compiled: Index | None = None) -> Shape | None:
    """The shape of a launch, with the smallest grid if `threads` are given; None if the block is chosen for the compiled kernel.

    A kernel may be compiled for blocks of at most `most_threads` threads (0: any), and for clusters of the size `compiled`.
    Raises `LaunchError` for sizes that CUDA does not allow.
    """
    for size in sizes:
        # Other sizes are not cached, because 1.0 and True are equal to 1.
        if type(size) not in _PLAIN and not (type(size) is tuple and _PLAIN.issuperset(map(type, size))):
            return _shape(sizes, most_threads, compiled)
    return _plain_shape(sizes, most_threads, compiled)


def _shape(sizes: LaunchSizes, most_threads: int, compiled: Index | None) -> Shape | None:
    if not sizes.has_block():
        return None
    grid, block, shared, threads, cluster, dependent = sizes
    counts = None if threads is None else _dimensions(threads, "threads", _MOST_COVERED, "threads")
    block_size = _dimensions(block, "block", MOST_THREADS, "threads")
    if counts is not None:
        grid = tuple(-(-n // size) for n, size in zip(counts, block_size, strict=True))
    starts_nothing = counts is not None and 0 in counts
    grid_size = grid if starts_nothing else _dimensions(grid, "grid", MOST_BLOCKS, "blocks")
    if block_size[0] * block_size[1] * block_size[2] > MOST_IN_BLOCK:
        raise LaunchError(f"block={block}: a block can have at most {MOST_IN_BLOCK} threads", _MORE_BLOCKS)
    if most_threads and block_size[0] * block_size[1] * block_size[2] > most_threads:
        raise LaunchError(
            f"block={block}: the kernel is compiled for blocks of at most {most_threads} threads (max_threads)",
            _MORE_BLOCKS,
        )
    if dependent not in (None, False, True):
        raise LaunchError(f"dependent={dependent!r} is not a bool", "give True or False")
    return Shape(grid_size, block_size, _shared_bytes(shared), _clusters(cluster, compiled, grid_size), bool(dependent))


_PLAIN = {int, str, type(None)}
_plain_shape = functools.lru_cache(maxsize=1024)(_shape)


def block_for(size: int, threads: Any, may_shrink: bool) -> Any:
    """A block of `size` threads for `threads`, in rows of whole warps if there are several axes.

    If all `threads` fit into such a block and it `may_shrink`, the block has exactly these threads.
    """
    counts = _dimensions(threads, "threads", _MOST_COVERED, "threads")
    if may_shrink and counts[0] * counts[1] * counts[2] <= size and counts[2] <= MOST_THREADS[2]:
        return tuple(max(1, count) for count in counts)
    return size if counts[1:] == (1, 1) else (min(size, 32), max(1, size // 32))


def _clusters(cluster: Any, compiled: Index | None, grid: Index) -> Index:
    """The size of clusters. None means the size that the kernel is compiled for, or that each block is a cluster."""
    sizes = compiled if cluster is None else _dimensions(cluster, "cluster", (MOST_IN_CLUSTER,) * 3, "blocks")
    if sizes is None:
        return (1, 1, 1)
    if compiled is not None and sizes != compiled:
        raise LaunchError(
            f"cluster={cluster}: the kernel is compiled for clusters of {compiled} blocks", "leave cluster out"
        )
    if sizes[0] * sizes[1] * sizes[2] > MOST_IN_CLUSTER:
        raise LaunchError(
            f"cluster={cluster}: a cluster can have at most {MOST_IN_CLUSTER} blocks", "use smaller clusters"
        )
    if any(blocks % size for blocks, size in zip(grid, sizes, strict=True)):
        raise LaunchError(
            f"grid={grid} is not a multiple of cluster={sizes} along each axis",
            "launch a grid of whole clusters, and let the extra threads do nothing",
        )
    return sizes


def sizes_of_config(config: Any) -> LaunchSizes:
    """The sizes of cuda.core's `LaunchConfig`, whose grid counts clusters."""
    try:
        grid, block, cluster, shared = config.grid, config.block, config.cluster, config.shmem_size
    except AttributeError:
        raise LaunchError(
            f"config={config!r} is not a LaunchConfig of cuda.core", "pass grid=… and block=…, or such a config"
        ) from None
    if cluster is not None:
        counts = _dimensions(grid, "grid", MOST_BLOCKS, "clusters")
        sizes = _dimensions(cluster, "cluster", (MOST_IN_CLUSTER,) * 3, "blocks")
        grid = tuple(count * size for count, size in zip(counts, sizes, strict=True))
    return LaunchSizes(grid, block, shared or 0, None, cluster)


def _dimensions(value: Any, name: str, most: Index, unit: str) -> Index:
    parts = tuple(value) if isinstance(value, (tuple, list)) or vector_of(type(value)) else (value,)
    try:
        sizes = tuple(map(_integer, parts))
    except TypeError:
        expected = "number of threads" if name == "threads" else f"size of a {name}"
        raise LaunchError(
            f"{name}={value!r} is not a {expected}", "give an int, or a tuple of one to three ints"
        ) from None
    if not 1 <= len(sizes) <= 3:
        raise LaunchError(
            f"{name}={value!r}: a grid or block has one to three dimensions, not {len(sizes)}",
            "give an int, or a tuple of one to three ints",
        )
    x, y, z = (*sizes, 1, 1)[:3]
    least = 0 if name == "threads" else 1
    for axis, size, limit in zip("xyz", (x, y, z), most, strict=True):
        if not least <= size <= limit:
            remedy = "skip the launch if there is nothing to do" if size == 0 else _MORE_BLOCKS
            if name == "grid" and size == 0:
                remedy += ", or pass threads=, which may be 0, instead of grid="
            if name == "cluster":
                remedy = "use smaller clusters, with at least one block"
            elif unit == "blocks" and size:
                remedy = "launch fewer blocks, and let each thread loop in steps of grid_size(1)"
            raise LaunchError(
                f"{name}={value!r}: {size} {unit} along {axis}; the allowed range is {least} to {limit}", remedy
            )
    return x, y, z


def _shared_bytes(shared: Any) -> int:
    try:
        count = _integer(shared)
    except TypeError:
        raise LaunchError(f"shared={shared!r} is not a size of shared memory", "give a number of bytes") from None
    if not 0 <= count < 1 << 31:
        raise LaunchError(
            f"shared={shared!r} is not a size of shared memory", f"give a number of bytes from 0 to {(1 << 31) - 1}"
        )
    return count


def _integer(value: Any) -> int:
    """The int of an integer other than a bool."""
    if isinstance(value, bool):
        raise TypeError("a bool is not a size")
    return operator.index(value)
