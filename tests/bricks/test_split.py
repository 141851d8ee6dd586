import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlbricks_core.bricks import BrickSet, split
from dlbricks_core.bricks import split as split_function
from dlbricks_core.bricks.signature import outer_inputs
from dlbricks_core.bricks.split import STRATEGIES
from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec, layer_graph
from dlbricks_core.passes import normalize

SPEC = TensorSpec("float32", (2, 3))


@st.composite
def random_models(draw):
    """DAGs whose layers read one to three of the tensors before them."""
    count = draw(st.integers(1, 24))
    tensors = {"in": SPEC}
    layers = []
    for i in range(count):
        names = list(tensors)
        # Mostly the newest tensors, so that chains, branches and joins all occur.
        recent = names[-draw(st.integers(1, 4)) :]
        inputs = draw(st.lists(st.sampled_from(recent), min_size=1, max_size=3))
        op = {1: "Relu", 2: "Add"}.get(len(inputs), "Sum")
        layers.append(Layer(op, tuple(inputs), (f"t{i}",)))
        tensors[f"t{i}"] = SPEC
    return CanonicalModel("random", tuple(layers), ("in",), (f"t{count - 1}",), tensors)


def check_cut(model, sequences, granularity):
    """Exact cover by short simple paths that need nothing from beside them."""
    assert sorted(i for s in sequences for i in s) == list(range(len(model.layers)))
    graph = layer_graph(model)
    for sequence in sequences:
        assert 1 <= len(sequence) <= granularity
        assert nx.is_simple_path(graph, sequence)
        first = set(model.activations(model.layers[sequence[0]]))
        assert set(outer_inputs(model, sequence)) <= first


@pytest.mark.long
@given(random_models(), st.integers(1, 12))
@settings(max_examples=100)
def test_chain_covers_every_layer_of_random_graphs_exactly_once(model, granularity):
    sequences = split(model, granularity)
    check_cut(model, sequences, granularity)
    assert sequences == split(model, granularity)


@given(random_models())
@settings(max_examples=30)
def test_granularity_one_is_layer_by_layer(model):
    assert split(model, 1) == tuple((i,) for i in range(len(model.layers)))


@pytest.mark.parametrize("name", LightModels().names())
def test_chain_covers_real_networks(name):
    model = normalize(LightModels().load(name))
    for granularity in (1, 2, 3, 5, 10, len(model.layers)):
        check_cut(model, split(model, granularity), granularity)


def test_a_linear_model_is_cut_into_full_windows(builder):
    b = builder()
    x = b.input
    for _ in range(7):
        x = b.relu(x)
    assert split(b.model(), 3) == ((0, 1, 2), (3, 4, 5), (6,))


def test_a_join_from_outside_starts_a_sequence_of_its_own(residual):
    # conv, relu, conv, add (reads the model's input too), relu
    assert split(residual(), 3) == ((0, 1, 2), (3, 4))
    # The window of four fails at the add: the paper emits its first layer alone.
    assert split(residual(), 4) == ((0,), (1,), (2,), (3, 4))


def test_a_join_inside_the_window_stays_in_one_sequence(builder):
    b = builder()
    x = b.conv(b.input)
    b.sum(x, b.relu(x))
    assert split(b.model(), 3) == ((0, 1, 2),)


def test_opaque_layers_stand_alone(builder):
    b = builder()
    b.relu(b.relu(b.input))
    model = b.model()
    opaque = Layer("Loop", model.layers[0].inputs, model.layers[0].outputs, opaque="subgraph")
    broken = CanonicalModel(
        "m", (opaque, model.layers[1]), model.inputs, model.outputs, model.tensors
    )
    assert split(broken, 2) == ((0,), (1,))


def test_granularity_zero_and_unknown_strategies_are_refused(residual):
    with pytest.raises(DLBricksError, match="granularity 0"):
        split(residual(), 0)
    with pytest.raises(DLBricksError, match="'nonsense'"):
        split(residual(), 2, "nonsense")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda model, g: [(0,)],
        lambda model, g: [(i,) for i in range(len(model.layers))] + [(0,)],
        lambda model, g: [tuple(range(len(model.layers)))],
    ],
    ids=["leaves out", "overlaps", "too long"],
)
def test_a_strategy_that_leaves_layers_out_is_refused(monkeypatch, residual, wrong):
    monkeypatch.setitem(STRATEGIES, "wrong", wrong)
    with pytest.raises(DLBricksError, match="did not cover"):
        split_function(residual(), 2, "wrong")


def test_brickset_uses_the_strategy_by_name(monkeypatch, residual):
    monkeypatch.setitem(
        STRATEGIES, "reversed", lambda m, g: [(i,) for i in reversed(range(len(m.layers)))]
    )
    cut = BrickSet(1, "reversed").add(residual())
    assert [o.layers for o in cut.occurrences] == [(4,), (3,), (2,), (1,), (0,)]
