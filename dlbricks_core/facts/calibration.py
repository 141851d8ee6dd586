"""What a calibration is: numbers fitted on one system, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from dlbricks_core.facts.checks import LARGEST, canonical_json, checked, moment, number
from dlbricks_core.facts.quantity import Quantity
from dlbricks_core.facts.question import Setup

_LARGEST = 1e3
"""What is fitted are shares and relative deviations."""


@dataclass(frozen=True, slots=True, order=True)
class CalibrationKey:
    """What a calibration holds for: estimates that agree in all of it.

    Attributes:
        composer: Name of the composer whose numbers were fitted.
        strategy: Name of the split strategy.
        granularity: The most layers that a brick may hold.
        quantity: What is estimated.
        setup: How networks ran.
        system: Fingerprint of the system.
    """

    composer: str
    strategy: str
    granularity: int
    quantity: Quantity
    setup: Setup
    system: str

    @property
    def text(self) -> str:
        """The one text that equal keys have; stores find calibrations by it."""
        return canonical_json(
            {
                "composer": self.composer,
                "strategy": self.strategy,
                "granularity": self.granularity,
                "quantity": self.quantity.name,
                **asdict(self.setup),
                "system": self.system,
            }
        )


@dataclass(frozen=True, slots=True)
class CalibrationModel:
    """A network that a calibration rests on.

    Attributes:
        name: For people.
        source: Where it came from.
        signature: Of the whole network.
        error: Of its estimate with the fitted numbers, relative to the measured latency.
        scatter: Standard deviation of that error which the samples' scatter, and what is fitted
            of inferred latencies, explain.
    """

    name: str
    source: str
    signature: str
    error: float
    scatter: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Numbers that replace a composer's own on one system.

    Attributes:
        key: What it holds for.
        values: The fitted numbers, by name.
        models: The networks that they were fitted on.
        bricks: How many bricks these have, all of them timed.
        version: Of DLBricks.
        taken_at: With time zone.
    """

    key: CalibrationKey
    values: Mapping[str, float]
    models: tuple[CalibrationModel, ...]
    bricks: int
    version: str
    taken_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def signatures(self) -> frozenset[str]:
        """Of the networks that it rests on."""
        return frozenset(model.signature for model in self.models)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the key as plain data for JSON."""
        return {
            "values": dict(self.values),
            "models": [asdict(model) for model in self.models],
            "bricks": self.bricks,
            "version": self.version,
            "taken_at": self.taken_at.isoformat(),
        }

    @classmethod
    def from_dict(cls, key: CalibrationKey, data: Mapping[str, Any]) -> Self:
        """Reverses :meth:`to_dict`.

        Raises:
            KeyError: If something is missing.
            TypeError: If something has another structure.
            ValueError: If a value is not what it should be.
        """
        values = checked(data["values"], dict, "values").items()
        return cls(
            key=key,
            values={name: number(value, name, most=_LARGEST) for name, value in values},
            models=tuple(map(_model, data["models"])),
            bricks=checked(data["bricks"], int, "bricks"),
            version=checked(data["version"], str, "version"),
            taken_at=moment(data["taken_at"]),
        )


def _model(data: Mapping[str, Any]) -> CalibrationModel:
    texts = {name: checked(data[name], str, name) for name in ("name", "source", "signature")}
    error = number(data["error"], "error", least=-LARGEST)
    return CalibrationModel(**texts, error=error, scatter=number(data["scatter"], "scatter"))
