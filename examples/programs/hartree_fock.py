"""The two-electron part of the Hartree-Fock method for atoms with spherical orbitals: four indices, atomic sums in float64.

Each thread computes the repulsion integral of one of the quartets of atoms that symmetry leaves, and adds its share to six
elements of the Fock matrix.
"""

import itertools
import math

import numpy as np

import cuda_device as device
from cuda_device import float64

BLOCK = 128
SCREEN, SMALLEST = 1e-9, 1e-12  # what is too small to be computed
FACTOR = 2 * math.pi**2.5
LIMIT = 1e-12
TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}


@device.func
def pair(number):
    """The row and the column of an element of a triangle that is numbered by rows."""
    row = int((math.sqrt(float64(8) * number + 1) - 1) / 2)
    if row * (row + 1) // 2 > number:
        row -= 1
    if (row + 1) * (row + 2) // 2 <= number:
        row += 1
    return row, number - row * (row + 1) // 2


@device.func
def between(places, i, j):
    """The square of the distance of two atoms."""
    x, y, z = places[i, 0] - places[j, 0], places[i, 1] - places[j, 1], places[i, 2] - places[j, 2]
    return x * x + y * y + z * z


@device.func
def repulsion(exponents, coefficients, places, i, j, k, l):  # noqa: E741
    """The integral over the orbitals of four atoms."""
    apart_ij, apart_kl = between(places, i, j), between(places, k, l)
    total = float64(0)
    for a in range(len(exponents)):
        for b in range(len(exponents)):
            p = exponents[a] + exponents[b]
            bra = coefficients[a] * coefficients[b] * math.exp(-exponents[a] * exponents[b] / p * apart_ij) / p
            if abs(bra) > SMALLEST:
                x = (exponents[a] * places[i, 0] + exponents[b] * places[j, 0]) / p
                y = (exponents[a] * places[i, 1] + exponents[b] * places[j, 1]) / p
                z = (exponents[a] * places[i, 2] + exponents[b] * places[j, 2]) / p
                for c in range(len(exponents)):
                    for d in range(len(exponents)):
                        q = exponents[c] + exponents[d]
                        ket = math.exp(-exponents[c] * exponents[d] / q * apart_kl) / q
                        ket *= coefficients[c] * coefficients[d]
                        if abs(ket) > SMALLEST:
                            u = x - (exponents[c] * places[k, 0] + exponents[d] * places[l, 0]) / q
                            v = y - (exponents[c] * places[k, 1] + exponents[d] * places[l, 1]) / q
                            w = z - (exponents[c] * places[k, 2] + exponents[d] * places[l, 2]) / q
                            t = p * q / (p + q) * (u * u + v * v + w * w)
                            root = math.sqrt(t)
                            f = 0.5 * math.sqrt(math.pi) * math.erf(root) / root if t > LIMIT else float64(1)
                            total += bra * ket * f / math.sqrt(p + q)
    return total * FACTOR


@device.func
def add(fock, i, j, value):
    """Adds to an element of the Fock matrix."""
    device.atomic_ref(fock, (i, j)).add(value, memory="relaxed", scope="device")


@device.kernel
def build(exponents, coefficients, places, bounds, density, fock):
    """Adds to `fock`. `bounds` has, for each pair of atoms, what its integrals are at most."""
    number = device.tid(1)
    pairs = len(bounds)
    if number < pairs * (pairs + 1) // 2:
        ij, kl = pair(number)
        if bounds[ij] * bounds[kl] > SCREEN:
            i, j = pair(ij)
            k, l = pair(kl)  # noqa: E741
            value = repulsion(exponents, coefficients, places, i, j, k, l)
            if i == j:
                value *= 0.5
            if k == l:
                value *= 0.5
            if ij == kl:
                value *= 0.5
            add(fock, i, j, 4 * value * density[k, l])
            add(fock, k, l, 4 * value * density[i, j])
            add(fock, i, k, -value * density[j, l])
            add(fock, i, l, -value * density[j, k])
            add(fock, j, k, -value * density[i, l])
            add(fock, j, l, -value * density[i, k])


def run(stream, exponents, coefficients, places, bounds, density):
    """The Fock matrix, not yet made symmetric."""
    inputs = [device.array(x, stream=stream) for x in (exponents, coefficients, places, bounds, density)]
    fock = device.zeros(density.shape, np.float64, stream=stream)
    quartets = bounds.size * (bounds.size + 1) // 2
    device.launch(build, *inputs, fock, grid=-(-quartets // BLOCK), block=BLOCK, stream=stream)
    return fock.numpy()


def expect(exponents, coefficients, places, bounds, density):
    """By the textbook's loops."""
    pairs = [(i, j) for i in range(len(places)) for j in range(i + 1)]
    fock = np.zeros_like(density)
    for ij, kl in zip(*np.tril_indices(len(pairs)), strict=True):
        if bounds[ij] * bounds[kl] <= SCREEN:
            continue
        (i, j), (k, l) = pairs[ij], pairs[kl]  # noqa: E741
        value = _repulsion(exponents, coefficients, *(places[atom] for atom in (i, j, k, l)))
        value *= 0.5 ** ((i == j) + (k == l) + (ij == kl))
        fock[i, j] += 4 * value * density[k, l]
        fock[k, l] += 4 * value * density[i, j]
        for (one, two), (three, four) in itertools.product(((i, j), (j, i)), ((k, l), (l, k))):
            fock[one, three] -= value * density[two, four]
    return fock


def _repulsion(exponents, coefficients, *places):
    def pairs(one, two):
        for (a, x), (b, y) in itertools.product(zip(exponents, coefficients, strict=True), repeat=2):
            weight = x * y * math.exp(-a * b / (a + b) * np.sum((one - two) ** 2)) / (a + b)
            yield a + b, weight, (a * one + b * two) / (a + b)

    total = 0.0
    for (p, bra, here), (q, ket, there) in itertools.product(pairs(*places[:2]), pairs(*places[2:])):
        root = math.sqrt(p * q / (p + q) * np.sum((here - there) ** 2))
        f = math.sqrt(math.pi) / 2 * math.erf(root) / root if root else 1.0
        total += bra * ket * f / math.sqrt(p + q)
    return total * FACTOR


def atoms(random, count):
    """Helium atoms in a box: exponents and coefficients of their orbital, places, bounds, and a density."""
    exponents = np.array([6.3624214, 1.1589230, 0.3136498])
    coefficients = np.array([0.154328967295, 0.535328142282, 0.444634542185]) * (2 * exponents / math.pi) ** 0.75
    places = random.uniform(0, 1.5 * count ** (1 / 3), (count, 3))
    rows, columns = np.tril_indices(count)
    bounds = np.exp(-0.25 * np.sum((places[rows] - places[columns]) ** 2, 1))
    density = random.uniform(0, 1, (count, count))
    return exponents, coefficients, places, bounds, density + density.T


def cases(random):
    """One atom, two, more quartets than a block has threads."""
    for count in (1, 2, 6):
        yield atoms(random, count)
