"""ONNX Runtime over the onnx package's operator cases and its nine networks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_testing import cases
from dlbricks_testing.laboratory import Laboratory
from dlbricks_testing.operators import judged, operator_cases

from dlbricks_core.backends import BackendSettings
from dlbricks_core.importers.light import LightModels
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

TARGET = "dlbricks_onnxruntime.backend:OnnxruntimeBackend"


def laboratory(**options: str) -> Laboratory:
    backend = OnnxruntimeBackend()
    defaults = {name: option.default for name, option in backend.options.items()}
    return Laboratory(TARGET, backend, BackendSettings(1, {**defaults, **options}))


@pytest.fixture(scope="module")
def lab() -> Iterator[Laboratory]:
    with laboratory() as started:
        yield started


@pytest.fixture(scope="module")
def plain() -> Iterator[Laboratory]:
    """A worker that runs graphs as they are given."""
    with laboratory(optimizations="off") as started:
        yield started


@pytest.fixture(scope="module")
def outcomes(lab: Laboratory) -> dict[str, tuple[str, str]]:
    """What became of each case: a word and a reason."""
    return {case.name: judged(lab, case) for case in operator_cases()}


LEAST_PASSING = 1540


def test_no_case_is_wrong(outcomes):
    wrong = {name: why for name, (kind, why) in outcomes.items() if kind == "wrong"}
    # Drawn at random: another generator gives other numbers.
    assert {name: why for name, why in wrong.items() if "bernoulli" not in name} == {}


def test_most_cases_run(outcomes):
    counts = Counter(kind for kind, _ in outcomes.values())
    assert counts["pass"] >= LEAST_PASSING, counts
    assert counts["unsupported"] <= 220, counts


def test_every_refusal_has_a_reason(outcomes):
    refused = [why for kind, why in outcomes.values() if kind == "unsupported"]
    assert all("ONNX Runtime" in why for why in refused)


def without_last_softmax(model):
    """Its result is nearly one-hot, which would hide every difference."""
    last = model.layers[-1]
    if last.op != "Softmax":
        return model
    return replace(model, layers=model.layers[:-1], outputs=(last.inputs[0],))


#: With those that the evaluator, which is slow, gets through in seconds.
EVALUATED = ["light_shufflenet", "light_squeezenet"]
#: Large in weights alone: the same operators as in others.
LARGE = ["light_bvlc_alexnet", "light_vgg19", "light_zfnet512"]


@pytest.mark.parametrize("name", EVALUATED)
def test_network_agrees_with_the_reference_evaluator(lab, name):
    network = materialize(without_last_softmax(normalize(LightModels().load(name))))
    found = lab.infer(network)
    for output, wanted in cases.evaluate(network).items():
        assert wanted.std() > 1e-3 * np.abs(wanted).max(), "a constant output compares nothing"
        assert not cases.difference(found[output], wanted, 1e-3)


@pytest.mark.parametrize("name", sorted({*LightModels().names()} - {*LARGE}))
def test_network_computes_the_same_without_optimizations(lab, plain, name):
    network = materialize(without_last_softmax(normalize(LightModels().load(name))))
    assert lab.check(network.model) == {}
    wanted = plain.infer(network)
    for output, value in lab.infer(network).items():
        assert value.std() > 1e-3 * np.abs(value).max(), "a constant output compares nothing"
        assert not cases.difference(value, wanted[output], 1e-3)


@pytest.mark.parametrize("name", LARGE)
def test_large_network_is_supported(lab, name):
    assert lab.check(normalize(LightModels().load(name))) == {}
