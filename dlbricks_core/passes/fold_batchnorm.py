"""Folds batch normalization into the layer before it, as optimizing runtimes do."""

from __future__ import annotations

from dataclasses import replace

from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.operators.table import operator
from dlbricks_core.passes.drop_unread import drop_unread
from dlbricks_core.passes.options import NormalizeOptions
from dlbricks_core.passes.pipeline import Pass, Property


def fold_batchnorm(model: CanonicalModel, options: NormalizeOptions) -> CanonicalModel:
    """Folds each BatchNormalization into a convolution or Gemm where possible, if requested.

    Only the structure changes: the values of the layer's weights are not known anyway.

    Args:
        model: Model in canonical form.
        options: Whether to fold.
    """
    if not options.fold_batchnorm:
        return model
    layers: list[Layer | None] = list(model.layers)
    tensors, weights = dict(model.tensors), set(model.weights)
    for index, layer in enumerate(model.layers):
        producer = _absorber(model, layer)
        if producer is None:
            continue
        absorber = layers[producer]
        assert absorber is not None
        inputs = absorber.inputs
        if len(inputs) < 3:
            bias = f"{layer.outputs[0]}.bias"
            while bias in tensors:
                bias += "_"
            tensors[bias] = TensorSpec(tensors[inputs[1]].dtype, tensors[layer.inputs[1]].shape)
            weights.add(bias)
            inputs = (*inputs, bias)
        layers[producer] = replace(absorber, inputs=inputs, outputs=layer.outputs)
        layers[index] = None
    return drop_unread(
        replace(
            model,
            layers=tuple(layer for layer in layers if layer is not None),
            tensors=tensors,
            weights=frozenset(weights),
        ),
        options,
    )


def _absorber(model: CanonicalModel, layer: Layer) -> int | None:
    """Index of the layer that can take in a BatchNormalization."""
    if layer.op != "BatchNormalization" or layer.domain or layer.opaque:
        return None
    data = layer.inputs[0]
    producer = model.producers.get(data)
    if producer is None or data in model.output_names or len(model.consumers[data]) > 1:
        return None
    candidate = model.layers[producer]
    if candidate.domain or not operator(candidate.op).input(2).bias:
        return None
    parameters = (*candidate.inputs[1:], *layer.inputs[1:])
    if not all(name in model.weights for name in parameters):
        return None
    channels = model.tensors[layer.inputs[1]].sizes
    bias = candidate.inputs[2:]
    return producer if all(model.tensors[b].sizes[-1:] == channels for b in bias) else None


FOLD_BATCHNORM = Pass.of(
    fold_batchnorm,
    requires=[Property.LAYERS_CANONICAL, Property.NOTHING_UNREAD],
    ensures=[Property.BATCH_NORMALIZATION_FOLDED],
)
