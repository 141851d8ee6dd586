"""Boxes do not overlap, and edges lead down around them."""

import itertools
import random

import pytest
from dlbricks_graph.layout import Box, extent, layered


def overlap(a, at, b, bt):
    (ax, ay), (bx, by) = at, bt
    return (
        ax < bx + b.width - 1e-6
        and bx < ax + a.width - 1e-6
        and ay < by + b.height - 1e-6
        and by < ay + a.height - 1e-6
    )


@pytest.mark.parametrize("seed", range(20))
def test_boxes_of_random_graphs_do_not_overlap_and_edges_pass_between_them(seed):
    chance = random.Random(seed)
    count = chance.randrange(1, 30)
    boxes = [Box(chance.uniform(20, 200), chance.uniform(10, 60)) for _ in range(count)]
    edges = {
        (a, b) for a in range(count) for b in range(a + 1, count) if chance.random() < 2 / count
    }
    layout = layered(boxes, edges)
    for (a, at), (b, bt) in itertools.combinations(zip(boxes, layout.places, strict=True), 2):
        assert not overlap(a, at, b, bt)
    for box, (x, y) in zip(boxes, layout.places, strict=True):
        assert -1e-6 <= x <= layout.width - box.width + 1e-6
        assert -1e-6 <= y <= layout.height - box.height + 1e-6
    assert set(layout.routes) == edges
    for (a, b), points in layout.routes.items():
        (x, y), (to_x, to_y) = points[0], points[-1]
        assert x == pytest.approx(layout.places[a][0] + boxes[a].width / 2)
        assert y == pytest.approx(layout.places[a][1] + boxes[a].height)
        assert to_x == pytest.approx(layout.places[b][0] + boxes[b].width / 2)
        assert to_y == pytest.approx(layout.places[b][1])
        assert all(one[1] <= two[1] + 1e-6 for one, two in itertools.pairwise(points))
        # Where an edge passes a row, it passes between the boxes.
        for (x, top), (_, bottom) in zip(points[::2], points[1::2], strict=True):
            for v, (left, upper) in enumerate(layout.places):
                if v not in (a, b) and upper < bottom - 1e-6 and upper + boxes[v].height > top:
                    assert not left + 1e-6 < x < left + boxes[v].width - 1e-6


def test_graphs_that_need_no_crossings_have_none():
    edges = [
        *[(0, 1), (0, 2), (0, 3), (1, 5), (1, 7), (2, 7), (3, 4), (3, 5), (3, 6)],
        *[(4, 8), (6, 8), (6, 9), (6, 10), (7, 9)],
    ]
    places = layered([Box(50, 20)] * 11, edges).places
    for (a, b), (c, d) in itertools.combinations(edges, 2):
        if places[a][1] == places[c][1]:
            above, below = places[a][0] - places[c][0], places[b][0] - places[d][0]
            assert above * below >= 0


def test_edges_enter_and_leave_where_the_box_says():
    boxes = [Box(40, 10), Box(200, 50, enter=60, leave=-30), Box(40, 10)]
    layout = layered(boxes, [(0, 1), (1, 2)])
    middle = layout.places[1][0] + 100
    assert layout.routes[0, 1][-1][0] == pytest.approx(middle + 60)
    assert layout.routes[1, 2][0][0] == pytest.approx(middle - 30)
    for points in layout.routes.values():
        assert len({round(x, 3) for x, _ in points}) == 1


def test_an_empty_graph_has_an_empty_layout():
    assert layered([], []).places == []


@pytest.mark.parametrize("seed", range(10))
def test_the_extent_is_that_of_the_layout(seed):
    chance = random.Random(seed)
    count = chance.randrange(1, 30)
    edges = {(a, b) for a in range(count) for b in range(a + 1, count) if chance.random() < 0.1}
    routes = layered([Box(20, 10)] * count, edges).routes
    # Two points at each end, and two in each row that the edge passes.
    bends = sum((len(points) - 4) // 2 for points in routes.values())
    assert extent(count, edges) == count + len(edges) + bends


def test_the_extent_of_a_chain_with_short_cuts_grows_with_the_square():
    edges = [(i, i + 1) for i in range(3000)] + [(i, 3000) for i in range(2999)]
    assert extent(3001, edges) > 4_000_000
