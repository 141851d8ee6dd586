import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlbricks_core.bricks import BrickSet, split
from dlbricks_core.bricks.signature import live_outputs, outer_inputs
from dlbricks_core.bricks.split import segments
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.passes import normalize

MAP = TensorSpec("float32", (1, 64, 112, 112))
SMALL = TensorSpec("float32", (1, 64, 56, 56))
WEIGHT = TensorSpec("float32", (64, 64, 3, 3))


def residual_units(count, opaque=()):
    """A convolution, then units of two convolutions and a sum with what the unit reads."""
    tensors, weights, layers = {"x": MAP}, set(), []

    def add(op, *inputs, weight=False):
        result = f"t{len(layers)}"
        if weight:
            name = f"w{len(layers)}"
            tensors[name] = WEIGHT
            weights.add(name)
            inputs = (*inputs, name)
        why = "looped" if len(layers) in opaque else ""
        layers.append(Layer(op, inputs, (result,), opaque=why))
        tensors[result] = MAP
        return result

    x = add("Relu", add("Conv", "x", weight=True))
    for _ in range(count):
        inner = add("Relu", add("Conv", x, weight=True))
        x = add("Relu", add("Add", add("Conv", inner, weight=True), x))
    return CanonicalModel("units", tuple(layers), ("x",), (x,), tensors, frozenset(weights))


def test_residual_units_are_segments_and_repeat_as_a_whole():
    model = residual_units(3)
    found = split(model, 128, "segments")
    assert [len(each) for each in found] == [2, 5, 5, 5]
    cut = BrickSet.of([model], 128, "segments").models[0]
    assert sorted(cut.counts.values()) == [1, 3]


def test_layers_stay_with_the_weights_before_them():
    for sequence in split(residual_units(2), 128, "segments"):
        assert sequence[0] in (0, 2, 7)


def test_small_segments_are_joined():
    assert [len(each) for each in segments(residual_units(3), 128, min_bytes=10**9)] == [17]
    assert max(len(each) for each in segments(residual_units(3), 8, min_bytes=10**9)) <= 8


def chain_of_convolutions(count, others):
    """Convolutions on small maps, 1.75 MB each, and so many other layers after each."""
    tensors, weights, layers = {"t0": SMALL}, set(), []
    for i in range(count):
        tensors[f"w{i}"] = WEIGHT
        weights.add(f"w{i}")
        for op in ["Conv"] + ["Relu"] * others:
            read = (f"t{len(layers)}", f"w{i}")[: 2 if op == "Conv" else 1]
            layers.append(Layer(op, read, (f"t{len(layers) + 1}",)))
            tensors[f"t{len(layers)}"] = SMALL
    return CanonicalModel(
        "chain", tuple(layers), ("t0",), (f"t{len(layers)}",), tensors, frozenset(weights)
    )


def test_short_segments_are_joined_to_a_smaller_size():
    model = chain_of_convolutions(4, others=1)
    assert [len(each) for each in split(model, 128, "short-segments")] == [2, 2, 2, 2]
    assert [len(each) for each in split(model, 128, "segments")] == [4, 4]


@pytest.mark.parametrize("others", [0, 1, 3])
def test_only_layers_with_weights_count_towards_the_size(others):
    found = split(chain_of_convolutions(4, others), 128, "segments")
    assert [len(each) for each in found] == [2 * (1 + others)] * 2


def test_opaque_layers_stand_alone():
    assert (3,) in split(residual_units(1, opaque={3}), 128, "segments")


def test_long_skips_do_not_hold_a_model_together():
    model = residual_units(8)
    *layers, last = model.layers
    skipped = Layer("Add", (layers[1].outputs[0], last.inputs[0]), last.outputs)
    model = CanonicalModel(
        "skip", (*layers, skipped), ("x",), model.outputs, model.tensors, model.weights
    )
    found = split(model, 12, "segments")
    assert len(found) > 4
    assert len(outer_inputs(model, found[-1])) == 2


@pytest.mark.parametrize("name", LightModels().names())
@pytest.mark.parametrize("granularity", [1, 7, 128])
def test_real_networks_are_covered_and_hand_on_little(name, granularity):
    model = normalize(LightModels().load(name))
    found = split(model, granularity, "segments")  # raises unless every layer is in exactly one
    assert found == split(model, granularity, "segments")
    if granularity == 128:
        assert all(len(live_outputs(model, each)) == 1 for each in found)


@pytest.mark.long
@given(st.data(), st.integers(1, 12))
@settings(max_examples=60)
def test_random_graphs_are_covered_exactly_once(data, granularity):
    spec = TensorSpec("float32", (2, 3))
    names, layers = ["in"], []
    for i in range(data.draw(st.integers(1, 24))):
        inputs = data.draw(st.lists(st.sampled_from(names[-4:]), min_size=1, max_size=3))
        layers.append(Layer("Sum", tuple(inputs), (f"t{i}",)))
        names.append(f"t{i}")
    model = CanonicalModel(
        "random", tuple(layers), ("in",), (names[-1],), dict.fromkeys(names, spec)
    )
    found = split(model, granularity, "segments")
    assert [i for each in found for i in each] == list(range(len(layers)))
    assert all(len(each) <= granularity for each in found)
