"""Suites of secret models: decoys, the owner's key, and attacks."""

from dlbricks_core.privacy.chains import alternatives, log10_candidates, log10_of_choices
from dlbricks_core.privacy.decoys import decoy_networks, pieces
from dlbricks_core.privacy.fitting import Piece
from dlbricks_core.privacy.judge import Example, Judge, balanced_accuracy, cross_validated
from dlbricks_core.privacy.key import Key, read_key
from dlbricks_core.privacy.published import Published, skeleton
from dlbricks_core.privacy.traits import traits
from dlbricks_core.privacy.transplant import transplant

__all__ = [
    "Example",
    "Judge",
    "Key",
    "Piece",
    "Published",
    "alternatives",
    "balanced_accuracy",
    "cross_validated",
    "decoy_networks",
    "log10_candidates",
    "log10_of_choices",
    "pieces",
    "read_key",
    "skeleton",
    "traits",
    "transplant",
]
