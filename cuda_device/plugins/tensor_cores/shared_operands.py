"""Operands of `wgmma` and `tcgen05_mma` in shared memory: the tiles that they can be, and the descriptors of their matrices."""

from __future__ import annotations

from cuda_device import CompileError
from cuda_device.extend import Known, layout, model
from cuda_device.plugins.tensor_cores.fragments import NAMES, TF32
from cuda_device.plugins.tensor_cores.swizzling import Tile, tile_of

TYPES = {model.FLOAT32 if type == TF32 else type: name for type, name in NAMES.items() if type != model.FLOAT64}
"""The types that are multiplied, as PTX names them."""
_PAIRS = {model.FLOAT8E4M3, model.FLOAT8E5M2}, {model.INT8, model.UINT8}
STEP = 32
"""The bytes of depth that an instruction multiplies."""


def operand_of(known: Known, name: str, entity: str, transposed: tuple[int, ...]) -> Tile:
    """The tile that an operand is. Raises `CompileError` if the hardware cannot read it.

    `transposed` has the sizes of the elements in bytes of which the entity reads transposed tiles.
    """
    tile = tile_of(known, entity)
    if not tile.pattern:
        raise CompileError(
            f"{entity} reads swizzled tiles, and {name} is {tile}",
            help=f"write swizzled({name}, 128), for rows of 128 bytes; swizzle=128 makes its tensor map",
        )
    if tile.element not in TYPES:
        raise CompileError(
            f"{entity} does not multiply {tile.element}, of which {name} is",
            help=f"it multiplies {', '.join(map(str, TYPES))}; convert the elements",
        )
    size, depth = layout.size_of(tile.element), tile.shape[1]
    if tile.transposed and size not in transposed:
        sizes = " and ".join(f"{8 * each}-bit" for each in transposed)
        raise CompileError(
            f"{entity} reads transposed tiles only of {sizes} elements, and {name} is {tile}",
            help="store the transposed matrix in shared memory: each row has contiguous elements of the depth",
        )
    if depth * size % STEP:
        raise CompileError(f"the depth of {name} is {depth}", help=f"make it a multiple of {STEP // size}")
    return tile


def check_types(a: Tile, b: Tile, entity: str) -> None:
    """Refuses operands that cannot be multiplied with each other."""
    types = {a.element, b.element}
    if len(types) > 1 and types not in _PAIRS:
        raise CompileError(
            f"{entity} does not multiply {a.element} by {b.element}", help="give both operands elements of one type"
        )
    if a.shape[1] != b.shape[1]:
        raise CompileError(f"a is {a}, and b {b}: their depths differ", help="the product is a @ b.T: b is (n, k)")


def accumulates(known: Known) -> bool | None:
    """Whether a product is added to a sum, or None if that is known at run time only, from the argument `accumulate`."""
    if known.constant:
        return bool(known.value)
    if not model.is_index(known.type):
        raise CompileError(f"accumulate is a bool, not {known}", help="write accumulate=k > 0, for example")
    return None


def descriptors(name: str, address: str, tile: Tile, version: int = 0) -> list[str]:
    """PTX that defines the descriptors NAME0, NAME1, … of the parts of a tile that instructions read one after the other.

    A descriptor has addresses and distances in units of 16 bytes: the address in shared memory, from bit 16 on the distance of
    panels, from bit 32 on that of eight rows, from bit 46 on the version, 1 for `tcgen05`, and from bit 62 on the pattern.
    """
    panels, steps = tile.pitch // 16 if tile.transposed else 1, steps_of(tile)
    constant = _PATTERNS[tile.pattern] << 62 | version << 46 | tile.pattern // 2 << 32 | (panels or 1) << 16
    lines = [f".reg .b64 {name}<{steps}>;", f"shr.u64 {name}0, {address}, 4;", f"and.b64 {name}0, {name}0, 0x3fff;"]
    lines += [f"or.b64 {name}0, {name}0, {constant:#x};"]
    return lines + [f"add.s64 {name}{k}, {name}0, {_distance(tile, k) // 16};" for k in range(1, steps)]


_PATTERNS = {128: 1, 64: 2, 32: 3}


def steps_of(tile: Tile) -> int:
    """The number of instructions that multiply the depth of a tile."""
    return tile.shape[1] * layout.size_of(tile.element) // STEP


def _distance(tile: Tile, step: int) -> int:
    """The bytes from the first part of a tile to the one of a step, 32 bytes of depth: in a transposed tile, so many rows."""
    if tile.transposed:
        return step * STEP // layout.size_of(tile.element) * tile.pattern
    panel, part = divmod(STEP * step, tile.pattern)
    return panel * tile.pitch + part
