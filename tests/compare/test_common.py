"""Parts that several graphs of one model have in common."""

from dataclasses import replace
from itertools import chain

from dlbricks_compare.common import common_parts
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.bricks import BrickSet, in_layout
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec


def network(text, outputs="y"):
    """Layers such as ``Relu x > a``, separated by commas."""
    layers = []
    for line in text.split(", "):
        op, *inputs = line.split(" > ")[0].split()
        layers.append(Layer(op, tuple(inputs), tuple(line.split(" > ")[1].split())))
    names = ["x", *chain.from_iterable(layer.outputs for layer in layers)]
    specs = dict.fromkeys(names, TensorSpec("float32", (3,)))
    return CanonicalModel("built", tuple(layers), ("x",), tuple(outputs.split()), specs)


def cut(model, *graphs, granularity=1):
    """The model cut in each graph; in itself where that is None."""
    return [
        BrickSet.of([model], granularity, rewritten={0: graph} if graph else {}).models[0]
        for graph in graphs
    ]


def parts(model, *graphs, granularity=1):
    """Operators of the model, and how many bricks of each graph there are for them."""
    return [
        ([model.layers[i].op for i in part.layers], *map(len, part.occurrences))
        for part in common_parts(cut(model, *graphs, granularity=granularity))
    ]


MODEL = network("Conv x > a, Relu a > b, Conv b > c, Add c b > d, Tanh d > y")


def test_each_brick_of_one_graph_is_a_part():
    assert parts(MODEL, None) == [
        (["Conv"], 1), (["Relu"], 1), (["Conv"], 1), (["Add"], 1), (["Tanh"], 1),
    ]  # fmt: skip


def test_a_part_may_be_one_fused_layer_in_one_graph_and_several_in_another():
    fused = network("ConvRelu x > b, ConvAdd b > d, Tanh d > y")
    assert parts(MODEL, None, fused) == [
        (["Conv", "Relu"], 2, 1), (["Conv", "Add"], 2, 1), (["Tanh"], 1, 1),
    ]  # fmt: skip


def test_graphs_are_cut_only_where_both_hand_on_the_same_tensors():
    # Both hand c on, but only one of them hands on b as well.
    other = network("Conv x > a, Relu a > b, Conv b > c, AddWhatWasKept c > d, Tanh d > y")
    assert (["Conv", "Add"], 2, 2) in parts(MODEL, None, other)


def test_a_tensor_in_another_layout_is_the_same_tensor():
    b = in_layout("b", "blocks")
    other = network(f"ConvRelu x > {b}, ConvAdd {b} > d, Tanh d > y")
    assert parts(MODEL, None, other)[0] == (["Conv", "Relu"], 2, 1)
    converted = network(f"ConvRelu x > b, Blocks b > {b}, ConvAdd {b} > d, Tanh d > y")
    assert parts(MODEL, None, converted)[0] == (["Conv", "Relu"], 2, 2)


def test_graphs_are_not_cut_at_tensors_that_the_model_lacks():
    unknown = network("ConvRelu x > q7, ConvAdd q7 > d, Tanh d > y")
    assert parts(MODEL, None, unknown) == [
        (["Conv", "Relu", "Conv", "Add"], 4, 2), (["Tanh"], 1, 1),
    ]  # fmt: skip
    assert parts(MODEL, None, network("All x > y")) == [([each.op for each in MODEL.layers], 5, 1)]


def test_outputs_of_the_model_are_handed_on_to_the_end():
    model = replace(MODEL, outputs=("b", "y"))
    # The first graph computes the output b early, the second one last.
    late = network("Conv x > a, Relu a > b2, Conv b2 > c, Add c b2 > d, Tanh d > y, Relu a > b",
                   "b y")  # fmt: skip
    assert parts(model, None, late)[-1][1:] != (1, 1)


OPS = st.sampled_from(["Relu", "Tanh", "Add"])


@st.composite
def networks(draw):
    layers = []
    for i in range(draw(st.integers(1, 8))):
        read = draw(st.lists(st.integers(0, i), min_size=1, max_size=2, unique=True))
        layers.append(f"{draw(OPS)} {' '.join(f't{r}' for r in read)} > t{i + 1}")
    text = ", ".join(layers).replace("t0 ", "x ")
    return network(text, f"t{len(layers)}")


@given(networks(), st.integers(1, 4), st.integers(1, 4))
def test_parts_cover_every_brick_once(model, one, other):
    cuts = [*cut(model, None, granularity=one), *cut(model, None, granularity=other)]
    found = common_parts(cuts)
    for position, each in enumerate(cuts):
        covered = chain.from_iterable(part.occurrences[position] for part in found)
        assert tuple(covered) == each.occurrences
    layers = [index for part in found for index in part.layers]
    assert len(layers) == len(set(layers))
