"""Repeated modules, outlines and critical paths."""

import itertools

import networkx as nx
import pytest

from dlbricks_core.analysis import (
    Basis,
    Chain,
    LayerCosts,
    Repeated,
    Terminal,
    critical_path,
    outline,
    repeated_modules,
)
from dlbricks_core.analysis import modules as modules_room
from dlbricks_core.bricks import BrickSet
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import layer_graph
from dlbricks_core.passes import normalize


def cut(model):
    (found,) = BrickSet.of([model]).models
    return found


def block(b, x):
    """relu(conv(relu(conv(x))) + x): five layers."""
    return b.relu(b.sum(b.conv(b.relu(b.conv(x))), x))


def modules(model):
    return [
        (each.start, each.period, each.copies, each.in_a_row)
        for each in repeated_modules(cut(model))
    ]


def network(name):
    return normalize(LightModels().load(name))


def test_equal_blocks_in_a_row_are_found_after_one_that_differs(builder):
    b = builder()
    x = b.relu(b.conv(b.input, kernel=1))
    for _ in range(4):
        x = block(b, x)
    b.add("Sigmoid", x)
    assert modules(b.model()) == [(2, 5, 4, True)]


@pytest.mark.parametrize(("skip", "periods"), [("before", [5]), ("input", [2])])
def test_blocks_with_other_wiring_are_not_equal(builder, skip, periods):
    b = builder()
    first = block(b, b.add("Sigmoid", b.input))
    conv = b.conv(b.relu(b.conv(first)))
    second = b.relu(b.sum(conv, first if skip == "before" else b.input))
    block(b, second)
    assert [period for _, period, *_ in modules(b.model())] == periods


def test_copies_may_all_read_one_tensor(builder):
    b = builder()
    mask = b.add("Sigmoid", b.input)
    x = b.add("Tanh", mask)
    for _ in range(3):
        x = b.relu(b.add("Mul", x, mask))
    assert modules(b.model()) == [(2, 2, 3, True)]


@pytest.mark.parametrize("back", [1, 2])
def test_a_long_recurrence_is_searched_in_linear_time(builder, monkeypatch, back):
    b = builder()
    states = [b.input, b.add("Sigmoid", b.input)]
    for _ in range(1000):
        states.append(b.relu(b.add("Add", states[-1], states[-back])))
    looks = []
    goes_on = modules_room._Wiring.goes_on
    monkeypatch.setattr(
        modules_room._Wiring, "goes_on", lambda *a, **k: looks.append(1) or goes_on(*a, **k)
    )
    (found,) = repeated_modules(cut(b.model()))
    assert (found.period, found.end) == (2, 2001 if back == 1 else 2000)
    assert len(looks) < 20 * 2001


def test_copies_side_by_side_are_found(builder):
    b = builder()
    x = b.add("Sigmoid", b.input)
    branches = [b.relu(b.conv(x)) for _ in range(3)]
    b.add("Sum", *branches)
    assert modules(b.model()) == [(1, 2, 3, False)]


def test_a_tensor_that_other_layers_read_ends_a_run(builder):
    b = builder()
    x = b.input
    read = []
    for _ in range(6):
        x = b.relu(b.conv(x))
        read.append(x)
    b.add("Sum", read[2], read[5])
    # The third copy is read from outside: the run ends there and the next one begins.
    assert modules(b.model()) == [(0, 2, 3, True), (6, 2, 3, True)]
    assert modules(b.model(read[3], "sum12")) != modules(b.model())


def test_modules_inside_of_modules_are_found(builder):
    b = builder()
    x = b.input
    for _ in range(2):
        for _ in range(3):
            x = b.relu(b.conv(x))
        x = b.add("Tanh", x)
    model = b.model()
    (outer,) = repeated_modules(cut(model))
    assert (outer.start, outer.period, outer.copies, outer.drawn) == (0, 7, 2, 3)
    (inner,) = outer.inside
    assert (inner.start, inner.period, inner.copies) == (0, 2, 3)
    whole = outline(model, [outer])
    (node,) = [each for each in whole.nodes if isinstance(each, Repeated)]
    (nested,) = [each for each in node.inside.nodes if isinstance(each, Repeated)]
    assert node.starts == (0, 7)
    assert nested.starts == (0, 2, 4, 7, 9, 11)
    (chain,) = [each for each in nested.inside.nodes if isinstance(each, Chain)]
    assert chain.steps == ((0, 2, 4, 7, 9, 11), (1, 3, 5, 8, 10, 12))


def test_the_runs_that_leave_the_fewest_layers_are_taken(builder):
    b = builder()
    x = b.input
    # Two equal layers at the start of each copy: pairs alone would leave more layers.
    for _ in range(3):
        x = b.add("Tanh", b.relu(b.relu(x)))
    assert modules(b.model()) == [(0, 3, 3, True)]


def test_many_equal_layers_are_searched_quickly(builder):
    b = builder()
    x = b.input
    for _ in range(1500):
        x = b.relu(x)
    assert modules(b.model()) == [(0, 1, 1500, True)]


def test_the_residual_stages_of_a_real_network_are_found():
    model = network("resnet50")
    found = repeated_modules(cut(model))
    # Blocks 3, 4, 6, 3, of which the first in each stage changes the shape.
    assert [(each.period, each.copies) for each in found] == [(10, 2), (10, 3), (10, 5), (10, 2)]
    assert all(each.entries == 1 and each.in_a_row for each in found)
    assert all(model.layers[each.end - 1].op == "Relu" for each in found)


@pytest.mark.parametrize("name", ["resnet50", "shufflenet", "inception_v1", "vgg19", "squeezenet"])
def test_an_outline_holds_every_layer_once_and_every_edge(name):
    model = network(name)
    found = repeated_modules(cut(model))
    whole = outline(model, found)
    layers, pairs = [], set()

    def walk(part):
        graph = nx.DiGraph(list(part.edges))
        assert nx.is_directed_acyclic_graph(graph)
        assert all(a < b for a, b in part.edges)
        for held in part.edges.values():
            pairs.update(held)
        for node in part.nodes:
            if isinstance(node, Chain):
                layers.extend(i for step in node.steps for i in step)
                for copy in zip(*node.steps, strict=True):
                    pairs.update(itertools.pairwise(copy))
            elif isinstance(node, Repeated):
                walk(node.inside)

    walk(whole)
    assert sorted(layers) == list(range(len(model.layers)))
    assert set(layer_graph(model).edges) <= pairs
    terminals = [node.tensor for node in whole.nodes if isinstance(node, Terminal)]
    assert terminals == [*model.inputs, *model.outputs]


def longest(model, values):
    """The largest sum over all paths, by networkx."""
    graph = nx.DiGraph()
    graph.add_nodes_from([-1, len(values)])
    for a, b in layer_graph(model).edges:
        graph.add_edge(a, b, weight=values[b])
    for i, value in enumerate(values):
        graph.add_edge(-1, i, weight=value)
    return nx.dag_longest_path_length(graph)


@pytest.mark.parametrize("name", ["resnet50", "inception_v1", "squeezenet", "shufflenet"])
def test_critical_paths_are_those_of_networkx(name):
    model = network(name)
    found = cut(model)
    latencies = {s: 1 + i % 7 for i, s in enumerate(dict.fromkeys(found.layer_signatures))}
    for costs in (LayerCosts.of(found), LayerCosts.of(found, latencies)):
        path = critical_path(model, costs)
        graph = layer_graph(model)
        assert nx.is_path(graph, path)
        assert (graph.in_degree(path[0]), graph.out_degree(path[-1])) == (0, 0)
        assert costs.total(path) == pytest.approx(longest(model, costs.values))
        assert costs.total(path) < costs.total()


def test_costs_say_what_they_rest_on(builder, residual):
    model = residual()
    found = cut(model)
    operations = LayerCosts.of(found)
    assert (operations.basis, operations.values[1]) == (Basis.FLOPS, 144)
    relu = found.layer_signatures[1]
    measured = LayerCosts.of(found, {relu: 2.5})
    assert measured.basis is Basis.LATENCY
    assert measured.values == (None, 2.5, None, None, 2.5)
    assert measured.missing(model) == {"Conv": 2, "Add": 1}
    assert LayerCosts.of(found, {"another": 1.0}).basis is Basis.FLOPS
    b = builder()
    b.add("NoSuch", b.add("NoSuch", b.input))
    counted = LayerCosts.of(cut(b.model()))
    assert (counted.basis, counted.values) == (Basis.LAYERS, (1.0, 1.0))


def test_the_more_expensive_branch_is_critical(residual):
    model = residual()
    path = critical_path(model, LayerCosts(Basis.LATENCY, (1.0,) * 5))
    assert path == (0, 1, 2, 3, 4)
    assert critical_path(model, LayerCosts(Basis.LATENCY, (0.0, 0.0, 0.0, 1.0, 1.0))) == (
        0,
        1,
        2,
        3,
        4,
    )
