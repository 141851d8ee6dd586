"""Interface of predictors, which give figures of bricks without running them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from dlbricks_core.bricks import Brick
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.figure import Figure
from dlbricks_core.figures.predicted import Predicted
from dlbricks_core.predict.atlas import Contribution


class Predictor(ABC):
    """Gives figures of bricks without running them.

    Found through the entry-point group ``dlbricks.predictors``.
    """

    #: Name of the predictor, equal to the name of its entry point.
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
        """Latencies of the bricks without known figures, in milliseconds.

        Intervals are honest: on systems and bricks that a predictor has not seen, 90% of them
        contain the measured latency. A brick that the predictor cannot predict is left out and
        stays missing.

        Args:
            bricks: Bricks by signature: bricks to predict, and bricks with known figures. Their
                layers are those that the backend runs.
            setup: How the bricks run.
            system: System on which the bricks run.
            known: Figures measured under this setup on this system, by signature.
            atlas: Further measurements, here and elsewhere.

        Returns:
            Figures by signature, with joint draws across bricks.
        """
