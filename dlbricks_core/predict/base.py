"""What a predictor is: it gives figures of bricks without running them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from dlbricks_core.bricks import Brick
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.figure import Figure, Predicted
from dlbricks_core.predict.atlas import Contribution


class Predictor(ABC):
    """Gives figures of bricks without running them.

    Found through the entry-point group ``dlbricks.predictors``.
    """

    #: Name that users choose it by, equal to the entry point's.
    name: str

    @abstractmethod
    def predict(
        self,
        bricks: Mapping[str, Brick],
        setup: Setup,
        system: System,
        known: Mapping[str, Figure],
        atlas: Sequence[Contribution] = (),
    ) -> Mapping[str, Predicted]:
        """Latencies of the bricks that are not known, in milliseconds.

        Intervals are honest: on systems and bricks that a predictor has not seen, 90% of them hold
        the measured latency. A brick of which it can say nothing is left out; it stays missing.

        Args:
            bricks: Bricks by signature: those to predict, and those whose figures are known.
            setup: How they run.
            system: Where they run.
            known: Figures measured under this setup on this system, by signature.
            atlas: What else was measured, here and elsewhere.

        Returns:
            By signature, with draws that belong together across bricks.
        """
