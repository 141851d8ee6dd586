"""Latencies of a model at several sizes do not contradict each other."""

import math
from itertools import product

import numpy as np
import pytest
from dlbricks_decoders.build import build
from dlbricks_decoders.families import decoder_of
from dlbricks_sizes import joint
from dlbricks_sizes.joint import jointly
from dlbricks_sizes.sizing import Sizes
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.bricks import CutModel
from dlbricks_core.compose import Estimate
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.passes import normalize

TINY = {
    "model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 4,
}  # fmt: skip
RAW = build(decoder_of(TINY, "c"), "m", "m")

DEPTHS, PROMPTS, BATCHES = (64, 67, 70, 128, 1024), (1, 2, 8, 9, 64), (1, 2, 3, 4, 6, 8)


def at(sequence, past, batch):
    return normalize(RAW, batch=batch, dims={"sequence": sequence, "past": past})


MODELS = {
    **{(1, depth, batch): at(1, depth, batch) for depth, batch in product(DEPTHS, BATCHES)},
    **{(prompt, 0, batch): at(prompt, 0, batch) for prompt, batch in product(PROMPTS, (1, 2))},
}


def sizes_of(place, phase="token"):
    sequence, past, batch = place
    return Sizes((("sequence", sequence), ("past", past)), batch, phase=phase)


def result(place, value, half=0.05, seed=0, *, measured=True):
    draws = value * np.exp(np.random.default_rng(seed).normal(0, half / 1.645, RESAMPLES))
    low, high = np.percentile(draws, (5, 95))
    estimate = Estimate(value, (low, high), draws=draws)
    cut = CutModel(MODELS[place], (), MODELS[place])
    return ModelResult(cut, estimate, estimate, is_measurement=measured)


def fitted(values, half=0.05, phase="token", **more):
    """Estimates on the curve, by place."""
    given = {
        sizes_of(place, phase): result(place, value, half, i, **more)
        for i, (place, value) in enumerate(values.items())
    }
    found = jointly(given)
    assert list(found) == list(given)
    return {place: found[sizes_of(place, phase)] for place in values}


def values_of(found):
    return {place: each.estimate.value for place, each in found.items()}


def at_depths(*values, depths=(64, 67, 70)):
    return {(1, depth, 1): value for depth, value in zip(depths, values, strict=True)}


def contradictions(values):
    """Pairs of places of which the one with more work is faster, or slower than work explains."""
    works = {place: joint.Work.of(MODELS[place]) for place in values}
    amounts = {place: math.log(each.flops * each.moved_bytes) for place, each in works.items()}
    return [
        (one, other)
        for one, other in product(values, values)
        if one != other
        and all(a <= b for a, b in zip(one, other, strict=True))
        and not -1e-9
        <= math.log(values[other] / values[one])
        <= 3 * (amounts[other] - amounts[one]) + 1e-9
    ]


def test_figures_that_contradict_each_other_become_a_curve_with_a_wide_interval():
    values = at_depths(6.4, 2.5, 6.6)
    curve = fitted(values)
    assert contradictions(values)
    assert not contradictions(values_of(curve))
    low, middle, high = values_of(curve).values()
    assert 2.5 < low < 1.01 * high < 6.6
    assert low == pytest.approx(middle, rel=0.01)
    ends = curve[1, 67, 1].estimate.interval
    assert ends[0] < 2.7
    assert ends[1] > 6.4


def test_depths_of_equal_work_take_equally_long():
    curve = values_of(fitted(at_depths(95.0, 110.0, 80.0)))
    assert max(curve.values()) < 1.03 * min(curve.values())
    assert 80 < min(curve.values()) < 110


def test_figures_without_a_contradiction_stay_as_they_are():
    values = at_depths(2.0, 2.2, 4.5, depths=(64, 128, 1024))
    found = fitted(values)
    assert values_of(found) == values
    assert all(each.is_measurement for each in found.values())


def test_narrow_figures_count_more():
    wide = {place: result(place, 4.0, 0.3) for place in [(1, 67, 1), (1, 70, 1)]}
    given = {(1, 64, 1): result((1, 64, 1), 5.0, 0.02), **wide}
    found = jointly({sizes_of(place): each for place, each in given.items()})
    assert found[sizes_of((1, 64, 1))].estimate.value == pytest.approx(5.0, rel=0.05)
    assert found[sizes_of((1, 70, 1))].estimate.value == pytest.approx(5.0, rel=0.05)


def test_a_moved_estimate_counts_as_no_measurement():
    found = fitted(at_depths(4.0, 3.0, 9.0, depths=(64, 67, 1024)))
    assert [each.is_measurement for each in found.values()] == [False, False, True]


def test_predictions_do_not_contradict_each_other_either():
    found = fitted(at_depths(6.4, 2.5, 6.6), measured=False)
    assert not contradictions(values_of(found))


def test_phases_of_an_answer_are_fitted_apart():
    prompt, token = (1, 64, 1), (1, 67, 1)
    given = {sizes_of(prompt, "prompt"): result(prompt, 6.0), sizes_of(token): result(token, 5.0)}
    assert values_of(jointly(given)) == {s: each.estimate.value for s, each in given.items()}


def test_results_without_a_figure_are_left_out():
    first, second, third = (sizes_of(place) for place in at_depths(1, 1, 1))
    nothing = Estimate(None, None, ("brick",))
    absent = ModelResult(CutModel(MODELS[1, 67, 1], (), MODELS[1, 67, 1]), nothing, nothing)
    lower = Estimate(1.0, (0.9, 1.1), ("brick",))
    given = {first: absent, second: result((1, 67, 1), 5.0), third: result((1, 70, 1), 4.0)}
    found = jointly(given)
    assert found[first] is absent
    assert found[second].estimate.value == pytest.approx(found[third].estimate.value, rel=0.02)
    partial = ModelResult(absent.cut, lower, lower)
    assert jointly({**given, third: partial})[third] is partial


STEP = {batch: 100.0 if batch < 4 else 60.0 for batch in BATCHES}


def over_batches(values):
    return {(1, 64, batch): value for batch, value in values.items()}


def test_a_step_down_that_several_sizes_show_is_shown():
    found = values_of(fitted(over_batches(STEP), 0.03))
    assert found == pytest.approx(over_batches(STEP), rel=0.02)


def test_a_step_that_a_single_size_shows_is_a_bad_moment():
    found = values_of(fitted(over_batches({**dict.fromkeys(BATCHES, 100.0), 8: 60.0}), 0.03))
    assert not contradictions(found)


def test_a_step_within_the_noise_is_not_shown():
    found = values_of(fitted(over_batches({**STEP, 2: 65.0, 6: 95.0}), 0.03))
    assert not contradictions(found)


def test_two_steps_are_found_one_after_the_other():
    values = {(1, depth, batch): 100.0 * (0.6 if batch >= 4 else 1) * (0.5 if depth >= 128 else 1)
              for depth, batch in product((64, 67, 128, 1024), BATCHES)}  # fmt: skip
    found = values_of(fitted(values, 0.03))
    assert found == pytest.approx(values, rel=0.03)


PLACES = st.sets(st.sampled_from(sorted(MODELS)), min_size=2, max_size=12)


@given(PLACES, st.integers(0, 2**32 - 1), st.floats(0.02, 0.3), st.floats(0.0, 0.9))
def test_the_fit_is_nearer_to_latencies_that_grow_with_the_work(places, seed, noise, fixed):
    """The projection on a convex set is nearer to each of its points than the figures are."""
    random = np.random.default_rng(seed)
    truth = {place: fixed + joint.Work.of(MODELS[place]).moved_bytes / 1e5 for place in places}
    assert not contradictions(truth)
    drawn = {place: ms * float(np.exp(random.normal(0, noise))) for place, ms in truth.items()}
    # Wide figures, for which no step is significant.
    found = values_of(fitted(drawn, 0.9))
    assert not contradictions(found)

    def error(values):
        return sum(math.log(values[place] / truth[place]) ** 2 for place in places)

    assert error(found) <= error(drawn) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("moments", [0.0, 0.15])
def test_intervals_hold_the_truth(moments):
    """Over many draws, of samples that scatter by 5% and of moments that differ beyond that."""
    held, random = [], np.random.default_rng(7)
    truth = {place: 1 + joint.Work.of(MODELS[place]).moved_bytes / 1e5 for place in
             [(1, depth, batch) for depth in (64, 67, 70, 128) for batch in (1, 2)]}  # fmt: skip
    for _ in range(60):
        drawn = {place: ms * math.exp(random.normal(0, math.hypot(0.05 / 1.645, moments)))
                 for place, ms in truth.items()}  # fmt: skip
        for place, each in fitted(drawn, 0.05).items():
            low, high = each.estimate.interval
            held.append(low <= truth[place] <= high)
    assert np.mean(held) >= 0.85


def test_a_phase_without_a_complete_estimate_stays_as_it_is():
    place, lower = (1, 64, 1), Estimate(1.0, (0.9, 1.1), ("brick",))
    partial = ModelResult(CutModel(MODELS[place], (), MODELS[place]), lower, lower)
    assert jointly({sizes_of(place): partial}) == {sizes_of(place): partial}
