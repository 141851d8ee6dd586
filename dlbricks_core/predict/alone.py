"""Effects of timing short networks alone, which the same layers inside a model do not show."""

from __future__ import annotations

import numpy as np
import scipy

from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.predict.baseline import is_hidden
from dlbricks_core.predict.features import Features
from dlbricks_core.predict.kinds import class_of


def alone_effects(
    features: Features, counts: scipy.sparse.csr_array, expected: FloatArray
) -> FloatArray:
    """Strength of each shared error of networks that are timed alone, in each network.

    The input of a layer that runs alone is in another place than inside a model: in another core's
    cache, in another layout, or already in the right cache. So the layer is slower or faster by a
    share that is similar for layers of one class, and smaller the more layers follow each other.
    Without this term, the shared error of thousands of short networks would be attributed to the
    layers themselves, and would add up in models.

    Args:
        features: Features of the layers.
        counts: Number of occurrences of each layer in each network: shape (networks, layers).
        expected: Expected latency of each layer in milliseconds.

    Returns:
        Array of shape (networks, 1 + classes): one error for all networks, and one for each class.
    """
    seen = [i for i, kind in enumerate(features.kinds) if not is_hidden(kind)]
    classes = np.array([class_of(features.kinds[i]) for i in seen])
    member = classes[:, None] == np.unique(classes)[None, :]
    some = scipy.sparse.csr_array(counts[:, seen])
    parts = some @ (member * expected[seen, None])
    shares = parts / np.maximum(parts.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    layers = np.maximum(np.asarray(some.sum(axis=1)).ravel(), 1.0)
    return np.asarray(np.column_stack([np.ones(len(shares)), shares]) / np.sqrt(layers)[:, None])
