"""Caches as a layer sequence finds them: whether they hold its weights, inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlbricks_core.ir import CanonicalModel

NEAR_BYTES = 16_000_000
"""Bytes moved between two uses of a tensor, up to which the caches may still hold it.

Half of 32 MB, which is the least that the last-level cache of a server's processor has."""

_MIN_BYTES = 65_536
"""Bytes of a sequence's weights, or of a tensor, below which it makes no difference where they come
from."""

HELD_BYTES = 2**20
"""Bytes of weights and live activations that stay in the caches of one core from run to run."""


def fits_in_core_cache(model: CanonicalModel) -> bool:
    """Whether a whole model stays in the caches of one core from run to run."""
    if not all(spec.is_static for spec in model.tensors.values()):
        return False
    return model.weight_bytes + model.live_bytes <= HELD_BYTES


def rereads(model: CanonicalModel, sequences: Iterable[Sequence[int]]) -> list[bool]:
    """Whether each layer sequence reads weights that the model has read shortly before.

    Steps of an unrolled recurrence, layers that share their weights, and heads that run on several
    feature maps find their weights in the caches. Other layers fetch them from memory. "Shortly"
    means that fewer bytes were moved in between than :data:`NEAR_BYTES`, or than twice the bytes
    that the sequence itself moves.

    Args:
        model: Model in canonical form; its layers in the order in which they run.
        sequences: Layer indices of each sequence, in the order in which they run.

    Returns:
        One truth value for each sequence: whether this is true of most bytes of its weights.
    """
    passed = 0
    last: dict[str, int] = {}
    found = []
    for sequence in sequences:
        read = {name for index in sequence for name in model.layers[index].reads}
        weights = {name: model.nbytes[name] for name in read & model.weights}
        written = (name for index in sequence for name in model.layers[index].outputs if name)
        own = sum(weights.values()) + sum(model.nbytes[name] for name in written)
        near = max(NEAR_BYTES, 2 * own)
        again = sum(
            size for name, size in weights.items() if name in last and passed - last[name] <= near
        )
        found.append(again >= _MIN_BYTES and 2 * again > sum(weights.values()))
        last |= dict.fromkeys(weights, passed)
        passed += own
    return found


def cold_ends(model: CanonicalModel, sequences: Iterable[Sequence[int]]) -> list[frozenset[str]]:
    """The model's inputs and outputs that no cache holds any more when a layer sequence uses them.

    Before an inference, memory for its outputs and then its inputs is touched in their order. The
    layers of a decoder read their keys and values after those of many other layers, and after
    megabytes of weights. :data:`NEAR_BYTES` is the limit.

    Args:
        model: Model in canonical form; its layers in the order in which they run.
        sequences: Layer indices of each sequence, in the order in which they run.

    Returns:
        Names of these tensors for each sequence; small tensors do not count.
    """
    last: dict[str, int] = {}
    before = 0
    for name in reversed((*model.outputs, *model.inputs)):
        last.setdefault(name, -before)
        before += model.nbytes[name]
    ends = {name for name in last if model.nbytes[name] >= _MIN_BYTES}
    passed, found = 0, []
    for sequence in sequences:
        layers = [model.layers[index] for index in sequence]
        used = {name for layer in layers for name in (*layer.reads, *layer.outputs) if name}
        found.append(frozenset(n for n in used & ends if passed - last[n] > NEAR_BYTES))
        passed += sum(model.nbytes[name] for name in used)
        last |= dict.fromkeys(used & ends, passed)
    return found
