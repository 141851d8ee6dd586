"""Names and order of an optimized graph: which tensors of the model it computes, and when."""

from dataclasses import replace
from itertools import pairwise
from random import Random

import networkx as nx
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_onnxruntime.origins import in_order, named, restored_names
from dlbricks_onnxruntime.sessions import session_options
from onnx import helper

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import BrickSet
from dlbricks_core.bricks.brickset import original
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import layer_graph, read_model, to_onnx
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

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


def results(proto, inputs):
    """All that a graph computes, as it stands."""
    del proto.graph.output[:]
    names = [name for node in proto.graph.node for name in node.output if name]
    proto.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(proto.SerializeToString(), options)
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def size(values):
    """Length of a tensor as a vector: the same in any order, and with zeros added."""
    return float(np.sqrt(np.square(values, dtype=np.float64).sum()))


# Sums and activations that are fused, batch normalizations, and what has no blocked form.
@pytest.mark.parametrize("name", ["light_resnet50", "light_densenet121", "light_inception_v1"])
def test_a_tensor_with_a_name_of_the_model_holds_what_it_holds_in_the_model(name, tmp_path):
    model = named(normalize(LightModels().load(name)))
    network = materialize(model, 0)
    proto = to_onnx(model, network.weights)
    options = session_options(SETTINGS)
    options.optimized_model_filepath = str(tmp_path / "made.onnx")
    ort.InferenceSession(proto.SerializeToString(), options)
    made = onnx.load(tmp_path / "made.onnx")
    names = restored_names(read_model(made, name=name).layers, model)
    expected, found = results(proto, network.inputs), results(made, network.inputs)
    told = {name: original(model, names.get(name, name)) for name in found}
    assert sum(each is None for each in told.values()) <= len(told) / 8
    assert sum("@" in each for each in names.values()) > len(names) / 2
    for tensor, each in told.items():
        if each is not None:
            assert size(found[tensor]) == pytest.approx(size(expected[each]), rel=1e-3), tensor
