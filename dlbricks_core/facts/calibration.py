"""Calibrations: numbers of a composer, fitted to networks on one system."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Self

from dlbricks_core.facts.checks import LARGEST, canonical_json, checked, flat, moment, number
from dlbricks_core.facts.observation import Quantity, Setup

_LARGEST = 1e3
"""Limit of a fitted number: all of them are shares or relative deviations."""


@dataclass(frozen=True, slots=True, order=True)
class CalibrationKey:
    """Identity of a calibration. It applies to estimates with equal values of all attributes.

    Attributes:
        composer: Name of the composer whose numbers were fitted.
        strategy: Name of the split strategy.
        granularity: Maximum number of layers in a brick.
        quantity: Estimated quantity.
        setup: How the networks ran.
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
        """Canonical JSON of the key, by which stores find calibrations."""
        return canonical_json(
            {
                "composer": self.composer,
                "strategy": self.strategy,
                "granularity": self.granularity,
                "quantity": self.quantity.name,
                **flat(self.setup),
                "system": self.system,
            }
        )

    @classmethod
    def from_text(cls, text: str, quantities: Mapping[str, Quantity]) -> Self:
        """Reverses :attr:`text`.

        Args:
            text: Canonical JSON of a key.
            quantities: Quantities by name.

        Raises:
            KeyError: If something is missing, or ``quantities`` lacks the quantity.
            TypeError: If something has another structure.
            ValueError: If the text is not JSON.
        """
        data = checked(json.loads(text), dict, "key")
        kinds: dict[str, type] = dict.fromkeys(("threads", "granularity"), int)
        found: dict[str, Any] = {
            name: checked(value, kinds.get(name, str), name) for name, value in data.items()
        }
        setup = Setup(**{each.name: found[each.name] for each in fields(Setup)})
        names = ("composer", "strategy", "granularity", "system")
        return cls(
            **{name: found[name] for name in names},
            quantity=quantities[found["quantity"]],
            setup=setup,
        )


@dataclass(frozen=True, slots=True)
class CalibrationModel:
    """A network that a calibration rests on.

    Attributes:
        name: Name of the network, for people.
        source: File or collection that the network came from.
        signature: Signature of the whole network.
        error: Error of the estimate with the fitted numbers, relative to the measured value.
        scatter: Standard deviation of the error that is to be expected from the scatter of samples
            and from the fitted error of inferred values.
    """

    name: str
    source: str
    signature: str
    error: float
    scatter: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Fitted numbers that replace a composer's defaults on one system.

    Attributes:
        key: Identity of the calibration.
        values: Fitted numbers by name.
        models: Networks that the numbers were fitted on.
        bricks: Number of bricks that these networks have; all of them were measured.
        version: Version of DLBricks.
        taken_at: Time of the calibration, with time zone.
    """

    key: CalibrationKey
    values: Mapping[str, float]
    models: tuple[CalibrationModel, ...]
    bricks: int
    version: str
    taken_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def signatures(self) -> frozenset[str]:
        """Signatures of the networks that the numbers were fitted on."""
        return frozenset(model.signature for model in self.models)

    def to_dict(self) -> dict[str, Any]:
        """The calibration without its key, as plain data for JSON."""
        return {
            "values": dict(self.values),
            "models": [flat(model) for model in self.models],
            "bricks": self.bricks,
            "version": self.version,
            "taken_at": self.taken_at.isoformat(),
        }

    @classmethod
    def from_dict(cls, key: CalibrationKey, data: Mapping[str, Any]) -> Self:
        """Reverses :meth:`to_dict`; for errors see :mod:`~dlbricks_core.facts.checks`."""
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
