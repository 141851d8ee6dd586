"""The sum over segments, of which only one of several similar segments is timed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from dlbricks_core.analysis import Volume, form
from dlbricks_core.bricks import Brick
from dlbricks_core.compose import fitting
from dlbricks_core.compose.plan import OwnFigure, Plan, Recipe, Scaled
from dlbricks_core.compose.segmented import Segmented
from dlbricks_core.facts import Setup, System


class Similar(Segmented):
    """Sum of the latencies of short segments, derived from a timed one if they are similar.

    Of each form, the smallest brick is timed, and each brick with more than :attr:`farthest` times
    the operations or bytes of every smaller timed brick. The latency of any other brick is derived
    from the nearest timed brick: it grows with a power of the ratio of operations and a power of
    the ratio of bytes.
    """

    name = "similar"
    #: More short segments are alike. The additional cuts cost less accuracy than the scaling does.
    strategy = "short-segments"
    #: Maximum ratio of sizes between a brick and the timed brick that its latency follows from.
    farthest = 3.0
    #: Share of operations in the logarithm of a latency; the rest is the share of bytes. And the
    #: standard deviation of the relative error of a latency that follows from another. Both were
    #: found on the development corpus (docs/explain/composing.md).
    computing_share = fitting.inferring().computing_share
    inference_error = fitting.inferring().inference_error
    fitted: Mapping[str, str] = MappingProxyType(
        {
            **Segmented.fitted,
            "computing_share": "share of operations in the logarithm of a latency",
            "inference_error": "standard deviation of the relative error of an inferred latency",
        }
    )

    def plan(self, bricks: Mapping[str, Brick], setup: Setup, system: System) -> Plan:
        """Times the smallest brick of each form, and each that is too far from smaller ones.

        A brick has a recipe from every other brick of its form, the nearest first. If timing the
        nearest fails, the next nearest is used.
        """
        volumes = {s: Volume.of(brick.model) for s, brick in bricks.items() if not brick.opaque}
        forms: dict[Hashable, list[str]] = {}
        for signature in volumes:
            forms.setdefault(form(bricks[signature].model), []).append(signature)
        timed = dict(bricks)
        recipes: dict[str, tuple[Recipe, ...]] = {
            signature: (OwnFigure(signature),) for signature in bricks
        }
        for same in forms.values():
            for signature in self._not_timed({each: volumes[each] for each in same}):
                del timed[signature]
            for signature in same:
                recipes[signature] += tuple(self._scaled(signature, same, volumes))
        return Plan(timed, recipes)

    def _not_timed(self, volumes: Mapping[str, Volume]) -> Iterator[str]:
        """Signatures of bricks of one form whose latencies are derived from a smaller brick."""
        chosen: list[Volume] = []
        # A calibration must not change the choice of timed bricks, so the class's own share
        # decides.
        share = type(self).computing_share
        for signature, volume in sorted(volumes.items(), key=lambda item: item[1].expected(share)):
            if all(volume.distance(other) > self.farthest for other in chosen):
                chosen.append(volume)
            else:
                yield signature

    def _scaled(
        self, signature: str, same: Sequence[str], volumes: Mapping[str, Volume]
    ) -> Iterator[Scaled]:
        """Recipes for one brick from the others of its form, the nearest first."""
        volume = volumes[signature]
        expected = volume.expected(self.computing_share)
        for other in sorted(same, key=lambda each: volume.distance(volumes[each])):
            if other != signature:
                ratio = expected / volumes[other].expected(self.computing_share)
                yield Scaled(signature, other, ratio, self.inference_error)

    def fit(self, observed: fitting.FittingData) -> Mapping[str, float]:
        """Fitted values, including the two parameters that derive one brick from another."""
        ratios = self._ratios(observed)
        share = fitting.fitted_share(self.computing_share, self.inference_error, ratios)
        off = [fitting.Deviation(r.cost - share * r.flops - (1 - share) * r.nbytes, r.scatter)
               for r in ratios]  # fmt: skip
        values = {
            "computing_share": share,
            "inference_error": fitting.fitted_deviation(self.inference_error, off),
        }
        return {**values, **Segmented.fit(self.calibrated(values), observed)}

    def _ratios(self, observed: fitting.FittingData) -> list[fitting.LogRatio]:
        """Ratios between each brick that is not timed and the timed brick of its recipe.

        Bricks whose latency is below the cost of starting a call are left out.
        """
        bricks, latencies = observed.bricks, observed.latencies
        costs = {s: each.value - each.overhead for s, each in latencies.items()}
        costs = {signature: cost for signature, cost in costs.items() if cost > 0}
        plan = self.plan(bricks, observed.setup, observed.system)
        known = plan.timed.keys() & costs.keys()
        found = []
        for signature in sorted(plan.not_timed & costs.keys()):
            others = (each.source for each in plan.recipes[signature] if isinstance(each, Scaled))
            nearest = next((other for other in others if other in known), None)
            if nearest is not None:
                pair = signature, nearest
                large, small = (Volume.of(bricks[each].model) for each in pair)
                scatters = (np.std(latencies[each].replicates) / costs[each] for each in pair)
                found.append(
                    fitting.LogRatio(
                        flops=math.log(large.flops / small.flops),
                        nbytes=math.log(large.nbytes / small.nbytes),
                        cost=math.log(costs[signature] / costs[nearest]),
                        scatter=math.hypot(*scatters),
                    )
                )
        return found
