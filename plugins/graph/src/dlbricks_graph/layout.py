"""Places of layers in a drawing."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx

Point = tuple[float, float]

_ROW_GAP, _COLUMN_GAP, _BEND_WIDTH = 30.0, 22.0, 10.0  #: In pixels.
_SWEEPS = 12  #: Passes over all rows that put the boxes of a row in order.
_STRAIGHT = 8  #: Weight of an edge's straightness at a bend, relative to that at a box.


@dataclass(frozen=True)
class Layout:
    """Positions of boxes and edges, in pixels."""

    width: float  #: Width of the whole layout.
    height: float  #: Height of the whole layout.
    places: Sequence[Point]  #: Upper left corner of every box.
    #: Points of every edge, from the lower side of one box to the upper side of the other. Rows
    #: begin and end at these points in turn.
    routes: Mapping[tuple[int, int], Sequence[Point]]


@dataclass(frozen=True)
class Box:
    """Size of a vertex, in pixels."""

    width: float  #: Width of the box.
    height: float  #: Height of the box.
    enter: float = 0.0  #: Position at which edges enter the upper side, relative to its middle.
    leave: float = 0.0  #: Position at which edges leave the lower side, relative to its middle.


_BEND = Box(_BEND_WIDTH, 0.0)


def layered(boxes: Sequence[Box], edges: Iterable[tuple[int, int]]) -> Layout:
    """Layout of a graph."""
    graph = _graph(len(boxes), edges)
    bent, ranks, bends = _with_bends(graph)
    rows = _ordered(bent, ranks)
    every = [*boxes, *[_BEND] * (len(bent) - len(boxes))]
    centres = _centres(bent, rows, every, first_bend=len(boxes))
    left = min((centres[v] - every[v].width / 2 for v in bent), default=0.0)
    right = max((centres[v] + every[v].width / 2 for v in bent), default=0.0)
    heights = [max(every[v].height for v in row) for row in rows]
    tops = [sum(heights[:i]) + i * _ROW_GAP for i in range(len(rows))]
    bottoms = [top + height for top, height in zip(tops, heights, strict=True)]
    middles = [(top + bottom) / 2 for top, bottom in zip(tops, bottoms, strict=True)]
    places = [
        (centres[v] - box.width / 2 - left, middles[ranks[v]] - box.height / 2)
        for v, box in enumerate(boxes)
    ]
    routes = {}
    for (a, b), between in bends.items():
        x = centres[a] + boxes[a].leave - left
        points = [(x, places[a][1] + boxes[a].height), (x, bottoms[ranks[a]])]
        for v in between:
            points += [(centres[v] - left, y) for y in (tops[ranks[v]], bottoms[ranks[v]])]
        x = centres[b] + boxes[b].enter - left
        routes[a, b] = [*points, (x, tops[ranks[b]]), (x, places[b][1])]
    return Layout(right - left, bottoms[-1] if rows else 0.0, places, routes)


def extent(vertices: int, edges: Iterable[tuple[int, int]]) -> int:
    """Number of vertices, edges and bends of a layout, without making it."""
    graph = _graph(vertices, edges)
    ranks, _ = _ranks(graph)
    bends = sum(ranks[b] - ranks[a] - 1 for a, b in graph.edges)
    return vertices + int(graph.number_of_edges()) + bends


def _graph(vertices: int, edges: Iterable[tuple[int, int]]) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(vertices))
    graph.add_edges_from(edges)
    return graph


def _with_bends(
    graph: nx.DiGraph,
) -> tuple[nx.DiGraph, dict[int, int], dict[tuple[int, int], list[int]]]:
    """The graph with a new vertex in each row that an edge passes, and the rows of all vertices."""
    ranks, order = _ranks(graph)
    bent = nx.DiGraph()
    bent.add_nodes_from(order)
    bends: dict[tuple[int, int], list[int]] = {}
    for a, b in graph.edges:
        between = []
        for rank in range(ranks[a] + 1, ranks[b]):
            v = len(bent)
            ranks[v] = rank
            bent.add_node(v)
            between.append(v)
        nx.add_path(bent, [a, *between, b])
        bends[a, b] = between
    return bent, ranks, bends


def _ranks(graph: nx.DiGraph) -> tuple[dict[int, int], list[int]]:
    """Row of each vertex, and the vertices in topological order."""
    ranks: dict[int, int] = {}
    order = list(nx.lexicographical_topological_sort(graph))
    for v in order:
        ranks[v] = max((ranks[u] + 1 for u in graph.predecessors(v)), default=0)
    for v in reversed(order):
        # A vertex without inputs is placed just above its first reader.
        if not graph.in_degree(v) and graph.out_degree(v):
            ranks[v] = min(ranks[w] for w in graph.successors(v)) - 1
    return ranks, order


def _ordered(graph: nx.DiGraph, ranks: Mapping[int, int]) -> list[list[int]]:
    """Vertices of each row from left to right, ordered so that few edges cross."""
    rows: list[list[int]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for v in nx.dfs_preorder_nodes(graph.to_undirected(as_view=True)):
        rows[ranks[v]].append(v)
    best, fewest = [list(row) for row in rows], _crossings(graph, rows)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        neighbours = graph.pred if down else graph.succ
        for i in range(1, len(rows)) if down else reversed(range(len(rows) - 1)):
            beside = {v: x for x, v in enumerate(rows[i - 1 if down else i + 1])}
            own = {v: x for x, v in enumerate(rows[i])}
            near = {v: [beside[n] for n in neighbours[v]] for v in rows[i]}
            keys = {v: sum(x) / len(x) if x else own[v] for v, x in near.items()}
            rows[i].sort(key=keys.__getitem__)
        crossings = _crossings(graph, rows)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _crossings(graph: nx.DiGraph, rows: Sequence[Sequence[int]]) -> int:
    count = 0
    for upper, lower in pairwise(rows):
        place = {v: x for x, v in enumerate(lower)}
        passed: list[int] = []
        for v in upper:
            ends = sorted(place[w] for w in graph.succ[v])
            count += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return count


def _centres(
    graph: nx.DiGraph, rows: Sequence[Sequence[int]], boxes: Sequence[Box], first_bend: int
) -> dict[int, float]:
    """Middle of each vertex: as near to its neighbours as possible without overlap."""
    offsets: dict[int, float] = {}
    for row in rows:
        x = 0.0
        for i, v in enumerate(row):
            x += boxes[v].width / 2 + (boxes[row[i - 1]].width / 2 + _COLUMN_GAP if i else 0.0)
            offsets[v] = x
    centres = {v: offsets[v] - offsets[row[-1]] / 2 for row in rows for v in row}

    def pull(v: int, w: int) -> float:
        return float(_STRAIGHT ** ((v >= first_bend) + (w >= first_bend)))

    def above(v: int) -> list[tuple[float, float]]:
        return [(centres[w] + boxes[w].leave - boxes[v].enter, pull(v, w)) for w in graph.pred[v]]

    def below(v: int) -> list[tuple[float, float]]:
        return [(centres[w] + boxes[w].enter - boxes[v].leave, pull(v, w)) for w in graph.succ[v]]

    for sweep in range(2 * _SWEEPS):
        both = sweep >= 2 * _SWEEPS - 2
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wishes, weights = [], []
            for v in row:
                near = above(v) if sweep % 2 == 0 else below(v)
                near = [*above(v), *below(v)] if both or not near else near
                total = sum(weight for _, weight in near)
                wish = sum(x * weight for x, weight in near) / total if near else centres[v]
                wishes.append(wish - offsets[v])
                weights.append(total or 1e-3)
            for v, x in zip(row, _ascending(wishes, weights), strict=True):
                centres[v] = x + offsets[v]
    return centres


def _ascending(wishes: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Ascending numbers nearest to the wishes by weighted least squares (adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []
    for wish, weight in zip(wishes, weights, strict=True):
        value, total, count = wish, weight, 1
        while blocks and blocks[-1][0] > value:
            before, mass, members = blocks.pop()
            value = (before * mass + value * total) / (mass + total)
            total, count = mass + total, members + count
        blocks.append((value, total, count))
    return [value for value, _, count in blocks for _ in range(count)]
