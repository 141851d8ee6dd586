import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Parallel, Sequential, dependencies
from dlbricks_core.compose.segmented import Segmented
from dlbricks_core.errors import PluginError
from dlbricks_core.figures.figure import Measured, interval
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

PROTOCOL = PROTOCOLS["interleaved"]
OPERATORS = ("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Exp")
SPEC = TensorSpec("float32", (2,))


def dag(edges, count):
    """Layers with distinct operators; layer 0 reads the input, others their predecessors."""
    layers = []
    for i in range(count):
        before = [f"t{a}" for a, b in edges if b == i] or ["in"]
        layers.append(Layer(f"Op{i}", tuple(before), (f"t{i}",)))
    tensors = {"in": SPEC} | {f"t{i}": SPEC for i in range(count)}
    used = {a for a, _ in edges}
    outputs = tuple(f"t{i}" for i in range(count) if i not in used)
    return CanonicalModel("dag", tuple(layers), ("in",), outputs, tensors)


def exact(ms, overhead=0.0):
    return Measured((ms,) * 5, PROTOCOL, overhead)


def cut_with(model, costs, overhead=0.0):
    cut = BrickSet.of([model]).models[0]
    latencies = {
        o.signature: exact(costs[o.layers[0]], overhead)
        for o in cut.occurrences
        if costs[o.layers[0]] is not None
    }
    return cut, latencies


def test_sequential_is_the_sum_and_parallel_the_critical_path():
    # 0 -> 1 -> 3 and 0 -> 2 -> 3
    model = dag([(0, 1), (0, 2), (1, 3), (2, 3)], 4)
    cut, latencies = cut_with(model, [1.0, 5.0, 2.0, 1.5])
    assert Sequential().compose(cut, latencies).value == pytest.approx(9.5)
    assert Parallel().compose(cut, latencies).value == pytest.approx(7.5)


def test_draws_of_models_belong_together_and_leave_out_the_error_of_composing():
    first, second = dag([(0, 1)], 2), dag([], 1)
    costs = Measured(tuple(1 + 0.1 * i for i in range(9)), PROTOCOL)
    latencies = {
        o.signature: costs
        for model in (first, second)
        for o in BrickSet.of([model]).models[0].occurrences
    }
    one, other = (
        Segmented().compose(BrickSet.of([model]).models[0], latencies) for model in (first, second)
    )
    assert one.draws == pytest.approx(2 * other.draws)
    assert one.scatter == interval(one.draws)
    assert one.composing_error == Segmented.composing_error > 0
    low, high = interval(one.draws)
    assert one.interval[0] < low < high < one.interval[1]


def test_repeated_bricks_count_as_often_as_they_occur(builder):
    b = builder()
    x = b.input
    for _ in range(4):
        x = b.relu(x)
    cut = BrickSet.of([b.model()]).models[0]
    (signature,) = cut.counts
    assert Sequential().compose(cut, {signature: exact(2.0)}).value == pytest.approx(8.0)


def test_the_cost_of_a_call_is_taken_off_every_brick_and_added_once():
    model = dag([(0, 1), (1, 2)], 3)
    cut, latencies = cut_with(model, [1.0, 2.0, 3.0], overhead=0.5)
    assert Sequential().compose(cut, latencies).value == pytest.approx(6.0 - 3 * 0.5 + 0.5)


def test_a_brick_never_costs_less_than_nothing():
    model = dag([(0, 1)], 2)
    cut, latencies = cut_with(model, [0.1, 2.0], overhead=0.5)
    assert Sequential().compose(cut, latencies).value == pytest.approx(0.0 + 1.5 + 0.5)


@pytest.mark.parametrize("composer", [Sequential(), Parallel()], ids=["sequential", "parallel"])
def test_a_missing_brick_makes_the_estimate_partial(composer):
    model = dag([(0, 1), (1, 2)], 3)
    cut, latencies = cut_with(model, [1.0, None, 3.0])
    estimate = composer.compose(cut, latencies)
    assert estimate.partial
    assert estimate.missing == (cut.occurrences[1].signature,)
    assert estimate.value == pytest.approx(4.0)


@pytest.mark.parametrize("composer", [Sequential(), Parallel()], ids=["sequential", "parallel"])
def test_without_measurements_there_is_no_estimate(composer):
    cut, latencies = cut_with(dag([(0, 1)], 2), [None, None])
    estimate = composer.compose(cut, latencies)
    assert estimate.value is None
    assert estimate.interval is None
    assert len(estimate.missing) == 2


def test_the_interval_holds_the_estimate_and_widens_with_scatter():
    model = dag([(0, 1)], 2)
    cut = BrickSet.of([model]).models[0]
    rng = np.random.default_rng(0)
    widths = []
    for scatter in (0.001, 0.1):
        latencies = {
            o.signature: Measured(tuple(1 + scatter * rng.random(30)), PROTOCOL)
            for o in cut.occurrences
        }
        estimate = Sequential().compose(cut, latencies)
        low, high = estimate.interval
        assert low <= estimate.value <= high
        widths.append(high - low)
    assert widths[1] > 20 * widths[0]


def test_drift_that_all_bricks_share_is_not_averaged_away():
    model = dag([(i, i + 1) for i in range(19)], 20)
    cut = BrickSet.of([model]).models[0]
    drift = 1 + 0.2 * np.random.default_rng(1).random(30)
    shared = {o.signature: Measured(tuple(drift), PROTOCOL) for o in cut.occurrences}
    low, high = Sequential().compose(cut, shared).interval
    single = Measured(tuple(drift), PROTOCOL).replicates
    assert high - low == pytest.approx(20 * np.subtract(*np.percentile(single, (95, 5))))


@st.composite
def weighted_dags(draw):
    count = draw(st.integers(1, 9))
    pairs = list(itertools.combinations(range(count), 2))
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    costs = draw(st.lists(st.floats(0.01, 10), min_size=count, max_size=count))
    return dag(edges, count), edges, costs


@pytest.mark.long
@given(weighted_dags())
@settings(max_examples=200)
def test_the_critical_path_is_the_most_expensive_of_all_paths(case):
    model, edges, costs = case
    cut, latencies = cut_with(model, costs)
    parallel = Parallel().compose(cut, latencies).value

    def longest_from(i):
        return costs[i] + max((longest_from(b) for a, b in set(edges) if a == i), default=0)

    assert parallel == pytest.approx(max(longest_from(i) for i in range(len(costs))))
    sequential = Sequential().compose(cut, latencies).value
    assert parallel <= sequential + 1e-9


def test_bricks_of_several_layers_depend_on_those_before_them(residual):
    (cut,) = BrickSet.of([residual()], 3).models
    assert dependencies(cut) == [set(), {0}]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (lambda costs: 3.0, r"has the shape \(\) instead of \(1,\)"),
        (lambda costs: np.array([3.0]), r"has the shape \(1,\) instead of \(1000,\)"),
        (lambda costs: -costs, "is negative or not finite"),
        (lambda costs: costs * np.nan, "is negative or not finite"),
    ],
)
def test_totals_that_are_no_latencies_are_an_error_that_names_the_composer(found, told):
    class Mistaken(Sequential):
        name = "mistaken"

        def total(self, cut, costs):
            return found(super().total(cut, costs))

    with pytest.raises(PluginError, match=rf"composer 'mistaken': the result of total\(\) {told}"):
        Mistaken().compose(*cut_with(dag([(0, 1)], 2), [1.0, 2.0]))
