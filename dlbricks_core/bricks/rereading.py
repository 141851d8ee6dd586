"""Which layer sequences of a model find their weights in the caches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlbricks_core.ir import CanonicalModel

NEAR_BYTES = 16_000_000
"""Read and written in between, after which caches may still hold a weight: half of the 32 MB
that the largest cache of a server's processor has at least."""

_MIN_WEIGHTS_BYTES = 65_536
"""Of weights, below which it makes no difference where they come from."""


HELD_BYTES = 2**20
"""Of weights and live maps, which the caches of a single core hold from run to run."""


def fits_in_core_cache(model: CanonicalModel) -> bool:
    """Whether a model that runs again and again never leaves the caches of a core."""
    if not all(spec.is_static for spec in model.tensors.values()):
        return False
    return model.weight_bytes + model.live_bytes <= HELD_BYTES


def rereads(model: CanonicalModel, sequences: Iterable[Sequence[int]]) -> list[bool]:
    """For each layer sequence, whether most of its weights were read shortly before.

    Steps of an unrolled recurrence, layers that share their weights and heads that run on several
    maps find their weights in the caches, where others have to get them from memory. Shortly
    means that less lay in between than :data:`NEAR_BYTES`, or than twice what the sequence
    itself moves: such a one finds them just as it does when it runs twice in a row.

    Args:
        model: Its layers in the order in which they run.
        sequences: Of layer indices, in the order in which they run.
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
    """In memory; of what an opaque layer gives, nobody knows how much: such bricks never run."""
    spec = model.tensors[name]
    return spec.nbytes if spec.is_static else 0
