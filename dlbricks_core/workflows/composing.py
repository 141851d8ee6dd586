"""How models are cut and composed."""

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


LEARNED_COMPOSER = "learned"
"""Takes the figures of all bricks from a predictor."""


@dataclass(frozen=True)
class CutOptions:
    """How models are cut and composed.

    Attributes:
        granularity: Most layers in a brick.
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
        """Options with everything filled in that the user left open.

        A user who names a granularity or a strategy but no composer gets the paper's sum. One who
        names none of them gets the composer that estimates best. For quantities other
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

    @property
    def cuts_rewritten(self) -> bool:
        """Whether the composer cuts what the backend makes of a model."""
        return find_composer(self.composer).cuts_rewritten

    def calibration_key(self, request: Request) -> CalibrationKey:
        """Key of the calibration for these options."""
        return request.calibration_key(self.composer, self.strategy, self.granularity)


def find_composer(name: str) -> Composer:
    """The composer of that name.

    Raises:
        PluginError: If there is none, or it is broken.
    """
    plugin = find("composer", name, Composer)
    composer: Composer = use(plugin, plugin.loaded)
    return composer
