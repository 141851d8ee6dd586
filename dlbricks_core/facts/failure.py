"""Failures: subjects without a result, and the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Stage = Literal["read", "check", "measure", "compose", "write"]
"""Stage of the failed work: reading a model, checking a layer's support by a backend, measuring,
composing an estimate, or writing files.
"""


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that has no result.

    Attributes:
        subject: Name of the model, as the user gave it; of a brick that came without a model, its
            operators and the start of its signature.
        reason: Why there is no result.
        stage: Step that failed.
        part: Failed part of the model: a brick, a kind of layer, or ``end to end``; empty for the
            whole model.
        backend: Name of the backend; empty where no backend had a part in it.
        layers: Number of layers that fail for this reason.
    """

    subject: str
    reason: str
    stage: Stage
    part: str = ""
    backend: str = ""
    layers: int = 1

    @property
    def where(self) -> str:
        """The subject and the part of it that failed."""
        return f"{self.subject}: {self.part}" if self.part else self.subject
