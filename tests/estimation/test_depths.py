"""Latencies of one token at several depths lie on one curve."""

import numpy as np
import pytest
from dlbricks_decoders.build import build
from dlbricks_decoders.families import decoder_of

from dlbricks_core.bricks import CutModel
from dlbricks_core.compose import Estimate
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.estimation.sizes.depths import fitted
from dlbricks_core.passes import normalize

TINY = {
    "model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4,
}  # fmt: skip


def at(depth):
    model = build(decoder_of(TINY, "c"), "m", "m")
    return normalize(model, batch=1, dims={"sequence": 1, "past": depth})


NEAR, FAR = (64, 67, 70), (64, 128, 1024)
MODELS = {depth: at(depth) for depth in {*NEAR, *FAR}}


def results(values, half=0.05, depths=NEAR, *, measured=True):
    draws = np.random.default_rng(0).normal(1.0, half / 1.645, 1000)
    found = {}
    for depth, value in zip(depths, values, strict=True):
        estimate = Estimate(
            value, (value * (1 - half), value * (1 + half)), draws=value * draws
        )  # fmt: skip
        cut = CutModel(MODELS[depth], (), MODELS[depth])
        found[depth] = ModelResult(cut, estimate, estimate, is_measurement=measured)
    return found


def estimates(found):
    return [each.estimate.value for each in found.values()]


def test_figures_that_contradict_each_other_become_a_curve_with_a_wide_interval():
    values = [6.4, 2.5, 6.6]
    curve = fitted(results(values))
    low, middle, high = estimates(curve)
    assert low <= middle <= high
    assert min(values) < low
    assert high < max(values)
    ends = curve[67].estimate.interval
    assert ends[0] < 2.7
    assert ends[1] > 6.4


def test_a_curve_stays_as_it_was_measured():
    values = [2.0, 2.2, 4.5]
    assert estimates(fitted(results(values, depths=FAR))) == pytest.approx(values, rel=0.1)


def test_narrow_figures_count_more():
    found = {**results([4.0, 4.0, 4.0], 0.3), 64: results([2.0, 2.0, 2.0], 0.02)[64]}
    assert estimates(fitted(found))[0] == pytest.approx(2.0, rel=0.05)


def test_what_no_run_said_is_left_alone():
    found = results([6.4, 2.5, 6.6], measured=False)
    assert estimates(fitted(found)) == [6.4, 2.5, 6.6]
