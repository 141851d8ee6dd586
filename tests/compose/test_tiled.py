"""Large convolutions whose latency follows from tiles, and the estimates with them."""

import numpy as np
import pytest

from dlbricks_core.analysis import layer_flops
from dlbricks_core.analysis.tiles import tiles
from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Sequential
from dlbricks_core.compose.tiled import Tiled
from dlbricks_core.figures.figure import Measured, interval
from dlbricks_core.figures.protocols import PROTOCOLS

CALL_MS = 0.5
FIXED_MS = 3.0
MS_PER_GFLOP = 5.0


def latency(*samples, overhead=CALL_MS):
    return Measured(samples, PROTOCOLS["interleaved"], overhead)


def truth(brick):
    """A fixed cost, and a cost in proportion to operations."""
    flops = sum(layer_flops(brick.model, layer) or 0 for layer in brick.model.layers)
    return CALL_MS + FIXED_MS + MS_PER_GFLOP * flops / 1e9


@pytest.fixture(scope="module")
def cut(chain_of):
    """A large convolution and the layers around it, one layer in each brick."""
    return BrickSet.of([chain_of(512, 512, 80, pad=0, before=["Relu"], after=["Sigmoid"])])


@pytest.fixture(scope="module")
def plan(cut, planned):
    return planned(Tiled(), cut.bricks)


@pytest.fixture(scope="module")
def large(plan):
    """Signature of the large convolution."""
    (signature,) = plan.not_timed
    return signature


def test_the_tiles_of_a_large_brick_are_timed_instead_of_it(cut, plan, large, planned):
    assert cut.bricks[large].operators == ("Conv",)
    assert len(plan.besides) == 2
    assert set(plan.sources(large)) == plan.besides.keys()
    assert len(plan.timed) == len(cut.bricks) - 1 + 2
    assert not planned(Sequential(), cut.bricks).besides


def test_tiles_give_the_fixed_part_and_the_part_that_grows_with_rows(cut, plan, large):
    known = {signature: latency(truth(brick)) for signature, brick in plan.timed.items()}
    told = plan.figures(known)
    found = told[large]
    assert found.value == pytest.approx(truth(cut.bricks[large]))
    assert set(found.derived_from) == plan.besides.keys()
    estimate = Tiled().compose(cut.models[0], told)
    every = [truth(cut.bricks[o.signature]) - CALL_MS for o in cut.models[0].occurrences]
    assert estimate.value == pytest.approx(sum(every) + CALL_MS)
    assert not estimate.partial


def test_the_error_of_tiles_is_in_the_interval(plan, large):
    samples = np.linspace(0.99, 1.01, 20)
    found = plan.figures({s: latency(*(truth(tile) * samples)) for s, tile in plan.besides.items()})
    low, high = interval(found[large].plausible)
    assert low < found[large].value * 0.96 < found[large].value * 1.04 < high
    assert np.ptp(interval(found[large].replicates)) < high - low


def test_one_tile_alone_gives_no_figure(cut, plan, large):
    first = next(iter(plan.besides))
    told = plan.figures({first: latency(5.0)})
    assert large not in told
    assert Tiled().compose(cut.models[0], told).missing


@pytest.mark.parametrize("larger", [5.0, 5.3, 20.0])
def test_tiles_that_contradict_each_other_give_no_figure(plan, large, larger):
    """A line that hardly rises would give the layer less time than one of its parts."""
    small, large_ = sorted(plan.besides, key=lambda s: truth(plan.besides[s]))
    told = plan.figures({small: latency(5.3), large_: latency(larger)})
    assert (large in told) == (larger == 20.0)


def test_own_samples_come_before_tiles(plan, large):
    own = latency(7.0)
    known = {s: latency(truth(tile)) for s, tile in plan.besides.items()}
    assert plan.figures({**known, large: own})[large] is own


def test_tiles_are_timed_as_precisely_as_their_weight_asks(cut, plan, large, planned):
    (model,) = cut.models
    counted = {tile.brick.signature: 3 * tile.weight for tile in tiles(cut.bricks[large])}
    others = {signature: 1 for signature in cut.bricks if signature != large}
    assert plan.weights({**model.counts, large: 3}) == {**others, **counted}
    assert planned(Sequential(), cut.bricks).weights(model.counts) == model.counts
