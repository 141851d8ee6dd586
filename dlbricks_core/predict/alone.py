"""What short networks have that the same layers in the middle of a model have not."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.predict.baseline import is_hidden
from dlbricks_core.predict.features import Features, class_of


def alone_effects(features: Features, counts: sparse.csr_array, expected: FloatArray) -> FloatArray:
    """How strongly each network has each error that networks timed alone have in common.

    A layer alone finds its input elsewhere than in a model: in another core's cache, in another
    layout, or already there. That makes it slower or faster by some share, much the same for
    layers of one class, and less so the more layers follow each other. Without it, such an error
    of thousands of short networks is taken for the layers' own, and models add it up.

    Args:
        features: Features of the layers.
        counts: How often each network has each layer: shape (networks, layers).
        expected: Latency in milliseconds that is expected of each layer.

    Returns:
        Array of shape (networks, 1 + classes): an error of all networks, and one of each class.
    """
    seen = [i for i, kind in enumerate(features.kinds) if not is_hidden(kind)]
    classes = np.array([class_of(features.kinds[i]) for i in seen])
    member = classes[:, None] == np.unique(classes)[None, :]
    some = sparse.csr_array(counts[:, seen])
    parts = some @ (member * expected[seen, None])
    shares = parts / np.maximum(parts.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    layers = np.maximum(np.asarray(some.sum(axis=1)).ravel(), 1.0)
    return np.asarray(np.column_stack([np.ones(len(shares)), shares]) / np.sqrt(layers)[:, None])
