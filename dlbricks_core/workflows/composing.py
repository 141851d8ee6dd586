"""How models are cut and composed, as the user says it."""

from __future__ import annotations

from dataclasses import dataclass

from dlbricks_core.compose import Composer
from dlbricks_core.facts import LATENCY, CalibrationKey
from dlbricks_core.plugins import find, use
from dlbricks_core.workflows.request import Request

DEFAULT_COMPOSER = "segmented"
"""Estimates best."""

PAPER_COMPOSER = "sequential"
"""Sums up the layer sequences of the paper."""


@dataclass(frozen=True)
class CutOptions:
    """How models are cut and composed again.

    Attributes:
        granularity: The most layers that a brick may hold.
        strategy: Name of the split strategy.
        composer: Name of the composer behind ``Estimate``.
    """

    granularity: int = 1
    strategy: str = "chain"
    composer: str = "sequential"

    @classmethod
    def chosen(
        cls,
        granularity: int | None,
        strategy: str | None,
        composer: str | None,
        *,
        quantity: str = LATENCY.name,
    ) -> CutOptions:
        """What is meant where the user left something open.

        Whoever asks for a granularity or a strategy and for no composer gets the paper's
        sum; whoever asks for nothing gets the composer that estimates best. For quantities other
        than latency the model itself is cut, into the segments of that composer: what a backend
        rewrites a model into is a result of loading.

        Raises:
            PluginError: If there is no such composer, or it is broken.
        """
        if quantity != LATENCY.name and composer is None:
            best = find_composer(DEFAULT_COMPOSER)
            return cls(granularity or best.granularity, strategy or best.strategy, PAPER_COMPOSER)
        if composer is None:
            asked = granularity is not None or strategy is not None
            composer = PAPER_COMPOSER if asked else DEFAULT_COMPOSER
        found = find_composer(composer)
        return cls(granularity or found.granularity, strategy or found.strategy, composer)

    def calibration_key(self, request: Request) -> CalibrationKey:
        """Where numbers are kept that were fitted for this."""
        return request.calibration_key(self.composer, self.strategy, self.granularity)


def find_composer(name: str) -> Composer:
    """The composer of that name.

    Raises:
        PluginError: If there is none, or it is broken.
    """
    plugin = find("composer", name, Composer)
    composer: Composer = use(plugin, plugin.loaded)
    return composer
