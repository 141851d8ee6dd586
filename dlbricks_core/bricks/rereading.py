"""Weights that are still in the caches when a layer sequence reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlbricks_core.ir import CanonicalModel

NEAR_BYTES = 16_000_000
"""Bytes moved between two reads of a weight, up to which the caches may still hold it.

Half of 32 MB, which is the least that the last-level cache of a server's processor has."""

_MIN_WEIGHTS_BYTES = 65_536
"""Bytes of weights below which it makes no difference where they come from."""

HELD_BYTES = 2**20
"""Bytes of weights and live activations that the caches of one core hold from run to run."""


def fits_in_core_cache(model: CanonicalModel) -> bool:
    """Whether the caches of one core hold all of a model from run to run."""
    if not all(spec.is_static for spec in model.tensors.values()):
        return False
    return model.weight_bytes + model.live_bytes <= HELD_BYTES


def rereads(model: CanonicalModel, sequences: Iterable[Sequence[int]]) -> list[bool]:
    """Whether each layer sequence reads weights that the model has read shortly before.

    Steps of an unrolled recurrence, layers that share their weights, and heads that run on several
    feature maps find their weights in the caches. Other layers fetch them from memory. "Shortly"
    means that fewer bytes were moved in between than :data:`NEAR_BYTES`, or than twice what the
    sequence itself moves.

    Args:
        model: In canonical form; its layers in the order in which they run.
        sequences: Layer indices of each sequence, in the order in which they run.

    Returns:
        One truth value a sequence: whether that holds for most bytes of its weights.
    """
    passed = 0
    last: dict[str, int] = {}
    found = []
    for sequence in sequences:
        read = {name for index in sequence for name in model.layers[index].reads}
        weights = {name: _nbytes(model, name) for name in read & model.weights}
        written = (name for index in sequence for name in model.layers[index].outputs if name)
        own = sum(weights.values()) + sum(_nbytes(model, name) for name in written)
        near = max(NEAR_BYTES, 2 * own)
        again = sum(
            size for name, size in weights.items() if name in last and passed - last[name] <= near
        )
        found.append(again >= _MIN_WEIGHTS_BYTES and 2 * again > sum(weights.values()))
        last |= dict.fromkeys(weights, passed)
        passed += own
    return found


def _nbytes(model: CanonicalModel, name: str) -> int:
    """Bytes of a tensor; 0 for an opaque layer's result of unknown size: its brick never runs."""
    spec = model.tensors[name]
    return spec.nbytes if spec.is_static else 0
