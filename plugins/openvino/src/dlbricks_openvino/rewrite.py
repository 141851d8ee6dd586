"""The model as OpenVINO executes it: layouts in which feature maps go from layer to layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dlbricks_core.backends import BackendSettings
from dlbricks_core.ir import CanonicalModel, TensorSpec
from dlbricks_core.passes.convert import convert
from dlbricks_core.values import materialize
from dlbricks_openvino.executed import compiled_whole, executed, layers_of
from dlbricks_openvino.settings import computed, short_types
from dlbricks_openvino.strides import with_early_strides

_PLAIN = "abcd"


def rewrite(model: CanonicalModel, settings: BackendSettings, seed: int) -> CanonicalModel:
    """The model with the strides and layouts that OpenVINO chooses when it compiles all of it.

    A convolution by itself has its input and output in plain order, and OpenVINO converts both.
    Inside a model it does not: convolutions pass on feature maps with the channels along the last
    axis. Bricks that are cut from the marked model have inputs and outputs in that layout.

    Where the processor does not compute in a short float type, OpenVINO widens the whole model when
    it compiles it: between layers there are no conversions. Bricks are then in single precision.
    """
    if short_types(model) - computed():
        model = convert(model, "float32")
    model = with_early_strides(model)
    graph = compiled_whole(materialize(model, seed), settings).get_runtime_model()
    # Conversions between layouts stand for no layer.
    nodes = [node for node in executed(graph) if any(node.origins)]
    named = layers_of(nodes, model)
    layouts = {index: node.layout for node in nodes for index in named[node.name]}
    kept: dict[str, str] = {}
    for index, layer in enumerate(model.layers):
        read = next((kept[name] for name in layer.inputs if name in kept), _PLAIN)
        # OpenVINO merges layers and drops some names. Layers without a name keep the layout of
        # their input.
        layout = layouts.get(index, read)
        kept.update({name: layout for name in layer.outputs if name})
    for name in model.outputs:  # a whole model returns its results to the user in plain order
        kept.pop(name, None)
    return replace(model, tensors=_marked(model, kept))


def _marked(model: CanonicalModel, layouts: Mapping[str, str]) -> dict[str, TensorSpec]:
    return {
        name: replace(spec, layout=layouts[name])
        if layouts.get(name, _PLAIN) != _PLAIN and (spec.dtype, spec.rank) == ("float32", 4)
        else spec
        for name, spec in model.tensors.items()
    }
