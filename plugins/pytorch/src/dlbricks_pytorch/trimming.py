"""Pages of memory that the C library gives back to the system within a run, and takes again.

glibc maps a block of its own for each result above a threshold, and raises the threshold to the
largest such block that was freed, up to 32 MiB. Smaller results lie in the heap, whose end is given
back when more than twice the threshold is free there (mallopt(3)). Each page that a later layer
takes again is a page fault.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlbricks_core.ir import CanonicalModel
from dlbricks_core.operators import Traffic, operator

PAGE_BYTES = 4096
"""Bytes of a page of memory."""

_LEAST_MAPPED, _MOST_MAPPED = 2**17, 2**25
"""Least and greatest threshold for blocks of their own, in bytes."""


def retaken_pages(model: CanonicalModel) -> float:
    """Pages that a run gives back and takes again, if results lie one above the other.

    A process that fills holes below, or has a small block at the end of its heap, takes fewer.
    Where each block lies was followed as well, and said less: 16 bytes more for each block changed
    the number by twenty times.
    """
    owners = _owners(model)
    sizes = {
        name: model.tensors[name].nbytes
        for layer in model.layers
        for name in layer.outputs
        if name and owners[name] == name and model.tensors[name].nbytes <= _MOST_MAPPED
    }
    for name in model.outputs:  # it stays until the next run
        sizes.pop(owners.get(name, name), None)
    last: dict[str, int] = {}
    for at, layer in enumerate(model.layers):
        last.update((owners.get(name, name), at) for name in (*layer.inputs, *layer.outputs))
    ending: dict[int, int] = {}
    for name, size in sizes.items():
        ending[last[name]] = ending.get(last[name], 0) + size
    most_free = 2 * max(_LEAST_MAPPED, *sizes.values(), 0)
    end = retaken = 0
    for _ in range(2):  # the second run begins with the heap that the first one left
        used = retaken = 0
        for at, layer in enumerate(model.layers):
            used += sum(sizes.get(name, 0) for name in layer.outputs)
            retaken += max(used - end, 0)
            end = max(used, end)
            used -= ending.get(at, 0)
            if end - used > most_free:
                end = used
    return retaken / PAGE_BYTES


def _owners(model: CanonicalModel) -> Mapping[str, str]:
    """The result whose memory each result of a layer lies in: its own, or what it views."""
    found: dict[str, str] = {}
    for layer in model.layers:
        views = operator(layer.qualified_op).traffic is Traffic.VIEW
        for name in layer.outputs:
            found[name] = found.get(layer.inputs[0], layer.inputs[0]) if views else name
    return found
