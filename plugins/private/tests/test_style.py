"""Decoys take on what shows in most of a model's own sequences."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from dlbricks_prediction.survey.families import Draft, convolve
from dlbricks_private.cutting import Cutting
from dlbricks_private.decoys import decoy_networks, pieces
from dlbricks_private.style import Style, join_of

from dlbricks_core.bricks import BrickSet
from dlbricks_core.ir import Layer
from dlbricks_core.passes.shapes import infer

RANDOM = 0


def network(widths, activation, *, normalized=False, name="network"):
    """Convolutions with activations; normalized, and in two branches, if that is asked for."""
    draft = Draft()
    x = draft.input(1, widths[0], 16, 16)
    for read, written in itertools.pairwise(widths):
        x = convolve(draft, x, (read, written), (3, 3))
        x = draft.add(activation, x)
    model = draft.model(name)
    if normalized:
        model = with_normalization(model)
    return model


def with_normalization(model):
    """The model with a BatchNormalization before its last activation."""
    *others, last = model.layers
    read = last.inputs[0]
    names = [f"bn{i}" for i in range(4)]
    spec = model.tensors[read]
    weight = replace(spec, shape=(spec.sizes[1],))
    layer = Layer("BatchNormalization", (read, *names), ("normal",), {"epsilon": 1e-5})
    return replace(
        model,
        layers=(*others, layer, replace(last, inputs=("normal",))),
        tensors={**model.tensors, **dict.fromkeys(names, weight), "normal": spec},
        weights=model.weights | set(names),
    )


def style_of(model):
    return Style.of(model, [range(len(model.layers))])


@pytest.fixture
def random():
    return np.random.default_rng(RANDOM)


def assert_sound(model):
    tensors = dict(model.tensors)
    for layer in model.layers:
        for name, inferred in infer(layer, tensors, model.constants).items():
            assert tensors[name] == inferred


def test_activations_become_those_of_the_model(random):
    piece = network((8, 16, 16), "Sigmoid")
    worn = style_of(network((8, 8), "Tanh")).worn_by(piece, random)
    assert [layer.op for layer in worn.layers] == ["Conv", "Tanh", "Conv", "Tanh"]
    assert_sound(worn)


def test_activations_that_the_model_has_stay(random):
    piece = network((8, 16), "Tanh")
    assert style_of(network((8, 8), "Tanh")).worn_by(piece, random).layers == piece.layers


def test_normalizations_that_the_model_lacks_are_left_out(random):
    piece = network((8, 16), "Relu", normalized=True)
    plain, normalized = (
        style_of(network((8, 8), "Relu", normalized=each)).worn_by(piece, random)
        for each in (False, True)
    )
    assert [layer.op for layer in plain.layers] == ["Conv", "Relu"]
    assert normalized.layers == piece.layers
    assert_sound(plain)
    assert len(plain.weights) == len(piece.weights) - 4


def test_a_weight_that_is_added_joins_no_branches():
    draft = Draft()
    x = draft.input(1, 8, 16, 16)
    joined = draft.add("Add", draft.add("Relu", x), draft.add("Tanh", x))
    model = draft.model("joined")
    assert joined
    assert join_of(model, range(3)).op == "Add"
    assert join_of(model, range(2)) is None


def test_decoys_join_branches_where_the_model_does():
    draft = Draft()
    x = draft.input(1, 64, 16, 16)
    for _ in range(3):
        branches = [
            draft.add("Relu", convolve(draft, x, (64, 64), (size, size))) for size in (1, 3)
        ]
        x = draft.add("Add", *branches)
    branching = draft.model("branching")
    donors = pieces(
        [network((16, 32, 32, 32), each, name=each) for each in ("Sigmoid", "Tanh")], 2, "chain"
    )
    counts = {}
    for model in (branching, network((64, 64, 64), "Relu")):
        cut = BrickSet(128, "short-segments").add(model)
        cutting = Cutting.of((), "chain", 2)
        networks = decoy_networks(cut, donors, 4, cutting, np.random.default_rng(RANDOM))
        counts[model.name] = sum(layer.op == "Add" for each in networks for layer in each.layers)
    assert counts["branching"] > 0
    assert counts["network"] == 0
