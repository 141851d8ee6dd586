"""Layers one by one: constants that shape a layer keep their values, other weights do not."""

from dlbricks_testing import cases

from dlbricks_core.backends import layer_alone, refused_layers
from dlbricks_core.ir import to_onnx
from dlbricks_core.values import materialize


def alone(op):
    """Every layer of that type among the common cases, each as a model of its own."""
    for name in cases.COMMON:
        model = cases.network(name).model
        for index, layer in enumerate(model.layers):
            if layer.op == op:
                yield layer_alone(model, index)


def test_weights_whose_values_are_not_known_become_inputs():
    found = list(alone("Conv"))
    assert found
    for model in found:
        assert set(model.inputs) == {name for name in model.layers[0].inputs if name}
        assert not model.weights


def test_values_that_shape_a_layer_stay_constants():
    found = list(alone("Reshape"))
    assert found
    for model in found:
        data, shape = model.layers[0].inputs
        assert model.inputs == (data,)
        assert model.weights == {shape}
        assert [each.name for each in to_onnx(model, model.constants).graph.initializer] == [shape]


def test_layers_with_one_signature_are_tried_once():
    model = cases.network("shared_weights").model
    tried = []

    def refusal(layer):
        tried.append(layer)
        return "no"

    assert refused_layers(model, refusal) == dict.fromkeys(range(len(model.layers)), "no")
    assert 0 < len(tried) <= len(model.layers)


def test_weights_may_stay_weights_for_a_framework_that_wants_them_constant():
    model = cases.network("batch_normalization").model
    seen = []
    refused_layers(model, lambda layer: seen.append(layer) or "", keep_weights=True)
    (layer,) = seen
    assert len(layer.inputs) == 1
    assert set(layer.layers[0].inputs) == {*layer.inputs, *layer.weights}
    assert materialize(layer, 0).weights.keys() == layer.weights
