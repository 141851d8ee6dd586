"""Lowering of whole networks: layers in order, with the table of operators."""

from __future__ import annotations

from dlbricks_contrib.expand import expanded
from torch import fx

from dlbricks_core.backends import Network
from dlbricks_core.errors import UnsupportedError
from dlbricks_pytorch.lowering import families as families  # fills the table
from dlbricks_pytorch.lowering.context import GraphBuilder
from dlbricks_pytorch.lowering.table import LOWERINGS, lower_layer
from dlbricks_pytorch.lowering.trial import TypeTrial


def lower(network: Network) -> fx.GraphModule:
    """Lowers a network to a torch module.

    Args:
        network: Network in canonical form. Operators without a counterpart in torch are composed
            from their definitions.

    Returns:
        Module with inputs and outputs in the model's order.

    Raises:
        UnsupportedError: If torch has no exact counterpart for a layer.
    """
    whole = expanded(network.model, LOWERINGS)
    model = whole.model
    builder = GraphBuilder(model, whole.network(network).weights)
    for name in model.inputs:
        builder.add_input(name)
    trial = TypeTrial(model)
    for layer, origin in zip(model.layers, whole.origins, strict=True):
        builder.origin = network.model.layers[origin]
        refusal = trial.refusal(layer)
        if refusal:
            raise UnsupportedError(refusal)
        lower_layer(builder, layer)
    builder.graph.output(tuple(builder.node(name) for name in model.outputs))
    return fx.GraphModule(builder.root, builder.graph, class_name="Network")
