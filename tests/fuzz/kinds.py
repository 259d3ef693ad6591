"""All kinds of cases, and which one a number is of.

case(7)         the same case whenever it is asked for
"""

from __future__ import annotations

from fuzz.anywhere import Anywhere
from fuzz.arrays import Arrays
from fuzz.behind import Behind
from fuzz.cases import Case, Several
from fuzz.printing import Failing, Printing
from fuzz.races import Racing
from fuzz.ways import Ways

KINDS: tuple[type[Case], ...] = (Printing, Arrays, Anywhere, Behind, Printing, Ways, Racing, Failing)


def case(number: int) -> Case:
    """The case of a number, or several that are quick."""
    kind = KINDS[number % len(KINDS)]
    if kind.at_once == 1:
        return kind(number)
    first = number - number % 10**9 + number % 10**9 * kind.at_once
    return Several(number, [kind(first + k) for k in range(kind.at_once)])
