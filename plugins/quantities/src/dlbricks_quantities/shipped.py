"""Whole models whose quantities were observed elsewhere, which ship with the package."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Self

import numpy as np

from dlbricks_core.facts import Setup
from dlbricks_quantities.regression import Regression

FOLDER = Path(__file__).parent / "whole_models"
"""Folder of the files: one for each quantity and backend."""


@dataclass(frozen=True)
class ObservedModel:
    """A whole model whose quantity was observed.

    Attributes:
        name: Name of the model.
        family: Family of models that it belongs to.
        sizes: Sizes of the quantity's metric that determine the value.
        value: The value, in the quantity's unit.
    """

    name: str
    family: str
    sizes: tuple[float, ...]
    value: float


@dataclass(frozen=True)
class WholeModels:
    """Whole models whose quantity was observed in one setup.

    Attributes:
        quantity: Name of the quantity.
        metric_version: Version of its metric.
        backend: Name of the backend.
        version: Version of its framework.
        options: Options of the backend, as in a setup.
        threads: Number of threads.
        system: The system, in words.
        date: Day of the last observation.
        least: Positions of the sizes that may bound the value from below.
        models: The models.
    """

    quantity: str
    metric_version: int
    backend: str
    version: str
    options: str
    threads: int
    system: str
    date: str
    least: tuple[int, ...]
    models: tuple[ObservedModel, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a file."""
        held = json.loads(path.read_text("utf-8"))
        least = tuple(held.pop("least"))
        models = (
            ObservedModel(each["name"], each["family"], tuple(each["sizes"]), each["value"])
            for each in held.pop("models")
        )
        return cls(models=tuple(models), least=least, **held)

    def write(self, path: Path) -> None:
        """Writes a file, with a line for each model."""
        held = asdict(self)
        models = ",\n".join(f"  {json.dumps(each)}" for each in held.pop("models"))
        least = json.dumps(held.pop("least"))
        head = json.dumps(held, indent=1)[:-2]
        path.write_text(f'{head},\n "least": {least},\n "models": [\n{models}\n ]\n}}\n', "utf-8")

    def tell_of(self, setup: Setup, metric_version: int) -> bool:
        """Whether the observations apply to a setup: same options, and same version of the metric.

        The version of the framework and the number of threads make no difference.
        """
        theirs = setup.backend, setup.options, metric_version
        return (self.backend, self.options, self.metric_version) == theirs

    @cached_property
    def regression(self) -> Regression | None:
        """Regression on their sizes; ``None`` if they are too few."""
        return Regression.fitted(
            np.array([each.sizes for each in self.models]),
            np.array([each.value for each in self.models]),
            [each.family for each in self.models],
            self.least,
        )

    def without(self, family: str) -> Self:
        """The models of all other families."""
        others = tuple(each for each in self.models if each.family != family)
        return replace(self, models=others)


@cache
def whole_models(quantity: str, backend: str) -> Sequence[WholeModels]:
    """Shipped observations of a quantity on a backend: one or none."""
    path = FOLDER / f"{quantity}-{backend}.json"
    return (WholeModels.read(path),) if path.exists() else ()
