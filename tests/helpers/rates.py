"""A predictor of known uncertainty."""

from __future__ import annotations

import numpy as np
from dlbricks_prediction.from_atlas import FromAtlas
from dlbricks_prediction.layer_posterior import LayerPosterior
from scipy import sparse

from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.figures.predicted import Predicted

OPERATORS = ("Relu", "Tanh", "Abs", "Neg")


class Rates(FromAtlas):
    """Time for each element by operator, and what a brick has of its own.

    Rates are 30% too high; bricks say how much.
    """

    name = "atlas"
    OWN = 0.2

    def predict(self, bricks, setup, system, known, atlas=()):
        rates = dict.fromkeys(OPERATORS, 325.0) | {"Add": 260.0, "Cos": 100.0}
        place = {op: i for i, op in enumerate(rates)}
        counts = {
            s: self.counts(brick.model, place)
            for s, brick in bricks.items()
            if rates.keys() >= {layer.op for layer in brick.model.layers}
        }
        covariance = 0.2**2 + np.diag([0.3**2] * len(rates))
        prior = LayerPosterior.dense(np.log([each / 1e6 for each in rates.values()]), covariance)
        values = np.log([figure.value for figure in known.values()])
        seen = sparse.csr_array(np.array([counts[s] for s in known]).reshape(-1, len(rates)))
        calls = np.array([figure.overhead for figure in known.values()])
        noise = np.full(len(known), self.OWN**2)
        draws = np.exp(prior.observed(seen, values, noise, calls).draws(RESAMPLES))
        found = {}
        for signature, each in counts.items():
            own = np.random.default_rng(int(signature[:8], 16)).standard_normal(RESAMPLES)
            figures = draws @ each * np.exp(self.OWN * own)
            if signature in known:
                figures = known[signature].own * np.exp(0.01 * own)
            found[signature] = Predicted(float(figures.mean()), figures)
        return found

    @staticmethod
    def counts(model, place):
        found = np.zeros(len(place))
        for layer in model.layers:
            found[place[layer.op]] += model.tensors[layer.outputs[0]].elements
        return found
