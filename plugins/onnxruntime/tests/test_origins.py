"""One order for the layers of an optimized graph, whatever order it comes in."""

from dataclasses import replace
from random import Random

import networkx as nx
import pytest
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_onnxruntime.origins import in_original_order, named

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import BrickSet
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import layer_graph
from dlbricks_core.passes import normalize

SETTINGS = BackendSettings(1, {"optimizations": "all"})


@pytest.fixture(scope="module", params=["light_inception_v1", "light_shufflenet"])
def model(request):
    return named(normalize(LightModels().load(request.param)))


def shuffled(made, seed):
    """The same graph in another order, as far as its layers leave that open."""
    random = Random(seed)
    lots = [random.random() for _ in made.layers]
    order = nx.lexicographical_topological_sort(layer_graph(made), key=lots.__getitem__)
    return replace(made, layers=tuple(made.layers[i] for i in order))


def bricks(model, made):
    return set(BrickSet.of([model], 128, "segments", {0: made}).bricks)


def test_the_order_does_not_depend_on_that_in_which_layers_come(model):
    made = OnnxruntimeBackend().executed(model, SETTINGS, 0)
    for seed in range(5):
        other = shuffled(made, seed)
        assert other.layers != made.layers
        again = in_original_order(other, model)
        assert again.layers == made.layers
        assert bricks(model, again) == bricks(model, made)


def test_layers_come_as_those_that_they_are_made_from(model):
    made = OnnxruntimeBackend().executed(model, SETTINGS, 0)
    defined = {*made.inputs, *made.weights}
    for layer in made.layers:
        assert defined.issuperset(layer.reads)
        defined.update(layer.outputs)
    places = [
        min(model.producers[name] for name in layer.outputs if name in model.producers)
        for layer in made.layers
        if any(name in model.producers for name in layer.outputs)
    ]
    assert places == sorted(places)


def test_a_graph_that_nothing_was_made_of_stays_as_it_is(model):
    assert in_original_order(model, model).layers == model.layers
