"""Memory orders and thread scopes of atomic operations, as C++ and CUDA C++ define them.

Order("acquire") in OF_LOADS     Scope("block") is Scope.BLOCK
"""

from __future__ import annotations

from enum import StrEnum


class Order(StrEnum):
    """A memory order of standard C++."""

    RELAXED = "relaxed"
    CONSUME = "consume"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SEQ_CST = "seq_cst"


class Scope(StrEnum):
    """Whose threads an operation synchronises with, from all to none."""

    SYSTEM = "system"
    DEVICE = "device"
    BLOCK = "block"
    THREAD = "thread"


# What C++ allows: a load releases nothing, a store acquires nothing.
OF_LOADS = (Order.RELAXED, Order.CONSUME, Order.ACQUIRE, Order.SEQ_CST)
OF_STORES = (Order.RELAXED, Order.RELEASE, Order.SEQ_CST)
OF_UPDATES = tuple(Order)
