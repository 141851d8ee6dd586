"""Predictors are given the layers that a backend runs, by the domains of operators that it has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dlbricks_prediction.from_atlas import FromAtlas
from dlbricks_testing import cases
from dlbricks_testing.operators import DEFINED

from dlbricks_core.backends import Traits
from dlbricks_core.bricks import Brick
from dlbricks_core.estimation.conditioned import ConditionedPredictor
from dlbricks_core.predict.defaults import PREDICTOR

FUSED = "MatMulNBits"


@pytest.fixture
def layers_of(asked, faulty, monkeypatch):
    """Operators of a brick that a predictor is given for a backend with some domains."""
    seen = []

    def remember(self, bricks, *others):
        seen.extend(each.model for each in bricks.values())
        return {}

    monkeypatch.setattr(FromAtlas, "predict", remember)

    def layers(domains):
        seen.clear()

        class Fourth(faulty.FaultyBackend):
            traits = Traits(domains=domains)

        brick = Brick("a", cases.build(DEFINED[FUSED]).model)
        request = replace(asked, backend=Fourth())
        ConditionedPredictor(PREDICTOR, request, (), ()).figures({"a": brick}, {})
        return [layer.op for layer in seen[0].layers]

    return layers


def test_a_fourth_backend_with_operators_of_onnx_runtime_keeps_them(layers_of):
    assert layers_of(frozenset({"com.microsoft"})) == [FUSED]


def test_a_backend_without_them_runs_their_definitions(layers_of):
    assert FUSED not in layers_of(frozenset())


def test_layers_of_a_backend_that_nobody_knows_stay_as_they_are(layers_of):
    assert layers_of(None) == [FUSED]
