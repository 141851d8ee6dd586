"""Names of bricks are short, say on what sizes a brick works, and are never the same."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.bricks import BrickSet
from dlbricks_core.bricks.naming import LENGTH, brick_name, fold, names, sequence_names
from dlbricks_core.importers.light import LightModels
from dlbricks_core.passes import normalize


def bricks_of(name, granularity=1, strategy="chain"):
    found = BrickSet.of([normalize(LightModels().load(name))], granularity, strategy)
    return {signature: brick.model for signature, brick in found.bricks.items()}


def test_layers_are_named_with_window_and_sizes():
    found = set(names(bricks_of("squeezenet")).values())
    assert {
        "Conv 3×3 s2 3→64 @224×224",
        "Relu @64×111×111",
        "MaxPool 3×3 s2 @64×111×111",
        "Concat @64×55×55 → 128×55×55",
        "Softmax @1000×1×1",
    } <= found


def test_names_show_groups_and_products():
    found = set(names(bricks_of("shufflenet")).values())
    assert {"Conv 3×3 s2 112→112 g112 @56×56", "BatchNorm @24×112×112"} <= found
    assert "Gemm 2048→1000" in names(bricks_of("resnet50")).values()


@pytest.mark.parametrize("name", ["squeezenet", "densenet121", "inception_v1"])
@pytest.mark.parametrize(
    ("granularity", "strategy"), [(1, "chain"), (3, "chain"), (128, "segments")]
)
@pytest.mark.parametrize("length", [24, 34, LENGTH])
def test_names_are_short_and_unique(name, granularity, strategy, length):
    bricks = bricks_of(name, granularity, strategy)
    found = names(bricks, length)
    assert len(set(found.values())) == len(bricks)
    assert max(map(len, found.values())) <= length


def test_names_show_what_distinguishes_two_bricks():
    bricks = bricks_of("squeezenet")
    conv = next(model for model in bricks.values() if model.layers[0].op == "Conv")
    (layer,) = conv.layers
    other = replace(layer, attributes={**layer.attributes, "pads": (1, 1, 1, 1)})
    found = names({"aaaa1": conv, "aaaa2": replace(conv, layers=(other,))})
    assert found == {
        "aaaa1": "Conv 3×3 s2 3→64 @224×224 pads 0",
        "aaaa2": "Conv 3×3 s2 3→64 @224×224 pads 1",
    }
    # Where nothing that is short tells them apart, signatures do: no more digits than needed.
    found = names({"aaaa1": conv, "aaaa2": conv})
    assert set(found.values()) == {
        "Conv 3×3 s2 3→64 @224×224 #aaaa1",
        "Conv 3×3 s2 3→64 @224×224 #aaaa2",
    }


def test_names_of_long_bricks_show_their_beginning_and_number_of_layers():
    found = [brick_name(model) for model in bricks_of("densenet121", 128, "segments").values()]
    assert "BatchNorm @128×28×28, Mul, Add, Relu, Conv 1×1 … (22 layers)" in found


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("a", "a"),
        ("aa", "a ×2"),
        ("abab", "(a, b) ×2"),
        ("abcabcabcd", "(a, b, c) ×3, d"),
        ("xaabaab", "x, (a ×2, b) ×2"),
        ("abcd", "a, b, c, d"),
    ],
)
def test_repeated_operators_are_folded(words, text):
    assert fold(list(words)) == text


def test_folded_names_of_many_repeats_are_short():
    words = ["Slice", "Cast", "Gather"] * 26 + ["Concat"] + [f"Op{i}" for i in range(200)]
    text = fold(words)
    assert text.startswith("(Slice, Cast, Gather) ×26, Concat, ")
    assert text.endswith(" … (279 layers)")
    assert len(text) <= LENGTH


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=60))
def test_folding_loses_nothing(words):
    assert unfolded(fold(words, 10_000)) == words


def unfolded(text):
    """The words that a folded text stands for."""

    def read(position):
        found = []
        while position < len(text) and text[position] != ")":
            if text[position] == "(":
                part, position = read(position + 1)
                position += 1
            else:
                part, position = [text[position]], position + 1
            if text.startswith(" ×", position):
                end = position + 2
                while end < len(text) and text[end].isdigit():
                    end += 1
                part, position = part * int(text[position + 2 : end]), end
            found += part
            position += 2 if text.startswith(", ", position) else 0
        return found, position

    return read(0)[0]


@given(st.sets(st.lists(st.sampled_from(["Conv", "some.domain.Conv", "Relu"]), min_size=1,
                        max_size=40).map(tuple), max_size=20))  # fmt: skip
def test_sequences_are_named_too(sequences):
    found = sequence_names(sequences, 20)
    assert len(set(found.values())) == len(sequences)
    assert all(len(name) <= 20 for name in found.values())
