"""Repeated modules, outlines and critical paths."""

import itertools

import networkx as nx
import numpy as np
import pytest
from dlbricks_graph import modules as modules_room
from dlbricks_graph.costs import Basis, LayerCosts, critical_path
from dlbricks_graph.modules import ModuleWiring, repeated_modules
from dlbricks_graph.outline import Chain, Repeated, Terminal, outline
from hypothesis import example, given
from hypothesis import strategies as st

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
        for each in repeated_modules(cut(model)).found
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


@pytest.mark.long
@pytest.mark.parametrize("back", [1, 2])
def test_a_long_recurrence_is_one_module(builder, back):
    b = builder()
    states = [b.input, b.add("Sigmoid", b.input)]
    for _ in range(1000):
        states.append(b.relu(b.add("Add", states[-1], states[-back])))
    (found,) = repeated_modules(cut(b.model())).found
    assert (found.period, found.end) == (2, 2001 if back == 1 else 2000)


def wiring(kinds, links, read_outside):
    """Wiring of layers by the producers that each reads."""
    readers = [[j for j, read in enumerate(links) if i in read] for i in range(len(kinds))]
    last = [max(each, default=i) for i, each in enumerate(readers)]
    for i in read_outside:
        last[i] = len(kinds)
    counts = np.array([len(read) for read in links])
    names = [(kind, len(read)) for kind, read in zip(kinds, links, strict=True)]
    return ModuleWiring(
        np.array([sorted(set(names)).index(name) for name in names], dtype=np.int32),
        np.array([a for read in links for a in read], dtype=np.int64),
        np.repeat(np.arange(len(kinds)), counts),
        np.cumsum(counts) - counts,
        np.array(last, dtype=np.int64),
    )


def run_at(kinds, links, last, start, period):
    """Copies, entries, and whether they are in a row, from the definition; None without a run."""
    size, entered = len(kinds), {}

    def alike(i, first):
        j = i + period
        if j >= size or kinds[i] != kinds[j] or len(links[i]) != len(links[j]):
            return False
        for a, b in zip(links[i], links[j], strict=True):
            if a >= start:
                if b != a + period:
                    return False
            elif not first:
                if b != a:
                    return False
            elif (b != a and not start <= b < start + period) or entered.setdefault(a, b) != b:
                return False
        return True

    if not all(alike(i, True) for i in range(start, start + period)):
        return None
    if len(set(entered.values())) < len(entered):
        return None
    in_a_row = any(a != b for a, b in entered.items())

    def closed(copy):
        own = range(start + copy * period, start + (copy + 1) * period)
        return not in_a_row or all(last[i] < own.stop + period for i in own)

    if not closed(0):
        return None
    copies = 2
    while closed(copies - 1) and all(
        alike(start + (copies - 1) * period + i, False) for i in range(period)
    ):
        copies += 1
    return copies, len(entered), in_a_row


@st.composite
def wired(draw):
    """Layers of few kinds whose links repeat, but for a few."""
    period, size = draw(st.integers(1, 4)), draw(st.integers(2, 16))
    steps = draw(
        st.lists(st.lists(st.integers(1, 5), max_size=2), min_size=period, max_size=period)
    )
    kinds = [draw(st.sampled_from("ab")) for _ in range(period)]
    links = [[max(i - step, -1 - step % 2) for step in steps[i % period]] for i in range(size)]
    for _ in range(draw(st.integers(0, 2))):
        i = draw(st.integers(0, size - 1))
        links[i] = draw(st.lists(st.integers(-2, i - 1), max_size=2))
    outside = draw(st.lists(st.integers(0, size - 1), max_size=2))
    return [kinds[i % period] for i in range(size)], links, outside


@given(wired(), st.integers(1, 6))
@example(("ababab", [[-1], [0], [-1], [2], [-1], [2]], []), 2)
def test_runs_are_those_of_the_definition(layers, period):
    kinds, links, _ = layers
    if period > len(kinds) // 2:
        return
    made = wiring(*layers)
    last = made.last_readers.tolist()
    expected = {
        start: found
        for start in range(len(kinds) - 2 * period + 1)
        if (found := run_at(kinds, links, last, start, period))
    }
    alike = made.alike(period)
    if alike is None:
        assert not expected
        return
    runs = made.runs(alike)
    found = zip(runs.copies.tolist(), runs.entries.tolist(), runs.in_a_row.tolist(), strict=True)
    assert dict(zip(runs.starts.tolist(), found, strict=True)) == expected


@pytest.mark.parametrize(
    ("limit", "left"),
    [("MOST_COMPARISONS", []), ("MOST_VISITS", [(0, 2, 3, True), (7, 2, 3, True)])],
)
def test_a_search_that_ends_at_its_limit_is_named(builder, monkeypatch, limit, left):
    b = builder()
    x = b.input
    for _ in range(2):
        for _ in range(3):
            x = b.relu(b.conv(x))
        x = b.add("Tanh", x)
    b.add("Sigmoid", x)
    model = b.model()
    assert repeated_modules(cut(model)).complete
    monkeypatch.setattr(modules_room, limit, 0)
    assert not repeated_modules(cut(model)).complete
    assert modules(model) == left
    assert not any(each.inside for each in repeated_modules(cut(model)).found)


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
    (outer,) = repeated_modules(cut(model)).found
    assert (outer.start, outer.period, outer.copies, outer.drawn) == (0, 7, 2, 3)
    (inner,) = outer.inside
    assert (inner.start, inner.period, inner.copies) == (0, 2, 3)
    whole = outline(model, [outer])
    (node,) = [each for each in whole.nodes if isinstance(each, Repeated)]
    (nested,) = [each for each in node.inside.nodes if isinstance(each, Repeated)]
    assert node.starts == (0, 7)
    edges = [each for each in node.inside.nodes if isinstance(each, Terminal)]
    assert edges == [Terminal("", True), Terminal("", False)]
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
    candidates, _ = modules_room._candidates(ModuleWiring.of(cut(b.model())))
    assert [each.period for held in candidates.values() for each in held] == [1] * 1499


def test_the_residual_stages_of_a_real_network_are_found():
    model = network("resnet50")
    found = repeated_modules(cut(model)).found
    # Blocks 3, 4, 6, 3, of which the first in each stage changes the shape.
    assert [(each.period, each.copies) for each in found] == [(10, 2), (10, 3), (10, 5), (10, 2)]
    assert all(each.entries == 1 and each.in_a_row for each in found)
    assert all(model.layers[each.end - 1].op == "Relu" for each in found)


@pytest.mark.parametrize("name", ["resnet50", "shufflenet", "inception_v1", "vgg19", "squeezenet"])
def test_an_outline_holds_every_layer_once_and_every_edge(name):
    model = network(name)
    found = repeated_modules(cut(model)).found
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
