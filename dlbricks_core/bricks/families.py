"""Families of models, by the names of models of one architecture."""

from __future__ import annotations

import re
from collections import defaultdict
from zlib import crc32

from dlbricks_core.bricks.brickset import BrickSet
from dlbricks_core.ir import CanonicalModel

_PREFIXES = frozenset({"bvlc", "light"})
"""Words that precede the names of architectures."""


def groups_of(brickset: BrickSet, *, wholes: bool) -> dict[str, set[str]]:
    """Families of the models that each brick occurs in, by signature.

    Args:
        brickset: The models.
        wholes: Whether to include the models themselves.
    """
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for cut in brickset.models:
        group = family_of(cut.model)
        for signature in (*cut.counts, *([cut.whole.signature] if wholes else [])):
            groups[signature].add(group)
    return groups


def family_of(model: CanonicalModel) -> str:
    """Family of a model: the common part of the names of models of one architecture.

    The name of a file may be a secret of its owner. Only names in collections are revealed.

    Examples:
        ``resnet`` for ``mxnet:resnet50_v1``; ``file:f4adf6df`` for ``resnet50.onnx``.
    """
    collection, colon, name = model.source.partition(":")
    listed = colon and "/" not in collection
    words = re.findall("[a-z]+", (name if listed else model.name).lower().rpartition(":")[2])
    words = [word for word in words if word not in _PREFIXES] or [model.name]
    family = words[0].rstrip("v") or words[0]
    return family if listed else f"file:{crc32(family.encode()):08x}"
