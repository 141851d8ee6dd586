"""Graphs of layers for networkx, which has the algorithms."""

from __future__ import annotations

import networkx as nx

from dlbricks_core.ir.model import CanonicalModel


def layer_graph(model: CanonicalModel) -> nx.DiGraph:
    """Directed graph of layer indices, with an edge from each producer to each consumer."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(model.layers)))
    for tensor, producer in model.producers.items():
        graph.add_edges_from((producer, reader) for reader in model.consumers.get(tensor, ()))
    return graph
