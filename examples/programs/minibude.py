"""Molecular docking as miniBUDE does it: the energy between a protein and a ligand, for many poses of the ligand.

A thread computes several poses at once, so that what it reads of an atom serves them all.
"""

import math

import numpy as np

import cuda_device as device
from cuda_device import float32, int32

BLOCK = 64
POSES = 4  # of each thread
EACH, AXES = tuple(range(POSES)), (0, 1, 2)  # loops over tuples are unrolled
HARDNESS, ELECTROSTATIC = 38.0, 45.0
NEAR, FAR = 1.0, 5.5  # where desolvation ends
ACCEPTOR, DONOR = 70, 69  # kinds of bonds: those of a longer range, those whose sign does not matter
TOLERANCE = {"rtol": 2e-3, "atol": 2e-2}


@device.struct
class Atom:
    """Where an atom is, and which of the `Force`s it has."""

    x: float32
    y: float32
    z: float32
    kind: int32


@device.struct
class Force:
    """What atoms of one kind do to others."""

    bond: int32
    radius: float32
    affinity: float32
    charge: float32


@device.func
def transform(matrices, p, x, y, z, axis):
    """One coordinate of a point under the p-th matrix."""
    at = 12 * p + 4 * axis
    return matrices[at + 3] + x * matrices[at] + y * matrices[at + 1] + z * matrices[at + 2]


@device.kernel
def fasten(protein, ligand, forces, poses, energies):
    """`poses` has three angles and three distances for each pose, along its first axis."""
    count = poses.shape[1]
    matrices = device.local_array(12 * POSES, float32)
    totals = device.local_array(POSES, float32)
    block = int(device.block_dim.x)
    first = int(device.block_idx.x) * block * POSES + int(device.thread_idx.x)
    for p in EACH:
        i = min(first + p * block, count - 1)
        sx, cx = math.sin(poses[0, i]), math.cos(poses[0, i])
        sy, cy = math.sin(poses[1, i]), math.cos(poses[1, i])
        sz, cz = math.sin(poses[2, i]), math.cos(poses[2, i])
        matrices[12 * p] = cy * cz
        matrices[12 * p + 1] = sx * sy * cz - cx * sz
        matrices[12 * p + 2] = cx * sy * cz + sx * sz
        matrices[12 * p + 3] = poses[3, i]
        matrices[12 * p + 4] = cy * sz
        matrices[12 * p + 5] = sx * sy * sz + cx * cz
        matrices[12 * p + 6] = cx * sy * sz - sx * cz
        matrices[12 * p + 7] = poses[4, i]
        matrices[12 * p + 8] = -sy
        matrices[12 * p + 9] = sx * cy
        matrices[12 * p + 10] = cx * cy
        matrices[12 * p + 11] = poses[5, i]
        totals[p] = 0
    xs = device.local_array(3 * POSES, float32)
    for a in range(len(ligand)):
        atom = ligand[a]
        mine = forces[atom.kind]
        attracted, repelled = mine.affinity < 0, mine.affinity > 0
        for p in EACH:
            for axis in AXES:
                xs[3 * p + axis] = transform(matrices, p, atom.x, atom.y, atom.z, axis)
        for b in range(len(protein)):
            other = protein[b]
            its = forces[other.kind]
            radius = its.radius + mine.radius
            scale = 1 / radius
            both = its.bond == ACCEPTOR and mine.bond == ACCEPTOR
            reach, slope = (4.0, 0.25) if both else (2.0, 0.5)
            either = its.bond == DONOR or mine.bond == DONOR
            one = -its.affinity if its.affinity < 0 and repelled else its.affinity
            two = -mine.affinity if its.affinity > 0 and attracted else mine.affinity
            edge = (FAR if attracted else NEAR) if its.affinity < 0 else (NEAR if attracted else -math.inf)
            fall = 1 / edge
            charge, solvation = mine.charge * its.charge, one + two
            for p in EACH:
                x, y, z = xs[3 * p] - other.x, xs[3 * p + 1] - other.y, xs[3 * p + 2] - other.z
                distance = math.sqrt(x * x + y * y + z * z)
                gap = distance - radius
                inside = gap < 0
                energy = (1 - distance * scale) * (2 * HARDNESS if inside else 0)
                force = charge * ((1 if inside else 1 - gap * slope) * (1 if gap < reach else 0))
                energy += (-abs(force) if either else force) * ELECTROSTATIC
                wet = solvation if gap < edge and its.affinity != 0 else 0
                totals[p] += energy + wet * (1 if inside else 1 - gap * fall)
    for p in EACH:
        if first + p * block < count:
            energies[first + p * block] = totals[p] * 0.5


def run(stream, protein, ligand, forces, poses):
    """The energy of each pose."""
    energies = device.empty(poses.shape[1], stream=stream)
    inputs = [device.array(x, stream=stream) for x in (protein, ligand, forces, poses)]
    grid = -(-poses.shape[1] // (BLOCK * POSES))
    device.launch(fasten, *inputs, energies, grid=grid, block=BLOCK, stream=stream)
    return energies.numpy()


def expect(protein, ligand, forces, poses):
    """By NumPy, in double precision: all poses at once for each pair of atoms."""
    angles = poses[:3].astype(np.float64)
    (sx, sy, sz), (cx, cy, cz) = np.sin(angles), np.cos(angles)
    rows = (
        (cy * cz, sx * sy * cz - cx * sz, cx * sy * cz + sx * sz),
        (cy * sz, sx * sy * sz + cx * cz, cx * sy * sz - sx * cz),
        (-sy, sx * cy, cx * cy),
    )
    total = np.zeros(poses.shape[1])
    for atom in ligand:
        mine = forces[atom["kind"]]
        place = [sum(r * float(atom[n]) for r, n in zip(row, "xyz", strict=True)) for row in rows]
        place = [one + move for one, move in zip(place, poses[3:], strict=True)]
        for other in protein:
            its = forces[other["kind"]]
            total += _energy(mine, its, [one - float(other[n]) for one, n in zip(place, "xyz", strict=True)])
    return total / 2


def _energy(mine, its, apart):
    distance, radius = np.sqrt(sum(x * x for x in apart)), float(mine["radius"]) + float(its["radius"])
    bonds = {int(mine["bond"]), int(its["bond"])}
    first, second = float(mine["affinity"]), float(its["affinity"])
    gap = distance - radius
    inside = gap < 0
    clash = np.where(inside, 2 * HARDNESS * (1 - distance / radius), 0)
    reach = 4 if bonds == {ACCEPTOR} else 2
    force = float(mine["charge"]) * float(its["charge"]) * np.where(inside, 1, 1 - gap / reach) * (gap < reach)
    solvation = (-first if second > 0 > first else first) + (-second if second < 0 < first else second)
    edge = (FAR if first < 0 else NEAR) if second < 0 else (NEAR if first < 0 else -np.inf)
    wet = np.where((gap < edge) & (second != 0), solvation * np.where(inside, 1, 1 - gap / edge), 0)
    return clash + (-abs(force) if DONOR in bonds else force) * ELECTROSTATIC + wet


def molecules(random, atoms, kinds, poses):
    """A protein of so many atoms, a ligand of a tenth of them, forces and poses."""
    found = []
    for count, spread in ((atoms, 12.0), (max(1, atoms // 10), 3.0)):
        molecule = np.zeros(count, device.numpy_dtype(Atom))
        for name in "xyz":
            molecule[name] = random.uniform(-spread, spread, count)
        molecule["kind"] = random.integers(0, kinds, count)
        found.append(molecule)
    forces = np.zeros(kinds, device.numpy_dtype(Force))
    forces["bond"] = random.choice([ACCEPTOR, DONOR, 0], kinds)
    forces["radius"] = random.uniform(1, 2, kinds)
    forces["affinity"] = random.choice([-1.0, 0.0, 0.5], kinds)
    forces["charge"] = random.uniform(-1, 1, kinds)
    place = np.concatenate((random.uniform(0, 2 * np.pi, (3, poses)), random.uniform(-6, 6, (3, poses))))
    return *found, forces, place.astype(np.float32)


def cases(random):
    """One pose, a thread's worth, ragged blocks."""
    for atoms, poses in ((1, 1), (10, POSES), (30, 300)):
        yield molecules(random, atoms, 5, poses)
