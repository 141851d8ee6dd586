"""Results of imports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlbricks_core.ir import CanonicalModel


@dataclass(frozen=True)
class Imported:
    """Result of importing.

    Attributes:
        model: The canonical model.
        names: Names that options about the model may use: its inputs, its symbols for sizes, and
            axes of its inputs (``data.2``), each also with the model as a prefix.
        outputs: Outputs of the file by the names that options may use: their own, and the same
            with the model as a prefix.
    """

    model: CanonicalModel
    names: frozenset[str]
    outputs: Mapping[str, str] = field(default_factory=dict)
