"""Options for cutting and composing models."""

from __future__ import annotations

from dataclasses import dataclass

from dlbricks_core.compose.base import Composer
from dlbricks_core.facts import LATENCY
from dlbricks_core.plugins import find, use

DEFAULT_COMPOSER = "segmented"
"""Name of the most accurate composer."""

PAPER_COMPOSER = "sequential"
"""Name of the composer that adds up the layer sequences of the paper."""


LEARNED_COMPOSER = "learned"
"""Name of the composer that uses a predictor's figures of all bricks."""


@dataclass(frozen=True)
class CutOptions:
    """Options for cutting and composing models."""

    granularity: int = 1  #: Maximum number of layers in a brick.
    strategy: str = "chain"  #: Name of the split strategy.
    composer: str = "sequential"  #: Name of the composer behind ``Estimate``.

    @classmethod
    def chosen(
        cls,
        granularity: int | None,
        strategy: str | None,
        composer: str | None,
        *,
        quantity: str = LATENCY.name,
    ) -> CutOptions:
        """Options with defaults for all values that the user did not give.

        A granularity or a strategy without a composer selects the paper's sum. Without any of the
        three, the most accurate composer is selected. For quantities other than latency, the model
        itself is cut into that composer's segments, because rewriting by the backend is a part of
        loading.

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
        """Whether the composer cuts the graph that the backend rewrites a model into."""
        return find_composer(self.composer).cuts_rewritten


def find_composer(name: str) -> Composer:
    """The composer of a name.

    Raises:
        PluginError: If there is no such composer, or it is broken.
    """
    plugin = find("composer", name, Composer)
    composer: Composer = use(plugin, plugin.loaded)
    return composer
