"""Memory layouts in which OpenVINO passes feature maps from layer to layer."""

from __future__ import annotations

from dataclasses import replace

import openvino

from dlbricks_core.backends import BackendSettings
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.values import materialize
from dlbricks_openvino.compiling import compiled

_PLAIN = "abcd"


def with_layouts(model: CanonicalModel, settings: BackendSettings, seed: int) -> CanonicalModel:
    """The model with the layouts that OpenVINO chooses when it compiles all of it.

    A convolution by itself has its input and output in plain order, and OpenVINO converts both.
    Inside a model it does not: convolutions pass on feature maps with the channels along the last
    axis. Bricks that are cut from the marked model have inputs and outputs in that layout.

    The graph that OpenVINO executes records the layers behind each node, and the layout of its
    result.
    """
    marked = replace(
        model,
        layers=tuple(replace(layer, name=str(i)) for i, layer in enumerate(model.layers)),
    )
    graph = compiled(materialize(marked, seed), settings).get_runtime_model()
    layouts: dict[int, str] = {}
    for node in graph.get_ordered_ops():
        facts = node.get_rt_info()
        for origin in _text(facts, "originalLayersNames").split(","):
            if origin.isdecimal():
                layouts[int(origin)] = _text(facts, "outputLayouts").partition(",")[0]
    kept = {}
    for index, layer in enumerate(model.layers):
        read = next((kept[name] for name in layer.inputs if name in kept), _PLAIN)
        # OpenVINO merges layers and drops some names. Layers without a name keep the layout of
        # their input.
        layout = layouts.get(index, read)
        kept.update({name: layout for name in layer.outputs if name})
    for name in model.outputs:  # a whole model returns its results to the user in plain order
        kept.pop(name, None)
    tensors = {
        name: replace(spec, layout=kept[name])
        if kept.get(name, _PLAIN) != _PLAIN and (spec.dtype, spec.rank) == ("float32", 4)
        else spec
        for name, spec in model.tensors.items()
    }
    return replace(model, tensors=tensors)


def _text(facts: dict[str, openvino.OVAny], name: str) -> str:
    return str(facts[name].value) if name in facts else ""
