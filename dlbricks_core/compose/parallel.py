"""The critical path."""

from __future__ import annotations

from collections.abc import Mapping

import networkx as nx
import numpy as np

from dlbricks_core.bricks import CutModel
from dlbricks_core.compose.base import Composer
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.ir import layer_graph


class Parallel(Composer):
    """Latency of the most expensive path through the model's bricks.

    It bounds the latency of a framework that runs independent layers at the same time.
    Source: Li et al., ICPE 2020, section on latency construction.
    """

    name = "parallel"
    is_bound = True

    def total(self, cut: CutModel, costs: Mapping[str, FloatArray]) -> FloatArray:
        """Largest sum over all paths, in milliseconds, for each replicate."""
        graph = brick_graph(cut)
        finish: dict[int, FloatArray] = {}
        latest = np.zeros(1)
        for vertex in nx.topological_sort(graph):
            start = np.zeros(1)
            for before in graph.predecessors(vertex):
                start = np.maximum(start, finish[before])
            finish[vertex] = start + costs[cut.occurrences[vertex].signature]
            latest = np.maximum(latest, finish[vertex])
        return latest


def brick_graph(cut: CutModel) -> nx.DiGraph:
    """Directed graph with the positions of occurrences as vertices; edges are data dependencies."""
    owner = {layer: i for i, each in enumerate(cut.occurrences) for layer in each.layers}
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(cut.occurrences)))
    edges = ((owner[u], owner[v]) for u, v in layer_graph(cut.graph).edges)
    graph.add_edges_from((u, v) for u, v in edges if u != v)
    return graph
