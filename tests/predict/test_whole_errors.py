"""Errors of whole models: which reference data they were judged on."""

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_prediction import shipped
from dlbricks_prediction.from_atlas import FromAtlas
from dlbricks_prediction.whole_errors import discrepancy_of, spread_factor, spread_of_wholes

from dlbricks_core.bricks import BrickSet
from dlbricks_core.figures import RESAMPLES, Predicted
from dlbricks_core.figures.predicted import SpreadFactor


@pytest.fixture(scope="module")
def reference():
    return shipped("openvino")


def test_each_contribution_with_whole_models_has_a_factor(reference):
    names = [f"{each.system.fingerprint[:8]}-openvino-{each.setup.threads}" for each in reference]
    known = [name for name in names if spread_factor(name) != spread_factor("")]
    assert len(known) >= 2
    assert 0 < spread_factor("").exponent < 1


def test_only_the_systems_own_reference_data_give_a_factor(reference):
    own, *others = reference
    here = own.setup, own.system
    assert spread_of_wholes(*here, reference).usual != 1
    assert spread_of_wholes(*here, [own]) == spread_of_wholes(*here, reference)
    assert spread_of_wholes(*here, others) == SpreadFactor()
    assert spread_of_wholes(*here, [own.only(range(9))]) == SpreadFactor()
    for other in (replace(own.setup, threads=64), replace(own.setup, version="0")):
        assert spread_of_wholes(other, own.system, reference) == SpreadFactor()


def test_figures_have_the_factor_until_a_brick_was_measured(reference, builder):
    b = builder((1, 16, 8, 8))
    models = [b.model(b.add("Relu", b.input))]
    bricks = BrickSet.of(models, 1, "chain").bricks
    own = reference[0]
    ask = FromAtlas().predict
    (found,) = ask(bricks, own.setup, own.system, {}, [own]).values()
    assert found.discrepancy.spread == spread_of_wholes(own.setup, own.system, [own])
    known = {s: Predicted(0.1, np.full(RESAMPLES, 0.1)) for s in bricks}
    (found,) = ask(bricks, own.setup, own.system, known, [own]).values()
    assert found.discrepancy.spread == SpreadFactor()


@pytest.mark.parametrize("backend", ["mxnet", "onnxruntime", "openvino", "pytorch", "any other"])
def test_models_err_no_less_on_a_system_without_reference_data(backend):
    known, stranger = (discrepancy_of(backend, stranger=each) for each in (False, True))
    assert stranger.predicted >= known.predicted
    assert stranger.measured == known.measured


def test_figures_from_other_systems_have_the_error_of_strangers(reference, builder):
    b = builder((1, 16, 8, 8))
    bricks = BrickSet.of([b.model(b.add("Relu", b.input))], 1, "chain").bricks
    own, *others = reference
    found = []
    for atlas in ([own], others):
        (figure,) = FromAtlas().predict(bricks, own.setup, own.system, {}, atlas).values()
        found.append(figure.discrepancy.predicted)
    assert found == [discrepancy_of("openvino", stranger=each).predicted for each in (False, True)]
    assert found[0] != found[1]
