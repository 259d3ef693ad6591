"""The table of what can be done with a value of any kind: rules reach it through their frame, so that no kind needs another."""

from __future__ import annotations

from cuda_device.infer import access, attributes, calls, closures, composites, loops, operators
from cuda_device.infer.frame import Operations
from cuda_device.infer.kinds import sequences, views

OPERATIONS = Operations(
    call=calls.call,
    call_plain=calls.call_plain,
    getattr=attributes.getattr_,
    getitem=access.getitem,
    store=access.store,
    binary=operators.binary,
    unary=operators.unary,
    compare=operators.compare,
    truth=operators.truth_of,
    iterate=loops.iterator_over,
    items_of_iterator=loops.items_of,
    as_iterable=sequences.as_iterable,
    as_tuple=sequences.as_tuple,
    items_of=sequences.items_of,
    scalar=composites.scalar,
    method_of=composites.method_of,
    close=closures.close,
    as_array_type=views.as_type,
    record_constant=attributes.constant_of,
)
