"""Bricks inside of a running model, from a profile."""

import pytest

from dlbricks_core.backends import Profile, ProfiledLayer
from dlbricks_core.bricks import BrickSet
from dlbricks_core.measure.harvest import Harvest


@pytest.fixture
def cut(builder):
    """Two equal layers and a third one, each a brick of one layer."""
    b = builder((4, 4))
    model = b.model(b.add("Tanh", b.add("Relu", b.add("Relu", b.input))))
    return BrickSet.of([model], 1, "chain").models[0]


def profile(cut, times, more=()):
    layers = [
        ProfiledLayer(layer.name, layer.op, layer.outputs, ms)
        for layer, ms in zip(cut.graph.layers, times, strict=True)
        if ms is not None
    ]
    for place, ms in more:
        layers.insert(place, ProfiledLayer("Reorder", "Reorder", (), ms))
    return Profile(layers, 10.0)


def test_the_parts_add_up_to_a_run_without_the_profiler(cut):
    found = Harvest.of(cut, profile(cut, [1.0, 3.0, 4.0]), latency_ms=4.0)
    relu, tanh = cut.counts
    assert found.ms == {relu: pytest.approx(1.0), tanh: pytest.approx(2.0)}
    assert sum(cut.counts[s] * ms for s, ms in found.ms.items()) == pytest.approx(4.0)
    assert found.assigned == 1.0


def test_what_belongs_to_no_layer_counts_for_the_layer_before(cut):
    found = Harvest.of(cut, profile(cut, [1.0, 1.0, 1.0], more=[(3, 1.0)]), latency_ms=4.0)
    relu, tanh = cut.counts
    assert found.ms == {relu: pytest.approx(1.0), tanh: pytest.approx(2.0)}
    assert found.assigned == pytest.approx(0.75)


def test_a_layer_that_was_fused_leaves_its_time_to_another(cut):
    found = Harvest.of(cut, profile(cut, [2.0, None, 2.0]), latency_ms=4.0)
    assert list(found.ms.values()) == [pytest.approx(1.0), pytest.approx(2.0)]


def test_a_profile_of_other_layers_tells_nothing(cut):
    other = Profile([ProfiledLayer("x", "Relu", ("elsewhere",), 1.0)], 1.0)
    assert Harvest.of(cut, other, latency_ms=4.0) == Harvest({}, 0.0)
