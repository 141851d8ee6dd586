"""Raw models to canonical form: the passes, in order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from dlbricks_core.errors import INVALID_MODEL, WRONG_SIZES, WRONG_VALUES, Border, ModelError
from dlbricks_core.ir import CanonicalModel, Layer, RawModel, TensorSpec
from dlbricks_core.ir.limits import check_shape
from dlbricks_core.operators.table import operator
from dlbricks_core.passes.bind_sizes import bind_sizes, bind_values
from dlbricks_core.passes.drop_unread import drop_unread
from dlbricks_core.passes.lower_layers import lower_layers
from dlbricks_core.passes.options import InputValue, NormalizeOptions
from dlbricks_core.passes.pipeline import Property, check_order, properties


@properties(requires=[Property.INPUTS_SIZED], ensures=[Property.INPUTS_LIMITED])
def limit_inputs(model: RawModel, options: NormalizeOptions) -> RawModel:
    """The model itself, if its inputs are within the limits.

    Raises:
        ModelError: If an input has too many axes or elements.
    """
    for name in model.inputs:
        with Border("input", name):
            check_shape(model.tensors[name].shape or ())
    return model


@properties(ensures=[Property.LAYERS_LIVE])
def drop_dead_layers(model: RawModel, options: NormalizeOptions) -> RawModel:
    """The model with the layers that an output depends on, in the same order."""
    read = set(model.outputs)
    live = []
    for layer in reversed(model.layers):
        if not read.isdisjoint(layer.outputs):
            live.append(layer)
            read.update(layer.inputs, layer.captures)
            read.discard("")
    return replace(model, layers=tuple(reversed(live)))


def keep_outputs(model: RawModel, names: Collection[str]) -> RawModel:
    """The model with the named outputs and what they need; all of it if none is named."""
    if not names:
        return model
    outputs = tuple(name for name in model.outputs if name in names)
    live = drop_dead_layers(replace(model, outputs=outputs), NormalizeOptions())
    read = {name for layer in live.layers for name in (*layer.inputs, *layer.captures)}
    read.update(outputs)
    # An input that no layer reads needs no size.
    inputs = tuple(name for name in model.inputs if name in read)
    return replace(live, inputs=inputs)


@properties(
    requires=[Property.LAYERS_CANONICAL, Property.NOTHING_UNREAD],
    ensures=[Property.BATCH_NORMALIZATION_FOLDED],
)
def fold_batchnorm(model: CanonicalModel, options: NormalizeOptions) -> CanonicalModel:
    """Folds each BatchNormalization into a convolution or Gemm where possible, if requested.

    Optimizing runtimes do so.
    Only the structure changes: the values of the layer's weights are not known anyway.
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


BINDING = (bind_sizes, bind_values)
"""Passes that apply the sizes and values that the user gives."""

PREPARING = (limit_inputs, drop_dead_layers)
"""Passes over the raw model with static inputs."""

FINISHING = (drop_unread, fold_batchnorm)
"""Passes over the canonical model."""

ENSURED = check_order((*BINDING, *PREPARING, lower_layers, *FINISHING))
"""Properties of every model that :func:`normalize` returns."""

_NO_DIMS: Mapping[str, int] = MappingProxyType({})
_NO_SHAPES: Mapping[str, tuple[int, ...]] = MappingProxyType({})
_NO_VALUES: Mapping[str, InputValue] = MappingProxyType({})


def normalize(
    model: RawModel,
    *,
    batch: int | None = None,
    dims: Mapping[str, int] = _NO_DIMS,
    shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES,
    values: Mapping[str, InputValue] = _NO_VALUES,
    fold_batchnorm: bool = False,
) -> CanonicalModel:
    """Brings a raw model into the canonical form that ``docs/reference/ir.md`` defines.

    Names of inputs, outputs and of every tensor that remains are kept.

    Args:
        model: Model as :func:`dlbricks_core.ir.read_model` returns it.
        batch: Size of the first dimension of every input where that is dynamic.
        dims: Size by name of the dynamic dimension, or by ``input.axis`` (``data.2``).
        shapes: Whole shapes by input; the only way for inputs of which not even the rank is known.
        values: Constant value of an input, by its name: one number for all elements, or one for
            each element; ``None`` for an optional input that is left out.
        fold_batchnorm: Whether to fold each BatchNormalization into the convolution or
            Gemm before it, as optimizing runtimes do.

    Raises:
        UnboundDimensionsError: If a dynamic dimension of an input is left without a size.
        ModelError: If a name in ``dims`` or ``values`` matches nothing, an input cannot hold
            its value, or a layer does not fit its inputs.

    Examples:
        >>> model = normalize(read_model(onnx.load("bert.onnx"), name="bert"),
        ...                   batch=1, dims={"sequence": 128})
    """
    options = NormalizeOptions(batch, dims, shapes, values, fold_batchnorm)
    sized = all(model.tensors[name].is_static for name in model.inputs)
    for binding in BINDING:
        model = binding.run(model, options)
    try:
        with Border(model.source or model.name):
            return _canonical(model, options)
    except ModelError as error:
        if sized and error.hint == WRONG_SIZES:
            hint = WRONG_VALUES if values else INVALID_MODEL
            raise ModelError(error.message, hint=hint) from error
        raise


def _canonical(model: RawModel, options: NormalizeOptions) -> CanonicalModel:
    for preparing in PREPARING:
        model = preparing.run(model, options)
    canonical = lower_layers.run(model, options)
    for finishing in FINISHING:
        canonical = finishing.run(canonical, options)
    return canonical
