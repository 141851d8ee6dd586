"""Repetition and similarity, against direct computations."""

import pytest
from dlbricks_study.repetition import Similarity, analyze, jaccard

from dlbricks_core.bricks import BrickSet, signature
from dlbricks_core.importers.light import LightModels
from dlbricks_core.passes import normalize


@pytest.fixture(scope="module")
def real():
    return [normalize(LightModels().load(name)) for name in ("resnet50", "vgg19", "squeezenet")]


def signatures(model):
    return [signature(model, (i,)) for i in range(len(model.layers))]


def test_repetition_of_two_small_models_is_known(builder):
    a = builder()
    a.relu(a.conv(a.relu(a.conv(a.input))))
    b = builder(prefix="other_")
    b.add("Sigmoid", b.relu(b.conv(b.conv(b.input, kernel=1))))
    first, second = a.model(name="first"), b.model(name="second")
    analysis = analyze([first, second])
    # conv 3x3, relu | conv 1x1, conv 3x3, relu, sigmoid
    assert analysis.similarity.names == ("first", "second")
    assert analysis.similarity.matrix == ((1.0, 2 / 4), (2 / 4, 1.0))
    (pair,) = analysis.similarity.pairs
    assert (pair.first, pair.second, pair.similarity) == ("first", "second", 0.5)
    alone = analysis.models[0].repetition
    assert (alone.total.layers, alone.total.unique, alone.total.repeated) == (4, 2, 2)
    assert alone.repeated_shares == {"Conv": 0.5, "Relu": 0.5}
    total = analysis.repetition.total
    assert (total.layers, total.unique, total.unique_share) == (8, 4, 0.5)
    assert {n: (c.layers, c.unique) for n, c in analysis.repetition.types.items()} == {
        "Conv": (4, 2),
        "Relu": (3, 1),
        "Sigmoid": (1, 1),
    }


def test_similarity_of_real_networks_equals_a_direct_computation(real):
    matrix = Similarity.of(BrickSet.of(real).models).matrix
    for i, first in enumerate(real):
        for j, second in enumerate(real):
            a, b = set(signatures(first)), set(signatures(second))
            shared = sum(s in b for s in a)
            assert matrix[i][j] == pytest.approx(shared / (len(a) + len(b) - shared))
    assert 0 < matrix[0][1] < 1


def test_similarity_does_not_depend_on_granularity(real):
    one, three = (Similarity.of(BrickSet.of(real, g).models) for g in (1, 3))
    assert one == three


def test_repetition_of_real_networks_adds_up(real):
    analysis = analyze(real)
    every = [s for model in real for s in signatures(model)]
    total = analysis.repetition.total
    assert (total.layers, total.unique) == (len(every), len(set(every)))
    for each in (analysis.repetition, *(m.repetition for m in analysis.models)):
        assert sum(c.layers for c in each.types.values()) == each.total.layers
        assert sum(c.unique for c in each.types.values()) == each.total.unique
        assert sum(each.repeated_shares.values()) == pytest.approx(1)
    resnet, model = analysis.models[0].repetition, real[0]
    convolutions = [
        s for s, each in zip(signatures(model), model.layers, strict=True) if each.op == "Conv"
    ]
    found = resnet.types["Conv"]
    assert found.repeated == len(convolutions) - len(set(convolutions)) > 20
    counts = [c.repeated for c in resnet.types.values()]
    assert counts == sorted(counts, reverse=True)


def test_a_model_without_layers_has_no_repetition(builder):
    b = builder()
    analysis = analyze([b.model(b.input)])
    assert analysis.repetition.total.unique_share is None
    assert analysis.repetition.repeated_shares == {}
    assert analysis.similarity.matrix == ((1.0,),)


def test_jaccard_similarity_lies_between_its_bounds():
    assert jaccard(set("ab"), set("cd")) == 0
    assert jaccard(set("abc"), set("bcd")) == 0.5
    assert jaccard(set(), set()) == 1
