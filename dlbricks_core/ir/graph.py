"""Graphs of layers for networkx, which has the algorithms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.ir.model import CanonicalModel

if TYPE_CHECKING:
    import networkx as nx


def layer_graph(model: CanonicalModel) -> nx.DiGraph:
    """Directed graph of layer indices, with an edge from each producer to each consumer."""
    import networkx as nx  # slow to import, and few commands need it

    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(model.layers)))
    for tensor, producer in model.producers.items():
        graph.add_edges_from((producer, reader) for reader in model.consumers.get(tensor, ()))
    return graph
