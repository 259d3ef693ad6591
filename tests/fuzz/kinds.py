"""All kinds of cases, and which one a number is of.

case(7)         the same case whenever it is asked for
"""

from __future__ import annotations

from fuzz.arrays import Arrays
from fuzz.behind import Behind
from fuzz.cases import Case
from fuzz.printing import Failing, Printing
from fuzz.ways import Ways

KINDS: tuple[type[Case], ...] = (Printing, Arrays, Behind, Printing, Ways, Failing)


def case(number: int) -> Case:
    """The case of a number."""
    return KINDS[number % len(KINDS)](number)
