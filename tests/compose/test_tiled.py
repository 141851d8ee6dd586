"""Large convolutions that tiles tell, and what becomes of them in an estimate."""

import numpy as np
import pytest

from dlbricks_core.analysis import layer_flops
from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Sequential, Tiled
from dlbricks_core.figures.figure import Measured, interval
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.workflows.cutting import sparing

CALL_MS = 0.5
FIXED_MS = 3.0
MS_PER_GFLOP = 5.0


def latency(*samples, overhead=CALL_MS):
    return Measured(samples, PROTOCOLS["interleaved"], overhead)


def truth(brick):
    """Something that each run costs, and something in proportion to operations."""
    flops = sum(layer_flops(brick.model, layer) or 0 for layer in brick.model.layers)
    return CALL_MS + FIXED_MS + MS_PER_GFLOP * flops / 1e9


@pytest.fixture(scope="module")
def cut(chain_of):
    """A large convolution and what is before and after it, at one layer a brick."""
    model = chain_of(512, 512, 80, pad=0, before=["Relu"], after=["Sigmoid"])
    return sparing(BrickSet.of([model]), Tiled())


def large(cut):
    (signature,) = cut.spared
    return signature


def test_the_large_one_is_not_timed_and_its_tiles_are(cut):
    assert cut.bricks[large(cut)].operators == ("Conv",)
    assert len(cut.tiles) == 2
    assert cut.timed == len(cut.bricks) - 1 + 2
    assert sparing(BrickSet.of([cut.models[0].model]), Sequential()).tiles == {}


def test_tiles_tell_what_is_fixed_and_what_grows(cut):
    timed = {**cut.bricks, **cut.tiles}
    del timed[large(cut)]
    latencies = {signature: latency(truth(brick)) for signature, brick in timed.items()}
    told = Tiled().complete(cut.bricks, latencies)
    found = told[large(cut)]
    assert found.value == pytest.approx(truth(cut.bricks[large(cut)]))
    assert set(found.derived_from) == cut.tiles.keys()
    estimate = Tiled().compose(cut.models[0], told)
    every = [truth(cut.bricks[o.signature]) - CALL_MS for o in cut.models[0].occurrences]
    assert estimate.value == pytest.approx(sum(every) + CALL_MS)
    assert not estimate.partial


def test_what_tiles_may_be_off_by_is_in_the_interval(cut):
    samples = np.linspace(0.99, 1.01, 20)
    latencies = {s: latency(*(truth(tile) * samples)) for s, tile in cut.tiles.items()}
    found = Tiled().complete(cut.bricks, latencies)[large(cut)]
    low, high = interval(found.plausible)
    assert low < found.value * 0.96 < found.value * 1.04 < high
    assert np.ptp(interval(found.replicates)) < high - low


def test_one_tile_alone_tells_nothing(cut):
    first = next(iter(cut.tiles))
    told = Tiled().complete(cut.bricks, {first: latency(5.0)})
    assert large(cut) not in told
    assert Tiled().compose(cut.models[0], told).missing


@pytest.mark.parametrize("larger", [5.0, 5.3, 20.0])
def test_tiles_that_contradict_each_other_tell_nothing(cut, larger):
    """A line that does not rise enough would have a layer take nothing, or less than its part."""
    small, large_ = sorted(cut.tiles, key=lambda s: truth(cut.tiles[s]))
    told = Tiled().complete(cut.bricks, {small: latency(5.3), large_: latency(larger)})
    assert (large(cut) in told) == (larger == 20.0)


def test_what_was_timed_itself_is_not_told(cut):
    own = latency(7.0)
    latencies = {s: latency(truth(tile)) for s, tile in cut.tiles.items()}
    assert Tiled().complete(cut.bricks, {**latencies, large(cut): own})[large(cut)] is own


def test_precision_is_asked_for_by_what_tiles_count_for(cut):
    (model,) = cut.models
    counted = {tile.brick.signature: tile.weight for tile in model.tiles[large(cut)]}
    others = {signature: 1 for signature in cut.bricks if signature != large(cut)}
    assert model.parts == {**others, **counted}
    twice = BrickSet.of([model.model]).models[0]
    assert twice.parts == twice.counts
