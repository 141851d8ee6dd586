"""Decoys take about as much memory and time as what they hide, however wide their place is."""

import itertools
from collections import Counter

import numpy as np
import pytest
from dlbricks_prediction.survey.families import Draft, convolve
from dlbricks_private.bulk import MOST, Bulk
from dlbricks_private.chains import all_ends
from dlbricks_private.suites import hide
from hypothesis import given, settings
from hypothesis import strategies as st

from dlbricks_core.analysis import layer_flops
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.progress import Observer


def dense(width, growth, layers, side):
    """Segments with wide ends and few weights, each of which adds some channels to its input."""
    draft = Draft()
    x = draft.input(1, width, side, side)
    for read in range(width, width + layers * growth, growth):
        y = draft.add("Relu", convolve(draft, x, (read, growth), (1, 1)))
        x = draft.add("Concat", x, convolve(draft, y, (growth, growth), (3, 3)), axis=1)
    return draft.model("dense")


def narrow(ends=16, inside=128, layers=3):
    """Segments with narrow ends and wide layers between them: the opposite."""
    draft = Draft()
    x = draft.input(1, ends, 14, 14)
    for written in itertools.accumulate([8] * layers, initial=ends):
        y = draft.add("Relu", convolve(draft, x, (ends, inside), (3, 3)))
        x = draft.add("Relu", convolve(draft, y, (inside, written), (3, 3)))
        ends = written
    return draft.model("narrow")


def hidden(models, donors=(), decoys=4, seed=0):
    options = CutOptions(6, "short-segments", "segmented")
    return hide(models, options, None, donors, decoys, np.random.default_rng(seed), Observer())


def operations(model):
    return sum(layer_flops(model, layer) or 0 for layer in model.layers)


@pytest.mark.long
@settings(max_examples=3)
@given(
    width=st.sampled_from([64, 256, 512]),
    growth=st.sampled_from([16, 32]),
    side=st.sampled_from([7, 14]),
    seed=st.integers(0, 99),
)
def test_no_decoy_exceeds_twice_the_largest_brick(width, growth, side, seed):
    found = hidden([dense(width, growth, 3, side)], [narrow()], seed=seed)
    true = [each.model for each in found.brickset.bricks.values()]
    decoys = [each.model for each in found.decoys.values()]
    for bulk in (lambda model: model.weight_bytes, operations):
        assert max(map(bulk, decoys)) <= 2 * max(map(bulk, true))


@pytest.mark.long
def test_each_brick_has_its_decoys_within_the_limit():
    found = hidden([dense(512, 32, 3, 14)], [narrow()])
    true, false = (
        Counter(map(all_ends, each.values())) for each in (found.brickset.bricks, found.decoys)
    )
    assert false == {ends: 4 * number for ends, number in true.items()}


@pytest.mark.long
def test_a_large_model_in_the_same_suite_does_not_let_the_decoys_of_a_small_one_grow():
    small = dense(256, 16, 3, 14)
    draft = Draft()
    convolve(draft, draft.input(1, 1000, 20, 20), (1000, 1000), (3, 3))
    found = hidden([small, draft.model("large")], [narrow()])
    most = 2 * max(
        each.model.weight_bytes
        for signature, each in found.brickset.bricks.items()
        if signature in found.brickset.models[0].counts
    )
    beside = [
        each.model.weight_bytes
        for each in found.decoys.values()
        if each.model.tensors[each.model.inputs[0]].sizes[1] < 1000
    ]
    assert len(beside) >= 4
    assert max(beside) <= most


@pytest.mark.long
def test_some_decoys_exceed_the_largest_brick():
    found = hidden([dense(512, 32, 3, 14)], [narrow()])
    largest = max(each.model.weight_bytes for each in found.brickset.bricks.values())
    assert any(each.model.weight_bytes > largest for each in found.decoys.values())


def test_the_limit_holds_weights_and_operations_apart():
    own = [dense(64, 16, 1, 14), dense(64, 32, 1, 7)]
    limit = Bulk.limit(own)
    assert limit.weight_bytes == MOST * own[1].weight_bytes
    assert limit.operations == MOST * operations(own[0])
    assert limit.holds(dense(64, 20, 1, 14))
    assert not limit.holds(dense(64, 64, 1, 7))  # weights
    assert not limit.holds(dense(64, 16, 1, 28))  # operations


@pytest.mark.long
def test_the_same_seed_draws_the_same_decoys():
    one, other = (hidden([dense(256, 16, 2, 14)], [narrow()], seed=3) for _ in range(2))
    assert list(one.decoys) == list(other.decoys)
