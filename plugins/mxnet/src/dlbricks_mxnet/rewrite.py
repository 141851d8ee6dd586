"""The graph that MXNet executes: the layers of the model, with the layouts between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from dlbricks_core.backends import BackendSettings
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_mxnet.layouts import BLOCKING, LAST, PLAIN, UNKNOWN, may_be_blocked

#: Operators that oneDNN computes directly on blocks. For all other operators here, MXNet 1.9.1
#: first converts to plain order.
_KEEPING = frozenset(
    {"AveragePool", "BatchNormalization", "Elu", "Gelu", "GlobalAveragePool", "GlobalMaxPool",
     "LRN", "LeakyRelu", "MaxPool", "Relu", "Sigmoid", "Tanh"}
)  # fmt: skip
_KEEPING_ALL = frozenset({"Add", "Concat", "Sum"})


def rewrite(model: CanonicalModel, settings: BackendSettings) -> CanonicalModel:
    """The model with the layouts in which feature maps reach the layers that read them.

    Args:
        model: Model in canonical form.
        settings: Settings with the option ``inputs``, which says how layouts are found.
    """
    inputs = settings.options.get("inputs", "found")
    if inputs == "plain":
        return model
    if inputs == "blocked":
        return with_layouts(model, lambda *_: UNKNOWN)
    from dlbricks_mxnet.blocks import made_by

    return with_layouts(model, made_by)


def with_layouts(
    model: CanonicalModel, made_by: Callable[[CanonicalModel, int], str]
) -> CanonicalModel:
    """The model with every feature map marked by the layout in which it reaches its readers.

    A layer without support for a layout requires a conversion, or takes several times as long. So
    its bricks, and the bricks that read its result, need inputs in the same layouts.

    Args:
        model: Model in canonical form.
        made_by: Layout that a convolution leaves, or ``UNKNOWN``, from the model and the layer's
            index.
    """
    layouts: dict[str, str] = {}
    for index, layer in enumerate(model.layers):
        first = layer.outputs[0]  # may be unused: of an LSTM, perhaps only the last state is read
        if first and _is_map(model, first) and math.prod(model.tensors[first].sizes[2:]) > 1:
            layouts[first] = (
                made_by(model, index)
                if layer.op in BLOCKING and not layer.domain
                else _handed_on(model, layer, layouts)
            )
    tensors = {
        name: replace(spec, layout=layouts.get(name, PLAIN)) if _is_map(model, name) else spec
        for name, spec in model.tensors.items()
    }
    return replace(model, tensors=tensors)


def _is_map(model: CanonicalModel, name: str) -> bool:
    spec = model.tensors[name]
    return name not in model.weights and spec.is_static and may_be_blocked(spec)


def _handed_on(model: CanonicalModel, layer: Layer, layouts: Mapping[str, str]) -> str:
    """Layout in which a layer other than a convolution leaves its result."""
    read = [layouts.get(name, PLAIN) for name in layer.inputs]
    if layer.domain or not read:
        return PLAIN
    if layer.op in _KEEPING:
        # GELU in its tanh form is lowered to several operators.
        exact = layer.attributes.get("approximate", "none") == "none"
        return read[0] if exact else PLAIN
    if layer.op not in _KEEPING_ALL or layer.attributes.get("axis", 1) != 1:
        return PLAIN
    if layer.op != "Concat":
        if len({model.tensors[name].shape for name in layer.inputs}) > 1:
            return PLAIN
        # The sum reuses the memory and the layout of an input without other readers.
        replaced = (name for name in layer.inputs if _is_handed_over(model, name))
        if (name := next(replaced, None)) is not None:
            return layouts.get(name, PLAIN)
    # oneDNN adopts the first blocked layout, or else the first layout.
    return next((layout for layout in read if layout not in (PLAIN, LAST)), read[0])


def _is_handed_over(model: CanonicalModel, name: str) -> bool:
    """Whether a reader may overwrite a tensor, because no other layer needs it."""
    if name not in model.producers or name in model.output_names:
        return False
    return len(model.consumers[name]) == 1
