"""One order for the layers of an optimized graph, whatever order it comes in."""

from dataclasses import replace
from itertools import pairwise
from random import Random

import networkx as nx
import onnx
import pytest
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_onnxruntime.origins import in_order

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import BrickSet
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import layer_graph, read_model
from dlbricks_core.passes import normalize

SETTINGS = BackendSettings(1, {"optimizations": "all"})


@pytest.fixture(scope="module", params=["light_inception_v1", "light_shufflenet"])
def model(request):
    return normalize(LightModels().load(request.param))


def shuffled(made, seed):
    """The same graph in another order, as far as its layers leave that open."""
    random = Random(seed)
    lots = [random.random() for _ in made.layers]
    order = nx.lexicographical_topological_sort(layer_graph(made), key=lots.__getitem__)
    return replace(made, layers=tuple(made.layers[i] for i in order))


def bricks(model, made):
    return set(BrickSet.of([model], 128, "segments", {0: made}).bricks)


def test_the_order_does_not_depend_on_that_in_which_layers_come(model):
    made = OnnxruntimeBackend().rewrite(model, SETTINGS, 0)
    for seed in range(5):
        other = shuffled(made, seed)
        assert other.layers != made.layers
        again = in_order(other)
        assert again.layers == made.layers
        assert bricks(model, again) == bricks(model, made)


def test_each_layer_comes_before_its_readers_and_as_late_as_it_can(model):
    made = OnnxruntimeBackend().rewrite(model, SETTINGS, 0)
    defined = {*made.inputs, *made.weights}
    for layer in made.layers:
        assert defined.issuperset(layer.reads)
        defined.update(layer.outputs)
    for layer, following in pairwise(made.layers):
        if layer.op == "ReorderInput":
            assert layer.outputs[0] in following.reads


def test_what_nobody_reads_is_kept():
    made = read_model(onnx.parser.parse_model(UNREAD), name="unread")
    assert [layer.op for layer in in_order(made).layers] == ["Abs", "Neg", "Relu"]
    assert in_order(replace(made, layers=made.layers[::-1])).layers == in_order(made).layers


UNREAD = """<ir_version: 8, opset_import: ["" : 17]>
    unread (float[4] x) => (float[4] y)
    { z = Relu(x)  a = Abs(x)  y = Neg(a) }
"""
