"""All kinds of cases, and which one a number is of.

case(7)         the same case whenever it is asked for
"""

from __future__ import annotations

from fuzz.aliasing import Aliasing
from fuzz.alike import Alike
from fuzz.anywhere import Anywhere
from fuzz.arrays import Arrays
from fuzz.behind import Behind
from fuzz.capturing import Capturing
from fuzz.cases import Case, Several
from fuzz.compilers import Compilers
from fuzz.corpus import Corpus
from fuzz.declared import Declared
from fuzz.drivers import Drivers
from fuzz.facts import Facts
from fuzz.folded import Folded
from fuzz.foreign import Foreign
from fuzz.hard import Hard
from fuzz.lanes import Lanes
from fuzz.launched import Launched
from fuzz.mistakes import Checked, Racing
from fuzz.modelled import Modelled
from fuzz.optimised import Optimised
from fuzz.ordered import Ordered
from fuzz.own_cases import Own
from fuzz.printing import Failing, Printing
from fuzz.promising import Promising
from fuzz.reading import Reading
from fuzz.refusals import Broken, Refused
from fuzz.remembered import Remembered
from fuzz.saying import Saying
from fuzz.surface_cases import Surface
from fuzz.surroundings import Surroundings
from fuzz.unwanted import FailingThere, RefusedThere
from fuzz.valued import Valued
from fuzz.ways import Ways
from fuzz.wrong_ir import WrongIr
from fuzz.yielding import Yielding

KINDS: tuple[type[Case], ...] = (
    *(Printing, Refused, Hard, Arrays, Broken, Declared, Failing, Checked, Remembered, WrongIr, Drivers),
    *(Printing, Refused, Hard, Ways, Foreign, Ordered, Racing, Yielding),
    *(Corpus, RefusedThere, Launched, Reading, FailingThere),
    *(Own, Modelled, Surroundings, Compilers, Optimised, Lanes, Facts),
    *(Surface, Surface, Folded, Valued, Aliasing, Alike, Capturing),
    *(Promising, Saying, Anywhere, Behind),
)


def case(number: int) -> Case:
    """The case of a number, or several that are quick."""
    kind = KINDS[number % len(KINDS)]
    if kind.at_once == 1:
        return kind(number)
    first = number - number % 10**9 + number % 10**9 * kind.at_once
    return Several(number, [kind(first + k) for k in range(kind.at_once)])
