"""Transfer between places: known ones decide as far as they are like the asked one."""

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_prediction.features import NAMES, Features
from dlbricks_prediction.layer_posterior import LayerPosterior
from dlbricks_prediction.transfer import (
    believed_of_baseline,
    contrasts,
    difference,
    kriging_weights,
    rates,
    transferred,
    unlikeness,
)

from dlbricks_core.facts import Setup, System

KINDS = ("convolution:dense", "convolution:dense", "elementwise", "elementwise", "pool")
SETUP = Setup("onnxruntime", "1", "{}", 1, "", "")
SYSTEM = System(cpu="A", vendor="AuthenticAMD", family="25", model="1", isa=("avx2",))
OTHER = System(cpu="B", vendor="GenuineIntel", family="6", model="85", isa=("avx2", "avx512f"))


@pytest.fixture
def layers():
    random = np.random.default_rng(0)
    return Features(KINDS, random.uniform(8, 20, (len(KINDS), len(NAMES))))


def threads(number):
    return SYSTEM, replace(SETUP, threads=number)


def carried(layers, means, places, place, sure=0.0):
    beliefs = [LayerPosterior.dense(np.array(mean), sure * np.eye(len(KINDS))) for mean in means]
    return transferred(beliefs, places, layers, lambda system, threads: np.zeros(5), place)


def test_a_place_is_unlike_others_and_like_itself():
    here, there = (SYSTEM, SETUP), (OTHER, SETUP)
    assert unlikeness(here, here) == 0
    assert unlikeness(here, there) == unlikeness(there, here) > 0
    assert unlikeness(here, (SYSTEM, replace(SETUP, protocol="loop", plugin="2"))) == 0
    assert 0 < unlikeness(here, (SYSTEM, replace(SETUP, version="2"))) < unlikeness(here, there)
    apart = [unlikeness(here, threads(number)) for number in (2, 4, 8)]
    assert apart == sorted(apart)


def test_weights_sum_to_one_and_a_known_place_gets_all():
    random = np.random.default_rng(1)
    points = np.sort(random.uniform(0, 3, 4))
    among = np.abs(points[:, None] - points[None, :]) ** 1.5
    assert kriging_weights(among, among[2]) == pytest.approx([0, 0, 1, 0], abs=1e-6)
    weights = kriging_weights(among, np.abs(points - 1.3) ** 1.5)
    assert weights.sum() == pytest.approx(1)
    assert kriging_weights(np.array([[0.0, 8.0], [8.0, 0.0]]), np.ones(2)) == pytest.approx(
        [0.5] * 2
    )


def test_what_the_same_place_told_holds_on_another_day(layers):
    means = [[0.1, 0.2, 0.3, 0.4, 0.5], [0.0] * 5]
    found = carried(layers, means, [threads(1), threads(4)], threads(1))
    assert found.mean == pytest.approx(means[0], abs=0.02)
    assert np.sqrt(np.diag(found.covariance)).max() < 0.1


def test_a_trend_over_threads_is_continued_in_part(layers):
    places = [threads(1), threads(2)]
    found = carried(layers, [[1.0] * 5, [0.0] * 5], places, threads(4))
    assert (found.mean > -1).all()
    assert (found.mean < -0.1).all()


def test_layers_that_differ_together_between_known_places_are_believed_to_here(layers):
    """Elementwise layers differ among the known places, and others do not."""
    means = [[0, 0, a, a, 0] for a in (0.8, -0.8, 0.8)]
    places = [threads(1), threads(2), (OTHER, SETUP)]
    flat = [[0.0] * 5] * 3
    spread = [carried(layers, each, places, threads(4)).covariance for each in (means, flat)]
    seen, unseen = (each / np.sqrt(np.outer(np.diag(each), np.diag(each))) for each in spread)
    assert seen[2, 3] > unseen[2, 3] + 0.1
    assert spread[0][2, 2] > 2 * spread[1][2, 2]
    assert spread[0][4, 4] == pytest.approx(spread[1][4, 4], rel=0.5)


def test_doubt_about_known_places_stays(layers):
    places = [threads(1), threads(2)]
    sure, unsure = (carried(layers, [[0.0] * 5] * 2, places, threads(4), s) for s in (0.0, 1.0))
    assert np.diag(unsure.covariance - sure.covariance) == pytest.approx(np.ones(5))


@pytest.mark.parametrize(
    ("place", "share"), [((OTHER, SETUP), 1.0), (threads(2), 0.5)], ids=["processor", "threads"]
)
def test_what_the_baseline_expects_of_a_difference_is_believed_and_doubted(layers, place, share):
    """A difference of one, in the logarithm, whether by processor or by twice the threads."""
    belief = LayerPosterior.dense(np.zeros(5), np.zeros((5, 5)))
    slower = {SYSTEM: 0.0, OTHER: 1.0}
    found = transferred(
        [belief],
        [(SYSTEM, SETUP)],
        layers,
        lambda system, threads: np.full(5, slower[system] + np.log2(threads)),
        place,
    )
    assert found.mean == pytest.approx(share * np.ones(5))
    unlike = unlikeness((SYSTEM, SETUP), place)
    own = unlike * (difference().covariance(layers, layers) + difference().noise * np.eye(5))
    assert found.covariance == pytest.approx(own + believed_of_baseline().variance)


def test_what_the_baseline_expects_between_known_places_is_no_error(layers):
    """Known places that differ as expected leave as little doubt as known places that do not."""
    third = replace(SYSTEM, cpu="C", model="17")
    slower = {SYSTEM: 0.0, OTHER: 1.0, third: 2.0}
    beliefs = [LayerPosterior.dense(np.full(5, each), np.zeros((5, 5))) for each in (0.0, 1.0)]
    places, place = [(SYSTEM, SETUP), (OTHER, SETUP)], (third, SETUP)
    found = transferred(
        beliefs, places, layers, lambda system, _: np.full(5, slower[system]), place
    )
    weights = kriging_weights(
        np.array([[unlikeness(one, other) for other in places] for one in places]),
        np.array([unlikeness(each, place) for each in places]),
    )
    moved = slower[third] - weights[1]
    flat = carried(layers, [[0.0] * 5] * 2, places, place)
    assert found.mean == pytest.approx(np.full(5, slower[third]))
    assert found.covariance == pytest.approx(
        flat.covariance + believed_of_baseline().variance * moved**2
    )


def test_layers_share_errors_of_the_terms_that_their_time_is_made_up_of(layers):
    """A convolution, an element-wise layer and a pool compute; the other two move bytes."""
    shares = np.array([[1.0, 0, 1, 0, 1], [0] * 5, [0] * 5, [0, 1, 0, 1, 0], [0] * 5])
    belief, place = LayerPosterior.dense(np.zeros(5), np.zeros((5, 5))), (OTHER, SETUP)
    found = transferred(
        [belief], [(SYSTEM, SETUP)], layers, lambda *_: np.zeros(5), place, shares=shares
    )
    unlike = unlikeness((SYSTEM, SETUP), place)
    between = found.covariance[[0, 0, 1, 1], [2, 3, 3, 4]]
    assert between == pytest.approx(
        unlike * np.array([rates().products, 0, rates().memory, 0]), abs=1e-9
    )


def test_contrasts_are_independent_of_what_places_have_in_common():
    among = np.array([[0.0, 1, 2], [1, 0, 1.5], [2, 1.5, 0]])
    means = np.random.default_rng(0).normal(size=(3, 7))
    assert contrasts(means, among) == pytest.approx(contrasts(means + np.arange(7.0), among))
    assert contrasts(means[:1], among[:1, :1]).shape == (0, 7)


@pytest.mark.long
def test_intervals_of_sums_hold_on_places_drawn_from_the_field(layers):
    """Places whose latencies have the covariance that is assumed."""
    random = np.random.default_rng(0)
    places = [threads(1), threads(2), threads(8), (OTHER, SETUP), threads(4)]
    apart = np.array([[unlikeness(one, other) for other in places] for one in places])
    # The field, less its value in the first place.
    over = (apart[1:, :1] + apart[:1, 1:] - apart[1:, 1:]) / 2
    inside = difference().covariance(layers, layers) + difference().noise * np.eye(5)
    factors = np.linalg.cholesky(over), np.linalg.cholesky(inside)
    held = []
    for _ in range(400):
        drawn = np.vstack([np.zeros(5), factors[0] @ random.normal(size=(4, 5)) @ factors[1].T])
        found = carried(layers, drawn[:-1], places[:-1], places[-1])
        sd = np.sqrt(found.covariance.sum())
        held.append(abs(drawn[-1].sum() - found.mean.sum()) < 1.645 * sd)
    assert 0.85 < np.mean(held) < 0.95


def test_facts_that_contradict_a_fingerprint_leave_the_place_that_is_nearest(layers):
    """A store from elsewhere may state anything of a system that the reference data know."""
    others = [replace(OTHER, model=str(number)) for number in range(5)]
    places = [(each, SETUP) for each in (SYSTEM, *others)]
    liar = replace(OTHER, model="9", isa=("avx512f",))
    vars(liar)["fingerprint"] = SYSTEM.fingerprint
    means = [[float(number)] * 5 for number in range(6)]
    found = carried(layers, means, places, (liar, SETUP))
    assert np.isfinite(found.mean).all()
    assert (np.diag(found.covariance) >= 0).all()
