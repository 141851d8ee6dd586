from __future__ import annotations

import itertools
import os
from collections import Counter

import numpy as np
import pytest
from dlbricks_prediction.survey.families import Draft, convolve
from dlbricks_private.chains import all_ends
from dlbricks_private.cutting import Cutting
from dlbricks_private.decoys import boundaries, cut_at, decoy_networks, pieces
from dlbricks_private.fitting import drawn_tree
from dlbricks_private.key import Key, read_key
from dlbricks_private.published import skeleton
from dlbricks_private.suites import hide

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.passes.shapes import infer
from dlbricks_core.progress import Observer


def network(widths, size=3, activation="Relu", name="network", side=20):
    """Convolutions, each with an activation; every one is a segment of its own."""
    draft = Draft()
    x = draft.input(1, widths[0], side, side)
    for read, written in itertools.pairwise(widths):
        x = draft.add(activation, convolve(draft, x, (read, written), (size, size)))
    return draft.model(name)


OWN = network((8, 64, 64, 128), name="own")
OTHERS = [
    network((16, 32, 32, 48), 5, "Sigmoid", "first"),
    network((16, 32, 32, 48), 1, "Tanh", "second"),
    network((16, 32, 48), 7, "LeakyRelu", "third"),
]
CHAINS = Cutting.of((), "chain", 2)


def rare():
    """A network whose first segment shrinks maps by a factor that no donor has."""
    draft = Draft()
    x = draft.add("Relu", convolve(draft, draft.input(1, 3, 77, 77), (3, 32), (11, 11), stride=7))
    draft.add("Relu", convolve(draft, x, (32, 64)))
    return draft.model("rare")


def several():
    """A network in which two different segments have the same ends."""
    draft = Draft()
    x = draft.add("Relu", convolve(draft, draft.input(1, 32, 20, 20), (32, 32), (3, 3)))
    draft.add("Relu", convolve(draft, x, (32, 32), (5, 5)))
    return draft.model("several")


def cut(model=OWN):
    bricks = BrickSet(2, "chain")
    return bricks, bricks.add(model)


def decoys(number, seed=0):
    _, own = cut()
    return decoy_networks(
        own, pieces(OTHERS, 2, "chain"), number, CHAINS, np.random.default_rng(seed)
    )


def test_decoy_networks_are_valid_and_have_the_model_s_ends():
    for model in decoys(3):
        assert model.inputs == OWN.inputs
        assert model.outputs == OWN.outputs
        tensors = dict(model.tensors)
        for layer in model.layers:
            for name, inferred in infer(layer, tensors, model.constants).items():
                assert tensors[name] == inferred


def test_each_place_has_as_many_different_bricks_as_asked_for():
    true, own = cut()
    names = boundaries(own)
    for model in decoys(3):
        true.add(model, sequences=cut_at(model, names))
    ends = [
        tuple(str(each.model.tensors[n]) for n in (each.model.inputs[0], each.model.outputs[0]))
        for each in true.bricks.values()
    ]
    assert all(ends.count(each) >= 4 for each in ends)


@pytest.mark.parametrize("model", [OWN, rare(), several()], ids=lambda each: each.name)
def test_ends_tell_nothing_because_each_has_the_same_share_of_decoys(model):
    options = CutOptions(2, "chain", "segmented")
    found = hide([model], options, None, OTHERS, 5, np.random.default_rng(0), Observer())
    true, false = (
        Counter(map(all_ends, each.values())) for each in (found.brickset.bricks, found.decoys)
    )
    assert false == {ends: 5 * number for ends, number in true.items()}


def test_a_decoy_is_none_of_the_model_s_own_bricks_where_a_donor_has_them_too():
    _, own = cut()
    names = boundaries(own)
    donors = pieces([OWN, *OTHERS], 2, "chain")
    for seed in range(5):
        for model in decoy_networks(own, donors, 4, CHAINS, np.random.default_rng(seed)):
            found = BrickSet(9, "chain").add(model, sequences=cut_at(model, names))
            assert own.counts.keys().isdisjoint(found.counts)


def test_no_segment_has_more_decoys_where_another_can_have_none():
    draft = Draft()
    x = draft.add("Relu", draft.add("Add", *(draft.input(1, 32, 20, 20) for _ in range(2))))
    draft.add("Relu", convolve(draft, x, (32, 64)))
    options = CutOptions(2, "chain", "segmented")
    hidden = hide([draft.model("two inputs")], options, None, OTHERS, 5,
                  np.random.default_rng(0), Observer())  # fmt: skip
    assert len(hidden.brickset.bricks) == 2
    assert list(Counter(map(all_ends, hidden.decoys.values())).values()) == [5]


def test_decoys_for_a_rare_segment_keep_a_part_of_it_and_are_sound():
    _, own = cut(rare())
    found = decoy_networks(own, pieces(OTHERS, 2, "chain"), 6, CHAINS, np.random.default_rng(0))
    names = boundaries(own)
    firsts = {BrickSet(9, "chain").add(each, sequences=cut_at(each, names)).occurrences[0].signature
              for each in found}  # fmt: skip
    assert len(firsts - own.counts.keys()) > 1
    for model in found:
        tensors = dict(model.tensors)
        for layer in model.layers:
            for name, inferred in infer(layer, tensors, model.constants).items():
                assert tensors[name] == inferred
        first = next(layer for layer in model.layers if layer.op == "Conv")
        assert first.attributes["strides"] == (7, 7)


def test_a_segment_is_anywhere_in_the_tree_of_its_variants():
    random = np.random.default_rng(0)
    trees = [drawn_tree(9, random) for _ in range(400)]
    beside = Counter(node for tree in trees for edge in tree for node in edge)
    assert all({child for _, child in tree} == set(range(1, 9)) for tree in trees)
    assert all(mean == pytest.approx(2 * 8 / 9, rel=0.12)
               for mean in (beside[node] / len(trees) for node in (0, 4, 8)))  # fmt: skip


def test_a_cut_at_a_model_s_own_boundaries_is_the_same_cut():
    _, own = cut()
    assert tuple(cut_at(OWN, boundaries(own))) == tuple(each.layers for each in own.occurrences)


def test_where_nobody_has_a_sequence_of_that_form_decoys_are_of_new_forms_too():
    forms = {skeleton(each.model) for each in pieces(OTHERS, 2, "chain")}
    found = BrickSet(6, "chain")
    longer = network((8, 64, 64, 128), name="longer")
    whole = BrickSet(6, "chain").add(longer)
    for model in decoy_networks(
        whole, pieces(OTHERS, 2, "chain"), 3, CHAINS, np.random.default_rng(0)
    ):
        found.add(model, sequences=[tuple(range(len(model.layers)))])
    assert found.bricks
    assert not forms & {skeleton(each.model) for each in found.bricks.values()}


def test_what_is_drawn_differs_from_seed_to_seed():
    def identities(seed):
        return set(BrickSet.of(decoys(2, seed), 2).bricks)

    assert identities(0) == identities(0)
    assert identities(0) != identities(1)


def test_nothing_of_a_model_s_names_is_in_its_decoys_bricks():
    bricks = BrickSet.of(decoys(2), 2).bricks
    names = {name for each in bricks.values() for name in each.model.tensors}
    assert all(name[0] in "xwt" and name[1:].isdigit() for name in names)


def test_a_key_that_was_written_gives_the_same_bricks(tmp_path):
    bricks, own = cut()
    path = tmp_path / "key.json"
    Key.of(bricks, "segmented", "").write(path)
    found = read_key(path).brickset()
    assert found.models[0].counts == own.counts
    assert found.models[0].model.name == "own"


def test_nobody_but_the_owner_may_read_a_key(tmp_path):
    path = tmp_path / "key.json"
    Key.of(cut()[0], "segmented", "").write(path)
    assert path.stat().st_mode & 0o077 == 0


def test_a_key_is_never_overwritten(tmp_path):
    path = tmp_path / "key.json"
    path.write_text("precious")
    with pytest.raises(DLBricksError, match="exists already"):
        Key.of(cut()[0], "segmented", "").write(path)
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-20],
        lambda text: "[]",
        lambda text: "{}",
        lambda text: text.replace('"structure": "', '"structure": "A'),
        lambda text: text.replace('"granularity": 2', '"granularity": 1'),
        lambda text: text.replace('"granularity": 2', '"granularity": Infinity'),
        lambda text: text.replace('"split": "chain"', '"split": "magic"'),
        lambda text: text.replace('"schema_version": 1', '"schema_version": 99'),
    ],
)
def test_a_damaged_key_is_refused_in_one_line(tmp_path, damage):
    path = tmp_path / "key.json"
    Key.of(cut()[0], "segmented", "").write(path)
    text = path.read_text()
    assert damage(text) != text
    path.write_text(damage(text))
    with pytest.raises(DLBricksError) as found:
        read_key(path)
    assert "\n" not in found.value.message
    assert found.value.hint


def test_a_key_is_refused_by_the_number_of_its_values(tmp_path, monkeypatch):
    monkeypatch.setenv("DLBRICKS_MOST_JSON_VALUES", "1000")
    path = tmp_path / "key.json"
    path.write_text("[" + "[]," * 30_000 + "[]]")
    with pytest.raises(DLBricksError, match="DLBRICKS_MOST_JSON_VALUES"):
        read_key(path)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_only_a_regular_file_is_read_as_a_key(tmp_path, make):
    make(tmp_path / "key")
    with pytest.raises(DLBricksError, match="not a regular file"):
        read_key(tmp_path / "key")


def test_nothing_is_left_of_a_key_that_has_no_room(tmp_path, no_room):
    path = tmp_path / "key.json"
    key = Key.of(cut()[0], "segmented", "")
    with no_room(), pytest.raises(DLBricksError, match="cannot be written"):
        key.write(path)
    key.write(path)
    assert read_key(path).backend == ""
