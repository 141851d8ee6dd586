"""Which networks are timed, and in which order."""

import pytest

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.measure.cutting import Cutting, sweeps_of


def network(name, *ops):
    names = [f"t{i}" for i in range(len(ops) + 1)]
    layers = [Layer(op, (names[i],), (names[i + 1],)) for i, op in enumerate(ops)]
    specs = dict.fromkeys(names, TensorSpec("float32", (3,)))
    return CanonicalModel(name, tuple(layers), (names[0],), (names[-1],), specs)


def timed(*models, ways=((1, "chain"),), end_to_end=True):
    cuttings = [Cutting.all_timed(CutOptions(*way), BrickSet.of(models, *way)) for way in ways]
    return [
        [(target.kind, [layer.op for layer in target.brick.model.layers]) for target in sweep]
        for sweep in sweeps_of(*cuttings, end_to_end=end_to_end)
    ]


A = network("a", "Relu", "Tanh")
B = network("b", "Neg", "Abs")
LIKE_A = network("like a", "Tanh", "Sign")
LIKE_LIKE_A = network("like that", "Sign", "Sigmoid")
ALSO_LIKE_A = network("also like a", "Relu", "Exp")
LIKE_B = network("like b", "Abs", "Neg", "Relu")


def test_a_model_comes_before_its_new_bricks():
    assert timed(A, LIKE_A) == [
        [("model", ["Relu", "Tanh"]), ("brick", ["Relu"]), ("brick", ["Tanh"])],
        [("model", ["Tanh", "Sign"]), ("brick", ["Sign"])],
    ]
    assert timed(A, LIKE_A, end_to_end=False)[1] == [("brick", ["Sign"])]
    assert timed() == []


def test_bricks_of_every_cut_are_timed_and_the_model_once():
    assert timed(A, ways=((1, "chain"), (2, "chain"))) == [
        [
            ("model", ["Relu", "Tanh"]),
            ("brick", ["Relu"]),
            ("brick", ["Tanh"]),
            ("brick", ["Relu", "Tanh"]),
        ]
    ]


@pytest.mark.parametrize(
    ("given", "order"),
    [
        ([A, B, LIKE_A], [A, LIKE_A, B]),  # not as the user gave them
        ([A, B, LIKE_B, LIKE_A], [A, LIKE_B, B, LIKE_A]),  # B shares more with the last
        ([B, LIKE_LIKE_A, A, LIKE_A], [B, LIKE_LIKE_A, LIKE_A, A]),  # nothing shared: as given
        ([A, LIKE_A, ALSO_LIKE_A, LIKE_LIKE_A], [A, LIKE_A, LIKE_LIKE_A, ALSO_LIKE_A]),
        ([A, LIKE_LIKE_A, LIKE_B, LIKE_A, B], [A, LIKE_B, B, LIKE_A, LIKE_LIKE_A]),
    ],
)
def test_models_that_share_bricks_follow_each_other(given, order):
    wholes = [sweep[0][1] for sweep in timed(*given)]
    assert wholes == [[layer.op for layer in model.layers] for model in order]
