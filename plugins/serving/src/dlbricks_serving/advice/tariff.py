"""Prices and accuracies from the user's TOML files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dlbricks_core.errors import DLBricksError, reason
from dlbricks_core.facts.checks import LARGEST
from dlbricks_core.files import content
from dlbricks_core.limits import parsed_toml
from dlbricks_serving.advice.places import Place

_MOST_BYTES = 1 << 22
"""Maximum bytes of a file of prices or accuracies."""

_PRICES = 'Write  [per_hour]  and below it lines such as  "8638a1e4" = 0.17  (a system, a price).'

_ACCURACIES = 'Write  [accuracy]  and below it lines such as  "resnet50" = 76.1  (a model).'


@dataclass(frozen=True)
class Prices:
    """Prices of systems."""

    path: Path  #: File of the prices.
    currency: str  #: Currency of the prices, for the user.
    #: Price per hour, by the name of a machine or processor, or the beginning of a fingerprint.
    per_hour: Mapping[str, float]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads prices from a file.

        Raises:
            DLBricksError: If the file cannot be read, or has another structure.
        """
        data = _toml(path, {"currency", "per_hour"}, _PRICES)
        currency = data.get("currency", "USD")
        if not isinstance(currency, str) or not currency.strip():
            raise DLBricksError(f"{path}: currency is {currency!r}", hint='Write a word: "EUR".')
        return cls(path, currency, _numbers(path, data, "per_hour", _PRICES))

    def of(self, place: Place) -> float | None:
        """Price of a place per hour; ``None`` if the file has none.

        Raises:
            DLBricksError: If two lines name its system.
        """
        found = list(filter(place.is_called, self.per_hour))
        if len(found) > 1:
            raise DLBricksError(
                f"{self.path}: {' and '.join(map(repr, found))} mean one system, {place.name}",
                hint="Leave one of them out. Equal machines are told apart by their names.",
            )
        return self.per_hour[found[0]] if found else None


@dataclass(frozen=True)
class Accuracies:
    """Accuracies of models for one task."""

    path: Path  #: File of the accuracies.
    #: Accuracy by the name of a model, or by the name that the user gave it; in any unit, as long
    #: as more is better.
    of_model: Mapping[str, float]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads accuracies from a file.

        Raises:
            DLBricksError: If the file cannot be read, or has another structure.
        """
        data = _toml(path, {"accuracy"}, _ACCURACIES)
        return cls(path, _numbers(path, data, "accuracy", _ACCURACIES))

    def of(self, names: Iterable[str]) -> float | None:
        """Accuracy of a model with several names; ``None`` if the file has none."""
        return next((self.of_model[name] for name in names if name in self.of_model), None)


def _toml(path: Path, known: set[str], hint: str) -> dict[str, Any]:
    try:
        data = parsed_toml(content(path, _MOST_BYTES).decode("utf-8"))
        str(data)  # raises an error for a number of more digits than Python writes
    except OSError as error:
        raise DLBricksError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise DLBricksError(f"{path} cannot be read: {reason(error)}", hint=hint) from error
    for name in data:
        if name not in known:
            raise DLBricksError(f"{path}: {name!r} means nothing here", hint=hint)
    return data


def _numbers(path: Path, data: Mapping[str, Any], name: str, hint: str) -> dict[str, float]:
    """A table of at least one number, by name."""
    table = data.get(name)
    if not isinstance(table, dict) or not table:
        raise DLBricksError(f"{path} has no table {name!r}", hint=hint)
    for key, value in table.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and 0 <= value <= LARGEST):
            raise DLBricksError(
                f"{path}: {name} of {key!r} is {value!r:.40}, and no number from 0 to {LARGEST:g}",
                hint=hint,
            )
    return {key: float(value) for key, value in table.items()}
