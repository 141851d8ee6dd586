from __future__ import annotations

import numpy as np
import pytest
from dlbricks_prediction.survey import draw
from dlbricks_prediction.survey.families import Draft, convolve
from dlbricks_private.transplant import transplant
from hypothesis import given, settings
from hypothesis import strategies as st

from dlbricks_core.ir import TensorSpec
from dlbricks_core.passes.shapes import infer

DRAWN = [each.brick.model for each, _ in zip(draw(3), range(60), strict=False)]


def spec(*sizes):
    return TensorSpec("float32", sizes)


def random(seed=0):
    return np.random.default_rng(seed)


def bottleneck(read=16, inside=8, written=16, side=10):
    draft = Draft()
    x = draft.input(1, read, side, side)
    y = draft.add("Relu", convolve(draft, x, (read, inside), (1, 1)))
    convolve(draft, y, (inside, written), (3, 3))
    return draft.model("bottleneck")


def test_ends_are_the_wanted_ones_and_windows_stay():
    found = transplant(bottleneck(), spec(1, 64, 28, 28), spec(1, 64, 28, 28), random())
    assert found.tensors[found.inputs[0]] == spec(1, 64, 28, 28)
    assert found.tensors[found.outputs[0]] == spec(1, 64, 28, 28)
    windows = [each.attributes["kernel_shape"] for each in found.layers if each.op == "Conv"]
    assert windows == [(1, 1), (3, 3)]


def test_widths_inside_are_not_always_the_same():
    wanted = spec(1, 64, 28, 28)
    found = [transplant(bottleneck(), wanted, wanted, random(seed)) for seed in range(30)]
    inside = {each.tensors[each.layers[0].inputs[1]].sizes[0] for each in found}
    assert len(inside) > 2
    assert all(width % 8 == 0 for width in inside)


@pytest.mark.parametrize(
    ("read", "written"),
    [
        (spec(1, 64, 28, 28), spec(1, 64, 14, 14)),  # it has no stride
        (spec(1, 64, 28, 28), spec(1, 32, 28, 28)),  # equal widths cannot become different ones
        (spec(1, 64), spec(1, 64)),
        (TensorSpec("float16", (1, 64, 28, 28)), TensorSpec("float16", (1, 64, 28, 28))),
    ],
)
def test_what_cannot_fit_is_left_out(read, written):
    assert transplant(bottleneck(), read, written, random()) is None


def test_nothing_changes_where_the_ends_are_the_same_already():
    model = bottleneck()
    ends = spec(1, 16, 10, 10)
    assert transplant(model, ends, ends, random()) is model


@settings(max_examples=60)
@given(
    st.sampled_from(DRAWN),
    st.sampled_from((8, 24, 64, 96)),
    st.sampled_from((8, 24, 64, 96)),
    st.sampled_from((7, 14, 28)),
)
def test_a_resized_sequence_is_a_valid_model_of_the_same_operators(model, read, written, side):
    by_rank = {2: (1,), 3: (1, side), 4: (1, side, side)}
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        return
    ranks = [len(model.tensors[n].sizes) for n in (model.inputs[0], model.outputs[0])]
    if not set(ranks) <= {2, 4}:
        return
    ends = [
        spec(1, width, *by_rank[rank][1:])
        for width, rank in zip((read, written), ranks, strict=True)
    ]
    found = transplant(model, *ends, random())
    if found is None:
        return
    assert [each.qualified_op for each in found.layers] == [
        each.qualified_op for each in model.layers
    ]
    assert found.weights == model.weights
    tensors = dict(found.tensors)
    for layer in found.layers:
        for name, inferred in infer(layer, tensors, found.constants).items():
            assert tensors[name] == inferred
