"""What annotations of a model do: they travel with bricks and tell them from others."""

import pickle

from dlbricks_core.bricks import (
    BrickSet,
    extract,
    native,
    native_to,
    signature,
    weights_are_reread,
)
from dlbricks_core.bricks.signature import with_weights_reread


def test_annotations_travel_with_a_brick(residual):
    graph = with_weights_reread(native(residual().as_raw(), "some", {}))
    brick = pickle.loads(pickle.dumps(extract(graph, (0,), "brick")))
    assert native_to(brick) == "some"
    assert weights_are_reread(brick)


def test_a_canonical_model_has_no_annotations(residual):
    model = residual()
    assert native_to(model) == ""
    assert not weights_are_reread(model)


def test_other_annotations_make_another_brick(residual):
    model = residual()
    graphs = [model, native(model.as_raw(), "some", {}), native(model.as_raw(), "other", {})]
    graphs += [with_weights_reread(graph) for graph in graphs]
    assert len({signature(graph, (0,)) for graph in graphs}) == len(graphs)


def test_bricks_of_a_rewritten_graph_are_marked_as_native(residual):
    model = residual()
    made = native(model.as_raw(), "some", model.constants)
    cut = BrickSet.of([model, model], rewritten={1: made})
    assert [each.graph for each in cut.models] == [model, made]
    assert {native_to(brick.model) for brick in cut.bricks.values()} == {"", "some"}
