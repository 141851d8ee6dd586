from __future__ import annotations

import itertools

import numpy as np
import pytest
from dlbricks_prediction.survey.families import Draft, convolve
from dlbricks_private.cutting import Cutting
from dlbricks_private.exposure import assessed
from dlbricks_private.published import Published
from dlbricks_private.suites import hide

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.progress import Observer

STRATEGY, MOST = "short-segments", 128
OPTIONS = CutOptions(MOST, STRATEGY, "segmented")


def network(name, widths, layers=2, side=72, shortcut=False, begins=""):
    """Segments of some convolutions; each of more than one is a residual unit if asked for."""
    draft = Draft()
    x = draft.input(1, widths[0], side, side)
    if begins:
        x = draft.add(begins, x)
    for read, written in itertools.pairwise(widths):
        y = x
        for number in range(layers):
            y = draft.add("Relu", convolve(draft, y, (written if number else read, written)))
        x = draft.add("Add", x, y) if shortcut else y
    return draft.model(name)


OWN = network("own", (32, 32, 32, 48, 48), 1)
# Each segment of the donors holds two convolutions, of which one is a segment of the model.
DONORS = [
    network("long", (24, 24, 24), 2, side=36, shortcut=True),
    network("short", (16, 16, 16), 3, side=24, shortcut=True),
    network("narrow", (8, 8, 8, 8), 1, side=96),
]


def cutting(model=OWN):
    return Cutting.of([BrickSet(MOST, STRATEGY).add(model)], STRATEGY, MOST)


@pytest.mark.parametrize(
    ("sequence", "allowed"),
    [
        (network("a segment", (64, 64), 1), True),
        (network("two segments", (64, 64), 2), False),
        (network("a residual unit", (64, 64), 2, shortcut=True), True),
        (network("too short", (8, 8), 1, side=8), False),
        (network("begins without weights", (64, 64), 1, begins="Tanh"), False),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_brick_tells_whether_it_can_have_been_cut_so(sequence, allowed):
    assert cutting().allows(sequence) is allowed


def test_the_last_brick_may_be_short_and_the_first_may_begin_without_weights():
    for model in (
        network("too short", (8, 8), 1, side=8),
        network("begins without weights", (64, 64), 1, begins="Tanh"),
    ):
        assert cutting(model).allows(model)


def test_every_brick_of_a_model_is_one_that_its_way_of_cutting_allows():
    for model in (OWN, *DONORS):
        bricks = BrickSet(MOST, STRATEGY)
        bricks.add(model)
        assert all(cutting(model).allows(each.model) for each in bricks.bricks.values())


def test_no_decoy_tells_by_the_way_of_cutting_that_it_is_one():
    found = hide([OWN], OPTIONS, None, DONORS, 6, np.random.default_rng(0), Observer())
    assert len(found.decoys) >= 5 * len(found.brickset.bricks)
    assert all(cutting().allows(each.model) for each in found.decoys.values())


def test_the_owner_is_told_of_decoys_that_the_way_of_cutting_gives_away():
    own, others = BrickSet(MOST, STRATEGY), BrickSet(MOST, STRATEGY)
    own.add(OWN)
    two = network("two in one", (32, 32), 2)
    others.add(two, sequences=[tuple(range(len(two.layers)))])
    told = assessed(own, {**own.bricks, **others.bricks}, None, Published.of(()))
    attacker = "takes bricks that the suite's way of cutting allows for true"
    assert told.accuracies[attacker] == 1
